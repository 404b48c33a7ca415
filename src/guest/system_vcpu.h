/*
 * What the files of the system-mode engine share: a vCPU with its unit, and the division of work
 * (system.c opens, system_sample.c follows the operations, system_access.c the memory,
 * system_regs.c the registers).
 *
 * A vCPU's state belongs to its thread.
 */
#ifndef GUEST_SYSTEM_VCPU_H
#define GUEST_SYSTEM_VCPU_H

#include "code.h"
#include "detail.h"
#include "machine.h"
#include "qemu_plugin.h"
#include "unit_log.h"
#include "zva.h"

#include "guest/vm.h"
#include "uarch/far.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

enum {
    MAX_INSNS = 1024, /* instructions of a block; QEMU makes at most 512 */
    MAX_SEEN = 1024,  /* accesses kept for one block */
    MAX_WORDS = 8192, /* accesses of one block that are modelled */
    MAX_PARTS = 64,   /* parts of one operation */
    IN_FLIGHT = 8,    /* the largest value of the choice in_flight */
    PMBIRQ = 21,      /* PPI of BSA */
    ANY_EL = 0xff,
    NONE = -1,
};

/* ---- a vCPU ---- */

/* Accesses of one instruction of the current block. */
struct seen {
    uint32_t stamp; /* stamp of the block's execution */
    uint16_t first, count;
    uint64_t events; /* events of its predicate */
};

/* An operation that finished in the guest and is still in flight in the model. */
struct flight {
    int slot;
    const struct spex_op *op;
    struct spex_outcome outcome;
    struct spex_access parts[MAX_PARTS];
    uint64_t done;
};

struct sys_vcpu {
    _Alignas(64) struct timing_core *core; /* NULL without a model */
    struct block *block;                   /* the block being executed, or NULL */
    uint64_t clock;                        /* time far from samples; cycles << SPEX_FAR_FRACTION */
    bool far;                              /* only caches and predictors are followed */
    bool accounted;                        /* the executed part of the block has been modelled */
    const struct insn *want; /* the next operation in the block that the unit wants, or NULL */
    const uint32_t *pstate;
    uint64_t space;   /* address space, for the model */
    uint32_t counted; /* operations of block that were reported to the unit */
    uint32_t flying;  /* used entries of flight */
    uint8_t el;
    bool active;    /* profiling is switched on at some Exception level */
    bool capturing; /* accesses of block are kept */
    bool written;   /* a register was written since the last context synchronization */
    unsigned index;
    /* the current block, while capturing */
    uint32_t stamp;
    uint64_t context[2]; /* CONTEXTIDR_EL1 and _EL2 */
    unsigned access_count;
    struct seen seen[MAX_INSNS];
    struct spex_access access[MAX_SEEN];
    struct flight flight[IN_FLIGHT];
    /* sampled detail: the accesses of the current block near samples, and their results */
    struct detail detail;
    uint32_t word_count;
    struct timing_run run;
    timing_access word[MAX_WORDS];
    uarch_result result[MAX_WORDS];
    struct account_insn time[MAX_INSNS];
    /* the last taken branch, for the previous branch target (FEAT_SPE_PBT) */
    const struct insn *branch;
    uint64_t branch_target;
    /* injection */
    uint64_t records, samples, collisions;
    int stuck;     /* slot of a sample that never ends, or NONE */
    bool spurious; /* PMBIRQ is high without a cause, until the driver has checked */
    struct unit_log unit;
};

struct sys {
    const struct machine *machine;
    struct vm_config config;
    struct timing *model; /* NULL: --model none */
    pthread_mutex_t turn; /* vCPUs take turns at the model */
    uint64_t latest;      /* time of the vCPU that is furthest ahead */
    struct sys_vcpu *vcpu[SYS_VCPUS];
    unsigned vcpus, zva_bytes, api;
    struct block *blocks[1 << 16];
    pthread_mutex_t lock; /* for translation: blocks, opening */
    bool opened;
    bool vectors; /* QEMU shows the registers that SVE accesses need */
    int log;
};

static inline unsigned current_el(const struct sys_vcpu *v, const struct block *block)
{
    return v->pstate ? *v->pstate >> 2 & 3 : block->el;
}

/* ---- system.c ---- */

/*
 * Updates the unit's copy of one of QEMU's own registers; or of the Exception level and what
 * depends on it.
 */
void system_refresh(struct sys_vcpu *v, unsigned enc);
void system_set_state(struct sys_vcpu *v, unsigned el);
/* ID_AA64DFR0_EL1.PMSVer. */
unsigned system_version(void);

/* ---- system_sample.c ---- */

/* A block is entered. data: struct block. */
void system_on_block(unsigned vcpu, void *data);
/* Code that is not followed is entered: AArch32. */
void system_on_foreign(unsigned vcpu, void *data);
/*
 * Everything before operation n of the current block has been executed, and no branch of the block.
 */
void system_settle(struct sys_vcpu *v, uint32_t n);
/* The rest of the current block is about to be executed. */
void system_plan(struct sys_vcpu *v);
/* Completes samples in flight that end by `now`, a time of the model's clock. */
void system_land(struct sys_vcpu *v, uint64_t now);
/* A context synchronization event. */
void system_synchronize(struct sys_vcpu *v, bool exception);
/* PMBIRQ without a cause, or its end: injected. */
void system_spurious(struct sys_vcpu *v, bool level);

/* ---- system_model.c ---- */

/* The current block ran to `executed`; then control went to next, or the block was cut there. */
void system_account(struct sys_vcpu *v, uint32_t executed, bool cut, uint64_t next);
/* Called at the entry of a block: decides whether it gets details. */
void system_approach(struct sys_vcpu *v, struct block *block);
/* An access of the current block, as a word; then the common kinds. */
void system_access(struct sys_vcpu *v, timing_access word);
void system_load(struct sys_vcpu *v, timing_access word, unsigned size);
void system_store(struct sys_vcpu *v, timing_access word, unsigned size);
/* Model time, in cycles. */
uint64_t system_clock(const struct sys_vcpu *v);
/* What the recorded accesses of an operation in the current block met. */
void system_outcome(struct sys_vcpu *v, const struct insn *insn, struct spex_access *part,
                    unsigned count);
/* When that operation was dispatched, issued and done. */
struct account_insn system_time(const struct sys_vcpu *v, const struct insn *insn);

/* ---- system_access.c ---- */

/* Instruments the accesses of an instruction. */
void system_watch_access(struct qemu_plugin_insn *insn, struct insn *at);
/* Handles the DC ZVAs of the block that is entered. */
void system_zero_lines(struct sys_vcpu *v, const struct block *block);

/* ---- system_regs.c ---- */

extern const struct machine_handler system_handler;
/* Instruments an instruction that concerns the unit: PSB CSYNC, ISB, MRS, MSR. */
void system_watch_register(struct qemu_plugin_insn *insn, struct insn *at);
/* The flags for callbacks that read registers. */
enum qemu_plugin_cb_flags system_reading(void);

#pragma GCC visibility pop
#endif
