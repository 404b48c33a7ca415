/*
 * The process's program as Linux's loader describes it: the auxiliary vector, which follows
 * arguments and environment at the stack pointer when the first instruction is executed.
 */
#ifndef GUEST_PROGRAM_H
#define GUEST_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct program {
    char path[PATH_MAX]; /* absolute, or empty */
    uint64_t start, end,
        entry; /* bounds of its code; entry: the first instruction, perhaps of the dynamic linker */
    uint64_t vdso; /* address, or 0 */
    bool sve, sme; /* does the CPU have them? */
};

/* pc, sp: at the first instruction. registers: memory and sp can be read. */
void program_find(struct program *program, uint64_t pc, uint64_t sp, bool registers);

#endif
