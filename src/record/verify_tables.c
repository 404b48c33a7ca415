/* The rules of the checker, and the masks and tables that a feature set turns them into. */
#include "verify_tables.h"

#include <assert.h>

const struct spex_rule verify_rules[RULES] = {
#define RULE(name, id, exact, requirements, title) {id, requirements, title, exact, NULL},
#define WARNING(name, id, exact, requirements, title, unless)                                      \
    {id, requirements, title, exact, unless},
#include "record/rules.def"
};

/* verify_tables_init decides which of these apply. */
static const struct check checks[] = {
    {0, HAS(EVENTS), EVENTS_MISSING, RECORD},
    {0, HAS(TIMESTAMP), TIMESTAMP_MISSING, RECORD},
    {HAS(TIMESTAMP), 0, TIMESTAMP_PRESENT, TIMESTAMP},
    {HAS(PREV), 0, ADDRESS_PBT, PREV},
    {PC_NO_LEVEL, 0, PC_LEVEL, PC},
    {FOREIGN, 0, PA_SPACE, PA},
    {HAS(CONTEXT1) | PC_EL2, 0, CONTEXT_EL1, CONTEXT1},
    {HAS(CONTEXT2), 0, CONTEXT_EL2, CONTEXT2},             /* without EL2 */
    {HAS(CONTEXT2) | PC_SECURE, 0, CONTEXT_EL2, CONTEXT2}, /* without Secure EL2 */
    {HAS(ALT), 0, COUNTER_ALTCLK, ALT},
    {EXECUTED | HAS(ALT), STREAMING, ALTCLK_STREAMING, ALT},
    {EXECUTED | ISSUE_ABOVE, 0, ISSUE_TOTAL, ISSUE},
    {EXECUTED | TRANSLATION_ABOVE, 0, TRANSLATION_TOTAL, TRANSLATION},
    {HAS(SOURCE), 0, SOURCE_LDS, SOURCE},
    {HAS(SOURCE) | NO_SOURCE, 0, SOURCE_STORE, SOURCE},
    {EXECUTED | NEEDS_SOURCE, HAS(SOURCE), SOURCE_MISSING, RECORD},
    {EXECUTED | PERHAPS | CACHE_EVENT | LOAD, HAS(SOURCE), SOURCE_MISSING, RECORD},
    {EMPTY, PARTIAL, EVENT_EMPTY, EVENTS},
    {EXECUTED | EMPTY | MEMORY_EVENT, 0, EMPTY_ACCESS, EVENTS},
    {EXECUTED | EMPTY | HAS(SOURCE), 0, EMPTY_ACCESS, SOURCE},
    {EXECUTED | EMPTY | TRANSLATED, 0, EMPTY_TRANSLATION, TRANSLATION},
    {EXECUTED | EMPTY | HAS(PA), 0, EMPTY_PA, PA},
    {MISPREDICT | NO_BRANCH, 0, EVENT_MISPREDICT, EVENTS},
    {NOT_TAKEN | KNOWN, CONDITIONAL, EVENT_NOT_TAKEN, EVENTS},
    {PARTIAL | NO_PREDICATE, 0, EVENT_PREDICATE_OP, EVENTS},
    {MEMORY_EVENT | NO_ACCESS, 0, EVENT_MEMORY_OP, EVENTS},
    {EXECUTED | MISS_ALONE | LOAD, 0, EVENT_MISS, EVENTS},
    {EXECUTED | WALK_ALONE, 0, EVENT_WALK, EVENTS},
    {TRANSFORMED | HAS(PC), PC_EL1, OP_NV2_LEVEL, OP},
    {EXECUTED, HAS(PC), PC_MISSING, RECORD},
    {EXECUTED | PC_UNALIGNED, 0, PC_ALIGNMENT, PC},
    {EXECUTED, HAS(OP), OP_MISSING, RECORD},
    {EXECUTED, HAS(TOTAL), TOTAL_MISSING, RECORD},
    {EXECUTED, HAS(ISSUE), ISSUE_MISSING, RECORD},
    {EXECUTED | TAKEN_TARGET, HAS(TARGET) | NOT_TAKEN, TARGET_MISSING, RECORD},
    {EXECUTED | SAME_CONTEXT | MOVED, NOT_TAKEN, TARGET_CONTEXT, TARGET},
    {HAS(TARGET) | NO_BRANCH, 0, TARGET_BRANCH, TARGET},
    {HAS(TARGET) | EXCEPTION, KNOWN, TARGET_EXCEPTION, TARGET},
    {BRANCH | EXCEPTION, 0, BRANCH_EXCEPTION, OP},
    {EXECUTED | NEEDS_VA, HAS(VA), VA_MISSING, RECORD},
    {EXECUTED | NEEDS_TRANSLATION | HAS(VA), HAS(TRANSLATION), TRANSLATION_MISSING, RECORD},
    {EXECUTED | PERHAPS | CACHE_EVENT | HAS(VA), HAS(TRANSLATION), TRANSLATION_MISSING, RECORD},
    {EXECUTED | TRANSLATED, HAS(VA), TRANSLATION_ALONE, TRANSLATION},
    {EXECUTED | SVE_ACCESS, HAS(VA) | PARTIAL, SVE_VA_MISSING, RECORD},
    {EXECUTED | SVE_ACCESS | HAS(VA), HAS(TRANSLATION) | EMPTY, SVE_TRANSLATION_MISSING, RECORD},
    {EXECUTED | SVE_ACCESS | LOAD, HAS(SOURCE) | EMPTY, SVE_SOURCE_MISSING, RECORD},
    {EXECUTED | SVE_LOAD, HAS(VA) | PARTIAL, SVE_LOAD_ACCESS, RECORD},
    {EXECUTED | SVE_LOAD | HAS(VA), HAS(TRANSLATION) | EMPTY, SVE_LOAD_ACCESS, RECORD},
    {EXECUTED | SVE_LOAD, HAS(SOURCE) | EMPTY, SVE_LOAD_ACCESS, RECORD},
    {PREV_REALM_EL3, 0, PREV_LEVEL, PREV},
    {HAS(PA) | USES_VA, HAS(VA) | NO_ACCESS, PA_ALONE, PA},
    {NO_ACCESS | HAS(VA), 0, MEMORY_OP, VA},
    {NO_ACCESS | HAS(PA), 0, MEMORY_OP, PA},
    {NO_ACCESS | HAS(TRANSLATION), 0, MEMORY_OP, TRANSLATION},
    {NO_ACCESS | HAS(SOURCE), 0, MEMORY_OP, SOURCE},
};

