/*
 * The state of the plugin in user mode: vCPUs, and what a process has once. hot.c has the
 * callbacks of the hot path, sample.c one sample, block.c translation, life.c threads, forks and
 * system calls.
 *
 * A vCPU's state belongs to its thread; nothing on the hot path is shared.
 */
#ifndef GUEST_VCPU_H
#define GUEST_VCPU_H

#include "allocs.h"
#include "code.h"
#include "detail.h"
#include "flow.h"
#include "program.h"
#include "qemu_plugin.h"
#include "regs.h"
#include "stack.h"
#include "task.h"

#include "uarch/far.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

enum {
    MAX_VCPUS = 8192,
    PARTS = 64,      /* accesses kept for one operation */
    SNAPSHOT = 4096, /* bytes of a unit's state */
    NO_SLOT = -1,
};
#define NEVER (UINT64_C(1) << 60) /* a number of operations that is never reached */

/* ---- a vCPU ---- */

/* Members used by every callback, in a cache line of their own. */
struct hot {
    _Alignas(64) struct vcpu *vcpu;
    /* without a model: operations before the one that the unit may sample, the time */
    int64_t left;
    uint64_t clock;          /* cycles << SPEX_FAR_FRACTION */
    const struct insn *want; /* the operation being followed, or NULL */
    /* the full model: where the next word goes; at stop, flow_turn() is called */
    uint64_t *at, *stop, *ring;
    const struct block *open; /* the last block, if its end has not come yet */
    struct timing_core *timing;
    /* sampled detail: operations until details are needed, 0 if they already are; the time */
    _Alignas(64) uint64_t far_left;
    uint64_t far_clock;
    bool far; /* no words are written: far from a sample */
    /* --stacks; with the full model, the guest's thread knows only the last block and SP */
    _Alignas(64) struct stack stack;
};

struct vcpu {
    struct hot *hot;
    struct flow *flow; /* NULL without a model */
    struct task task;
    unsigned index;
    bool live;
    bool forced; /* see sample_force() */
    bool off;    /* the unit is, by region.h */
    /* the operation being followed: hot->want */
    int slot;
    uint64_t selected; /* model clock */
    struct spex_access parts[PARTS];
    unsigned part_count;
    uint64_t events; /* events of its predicate */
    /* an operation that finished in the program and is still in flight in the model */
    struct {
        int slot; /* NO_SLOT: there is none */
        const struct spex_op *op;
        struct spex_outcome outcome;
        struct spex_access parts[PARTS];
        uint64_t done;
    } pending;
    /* the unit as it was when the current block was entered, in case a fault cuts the block */
    struct {
        bool asked;    /* the unit was asked in the current block */
        uint64_t at;   /* index of the first operation that the unit was asked about */
        uint64_t last; /* number of the last one plus one */
        size_t size;
        uint8_t unit[SNAPSHOT];
        uint64_t pmu[RUN_EVENTS];
    } before;
    uint64_t argument[6];  /* arguments of the current system call */
    struct regs_copy copy; /* turns_copy() */
    bool makes;            /* the call makes a thread, which has not begun yet */
    unsigned made;         /* 1 + index of the vCPU that it made, which may never begin */
    uint64_t clear_tid;    /* where the kernel wakes joiners when the thread ends */
    /* --allocs */
    struct allocs_call call;
    const uint64_t *registers; /* X0 to X30, SP; NULL: not found yet */
    struct stack callers;      /* --stacks, full model: the stack as the guest's thread sees it */
};

/* Appends a word to the ring. */
static inline __attribute__((always_inline)) void hot_push(struct hot *h, uint64_t word)
{
    uint64_t *at = h->at;
    *at++ = word;
    h->at = at;
    if (__builtin_expect(at == h->stop, 0))
        flow_turn(h);
}

/* The word for entering a block, which also says how the branch to it was predicted. */
static inline __attribute__((always_inline)) uint64_t hot_word(struct hot *h,
                                                               const struct block *block)
{
    uint64_t word = FLOW_BLOCK | (uintptr_t)&block->timing;
    const struct block *last = h->open;
    h->open = block;
    if (last && timing_predict(h->timing, &last->timing, block->timing.pc))
        word |= FLOW_WRONG;
    return word;
}

static inline __attribute__((always_inline)) void hot_block(struct hot *h,
                                                            const struct block *block)
{
    hot_push(h, hot_word(h, block));
}

