#include "pause.h"

#include "account.h"
#include "clock.h"
#include "plugin.h"
#include "regs.h"

#include <string.h>
#include <time.h>

enum {
    EPOLL_PWAIT = 22,
    PSELECT6 = 72,
    PPOLL = 73,
    TIMERFD_SETTIME = 86,
    FUTEX = 98,
    NANOSLEEP = 101,
    TIMER_SETTIME = 110,
    CLOCK_NANOSLEEP = 115,
    RT_SIGTIMEDWAIT = 137,
    AGAIN = -11,
    TIMED_OUT = -110,
};

#define SECOND UINT64_C(1000000000)

/* Reads a time in guest memory. */
static bool read_time(uint64_t at, uint64_t *ns)
{
    int64_t t[2];
    if (!at || !plugin.user.registers || !regs_memory(at, t, sizeof t) || t[0] < 0 || t[1] < 0 ||
        (uint64_t)t[0] >= UINT64_MAX / SECOND / 2 || (uint64_t)t[1] >= SECOND)
        return false;
    *ns = (uint64_t)t[0] * SECOND + (uint64_t)t[1];
    return true;
}

static void set_for(struct vcpu *v, enum pause_kind kind, uint64_t ns)
{
    v->flow->pause = (struct pause){.kind = kind, .time = ns < FLOW_VALUE ? ns : FLOW_VALUE};
}

static void set_until(struct vcpu *v, enum pause_kind kind, uint64_t id, uint64_t ns)
{
    uint64_t when;
    if (!clock_when((int32_t)id, ns, &when))
        return;
    set_for(v, kind, when);
    v->flow->pause.until = true;
}

/*
 * A time that the host's clock must reach, for a timer or for threads of other processes: the host
 * gets a time equally far ahead on its own clock, and the guest gets its own value back after the
 * call.
 */
static void lend(struct vcpu *v, uint64_t at)
{
    struct pause *p = &v->flow->pause;
    struct timespec now;
    uint64_t ns, when;
    if (!read_time(at, &ns) || !ns)
        return;
    clockid_t id = clock_is_wall(ns) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    clock_when(id, ns, &when);
    clock_gettime(id, &now);
    ns = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    ns += when > flow_clock(v) ? when - flow_clock(v) : 0;
    const uint64_t host[2] = {ns / SECOND, ns % SECOND};
    p->lent = (void *)(uintptr_t)regs_host(at);
    memcpy(p->own, p->lent, sizeof p->own);
    memcpy(p->lent, host, sizeof host);
}

static void find_futex(struct vcpu *v)
{
    enum { WAIT = 0, WAIT_BITSET = 9, OPERATION = 127, PRIVATE = 128, REALTIME = 256 };
    const uint64_t *a = v->argument;
    uint64_t ns;
    /* another process may wake a futex that is not private */
    enum pause_kind kind = a[1] & PRIVATE ? PAUSE_FUTEX : PAUSE_OTHER;
    unsigned operation = a[1] & OPERATION;
    if ((operation != WAIT && operation != WAIT_BITSET) || !read_time(a[3], &ns))
        return;
    if (operation == WAIT)
        set_for(v, kind, ns);
    else
        set_until(v, kind, a[1] & REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, ns);
    v->flow->pause.result = TIMED_OUT;
    if (operation == WAIT_BITSET && kind == PAUSE_OTHER)
        lend(v, a[3]);
}

void pause_find(struct vcpu *v, int64_t number)
{
    const uint64_t *a = v->argument;
    uint64_t ns;
    v->flow->pause = (struct pause){.kind = PAUSE_NONE};
    switch (number) {
    case NANOSLEEP:
        if (read_time(a[0], &ns))
            set_for(v, PAUSE_SLEEP, ns);
        break;
    case CLOCK_NANOSLEEP:
        if (!read_time(a[2], &ns))
            break;
        if (a[1] & TIMER_ABSTIME)
            set_until(v, PAUSE_SLEEP, a[0], ns);
        else
            set_for(v, PAUSE_SLEEP, ns);
        break;
    case PPOLL:
        if (read_time(a[2], &ns))
            set_for(v, a[1] ? PAUSE_OTHER : PAUSE_SLEEP, ns);
        break;
    case PSELECT6:
        if (read_time(a[4], &ns))
            set_for(v, a[0] ? PAUSE_OTHER : PAUSE_SLEEP, ns);
        break;
    case EPOLL_PWAIT:
        if ((int32_t)a[3] > 0)
            set_for(v, PAUSE_OTHER, (uint64_t)(int32_t)a[3] * 1000000);
        break;
    case RT_SIGTIMEDWAIT:
        if (read_time(a[2], &ns))
            set_for(v, PAUSE_OTHER, ns);
        v->flow->pause.result = AGAIN;
        break;
    case TIMERFD_SETTIME:
    case TIMER_SETTIME:
        if (a[1] & TIMER_ABSTIME)
            lend(v, a[2] + sizeof(struct timespec));
        break;
    case FUTEX:
        find_futex(v);
        break;
    }
}

void pause_account(struct vcpu *v, int64_t result)
{
    const struct pause *p = &v->flow->pause;
    if (p->lent)
        memcpy(p->lent, p->own, sizeof p->own);
    if (pause_over(p, result))
        flow_mark(v, p->until ? FLOW_REACH : FLOW_SLEPT, p->time);
}
