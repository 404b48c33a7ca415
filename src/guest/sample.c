/*
 * One sample in user mode: when the unit is asked, what becomes of the operation
 * that it takes, and what a fault changes.
 */
#include "base/bits.h"
#include "need.h"
#include "plugin.h"
#include "region.h"
#include "regs.h"

#include <stdlib.h>
#include <string.h>

static void attention(struct vcpu *v, bool on)
{
    if (on)
        __atomic_fetch_or(&v->hot->core->attention, SPEX_UARCH_ATT_ENGINE, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&v->hot->core->attention, ~(uint32_t)SPEX_UARCH_ATT_ENGINE,
                           __ATOMIC_RELAXED);
}

void sample_force(struct vcpu *v, bool on)
{
    if (on != v->forced)
        v->hot->core->counter += on ? -(INT64_C(1) << 62) : INT64_C(1) << 62;
    v->forced = on;
}

/* The wanted operation is number `operations` (from 1) after the current block. */
static void arm(struct vcpu *v, uint64_t operations)
{
    v->more = operations > SPEX_UARCH_OPS_MAX ? operations - SPEX_UARCH_OPS_MAX : 0;
    spex_uarch_arm(v->hot->core, (uint32_t)(operations - v->more));
}

/*
 * Operation `at` of the block is the next one that the unit may sample, and the
 * block runs `count` operations. Asks the unit about each such operation in it.
 */
static void ask(struct vcpu *v, const struct block *block, uint64_t at, uint32_t count)
{
    struct spex_spu *unit = v->task.unit;
    while (at < count) {
        uint64_t until = spex_spu_until(unit);
        spex_spu_pass(unit, until);
        int slot = spex_spu_begin(unit, block->model.pc + 4 * at, 0);
        v->before.last = at + 1;
        if (slot != SPEX_SPU_NOT_SAMPLED) {
            v->hot->want = &block->insns[at];
            v->slot = slot;
            turns_sampled(v, &v->hot->stack, pc_of(v->hot->want));
            attention(v, true);
        }
        until = spex_spu_until(unit);
        at += 1 + (until < NEVER ? until : NEVER);
    }
    arm(v, at - count + 1);
}

static void complete_pending(struct vcpu *v)
{
    int slot = v->pending.slot;
    if (slot == NO_SLOT)
        return;
    v->pending.slot = NO_SLOT;
    task_complete(&v->task, slot, v->pending.op, &v->pending.outcome);
}

/*
 * FEAT_SPE_PBT: the last taken branch before the current block, as far as the
 * model's ring of blocks reaches.
 */
static void note_last_branch(struct vcpu *v)
{
    const struct spex_uarch_core *core = v->hot->core;
    for (uint32_t n = core->sequence; n + SPEX_UARCH_RING > core->sequence + 1; n--) {
        const struct spex_uarch_block *to =
            (const void *)(core->ring[n % SPEX_UARCH_RING] & ~(uintptr_t)1);
        const struct spex_uarch_block *from =
            (const void *)(core->ring[(n - 1) % SPEX_UARCH_RING] & ~(uintptr_t)1);
        if (from->end == SPEX_UARCH_END_NONE ||
            (from->end == SPEX_UARCH_END_COND && to->pc == from->next))
            continue;
        struct spex_outcome taken = {.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED,
                                     .target = to->pc,
                                     .target_security = SPEX_NONSECURE};
        spex_spu_note_branch(v->task.unit, &from->ops[from->count - 1], &taken);
        return;
    }
}

/* False if the unit is off, or has just been switched on: there is nothing to ask it. */
static bool in_region(struct vcpu *v)
{
    bool on = region_on(plugin.run, clock_of(v));
    if (on && !v->off)
        return true;
    if (on) {
        v->off = false;
        task_go_on(&v->task);
        sample_begin(v);
        return false;
    }
    if (!v->off) {
        complete_pending(v);
        task_pause(&v->task);
        v->off = true;
    }
    arm(v, REGION_POLL);
    return false;
}

void sample_marker(struct vcpu *v, uint64_t pc)
{
    sample_force(v, false);
    if (v->hot->want)
        sample_finish(v, pc, false);
    v->task.now = clock_of(v);
    if (v->task.unit)
        in_region(v);
}

