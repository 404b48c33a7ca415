/* Thousands of call paths: eight functions call each other as the digits of a number say. */
#include <stdint.h>
#include <stdio.h>

static volatile uint64_t memory[1 << 16];
typedef void step(uint64_t);
step step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7;
static step *const steps[] = {step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7};

/* The work is behind the call, so that no call is a tail call. */
#define STEP(n)                                                                                    \
    __attribute__((noinline)) void step_##n(uint64_t digits)                                       \
    {                                                                                              \
        if (digits > 7)                                                                            \
            steps[digits & 7](digits >> 3);                                                        \
        for (unsigned i = 0; i < 4; i++)                                                           \
            memory[(digits * 40503 + i * 4099) & 0xffff] += n;                                     \
    }
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)

int main(void)
{
    uint64_t seed = 1;
    for (unsigned i = 0; i < 60000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t digits = seed >> 40; /* 24 bits: eight calls deep */
        steps[i < 30000 ? 0 : digits & 7](digits >> (i < 30000 ? 12 : 0));
    }
    printf("%llu\n", (unsigned long long)memory[0]);
}
