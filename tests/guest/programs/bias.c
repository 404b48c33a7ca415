/* A loop of 16 instructions without a branch but its last: with dispatch groups of four, each round
 * is dispatched alike. */
int main(void)
{
    unsigned long n = 400000;
    __asm__ volatile(".p2align 6\n"
                     "1: .rept 14\n add x9, x9, #1\n .endr\n subs %0, %0, #1\n b.ne 1b\n"
                     : "+r"(n)
                     :
                     : "x9", "cc");
    return 0;
}
