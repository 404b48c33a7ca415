/*
 * Draws one record for the generator: an operation that the feature set has, then what a PE
 * would record for it (D17.6). No expression draws twice: the compiler could choose the order
 * of evaluation, and with it the bytes.
 */
#include "draw.h"

#include "base/bits.h"
#include "record/slots.h"
#include "wire/ops.h"

#include <assert.h>
#include <string.h>

/* Which feature sets an operation type needs (D18.2.7). */
enum need { ALWAYS, FPF, V1P1, SVE, SPE_SME, VECTORS, TAGS, NV2, MOPS, GCS };

/* Operation types: fixed bits, bits that vary, features needed, kinds, weight. */
#define MEMORY (SPEX_GENERATE_LOAD | SPEX_GENERATE_STORE)
#define OP_ROW(subclass) WIRE_CLASS_##subclass, WIRE_OP_##subclass, 0xff & ~WIRE_FIXED_OP_##subclass
static const struct row {
    uint8_t op_class, value, free, need, ops, weight;
} table[] = {
    {WIRE_CLASS_OTHER, WIRE_OP_OTHER, WIRE_OP_OTHER_COND, ALWAYS, SPEX_GENERATE_OTHER, 30},
    {OP_ROW(OTHER), FPF, SPEX_GENERATE_OTHER, 8}, /* also for ASE and FP */
    {OP_ROW(SVE), SVE, SPEX_GENERATE_OTHER, 8},
    {OP_ROW(SME), SPE_SME, SPEX_GENERATE_OTHER, 6},
    {OP_ROW(LDST_GP), ALWAYS, MEMORY, 40},
    {OP_ROW(LDST_SIMD_FP), ALWAYS, MEMORY, 10},
    {OP_ROW(LDST_UNSPEC), V1P1, MEMORY, 2},
    {OP_ROW(LDST_TAG), TAGS, MEMORY, 2},
    {OP_ROW(LDST_NV2), NV2, MEMORY, 2},
    {OP_ROW(LDST_EXTENDED), ALWAYS, MEMORY, 8},
    {OP_ROW(LDST_SVE_SME), VECTORS, MEMORY, 12},
    {OP_ROW(LDST_MEMCPY), MOPS, MEMORY, 2},
    {OP_ROW(LDST_MEMSET), MOPS, SPEX_GENERATE_STORE, 2},
    {OP_ROW(LDST_GCS), GCS, MEMORY, 4},
    {OP_ROW(BRANCH), ALWAYS, SPEX_GENERATE_BRANCH, 40},
};

static_assert(sizeof table / sizeof table[0] == DRAW_ROWS, "as many as there are weights");

static bool has(const struct arch_features *f, enum need need)
{
    switch (need) {
    case ALWAYS:
        return true;
    case FPF:
        return f->FPF;
    case V1P1:
        return f->version >= 2;
    case SVE:
        return f->version >= 2 && f->SVE;
    case SPE_SME:
        return f->SPE_SME;
    case VECTORS:
        return f->version >= 2 && (f->SVE || f->SME);
    case TAGS:
        return f->version >= 4 && f->MTE2;
    case NV2:
        return f->NV2;
    case MOPS:
        return f->version >= 4 && f->MOPS;
    default: /* GCS */
        return f->GCS;
    }
}

void draw_choose(struct draw_state *s, const struct arch_features *f, unsigned ops)
{
    for (size_t i = 0; i < DRAW_ROWS; i++) {
        bool use = table[i].ops & ops && has(f, table[i].need);
        s->weights[i] = use ? table[i].weight : 0;
        s->total += s->weights[i];
    }
}

/* ---- operation type ---- */

