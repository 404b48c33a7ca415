#include "ops.h"

#include "base/bits.h"
#include "base/rng.h"

#include <string.h>

/* Events of an access, and of an operation; the IMPLEMENTATION DEFINED ones of either. */
#define IMPDEF (BITS(63, 48) | BITS(31, 26) | BITS(15, 12))
#define OF_ACCESS (BITS(5, 2) | BITS(11, 8) | BITS(23, 19))
#define OF_OPERATION (BIT(7) | BITS(25, 24))

static uint64_t address(struct rng *rng)
{
    uint64_t a = rng_next(rng);
    switch (rng_below(rng, 3)) {
    /* clang-format off */
    case 0: return a & 0xffffffffffff;         /* user */
    case 1: return a | 0xffff000000000000;     /* kernel */
    default: return a;                         /* any top byte */
    }
    /* clang-format on */
}

static uint32_t cycles(struct rng *rng)
{
    static const uint32_t some[] = {0, 1, 5, 100, 0xffe, 0xfff, 0x1000, 0xffff, 0x10000, 300};
    return some[rng_below(rng, 10)];
}

static uint8_t security(struct rng *rng, const struct arch_features *f)
{
    enum spex_security s = rng_below(rng, f->RME ? 3 : 2);
    return (uint8_t)(s == SPEX_SECURE && !f->Secure ? SPEX_NONSECURE : s);
}

static void make_access(struct rng *rng, const struct arch_features *f, struct spex_access *a)
{
    a->va = address(rng);
    a->pa = rng_next(rng) >> 12;
    a->events = rng_next(rng) & rng_next(rng) & (OF_ACCESS | IMPDEF);
    a->start = rng_below(rng, 3) ? cycles(rng) : 0;
    a->translation = cycles(rng);
    a->memory = cycles(rng);
    a->total = rng_below(rng, 3) ? cycles(rng) : 0;
    a->data_source = (uint16_t)rng_below(rng, rng_below(rng, 4) ? 20 : 0x300);
    a->pas = security(rng, f);
    a->tag = (uint8_t)rng_below(rng, 16);
    a->flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE | SPEX_ACC_SOURCE;
    if (!rng_below(rng, 6)) /* not performed: not translated, or translated and then dropped */
        a->flags &= (uint16_t) ~(rng_below(rng, 2) ? SPEX_ACC_DONE
                                                   : SPEX_ACC_DONE | SPEX_ACC_PA | SPEX_ACC_SOURCE);
    if (!rng_below(rng, 8))
        a->flags &= (uint16_t)~SPEX_ACC_VA;
    if (!rng_below(rng, 4))
        a->flags &= (uint16_t)~SPEX_ACC_SOURCE;
    a->flags |= (uint16_t)(rng_next(rng) & (SPEX_ACC_TBI | SPEX_ACC_TAG_CHECKED));
    if (!rng_below(rng, 4))
        a->flags |= SPEX_ACC_TAG_IGNORED;
    if (!rng_below(rng, 6))
        a->flags |= SPEX_ACC_TAG_CANONICAL;
    if (!rng_below(rng, 8))
        a->flags |= SPEX_ACC_EXTERNAL_ABORT;
}

/* Whether a PE of this feature set has such operations. */
static bool possible(enum spex_op_kind kind, const struct arch_features *f)
{
    switch (kind) {
    case SPEX_OP_SVE:
    case SPEX_OP_LDST_SVE:
    case SPEX_OP_SVE_PREFETCH:
        return f->SVE;
    /* clang-format off */
    case SPEX_OP_SME_VECTOR:
    case SPEX_OP_SME_TILE:
    case SPEX_OP_LDST_SME: return f->SME;
    case SPEX_OP_LDST_TAG: return f->MTE2;
    case SPEX_OP_LDST_NV2: return f->NV2;
    case SPEX_OP_MEMCPY:
    case SPEX_OP_MEMSET: return f->MOPS;
    case SPEX_OP_GCS: return f->GCS;
    case SPEX_OP_LDST_UNSPEC: return f->LS64;
    default: return true;
        /* clang-format on */
    }
}

static const uint32_t lengths[] = {16, 32, 48, 64, 128, 256, 384, 512, 1024, 2048};

#define MAYBE(flag) (any & (flag))