void sample_expired(struct vcpu *v, const struct block *block)
{
    struct spex_uarch_core *core = v->hot->core;
    uint64_t at = (uint64_t)(spex_uarch_left(core) + block->model.count - 1) + v->more;
    v->task.now = v->selected = clock_of(v);
    if (!v->task.unit) {
        arm(v, NEVER);
        return;
    }
    if (plugin.run->regions && !in_region(v))
        return;
    if (v->pending.done <= v->selected)
        complete_pending(v);
    if (at < block->model.count) {
        v->sequence = v->before.sequence = core->sequence;
        v->part_count = 0;
        v->events = 0;
        v->worst = 0;
        v->before.at = at;
        if (spex_spu_wants_branches(v->task.unit))
            note_last_branch(v);
        spex_spu_flush(v->task.unit);
        v->before.size = spex_spu_save(v->task.unit, v->before.unit, SNAPSHOT);
        memcpy(v->before.pmu, v->task.shared->pmu, sizeof v->before.pmu);
    }
    ask(v, block, at, block->model.count);
}

static void note_unseen(struct vcpu *v, const struct spex_op *op)
{
    enum run_unseen what = op->kind == SPEX_OP_DC_ZVA ? RUN_UNSEEN_ZVA
                           : is_prefetch(op)          ? RUN_UNSEEN_PREFETCH
                           : op->kind == SPEX_OP_LDST_SVE || op->kind == SPEX_OP_LDST_SME
                               ? RUN_UNSEEN_SVE
                               : RUN_UNSEEN_OTHER;
    v->task.shared->unseen[what]++;
}

void sample_unseen(struct vcpu *v, const struct spex_op *op, struct spex_outcome *out,
                   bool exception)
{
    if (out->access[0].flags & SPEX_ACC_VA || exception || out->events & BIT(SPEX_EV_EMPTY_PRED))
        return;
    if (op->flags & SPEX_OPF_EXCL && op->flags & SPEX_OPF_STORE)
        out->flags |= SPEX_OUT_MONITOR_FAIL; /* QEMU stores only when the monitor passes */
    else if (accesses_memory(op) || is_prefetch(op))
        note_unseen(v, op);
}

const struct spex_op *sample_op(const struct spex_op *op, const struct spex_outcome *out)
{
    static const struct spex_op unseen_zva = {.kind = SPEX_OP_CACHE, .exec = SPEX_EXEC_STORE};
    return op->kind == SPEX_OP_DC_ZVA && !(out->access[0].flags & SPEX_ACC_VA) ? &unseen_zva : op;
}

void sample_finish(struct vcpu *v, uint64_t next, bool exception)
{
    const struct insn *want = v->hot->want;
    const struct spex_op *op = op_of(want);
    struct spex_outcome *out = &v->pending.outcome;
    v->hot->want = NULL;
    attention(v, false);
    *out = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED};
    if (exception)
        out->flags = SPEX_OUT_EXCEPTION;
    else if (op->kind == SPEX_OP_EXCEPTION)
        out->flags |= SPEX_OUT_EXCEPTION;
    if (want->block->streaming)
        out->flags |= SPEX_OUT_STREAMING;
    if (op->kind == SPEX_OP_BRANCH && !exception) {
        uint64_t behind = pc_of(want) + 4;
        if (op->flags & SPEX_OPF_COND && next == behind)
            out->flags &= ~(uint32_t)SPEX_OUT_PASSED;
        out->target = next;
        out->target_security = SPEX_NONSECURE;
        if (spex_uarch_mispredicted(v->hot->core, v->sequence))
            out->events |= UINT64_C(1) << 7;
    }
    if (exception)
        v->part_count = 0;
    else
        out->events |= v->events;
    if (v->part_count) {
        memcpy(v->pending.parts, v->parts, v->part_count * sizeof v->parts[0]);
        out->access[0] = v->parts[0];
        if (v->part_count > 1) {
            out->parts = v->pending.parts;
            out->part_count = v->part_count;
        }
    }
    sample_unseen(v, op, out, exception);
    spex_uarch_replay(v->hot->core, v->sequence, want->index, v->worst, out);
    v->pending.slot = v->slot;
    v->pending.op = sample_op(op, out);
    v->pending.done = v->selected + out->total;
    if (v->pending.done <= clock_of(v))
        complete_pending(v);
}

/* ---- faults ---- */

