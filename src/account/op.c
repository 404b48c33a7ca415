#include "account/op.h"

#include <string.h>

void account_latencies(const struct uarch_config *c, uint16_t l[SPEX_EXEC_CLASS_COUNT])
{
    l[SPEX_EXEC_NOP] = 1;
    l[SPEX_EXEC_ALU] = (uint16_t)c->lat_alu;
    l[SPEX_EXEC_SHIFT] = (uint16_t)c->lat_shift;
    l[SPEX_EXEC_MUL] = (uint16_t)c->lat_mul;
    l[SPEX_EXEC_DIV] = (uint16_t)c->lat_div;
    l[SPEX_EXEC_BRANCH] = (uint16_t)c->lat_branch;
    l[SPEX_EXEC_LOAD] = (uint16_t)c->l1d_latency;
    l[SPEX_EXEC_STORE] = (uint16_t)c->lat_store;
    l[SPEX_EXEC_ATOMIC] = (uint16_t)(c->l1d_latency + c->lat_atomic);
    l[SPEX_EXEC_FP_MOVE] = (uint16_t)c->lat_fpmove;
    l[SPEX_EXEC_FP_ADD] = (uint16_t)c->lat_fpadd;
    l[SPEX_EXEC_FP_MUL] = (uint16_t)c->lat_fpmul;
    l[SPEX_EXEC_FP_FMA] = (uint16_t)c->lat_fpfma;
    l[SPEX_EXEC_FP_DIV] = (uint16_t)c->lat_fpdiv;
    l[SPEX_EXEC_FP_SQRT] = (uint16_t)c->lat_fpsqrt;
    l[SPEX_EXEC_FP_CVT] = (uint16_t)c->lat_fpcvt;
    l[SPEX_EXEC_SIMD_ALU] = (uint16_t)c->lat_simd;
    l[SPEX_EXEC_SIMD_MUL] = (uint16_t)c->lat_simdmul;
    l[SPEX_EXEC_CRYPTO] = (uint16_t)c->lat_crypto;
    l[SPEX_EXEC_SVE] = (uint16_t)c->lat_sve;
    l[SPEX_EXEC_SME] = (uint16_t)c->lat_system;
    l[SPEX_EXEC_SYSTEM] = (uint16_t)c->lat_system;
    l[SPEX_EXEC_BARRIER] = (uint16_t)c->lat_barrier;
}

uint32_t account_parts(const struct uarch_config *c)
{
    const uint32_t by[] = {c->pipes_alu,  c->pipes_mul,   c->pipes_branch, c->pipes_fp,
                           c->pipes_load, c->pipes_store, c->btb_pairs + 1};
    uint32_t parts = c->width;
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        uint32_t step = parts;
        while (parts % by[i])
            parts += step;
    }
    return parts <= 5040 ? parts : 5040; /* if limited, shares of a cycle are rounded up */
}

bool account_writes_base(const struct spex_op *op, unsigned d)
{
    if (op->flags & SPEX_OPF_EXCL)
        return false;
    if (!(op->flags & SPEX_OPF_LOAD))
        return true;
    /*
     * A load's first destination is its data; a last destination that is also a source is the base.
     */
    if (d == 0 || op->dst[d] == SPEX_REG_NONE || (d < 3 && op->dst[d + 1] != SPEX_REG_NONE))
        return false;
    for (unsigned s = 0; s < 5; s++)
        if (op->src[s] == op->dst[d])
            return true;
    return false;
}

static enum account_port port_of(const struct spex_op *op)
{
    switch (op->exec) {
    case SPEX_EXEC_NOP:
        return ACCOUNT_PORTS;
    case SPEX_EXEC_ALU:
        return ACCOUNT_ALU;
    case SPEX_EXEC_SHIFT:
    case SPEX_EXEC_MUL:
    case SPEX_EXEC_DIV:
    case SPEX_EXEC_SYSTEM:
    case SPEX_EXEC_BARRIER:
        return ACCOUNT_MUL;
    case SPEX_EXEC_BRANCH:
        return ACCOUNT_BRANCH;
    case SPEX_EXEC_LOAD:
    case SPEX_EXEC_ATOMIC:
        return ACCOUNT_LOADS;
    case SPEX_EXEC_STORE:
        return ACCOUNT_STORES;
    default:
        return ACCOUNT_FP;
    }
}

