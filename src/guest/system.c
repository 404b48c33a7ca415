/*
 * The plugin in system mode. At the entry of each block its operations are
 * counted; those that the unit wants are known at the block's end, when it is
 * certain that they were executed, and told to it then. See docs/vm.md.
 *
 * A vCPU's state belongs to its thread. What differs between versions of QEMU is
 * behind struct machine.
 */
#include "system.h"

#include "machine.h"
#include "qemu_plugin.h"
#include "unit_log.h"
#include "zva.h"

#include <spex/a64.h>
#include <spex/vm.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_VCPUS = 64,
    MAX_INSNS = 1024,  /* of a block; QEMU makes at most 512 */
    MAX_SEEN = 1024,   /* accesses of one block that are kept */
    MAX_PARTS = 64,    /* of one operation */
    IN_FLIGHT = 8,     /* the most that the choice in_flight allows */
    PMBIRQ = 21,       /* PPI of BSA */
    ANY_EL = 0xff,
    NONE = -1,
};

/* ---- blocks ---- */

struct insn {
    struct block *block;
    uint32_t index;
};

struct block {
    struct spex_uarch_block model; /* pc, count, ops */
    struct insn *insns;
    uint32_t *words;
    struct block *next; /* of the same hash slot */
    struct zva *zva;
    unsigned zva_count;
    uint8_t el;         /* or ANY_EL */
    bool vector;        /* may be an exception vector: aligned to 128 bytes */
    bool again;         /* one atomic: QEMU may be doing one over that it could not do in place */
    bool eret;          /* ends with an exception return */
};

/* ---- a vCPU ---- */

/* Accesses of one instruction of the current block. */
struct seen {
    uint32_t stamp; /* of the block's execution */
    uint16_t first, count;
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

struct vcpu {
    _Alignas(64) struct spex_uarch_core *core;
    struct block *block;     /* the one that is being executed, or NULL */
    const struct insn *want; /* the next operation of it that the unit wants, or NULL */
    const uint32_t *pstate;
    uint64_t space;          /* address space, for the model */
    uint32_t counted;        /* operations of block that the unit was told of */
    uint32_t flying;         /* entries of flight */
    uint8_t el;
    bool active;             /* profiling is switched on at some Exception level */
    bool capturing;          /* accesses of block are kept */
    bool written;            /* a register was, since the last context synchronization */
    unsigned index;
    /* the current block, while capturing */
    uint32_t stamp, sequence;
    uint64_t entered;        /* model clock */
    uint64_t context[2];     /* CONTEXTIDR_EL1 and _EL2 */
    unsigned access_count;
    struct seen seen[MAX_INSNS];
    struct spex_access access[MAX_SEEN];
    struct flight flight[IN_FLIGHT];
    /* the last taken branch, for the previous branch target (FEAT_SPE_PBT) */
    const struct insn *branch;
    uint64_t branch_target;
    /* injection */
    uint64_t records, samples, collisions;
    int stuck;               /* slot of a sample that does not end, or NONE */
    bool spurious;           /* PMBIRQ is up without a cause, until the driver has looked */
    struct unit_log unit;
};

static struct {
    const struct machine *machine;
    struct spex_vm_config config;
    struct spex_uarch *model;
    struct vcpu *vcpu[MAX_VCPUS];
    unsigned vcpus, zva_bytes;
    struct block *blocks[1 << 16];
    pthread_mutex_t lock; /* translation: blocks, opening */
    bool opened;
    int log;
} sys = {.lock = PTHREAD_MUTEX_INITIALIZER, .log = -1};

static void refuse(const struct spex_error *error)
{
    fprintf(stderr, "spex vm: %s\n", error->text);
    _exit(1);
}

/* ---- the unit's host ---- */

static void on_store(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct vcpu *v = user;
    const struct spex_vm_injection *in = &sys.config.inject;
    size_t done = 0;
    v->records += store->count != 0;
    if (store->count && v->records == in->fault) {
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = 0x07};
        return;
    }
    if (store->count && v->records == in->abort) {
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_ABORT};
        return;
    }
    do {
        uint64_t va = store->address + done, pa = va;
        unsigned fsc = 0;
        bool stage2 = false;
        size_t n = 4096 - (va & 4095);
        if (!(store->flags & SPEX_STORE_NVM) &&
            !sys.machine->translate(v->index, va, store->el, store->e2h, &pa, &fsc, &stage2)) {
            bool walk = fsc >= 0x13 && fsc <= 0x17; /* External abort on a table walk */
            *stop = (struct spex_spu_stop){.kind = walk ? SPEX_STOP_ABORT : SPEX_STOP_FAULT,
                                           .fsc = (uint8_t)fsc,
                                           .flags = (uint16_t)((stage2 ? SPEX_STOP_STAGE2 : 0) |
                                                               (walk ? SPEX_STOP_WALK : 0)),
                                           .written = done};
            return;
        }
        if (n > store->count - done)
            n = store->count - done;
        if (n)
            sys.machine->write(pa, store->bytes + done, n);
        done += n;
    } while (done < store->count);
}

