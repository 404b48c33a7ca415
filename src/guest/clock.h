/*
 * What clocks say under --deterministic: modelled time, at 1 GHz, so that what a program makes of
 * the time does not depend on the host. Wall clocks begin at a date of ours, the others with the
 * run. Of QEMU nothing is known but which functions of the C library it imports.
 */
#ifndef GUEST_CLOCK_H
#define GUEST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;

/* Once. */
void clock_open(void);
/* Does the instruction read the system counter? Then clock_counter is to be called before it. */
bool clock_reads_counter(uint32_t word);
void clock_counter(unsigned vcpu, void *unused);
/* A system call begins; and is over: other times are written in place of the host's. */
void clock_call(struct vcpu *v, int64_t number);
void clock_return(struct vcpu *v, int64_t number, int64_t result);
/* When this clock says so, in modelled time. False for one of CPU time. */
bool clock_is_wall(uint64_t ns); /* which says this, and not one that began with the run */
bool clock_when(int64_t id, uint64_t ns, uint64_t *cycles);

#endif
