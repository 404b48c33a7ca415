/*
 * The naive unit: what the record of a finished operation holds (D17.6) and its
 * packets as plain bytes (D18). See naive.h.
 */
#include "naive.h"

#include <assert.h>
#include <string.h>

#define ONES(hi, lo) ((((uint64_t)2 << ((hi) - (lo))) - 1) << (lo))

enum { TYPE_B = 1, TYPE_LD = 2, TYPE_ST = 4, TYPE_FP = 8, TYPE_SIMD = 16 };

/* ================ which access stands for the operation ================ */

/* The data access that the record describes. */
struct data {
    bool va, pa, source; /* packets */
    bool done, translated, aborted;
    uint64_t virtual_address, physical_address, events;
    uint32_t translation, total;
    bool has_total; /* the total latency is that of a part */
    uint16_t data_source;
    const struct spex_access *chosen;
};

/* Two random bytes, as a fraction of count. */
static size_t choose(struct naive *n, size_t count)
{
    if (n->c.part_choice == 1)
        return n->rotate++ % count;
    if (count <= 1)
        return 0;
    unsigned high = n->world.random(n->world.user), low = n->world.random(n->world.user);
    return ((high << 8 | low) * count) >> 16;
}

struct span {
    uint64_t from, to;
};

/* How many cycles lie in at least one of the spans. */
static uint64_t covered(struct span *spans, size_t count)
{
    uint64_t cycles = 0, end = 0;
    for (size_t i = 1; i < count; i++) /* in the order in which they begin */
        for (size_t j = i; j && spans[j].from < spans[j - 1].from; j--) {
            struct span swap = spans[j];
            spans[j] = spans[j - 1];
            spans[j - 1] = swap;
        }
    for (size_t i = 0; i < count; i++) {
        uint64_t from = spans[i].from > end ? spans[i].from : end;
        if (spans[i].to > from) {
            cycles += spans[i].to - from;
            end = spans[i].to;
        }
    }
    return cycles;
}

/*
 * DAT-61: cycles in which at least one part waits. DAT-84: of these, those in which no part
 * accesses memory, which are the cycles of either kind less the cycles of access.
 */
static uint64_t cycles_waited(const struct naive *n, const struct spex_access *parts, size_t count)
{
    struct span waits[NAIVE_PARTS], accesses[NAIVE_PARTS], both[2 * NAIVE_PARTS];
    assert(count <= NAIVE_PARTS);
    for (size_t i = 0; i < count; i++) {
        uint64_t walked = (uint64_t)parts[i].start + parts[i].translation;
        uint64_t end = walked + parts[i].memory;
        if (parts[i].flags & SPEX_ACC_INACTIVE) /* no access, so nothing to translate */
            walked = end = parts[i].start;
        waits[i] = both[i] = (struct span){parts[i].start, walked};
        accesses[i] = both[count + i] = (struct span){walked, end};
    }
    if (n->c.translation_count == 0)
        return covered(waits, count);
    return covered(both, 2 * count) - covered(accesses, count);
}

