/*
 * Each form of SVE loads and stores in a function of its own, often. Arrays lie at fixed places:
 * X 0x10000000, Y 0x20000000, indices of 32 bits 0x30000000, of 64 bits 0x31000000.
 */
#include <arm_sve.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MOST = 4096, ROUNDS = 8000 };

static uint8_t *x, *y;
static uint32_t *i32;
static uint64_t *i64;

static void *at(uintptr_t place, size_t size)
{
    void *p = mmap((void *)place, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)place)
        exit(77);
    return p;
}

#define KEEP(v) __asm__ volatile("" : : "w"(v))
#define FORM(name, body)                                                                           \
    __attribute__((noinline)) void form_##name(uint8_t *a)                                         \
    {                                                                                              \
        svbool_t p8 = svptrue_b8(), p32 = svptrue_b32(), p64 = svptrue_b64();                      \
        (void)p8, (void)p32, (void)p64;                                                            \
        body                                                                                       \
    }
#define ASM(name, text)                                                                            \
    __attribute__((noinline)) void form_##name(uint8_t *a)                                         \
    {                                                                                              \
        __asm__ volatile("ptrue p0.b\n" text                                                       \
                         :                                                                         \
                         : "r"(a)                                                                  \
                         : "memory", "x1", "z0", "z1", "z2", "z3", "p0", "p1");                    \
    }

FORM(ld2, { KEEP(svget2(svld2_f32(p32, (float *)(void *)(a + 64)), 1)); })
FORM(st3, {
    svfloat32_t z = svdup_f32(1);
    svst3(p32, (float *)(void *)(a + 32), svcreate3(z, z, z));
})
FORM(ld1ub_s, { KEEP(svld1ub_u32(p32, a + 5)); })
FORM(ld1sh_d, { KEEP(svld1sh_s64(p64, (int16_t *)(void *)(a + 6))); })
FORM(st1b_d, { svst1b(p64, a + 3, svdup_u64(1)); })
FORM(vnum, { KEEP(svld1_vnum(p32, (float *)(void *)a, 3)); })
FORM(vnum_back, { KEEP(svld1_vnum(p8, a + 256, -2)); })
FORM(rq, { KEEP(svld1rq_f32(p32, (float *)(void *)(a + 48))); })
FORM(nt,
     { svstnt1(p32, (uint32_t *)(void *)(a + 128), svldnt1(p32, (uint32_t *)(void *)(a + 192))); })
FORM(nf, { KEEP(svldnf1(p8, a + 7)); })
FORM(gather_signed,
     { KEEP(svld1_gather_s32index_u32(p32, (uint32_t *)(void *)(a + 1024), svindex_s32(-3, 2))); })
FORM(gather_unscaled,
     { KEEP(svld1_gather_u32offset_u32(p32, (uint32_t *)(void *)a, svindex_u32(4, 12))); })
FORM(gather_wide,
     { KEEP(svld1_gather_u64index_u64(p64, (uint64_t *)(void *)a, svindex_u64(1, 5))); })
FORM(gather_narrow, { KEEP(svld1ub_gather_u64offset_u64(p64, a, svindex_u64(1, 7))); })
FORM(gather_bases,
     { KEEP(svld1_gather_u64base_offset_u64(p64, svindex_u64((uint64_t)(uintptr_t)a, 40), 16)); })
FORM(gather_bases32,
     { KEEP(svld1_gather_u32base_offset_u32(p32, svindex_u32((uint32_t)(uintptr_t)a, 24), 8)); })
FORM(gather_first,
     { KEEP(svldff1_gather_u64index_u64(p64, (uint64_t *)(void *)a, svindex_u64(2, 3))); })
FORM(scatter_signed, {
    svst1_scatter_s32index_u32(p32, (uint32_t *)(void *)(a + 1024), svindex_s32(-4, 3),
                               svdup_u32(1));
})
FORM(scatter_bases, {
    svst1_scatter_u64base_offset_u64(p64, svindex_u64((uint64_t)(uintptr_t)a, 24), 8, svdup_u64(1));
})
FORM(scatter_unscaled,
     { svst1h_scatter_u64offset_u64(p64, (uint16_t *)(void *)a, svindex_u64(2, 6), svdup_u64(1)); })
