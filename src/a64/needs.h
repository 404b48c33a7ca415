/* Which instructions need a feature that some preset's CPU lacks. */
#ifndef A64_NEEDS_H
#define A64_NEEDS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The feature that an instruction needs if not every preset's CPU has it, such as "FEAT_SVE",
 * and the first preset that has it, or one of these two if none has. False for all other
 * instructions.
 */
#define A64_MAX "max"     /* QEMU 7.2's CPU `max`, which has every feature QEMU knows */
#define A64_NEWER "newer" /* CPU `max` of a later QEMU */
struct a64_need {
    const char *feature, *from;
};
bool a64_needs(uint32_t insn, struct a64_need *need);

#endif