enum { CHECKS = sizeof checks / sizeof checks[0] };
static_assert(CHECKS <= (int)VERIFY_CHECKS, "all may be active");

/* Which branch instructions exist: CALL and RETURN as CR says. */
static enum rule branch_rule(const struct spex_op_type *t)
{
    enum { CALL = 1, RETURN = 2, NEITHER = 3 };
    return t->gcs && t->cr == NEITHER        ? OP_GCS_CALL
           : t->cr == RETURN && !t->indirect ? OP_RETURN_DIRECT
           : t->cr == CALL && t->cond        ? OP_LINK_COND
           : t->indirect && t->cond          ? OP_INDIRECT_COND
                                             : FINE;
}

/* The rule that this operation type breaks, or FINE. */
static enum rule op_rule(const struct arch_features *f, bool known, const struct spex_op_type *t)
{
    bool v1p1 = f->version >= 2, v1p2 = f->version >= 3, v1p3 = f->version >= 4;
    bool vectors = f->SVE || f->SME;
    switch (t->subclass) {
    case SPEX_SUB_OTHER:
        return (t->ase || t->fp) && !f->FPF ? OP_FPF : FINE;
    case SPEX_SUB_SVE:
        return !(v1p1 && f->SVE)                    ? OP_SVE
               : t->length_code == 7 && !f->SPE_SME ? OP_SVE_LENGTH
                                                    : FINE;
    case SPEX_SUB_SME:
        return !f->SPE_SME                                    ? OP_SME
               : t->length_code >= 12 && t->length_code <= 14 ? OP_SME_SIZE
                                                              : FINE;
    case SPEX_SUB_LDST_UNSPEC:
        return v1p1 ? FINE : OP_UNSPECIFIED;
    case SPEX_SUB_LDST_EXTENDED:
        return !t->ar && !t->excl && !t->at ? OP_EXTENDED : t->excl && t->at ? OP_EXCLUSIVE : FINE;
    case SPEX_SUB_LDST_TAG:
        return v1p3 && f->MTE2 ? FINE : OP_TAG;
    case SPEX_SUB_LDST_NV2:
        return f->NV2 ? FINE : OP_NV2;
    case SPEX_SUB_LDST_SVE_SME:
        return !(v1p1 && vectors)                   ? OP_SVE_LDST
               : t->length_code == 7 && !f->SPE_SME ? OP_SVE_LENGTH
               : t->pred && !t->store && !v1p2      ? OP_SVE_PRED
                                                    : FINE;
    case SPEX_SUB_LDST_MEMCPY:
    case SPEX_SUB_LDST_MEMSET:
        return v1p3 && f->MOPS ? FINE : OP_MOPS;
    case SPEX_SUB_LDST_GCS:
        return f->GCS ? FINE : OP_GCS; /* FEAT_GCS implies FEAT_SPEv1p4 here */
    case SPEX_SUB_BRANCH:
        return t->gcs && !f->GCS           ? OP_BRANCH_GCS
               : t->cr && !f->CRR          ? OP_CR_ZERO
               : !t->cr && f->CRR && known ? OP_CR_MISSING
                                           : branch_rule(t);
    case SPEX_SUB_RESERVED:
        return OP_SUBCLASS;
    default:
        return FINE;
    }
}

