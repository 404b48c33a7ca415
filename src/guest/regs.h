/*
 * Guest registers and memory in user mode. The plugin interface shows registers from version 2 on
 * and memory from version 4 on. QEMU 6.2 to 8.2, as Debian builds it, exports the function that its
 * debugger interface uses. Nothing depends on QEMU's structures.
 */
#ifndef GUEST_REGS_H
#define GUEST_REGS_H

#include "qemu_plugin.h"

#include <stdbool.h>
#include <stdint.h>

/* Called when the plugin is installed. api: the version of its interface. False if this QEMU does
 * not show registers. */
bool regs_open(unsigned api);
/* Called on the first thread; pc: where the first block is. */
bool regs_find(uint64_t pc);
/* Replaces these two in system mode, on a vCPU's thread: uses only the official interface. */
bool regs_find_system(unsigned api);
/* The flags for callbacks that read registers. */
enum qemu_plugin_cb_flags regs_flags(void);
/*
 * Are registers exact in every such callback, or only at the entry of a block and before SVE
 * accesses?
 */
bool regs_anywhere(void);
/* 0..30 X, 31 SP, 32 PC; for the thread's own vCPU. Exact at the entry of a block only. */
uint64_t regs_read(unsigned vcpu, unsigned reg);
/*
 * SVE registers, exact at the same points as those above and also before an SVE load or store.
 * False if this QEMU does not show them or its CPU has none. Call it once, at the entry of the
 * first block.
 */
enum { REGS_VECTOR = 256 }; /* bytes of the largest one */
bool regs_open_vectors(unsigned vcpu);
unsigned regs_vector_length(void); /* bytes, for the thread's own vCPU as it is now; 0: no SVE */
void regs_vector(unsigned vcpu, unsigned reg, uint8_t bytes[REGS_VECTOR]);
void regs_predicate(unsigned vcpu, unsigned reg, uint8_t bytes[REGS_VECTOR / 8]);
/* The address in this process of a guest address. */
uint64_t regs_host(uint64_t address);
/* X29, X30 and SP, for versions of QEMU in which their location is not known. */
struct regs_copy {
    uint64_t x29, x30, sp;
};
/*
 * Finds where QEMU keeps X0 to X30 and SP of a vCPU, one after the other. It searches for their
 * contents, so that no layout is assumed. Returns the place of SP, exact at the entry of a block;
 * NULL if it was not found this time.
 */
const uint64_t *regs_stack_pointer(unsigned vcpu);
bool regs_places(void); /* can their location be found? */
/* Copies guest memory; false if it is not mapped. */
bool regs_memory(uint64_t address, void *to, unsigned size);
/* The area of guest memory that contains address, as mapped by the host. */
bool regs_area(uint64_t address, uint64_t *start, uint64_t *end);

#endif