/* Calls, returns and exception returns in the proportions of real programs. */
static unsigned draw_branch(const struct spex_generator *g, struct rng *rng)
{
    static const struct {
        uint8_t form, cr, weight; /* CR with FEAT_SPE_CRR */
    } forms[] = {{WIRE_OP_BRANCH_COND, 3, 60},
                 {0, 3, 12},
                 {0, 1, 10},
                 {WIRE_OP_BRANCH_IND, 1, 4},
                 {WIRE_OP_BRANCH_IND, 2, 10},
                 {WIRE_OP_BRANCH_IND, 3, 4}};
    const struct arch_features *f = &g->options.features;
    uint32_t n = rng_below(rng, 100);
    size_t i = 0;
    while (n >= forms[i].weight)
        n -= forms[i++].weight;
    unsigned payload = forms[i].form;
    if (f->CRR)
        payload |= WIRE_OP_FIELD(BRANCH, CR, forms[i].cr);
    if (has(f, GCS) && forms[i].cr != 3 && g->options.layout != SPEX_LAYOUT_N1 && chance(rng, 40))
        payload |= WIRE_OP_BRANCH_GCS;
    return payload;
}

static void draw_op(const struct spex_generator *g, struct draw_state *s, struct spex_record *r)
{
    const struct arch_features *f = &g->options.features;
    uint32_t n = rng_below(&s->rng, s->total);
    size_t i = 0;
    while (n >= s->weights[i])
        n -= s->weights[i++];
    const struct row *row = &table[i];
    unsigned payload;
    bool valid;
    do {
        payload = row->value | (rng_next(&s->rng) & row->free);
        unsigned length = payload >> 4 & 7;
        valid = true;
        if (row->op_class == 2)
            payload = draw_branch(g, &s->rng);
        else if (row->need == SPE_SME)
            valid = length < 6 || (length == 7 && payload & 4);
        else if (row->need == SVE || row->need == VECTORS)
            valid = (length < 7 || f->SPE_SME) &&
                    !(row->need == VECTORS && f->version < 3 && (payload & 5) == 4);
        else if (row->op_class == SPEX_CLASS_LDST &&
                 row->value ==
                     WIRE_OP_LDST_EXTENDED) /* AR, EXCL or AT; an exclusive is not an atomic */
            valid = payload & 0x1c && (payload & 0x0c) != 0x0c;
        if (row->op_class == 1 && !(payload & 1 ? g->options.ops & SPEX_GENERATE_STORE
                                                : g->options.ops & SPEX_GENERATE_LOAD))
            valid = false;
    } while (!valid);
    r->op_class = row->op_class;
    r->op_payload = (uint8_t)payload;
}

/* ---- values ---- */

/* Mostly short, with a long tail; sometimes saturated. */
static uint16_t draw_latency(struct draft *d, unsigned typical)
{
    unsigned limit = d->f->CountSize == 2 ? 0xfff : 0xffff;
    unsigned value = rng_below(d->rng, typical * 2);
    if (chance(d->rng, 8))
        value += rng_below(d->rng, 400);
    if (chance(d->rng, 1))
        value = chance(d->rng, 50) ? limit : rng_below(d->rng, limit);
    return (uint16_t)(value < limit ? value : limit);
}

/* NS, EL, NSE in [63:60] of a Security state and Exception level that the PE has. */
static uint64_t draw_context(struct draft *d, bool el1)
{
    const struct arch_features *f = d->f;
    unsigned space = 1, el = el1 ? 1 : chance(d->rng, 60) ? 0 : 1; /* NSE:NS */
    if (f->Secure && chance(d->rng, 4))
        space = 0;
    else if (f->RME && chance(d->rng, 4))
        space = 3;
    if (!el1 && f->EL2 && (space || f->SEL2) && chance(d->rng, 25))
        el = 2;
    return (uint64_t)(space & 1) << 63 | (uint64_t)el << 61 | (uint64_t)(space >> 1) << 60;
}

static uint64_t draw_va(struct draft *d, unsigned el)
{
    unsigned shift = 24 + rng_below(d->rng, 24);
    uint64_t offset = rng_next(d->rng) >> shift;
    uint64_t tag = chance(d->rng, 5) ? rng_next(d->rng) << 56 : 0;
    switch (el ? 0 : rng_below(d->rng, 4)) {
    case 0:
        return el ? 0x00ff000000000000 | (offset & 0xffffffffff)
                  : 0xaaaac0000000 + (offset & ~7ull);
    case 1:
        return (0xfffff0000000 + (offset & 0xffff)) | tag;
    default:
        return (0xffff80000000 + (offset & 0x3fffffff)) | tag;
    }
}

