/*
 * What a profile says, as data: what was found, in which case, where, the numbers that say so and
 * the share of the time that it takes, which is what mending it saves at most. The words for it are
 * the front ends' (report/words.h).
 *
 *   findings.c       counts the samples of each instruction
 *   findings_find.c  what is found in these counts
 *   findings_code.c  in which case, from the code
 *   shared_parts.c   lines that threads share
 */
#ifndef ANALYSIS_FINDINGS_H
#define ANALYSIS_FINDINGS_H

#include <spex/analysis.h>

enum finding_kind {
    FINDING_FAR_DATA,         /* data from beyond the core's own caches */
    FINDING_PEER_DATA,        /* data from other cores' caches */
    FINDING_TABLE_WALKS,      /* page tables are walked */
    FINDING_REMOTE_DATA,      /* data from another socket */
    FINDING_MISPREDICTED,     /* a branch that is mispredicted */
    FINDING_DEPENDENT_LOADS,  /* each load needs the address that the one before it brings */
    FINDING_DEPENDENT_CHAIN,  /* operations that each need the result of the one before */
    FINDING_STORE_FORWARDING, /* loads of what was stored just before */
    FINDING_DIVISION,
    FINDING_SPLIT_ACCESSES, /* loads that lie across two cache lines */
    FINDING_COLD_CODE,      /* code that the instruction cache does not hold */
    FINDING_FALSE_SHARING,
    FINDING_TRUE_SHARING,
    FINDING_MIXED_SHARING,
    FINDING_LOCK, /* threads wait for the same lock */
    FINDING_KINDS
};

enum finding_case {
    CASE_ANY,
    CASE_CHASE,     /* loads: the address is what the load itself brought last time */
    CASE_GATHER,    /* it comes from another load */
    CASE_COMPUTED,  /* it is computed */
    CASE_STREAM,    /* it is next to the last one */
    CASE_STRIDE,    /* it is further on by the same distance each time */
    CASE_PAGES,     /* by a page or more */
    CASE_CONDITION, /* branches: a conditional one */
    CASE_LOOP,      /* that ends a loop */
    CASE_CALL,      /* an indirect call */
    CASE_JUMP,      /* an indirect jump */
    CASE_RETURN,
    CASE_MODEL,   /* table walks: in the model, whose pages are all of one size */
    CASE_BLOCKS,  /* sharing: of blocks that were allocated one by one */
    CASE_OBJECTS, /* of objects whose size is known */
    CASE_PARTS,   /* of parts with names */
    CASE_READS,   /* of what is mostly read */
    CASE_SPIN,    /* locks: threads do not sleep while they wait */
    FINDING_CASES
};

enum { FINDING_NUMBERS = 10 };

struct finding {
    enum finding_kind kind;
    enum finding_case how;
    double share;     /* of the time (or of latencies where there are no times) that it takes; */
    double low, high; /* its 95% interval; findings are sorted by share */
    uint64_t samples; /* that say so */
    char *place;      /* function and line, or data; NULL: the whole profile */
    char *function;   /* or NULL */
    char *data;       /* that it is about, or NULL */
    char *users;      /* threads; of sharing only */
    struct {
        const char *name; /* as in JSON */
        double value;
    } numbers[FINDING_NUMBERS]; /* the evidence; name NULL: no more */
};
/* A number of the evidence; NAN if there is none of that name. */
double finding_number(const struct finding *finding, const char *name);

struct findings;

/* Samples of the analysis must have SPEX_WANT_SYMBOL, _DATA and, for shares of time, _SPENT. */
enum spex_status findings_new(struct spex_analysis *analysis, struct findings **findings,
                              struct spex_error *error);
void findings_free(struct findings *findings);
/* A spex_sample_sink: all samples. */
void findings_sink(void *findings, const struct spex_sample *samples, size_t count);
extern const struct spex_sink_shards findings_shards;
/* After the last sample; sharing, which is finished, may be NULL. Largest share first. */
void findings_finish(struct findings *findings, const struct spex_sharing *sharing);
const struct finding *findings_at(const struct findings *findings, size_t index); /* or NULL */
/* Are shares of time? Else of latencies. */
bool findings_timed(const struct findings *findings);

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

/* ---- inside ---- */

/*
 * What a sample's time is for: table walks have their part of it, the rest is of one other kind.
 * PEER and FAR: data from there; WRONG: a mispredicted branch.
 */
enum { SPLITS = 4 };
enum closer { FAR, PEER, WRONG, REST, WALKS, CLOSER };

/* An instruction and the sums of its samples of each kind. */
struct spot {
    struct spex_module *module;
    const struct spex_symbol *symbol;
    uint64_t address, time[CLOSER];
    uint64_t low, high; /* data addresses of PEER */
    uint64_t late_time; /* of walks whose part is not known: a counter ended; their translation */
    uint32_t late, late_cycles;
    /* near loads that lie across two lines if they are of more than 1, 2, 4, 8 bytes, and a cycle
     * of each */
    uint32_t split[SPLITS];
    uint64_t split_cycle[SPLITS];
    uint32_t samples[CLOSER], branches;
    int32_t pid;
};

struct found {
    struct finding *items;
    size_t count, capacity;
};

struct spots { /* what was counted; in order of module and address */
    struct spot *list;
    size_t count;
    uint64_t samples;
    uint64_t all; /* time, or latencies */
    uint64_t memory, accesses, remote, remote_time;
    bool timed;
};
void findings_find(struct spex_analysis *analysis, const struct spots *spots, struct found *found);
void finding_add_number(struct finding *finding, const char *name, double value);

/* How a load or store comes by its address, in the loop that it is in; *stride of STREAM. */
enum finding_case code_address_case(struct spex_analysis *analysis, struct spex_module *module,
                                    const struct spex_symbol *symbol, uint64_t address,
                                    int64_t *stride);
/* What kind of branch it is. */
enum finding_case code_branch_case(struct spex_analysis *analysis, struct spex_module *module,
                                   uint64_t address);
/* Bytes that an instruction accesses; 0: not known. */
unsigned code_access_bytes(struct spex_analysis *analysis, struct spex_module *module,
                           uint64_t address);
bool code_divides(struct spex_analysis *analysis, struct spex_module *module, uint64_t address);
/*
 * Operations that wait for one another in a circle, which an instruction waits for in the end:
 * DEPENDENT_LOADS, _CHAIN, STORE_FORWARDING or DIVISION; the one with the smallest address, and
 * whether the instruction is one of them. FINDING_KINDS: it waits for none, or they take one cycle
 * each.
 */
enum finding_kind code_circle(struct spex_analysis *analysis, struct spex_module *module,
                              uint64_t address, uint64_t *first, bool *inside);
/* Is it made to take a lock: a swap or a compare and swap that acquires, a load-acquire exclusive?
 */
bool code_takes_lock(struct spex_analysis *analysis, struct spex_module *module, uint64_t address);
/* The smallest loop around an instruction, *end behind it; of one instruction if there is none. */
void code_loop(struct spex_analysis *analysis, struct spex_module *module,
               const struct spex_symbol *symbol, uint64_t address, uint64_t *start, uint64_t *end);

#endif
