/* Each form of load and store, many times, on memory of its own: engines must show the same accesses. */
.arch armv8.2-a+rcpc
.global _start
_start:
    adrp x20, area
    add x20, x20, :lo12:area
    mov x19, #400
1:
    ldrb w0, [x20]
    ldrsh x1, [x20, #66]
    ldr w2, [x20, #132]
    ldr x3, [x20, #200]
    ldr b0, [x20, #257]
    ldr h1, [x20, #322]
    ldr s2, [x20, #388]
    ldr d3, [x20, #456]
    ldr q4, [x20, #512]
    ldur q5, [x20, #120]
    strb w0, [x20, #577]
    strh w1, [x20, #642]
    str w2, [x20, #708]
    str x3, [x20, #776]
    str q4, [x20, #832]
    stur q5, [x20, #56]
    ldp w0, w1, [x20, #8]
    ldpsw x0, x1, [x20, #76]
    ldp x2, x3, [x20, #120]
    ldp s0, s1, [x20, #136]
    ldp d2, d3, [x20, #248]
    ldp q4, q5, [x20, #304]
    stp w0, w1, [x20, #188]
    stp x2, x3, [x20, #376]
    stp s0, s1, [x20, #196]
    stp d2, d3, [x20, #440]
    stp q4, q5, [x20, #496]
    add x10, x20, #1024
    ldnp x0, x1, [x10]
    stnp q4, q5, [x10, #64]
    ld1 {v0.16b}, [x10]
    ld1 {v0.4s, v1.4s}, [x10]
    ld2 {v0.8h, v1.8h}, [x10]
    ld3 {v0.2d, v1.2d, v2.2d}, [x10]
    ld4 {v0.8b, v1.8b, v2.8b, v3.8b}, [x10]
    st1 {v0.16b, v1.16b, v2.16b, v3.16b}, [x10]
    st2 {v0.4s, v1.4s}, [x10]
    ld1r {v6.4s}, [x10]
    ld1 {v6.s}[2], [x10]
    ld3 {v6.d, v7.d, v8.d}[1], [x10]
    st4 {v4.h, v5.h, v6.h, v7.h}[3], [x10]
    add x11, x20, #2048
    ldar x0, [x11]
    stlr w0, [x11, #0]
    ldapr x1, [x11]
2:  ldxr x0, [x11]
    stxr w1, x0, [x11]
    cbnz w1, 2b
3:  ldaxp x2, x3, [x11]
    stlxp w1, x2, x3, [x11]
    cbnz w1, 3b
4:  ldxp w2, w3, [x11]
    stxp w1, w2, w3, [x11]
    cbnz w1, 4b
    ldadd x0, x1, [x11]
    swpal w0, w1, [x11]
    stset x0, [x11]
    cas x0, x1, [x11]
    casp x2, x3, x4, x5, [x11]
    casp w2, w3, w4, w5, [x11]
    add x12, x20, #3072
    dc zva, x12
    prfm pldl1keep, [x12, #128]
    add x13, x19, x19
    prfm pstl2strm, [x20, x13]
    sub x19, x19, #1
    cbnz x19, 1b
    mov x0, #0
    mov x8, #94
    svc #0
.bss
.balign 4096
area: .space 8192
