#include "arch/sources.h"

static const struct {
    uint32_t key;
    uint8_t sources;
} cpus[] = {
#define CPU(implementer, part, name, table, old)                                                   \
    {ARCH_MIDR_KEY(implementer, part), ARCH_SOURCES_##table},
#include "arch/datasource.def"
};

enum arch_sources arch_sources_of(uint64_t midr)
{
    uint32_t key = (uint32_t)midr & ARCH_MIDR_KEY(0xff, 0xfff);
    for (size_t i = 0; i < sizeof cpus / sizeof cpus[0]; i++)
        if (cpus[i].key == key && cpus[i].sources)
            return (enum arch_sources)cpus[i].sources;
    return ARCH_SOURCES_COMMON;
}

const char *arch_sources_name(enum arch_sources sources)
{
    static const char *const names[] = {"none", "common", "ampere", "hisi"};
    return names[sources];
}
