 .global _start
_start:
 mov x0, #10000
1: add x1,x1,#1
 add x2,x2,#1
 sub x0,x0,#1
 cbnz x0,1b
 mov x0,#7
 mov x8,#94
 svc #0
