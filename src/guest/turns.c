/* Feeds stack.h from the guest's blocks, registers and signal frames. */
#include "account.h"
#include "need.h"
#include "plugin.h"
#include "regs.h"

#include "perfdata/callchain.h"

#include <stdlib.h>
#include <string.h>

const struct block turns_start = {.turn = STACK_START}, turns_none = {.turn = STACK_GOES_ON};

/* Used before the location of the stack pointer is known, and where it cannot be found. */
static const uint64_t no_registers[32];
enum { TRIES = 1000 }; /* registers may all be zero, so that their location is ambiguous */
static unsigned tries;

void turns_begin(struct hot *h)
{
    h->stack.last = &turns_start;
    h->stack.sp = &no_registers[31];
    if (!plugin.user.full)
        stack_begin(&h->stack);
    else if (plugin.user.allocs)
        stack_begin(&h->vcpu->callers);
}

/* Finds the stack pointer of a thread that begins; false if it cannot be found now. */
static bool find_registers(struct hot *h)
{
    if (h->stack.sp != &no_registers[31])
        return true;
    const uint64_t *sp = regs_stack_pointer(h->vcpu->index);
    if (!sp && plugin.user.copies) /* the stack pointer is then read each time */
        sp = &h->vcpu->copy.sp;
    if (sp)
        h->stack.sp = sp;
    else if (__atomic_add_fetch(&tries, 1, __ATOMIC_RELAXED) == TRIES)
        __atomic_store_n(&plugin.run->no_stacks, 1, __ATOMIC_RELAXED);
    return sp != NULL;
}

void turns_copy(struct vcpu *v, bool all)
{
    if (v->hot->stack.sp != &v->copy.sp)
        return;
    v->copy.sp = regs_read(v->index, 31);
    if (all) {
        v->copy.x29 = regs_read(v->index, 29);
        v->copy.x30 = regs_read(v->index, 30);
    }
}

void turns_follow(struct stack *s, const struct block *last, uint64_t pc, uint64_t sp, uint64_t x29,
                  uint64_t x30)
{
    if (!last->turn || stack_quick(s, last->turn, last->timing.next, pc, sp))
        return;
    const struct stack_arrival arrival = {
        .turn = last->turn, .next = last->timing.next, .pc = pc, .sp = sp, .x29 = x29, .x30 = x30};
    stack_arrive(s, &arrival);
}

void turns_arrive(struct hot *h, const struct block *block)
{
    struct stack *s = &h->stack;
    const struct block *last = s->last;
    if (!find_registers(h))
        return; /* the last block remains the beginning of the thread */
    s->last = block;
    turns_copy(h->vcpu, true);
    turns_follow(s, last, block->timing.pc, s->sp[0], s->sp[-2], s->sp[-1]);
}

static void push(struct hot *h, enum flow_register reg, uint64_t value)
{
    hot_push(h, FLOW_REGISTER | (uint64_t)reg << 48 | (value & FLOW_VALUE));
}

void turns_tell(struct hot *h, const struct block *last)
{
    struct stack *s = &h->stack;
    if (!find_registers(h)) {
        s->last = &turns_start;
        return;
    }
    turns_copy(h->vcpu, true);
    push(h, FLOW_SP, s->sp[0]);
    if (plugin.user.allocs)
        turns_follow(&h->vcpu->callers, last, ((const struct block *)s->last)->timing.pc, s->sp[0],
                     s->sp[-2], s->sp[-1]);
    s->moved |= (last->turn & STACK_MOVES) != 0;
    if (!s->moved || (last->turn & (STACK_MOVES - 1)) == STACK_GOES_ON)
        return;
    s->moved = false;
    push(h, FLOW_X29, s->sp[-2]);
    push(h, FLOW_X30, s->sp[-1]);
}

void turns_far(struct hot *h, const struct block *last, const struct block *block)
{
    struct stack *s = &h->stack, *kept = &h->vcpu->flow->stack;
    if (!find_registers(h)) {
        s->last = kept->last = &turns_start;
        return;
    }
    turns_copy(h->vcpu, true);
    if (plugin.user.allocs)
        turns_follow(&h->vcpu->callers, last, block->timing.pc, s->sp[0], s->sp[-2], s->sp[-1]);
    turns_follow(kept, last, block->timing.pc, s->sp[0], s->sp[-2], s->sp[-1]);
    s->moved |= (last->turn & STACK_MOVES) != 0;
    if ((last->turn & (STACK_MOVES - 1)) != STACK_GOES_ON)
        s->moved = false;
}

/* ---- signals ---- */

