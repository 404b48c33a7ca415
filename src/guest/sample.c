/*
 * One sample in user mode: when the unit is asked, what happens to the operation that it takes, and
 * what a fault changes.
 */
#include "base/bits.h"
#include "need.h"
#include "plugin.h"
#include "region.h"
#include "regs.h"

#include "uarch/none.h"

#include <stdlib.h>
#include <string.h>

void sample_force(struct vcpu *v, bool on)
{
    if (on != v->forced)
        v->hot->left += on ? -(INT64_C(1) << 62) : INT64_C(1) << 62;
    v->forced = on;
}

/* Sets how many operations after the current block the wanted one comes. */
static void arm(struct vcpu *v, uint64_t operations)
{
    v->hot->left = (int64_t)(operations < NEVER ? operations : NEVER);
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
        int slot = spex_spu_begin(unit, block->timing.pc + 4 * at, 0);
        v->before.last = at + 1;
        if (slot != SPEX_SPU_NOT_SAMPLED) {
            v->hot->want = &block->insns[at];
            v->slot = slot;
            turns_sampled(v, &v->hot->stack, pc_of(v->hot->want));
        }
        until = spex_spu_until(unit);
        at += 1 + (until < NEVER ? until : NEVER);
    }
    arm(v, at - count);
}

static void complete_pending(struct vcpu *v)
{
    int slot = v->pending.slot;
    if (slot == NO_SLOT)
        return;
    v->pending.slot = NO_SLOT;
    task_complete(&v->task, slot, v->pending.op, &v->pending.outcome);
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
    v->before.asked = false;
    v->task.now = clock_of(v);
    if (v->task.unit)
        in_region(v);
}

void sample_expired(struct vcpu *v, const struct block *block)
{
    uint64_t at = (uint64_t)(v->hot->left + block->timing.count);
    v->task.now = v->selected = clock_of(v);
    if (!v->task.unit) {
        arm(v, NEVER);
        return;
    }
    if (plugin.run->regions && !in_region(v))
        return;
    if (v->pending.done <= v->selected)
        complete_pending(v);
    if (at < block->timing.count) {
        v->before.asked = true;
        v->part_count = 0;
        v->events = 0;
        v->before.at = at;
        spex_spu_flush(v->task.unit);
        v->before.size = spex_spu_save(v->task.unit, v->before.unit, SNAPSHOT);
        memcpy(v->before.pmu, v->task.shared->pmu, sizeof v->before.pmu);
    }
    ask(v, block, at, block->timing.count);
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
    const struct account_insn time =
        none_time(&plugin.run->model, &want->block->timing, want->index, 0);
    v->hot->want = NULL;
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
    out->issue = (uint32_t)(time.issue - time.dispatch);
    out->total = (uint32_t)(time.done - time.dispatch);
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
    v->task.shared->cut++;
    if (block->truth)
        for (uint32_t i = executed; i < block->timing.count; i++)
            __atomic_fetch_add(&block->insns[i].truth->cut, 1, __ATOMIC_RELAXED);
    if (v->task.unit && v->before.asked && v->before.last > executed) {
        /*
         * The unit was asked about operations that were never executed: repeat with those that
         * were.
         */
        spex_spu_restore(v->task.unit, v->before.unit, v->before.size);
        memcpy(v->task.shared->pmu, v->before.pmu, sizeof v->before.pmu);
        v->before.last = 0;
        if (v->hot->want && v->hot->want->index >= executed)
            v->hot->want = NULL;
        ask(v, block, v->before.at, executed);
    } else {
        v->hot->left += block->timing.count - executed;
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
 * A signal handler is about to be entered. The frame says where the program was: after the last
 * block or, after a fault, inside it.
 */
void sample_signalled(struct vcpu *v)
{
    sve_signalled();
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
    const struct block *block = v->hot->open;
    bool fault = false;
    if (!block)
        return;
    sample_force(v, false);
    if (synchronous(signo, code) && pc - block->timing.pc < 4ull * block->timing.count) {
        uint32_t executed = (uint32_t)(pc - block->timing.pc) / 4 + 1;
        const struct insn *at = &block->insns[executed - 1];
        if (executed < block->timing.count)
            cut(v, block, executed);
        fault = v->hot->want == at;
    }
    if (v->hot->want)
        sample_finish(v, pc, fault);
    if (v->task.unit)
        spex_spu_exception_taken(v->task.unit);
    v->before.asked = false;
    v->hot->open = NULL;
}

/* ---- beginning and end ---- */

void sample_settle(struct vcpu *v)
{
    sample_force(v, false);
    if (v->hot->want)
        sample_finish(v, v->hot->open->timing.next, false);
    v->before.asked = false;
    v->task.now = clock_of(v);
    complete_pending(v);
}

void sample_end(struct vcpu *v)
{
    sample_settle(v);
    struct spex_spu *unit = v->task.unit;
    int64_t left = v->hot->left;
    uint64_t until = unit ? spex_spu_until(unit) : UINT64_MAX;
    if (until < NEVER && left >= 0 && (uint64_t)left <= until)
        spex_spu_pass(unit, until - (uint64_t)left);
}

void sample_begin(struct vcpu *v)
{
    uint64_t until = v->task.unit ? spex_spu_until(v->task.unit) : NEVER;
    v->pending.slot = NO_SLOT;
    v->hot->want = NULL;
    arm(v, until);
}
