/*
 * Memory accesses of the guest: each goes through the model of the caches; those of
 * a block with a wanted operation are kept for its sample.
 */
#include "plugin.h"
#include "sve.h"

/* ---- accesses ---- */

static const uint64_t NO_ADDRESS = UINT64_C(1) << 56;

static uint64_t physical(qemu_plugin_meminfo_t info, uint64_t va)
{
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, va);
    if (!where || (qemu_plugin_hwaddr_is_io(where) && !plugin.sys.machine->io_addresses))
        return NO_ADDRESS;
    return qemu_plugin_hwaddr_phys_addr(where);
}

/* The result for an access that QEMU does not show. */
static uint64_t translated(struct sys_vcpu *v, uint64_t va)
{
    enum { E2H = 34, TGE = 27 };
    uint64_t hcr = 0, pa;
    unsigned fsc;
    bool stage2, host;
    plugin.sys.machine->sysreg(v->index, SPEX_HCR_EL2, &hcr);
    host = hcr >> E2H & 1 && (v->el == 2 || hcr >> TGE & 1);
    return plugin.sys.machine->translate(v->index, va, host || v->el == 2 ? 2 : 1, host, &pa, &fsc,
                                         &stage2)
               ? pa
               : NO_ADDRESS;
}

static struct seen *seen_of(struct sys_vcpu *v, const struct insn *insn)
{
    struct seen *seen = &v->seen[insn->index];
    if (seen->stamp != v->stamp)
        *seen = (struct seen){.stamp = v->stamp, .first = (uint16_t)v->access_count};
    return seen;
}

/* An access of the current block while one of its operations is wanted. */
static __attribute__((noinline)) void keep(struct sys_vcpu *v, const struct insn *insn, uint64_t va,
                                           uint64_t pa)
{
    struct seen *seen = seen_of(v, insn);
    if (v->access_count == MAX_SEEN || seen->count == MAX_PARTS)
        return;
    struct spex_access *access = &v->access[v->access_count++];
    seen->count++;
    *access =
        (struct spex_access){.va = va, .pas = SPEX_NONSECURE, .flags = SPEX_ACC_VA | SPEX_ACC_DONE};
    if (pa < NO_ADDRESS) {
        access->pa = pa;
        access->flags |= SPEX_ACC_PA;
    }
}

/*
 * Makes the word of an access. The model takes 48 bits of an address. The upper ones contain the
 * address space: its number, or an unused number for addresses that all spaces share.
 */
static timing_access word_of(const struct sys_vcpu *v, const struct insn *insn, uint64_t va)
{
    enum { SHARED = 0x100 };
    uint64_t space = va >> 56 ? SHARED : v->space;
    return SPEX_TIMING_ACCESS(va ^ space * 0x0101 << 31, insn->index);
}

/* DC ZVA has no memory callback; its address follows from the registers at the block's entry. */
void system_zero_lines(struct sys_vcpu *v, const struct block *block)
{
    for (unsigned i = 0; i < block->zva_count; i++) {
        const struct zva *z = &block->zva[i];
        const struct insn *insn = &block->insns[z->index];
        uint64_t value = plugin.sys.machine->x(v->index, z->address.from.base);
        uint64_t va = address_base(&z->address, value);
        va &= -(uint64_t)plugin.sys.zva_bytes;
        uint64_t pa = v->capturing ? translated(v, va) : NO_ADDRESS;
        for (unsigned at = 0; at < plugin.sys.zva_bytes; at += 64) {
            if (v->core)
                system_access(v, word_of(v, insn, va + at));
            if (v->capturing)
                keep(v, insn, va + at, pa + at);
        }
    }
}

/* ---- callbacks of QEMU ---- */

static inline __attribute__((always_inline)) void
follow(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, const struct insn *insn,
       void (*access)(struct sys_vcpu *, timing_access, unsigned))
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    if (!v || !v->active || !v->block)
        return;
    unsigned size, piece = code_piece(insn, info, &size);
    for (unsigned at = 0; at < size; at += piece) {
        if (v->core)
            access(v, word_of(v, insn, va + at), piece);
        if (__builtin_expect(v->capturing, 0))
            keep(v, insn, va + at, physical(info, va + at));
    }
}

static void on_load(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    follow(index, info, va, data, system_load);
}

static void on_store(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    follow(index, info, va, data, system_store);
}

static void any_access(struct sys_vcpu *v, timing_access word, unsigned size)
{
    (void)size;
    system_access(v, word);
}

/* Atomics and Store-Exclusive show as a load and a store; only the store counts as the access. */
static void on_atomic(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    if (qemu_plugin_mem_is_store(info))
        follow(index, info, va, data, any_access);
}

/*
 * QEMU 11.1 crashes in an SVE gather load, and in a load that must not fault, if it has to call
 * back for it (in a host page that it did not look up).
 */
static bool must_not_watch(const struct spex_op *op)
{
    if (op->kind != SPEX_OP_LDST_SVE || op->flags & SPEX_OPF_STORE)
        return false;
    for (size_t i = 0; i < sizeof op->dst; i++)
        if (op->dst[i] == SPEX_REG_FFR)
            return true;
    return op->flags & SPEX_OPF_GATHER;
}

/* Called before an SVE instruction: computes its accesses from its registers. */
static void on_sve(unsigned index, void *data)
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    const struct insn *insn = data;
    struct sve_list list;
    if (!v || !v->active || !v->block || (insn->sve->form == SVE_PREDICATED && !v->capturing))
        return;
    sve_list(insn->sve, index, SVE_RUN, &list);
    for (unsigned i = 0; i < list.count; i++) {
        uint64_t va = list.item[i].va;
        if (v->core)
            system_access(v, word_of(v, insn, va));
        if (v->capturing)
            keep(v, insn, va, translated(v, va));
    }
    if (v->capturing)
        seen_of(v, insn)->events = list.events;
}

void system_watch_access(struct qemu_plugin_insn *insn, struct insn *at)
{
    const struct spex_op *op = op_of(at);
    if (at->sve) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_sve, QEMU_PLUGIN_CB_R_REGS, at);
        return;
    }
    if (!(op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE)) || op->kind == SPEX_OP_DC_ZVA ||
        must_not_watch(op))
        return;
    qemu_plugin_register_vcpu_mem_cb(insn,
                                     !(op->flags & SPEX_OPF_STORE)                   ? on_load
                                     : op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL) ? on_atomic
                                                                                     : on_store,
                                     QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, at);
}
