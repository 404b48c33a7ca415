// A program whose every address is known, with line information of its own, so
// that what the commands print about it does not depend on a compiler.
// Functions stand 0x100 apart from 0x401000, data at 0x410000, .bss at 0x420000.
        .file   1 "prog.c"
        .arch   armv8.1-a
        .text

        .macro  function name, line
        .balign 0x100
        .globl  \name
        .type   \name, %function
\name:
        .cfi_startproc
        .loc    1 \line 0
        .endm

        .macro  end name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        function main, 10
        stp     x29, x30, [sp, -16]!
        .loc    1 11 0
        bl      walk
        .loc    1 12 0
        bl      sum
        .loc    1 13 0
        bl      hit
        .loc    1 14 0
        ldp     x29, x30, [sp], 16
        ret
        end     main

        function walk, 20               // a chase through memory
        mov     x1, 0
        .loc    1 21 0
1:      ldr     x0, [x0]                // 0x401104
        .loc    1 22 0
        add     x1, x1, 1
        .loc    1 21 0
        cbnz    x0, 1b                  // 0x40110c
        .loc    1 24 0
        mov     x0, x1
        ret
        end     walk

        function sum, 30                // runs through a small array
        mov     x2, 0
        .loc    1 31 0
1:      ldr     w3, [x0], 4             // 0x401204
        add     x2, x2, x3
        subs    x1, x1, 1
        b.ne    1b                      // 0x401210
        .loc    1 33 0
        mov     x0, x2
        ret
        end     sum

        function hit, 40                // counts in shared memory
        .loc    1 41 0
1:      ldr     x1, [x0]                // 0x401300
        add     x1, x1, 1
        str     x1, [x0]                // 0x401308
        .loc    1 42 0
        subs    x2, x2, 1
        b.ne    1b                      // 0x401310
        .loc    1 43 0
        mov     x3, 1
        ldadd   x3, x4, [x0]            // 0x401318
        ret
        end     hit

        function pick, 50               // a branch on data
        ldrb    w1, [x0], 1
        .loc    1 51 0
        cmp     w1, 128
        b.hi    1f                      // 0x401408
        .loc    1 52 0
        add     x2, x2, 1
        .loc    1 54 0
1:      blr     x5                      // 0x401410
        subs    x3, x3, 1
        b.ne    pick
        ret
        end     pick

        function _ZN3geo4areaERKSt6vectorIiE, 60
        ret
        end     _ZN3geo4areaERKSt6vectorIiE

        .data
        .balign 64
        .globl  shared
        .type   shared, %object
shared: .zero   128
        .size   shared, 128
        .globl  table
        .type   table, %object
        .balign 256
table:  .zero   4096
        .size   table, 4096

        .bss
        .balign 64
        .globl  counters
        .type   counters, %object
counters: .zero 8192
        .size   counters, 8192

        .section .debug_info, "", %progbits
        .4byte  .Linfo_end - .Linfo_start
.Linfo_start:
        .2byte  4
        .4byte  .Labbrev
        .byte   8
        .uleb128 1                      // DW_TAG_compile_unit
        .asciz  "prog.c"
        .asciz  "/src/prog"
        .8byte  main
        .8byte  .Ltext_end - main
        .4byte  .Lline
        .uleb128 4                      // step, an abstract inline function
.Lstep: .asciz  "step"
        .uleb128 2                      // DW_TAG_subprogram walk
        .asciz  "walk"
        .8byte  walk
        .8byte  24
        .uleb128 3                      // step inlined into it
        .4byte  .Lstep - 1 - .Linfo
        .8byte  walk + 4
        .8byte  8
        .byte   1
        .byte   23
        .byte   0
        .byte   0
.Linfo_end:
        .set    .Linfo, .Linfo_start - 4

        .section .debug_abbrev, "", %progbits
.Labbrev:
        .uleb128 1, 0x11                // compile unit, children
        .byte   1
        .uleb128 0x03, 0x08, 0x1b, 0x08, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0
        .uleb128 2, 0x2e                // subprogram, children
        .byte   1
        .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
        .uleb128 3, 0x1d                // inlined subroutine
        .byte   0
        .uleb128 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0x58, 0x0b, 0x59, 0x0b, 0, 0
        .uleb128 4, 0x2e                // abstract subprogram
        .byte   0
        .uleb128 0x03, 0x08, 0, 0
        .uleb128 0

        .section .debug_line, "", %progbits
.Lline:
        .text
.Ltext_end:
