/*
 * The time that guest clocks show under --deterministic: modelled time, at 1 GHz, so that it does
 * not depend on the host. Wall clocks begin at a fixed date, the others at the start of the run.
 * All we rely on in QEMU is which functions of the C library it imports.
 */
#ifndef GUEST_CLOCK_H
#define GUEST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;

/* Call it once. */
void clock_open(void);
/* Does the instruction read the system counter? Then call clock_counter before it. */
bool clock_reads_counter(uint32_t word);
void clock_counter(unsigned vcpu, void *unused);
/* Called when a system call begins and ends: replaces the host's times in its results. */
void clock_call(struct vcpu *v, int64_t number);
void clock_return(struct vcpu *v, int64_t number, int64_t result);
/* True if ns is a time of the wall clock, not of a clock that began with the run. */
bool clock_is_wall(uint64_t ns);
/* When the clock `id` shows ns, in modelled time. False for a clock of CPU time. */
bool clock_when(int64_t id, uint64_t ns, uint64_t *cycles);

#endif
