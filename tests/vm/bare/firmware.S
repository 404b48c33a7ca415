/* The image of bare.elf in flash, and what copies it to memory and starts it. */
    .globl _start
_start:
    adr x0, image
    ldr x1, =image_end
    ldr x2, =0x40200000
    mov x3, x2
1:  ldp x4, x5, [x0], #16
    stp x4, x5, [x3], #16
    cmp x0, x1
    b.lo 1b
    br x2
    .ltorg
    .balign 16
image:
    .incbin "bare.bin"
    .balign 16
image_end:
