/*
 * A64 instruction words -> operations, with what the SPE needs to know of them (Arm ARM C4 for
 * the encodings, D17.5 and D17.6 for the meaning).
 *
 * One table, src/a64/a64.def, holds a row per encoding or group of encodings. Pure functions:
 * no state, no allocation, usable from any thread and with any engine.
 */
#ifndef SPEX_A64_H
#define SPEX_A64_H

#include <spex/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Effective vector lengths in bits, which the instruction word alone does not give. */
struct spex_a64_lengths {
    uint16_t vl;  /* SVE */
    uint16_t svl; /* Streaming SVE: SME's ZA and tiles */
};

/*
 * Fills *op for the instruction word. lengths NULL means 128 bits each. Returns SPEX_OK, or
 * SPEX_RESERVED for an unallocated word: *op is then the exception it raises
 * (SPEX_OP_EXCEPTION), as for UDF.
 *
 * The word does not say, so the engine decides: whether GCS is enabled (SPEX_OPF_GCS marks
 * operations that access it if so), whether NV2 turns a System register access into a memory
 * access, and PSTATE.SM.
 */
enum spex_status spex_a64_classify(uint32_t insn, const struct spex_a64_lengths *lengths,
                                   struct spex_op *op); /* since 1.4 */

/* Name of the row that matched, for example "LDADD", or NULL. For tests and listings. */
const char *spex_a64_name(uint32_t insn); /* since 1.4 */

/* Target of a direct branch at pc; false if the word is not one. */
bool spex_a64_target(uint32_t insn, uint64_t pc, uint64_t *target); /* since 1.4 */

#ifdef __cplusplus
}
#endif
#endif
