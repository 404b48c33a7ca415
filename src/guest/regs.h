/*
 * Guest registers at the entry of a block, in user mode. The plugin API shows them
 * from version 2 on; QEMU 6.2 to 8.2 as Debian builds it exports the function that
 * its debugger interface uses. Nothing depends on structures of QEMU.
 */
#ifndef GUEST_REGS_H
#define GUEST_REGS_H

#include <stdbool.h>
#include <stdint.h>

bool regs_open(void); /* false: this QEMU does not show them */
/* 0..30 X, 31 SP, 32 PC. Exact at the entry of a block only. */
uint64_t regs_read(unsigned vcpu, unsigned reg);
/*
 * SVE registers; exact also before an SVE load or store, like those above. False if this QEMU
 * does not show them, or its CPU has none. Once, at the entry of the first block.
 */
enum { REGS_VECTOR = 256 }; /* bytes of the largest one */
bool regs_open_vectors(unsigned vcpu);
unsigned regs_vector_length(unsigned vcpu); /* bytes; 0: no SVE */
void regs_vector(unsigned vcpu, unsigned reg, uint8_t bytes[REGS_VECTOR]);
void regs_predicate(unsigned vcpu, unsigned reg, uint8_t bytes[REGS_VECTOR / 8]);
/* Where guest memory lies in this process. */
uint64_t regs_host(uint64_t address);
/*
 * Where QEMU keeps X0 to X30 and SP of a vCPU, one after the other: found by what is there, so that
 * nothing is taken for granted. The place of SP, exact at the entry of a block; NULL if it is not
 * found now.
 */
const uint64_t *regs_stack_pointer(unsigned vcpu);
/* Copies guest memory; false if it is not mapped. */
bool regs_memory(uint64_t address, void *to, unsigned size);
/* The area of guest memory that address lies in, as the host has mapped it. */
bool regs_area(uint64_t address, uint64_t *start, uint64_t *end);

#endif
