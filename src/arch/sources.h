/*
 * Which table of Data Source values a CPU has (D18.2.4 leaves them to the implementation). The
 * tables are in datasource.def: analysis reads records by the same rows that the model writes
 * by. No allocation, no state.
 */
#ifndef ARCH_SOURCES_H
#define ARCH_SOURCES_H

#include <spex/base.h>

enum arch_sources {
    ARCH_SOURCES_NONE,
    ARCH_SOURCES_COMMON, /* Arm's cores */
    ARCH_SOURCES_AMPERE,
    ARCH_SOURCES_HISI
};

/* MIDR_EL1: Implementer <31:24>, PartNum <15:4>; Variant and Revision do not matter. */
#define ARCH_MIDR_KEY(implementer, part) ((uint32_t)(implementer) << 24 | (uint32_t)(part) << 4)

/* The table of the core with this MIDR_EL1; Arm's own table for a core without a public one. */
enum arch_sources arch_sources_of(uint64_t midr);
const char *arch_sources_name(enum arch_sources sources); /* "common" */

#endif
