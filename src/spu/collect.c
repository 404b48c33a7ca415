/*
 * Makes a record (D17.6): from an operation and its outcome to the fields of the record and the
 * flags for the type filter.
 */
#include "collect.h"

#include <assert.h>
#include <string.h>

/* Saturating counters of 12 or 16 bits (PMSIDR_EL1.CountSize). */
static uint16_t saturate(const struct collector *k, uint64_t cycles)
{
    return (uint16_t)(cycles < k->u->counter_most ? cycles : k->u->counter_most);
}

/* ---- classes of operation ---- */

static bool is_memory(unsigned kind)
{
    switch (kind) {
    case SPEX_OP_LDST:
    case SPEX_OP_LDST_UNSPEC:
    case SPEX_OP_LDST_SVE:
    case SPEX_OP_LDST_SME:
    case SPEX_OP_LDST_TAG:
    case SPEX_OP_LDST_NV2:
    case SPEX_OP_MEMCPY:
    case SPEX_OP_MEMSET:
    case SPEX_OP_GCS:
        return true;
    default:
        return false;
    }
}

static bool gcs_access(const struct collector *k)
{
    return FEATURES->GCS && flag(k, SPEX_OPF_GCS) && k->o->flags & SPEX_OUT_GCS_ENABLED;
}

/*
 * SPEMultiAccessSample: an operation that loads and stores (Memory Copy, GCSSS2) is sampled
 * as one of them: the one that the type filter keeps if it keeps only one, else at random.
 */
static unsigned choose_side(struct collector *k)
{
    bool loads = k->o->access[0].flags & SPEX_ACC_VA, stores = k->o->access[1].flags & SPEX_ACC_VA;
    if (loads != stores)
        return stores;
    bool keeps_store = spu_type_kept(k->u, TYPE_ST);
    if (spu_type_kept(k->u, TYPE_LD) != keeps_store)
        return keeps_store;
    return spu_random(k->u) >> 7;
}

/* Whether the operation is a load, store or branch for record and filter. Returns the side. */
static unsigned classify(struct collector *k)
{
    const struct spex_op *op = k->op;
    uint32_t types = 0;
    unsigned side = 0;
    bool exception = k->o->flags & SPEX_OUT_EXCEPTION;
    k->branch = !exception && (op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET ||
                               (op->kind == SPEX_OP_ISB && CHOICES->isb_branch));
    k->taken = k->branch && (!flag(k, SPEX_OPF_COND) || k->o->flags & SPEX_OUT_PASSED);
    if (is_memory(op->kind)) {
        k->load = flag(k, SPEX_OPF_LOAD);
        k->store = flag(k, SPEX_OPF_STORE);
        if (k->load && k->store && !flag(k, SPEX_OPF_ATOMIC) &&
            (op->kind == SPEX_OP_MEMCPY || op->kind == SPEX_OP_GCS)) {
            side = choose_side(k);
            k->load = !side;
            k->store = side;
        }
    } else if (op->kind == SPEX_OP_DC_ZVA && CHOICES->dc_zva == DC_ZVA_STORE) {
        k->store = true;
    } else if (k->branch && gcs_access(k)) {
        k->load = flag(k, SPEX_OPF_RETURN);
        k->store = !k->load;
    }
    types |= (k->branch ? TYPE_B : 0) | (k->load ? TYPE_LD : 0) | (k->store ? TYPE_ST : 0);
    if (flag(k, SPEX_OPF_FP))
        types |= TYPE_FP;
    if (flag(k, SPEX_OPF_SIMD) || op->kind == SPEX_OP_SVE || op->kind == SPEX_OP_SME_VECTOR ||
        op->kind == SPEX_OP_SME_TILE || op->kind == SPEX_OP_LDST_SVE ||
        op->kind == SPEX_OP_LDST_SME)
        types |= TYPE_SIMD;
    k->s->types = types;
    return side;
}

/* ---- data accesses ---- */

