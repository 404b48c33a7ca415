/*
 * CPUs that go and come while whole CPUs are recorded. The kernel reports both at once on a
 * socket; where there is none (in a container), the list of CPUs online is read five times a
 * second.
 */
#include "session.h"

#include <linux/netlink.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK = 200000000 /* ns */, MESSAGE_MOST = 8192 };

int native_hotplug_open(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void went(struct native_session *s, unsigned cpu, uint64_t now)
{
    struct open_ring *r = native_ring_of(&s->opened, cpu);
    if (!r || r->gone)
        return;
    r->gone = true;
    r->gone_at = now;
    s->totals.offline++;
}

/*
 * "offline@/devices/system/cpu/cpu1": the CPU may be back already. Returns whether there was a
 * message.
 */
static bool read_messages(struct native_session *s, uint64_t now)
{
    char text[MESSAGE_MOST];
    bool any = false;
    for (ssize_t n; s->uevents >= 0 && (n = recv(s->uevents, text, sizeof text - 1, 0)) > 0;) {
        unsigned cpu;
        text[n] = '\0';
        if (sscanf(text, "offline@/devices/system/cpu/cpu%u", &cpu) == 1)
            went(s, cpu, now);
        any = true;
    }
    return any;
}

static void came(struct native_session *s, unsigned cpu)
{
    struct spex_error error;
    bool back = native_ring_of(&s->opened, cpu);
    native_drain(s); /* reads what its old ring still holds */
    pthread_mutex_lock(&s->lock);
    enum spex_status status = native_open_cpu(&s->o, &s->opened, cpu, &error);
    const struct open_ring *r = status ? NULL : native_ring_of(&s->opened, cpu);
    if (r) {
        native_switch_ring(&s->opened, r, ROLE_TRACKING, true);
        native_switch_ring(&s->opened, r, ROLE_SPE, s->on);
        native_switch_ring(&s->opened, r, ROLE_STACKS, s->on);
        if (s->o.count) {
            struct native_options one = s->o;
            struct native_cpus cpus = {0};
            cpus.bits[cpu / 64] = UINT64_C(1) << cpu % 64;
            one.cpus = &cpus;
            native_counters_open(&one, NULL, 0, &s->counters);
            native_counters_enable(&s->counters);
        }
        s->totals.back += back;
        s->totals.added += !back;
        s->totals.away += back ? native_now() - r->gone_at : 0;
    } /* otherwise it is gone again: retry at the next look */
    pthread_mutex_unlock(&s->lock);
}

void native_hotplug_look(struct native_session *s)
{
    char line[1024];
    struct native_cpus online;
    const struct native_machine *m = s->o.machine;
    uint64_t now = native_now();
    bool news = read_messages(s, now);
    if (!news && now - s->looked < LOOK)
        return;
    s->looked = now;
    if (!native_line(m->root, "/sys/devices/system/cpu/online", line, sizeof line) ||
        !native_cpus_parse(line, &online))
        return;
    for (unsigned cpu = 0; cpu < m->cpu_count; cpu++) {
        const struct open_ring *r = native_ring_of(&s->opened, cpu);
        if (!native_cpus_has(&online, cpu))
            went(s, cpu, now);
        else if (r ? r->gone : !s->o.cpus || native_cpus_has(s->o.cpus, cpu))
            came(s, cpu);
    }
}
