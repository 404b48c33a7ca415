/*
 * Reports the guest's operations to the unit. At the entry of each block its operations are
 * counted; those that the unit wants are reported at the block's end, when it is certain that
 * they were executed.
 */
#include "plugin.h"

#include "system.h"

#include <string.h>

/* ---- one sample ---- */

/* Context synchronization: it matters after register writes and for previous branch targets. */
void system_synchronize(struct sys_vcpu *v, bool exception)
{
    if (!v->written && !spex_spu_wants_branches(v->unit.unit))
        return;
    v->written = false;
    if (exception)
        unit_log_exception_taken(&v->unit);
    else
        unit_log_context_sync(&v->unit);
}

/* Completes samples whose time has passed. */
void system_land(struct sys_vcpu *v, uint64_t now)
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
 * The unit knows v->counted operations of the block. Reports the rest, or stops at the one
 * that it wants.
 */
void system_plan(struct sys_vcpu *v)
{
    const struct block *block = v->block;
    uint64_t left = block->timing.count - v->counted;
    uint64_t until = spex_spu_until(v->unit.unit);
    if (__builtin_expect(left <= until, 1)) {
        unit_log_pass(&v->unit, left);
        v->counted = block->timing.count;
        v->want = NULL;
        return;
    }
    v->want = &block->insns[v->counted + until];
    if (v->capturing)
        return;
    v->capturing = true;
    v->stamp++;
    v->access_count = 0;
    plugin.sys.machine->sysreg(v->index, SPEX_CONTEXTIDR_EL1, &v->context[0]);
    plugin.sys.machine->sysreg(v->index, SPEX_CONTEXTIDR_EL2, &v->context[1]);
}

/* Reports exactly n operations of the block to the unit, none of which it still wants. */
static void count_to(struct sys_vcpu *v, uint32_t n)
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
    bool exception;  /* a synchronous one, raised by the operation itself */
    uint64_t target; /* where control went, if it is the last of its block */
    unsigned el;     /* Exception level there */
};

static void take_off(struct sys_vcpu *v, int slot, const struct insn *want,
                     const struct account_insn *time, const struct ending *end)
{
    static const struct spex_op unseen = {.kind = SPEX_OP_OTHER, .exec = SPEX_EXEC_STORE};
    const struct spex_op *op = op_of(want);
    const struct seen *seen = &v->seen[want->index];
    struct flight *f = &v->flight[v->flying++];
    struct spex_outcome *out = &f->outcome;
    bool seen_any = seen->stamp == v->stamp && seen->count;
    uint64_t predicate = seen->stamp == v->stamp && !end->exception ? seen->events : 0;
    f->slot = slot;
    f->op = op;
    *out = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED,
                                 .issue = (uint32_t)(time->issue - time->dispatch),
                                 .total = (uint32_t)(time->done - time->dispatch)};
    f->done = time->done;
    if (op->kind == SPEX_OP_EXCEPTION)
        out->flags |= SPEX_OUT_EXCEPTION;
    else if (end->exception)
        out->flags = SPEX_OUT_EXCEPTION;
    if ((op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET) && !end->exception) {
        if (op->flags & SPEX_OPF_COND && end->target == want->block->timing.next)
            out->flags &= ~(uint32_t)SPEX_OUT_PASSED;
        out->target = end->target;
        out->target_el = (uint8_t)end->el;
        out->target_security = SPEX_NONSECURE;
        if (v->run.mispredicted)
            out->events |= UINT64_C(1) << 7;
    }
    out->events |= predicate;
    if (seen_any) {
        memcpy(f->parts, &v->access[seen->first], seen->count * sizeof f->parts[0]);
        system_outcome(v, want, f->parts, seen->count);
        out->access[0] = f->parts[0];
        if (seen->count > 1) {
            out->parts = f->parts;
            out->part_count = seen->count;
        }
    } else if (op->flags & SPEX_OPF_EXCL && op->flags & SPEX_OPF_STORE) {
        out->flags |= SPEX_OUT_MONITOR_FAIL; /* QEMU stores only when the monitor passes */
    } else if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) && op->kind != SPEX_OP_BRANCH &&
               !end->exception && !(predicate >> SPEX_EV_EMPTY_PRED & 1)) {
        unit_log_note(&v->unit, "access not shown by QEMU: pc 0x%llx insn 0x%08x",
                      (unsigned long long)pc_of(want), want->block->words[want->index]);
        f->op = &unseen;
    }
}

/* An interrupt that the unit did not ask for, up to the read of PMBSR_ELx that finds nothing. */
void system_spurious(struct sys_vcpu *v, bool level)
{
    struct spex_spu_status status = {.size = sizeof status};
    spex_spu_get_status(v->unit.unit, &status);
    v->spurious = level;
    plugin.sys.machine->ppi(v->index, PMBIRQ, level || status.irq);
    unit_log_note(&v->unit, "injected: PMBIRQ %d", level);
}

/*
 * The wanted operation was executed. Continues with the next one that the unit wants in this block.
 */
static void finish(struct sys_vcpu *v, const struct ending *end)
{
    const struct insn *want = v->want;
    const struct vm_injection *in = &plugin.sys.config.inject;
    unit_log_pass(&v->unit, want->index - v->counted);
    v->counted = want->index + 1;
    unit_log_set(&v->unit, SPEX_CONTEXTIDR_EL1, v->context[0]);
    unit_log_set(&v->unit, SPEX_CONTEXTIDR_EL2, v->context[1]);
    system_refresh(v, SPEX_CNTVOFF_EL2);
    const struct account_insn time = system_time(v, want);
    system_land(v, time.dispatch);
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
            take_off(v, slot, want, &time, end);
        if (v->stuck != NONE && v->samples == in->collide + in->collisions) {
            unit_log_abandon(&v->unit, v->stuck);
            v->stuck = NONE;
        }
        if (v->samples == in->event)
            unit_log_impdef_event(&v->unit);
        if (v->samples == in->irq)
            system_spurious(v, true);
    }
    system_plan(v);
}