/* One access, or the parts of one: DAT-75 to DAT-84, DAT-167 to DAT-170. */
static void describe_access(struct naive *n, const struct spex_op *op,
                            const struct spex_outcome *out, const struct spex_access *only,
                            struct data *d)
{
    bool contiguous = op->flags & SPEX_OPF_CONTIGUOUS;
    bool vector = op->kind == SPEX_OP_LDST_SVE || op->kind == SPEX_OP_LDST_SME;
    bool inactive_va = false;
    const struct spex_access *a = only;
    memset(d, 0, sizeof *d);
    if (!only) {
        size_t count = out->part_count, performed[NAIVE_PARTS], n_performed = 0, at, chosen, source;
        const struct spex_access *parts = out->parts;
        bool one = n->c.multi_access == 1, gather = vector && !contiguous, drawn_did = false;
        assert(count <= NAIVE_PARTS);
        for (size_t i = 0; i < count; i++) /* an Inactive element is no access of the operation */
            if ((parts[i].flags & SPEX_ACC_DONE) && !(parts[i].flags & SPEX_ACC_INACTIVE))
                performed[n_performed++] = i;
        at = gather ? choose(n, count) : 0; /* RMYPFF: one of the operations of the elements */
        for (size_t i = 0; gather && i < n_performed; i++)
            drawn_did = drawn_did || performed[i] == at;
        if (drawn_did)
            chosen = at;
        else if (n_performed) /* D18.2.4, DAT-80: a part of the access, so one that was made */
            chosen = performed[choose(n, n_performed)];
        else
            chosen = choose(n, count);
        if (contiguous && vector) { /* RNHSYR: elements come in order */
            if (n->c.sve_va == 1)
                while (at < count && (parts[at].flags & SPEX_ACC_INACTIVE))
                    at++;
            if (at == count)
                at = 0;
        } else if (contiguous && (!one || n->c.part_address == 1)) { /* DAT-77, DAT-81 */
            bool found = false;
            for (size_t i = 0; i < count; i++) {
                bool has = (parts[i].flags & SPEX_ACC_VA) && !(parts[i].flags & SPEX_ACC_INACTIVE);
                if (has && (!found || parts[i].va < parts[at].va)) {
                    at = i;
                    found = true;
                }
            }
            if (!found)
                at = 0;
        } else if (!gather) {
            at = chosen;
        }
        source = chosen;
        for (size_t i = 0; i < count; i++) {
            bool counted = !one || i == chosen, inactive = parts[i].flags & SPEX_ACC_INACTIVE;
            bool events = counted || n->c.part_events == 1; /* DAT-79, DAT-83 */
            if (inactive)
                continue;
            if (events && (parts[i].flags & SPEX_ACC_DONE))
                d->events |= parts[i].events;
            if (counted) {
                d->done = d->done || (parts[i].flags & SPEX_ACC_DONE);
                d->aborted = d->aborted || (parts[i].flags & SPEX_ACC_EXTERNAL_ABORT);
            }
            if (n->c.source_parts == 1 && (parts[i].flags & SPEX_ACC_DONE) &&
                (parts[i].flags & SPEX_ACC_SOURCE) &&
                (!(parts[source].flags & SPEX_ACC_SOURCE) ||
                 parts[i].data_source > parts[source].data_source))
                source = i;
        }
        uint64_t cycles = one ? parts[chosen].translation : cycles_waited(n, parts, count);
        d->translation = cycles > UINT32_MAX ? UINT32_MAX : (uint32_t)cycles; /* DAT-80 */
        if (one && n->c.part_events == 0 && parts[chosen].total) {
            d->has_total = true;
            d->total = parts[chosen].total;
        }
        d->source = parts[source].flags & SPEX_ACC_SOURCE;
        d->data_source = parts[source].data_source;
        a = &parts[at];
        inactive_va = contiguous && n->c.inactive_va;
    } else {
        d->events = a->flags & SPEX_ACC_DONE ? a->events : 0;
        d->translation = a->translation;
        d->done = a->flags & SPEX_ACC_DONE;
        d->aborted = a->flags & SPEX_ACC_EXTERNAL_ABORT;
        d->source = a->flags & SPEX_ACC_SOURCE;
        d->data_source = a->data_source;
    }
    d->chosen = a;
    d->va = a->flags & SPEX_ACC_VA;
    if (a->flags & SPEX_ACC_INACTIVE)
        d->va = d->va && inactive_va; /* DAT-168, DAT-170 */
    d->pa = d->translated =
        (a->flags & SPEX_ACC_PA) && (only || !(a->flags & SPEX_ACC_INACTIVE)); /* DAT-85 */
    d->virtual_address = a->va;
    d->physical_address = a->pa;
}

/* ================ operation types (D18.2.7) ================ */

/* Rounded up to a power of two and at least 32 bits: PKT-104, PKT-105, PKT-146. */
static unsigned EVL(uint64_t bits)
{
    unsigned evl = 0;
    while (evl < 7 && ((uint64_t)32 << evl) < bits)
        evl++;
    return evl;
}

/* Rounded up to a power of two and at least 128 bits: PKT-108, PKT-109, PKT-147. */
static unsigned ETS(uint64_t bits)
{
    unsigned ets = 0;
    while (ets < 15 && ((uint64_t)128 << ets) < bits)
        ets++;
    return ets > 11 ? 15 : ets;
}

static bool uses(const struct spex_op *op, unsigned reg)
{
    for (size_t i = 0; i < sizeof op->src; i++)
        if (op->src[i] == reg)
            return true;
    for (size_t i = 0; i < sizeof op->dst; i++)
        if (op->dst[i] == reg)
            return true;
    return false;
}

/* DAT-146: a micro-op that might as well be Advanced SIMD. */
static bool as_asimd(const struct naive *n, const struct spex_op *op)
{
    for (unsigned p = SPEX_REG_P0; p < SPEX_REG_P0 + 16; p++)
        if (uses(op, p))
            return false;
    return n->c.sve128 && !n->f.ArchInst && op->vector_bits == 128 && op->vectors <= 1 &&
           (op->flags & SPEX_OPF_ASIMD_EQUIV) && !(op->flags & SPEX_OPF_PRED) &&
           !(op->flags & SPEX_OPF_PRED_ZEROING) && !(op->flags & SPEX_OPF_PREDICATE_ONLY);
}

/* DAT-123 to DAT-130. */
static bool conditional(const struct naive *n, const struct spex_op *op)
{
    switch (op->kind) {
    /* clang-format off */
    case SPEX_OP_CSEL: return n->c.csel_conditional;
    case SPEX_OP_CSINC: return n->c.csinc_conditional;
    case SPEX_OP_CSINV: return n->c.csinv_conditional;
    case SPEX_OP_CSNEG: return n->c.csneg_conditional;
    case SPEX_OP_CCMP: return n->c.ccmp_conditional;
    case SPEX_OP_CCMN: return n->c.ccmn_conditional;
    case SPEX_OP_BRANCH: return op->flags & SPEX_OPF_COND;
    default: return false;
        /* clang-format on */
    }
}

bool naive_executed(const struct naive *n, uint32_t flags)
{
    if (flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN | SPEX_OUT_EXCEPTION))
        return false;
    if ((flags & SPEX_OUT_NONARCH_EXC) && !n->c.nonarch_handled)
        return false; /* DAT-228 */
    return flags & SPEX_OUT_EXECUTED;
}

