#include "sve.h"

#include <spex/a64.h>
#include "base/bits.h"
#include "regs.h"

#include <string.h>

static int32_t sign_extend(uint32_t value, unsigned bits)
{
    uint32_t sign = 1u << (bits - 1);
    return (int32_t)((value & ((sign << 1) - 1)) ^ sign) - (int32_t)sign;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static bool begins_with(const char *name, const char *start)
{
    return !strncmp(name, start, strlen(start));
}

/* Rows with a scalar base: their names end in _ss and _si. */
static bool decode_contiguous(const char *name, uint32_t w, const struct spex_op *op, struct sve *s)
{
    unsigned replicated = begins_with(name, "LD1RQ") ? 16 : begins_with(name, "LD1RO") ? 32 : 0;
    s->form = SVE_CONTIGUOUS;
    s->faults_first = begins_with(name, "LDFF1") || begins_with(name, "LDNF1");
    if (strchr(name, 'Q') && !replicated) /* SVE2.1: 128-bit elements */
        return false;
    if (replicated) {
        s->element = s->size;
        s->count = (uint16_t)(replicated / s->size);
    }
    if (strstr(name, "_q_"))
        return false;
    if (ends_with(name, "_ss")) {
        s->index = w >> 16 & 31;
        s->shift = (uint8_t)__builtin_ctz(op->access_size);
        if (s->index == 31)
            s->index = SVE_NO_REG;
        return true;
    }
    if (!ends_with(name, "_si"))
        return false;
    s->offset = sign_extend(w >> 16, 4) * (int32_t)(replicated ? replicated : op->access_bytes);
    return true;
}

static bool decode_gather(const char *name, uint32_t w, const struct spex_op *op, struct sve *s)
{
    unsigned log = (unsigned)__builtin_ctz(op->access_size);
    bool vector_base = ends_with(name, "_si") || ends_with(name, "_di");
    if (strchr(name, 'Q'))
        return false;
    s->faults_first = s->store ? false : w >> 13 & 1;
    if (vector_base) {
        s->form = SVE_BASES;
        s->offset = (int32_t)((w >> 16 & 31) << log);
        return true;
    }
    s->index = w >> 16 & 31;
    if (begins_with(name, "LDNT1") || begins_with(name, "STNT1")) {
        s->form = SVE_BASES;
        s->faults_first = false;
        if (s->index == 31)
            s->index = SVE_NO_REG;
        return true;
    }
    s->form = SVE_OFFSETS;
    s->shift = (uint8_t)(w >> 21 & 1 ? log : 0);
    if (!ends_with(name, "_d64"))
        s->extend = (uint8_t)(1 + (w >> (s->store ? 14 : 22) & 1));
    return true;
}

static bool decode_access(const char *name, uint32_t w, const struct spex_op *op, struct sve *s)
{
    unsigned whole = (w >> 16 & 63) << 3 | (w >> 10 & 7), vl = op->vector_bits / 8;
    if (!strcmp(name, "LDR_z") || !strcmp(name, "STR_z") || !strcmp(name, "LDR_p") ||
        !strcmp(name, "STR_p")) {
        s->form = SVE_WHOLE;
        s->offset = sign_extend(whole, 9) * (int32_t)op->access_bytes;
        s->size = 1;
        s->count = op->access_bytes;
        return true;
    }
    if (!strcmp(name, "LD1R")) {
        static const uint8_t element[16] = {0, 1, 2, 3, 3, 1, 2, 3, 3, 2, 2, 3, 3, 2, 1, 3};
        s->form = SVE_ONE;
        s->offset = (int32_t)((w >> 16 & 63) * op->access_size);
        s->element = (uint8_t)(1u << element[(w >> 23 & 3) << 2 | (w >> 13 & 3)]);
        s->count = (uint16_t)(vl / s->element);
        return true;
    }
    s->count = (uint16_t)(op->access_bytes / (op->access_size * op->vectors));
    if (!s->count)
        return false;
    s->element = (uint8_t)(vl / s->count);
    return op->flags & SPEX_OPF_GATHER ? decode_gather(name, w, op, s)
                                       : decode_contiguous(name, w, op, s);
}

/* Slices of ZA tiles, vectors of the ZA array, ZT0 (SME). */
static bool decode_za(const char *name, uint32_t w, const struct spex_op *op, struct sve *s)
{
    if (ends_with(name, "_tile")) {
        s->form = SVE_CONTIGUOUS;
        s->element = s->size;
        s->count = (uint16_t)(op->access_bytes / s->size);
        s->index = w >> 16 & 31;
        s->shift = (uint8_t)__builtin_ctz(s->size);
        if (s->index == 31)
            s->index = SVE_NO_REG;
        return true;
    }
    s->form = SVE_WHOLE;
    s->size = 1;
    s->count = op->access_bytes;
    if (ends_with(name, "_za"))
        s->offset = (int32_t)((w & 15) * op->access_bytes);
    return true;
}

/* The forms of PRFB, PRFH, PRFW, PRFD: those of loads with the same number of bytes. */
static bool decode_prefetch(const char *name, uint32_t w, const struct spex_op *op, struct sve *s)
{
    unsigned vl = op->vector_bits / 8, log = w >> 13 & 3;
    bool gather = !strcmp(name, "SVE_PRF_gather"), bases = !strcmp(name, "SVE_PRF_vec");
    s->hint = true;
    if (bases || !strcmp(name, "SVE_PRF_ss"))
        log = w >> 23 & 3;
    s->size = (uint8_t)(1u << log);
    s->element = (uint8_t)(!gather && !bases ? s->size : w >> 30 & 1 ? 8 : 4);
    s->count = (uint16_t)(vl / s->element);
    s->form = gather ? SVE_OFFSETS : bases ? SVE_BASES : SVE_CONTIGUOUS;
    if (bases) {
        s->offset = (int32_t)((w >> 16 & 31) << log);
    } else if (gather) {
        s->index = w >> 16 & 31;
        s->shift = (uint8_t)log;
        s->extend = (uint8_t)(w >> 15 & 1 ? 0 : 1 + (w >> 22 & 1));
    } else if (!strcmp(name, "SVE_PRF_ss")) {
        s->index = w >> 16 & 31;
        s->shift = (uint8_t)log;
    } else {
        s->offset = sign_extend(w >> 16, 6) * (int32_t)vl;
    }
    return true;
}

bool sve_decode(uint32_t w, const struct spex_op *op, struct sve *s)
{
    const char *name = spex_a64_name(w);
    *s = (struct sve){.base = w >> 5 & 31,
                      .index = SVE_NO_REG,
                      .predicate = w >> 10 & 7,
                      .size = (uint8_t)(op->access_size * op->vectors),
                      .store = op->flags & SPEX_OPF_STORE};
    if (!name)
        return false;
    if (op->kind == SPEX_OP_LDST_SVE && op->access_size)
        return decode_access(name, w, op, s);
    if (op->kind == SPEX_OP_LDST_SME)
        return decode_za(name, w, op, s);
    if (op->kind == SPEX_OP_SVE_PREFETCH)
        return decode_prefetch(name, w, op, s);
    if (op->kind != SPEX_OP_SVE || !(op->flags & SPEX_OPF_PRED))
        return false;
    s->form = SVE_PREDICATED;
    for (size_t i = 0; i < sizeof op->src; i++)
        if (op->src[i] >= SPEX_REG_P0 && op->src[i] < SPEX_REG_P0 + 16) {
            s->predicate = (uint8_t)(op->src[i] - SPEX_REG_P0);
            s->element = (uint8_t)(1u << (w >> 22 & 3));
            s->count = (uint16_t)(op->vector_bits / 8 / s->element);
            return true;
        }
    return false;
}

/* ---- at run time ---- */

static bool active(const uint8_t *predicate, const struct sve *s, unsigned element)
{
    unsigned bit = element * s->element;
    return predicate[bit / 8] >> bit % 8 & 1;
}

static void add(struct sve_list *list, uint64_t va, uint32_t size)
{
    if (list->count == SVE_ITEMS)
        return;
    list->item[list->count].va = va & BITS(55, 0);
    list->item[list->count++].size = size;
}

/* Is the address mapped? If not, a load that must not fault does not access it. */
static bool is_there(uint64_t va)
{
    char byte;
    return regs_memory(va & BITS(55, 0), &byte, 1);
}

/* Lists the elements from the first active to the last one, in runs. */
static void list_runs(const struct sve *s, uint64_t base, unsigned first, unsigned last,
                      unsigned run, struct sve_list *list)
{
    uint64_t va = base + (uint64_t)first * s->size, end = base + (uint64_t)(last + 1) * s->size;
    while (va < end) {
        if (s->faults_first && (va ^ base) >> 12 && !is_there(va))
            return;
        uint64_t part = end - va < run ? end - va : run;
        if (s->faults_first &&
            (va ^ (va + part - 1)) >> 12) /* only to the end of the page: what follows may fault */
            part = 4096 - va % 4096;
        if (s->hint && part > 64 - va % 64) /* line by line */
            part = 64 - va % 64;
        add(list, va, (uint32_t)part);
        va += part;
    }
}

static uint64_t offset_of(const struct sve *s, const uint8_t *vector, unsigned element)
{
    uint64_t value = 0;
    memcpy(&value, vector + element * s->element, s->element);
    if (s->form == SVE_OFFSETS && s->extend == 1)
        value = (uint32_t)value;
    else if (s->form == SVE_OFFSETS && s->extend == 2)
        value = (uint64_t)(int64_t)(int32_t)value;
    return s->form == SVE_OFFSETS ? value << s->shift : value;
}

static void list_elements(const struct sve *s, unsigned vcpu, uint64_t base,
                          const uint8_t *predicate, struct sve_list *list)
{
    uint8_t vector[REGS_VECTOR] = {0};
    uint64_t page = UINT64_MAX;
    regs_vector(vcpu, s->form == SVE_BASES ? s->base : s->index, vector);
    for (unsigned i = 0; i < s->count; i++) {
        if (!active(predicate, s, i))
            continue;
        uint64_t va = base + offset_of(s, vector, i);
        if (s->faults_first && list->count && va >> 12 != page && !is_there(va))
            return;
        page = va >> 12;
        add(list, va, s->size);
    }
}

void sve_list(const struct sve *s, unsigned vcpu, unsigned run, struct sve_list *list)
{
    uint8_t predicate[REGS_VECTOR / 8] = {0};
    unsigned first = 0, last = 0, all = 0;
    list->count = 0;
    list->events = 0;
    list->skipped = false;
    if (s->form == SVE_WHOLE) {
        list_runs(s, regs_read(vcpu, s->base) + (uint64_t)(int64_t)s->offset, 0, s->count - 1u, run,
                  list);
        return;
    }
    regs_predicate(vcpu, s->predicate, predicate);
    for (unsigned i = 0; i < s->count; i++)
        if (active(predicate, s, i)) {
            first = all++ ? first : i;
            last = i;
        }
    if (all < s->count)
        list->events |= BIT(SPEX_EV_PARTIAL_PRED);
    if (!all)
        list->events |= BIT(SPEX_EV_EMPTY_PRED);
    if (s->form == SVE_PREDICATED)
        return;
    uint64_t base = (uint64_t)(int64_t)s->offset;
    if (s->form != SVE_BASES)
        base += regs_read(vcpu, s->base);
    if (s->form != SVE_OFFSETS && s->index != SVE_NO_REG)
        base += regs_read(vcpu, s->index) << s->shift;
    list->skipped = s->form == SVE_CONTIGUOUS && first && all;
    list->lowest = base & BITS(55, 0);
    if (!all)
        return;
    if (s->form == SVE_CONTIGUOUS)
        list_runs(s, base, first, last, run, list);
    else if (s->form == SVE_ONE)
        add(list, base, s->size);
    else
        list_elements(s, vcpu, base, predicate, list);
}