/*
 * Facts that follow from the operation type. Accesses that may not happen at all (inactive
 * elements, empty copies, failed Store-Exclusives) need no address or translation: D17.6.4,
 * RMYPFF, RNHSYR; an NV2 access may lack its address, D17.6.4.2. An ISB may be recorded as a
 * direct branch that is not taken, so a plain direct branch needs no target.
 */
static uint64_t op_facts(const struct arch_features *f, bool known, const struct spex_op_type *t)
{
    bool call = t->cr == 1 || t->cr == 2;
    const uint64_t access = NEEDS_VA | NEEDS_TRANSLATION;
    const uint64_t load = t->store ? NO_SOURCE : NEEDS_SOURCE;
    const uint64_t memory = KNOWN | NO_BRANCH | USES_VA | (t->store ? 0 : LOAD);
    switch (t->subclass) {
    case SPEX_SUB_RESERVED:
        return 0;
    case SPEX_SUB_BRANCH:
        return KNOWN | BRANCH | USES_VA | NO_PREDICATE | (t->gcs ? access : NO_ACCESS) |
               (t->gcs && t->cr == 1   ? NO_SOURCE
                : t->gcs && t->cr == 2 ? NEEDS_SOURCE
                                       : 0) |
               (t->cond ? CONDITIONAL : 0) | (t->cond || t->indirect || call ? TAKEN_TARGET : 0) |
               (t->cond || call ? SAME_CONTEXT : 0);
    case SPEX_SUB_OTHER: /* may be prefetches, cache maintenance, address translation */
        return KNOWN | NO_BRANCH | (t->cond ? CONDITIONAL : 0) |
               (t->cond || t->ase ? NO_PREDICATE : 0) |
               (t->cond || t->ase || t->fp ? NO_ACCESS : 0);
    case SPEX_SUB_SVE: /* an SVE prefetch may have this type; it is not predicated (D17.6.6) */
        return KNOWN | NO_BRANCH | (t->fp || t->pred ? NO_ACCESS : 0);
    case SPEX_SUB_SME:
        return KNOWN | NO_BRANCH | NO_ACCESS;
    /* Types of the time before their own subclass: SVE as SIMD&FP, SME and copies as either. */
    case SPEX_SUB_LDST_SIMD_FP:
        if (!known || (f->version < 2 && (f->SVE || f->SME)))
            return memory | (t->store ? NO_SOURCE : 0);
        return memory | NO_PREDICATE | access | load;
    case SPEX_SUB_LDST_GP: {
        /* ST64BV may have a data source for its status result */
        bool status = f->version < 2 && f->LS64;
        if ((f->version < 2 && f->SME) || (f->version < 4 && f->MOPS))
            return memory | (t->store && !f->MOPS && !status ? NO_SOURCE : 0);
        return memory | NO_PREDICATE | access | (t->store && status ? 0 : load);
    }
    case SPEX_SUB_LDST_EXTENDED:
        return memory | NO_PREDICATE | (t->excl && t->store ? PERHAPS : access) |
               (t->at && t->store ? 0 : load);
    case SPEX_SUB_LDST_TAG:
        return memory | NO_PREDICATE | access | load;
    case SPEX_SUB_LDST_GCS: /* COMM 0: part of a call or return, which may be mispredicted */
        return (t->comm ? memory : memory & ~NO_BRANCH) | NO_PREDICATE | access | load;
    case SPEX_SUB_LDST_UNSPEC: { /* SME accesses and copies where they have no better subclass */
        bool copies = f->MOPS && f->version < 4, vectors = !known || (f->SME && !f->SPE_SME);
        uint64_t source = t->store ? (f->LS64 || copies ? 0 : NO_SOURCE) /* ST64BV */
                                   : (vectors || copies ? 0 : NEEDS_SOURCE);
        return memory | source | (vectors ? 0 : NO_PREDICATE) | (vectors || copies ? 0 : access);
    }
    case SPEX_SUB_LDST_NV2: /* the address may be missing, but memory was read */
        return memory | NO_PREDICATE | PERHAPS | TRANSFORMED | load;
    case SPEX_SUB_LDST_MEMSET:
        return memory | NO_PREDICATE | PERHAPS | NO_SOURCE;
    case SPEX_SUB_LDST_MEMCPY:
        return memory | NO_PREDICATE | PERHAPS | (t->store ? NO_SOURCE : 0);
    case SPEX_SUB_LDST_SVE_SME: { /* from SPEv1p2 on, loads say whether they are predicated */
        bool unpredicated = !t->pred && (t->store || (known && f->version >= 3));
        return memory | (t->store ? NO_SOURCE : 0) | (unpredicated ? NO_PREDICATE : 0) |
               (t->store || unpredicated ? SVE_ACCESS : SVE_LOAD);
    }
    default:
        return KNOWN | NO_BRANCH;
    }
}

