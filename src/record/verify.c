/*
 * The stream checker. One pass over the packets: each packet is checked by its
 * header, each record when it closes. What a feature set forbids is turned into
 * masks and tables once, in init, so that checking is a few ANDs per record.
 */
#include "verifier.h"

#include "base/error.h"
#include "base/sized.h"
#include "record/slots.h"
#include "wire/headers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rule {
#define RULE(name, id, exact, requirements, title) name,
#include "record/rules.def"
    RULES,
    FINE = RULES
};

static const struct spex_rule rules[RULES] = {
#define RULE(name, id, exact, requirements, title) {id, requirements, title, exact},
#include "record/rules.def"
};

/* Short names of slots for the tables below. */
enum {
    PC = SLOT_PC,
    TARGET = SLOT_TARGET,
    VA = SLOT_VA,
    PA = SLOT_PA,
    PREV = SLOT_PREV_TARGET,
    TOTAL = SLOT_TOTAL,
    ISSUE = SLOT_ISSUE,
    TRANSLATION = SLOT_TRANSLATION,
    ALT = SLOT_ALT_ISSUE,
    CONTEXT1 = SLOT_CONTEXT_EL1,
    CONTEXT2 = SLOT_CONTEXT_EL2,
    EVENTS = SLOT_EVENTS,
    SOURCE = SLOT_DATA_SOURCE,
    OP = SLOT_OP,
    TIMESTAMP = SLOT_TIMESTAMP,
    RECORD = SLOTS, /* "the record itself" in the table of checks */
};

static const char *const slot_names[SLOTS] = {
#define SLOT(name, type, index, field, words) words,
#include "record/slots.def"
};

/* By header byte; an Operation Type packet of any CLASS is one. */
#define ENTRY(h) WIRE_IS(h, OPERATION_TYPE) ? SLOT_OP : SLOT_OF_HEADER(h)
static const uint8_t slots[256] = WIRE_ALL(ENTRY);

/* clang-format off */
/*
 * What is known of a record: bits below SLOTS say which packets it has, the rest
 * is derived from their payloads. The checks below are masks over these bits.
 */
#define HAS(slot)    BIT(slot)
#define EXECUTED     BIT(16) /* E[1], not E[0], not bare: D17.6 says what must be there */
#define EXCEPTION    BIT(17) /* E[1] and E[0] */
#define NOT_TAKEN    BIT(18) /* E[6] */
#define MISPREDICT   BIT(19) /* E[7] */
#define PARTIAL      BIT(20) /* E[17] */
#define EMPTY        BIT(21) /* E[18] */
#define MEMORY_EVENT BIT(22) /* E[5:2], E[11:8], E[23:19] */
#define PC_EL1       BIT(23)
#define PC_EL2       BIT(24)
#define PC_NO_LEVEL  BIT(25) /* EL3 or an Exception level that is not implemented */
#define PC_SECURE    BIT(26)
#define MOVED        BIT(27) /* target in another Exception level or Security state */
#define FOREIGN      BIT(28) /* PA in a space that the Security state cannot reach */
#define MISS_ALONE   BIT(29) /* E[3] without E[2] and the like */
#define WALK_ALONE   BIT(30) /* E[5] without E[4] */
/* Of the operation type; none is set for a reserved one. */
#define KNOWN             BIT(32)
#define BRANCH            BIT(33)
#define NO_BRANCH         BIT(34)
#define NO_ACCESS         BIT(35) /* cannot be a memory access, nor a prefetch or the like */
#define CONDITIONAL       BIT(36)
#define TAKEN_TARGET      BIT(37) /* has a target if taken */
#define SAME_CONTEXT      BIT(38) /* cannot be an exception return */
#define NEEDS_VA          BIT(39)
#define NEEDS_TRANSLATION BIT(40)
#define NEEDS_SOURCE      BIT(41)
#define NO_SOURCE         BIT(42)
#define USES_VA           BIT(43)
#define NO_PREDICATE      BIT(44)
#define TRANSFORMED       BIT(45) /* NV2 */
#define LOAD              BIT(46)
/* clang-format on */