static bool on_counter(void *user, uint64_t *count)
{
    (void)user;
    return sys.machine->counter(count);
}

static void on_irq(void *user, bool level)
{
    const struct vcpu *v = user;
    sys.machine->ppi(v->index, PMBIRQ, level);
}

static void on_pmu(void *user, unsigned event, uint64_t count)
{
    struct vcpu *v = user;
    if (event == SPEX_PMU_SAMPLE_COLLISION)
        v->collisions += count;
}

/* ---- state of the PE, as far as QEMU shows it ---- */

static void refresh(struct vcpu *v, unsigned enc)
{
    uint64_t value;
    if (sys.machine->sysreg(v->index, enc, &value))
        unit_log_set(&v->unit, enc, value);
}

/* A number for the address space: its ASID, which is in TTBR0 or TTBR1 of EL1 or of a VHE host. */
static uint64_t address_space(const struct vcpu *v)
{
    static const unsigned tables[] = {SPEX_SYSREG(3, 0, 2, 0, 0), SPEX_SYSREG(3, 0, 2, 0, 1),
                                      SPEX_SYSREG(3, 4, 2, 0, 0), SPEX_SYSREG(3, 4, 2, 0, 1)};
    uint64_t asid = 0, value;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (sys.machine->sysreg(v->index, tables[i], &value))
            asid ^= value >> 48;
    return (asid ^ asid >> 8) & 0xff;
}

static void set_state(struct vcpu *v, unsigned el)
{
    struct spex_spu_state state = {.el = (uint8_t)el, .security = SPEX_NONSECURE};
    if (!sys.machine->aarch64(v->index))
        state.aarch32 = (uint8_t)(1u << el);
    v->el = (uint8_t)el;
    refresh(v, SPEX_HCR_EL2);
    refresh(v, SPEX_MDCR_EL2);
    unit_log_set_state(&v->unit, &state);
    if (!el)
        v->space = address_space(v);
}

static unsigned current_el(const struct vcpu *v, const struct block *block)
{
    return v->pstate ? *v->pstate >> 2 & 3 : block->el;
}

/* ---- one sample ---- */

static const struct spex_op *op_of(const struct insn *insn)
{
    return &insn->block->model.ops[insn->index];
}

static uint64_t pc_of(const struct insn *insn)
{
    return insn->block->model.pc + 4 * (uint64_t)insn->index;
}

/* Context synchronization: it matters after register writes and for previous branch targets. */
static void synchronize(struct vcpu *v, bool exception)
{
    if (!v->written && !spex_spu_wants_branches(v->unit.unit))
        return;
    v->written = false;
    if (exception)
        unit_log_exception_taken(&v->unit);
    else
        unit_log_context_sync(&v->unit);
}

/* Samples whose time is over. */
static void land(struct vcpu *v, uint64_t now)
{
    for (uint32_t i = 0; i < v->flying;) {
        struct flight *f = &v->flight[i];
        if (f->done > now) {
            i++;
            continue;
        }
        unit_log_complete(&v->unit, f->slot, f->op, &f->outcome);
        if (i != --v->flying) {
            *f = v->flight[v->flying];
            if (f->outcome.part_count)
                f->outcome.parts = f->parts;
        }
    }
}

/*
 * The unit was told of v->counted operations of the block. Tell it of the rest, or
 * stop at the one that it wants.
 */
static void plan(struct vcpu *v)
{
    const struct block *block = v->block;
    uint64_t left = block->model.count - v->counted;
    uint64_t until = spex_spu_until(v->unit.unit);
    if (__builtin_expect(left <= until, 1)) {
        unit_log_pass(&v->unit, left);
        v->counted = block->model.count;
        v->want = NULL;
        return;
    }
    v->want = &block->insns[v->counted + until];
    if (v->capturing)
        return;
    v->capturing = true;
    v->stamp++;
    v->access_count = 0;
    v->sequence = v->core->sequence;
    v->entered = spex_uarch_clock(v->core);
    sys.machine->sysreg(v->index, SPEX_CONTEXTIDR_EL1, &v->context[0]);
    sys.machine->sysreg(v->index, SPEX_CONTEXTIDR_EL2, &v->context[1]);
}