FORM(late, { KEEP(svld1(svcmpge_n_u32(p32, svindex_u32(0, 1), 3), (uint32_t *)(void *)a)); })
ASM(ld1r, "ld1rw {z0.s}, p0/z, [%0, #12]\n")
ASM(ldr_z, "ldr z1, [%0, #2, mul vl]\nstr z1, [%0, #-1, mul vl]\n")
ASM(ldr_p, "ldr p1, [%0, #3, mul vl]\nstr p1, [%0, #5, mul vl]\n")
ASM(ss, "mov x1, #24\nld1h {z0.h}, p0/z, [%0, x1, lsl #1]\n")

/* Prefetches: none of these is an access. */
ASM(pf, "prfm pldl1keep, [%0, #72]\n")
ASM(pf_near, "prfum pstl2strm, [%0, #-9]\n")
ASM(pf_reg, "mov w1, #-4\nprfm pldl3keep, [%0, w1, sxtw #3]\n")
ASM(pf_literal, "prfm pldl1keep, form_ss\n")
ASM(pf_then, "mov x1, %0\nprfm pldl1keep, [x1, #8]\nadd x1, x1, #64\nprfm pldl1keep, [x1, #8]\n"
             "mov x1, #0\n") /* its register is written again before it must be in memory */
ASM(pf_lost, "lsl x1, %0, #1\nlsr x1, x1, #1\nprfm pldl1keep, [x1]\nmov x1, #0\n")
ASM(prf_si, "prfw pldl1keep, p0, [%0, #3, mul vl]\n")
ASM(prf_back, "prfb pldl2keep, p0, [%0, #-32, mul vl]\n")
ASM(prf_ss, "mov x1, #24\nprfd pstl1strm, p0, [%0, x1, lsl #3]\n")
ASM(prf_part, "mov x1, #5\nwhilelt p1.s, xzr, x1\nnot p1.b, p0/z, p1.b\n"
              "prfw pldl1keep, p1, [%0, #0, mul vl]\n")
ASM(prf_signed, "index z0.s, #-3, #5\nprfh pldl1keep, p0, [%0, z0.s, sxtw #1]\n")
ASM(prf_unsigned, "index z0.d, #2, #7\nprfw pldl3keep, p0, [%0, z0.d, uxtw #2]\n")
ASM(prf_wide, "index z0.d, #1, #9\nprfd pldl1keep, p0, [%0, z0.d, lsl #3]\n")
ASM(prf_bases, "mov x1, #40\nindex z0.d, %0, x1\nprfd pldl1keep, p0, [z0.d, #16]\n")
ASM(prf_bases32, "mov w1, #24\nindex z0.s, %w0, w1\nprfh pldl1keep, p0, [z0.s, #6]\n")

int main(void)
{
    x = at(0x10000000, MOST);
    y = at(0x20000000, MOST);
    i32 = at(0x30000000, MOST);
    i64 = at(0x31000000, MOST);
    x += 2048;
    svsetffr();
    for (int i = 0; i < ROUNDS; i++) {
        form_ld2(x), form_st3(x), form_ld1ub_s(x), form_ld1sh_d(x), form_st1b_d(x), form_vnum(x);
        form_vnum_back(x), form_rq(x), form_nt(x), form_nf(x), form_gather_signed(x);
        form_gather_unscaled(x), form_gather_wide(x), form_gather_narrow(x), form_gather_bases(x);
        form_gather_bases32(x), form_gather_first(x), form_scatter_signed(x), form_scatter_bases(x);
        form_scatter_unscaled(x), form_late(x), form_ld1r(x), form_ldr_z(x), form_ldr_p(x),
            form_ss(x);
        form_pf(x), form_pf_near(x), form_pf_reg(x), form_pf_literal(x), form_pf_then(x);
        form_pf_lost(x), form_prf_si(x), form_prf_back(x), form_prf_ss(x), form_prf_part(x);
        form_prf_signed(x), form_prf_unsigned(x), form_prf_wide(x), form_prf_bases(x);
        form_prf_bases32(x);
    }
    return 0;
}
