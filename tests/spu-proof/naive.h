/*
 * A second, naive Statistical Profiling Unit, written straight from the manual.
 *
 * One operation at a time, one byte at a time, one function per rule or
 * pseudocode function, and nothing stored that can be derived. It shares with
 * the unit under test only the vocabulary: op.h, features.h, and the names of
 * choices and callback arguments in spu.h. Register file, Effective values,
 * traps, packets and buffer are its own.
 *
 * Comments name the section, the rule or the requirement (spec/requirements.tsv).
 */
#ifndef NAIVE_H
#define NAIVE_H

#include "spu/config.h"

enum { NAIVE_SLOTS = 8, NAIVE_HELD = 8, NAIVE_PMU = 16, NAIVE_UNSEEN = 64, NAIVE_PARTS = 16 };

/* What the world answers for one byte, and what happens to the world. */
struct naive_world {
    void *user;
    void (*write)(void *user, uint64_t address, uint8_t byte, struct spex_spu_stop *stop);
    bool (*counter)(void *user, uint64_t *count);
    uint8_t (*random)(void *user);
};

/* A sampled operation between selection and completion. */
struct naive_sample {
    bool used;
    uint64_t pc;
    unsigned el, security;
    uint32_t flags;              /* as begun: speculative and the like */
    bool context1, context2, pa; /* allowed when it was sampled: DAT-189 */
    uint32_t contextidr1, contextidr2;
    bool timed, timestamp; /* a time is wanted, and was there */
    uint64_t offset, time;
    uint64_t order; /* in the program, among samples and branches */
    bool previous;  /* previous branch target: DAT-38 */
    uint64_t previous_target;
    bool nv2_va; /* profiling was enabled at EL2: DAT-101 */
};

struct naive_record {
    uint8_t bytes[2304];
    size_t size;
};

struct naive {
    struct arch_features f;
    struct spu_choices c;
    struct naive_world world;
    bool n1, hisi; /* order of packets */
    /* Registers, without their RES0 bits. */
    uint64_t PMSCR_EL1, PMSCR_EL2, PMSICR_EL1, PMSIRR_EL1, PMSFCR_EL1, PMSEVFR_EL1, PMSNEVFR_EL1,
        PMSLATFR_EL1, PMSDSFR_EL1, PMBLIMITR_EL1, PMBPTR_EL1, PMBSR_EL1, PMBSR_EL2, PMBSR_EL3,
        PMBMAR_EL1, MDCR_EL2, MDCR_EL3, HCR_EL2, SCR_EL3, CNTHCTL_EL2, CNTVOFF_EL2, CNTPOFF_EL2,
        CONTEXTIDR_EL1, CONTEXTIDR_EL2, PMCR_EL0, HDFGRTR_EL2, HDFGWTR_EL2, HDFGRTR2_EL2,
        HDFGWTR2_EL2, HFGITR_EL2;
    /* register_sync=context: direct writes that profiling operations do not see yet. */
    struct {
        unsigned encoding;
        uint64_t value;
    } unseen[NAIVE_UNSEEN];
    unsigned unseen_count;
    struct spex_spu_state pe;
    bool was_enabled; /* for the move from disabled to enabled, D17.3.3 */
    bool waived;      /* pointer_rule: writes are silently discarded until disabled */
    unsigned after;   /* select_after: members to go */
    uint64_t member;  /* number of the next, for select_group */
    bool reload_due;  /* COUNT is zero by a selection */
    struct naive_sample slot[NAIVE_SLOTS];
    struct naive_record held[NAIVE_HELD];
    unsigned held_count;
    /* fault_lag: a fault that is reported after some more samples, BUF-15. */
    struct {
        bool pending, external;
        unsigned fsc, samples;
        uint32_t flags;
        uint64_t start, at;
    } late;
    /* The most recently taken branch, D17.6.3.1. */
    bool branch_valid, branch_fresh;
    uint64_t branch_target, branch_order, order;
    unsigned rotate; /* part_choice=rotate */
    /* What came out. */
    uint64_t pmu[NAIVE_PMU]; /* by naive_pmu_index */
    uint64_t triggers, serrors;
    uint64_t impossible; /* events that operations cannot have: D18.2.6 */
    uint64_t impossible_addresses;
    size_t whole; /* bytes of whole records written; the caller clears it */
};

unsigned naive_pmu_index(unsigned event);

void naive_init(struct naive *n, const struct arch_features *features,
                const struct spu_choices *choices, const struct naive_world *world);

/* The register, whatever the state; false if there is none in this feature set. */
bool naive_get(struct naive *n, unsigned encoding, uint64_t *value);
bool naive_set(struct naive *n, unsigned encoding, uint64_t value);

/* MRS and MSR. */
enum spex_sysreg_result naive_read(struct naive *n, unsigned encoding, unsigned rt, uint64_t *value,
                                   struct spex_sysreg_detail *syndrome);
enum spex_sysreg_result naive_write(struct naive *n, unsigned encoding, unsigned rt, uint64_t value,
                                    struct spex_sysreg_detail *syndrome);
enum spex_sysreg_result naive_psb(struct naive *n, struct spex_sysreg_detail *syndrome);

void naive_state(struct naive *n, const struct spex_spu_state *state);
void naive_context_sync(struct naive *n);
void naive_exception_taken(struct naive *n);

bool naive_member(const struct naive *n, uint32_t flags);
int naive_begin(struct naive *n, uint64_t pc, uint32_t flags);
void naive_complete(struct naive *n, int slot, const struct spex_op *op,
                    const struct spex_outcome *outcome);
void naive_abandon(struct naive *n, int slot);
bool naive_op(struct naive *n, uint64_t pc, const struct spex_op *op,
              const struct spex_outcome *outcome);
void naive_external_abort(struct naive *n, uint32_t flags);
bool naive_impdef_event(struct naive *n, uint16_t mss, uint32_t mss2);

/* Questions. */
void naive_status(const struct naive *n, struct spex_spu_status *status);
void naive_exception(const struct naive *n, unsigned source, struct spex_spu_exception *exception);
bool naive_frozen(const struct naive *n, enum spex_pmu_range range);

/* Of naive_record.c: what the record of a finished operation holds, and its type. */
struct naive_finished {
    unsigned type; /* B, LD, ST, FP, SIMD flags as bits 0 to 4 of PMSFCR_EL1.TYPE */
    uint64_t events;
    uint32_t total;
    bool load, source; /* a load with a Data Source, for FDS */
    uint16_t data_source;
    struct naive_record record;
};
void naive_finish(struct naive *n, const struct naive_sample *sample, const struct spex_op *op,
                  const struct spex_outcome *outcome, struct naive_finished *finished);
/* Whether the type filter keeps a sample of this type. */
bool naive_type_kept(const struct naive *n, unsigned type);
/* Architecturally executed without an exception. */
bool naive_executed(const struct naive *n, uint32_t flags);
bool naive_is_branch(const struct naive *n, const struct spex_op *op,
                     const struct spex_outcome *outcome);

#endif