/* The flags of an operation that accesses memory. */
static void make_memory(struct rng *rng, uint32_t any, uint32_t ldst, struct spex_op *op)
{
    switch (op->kind) {
    case SPEX_OP_LDST:
        op->flags = ldst;
        switch (rng_below(rng, 4)) {
        case 0:
            op->flags = SPEX_OPF_ATOMIC | SPEX_OPF_STORE | MAYBE(SPEX_OPF_LOAD | SPEX_OPF_ACQREL);
            break;
        case 1:
            op->flags |= SPEX_OPF_EXCL | MAYBE(SPEX_OPF_ACQREL);
            break;
        case 2:
            op->flags |= SPEX_OPF_SIMDFP_REG | (rng_below(rng, 2) ? SPEX_OPF_FP : SPEX_OPF_SIMD);
            break;
        }
        op->flags |= SPEX_OPF_CONTIGUOUS;
        break;
    case SPEX_OP_LDST_UNSPEC:
        op->flags = ldst | SPEX_OPF_CONTIGUOUS;
        if (ldst & SPEX_OPF_STORE)
            op->flags |= MAYBE(SPEX_OPF_STATUS_RESULT);
        break;
    case SPEX_OP_LDST_SVE:
    case SPEX_OP_LDST_SME:
        op->flags = ldst | MAYBE(SPEX_OPF_PRED | SPEX_OPF_ASIMD_EQUIV);
        op->vector_bits = lengths[rng_below(rng, 10)];
        if (rng_below(rng, 3))
            op->flags |= SPEX_OPF_CONTIGUOUS;
        else
            op->flags |= SPEX_OPF_GATHER;
        if (!rng_below(rng, 4))
            op->vectors = (uint8_t)(1u << rng_below(rng, 3));
        if ((ldst & SPEX_OPF_LOAD) && (op->flags & SPEX_OPF_PRED))
            op->flags |= SPEX_OPF_PRED_ZEROING;
        if (op->flags & SPEX_OPF_PRED)
            op->src[0] = SPEX_REG_P0 + 1;
        break;
    case SPEX_OP_LDST_TAG:
        op->flags = ldst;
        if (ldst & SPEX_OPF_STORE)
            op->flags |= MAYBE(SPEX_OPF_TAG_DATA);
        break;
    /* clang-format off */
    case SPEX_OP_LDST_NV2: op->flags = ldst; break;
    case SPEX_OP_MEMCPY: op->flags = SPEX_OPF_LOAD | SPEX_OPF_STORE; break;
    /* clang-format on */
    case SPEX_OP_MEMSET:
    case SPEX_OP_DC_ZVA:
        op->flags = SPEX_OPF_STORE;
        break;
    case SPEX_OP_GCS:
        op->flags = rng_below(rng, 3) ? ldst : SPEX_OPF_LOAD | SPEX_OPF_STORE;
        break;
    default:
        break;
    }
}

