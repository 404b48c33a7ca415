#include "origins.h"

#include <string.h>

void origins_clear(struct origins *o)
{
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        ids_clear(&o->ids[from]);
    o->thread = o->stack = 0;
    memset(o->code, 0, sizeof o->code);
    memset(o->outcome, 0, sizeof o->outcome);
}

void origins_free(struct origins *o)
{
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        ids_free(&o->ids[from]);
}
