/*
 * The plugin in user mode.
 *
 * At the entry of each block the model counts its operations down. When the one
 * that the unit may sample is among them, the unit is asked at once; if it takes
 * the sample, the operation is followed: its memory callbacks supply addresses,
 * the entry of the next block says where a branch went, and the model says how
 * long it took. It stays in flight for that long in model time, so that the next
 * sample may collide with it.
 *
 * A vCPU's state belongs to its thread; nothing on the hot path is shared.
 */
#include "user.h"

#include "address.h"
#include "base/bits.h"
#include "qemu_plugin.h"
#include "regs.h"
#include "task.h"

#include <spex/a64.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_VCPUS = 8192,
    PARTS = 64,         /* accesses of one operation that are kept */
    SNAPSHOT = 4096,    /* bytes of a unit's state */
    NONE = -1,
    NEVER_SHIFT = 60,
};
static const uint64_t NEVER = UINT64_C(1) << NEVER_SHIFT; /* operations: more than will ever run */

/* ---- blocks ---- */

/*
 * An address that follows from registers at the entry of the block: the base
 * register plus a constant, plus the index register plus a constant, extended.
 */
struct traced {
    bool known;
    struct address from; /* registers at the entry of the block */
    uint64_t index_offset;
};

struct insn {
    const struct block *block;
    uint32_t index;
    uint32_t size;           /* of one access, as QEMU makes them */
    struct traced address;
    struct run_truth *truth; /* row of this instruction, or NULL */
};

struct block {
    struct spex_uarch_block model; /* pc, count, ops; first: the model's pointer is ours */
    struct insn *insns;
    const uint32_t *words;
    bool zva; /* has DC ZVA whose address is traced */
    struct run_truth *truth; /* row of this block, or NULL */
    struct block *next;      /* of the same hash slot */
};

/* ---- a vCPU ---- */

/* What callbacks touch each time: a cache line of its own. */
struct hot {
    _Alignas(64) struct spex_uarch_core *core;
    const struct insn *want; /* the operation being followed, or NULL */
    struct vcpu *vcpu;
};

struct vcpu {
    struct hot *hot;
    struct task task;
    unsigned index;
    bool live;
    bool forced;   /* see force() */
    uint64_t more; /* operations beyond the armed one until the wanted one */
    /* the operation being followed: hot->want */
    int slot;
    uint32_t sequence;
    uint64_t selected; /* model clock */
    struct spex_access parts[PARTS];
    unsigned part_count;
    spex_uarch_result worst;
    /* an operation that finished in the program and is still in flight in the model */
    struct {
        int slot; /* NONE: there is none */
        const struct spex_op *op;
        struct spex_outcome outcome;
        struct spex_access parts[PARTS];
        uint64_t done;
    } pending;
    /* the unit as it was when the current block was entered, in case a fault cuts the block */
    struct {
        uint32_t sequence; /* of that block; other blocks did not ask the unit */
        uint64_t at;       /* index of the first operation that the unit was asked about */
        uint64_t last;     /* of the last one, plus one */
        size_t size;
        uint8_t unit[SNAPSHOT];
        uint64_t pmu[RUN_EVENTS];
    } before;
    /* the system call under way */
    int64_t call;
    uint64_t argument[6];
    uint64_t clear_tid; /* where the kernel wakes joiners when the thread ends */
};

static struct hot hot[MAX_VCPUS];

static struct {
    struct spex_uarch *model;
    bool none;    /* no caches, TLBs, prediction */
    bool truth;
    bool registers;
    bool loaded;  /* the program is, and told */
    bool over;    /* this process has ended its tasks */
    pthread_mutex_t lock; /* blocks, handlers, truth */
    struct block *blocks[1 << 16];
    uint64_t handlers[512]; /* addresses of signal handlers */
    unsigned handler_count;
    struct {
        uint64_t word, clock;
    } wakes[256];           /* futexes: when somebody was last woken there */
    uint64_t heap;          /* start, once known */
    struct {                /* truth rows */
        struct run_truth *row;
        size_t used, chunks;
        struct run_truth *chunk[4096];
    } rows;
    uint32_t process;       /* number of its first task */
    uint32_t fork_id;       /* of the child that is being made */
    int32_t fork_cpu;
} user = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct vcpu *caller; /* makes the system call under way on this thread */

static uint64_t clock_of(const struct vcpu *v)
{
    return spex_uarch_clock(v->hot->core);
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

static void attention(struct vcpu *v, bool on)
{
    if (on)
        __atomic_fetch_or(&v->hot->core->attention, SPEX_UARCH_ATT_ENGINE, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&v->hot->core->attention, ~(uint32_t)SPEX_UARCH_ATT_ENGINE,
                           __ATOMIC_RELAXED);
}

/* Without a model: make the counter negative, so that the entry of the next block stops. */
static void force(struct vcpu *v, bool on)
{
    if (on != v->forced)
        v->hot->core->counter += on ? -(INT64_C(1) << 62) : INT64_C(1) << 62;
    v->forced = on;
}

/* The wanted operation is number `operations` (from 1) behind the current block. */
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
    if (slot == NONE)
        return;
    v->pending.slot = NONE;
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
                                     .target = to->pc, .target_security = SPEX_NONSECURE};
        spex_spu_note_branch(v->task.unit, &from->ops[from->count - 1], &taken);
        return;
    }
}