static uint64_t draw_pa(struct draft *d, uint64_t pc, uint64_t va)
{
    uint64_t pa = (va & 0xfff) | (rng_next(d->rng) & 0xffffffffff000);
    pa |= spex_address_ns(pc) && chance(d->rng, 90) ? pc & (BIT(63) | BIT(60))
          : chance(d->rng, 50)                      ? pc & (BIT(63) | BIT(60))
                                                    : BIT(63);
    if (d->f->MTE2 && chance(d->rng, 30))
        pa |= BIT(62) | rng_next(d->rng) << 60 >> 4;
    return pa;
}

/* Events of an access that goes down the hierarchy until something hits. */
static uint64_t draw_access_events(struct draft *d)
{
    const struct arch_features *f = d->f;
    uint64_t e = BIT(SPEX_EV_L1D_ACCESS) | BIT(SPEX_EV_TLB_ACCESS);
    if (chance(d->rng, 4))
        e |= BIT(SPEX_EV_TLB_WALK);
    if (f->Misaligned && chance(d->rng, 3))
        e |= BIT(SPEX_EV_MISALIGNED);
    if (chance(d->rng, 85))
        return e;
    e |= BIT(SPEX_EV_L1D_MISS);
    if (f->L2D)
        e |= BIT(SPEX_EV_L2D_ACCESS) | (chance(d->rng, 50) ? BIT(SPEX_EV_L2D_MISS) : 0);
    if (f->LLC && chance(d->rng, 50))
        e |= BIT(SPEX_EV_LLC_ACCESS) | (chance(d->rng, 50) ? BIT(SPEX_EV_LLC_MISS) : 0);
    e |= f->Remote && chance(d->rng, 10) ? BIT(SPEX_EV_REMOTE) : 0;
    e |= f->Modified && chance(d->rng, 20) ? BIT(SPEX_EV_MODIFIED) : 0;
    e |= f->Recent && chance(d->rng, 20) ? BIT(SPEX_EV_RECENT) : 0;
    e |= f->Snooped && chance(d->rng, 20) ? BIT(SPEX_EV_SNOOPED) : 0;
    return e;
}

/* ---- packets ---- */

/* Adds a packet if it fits. Sometimes with an extended header, which any INDEX may have. */
static bool add(struct draft *d, enum spex_packet_type type, unsigned index, unsigned size,
                uint64_t payload)
{
    struct spex_packet p;
    enum spex_status status = spex_packet_make(type, index, size, payload, &p);
    assert(status == SPEX_OK && d->count < DRAW_PACKETS);
    (void)status;
    bool extensible = type == SPEX_PACKET_ADDRESS || type == SPEX_PACKET_COUNTER;
    if (d->rich && extensible && p.header_size == 1 && spex_packet_length(&p) < d->room &&
        d->room > 64 && chance(d->rng, 10)) {
        p.header[1] = p.header[0];
        p.header[0] = 0x20;
        p.header_size = 2;
    }
    if (spex_packet_length(&p) > d->room)
        return false;
    d->room -= spex_packet_length(&p);
    d->packets[d->count++] = p;
    return true;
}

static void add_address(struct draft *d, unsigned index, uint64_t payload)
{
    if (add(d, SPEX_PACKET_ADDRESS, index, 0, payload)) {
        d->record->address[index] = payload;
        d->record->present |= 1u << index;
    }
}

static void add_counter(struct draft *d, unsigned index, uint16_t value)
{
    struct spex_record *r = d->record;
    if (!add(d, SPEX_PACKET_COUNTER, index, 0, value))
        return;
    *(index == 0   ? &r->total
      : index == 1 ? &r->issue
      : index == 2 ? &r->translation
                   : &r->alt_issue) = value;
    r->present |= index == 0   ? SPEX_HAS_TOTAL
                  : index == 1 ? SPEX_HAS_ISSUE
                  : index == 2 ? SPEX_HAS_TRANSLATION
                               : SPEX_HAS_ALT_ISSUE;
}