#define MEMORY_EVENTS (BITS(5, 2) | BITS(11, 8) | BITS(23, 19))

struct check {
    uint64_t all, none; /* violated if all of these bits are set and none of those */
    uint8_t rule, at;
};

/* Which of these apply is decided in init. */
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
    {HAS(SOURCE), 0, SOURCE_LDS, SOURCE},
    {HAS(SOURCE) | NO_SOURCE, 0, SOURCE_STORE, SOURCE},
    {EXECUTED | NEEDS_SOURCE, HAS(SOURCE), SOURCE_MISSING, RECORD},
    {EMPTY, PARTIAL, EVENT_EMPTY, EVENTS},
    {MISPREDICT | NO_BRANCH, 0, EVENT_MISPREDICT, EVENTS},
    {NOT_TAKEN | KNOWN, CONDITIONAL, EVENT_NOT_TAKEN, EVENTS},
    {PARTIAL | NO_PREDICATE, 0, EVENT_PREDICATE_OP, EVENTS},
    {MEMORY_EVENT | NO_ACCESS, 0, EVENT_MEMORY_OP, EVENTS},
    {EXECUTED | MISS_ALONE | LOAD, 0, EVENT_MISS, EVENTS},
    {EXECUTED | WALK_ALONE, 0, EVENT_WALK, EVENTS},
    {TRANSFORMED | HAS(PC), PC_EL1, OP_NV2_LEVEL, OP},
    {EXECUTED, HAS(PC), PC_MISSING, RECORD},
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
    {HAS(PA) | USES_VA, HAS(VA) | NO_ACCESS, PA_ALONE, PA},
    {NO_ACCESS | HAS(VA), 0, MEMORY_OP, VA},
    {NO_ACCESS | HAS(PA), 0, MEMORY_OP, PA},
    {NO_ACCESS | HAS(TRANSLATION), 0, MEMORY_OP, TRANSLATION},
    {NO_ACCESS | HAS(SOURCE), 0, MEMORY_OP, SOURCE},
};

enum { CHECKS = sizeof checks / sizeof checks[0], EVENT_RULES = 7, QUEUE = CHECKS + 32 };

struct state {
    /* from the features */
    struct arch_features features;
    bool known, ignored[RULES];
    struct check active[CHECKS];
    unsigned active_count;
    uint16_t op_facts[4][256]; /* by CLASS and payload; >> 32 */
    uint8_t op_rules[4][256];
    struct {
        uint64_t mask;
        uint8_t rule;
    } events[EVENT_RULES];
    uint64_t events_zero;
    uint64_t misses; /* events that stand for a miss, each after the event of its access */
    uint16_t counter_zero;
    uint8_t reserved_spaces; /* bit NSE:NS set: reserved */
    uint32_t pc_facts[16];   /* by payload [63:60], >> 16 */
    /* the stream */
    const uint8_t *data;
    size_t size, position;
    uint64_t base;
    uint64_t begin, end; /* the record before; where the stream began if there is none */
    bool last, done;
    uint64_t until; /* no record that begins at or after this offset is read */
    bool stopped;   /* because of that */
    /* the record being read */
    bool open;
    uint64_t start;
    uint64_t present;
    uint64_t payload[SLOTS];
    uint64_t at[SLOTS];
    /* found and not yet reported */
    unsigned queued, told;
    struct {
        uint64_t offset;
        uint8_t rule, slot;
        uint64_t value;
        uint64_t record;
        const char *text;
    } queue[QUEUE];
};

static_assert(sizeof(struct state) <= sizeof((struct spex_verifier){0}.opaque), "state fits");

static struct state *state_of(struct spex_verifier *verifier)
{
    return (struct state *)verifier->opaque;
}

const struct spex_rule *spex_verifier_rule(size_t index)
{
    return index < RULES ? &rules[index] : NULL;
}

/* ---- features to tables ---- */

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
                                           : FINE;
    case SPEX_SUB_RESERVED:
        return OP_SUBCLASS;
    default:
        return FINE;
    }
}

