/*
 * What the files of the system-mode engine share: a vCPU with its unit,
 * and who does what (system.c opens, system_sample.c follows the
 * operations, system_access.c the memory, system_regs.c the registers).
 *
 * A vCPU's state belongs to its thread.
 */
#ifndef GUEST_SYSTEM_VCPU_H
#define GUEST_SYSTEM_VCPU_H

#include "code.h"
#include "machine.h"
#include "qemu_plugin.h"
#include "unit_log.h"
#include "zva.h"

#include "guest/vm.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

enum {
    MAX_INSNS = 1024, /* of a block; QEMU makes at most 512 */
    MAX_SEEN = 1024,  /* accesses of one block that are kept */
    MAX_PARTS = 64,   /* of one operation */
    IN_FLIGHT = 8,    /* the most that the choice in_flight allows */
    PMBIRQ = 21,      /* PPI of BSA */
    ANY_EL = 0xff,
    NONE = -1,
};

/* ---- a vCPU ---- */

/* Accesses of one instruction of the current block. */
struct seen {
    uint32_t stamp; /* of the block's execution */
    uint16_t first, count;
    uint64_t events; /* of its predicate */
    spex_uarch_result worst;
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
    _Alignas(64) struct spex_uarch_core *core;
    struct block *block;     /* the one that is being executed, or NULL */
    const struct insn *want; /* the next operation of it that the unit wants, or NULL */
    const uint32_t *pstate;
    uint64_t space;   /* address space, for the model */
    uint32_t counted; /* operations of block that were reported to the unit */
    uint32_t flying;  /* entries of flight */
    uint8_t el;
    bool active;    /* profiling is switched on at some Exception level */
    bool capturing; /* accesses of block are kept */
    bool written;   /* a register was, since the last context synchronization */
    unsigned index;
    /* the current block, while capturing */
    uint32_t stamp, sequence;
    uint64_t entered;    /* model clock */
    uint64_t context[2]; /* CONTEXTIDR_EL1 and _EL2 */
    unsigned access_count;
    struct seen seen[MAX_INSNS];
    struct spex_access access[MAX_SEEN];
    struct flight flight[IN_FLIGHT];
    /* the last taken branch, for the previous branch target (FEAT_SPE_PBT) */
    const struct insn *branch;
    uint64_t branch_target;
    /* injection */
    uint64_t records, samples, collisions;
    int stuck;     /* slot of a sample that does not end, or NONE */
    bool spurious; /* PMBIRQ is up without a cause, until the driver has looked */
    struct unit_log unit;
};

struct sys {
    const struct machine *machine;
    struct spex_vm_config config;
    struct spex_uarch *model;
    struct sys_vcpu *vcpu[SYS_VCPUS];
    unsigned vcpus, zva_bytes, api;
    struct block *blocks[1 << 16];
    pthread_mutex_t lock; /* translation: blocks, opening */
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
 * Updates the unit's copy of a register of QEMU's own; and of the Exception level and what depends
 * on it.
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
/* Everything before operation n of the current block has been executed, and no branch of it. */
void system_settle(struct sys_vcpu *v, uint32_t n);
/* The rest of the current block is about to be executed. */
void system_plan(struct sys_vcpu *v);
/* Samples in flight whose time is over by `now` of the model's clock are complete. */
void system_land(struct sys_vcpu *v, uint64_t now);
/* A context synchronization event. */
void system_synchronize(struct sys_vcpu *v, bool exception);
/* PMBIRQ without a cause, or its end: injected. */
void system_spurious(struct sys_vcpu *v, bool level);

/* ---- system_access.c ---- */

/* Instruments the accesses of an instruction. */
void system_watch_access(struct qemu_plugin_insn *insn, struct insn *at);
/* DC ZVAs of the block that is entered. */
void system_zero_lines(struct sys_vcpu *v, const struct block *block);

/* ---- system_regs.c ---- */

extern const struct machine_handler system_handler;
/* Instruments an instruction that concerns the unit: PSB CSYNC, ISB, MRS, MSR. */
void system_watch_register(struct qemu_plugin_insn *insn, struct insn *at);
/* How callbacks must be registered that look at registers. */
enum qemu_plugin_cb_flags system_reading(void);

#pragma GCC visibility pop
#endif