/* IMPLEMENTATION DEFINED INDEX: 6, 7 or 16 to 31. */
static unsigned draw_impdef(struct rng *rng)
{
    unsigned n = rng_below(rng, 18);
    return n < 2 ? 6 + n : 14 + n;
}

static void add_events(struct draft *d, uint64_t events, enum spex_layout layout)
{
    struct spex_record *r = d->record;
    const struct arch_features *f = d->f;
    if (chance(d->rng, 3))
        events |= rng_next(d->rng) & (BITS(15, 12) | BITS(63, 48));
    if (f->version < 5 && !f->SPE_SME && chance(d->rng, 2))
        events |= rng_next(d->rng) & BITS(31, 24);
    unsigned least = events >> 32 ? 8 : events >> 16 ? 4 : events >> 8 ? 2 : 1;
    unsigned size = layout == SPEX_LAYOUT_COMPACT ? 1u << rng_below(d->rng, 4) : 2;
    if (layout == SPEX_LAYOUT_N1)
        events &= 0xffff;
    else if (size < least)
        size = least;
    if (1 + size > d->room) {
        size = 2;
        events &= 0xffff;
    }
    bool added = add(d, SPEX_PACKET_EVENTS, 0, size, events);
    assert(added);
    (void)added;
    r->events = events;
    r->events_size = (uint8_t)size;
    r->present |= SPEX_HAS_EVENTS;
}

/* What happened to the operation: most are executed; records of the others may lack anything. */
struct fate {
    uint64_t events;
    unsigned keep; /* percent of packets kept; an executed operation keeps all */
};

static struct fate draw_fate(struct rng *rng, bool branch)
{
    unsigned n = rng_below(rng, 100);
    if (n < 3)
        return (struct fate){n ? 0 : 1, 40}; /* not retired */
    if (n < 6 && !branch)
        return (struct fate){3, 50}; /* exception; never a branch, D17.6.3 */
    return (struct fate){2, 100};
}

/*
 * The access of an operation (D17.6.4, RMYPFF, RNHSYR): whether it was made, and whether its
 * address is recorded. A copy may have length 0, an element may be Inactive, a transformed
 * access may lack its address.
 */
struct access {
    bool made, address;
};

static struct access draw_access(struct draft *d, const struct spex_op_type *t, uint64_t events)
{
    bool odd = chance(d->rng, 10);
    switch (t->subclass) {
    case SPEX_SUB_LDST_MEMCPY:
    case SPEX_SUB_LDST_MEMSET:
        return (struct access){!odd, !odd};
    case SPEX_SUB_LDST_NV2:
        return (struct access){true, !odd};
    case SPEX_SUB_LDST_SVE_SME:
        if (events & BIT(SPEX_EV_EMPTY_PRED)) /* at most the address of the lowest element */
            return (struct access){false, odd && !t->sg};
        return (struct access){true, !(events & BIT(SPEX_EV_PARTIAL_PRED)) || !odd};
    default:
        return (struct access){true, true};
    }
}

static void draw_source(struct draft *d, const struct spex_op_type *t, struct fate fate)
{
    struct rng *rng = d->rng;
    struct spex_record *r = d->record;
    bool load = t->subclass != SPEX_SUB_BRANCH ? !t->store : t->cr == 2;
    bool source = load && t->subclass != SPEX_SUB_OTHER;
    if (t->store && ((t->subclass == SPEX_SUB_LDST_UNSPEC && d->f->LS64) || t->at))
        source = chance(rng, 50); /* ST64BV; an atomic that returns nothing */
    if (!source || !d->f->LDS || !chance(rng, fate.keep))
        return;
    unsigned size = d->rich && chance(rng, 20) ? 2 : 1;
    static const uint8_t sources[] = {0, 0, 0, 0, 8, 8, 9, 10, 11, 12, 13, 14};
    uint16_t value = size == 2 ? (uint16_t)rng_next(rng) : sources[rng_below(rng, sizeof sources)];
    if (add(d, SPEX_PACKET_DATA_SOURCE, 0, size, value)) {
        r->data_source = value;
        r->data_source_size = (uint8_t)size;
        r->present |= SPEX_HAS_DATA_SOURCE;
    }
}

