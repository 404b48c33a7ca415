/*
 * System registers of the SPU: encodings, names, fields (Arm ARM D24.7, D17).
 *
 * Everything is made from the rows of sysreg.def. SPEX_PMSCR_EL1 is the encoding of a
 * register, SPEX_PMSCR_EL1_TS the position of a field in it. Plain constants and pure
 * functions; no state.
 */
#ifndef SPEX_SYSREG_H
#define SPEX_SYSREG_H

#include <spex/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* op0:op1:CRn:CRm:op2 in 16 bits, the layout that KVM uses for register ids. */
#define SPEX_SYSREG(op0, op1, crn, crm, op2)                                                       \
    ((op0) << 14 | (op1) << 11 | (crn) << 7 | (crm) << 3 | (op2))

enum spex_sysreg {
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text)                                       \
    SPEX_##name = SPEX_SYSREG(op0, op1, crn, crm, op2),
#include <spex/sysreg.def>
};

/* Fields: hi << 8 | lo. */
enum spex_sysreg_field {
#define SPEX_REG_FIELD(reg, hi, lo, name) SPEX_##reg##_##name = (hi) << 8 | (lo),
#include <spex/sysreg.def>
};

#define SPEX_FIELD_LO(field) ((unsigned)(field)&63)
#define SPEX_FIELD_HI(field) ((unsigned)(field) >> 8)
#define SPEX_FIELD_MASK(field)                                                                     \
    ((~UINT64_C(0) >> (63 - SPEX_FIELD_HI(field))) & (~UINT64_C(0) << SPEX_FIELD_LO(field)))

static inline uint64_t spex_field_get(uint64_t value, enum spex_sysreg_field field)
{
    return (value & SPEX_FIELD_MASK(field)) >> SPEX_FIELD_LO(field);
}

static inline uint64_t spex_field_set(uint64_t value, enum spex_sysreg_field field, uint64_t to)
{
    return (value & ~SPEX_FIELD_MASK(field)) |
           ((to << SPEX_FIELD_LO(field)) & SPEX_FIELD_MASK(field));
}

/* "PMSCR_EL1", or NULL for an encoding that sysreg.def does not have. */
const char *spex_sysreg_name(unsigned encoding); /* since 1.0 */

/* By name, case ignored. SPEX_INVALID if there is none. */
enum spex_status spex_sysreg_find(const char *name, unsigned *encoding); /* since 1.0 */

/* The register at index in sysreg.def, or 0 past the last. */
unsigned spex_sysreg_at(size_t index); /* since 1.0 */

/* The field at index of a register (from bit 63 down), or NULL past the last. Since 1.0. */
const char *spex_sysreg_field_at(unsigned encoding, size_t index, enum spex_sysreg_field *field);

/* ESR_ELx of a trapped MRS (read) or MSR: EC 0x18, IL, ISS. */
uint64_t spex_sysreg_syndrome(unsigned encoding, unsigned rt, bool read); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