/* Those of others, and the registers and vectors of both. */
static void make_op(struct rng *rng, const struct arch_features *f, uint32_t any,
                    struct spex_op *op)
{
    uint32_t ldst = rng_below(rng, 2) ? SPEX_OPF_LOAD : SPEX_OPF_STORE;
    switch (op->kind) {
    case SPEX_OP_OTHER:
    case SPEX_OP_CSEL:
    case SPEX_OP_CCMP:
        op->flags = MAYBE(SPEX_OPF_FP | SPEX_OPF_SIMD);
        break;
    case SPEX_OP_SVE:
    case SPEX_OP_SVE_PREFETCH:
        op->flags = MAYBE(SPEX_OPF_PRED);
        if (op->kind == SPEX_OP_SVE)
            op->flags |= MAYBE(SPEX_OPF_FP | SPEX_OPF_ASIMD_EQUIV);
        op->vector_bits = lengths[rng_below(rng, 10)];
        if (!rng_below(rng, 4))
            op->vectors = (uint8_t)(1u << rng_below(rng, 3));
        if (!rng_below(rng, 4))
            op->src[0] = SPEX_REG_P0 + 3;
        if (op->kind == SPEX_OP_SVE && f->SME && !rng_below(rng, 8))
            op->src[1] = SPEX_REG_ZT0;
        break;
    case SPEX_OP_SME_VECTOR:
        op->flags = MAYBE(SPEX_OPF_FP | SPEX_OPF_PRED);
        op->vector_bits = lengths[rng_below(rng, 10)];
        op->vectors = (uint8_t)(1u << rng_below(rng, 3));
        op->dst[0] = SPEX_REG_ZA;
        break;
    case SPEX_OP_SME_TILE:
        op->flags = MAYBE(SPEX_OPF_FP | SPEX_OPF_WHOLE_ZA | SPEX_OPF_PRED);
        op->vector_bits = 100u << rng_below(rng, 12);
        op->dst[0] = SPEX_REG_ZA;
        break;
    case SPEX_OP_BRANCH:
        op->flags = MAYBE(SPEX_OPF_COND | SPEX_OPF_INDIRECT);
        if (op->flags & SPEX_OPF_COND)
            op->flags &= ~(uint32_t)SPEX_OPF_INDIRECT; /* there is no such branch */
        if (!(op->flags & SPEX_OPF_COND) && rng_below(rng, 2))
            op->flags |= rng_below(rng, 2) ? SPEX_OPF_LINK : SPEX_OPF_RETURN | SPEX_OPF_INDIRECT;
        if (f->GCS && (op->flags & (SPEX_OPF_LINK | SPEX_OPF_RETURN)))
            op->flags |= MAYBE(SPEX_OPF_GCS);
        if (op->flags & SPEX_OPF_GCS)
            op->flags |= op->flags & SPEX_OPF_LINK ? SPEX_OPF_STORE : SPEX_OPF_LOAD;
        break;
    /* clang-format off */
    case SPEX_OP_ERET: op->flags = SPEX_OPF_INDIRECT | SPEX_OPF_CSYNC; break;
    case SPEX_OP_ISB: op->flags = SPEX_OPF_CSYNC; break;
    /* clang-format on */
    default:
        make_memory(rng, any, ldst, op);
    }
}

static void make_outcome(struct rng *rng, const struct arch_features *f, uint32_t any,
                         const struct spex_op *op, struct spex_outcome *out)
{
    out->flags = SPEX_OUT_EXECUTED;
    switch (rng_below(rng, 16)) {
    /* clang-format off */
    case 0: out->flags = SPEX_OUT_EXCEPTION; break;
    case 1: out->flags = SPEX_OUT_EXECUTED | SPEX_OUT_EXCEPTION; break;
    case 2: out->flags = SPEX_OUT_SPECULATIVE; break;
    case 3: out->flags = SPEX_OUT_NO_INSN; break;
    case 4: out->flags = SPEX_OUT_NONARCH_EXC | (MAYBE(1) ? SPEX_OUT_EXECUTED : 0); break;
    case 5: out->flags = 0; break; /* an exception condition that raised none */
        /* clang-format on */
    }
    bool always =
        (op->kind == SPEX_OP_BRANCH && !(op->flags & SPEX_OPF_COND)) || op->kind == SPEX_OP_ERET;
    if (always || rng_below(rng, 2))
        out->flags |= SPEX_OUT_PASSED;
    out->flags |= (any >> 8) & (SPEX_OUT_STREAMING | SPEX_OUT_ALT_CLOCK | SPEX_OUT_GCS_ENABLED |
                                SPEX_OUT_IMPDEF_COUNTER | SPEX_OUT_IMPDEF_ADDRESS);
    if (!f->SME)
        out->flags &= ~(uint32_t)SPEX_OUT_STREAMING;
    if ((op->flags & SPEX_OPF_EXCL) && (op->flags & SPEX_OPF_STORE))
        out->flags |= (any >> 3) & SPEX_OUT_MONITOR_FAIL;
    if (op->kind == SPEX_OP_ERET && !rng_below(rng, 4))
        out->flags |= SPEX_OUT_ILLEGAL_ERET;
    out->events = rng_next(rng) & rng_next(rng) & (OF_OPERATION | IMPDEF);
    if ((op->flags & SPEX_OPF_PRED) || op->kind == SPEX_OP_SME_TILE)
        out->events |= any & 1 ? BITS(18, 17) : any & BIT(17);
    if (!(any & 0x700000)) /* what only a mistaken host passes */
        out->events |= rng_next(rng);
}

#undef MAYBE

