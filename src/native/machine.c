#include "machine.h"

#include "base/error.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/bus/event_source/devices"

/* ---- sets of CPUs ---- */

bool native_cpus_parse(const char *text, struct native_cpus *cpus)
{
    struct native_cpus found = {0};
    if (!isdigit((unsigned char)*text))
        return false;
    while (isdigit((unsigned char)*text)) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1]))
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last >= NATIVE_CPUS)
            return false;
        for (unsigned long i = first; i <= last; i++)
            found.bits[i / 64] |= UINT64_C(1) << i % 64;
        text = end + (*end == ',');
        if (*end == ',' && !isdigit((unsigned char)*text))
            return false;
        if (*end != ',')
            break;
    }
    if (*text && *text != '\n')
        return false;
    *cpus = found;
    return true;
}

bool native_cpus_has(const struct native_cpus *cpus, unsigned cpu)
{
    return cpu < NATIVE_CPUS && cpus->bits[cpu / 64] >> cpu % 64 & 1;
}

/* ---- files ---- */

bool native_line(const char *root, const char *name, char *line, size_t capacity)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, line, capacity - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return n >= 0;
}

static bool exists(const char *root, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    return !access(path, F_OK);
}

static uint64_t read_number(const char *root, const char *name, uint64_t otherwise)
{
    char line[64], *end;
    if (!native_line(root, name, line, sizeof line) || !*line)
        return otherwise;
    uint64_t value = strtoull(line, &end, 0);
    return *end ? otherwise : value;
}

/*
 * Calls a function for each entry of a directory whose name has this prefix, in no particular
 * order.
 */
static void each_entry(const char *root, const char *directory, const char *prefix,
                       void (*use)(void *context, const char *name), void *context)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, directory);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix)))
            use(context, e->d_name);
    if (dir)
        closedir(dir);
}

/* ---- PMUs ---- */

/* "config1:0-63". A term that spex cannot place is left out, and then refused as unknown. */
static bool parse_format(const char *text, struct perf_term *term)
{
    unsigned word = 0, low, high;
    int n = 0;
    if (strncmp(text, "config", 6))
        return false;
    text += 6;
    if (isdigit((unsigned char)*text))
        word = (unsigned)(*text++ - '0');
    if (sscanf(text, ":%u-%u%n", &low, &high, &n) != 2 || text[n]) {
        if (sscanf(text, ":%u%n", &low, &n) != 1 || text[n])
            return false;
        high = low;
    }
    if (word > 4 || high > 63 || low > high)
        return false;
    term->word = (uint8_t)word;
    term->high = (uint8_t)high;
    term->low = (uint8_t)low;
    return true;
}

struct reading {
    struct native_machine *machine;
    struct native_pmu *pmu;
};

static void add_term(void *context, const char *name)
{
    struct reading *r = context;
    struct native_pmu *pmu = r->pmu;
    char path[256], line[64];
    struct perf_term term = {{0}, 0, 0, 0};
    snprintf(path, sizeof path, DEVICES "/%s/format/%.64s", pmu->name, name);
    if (pmu->term_count == NATIVE_TERMS || strlen(name) >= sizeof term.name ||
        !native_line(r->machine->root, path, line, sizeof line) || !parse_format(line, &term))
        return;
    memcpy(term.name, name, strlen(name));
    size_t at = pmu->term_count++;
    for (; at && strcmp(pmu->terms[at - 1].name, name) > 0; at--)
        pmu->terms[at] = pmu->terms[at - 1];
    pmu->terms[at] = term;
}

static void add_pmu(void *context, const char *name)
{
    struct native_machine *m = context;
    char path[256], line[1024];
    if (m->pmu_count == NATIVE_PMUS || strlen(name) >= sizeof m->pmus[0].name)
        return;
    struct native_pmu pmu = {.term_count = 0};
    snprintf(pmu.name, sizeof pmu.name, "%s", name);
    snprintf(path, sizeof path, DEVICES "/%s/type", name);
    pmu.type = (uint32_t)read_number(m->root, path, UINT32_MAX);
    if (pmu.type == UINT32_MAX)
        return;
    snprintf(path, sizeof path, DEVICES "/%s/cpumask", name);
    if (!native_line(m->root, path, line, sizeof line) || !native_cpus_parse(line, &pmu.cpus))
        pmu.cpus = m->online;
    snprintf(path, sizeof path, DEVICES "/%s/caps/min_interval", name);
    pmu.min_interval = read_number(m->root, path, 0);
    snprintf(path, sizeof path, DEVICES "/%s/caps/event_filter", name);
    pmu.event_filter = read_number(m->root, path, 0);
    struct reading reading = {m, &pmu};
    snprintf(path, sizeof path, DEVICES "/%s/format", name);
    each_entry(m->root, path, "", add_term, &reading);
    unsigned at = m->pmu_count++;
    for (; at && strcmp(m->pmus[at - 1].name, name) > 0; at--)
        m->pmus[at] = m->pmus[at - 1];
    m->pmus[at] = pmu;
}

void native_machine_read(const char *root, struct native_machine *m)
{
    char line[1024];
    *m = (struct native_machine){.paranoid = 2};
    snprintf(m->root, sizeof m->root, "%s", root);
    if (!native_line(root, "/sys/devices/system/cpu/online", line, sizeof line) ||
        !native_cpus_parse(line, &m->online))
        m->online.bits[0] = 1;
    struct native_cpus present;
    if (!native_line(root, "/sys/devices/system/cpu/present", line, sizeof line) ||
        !native_cpus_parse(line, &present))
        present = m->online;
    for (unsigned i = 0; i < NATIVE_CPUS; i++)
        if (native_cpus_has(&m->online, i) || native_cpus_has(&present, i))
            m->cpu_count = i + 1;
    if (native_line(root, "/proc/sys/kernel/perf_event_paranoid", line, sizeof line))
        m->paranoid = atoi(line);
    each_entry(root, DEVICES, "arm_spe", add_pmu, m);
}