/* The armed operation is in the block that was entered just now. */
static void expired(struct vcpu *v, const struct block *block)
{
    struct spex_uarch_core *core = v->hot->core;
    uint64_t at = (uint64_t)(spex_uarch_left(core) + block->model.count - 1) + v->more;
    v->task.now = v->selected = clock_of(v);
    if (!v->task.unit) {
        arm(v, NEVER);
        return;
    }
    if (v->pending.done <= v->selected)
        complete_pending(v);
    if (at < block->model.count) {
        v->sequence = v->before.sequence = core->sequence;
        v->part_count = 0;
        v->worst = 0;
        v->before.at = at;
        if (spex_spu_wants_branches(v->task.unit))
            note_last_branch(v);
        v->before.size = spex_spu_save(v->task.unit, v->before.unit, SNAPSHOT);
        memcpy(v->before.pmu, v->task.shared->pmu, sizeof v->before.pmu);
    }
    ask(v, block, at, block->model.count);
}

static void note_unseen(struct vcpu *v, const struct spex_op *op)
{
    enum run_unseen what = op->kind == SPEX_OP_DC_ZVA     ? RUN_UNSEEN_ZVA
                           : op->kind == SPEX_OP_PREFETCH ? RUN_UNSEEN_PREFETCH
                           : op->kind == SPEX_OP_LDST_SVE || op->kind == SPEX_OP_SVE_PREFETCH
                               ? RUN_UNSEEN_SVE
                               : RUN_UNSEEN_OTHER;
    v->task.shared->unseen[what]++;
}

static bool accesses_memory(const struct spex_op *op)
{
    return op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) &&
           op->kind != SPEX_OP_BRANCH; /* GCS is off in user mode */
}

/*
 * The followed operation is over. next: where control went behind it, if it was
 * the last of its block; exception: it raised a synchronous exception instead.
 */
static void finish(struct vcpu *v, uint64_t next, bool exception)
{
    const struct insn *want = v->hot->want;
    const struct spex_op *op = op_of(want);
    struct spex_outcome *out = &v->pending.outcome;
    static const struct spex_op unseen_zva = {.kind = SPEX_OP_CACHE, .exec = SPEX_EXEC_STORE};
    v->hot->want = NULL;
    attention(v, false);
    *out = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED};
    if (exception)
        out->flags = SPEX_OUT_EXCEPTION;
    else if (op->kind == SPEX_OP_EXCEPTION)
        out->flags |= SPEX_OUT_EXCEPTION;
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
    if (v->part_count) {
        memcpy(v->pending.parts, v->parts, v->part_count * sizeof v->parts[0]);
        out->access[0] = v->parts[0];
        if (v->part_count > 1) {
            out->parts = v->pending.parts;
            out->part_count = v->part_count;
        }
    } else if (op->flags & SPEX_OPF_EXCL && op->flags & SPEX_OPF_STORE && !exception) {
        out->flags |= SPEX_OUT_MONITOR_FAIL; /* QEMU stores only when the monitor passes */
    } else if ((accesses_memory(op) || op->kind == SPEX_OP_PREFETCH ||
                op->kind == SPEX_OP_SVE_PREFETCH) && !exception) {
        note_unseen(v, op);
    }
    spex_uarch_replay(v->hot->core, v->sequence, want->index, v->worst, out);
    v->pending.slot = v->slot;
    v->pending.op = op->kind == SPEX_OP_DC_ZVA && !v->part_count ? &unseen_zva : op;
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
        /* The unit was asked about operations that never came: do it over with those that did. */
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

/*
 * A signal handler is about to be entered. The frame says where the program was:
 * behind the last block, or, after a fault, inside it.
 */
static void signalled(struct vcpu *v, unsigned vcpu)
{
    struct spex_uarch_core *core = v->hot->core;
    const struct block *block = (const struct block *)core->last;
    int32_t signo = 0, code = 0;
    uint64_t pc = 0, sp = regs_read(vcpu, 31);
    if (!regs_memory(sp + FRAME_SIGNO, &signo, 4) || !regs_memory(sp + FRAME_CODE, &code, 4) ||
        !regs_memory(sp + FRAME_PC, &pc, 8) || !block->model.count)
        return;
    bool fault = false;
    force(v, false);
    if (synchronous(signo, code) && pc - block->model.pc < 4ull * block->model.count) {
        uint32_t executed = (uint32_t)(pc - block->model.pc) / 4 + 1;
        const struct insn *at = &block->insns[executed - 1];
        if (executed < block->model.count)
            cut(v, block, executed);
        fault = v->hot->want == at;
    }
    if (v->hot->want)
        finish(v, pc, fault);
    if (v->task.unit)
        spex_spu_exception_taken(v->task.unit);
    spex_uarch_cut(core);
}

/* ---- callbacks on the hot path ---- */

