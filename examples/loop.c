/*
 * A loop of 41 instructions.
 *
 * An SPU without jitter and with INTERVAL 4 takes every 1025th operation, and 1025 = 25 * 41:
 * all samples fall on one instruction. With jitter each of the 41 gets its share.
 */
#include <stdio.h>

int main(void)
{
    long steps = 1000000, value = 0;
    __asm__ volatile(".globl loop_begin\n"
                     "loop_begin:\n"
                     ".rept 39\n"
                     "add %1, %1, #1\n"
                     ".endr\n"
                     "subs %0, %0, #1\n"
                     "b.ne loop_begin\n"
                     ".globl loop_end\n"
                     "loop_end:\n"
                     : "+r"(steps), "+r"(value)
                     :
                     : "cc");
    printf("%ld\n", value);
    return 0;
}
