/* What the files of analysis share. */
#ifndef ANALYSIS_INTERNAL_H
#define ANALYSIS_INTERNAL_H

#include "analysis/histogram.h"
#include "analysis/row.h"

#include "base/line_set.h"

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

/* Of a thread: it stops, though it could go on; above them the order in the file. */
enum { CHANGE_OUT = 1, CHANGE_PREEMPT = 2, CHANGE_ORDER = 2 };
struct change {
    int32_t id;
    uint32_t how;
    uint64_t time;
};
struct changes {
    struct change *items;
    size_t count, capacity;
};
/* An event at t is visible from t on, as in perf; so a state is valid for from <= time <= until. */
struct span {
    uint64_t from, until;
};
struct span changes_span(const struct changes *changes, int32_t id, uint64_t time);

/* ---- time (time.c; docs/time.md) ---- */

struct replay;

/* How to read the times of a queue's records. */
struct clock_rules {
    const struct spex_perf_time *counter; /* NULL: a tick is a nanosecond */
    const struct changes *switches;       /* switches of threads; NULL: the file has none */
    uint64_t most; /* longest gap between two records that can be work, in ticks; 0: unknown */
    struct spex_time_bins *intervals; /* intervals to add the time to; NULL: not wanted */
    bool user_only;                   /* no record shows what the kernel does */
    const struct replay *replay;      /* or NULL */
};
/* State of a queue, kept from batch to batch; all zero before its first record. */
struct clock {
    int32_t id;         /* key into switches: CPU or thread */
    bool running;       /* there was a record before */
    bool cut;           /* data was lost since then: the next record starts afresh */
    uint64_t tick, who; /* tick and thread of the last record */
    uint64_t until;     /* last tick before the next switch */
    double usual;       /* recent average of ticks between two records */
    /* ns: shared among records; not at work (switched out, idle); next to lost data */
    uint64_t spent, away, lost;
    uint64_t unseen; /* ns between two records that no record shows: spent in the kernel */
};
enum { CLOCK_RECORDS = 1024 };
/*
 * How much of its queue's time a record stands for. Records that took so long together that they
 * were split off from their neighbours are one observation: alike is how many others this one has.
 */
struct clock_part {
    uint64_t ps : 58, alike : 6;
};
/*
 * A sample stores `alike` in the upper bits of the number of the kernel's mappings, so that its
 * layout does not change.
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
/* Whose record it is, by its context: 0: not known. */
static inline uint64_t record_who(const struct spex_record *r)
{
    if (!(r->present & (SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2)))
        return 0;
    return (uint64_t)r->context[!(r->present & SPEX_HAS_CONTEXT_EL1)] + 1;
}
/* Estimated cost of a record's operation, roughly in cycles, from its latencies alone. */
float clock_weight(const struct spex_record *record);
/* For at most CLOCK_RECORDS at a time. */
void clock_share(struct clock *clock, const struct clock_rules *rules,
                 const struct spex_record *records, size_t count, struct clock_part *parts);

/* ---- filters (filter.c) ---- */

struct filter;
enum spex_status filter_new(const struct spex_filter *spec, uint64_t first_time, uint64_t last_time,
                            struct filter **filter, struct spex_error *error);
void filter_copy(const struct filter *filter, struct filter **copy);
void filter_free(struct filter *filter);
bool filter_keeps(struct filter *filter, const struct spex_sample *sample);

/*
 * Narrows the next passes to what these sinks need, and to records that use one of these lines, by
 * physical or virtual address. Totals stay as the last pass over all records left them, if that
 * pass looked at code.
 */
void analysis_narrow(struct spex_analysis *analysis, unsigned want, const struct line_set *lines);

/*
 * Like spex_sample_locate for its data address, but only module and symbol are right, not the
 * address. *cache is NULL at first and belongs to one sink.
 */
struct place_cache;
struct data_place {
    struct spex_place place;
    struct spex_row *row; /* kept here by a sink that groups by place; NULL: not yet known */
};
struct data_place *analysis_data_place(struct spex_analysis *analysis, struct place_cache **cache,
                                       const struct spex_sample *sample);
/* Is the answer the same for all data in its line of 64 bytes? */
struct data_place *analysis_data_line(struct spex_analysis *analysis, struct place_cache **cache,
                                      const struct spex_sample *sample, bool *whole);
void place_cache_free(struct place_cache *cache);
void place_cache_clear(struct place_cache *cache); /* may be NULL */
/* spex_module_read, for a sink. */
size_t analysis_read(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                     void *bytes, size_t size);

/* Like spex_sample_member, for a sink. */
const struct spex_member *analysis_member(struct spex_analysis *analysis,
                                          struct place_cache **cache,
                                          const struct spex_sample *sample);

/* The mappings of a process and of the kernel at a time, and the code at ip at that time. */
void analysis_maps(struct spex_analysis *analysis, int32_t pid, uint64_t time, uint32_t maps[2]);
const struct spex_place *analysis_code_place(struct spex_analysis *analysis, uint32_t maps,
                                             int32_t pid, uint64_t time, uint64_t ip);

/* What an address of a process belongs to at a time. */
void analysis_place(struct spex_analysis *analysis, int32_t pid, uint64_t time, uint64_t ip,
                    bool data, struct spex_place *place);

struct memory *analysis_account(const struct spex_analysis *analysis);
/* Standard deviation of the time of rows that alternate, relative to that time. */
double weights_off(const struct spex_analysis *analysis);
/* 95% interval of a normally distributed share. */
struct spex_interval share_interval(double share, double variance);

/*
 * A sink reports that separate threads cannot count what one thread would; then one thread does it.
 */
void analysis_inexact(struct spex_analysis *analysis);
/* The same, where it is the copies of all threads together that take too much. */
void analysis_crowded(struct spex_analysis *analysis);

/* For tests: makes the group exact for fewer keys only. */
void group_set_limit(struct spex_group *group, size_t limit);

/* How several threads count in groups. */
extern const struct spex_sink_shards group_shards;

/* The words that make up the n-th key of a row. */
const uint64_t *group_key(const struct spex_group *group, const struct spex_row *row, size_t n);

/* Equal strings become the same pointer. */
const char *analysis_intern(struct spex_analysis *analysis, const char *text);
/* Source line of a code address, with the file name interned; NULL if there is none. */
void analysis_line(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                   struct spex_line *line);

/*
 * Samples that a sink is given together are of one stretch of one queue; these are numbered from 1
 * on in the order of files, queues and time, and this is the number. 0: not known.
 */
extern _Thread_local uint32_t analysis_order;
/* Of any sample: where it is not known, that of the first of its queue. */
uint32_t analysis_order_of(struct spex_analysis *analysis, const struct spex_sample *sample);

/*
 * Reports that a sink ran out of memory or of numbers: the pass ends with that error. a may be
 * NULL.
 */
void analysis_no_memory(struct spex_analysis *a);
void analysis_too_many(struct spex_analysis *a);

#endif
