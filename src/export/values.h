/*
 * The value of each column (schema.h) in a sample: a number, a text, or none. Make one source per
 * pass over a profile; it belongs to one thread.
 */
#ifndef EXPORT_VALUES_H
#define EXPORT_VALUES_H

#include "export/schema.h"

#include <spex/stacks.h>
#include "base/out.h"
#include "export/stack_ids.h"
#include "record/counters.h"
#include <spex/analysis.h>

struct export_source {
    struct spex_analysis *analysis;
    bool full_path;    /* dso is the whole path */
    const char *host;  /* NULL: what the file says */
    const char *boot;  /* NULL: not known */
    uint64_t period;   /* 0: not known */
    bool can_estimate; /* a sample stands for period operations */
    unsigned most;     /* value at which counters saturate */
    struct counters_end end;
    struct out built;         /* a text of several parts */
    struct stack_ids *stacks; /* NULL: samples have no call stacks of their own */
};

void export_source_init(struct export_source *source, struct spex_analysis *analysis);
void export_source_fini(struct export_source *source);

/* The position of a number and the packet it comes from, in the lower bits of a word. */
struct export_number {
    uint64_t mask;
    unsigned has; /* enum spex_has or EXPORT_ALWAYS; 0: neither */
    uint16_t at;
    bool raw; /* field of the record; otherwise of the sample */
};
enum { EXPORT_ALWAYS = 1u << 16 };

extern const struct export_number export_numbers[EXPORT_COLUMNS];

static inline uint64_t export_read(const struct spex_sample *sample, struct export_number number)
{
    const char *base = number.raw ? (const char *)sample->record : (const char *)sample;
    uint64_t word;
    memcpy(&word, base + number.at, sizeof word);
    return word & number.mask;
}

enum { EXPORT_KEY = 4 };                     /* words */
#define EXPORT_KEY_THERE (UINT64_C(1) << 63) /* set in every key, so that no key is 0 */

/* Everything that the columns of THREAD, CODE or OUTCOME depend on. */
static inline __attribute__((always_inline)) void
export_key(const struct spex_sample *sample, enum export_from from, uint64_t key[EXPORT_KEY])
{
    const struct spex_record *r = sample->record;
    bool memory = sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES);
    switch (from) {
    case EXPORT_FROM_CODE:
        key[0] = r->address[SPEX_ADDRESS_PC];
        key[1] = (uintptr_t)sample->module;
        key[2] = sample->address;
        key[3] = EXPORT_KEY_THERE | (uint64_t)(r->present & (SPEX_HAS_PC | SPEX_HAS_OP)) << 16 |
                 (unsigned)r->op_class << 8 | r->op_payload;
        break;
    case EXPORT_FROM_THREAD:
        key[0] = (uint64_t)(uint32_t)sample->pid << 32 | (uint32_t)sample->tid;
        key[1] = EXPORT_KEY_THERE | (uint32_t)sample->cpu;
        key[2] = (uintptr_t)sample->comm;
        key[3] = 0;
        break;
    case EXPORT_FROM_OUTCOME:
        key[0] = r->events;
        key[1] = EXPORT_KEY_THERE |
                 (uint64_t)(r->present & (SPEX_HAS_EVENTS | SPEX_HAS_DATA_SOURCE)) << 32 |
                 (uint64_t)r->data_source << 16 | (unsigned)memory << 8 | sample->source;
        key[2] = key[3] = 0;
        break;
    default:
        __builtin_unreachable();
    }
}

static inline void export_stack_key(struct spex_analysis *analysis,
                                    const struct spex_sample *sample, uint64_t key[EXPORT_KEY])
{
    key[0] = spex_sample_stack(analysis, sample);
    key[1] = EXPORT_KEY_THERE;
    key[2] = key[3] = 0;
}

/* The origin of a column in this profile: without stacks, all samples have the same. */
static inline enum export_from export_origin(const struct export_source *source,
                                             enum export_column column)
{
    enum export_from from = export_fields[column].from;
    return from == EXPORT_FROM_STACK && !source->stacks ? EXPORT_FROM_FILE : from;
}

/* A column of type NUMBER, ADDRESS or BOOL; false if it is absent. */
bool export_number(const struct export_source *source, const struct spex_sample *sample,
                   enum export_column column, uint64_t *value);
/* A column of type STRING, any bytes, until the next is asked for; NULL if it is absent. */
const char *export_text(struct export_source *source, const struct spex_sample *sample,
                        enum export_column column);
/* Names of the counters that are saturated, `latency|issue`; NULL if none is. */
const char *export_saturated(const struct export_source *source, const struct spex_sample *sample);

/* What a pass must find out to fill a column: enum spex_want. */
unsigned export_wants(enum export_column column);
/* Does a column look up addresses, so that only the thread of the analysis may ask for it? */
bool export_looks_up(enum export_column column);

#endif
