#include "step.h"

#include <spex/a64.h>

#include <string.h>

#define IS(word, mask, value) (((word) & (mask)) == (value))

static unsigned field(uint32_t word, unsigned high, unsigned low)
{
    return word >> low & ((1u << (high - low + 1)) - 1);
}

static int64_t signed_field(uint32_t word, unsigned high, unsigned low)
{
    return (int64_t)((uint64_t)field(word, high, low) << (63 - (high - low))) >>
           (63 - (high - low));
}

/* Register 31 is XZR here: writing it has no effect. */
static uint8_t not_zero(unsigned reg)
{
    return reg == 31 ? STEP_NONE : (uint8_t)reg;
}

static uint32_t bit_of(uint8_t reg)
{
    return reg < STEP_REGS ? 1u << reg : 0;
}

static void memory(struct step *s, uint32_t word, unsigned size, unsigned count)
{
    s->kind = STEP_MEMORY;
    s->rn = (uint8_t)field(word, 9, 5);
    s->rd = s->rm = s->index = STEP_NONE;
    s->size = (uint8_t)size;
    s->count = (uint8_t)count;
}

/* LD1 to LD4, ST1 to ST4. */
static void decode_structure(uint32_t w, struct step *s)
{
    static const uint8_t registers[16] = {
        [0] = 4, [2] = 4, [4] = 3, [6] = 3, [7] = 1, [8] = 2, [10] = 2};
    if (!(w & 1u << 24)) {
        unsigned each = w & 1u << 30 ? 16 : 8;
        memory(s, w, each, registers[field(w, 15, 12)]);
    } else {
        unsigned code = field(w, 15, 13), scale = code >> 1;
        if (scale == 3)
            scale = field(w, 11, 10);
        else if (scale == 2 && field(w, 11, 10) & 1)
            scale = 3;
        memory(s, w, 1u << scale, ((code & 1) << 1 | field(w, 21, 21)) + 1);
    }
    if (w & 1u << 23) {
        s->writeback = true;
        s->change = field(w, 20, 16) == 31 ? s->size * s->count : INT64_MIN;
    }
}

/* Exclusives, LDAR, STLR, CAS, CASP. */
static void decode_exclusive(uint32_t w, struct step *s)
{
    bool ordered = w & 1u << 23, load = w & 1u << 22, pair = w & 1u << 21;
    unsigned size = field(w, 31, 30);
    uint8_t rs = (uint8_t)field(w, 20, 16), rt = not_zero(field(w, 4, 0));
    memory(s, w, 1u << size, 1);
    if (ordered && pair) { /* CAS */
        s->rd = not_zero(rs);
    } else if (!ordered && pair && !(w & 1u << 31)) { /* CASP */
        memory(s, w, size ? 8 : 4, 2);
        s->rd = not_zero(rs);
        s->rm = not_zero(rs | 1);
    } else {
        if (!ordered && pair) {
            memory(s, w, size & 1 ? 8 : 4, 2);
            s->rm = load ? not_zero(field(w, 14, 10)) : STEP_NONE;
        }
        s->rd = load ? rt : STEP_NONE;
        if (!ordered && !load)
            s->kills = bit_of(not_zero(rs));
    }
}

static void decode_pair(uint32_t w, struct step *s)
{
    unsigned code = field(w, 31, 30), mode = field(w, 24, 23);
    bool vector = w & 1u << 26, load = w & 1u << 22;
    unsigned size = vector ? 4u << code : code & 2 ? 8 : 4;
    int64_t offset = signed_field(w, 21, 15) * (int64_t)size;
    memory(s, w, size, 2);
    if (load && !vector) {
        s->rd = not_zero(field(w, 4, 0));
        s->rm = not_zero(field(w, 14, 10));
    }
    s->writeback = mode & 1;
    s->change = mode & 1 ? offset : 0;
    s->offset = mode == 1 ? 0 : offset;
}

