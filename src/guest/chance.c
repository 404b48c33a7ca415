#include "chance.h"

#include "plugin.h"
#include "regs.h"

#include "base/rng.h"

#include <string.h>

void chance_fill(uint64_t address, uint64_t size)
{
    static uint64_t calls;
    const uint64_t call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    struct rng rng = {plugin.run->seed ^ (uint64_t)plugin.user.process << 48 ^
                      call * UINT64_C(0xd1342543de82ef95)};
    for (uint64_t at = 0; at < size; at += 8) {
        uint64_t word = rng_next(&rng);
        memcpy((void *)(uintptr_t)regs_host(address + at), &word, size - at < 8 ? size - at : 8);
    }
}