static __attribute__((noinline)) void block_slow(struct spex_uarch_core *core,
                                                 const struct block *block, unsigned flags)
{
    struct hot *h = core->engine;
    struct vcpu *v = h->vcpu;
    flags = spex_uarch_block_rest(core, &block->model, flags);
    if (flags & SPEX_UARCH_ATTENTION && h->want)
        finish(v, block->model.pc, false);
    if (flags & SPEX_UARCH_EXPIRED)
        expired(v, block);
}

static void on_block(unsigned vcpu, void *data)
{
    struct spex_uarch_core *core = hot[vcpu].core; /* nothing else lives on: no register is saved */
    const struct block *block = data;
    unsigned flags = spex_uarch_block(core, &block->model);
    if (__builtin_expect(flags != 0, 0))
        block_slow(core, block, flags);
}

static void on_handler(unsigned vcpu, void *data)
{
    signalled(hot[vcpu].vcpu, vcpu);
    on_block(vcpu, data);
}

enum access { LOAD, STORE, ATOMIC };

static inline __attribute__((always_inline)) spex_uarch_result
model_access(struct spex_uarch_core *core, enum access kind, uint64_t va, unsigned size,
             unsigned insn)
{
    return kind == LOAD    ? spex_uarch_load(core, va, size, insn)
           : kind == STORE ? spex_uarch_store(core, va, size, insn)
                           : spex_uarch_atomic(core, va, size, insn);
}

/* An access of the operation being followed. */
static __attribute__((noinline)) spex_uarch_result follow(struct hot *h, const struct insn *insn,
                                                          uint64_t va, unsigned size,
                                                          enum access kind)
{
    struct vcpu *v = h->vcpu;
    spex_uarch_result result =
        user.none ? 0 : model_access(h->core, kind, va, size, insn->index);
    if (v->part_count < PARTS) {
        struct spex_access *part = &v->parts[v->part_count++];
        *part = (struct spex_access){.va = va, .pas = SPEX_NONSECURE,
                                     .flags = SPEX_ACC_VA | SPEX_ACC_DONE};
        result = spex_uarch_access(h->core, op_of(insn), va, size, result, part);
        if (spex_uarch_result_latency(result) + spex_uarch_result_translation(result) >=
            spex_uarch_result_latency(v->worst) + spex_uarch_result_translation(v->worst))
            v->worst = result;
    }
    return result;
}

static uint64_t traced_address(unsigned vcpu, const struct insn *insn)
{
    const struct address *a = &insn->address.from;
    uint64_t va = (uint64_t)a->offset;
    va += a->base == ADDRESS_NO_REG ? pc_of(insn) : regs_read(vcpu, a->base);
    if (a->index != ADDRESS_NO_REG)
        va += address_index(a, regs_read(vcpu, a->index) + insn->address.index_offset);
    return va & BITS(55, 0);
}

/* Without a model: known at block entry. A Store-Exclusive must be seen: it may fail. */
static bool by_registers(const struct insn *insn)
{
    return insn->address.known && !(op_of(insn)->flags & SPEX_OPF_EXCL);
}

/*
 * Without a model only the counter matters. The address of the operation being
 * followed comes from registers where it can, so that most accesses need no
 * callback. A negative counter says that there is something to do.
 */
static __attribute__((noinline)) void block_none_slow(struct hot *h, const struct block *block,
                                                      unsigned vcpu)
{
    struct spex_uarch_core *core = h->core;
    core->ring[++core->sequence % SPEX_UARCH_RING] = (uintptr_t)block;
    force(h->vcpu, false);
    if (h->want)
        finish(h->vcpu, block->model.pc, false);
    if (core->counter < 0)
        expired(h->vcpu, block);
    if (h->want && by_registers(h->want))
        follow(h, h->want, traced_address(vcpu, h->want), h->want->size, LOAD);
    /* Blocks in between are not numbered: stop at the next one if the unit was asked about this. */
    force(h->vcpu, h->vcpu->before.sequence == core->sequence);
}

static void on_block_none(unsigned vcpu, void *data)
{
    struct hot *h = &hot[vcpu];
    struct spex_uarch_core *core = h->core;
    const struct block *block = data;
    core->last = &block->model;
    core->counter += block->model.delta;
    if (__builtin_expect(core->counter < 0, 0))
        block_none_slow(h, block, vcpu);
}

/* One callback per kind and size: the size is then a constant in the model's fast path. */
#define ACCESS(name, kind, bytes)                                                                  \
    static void name(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)           \
    {                                                                                              \
        struct hot *h = &hot[vcpu];                                                                \
        const struct insn *insn = data;                                                            \
        if (kind == ATOMIC && !qemu_plugin_mem_is_store(info))                                     \
            return;                                                                                \
        if (__builtin_expect(h->want == insn, 0)) {                                                \
            follow(h, insn, va, bytes, kind);                                                      \
            return;                                                                                \
        }                                                                                          \
        model_access(h->core, kind, va, bytes, insn->index);                                       \
    }
ACCESS(on_load_1, LOAD, 1)
ACCESS(on_load_2, LOAD, 2)
ACCESS(on_load_4, LOAD, 4)
ACCESS(on_load_8, LOAD, 8)
ACCESS(on_store_1, STORE, 1)
ACCESS(on_store_2, STORE, 2)
ACCESS(on_store_4, STORE, 4)
ACCESS(on_store_8, STORE, 8)
ACCESS(on_atomic_1, ATOMIC, 1)
ACCESS(on_atomic_2, ATOMIC, 2)
ACCESS(on_atomic_4, ATOMIC, 4)
ACCESS(on_atomic_8, ATOMIC, 8)
#undef ACCESS

