/* What Data Source packets mean on each CPU, and what perf makes of them. */
#include <spex/datasource.h>

#include "arch/sources.h"
#include "base/bits.h"

#include <assert.h>

struct spex_cpu_model {
    uint32_t key; /* implementer and part, as MIDR_EL1 places them */
    const char *name;
    uint8_t table; /* enum arch_sources */
    bool old;      /* perf 6.1 knows that it has the common table */
};

static const struct spex_cpu_model cpus[] = {
#define CPU(implementer, part, name, table, old)                                                   \
    {ARCH_MIDR_KEY(implementer, part), name, ARCH_SOURCES_##table, old},
#include "arch/datasource.def"
};

/* Fields of perf's data_src word, by their bit position. */
enum {
    OP_SHIFT = 0,
    LEVEL_SHIFT = 5,
    SNOOP_SHIFT = 19,
    TLB_SHIFT = 26,
    NUMBER_SHIFT = 33,
    REMOTE_SHIFT = 37,
    SNOOPX_SHIFT = 38
};
enum { OP_LOAD = 2, OP_STORE = 4 };
enum {
    LEVEL_0 = 0,
    LEVEL_NA = 1,
    LEVEL_HIT = 2,
    LEVEL_MISS = 4,
    LEVEL_L1 = 8,
    LEVEL_LFB = 0x10,
    LEVEL_L2 = 0x20,
    LEVEL_L3 = 0x40,
    LEVEL_LOC_RAM = 0x80,
    LEVEL_REM_RAM1 = 0x100,
    LEVEL_REM_CCE1 = 0x400,
    LEVEL_REM_CCE2 = 0x800,
    LEVEL_IO = 0x1000
};
enum {
    NUMBER_L1 = 1,
    NUMBER_L2 = 2,
    NUMBER_L3 = 3,
    NUMBER_IO = 0xa,
    NUMBER_ANY = 0xb,
    NUMBER_LFB = 0xc,
    NUMBER_RAM = 0xd,
    NUMBER_NA = 0xf
};
enum { SNOOP_0 = 0, SNOOP_NA = 1, SNOOP_NONE = 2, SNOOP_HIT = 4, SNOOP_HITM = 0x10 };
enum { SNOOPX_0 = 0, SNOOPX_PEER = 2 };
enum { TLB_HIT = 2, TLB_MISS = 4, TLB_WALKER = 0x20 };

struct source_row {
    uint8_t table, value, source, modified;
    uint16_t level;
    uint8_t number, snoop, snoopx, remote;
};

/* Rows combine levels by name with OR, so the bare names must be defined while rows expand. */
enum {
    L1 = LEVEL_L1,
    L2 = LEVEL_L2,
    L3 = LEVEL_L3,
    HIT = LEVEL_HIT,
    NA = LEVEL_NA,
    LOC_RAM = LEVEL_LOC_RAM,
    REM_RAM1 = LEVEL_REM_RAM1,
    REM_CCE1 = LEVEL_REM_CCE1,
    REM_CCE2 = LEVEL_REM_CCE2,
    IO = LEVEL_IO
};

static const struct source_row sources[] = {
#define SOURCE(table, value, source, modified, level, number, snoop, snoopx, remote)               \
    {ARCH_SOURCES_##table, value,         SPEX_SOURCE_##source, modified, level,                   \
     NUMBER_##number,      SNOOP_##snoop, SNOOPX_##snoopx,      remote},
#include "arch/datasource.def"
};

static const struct {
    uint32_t key;
    uint8_t bit;
    const char *name;
} events[] = {
#define EVENT(implementer, part, bit, name) {ARCH_MIDR_KEY(implementer, part), bit, name},
#include "arch/datasource.def"

};

#define COUNT(array) (sizeof(array) / sizeof *(array))

const struct spex_cpu_model *spex_cpu_find(uint64_t midr)
{
    uint32_t key = (uint32_t)midr & ARCH_MIDR_KEY(0xff, 0xfff);
    for (size_t i = 0; i < COUNT(cpus); i++)
        if (cpus[i].key == key)
            return &cpus[i];
    return NULL;
}

const char *spex_cpu_name(const struct spex_cpu_model *cpu)
{
    return cpu ? cpu->name : "unlisted CPU";
}

bool spex_cpu_has_sources(const struct spex_cpu_model *cpu)
{
    return cpu && cpu->table != ARCH_SOURCES_NONE;
}

static const struct source_row *find_source(unsigned table, unsigned value)
{
    for (size_t i = 0; i < COUNT(sources); i++)
        if (sources[i].table == table && sources[i].value == value)
            return &sources[i];
    return NULL;
}

enum spex_source spex_source_of_value(const struct spex_cpu_model *cpu, unsigned value)
{
    const struct source_row *row = cpu ? find_source(cpu->table, value) : NULL;
    return row ? (enum spex_source)row->source : SPEX_SOURCE_UNKNOWN;
}

static bool has_event(const struct spex_record *record, unsigned bit)
{
    return record->events >> bit & 1;
}

static bool is_store(const struct spex_record *record)
{
    return record->op_payload & 1; /* LDST, D18.2.7 */
}

/*
 * The level that events alone name. For a load it is the first level that was
 * accessed and did not miss; for a store the deepest that was involved.
 */
static enum spex_source source_of_events(const struct spex_record *record, bool *miss)
{
    static const struct {
        enum spex_source source;
        uint8_t access, miss;
    } levels[] = {
        {SPEX_SOURCE_L1, SPEX_EV_L1D_ACCESS, SPEX_EV_L1D_MISS},
        {SPEX_SOURCE_L2, SPEX_EV_L2D_ACCESS, SPEX_EV_L2D_MISS},
        {SPEX_SOURCE_L3, SPEX_EV_LLC_ACCESS, SPEX_EV_LLC_MISS},
    };
    *miss = false;
    if (!is_store(record)) {
        for (size_t i = 0; i < COUNT(levels); i++) {
            if (i == 1 && has_event(record, SPEX_EV_RECENT))
                return SPEX_SOURCE_LFB;
            if (has_event(record, levels[i].access) && !has_event(record, levels[i].miss))
                return levels[i].source;
        }
    }
    for (size_t i = COUNT(levels); i-- > 0;) {
        if (has_event(record, levels[i].miss)) {
            *miss = true;
            return levels[i].source;
        }
        if (has_event(record, levels[i].access))
            return levels[i].source;
    }
    return SPEX_SOURCE_UNKNOWN;
}

void spex_source_of(const struct spex_cpu_model *cpu, const struct spex_record *record,
                    struct spex_source_info *info)
{
    assert(record && info);
    *info = (struct spex_source_info){0};
    info->remote = has_event(record, SPEX_EV_REMOTE);
    info->modified = has_event(record, SPEX_EV_MODIFIED) && has_event(record, SPEX_EV_SNOOPED);
    info->peer = has_event(record, SPEX_EV_SNOOPED);
    if (spex_cpu_has_sources(cpu) && record->present & SPEX_HAS_DATA_SOURCE) {
        const struct source_row *row = find_source(cpu->table, record->data_source);
        if (row) {
            info->source = (enum spex_source)row->source;
            info->by_packet = true;
            info->modified |= row->modified;
            info->peer |= row->snoopx == SNOOPX_PEER;
            info->remote |= row->remote;
            return;
        }
        info->unlisted = true;
    }
    info->source = source_of_events(record, &info->miss);
}

const char *spex_source_name(enum spex_source source)
{
    static const char *const names[SPEX_SOURCE_COUNT] = {
        [SPEX_SOURCE_UNKNOWN] = "unknown",
        [SPEX_SOURCE_L1] = "l1",
        [SPEX_SOURCE_LFB] = "lfb",
        [SPEX_SOURCE_L2] = "l2",
        [SPEX_SOURCE_PEER_CORE] = "peer-core",
        [SPEX_SOURCE_LOCAL_CLUSTER] = "local-cluster",
        [SPEX_SOURCE_L3] = "l3",
        [SPEX_SOURCE_SYSTEM_CACHE] = "system-cache",
        [SPEX_SOURCE_PEER_CLUSTER] = "peer-cluster",
        [SPEX_SOURCE_REMOTE] = "remote",
        [SPEX_SOURCE_DRAM] = "dram",
        [SPEX_SOURCE_REMOTE_DRAM] = "remote-dram",
        [SPEX_SOURCE_IO] = "io",
    };
    return (unsigned)source < SPEX_SOURCE_COUNT ? names[source] : "unknown";
}

struct word { /* a data_src word in the making */
    unsigned level, number, snoop, snoopx, remote;
};

static void word_of_row(struct word *word, const struct source_row *row)
{
    word->level = row->level;
    word->number = row->number;
    word->snoop = row->snoop;
    word->snoopx = row->snoopx;
    word->remote = row->remote;
}

/* perf 6.1 has no L2 and no snoop, and a table for only three CPUs. */
static void word_6_1(struct word *word, const struct spex_cpu_model *cpu,
                     const struct spex_record *record)
{
    if (cpu && cpu->old) {
        if (is_store(record)) {
            word->level = LEVEL_NA;
            word->number = NUMBER_NA;
            word->snoop = SNOOP_NA;
            return;
        }
        /* A missing packet reads as value 0, which is L1. */
        const struct source_row *row = find_source(ARCH_SOURCES_COMMON, record->data_source);
        if (row)
            word_of_row(word, row);
        return;
    }
    if (has_event(record, SPEX_EV_LLC_ACCESS) || has_event(record, SPEX_EV_LLC_MISS))
        word->level = LEVEL_L3 | (has_event(record, SPEX_EV_LLC_MISS) ? LEVEL_MISS : LEVEL_HIT);
    else if (has_event(record, SPEX_EV_L1D_ACCESS) || has_event(record, SPEX_EV_L1D_MISS))
        word->level = LEVEL_L1 | (has_event(record, SPEX_EV_L1D_MISS) ? LEVEL_MISS : LEVEL_HIT);
    if (has_event(record, SPEX_EV_REMOTE))
        word->level |= LEVEL_REM_CCE1;
}

static void word_7(struct word *word, const struct spex_cpu_model *cpu,
                   const struct spex_record *record, uint64_t event_filter)
{
    static const struct {
        uint16_t level;
        uint8_t number;
    } levels[SPEX_SOURCE_COUNT] = {
        [SPEX_SOURCE_L1] = {LEVEL_L1, NUMBER_L1},
        [SPEX_SOURCE_LFB] = {LEVEL_LFB, NUMBER_LFB},
        [SPEX_SOURCE_L2] = {LEVEL_L2, NUMBER_L2},
        [SPEX_SOURCE_L3] = {LEVEL_L3, NUMBER_L3},
    };
    if (spex_cpu_has_sources(cpu)) {
        if (is_store(record)) {
            word->level = LEVEL_NA;
            word->number = NUMBER_NA;
            word->snoop = SNOOP_NA;
        } else {
            const struct source_row *row = find_source(cpu->table, record->data_source);
            if (row)
                word_of_row(word, row);
        }
    }
    if (!word->level) {
        bool miss;
        enum spex_source source = source_of_events(record, &miss);
        if (source == SPEX_SOURCE_UNKNOWN) {
            word->level = LEVEL_NA;
            word->number = NUMBER_NA;
        } else {
            word->level = levels[source].level | (miss ? LEVEL_MISS : LEVEL_HIT);
            word->number = levels[source].number;
        }
    }
    if (!word->snoop) {
        if (has_event(record, SPEX_EV_SNOOPED))
            word->snoop = has_event(record, SPEX_EV_MODIFIED) ? SNOOP_HITM : SNOOP_HIT;
        else
            word->snoop = event_filter & BIT(SPEX_EV_SNOOPED) ? SNOOP_NONE : SNOOP_NA;
    }
    if (has_event(record, SPEX_EV_REMOTE))
        word->remote = 1;
}

uint64_t spex_source_perf(uint64_t midr, const struct spex_record *record, uint64_t event_filter,
                          enum spex_perf_rules rules)
{
    assert(record);
    const struct spex_cpu_model *cpu = spex_cpu_find(midr);
    struct word word = {0};
    unsigned tlb = 0;

    if (!(record->present & SPEX_HAS_OP) || record->op_class != SPEX_CLASS_LDST)
        return 0;
    if (rules == SPEX_PERF_RULES_6_1)
        word_6_1(&word, cpu, record);
    else
        word_7(&word, cpu, record, event_filter);
    if (has_event(record, SPEX_EV_TLB_WALK))
        tlb = TLB_WALKER | TLB_MISS;
    else if (has_event(record, SPEX_EV_TLB_ACCESS))
        tlb = TLB_WALKER | TLB_HIT;
    return (uint64_t)(is_store(record) ? OP_STORE : OP_LOAD) << OP_SHIFT |
           (uint64_t)word.level << LEVEL_SHIFT | (uint64_t)word.snoop << SNOOP_SHIFT |
           (uint64_t)tlb << TLB_SHIFT | (uint64_t)word.number << NUMBER_SHIFT |
           (uint64_t)word.remote << REMOTE_SHIFT | (uint64_t)word.snoopx << SNOOPX_SHIFT;
}

const char *spex_cpu_event_name(const struct spex_cpu_model *cpu, unsigned bit)
{
    for (size_t i = 0; cpu && i < COUNT(events); i++)
        if (events[i].key == cpu->key && events[i].bit == bit)
            return events[i].name;
    return NULL;
}
