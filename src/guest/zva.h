/*
 * DC ZVA in a block: QEMU makes no memory callback for it, but its address often
 * follows from a register at the entry of the block.
 */
#ifndef GUEST_ZVA_H
#define GUEST_ZVA_H

#include "address.h"

struct zva {
    uint32_t index;        /* index of the instruction in its block */
    struct traced address; /* its base register, at the entry; 31 is SP */
};

/* Finds the DC ZVA of a block whose address can be computed, in an allocated array; returns how
 * many. */
unsigned zva_find(const uint32_t *words, const struct spex_op *ops, size_t count,
                  struct zva **list);

#endif
