/*
 * Callbacks of the hot path in user mode, and the choice of callbacks for a block and its accesses.
 *
 * With a model they write words for its thread, or, between samples, update what sampled detail
 * keeps warm. Without a model the entry of each block counts its operations down. When the block
 * has an operation that the unit may sample, the unit is asked at once. If it takes the sample, the
 * operation is followed: its registers or memory callbacks supply addresses, and the entry of the
 * next block shows where a branch went.
 *
 * A vCPU's state belongs to its thread; nothing here is shared.
 */
#include "base/bits.h"
#include "account.h"
#include "plugin.h"
#include "regs.h"

static uint64_t traced_address(unsigned vcpu, const struct insn *insn)
{
    const struct address *a = &insn->address.from;
    uint64_t base = a->base == ADDRESS_NO_REG ? pc_of(insn) : regs_read(vcpu, a->base);
    uint64_t va = address_base(&insn->address, base);
    if (a->index != ADDRESS_NO_REG)
        va += address_index(a, regs_read(vcpu, a->index) + insn->address.index_offset);
    return va & BITS(55, 0);
}

/*
 * QEMU does nothing for PRFM: its address is computed from registers, either before the instruction
 * or at the entry of its block.
 */
static __attribute__((noinline)) void note_prefetch(struct hot *h, bool asks)
{
    const struct insn *insn = h->want;
    struct vcpu *v = h->vcpu;
    if (op_of(insn)->kind != SPEX_OP_PREFETCH || !insn->address.known || insn->asks != asks ||
        v->part_count)
        return;
    uint64_t va = traced_address(v->index, insn);
    if (plugin.user.allocs)
        allocs_look(v, va, UINT64_MAX);
    v->parts[v->part_count++] =
        (struct spex_access){.va = va, .pas = SPEX_NONSECURE, .flags = SPEX_ACC_VA};
}

/* Before a prefetch. */
static void on_prefetch(unsigned vcpu, void *data)
{
    if (__builtin_expect(plugin.hot[vcpu].want == data, 0))
        note_prefetch(&plugin.hot[vcpu], true);
}

static void on_prefetch_full(unsigned vcpu, void *data)
{
    const struct insn *insn = data;
    hot_access(&plugin.hot[vcpu], SPEX_TIMING_ACCESS(traced_address(vcpu, insn), insn->index));
}

/* ---- callbacks on the hot path ---- */

/* Receives the address of the followed operation. */
static __attribute__((noinline)) void follow(struct hot *h, uint64_t va)
{
    struct vcpu *v = h->vcpu;
    if (plugin.user.allocs && !v->part_count)
        allocs_look(v, va, UINT64_MAX);
    if (v->part_count < PARTS)
        v->parts[v->part_count++] = (struct spex_access){
            .va = va, .pas = SPEX_NONSECURE, .flags = SPEX_ACC_VA | SPEX_ACC_DONE};
}

/*
 * Works only on the counter. The address of a followed operation is computed from registers where
 * possible, so that most accesses need no callback. A negative counter means that there is
 * something to do.
 */
static __attribute__((noinline)) void block_slow(struct hot *h, const struct block *block,
                                                 unsigned vcpu)
{
    struct vcpu *v = h->vcpu;
    sample_force(v, false);
    v->before.asked = false;
    if (h->want)
        sample_finish(v, block->timing.pc, false);
    if (h->left < 0)
        sample_expired(v, block);
    if (h->want) {
        const struct insn *want = h->want;
        note_prefetch(h, false);
        if (op_of(want)->kind == SPEX_OP_DC_ZVA && want->address.known)
            follow(h, traced_address(vcpu, want) & -(uint64_t)plugin.run->zva_bytes);
        else if (accesses_memory(op_of(want)) && block_by_registers(want))
            follow(h, traced_address(vcpu, want));
    }
    sample_force(v, v->before.asked);
}

static void on_block(unsigned vcpu, void *data)
{
    struct hot *h = &plugin.hot[vcpu];
    const struct block *block = data;
    h->open = block;
    h->clock += block->timing.mean;
    h->left -= block->timing.count;
    if (__builtin_expect(h->left < 0, 0))
        block_slow(h, block, vcpu);
}