/*
 * What follows from the operation type. Accesses that may not happen at all (inactive
 * elements, empty copies, failed Store-Exclusives) need no address or translation: D17.6.4,
 * RMYPFF, RNHSYR; an NV2 access may lose its address, D17.6.4.2. An ISB may be a direct branch
 * that is not taken, so a plain direct branch needs no target.
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
               (t->cond ? CONDITIONAL : 0) | (t->cond || t->indirect || call ? TAKEN_TARGET : 0) |
               (t->cond || call ? SAME_CONTEXT : 0);
    case SPEX_SUB_OTHER: /* plain ones may be prefetches, cache maintenance, address translation */
        return KNOWN | NO_BRANCH | (t->cond ? CONDITIONAL : 0) |
               (t->cond || t->ase || t->fp ? NO_ACCESS : 0);
    case SPEX_SUB_SVE: /* an SVE prefetch may have this type */
        return KNOWN | NO_BRANCH | (t->fp ? NO_ACCESS : 0);
    case SPEX_SUB_SME:
        return KNOWN | NO_BRANCH | NO_ACCESS;
    /* Before they had a subclass: SVE as SIMD&FP, SME and copies as either. */
    case SPEX_SUB_LDST_SIMD_FP:
        if (!known || (f->version < 2 && (f->SVE || f->SME)))
            return memory | (t->store ? NO_SOURCE : 0);
        return memory | NO_PREDICATE | access | load;
    case SPEX_SUB_LDST_GP: {
        bool status = f->version < 2 && f->LS64; /* ST64BV may say where its result came from */
        if ((f->version < 2 && f->SME) || (f->version < 4 && f->MOPS))
            return memory | (t->store && !f->MOPS && !status ? NO_SOURCE : 0);
        return memory | NO_PREDICATE | access | (t->store && status ? 0 : load);
    }
    case SPEX_SUB_LDST_EXTENDED:
        return memory | NO_PREDICATE | (t->excl && t->store ? 0 : access) |
               (t->at && t->store ? 0 : load);
    case SPEX_SUB_LDST_TAG:
        return memory | NO_PREDICATE | access | (t->store ? NO_SOURCE : 0);
    case SPEX_SUB_LDST_GCS: /* COMM 0: part of a call or return, which may be mispredicted */
        return (t->comm ? memory : memory & ~NO_BRANCH) | NO_PREDICATE | access |
               (t->store ? NO_SOURCE : 0);
    case SPEX_SUB_LDST_UNSPEC: /* an SME load/store where there is no better subclass */
        return memory | (!known || (f->SME && !f->SPE_SME) ? 0 : access | NO_PREDICATE);
    case SPEX_SUB_LDST_NV2:
        return memory | NO_PREDICATE | TRANSFORMED | (t->store ? NO_SOURCE : 0);
    case SPEX_SUB_LDST_MEMSET:
        return memory | NO_PREDICATE | NO_SOURCE;
    case SPEX_SUB_LDST_MEMCPY:
        return memory | NO_PREDICATE;
    case SPEX_SUB_LDST_SVE_SME: { /* loads say whether they are predicated from SPEv1p2 on */
        bool unpredicated = !t->pred && (t->store || (known && f->version >= 3));
        return memory | (t->store ? NO_SOURCE : 0) | (unpredicated ? NO_PREDICATE : 0);
    }
    default:
        return KNOWN | NO_BRANCH;
    }
}

/* Checks that hold for some feature sets only. */
static bool applies(const struct state *s, const struct check *check)
{
    const struct arch_features *f = &s->features;
    if (rules[check->rule].exact && !s->known)
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
    case SOURCE_MISSING:
        return f->LDS;
    default:
        return true;
    }
}

static void activate(struct state *s)
{
    s->active_count = 0;
    for (size_t i = 0; i < CHECKS; i++)
        if (!s->ignored[checks[i].rule] && applies(s, &checks[i]))
            s->active[s->active_count++] = checks[i];
    s->events_zero = 0;
    for (size_t i = 0; i < EVENT_RULES; i++)
        if (!s->ignored[s->events[i].rule])
            s->events_zero |= s->events[i].mask;
}

