/*
 * The effect of one A64 instruction on the general registers, and the memory it uses, as far as
 * that matters for the types they point to (DDI 0487 C4.1).
 */
#ifndef ANALYSIS_STEP_H
#define ANALYSIS_STEP_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_SP = 31, STEP_REGS = 32, STEP_NONE = 32 };

enum step_kind {
    STEP_OTHER,  /* changes only the registers in kills */
    STEP_SET,    /* rd = value, an address relative to the instruction */
    STEP_ADD,    /* rd = rn + value; a copy too */
    STEP_SUM,    /* rd = rn + (rm << shift); for MADD rm, the product, is STEP_NONE */
    STEP_SHIFT,  /* rd = rn << shift */
    STEP_NUMBER, /* rd = value plus something that is not an address */
    STEP_LESS,   /* rd = rn - rm */
    STEP_EITHER, /* rd = rn or rm; STEP_NONE: zero */
    STEP_THREAD, /* rd = the thread pointer */
    STEP_MEMORY, /* loads into rd and rm, unless they are STEP_NONE */
    STEP_BRANCH, /* continues at value or at the next instruction */
    STEP_JUMP,   /* continues at value */
    STEP_CALL,   /* call to address `value`; 0: unknown */
    STEP_LEAVE,  /* a return, or a jump to an address in a register */
};

struct step {
    enum step_kind kind;
    uint8_t rd, rn, rm;
    uint64_t value;
    uint32_t kills; /* bit N: xN has another value afterwards; not for rd and rm of loads */
    uint8_t shift;
    /* memory: at rn + offset + (index << shift) */
    uint8_t index;
    int64_t offset;
    uint8_t size;   /* bytes of one register */
    uint8_t count;  /* number of registers */
    bool writeback; /* rn = rn + change; INT64_MIN: something unknown */
    int64_t change;
    bool literal; /* address is value; rn is unused */
};

void step_decode(uint32_t word, uint64_t address, struct step *step);

#endif