static const qemu_plugin_vcpu_mem_cb_t on_access[3][4] = {
    [LOAD] = {on_load_1, on_load_2, on_load_4, on_load_8},
    [STORE] = {on_store_1, on_store_2, on_store_4, on_store_8},
    [ATOMIC] = {on_atomic_1, on_atomic_2, on_atomic_4, on_atomic_8},
};

static void on_access_none(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    struct hot *h = &hot[vcpu];
    const struct insn *insn = data;
    if (__builtin_expect(h->want == insn, 0) &&
        (!(op_of(insn)->flags & SPEX_OPF_STORE) || qemu_plugin_mem_is_store(info)))
        follow(h, insn, va, insn->size, LOAD);
}

/* ---- truth: the same, with everything counted ---- */

static void count_access(const struct insn *insn, spex_uarch_result result)
{
    struct run_truth *t = insn->truth;
    if (spex_uarch_result_level(result) != SPEX_UARCH_L1)
        __atomic_fetch_add(&t->l1_miss, 1, __ATOMIC_RELAXED);
    if (spex_uarch_result_level(result) > SPEX_UARCH_LLC)
        __atomic_fetch_add(&t->llc_miss, 1, __ATOMIC_RELAXED);
    if (result & SPEX_UARCH_WALK)
        __atomic_fetch_add(&t->walk, 1, __ATOMIC_RELAXED);
}

static void access_truth(unsigned vcpu, uint64_t va, const struct insn *insn, enum access kind)
{
    struct hot *h = &hot[vcpu];
    spex_uarch_result result = h->want == insn
                                   ? follow(h, insn, va, insn->size, kind)
                                   : model_access(h->core, kind, va, insn->size, insn->index);
    if (result)
        count_access(insn, result);
}

static void on_load_truth(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    (void)info;
    access_truth(vcpu, va, data, LOAD);
}

static void on_store_truth(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    (void)info;
    access_truth(vcpu, va, data, STORE);
}

static void on_atomic_truth(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    if (qemu_plugin_mem_is_store(info))
        access_truth(vcpu, va, data, ATOMIC);
}

static void block_truth(struct spex_uarch_core *core, const struct spex_uarch_block *last,
                        const struct block *block)
{
    __atomic_fetch_add(&block->truth->count, 1, __ATOMIC_RELAXED);
    if (last->end == SPEX_UARCH_END_NONE)
        return;
    const struct block *from = (const struct block *)last;
    struct run_truth *t = from->insns[last->count - 1].truth;
    if (last->end != SPEX_UARCH_END_COND || block->model.pc != last->next)
        __atomic_fetch_add(&t->taken, 1, __ATOMIC_RELAXED);
    if (spex_uarch_mispredicted(core, core->sequence - 1))
        __atomic_fetch_add(&t->mispredict, 1, __ATOMIC_RELAXED);
}

static void on_block_truth(unsigned vcpu, void *data)
{
    const struct spex_uarch_block *last = hot[vcpu].core->last;
    on_block(vcpu, data);
    block_truth(hot[vcpu].core, last, data);
}

static void on_handler_truth(unsigned vcpu, void *data)
{
    signalled(hot[vcpu].vcpu, vcpu);
    on_block_truth(vcpu, data);
}

/*
 * QEMU makes no callback for DC ZVA. glibc's memset lives on it, so its addresses
 * are worked out from the registers at the entry of the block.
 */
static void zero_lines(unsigned vcpu, const struct block *block)
{
    struct hot *h = &hot[vcpu];
    for (uint32_t i = 0; i < block->model.count; i++) {
        const struct insn *z = &block->insns[i];
        if (op_of(z)->kind != SPEX_OP_DC_ZVA || !z->address.known)
            continue;
        uint64_t va = traced_address(vcpu, z) & -(uint64_t)task_run->zva_bytes;
        for (unsigned at = 0; at < task_run->zva_bytes; at += 64) {
            spex_uarch_result result = h->want == z
                                           ? follow(h, z, va + at, 64, STORE)
                                           : model_access(h->core, STORE, va + at, 64, i);
            if (z->truth && result)
                count_access(z, result);
        }
    }
}

static void on_zva(unsigned vcpu, void *data)
{
    on_block(vcpu, data);
    zero_lines(vcpu, data);
}

static void on_zva_truth(unsigned vcpu, void *data)
{
    on_block_truth(vcpu, data);
    zero_lines(vcpu, data);
}

static void on_handler_none(unsigned vcpu, void *data)
{
    signalled(hot[vcpu].vcpu, vcpu);
    on_block_none(vcpu, data);
}

/* ---- translation ---- */

static bool is_handler(uint64_t pc)
{
    for (unsigned i = 0; i < user.handler_count; i++)
        if (user.handlers[i] == pc)
            return true;
    return false;
}

