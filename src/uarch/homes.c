/*
 * The socket that a page of memory belongs to: as in Linux, that of the core that touched it first.
 */
#include <stdlib.h>

#include "uarch/uarch.h"

static size_t slot_of(const struct uarch_homes *homes, uint64_t page)
{
    size_t i = (size_t)(page * 0x9e3779b97f4a7c15ull >> 20) & (homes->size - 1);
    while (homes->page[i] && homes->page[i] >> 1 != page + 1)
        i = (i + 1) & (homes->size - 1);
    return i;
}

static bool grow(struct uarch_homes *homes)
{
    struct uarch_homes more = {.size = homes->size ? 2 * homes->size : 4096, .used = homes->used};
    more.page = calloc(more.size, sizeof *more.page);
    if (!more.page)
        return false;
    for (size_t i = 0; i < homes->size; i++)
        if (homes->page[i])
            more.page[slot_of(&more, (homes->page[i] >> 1) - 1)] = homes->page[i];
    free(homes->page);
    homes->page = more.page;
    homes->size = more.size;
    return true;
}

unsigned uarch_home(struct uarch_homes *homes, uint64_t page, unsigned socket)
{
    unsigned home = socket;
    if (2 * homes->used < homes->size || grow(homes)) {
        uint64_t *word = &homes->page[slot_of(homes, page)];
        if (!*word) {
            *word = (page + 1) << 1 | socket;
            homes->used++;
        }
        home = *word & 1;
    }
    return home;
}
