/*
 * Internals of a unit, shared by the files of this module.
 *
 * Registers exist twice. Direct accesses use `reg`; profiling operations use `eff`. With the
 * choice register_sync=at-once both are always the same; with context, a direct write reaches
 * `eff` at the next context synchronization event (D17.9, REG-29).
 *
 * Functions named as in the pseudocode keep its spelling.
 */
#ifndef SPU_UNIT_H
#define SPU_UNIT_H

#include <spex/record.h>

#include "base/bits.h"
#include "base/rng.h"
#include "record/emit.h"
#include "spu/config.h"

enum reg_index {
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) R_##name,
#include <spex/sysreg.def>
    R_COUNT
};

#define FIELD_OF(value, name) spex_field_get(value, SPEX_##name)
/* A field as profiling operations see it: EFF(PCT, PMSCR_EL1) of the unit u. */
#define EFF(field, reg) FIELD_OF(u->w.eff[R_##reg], reg##_##field)

enum { SLOTS = 8, HELD = 4 };

/* CollectTimeStamp's answer. */
enum time_kind { TIME_NONE, TIME_VIRTUAL, TIME_OFFSET_PHYSICAL, TIME_PHYSICAL };

/*
 * A sampled operation in flight: values fixed when it was selected. Only words: saved as
 * they are.
 */
struct slot {
    uint64_t busy;
    uint64_t pc; /* payload of the PC Address packet */
    uint64_t context[2];
    uint64_t present;   /* SPEX_HAS_CONTEXT_*, SPEX_HAS_TIMESTAMP, SPEX_HAS_PREV_TARGET */
    uint64_t time_kind; /* enum time_kind */
    uint64_t time_offset;
    uint64_t time;
    uint64_t physical;     /* CollectPhysicalAddress */
    uint64_t el2_enabled;  /* StatisticalProfilingEnabled(EL2), for FEAT_NV2 */
    uint64_t previous;     /* payload of the previous branch target */
    uint64_t order;        /* position among branches and samples in program order */
    uint64_t el, security; /* state at the operation */
};

/* A fault that has not been reported yet (choice fault_lag). */
struct late_fault {
    uint64_t pending, ec, fsc, mss2, ea, data_lost, address, samples;
};

/* Everything that save and restore carry; 64-bit words only. */
struct words {
    uint64_t reg[R_COUNT];
    uint64_t eff[R_COUNT];
    uint64_t unsynced; /* bit per register: a direct write has not reached eff yet */
    uint64_t after;  /* choices select_after, select_group: members until the selected one, or 0 */
    uint64_t member; /* number of the next member, for select_group */
    uint64_t due;    /* a selection left COUNT at zero: the next member reloads it */
    uint64_t random; /* state of the random number generator */
    uint64_t part;   /* choice part_choice=rotate */
    uint64_t previous; /* last taken branch: payload, whether it may be recorded, position */
    uint64_t previous_valid;
    uint64_t previous_order;
    uint64_t order; /* counts noted branches and samples, in program order */
    uint64_t el, security, aarch32, halted, sdd, pm;
    uint64_t enabled; /* profiling was enabled at the last update */
    uint64_t drop;    /* choice pointer_rule=discard: records are thrown away */
    uint64_t held_count;
    uint64_t held_size[HELD];
    struct late_fault late;
    struct slot slot[SLOTS];
};

struct owner {
    uint8_t el, security;
    bool valid;
};

struct spex_spu {
    struct spex_spu_quiet quiet; /* first, for the inline functions of spu.h */
    uint64_t mark;               /* quiet.until when passed operations were last accounted for */
    uint64_t pop;                /* SAMPLE_POP not yet reported to the host */
    struct spu_config config;
    struct words w;
    uint64_t writable[R_COUNT]; /* bits that software can write */
    uint64_t events;            /* Events packet bits that this unit can record */
    uint64_t filter_events;     /* bits that event filters test */
    unsigned events_size;       /* Events payload bytes */
    uint64_t counter_most;      /* value at which counters saturate */
    uint64_t config_hash;       /* hash of features and choices: must match that of a saved state */
    unsigned layout;            /* enum spex_layout */
    /*
     * Values derived from registers and state alone, computed when a sample first needs them: all
     * zero until then. spu_update forgets them.
     */
    struct {
        bool known;
        bool discard;
        bool buffer_enabled;
        struct slot slot;            /* a new sample, except for pc, contexts and time */
        struct spex_spu_store store; /* a write to the buffer, except for address and bytes */
    } now;
    bool irq;                      /* level last reported to the host */
    uint64_t impossible;           /* E[] bits that were not recorded: spex_spu_status */
    uint64_t impossible_addresses; /* number of physical addresses that were not recorded */
    struct spex_spu_exception exception;
    uint8_t held[HELD][SPEX_RECORD_MAX];
};

