/* A64 words -> operations: finds the row of a64.def and fills in its fields. */
#include <spex/a64.h>

#include "a64/needs.h"

#include <assert.h>
#include <string.h>

enum reg_class { REG_END, REG_FIXED, REG_X, REG_XSP, REG_V, REG_P, REG_PN, REG_W12 };

/* Where an operand's register number stands. FIXED: at is the number. */
struct reg_field {
    uint8_t class, at, mask, scale, add;
};

/* A number from the word: (base << field) * times; base 0: none. */
struct number {
    uint8_t base;
    struct {
        uint8_t low, low_bits, high, high_bits;
    } field;
    uint8_t times;
};

enum extent {
    EXTENT_PLAIN,    /* size, and total or size * times bytes */
    EXTENT_ELEMENTS, /* SVE: size in memory for each element of a vector */
    EXTENT_LD1,      /* SVE contiguous load: dtype */
    EXTENT_LD1R,     /* SVE load and replicate: dtype */
    EXTENT_VL,
    EXTENT_SVL,
    EXTENT_PL,
    EXTENT_TILE,
    EXTENT_TILE_MASK,
};

struct row {
    const char *name;
    uint32_t mask, value, order;
    uint8_t kind, exec, extent;
    uint8_t need; /* row of needs.def, from 1; 0: none names it */
    uint32_t flags;
    struct number size, total, element, vectors;
    struct reg_field dst[4], src[5];
};

#include "a64_table.inc"

static const struct row *find(uint32_t insn)
{
    for (const uint16_t *id = &lists[by_top[insn >> 21]]; *id != 0xffff; id++)
        if ((insn & rows[*id].mask) == rows[*id].value)
            return &rows[*id];
    return NULL;
}

static unsigned field(uint32_t insn, const struct number *n)
{
    unsigned low = insn >> n->field.low & ((1u << n->field.low_bits) - 1);
    unsigned high = insn >> n->field.high & ((1u << n->field.high_bits) - 1);
    return high << n->field.low_bits | low;
}

static unsigned base(uint32_t insn, const struct number *n)
{
    return (unsigned)n->base << field(insn, n);
}

static uint8_t reg(uint32_t insn, const struct reg_field *f)
{
    if (f->class == REG_FIXED)
        return f->at;
    unsigned n = ((insn >> f->at & f->mask) << f->scale) + f->add;
    switch ((enum reg_class)f->class) {
    case REG_X:
        return n == 31 ? SPEX_REG_NONE : (uint8_t)(n & 31);
    case REG_XSP:
        return n == 31 ? SPEX_REG_SP : (uint8_t)n;
    case REG_V:
        return (uint8_t)(SPEX_REG_V0 + (n & 31));
    case REG_P:
        return (uint8_t)(SPEX_REG_P0 + (n & 15));
    case REG_PN:
        return (uint8_t)(SPEX_REG_P0 + 8 + n);
    case REG_W12:
        return (uint8_t)(12 + n);
    case REG_FIXED:
    case REG_END:
        break;
    }
    return SPEX_REG_NONE;
}

/* The zero register is not an operand; the list keeps no gap for it. */
static void registers(uint32_t insn, const struct reg_field *fields, size_t count, uint8_t *out)
{
    size_t n = 0;
    memset(out, SPEX_REG_NONE, count);
    for (size_t i = 0; i < count && fields[i].class != REG_END; i++) {
        uint8_t r = reg(insn, &fields[i]);
        if (r != SPEX_REG_NONE)
            out[n++] = r;
    }
}

/* log2 of memory and register element for each dtype of SVE contiguous loads. */
static const uint8_t dtype[16][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {2, 3}, {1, 1},
                                     {1, 2}, {1, 3}, {1, 3}, {1, 2}, {2, 2}, {2, 3},
                                     {0, 3}, {0, 2}, {0, 1}, {3, 3}};

static void extent(uint32_t insn, const struct row *row, const struct spex_a64_lengths *lengths,
                   struct spex_op *op)
{
    unsigned vl = lengths->vl / 8u, svl = lengths->svl / 8u, size = 0, bytes = 0;
    unsigned sme = row->kind == SPEX_OP_SME_VECTOR || row->kind == SPEX_OP_LDST_SME;
    switch ((enum extent)row->extent) {
    case EXTENT_PLAIN:
        size = base(insn, &row->size);
        bytes =
            row->total.base ? base(insn, &row->total) * row->total.times : size * row->size.times;
        break;
    case EXTENT_ELEMENTS:
        size = base(insn, &row->size);
        bytes = (sme ? svl : vl) / base(insn, &row->element) * size * op->vectors;
        break;
    case EXTENT_LD1:
        size = 1u << dtype[field(insn, &row->size)][0];
        bytes = (vl >> dtype[field(insn, &row->size)][1]) * size;
        break;
    case EXTENT_LD1R:
        size = bytes = 1u << dtype[field(insn, &row->size)][0];
        break;
    case EXTENT_VL:
        size = bytes = vl;
        break;
    case EXTENT_SVL:
        size = bytes = svl;
        break;
    case EXTENT_PL:
        size = bytes = vl / 8;
        break;
    case EXTENT_TILE:
        op->vector_bits = (uint32_t)svl * 8 * svl / base(insn, &row->element);
        return;
    case EXTENT_TILE_MASK: /* each mask bit is one of the eight 64-bit element tiles */
        op->vector_bits =
            (uint32_t)svl * svl * (unsigned)__builtin_popcount(field(insn, &row->size));
        return;
    }
    op->access_size = (uint8_t)size;
    op->access_bytes = (uint16_t)bytes;
    if (sme || row->flags & SPEX_OPF_WHOLE_ZA)
        op->vector_bits = lengths->svl;
    else if (row->kind == SPEX_OP_SVE || row->kind == SPEX_OP_LDST_SVE ||
             row->kind == SPEX_OP_SVE_PREFETCH)
        op->vector_bits = lengths->vl;
}