/* The unit is told of exactly n operations of the block, none of which it still wants. */
static void count_to(struct vcpu *v, uint32_t n)
{
    if (v->counted > n)
        unit_log_unpass(&v->unit, v->counted - n);
    else
        unit_log_pass(&v->unit, n - v->counted);
    v->counted = n;
    v->want = NULL;
}

/* How an operation that the unit wants ended. */
struct ending {
    bool exception;  /* synchronous, of its own */
    bool entered;    /* the next block was: the predictor has judged the branch to it */
    uint64_t target; /* where control went, if it is the last of its block */
    unsigned el;     /* Exception level there */
};

static void take_off(struct vcpu *v, int slot, const struct insn *want, const struct ending *end)
{
    static const struct spex_op unseen = {.kind = SPEX_OP_OTHER, .exec = SPEX_EXEC_STORE};
    const struct spex_op *op = op_of(want);
    const struct seen *seen = &v->seen[want->index];
    struct flight *f = &v->flight[v->flying++];
    struct spex_outcome *out = &f->outcome;
    bool seen_any = seen->stamp == v->stamp && seen->count;
    f->slot = slot;
    f->op = op;
    *out = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED};
    if (op->kind == SPEX_OP_EXCEPTION)
        out->flags |= SPEX_OUT_EXCEPTION;
    else if (end->exception)
        out->flags = SPEX_OUT_EXCEPTION;
    if ((op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET) && !end->exception) {
        if (op->flags & SPEX_OPF_COND && end->target == want->block->model.next)
            out->flags &= ~(uint32_t)SPEX_OUT_PASSED;
        out->target = end->target;
        out->target_el = (uint8_t)end->el;
        out->target_security = SPEX_NONSECURE;
        if (end->entered && spex_uarch_mispredicted(v->core, v->sequence))
            out->events |= UINT64_C(1) << 7;
    }
    if (seen_any) {
        memcpy(f->parts, &v->access[seen->first], seen->count * sizeof f->parts[0]);
        out->access[0] = f->parts[0];
        if (seen->count > 1) {
            out->parts = f->parts;
            out->part_count = seen->count;
        }
    } else if (op->flags & SPEX_OPF_EXCL && op->flags & SPEX_OPF_STORE) {
        out->flags |= SPEX_OUT_MONITOR_FAIL; /* QEMU stores only when the monitor passes */
    } else if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) && op->kind != SPEX_OP_BRANCH &&
               !end->exception) {
        unit_log_note(&v->unit, "access not shown by QEMU: pc 0x%llx insn 0x%08x",
                      (unsigned long long)pc_of(want), want->block->words[want->index]);
        f->op = &unseen;
    }
    spex_uarch_replay(v->core, v->sequence, want->index, seen_any ? seen->worst : 0, out);
    f->done = v->entered + out->total;
}

/* An interrupt that the unit did not ask for, up to the read of PMBSR_ELx that finds nothing. */
static void raise_spurious(struct vcpu *v, bool level)
{
    struct spex_spu_status status;
    spex_spu_get_status(v->unit.unit, &status);
    v->spurious = level;
    sys.machine->ppi(v->index, PMBIRQ, level || status.irq);
    unit_log_note(&v->unit, "injected: PMBIRQ %d", level);
}

/* The wanted operation was executed. Wants the next one of the block. */
static void finish(struct vcpu *v, const struct ending *end)
{
    const struct insn *want = v->want;
    const struct spex_vm_injection *in = &sys.config.inject;
    unit_log_pass(&v->unit, want->index - v->counted);
    v->counted = want->index + 1;
    unit_log_set(&v->unit, SPEX_CONTEXTIDR_EL1, v->context[0]);
    unit_log_set(&v->unit, SPEX_CONTEXTIDR_EL2, v->context[1]);
    refresh(v, SPEX_CNTVOFF_EL2);
    land(v, v->entered);
    if (v->branch)
        unit_log_note_branch(&v->unit, op_of(v->branch), v->branch_target, v->el);
    v->branch = NULL;
    uint64_t collisions = v->collisions;
    int slot = unit_log_begin(&v->unit, pc_of(want));
    if (slot != SPEX_SPU_NOT_SAMPLED || v->collisions != collisions) {
        v->samples++;
        if (slot != SPEX_SPU_NOT_SAMPLED && v->samples == in->collide)
            v->stuck = slot;
        else if (slot != SPEX_SPU_NOT_SAMPLED)
            take_off(v, slot, want, end);
        if (v->stuck != NONE && v->samples == in->collide + in->collisions) {
            unit_log_abandon(&v->unit, v->stuck);
            v->stuck = NONE;
        }
        if (v->samples == in->event)
            unit_log_impdef_event(&v->unit);
        if (v->samples == in->irq)
            raise_spurious(v, true);
    }
    plan(v);
}