/* One sample on its way to bytes. */
struct sample {
    struct spex_record record;
    uint32_t types; /* TYPE_*: the filter's flags, in the order of PMSFCR_EL1 */
    struct record_extra extra;
    bool captured; /* D17.6.7: if false, the sample only counts as SAMPLE_FEED */
};

enum { TYPE_B = 1, TYPE_LD = 2, TYPE_ST = 4, TYPE_FP = 8, TYPE_SIMD = 16 };

/* ---- unit.c ---- */

/* Call after any change: it may affect enables, interval, interrupt and exception. */
void spu_update(struct spex_spu *u);
void spu_pmu_tell(struct spex_spu *u, unsigned event, uint64_t count);
static inline void spu_pmu(struct spex_spu *u, unsigned event, uint64_t count)
{
    if (u->config.host.pmu)
        spu_pmu_tell(u, event, count);
}
uint8_t spu_random(struct spex_spu *u);
/* Uniform in [0, n); draws only if n > 1. */
unsigned spu_random_below(struct spex_spu *u, unsigned n);

static inline uint64_t spu_eff(const struct spex_spu *u, enum reg_index r)
{
    return u->w.eff[r];
}

/*
 * Indirect write of a counter or pointer, which nothing in `now` depends on. A direct write that
 * has not taken effect yet wins (D17.9).
 */
static inline void spu_put(struct spex_spu *u, enum reg_index r, uint64_t value)
{
    u->w.eff[r] = value;
    if (!(u->w.unsynced >> r & 1))
        u->w.reg[r] = value;
}

/* Makes a direct write visible to profiling operations. */
static inline void spu_take_direct(struct spex_spu *u, enum reg_index r)
{
    u->w.eff[r] = u->w.reg[r];
    if (r == R_PMSICR_EL1)
        u->w.due = false; /* software has set the counter */
}

/*
 * Indirect write of some fields of a syndrome register. It is ordered after direct writes of
 * earlier instructions, whether or not these have taken effect, so both copies get it (RLTMKQ).
 */
static inline void spu_put_fields(struct spex_spu *u, enum reg_index r, uint64_t mask,
                                  uint64_t value)
{
    u->w.eff[r] = (u->w.eff[r] & ~mask) | (value & mask);
    u->w.reg[r] = (u->w.reg[r] & ~mask) | (value & mask);
    u->now.known = false;
}

/* ---- control.c: who may do what (D17.4, D17.6.9, D17.8) ---- */

bool spu_el2_enabled(const struct spex_spu *u);
bool spu_effective_tge(const struct spex_spu *u);
bool spu_effective_e2h(const struct spex_spu *u);
struct owner ProfilingBufferOwner(const struct spex_spu *u);
bool SPEProfilingStopped(const struct spex_spu *u);
bool ProfilingBufferEnabled(const struct spex_spu *u);
bool StatisticalProfilingEnabled(const struct spex_spu *u, unsigned el);
bool spu_discard_mode(const struct spex_spu *u);
bool CollectContextIDR1(const struct spex_spu *u);
bool CollectContextIDR2(const struct spex_spu *u);
bool CollectPhysicalAddress(const struct spex_spu *u);
enum time_kind CollectTimeStamp(const struct spex_spu *u);
uint64_t spu_time_offset(const struct spex_spu *u, enum time_kind kind);
bool EffectivePMBLIMITR_EL1_nVM(const struct spex_spu *u);
bool spu_effective_EnVM(const struct spex_spu *u);
unsigned EffectivePMSCR_EL2_EE(const struct spex_spu *u);
bool SPEInterruptEnabled(const struct spex_spu *u);
unsigned ReportSPEEvent(const struct spex_spu *u, unsigned ec, unsigned fsc);
bool CheckMDCR_EL3_NSPBTrap(const struct spex_spu *u);

