/* Loops whose cycles are known: 20,000 times each. `at` names the instruction that is looked at. */
        .macro  loop name
        mov     w9, #20000
\name:
        .endm
        .macro  again name
        subs    w9, w9, #1
        b.ne    \name
        .endm
        .macro  fill count              /* twice so many operations that wait for nothing */
        .rept   \count
        nop
        movi    v3.4s, #1
        .endr
        .endm

        .globl  _start
_start: mov     x1, #1000
        mov     x2, #1
        mov     x5, #88172645463325252 & 0xffff
        movk    x5, #0x9e37, lsl #16

        loop    hidden                  /* 10 cycles, beside 15 of dispatch */
hidden_at:
        mrs     x4, tpidr_el0
        add     x4, x4, #1
        fill    28
        again   hidden

        loop    beside                  /* a division that nothing waits for */
beside_at:
        udiv    x4, x1, x2
        fill    30
        again   beside

        loop    chain                   /* each division waits for the one before */
chain_at:
        udiv    x1, x1, x2
        fill    3
        again   chain

        loop    ports                   /* 12 operations for two FP pipes */
        .rept   12
        movi    v3.4s, #1
        .endr
        again   ports

        loop    guess                   /* half of them go the other way */
        eor     x5, x5, x5, lsl #13
        eor     x5, x5, x5, lsr #7
        eor     x5, x5, x5, lsl #17
        fill    4
guess_at:
        tbz     x5, #20, 1f
        fill    2
1:      fill    2
        again   guess

        mov     x0, #0
        mov     x8, #93
        svc     #0
