/* SVE gathers, scatters and first-fault loads, for a guest of spex vm. */
#include <arm_sve.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

static float x[4096], y[4096];
static uint32_t index32[4096];
static char text[6000];

__attribute__((noinline)) float gather_sve(long n)
{
    svfloat32_t sum = svdup_f32(0);
    for (long i = 0; i < n; i += svcntw()) {
        svbool_t p = svwhilelt_b32(i, n);
        sum = svadd_m(p, sum, svld1_gather_index(p, x, svld1(p, index32 + i)));
    }
    return svaddv(svptrue_b32(), sum);
}

__attribute__((noinline)) void scatter_sve(long n)
{
    for (long i = 0; i < n; i += svcntw()) {
        svbool_t p = svwhilelt_b32(i, n);
        svst1_scatter_index(p, y, svld1(p, index32 + i), svld1(p, x + i));
    }
}

__attribute__((noinline)) long strlen_sve(const char *s)
{
    for (long n = 0;; n += svcntb()) {
        svsetffr();
        svuint8_t v = svldff1(svptrue_b8(), (const uint8_t *)s + n);
        svbool_t valid = svrdffr();
        svbool_t zero = svcmpeq(valid, v, 0);
        if (svptest_any(svptrue_b8(), zero))
            return n + (long)svcntp_b8(svptrue_b8(), svbrkb_z(svptrue_b8(), zero));
        if (!svptest_last(svptrue_b8(), valid))
            n += (long)svcntp_b8(svptrue_b8(), valid) - (long)svcntb();
    }
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 200, n = 4001;
    float sum = 0;
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 4096; i++) {
        x[i] = (float)(i % 7);
        index32[i] = (uint32_t)i * 2654435761u % 4096;
    }
    for (long r = 0; r < rounds; r++) {
        sum += gather_sve(n);
        scatter_sve(n);
        sum += (float)strlen_sve(text + r % 64);
    }
    printf("vectors of %d bits, sum %.0f\n", (int)svcntb() * 8, sum);
    return 0;
}
