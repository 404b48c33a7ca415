/*
 * SVE loops and scalar twins of them: the same addresses in the same order of elements. Arguments:
 * which one, number of elements. Arrays lie at fixed places, so that two runs can be compared.
 */
#include <arm_sve.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 4096, ROUNDS = 400 };

static float *x, *y;
static uint32_t *index32;
static uint64_t *index64;
static char *text;

static void *at(uintptr_t place, size_t size)
{
    void *p = mmap((void *)place, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)place)
        exit(77);
    return p;
}

__attribute__((noinline)) void saxpy_sve(int n)
{
    for (int i = 0; i < n; i += (int)svcntw()) {
        svbool_t p = svwhilelt_b32(i, n);
        svst1(p, y + i, svmla_x(p, svld1(p, y + i), svld1(p, x + i), 3.0f));
    }
}

__attribute__((noinline)) void saxpy_twin(int n)
{
    for (int i = 0; i < n; i++)
        ((volatile float *)y)[i] = ((volatile float *)y)[i] + 3.0f * ((volatile float *)x)[i];
}

__attribute__((noinline)) float dot_sve(int n)
{
    svfloat32_t sum = svdup_f32(0);
    for (int i = 0; i < n; i += (int)svcntw()) {
        svbool_t p = svwhilelt_b32(i, n);
        sum = svmla_m(p, sum, svld1(p, x + i), svld1(p, y + i));
    }
    return svaddv(svptrue_b32(), sum);
}

__attribute__((noinline)) float dot_twin(int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += ((volatile float *)x)[i] * ((volatile float *)y)[i];
    return sum;
}

__attribute__((noinline)) float gather_sve(int n)
{
    svfloat32_t sum = svdup_f32(0);
    for (int i = 0; i < n; i += (int)svcntw()) {
        svbool_t p = svwhilelt_b32(i, n);
        svuint32_t k = svld1(p, index32 + i);
        sum = svadd_m(p, sum, svld1_gather_index(p, x, k));
    }
    return svaddv(svptrue_b32(), sum);
}

__attribute__((noinline)) float gather_twin(int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += ((volatile float *)x)[((volatile uint32_t *)index32)[i]];
    return sum;
}

__attribute__((noinline)) void scatter_sve(int n)
{
    for (int i = 0; i < n; i += (int)svcntd()) {
        svbool_t p = svwhilelt_b64(i, n);
        svuint64_t k = svld1(p, index64 + i);
        svst1_scatter_index(p, (uint64_t *)(void *)y, k, k);
    }
}

__attribute__((noinline)) void scatter_twin(int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t k = ((volatile uint64_t *)index64)[i];
        ((volatile uint64_t *)(void *)y)[k] = k;
    }
}

/* First-fault loads: the text ends with its page, and after it there is nothing. */
__attribute__((noinline)) size_t strlen_sve(const char *s)
{
    svbool_t all = svptrue_b8();
    for (size_t i = 0;; i += svcntp_b8(all, svrdffr())) {
        svsetffr();
        svuint8_t bytes = svldff1(all, (const uint8_t *)s + i);
        svbool_t there = svrdffr(), zero = svcmpeq(there, bytes, 0);
        if (svptest_any(there, zero))
            return i + svcntp_b8(there, svbrkb_z(there, zero));
    }
}

__attribute__((noinline)) size_t strlen_twin(const char *s)
{
    size_t n = 0;
    while (((volatile const char *)s)[n])
        n++;
    return n;
}

__attribute__((noinline)) float prefetch_loop(int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) {
        __builtin_prefetch(x + i + 256);
        sum += ((volatile float *)x)[i];
    }
    return sum;
}

/* Nothing is active. */
__attribute__((noinline)) void nothing_sve(int n)
{
    for (int i = 0; i < n; i++)
        svst1(svpfalse(), y, svld1(svpfalse(), x));
}

#define KEEP(v) __asm__ volatile("" : : "w"(v))

/* Random predicates: full, partial and empty ones. */
static svuint32_t next_random(svuint32_t z)
{
    svbool_t all = svptrue_b32();
    z = sveor_x(all, z, svlsl_x(all, z, 13));
    z = sveor_x(all, z, svlsr_x(all, z, 17));
    return sveor_x(all, z, svlsl_x(all, z, 5));
}