/* An element that is Inactive or has no address has no VA. */
static bool has_va(const struct spex_access *a)
{
    return a->flags & SPEX_ACC_VA && !(a->flags & SPEX_ACC_INACTIVE);
}

/* An Inactive element accesses nothing, whatever the host reports. */
static bool accessed(const struct spex_access *a)
{
    return (a->flags & (SPEX_ACC_DONE | SPEX_ACC_INACTIVE)) == SPEX_ACC_DONE;
}

static size_t choose_of(struct collector *k, size_t count)
{
    if (CHOICES->part_choice)
        return (size_t)(k->u->w.part++ % count);
    return spu_random_below(k->u, count < 65536 ? (unsigned)count : 65535);
}

/*
 * The part that represents the access: one of those that were performed, if any were
 * (D18.2.4).
 */
static size_t choose_part(struct collector *k, const struct spex_access *parts, size_t count)
{
    size_t performed = 0, nth, i = 0;
    for (size_t j = 0; j < count; j++)
        performed += accessed(&parts[j]);
    if (!performed)
        return choose_of(k, count);
    for (nth = choose_of(k, performed); nth || !accessed(&parts[i]); i++)
        nth -= accessed(&parts[i]);
    return i;
}

static size_t lowest_part(const struct spex_access *parts, size_t count)
{
    size_t lowest = count;
    for (size_t i = 0; i < count; i++)
        if (has_va(&parts[i]) && (lowest == count || parts[i].va < parts[lowest].va))
            lowest = i;
    return lowest < count ? lowest : 0;
}

static bool is_vector(const struct collector *k)
{
    return k->op->kind == SPEX_OP_LDST_SVE || k->op->kind == SPEX_OP_LDST_SME;
}

/* Which part the data address comes from: RMYPFF, RNHSYR and the general rule. */
static size_t address_part(const struct collector *k, const struct spex_access *parts, size_t count,
                           size_t chosen)
{
    if (!flag(k, SPEX_OPF_CONTIGUOUS) || flag(k, SPEX_OPF_GATHER))
        return chosen;
    if (is_vector(k)) {
        if (CHOICES->sve_va)
            for (size_t i = 0; i < count; i++)
                if (!(parts[i].flags & SPEX_ACC_INACTIVE))
                    return i;
        return 0;
    }
    if (CHOICES->multi_access && CHOICES->part_address == PART_ADDRESS_PART)
        return chosen;
    return lowest_part(parts, count);
}

/*
 * Cycles in which at least one part waits for the MMU and, by choice, no part accesses memory
 * (D17.6.4). Goes from each cycle in which something begins or ends to the next. An Inactive
 * element is not accessed and waits for nothing.
 */
static uint32_t cycles_waiting(const struct collector *k, const struct spex_access *parts,
                               size_t count)
{
    uint64_t cycles = 0, now = 0, next;
    for (;; now = next) {
        bool waits = false, accesses = false;
        next = UINT64_MAX;
        for (const struct spex_access *a = parts; a < parts + count; a++) {
            if (a->flags & SPEX_ACC_INACTIVE)
                continue;
            uint64_t begins = a->start, translated = begins + a->translation;
            uint64_t edges[] = {begins, translated, translated + a->memory};
            waits |= now >= edges[0] && now < edges[1];
            accesses |= now >= edges[1] && now < edges[2];
            for (size_t i = 0; i < 3; i++)
                if (edges[i] > now && edges[i] < next)
                    next = edges[i];
        }
        if (next == UINT64_MAX)
            return cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX;
        if (waits && !(accesses && CHOICES->translation_count))
            cycles += next - now;
    }
}

/* Rare and large: inlined, it would cost the common path registers. */
#define OUT_OF_LINE __attribute__((noinline))