/* Everything before operation n of the block has been executed, and no branch of it. */
static void settle(struct vcpu *v, uint32_t n)
{
    static const struct ending end;
    while (v->want && v->want->index < n)
        finish(v, &end);
    count_to(v, n);
}

/* The whole block was executed and control went to target, where a block was entered or not. */
static void leave(struct vcpu *v, uint64_t target, unsigned el, bool entered)
{
    const struct ending end = {.target = target, .el = el, .entered = entered};
    const struct block *from = v->block;
    while (v->want)
        finish(v, &end);
    if (from->eret)
        synchronize(v, false);
}

/*
 * An exception was taken: a synchronous one of the instruction at pc, or pc is
 * where the guest will go on. Less than the whole block may have been executed;
 * the rest is given back.
 */
static void interrupted(struct vcpu *v, bool synchronous, uint64_t pc, unsigned el)
{
    const struct block *block = v->block;
    if (block && synchronous && pc - block->model.pc < 4ull * block->model.count) {
        uint32_t at = (uint32_t)((pc - block->model.pc) / 4);
        static const struct ending plain, raised = {.exception = true};
        while (v->want && v->want->index <= at)
            finish(v, v->want->index == at ? &raised : &plain);
        count_to(v, at + 1);
    } else if (block) {
        leave(v, pc, el, false); /* fetching the next instruction failed, SVC, or an interrupt */
    }
    spex_uarch_cut(v->core);
    v->block = NULL;
    v->branch = NULL;
    synchronize(v, true);
}

/* ---- blocks that need a look ---- */

static uint64_t banked(const struct vcpu *v, unsigned el1)
{
    uint64_t value = 0;
    unsigned el2 = el1 | 4u << 11; /* op1 of the register of EL2 */
    sys.machine->sysreg(v->index, sys.machine->el(v->index) == 2 ? el2 : el1, &value);
    return value;
}

static uint64_t elr(const struct vcpu *v)
{
    return banked(v, SPEX_SYSREG(3, 0, 4, 0, 1));
}

/* The Exception level that the exception was taken from. */
static unsigned spsr_el(const struct vcpu *v)
{
    return banked(v, SPEX_SYSREG(3, 0, 4, 0, 0)) >> 2 & 3;
}

/* QEMU 7.2 does not tell of exceptions: a block at VBAR_ELx + offset was entered by one. */
static bool at_vector(const struct vcpu *v, const struct block *block, bool *synchronous)
{
    uint64_t offset = block->model.pc - banked(v, SPEX_SYSREG(3, 0, 12, 0, 0));
    *synchronous = !(offset & 0x180);
    return offset < 0x800;
}

/* An atomic that could not be done in its block is executed alone: the block ended before it. */
static bool done_again(struct vcpu *v, const struct block *block)
{
    const struct block *from = v->block;
    uint64_t at = (block->model.pc - from->model.pc) / 4;
    if (block == from || block->model.pc < from->model.pc || at >= from->model.count ||
        from->words[at] != block->words[0])
        return false;
    settle(v, (uint32_t)at);
    spex_uarch_cut(v->core);
    v->block = NULL;
    return true;
}

/* FEAT_SPE_PBT: which branch led here. */
static void follow_branch(struct vcpu *v, const struct block *to)
{
    const struct block *from = v->block;
    const struct insn *last = &from->insns[from->model.count - 1];
    const struct spex_op *op = op_of(last);
    if ((op->kind != SPEX_OP_BRANCH && op->kind != SPEX_OP_ERET) ||
        (op->flags & SPEX_OPF_COND && to->model.pc == from->model.next))
        return;
    v->branch = last;
    v->branch_target = to->model.pc;
}

/* ---- accesses ---- */

static const uint64_t NO_ADDRESS = UINT64_C(1) << 56;