/* ---- registers.c ---- */

void spu_registers_init(struct spex_spu *u);
void spu_registers_reset(struct spex_spu *u);

/* ---- sample.c ---- */

/* Fills u->now if it is not valid. */
void spu_now_compute(struct spex_spu *u);
static inline void spu_sample_now(struct spex_spu *u)
{
    if (!u->now.known)
        spu_now_compute(u);
}

void spu_sample_settle(struct spex_spu *u);
/*
 * For queries, which take a const unit: accounting for passed operations changes nothing
 * visible.
 */
static inline void spu_sample_settled(const struct spex_spu *u)
{
    spu_sample_settle((struct spex_spu *)(uintptr_t)u);
}
void spu_sample_plan(struct spex_spu *u);
void spu_sample_initial_load(struct spex_spu *u);

/* ---- collect.c, filter.c, encode.c ---- */

/* flags: enum spex_outcome_flag. */
bool spu_executed(const struct spex_spu *u, uint32_t flags);
void SPECollect(struct spex_spu *u, const struct slot *slot, const struct spex_op *op,
                const struct spex_outcome *outcome, struct sample *sample);
/* Whether the type filter keeps a sample of these types. */
bool spu_type_kept(const struct spex_spu *u, unsigned types);
bool spu_filters_keep(struct spex_spu *u, const struct sample *sample);
static inline bool SPECollectRecord(struct spex_spu *u, const struct sample *sample)
{
    if (!u->w.eff[R_PMSFCR_EL1] && !u->config.host.pmu)
        return true; /* no filter, and nobody counts */
    return spu_filters_keep(u, sample);
}
size_t SPEConstructRecord(const struct spex_spu *u, const struct sample *sample, uint8_t *out);
/* Upper bound of a record's size. */
size_t spu_record_bound(const struct spu_config *config, unsigned events_size, unsigned layout);

/* ---- buffer.c ---- */

bool spu_pointer_ok(const struct spex_spu *u);
void spu_store_init(const struct spex_spu *u, struct spex_spu_store *store);
void spu_pointer_violation(struct spex_spu *u);
/* Takes a finished record: holds it back or writes it. */
void spu_buffer_record(struct spex_spu *u, const uint8_t *bytes, size_t size);
void spu_buffer_drain(struct spex_spu *u, size_t keep);
/* The buffer was stopped or disabled: deals with records held back. */
void spu_buffer_closed(struct spex_spu *u);
void spu_late_fault_report(struct spex_spu *u);

/* ---- report.c ---- */

enum { EC_OTHER = 0x00, EC_GPC = 0x1e, EC_IMPDEF = 0x1f, EC_STAGE1 = 0x24, EC_STAGE2 = 0x25 };
enum { BSC_NOT_ALLOWED = 0, BSC_FULL = 1 };
enum { DL_UNCHANGED = -1, DL_ZERO = 0, DL_ONE = 1 };
/* clang-format off */
enum { FSC_ADDRESS_SIZE = 0x00, FSC_TRANSLATION = 0x04, FSC_ABORT = 0x10, FSC_ABORT_ASYNC = 0x11,
       FSC_ALIGNMENT = 0x21, FSC_GPF = 0x28 };
/* clang-format on */

/* True if it was recorded: S of the register was 0. */
bool OtherSPEManagementEvent(struct spex_spu *u, unsigned bsc, int data_lost);
bool spu_report_fault(struct spex_spu *u, unsigned ec, unsigned fsc, uint32_t mss2, bool ea,
                      int data_lost);
void spu_report_abort(struct spex_spu *u, unsigned ec, unsigned fsc, bool data_lost);
bool spu_report_impdef(struct spex_spu *u, uint16_t mss, uint32_t mss2, int data_lost);
void SPESampleCollision(struct spex_spu *u);

#endif
