/* What the files of analysis share. */
#ifndef ANALYSIS_INTERNAL_H
#define ANALYSIS_INTERNAL_H

#include "analysis/histogram.h"
#include "analysis/row.h"

#include <spex/sinks.h>

/* 4 classes x 256 payloads, by OP_INDEX. */
#define OP_INDEX(op_class, payload) (((op_class)&3) << 8 | ((payload)&255))
struct op_table {
    struct {
        uint8_t op, flags; /* enum spex_sample_op; SPEX_SAMPLE_READS, _WRITES, _INDIRECT */
    } info[4 * 256];
    char text[4 * 256][96];
};
const struct op_table *op_table(void);
bool op_has_word(const char *text, const char *word, size_t size);

/* ---- changes of state, sorted by (id, time) ---- */

struct change {
    int32_t id;
    uint64_t time;
};
struct changes {
    struct change *items;
    size_t count, capacity;
};
/* An event at t is visible from t on, as in perf; so a state holds for from <= time <= until. */
struct span {
    uint64_t from, until;
};
struct span changes_span(const struct changes *changes, int32_t id, uint64_t time);

/* ---- time (time.c; docs/time.md) ---- */

struct replay;

/* How much of the time at work lies in each interval of 2^shift ns, from number first on. */
struct clock_intervals {
    uint64_t first, *ns;
    unsigned shift, count;
};
/* What the times of a queue's records mean. */
struct clock_rules {
    const struct spex_perf_time *counter; /* NULL: a tick is a nanosecond */
    const struct changes *switches;       /* switches of threads; NULL: the file has none */
    uint64_t most;                     /* ticks between two records that can be work; 0 unknown */
    struct clock_intervals *intervals; /* intervals to add the time to; NULL: nobody asks */
    bool user_only;                    /* no record shows what the kernel does */
    const struct replay *replay;       /* or NULL */
};
/* Of a queue, from batch to batch; all zero before its first record. */
struct clock {
    int32_t id;         /* key into switches: CPU or thread */
    bool running;       /* there was a record */
    bool cut;           /* data was lost since then: the next record starts afresh */
    uint64_t tick, who; /* tick and thread of the last record */
    uint64_t until;     /* last tick before the next switch */
    double usual;       /* ticks between two records, of late */
    /* ns: shared among records; not at work (switched out, idle); next to lost data */
    uint64_t spent, away, lost;
    uint64_t unseen; /* ns between two records that no record shows: in the kernel */
};
enum { CLOCK_RECORDS = 1024 };
/*
 * The part of its queue's time that a record stands for. Records that together took so long that
 * they were split off from their neighbours are one observation: alike is how many others this
 * one has.
 */
struct clock_part {
    uint64_t ps : 58, alike : 6;
};
/*
 * A sample carries `alike` in the upper bits of the number of the kernel's mappings, so that
 * its layout stays.
 */
enum { MAPS_BITS = 26 };
static inline uint32_t sample_maps(const struct spex_sample *s, uint64_t address)
{
    return s->maps[address >> 63] & ((UINT32_C(1) << MAPS_BITS) - 1);
}
static inline unsigned sample_alike(const struct spex_sample *s)
{
    return (s->maps[1] >> MAPS_BITS) + 1;
}
/* What a record's operation probably cost by its latencies alone, in cycles or so. */
float clock_weight(const struct spex_record *record);
/* Of at most CLOCK_RECORDS at a time. */
void clock_share(struct clock *clock, const struct clock_rules *rules,
                 const struct spex_record *records, size_t count, struct clock_part *parts);

/* ---- filters (filter.c) ---- */

struct filter;
enum spex_status filter_new(const struct spex_filter *spec, uint64_t first_time, uint64_t last_time,
                            struct filter **filter, struct spex_error *error);
void filter_copy(const struct filter *filter, struct filter **copy);
void filter_free(struct filter *filter);
bool filter_keeps(struct filter *filter, const struct spex_sample *sample);

/* A set of cache lines, by a hash of bits 55:6 of their address; it may hold others by chance. */
enum { LINE_SET_BITS = 16 };
struct line_set {
    uint64_t bits[(1 << LINE_SET_BITS) / 64];
};
static inline unsigned line_bit(uint64_t address)
{
    return (unsigned)((address >> 6 << 14) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LINE_SET_BITS));
}
static inline void line_set_add(struct line_set *lines, uint64_t address)
{
    lines->bits[line_bit(address) / 64] |= UINT64_C(1) << line_bit(address) % 64;
}
static inline bool line_set_has(const struct line_set *lines, uint64_t address)
{
    unsigned bit = line_bit(address);
    return lines->bits[bit / 64] >> bit % 64 & 1;
}
/* Those that spex_sharing_choose has chosen. */
const struct line_set *sharing_lines(const struct spex_sharing *sharing);
/* Before that: the lines that took the most cycles, for the caller to free. */
struct sharing_hot {
    uint64_t address, cycles; /* virtual address in the first process that used it */
    uint64_t physical;        /* address, or 0 */
    uint32_t samples;
    int32_t pid; /* -1: of the kernel */
};
struct sharing_hot *sharing_hottest(const struct spex_sharing *sharing, size_t most, size_t *count);
/*
 * For the next passes: what sinks need, and only records that use one of these lines, by its
 * physical or virtual address. Totals stay as the last pass over all records left them, if that
 * pass looked at code.
 */