/* Merges several parts into one access (D17.6.4); true if it has a data address. */
static OUT_OF_LINE bool merge_parts(struct collector *k, struct spex_access *merged)
{
    const struct spex_access *parts = k->o->parts;
    size_t count = k->o->part_count, element = count, chosen;
    if (is_vector(k) && (!flag(k, SPEX_OPF_CONTIGUOUS) || flag(k, SPEX_OPF_GATHER)))
        element = choose_of(k, count); /* RMYPFF: among all elements, including Inactive ones */
    chosen = element < count && accessed(&parts[element]) ? element : choose_part(k, parts, count);
    size_t addressed = element < count ? element : address_part(k, parts, count, chosen);
    bool part = CHOICES->multi_access;
    struct spex_access a = parts[addressed];
    if (part) {
        a.translation = parts[chosen].translation;
        a.events = accessed(&parts[chosen]) ? parts[chosen].events : 0;
        if (CHOICES->part_events == PART_EVENTS_PART && parts[chosen].total)
            k->total = parts[chosen].total;
    }
    if (!part || CHOICES->part_events) {
        a.events = 0;
        for (size_t i = 0; i < count; i++)
            if (accessed(&parts[i]))
                a.events |= parts[i].events;
        if (!part)
            a.translation = cycles_waiting(k, parts, count);
    }
    /*
     * Performed or aborted: taken from all parts, or from the chosen one as if it were the
     * operation.
     */
    uint16_t happened = SPEX_ACC_DONE | SPEX_ACC_EXTERNAL_ABORT;
    a.flags &= (uint16_t)~happened;
    for (size_t i = 0; i < count; i++)
        if (!(parts[i].flags & SPEX_ACC_INACTIVE) && (!part || i == chosen))
            a.flags |= parts[i].flags & happened;
    const struct spex_access *source = &parts[chosen];
    if (CHOICES->source_parts)
        for (size_t i = 0; i < count; i++)
            if (accessed(&parts[i]) && parts[i].flags & SPEX_ACC_SOURCE &&
                (!(source->flags & SPEX_ACC_SOURCE) || parts[i].data_source > source->data_source))
                source = &parts[i];
    a.flags = (uint16_t)((a.flags & ~SPEX_ACC_SOURCE) | (source->flags & SPEX_ACC_SOURCE));
    a.data_source = source->data_source;
    if (a.flags & SPEX_ACC_INACTIVE) /* not accessed, so not translated */
        a.flags &= (uint16_t)~SPEX_ACC_PA;
    *merged = a;
    if (!(a.flags & SPEX_ACC_VA))
        return false;
    /* a contiguous access may record where it would have begun */
    if (!(a.flags & SPEX_ACC_INACTIVE))
        return true;
    return flag(k, SPEX_OPF_CONTIGUOUS) && !flag(k, SPEX_OPF_GATHER) && CHOICES->inactive_va;
}

static void set_address(struct collector *k, enum spex_address_index index, uint64_t payload)
{
    k->s->record.present |= (uint16_t)(SPEX_HAS_PC << index);
    k->s->record.address[index] = payload;
}

static uint64_t security_bits(unsigned security)
{
    uint64_t ns = security == SPEX_NONSECURE || security == SPEX_REALM;
    uint64_t nse = security == SPEX_REALM || security == SPEX_ROOT;
    return ns << 63 | nse << 60;
}

/* SPESetDataVirtualAddress. */
static void collect_va(struct collector *k, const struct spex_access *a)
{
    uint64_t va = a->va;
    bool tagged = FEATURES->MTE2 && a->flags & (SPEX_ACC_TAG_CHECKED | SPEX_ACC_TAG_CANONICAL);
    if (k->op->kind == SPEX_OP_LDST_TAG && CHOICES->tag_va)
        va &= ~UINT64_C(15);
    if (!(a->flags & SPEX_ACC_TBI) && !tagged && !CHOICES->va_top_byte)
        va &= BITS(55, 0);
    set_address(k, SPEX_ADDRESS_VA, va);
}

