/*
 * The Statistical Profiling Unit of one PE (Arm ARM D17).
 *
 * A host (an emulator, a simulator, a test) tells the unit what the PE does:
 * register accesses, changes of state, operations. The unit samples, collects,
 * filters, and writes records through the host's callbacks. docs/embedding.md
 * walks through an example.
 *
 * Ownership: the host owns the unit and everything it passes in; nothing is kept but the host
 * struct's contents. Threads: a unit belongs to one thread at a time; units share nothing. The
 * unit allocates only in spex_spu_new, never prints, never exits. Callbacks must not call back
 * into the same unit, except where their description allows it.
 */
#ifndef SPEX_SPU_H
#define SPEX_SPU_H

#include <spex/op.h>
#include <spex/sysreg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spex_spu; /* opaque; one per PE */

/* ---- choices ---- */

/* What the manual leaves open, by name: `spex spu choices` prints the rows. */
struct spex_spu_choice {
    const char *name;         /* "isb_branch" */
    const char *values;       /* names of the numbers from min on; "" for a plain number */
    const char *requirements; /* ids of docs/conformance.md */
    const char *text;
    uint64_t standard, min, max;
};
/* The row at index, or NULL past the last. */
const struct spex_spu_choice *spex_spu_choice_at(size_t index); /* since 1.0 */

/* ---- the host ---- */

enum spex_spu_store_flag {
    SPEX_STORE_PRIVILEGED = 1u << 0,    /* always set: D17-11 Permission */
    SPEX_STORE_PAN_IGNORED = 1u << 1,   /* always set: PSTATE.PAN and E0PD do not apply */
    SPEX_STORE_TAG_UNCHECKED = 1u << 2, /* always set */
    /* update the Access flag and dirty state as the translation regime does */
    SPEX_STORE_AF_DIRTY = 1u << 3,
    SPEX_STORE_NVM = 1u << 4,           /* address is an IPA (EL1 with stage 2) or PA: no stage 1 */
    SPEX_STORE_NO_WATCHPOINT = 1u << 5, /* always set: BUF-153 */
    SPEX_STORE_TRANSLATE_ONLY = 1u << 6, /* count is 0: translate for writing, write nothing */
};

/* One run of bytes for the Profiling Buffer, in ascending order. Never at or past LIMIT. */
struct spex_spu_store {
    uint64_t address;
    const uint8_t *bytes;
    size_t count;
    uint32_t flags;   /* enum spex_spu_store_flag */
    uint8_t el;       /* owning Exception level, 1 or 2: its translation regime */
    uint8_t security; /* owning Security state, enum spex_security */
    bool e2h;         /* owner EL2: the EL2&0 regime */
    uint8_t attr, sh; /* PMBMAR_EL1, with SPEX_STORE_NVM */
};

enum spex_spu_stop_kind {
    SPEX_STOP_NONE,  /* everything was written */
    SPEX_STOP_FAULT, /* Alignment or MMU fault at address + written */
    SPEX_STOP_ABORT, /* External abort at address + written */
};

enum spex_spu_stop_flag {
    /* reported as stage 2, except for a GPF that is not on a walk; clear: stage 1 */
    SPEX_STOP_STAGE2 = 1u << 0,
    SPEX_STOP_GPC = 1u << 1,          /* Granule Protection Check fault that is not a GPF */
    SPEX_STOP_WALK = 1u << 2,         /* abort: on a translation table walk or update */
    SPEX_STOP_GPT = 1u << 3,          /* abort: on a granule protection table walk */
    SPEX_STOP_TOP_LEVEL = 1u << 4,    /* stage 2 Permission fault, FEAT_THE */
    SPEX_STOP_ASSURED_ONLY = 1u << 5, /* stage 2 Permission fault, FEAT_THE */
    SPEX_STOP_OVERLAY = 1u << 6,      /* Permission fault */
    SPEX_STOP_DIRTY_BIT = 1u << 7,    /* Permission fault */
    SPEX_STOP_ASYNC = 1u << 8,        /* abort: asynchronous, so all bytes count as written */
};