/* Sampled detail: a block is entered far from samples, whose lines are there. */
static inline __attribute__((always_inline)) void hot_far(struct hot *h, struct block *block)
{
    const struct block *last = h->open;
    h->open = block;
    h->far_left -= block->timing.count;
    h->far_clock += block->timing.mean;
    if (__builtin_expect(last != NULL, 1))
        timing_far_branch(h->timing, (struct timing_block *)&last->timing, block->timing.pc);
}

/* Sampled detail: a block is entered. The common path ends in a tail call and saves no registers.
 */
static inline __attribute__((always_inline)) void hot_enter(struct hot *h, struct block *block)
{
    if (__builtin_expect(
            h->far_left < block->timing.count || !timing_far_fetched(h->timing, &block->timing), 0))
        detail_enter(h, block);
    else
        hot_far(h, block);
}

/* An access of the last block, as a word of the ring. */
static inline void hot_access(struct hot *h, uint64_t word)
{
    if (h->far)
        timing_far_access(h->timing, &h->open->timing, word, h->far_clock >> SPEX_FAR_FRACTION);
    else
        hot_push(h, word);
}

/* State of the process. */
struct user {
    struct timing *timing; /* NULL: --model none */
    bool full;             /* there is a model: flow.h */
    bool sampled;          /* details only near samples: detail.h */
    bool truth;
    bool stacks; /* call stacks are kept */
    bool allocs; /* allocations are kept */
    bool copies; /* registers are copied at each block */
    bool registers;
    unsigned api;  /* version of QEMU's plugin interface */
    bool loaded;   /* the program is loaded, and its mappings are logged */
    char name[16]; /* name of the process */
    struct program program;
    uint64_t marker[2];   /* addresses of the functions that stop and start sampling; 0: none */
    uint32_t vl;          /* bits of an SVE vector, where code is being translated; 0: not shown */
    uint32_t svl;         /* vector length in streaming mode; 0: not known yet */
    bool streaming;       /* streaming mode where code is being translated */
    bool over;            /* this process has ended its tasks */
    pthread_mutex_t lock; /* blocks, handlers, truth */
    struct block *blocks[1 << 16];
    uint64_t handlers[512]; /* addresses of signal handlers */
    unsigned handler_count;
    bool interrupts; /* a handled signal may come from outside and end a call early */
    struct {
        uint64_t word, clock; /* with the full model, a ticket instead of the clock */
    } wakes[256];             /* futexes, and when a thread was last woken there */
    uint64_t tickets;
    uint64_t heap;   /* where the heap begins, once known */
    int jit[4];      /* descriptors of open perf-PID.map and jitdump files, plus one */
    uint32_t opened; /* how many such files were opened */
    uint32_t number[4];
    struct { /* truth rows */
        struct run_truth *row;
        size_t used, chunks;
        size_t base; /* chunks of the file filled by an earlier program of this process */
        struct run_truth *chunk[4096];
    } rows;
    uint32_t process; /* number of the process's first task */
    uint32_t fork_id; /* id of the child that is being made */
    int32_t fork_cpu;
};

static inline bool accesses_memory(const struct spex_op *op)
{
    return op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) &&
           op->kind != SPEX_OP_BRANCH; /* GCS is off in user mode */
}

static inline bool is_prefetch(const struct spex_op *op)
{
    return op->kind == SPEX_OP_PREFETCH || op->kind == SPEX_OP_SVE_PREFETCH;
}

/* ---- hot.c ---- */

/* Makes QEMU call us at the entry of a block (of a signal handler or not), or at an access. */
void hot_watch_block(struct qemu_plugin_tb *tb, struct block *block, bool handler);
void hot_watch_access(struct qemu_plugin_insn *insn, struct insn *at);

/* ---- sample.c ---- */

/* For an operation that made no accesses but should have: sets the outcome, or counts it. */
void sample_unseen(struct vcpu *v, const struct spex_op *op, struct spex_outcome *out,
                   bool exception);
/* The operation as the record will show it. */
const struct spex_op *sample_op(const struct spex_op *op, const struct spex_outcome *out);

/* The armed operation is in the block that was entered just now. */
void sample_expired(struct vcpu *v, const struct block *block);
/*
 * The followed operation is over. next: where control went after it, if it was
 * the last of its block; exception: it raised a synchronous exception instead.
 */
void sample_finish(struct vcpu *v, uint64_t next, bool exception);
/* Without a model: makes the counter negative, so that the entry of the next block calls us. */
void sample_force(struct vcpu *v, bool on);
/* A signal handler is about to be entered: if a fault caused it, the block before was cut short. */
void sample_signalled(struct vcpu *v);
/* A marker function is entered at pc: region.h says what that means. */
void sample_marker(struct vcpu *v, uint64_t pc);
/* A system call ends the current block: all of it was executed. Nothing stays in flight. */
void sample_settle(struct vcpu *v);
/* A new event starts to count. */
void sample_begin(struct vcpu *v);
/* The event learns which operations ran since the unit was last asked. */
void sample_end(struct vcpu *v);

