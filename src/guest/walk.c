#include "walk.h"

#include "base/bits.h"

/* Fault Status Codes, to which the level is added. Level -1 has its own codes. */
/* clang-format off */
enum { ADDRESS_SIZE = 0x00, TRANSLATION = 0x04, ACCESS_FLAG = 0x08, PERMISSION = 0x0c,
       ABORT_ON_WALK = 0x14 };
/* clang-format on */

static unsigned code(unsigned kind, int level)
{
    if (level >= 0)
        return kind | (unsigned)level;
    return kind == ADDRESS_SIZE ? 0x29 : kind == TRANSLATION ? 0x2b : 0x13;
}

/* TCR_ELx for one range of addresses. */
struct control {
    unsigned size;    /* bits of an input address */
    unsigned granule; /* bits of an offset in a page */
    unsigned output;  /* bits of an output address */
    bool disabled, af, dirty, no_hierarchy, ds;
};

static struct control control_of(const struct walk_regime *r, bool upper)
{
    static const uint8_t tg0[] = {12, 16, 14, 12}, tg1[] = {12, 14, 12, 16};
    static const uint8_t outputs[] = {32, 36, 40, 42, 44, 48, 52, 52};
    uint64_t tcr = r->tcr;
    struct control c;
    c.size = 64 - (unsigned)(tcr >> (upper ? 16 : 0) & 63);
    c.granule = upper ? tg1[tcr >> 30 & 3] : tg0[tcr >> 14 & 3];
    if (r->two_ranges) {
        c.disabled = tcr >> (upper ? 23 : 7) & 1;
        c.output = outputs[tcr >> 32 & 7];
        c.af = tcr >> 39 & 1;
        c.dirty = tcr >> 40 & 1;
        c.no_hierarchy = tcr >> (upper ? 42 : 41) & 1;
        c.ds = tcr >> 59 & 1;
    } else {
        c.disabled = upper;
        c.output = outputs[tcr >> 16 & 7];
        c.af = tcr >> 21 & 1;
        c.dirty = tcr >> 22 & 1;
        c.no_hierarchy = tcr >> 24 & 1;
        c.ds = tcr >> 32 & 1;
    }
    return c;
}

/* The address in a descriptor, whose low `low` bits are not part of it. */
static uint64_t output_address(const struct control *c, uint64_t d, unsigned low)
{
    if (c->ds && c->granule != 16)
        return (d & BITS(49, 0) & ~BITS(low - 1, 0)) | (d >> 8 & 3) << 50;
    if (c->granule == 16 && c->output == 52)
        return (d & BITS(47, 0) & ~BITS(low - 1, 0)) | (d >> 12 & 15) << 48;
    return d & BITS(47, 0) & ~BITS(low - 1, 0);
}

static bool block_allowed(const struct control *c, int level)
{
    int highest = c->granule == 12   ? (c->ds ? 0 : 1)
                  : c->granule == 14 ? (c->ds ? 1 : 2)
                                     : (c->output == 52 ? 1 : 2);
    return level >= highest;
}

bool walk_stage1(const struct walk_regime *r, uint64_t va, walk_read read, void *user, uint64_t *pa,
                 unsigned *fsc)
{
    bool upper = va >> 55 & 1, read_only = false;
    struct control c = control_of(r, upper);
    unsigned stride = c.granule - 3;
    if (!(r->sctlr & 1)) {
        *pa = va;
        return true;
    }
    *fsc = code(TRANSLATION, 0);
    if (c.disabled || c.size > (c.ds || c.granule == 16 ? 52 : 48) || c.size <= c.granule ||
        (upper ? ~va : va) >> c.size)
        return false;
    unsigned levels = (c.size - c.granule + stride - 1) / stride;
    int level = 4 - (int)levels;
    uint64_t table = r->ttbr[upper] & BITS(47, 1);
    if (c.output == 52)
        table = (table & ~BITS(5, 0)) | (r->ttbr[upper] >> 2 & 15) << 48;
    unsigned top = c.size; /* number of address bits that this level and those below translate */
    for (;; level++) {
        unsigned low = c.granule + (unsigned)(3 - level) * stride;
        uint64_t index = (va & (BITS(63, 0) >> (64 - top))) >> low, d;
        if (!read(user, table + 8 * index, &d)) {
            *fsc = code(ABORT_ON_WALK, level);
            return false;
        }
        bool valid = d & 1, not_block = d & 2;
        *fsc = code(TRANSLATION, level);
        if (!valid || (level == 3 && !not_block) ||
            (level < 3 && !not_block && !block_allowed(&c, level)))
            return false;
        bool last = level == 3 || !not_block;
        uint64_t to = output_address(&c, d, last ? low : c.granule);
        *fsc = code(ADDRESS_SIZE, level);
        if (c.output < 52 && to >> c.output)
            return false;
        if (!last) {
            read_only |= !c.no_hierarchy && d >> 62 & 1; /* APTable[1] */
            table = to;
            top = low;
            continue;
        }
        *fsc = code(ACCESS_FLAG, level);
        if (!(d >> 10 & 1) && !c.af)
            return false;
        /* AP[2], unless permissions are indirect (FEAT_S1PIE) or hardware sets the dirty state. */
        bool indirect = r->tcr2 >> 1 & 1, writable = !(d >> 7 & 1) || (c.dirty && d >> 51 & 1);
        *fsc = code(PERMISSION, level);
        if (!indirect && (read_only || !writable))
            return false;
        *pa = to | (va & (BITS(63, 0) >> (64 - low)));
        return true;
    }
}