/*
 * What stopped a write. fsc: for a fault, the DFSC encoding with its level (0x04..0x07
 * translation, 0x28 GPF, ...); for an abort on a walk, that of the synchronous walk
 * (0x13..0x17, 0x1b); otherwise ignored.
 */
struct spex_spu_stop {
    uint8_t kind; /* enum spex_spu_stop_kind */
    uint8_t fsc;
    uint16_t flags; /* enum spex_spu_stop_flag */
    size_t written; /* bytes of the run that were written before the stop; ignored for NONE */
    uint64_t zero;
};

/* Source of an SPE Profiling exception: the PMBSR_ELx whose S bit makes it pending. */
struct spex_spu_exception {
    uint8_t source; /* 1, 2, 3, or 0 if none is pending */
    uint8_t target; /* Exception level it is or would be taken to */
    bool pending;   /* enabled and S set */
    bool unmasked;  /* the PE takes it now (RYZJQX); otherwise it stays pending */
    uint8_t zero[4];
    uint64_t esr; /* ESR_ELx when taken: EC 0x3D, FSC 1, asynchronous */
};

/* PMU events of the unit (D14.3). */
enum spex_pmu_event {
    SPEX_PMU_SAMPLE_POP = 0x4000,
    SPEX_PMU_SAMPLE_FEED = 0x4001,
    SPEX_PMU_SAMPLE_FILTRATE = 0x4002,
    SPEX_PMU_SAMPLE_COLLISION = 0x4003,
    SPEX_PMU_SAMPLE_FEED_DS = 0x8122,
    SPEX_PMU_SAMPLE_BUFFER_FULL = 0x8123,
    SPEX_PMU_SAMPLE_FEED_BR = 0x812a,
    SPEX_PMU_SAMPLE_FEED_LD = 0x812b,
    SPEX_PMU_SAMPLE_FEED_ST = 0x812c,
    SPEX_PMU_SAMPLE_FEED_OP = 0x812d,
    SPEX_PMU_SAMPLE_FEED_EVENT = 0x812e,
    SPEX_PMU_SAMPLE_FEED_LAT = 0x812f,
    SPEX_PMU_SAMPLE_FEED_FP = 0x8348,
    SPEX_PMU_SAMPLE_FEED_SIMD = 0x8349,
};
/* "SAMPLE_POP", or NULL; and from name to event (SPEX_INVALID if there is none). */
const char *spex_pmu_event_name(unsigned event);                         /* since 1.0 */
enum spex_status spex_pmu_event_find(const char *name, unsigned *event); /* since 1.0 */

/*
 * All may be NULL. Defaults: writes succeed and are discarded, the counter is disabled, events,
 * triggers and levels are dropped, random bytes come from seed.
 */
struct spex_spu_host {
    size_t size; /* sizeof(struct spex_spu_host) */
    void *user;  /* first argument of each callback */
    /* Write bytes to the Profiling Buffer; fill *stop (zero on entry) if something stops it. */
    void (*write)(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop);
    /* PhysicalCountInt(); false if the system counter is disabled (CNTCR.EN is 0). */
    bool (*counter)(void *user, uint64_t *count);
    /* A PMU event happened count times. SAMPLE_POP arrives in bulk: see spex_spu_flush. */
    void (*pmu)(void *user, unsigned event, uint64_t count);
    /* CTI trigger: a record was made (SPESample). */
    void (*trigger)(void *user);
    /* An External abort on a buffer write is taken as an SError exception. */
    void (*serror)(void *user, uint64_t address);
    /* PMBIRQ changed. */
    void (*irq)(void *user, bool level);
    /* The SPE Profiling exception, taken or pending, has changed. */
    void (*exception)(void *user, const struct spex_spu_exception *exception);
    /* A random byte. */
    uint8_t (*random)(void *user);
};

struct spex_spu_config {
    size_t size;          /* sizeof(struct spex_spu_config) */
    const char *features; /* a list of <spex/features.h>; NULL: "max" */
    const char *choices;  /* "in_flight=4,isb_branch=yes"; NULL or "": all at their defaults */
    const struct spex_spu_host *host; /* copied; NULL: none */
    uint64_t seed;                    /* seed of the random numbers */
};

