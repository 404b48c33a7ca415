/*
 * Maps levels to the Data Source values of the CPU: reads the rows of arch/datasource.def
 * backwards.
 */
#include "uarch/uarch.h"

/* Origins of data, in the names of the rows; 0 is none. */
enum origin {
    PLACE_NONE,
    PLACE_L1,
    PLACE_L2,
    PLACE_PEER_CORE,
    PLACE_LOCAL_CLUSTER,
    PLACE_L3,
    PLACE_SYSTEM_CACHE,
    PLACE_PEER_CLUSTER,
    PLACE_REMOTE,
    PLACE_DRAM,
    PLACE_REMOTE_DRAM,
    PLACE_IO
};

static const struct row {
    uint8_t sources, origin, modified, value;
} rows[] = {
#define SOURCE(table, value, source, modified, level, number, snoop, snoopx, remote)               \
    {ARCH_SOURCES_##table, PLACE_##source, modified, value},
#include "arch/datasource.def"
};

/* The row for an origin; one for modified lines only if requested. */
static const struct row *find(enum arch_sources sources, enum origin origin, bool modified)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].sources == sources && rows[i].origin == origin && rows[i].modified == modified)
            return &rows[i];
    return NULL;
}

uint8_t uarch_source(enum arch_sources sources, enum uarch_level level, uarch_result r)
{
    /* For CPUs that do not distinguish two origins: the first if it has a row, else the second. */
    static const uint8_t origins[SPEX_UARCH_LEVEL_COUNT][2] = {
        [SPEX_UARCH_L1] = {PLACE_L1},
        [SPEX_UARCH_L2] = {PLACE_L2},
        [SPEX_UARCH_LLC] = {PLACE_SYSTEM_CACHE, PLACE_L3},
        [SPEX_UARCH_PEER] = {PLACE_PEER_CORE},
        [SPEX_UARCH_FAR] = {PLACE_PEER_CLUSTER, PLACE_PEER_CORE},
        [SPEX_UARCH_REMOTE] = {PLACE_REMOTE},
        [SPEX_UARCH_DRAM] = {PLACE_DRAM},
    };
    static const uint8_t remote[2] = {PLACE_REMOTE_DRAM, PLACE_REMOTE};
    const uint8_t *choice = origins[level];
    if (r & SPEX_UARCH_SOCKET)
        choice = level == SPEX_UARCH_DRAM ? remote : origins[SPEX_UARCH_REMOTE];
    for (unsigned i = 0; i < 2; i++) {
        const struct row *row = NULL;
        if (r & SPEX_UARCH_MODIFIED && level != SPEX_UARCH_L1)
            row = find(sources, choice[i], true);
        if (!row)
            row = find(sources, choice[i], false);
        if (row)
            return row->value;
    }
    return 0;
}
