#include "zva.h"

#include "need.h"

#include <stdlib.h>

unsigned zva_find(const uint32_t *words, const struct spex_op *ops, size_t count, struct zva **list)
{
    unsigned n = 0;
    *list = NULL;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind != SPEX_OP_DC_ZVA)
            continue;
        struct traced t = address_trace(words, ops, i);
        if (!t.known)
            continue;
        struct zva *more = need(realloc(*list, (n + 1) * sizeof *more));
        *list = more;
        more[n++] = (struct zva){(uint32_t)i, t};
    }
    return n;
}