bool naive_is_branch(const struct naive *n, const struct spex_op *op,
                     const struct spex_outcome *out)
{
    if (out->flags & SPEX_OUT_EXCEPTION)
        return false; /* DAT-43 */
    return op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET ||
           (op->kind == SPEX_OP_ISB && n->c.isb_branch);
}

/* A load, store or atomic for the purposes of record and filter. */
static bool is_memory(const struct naive *n, const struct spex_op *op)
{
    switch (op->kind) {
    /* clang-format off */
    case SPEX_OP_LDST:
    case SPEX_OP_LDST_UNSPEC:
    case SPEX_OP_LDST_SVE:
    case SPEX_OP_LDST_SME:
    case SPEX_OP_LDST_TAG:
    case SPEX_OP_LDST_NV2:
    case SPEX_OP_MEMCPY:
    case SPEX_OP_MEMSET:
    case SPEX_OP_GCS: return true;
    case SPEX_OP_DC_ZVA: return n->c.dc_zva == 0;
    default: return false;
        /* clang-format on */
    }
}

/* A copy: loads and stores, and is sampled as one of them. */
static bool two_sided(const struct spex_op *op)
{
    return (op->kind == SPEX_OP_MEMCPY || op->kind == SPEX_OP_GCS) && (op->flags & SPEX_OPF_LOAD) &&
           (op->flags & SPEX_OPF_STORE);
}

static bool is_branch_gcs(const struct naive *n, const struct spex_op *op,
                          const struct spex_outcome *out)
{
    return op->kind == SPEX_OP_BRANCH && n->f.GCS && (op->flags & SPEX_OPF_GCS) &&
           (op->flags & (SPEX_OPF_LINK | SPEX_OPF_RETURN)) && (out->flags & SPEX_OUT_GCS_ENABLED);
}

/* The same as below, of a branch. */
static unsigned branch_type(const struct naive *n, const struct spex_op *op,
                            const struct spex_outcome *out, unsigned cond, unsigned *type)
{
    uint32_t o = op->flags;
    unsigned cr = !n->f.CRR ? 0 : o & SPEX_OPF_LINK ? 1 : o & SPEX_OPF_RETURN ? 2 : 3;
    *type = TYPE_B;
    if (is_branch_gcs(n, op, out)) /* FIL-14 */
        *type |= o & SPEX_OPF_LINK ? TYPE_ST : TYPE_LD;
    return 0x200u | cr << 3 | (unsigned)is_branch_gcs(n, op, out) << 2 |
           (unsigned)(o & SPEX_OPF_INDIRECT || op->kind == SPEX_OP_ERET) << 1 | cond;
}

static unsigned memory_types(const struct naive *n, const struct spex_op *op, bool store)
{
    uint32_t o = op->flags;
    if (two_sided(op))
        return store ? TYPE_ST : TYPE_LD; /* the pseudocode samples one of them */
    if (!is_memory(n, op))
        return 0;
    return (o & SPEX_OPF_LOAD ? TYPE_LD : 0) |                     /* FIL-09 */
           (o & (SPEX_OPF_STORE | SPEX_OPF_ATOMIC) ? TYPE_ST : 0); /* FIL-08 */
}

/* Without FEAT_SPE_SME the format has no room for ZT0 and several vectors. */
static bool fits_sve(const struct naive *n, const struct spex_op *op)
{
    return n->f.SPE_SME || ((!uses(op, SPEX_REG_ZT0) || n->c.zt_sve) &&
                            (op->vectors <= 1 || n->c.multi_vector_sve));
}