/* Only the first `executed` operations of the current block were executed. */
static void cut(struct vcpu *v, const struct block *block, uint32_t executed)
{
    struct spex_uarch_core *core = v->hot->core;
    v->task.shared->cut++;
    if (block->truth)
        for (uint32_t i = executed; i < block->model.count; i++)
            __atomic_fetch_add(&block->insns[i].truth->cut, 1, __ATOMIC_RELAXED);
    if (v->task.unit && v->before.sequence == core->sequence && v->before.last > executed) {
        /*
         * The unit was asked about operations that were never executed: repeat with those that
         * were.
         */
        spex_spu_restore(v->task.unit, v->before.unit, v->before.size);
        memcpy(v->task.shared->pmu, v->before.pmu, sizeof v->before.pmu);
        v->before.last = 0;
        if (v->hot->want && v->hot->want->index >= executed) {
            v->hot->want = NULL;
            attention(v, false);
        }
        ask(v, block, v->before.at, executed);
    } else {
        spex_uarch_give_back(core, block->model.count - executed);
    }
}

/* Linux's signal frame (struct rt_sigframe): siginfo at SP, the interrupted PC at SP + 568. */
enum { FRAME_SIGNO = 0, FRAME_CODE = 8, FRAME_PC = 568 };

static bool synchronous(int32_t signo, int32_t code)
{
    return code > 0 && (signo == 4 || signo == 5 || signo == 7 || signo == 8 || signo == 11);
}

bool sample_fault(uint64_t frame)
{
    int32_t signo = 0, code = 0;
    return regs_memory(frame + FRAME_SIGNO, &signo, 4) &&
           regs_memory(frame + FRAME_CODE, &code, 4) && synchronous(signo, code);
}

/*
 * A signal handler is about to be entered. The frame says where the program was:
 * after the last block, or, after a fault, inside it.
 */
void sample_signalled(struct vcpu *v)
{
    sve_signalled();
    struct spex_uarch_core *core = v->hot->core;
    int32_t signo = 0, code = 0;
    uint64_t pc = 0, sp = regs_read(v->index, 31);
    if (!regs_memory(sp + FRAME_SIGNO, &signo, 4) || !regs_memory(sp + FRAME_CODE, &code, 4) ||
        !regs_memory(sp + FRAME_PC, &pc, 8))
        return;
    struct flow_signal here = {.pc = pc, .fault = synchronous(signo, code)};
    if (plugin.user.stacks)
        turns_signalled(v, &here);
    if (plugin.user.full) {
        struct flow_signal *signal = need(malloc(sizeof *signal));
        *signal = here;
        flow_mark(v, FLOW_SIGNAL, (uintptr_t)signal);
        return;
    }
    const struct block *block = (const struct block *)core->last;
    bool fault = false;
    if (!block->model.count)
        return;
    sample_force(v, false);
    if (synchronous(signo, code) && pc - block->model.pc < 4ull * block->model.count) {
        uint32_t executed = (uint32_t)(pc - block->model.pc) / 4 + 1;
        const struct insn *at = &block->insns[executed - 1];
        if (executed < block->model.count)
            cut(v, block, executed);
        fault = v->hot->want == at;
    }
    if (v->hot->want)
        sample_finish(v, pc, fault);
    if (v->task.unit)
        spex_spu_exception_taken(v->task.unit);
    spex_uarch_cut(core);
}

/* ---- beginning and end ---- */

void sample_settle(struct vcpu *v)
{
    sample_force(v, false);
    if (v->hot->want)
        sample_finish(v, v->hot->core->last->next, false);
    v->task.now = clock_of(v);
    complete_pending(v);
}

void sample_end(struct vcpu *v)
{
    sample_settle(v);
    struct spex_spu *unit = v->task.unit;
    int64_t left = spex_uarch_left(v->hot->core) - 1 + (int64_t)v->more;
    uint64_t until = unit ? spex_spu_until(unit) : UINT64_MAX;
    if (until < NEVER && left >= 0 && (uint64_t)left <= until)
        spex_spu_pass(unit, until - (uint64_t)left);
}

void sample_begin(struct vcpu *v)
{
    uint64_t until = v->task.unit ? spex_spu_until(v->task.unit) : NEVER;
    v->pending.slot = NO_SLOT;
    v->hot->want = NULL;
    arm(v, (until < NEVER ? until : NEVER) + 1);
}