void analysis_narrow(struct spex_analysis *analysis, unsigned want, const struct line_set *lines);

/*
 * As spex_sample_locate of its data address; module and symbol are right, not the address. *cache
 * is NULL at first and belongs to one sink.
 */
struct place_cache;
struct data_place {
    struct spex_place place;
    struct spex_row *row; /* cached by a sink that groups by place; NULL: not yet known */
};
struct data_place *analysis_data_place(struct spex_analysis *analysis, struct place_cache **cache,
                                       const struct spex_sample *sample);
/* The same answer for all data in its line of 64 bytes? */
struct data_place *analysis_data_line(struct spex_analysis *analysis, struct place_cache **cache,
                                      const struct spex_sample *sample, bool *whole);
void place_cache_free(struct place_cache *cache);
void place_cache_clear(struct place_cache *cache); /* may be NULL */
/* spex_module_read, of a sink. */
size_t analysis_read(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                     void *bytes, size_t size);

/* The type and member of a sample's data, or why it is not known (types.h). */
const struct data_member *analysis_member(struct spex_analysis *analysis,
                                          struct place_cache **cache,
                                          const struct spex_sample *sample);

/*
 * Which mappings of a process, and of the kernel, are in force at a time; and what code at ip
 * belongs to then.
 */
void analysis_maps(struct spex_analysis *analysis, int32_t pid, uint64_t time, uint32_t maps[2]);
const struct spex_place *analysis_code_place(struct spex_analysis *analysis, uint32_t maps,
                                             int32_t pid, uint64_t time, uint64_t ip);

/* Threads with samples that were kept. */
size_t analysis_threads(const struct spex_analysis *analysis);
struct memory *analysis_account(const struct spex_analysis *analysis);
/* How far the time of rows that take turns is off, relative to it: a standard deviation. */
double weights_off(const struct spex_analysis *analysis);
/* 95% interval of a share that is normal. */
struct spex_interval share_interval(double share, double variance);

/*
 * Between two calls several threads may ask the analysis for names and places; it may be nested,
 * in one thread or in several. The result is how many threads there may be.
 */
unsigned analysis_together(struct spex_analysis *analysis, bool on);
/* Threads cannot count apart what one would: a sink says so, and one thread does it. */
void analysis_inexact(struct spex_analysis *analysis);

/* For tests: a group that is exact for fewer keys. */
void group_set_limit(struct spex_group *group, size_t limit);

/* After the samples: whether every row has all its samples and latencies. */
bool group_exact(const struct spex_group *group);
/* As spex_group_derive, of one function: once finer, which has a key for it, has all samples. */
void group_derive_of(struct spex_group *group, struct spex_group *finer,
                     const struct spex_symbol *symbol);

/*
 * Call before the first sample: what the group counts as repeats are samples after one of the same
 * function, which is one of its keys but not the first, whatever the other keys. So the sums of
 * groups derived from it are those of a group by function.
 */
void group_repeat_by_function(struct spex_group *group);

/* As spex_group_sort, but the rows are in no order. */
enum spex_status group_settle(struct spex_group *group);

/* Adds a row's latencies to buckets (histogram.h); false if they are not known. */
bool group_buckets(const struct spex_group *group, const struct spex_row *row,
                   enum spex_latency latency, uint64_t counts[HISTOGRAM_BUCKETS]);

/* spex_group_add to several groups. */
void groups_add(struct spex_group *const *groups, size_t group_count,
                const struct spex_sample *const *samples, size_t count);

/* How threads count in groups. */
extern const struct spex_sink_shards group_shards;

/* The words that make up the n-th key of a row. */
const uint64_t *group_key(const struct spex_group *group, const struct spex_row *row, size_t n);

/* Strings that are equal are the same pointer. */
const char *analysis_intern(struct spex_analysis *analysis, const char *text);
/* Source line of a code address, its file interned, or NULL if there is none. */
void analysis_line(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                   struct spex_line *line);

/* Later passes add the time of all records, kept or not, to this; NULL: no longer. */
void analysis_count_time(struct spex_analysis *analysis, struct clock_intervals *intervals);

/* How many queues are in the files before the one whose samples come. */
uint32_t analysis_first_queue(struct spex_analysis *analysis);

/* A sink has no memory left, or cannot count so many: the pass ends and says so. a may be NULL. */
void analysis_no_memory(struct spex_analysis *a);
void analysis_too_many(struct spex_analysis *a);

#endif