static void draw_data_access(struct draft *d, const struct spex_op_type *t, struct fate fate,
                             uint64_t pc, uint16_t translation, struct access access)
{
    if (access.address && chance(d->rng, fate.keep)) {
        add_address(d, SPEX_ADDRESS_VA, draw_va(d, spex_address_el(pc)));
        assert(d->record->present & SPEX_HAS_VA);
        if (access.made && chance(d->rng, fate.keep))
            add_counter(d, SPEX_COUNTER_TRANSLATION, translation);
    }
    if (access.made)
        draw_source(d, t, fate);
}

/*
 * Draws the events of an operation of type t, except those of its access. taken: it is a
 * taken branch.
 */
static uint64_t draw_events(struct draft *d, const struct spex_op_type *t, bool taken)
{
    struct rng *rng = d->rng;
    bool branch = d->record->op_class == SPEX_CLASS_BRANCH;
    bool vector = t->subclass == SPEX_SUB_SVE || t->subclass == SPEX_SUB_SME ||
                  t->subclass == SPEX_SUB_LDST_SVE_SME;
    bool governed = vector && (t->pred || t->subclass != SPEX_SUB_LDST_SVE_SME);
    uint64_t events = 0;
    if (branch ? !taken : t->cond && chance(rng, 30))
        events |= BIT(SPEX_EV_NOT_TAKEN);
    if (branch && chance(rng, 6))
        events |= BIT(SPEX_EV_MISPREDICT);
    if (governed && chance(rng, 30))
        events |= BIT(SPEX_EV_PARTIAL_PRED) | (chance(rng, 30) ? BIT(SPEX_EV_EMPTY_PRED) : 0);
    if (d->f->SPE_SME && chance(rng, vector ? 50 : 10))
        events |= BIT(SPEX_EV_STREAMING);
    if (d->f->SMCU && t->subclass == SPEX_SUB_SME)
        events |= BIT(SPEX_EV_SMCU);
    return events;
}

/* Optional packets: physical address, if there is an access, and contexts. */
static void draw_optional(const struct spex_generator *g, struct draft *d, uint64_t pc, unsigned el,
                          bool made)
{
    const struct arch_features *f = d->f;
    struct spex_record *r = d->record;
    struct rng *rng = d->rng;
    if (r->present & SPEX_HAS_VA && made && chance(rng, 50))
        add_address(d, SPEX_ADDRESS_PA, draw_pa(d, pc, r->address[SPEX_ADDRESS_VA]));
    bool el2_enabled = f->EL2 && (spex_address_ns(pc) || f->SEL2);
    unsigned contexts = rng_below(rng, 4);
    if (g->options.layout == SPEX_LAYOUT_N1 && contexts == 3)
        contexts = 2;
    if (contexts & 1 && el < 2) {
        uint32_t value = 1 + rng_below(rng, 32768);
        if (add(d, SPEX_PACKET_CONTEXT, 0, 0, value)) {
            r->context[0] = value;
            r->present |= SPEX_HAS_CONTEXT_EL1;
        }
    }
    if (contexts & 2 && el2_enabled) {
        uint32_t value = 1 + rng_below(rng, 32768);
        if (add(d, SPEX_PACKET_CONTEXT, 1, 0, value)) {
            r->context[1] = value;
            r->present |= SPEX_HAS_CONTEXT_EL2;
        }
    }
}