/*
 * Linux's signal frame (struct rt_sigframe) at the stack pointer: siginfo, then the context with X0
 * to X30, SP and PC, then records, the first of which holds the FP registers.
 */
enum {
    FRAME_X29 = 544,
    FRAME_X30 = 552,
    FRAME_SP = 560,
    FRAME_PC = 568,
    FRAME_RECORDS = 592,
    FPSIMD = 0x46508001
};

static bool read_frame(uint64_t at, struct flow_signal *signal)
{
    uint32_t magic = 0;
    return regs_memory(at + FRAME_RECORDS, &magic, sizeof magic) && magic == FPSIMD &&
           regs_memory(at + FRAME_X29, &signal->x29, 8) &&
           regs_memory(at + FRAME_X30, &signal->x30, 8) &&
           regs_memory(at + FRAME_SP, &signal->sp, 8) && regs_memory(at + FRAME_PC, &signal->pc, 8);
}

static bool is_handler(uint64_t pc)
{
    pthread_mutex_lock(&plugin.user.lock);
    bool is = life_is_handler(pc);
    pthread_mutex_unlock(&plugin.user.lock);
    return is;
}

/*
 * Where control went from the end of the last block, unless a fault cut it short. Other handlers
 * may have been entered on the way, but none of them has run yet.
 */
static void find_turn(const struct block *last, struct flow_signal *signal)
{
    struct flow_signal inner = *signal;
    uint64_t at = signal->handler_sp;
    for (unsigned i = 0; i < STACK_SIGNALS && is_handler(inner.pc); i++) {
        uint64_t next = inner.sp;
        if (!read_frame(next, &inner))
            break;
        at = next;
    }
    signal->turned = !(sample_fault(at) && inner.pc - last->timing.pc < 4ull * last->timing.count);
    signal->turned_pc = inner.pc;
    signal->turned_sp = inner.sp;
    signal->turned_x29 = inner.x29;
    signal->turned_x30 = inner.x30;
}

void turns_signalled(struct vcpu *v, struct flow_signal *signal)
{
    struct stack *s = &v->hot->stack;
    signal->handler_sp = regs_read(v->index, 31);
    signal->handler_x30 = regs_read(v->index, 30);
    signal->real = find_registers(v->hot) && read_frame(signal->handler_sp, signal);
    if (!signal->real)
        return;
    find_turn(s->last, signal);
    if (plugin.user.full && plugin.user.allocs) {
        v->callers.last = s->last;
        turns_signal(&v->callers, signal);
    }
    if (!plugin.user.full) {
        turns_signal(s, signal);
        return;
    }
    /*
     * Predicts what the model's thread will know (stack_signal()), as far as turns_tell() needs it.
     */
    unsigned turn = ((const struct block *)s->last)->turn;
    bool moved = s->moved || (signal->turned && turn & STACK_MOVES);
    if (signal->turned && turn & (STACK_MOVES - 1))
        moved = false;
    s->gap = s->gap << 1 | moved;
    s->moved = false;
    s->last = &turns_none;
}

void turns_signal(struct stack *s, const struct flow_signal *signal)
{
    if (!signal->real)
        return;
    if (signal->turned)
        turns_follow(s, s->last, signal->turned_pc, signal->turned_sp, signal->turned_x29,
                     signal->turned_x30);
    stack_signal(s, signal->pc, signal->sp, signal->handler_sp, signal->handler_x30);
    s->last = &turns_none;
}

void turns_sigreturn(struct vcpu *v)
{
    struct stack *s = &v->hot->stack;
    struct flow_signal *signal, frame = {0};
    if (!read_frame(regs_read(v->index, 31), &frame))
        return;
    s->last = &turns_none;
    if (!plugin.user.full) {
        stack_signal_end(s, frame.pc, frame.sp, frame.x30);
        return;
    }
    if (plugin.user.allocs)
        stack_signal_end(&v->callers, frame.pc, frame.sp, frame.x30);
    s->moved = s->gap & 1;
    s->gap >>= 1;
    signal = need(malloc(sizeof *signal));
    *signal = frame;
    flow_mark(v, FLOW_SIGNAL_END, (uintptr_t)signal);
}

/* ---- samples ---- */

void turns_sampled(struct vcpu *v, const struct stack *s, uint64_t pc)
{
    struct task *task = &v->task;
    task->chain_pc = pc;
    task->alloc = (struct task_alloc){0};
    if (plugin.user.stacks)
        task->chain_count = stack_chain(s, CALLCHAIN_USER, task->chain, &task->chain_notes);
}
