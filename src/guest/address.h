/*
 * Where a load or store goes, according to its encoding: base and index register, extension,
 * immediate (Arm ARM C4.1, loads and stores).
 */
#ifndef GUEST_ADDRESS_H
#define GUEST_ADDRESS_H

#include <spex/op.h>

enum { ADDRESS_NO_REG = 0xff };

struct address {
    uint8_t base;   /* 0..30, 31 is SP, or ADDRESS_NO_REG: relative to the PC */
    uint8_t index;  /* 0..30, or ADDRESS_NO_REG */
    uint8_t extend; /* option field of the index: 2 UXTW, 3 LSL, 6 SXTW, 7 SXTX */
    uint8_t shift;
    int64_t offset;
};

uint64_t address_index(const struct address *address, uint64_t value);

/*
 * An address computed from registers at the entry of a block: ((base + before) & mask) +
 * from.offset, plus index + index_offset, extended.
 */
struct traced {
    bool known;
    struct address from; /* registers at the entry of the block */
    uint64_t before, mask, index_offset;
};

/*
 * The address of the general load or store, PRFM or DC ZVA at index `at` of a block. Follows each
 * register back through moves, additions of constants and, for the base, one mask.
 */
struct traced address_trace(const uint32_t *words, const struct spex_op *ops, size_t at);
/* The address, given the value of the base register at the entry. */
uint64_t address_base(const struct traced *traced, uint64_t value);

#endif