/* type: 0 for loads, 1 for instructions, 2 for stores. */
static uint8_t prefetch(unsigned type, unsigned target)
{
    unsigned level = target + 1; /* target 3: the system's cache */
    if (type == 3)
        return 0;
    if (type == 1 && level == 1) /* level 1 instruction prefetches also fill level 2 */
        level = 2;
    return (uint8_t)((level == 4 ? 3 : level) | (type == 2 ? SPEX_PREFETCH_WRITE : 0));
}

enum spex_status spex_a64_classify(uint32_t insn, const struct spex_a64_lengths *lengths,
                                   struct spex_op *op)
{
    assert(op);
    static const struct spex_a64_lengths smallest = {128, 128};
    static const struct row reserved = {.kind = SPEX_OP_EXCEPTION, .exec = SPEX_EXEC_SYSTEM};
    const struct row *found = find(insn), *row = found ? found : &reserved;
    *op = (struct spex_op){.kind = row->kind, .exec = row->exec, .flags = row->flags};
    if (insn & row->order)
        op->flags |= SPEX_OPF_ACQREL;
    /* General loads and stores: everything they access is one contiguous run (DAT-81). */
    if (row->kind == SPEX_OP_LDST || row->kind == SPEX_OP_LDST_UNSPEC ||
        row->kind == SPEX_OP_LDST_TAG)
        op->flags |= SPEX_OPF_CONTIGUOUS;
    if (row->kind == SPEX_OP_PREFETCH) /* type in bits 4:3: PLD, PLI, PST */
        op->prefetch = prefetch(insn >> 3 & 3, insn >> 1 & 3);
    else if (row->kind == SPEX_OP_SVE_PREFETCH)
        op->prefetch = prefetch(insn >> 2 & 2, insn >> 1 & 3);
    op->vectors = found ? (uint8_t)base(insn, &row->vectors) : 1;
    registers(insn, row->dst, sizeof row->dst / sizeof row->dst[0], op->dst);
    registers(insn, row->src, sizeof row->src / sizeof row->src[0], op->src);
    extent(insn, row, lengths ? lengths : &smallest, op);
    return found ? SPEX_OK : SPEX_RESERVED;
}

const char *spex_a64_name(uint32_t insn)
{
    const struct row *row = find(insn);
    return row ? row->name : NULL;
}

bool a64_needs(uint32_t insn, struct a64_need *need)
{
    static const struct a64_need needs[] = {
#define NEED(feature, from, names) {feature, from},
#define NEED_WORD(feature, from, mask, value)
#include "needs.def"
#undef NEED
#undef NEED_WORD
    };
    static const struct {
        struct a64_need need;
        uint32_t mask, value;
    } words[] = {
#define NEED(feature, from, names)
#define NEED_WORD(feature, from, mask, value) {{feature, from}, mask, value},
#include "needs.def"
#undef NEED
#undef NEED_WORD
    };
    const struct row *row = find(insn);
    if (!row)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((insn & words[i].mask) == words[i].value) {
            *need = words[i].need;
            return true;
        }
    unsigned group = insn >> 25 & 15; /* C4.1, top level */
    bool sve = group == 2, sme = !group && insn >> 31;
    if (row->need)
        *need = needs[row->need - 1];
    else if (sme)
        *need = (struct a64_need){"FEAT_SME", A64_MAX};
    else if (sve)
        *need = (struct a64_need){"FEAT_SVE", "neoverse-v1"};
    return row->need || sme || sve;
}

static uint64_t offset(uint32_t insn, unsigned low, unsigned width)
{
    int64_t sign = INT64_C(1) << (width - 1);
    int64_t value = insn >> low & ((INT64_C(1) << width) - 1);
    return (uint64_t)((value ^ sign) - sign) * 4;
}

bool spex_a64_target(uint32_t insn, uint64_t pc, uint64_t *target)
{
    assert(target);
    if ((insn & 0x7c000000) == 0x14000000) /* B, BL */
        *target = pc + offset(insn, 0, 26);
    else if ((insn & 0xff000000) == 0x54000000 || (insn & 0x7e000000) == 0x34000000)
        *target = pc + offset(insn, 5, 19); /* B.cond, BC.cond, CBZ, CBNZ */
    else if ((insn & 0x7e000000) == 0x36000000)
        *target = pc + offset(insn, 5, 14); /* TBZ, TBNZ */
    else if ((insn & 0x7e000000) == 0x74000000 && find(insn))
        *target = pc + offset(insn, 5, 9); /* CB<cc> */
    else
        return false;
    return true;
}