/* SPESetDataPhysicalAddress. */
static void collect_pa(struct collector *k, const struct spex_access *a)
{
    uint64_t pa = a->pa & BITS(55, 0), checked = 0, tag = 0;
    if (k->op->kind == SPEX_OP_LDST_TAG && (CHOICES->tag_pa || CHOICES->tag_va))
        pa &= ~UINT64_C(15);
    if (FEATURES->MTE2) {
        checked = a->flags & SPEX_ACC_TAG_CHECKED && !(a->flags & SPEX_ACC_TAG_CANONICAL);
        if (a->flags & SPEX_ACC_TAG_IGNORED)
            checked = CHOICES->ch_ignored && checked;
        tag = checked || CHOICES->pat_unchecked ? a->tag & 15u : 0;
    }
    set_address(k, SPEX_ADDRESS_PA, security_bits(a->pas) | checked << 62 | tag << 56 | pa);
}

/* Data Source packet: loads and atomics, with the exceptions of D18.2.4. */
static bool wants_source(const struct collector *k, const struct spex_access *a)
{
    if (!FEATURES->LDS || !(a->flags & SPEX_ACC_SOURCE))
        return false;
    if (a->flags & SPEX_ACC_EXTERNAL_ABORT && !CHOICES->source_on_abort)
        return false;
    if (k->load)
        return true;
    if (!k->store) /* cache maintenance and prefetch, recorded as a load would be */
        return true;
    if (flag(k, SPEX_OPF_ATOMIC))
        return CHOICES->source_store_atomic;
    return flag(k, SPEX_OPF_STATUS_RESULT) && CHOICES->st64bv_source;
}

static void collect_source(struct collector *k, const struct spex_access *a)
{
    struct spex_record *r = &k->s->record;
    unsigned size = (unsigned)CHOICES->data_source_size;
    if (!size)
        size =
            a->data_source > 255 && FEATURES->MaxSize > 6 && k->u->layout != SPEX_LAYOUT_N1 ? 2 : 1;
    r->present |= SPEX_HAS_DATA_SOURCE;
    r->data_source = size == 1 ? a->data_source & 255 : a->data_source;
    r->data_source_size = (uint8_t)size;
}

/* level: INFO_NONE, _ADDRESS or _ALL; a load has all. */
static uint64_t collect_access(struct collector *k, const struct spex_access *a, bool output,
                               unsigned level)
{
    struct spex_record *r = &k->s->record;
    bool done = a->flags & SPEX_ACC_DONE, translated = a->flags & SPEX_ACC_PA;
    output &= !k->hidden;
    uint64_t events = 0;
    if (level == INFO_NONE)
        return 0;
    if (k->op->kind == SPEX_OP_LDST_NV2 && !k->slot->el2_enabled)
        output = false;
    if (output)
        collect_va(k, a);
    if (output && translated && k->slot->physical &&
        !(k->o->flags & SPEX_OUT_MONITOR_FAIL && !CHOICES->monitor_fail_pa)) {
        if (a->pas == SPEX_ROOT || (a->pas == SPEX_REALM && !FEATURES->RME))
            k->u->impossible_addresses++; /* D18.2.1 has no encoding for it: a bug in the host */
        else
            collect_pa(k, a);
    }
    if (level == INFO_ADDRESS)
        return 0;
    if (output && done)
        events = a->events;
    else if (done && CHOICES->no_access_events)
        events = a->events;
    if (output && done) {
        r->present |= SPEX_HAS_TRANSLATION;
        r->translation = saturate(k, a->translation);
    } else if ((done || translated) && CHOICES->no_access_translation) {
        r->present |= SPEX_HAS_TRANSLATION;
        r->translation = 0;
    }
    if (done && wants_source(k, a))
        collect_source(k, a);
    if (k->store && !k->load) /* D17.6.4: only the cache and socket events, not those of the TLB */
        events &= CHOICES->store_events | BITS(5, 4) | BIT(SPEX_EV_MISALIGNED);
    return events;
}

