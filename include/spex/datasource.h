/*
 * Where data came from: Data Source packets and IMPLEMENTATION DEFINED events by CPU.
 *
 * D18.2.4 leaves the Data Source payload to the implementation. The tables are rows of
 * src/arch/datasource.def, chosen by MIDR_EL1 (variant and revision ignored). For a CPU without
 * a table, or a load without the packet, the events decide. No allocation, no state.
 */
#ifndef SPEX_DATASOURCE_H
#define SPEX_DATASOURCE_H

#include <spex/record.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spex_source {
    SPEX_SOURCE_UNKNOWN,
    SPEX_SOURCE_L1,
    SPEX_SOURCE_LFB, /* a fill already under way ("recently fetched") */
    SPEX_SOURCE_L2,
    SPEX_SOURCE_PEER_CORE,     /* another core of the cluster, cache to cache */
    SPEX_SOURCE_LOCAL_CLUSTER, /* the cluster's shared cache */
    SPEX_SOURCE_L3,            /* the last-level cache, where the CPU does not say more */
    SPEX_SOURCE_SYSTEM_CACHE,
    SPEX_SOURCE_PEER_CLUSTER,
    SPEX_SOURCE_REMOTE, /* a cache of another socket or chip */
    SPEX_SOURCE_DRAM,
    SPEX_SOURCE_REMOTE_DRAM,
    SPEX_SOURCE_IO, /* device or non-cacheable */
    SPEX_SOURCE_COUNT
};

struct spex_cpu_model; /* a row of the table of CPUs */

/* The CPU of a MIDR_EL1 value, or NULL if it is not listed (the caller warns once). */
const struct spex_cpu_model *spex_cpu_find(uint64_t midr); /* since 1.0 */
/* "Neoverse N1"; for NULL "unlisted CPU". */
const char *spex_cpu_name(const struct spex_cpu_model *cpu); /* since 1.0 */
/* Does the CPU have a Data Source table? (Some listed CPUs have none.) */
bool spex_cpu_has_sources(const struct spex_cpu_model *cpu); /* since 1.0 */

struct spex_source_info {
    enum spex_source source;
    bool by_packet; /* taken from the Data Source packet, else from the events */
    bool miss;      /* the events show a miss in this level and do not show where it hit */
    bool modified;  /* the line was dirty in another cache (HITM) */
    bool peer;      /* another core's cache supplied it */
    bool remote;    /* crossed sockets or chips */
    bool unlisted;  /* a Data Source value the CPU's table does not have */
    uint8_t zero[6];
};

/* cpu may be NULL: only events are used. Meaningful for loads, stores and atomics. */
void spex_source_of(const struct spex_cpu_model *cpu, const struct spex_record *record,
                    struct spex_source_info *info);    /* since 1.0 */
const char *spex_source_name(enum spex_source source); /* "peer-cluster"; since 1.0 */
/*
 * Meaning of one Data Source value on a CPU; SPEX_SOURCE_UNKNOWN if its table does not have it.
 * Since 1.0.
 */
enum spex_source spex_source_of_value(const struct spex_cpu_model *cpu, unsigned value);

/*
 * The PERF_MEM_* word (perf's data_src) that perf would derive from the record, by the rules of
 * perf 6.1 or the current ones (src/analysis/datasource.c). event_filter is the CPU's
 * caps/event_filter (0 if unknown). 0 for an operation that does not access memory.
 */
enum spex_perf_rules { SPEX_PERF_RULES_6_1, SPEX_PERF_RULES_7 };
uint64_t spex_source_perf(uint64_t midr, const struct spex_record *record, uint64_t event_filter,
                          enum spex_perf_rules rules); /* since 1.0 */

/* Name of an event bit that this CPU defines itself ("late-prefetch"), or NULL. */
const char *spex_cpu_event_name(const struct spex_cpu_model *cpu, unsigned bit); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
