/* Payloads of the Operation Type packet as constants, from ops.def, for code that writes them. */
#ifndef WIRE_OPS_H
#define WIRE_OPS_H

#include <spex/wire.h>

#include "wire/rows.h"

/*
 * WIRE_OP_x: the payload of subclass x with all fields 0. WIRE_CLASS_x: its CLASS.
 * WIRE_OP_x_FIELD: the bits of a field, 0 if the subclass does not have it. WIRE_FIXED_OP_x:
 * all other bits.
 */
enum {
#define OP(op_class, subclass, b7, b6, b5, b4, b3, b2, b1, b0, name)                               \
    WIRE_OP_##subclass = ROW_VALUE(b7, b6, b5, b4, b3, b2, b1, b0),                                \
    WIRE_FIXED_OP_##subclass = ROW_MASK(b7, b6, b5, b4, b3, b2, b1, b0),                           \
    WIRE_CLASS_##subclass = SPEX_CLASS_##op_class,                                                 \
    WIRE_OP_##subclass##_ASE = ROW_BITS('a', b7, b6, b5, b4, b3, b2, b1, b0),                      \
    WIRE_OP_##subclass##_FP = ROW_BITS('f', b7, b6, b5, b4, b3, b2, b1, b0),                       \
    WIRE_OP_##subclass##_COND = ROW_BITS('c', b7, b6, b5, b4, b3, b2, b1, b0),                     \
    WIRE_OP_##subclass##_EVL = ROW_BITS('e', b7, b6, b5, b4, b3, b2, b1, b0),                      \
    WIRE_OP_##subclass##_ETS = ROW_BITS('t', b7, b6, b5, b4, b3, b2, b1, b0),                      \
    WIRE_OP_##subclass##_PRED = ROW_BITS('p', b7, b6, b5, b4, b3, b2, b1, b0),                     \
    WIRE_OP_##subclass##_LDST = ROW_BITS('l', b7, b6, b5, b4, b3, b2, b1, b0),                     \
    WIRE_OP_##subclass##_AR = ROW_BITS('r', b7, b6, b5, b4, b3, b2, b1, b0),                       \
    WIRE_OP_##subclass##_EXCL = ROW_BITS('x', b7, b6, b5, b4, b3, b2, b1, b0),                     \
    WIRE_OP_##subclass##_AT = ROW_BITS('m', b7, b6, b5, b4, b3, b2, b1, b0),                       \
    WIRE_OP_##subclass##_SG = ROW_BITS('g', b7, b6, b5, b4, b3, b2, b1, b0),                       \
    WIRE_OP_##subclass##_COMM = ROW_BITS('o', b7, b6, b5, b4, b3, b2, b1, b0),                     \
    WIRE_OP_##subclass##_CR = ROW_BITS('u', b7, b6, b5, b4, b3, b2, b1, b0),                       \
    WIRE_OP_##subclass##_GCS = ROW_BITS('k', b7, b6, b5, b4, b3, b2, b1, b0),                      \
    WIRE_OP_##subclass##_IND = ROW_BITS('d', b7, b6, b5, b4, b3, b2, b1, b0),
#include "wire/ops.def"
};

/* Spreads the low bits of value over the bits of mask. */
static inline unsigned wire_scatter(unsigned value, unsigned mask)
{
    unsigned lowest = mask & -mask, payload = 0;
    if (((mask + lowest) & mask) == 0) /* mask is one run of bits */
        return value * lowest & mask;
    for (; mask; mask &= mask - 1, value >>= 1)
        payload |= (value & 1) << __builtin_ctz(mask);
    return payload;
}

/* A field of a payload. */
#define WIRE_OP_FIELD(subclass, field, value) wire_scatter(value, WIRE_OP_##subclass##_##field)

#endif