/* Returns the events of the access; everything else goes into the record. */
static uint64_t collect_memory(struct collector *k, unsigned side)
{
    const struct spex_access *a = &k->o->access[side];
    unsigned level = INFO_ALL;
    switch (k->op->kind) {
    case SPEX_OP_CACHE:
    case SPEX_OP_AT:
    case SPEX_OP_PREFETCH:
        level = (unsigned)CHOICES->cache_op_info;
        break;
    case SPEX_OP_DC_ZVA:
        level = k->store ? INFO_ALL : (unsigned)CHOICES->cache_op_info;
        break;
    case SPEX_OP_SVE_PREFETCH:
        level = (unsigned)CHOICES->sve_prefetch_info;
        break;
    default:
        if (!k->load && !k->store)
            return 0;
    }
    struct spex_access merged;
    bool output = has_va(a);
    if (k->o->part_count && side == 0) {
        output = merge_parts(k, &merged);
        a = &merged;
    }
    return collect_access(k, a, output, level);
}

/* ---- branches ---- */

static void collect_branch(struct collector *k)
{
    const struct spex_outcome *o = k->o;
    uint64_t target = o->target;
    unsigned el = o->target_el, security = o->target_security;
    if (k->hidden)
        return;
    if (k->op->kind == SPEX_OP_ISB) {
        target = (k->slot->pc & BITS(55, 0)) + 4;
        el = (unsigned)k->slot->el;
        security = (unsigned)k->slot->security;
    } else if (o->flags & SPEX_OUT_ILLEGAL_ERET && CHOICES->illegal_eret) {
        el = o->spsr_el;
        security = o->spsr_security;
    }
    if (k->taken || CHOICES->not_taken_target)
        set_address(k, SPEX_ADDRESS_TARGET,
                    security_bits(security) | (uint64_t)el << 61 | (target & BITS(55, 0)));
}

/* ---- the record ---- */

static void set_counter(struct collector *k, unsigned has, uint16_t *counter, uint32_t cycles)
{
    k->s->record.present |= (uint16_t)has;
    *counter = saturate(k, cycles);
}

/*
 * D17.6.1: the SMCU's clock (1) counts in Streaming SVE mode; clock 15 may count at any
 * time.
 */
static bool has_alt_clock(const struct collector *k)
{
    return FEATURES->ALTCLK > 1 || (FEATURES->ALTCLK && k->o->flags & SPEX_OUT_STREAMING);
}

static void collect_impdef(struct collector *k)
{
    const struct spex_outcome *o = k->o;
    struct sample *s = k->s;
    if (!(o->flags & (SPEX_OUT_ALT_CLOCK | SPEX_OUT_IMPDEF_COUNTER | SPEX_OUT_IMPDEF_ADDRESS)))
        return;
    if (o->flags & SPEX_OUT_ALT_CLOCK) {
        if (CHOICES->alt_clock == ALT_CLOCK_INDEX_4 && has_alt_clock(k))
            set_counter(k, SPEX_HAS_ALT_ISSUE, &s->record.alt_issue, o->alt_issue);
        if (CHOICES->alt_clock == ALT_CLOCK_IMPDEF) {
            s->extra.counter_index = (uint8_t)CHOICES->impdef_counter;
            s->extra.counter = saturate(k, o->alt_issue);
        }
    }
    if (o->flags & SPEX_OUT_IMPDEF_COUNTER && CHOICES->impdef_counter &&
        CHOICES->alt_clock != ALT_CLOCK_IMPDEF) {
        s->extra.counter_index = (uint8_t)CHOICES->impdef_counter;
        s->extra.counter = saturate(k, o->impdef_counter);
    }
    if (o->flags & SPEX_OUT_IMPDEF_ADDRESS && CHOICES->impdef_address && !k->hidden) {
        s->extra.address_index = (uint8_t)CHOICES->impdef_address;
        s->extra.address = o->impdef_address;
    }
}

#define EVENTS_ACCESS (BITS(5, 2) | BITS(11, 8) | BITS(23, 19))
#define EVENTS_PREDICATE (BIT(SPEX_EV_PARTIAL_PRED) | BIT(SPEX_EV_EMPTY_PRED))
#define EVENTS_IMPDEF (BITS(63, 48) | BITS(31, 24) | BITS(15, 12))

