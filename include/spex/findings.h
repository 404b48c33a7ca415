/*
 * What a profile says, as data: what was found, in which case, where, the numbers that say so, and
 * the share of the time that it takes, which is what mending it saves at most. Kinds and cases are
 * codes; the words for them are the host's (docs/findings.md has those of the commands).
 *
 *     struct spex_findings *findings;
 *     const struct spex_finding *finding;
 *     status = spex_findings_new(analysis, &findings, &error);
 *     sink = spex_sink_findings(findings);
 *     status = spex_analysis_pass(analysis, &sink, 1, &error);
 *     status = spex_findings_finish(findings, NULL);
 *     for (size_t i = 0; (finding = spex_findings_at(findings, i)); i++)
 *         printf("%d %.0f%% %s\n", finding->kind, 100 * finding->share, finding->place);
 *     spex_findings_free(findings);
 *
 * Ownership: findings belong to their handle, which is ended before the analysis. Its memory is of
 * the analysis's account. Threads: as the analysis, which belongs to one.
 */
#ifndef SPEX_FINDINGS_H
#define SPEX_FINDINGS_H

#include <spex/analysis.h>
#include <spex/sinks.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spex_finding_kind {
    SPEX_FINDING_FAR_DATA,         /* data from beyond the core's own caches */
    SPEX_FINDING_PEER_DATA,        /* data from other cores' caches */
    SPEX_FINDING_TABLE_WALKS,      /* page tables are walked */
    SPEX_FINDING_REMOTE_DATA,      /* data from another socket */
    SPEX_FINDING_MISPREDICTED,     /* a branch that is mispredicted */
    SPEX_FINDING_DEPENDENT_LOADS,  /* each load needs the address that the one before it brings */
    SPEX_FINDING_DEPENDENT_CHAIN,  /* operations that each need the result of the one before */
    SPEX_FINDING_STORE_FORWARDING, /* loads of what was stored just before */
    SPEX_FINDING_DIVISION,
    SPEX_FINDING_SPLIT_ACCESSES, /* loads that lie across two cache lines */
    SPEX_FINDING_COLD_CODE,      /* code that the instruction cache does not hold */
    SPEX_FINDING_FALSE_SHARING,
    SPEX_FINDING_TRUE_SHARING,
    SPEX_FINDING_MIXED_SHARING,
    SPEX_FINDING_LOCK, /* threads wait for the same lock */
    SPEX_FINDING_COUNT
};

enum spex_finding_case {
    SPEX_CASE_ANY,
    SPEX_CASE_CHASE,     /* loads: the address is what the load itself brought last time */
    SPEX_CASE_GATHER,    /* loads: the address comes from another load */
    SPEX_CASE_COMPUTED,  /* loads: the address is computed */
    SPEX_CASE_STREAM,    /* loads: the address is next to the last one */
    SPEX_CASE_STRIDE,    /* loads: the same distance each time */
    SPEX_CASE_PAGES,     /* loads: the same distance each time, a page or more */
    SPEX_CASE_CONDITION, /* branches: a conditional branch */
    SPEX_CASE_LOOP,      /* branches: a conditional branch that ends a loop */
    SPEX_CASE_CALL,      /* branches: an indirect call */
    SPEX_CASE_JUMP,      /* branches: an indirect jump */
    SPEX_CASE_RETURN,
    SPEX_CASE_MODEL,   /* table walks: in the model, whose pages are all of one size */
    SPEX_CASE_BLOCKS,  /* sharing: blocks that were allocated one by one */
    SPEX_CASE_OBJECTS, /* sharing: objects of known size */
    SPEX_CASE_PARTS,   /* sharing: parts with names */
    SPEX_CASE_READS,   /* sharing: data that is mostly read */
    SPEX_CASE_SPIN,    /* locks: threads do not sleep while they wait */
    SPEX_CASE_SLEEP,   /* locks: they sleep; the share is of the elapsed time of all threads */
    SPEX_CASE_COUNT
};

enum { SPEX_FINDING_NUMBERS = 10 };

struct spex_evidence { /* a number that supports the finding */
    const char *name;  /* its name in the commands' JSON (docs/schema.md); NULL: no more */
    double value;
};

struct spex_finding {
    enum spex_finding_kind kind;
    enum spex_finding_case how;
    double share;     /* share of the time (or of latencies if there are no times); */
    double low, high; /* 95% interval of the share */
    uint64_t samples; /* samples that support it */
    char *place;      /* function and line, or data; NULL: the whole profile */
    char *function;   /* or NULL */
    char *data;       /* the data it is about, or NULL */
    char *users;      /* threads; of sharing only */
    struct spex_evidence numbers[SPEX_FINDING_NUMBERS];
};
/* A number of the evidence; NAN if there is none of that name. */
double spex_finding_number(const struct spex_finding *finding, const char *name); /* since 1.4 */

/* ---- of a profile ---- */

struct spex_findings;

/*
 * The analysis must want SPEX_WANT_SYMBOL and _DATA, for shares of time also _SPENT. SPEX_NO_MEMORY
 * is the only error.
 */
enum spex_status spex_findings_new(struct spex_analysis *analysis, struct spex_findings **findings,
                                   struct spex_error *error); /* since 1.4 */
void spex_findings_free(struct spex_findings *findings);      /* NULL is ignored; since 1.4 */
/* Takes all samples of one pass, by all threads. */
struct spex_sink spex_sink_findings(struct spex_findings *findings); /* since 1.4 */
/*
 * After that pass, once. sharing has been finished; its lines become findings, too. NULL: without
 * them. After SPEX_NO_MEMORY there are no findings.
 */
enum spex_status spex_findings_finish(struct spex_findings *findings,
                                      const struct spex_sharing *sharing); /* since 1.4 */
/* Largest share first; NULL past the last, or if findings is NULL. Since 1.4. */
const struct spex_finding *spex_findings_at(const struct spex_findings *findings, size_t index);
/* Whether the shares are of time; otherwise they are of latencies. */
bool spex_findings_timed(const struct spex_findings *findings); /* since 1.4 */

/* ---- of one line that threads share ---- */

/* Lines with a score below this are not worth a person's time, and no findings of a profile. */
#define SPEX_FINDING_SCORE 0.1

/* Of one line, whatever its score; to be freed before the analysis is closed. */
enum spex_status spex_finding_of_line(struct spex_analysis *analysis,
                                      const struct spex_sharing *sharing,
                                      const struct spex_shared_line *line,
                                      struct spex_finding **finding); /* since 1.4 */
void spex_finding_free(struct spex_finding *finding); /* NULL is ignored; since 1.4 */
/*
 * What a line holds: "shared+0x8", "0x4a20c8", "+8 of the 48-byte block from tree.c:88 parse". Cut
 * at capacity and terminated; returns the length of the whole text. Since 1.4.
 */
size_t spex_finding_line_text(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                              const struct spex_shared_line *line, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