static void make_numbers(struct rng *rng, const struct arch_features *f, uint32_t any,
                         struct made_op *made)
{
    const struct spex_op *op = &made->op;
    struct spex_outcome *out = &made->outcome;
    out->total = cycles(rng);
    out->issue = cycles(rng);
    out->alt_issue = cycles(rng);
    out->impdef_counter = cycles(rng);
    out->impdef_address = rng_next(rng);
    out->target = address(rng) & ~(uint64_t)3;
    out->target_el = (uint8_t)rng_below(rng, 3);
    out->target_security = security(rng, f);
    out->spsr_el = (uint8_t)rng_below(rng, 4);
    out->spsr_security = security(rng, f);
    make_access(rng, f, &out->access[0]);
    make_access(rng, f, &out->access[1]);
    if ((op->kind == SPEX_OP_LDST || op->kind == SPEX_OP_LDST_SVE ||
         op->kind == SPEX_OP_LDST_SME) &&
        rng_below(rng, 2)) {
        out->part_count = 1 + rng_below(rng, 4);
        for (size_t i = 0; i < out->part_count; i++) {
            make_access(rng, f, &made->parts[i]);
            if (op->flags & SPEX_OPF_CONTIGUOUS) /* ascending, sometimes the other way round */
                made->parts[i].va = out->access[0].va + 16 * (i + 1) - (any & 64);
            if ((op->flags & SPEX_OPF_PRED) && !rng_below(rng, 3))
                made->parts[i].flags |= SPEX_ACC_INACTIVE;
        }
        out->parts = made->parts;
    }
}

void ops_make(uint64_t seed, const struct arch_features *f, struct made_op *made)
{
    struct rng r = {seed}, *rng = &r;
    struct spex_op *op = &made->op;
    memset(made, 0, sizeof *made);
    made->pc = address(rng) & ~(uint64_t)3;
    do
        op->kind = (uint8_t)rng_below(rng, SPEX_OP_KIND_COUNT);
    while (!possible(op->kind, f));
    memset(op->src, SPEX_REG_NONE, sizeof op->src);
    memset(op->dst, SPEX_REG_NONE, sizeof op->dst);
    op->vectors = 1;
    uint32_t any = (uint32_t)rng_next(rng);
    make_op(rng, f, any, op);
    make_outcome(rng, f, any, op, &made->outcome);
    make_numbers(rng, f, any, made);
}

/* What the state of the PE decides: no branch leaves it but an exception return. */
void ops_fit(struct made_op *made, const struct spex_spu_state *state)
{
    struct spex_outcome *out = &made->outcome;
    if (made->op.kind == SPEX_OP_LDST_NV2 && state->el != 1)
        made->op.kind = SPEX_OP_LDST;
    if (made->op.kind == SPEX_OP_BRANCH || made->op.kind == SPEX_OP_ISB) {
        out->target_el = state->el;
        out->target_security = state->security;
    }
    for (size_t i = 0; i < 2; i++)
        if (!(made->pc & 0xf00))
            out->access[i].pas = SPEX_ROOT; /* which no record can say */
        else if (made->pc & 16 << i)
            out->access[i].pas = state->security;
        else
            out->access[i].pas = SPEX_NONSECURE;
    for (size_t i = 0; i < out->part_count; i++)
        made->parts[i].pas = out->access[0].pas;
}

void ops_plain(enum spex_op_kind kind, uint32_t flags, struct made_op *made)
{
    memset(made, 0, sizeof *made);
    made->pc = 0x400000;
    made->op.kind = (uint8_t)kind;
    made->op.flags = flags;
    memset(made->op.src, SPEX_REG_NONE, sizeof made->op.src);
    memset(made->op.dst, SPEX_REG_NONE, sizeof made->op.dst);
    made->op.vectors = 1;
    made->outcome.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED;
    made->outcome.total = 10;
    made->outcome.issue = 2;
    made->outcome.target = 0x500000;
    made->outcome.target_el = 1;
    made->outcome.target_security = SPEX_NONSECURE;
    if (flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE)) {
        for (int i = 0; i < 2; i++) {
            struct spex_access *a = &made->outcome.access[i];
            a->va = 0x10000 + 0x8000 * (uint64_t)i;
            a->pa = 0x90000 + 0x8000 * (uint64_t)i;
            a->pas = SPEX_NONSECURE;
            a->flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE;
            a->translation = 3;
        }
    }
}
