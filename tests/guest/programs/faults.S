// Installs a SIGSEGV handler, then 1000 times executes a block of 10 adds, a faulting load (in the middle), 5 adds. The handler skips the load.
 .global _start
 .type handler, %function
_start:
 // rt_sigaction(11, &act, 0, 8)
 mov x0,#11
 adr x1,act
 mov x2,#0
 mov x3,#8
 mov x8,#134
 svc #0
 mov x20,#1000
 mov x21,#0
loop: add x1,x1,#1
 add x1,x1,#1
 add x1,x1,#1
 ldr x2,[x21]
 add x3,x3,#1
 add x3,x3,#1
 add x3,x3,#1
 sub x20,x20,#1
 cbnz x20,loop
 mov x0,#0
 mov x8,#94
 svc #0
handler: // x2 = ucontext; pc at x2 + 440
 ldr x3,[x2,#440]
 add x3,x3,#4
 str x3,[x2,#440]
 ret
restorer: mov x8,#139
 svc #0
 .balign 8
act: .quad handler
 .quad 0x04000004   // SA_SIGINFO|SA_RESTORER
 .quad restorer
 .quad 0
 .data
 .quad 0