/* CLASS << 8 | payload, and the types for filtering (D17.5). */
static unsigned operation_type(const struct naive *n, const struct spex_op *op,
                               const struct spex_outcome *out, bool store, unsigned *type)
{
    const struct arch_features *f = &n->f;
    uint32_t o = op->flags;
    bool fp = o & SPEX_OPF_FP, simd = o & SPEX_OPF_SIMD, v1p1 = f->version >= 2;
    bool branch = naive_is_branch(n, op, out);
    unsigned cond = conditional(n, op) && (op->kind != SPEX_OP_BRANCH || branch);
    unsigned ldst = 0x100 | store;
    unsigned other = (f->FPF ? (unsigned)simd << 2 | (unsigned)fp << 1 : 0) | cond;
    unsigned asimd = other | (f->FPF ? 1u << 2 : 0); /* an SVE operation that passes for one */
    unsigned unspecified = v1p1 ? 0x10u | ldst : ldst;
    uint64_t length = op->vector_bits, all = length * (op->vectors ? op->vectors : 1);
    unsigned evl = EVL(f->SPE_SME ? all : length);
    unsigned sve = evl << 4 | 1u << 3 | (unsigned)!!(o & SPEX_OPF_PRED) << 2 | (unsigned)fp << 1;
    bool pred = store ? o & SPEX_OPF_PRED : f->version >= 3 && (o & SPEX_OPF_PRED_ZEROING);
    unsigned sve_ldst = 0x100u | (unsigned)!!(o & SPEX_OPF_GATHER) << 7 | evl << 4 | 1u << 3 |
                        (unsigned)pred << 2 | store;
    unsigned simdfp_ldst = ldst | 1u << 2;

    if (branch)
        return branch_type(n, op, out, cond, type);
    *type = (fp ? TYPE_FP : 0) | (simd ? TYPE_SIMD : 0) | memory_types(n, op, store);
    switch (op->kind) {
    case SPEX_OP_SVE:
        *type |= TYPE_SIMD;
        if (as_asimd(n, op))
            return asimd;
        return v1p1 && f->SVE && fits_sve(n, op) ? sve : other;
    case SPEX_OP_SME_VECTOR:
    case SPEX_OP_SME_TILE: {
        *type |= TYPE_SIMD;
        if (op->kind == SPEX_OP_SME_VECTOR && as_asimd(n, op))
            return asimd;
        if (!f->SPE_SME)
            return other; /* DAT-156, DAT-158 */
        unsigned ets =
            o & SPEX_OPF_WHOLE_ZA ? 15 : ETS(op->kind == SPEX_OP_SME_TILE ? length : all);
        return 1u << 7 | (ets >> 1) << 4 | 1u << 3 | (ets & 1) << 2 | (unsigned)fp << 1;
    }
    case SPEX_OP_LDST:
        if (o & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL | SPEX_OPF_ACQREL))
            return ldst | (unsigned)!!(o & SPEX_OPF_ACQREL) << 4 |
                   (unsigned)!!(o & SPEX_OPF_EXCL) << 3 | (unsigned)!!(o & SPEX_OPF_ATOMIC) << 2 |
                   1u << 1;
        return o & SPEX_OPF_SIMDFP_REG ? simdfp_ldst : ldst;
    case SPEX_OP_LDST_UNSPEC:
        return unspecified;
    case SPEX_OP_LDST_SVE:
        *type |= TYPE_SIMD;
        if (!v1p1 || !(f->SVE || f->SME) || as_asimd(n, op))
            return simdfp_ldst; /* PKT-112 */
        return sve_ldst;
    case SPEX_OP_LDST_SME:
        *type |= TYPE_SIMD;
        if (as_asimd(n, op))
            return simdfp_ldst;
        return v1p1 && (f->SPE_SME || n->c.sme_ldst == 0) ? sve_ldst : unspecified; /* DAT-161 */
    case SPEX_OP_LDST_TAG:
        if (o & SPEX_OPF_TAG_DATA) /* DAT-99 */
            return n->c.tag_data == 0 ? ldst : unspecified;
        /* clang-format off */
        return f->version >= 4 && f->MTE2 ? ldst | 0x14 : unspecified; /* DAT-98 */
    case SPEX_OP_LDST_NV2: return f->NV2 ? ldst | 0x30 : ldst;
    case SPEX_OP_MEMCPY: return f->version >= 4 && f->MOPS ? ldst | 0x20 : unspecified;
    case SPEX_OP_MEMSET: return f->version >= 4 && f->MOPS ? 0x125 : unspecified;
    case SPEX_OP_GCS: return f->version >= 5 && f->GCS ? ldst | 0x44 : unspecified;
    case SPEX_OP_DC_ZVA: return n->c.dc_zva == 0 ? unspecified : other;
        /* clang-format on */
    case SPEX_OP_SVE_PREFETCH:
        *type = 0; /* DAT-165: Other */
        /* PRED: an operation that writes to a vector destination register, D18.2.7 */
        return n->c.sve_prefetch == 1 && v1p1 && f->SVE ? sve & ~4u : other;
    default:
        return other;
    }
}

/* ================ bytes ================ */

static void put(struct naive_record *r, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        r->bytes[r->size++] = (uint8_t)(value >> 8 * i);
}

/* Address: 0b10110xxx; INDEX above 7 in a second header byte. */
static void put_address(struct naive_record *r, unsigned index, uint64_t payload)
{
    if (index >= 8)
        put(r, 0x20 | index >> 3, 1);
    put(r, 0xb0 | (index & 7), 1);
    put(r, payload, 8);
}

static void put_counter(struct naive_record *r, const struct naive *n, unsigned index,
                        uint32_t cycles)
{
    uint32_t most = n->f.CountSize == 2 ? 0xfff : 0xffff; /* PKT-45, PKT-46 */
    if (index >= 8)
        put(r, 0x20 | index >> 3, 1);
    put(r, 0x98 | (index & 7), 1);
    put(r, cycles > most ? most : cycles, 2);
}

static uint64_t context_bits(unsigned el, unsigned security)
{
    uint64_t ns = security == SPEX_NONSECURE || security == SPEX_REALM;
    uint64_t nse = security == SPEX_REALM || security == SPEX_ROOT;
    return ns << 63 | (uint64_t)el << 61 | nse << 60;
}

/* ================ order of packets ================ */

/*
 * The manual leaves the order open. What was put is the order of the pseudocode's
 * example (compact); the other two are those of docs/format.md.
 */
struct packet {
    size_t at, size;
};

/* The packet whose (last) header byte is header under mask, in the compact record. */
static struct packet look_for(const struct naive_record *r, uint8_t mask, uint8_t header)
{
    static const size_t sizes[] = {1, 2, 4, 8};
    for (size_t at = 0; at < r->size;) {
        size_t head = (r->bytes[at] & 0xe0) == 0x20 ? 2 : 1;
        uint8_t h = r->bytes[at + head - 1];
        size_t size = head + (h < 0x40 ? 0 : sizes[h >> 4 & 3]);
        if (head == 1 && (h & mask) == header)
            return (struct packet){at, size};
        at += size;
    }
    return (struct packet){0, 0};
}