/* Checks that hold for some feature sets only. */
static bool applies(const struct verify_tables *s, const struct check *check)
{
    const struct arch_features *f = &s->features;
    if (verify_rules[check->rule].exact && !s->known)
        return false;
    switch (check->rule) {
    case TIMESTAMP_MISSING:
        return f->TS;
    case TIMESTAMP_PRESENT:
        return !f->TS;
    case ADDRESS_PBT:
        return !f->PBT;
    case CONTEXT_EL2:
        return check->all & PC_SECURE ? f->EL2 && !f->SEL2 : !f->EL2;
    case COUNTER_ALTCLK:
        return !f->ALTCLK;
    case SOURCE_LDS:
        return !f->LDS;
    case ALTCLK_STREAMING: /* 1: the clock of the SMCU; 15 is IMPLEMENTATION DEFINED */
        return f->SPE_SME && f->ALTCLK == 1;
    case SOURCE_MISSING:
    case SVE_SOURCE_MISSING:
        return f->LDS;
    case SVE_LOAD_ACCESS:
        return !(check->none & HAS(SOURCE)) || (s->known && f->LDS);
    default:
        return true;
    }
}

void verify_tables_activate(struct verify_tables *s)
{
    s->active_count = 0;
    for (size_t i = 0; i < CHECKS; i++)
        if (!s->ignored[checks[i].rule] && applies(s, &checks[i]))
            s->active[s->active_count++] = checks[i];
    s->events_zero = 0;
    for (size_t i = 0; i < VERIFY_EVENTS; i++)
        if (!s->ignored[s->events[i].rule])
            s->events_zero |= s->events[i].mask;
}

