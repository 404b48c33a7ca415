/*
 * Which instruction another one waits for, as far as the code shows it: in its block, the last one
 * before it that writes a register it needs; in a loop of one block, also one in the previous
 * iteration.
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
    bool ends; /* a branch, call or return: its block ends after it */
};

/* Parses the disassembly of an instruction; an unknown one reads and writes nothing. */
void code_use(const char *text, struct code_use *use);

struct code_block { /* instructions of a function, one after the other */
    const struct code_use *uses;
    const uint32_t *words;
    size_t count;
    uint64_t address;   /* address of the first instruction */
    const double *cost; /* one per instruction; 0: unknown */
    bool *starts;       /* one per instruction: a block begins there */
};
/* Fills in starts from the other members. */
void code_find_blocks(struct code_block *code);
/*
 * Of the instructions that make what `at` needs, the one with the highest cost, or the nearest if
 * they are equal; count if there is none.
 */
size_t code_waits_for(const struct code_block *code, size_t at);
/*
 * Instructions in a block execute equally often, so their samples differ only by chance. Returns
 * how many never were sampled although an instruction before them in their block often was. A block
 * counts only if that is true of at least a third of it: two instructions may be one operation.
 * samples: those of each instruction.
 */
size_t code_never_sampled(const struct code_block *code, const uint64_t *samples);

#endif