/* A signal handler is entered at the block. */
#define WITH_SIGNAL(name, block)                                                                   \
    static void name(unsigned vcpu, void *data)                                                    \
    {                                                                                              \
        sample_signalled(plugin.hot[vcpu].vcpu);                                                   \
        block(vcpu, data);                                                                         \
    }
WITH_SIGNAL(on_handler, on_block)

/*
 * With --stacks: updates the frames for the last block, then enters the block as without --stacks.
 * Each path ends in a tail call, so that the common one saves no registers.
 */
static inline __attribute__((always_inline)) bool turn(unsigned vcpu, const struct block *block)
{
    struct stack *s = &plugin.hot[vcpu].stack;
    const struct block *last = s->last;
    if (last->turn) {
        if (__builtin_expect(plugin.user.copies, 0))
            turns_copy(plugin.hot[vcpu].vcpu, false);
        if (!stack_quick(s, last->turn, last->timing.next, block->timing.pc, s->sp[0]))
            return false;
    }
    s->last = block;
    return true;
}

static __attribute__((noinline)) void turn_slow(unsigned vcpu, void *data,
                                                qemu_plugin_vcpu_udata_cb_t on)
{
    turns_arrive(&plugin.hot[vcpu], data);
    on(vcpu, data);
}

#define WITH_STACK(name)                                                                           \
    static void name##_stack(unsigned vcpu, void *data)                                            \
    {                                                                                              \
        if (__builtin_expect(turn(vcpu, data), 1))                                                 \
            name(vcpu, data);                                                                      \
        else                                                                                       \
            turn_slow(vcpu, data, name);                                                           \
    }
WITH_STACK(on_block)
WITH_SIGNAL(on_handler_stack, on_block_stack)

enum access { LOAD, STORE, ATOMIC };

static enum access access_kind(const struct spex_op *op)
{
    return !(op->flags & SPEX_OPF_STORE)                   ? LOAD
           : op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL) ? ATOMIC
                                                           : STORE;
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    struct hot *h = &plugin.hot[vcpu];
    const struct insn *insn = data;
    if (__builtin_expect(h->want == insn, 0) &&
        (!(op_of(insn)->flags & SPEX_OPF_STORE) || qemu_plugin_mem_is_store(info)))
        follow(h, va);
}

/* ---- the full model: words for its thread ---- */

static void on_block_full(unsigned vcpu, void *data)
{
    hot_block(&plugin.hot[vcpu], data);
}

static void on_yield(unsigned vcpu, void *data)
{
    flow_yield(&plugin.hot[vcpu]);
}

static bool yields(const uint32_t *words, size_t count)
{
    enum { YIELD = 0xd503203f, WFE = 0xd503205f };
    for (size_t i = 0; i < count; i++)
        if (words[i] == YIELD || words[i] == WFE)
            return true;
    return false;
}

/* data: the position of the instruction in its block, shifted into place. */
static void on_access_full(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    hot_push(&plugin.hot[vcpu], (va & FLOW_VALUE) | (uintptr_t)data);
}

static void on_atomic_full(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    if (qemu_plugin_mem_is_store(info))
        hot_access(&plugin.hot[vcpu], (va & FLOW_VALUE) | (uintptr_t)data);
}

/*
 * Pushes these accesses first, though others may come before them: QEMU has no callback for them.
 */
static void push_early(unsigned vcpu, const struct block *block)
{
    for (uint32_t i = 0; i < block->timing.count; i++) {
        const struct insn *insn = &block->insns[i];
        unsigned kind = op_of(insn)->kind, bytes = 64;
        if ((kind != SPEX_OP_DC_ZVA && kind != SPEX_OP_PREFETCH) || insn->asks ||
            !insn->address.known)
            continue;
        uint64_t va = traced_address(vcpu, insn);
        if (kind == SPEX_OP_DC_ZVA) {
            bytes = plugin.run->zva_bytes;
            va &= -(uint64_t)bytes;
        }
        for (unsigned at = 0; at < bytes; at += 64)
            hot_access(&plugin.hot[vcpu], SPEX_TIMING_ACCESS(va + at, i));
    }
}