static void arrange(const struct naive *n, struct naive_record *r)
{
    struct naive_record from = *r;
    enum { PC = 0xb0, TARGET, VA, PA, PREVIOUS, TOTAL = 0x98, ISSUE, TRANSLATION, ALT = 0x9c };
    struct packet p, end = look_for(&from, 0xff, 0x71);
    if (!end.size)
        end = look_for(&from, 0xff, 0x01);
    if (n->n1) {
        struct packet events = look_for(&from, 0xcf, 0x42);
        size_t more = events.size - 3;
        const struct {
            size_t at;
            uint8_t mask, header;
        } places[] = {
            /* clang-format off */
            {0, 0xff, PC},          {9, 0xff, 0x64},         {14, 0xff, 0x65},
            {19, 0xfc, 0x48},       {21, 0xcf, 0x42},        {more + 24, 0xff, ISSUE},
            {more + 27, 0xff, TOTAL}, {more + 30, 0xff, TARGET}, {more + 30, 0xff, VA},
            {more + 39, 0xff, TRANSLATION}, {more + 42, 0xff, PA}, {more + 51, 0xcf, 0x43},
        };
        /* clang-format on */
        memset(r->bytes, 0, 64);
        r->size = 64;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            p = look_for(&from, places[i].mask, places[i].header);
            memcpy(r->bytes + places[i].at, from.bytes + p.at, p.size);
        }
        memcpy(r->bytes + 64 - end.size, from.bytes + end.at, end.size);
        return;
    }
    if (!n->hisi)
        return;
    const uint8_t order[][2] = {
        {0xff, PC},   {0xff, ISSUE},  {0xff, TOTAL},    {0xcf, 0x42},
        {0xfc, 0x48}, {0xff, TARGET}, {0xff, VA},       {0xff, TRANSLATION},
        {0xff, ALT},  {0xff, PA},     {0xff, PREVIOUS},
    };
    r->size = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        p = look_for(&from, order[i][0], order[i][1]);
        memcpy(r->bytes + r->size, from.bytes + p.at, p.size);
        r->size += p.size;
        bool addressed = look_for(&from, 0xff, TARGET).size || look_for(&from, 0xff, VA).size;
        if (order[i][1] == TRANSLATION && !p.size && addressed) /* leaves its place */
            put(r, 0, 3);
    }
    for (size_t at = 0; at < from.size;) { /* IMPLEMENTATION DEFINED packets, in their order */
        static const size_t sizes[] = {1, 2, 4, 8};
        size_t head = (from.bytes[at] & 0xe0) == 0x20 ? 2 : 1;
        uint8_t h = from.bytes[at + head - 1];
        size_t size = head + (h < 0x40 ? 0 : sizes[h >> 4 & 3]);
        bool impdef = head == 2 || (h & 0xfe) == 0x9e || (h & 0xfe) == 0xb6;
        if (impdef) {
            memcpy(r->bytes + r->size, from.bytes + at, size);
            r->size += size;
        }
        at += size;
    }
    const uint8_t rest[][2] = {{0xcf, 0x43}, {0xff, 0x64}, {0xff, 0x65}};
    for (size_t i = 0; i < 3; i++) {
        p = look_for(&from, rest[i][0], rest[i][1]);
        memcpy(r->bytes + r->size, from.bytes + p.at, p.size);
        r->size += p.size;
    }
    while ((r->size + end.size) % 4)
        put(r, 0, 1);
    memcpy(r->bytes + r->size, from.bytes + end.at, end.size);
    r->size += end.size;
}

/* ================ events (D18.2.6) ================ */

static uint64_t implemented_events(const struct naive *n)
{
    const struct arch_features *f = &n->f;
    bool v1p4 = f->version >= 5;
    uint64_t mask = 0xff;
    if (f->LLC)
        mask |= 3u << 8;
    if (f->Remote)
        mask |= 1u << 10;
    if (f->Misaligned && f->version >= 2)
        mask |= 1u << 11;
    if (f->version >= 2 && (f->SVE || f->SME))
        mask |= 3u << 17;
    if (v1p4)
        mask |= (uint64_t)(f->L2D ? 3u << 19 : 0) | (f->Modified ? 1u << 21 : 0) |
                (f->Recent ? 1u << 22 : 0) | (f->Snooped ? 1u << 23 : 0);
    if (f->SPE_SME)
        mask |= 1u << 24 | (f->SMCU ? 1u << 25 : 0);
    uint64_t impdef = ONES(63, 48) | ONES(15, 12);
    if (!v1p4)
        impdef |= f->SPE_SME ? ONES(31, 26) : ONES(31, 24);
    return mask | (impdef & n->c.impdef_events);
}