/* Rows for a block and its instructions; NULL if the disk is full. */
static struct run_truth *new_rows(size_t count)
{
    enum { ROWS = (1 << 20) / sizeof(struct run_truth), BYTES = 1 << 20 };
    if (!user.rows.row || user.rows.used + count > ROWS) {
        if (user.rows.chunks >= sizeof user.rows.chunk / sizeof user.rows.chunk[0])
            return NULL;
        void *map = task_map(user.process, ".truth", user.rows.chunks * (uint64_t)BYTES, BYTES, NULL);
        if (!map)
            return NULL;
        user.rows.row = user.rows.chunk[user.rows.chunks++] = map;
        user.rows.used = 0;
    }
    struct run_truth *rows = user.rows.row + user.rows.used;
    user.rows.used += count;
    return rows;
}

static bool writes(const struct spex_op *op, unsigned reg)
{
    for (unsigned i = 0; i < sizeof op->dst; i++)
        if (op->dst[i] == reg)
            return true;
    return false;
}

/* Follows register *reg of instruction `at` back to the entry of the block. */
static bool trace_back(const struct block *block, size_t at, unsigned *reg, uint64_t *offset)
{
    *offset = 0;
    while (at-- > 0) {
        uint32_t w = block->words[at];
        if (!writes(&block->model.ops[at], *reg))
            continue;
        uint64_t immediate = (uint64_t)(w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0);
        if ((w & 0xff800000) == 0x91000000 || (w & 0xff800000) == 0xb1000000) { /* ADD(S) #imm */
            *offset += immediate;
            *reg = w >> 5 & 31;
        } else if ((w & 0xff800000) == 0xd1000000 || (w & 0xff800000) == 0xf1000000) { /* SUB(S) */
            *offset -= immediate;
            *reg = w >> 5 & 31;
        } else if ((w & 0xffe0ffe0) == 0xaa0003e0 && (w >> 16 & 31) != 31) { /* MOV Xd, Xm */
            *reg = w >> 16 & 31;
        } else {
            return false;
        }
    }
    return true;
}

static struct traced trace_address(const struct block *block, size_t i)
{
    struct traced t = {0};
    const struct spex_op *op = &block->model.ops[i];
    uint64_t more;
    unsigned reg;
    if (!user.registers)
        return t;
    if (op->kind == SPEX_OP_DC_ZVA)
        t.from = (struct address){.base = block->words[i] & 31, .index = ADDRESS_NO_REG};
    else if (op->kind != SPEX_OP_LDST || !address_decode(block->words[i], &t.from))
        return t;
    if (t.from.base != ADDRESS_NO_REG) {
        reg = t.from.base;
        if (!trace_back(block, i, &reg, &more))
            return t;
        t.from.base = (uint8_t)reg;
        t.from.offset += (int64_t)more;
    }
    if (t.from.index != ADDRESS_NO_REG) {
        reg = t.from.index;
        if (!trace_back(block, i, &reg, &t.index_offset))
            return t;
        t.from.index = (uint8_t)reg;
    }
    t.known = true;
    return t;
}

/* Blocks are never freed: a core may remember them, and the same code comes back. */
static struct block *make_block(uint64_t pc, const uint32_t *words, size_t count)
{
    struct block *block = calloc(1, sizeof *block);
    struct spex_op *ops = calloc(count, sizeof *ops);
    uint32_t *copy = malloc(count * sizeof *copy);
    if (block)
        block->insns = calloc(count, sizeof *block->insns);
    if (!block || !ops || !copy || !block->insns)
        abort();
    memcpy(copy, words, count * sizeof *copy);
    block->words = copy;
    struct run_truth *rows = user.truth ? new_rows(count + 1) : NULL;
    if (rows) {
        block->truth = rows;
        rows[0].pc = pc;
        rows[0].block = (uint32_t)count;
    }
    for (size_t i = 0; i < count; i++) {
        spex_a64_classify(words[i], NULL, &ops[i]);
        unsigned size = ops[i].access_size;
        block->insns[i] = (struct insn){.block = block, .index = (uint32_t)i,
                                        .size = size == 1 || size == 2 || size == 4 ? size : 8};
        if (rows) {
            block->insns[i].truth = &rows[i + 1];
            rows[i + 1].pc = pc + 4 * i;
        }
    }
    spex_uarch_block_init(user.model, &block->model, pc, ops, count);
    for (size_t i = 0; i < count; i++) {
        if (!accesses_memory(&ops[i]))
            continue;
        block->insns[i].address = trace_address(block, i);
        block->zva |= ops[i].kind == SPEX_OP_DC_ZVA && block->insns[i].address.known;
    }
    return block;
}

static struct block *find_block(uint64_t pc, const uint32_t *words, size_t count)
{
    struct block **slot = &user.blocks[(pc >> 2 ^ pc >> 18) % (sizeof user.blocks / sizeof *slot)];
    for (struct block *b = *slot; b; b = b->next)
        if (b->model.pc == pc && b->model.count == count &&
            !memcmp(b->words, words, count * sizeof *words))
            return b;
    struct block *block = make_block(pc, words, count);
    block->next = *slot;
    *slot = block;
    return block;
}