/* Everything before operation n of the block has been executed, and no branch of the block. */
void system_settle(struct sys_vcpu *v, uint32_t n)
{
    static const struct ending end;
    if (v->want && v->want->index < n)
        system_account(v, n, true, 0);
    while (v->want && v->want->index < n)
        finish(v, &end);
    count_to(v, n);
}

/* The whole block was executed and control went to target, where a block was entered or not. */
static void leave(struct sys_vcpu *v, uint64_t target, unsigned el)
{
    const struct ending end = {.target = target, .el = el};
    const struct block *from = v->block;
    system_account(v, from->timing.count, false, target);
    while (v->want)
        finish(v, &end);
    if (from->eret)
        system_synchronize(v, false);
}

/*
 * An exception was taken: a synchronous one of the instruction at pc, or pc is where the guest will
 * continue. Less than the whole block may have been executed; the rest is taken back.
 */
static void interrupted(struct sys_vcpu *v, bool synchronous, uint64_t pc, unsigned el)
{
    const struct block *block = v->block;
    if (block && synchronous && pc - block->timing.pc < 4ull * block->timing.count) {
        uint32_t at = (uint32_t)((pc - block->timing.pc) / 4);
        static const struct ending plain, raised = {.exception = true};
        system_account(v, at + 1, true, 0);
        while (v->want && v->want->index <= at)
            finish(v, v->want->index == at ? &raised : &plain);
        count_to(v, at + 1);
    } else if (block) {
        leave(v, pc, el); /* fetching the next instruction failed, SVC, or an interrupt */
    }
    v->block = NULL;
    v->branch = NULL;
    system_synchronize(v, true);
}

/* ---- blocks that need a check ---- */

static uint64_t banked(const struct sys_vcpu *v, unsigned el1)
{
    uint64_t value = 0;
    unsigned el2 = el1 | 4u << 11; /* op1 of the EL2 register */
    plugin.sys.machine->sysreg(v->index, plugin.sys.machine->el(v->index) == 2 ? el2 : el1, &value);
    return value;
}

static uint64_t elr(const struct sys_vcpu *v)
{
    return banked(v, SPEX_SYSREG(3, 0, 4, 0, 1));
}

/* The Exception level that the exception was taken from. */
static unsigned spsr_el(const struct sys_vcpu *v)
{
    return banked(v, SPEX_SYSREG(3, 0, 4, 0, 0)) >> 2 & 3;
}

/* QEMU 7.2 does not report exceptions: a block at VBAR_ELx + offset was entered by one. */
static bool at_vector(const struct sys_vcpu *v, const struct block *block, bool *synchronous)
{
    uint64_t offset = block->timing.pc - banked(v, SPEX_SYSREG(3, 0, 12, 0, 0));
    *synchronous = !(offset & 0x180);
    return offset < 0x800;
}

/* An atomic that could not be done within its block is run by itself: the block ended before it. */
static bool done_again(struct sys_vcpu *v, const struct block *block)
{
    const struct block *from = v->block;
    uint64_t at = (block->timing.pc - from->timing.pc) / 4;
    if (block == from || block->timing.pc < from->timing.pc || at >= from->timing.count ||
        from->words[at] != block->words[0])
        return false;
    system_account(v, (uint32_t)at, true, 0);
    system_settle(v, (uint32_t)at);
    v->block = NULL;
    return true;
}

/* FEAT_SPE_PBT: which branch led here. */
static void follow_branch(struct sys_vcpu *v, const struct block *to)
{
    const struct block *from = v->block;
    const struct insn *last = &from->insns[from->timing.count - 1];
    const struct spex_op *op = op_of(last);
    if ((op->kind != SPEX_OP_BRANCH && op->kind != SPEX_OP_ERET) ||
        (op->flags & SPEX_OPF_COND && to->timing.pc == from->timing.next))
        return;
    v->branch = last;
    v->branch_target = to->timing.pc;
}

/* ---- callbacks of QEMU ---- */

void system_on_block(unsigned index, void *data)
{
    struct block *block = data;
    struct sys_vcpu *v = plugin.sys.vcpu[index];
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
    unsigned el = current_el(v, block);
    if (from) {
        system_account(v, from->timing.count, false, block->timing.pc);
        if (__builtin_expect(v->want != NULL || from->eret, 0))
            leave(v, block->timing.pc, el);
        if (spex_spu_wants_branches(v->unit.unit))
            follow_branch(v, block);
    }
    if (__builtin_expect(v->flying, 0))
        system_land(v, system_clock(v));
    if (__builtin_expect(el != v->el, 0))
        system_set_state(v, el);
    v->block = block;
    v->counted = 0;
    v->capturing = false;
    system_approach(v, block);
    system_plan(v);
    if (__builtin_expect(block->zva_count, 0))
        system_zero_lines(v, block);
}

/* AArch32 code: not profiled, but the block before it ends. */
void system_on_foreign(unsigned index, void *data)
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    (void)data;
    if (!v || !v->active)
        return;
    if (v->block)
        leave(v, v->block->timing.next, plugin.sys.machine->el(index));
    v->block = NULL;
    system_set_state(v, plugin.sys.machine->el(index));
}

void system_exception(unsigned index, bool synchronous, uint64_t from)
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    if (v && v->active)
        interrupted(v, synchronous, from, spsr_el(v));
}