static void on_early_full(unsigned vcpu, void *data)
{
    hot_block(&plugin.hot[vcpu], data);
    push_early(vcpu, data);
}

static void on_handler_full(unsigned vcpu, void *data)
{
    sample_signalled(plugin.hot[vcpu].vcpu);
    hot_block(&plugin.hot[vcpu], data);
}

/* The model's thread, which takes the samples, keeps the stack. */
static inline __attribute__((always_inline)) void push_stack(unsigned vcpu,
                                                             const struct block *block)
{
    struct hot *h = &plugin.hot[vcpu];
    const struct block *last = h->stack.last;
    h->stack.last = block;
    hot_block(h, block);
    if (__builtin_expect(last->turn != 0, 0))
        turns_tell(h, last);
}

static void on_block_full_stack(unsigned vcpu, void *data)
{
    push_stack(vcpu, data);
}

static void on_early_full_stack(unsigned vcpu, void *data)
{
    push_stack(vcpu, data);
    push_early(vcpu, data);
}

WITH_SIGNAL(on_handler_full_stack, push_stack)

/* ---- sampled detail: the same callbacks near samples ---- */

static void on_block_sampled(unsigned vcpu, void *data)
{
    hot_enter(&plugin.hot[vcpu], data);
}

static void on_early_sampled(unsigned vcpu, void *data)
{
    hot_enter(&plugin.hot[vcpu], data);
    push_early(vcpu, data);
}

WITH_SIGNAL(on_handler_sampled, on_block_sampled)

static void on_block_sampled_stack(unsigned vcpu, void *data)
{
    struct hot *h = &plugin.hot[vcpu];
    const struct block *last = h->stack.last;
    h->stack.last = data;
    hot_enter(h, data);
    if (h->far)
        h->vcpu->flow->stack.last = data;
    if (__builtin_expect(last->turn != 0, 0)) {
        if (h->far)
            turns_far(h, last, data);
        else
            turns_tell(h, last);
    }
}

static void on_early_sampled_stack(unsigned vcpu, void *data)
{
    on_block_sampled_stack(vcpu, data);
    push_early(vcpu, data);
}

WITH_SIGNAL(on_handler_sampled_stack, on_block_sampled_stack)

static __attribute__((noinline)) void far_load(struct hot *h, uint64_t word, unsigned size)
{
    timing_far_load_slow(h->timing, &h->open->timing, word, size,
                         h->far_clock >> SPEX_FAR_FRACTION);
}

static __attribute__((noinline)) void far_store(struct hot *h, uint64_t word, unsigned size)
{
    timing_far_store_slow(h->timing, &h->open->timing, word, size,
                          h->far_clock >> SPEX_FAR_FRACTION);
}