static void watch_memory(struct qemu_plugin_insn *insn, struct insn *at)
{
    const struct spex_op *op = op_of(at);
    if (!accesses_memory(op))
        return;
    /* Atomics and Store-Exclusive show as a load and a store: the store alone is the access. */
    if (op->kind == SPEX_OP_DC_ZVA || (user.none && by_registers(at)))
        return;
    bool stores = op->flags & SPEX_OPF_STORE;
    enum access kind = !stores                                          ? LOAD
                       : op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL) ? ATOMIC
                                                                        : STORE;
    static const qemu_plugin_vcpu_mem_cb_t truth[3] = {on_load_truth, on_store_truth,
                                                       on_atomic_truth};
    qemu_plugin_vcpu_mem_cb_t callback =
        user.none    ? on_access_none
        : user.truth ? truth[kind]
                     : on_access[kind][__builtin_ctz(at->size)];
    /* QEMU 7.2 gives loads to callbacks for writes and none to those for reads: ask for both. */
    qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, at);
}

/* QEMU loads the program after it has made the first vCPU. */
static void log_program(struct vcpu *v)
{
    const char *path = qemu_plugin_path_to_binary(), *slash = path ? strrchr(path, '/') : NULL;
    char name[16];
    struct run_event comm = {.type = RUN_COMM};
    struct run_event image = {.type = RUN_IMAGE, .a = qemu_plugin_start_code(),
                              .b = qemu_plugin_end_code(), .c = qemu_plugin_entry_code()};
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path ? path : "?");
    task_log(&v->task, &comm, name);
    task_log(&v->task, &image, path);
    user.loaded = true;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    enum { MAX = 4096 };
    uint32_t words[MAX];
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint64_t pc = qemu_plugin_tb_vaddr(tb);
    (void)id;
    if (!count || count > MAX)
        return;
    if (!user.loaded)
        log_program(hot[0].vcpu);
    for (size_t i = 0; i < count; i++)
        memcpy(&words[i], qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), 4);
    pthread_mutex_lock(&user.lock);
    struct block *block = find_block(pc, words, count);
    bool handler = user.registers && is_handler(pc);
    pthread_mutex_unlock(&user.lock);
    bool truth = user.truth && block->truth;
    static const qemu_plugin_vcpu_udata_cb_t callbacks[3][3] = {
        {on_block, on_zva, on_handler},
        {on_block_none, on_block_none, on_handler_none},
        {on_block_truth, on_zva_truth, on_handler_truth},
    };
    qemu_plugin_vcpu_udata_cb_t callback =
        callbacks[user.none ? 1 : truth ? 2 : 0][handler ? 2 : block->zva ? 1 : 0];
    qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, QEMU_PLUGIN_CB_NO_REGS, block);
    for (size_t i = 0; i < count; i++)
        watch_memory(qemu_plugin_tb_get_insn(tb, i), &block->insns[i]);
}

/* ---- threads and processes ---- */

/* Everything of the current block was executed: a system call ends it. */
static void settle(struct vcpu *v)
{
    force(v, false);
    if (v->hot->want)
        finish(v, v->hot->core->last->next, false);
    v->task.now = clock_of(v);
    complete_pending(v);
}

/* Operations that ran since the unit was last told. */
static void tell_passed(struct vcpu *v)
{
    struct spex_spu *unit = v->task.unit;
    int64_t left = spex_uarch_left(v->hot->core) - 1 + (int64_t)v->more;
    uint64_t until = unit ? spex_spu_until(unit) : UINT64_MAX;
    if (until < NEVER && left >= 0 && (uint64_t)left <= until)
        spex_spu_pass(unit, until - (uint64_t)left);
}

/* Starts counting anew, as a new event does. */
static void begin_counting(struct vcpu *v)
{
    uint64_t until = v->task.unit ? spex_spu_until(v->task.unit) : NEVER;
    v->pending.slot = NONE;
    v->hot->want = NULL;
    arm(v, (until < NEVER ? until : NEVER) + 1);
}

