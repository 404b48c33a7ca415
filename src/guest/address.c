#include "address.h"

static int64_t sign_extend(uint32_t value, unsigned bits)
{
    uint32_t sign = 1u << (bits - 1);
    return (int64_t)((value & ((sign << 1) - 1)) ^ sign) - (int64_t)sign;
}

/* False for instructions it does not know (SVE, tags, memory copies and the like). */
static bool address_decode(uint32_t w, struct address *a)
{
    bool vector = w >> 26 & 1;
    unsigned size = w >> 30;
    *a = (struct address){.base = w >> 5 & 31, .index = ADDRESS_NO_REG};
    if ((w & 0x3b000000) == 0x18000000) { /* literal */
        a->base = ADDRESS_NO_REG;
        a->offset = sign_extend(w >> 5, 19) * 4;
        return true;
    }
    if ((w & 0x3a000000) == 0x28000000) { /* pairs */
        unsigned mode = w >> 23 & 3;      /* no-allocate, post, offset, pre */
        unsigned scale = vector ? 2 + size : size == 1 && !(w >> 22 & 1) ? 4 : 2 + (size >> 1);
        if (mode != 1)
            a->offset = sign_extend(w >> 15, 7) * (1 << scale);
        return true;
    }
    if (vector && size == 0 && w >> 23 & 1)
        size = 4;                         /* 128 bits */
    if ((w & 0x3b000000) == 0x39000000) { /* unsigned immediate */
        a->offset = (int64_t)(w >> 10 & 0xfff) << size;
        return true;
    }
    if ((w & 0x3b200000) == 0x38000000) { /* unscaled, post, unprivileged, pre */
        if ((w >> 10 & 3) != 1)
            a->offset = sign_extend(w >> 12, 9);
        return true;
    }
    if ((w & 0x3b200c00) == 0x38200800) { /* register offset */
        a->index = w >> 16 & 31;
        a->extend = w >> 13 & 7;
        a->shift = (uint8_t)(w >> 12 & 1 ? size : 0);
        if (a->index == 31)
            a->index = ADDRESS_NO_REG;
        return true;
    }
    if ((w & 0x3b200c00) == 0x38200000 && !vector) /* atomics, LDAPR */
        return true;
    if ((w & 0x3f000000) == 0x08000000) /* exclusive, ordered, compare and swap */
        return true;
    if ((w & 0xbe000000) == 0x0c000000) /* Advanced SIMD structures, post-index or not */
        return true;
    if ((w & 0x3f200c00) == 0x19000000) { /* LDAPUR, STLUR */
        a->offset = sign_extend(w >> 12, 9);
        return true;
    }
    return false;
}

uint64_t address_index(const struct address *a, uint64_t value)
{
    if (a->extend == 2)
        value = (uint32_t)value;
    else if (a->extend == 6)
        value = (uint64_t)(int64_t)(int32_t)value;
    return value << a->shift;
}

/* ---- back to the entry of the block ---- */

static bool writes(const struct spex_op *op, unsigned reg)
{
    for (unsigned i = 0; i < sizeof op->dst; i++)
        if (op->dst[i] == reg)
            return true;
    return false;
}

/* The mask of AND (immediate), 64 bits: DecodeBitMasks. */
static bool bit_mask(uint32_t w, uint64_t *mask)
{
    unsigned n = w >> 22 & 1, r = w >> 16 & 63, s = w >> 10 & 63, pattern = n << 6 | (~s & 63);
    if (pattern < 2)
        return false;
    unsigned size = 1u << (31 - (unsigned)__builtin_clz(pattern));
    s &= size - 1;
    r &= size - 1;
    if (s == size - 1)
        return false;
    uint64_t ones = (UINT64_C(2) << s) - 1,
             all = size == 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1;
    uint64_t element = r ? (ones >> r | ones << (size - r)) & all : ones;
    for (*mask = element; size < 64; size *= 2)
        *mask |= *mask << size;
    return true;
}

/* How a register's value changes between the entry of the block and an instruction. */
struct way {
    unsigned reg;
    uint64_t before, mask, after; /* ((reg + before) & mask) + after */
};

/* Follows way->reg of instruction `at` back to the entry of the block. */
static bool trace_back(const uint32_t *words, const struct spex_op *ops, size_t at, struct way *way)
{
    way->before = way->after = 0;
    way->mask = UINT64_MAX;
    while (at-- > 0) {
        uint32_t w = words[at];
        if (!writes(&ops[at], way->reg))
            continue;
        uint64_t *sum = way->mask == UINT64_MAX ? &way->after : &way->before;
        uint64_t immediate = (uint64_t)(w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0);
        unsigned from = w >> 5 & 31;
        if ((w & 0xdf800000) == 0x91000000) { /* ADD, ADDS (immediate) */
            *sum += immediate;
        } else if ((w & 0xdf800000) == 0xd1000000) { /* SUB, SUBS */
            *sum -= immediate;
        } else if ((w & 0xff800000) == 0x92000000 && way->mask == UINT64_MAX && from != 31) {
            if (!bit_mask(w, &way->mask)) /* AND */
                return false;
        } else if ((w & 0xffe0ffe0) == 0xaa0003e0 && (w >> 16 & 31) != 31) { /* MOV Xd, Xm */
            from = w >> 16 & 31;
        } else {
            return false;
        }
        way->reg = from;
    }
    return true;
}

struct traced address_trace(const uint32_t *words, const struct spex_op *ops, size_t at)
{
    struct traced t = {.mask = UINT64_MAX};
    struct way way;
    if (ops[at].kind == SPEX_OP_DC_ZVA)
        t.from = (struct address){.base = words[at] & 31, .index = ADDRESS_NO_REG};
    else if ((ops[at].kind != SPEX_OP_LDST && ops[at].kind != SPEX_OP_PREFETCH) ||
             !address_decode(words[at], &t.from))
        return t;
    if (ops[at].kind == SPEX_OP_DC_ZVA && t.from.base == 31) /* the zero register */
        return t;
    if (t.from.base != ADDRESS_NO_REG) {
        way.reg = t.from.base;
        if (!trace_back(words, ops, at, &way))
            return t;
        t.from.base = (uint8_t)way.reg;
        t.from.offset += (int64_t)way.after;
        t.before = way.before;
        t.mask = way.mask;
    }
    if (t.from.index != ADDRESS_NO_REG) {
        way.reg = t.from.index;
        if (!trace_back(words, ops, at, &way) || way.mask != UINT64_MAX)
            return t;
        t.from.index = (uint8_t)way.reg;
        t.index_offset = way.after;
    }
    t.known = true;
    return t;
}

uint64_t address_base(const struct traced *t, uint64_t value)
{
    return ((value + t->before) & t->mask) + (uint64_t)t->from.offset;
}
