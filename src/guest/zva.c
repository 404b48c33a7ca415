#include "zva.h"

#include "need.h"

#include <stdlib.h>

unsigned zva_find(const uint32_t *words, const struct spex_op *ops, size_t count, struct zva **list)
{
    unsigned n = 0;
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        most += ops[i].kind == SPEX_OP_DC_ZVA;
    *list = most ? need(malloc(most * sizeof **list)) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind != SPEX_OP_DC_ZVA)
            continue;
        struct traced t = address_trace(words, ops, i);
        if (t.known)
            (*list)[n++] = (struct zva){(uint32_t)i, t};
    }
    return n;
}