void verify_tables_init(struct verify_tables *s, const struct arch_features *features)
{
    s->known = features != NULL;
    if (features) {
        s->features = *features;
    } else {
        arch_features_preset("max", &s->features);
        s->features.MaxSize = 11;
        s->features.Align = 0;
    }
    const struct arch_features *f = &s->features;
    bool v1p4 = f->version >= 5, vectors = f->version >= 2 && (f->SVE || f->SME);
    for (unsigned c = 0; c < 4; c++) {
        for (unsigned p = 0; p < 256; p++) {
            struct spex_op_type type;
            spex_op_type_decode(c, p, &type);
            s->op_rules[c][p] = (uint8_t)(c == 3 ? OP_CLASS : op_rule(f, s->known, &type));
            s->op_facts[c][p] = (uint32_t)(op_facts(f, s->known, &type) >> 32);
        }
    }
    unsigned n = 0;
#define EVENT_RULE(condition, bits, which)                                                         \
    (s->events[n].rule = which, s->events[n++].mask = (condition) ? (bits) : 0)
    EVENT_RULE(true, BIT(16) | BITS(47, 32), EVENT_ZERO);
    EVENT_RULE(v1p4 && s->known, BITS(31, 26), EVENT_V1P4_ZERO);
    EVENT_RULE(true,
               (v1p4 && !f->SPE_SME ? BIT(24) : 0) |
                   ((v1p4 || f->SPE_SME) && !f->SMCU ? BIT(25) : 0),
               EVENT_SME);
    EVENT_RULE(true,
               v1p4 ? (f->L2D ? 0 : BITS(20, 19)) | (f->Modified ? 0 : BIT(21)) |
                          (f->Recent ? 0 : BIT(22)) | (f->Snooped ? 0 : BIT(23))
                    : BITS(23, 19),
               EVENT_V1P4);
    EVENT_RULE(!vectors, BITS(18, 17), EVENT_PREDICATE);
    EVENT_RULE(f->version < 2 || !f->Misaligned, BIT(11), EVENT_ALIGNMENT);
    EVENT_RULE(true, (f->Remote ? 0 : BIT(10)) | (f->LLC ? 0 : BITS(9, 8)), EVENT_OPTIONAL);
#undef EVENT_RULE
    assert(n == VERIFY_EVENTS);
    s->misses = BIT(3) | (s->known ? (f->LLC ? BIT(9) : 0) | (v1p4 && f->L2D ? BIT(20) : 0) : 0);
    s->counter_zero = f->CountSize == 2 ? 0xf000 : 0;
    s->reserved_spaces = (uint8_t)((f->Secure ? 0 : 1 << 0) | (f->RME ? 1 << 2 : 0));
    for (unsigned top = 0; top < 16; top++) { /* NS EL EL NSE */
        unsigned el = top >> 1 & 3;
        bool secure = !(top & 9);
        uint64_t facts = el == 1 ? PC_EL1 : el == 2 ? PC_EL2 : 0;
        if (el == 3 || (el == 2 && (!f->EL2 || (secure && !f->SEL2))))
            facts |= PC_NO_LEVEL;
        s->pc_facts[top] = (uint32_t)((facts | (secure ? PC_SECURE : 0)) >> 16);
    }
    verify_tables_activate(s);
}
