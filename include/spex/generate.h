/*
 * Random conforming sample records for a feature set: every packet, subclass,
 * size and header form that D18 gives it, and seeded damage to such a stream.
 *
 * The same options give the same bytes on every machine. No I/O, no allocation but in new;
 * a generator belongs to one thread.
 */
#ifndef SPEX_GENERATE_H
#define SPEX_GENERATE_H

#include <spex/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of operation to draw from; names for the command line below. */
enum spex_generate_op {
    SPEX_GENERATE_LOAD = 1u << 0,
    SPEX_GENERATE_STORE = 1u << 1,
    SPEX_GENERATE_BRANCH = 1u << 2,
    SPEX_GENERATE_OTHER = 1u << 3,
    SPEX_GENERATE_ALL = 15,
};

struct spex_generator; /* opaque */

struct spex_generate_options {
    size_t size;          /* sizeof(struct spex_generate_options) */
    const char *features; /* see <spex/features.h>; ts: end in Timestamp; NULL: "max" */
    uint64_t seed;
    enum spex_layout layout; /* N1 and HISI drop packets that do not fit their layout */
    unsigned align;          /* log2 of the alignment; 0 to the feature maxsize */
    unsigned ops;            /* enum spex_generate_op; 0 is all */
};

/* options NULL: none. SPEX_NO_MEMORY; SPEX_INVALID with the reason if they contradict each other.
 * Since 1.0.
 */
enum spex_status spex_generator_new(const struct spex_generate_options *options,
                                    struct spex_generator **generator, struct spex_error *error);
void spex_generator_free(struct spex_generator *generator); /* since 1.0 */

/* Same, in the caller's memory: spex_generator_size() bytes, aligned as for malloc. */
size_t spex_generator_size(void); /* since 1.0 */
/* Since 1.0. */
enum spex_status spex_generator_init(void *memory, const struct spex_generate_options *options,
                                     struct spex_generator **generator, struct spex_error *error);

/*
 * Write the next record and its padding to out, which has room for SPEX_RECORD_MAX bytes.
 * Returns the bytes written. *record is the record as it was before encoding, with its offset
 * in the stream.
 */
size_t spex_generator_next(struct spex_generator *generator, uint8_t *out,
                           struct spex_record *record); /* since 1.0 */

enum spex_damage_kind {
    SPEX_DAMAGE_TRUNCATE, /* the stream ends inside a record */
    SPEX_DAMAGE_FLIP,     /* bits flipped inside some records */
    SPEX_DAMAGE_LOSE,     /* runs of bytes missing */
    SPEX_DAMAGE_SPLICE,   /* starts in the middle of a record and wraps round, like a ring buffer */
    SPEX_DAMAGE_KIND_COUNT
};

/*
 * Damage a stream of count records in place. *size shrinks; the array keeps
 * the records that are still intact, with their new offsets. Returns how many.
 */
size_t spex_damage_apply(enum spex_damage_kind kind, uint64_t seed, uint8_t *data, size_t *size,
                         struct spex_record *records, size_t count); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