/* SPEX_OK, or what is wrong with the configuration: SPEX_INVALID, SPEX_RANGE, SPEX_UNSUPPORTED. */
enum spex_status spex_spu_config_check(const struct spex_spu_config *config,
                                       struct spex_error *error); /* since 1.0 */

/* ---- make, free, save ---- */

/*
 * config NULL: all defaults, no host. Fails as spex_spu_config_check does, or with
 * SPEX_NO_MEMORY. Copies what it needs of config.
 */
enum spex_status spex_spu_new(const struct spex_spu_config *config, struct spex_spu **unit,
                              struct spex_error *error); /* since 1.0 */
void spex_spu_free(struct spex_spu *unit);               /* since 1.0 */

/* Same, in the caller's memory: spex_spu_size() bytes, aligned as for malloc. */
size_t spex_spu_size(void); /* since 1.0 */
enum spex_status spex_spu_init(void *memory, const struct spex_spu_config *config,
                               struct spex_spu **unit, struct spex_error *error); /* since 1.0 */
void spex_spu_fini(struct spex_spu *unit); /* flushes, as spex_spu_free does; since 1.0 */

/*
 * Everything but the configuration, as bytes that any machine can restore into a unit of the
 * same features and choices. Save returns the size needed; it writes only if capacity is
 * enough. Restore: SPEX_INVALID, SPEX_TRUNCATED or SPEX_UNSUPPORTED (other version or
 * configuration) leave the unit as it was. PMU events not yet reported are not saved: a host
 * that counts them calls spex_spu_flush first. Restore reports PMBIRQ and the exception to the
 * host if they differ.
 */
size_t spex_spu_save(const struct spex_spu *unit, uint8_t *bytes, size_t capacity); /* since 1.0 */
/* Since 1.0. */
enum spex_status spex_spu_restore(struct spex_spu *unit, const uint8_t *bytes, size_t size);

/* Warm reset: registers, samples in flight and held records; the PE state stays. */
void spex_spu_reset(struct spex_spu *unit); /* since 1.0 */

/*
 * Sets the controls as TF-A and a Linux boot stub leave them for a Non-secure EL1: SCR_EL3.NS,
 * buffer owned by Non-secure EL1, no traps, physical time. State: EL1, Non-secure.
 */
void spex_spu_boot(struct spex_spu *unit); /* since 1.0 */

/* ---- the PE ---- */

struct spex_spu_state {
    uint8_t el;       /* current Exception level */
    uint8_t security; /* enum spex_security; Root (or Secure) at EL3 */
    uint8_t aarch32;  /* bit n: ELn uses AArch32 */
    bool halted;      /* Debug state */
    bool sdd;         /* EDSCR.SDD: EL3 traps in Debug state are UNDEFINED */
    bool pm;          /* PSTATE.PM */
    uint8_t zero[10];
};

/* Sets the state of the PE from the next operation on. Cheap if nothing changes. */
void spex_spu_set_state(struct spex_spu *unit, const struct spex_spu_state *state); /* since 1.0 */
void spex_spu_get_state(const struct spex_spu *unit, struct spex_spu_state *state); /* since 1.0 */

/* Reports a context synchronization event: ISB, exception entry, exception return. */
void spex_spu_context_sync(struct spex_spu *unit); /* since 1.0 */

/*
 * Reports that any exception was taken: the previous branch target may become stale.
 * Includes spex_spu_context_sync.
 */
void spex_spu_exception_taken(struct spex_spu *unit); /* since 1.0 */

/* ---- registers ---- */

enum spex_sysreg_result {
    SPEX_SYSREG_OK,        /* done */
    SPEX_SYSREG_UNDEFINED, /* the instruction is UNDEFINED */
    SPEX_SYSREG_TRAP_EL2,  /* esr is for ESR_EL2 */
    SPEX_SYSREG_TRAP_EL3,  /* esr is for ESR_EL3 */
    SPEX_SYSREG_MEMORY,    /* FEAT_NV2: an access to VNCR_EL2.BADDR + offset instead */
    SPEX_SYSREG_NOT_OURS,  /* not a register that the unit knows */
};

