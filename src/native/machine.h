/*
 * What this machine has for SPE, from /sys and /proc: the arm_spe PMUs with the terms and limits of
 * their driver, CPUs, and where there is no PMU, why not. `root` stands before /sys and /proc.
 */
#ifndef NATIVE_MACHINE_H
#define NATIVE_MACHINE_H

#include "base/vec.h"
#include "perfdata/terms.h"

enum { NATIVE_PMUS = 8, NATIVE_TERMS = 64, NATIVE_CPUS = 4096 };

struct native_cpus { /* a set */
    uint64_t bits[NATIVE_CPUS / 64];
};
/* Parses "0-3,8". False if the text is not such a list. */
bool native_cpus_parse(const char *text, struct native_cpus *cpus);
bool native_cpus_has(const struct native_cpus *cpus, unsigned cpu);

struct native_pmu {
    char name[32]; /* arm_spe_0 */
    uint32_t type;
    struct native_cpus cpus;
    struct perf_term terms[NATIVE_TERMS];
    size_t term_count;
    uint64_t min_interval, event_filter; /* from the PMU's caps; 0: unknown */
};

struct native_machine {
    char root[256];
    struct native_pmu pmus[NATIVE_PMUS];
    unsigned pmu_count;
    struct native_cpus online;
    unsigned cpu_count; /* the highest present CPU and one more */
    int paranoid;       /* /proc/sys/kernel/perf_event_paranoid; 2 if there is none */
};

void native_machine_read(const char *root, struct native_machine *machine);
uint64_t native_machine_midr(const struct native_machine *machine, unsigned cpu); /* 0: unknown */
/* The PMU of a CPU, or NULL. */
const struct native_pmu *native_machine_pmu(const struct native_machine *machine, unsigned cpu);

/* Why there is no PMU and what to do about it: two sentences. */
void native_machine_why(const struct native_machine *machine, char *text, size_t capacity);

/* The first line of ROOT/NAME; false if it cannot be read. */
bool native_line(const char *root, const char *name, char *line, size_t capacity);

/* ---- events ---- */

/* What -e asks of each PMU. */
struct native_event {
    struct spex_perf_terms terms;
    unsigned pmu; /* index */
    char name[320];
};
/*
 * "arm_spe/TERMS/" means every PMU, "arm_spe_1//" one. SPEX_INVALID, with what the driver has, if
 * it does not know a term. Fills up to NATIVE_PMUS events.
 */
enum spex_status native_events_parse(const struct native_machine *machine, const char *text,
                                     struct native_event *events, unsigned *count,
                                     struct spex_error *error);

#endif
