/* Entry, vectors, and loops whose operations are known to the last one. */
    .arch armv8.5-a
    .section .text.boot, "ax"
    .globl _start
_start:
    ldr x0, =stack_top
    mov sp, x0
    ldr x0, =bss_start
    ldr x1, =bss_end
1:  cmp x0, x1
    b.hs 2f
    stp xzr, xzr, [x0], #16
    b 1b
2:  bl main
    b off

/* PSCI SYSTEM_OFF: HVC without EL2, SMC with it. */
    .globl off
off:
    ldr x0, =0x84000008
    mrs x1, CurrentEL
    cmp x1, #4
    b.ne 3f
    ldr x1, =booted_el2
    ldr w1, [x1]
    cbnz w1, 3f
    hvc #0
3:  smc #0
    b .

/*
 * Synchronous exceptions go on behind the instruction, in exactly 4 operations (SVC: behind the
 * next one). They are not counted as faults unless they are of another kind: see `report`.
 */
    .section .text.vectors, "ax"
    .balign 0x800
    .globl vectors
vectors:
    .rept 4
    .balign 0x80
    b .
    .endr
    .balign 0x80 /* 0x200: synchronous, this Exception level */
    mrs x9, ELR_EL1
    add x9, x9, #4
    msr ELR_EL1, x9
    eret
    .balign 0x80 /* 0x280: interrupt */
    b irq_entry
    .balign 0x80
    b .
    .balign 0x80
    b .
    .balign 0x80 /* 0x400: synchronous, from EL0: SVC #1 returns to the caller of enter_el0 */
    b from_el0
    .balign 0x80
    b irq_entry
    .balign 0x80
    b .
    .balign 0x80
    b .
    .rept 4
    .balign 0x80
    b .
    .endr

    .balign 0x800
    .globl vectors_el2
vectors_el2:
    .rept 4
    .balign 0x80
    b .
    .endr
    .balign 0x80 /* 0x200 */
    mrs x9, ELR_EL2
    add x9, x9, #4
    msr ELR_EL2, x9
    eret
    .balign 0x80
    b irq_entry
    .balign 0x80
    b .
    .balign 0x80
    b .
    .balign 0x80 /* 0x400: from EL1: a trap; HVC #1 returns to the caller of enter_el1 */
    b from_el1
    .rept 7
    .balign 0x80
    b .
    .endr

    .section .text, "ax"
irq_entry:
    stp x0, x1, [sp, #-176]!
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x30, [sp, #144]
    bl on_irq
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x30, [sp, #144]
    ldp x0, x1, [sp], #176
    eret

/* What a callee must keep. */
    .macro keep
    stp x29, x30, [sp, #-96]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    .endm

/* uint64_t enter_el0(uint64_t (*function)(uint64_t), uint64_t argument) */
    .globl enter_el0
enter_el0:
    keep
    msr ELR_EL1, x0
    mov x9, #0x3c0
    msr SPSR_EL1, x9
    ldr x9, =stack_el0
    msr SP_EL0, x9
    ldr x30, =el0_return
    mov x0, x1
    eret
el0_return:
    svc #1
from_el0:
    mrs x9, ESR_EL1
    lsr x10, x9, #26
    cmp x10, #0x15
    b.eq 1f
    ldr x10, =last_esr /* not SVC: remember it, go on behind it */
    str x9, [x10]
    mrs x9, ELR_EL1
    add x9, x9, #4
    msr ELR_EL1, x9
    eret
1:  and x9, x9, #0xffff
    cmp x9, #1
    b.eq 2f
    eret
2:  ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp x29, x30, [sp], #96
    ret

/* uint64_t enter_el1(uint64_t (*function)(uint64_t), uint64_t argument), from EL2 */
    .globl enter_el1
enter_el1:
    keep
    msr ELR_EL2, x0
    mov x9, #0x3c5
    msr SPSR_EL2, x9
    ldr x9, =stack_el0
    msr SP_EL1, x9
    ldr x30, =el1_return
    mov x0, x1
    eret
el1_return:
    hvc #1
from_el1:
    mrs x9, ESR_EL2
    lsr x10, x9, #26
    cmp x10, #0x16
    b.eq 2b
    ldr x10, =last_esr
    str x9, [x10]
    mrs x9, ELR_EL2
    add x9, x9, #4
    msr ELR_EL2, x9
    eret

/*
 * Loops: x0 is the number of turns, x1 an address. Each says how many operations a turn has;
 * the loop itself is nothing but turns.
 */
    .macro loop name, operations
    .globl \name
    .set \name\()_operations, \operations
    .globl \name\()_operations
    .balign 64
\name:
    .endm

    loop loop_alu, 8
1:  add x2, x2, #1
    eor x2, x2, x3
    add x3, x3, #2
    eor x2, x2, x3
    add x3, x3, #3
    nop
    subs x0, x0, #1
    b.ne 1b
    ret

    /* A load from nowhere in the middle of a block: it, the 4 of the handler, the rest. */
    loop loop_fault, 11
    mov x4, #0x700000000
1:  add x2, x2, #1
    add x2, x2, #1
    ldr x5, [x4]
    add x2, x2, #1
    add x2, x2, #1
    subs x0, x0, #1
    b.ne 1b
    ret

    /* SVC of this Exception level would skip an instruction: 1 + 4, then the rest. */
    loop loop_svc, 9
1:  add x2, x2, #1
    svc #0
    nop /* skipped */
    add x2, x2, #1
    subs x0, x0, #1
    b.ne 1b
    ret

    /* Atomics of 16 bytes, exclusives, pairs that cross a page. */
    loop loop_atomic, 11
    and x1, x1, #~4095
    mov x4, #0
    mov x5, #0
    mov x6, #0
    mov x7, #0
    add x10, x1, #4088
1:  casp x4, x5, x6, x7, [x1]
    ldadd x4, x5, [x1]
    ldxr x8, [x1]
    stxr w11, x8, [x1]
    stxr w11, x8, [x1]
    ldp x12, x13, [x10]
    stp x12, x13, [x10]
    ldr w14, [x10, #6]
    str w14, [x10, #6]
    subs x0, x0, #1
    b.ne 1b
    ret

    loop loop_zva, 4
1:  dc zva, x1
    eor x1, x1, #64
    subs x0, x0, #1
    b.ne 1b
    ret

    /* Registers of the unit read in the middle of a block. */
    loop loop_mrs, 6
1:  add x2, x2, #1
    mrs x3, S3_0_C9_C9_7
    add x2, x2, #1
    hint #17 /* PSB CSYNC */
    subs x0, x0, #1
    b.ne 1b
    ret

    /* Calls and returns, an indirect branch. */
    loop loop_call, 9
    mov x15, x30
1:  bl 2f
    adr x4, 3f
    br x4
    nop
3:  cbz xzr, 4f
    nop
4:  tbnz xzr, #3, 1b
    add x2, x2, #1
    subs x0, x0, #1
    b.ne 1b
    mov x30, x15
    ret x15
2:  ret