/* Whether a Governing predicate controls it: only such an operation has E[18:17]. */
static bool governed(const struct collector *k)
{
    switch (k->op->kind) {
    case SPEX_OP_SVE:
    case SPEX_OP_SVE_PREFETCH:
    case SPEX_OP_SME_VECTOR:
    case SPEX_OP_SME_TILE:
        for (size_t i = 0; i < sizeof k->op->src; i++)
            if (k->op->src[i] >= SPEX_REG_P0 && k->op->src[i] < SPEX_REG_P0 + 16)
                return true;
        return flag(k, SPEX_OPF_PRED);
    case SPEX_OP_LDST_SVE:
    case SPEX_OP_LDST_SME:
        return flag(k, SPEX_OPF_PRED | SPEX_OPF_PRED_ZEROING);
    default:
        return false;
    }
}

/*
 * Events that no such operation can have (D18.2.6). A host that passes them has a bug; the
 * stream stays right, and spex_spu_status reports them.
 */
static uint64_t impossible_of_op(const struct collector *k)
{
    unsigned kind = k->op->kind;
    uint64_t events = k->o->events, bits = EVENTS_ACCESS;
    if (!(events & (EVENTS_ACCESS | EVENTS_PREDICATE | BIT(SPEX_EV_MISPREDICT))))
        return 0;
    if (kind != SPEX_OP_BRANCH && kind != SPEX_OP_ERET && kind != SPEX_OP_ISB)
        bits |= BIT(SPEX_EV_MISPREDICT);
    if (events & EVENTS_PREDICATE && !governed(k))
        bits |= EVENTS_PREDICATE;
    if (!(events & BIT(SPEX_EV_PARTIAL_PRED)))
        bits |= BIT(SPEX_EV_EMPTY_PRED);
    return events & bits;
}

/* Each miss bit follows the access bit that it implies. */
static_assert(SPEX_EV_L1D_MISS == SPEX_EV_L1D_ACCESS + 1, "L1D");
static_assert(SPEX_EV_TLB_WALK == SPEX_EV_TLB_ACCESS + 1, "TLB");
static_assert(SPEX_EV_LLC_MISS == SPEX_EV_LLC_ACCESS + 1, "LLC");
static_assert(SPEX_EV_L2D_MISS == SPEX_EV_L2D_ACCESS + 1, "L2D");

static uint64_t impossible_of_access(const struct collector *k, uint64_t events)
{
    uint64_t misses = BIT(SPEX_EV_TLB_WALK);
    if (k->load || !k->store) /* a store may finish before it has the line */
        misses |= BIT(SPEX_EV_L1D_MISS) | BIT(SPEX_EV_LLC_MISS) | BIT(SPEX_EV_L2D_MISS);
    return events & (~(EVENTS_ACCESS | EVENTS_IMPDEF) | (misses & ~(events << 1)));
}

/* Events packet: the events of the access and the operation that this unit implements. */
static uint64_t collect_events(struct collector *k, uint64_t access_events)
{
    const struct spex_outcome *o = k->o;
    uint64_t own = BIT(SPEX_EV_EXCEPTION) | BIT(SPEX_EV_RETIRED) | BIT(SPEX_EV_NOT_TAKEN) |
                   BIT(SPEX_EV_STREAMING);
    uint64_t not_op = impossible_of_op(k), not_access = impossible_of_access(k, access_events);
    uint64_t events = ((o->events & ~not_op) | (access_events & ~not_access)) & ~own;
    if (not_op | not_access)
        k->u->impossible |= not_op | not_access;
    bool nowhere = o->flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN);
    bool nonarch = o->flags & SPEX_OUT_NONARCH_EXC && !CHOICES->nonarch_handled;
    if (nowhere || !k->branch)
        events &= ~BIT(SPEX_EV_MISPREDICT);
    if (nowhere) {
        events &= ~(BIT(SPEX_EV_PARTIAL_PRED) | BIT(SPEX_EV_EMPTY_PRED));
    } else if (nonarch) {
        events |= CHOICES->nonarch_e0 ? BIT(SPEX_EV_EXCEPTION) : 0;
    } else {
        bool exception = o->flags & SPEX_OUT_EXCEPTION;
        events |= exception ? BIT(SPEX_EV_EXCEPTION) : 0;
        /* Reads as one unless speculative operations are sampled. */
        if (exception || o->flags & SPEX_OUT_EXECUTED || !CHOICES->population_speculative)
            events |= BIT(SPEX_EV_RETIRED);
    }
    if (!(o->flags & SPEX_OUT_PASSED) && !k->hidden && collect_conditional(k))
        events |= BIT(SPEX_EV_NOT_TAKEN);
    if (o->flags & SPEX_OUT_STREAMING && FEATURES->SPE_SME)
        events |= BIT(SPEX_EV_STREAMING);
    else if (!FEATURES->SPE_SME)
        events |= (o->events | access_events) & BIT(SPEX_EV_STREAMING); /* IMPDEF before SPEv1p4 */
    return events & k->u->events;
}