/* All loads and stores of a single register. */
static void decode_single(uint32_t w, struct step *s)
{
    bool vector = w & 1u << 26;
    unsigned code = field(w, 23, 22), scale = field(w, 31, 30);
    if (vector && code & 2)
        scale = 4;
    memory(s, w, 1u << scale, 1);
    bool load = vector ? code & 1 : code;
    if (!vector && scale == 3 && code == 2)
        load = false; /* PRFM */
    if (load && !vector)
        s->rd = not_zero(field(w, 4, 0));
    if (w & 1u << 24) {
        s->offset = (int64_t)((uint64_t)field(w, 21, 10) << scale);
    } else if (!(w & 1u << 21)) {
        int64_t offset = signed_field(w, 20, 12);
        unsigned mode = field(w, 11, 10);
        s->writeback = mode & 1;
        s->change = mode & 1 ? offset : 0;
        s->offset = mode == 1 ? 0 : offset;
    } else if (field(w, 11, 10) == 2) {
        s->index = not_zero(field(w, 20, 16));
        s->shift = (uint8_t)(w & 1u << 12 ? scale : 0);
    } else if (field(w, 11, 10) == 0) { /* LDADD and the like, SWP, LDAPR: old value into Rt */
        s->rd = vector ? STEP_NONE : not_zero(field(w, 4, 0));
    } else { /* LDRAA, LDRAB */
        int64_t offset = (signed_field(w, 22, 22) * 512 + (int64_t)field(w, 20, 12)) * 8;
        s->rd = not_zero(field(w, 4, 0));
        s->offset = offset;
        s->writeback = field(w, 11, 10) == 3;
        s->change = offset;
    }
}

static void decode_memory(uint32_t w, uint64_t address, struct step *s)
{
    if (IS(w, 0xbe000000, 0x0c000000))
        decode_structure(w, s);
    else if (IS(w, 0x3f000000, 0x08000000))
        decode_exclusive(w, s);
    else if (IS(w, 0x3f200c00, 0x19000000)) { /* LDAPUR, STLUR */
        memory(s, w, 1u << field(w, 31, 30), 1);
        s->offset = signed_field(w, 20, 12);
        s->rd = field(w, 23, 22) ? not_zero(field(w, 4, 0)) : STEP_NONE;
    } else if (IS(w, 0x3b000000, 0x18000000)) { /* LDR (literal) */
        unsigned code = field(w, 31, 30);
        bool vector = w & 1u << 26;
        memory(s, w, vector ? 4u << code : code == 1 ? 8 : 4, 1);
        s->literal = true;
        s->value = address + (uint64_t)(signed_field(w, 23, 5) * 4);
        s->rd = vector || code == 3 ? STEP_NONE : not_zero(field(w, 4, 0));
    } else if (IS(w, 0x3a000000, 0x28000000))
        decode_pair(w, s);
    else if (IS(w, 0x3a000000, 0x38000000))
        decode_single(w, s);
    else
        s->kills = 1u << field(w, 4, 0) | 1u << field(w, 9, 5); /* tags, MOPS */
}

static void decode_immediate(uint32_t w, uint64_t address, struct step *s)
{
    uint8_t rd = (uint8_t)field(w, 4, 0), rn = (uint8_t)field(w, 9, 5);
    if (IS(w, 0x1f000000, 0x10000000)) {
        int64_t value = signed_field(w, 23, 5) * 4 + (int64_t)field(w, 30, 29);
        s->kind = STEP_SET;
        s->rd = not_zero(rd);
        s->value = w >> 31 ? (address & ~UINT64_C(0xfff)) + ((uint64_t)value << 12)
                           : address + (uint64_t)value;
    } else if (IS(w, 0x9f800000, 0x91000000)) {
        uint64_t value = (uint64_t)field(w, 21, 10) << (w & 1u << 22 ? 12 : 0);
        s->kind = STEP_ADD;
        s->rd = w & 1u << 29 ? not_zero(rd) : rd;
        s->rn = rn;
        s->value = w & 1u << 30 ? 0 - value : value;
    } else if (IS(w, 0x1f800000, 0x12000000) && field(w, 30, 29) != 3) {
        s->kills = 1u << rd; /* and sp, x9, #-64 */
    } else if (IS(w, 0xffc00000, 0xd3400000) && field(w, 15, 10) != 63 &&
               field(w, 21, 16) == field(w, 15, 10) + 1) { /* LSL */
        s->kind = STEP_SHIFT;
        s->rd = not_zero(rd);
        s->rn = not_zero(rn);
        s->shift = (uint8_t)(63 - field(w, 15, 10));
    } else if (IS(w, 0xff800000, 0xf2800000)) { /* MOVK, of bits that were 0 */
        s->kind = STEP_ADD;
        s->rd = s->rn = not_zero(rd);
        s->value = (uint64_t)field(w, 20, 5) << (field(w, 22, 21) * 16);
    } else { /* MOVZ, SXTW, UBFIZ, EXTR and the like */
        if (IS(w, 0xff800000, 0xd2800000))
            s->value = (uint64_t)field(w, 20, 5) << (field(w, 22, 21) * 16);
        s->kind = STEP_NUMBER;
        s->rd = not_zero(rd);
    }
}