static uint64_t physical(qemu_plugin_meminfo_t info, uint64_t va)
{
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, va);
    if (!where || (qemu_plugin_hwaddr_is_io(where) && !sys.machine->io_addresses))
        return NO_ADDRESS;
    return qemu_plugin_hwaddr_phys_addr(where);
}

/* Of an access that QEMU does not show. */
static uint64_t translated(struct vcpu *v, uint64_t va)
{
    enum { E2H = 34, TGE = 27 };
    uint64_t hcr = 0, pa;
    unsigned fsc;
    bool stage2, host;
    sys.machine->sysreg(v->index, SPEX_HCR_EL2, &hcr);
    host = hcr >> E2H & 1 && (v->el == 2 || hcr >> TGE & 1);
    return sys.machine->translate(v->index, va, host || v->el == 2 ? 2 : 1, host, &pa, &fsc, &stage2)
               ? pa
               : NO_ADDRESS;
}

/* An access of the current block while one of its operations is wanted. */
static __attribute__((noinline)) void keep(struct vcpu *v, const struct insn *insn, uint64_t va,
                                           uint64_t model, unsigned size, spex_uarch_result result,
                                           uint64_t pa)
{
    struct seen *seen = &v->seen[insn->index];
    if (seen->stamp != v->stamp)
        *seen = (struct seen){.stamp = v->stamp, .first = (uint16_t)v->access_count};
    if (v->access_count == MAX_SEEN || seen->count == MAX_PARTS)
        return;
    struct spex_access *access = &v->access[v->access_count++];
    seen->count++;
    *access = (struct spex_access){.va = va, .pas = SPEX_NONSECURE,
                                   .flags = SPEX_ACC_VA | SPEX_ACC_DONE};
    if (pa < NO_ADDRESS) {
        access->pa = pa;
        access->flags |= SPEX_ACC_PA;
    }
    result = spex_uarch_access(v->core, op_of(insn), model, size, result, access);
    if (!(op_of(insn)->flags & SPEX_OPF_LOAD))
        access->flags &= (uint16_t)~SPEX_ACC_SOURCE;
    if (spex_uarch_result_latency(result) + spex_uarch_result_translation(result) >=
        spex_uarch_result_latency(seen->worst) + spex_uarch_result_translation(seen->worst))
        seen->worst = result;
}

static uint64_t model_address(const struct vcpu *v, uint64_t va)
{
    return va >> 56 ? va : va | v->space << 56;
}

/* DC ZVA has no memory callback; its address follows from the registers at the block's entry. */
static void zero_lines(struct vcpu *v, const struct block *block)
{
    for (unsigned i = 0; i < block->zva_count; i++) {
        const struct zva *z = &block->zva[i];
        uint64_t value = sys.machine->x(v->index, z->address.from.base);
        uint64_t va = address_base(&z->address, value);
        va &= -(uint64_t)sys.zva_bytes;
        uint64_t pa = v->capturing ? translated(v, va) : NO_ADDRESS;
        for (unsigned at = 0; at < sys.zva_bytes; at += 64) {
            uint64_t model = model_address(v, va + at);
            spex_uarch_result result = spex_uarch_store(v->core, model, 64, z->index);
            if (v->capturing)
                keep(v, &block->insns[z->index], va + at, model, 64, result, pa + at);
        }
    }
}

/* ---- callbacks of QEMU ---- */

static void on_block(unsigned index, void *data)
{
    struct block *block = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v || !v->active)
        return;
    struct block *from = v->block;
    if (__builtin_expect(block->vector && from && v->pstate, 0)) {
        bool synchronous;
        if (at_vector(v, block, &synchronous)) {
            interrupted(v, synchronous, elr(v), spsr_el(v));
            from = NULL;
        }
    } else if (__builtin_expect(block->again && from, 0) && done_again(v, block)) {
        from = NULL;
    }
    unsigned flags = spex_uarch_block(v->core, &block->model);
    if (__builtin_expect(flags != 0, 0))
        spex_uarch_block_rest(v->core, &block->model, flags);
    unsigned el = current_el(v, block);
    if (from) {
        if (__builtin_expect(v->want != NULL || from->eret, 0))
            leave(v, block->model.pc, el, true);
        if (spex_spu_wants_branches(v->unit.unit))
            follow_branch(v, block);
    }
    if (__builtin_expect(v->flying, 0))
        land(v, spex_uarch_clock(v->core));
    if (__builtin_expect(el != v->el, 0))
        set_state(v, el);
    v->block = block;
    v->counted = 0;
    v->capturing = false;
    plan(v);
    if (__builtin_expect(block->zva_count, 0))
        zero_lines(v, block);
}

