/* Which variants this machine can run. */
#include "record/fast/fast.h"

#ifdef FAST_X86
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi2");
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}
#endif

const struct fast_variant *fast_variant(size_t index)
{
    const struct fast_variant *all[4] = {NULL};
    size_t n = 0;
#ifdef FAST_X86
    if (has_avx512())
        all[n++] = &fast_avx512;
    if (has_avx2())
        all[n++] = &fast_avx2;
#endif
#ifdef FAST_NEON
    all[n++] = &fast_neon;
#endif
    all[n++] = &fast_portable;
    return index < n ? all[index] : NULL;
}