/* Draws all of D17.6 for one operation. Required packets go first: they always fit. */
void draw_record(const struct spex_generator *g, struct draw_state *s, struct draft *d)
{
    const struct arch_features *f = d->f;
    struct rng *rng = d->rng;
    struct spex_record *r = d->record;
    struct spex_op_type t;
    draw_op(g, s, r);
    spex_op_type_decode(r->op_class, r->op_payload, &t);
    bool branch = r->op_class == SPEX_CLASS_BRANCH, memory = r->op_class == SPEX_CLASS_LDST;
    struct fate fate = draw_fate(rng, branch);
    uint64_t context = draw_context(d, t.subclass == SPEX_SUB_LDST_NV2);
    unsigned el = (unsigned)(context >> 61 & 3);
    uint64_t *at = &s->pc[el];
    *at = chance(rng, 90) ? *at + 4 * rng_below(rng, 16)
                          : (*at & ~0xfffffull) | (rng_next(rng) & 0xffffc);
    *at &= BITS(55, 0);
    uint64_t pc = context | *at;
    bool taken = branch && !(t.cond && chance(rng, 40));
    bool prefetch = t.subclass == SPEX_SUB_OTHER && !r->op_payload && chance(rng, 8);
    bool access = memory || prefetch || t.gcs;
    uint64_t events = fate.events | draw_events(d, &t, taken);
    if (g->options.layout == SPEX_LAYOUT_N1)
        events &= 0xffff; /* N1 records have 16 event bits */
    struct access made = access ? draw_access(d, &t, events) : (struct access){false, false};
    if (made.made)
        events |= draw_access_events(d);
    if (chance(rng, fate.keep))
        add_address(d, SPEX_ADDRESS_PC, pc);
    if (chance(rng, fate.keep) && add(d, SPEX_PACKET_OPERATION_TYPE, r->op_class, 0, r->op_payload))
        r->present |= SPEX_HAS_OP;
    else
        r->op_class = r->op_payload = 0;
    uint16_t issue = draw_latency(d, 6), translation = access ? draw_latency(d, 2) : 0;
    unsigned total = draw_latency(d, access ? 12 : 4) + 1u + issue + translation;
    unsigned limit = f->CountSize == 2 ? 0xfff : 0xffff;
    if (chance(rng, fate.keep))
        add_counter(d, SPEX_COUNTER_ISSUE, issue);
    if (chance(rng, fate.keep))
        add_counter(d, SPEX_COUNTER_TOTAL, (uint16_t)(total < limit ? total : limit));
    if (branch && (taken || chance(rng, 50)) && chance(rng, fate.keep)) {
        uint64_t target =
            (context & BITS(63, 60)) | ((*at + 4 * rng_below(rng, 4096) - 8192) & BITS(55, 0));
        if (taken && t.indirect && (t.cr == 0 || t.cr == 3) && el)
            target = bits_set(target, 62, 61, rng_below(rng, el + 1)); /* exception return */
        add_address(d, SPEX_ADDRESS_TARGET, target);
    }
    if (access)
        draw_data_access(d, &t, fate, pc, translation, made);
    add_events(d, events, g->options.layout);

    draw_optional(g, d, pc, el, made.made);
    if (g->options.layout == SPEX_LAYOUT_N1)
        return;
    if (f->PBT && fate.events == 2 && chance(rng, branch && taken ? 80 : 20))
        add_address(d, SPEX_ADDRESS_PREV_TARGET,
                    (context & BITS(63, 60)) | ((*at - 4 * rng_below(rng, 64)) & BITS(55, 0)));
    if (f->ALTCLK && r->events & BIT(SPEX_EV_STREAMING) &&
        chance(rng, t.subclass == SPEX_SUB_SME ? 60 : 20))
        add_counter(d, SPEX_COUNTER_ALT_ISSUE, draw_latency(d, 8));
    for (unsigned i = 0; d->rich && i < 2; i++) {
        enum spex_packet_type type = i ? SPEX_PACKET_ADDRESS : SPEX_PACKET_COUNTER;
        unsigned index = draw_impdef(rng);
        uint64_t payload = i ? rng_next(rng) : draw_latency(d, 20);
        if (chance(rng, 10) && add(d, type, index, 0, payload))
            r->present |= SPEX_HAS_OTHER;
    }
}