struct spex_sysreg_detail {
    uint64_t esr;    /* TRAP_*: EC 0x18; UNDEFINED: EC 0 */
    uint32_t offset; /* MEMORY */
    uint32_t zero;
};

/*
 * MRS and MSR in the current state of the PE; rt is the register number of the
 * instruction (for the syndrome). detail may be NULL. Nothing changes and
 * *value is untouched unless the result is SPEX_SYSREG_OK.
 *
 * Registers of other blocks (owner PE in sysreg.def) are read and written with
 * the check of the Exception level alone; their own traps are the host's. Since 1.0.
 */
enum spex_sysreg_result spex_spu_read(struct spex_spu *unit, unsigned encoding, unsigned rt,
                                      uint64_t *value, struct spex_sysreg_detail *detail);
/* Since 1.0. */
enum spex_sysreg_result spex_spu_write(struct spex_spu *unit, unsigned encoding, unsigned rt,
                                       uint64_t value, struct spex_sysreg_detail *detail);

/*
 * The result of an access without performing it: for engines that ask before they act. Since 1.0.
 */
enum spex_sysreg_result spex_spu_check(const struct spex_spu *unit, unsigned encoding, unsigned rt,
                                       bool read, struct spex_sysreg_detail *detail);

/*
 * The register itself, whatever the state: no trap, no redirection. RES0 and read-only bits
 * still apply. For hosts that own a register, for debuggers and tests. False if the unit does
 * not have the register.
 */
bool spex_spu_get(const struct spex_spu *unit, unsigned encoding, uint64_t *value); /* since 1.0 */
bool spex_spu_set(struct spex_spu *unit, unsigned encoding, uint64_t value);        /* since 1.0 */

/*
 * PSB CSYNC. OK, or a trap by HFGITR_EL2.PSBCSYNC. A NOP in AArch32, and without effect when
 * there is nothing to synchronize. The host completes all earlier operations before this call.
 * Since 1.0.
 */
enum spex_sysreg_result spex_spu_psb(struct spex_spu *unit, struct spex_sysreg_detail *detail);

/* ---- operations ---- */

/*
 * Two ways that give the same records:
 *
 * One at a time: spex_spu_op for every operation.
 *
 * In blocks: spex_spu_until says how many members of the sample population may
 * pass before one that may be sampled (UINT64_MAX: profiling is off here). Pass
 * at most that many with spex_spu_pass; describe the next one with spex_spu_op,
 * or with spex_spu_begin and spex_spu_complete.
 *
 * Population: operations with SPEX_OUT_SPECULATIVE, SPEX_OUT_NO_INSN or
 * SPEX_OUT_NONARCH_EXC are members or not by choice: spex_spu_member.
 */
struct spex_spu_quiet { /* the first member of every unit; for the inline functions only */
    uint64_t until;
    bool wants_branches;
};

static inline uint64_t spex_spu_until(const struct spex_spu *unit)
{
    return ((const struct spex_spu_quiet *)unit)->until;
}

/* n members of the population passed without being described; n <= spex_spu_until(unit). */
static inline void spex_spu_pass(struct spex_spu *unit, uint64_t n)
{
    struct spex_spu_quiet *quiet = (struct spex_spu_quiet *)unit;
    if (quiet->until != UINT64_MAX)
        quiet->until -= n;
}

/*
 * Takes back the last n members passed since any other function of the unit was called: for a
 * block that was counted in advance and ended early.
 */
static inline void spex_spu_unpass(struct spex_spu *unit, uint64_t n)
{
    struct spex_spu_quiet *quiet = (struct spex_spu_quiet *)unit;
    if (quiet->until != UINT64_MAX)
        quiet->until += n;
}

/*
 * Whether the previous branch target is needed (FEAT_SPE_PBT): then call
 * spex_spu_note_branch.
 */
static inline bool spex_spu_wants_branches(const struct spex_spu *unit)
{
    return ((const struct spex_spu_quiet *)unit)->wants_branches;
}

