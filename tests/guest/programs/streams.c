/*
 * SME: loads and stores of ZA, and SVE in streaming mode beside SVE outside of it, each in a
 * function of its own, often. The array lies at 0x10000000; what is accessed there is relative to
 * its middle. Says the vector lengths in bits: SVE's, and streaming mode's.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { MOST = 8192, ROUNDS = 2500 };

__asm__(".arch armv8.2-a+sve2+sme\n");

static uint8_t *x;

#define VECTORS                                                                                    \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
        "v28", "v29", "v30", "v31", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9",    \
        "p10", "p11", "p12", "p13", "p14", "p15"
#define FORM(name, text)                                                                           \
    __attribute__((noinline)) void form_##name(uint8_t *a)                                         \
    {                                                                                              \
        __asm__ volatile(text : : "r"(a) : "memory", "cc", "x1", "x2", "x12", VECTORS);            \
    }
#define ZA(name, text) FORM(name, "smstart\nptrue p0.b\nmov w12, #0\n" text "smstop\n")
#define SM(name, text) FORM(name, "smstart sm\nptrue p0.b\n" text "smstop sm\n")

ZA(ld1b, "ld1b {za0h.b[w12, 3]}, p0/z, [%0]\n")
ZA(ld1w, "mov x1, #6\nld1w {za2v.s[w12, 1]}, p0/z, [%0, x1, lsl #2]\n")
ZA(st1d, "mov x1, #9\nst1d {za5h.d[w12, 1]}, p0, [%0, x1, lsl #3]\n")
ZA(st1q, "mov x1, #5\nst1q {za7v.q[w12, 0]}, p0, [%0, x1, lsl #4]\n")
ZA(part, "mov x1, #3\nwhilelt p1.s, xzr, x1\nld1w {za0h.s[w12, 0]}, p1/z, [%0]\n")
ZA(empty, "pfalse p1.b\nld1h {za0h.h[w12, 0]}, p1/z, [%0]\n")
ZA(ldr_za, "ldr za[w12, 3], [%0, #3, mul vl]\nstr za[w12, 2], [%0, #2, mul vl]\n")
FORM(za_alone, "smstart za\nmov w12, #0\nldr za[w12, 1], [%0, #1, mul vl]\nsmstop za\n")
SM(sve, "ld1w {z0.s}, p0/z, [%0, #1, mul vl]\nst1w {z0.s}, p0, [%0, #-2, mul vl]\n")
FORM(plain, "ptrue p0.b\nld1w {z0.s}, p0/z, [%0, #1, mul vl]\n")
FORM(switched, "mov x1, #1\nmsr svcr, x1\nptrue p0.b\nldr z0, [%0, #2, mul vl]\nmsr svcr, xzr\n"
               "ldr z0, [%0, #5, mul vl]\n")
/* A system call leaves streaming mode. */
FORM(called, "smstart sm\nmov x2, x8\nmov x12, x0\nmov x8, #172\nsvc #0\nmov x8, x2\nmov x0, x12\n"
             "ldr z0, [x0, #3, mul vl]\n")

/* The same sum in streaming mode and by scalars. */
__attribute__((noinline)) void add_streaming(float *to, const float *from, uint64_t n)
{
    __asm__ volatile("smstart sm\nmov x1, #0\nwhilelt p0.s, x1, %2\n"
                     "1: ld1w {z0.s}, p0/z, [%1, x1, lsl #2]\nld1w {z1.s}, p0/z, [%0, x1, lsl #2]\n"
                     "fadd z0.s, z0.s, z1.s\nst1w {z0.s}, p0, [%0, x1, lsl #2]\n"
                     "incw x1\nwhilelt p0.s, x1, %2\nb.mi 1b\nsmstop sm\n"
                     :
                     : "r"(to), "r"(from), "r"(n)
                     : "memory", "cc", "x1", VECTORS);
}

__attribute__((noinline)) void add_twin(float *to, const float *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        ((volatile float *)to)[i] += ((const volatile float *)from)[i];
}

/* A fault in streaming mode: its handler is outside of it, and goes back to it. */
SM(fault, "brk #1\nldr z0, [%0, #4, mul vl]\n")

__attribute__((noinline)) void handle(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)info;
    __asm__ volatile("ldr z0, [%0, #6, mul vl]" : : "r"(x) : "v0");
    ((ucontext_t *)context)->uc_mcontext.pc += 4;
}

int main(void)
{
    uint64_t vl, svl;
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    x = mmap((void *)0x10000000, MOST, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (x != (uint8_t *)0x10000000)
        return 77;
    __asm__ volatile("rdvl %0, #1\nrdsvl %1, #1" : "=r"(vl), "=r"(svl));
    printf("%d %d\n", (int)vl * 8, (int)svl * 8);
    x += MOST / 2;
    for (int i = 0; i < ROUNDS; i++) {
        form_ld1b(x), form_ld1w(x), form_st1d(x), form_st1q(x), form_part(x), form_empty(x);
        form_ldr_za(x), form_za_alone(x), form_sve(x), form_plain(x), form_switched(x);
        form_called(x);
    }
    for (int i = 0; i < 200; i++) {
        add_streaming((float *)(void *)x, (float *)(void *)(x + 2048), 401);
        add_twin((float *)(void *)x, (float *)(void *)(x + 2048), 401);
    }
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < ROUNDS; i++)
        form_fault(x);
    return 0;
}
