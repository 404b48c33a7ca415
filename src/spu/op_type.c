/* The Operation Type packet (D17.6.2 to D17.6.6, D18.2.7): which format an operation is recorded
 * in. */
#include "collect.h"

#include "wire/ops.h"

/*
 * SPEEncodeEVL: the smallest power of two, at least 32, that holds the length; code 7 is
 * more than 2048.
 */
static unsigned encode_evl(uint64_t bits)
{
    unsigned code = 0;
    while (code < 7 && bits > (UINT64_C(32) << code))
        code++;
    return code;
}

/* SPEEncodeETS: at least 128; code 15 is the whole array. */
static unsigned encode_ets(uint64_t bits)
{
    unsigned code = 0;
    while (code < 12 && bits > (UINT64_C(128) << code))
        code++;
    return code < 12 ? code : 15;
}

/* With FEAT_SPE_SME the length covers all vectors, without it one. */
static unsigned vector_code(const struct collector *k)
{
    uint64_t vectors = FEATURES->SPE_SME && k->op->vectors ? k->op->vectors : 1;
    unsigned code = encode_evl((uint64_t)k->op->vector_bits * vectors);
    return code == 7 && !FEATURES->SPE_SME ? 6 : code;
}

static bool has_vectors(const struct collector *k)
{
    return FEATURES->version >= 2 && (FEATURES->SVE || FEATURES->SME);
}

bool collect_conditional(const struct collector *k)
{
    switch (k->op->kind) {
    case SPEX_OP_CSEL:
        return CHOICES->csel_conditional;
    case SPEX_OP_CSINC:
        return CHOICES->csinc_conditional;
    case SPEX_OP_CSINV:
        return CHOICES->csinv_conditional;
    case SPEX_OP_CSNEG:
        return CHOICES->csneg_conditional;
    case SPEX_OP_CCMP:
        return CHOICES->ccmp_conditional;
    case SPEX_OP_CCMN:
        return CHOICES->ccmn_conditional;
    case SPEX_OP_BRANCH:
        return k->branch && flag(k, SPEX_OPF_COND);
    default:
        return false;
    }
}

static void set_op(struct collector *k, unsigned op_class, unsigned payload)
{
    k->s->record.present |= SPEX_HAS_OP;
    k->s->record.op_class = (uint8_t)op_class;
    k->s->record.op_payload = (uint8_t)payload;
}

#define SET_OP(k, subclass, fields) set_op(k, WIRE_CLASS_##subclass, WIRE_OP_##subclass | (fields))

/* A prefetch writes no vector, so it is not predicated in the sense of D17.6.6. */
static void op_sve(struct collector *k)
{
    bool predicated = flag(k, SPEX_OPF_PRED) && k->op->kind != SPEX_OP_SVE_PREFETCH;
    SET_OP(k, SVE,
           WIRE_OP_FIELD(SVE, EVL, vector_code(k)) | WIRE_OP_FIELD(SVE, PRED, predicated) |
               WIRE_OP_FIELD(SVE, FP, flag(k, SPEX_OPF_FP)));
}

static void op_sme(struct collector *k)
{
    uint64_t vectors = k->op->kind == SPEX_OP_SME_VECTOR && k->op->vectors ? k->op->vectors : 1;
    unsigned ets =
        flag(k, SPEX_OPF_WHOLE_ZA) ? 15 : encode_ets((uint64_t)k->op->vector_bits * vectors);
    SET_OP(k, SME, WIRE_OP_FIELD(SME, ETS, ets) | WIRE_OP_FIELD(SME, FP, flag(k, SPEX_OPF_FP)));
}

static bool touches(const struct collector *k, uint8_t reg)
{
    return memchr(k->op->src, reg, sizeof k->op->src) || memchr(k->op->dst, reg, sizeof k->op->dst);
}

/* RDDCQB: recorded as the Advanced SIMD equivalent, which has no predicate operand. */
static bool as_asimd(const struct collector *k)
{
    for (unsigned p = SPEX_REG_P0; p < SPEX_REG_P0 + 16; p++)
        if (touches(k, (uint8_t)p))
            return false;
    return CHOICES->sve128 && !FEATURES->ArchInst && k->op->vector_bits == 128 &&
           k->op->vectors <= 1 && flag(k, SPEX_OPF_ASIMD_EQUIV) &&
           !flag(k, SPEX_OPF_PRED | SPEX_OPF_PRED_ZEROING | SPEX_OPF_PREDICATE_ONLY);
}

/* ASE means Advanced SIMD, so not SVE or SME operations that lack a format of their own. */
static void op_other(struct collector *k)
{
    bool vector = k->op->kind == SPEX_OP_SVE || k->op->kind == SPEX_OP_SVE_PREFETCH ||
                  k->op->kind == SPEX_OP_SME_VECTOR || k->op->kind == SPEX_OP_SME_TILE;
    unsigned ase = FEATURES->FPF && (vector ? as_asimd(k) : flag(k, SPEX_OPF_SIMD));
    unsigned fp = FEATURES->FPF && flag(k, SPEX_OPF_FP);
    SET_OP(k, OTHER,
           WIRE_OP_FIELD(OTHER, ASE, ase) | WIRE_OP_FIELD(OTHER, FP, fp) |
               WIRE_OP_FIELD(OTHER, COND, collect_conditional(k)));
}

static bool has_sve(const struct collector *k)
{
    return FEATURES->version >= 2 && FEATURES->SVE;
}

static bool sve_format(const struct collector *k)
{
    if (!has_sve(k) || as_asimd(k))
        return false;
    if (FEATURES->SPE_SME)
        return true;
    if (touches(k, SPEX_REG_ZT0) && !CHOICES->zt_sve)
        return false;
    return k->op->vectors <= 1 || CHOICES->multi_vector_sve;
}