/* The value 1 of each bit in D18.2.6, read as a condition on the operation. */
static void only_possible(struct naive *n, const struct spex_op *op, bool store,
                          uint64_t *of_access, uint64_t *of_op)
{
    uint64_t access = *of_access, own = *of_op;
    bool vector = false, predicated = op->flags & SPEX_OPF_PRED;
    switch (op->kind) {
    case SPEX_OP_SVE:
    case SPEX_OP_SVE_PREFETCH:
    case SPEX_OP_SME_VECTOR:
    case SPEX_OP_SME_TILE: /* a predicate that only reads may govern: CNTP, LASTA, CMPEQ */
        vector = true;
        for (size_t i = 0; i < sizeof op->src; i++)
            predicated |= op->src[i] >= SPEX_REG_P0 && op->src[i] < SPEX_REG_P0 + 16;
        break;
    case SPEX_OP_LDST_SVE:
    case SPEX_OP_LDST_SME:
        vector = true;
        predicated |= (op->flags & SPEX_OPF_PRED_ZEROING) != 0;
        break;
    }
    bool branch = op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET || op->kind == SPEX_OP_ISB;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t e = (uint64_t)1 << bit;
        bool impdef = (bit >= 12 && bit <= 15) || (bit >= 24 && bit <= 31) || bit >= 48;
        bool memory = (bit >= 2 && bit <= 5) || (bit >= 8 && bit <= 11) || (bit >= 19 && bit <= 23);
        if (!impdef && !memory)
            access &= ~e;
        if (memory)
            own &= ~e;
    }
    if (!branch) /* E[7]: a branch that caused a correction */
        own &= ~((uint64_t)1 << 7);
    if (!vector || !predicated) /* E[17]: SVE or SME operation with an element that is FALSE */
        own &= ~((uint64_t)1 << 17);
    if (!(own >> 17 & 1)) /* E[18]: all are FALSE, so at least one is */
        own &= ~((uint64_t)1 << 18);
    if (!store && !(access >> 2 & 1)) /* E[3]: accessed and missed */
        access &= ~((uint64_t)1 << 3);
    if (!(access >> 4 & 1)) /* E[5]: a refill of a TLB is an access to it */
        access &= ~((uint64_t)1 << 5);
    if (!store && !(access >> 8 & 1)) /* E[9]: an access to at least the Last Level cache */
        access &= ~((uint64_t)1 << 9);
    if (!store && !(access >> 19 & 1)) /* E[20]: accessed and missed */
        access &= ~((uint64_t)1 << 20);
    n->impossible |= (*of_access & ~access) | (*of_op & ~own);
    *of_access = access;
    *of_op = own;
}

/* What the feature set needs, or as chosen. */
static unsigned events_bytes(const struct naive *n)
{
    uint64_t mask = implemented_events(n);
    if (n->c.events_size)
        return (unsigned)n->c.events_size;
    return mask >> 32 ? 8 : mask >> 16 ? 4 : mask >> 8 ? 2 : 1;
}

/* ================ the record ================ */

/* What is known of the operation while its record is made. */
struct work {
    struct naive *n;
    const struct naive_sample *s;
    const struct spex_op *op;
    const struct spex_outcome *out;
    uint32_t flags; /* SPEX_OUT_ of selection and end */
    bool phantom, unhandled, excepted, retired, complete;
    bool branch, memory, taken;
    unsigned info; /* 0 nothing, 1 addresses, 2 all that a load has */
    bool store;
    struct data d;
    unsigned source_size;
};

static void what_happened(struct work *w)
{
    struct naive *n = w->n;
    uint32_t flags = w->flags = w->s->flags | w->out->flags;
    w->phantom = flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN);
    w->unhandled = (flags & SPEX_OUT_NONARCH_EXC) && !n->c.nonarch_handled;
    w->excepted = !w->phantom && (flags & SPEX_OUT_EXCEPTION);
    w->retired = !w->phantom && !w->unhandled && (flags & (SPEX_OUT_EXECUTED | SPEX_OUT_EXCEPTION));
    if (!n->c.population_speculative && !w->phantom && !w->unhandled)
        w->retired = true; /* PKT-93: reads as one */
    w->complete = naive_executed(n, flags);
    w->branch = naive_is_branch(n, w->op, w->out);
    w->memory = is_memory(n, w->op) || (is_branch_gcs(n, w->op, w->out) && w->branch);
    w->taken = w->branch && (!(w->op->flags & SPEX_OPF_COND) || (flags & SPEX_OUT_PASSED));

    /* Captured for operations that are like loads: DAT-164, DAT-184. */
    w->info = w->memory ? 2 : 0;
    if (w->op->kind == SPEX_OP_SVE_PREFETCH)
        w->info = (unsigned)n->c.sve_prefetch_info;
    if (w->op->kind == SPEX_OP_CACHE || w->op->kind == SPEX_OP_AT ||
        w->op->kind == SPEX_OP_PREFETCH || (w->op->kind == SPEX_OP_DC_ZVA && n->c.dc_zva == 1))
        w->info = (unsigned)n->c.cache_op_info;
}