static void decode_register(uint32_t w, struct step *s)
{
    uint8_t rd = not_zero(field(w, 4, 0)), rn = (uint8_t)field(w, 9, 5),
            rm = not_zero(field(w, 20, 16));
    bool sub = w & 1u << 30, extended = IS(w, 0x1fe00000, 0x0b200000);
    *s = (struct step){.kind = STEP_OTHER, .rd = rd, .rn = not_zero(rn), .rm = rm};
    if (IS(w, 0xffe0ffe0, 0xaa0003e0)) { /* MOV */
        s->kind = STEP_ADD;
        s->rn = rm;
    } else if (w >> 31 && (IS(w, 0x1f200000, 0x0b000000) || extended)) {
        s->kind = sub ? STEP_LESS : STEP_SUM;
        s->shift = (uint8_t)(extended                ? field(w, 12, 10)
                             : field(w, 23, 22) == 0 ? field(w, 15, 10)
                                                     : 0);
        if (extended) {
            s->rn = rn;
            s->rd = w & 1u << 29 ? rd : (uint8_t)field(w, 4, 0);
        }
    } else if (IS(w, 0xffe00c00, 0x9a800000)) { /* CSEL */
        s->kind = STEP_EITHER;
    } else if (IS(w, 0xff608000, 0x9b200000) || IS(w, 0xffe08000, 0x9b000000)) { /* MADD */
        s->kind = STEP_SUM;
        s->rn = not_zero(field(w, 14, 10));
        s->rm = STEP_NONE;
    } else if (!IS(w, 0x1fe00000, 0x1a400000)) { /* CCMP writes flags alone */
        s->kills = bit_of(rd);
    }
}

static void decode_branch(uint32_t w, uint64_t address, struct step *s)
{
    if (spex_a64_target(w, address, &s->value)) {
        s->kind = IS(w, 0xfc000000, 0x14000000)   ? STEP_JUMP
                  : IS(w, 0xfc000000, 0x94000000) ? STEP_CALL
                                                  : STEP_BRANCH;
    } else if (IS(w, 0xfe000000, 0xd6000000)) {
        s->kind = (field(w, 24, 21) & 7) == 1 ? STEP_CALL : STEP_LEAVE;
    } else if (IS(w, 0xffffffe0, 0xd53bd040)) { /* MRS Xt, TPIDR_EL0 */
        s->kind = STEP_THREAD;
        s->rd = not_zero(field(w, 4, 0));
    } else if (IS(w, 0xfff00000, 0xd5300000) || IS(w, 0xfff80000, 0xd5280000)) {
        s->kills = bit_of(not_zero(field(w, 4, 0))); /* MRS, SYSL */
    } else if (IS(w, 0xff00001f, 0xd4000001)) {      /* SVC */
        s->kills = 1;
    } else if (IS(w, 0xff00001f, 0xd4200000)) { /* BRK */
        s->kind = STEP_LEAVE;
    }
}

/*
 * SVE: loads and stores count with their scalar base; any other instruction may write a general
 * register.
 */
static void decode_vector_length(uint32_t w, struct step *s)
{
    if (!IS(w, 0x9e000000, 0x84000000)) {
        s->kills = bit_of(not_zero(field(w, 4, 0)));
        return;
    }
    bool vector_base = IS(w, 0xbe608000, 0x84208000) || IS(w, 0xfe40e000, 0xe440a000);
    memory(s, w, 16, 1);
    if (vector_base)
        s->rn = STEP_NONE;
    s->index = s->rn; /* by an unknown distance */
}

void step_decode(uint32_t w, uint64_t address, struct step *s)
{
    *s = (struct step){.kind = STEP_OTHER, .rd = STEP_NONE, .rn = STEP_NONE, .rm = STEP_NONE};
    if (IS(w, 0x1e000000, 0x04000000))
        decode_vector_length(w, s);
    else if (IS(w, 0x0a000000, 0x08000000))
        decode_memory(w, address, s);
    else if (IS(w, 0x1c000000, 0x10000000))
        decode_immediate(w, address, s);
    else if (IS(w, 0x1c000000, 0x14000000))
        decode_branch(w, address, s);
    else if (IS(w, 0x0e000000, 0x0a000000))
        decode_register(w, s);
    else if ((IS(w, 0x5f20fc00, 0x1e200000) && !(1u << field(w, 18, 16) & 0x8c)) ||
             IS(w, 0xbfe0ec00, 0x0e002c00))
        s->kills = bit_of(not_zero(field(w, 4, 0))); /* FCVTZS, FMOV, UMOV, SMOV; not SCVTF */
    if (s->kind != STEP_MEMORY)
        s->index = STEP_NONE;
}