/*
 * Reports a taken branch, exception return, or exception-generating instruction among the
 * passed operations, whether or not profiling is enabled. Only the last one before a call of
 * any other function (until, pass and unpass aside) matters. Operations that are described need
 * no note.
 */
void spex_spu_note_branch(struct spex_spu *unit, const struct spex_op *op,
                          const struct spex_outcome *outcome); /* since 1.0 */

/*
 * Whether an operation with these flags (enum spex_outcome_flag) is in the sample
 * population.
 */
bool spex_spu_member(const struct spex_spu *unit, uint32_t flags); /* since 1.0 */

enum { SPEX_SPU_NOT_SAMPLED = -1 };

/*
 * The next operation of the PE starts at pc. flags: as for spex_spu_member, 0 for an ordinary
 * one. Returns a slot to complete later (in any order, as many at a time as the choice
 * in_flight allows), or SPEX_SPU_NOT_SAMPLED.
 */
int spex_spu_begin(struct spex_spu *unit, uint64_t pc, uint32_t flags); /* since 1.0 */

/* The operation of a slot finished. */
void spex_spu_complete(struct spex_spu *unit, int slot, const struct spex_op *op,
                       const struct spex_outcome *outcome); /* since 1.0 */

/* The operation of a slot vanished without finishing (engine reset): no record, no event. */
void spex_spu_abandon(struct spex_spu *unit, int slot); /* since 1.0 */

/* One whole operation. True if it was sampled. */
bool spex_spu_op(struct spex_spu *unit, uint64_t pc, const struct spex_op *op,
                 const struct spex_outcome *outcome); /* since 1.0 */

/*
 * Reports passed operations to the PMU now (before it is read). Every call that is not a query
 * also does so.
 */
void spex_spu_flush(struct spex_spu *unit); /* since 1.0 */

/* ---- events from outside ---- */

/* An External abort of an earlier buffer write arrives now, asynchronously (IXPWQC). */
void spex_spu_external_abort(struct spex_spu *unit, uint32_t stop_flags); /* since 1.0 */

/* An IMPLEMENTATION DEFINED management event, EC 0x1F; only with choice impdef_event. */
bool spex_spu_impdef_event(struct spex_spu *unit, uint16_t mss, uint32_t mss2); /* since 1.0 */

/* ---- questions ---- */

struct spex_spu_status {
    size_t size;         /* sizeof(struct spex_spu_status), set before the call */
    bool enabled;        /* StatisticalProfilingEnabled() here and now */
    bool buffer_enabled; /* ProfilingBufferEnabled() */
    bool stopped;        /* SPEProfilingStopped() */
    bool discard;        /* Discard mode */
    uint8_t owner_el;    /* ProfilingBufferOwner() */
    uint8_t owner_security;
    bool owner_valid;  /* false: NSPB is reserved and the choice reserved_nspb is none */
    bool irq;          /* PMBIRQ */
    uint8_t in_flight; /* samples begun but not completed */
    uint8_t held;      /* records finished but not written */
    /*
     * E[] bits that the host has passed so far with operations that cannot have them (D18.2.6).
     * They are not recorded; anything but zero is a bug in the host.
     */
    uint64_t impossible_events;
    /*
     * Physical addresses that the host has passed so far in an address space that such an
     * operation cannot reach: Root, or Realm without FEAT_RME (D18.2.1 has no encoding). They
     * are not recorded; anything but zero is a bug in the host.
     */
    uint64_t impossible_addresses;
};
/* Since 1.0. */
void spex_spu_get_status(const struct spex_spu *unit, struct spex_spu_status *status);

/* The exception of one source (1, 2, 3), or with 0 the one of highest priority. */
void spex_spu_get_exception(const struct spex_spu *unit, unsigned source,
                            struct spex_spu_exception *exception); /* since 1.0 */

/* SPEFreezeOnEvent: does a management event freeze these counters now? */
enum spex_pmu_range { SPEX_PMU_EL1_COUNTERS, SPEX_PMU_EL2_COUNTERS, SPEX_PMU_CYCLES };
bool spex_spu_pmu_frozen(const struct spex_spu *unit, enum spex_pmu_range range); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