/* Was the signal with this frame raised by an instruction? */
bool sample_fault(uint64_t frame);

/* ---- turns.c: call stacks ---- */

/* Stand for a block when a thread begins, or continues without a turn. */
extern const struct block turns_start, turns_none;
/* A thread begins. */
void turns_begin(struct hot *h);
/* If registers must be read each time: reads the stack pointer, or all needed registers. */
void turns_copy(struct vcpu *v, bool all);
/* stack_quick() was false at the entry of this block. */
void turns_arrive(struct hot *h, const struct block *block);
/* Sampled detail, far from samples: control went from the end of a block to this one. */
void turns_far(struct hot *h, const struct block *last, const struct block *block);
/* The full model: writes the registers that the model's thread will need to the ring. */
void turns_tell(struct hot *h, const struct block *last);
/* A handler is entered: fills in what the stack needs. With the full model it does nothing else. */
void turns_signalled(struct vcpu *v, struct flow_signal *signal);
void turns_signal(struct stack *stack, const struct flow_signal *signal);
/* rt_sigreturn is about to be executed. */
void turns_sigreturn(struct vcpu *v);
/*
 * The unit took the operation at pc: remembers its stack, if stacks are kept, until the record is
 * made.
 */
void turns_sampled(struct vcpu *v, const struct stack *stack, uint64_t pc);
/* Control went from the end of block `last` to pc. */
void turns_follow(struct stack *stack, const struct block *last, uint64_t pc, uint64_t sp,
                  uint64_t x29, uint64_t x30);

/* ---- block.c ---- */

/* The block with these instructions at pc: an existing one, or a new one. */
struct block *block_get(uint64_t pc, const uint32_t *words, size_t count);
/* Can its address be computed from registers, without a callback (and without a model)? */
bool block_by_registers(const struct insn *insn);
/* In the child of a fork: uses a separate file for exact counts. */
void block_forked(void);
/* A row for a call, with the lock held; NULL if the disk is full. */
struct run_call *block_new_call(void);
/* The process ran another program before: its rows stay. */
void block_resumed(void);

/* ---- sve_user.c ---- */

/* Facts about an SVE instruction; NULL for others. */
const struct sve *sve_make(uint32_t word, const struct spex_op *op);
/* Callbacks before it. */
void sve_execute(unsigned vcpu, void *data);
void sve_execute_full(unsigned vcpu, void *data);
/*
 * Streaming mode (SME). A block, of a signal handler or not, is about to be translated: sets vector
 * lengths. Call it with plugin.user.lock held.
 */
void sve_translate(bool handler);
/* Is it SMSTART, SMSTOP or a write of SVCR? Then the callback before it; data: the word. */
bool sve_switches(uint32_t word);
void sve_switch(unsigned vcpu, void *data);
/* A handler is entered; a system call is made, perhaps rt_sigreturn. */
void sve_signalled(void);
void sve_call(bool sigreturn);
/* Events for a partial and an empty predicate of a load, store or prefetch, from its accesses. */
uint64_t sve_events(const struct insn *insn, bool accesses, bool partial);

/* ---- doubt.c: instructions that QEMU's CPU may not have ---- */

/*
 * A block, of a signal handler or not, is translated on this thread. Is this its last instruction
 * one that QEMU's CPU may lack? Call it with plugin.user.lock held.
 */
bool doubt_begins(uint32_t word, bool handler);
/* Callback before it. */
void doubt_note(unsigned vcpu, void *data);
/* This thread has continued after the instruction. */
void doubt_ends(void);

/* ---- qemu_user.c ---- */

/* Makes QEMU call the functions in user.h and below. */
void qemu_user_install(qemu_plugin_id_t id, unsigned api);

/* ---- life.c ---- */

void life_install(void);
/* A vCPU is there, or about to begin; it ends; it makes a system call, and is back; the process
 * ends. */
void life_vcpu(unsigned vcpu);
void life_vcpu_exit(unsigned vcpu);
void life_call(unsigned vcpu, int64_t number, const uint64_t argument[6]);
void life_return(unsigned vcpu, int64_t number, int64_t result);
void life_end(void);
/* Does a signal handler of the guest start at pc? Call it with plugin.user.lock held. */
bool life_is_handler(uint64_t pc);

#pragma GCC visibility pop
#endif