/* Which access: a copy has two sides, DAT-105 to DAT-107, DAT-112 to DAT-114. */
static void which_access(struct work *w)
{
    struct naive *n = w->n;
    const struct spex_outcome *out = w->out;
    struct data *d = &w->d;
    w->store = !(w->op->flags & SPEX_OPF_LOAD) && w->memory;
    const struct spex_access *only = out->part_count && !w->branch ? NULL : &out->access[0];
    if (two_sided(w->op)) {
        bool loads = out->access[0].flags & SPEX_ACC_VA;
        bool stores = out->access[1].flags & SPEX_ACC_VA;
        bool ld = naive_type_kept(n, TYPE_LD), st = naive_type_kept(n, TYPE_ST);
        /* clang-format off */
        w->store = loads != stores ? stores
                   : ld != st      ? st
                                   : n->world.random(n->world.user) >> 7;
        /* clang-format on */
        only = &out->access[w->store];
    }
    describe_access(n, w->op, out, only, d);
    if (w->info == 0 || w->phantom) /* DAT-176 */
        d->va = false;
    if (w->op->kind == SPEX_OP_LDST_NV2 && !w->s->nv2_va) /* DAT-101 */
        d->va = false;
    d->pa = d->pa && w->s->pa && d->va; /* DAT-85 to DAT-87 */
    if ((w->flags & SPEX_OUT_MONITOR_FAIL) && !n->c.monitor_fail_pa)
        d->pa = false; /* DAT-88 */
    unsigned space = d->chosen->pas;
    if (d->pa && (space == SPEX_ROOT || (space == SPEX_REALM && !n->f.RME))) {
        n->impossible_addresses++; /* PKT-24: reserved */
        d->pa = false;
    }
}

/* PKT-56 to PKT-58, DAT-110. */
static void data_source(struct work *w)
{
    struct naive *n = w->n;
    struct data *d = &w->d;
    uint32_t o = w->op->flags;
    d->source = d->source && n->f.LDS && w->info == 2 && d->done;
    if (w->store)
        d->source = d->source && (o & SPEX_OPF_ATOMIC          ? n->c.source_store_atomic
                                  : o & SPEX_OPF_STATUS_RESULT ? n->c.st64bv_source
                                                               : 0);
    if (d->aborted && !n->c.source_on_abort)
        d->source = false;
    w->source_size = (unsigned)n->c.data_source_size;
    if (!w->source_size) /* a second byte has room in records above 64 bytes only */
        w->source_size = d->data_source > 0xff && n->f.MaxSize > 6 && !n->n1 ? 2 : 1;
    if (w->source_size == 1)
        d->data_source &= 0xff;
}

static uint64_t events_of(struct work *w)
{
    struct naive *n = w->n;
    struct data *d = &w->d;
    uint64_t of_access = d->done && w->info == 2 ? d->events : 0; /* DAT-92 */
    if (!d->va && !n->c.no_access_events)
        of_access = 0; /* DAT-91 */
    if (w->store)      /* DAT-73, PKT-92: all but E[4], E[5] and E[11] */
        of_access &= n->c.store_events | 1 << 4 | 1 << 5 | 1 << 11;
    uint64_t of_op = w->out->events;
    only_possible(n, w->op, w->store, &of_access, &of_op);
    uint64_t e = (of_op | of_access) & ~(uint64_t)(1 << 0 | 1 << 1 | 1 << 6);
    if (n->f.SPE_SME)
        e = (e & ~((uint64_t)1 << 24)) | (w->flags & SPEX_OUT_STREAMING ? 1 << 24 : 0);
    if (!w->branch || w->phantom)
        e &= ~(uint64_t)(1 << 7); /* PKT-83, DAT-178 */
    if (w->phantom)
        e &= ~(uint64_t)(3 << 17); /* DAT-177 */
    if (w->retired)
        e |= 1 << 1;
    if (w->excepted && !w->unhandled)
        e |= 1 << 0;
    if (w->unhandled && !w->phantom && n->c.nonarch_e0)
        e |= 1 << 0; /* DAT-228 */
    if (conditional(n, w->op) && (w->op->kind != SPEX_OP_BRANCH || w->branch) &&
        !(w->flags & SPEX_OUT_PASSED) && !w->phantom)
        e |= 1 << 6;
    return e & implemented_events(n);
}

static void put_counters(struct work *w, struct naive_record *r, uint32_t total)
{
    struct naive *n = w->n;
    put_counter(r, n, 0, total);
    if (!n->c.omit_issue)
        put_counter(r, n, 1, w->out->issue);
    if (w->info == 2) { /* DAT-61, DAT-89, DAT-90 */
        if (w->d.va && w->d.done)
            put_counter(r, n, 2, w->d.translation);
        else if ((w->d.done || w->d.translated) && n->c.no_access_translation)
            put_counter(r, n, 2, 0);
    }
    bool smcu = n->f.ALTCLK == 1; /* DAT-230: in Streaming SVE mode only */
    if (n->c.alt_clock == 1 && n->f.ALTCLK && (w->flags & SPEX_OUT_ALT_CLOCK) &&
        (!smcu || (w->flags & SPEX_OUT_STREAMING)))
        put_counter(r, n, 4, w->out->alt_issue);
    if (n->c.impdef_counter) {
        bool other_clock = n->c.alt_clock == 2; /* DAT-25: then the index is for that */
        if (other_clock && (w->flags & SPEX_OUT_ALT_CLOCK))
            put_counter(r, n, (unsigned)n->c.impdef_counter, w->out->alt_issue);
        if (!other_clock && (w->flags & SPEX_OUT_IMPDEF_COUNTER))
            put_counter(r, n, (unsigned)n->c.impdef_counter, w->out->impdef_counter);
    }
}

