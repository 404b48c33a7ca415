/*
 * What a profile says in words, as data: what was found, where, the numbers that say so, what to
 * do about it and which command shows the evidence. Every front end shows these and no others.
 */
#ifndef ANALYSIS_FINDINGS_H
#define ANALYSIS_FINDINGS_H

#include "base/json.h"

#include <spex/analysis.h>

enum finding_kind {
    FINDING_FAR_DATA,     /* data from beyond the core's own caches */
    FINDING_PEER_DATA,    /* data from other cores' caches */
    FINDING_TABLE_WALKS,  /* page tables are walked */
    FINDING_REMOTE_DATA,  /* data from another socket */
    FINDING_MISPREDICTED, /* one branch makes many of the mispredicts */
    FINDING_FALSE_SHARING,
    FINDING_TRUE_SHARING,
    FINDING_MIXED_SHARING,
    FINDING_LOCK, /* threads wait for the same lock */
    FINDING_KINDS
};

enum { FINDING_NUMBERS = 4 };

struct finding {
    enum finding_kind kind;
    double share; /* share of the time (or of samples without times) that it is about; findings are
                     sorted by it */
    char *place;  /* function and line, or data; NULL: the whole profile */
    char *text;   /* what was found */
    char *advice; /* what to do */
    char *see;    /* the command that shows the evidence */
    struct {
        const char *name; /* as in JSON */
        double value;
    } numbers[FINDING_NUMBERS]; /* the evidence; name NULL: no more */
};

struct findings;

/* Samples of the analysis must have SPEX_WANT_SYMBOL, _DATA and, for shares of time, _SPENT. */
enum spex_status findings_new(struct spex_analysis *analysis, struct findings **findings,
                              struct spex_error *error);
void findings_free(struct findings *findings);
/* A spex_sample_sink: all samples. */
void findings_sink(void *findings, const struct spex_sample *samples, size_t count);
extern const struct sink_shards findings_shards;
/* After the last sample; sharing, which is finished, may be NULL. Largest share first. */
void findings_finish(struct findings *findings, const struct spex_sharing *sharing);
const struct finding *findings_at(const struct findings *findings, size_t index); /* or NULL */

/* A score below this is not worth a person's time. */
#define FINDINGS_SCORE 0.1

/* Of one line, whatever its score; the caller clears it. */
void finding_of_line(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                     const struct spex_shared_line *line, struct finding *finding);
void finding_clear(struct finding *finding);

/*
 * "shared+0x8", "0x4a20c8", "+8 of the 48-byte block from tree.c:88 parse": the data at an offset
 * of a line. The caller frees it.
 */
char *finding_data_name(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                        const struct spex_shared_line *line, unsigned offset);

/* The offset whose data names a line: the first that is in a block of the heap, else 0. */
unsigned finding_place(const struct spex_sharing *sharing, const struct spex_shared_line *line);

/* An array of objects (docs/schema.md); findings NULL: an empty one. */
void findings_write(const struct findings *findings, struct json *json);

#endif