static void end_vcpu(struct vcpu *v)
{
    if (!v->live)
        return;
    v->live = false;
    settle(v);
    tell_passed(v);
    spex_uarch_counts(v->hot->core, &v->task.shared->counts);
    task_end(&v->task, clock_of(v));
    spex_uarch_core_idle(v->hot->core, true);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Runs on the thread that creates the new one; for the first vCPU on the main thread. */
static void on_vcpu(qemu_plugin_id_t id, unsigned index)
{
    int32_t cpu;
    (void)id;
    if (index >= MAX_VCPUS) {
        fprintf(stderr, "spex: more than %d threads at a time are not supported\n", MAX_VCPUS);
        abort();
    }
    struct hot *h = &hot[index];
    if (!h->vcpu)
        h->vcpu = calloc(1, sizeof *h->vcpu);
    struct vcpu *v = h->vcpu, *creator = caller;
    if (!v)
        abort();
    end_vcpu(v);
    if (h->core)
        spex_uarch_core_free(h->core);
    uint32_t number = task_reserve(&cpu);
    if (spex_uarch_core_new(user.model, (unsigned)cpu, &h->core)) {
        fprintf(stderr, "spex: no memory for the model of one more core\n");
        abort();
    }
    h->core->engine = h;
    *v = (struct vcpu){.hot = h, .index = index, .live = true};
    uint64_t start = __atomic_load_n(&task_run->clock[cpu], __ATOMIC_ACQUIRE);
    if (creator) {
        start = later(start, clock_of(creator));
        v->clear_tid = creator->argument[4]; /* clone(flags, stack, parent_tid, tls, child_tid) */
    }
    spex_uarch_clock_reach(h->core, start);
    task_begin(&v->task, number, cpu, creator ? creator->task.shared : NULL, !creator, start);
    begin_counting(v);
    if (!creator)
        user.process = number;
}

static void on_vcpu_exit(qemu_plugin_id_t id, unsigned index)
{
    (void)id;
    if (hot[index].vcpu)
        end_vcpu(hot[index].vcpu);
}

static void before_fork(void)
{
    if (caller)
        user.fork_id = task_reserve(&user.fork_cpu);
}

/* Only the calling thread goes on, as a new process with an event of its own. */
static void in_child(void)
{
    struct vcpu *v = caller;
    if (!v)
        return;
    pthread_mutex_init(&user.lock, NULL);
    uint64_t start = later(clock_of(v), task_run->clock[user.fork_cpu]);
    struct run_task creator = *v->task.shared;
    for (unsigned i = 0; i < MAX_VCPUS; i++)
        if (hot[i].vcpu && hot[i].vcpu != v)
            hot[i].vcpu->live = false;
    spex_uarch_forked(user.model, v->hot->core);
    task_forget(&v->task);
    for (size_t i = 0; i < user.rows.chunks; i++) {
        /* The same rows with nothing counted yet, in a file of the child's own. */
        struct run_truth *rows = user.rows.chunk[i];
        size_t n = (1 << 20) / sizeof *rows;
        struct run_truth *copy = malloc(n * sizeof *copy);
        if (!copy)
            abort();
        for (size_t r = 0; r < n; r++)
            copy[r] = (struct run_truth){.pc = rows[r].pc, .block = rows[r].block};
        if (task_map(user.fork_id, ".truth", i << 20, 1 << 20, rows))
            memcpy(rows, copy, n * sizeof *copy);
        free(copy);
    }
    user.process = user.fork_id;
    spex_uarch_clock_reach(v->hot->core, start);
    task_begin(&v->task, user.fork_id, user.fork_cpu, &creator, true, start);
    begin_counting(v);
}

static void on_exit_process(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (user.over)
        return;
    user.over = true;
    for (unsigned i = 0; i < MAX_VCPUS; i++)
        if (hot[i].vcpu)
            end_vcpu(hot[i].vcpu);
}

/* ---- system calls ---- */

enum { /* generic numbers, as AArch64 has them */
    SYS_EXIT = 93,
    SYS_EXIT_GROUP = 94,
    SYS_WAITID = 95,
    SYS_SET_TID_ADDRESS = 96,
    SYS_FUTEX = 98,
    SYS_RT_SIGACTION = 134,
    SYS_PRCTL = 167,
    SYS_BRK = 214,
    SYS_MREMAP = 216,
    SYS_CLONE = 220,
    SYS_EXECVE = 221,
    SYS_MMAP = 222,
    SYS_MPROTECT = 226,
    SYS_WAIT4 = 260,
    SYS_EXECVEAT = 281,
};

static unsigned wake_slot(uint64_t word)
{
    return (unsigned)(word >> 2 ^ word >> 10) % (sizeof user.wakes / sizeof user.wakes[0]);
}

static void wake(uint64_t word, uint64_t clock)
{
    unsigned i = wake_slot(word);
    __atomic_store_n(&user.wakes[i].clock, clock, __ATOMIC_RELAXED);
    __atomic_store_n(&user.wakes[i].word, word, __ATOMIC_RELEASE);
}

/* When somebody was last woken at word, as far as is remembered. */
static uint64_t wake_clock(uint64_t word)
{
    unsigned i = wake_slot(word);
    return __atomic_load_n(&user.wakes[i].word, __ATOMIC_ACQUIRE) == word
               ? __atomic_load_n(&user.wakes[i].clock, __ATOMIC_RELAXED)
               : 0;
}

/* A wait ended: time is at least where the waker's is. */
static void woken(struct vcpu *v, uint64_t clock)
{
    spex_uarch_clock_reach(v->hot->core, clock);
}

static void on_call(qemu_plugin_id_t id, unsigned index, int64_t number, uint64_t a1, uint64_t a2,
                    uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    struct vcpu *v = hot[index].vcpu;
    (void)id;
    (void)a7;
    (void)a8;
    caller = v;
    v->call = number;
    memcpy(v->argument, (uint64_t[]){a1, a2, a3, a4, a5, a6}, sizeof v->argument);
    switch (number) {
    case SYS_EXIT:
        if (v->clear_tid)
            wake(v->clear_tid, clock_of(v));
        end_vcpu(v);
        return;
    case SYS_EXIT_GROUP:
    case SYS_CLONE:
        settle(v);
        break;
    case SYS_EXECVE:
    case SYS_EXECVEAT: {
        /* If it succeeds, nothing of us is left: what can be finished is finished now. */
        char path[256] = "";
        struct run_event event = {.type = RUN_EXEC, .time = clock_of(v)};
        settle(v);
        for (unsigned n = 0; n + 1 < sizeof path; n++)
            if (!regs_memory((number == SYS_EXECVE ? a1 : a2) + n, &path[n], 1) || !path[n])
                break;
        __atomic_fetch_add(&task_run->execs, 1, __ATOMIC_RELAXED);
        task_log(&v->task, &event, path);
        break;
    }
    case SYS_FUTEX:
        if ((a2 & 127) != 0 && (a2 & 127) != 9) /* not a wait: a wake of some kind */
            wake(a1, clock_of(v));
        break;
    case SYS_SET_TID_ADDRESS:
        v->clear_tid = a1;
        break;
    case SYS_RT_SIGACTION: {
        uint64_t handler = 0;
        if (a2 && user.registers && regs_memory(a2, &handler, 8) && handler > 1) {
            pthread_mutex_lock(&user.lock);
            if (!is_handler(handler) &&
                user.handler_count < sizeof user.handlers / sizeof user.handlers[0])
                user.handlers[user.handler_count++] = handler;
            pthread_mutex_unlock(&user.lock);
        }
        break;
    }
    case SYS_PRCTL:
        if (a1 == 15) { /* PR_SET_NAME */
            char name[16] = "";
            struct run_event event = {.type = RUN_COMM, .time = clock_of(v)};
            for (unsigned n = 0; n < 15; n++)
                if (!regs_memory(a2 + n, &name[n], 1) || !name[n])
                    break;
            task_log(&v->task, &event, name);
        }
        break;
    }
    spex_uarch_core_idle(v->hot->core, true);
}

static void log_map(struct vcpu *v, uint64_t address)
{
    const uint64_t *a = v->argument;
    char link[64], path[RUN_PATH] = "";
    struct run_event event = {.type = RUN_MAP, .time = clock_of(v), .a = address, .b = a[1],
                              .c = a[5], .prot = (uint32_t)a[2], .flags = (uint32_t)a[3]};
    if (!(a[3] & 0x20)) { /* MAP_ANONYMOUS */
        snprintf(link, sizeof link, "/proc/self/fd/%d", (int)a[4]);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
    } else {
        event.c = 0;
    }
    task_log(&v->task, &event, path);
}

static void on_return(qemu_plugin_id_t id, unsigned index, int64_t number, int64_t result)
{
    struct vcpu *v = hot[index].vcpu;
    const uint64_t *a = v->argument;
    (void)id;
    if (!v->live)
        return;
    spex_uarch_core_idle(v->hot->core, false);
    switch (number) {
    case SYS_MMAP:
        if ((uint64_t)result < UINT64_MAX - 4096)
            log_map(v, (uint64_t)result);
        break;
    case SYS_MPROTECT:
        if (!result && a[2] & 4) { /* PROT_EXEC */
            struct run_event event = {.type = RUN_PROTECT, .time = clock_of(v), .a = a[0],
                                      .b = a[1], .prot = (uint32_t)a[2]};
            task_log(&v->task, &event, NULL);
        }
        break;
    case SYS_BRK:
        if (!user.heap)
            user.heap = (uint64_t)result;
        if ((uint64_t)result > user.heap && a[0]) {
            struct run_event event = {.type = RUN_MAP, .time = clock_of(v), .a = user.heap,
                                      .b = (uint64_t)result - user.heap, .prot = 3, .flags = 0x22};
            task_log(&v->task, &event, "[heap]");
        }
        break;
    case SYS_EXECVE:
    case SYS_EXECVEAT:
        __atomic_fetch_sub(&task_run->execs, 1, __ATOMIC_RELAXED); /* it returned: it failed */
        break;
    case SYS_FUTEX:
        if (!result && ((a[1] & 127) == 0 || (a[1] & 127) == 9))
            woken(v, wake_clock(a[0]));
        break;
    case SYS_WAIT4:
    case SYS_WAITID:
        for (unsigned i = 0; result > 0 && i < RUN_ENDED; i++)
            if (__atomic_load_n(&task_run->ended[i].host_pid, __ATOMIC_ACQUIRE) == result)
                woken(v, task_run->ended[i].clock);
        break;
    }
    caller = NULL;
}

int user_install(uint64_t id, int argc, char **argv)
{
    struct spex_error error;
    const char *directory = NULL;
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "dir=", 4))
            directory = argv[i] + 4;
    if (!directory) {
        fprintf(stderr, "spex: this plugin is for 'spex record'\n");
        return 1;
    }
    if (!task_open_run(directory, &error)) {
        fprintf(stderr, "spex: %s\n", error.text);
        return 1;
    }
    if (spex_uarch_new(&task_run->model, &user.model)) {
        fprintf(stderr, "spex: no memory for the model\n");
        return 1;
    }
    user.none = task_run->model.none;
    user.truth = task_run->truth;
    user.registers = regs_open();
    if (!user.registers)
        task_run->no_registers = 1;
    __atomic_store_n(&task_run->installed, 1, __ATOMIC_RELEASE);
    pthread_atfork(before_fork, NULL, in_child);
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_exit_cb(id, on_vcpu_exit);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
    qemu_plugin_register_atexit_cb(id, on_exit_process, NULL);
    return 0;
}
