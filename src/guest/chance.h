/* Random bytes for the guest under --deterministic: they depend only on the seed. */
#ifndef GUEST_CHANCE_H
#define GUEST_CHANCE_H

#include <stdint.h>

/* Replaces what getrandom() wrote to this memory of the guest. */
void chance_fill(uint64_t address, uint64_t size);

#endif