static void on_load(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v || !v->active)
        return;
    unsigned size = 1u << qemu_plugin_mem_size_shift(info);
    uint64_t model = model_address(v, va);
    spex_uarch_result result = spex_uarch_load(v->core, model, size, insn->index);
    if (__builtin_expect(v->capturing, 0))
        keep(v, insn, va, model, size, result, physical(info, va));
}

static void on_store_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v || !v->active)
        return;
    unsigned size = 1u << qemu_plugin_mem_size_shift(info);
    uint64_t model = model_address(v, va);
    spex_uarch_result result = spex_uarch_store(v->core, model, size, insn->index);
    if (__builtin_expect(v->capturing, 0))
        keep(v, insn, va, model, size, result, physical(info, va));
}

/* Atomics and Store-Exclusive show as a load and a store: the store alone is the access. */
static void on_atomic(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v || !v->active || !qemu_plugin_mem_is_store(info))
        return;
    unsigned size = 1u << qemu_plugin_mem_size_shift(info);
    uint64_t model = model_address(v, va);
    spex_uarch_result result = spex_uarch_atomic(v->core, model, size, insn->index);
    if (__builtin_expect(v->capturing, 0))
        keep(v, insn, va, model, size, result, physical(info, va));
}

/* PSB CSYNC: everything before it is complete, so samples in flight are completed first. */
static void on_psb(unsigned index, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v)
        return;
    if (v->block)
        settle(v, insn->index);
    land(v, UINT64_MAX);
    unit_log_psb(&v->unit);
    if (v->block)
        plan(v);
}

static void on_isb(unsigned index, void *data)
{
    struct vcpu *v = sys.vcpu[index];
    (void)data;
    if (v)
        synchronize(v, false);
}

/* ---- System registers ---- */

static enum spex_access_result on_check(unsigned index, unsigned enc, bool read)
{
    static const unsigned shared[] = {SPEX_CNTHCTL_EL2, SPEX_CNTVOFF_EL2, SPEX_HDFGRTR_EL2,
                                      SPEX_HDFGWTR_EL2, SPEX_HFGITR_EL2};
    struct vcpu *v = sys.vcpu[index];
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        refresh(v, shared[i]);
    set_state(v, sys.machine->el(index));
    enum spex_access_result result = spex_spu_check(v->unit.unit, enc, 0, read, NULL);
    if (result != SPEX_ACCESS_OK)
        unit_log_note(&v->unit, "%s %s: not here", read ? "read" : "write", spex_sysreg_name(enc));
    return result;
}

static uint64_t on_read(unsigned index, unsigned enc)
{
    struct vcpu *v = sys.vcpu[index];
    uint64_t value = unit_log_read(&v->unit, enc);
    if (enc == sys.config.inject.id_register) {
        value = sys.config.inject.id_value;
        unit_log_note(&v->unit, "injected: 0x%llx", (unsigned long long)value);
    }
    if (v->spurious && (enc == SPEX_PMBSR_EL1 || enc == SPEX_PMBSR_EL2))
        raise_spurious(v, false);
    if (v->block)
        plan(v); /* the rest of the block */
    return value;
}

static void on_write(unsigned index, unsigned enc, uint64_t value)
{
    struct vcpu *v = sys.vcpu[index];
    unit_log_write(&v->unit, enc, value);
    v->written = true;
    /* Without profiling at any level nothing is counted, so nothing needs to be followed. */
    uint64_t limit = 0, el1 = 0, el2 = 0;
    spex_spu_get(v->unit.unit, SPEX_PMBLIMITR_EL1, &limit);
    spex_spu_get(v->unit.unit, SPEX_PMSCR_EL1, &el1);
    spex_spu_get(v->unit.unit, SPEX_PMSCR_EL2, &el2);
    v->active = (limit & 1) && ((el1 | el2) & 3);
    v->block = NULL; /* the access ended its block */
    v->branch = NULL;
}

/* ID_AA64DFR0_EL1.PMSVer. */
static unsigned version(void)
{
    return sys.config.inject.version ? sys.config.inject.version
                                     : sys.config.unit.features.version;
}

static bool ours(unsigned enc)
{
    const char *name = spex_sysreg_name(enc);
    return name && (!strncmp(name, "PMS", 3) || !strncmp(name, "PMB", 3));
}