__attribute__((noinline)) void contiguous_sve(int n)
{
    svuint32_t z = svindex_u32(88172645, 362436069);
    for (int i = 0; i < n; i += (int)svcntw()) {
        z = next_random(z);
        svbool_t p = svcmplt(svptrue_b32(), z, 0x80000000);
        KEEP(svld1(p, x + i));
        KEEP(svldff1(p, y + i));
        KEEP(svldnf1(svcmplt(svptrue_b8(), svreinterpret_u8(z), 128), (uint8_t *)(index32 + i)));
        z = next_random(z);
        p = svcmplt(svptrue_b64(), svreinterpret_u64(z), 0x8000000000000000);
        KEEP(svget2(svld2(p, index64 + i), 1));
        svst1(p, (uint64_t *)(void *)(y + i), svdup_u64(1));
    }
}

__attribute__((noinline)) void elements_sve(int n)
{
    svuint32_t z = svindex_u32(88172645, 362436069);
    for (int i = 0; i < n; i += (int)svcntw()) {
        z = next_random(z);
        KEEP(svld1_gather_index(svcmplt(svptrue_b32(), z, 0x80000000), x,
                                svand_x(svptrue_b32(), z, MOST - 1)));
    }
}

/* Accesses longer than a boundary of alignment: aligned, and across lines 60 bytes further. */
static inline void long_accesses(int n, int by)
{
    for (int i = 0; i < n; i += 64) {
        uint64_t *p = (uint64_t *)(void *)((char *)(y + i) + by);
        svst2(svptrue_b64(), p, svcreate2(svdup_u64(1), svdup_u64(2)));
        KEEP(svget4(svld4(svptrue_b64(), p), 3));
        __asm__ volatile("st2 {v0.2d, v1.2d}, [%0]\n\tld4 {v0.2d, v1.2d, v2.2d, v3.2d}, [%0]"
                         :
                         : "r"(p)
                         : "memory", "v0", "v1", "v2", "v3");
    }
}

__attribute__((noinline)) void aligned_sve(int n)
{
    long_accesses(n, 0);
}

__attribute__((noinline)) void askew_sve(int n)
{
    long_accesses(n, 60);
}

__attribute__((noinline)) void zero_blocks(char *p, int n)
{
    for (int i = 0; i < n; i += 64)
        __asm__ volatile("dc zva, %0" : : "r"(p + i) : "memory");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : MOST;
    x = at(0x10000000, MOST * 8);
    y = at(0x20000000, MOST * 8);
    index32 = at(0x30000000, MOST * 4);
    index64 = at(0x31000000, MOST * 8);
    text = at(0x32000000, 4096);
    for (int i = 0; i < MOST; i++) {
        index32[i] = (uint32_t)(i * 2654435761u % MOST);
        index64[i] = index32[i];
    }
    memset(text, 'a', 4095);
    float sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (!strcmp(what, "saxpy"))
            saxpy_sve(n);
        else if (!strcmp(what, "saxpy_twin"))
            saxpy_twin(n);
        else if (!strcmp(what, "dot"))
            sum += dot_sve(n);
        else if (!strcmp(what, "dot_twin"))
            sum += dot_twin(n);
        else if (!strcmp(what, "gather"))
            sum += gather_sve(n);
        else if (!strcmp(what, "gather_twin"))
            sum += gather_twin(n);
        else if (!strcmp(what, "scatter"))
            scatter_sve(n);
        else if (!strcmp(what, "scatter_twin"))
            scatter_twin(n);
        else if (!strcmp(what, "strlen"))
            sum += (float)strlen_sve(text + 4096 - n);
        else if (!strcmp(what, "strlen_twin"))
            sum += (float)strlen_twin(text + 4096 - n);
        else if (!strcmp(what, "prefetch"))
            sum += prefetch_loop(n);
        else if (!strcmp(what, "nothing"))
            nothing_sve(n);
        else if (!strcmp(what, "random")) {
            contiguous_sve(n);
            elements_sve(n);
        } else if (!strcmp(what, "long")) {
            aligned_sve(n);
            askew_sve(n);
            zero_blocks((char *)y, n * 8);
        } else if (!strcmp(what, "length")) {
            printf("%d\n", (int)svcntb() * 8);
            return 0;
        } else if (!strcmp(what, "copy")) {
            memcpy((char *)y + i % 64, x, (size_t)n);
            sum += y[0];
        }
    }
    return sum == 1e30f;
}