static enum account_kind kind_of(const struct spex_op *op)
{
    if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) && op->kind != SPEX_OP_BRANCH) {
        if (!(op->flags & SPEX_OPF_STORE))
            return ACCOUNT_LOAD;
        return op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL | SPEX_OPF_STATUS_RESULT)
                   ? ACCOUNT_ATOMIC
                   : ACCOUNT_STORE;
    }
    if (op->kind == SPEX_OP_PREFETCH || op->kind == SPEX_OP_SVE_PREFETCH)
        return ACCOUNT_HINT;
    if (op->exec == SPEX_EXEC_DIV || op->exec == SPEX_EXEC_FP_DIV || op->exec == SPEX_EXEC_FP_SQRT)
        return ACCOUNT_DIVIDE;
    return op->exec == SPEX_EXEC_BARRIER ? ACCOUNT_BARRIER : ACCOUNT_SIMPLE;
}

/* Separates a load's base register from its data if it writes nothing else. */
static void quick_init(struct account_op *u)
{
    unsigned data = ACCOUNT_NO_DEST, base = ACCOUNT_NO_DEST, many = 0;
    for (unsigned d = 0; d < sizeof u->dst; d++) {
        unsigned *to = u->base >> d & 1 ? &base : &data;
        many += u->dst[d] != ACCOUNT_NO_DEST && *to != ACCOUNT_NO_DEST;
        if (u->dst[d] != ACCOUNT_NO_DEST)
            *to = u->dst[d];
    }
    u->base_dst = (uint8_t)base;
    u->quick = u->kind == ACCOUNT_LOAD && !many && data == u->dst[0];
}

void account_op(const struct uarch_config *c, const uint16_t *latency, struct account_op *u,
                const struct spex_op *op)
{
    unsigned n = 0, size = op->access_size;
    bool large;
    memset(u->src, ACCOUNT_NO_SOURCE, sizeof u->src);
    memset(u->dst, ACCOUNT_NO_DEST, sizeof u->dst);
    u->kind = (uint8_t)kind_of(op);
    u->latency = latency[op->exec];
    u->hint = op->prefetch;
    u->divider = (uint8_t)(ACCOUNT_DIVIDER + (op->exec != SPEX_EXEC_DIV));
    bool memory = u->kind == ACCOUNT_LOAD || u->kind == ACCOUNT_STORE || u->kind == ACCOUNT_ATOMIC;
    for (unsigned i = 0; i < sizeof op->src; i++)
        if (op->src[i] < SPEX_REG_COUNT)
            u->src[n++] = op->src[i];
    large = n > 2;
    for (unsigned d = 0; d < sizeof op->dst; d++) {
        if (op->dst[d] >= SPEX_REG_COUNT)
            continue;
        u->dst[d] = op->dst[d];
        large |= d > 1;
        if (memory && account_writes_base(op, d))
            u->base |= (uint8_t)(1u << d);
    }
    if (u->kind == ACCOUNT_SIMPLE && large)
        u->kind = ACCOUNT_LARGE;
    quick_init(u);
    /* As QEMU makes accesses: at most eight bytes at a time. DC ZVA clears whole lines. */
    u->size = op->kind == SPEX_OP_DC_ZVA ? 64 : size == 1 || size == 2 || size == 4 ? size : 8;
    u->align = (uint16_t)(op->flags & SPEX_OPF_LOAD ? c->align_load : c->align_store);
    if (op->kind == SPEX_OP_DC_ZVA)
        u->align = 64;
}

/* ---- ports ---- */

void account_use(struct account_ports *ports, const struct spex_op *op)
{
    enum account_port port = port_of(op);
    bool memory = (port == ACCOUNT_LOADS || port == ACCOUNT_STORES) && op->kind != SPEX_OP_DC_ZVA;
    ports->count++;
    if (port != ACCOUNT_PORTS) /* a load or store uses it once for each 16 bytes */
        ports->used[port] += memory && op->access_bytes > 16 ? (op->access_bytes + 15u) / 16 : 1;
}

uint64_t account_extra(const struct uarch_config *c, uint32_t parts,
                       const struct account_ports *ports)
{
    const uint32_t pipes[ACCOUNT_PORTS] = {c->pipes_alu, c->pipes_mul,  c->pipes_branch,
                                           c->pipes_fp,  c->pipes_load, c->pipes_store};
    const uint64_t own = ports->count * ((parts + c->width - 1) / c->width);
    uint64_t extra = 0;
    for (unsigned p = 0; p < ACCOUNT_PORTS; p++) {
        uint64_t need = ((uint64_t)ports->used[p] * parts + pipes[p] - 1) / pipes[p];
        if (need > own + extra)
            extra = need - own;
    }
    return extra;
}