/* The encoding of an MRS or MSR (register), or 0. */
static unsigned accessed(uint32_t word)
{
    return (word & 0xffd00000) == 0xd5100000 ? word >> 5 & 0xffff : 0;
}

/*
 * MRS or MSR of one of our registers, or MRS of ID_AA64DFR0_EL1, is about to be
 * executed: the unit is told of what came before it, and samples are completed. A
 * write ends its block and is counted with it; a read goes on in on_read.
 */
static void on_sysreg(unsigned index, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = sys.vcpu[index];
    uint32_t word = insn->block->words[insn->index];
    unsigned enc = accessed(word), rt = word & 31;
    bool read = word >> 21 & 1;
    if (!v)
        return;
    if (v->block)
        settle(v, insn->index + !read);
    land(v, UINT64_MAX);
    if (!sys.machine->skip)
        return;
    uint64_t value = 0;
    if (enc == SPEX_ID_AA64DFR0_EL1) {
        sys.machine->sysreg(index, enc, &value);
        value = spex_field_set(value, SPEX_ID_AA64DFR0_EL1_PMSVer, version());
    } else if (on_check(index, enc, read) != SPEX_ACCESS_OK) {
        return; /* QEMU makes it UNDEFINED */
    } else if (read) {
        value = on_read(index, enc);
    } else {
        on_write(index, enc, rt == 31 ? 0 : sys.machine->x(index, rt));
    }
    if (v->block)
        settle(v, insn->index + 1); /* the rest is translated anew */
    v->block = NULL;
    sys.machine->skip(index, pc_of(insn), read, rt, value);
}

void system_exception(unsigned index, bool synchronous, uint64_t from)
{
    struct vcpu *v = sys.vcpu[index];
    if (v && v->active)
        interrupted(v, synchronous, from, spsr_el(v));
}

/* ---- opening, at the first translation ---- */

static void make_vcpu(unsigned index)
{
    struct spex_error error;
    struct spex_spu_config config = sys.config.unit;
    struct vcpu *v = aligned_alloc(64, (sizeof *v + 63) & ~(size_t)63);
    if (!v)
        abort();
    memset(v, 0, sizeof *v);
    v->index = index;
    v->stuck = NONE;
    config.seed += index;
    config.host = (struct spex_spu_host){
        .user = v, .write = on_store, .counter = on_counter, .irq = on_irq, .pmu = on_pmu};
    if (unit_log_new(&v->unit, &config, sys.config.features, sys.log, index, &error))
        refuse(&error);
    if (spex_uarch_core_new(sys.model, index, &v->core))
        abort();
    unit_log_boot(&v->unit);
    v->el = 1; /* as boot has left it */
    v->pstate = sys.machine->pstate(index);
    sys.vcpu[index] = v;
}

static void open_system(void)
{
    static const struct machine_handler handler = {on_check, on_read, on_write};
    struct spex_error error;
    uint64_t dczid;
    if (sys.machine->open(sys.vcpus, version(), &handler, &error))
        refuse(&error);
    sys.zva_bytes = 64;
    if (sys.machine->sysreg(0, SPEX_SYSREG(3, 3, 0, 0, 7), &dczid))
        sys.zva_bytes = 4u << (dczid & 15);
    for (unsigned i = 0; i < sys.vcpus; i++)
        make_vcpu(i);
}

/* ---- translation ---- */

static struct block *make_block(uint64_t pc, const uint32_t *words, size_t count, unsigned el)
{
    struct block *b = calloc(1, sizeof *b);
    struct spex_op *ops = calloc(count, sizeof *ops);
    struct insn *insns = calloc(count, sizeof *insns);
    uint32_t *copy = malloc(4 * count);
    if (!b || !ops || !insns || !copy)
        abort();
    memcpy(copy, words, 4 * count);
    for (size_t i = 0; i < count; i++) {
        spex_a64_classify(words[i], NULL, &ops[i]);
        insns[i] = (struct insn){b, (uint32_t)i};
    }
    *b = (struct block){.insns = insns, .words = copy, .el = (uint8_t)el, .vector = !(pc & 0x7f)};
    b->again = count == 1 && ops[0].flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL);
    b->eret = ops[count - 1].kind == SPEX_OP_ERET;
    spex_uarch_block_init(sys.model, &b->model, pc, ops, count);
    b->zva_count = zva_find(words, ops, count, &b->zva);
    return b;
}