/*
 * Architecturally executed without an exception. An operation with a non-architectural
 * exception counts as not executed unless the record covers the handling (D17.6.10.1).
 */
bool spu_executed(const struct spex_spu *u, uint32_t flags)
{
    uint32_t not = SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN | SPEX_OUT_EXCEPTION;
    if (!u->config.choices.nonarch_handled)
        not |= SPEX_OUT_NONARCH_EXC;
    return flags & SPEX_OUT_EXECUTED && !(flags & not );
}

static bool captured(const struct collector *k)
{
    uint32_t flags = k->o->flags;
    if (!(flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN | SPEX_OUT_NONARCH_EXC)))
        return true;
    return !((flags & SPEX_OUT_SPECULATIVE && !CHOICES->capture_speculative) ||
             (flags & SPEX_OUT_NO_INSN && !CHOICES->capture_no_insn) ||
             (flags & SPEX_OUT_NONARCH_EXC && !CHOICES->capture_nonarch));
}

void SPECollect(struct spex_spu *u, const struct slot *slot, const struct spex_op *op,
                const struct spex_outcome *outcome, struct sample *s)
{
    /* clang-format off */
    struct collector collector = {.u = u, .slot = slot, .op = op, .o = outcome, .s = s,
                                  .total = outcome->total},
                     *k = &collector;
    /* clang-format on */
    struct spex_record *r = &s->record;
    r->present = 0; /* so that all other fields are invalid */
    s->types = 0;
    s->extra.counter_index = s->extra.address_index = 0;
    s->captured = captured(k);
    if (!s->captured)
        return;
    k->hidden = outcome->flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN);
    unsigned side = classify(k);
    uint64_t access_events = collect_memory(k, side);
    if (k->branch)
        collect_branch(k);
    set_address(k, SPEX_ADDRESS_PC, slot->pc);
    collect_op_type(k);
    set_counter(k, SPEX_HAS_TOTAL, &r->total, k->total);
    if (!CHOICES->omit_issue)
        set_counter(k, SPEX_HAS_ISSUE, &r->issue, outcome->issue);
    collect_impdef(k);
    r->events = collect_events(k, access_events);
    r->events_size = (uint8_t)u->events_size;
    r->context[0] = (uint32_t)slot->context[0];
    r->context[1] = (uint32_t)slot->context[1];
    r->timestamp = slot->time;
    r->present |= (uint16_t)(slot->present & (SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2));

    bool retired = spu_executed(u, outcome->flags);
    if (slot->present & SPEX_HAS_PREV_TARGET && retired && (k->taken || CHOICES->pbt_any_op))
        set_address(k, SPEX_ADDRESS_PREV_TARGET, slot->previous);
    if (!retired && CHOICES->exception_info) {
        r->present &= CHOICES->exception_info == EXCEPTION_INFO_PC ? SPEX_HAS_PC : 0;
        s->extra.counter_index = s->extra.address_index = 0;
    }
    r->present |= SPEX_HAS_EVENTS | (uint16_t)(slot->present & SPEX_HAS_TIMESTAMP);
}
