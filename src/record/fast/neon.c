/* The NEON variant: compares 16 bytes at once; otherwise like the portable one. */
#include "record/fast/portable.h"

#ifdef FAST_NEON
#include <arm_neon.h>

struct bytes {
    const uint8_t *at;
};

FAST_INLINE struct bytes load(const uint8_t *data)
{
    return (struct bytes){data};
}

FAST_INLINE bool matches(const struct pattern *pattern, struct bytes bytes)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vld1q_u8(bit);
    uint8x16_t difference = vdupq_n_u8(0);
    for (unsigned i = 0; i < CELL; i += 16) {
        uint64_t places = pattern->compared >> i;
        uint8x16_t spread = vtstq_u8(
            vcombine_u8(vdup_n_u8((uint8_t)places), vdup_n_u8((uint8_t)(places >> 8))), bits);
        uint8x16_t other = veorq_u8(vld1q_u8(bytes.at + i), vld1q_u8(pattern->value + i));
        difference = vorrq_u8(difference, vandq_u8(other, spread));
    }
    return vmaxvq_u8(difference) == 0;
}

#include "record/fast/loop.h"

const struct fast_variant fast_neon = {"NEON", read_cells, find, found, cell_key, walk_one};
#endif
