/*
 * Which instruction another one waits for, as far as the code shows it: the last before it in its
 * block that makes a register it needs, in a loop of one block also those of the round before.
 */
#ifndef CLI_WAITS_H
#define CLI_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers: x0 to x30 and sp are bits 0 to 31, the vector registers 32 to 63. */
struct code_use {
    uint64_t reads, writes;
    bool reads_flags, writes_flags;
    bool ends; /* a branch, a call, a return: its block ends after it */
};

/* From the disassembly of an instruction; an unknown one reads and writes nothing. */
void code_use(const char *text, struct code_use *use);

struct code_block { /* instructions of a function, one after the other */
    const struct code_use *uses;
    const uint32_t *words;
    size_t count;
    uint64_t address;   /* address of the first instruction */
    const double *cost; /* one per instruction; 0: unknown */
    bool *starts;       /* one per instruction: a block begins there */
};
/* Fills starts from the rest. */
void code_find_blocks(struct code_block *code);
/*
 * The costliest of the instructions that make what `at` needs, the nearest if they are equal; count
 * if there is none.
 */
size_t code_waits_for(const struct code_block *code, size_t at);
/*
 * Instructions of a block are executed equally often, so their samples are alike but for chance.
 * Where they are not: how many were never sampled, though one before them in their block was often.
 * Blocks of which that is true of less than a third do not count: two instructions may be one
 * operation. samples: of each instruction.
 */
size_t code_never_sampled(const struct code_block *code, const uint64_t *samples);

#endif
