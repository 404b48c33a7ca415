// A loop with a branch of every kind; where each goes is known.
        .global _start
        .type leaf, %function
_start: mov     x20, #20000
        adr     x21, there
loop:   tbnz    x20, #40, never
skip:   bl      leaf
        br      x21
        nop
there:  b       on
        nop
on:     tbnz    x20, #0, odd
        nop
odd:    cmp     x20, #1
        b.eq    out
        sub     x20, x20, #1
back:   cbnz    x20, loop
out:    mov     x0, #0
        mov     x8, #94
        svc     #0
never:  nop
leaf:   ret