/* Blocks are never freed: a core may remember them, and the same code comes back. */
static struct block *find_block(uint64_t pc, const uint32_t *words, size_t count, unsigned el)
{
    struct block **slot = &sys.blocks[(pc >> 2) * 0x9e3779b97f4a7c15ull >> 48];
    for (struct block *b = *slot; b; b = b->next)
        if (b->model.pc == pc && b->model.count == count && b->el == el &&
            !memcmp(b->words, words, 4 * count))
            return b;
    struct block *b = make_block(pc, words, count, el);
    b->next = *slot;
    *slot = b;
    return b;
}

/* AArch32 code: not profiled, but the block before it ends. */
static void on_foreign(unsigned index, void *data)
{
    struct vcpu *v = sys.vcpu[index];
    (void)data;
    if (!v || !v->active)
        return;
    if (v->block)
        leave(v, v->block->model.next, sys.machine->el(index), false);
    v->block = NULL;
    set_state(v, sys.machine->el(index));
}

static enum qemu_plugin_cb_flags reading(void)
{
    return sys.machine->pstate(0) ? QEMU_PLUGIN_CB_NO_REGS : QEMU_PLUGIN_CB_R_REGS;
}

static void watch(struct qemu_plugin_insn *insn, struct insn *at)
{
    const struct spex_op *op = op_of(at);
    unsigned enc = accessed(at->block->words[at->index]);
    bool read = at->block->words[at->index] >> 21 & 1;
    if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) && op->kind != SPEX_OP_DC_ZVA)
        qemu_plugin_register_vcpu_mem_cb(
            insn,
            !(op->flags & SPEX_OPF_STORE)                   ? on_load
            : op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL) ? on_atomic
                                                            : on_store_access,
            QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, at);
    if (op->flags & SPEX_OPF_PSB)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_psb, reading(), at);
    else if (op->kind == SPEX_OP_ISB)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_isb, QEMU_PLUGIN_CB_NO_REGS, NULL);
    else if (enc && (ours(enc) || (sys.machine->skip && read && enc == SPEX_ID_AA64DFR0_EL1)))
        qemu_plugin_register_vcpu_insn_exec_cb(
            insn, on_sysreg,
            sys.machine->skip ? QEMU_PLUGIN_CB_RW_REGS_PC : QEMU_PLUGIN_CB_NO_REGS, at);
}

void system_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count)
{
    pthread_mutex_lock(&sys.lock);
    if (!sys.opened) {
        sys.opened = true;
        open_system();
    }
    unsigned here = sys.machine->current();
    bool foreign = !sys.machine->aarch64(here) || count > MAX_INSNS;
    unsigned el = sys.machine->pstate(here) ? ANY_EL : sys.machine->el(here);
    struct block *b =
        foreign ? NULL : find_block(qemu_plugin_tb_vaddr(tb), words, count, el);
    pthread_mutex_unlock(&sys.lock);
    if (!b) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_foreign, reading(), NULL);
        return;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, reading(), b);
    for (size_t i = 0; i < count; i++)
        watch(qemu_plugin_tb_get_insn(tb, i), &b->insns[i]);
}

/* ---- installation ---- */

int system_install(uint64_t id, unsigned api, unsigned vcpus, int argc, char **argv)
{
    struct spex_error error = {.text = ""};
    spex_vm_config_default(&sys.config);
    sys.machine = api >= 7 ? &machine_qemu11 : &machine_qemu72;
    sys.vcpus = vcpus;
    if (vcpus > MAX_VCPUS)
        snprintf(error.text, sizeof error.text, "at most %d CPUs", MAX_VCPUS);
    for (int i = 0; i < argc && !error.text[0]; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            continue;
        *value++ = '\0';
        if (!strcmp(argv[i], "log")) {
            sys.log = open(value, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
            if (sys.log < 0)
                snprintf(error.text, sizeof error.text, "cannot write %s", value);
            continue;
        }
        if (!strcmp(argv[i], "features") || !strcmp(argv[i], "model"))
            for (char *p = value; *p; p++)
                if (*p == ':') /* commas separate plugin arguments */
                    *p = ',';
        spex_vm_config_set(&sys.config, argv[i], value, &error);
    }
    if (!error.text[0] && !spex_spu_config_check(&sys.config.unit, &error))
        spex_uarch_new(&sys.config.model, &sys.model);
    if (error.text[0] || !sys.model) {
        fprintf(stderr, "spex vm: %s\n", error.text[0] ? error.text : "out of memory");
        return 1;
    }
    sys.machine->install(id);
    return 0;
}
