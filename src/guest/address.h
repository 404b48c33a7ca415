/*
 * Where a load or store goes, as far as its encoding says: base and index
 * register, extension, immediate (Arm ARM C4.1, loads and stores).
 */
#ifndef GUEST_ADDRESS_H
#define GUEST_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { ADDRESS_NO_REG = 0xff };

struct address {
    uint8_t base;   /* 0..30, 31 is SP, or ADDRESS_NO_REG: relative to the PC */
    uint8_t index;  /* 0..30, or ADDRESS_NO_REG */
    uint8_t extend; /* option field of the index: 2 UXTW, 3 LSL, 6 SXTW, 7 SXTX */
    uint8_t shift;
    int64_t offset;
};

/* False for what it does not know (SVE, tags, memory copies and the like). */
bool address_decode(uint32_t insn, struct address *address);
uint64_t address_index(const struct address *address, uint64_t value);

#endif
