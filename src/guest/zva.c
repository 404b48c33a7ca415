#include "zva.h"

#include <stdlib.h>

static bool writes(const struct spex_op *op, unsigned reg)
{
    for (unsigned i = 0; i < sizeof op->dst; i++)
        if (op->dst[i] == reg)
            return true;
    return false;
}

/* Follows register *reg of instruction `at` back to the entry of the block. */
static bool trace_back(const uint32_t *words, const struct spex_op *ops, size_t at, unsigned *reg,
                       uint64_t *offset)
{
    *offset = 0;
    while (at-- > 0) {
        uint32_t w = words[at];
        if (!writes(&ops[at], *reg))
            continue;
        uint64_t immediate = (uint64_t)(w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0);
        if ((w & 0xff800000) == 0x91000000 || (w & 0xff800000) == 0xb1000000) { /* ADD(S) #imm */
            *offset += immediate;
            *reg = w >> 5 & 31;
        } else if ((w & 0xff800000) == 0xd1000000 || (w & 0xff800000) == 0xf1000000) { /* SUB(S) */
            *offset -= immediate;
            *reg = w >> 5 & 31;
        } else if ((w & 0xffe0ffe0) == 0xaa0003e0) { /* MOV Xd, Xm */
            *reg = w >> 16 & 31;
        } else {
            return false;
        }
    }
    return true;
}

unsigned zva_find(const uint32_t *words, const struct spex_op *ops, size_t count,
                  struct zva **list)
{
    unsigned n = 0;
    *list = NULL;
    for (size_t i = 0; i < count; i++) {
        unsigned reg = words[i] & 31;
        uint64_t offset;
        if (ops[i].kind != SPEX_OP_DC_ZVA || !trace_back(words, ops, i, &reg, &offset))
            continue;
        struct zva *more = realloc(*list, (n + 1) * sizeof *more);
        if (!more)
            abort();
        *list = more;
        more[n++] = (struct zva){(uint32_t)i, reg, offset};
    }
    return n;
}
