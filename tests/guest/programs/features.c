/*
 * Executes an instruction of each feature that is named, in order, and prints those that the
 * kernel would report: AT_HWCAP and AT_HWCAP2. "raise" sends itself SIGILL, "handle" survives UDF
 * first.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

__asm__(".arch armv8.7-a+crypto+sha3+sm4+bf16+i8mm+sve2+memtag+fp16fml+sme\n");

static sigjmp_buf back;
static long place[16];

static void on_illegal(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

#define FEATURES(DO)                                                                               \
    DO(lse, "ldadd x0, x0, [%0]")                                                                  \
    DO(rdm, "sqrdmlah v0.4s, v0.4s, v0.4s")                                                        \
    DO(fp16, "fadd h0, h0, h0")                                                                    \
    DO(dotprod, "sdot v0.4s, v0.16b, v0.16b")                                                      \
    DO(rcpc, "ldapr x0, [%0]")                                                                     \
    DO(crc, "crc32x w0, w0, x0")                                                                   \
    DO(aes, "aese v0.16b, v0.16b")                                                                 \
    DO(sha2, "sha256h q0, q0, v0.4s")                                                              \
    DO(dcpop, "dc cvap, %0")                                                                       \
    DO(pauth, "xpaci x0")                                                                          \
    DO(fcma, "fcadd v0.4s, v0.4s, v0.4s, #90")                                                     \
    DO(jscvt, "fjcvtzs w0, d0")                                                                    \
    DO(rcpc2, "ldapur x0, [%0, #8]")                                                               \
    DO(flagm, "cfinv")                                                                             \
    DO(fhm, "fmlal v0.2s, v0.2h, v0.2h")                                                           \
    DO(sha3, "eor3 v0.16b, v0.16b, v0.16b, v0.16b")                                                \
    DO(sha512, "sha512su0 v0.2d, v0.2d")                                                           \
    DO(sm4, "sm4e v0.4s, v0.4s")                                                                   \
    DO(i8mm, "smmla v0.4s, v0.16b, v0.16b")                                                        \
    DO(bf16, "bfmmla v0.4s, v0.8h, v0.8h")                                                         \
    DO(sve, "ptrue p0.b\nld1b {z0.b}, p0/z, [%0]")                                                 \
    DO(sve_i8mm, "smmla z0.s, z0.b, z0.b")                                                         \
    DO(sve_bf16, "bfmmla z0.s, z0.h, z0.h")                                                        \
    DO(frintts, "frint32z s0, s0")                                                                 \
    DO(flagm2, "xaflag")                                                                           \
    DO(sve2, "histcnt z0.s, p0/z, z0.s, z0.s")                                                     \
    DO(mte, "irg x0, x0")                                                                          \
    DO(wfxt, "wfet x0")                                                                            \
    DO(sme, "smstart\nzero {za}\nsmstop")                                                          \
    DO(mops, "mov x0, %0\nadd x1, %0, #16\nmov x2, #8\n.inst 0x19010440, 0x19410440, 0x19810440")  \
    DO(udf, "udf #7")                                                                              \
    DO(none, ".inst 0xffffffff")

int main(int argc, char **argv)
{
    printf("%lx %lx\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
    fflush(stdout);
    for (int i = 1; i < argc; i++) {
#define DO(name, text)                                                                             \
    if (!strcmp(argv[i], #name))                                                                   \
        __asm__ volatile(text : : "r"(place) : "x0", "x1", "x2", "v0", "cc", "memory");
        FEATURES(DO)
        if (!strcmp(argv[i], "raise"))
            raise(SIGILL);
        if (!strcmp(argv[i], "handle")) {
            signal(SIGILL, on_illegal);
            if (!sigsetjmp(back, 1))
                __asm__ volatile("udf #1");
            signal(SIGILL, SIG_DFL);
        }
    }
    puts("done");
    return 0;
}