uint64_t native_machine_midr(const struct native_machine *m, unsigned cpu)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/regs/identification/midr_el1", cpu);
    return read_number(m->root, path, 0);
}

const struct native_pmu *native_machine_pmu(const struct native_machine *m, unsigned cpu)
{
    for (unsigned i = 0; i < m->pmu_count; i++)
        if (native_cpus_has(&m->pmus[i].cpus, cpu))
            return &m->pmus[i];
    return NULL;
}

/* ---- why there is none ---- */

static void find_device(void *context, const char *name)
{
    if (strstr(name, "spe-v1") || strstr(name, "spe-pmu"))
        *(bool *)context = true;
}

void native_machine_why(const struct native_machine *m, char *text, size_t capacity)
{
    char line[256], arch[32] = "";
    bool device = exists(m->root, "/sys/firmware/devicetree/base/spe-pmu");
    each_entry(m->root, "/sys/bus/platform/devices", "", find_device, &device);
    each_entry(m->root, "/sys/firmware/devicetree/base", "spe-pmu", find_device, &device);
    if (!*m->root || !native_line(m->root, "/proc/sys/kernel/arch", arch, sizeof arch))
#ifdef __aarch64__
        snprintf(arch, sizeof arch, "aarch64");
#else
        snprintf(arch, sizeof arch, "another");
#endif
    if (strcmp(arch, "aarch64"))
        snprintf(text, capacity,
                 "this is not an Arm machine: only AArch64 CPUs have SPE. "
                 "--engine qemu records with spex's model");
    else if (native_line(m->root, "/sys/devices/system/cpu/vulnerabilities/meltdown", line,
                         sizeof line) &&
             strstr(line, "PTI") && device && exists(m->root, "/sys/module/arm_spe_pmu"))
        snprintf(text, capacity,
                 "the kernel unmaps itself while programs run (KPTI), which SPE's "
                 "driver refuses. Boot with kpti=off on the kernel's command line");
    else if (device && !exists(m->root, "/sys/module/arm_spe_pmu"))
        snprintf(text, capacity,
                 "the machine has SPE, but its driver is not loaded. Run 'modprobe "
                 "arm_spe_pmu'; if there is no such module, the kernel needs "
                 "CONFIG_ARM_SPE_PMU");
    else if (device)
        snprintf(text, capacity,
                 "the driver arm_spe_pmu is loaded and has not taken the device. It refuses a "
                 "kernel that unmaps itself while programs run (KPTI): boot with kpti=off on the "
                 "kernel's command line; 'dmesg | grep spe' says whether it is that");
    else if (exists(m->root, "/sys/firmware/devicetree/base/hypervisor") ||
             exists(m->root, "/sys/hypervisor/type") ||
             (native_line(m->root, "/sys/class/dmi/id/sys_vendor", line, sizeof line) &&
              (strstr(line, "QEMU") || strstr(line, "Amazon EC2") || strstr(line, "Microsoft") ||
               strstr(line, "Google") || strstr(line, "Xen") || strstr(line, "VMware"))))
        snprintf(text, capacity,
                 "this is a virtual machine whose hypervisor does not hand SPE on. "
                 "Use a bare-metal machine (on EC2 a .metal instance), or --engine "
                 "qemu");
    else
        snprintf(text, capacity,
                 "the firmware describes no SPE: the CPU has none, or ACPI (MADT) "
                 "or the device tree leaves it out. --engine qemu records with "
                 "spex's model");
}

/* ---- events ---- */

static enum spex_status refuse_term(const struct native_pmu *pmu, const struct spex_error *why,
                                    struct spex_error *error)
{
    char names[200] = "";
    size_t n = 0;
    if (!strstr(why->text, "has no term")) {
        *error = *why;
        return why->status;
    }
    for (size_t i = 0; i < pmu->term_count && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "",
                              pmu->terms[i].name);
    const char *term = strchr(why->text, '"');
    return error_set(error, SPEX_INVALID, 0, "the driver of %s has no term %s; it has %s",
                     pmu->name, term ? term : "", names);
}

enum spex_status native_events_parse(const struct native_machine *m, const char *text,
                                     struct native_event *events, unsigned *count,
                                     struct spex_error *error)
{
    size_t length = strcspn(text, "/");
    bool every = length == 7;
    *count = 0;
    for (unsigned i = 0; i < m->pmu_count; i++) {
        const struct native_pmu *pmu = &m->pmus[i];
        struct native_event *e = &events[*count];
        struct spex_error why = {0};
        if (!every && (strlen(pmu->name) != length || memcmp(pmu->name, text, length)))
            continue;
        enum spex_status status =
            perf_terms_parse(text, pmu->terms, pmu->term_count, &e->terms, &why);
        if (status)
            return refuse_term(pmu, &why, error);
        e->pmu = i;
        (*count)++;
    }
    if (*count)
        return SPEX_OK;
    char names[160] = "";
    size_t n = 0;
    for (unsigned i = 0; i < m->pmu_count; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", m->pmus[i].name);
    return error_set(error, SPEX_INVALID, 0, "there is no PMU '%.*s'; there is %s", (int)length,
                     text, names);
}