/* One callback per kind and size; data as in on_access_full(). */
#define SAMPLED(kind, bytes)                                                                       \
    static void on_##kind##_sampled_##bytes(unsigned vcpu, qemu_plugin_meminfo_t info,             \
                                            uint64_t va, void *data)                               \
    {                                                                                              \
        struct hot *h = &plugin.hot[vcpu];                                                         \
        if (__builtin_expect(!h->far, 0))                                                          \
            hot_push(h, (va & FLOW_VALUE) | (uintptr_t)data);                                      \
        else if (__builtin_expect(!timing_far_##kind(h->timing, va, bytes), 0))                    \
            far_##kind(h, (va & FLOW_VALUE) | (uintptr_t)data, bytes);                             \
    }
SAMPLED(load, 1)
SAMPLED(load, 2)
SAMPLED(load, 4)
SAMPLED(load, 8)
SAMPLED(store, 1)
SAMPLED(store, 2)
SAMPLED(store, 4)
SAMPLED(store, 8)
#undef SAMPLED

static const qemu_plugin_vcpu_mem_cb_t on_sampled[2][4] = {
    {on_load_sampled_1, on_load_sampled_2, on_load_sampled_4, on_load_sampled_8},
    {on_store_sampled_1, on_store_sampled_2, on_store_sampled_4, on_store_sampled_8},
};

/* ---- exact counts without a model: the same callbacks, with everything counted ---- */

static void on_block_truth(unsigned vcpu, void *data)
{
    const struct block *last = plugin.hot[vcpu].open, *block = data;
    on_block(vcpu, data);
    __atomic_fetch_add(&block->truth->count, 1, __ATOMIC_RELAXED);
    if (last && last->truth && last->timing.end != SPEX_UARCH_END_NONE &&
        (last->timing.end != SPEX_UARCH_END_COND || block->timing.pc != last->timing.next))
        __atomic_fetch_add(&last->insns[last->timing.count - 1].truth->taken, 1, __ATOMIC_RELAXED);
}

WITH_SIGNAL(on_handler_truth, on_block_truth)
WITH_STACK(on_block_truth)
WITH_SIGNAL(on_handler_truth_stack, on_block_truth_stack)

/* ---- choice of callbacks ---- */

static void on_wide(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    unsigned size, piece = code_piece(data, info, &size);
    for (unsigned at = 0; at < size; at += piece)
        on_access(vcpu, info, va + at, data);
}

static void on_wide_full(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    const struct insn *insn = data;
    unsigned size, piece = code_piece(insn, info, &size);
    if (access_kind(op_of(insn)) == ATOMIC && !qemu_plugin_mem_is_store(info))
        return;
    for (unsigned at = 0; at < size; at += piece)
        hot_access(&plugin.hot[vcpu], SPEX_TIMING_ACCESS(va + at, insn->index));
}

void hot_watch_access(struct qemu_plugin_insn *insn, struct insn *at)
{
    const struct spex_op *op = op_of(at);
    if (at->sve) {
        qemu_plugin_register_vcpu_insn_exec_cb(
            insn, plugin.user.full ? sve_execute_full : sve_execute, regs_flags(), at);
        return;
    }
    if (at->asks && at->address.known)
        qemu_plugin_register_vcpu_insn_exec_cb(
            insn, plugin.user.full ? on_prefetch_full : on_prefetch, regs_flags(), at);
    if (!accesses_memory(op))
        return;
    /*
     * Atomics and Store-Exclusive show as a load and a store; only the store counts as the access.
     */
    if (op->kind == SPEX_OP_DC_ZVA || (!plugin.user.full && block_by_registers(at)))
        return;
    bool wide = plugin.user.api >= 2 && op->access_bytes > at->size;
    enum access kind = access_kind(op);
    qemu_plugin_vcpu_mem_cb_t callback = !plugin.user.full ? on_access
                                         : kind == ATOMIC  ? on_atomic_full
                                         : plugin.user.sampled
                                             ? on_sampled[kind][__builtin_ctz(at->size)]
                                             : on_access_full;
    void *data =
        plugin.user.full ? (void *)(uintptr_t)SPEX_TIMING_ACCESS(0, at->index) : (void *)at;
    if (wide) {
        callback = plugin.user.full ? on_wide_full : on_wide;
        data = at;
    }
    /* QEMU 7.2 reports loads to callbacks for writes, and none to those for reads: ask for both. */
    qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     data);
}

void hot_watch_block(struct qemu_plugin_tb *tb, struct block *block, bool handler)
{
    bool truth = plugin.user.truth && block->truth;
    static const qemu_plugin_vcpu_udata_cb_t callbacks[2][4][3] = {
        {
            {on_block, on_block, on_handler},
            {on_block_truth, on_block_truth, on_handler_truth},
            {on_block_full, on_early_full, on_handler_full},
            {on_block_sampled, on_early_sampled, on_handler_sampled},
        },
        {
            {on_block_stack, on_block_stack, on_handler_stack},
            {on_block_truth_stack, on_block_truth_stack, on_handler_truth_stack},
            {on_block_full_stack, on_early_full_stack, on_handler_full_stack},
            {on_block_sampled_stack, on_early_sampled_stack, on_handler_sampled_stack},
        },
    };
    unsigned kind = plugin.user.sampled ? 3 : plugin.user.full ? 2 : truth ? 1 : 0;
    qemu_plugin_vcpu_udata_cb_t callback = callbacks[plugin.user.stacks][kind][handler        ? 2
                                                                               : block->early ? 1
                                                                                              : 0];
    qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, regs_flags(), block);
    if (plugin.user.full && yields(block->words, block->timing.count))
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_yield, regs_flags(), NULL);
}