void verifier_init(struct spex_verifier *verifier, const struct arch_features *features)
{
    struct state *s = state_of(verifier);
    memset(verifier, 0, sizeof *verifier);
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
            s->op_facts[c][p] = (uint16_t)(op_facts(f, s->known, &type) >> 32);
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
    assert(n == EVENT_RULES);
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
    activate(s);
}

size_t spex_verifier_size(void)
{
    return sizeof(struct spex_verifier);
}

enum spex_status spex_verifier_init(void *memory, const struct spex_verify_options *options,
                                    struct spex_verifier **verifier, struct spex_error *error)
{
    struct spex_verify_options in = {0};
    struct arch_features features;
    enum spex_status status = SPEX_OK;
    if (options)
        status = sized_take("spex_verify_options", options, &in, sizeof in, error);
    if (!status && in.features)
        status = arch_features_parse(in.features, &features, error);
    if (status)
        return status;
    verifier_init(memory, in.features ? &features : NULL);
    *verifier = memory;
    return SPEX_OK;
}

enum spex_status spex_verifier_new(const struct spex_verify_options *options,
                                   struct spex_verifier **verifier, struct spex_error *error)
{
    void *memory = malloc(sizeof(struct spex_verifier));
    if (!memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a verifier");
    enum spex_status status = spex_verifier_init(memory, options, verifier, error);
    if (status)
        free(memory);
    return status;
}

void spex_verifier_free(struct spex_verifier *verifier)
{
    free(verifier);
}

uint64_t spex_verifier_records(const struct spex_verifier *verifier)
{
    return verifier->records;
}

enum spex_status spex_verifier_ignore(struct spex_verifier *verifier, const char *rule)
{
    struct state *s = state_of(verifier);
    for (size_t i = 0; i < RULES; i++) {
        if (!strcmp(rules[i].id, rule)) {
            s->ignored[i] = true;
            activate(s);
            return SPEX_OK;
        }
    }
    return SPEX_INVALID;
}

void spex_verifier_feed(struct spex_verifier *verifier, const uint8_t *data, size_t size,
                        uint64_t base, bool last)
{
    struct state *s = state_of(verifier);
    if (s->last || base != s->base + s->position) {
        s->begin = s->end = base;
        s->open = false;
        s->present = 0;
    }
    s->data = data;
    s->size = size;
    s->base = base;
    s->last = last;
    s->position = 0;
    s->done = s->stopped = false;
    s->until = UINT64_MAX;
}

void spex_verifier_until(struct spex_verifier *verifier, uint64_t offset)
{
    state_of(verifier)->until = offset;
}

bool spex_verifier_at_place(const struct spex_verifier *verifier, struct spex_verifier_place *place)
{
    const struct state *s = (const struct state *)verifier->opaque;
    *place = (struct spex_verifier_place){.begin = s->begin, .end = s->end};
    return s->stopped;
}

void spex_verifier_feed_at(struct spex_verifier *verifier, struct spex_verifier_place place,
                           const uint8_t *data, size_t size, uint64_t base, bool last)
{
    struct state *s = state_of(verifier);
    s->last = true; /* whatever came before: start afresh */
    spex_verifier_feed(verifier, data, size, base, last);
    s->begin = place.begin;
    s->end = place.end;
}

size_t spex_verifier_rest(const struct spex_verifier *verifier)
{
    const struct state *s = (const struct state *)verifier->opaque;
    return s->size - s->position;
}

/* ---- checking ---- */

/*
 * Queues a violation. Its words are text, which is a format for value or for the payload of
 * the slot; without both, value is the slot that should have been filled. The queue is emptied
 * before more is read, and one step adds each check at most once.
 */
static void found(struct spex_verifier *v, enum rule rule, uint64_t offset, unsigned slot,
                  uint64_t value, const char *text)
{
    struct state *s = state_of(v);
    if (rule == FINE || s->ignored[rule] || (rules[rule].exact && !s->known))
        return;
    assert(s->queued < QUEUE);
    unsigned i = s->queued++;
    s->queue[i].offset = offset;
    s->queue[i].rule = (uint8_t)rule;
    s->queue[i].slot = (uint8_t)slot;
    s->queue[i].value = value;
    s->queue[i].record = v->records;
    s->queue[i].text = text;
}

static void found_in(struct spex_verifier *v, enum rule rule, unsigned slot)
{
    struct state *s = state_of(v);
    found(v, rule, s->at[slot], slot, s->payload[slot], NULL);
}

static void check_address(struct spex_verifier *v, unsigned slot)
{
    struct state *s = state_of(v);
    const struct arch_features *f = &s->features;
    uint64_t value = s->payload[slot];
    unsigned space = (unsigned)(spex_address_nse(value) << 1 | spex_address_ns(value));
    if (value & (slot == PA ? BIT(61) : BITS(59, 56)))
        found_in(v, ADDRESS_ZERO, slot);
    if (slot == PA && !f->MTE2 && value & (BIT(62) | BITS(59, 56)))
        found_in(v, PA_TAG, slot);
    if (space & 2 && !f->RME)
        found_in(v, ADDRESS_NSE, slot);
    else if (s->reserved_spaces >> space & 1)
        found_in(v, ADDRESS_SECURITY, slot);
}

/*
 * The address spaces that an operation of this Security state (NSE:NS) cannot reach: a bit per
 * NSE:NS of the PA.
 */
static bool foreign(uint64_t pc, uint64_t pa)
{
    static const uint8_t reach[4] = {
        [0] = 1 << 0 | 1 << 1, [1] = 1 << 1, [2] = 15, [3] = 1 << 3 | 1 << 1};
    unsigned from = spex_address_nse(pc) << 1 | spex_address_ns(pc);
    unsigned to = spex_address_nse(pa) << 1 | spex_address_ns(pa);
    return to != 2 && !(reach[from] >> to & 1);
}

/* The record is closed: everything that needs it as a whole. */
static void check_record(struct spex_verifier *v, uint64_t end)
{
    struct state *s = state_of(v);
    uint64_t facts = s->present;
    if (facts & HAS(EVENTS)) {
        uint64_t e = s->payload[EVENTS];
        /* A condition that raised no exception may leave nothing else, not even E[0] (D17.6.10). */
        bool bare = !(facts & ~(HAS(PC) | HAS(EVENTS) | HAS(TIMESTAMP)));
        facts |= (e & 3) == 2 ? (bare ? 0 : EXECUTED) : (e & 3) == 3 ? EXCEPTION : 0;
        facts |= bits_get(e, 7, 6) << 18;
        facts |= bits_get(e, 18, 17) << 20;
        facts |= e & MEMORY_EVENTS ? MEMORY_EVENT : 0;
        uint64_t alone = e & ~(e << 1); /* without the event below */
        facts |= (alone & s->misses ? MISS_ALONE : 0) | (alone & BIT(5) ? WALK_ALONE : 0);
        if (e & s->events_zero) {
            for (size_t i = 0; i < EVENT_RULES; i++)
                if (e & s->events[i].mask)
                    found(v, s->events[i].rule, s->at[EVENTS], RECORD, e & s->events[i].mask,
                          "events bits 0x%" PRIx64 " set");
        }
    }
    if (facts & HAS(OP)) {
        unsigned class = (unsigned)(s->payload[OP] >> 8), payload = s->payload[OP] & 0xff;
        found_in(v, s->op_rules[class][payload], OP);
        facts |= (uint64_t)s->op_facts[class][payload] << 32;
    }
    if (facts & HAS(PC)) {
        uint64_t pc = s->payload[PC];
        facts |= (uint64_t)s->pc_facts[pc >> 60] << 16;
        check_address(v, PC);
        if (facts & HAS(TARGET) && s->payload[TARGET] >> 60 != pc >> 60)
            facts |= MOVED;
        if (facts & HAS(PA) && foreign(pc, s->payload[PA]))
            facts |= FOREIGN;
    }
    /* The target of a branch that was not taken is UNKNOWN (D17.6.3). */
    if (facts & HAS(TARGET) && !(facts & NOT_TAKEN))
        check_address(v, TARGET);
    if (facts & HAS(PA))
        check_address(v, PA);
    if (facts & HAS(PREV))
        check_address(v, PREV);
    for (unsigned slot = TOTAL; slot <= ALT; slot++)
        if (facts & HAS(slot) && s->payload[slot] & s->counter_zero)
            found_in(v, COUNTER_RANGE, slot);
    for (unsigned i = 0; i < s->active_count; i++) {
        const struct check *c = &s->active[i];
        if ((facts & c->all) == c->all && !(facts & c->none)) {
            if (c->at == RECORD)
                found(v, c->rule, s->start, RECORD, (unsigned)__builtin_ctzll(c->none), NULL);
            else
                found_in(v, c->rule, c->at);
        }
    }
    if (end - s->start > UINT64_C(1) << s->features.MaxSize)
        found(v, RECORD_SIZE, s->start, RECORD, end - s->start, "%" PRIu64 " bytes");
}

static void close_record(struct spex_verifier *v, uint64_t at, uint64_t end)
{
    struct state *s = state_of(v);
    if (s->open) {
        check_record(v, end);
        s->begin = s->start;
    } else {
        found(v, RECORD_EMPTY, at, RECORD, s->end, "nothing to close since offset 0x%" PRIx64);
        s->begin = at;
    }
    v->records++;
    s->end = end;
    s->open = false;
    s->present = 0;
}

/*
 * A multiple of the alignment lies between the record before and offset to. Padding
 * may stand before, inside or after a record's packets, so no more can be asked.
 */
static bool boundary(const struct state *s, uint64_t to)
{
    return to >> s->features.Align << s->features.Align >= s->end;
}

static void begin_record(struct spex_verifier *v, uint64_t at)
{
    struct state *s = state_of(v);
    s->open = true;
    s->start = at;
    if (!boundary(s, at))
        found(v, RECORD_ALIGN, at, RECORD, s->end,
              "no unit boundary since the record before, which ends at 0x%" PRIx64);
}

static void fill(struct spex_verifier *v, unsigned slot, uint64_t at, uint64_t payload)
{
    struct state *s = state_of(v);
    if (s->present & HAS(slot))
        found(v, PACKET_TWICE, at, slot, payload, NULL);
    s->present |= HAS(slot);
    s->payload[slot] = payload;
    s->at[slot] = at;
}

/* A packet outside the fast table: extended, reserved or IMPLEMENTATION DEFINED. */
static void odd_packet(struct spex_verifier *v, const struct spex_packet *packet, uint64_t at)
{
    struct state *s = state_of(v);
    unsigned slot = packet->type == SPEX_PACKET_OPERATION_TYPE ? SLOT_OP : slot_of(packet);
    unsigned index = packet->index;
    if (slot < SLOTS) {
        fill(v, slot, at, packet->payload);
        return;
    }
    switch (packet->type) {
    case SPEX_PACKET_ADDRESS:
        if (slot == SLOT_RESERVED)
            found(v, ADDRESS_INDEX, at, RECORD, index, "INDEX %" PRIu64);
        break;
    case SPEX_PACKET_COUNTER:
        if (slot == SLOT_RESERVED)
            found(v, COUNTER_INDEX, at, RECORD, index, "INDEX %" PRIu64);
        else if (packet->payload & s->counter_zero)
            found(v, COUNTER_RANGE, at, RECORD, packet->payload, "counter 0x%" PRIx64);
        break;
    case SPEX_PACKET_CONTEXT:
        found(v, CONTEXT_INDEX, at, RECORD, index, "INDEX %" PRIu64);
        break;
    default:
        found(v, HEADER_RESERVED, at, RECORD,
              packet->header_size == 2 ? packet->header[0] << 8 | packet->header[1]
                                       : packet->header[0],
              "header 0x%02" PRIx64);
    }
}

/* The end of the piece: what is cut there, if nothing follows. */
static void finish(struct spex_verifier *v)
{
    struct state *s = state_of(v);
    size_t left = s->size - s->position;
    s->done = true;
    if (!s->last)
        return;
    uint64_t at = s->base + s->position, end = s->base + s->size;
    s->position = s->size;
    if (left)
        found(v, PACKET_TRUNCATED, at, RECORD, left, "bytes left: %" PRIu64);
    else if (s->open)
        found(v, RECORD_UNCLOSED, s->start, RECORD, end - s->start,
              "%" PRIu64 " bytes without End or Timestamp");
    else if (!boundary(s, end))
        found(v, RECORD_ALIGN, s->begin, RECORD, s->end,
              "the stream ends before the padding of the record, which ends at 0x%" PRIx64);
    s->open = false;
    s->present = 0;
}

/* Reads packets until something is found or the data ends. */
static void walk(struct spex_verifier *v)
{
    struct state *s = state_of(v);
    while (!s->queued && s->position < s->size) {
        const uint8_t *data = s->data + s->position;
        size_t left = s->size - s->position;
        uint64_t at = s->base + s->position;
        unsigned header = *data, size = wire_headers[header].size;
        unsigned slot = slots[header];
        if (slot == SLOT_PADDING) {
            s->position++;
            continue;
        }
        if (!s->open && at >= s->until) {
            s->done = s->stopped = true;
            break;
        }
        if (slot == SLOT_END) {
            s->position++;
            close_record(v, at, at + 1);
            continue;
        }
        if (slot < SLOTS && left >= SPEX_PACKET_MAX) {
            uint64_t payload = le64(data + 1) & ~UINT64_C(0) >> (64 - 8 * size);
            s->position += 1 + size;
            if (!s->open && slot != TIMESTAMP)
                begin_record(v, at);
            fill(v, slot, at,
                 slot == OP ? payload | (header & WIRE_INDEX_OPERATION_TYPE) << 8 : payload);
        } else {
            struct spex_packet packet;
            if (spex_packet_decode(data, left, &packet) != SPEX_OK)
                break;
            s->position += spex_packet_length(&packet);
            if (!s->open && slot != TIMESTAMP)
                begin_record(v, at);
            if (packet.type == SPEX_PACKET_OPERATION_TYPE)
                packet.payload |= (uint64_t)packet.index << 8;
            odd_packet(v, &packet, at);
        }
        if (slot == TIMESTAMP)
            close_record(v, at, s->base + s->position);
    }
    if (!s->queued && !s->done)
        finish(v);
}

enum spex_status spex_verifier_next(struct spex_verifier *v, struct spex_violation *violation)
{
    struct state *s = state_of(v);
    if (s->told == s->queued) {
        s->told = s->queued = 0;
        walk(v);
        if (!s->queued)
            return SPEX_END;
    }
    unsigned i = s->told++;
    violation->offset = s->queue[i].offset;
    violation->record = s->queue[i].record;
    violation->rule = &rules[s->queue[i].rule];
    memset(violation->zero, 0, sizeof violation->zero);
    if (s->queue[i].slot == OP)
        snprintf(violation->what, sizeof violation->what,
                 "operation type CLASS %u with payload 0x%02x", (unsigned)(s->queue[i].value >> 8),
                 (unsigned)s->queue[i].value & 0xff);
    else if (s->queue[i].slot < SLOTS)
        snprintf(violation->what, sizeof violation->what, "%s 0x%" PRIx64,
                 slot_names[s->queue[i].slot], s->queue[i].value);
    else if (s->queue[i].text)
        snprintf(violation->what, sizeof violation->what, s->queue[i].text, s->queue[i].value);
    else
        snprintf(violation->what, sizeof violation->what, "no %s packet",
                 slot_names[s->queue[i].value]);
    return SPEX_OK;
}