#define SET_LDST(k, subclass, fields)                                                              \
    SET_OP(k, subclass, WIRE_OP_FIELD(subclass, LDST, !(k)->load) | (fields))

static void op_unspecified(struct collector *k)
{
    if (FEATURES->version >= 2)
        SET_LDST(k, LDST_UNSPEC, 0);
    else
        SET_LDST(k, LDST_GP, 0);
}

static void op_ldst_vector(struct collector *k)
{
    bool predicated = flag(k, SPEX_OPF_PRED) && k->store;
    if (!k->store && FEATURES->version >= 3)
        predicated = flag(k, SPEX_OPF_PRED_ZEROING) || flag(k, SPEX_OPF_PRED);
    SET_LDST(k, LDST_SVE_SME,
             WIRE_OP_FIELD(LDST_SVE_SME, SG, flag(k, SPEX_OPF_GATHER)) |
                 WIRE_OP_FIELD(LDST_SVE_SME, EVL, vector_code(k)) |
                 WIRE_OP_FIELD(LDST_SVE_SME, PRED, predicated));
}

static void op_branch(struct collector *k)
{
    unsigned cr = 0, gcs = FEATURES->GCS && FEATURES->version >= 5 && flag(k, SPEX_OPF_GCS) &&
                           k->o->flags & SPEX_OUT_GCS_ENABLED;
    if (FEATURES->CRR)
        cr = flag(k, SPEX_OPF_LINK) ? 1 : flag(k, SPEX_OPF_RETURN) ? 2 : 3;
    bool indirect = flag(k, SPEX_OPF_INDIRECT) || k->op->kind == SPEX_OP_ERET;
    SET_OP(k, BRANCH,
           WIRE_OP_FIELD(BRANCH, CR, cr) | WIRE_OP_FIELD(BRANCH, GCS, gcs) |
               WIRE_OP_FIELD(BRANCH, IND, indirect) |
               WIRE_OP_FIELD(BRANCH, COND, collect_conditional(k)));
}

void collect_op_type(struct collector *k)
{
    const struct arch_features *f = FEATURES;
    if (k->branch) {
        op_branch(k);
        return;
    }
    switch (k->op->kind) {
    case SPEX_OP_SVE:
        sve_format(k) ? op_sve(k) : op_other(k);
        break;
    case SPEX_OP_SVE_PREFETCH:
        CHOICES->sve_prefetch &&has_sve(k) ? op_sve(k) : op_other(k);
        break;
    case SPEX_OP_SME_VECTOR:
        f->SPE_SME && !as_asimd(k) ? op_sme(k) : op_other(k);
        break;
    case SPEX_OP_SME_TILE:
        f->SPE_SME ? op_sme(k) : op_other(k);
        break;
    case SPEX_OP_LDST:
        if (flag(k, SPEX_OPF_ATOMIC | SPEX_OPF_EXCL | SPEX_OPF_ACQREL))
            SET_LDST(k, LDST_EXTENDED,
                     WIRE_OP_FIELD(LDST_EXTENDED, AR, flag(k, SPEX_OPF_ACQREL)) |
                         WIRE_OP_FIELD(LDST_EXTENDED, EXCL, flag(k, SPEX_OPF_EXCL)) |
                         WIRE_OP_FIELD(LDST_EXTENDED, AT, flag(k, SPEX_OPF_ATOMIC)));
        else if (flag(k, SPEX_OPF_SIMDFP_REG))
            SET_LDST(k, LDST_SIMD_FP, 0);
        else
            SET_LDST(k, LDST_GP, 0);
        break;
    case SPEX_OP_LDST_SVE:
        if (!has_vectors(k) || as_asimd(k)) /* without SPEv1p1 as SIMD&FP */
            SET_LDST(k, LDST_SIMD_FP, 0);
        else
            op_ldst_vector(k);
        break;
    case SPEX_OP_LDST_SME:
        if (as_asimd(k))
            SET_LDST(k, LDST_SIMD_FP, 0);
        else if (has_vectors(k) && (f->SPE_SME || !CHOICES->sme_ldst))
            op_ldst_vector(k);
        else
            op_unspecified(k);
        break;
    case SPEX_OP_LDST_TAG:
        if (flag(k, SPEX_OPF_TAG_DATA))
            CHOICES->tag_data ? op_unspecified(k) : SET_LDST(k, LDST_GP, 0);
        else
            f->version >= 4 && f->MTE2 ? SET_LDST(k, LDST_TAG, 0) : op_unspecified(k);
        break;
    case SPEX_OP_LDST_NV2:
        f->NV2 ? SET_LDST(k, LDST_NV2, 0) : op_unspecified(k);
        break;
    case SPEX_OP_MEMCPY:
        f->version >= 4 && f->MOPS ? SET_LDST(k, LDST_MEMCPY, 0) : op_unspecified(k);
        break;
    case SPEX_OP_MEMSET:
        f->version >= 4 && f->MOPS ? SET_LDST(k, LDST_MEMSET, 0) : op_unspecified(k);
        break;
    case SPEX_OP_GCS: /* not a branch, so COMM is 1 */
        f->version >= 5 && f->GCS ? SET_LDST(k, LDST_GCS, WIRE_OP_LDST_GCS_COMM)
                                  : op_unspecified(k);
        break;
    case SPEX_OP_LDST_UNSPEC:
        op_unspecified(k);
        break;
    case SPEX_OP_DC_ZVA:
        k->store ? op_unspecified(k) : op_other(k);
        break;
    default:
        op_other(k);
    }
}
