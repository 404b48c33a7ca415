/*
 * Checks a stream of sample records against D18, and against what D17.6 says a
 * record must hold, for a feature set.
 *
 * A rule is one row of src/record/rules.def: what the manual requires and the requirement ids
 * it comes from. A violation is something that no conforming implementation may write, unless
 * its rule is a warning; what the manual leaves IMPLEMENTATION DEFINED passes. No I/O, no
 * allocation but in new; a verifier belongs to one thread and borrows the data.
 */
#ifndef SPEX_VERIFY_H
#define SPEX_VERIFY_H

#include <spex/record.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spex_rule {
    const char *id;           /* "counter-range" */
    const char *requirements; /* "PKT-44 PKT-45", ids of spec/requirements.tsv */
    const char *title;        /* what the manual says */
    bool exact;               /* applies only if a feature is known to be present */
    const char *unless;       /* warnings: the reading of the manual that allows it; else NULL */
};

struct spex_violation {
    uint64_t offset; /* offset in the stream of the packet, or of the record's first packet */
    uint64_t record; /* number of the record, from 0 */
    const struct spex_rule *rule;
    char what[128]; /* what was found there */
    uint64_t zero[2];
};

struct spex_verifier; /* opaque */

struct spex_verify_options {
    size_t size; /* sizeof(struct spex_verify_options) */
    /*
     * A list of <spex/features.h>. NULL: nothing is known about the implementation, so every
     * feature is allowed and `exact` rules are off.
     */
    const char *features;
};

/* options NULL: none. SPEX_NO_MEMORY, or what is wrong with the options. Since 1.0. */
enum spex_status spex_verifier_new(const struct spex_verify_options *options,
                                   struct spex_verifier **verifier, struct spex_error *error);
void spex_verifier_free(struct spex_verifier *verifier); /* since 1.0 */

/* Same, in the caller's memory: spex_verifier_size() bytes, aligned as for malloc. */
size_t spex_verifier_size(void); /* since 1.0 */
/* Since 1.0. */
enum spex_status spex_verifier_init(void *memory, const struct spex_verify_options *options,
                                    struct spex_verifier **verifier, struct spex_error *error);

/* Closed records seen so far. */
uint64_t spex_verifier_records(const struct spex_verifier *verifier); /* since 1.0 */

/* Leave a rule out, by id. SPEX_INVALID if there is no such rule. Since 1.0. */
enum spex_status spex_verifier_ignore(struct spex_verifier *verifier, const char *rule);

/*
 * Supplies the next piece of a stream; base is the stream offset of data[0]. A piece that does
 * not continue the previous one begins a new stream. Unless the piece is the last, a packet cut
 * off at its end is not a violation but left over: the caller puts the last spex_verifier_rest
 * bytes (fewer than SPEX_PACKET_MAX) in front of the next piece.
 */
void spex_verifier_feed(struct spex_verifier *verifier, const uint8_t *data, size_t size,
                        uint64_t base, bool last);               /* since 1.0 */
size_t spex_verifier_rest(const struct spex_verifier *verifier); /* since 1.0 */

/*
 * The next violation, record by record: SPEX_OK, or SPEX_END at the end of the piece. Damaged
 * bytes, at the beginning or later, are checked as they stand; nothing is skipped.
 */
enum spex_status spex_verifier_next(struct spex_verifier *verifier,
                                    struct spex_violation *violation); /* since 1.0 */

/*
 * Several threads may each check a part of a stream: to check a record one only needs to know
 * where the previous one began and ended. With `until`, a verifier stops before the first
 * record that begins at or after that offset; at_place then returns true and sets the place.
 * feed_at begins at such a place.
 */
struct spex_verifier_place {
    uint64_t begin, end;
    uint64_t zero[2];
};
void spex_verifier_until(struct spex_verifier *verifier, uint64_t offset); /* since 1.0 */
bool spex_verifier_at_place(const struct spex_verifier *verifier,
                            struct spex_verifier_place *place); /* since 1.0 */
/* Since 1.0. */
void spex_verifier_feed_at(struct spex_verifier *verifier, struct spex_verifier_place place,
                           const uint8_t *data, size_t size, uint64_t base, bool last);

/* Every rule; NULL past the last. */
const struct spex_rule *spex_verifier_rule(size_t index); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