static void put_target(const struct work *w, struct naive_record *r)
{
    unsigned el = w->out->target_el, security = w->out->target_security;
    uint64_t target = w->out->target;
    if (w->op->kind == SPEX_OP_ISB) { /* DAT-44: to the next instruction */
        target = w->s->pc + 4;
        el = w->s->el;
        security = w->s->security;
    } else if ((w->flags & SPEX_OUT_ILLEGAL_ERET) && w->n->c.illegal_eret == 1) {
        el = w->out->spsr_el;
        security = w->out->spsr_security;
    }
    put_address(r, 1, context_bits(el, security) | (target & ONES(55, 0)));
}

static void put_virtual(const struct work *w, struct naive_record *r)
{
    const struct naive *n = w->n;
    uint32_t flags = w->d.chosen->flags;
    uint64_t va = w->d.virtual_address;
    if (w->op->kind == SPEX_OP_LDST_TAG && n->c.tag_va == 1)
        va &= ~(uint64_t)15; /* DAT-93 */
    bool tagged = n->f.MTE2 && (flags & (SPEX_ACC_TAG_CHECKED | SPEX_ACC_TAG_CANONICAL));
    if (!(flags & SPEX_ACC_TBI) && !tagged && !n->c.va_top_byte)
        va &= ONES(55, 0); /* DAT-53, DAT-95, PKT-22 */
    put_address(r, 2, va);
}

static void put_physical(const struct work *w, struct naive_record *r)
{
    const struct naive *n = w->n;
    const struct spex_access *a = w->d.chosen;
    uint64_t pa = w->d.physical_address & ONES(55, 0), ns, nse, ch = 0, pat = 0;
    if (w->op->kind == SPEX_OP_LDST_TAG && (n->c.tag_pa == 1 || n->c.tag_va == 1))
        pa &= ~(uint64_t)15; /* DAT-96 */
    ns = a->pas == SPEX_NONSECURE || a->pas == SPEX_REALM;
    nse = a->pas == SPEX_REALM || a->pas == SPEX_ROOT;
    if (n->f.MTE2) { /* PKT-25 to PKT-29 */
        ch = a->flags & SPEX_ACC_TAG_CHECKED ? 1 : 0;
        if (ch && (a->flags & SPEX_ACC_TAG_IGNORED))
            ch = n->c.ch_ignored;
        if (a->flags & SPEX_ACC_TAG_CANONICAL)
            ch = 0;
        pat = ch || n->c.pat_unchecked ? a->tag & 15 : 0;
    }
    put_address(r, 3, ns << 63 | ch << 62 | nse << 60 | pat << 56 | pa);
}

/* Addresses but for the PC, Data Source, Operation Type. */
static void put_operation(const struct work *w, struct naive_record *r, unsigned type)
{
    const struct naive *n = w->n;
    if (w->branch && !w->phantom && (w->taken || n->c.not_taken_target)) /* DAT-32, DAT-37 */
        put_target(w, r);
    if (w->d.va)
        put_virtual(w, r);
    if (w->d.pa)
        put_physical(w, r);
    if (w->s->previous && w->complete && (w->taken || n->c.pbt_any_op))
        put_address(r, 4, w->s->previous_target);
    if (n->c.impdef_address && (w->flags & SPEX_OUT_IMPDEF_ADDRESS) && !w->phantom)
        put_address(r, (unsigned)n->c.impdef_address, w->out->impdef_address);
    if (w->d.source) {
        put(r, w->source_size == 2 ? 0x53 : 0x43, 1);
        put(r, w->d.data_source, w->source_size);
    }
    put(r, 0x48 | type >> 8, 1);
    put(r, type & 0xff, 1);
}

void naive_finish(struct naive *n, const struct naive_sample *s, const struct spex_op *op,
                  const struct spex_outcome *out, struct naive_finished *done)
{
    struct work w = {.n = n, .s = s, .op = op, .out = out};
    memset(done, 0, sizeof *done);
    what_happened(&w);
    which_access(&w);
    data_source(&w);
    done->events = events_of(&w);
    done->total = w.d.has_total && w.info ? w.d.total : out->total;
    unsigned type = operation_type(n, op, out, w.store, &done->type);
    done->load = done->type & TYPE_LD;

    /* What is put into it: DAT-17. */
    unsigned much = w.complete ? 0 : (unsigned)n->c.exception_info;
    struct naive_record *r = &done->record;
    done->source = w.d.source && much == 0;
    done->data_source = w.d.data_source;
    if (much == 0 && s->context1) {
        put(r, 0x64, 1);
        put(r, s->contextidr1, 4);
    }
    if (much == 0 && s->context2) {
        put(r, 0x65, 1);
        put(r, s->contextidr2, 4);
    }
    if (much == 0)
        put_counters(&w, r, done->total);
    if (much < 2)
        put_address(r, 0, context_bits(s->el, s->security) | (s->pc & ONES(55, 0)));
    if (much == 0)
        put_operation(&w, r, type);
    unsigned size = events_bytes(n);
    put(r, size == 8 ? 0x72 : size == 4 ? 0x62 : size == 2 ? 0x52 : 0x42, 1);
    put(r, done->events, size);
    if (s->timestamp) {
        put(r, 0x71, 1);
        put(r, s->time, 8);
    } else {
        put(r, 0x01, 1);
    }
    arrange(n, r);
    while (r->size % ((size_t)1 << n->f.Align))
        put(r, 0x00, 1); /* REG-04, PKT-135 */
}
