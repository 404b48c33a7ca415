/*
 * Prediction of directions (TAGE-like) and of targets of indirect branches (ITTAGE-like):
 * tables that see more and more of the history; the longest that knows the branch
 * decides.
 */
#include "uarch/account.h"

#define ODD 0x9e3779b97f4a7c15ull
#define ODD0 0xbf58476d1ce4e5b9ull
#define ODD1 0x94d049bb133111ebull
#define ODD2 0xd6e8feb86659fd93ull

/*
 * Index from the top bits of a hash of branch and history, tag from those in the middle. What
 * a table sees of the history is different for each.
 */
static inline uint64_t hash(const struct timing_predictor *p, const struct timing_table *see,
                            uint64_t key)
{
    uint64_t x = key ^ (p->history[0] & see->mask[0]) * ODD0;
    if (see->words > 1)
        x ^= (p->history[1] & see->mask[1]) * ODD1;
    if (see->words > 2)
        x ^= (p->history[2] & see->mask[2]) * ODD2;
    return x;
}

static inline uint32_t index_of(uint64_t h, uint32_t bits)
{
    return (uint32_t)(h >> (64 - bits));
}

static inline uint16_t tag_of(uint64_t h)
{
    return (uint16_t)(h >> 34);
}

uint64_t timing_branch_key(uint64_t pc)
{
    return (pc >> 2) * ODD;
}

static inline void remember(struct timing_predictor *p, uint64_t bits, unsigned count)
{
    p->history[2] = p->history[2] << count | p->history[1] >> (64 - count);
    p->history[1] = p->history[1] << count | p->history[0] >> (64 - count);
    p->history[0] = p->history[0] << count | bits;
}

/* ---- directions ---- */

/*
 * What becomes of an entry: its counter goes towards what the branch did; it was of
 * use if what is below it would have said something else.
 */
#define COUNT(c, how) ((how)&1 ? (c) + ((c) < 7) : (c) - ((c) > 0))
#define USE(u, c, how)                                                                             \
    (!((how)&2) ? (u) : ((c) >= 4) == ((how)&1) ? (u) + ((u) < 3) : (u) - ((u) > 0))
#define NEXT(how, s) (uint8_t)(USE((s) >> 3, (s)&7, how) << 3 | COUNT((s)&7, how))
#define EIGHT(how, s)                                                                              \
    NEXT(how, s), NEXT(how, s + 1), NEXT(how, s + 2), NEXT(how, s + 3), NEXT(how, s + 4),          \
        NEXT(how, s + 5), NEXT(how, s + 6), NEXT(how, s + 7)
#define STATES(how)                                                                                \
    {                                                                                              \
        EIGHT(how, 0), EIGHT(how, 8), EIGHT(how, 16), EIGHT(how, 24)                               \
    }
/* By taken | differs << 1. */
static const uint8_t trained[4][TIMING_STATES] = {STATES(0), STATES(1), STATES(2), STATES(3)};

/* The same for a two-bit counter: counts | taken << 1. */
static const uint8_t counted[4][4] = {{0, 1, 2, 3}, {0, 0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3, 3}};

/*
 * The branch was mispredicted: a table above those that know it gets an entry, if one gives
 * way. at: entries of the branch, longest history first; knew: the first that knows it.
 */
static __attribute__((noinline)) void learn(struct timing_predictor *p, timing_tagged *const *at,
                                            uint32_t knew, uint64_t key, bool taken)
{
    for (uint32_t i = knew; i-- > 0;)
        if (!(*at[i] >> 19)) {
            uint16_t tag = tag_of(hash(p, &p->see[p->tables - 1 - i], key));
            *at[i] = (taken ? 4u : 3u) << 16 | tag;
            return;
        }
    for (uint32_t i = 0; i < knew; i++) /* nobody gave way: some time one will */
        *at[i] -= 8u << 16;
}

/*
 * Without branches where it can be: what the guest's branches do, those of the host
 * would not foresee either. tables is a constant: the loop is unrolled.
 */
static inline __attribute__((always_inline)) bool
direction(struct timing_predictor *p, uint64_t key, uint64_t pc, bool taken, uint32_t tables)
{
    const unsigned shift = 64 - p->bits;
    const uint64_t newest = p->history[0];
    uint8_t *base = &p->base[(pc >> 2) & p->base_mask], below = *base;
    timing_tagged bottom = (uint32_t)below << 17, *at[TIMING_TABLES + 1];
    uint32_t known = 1; /* a bit for each table, that of the longest history in bit 0 */
#pragma GCC unroll 8
    for (uint32_t i = 0; i < tables; i++) {
        const struct timing_table *see = &p->see[i];
        uint64_t h = key ^ (newest & see->mask[0]) * ODD0;
        if (i + 2 >= tables) /* others see no more than 64 branches */
            h ^= (p->history[1] & see->mask[1]) * ODD1;
        if (i + 1 == tables) /* and 128 */
            h ^= (p->history[2] & see->mask[2]) * ODD2;
        timing_tagged *e = &p->tagged[i][h >> shift];
        at[tables - 1 - i] = e;
        known += known + ((uint16_t)((h >> 34) ^ *e) < 1);
    }
    at[tables] = &bottom;
    uint32_t best = (uint32_t)__builtin_ctz(known);
    uint32_t second = (uint32_t)__builtin_ctz((known & (known - 1)) | 1u << tables);
    uint32_t now = *at[best], state = now >> 16;
    bool guess = state >> 2 & 1, other = *at[second] >> 18 & 1;
    /* One that was made lately and is not sure yet. */
    bool fresh = (best != tables) & (state - 3u < 2);
    bool wrong = (fresh ? other : guess) != taken;
    bool counts = (second == tables) & (fresh | (best == tables));
    uint32_t next = trained[taken | (guess != other) << 1][state];
    *at[best] = next << 16 | (now & 0xffff);
    *base = counted[counts | taken << 1][below];
    if (wrong)
        learn(p, at, best, key, taken);
    remember(p, taken, 1);
    return wrong;
}

bool timing_direction(struct timing_predictor *p, uint64_t key, uint64_t pc, bool taken)
{
    switch (p->tables) { /* those of the presets */
    case 5:
        return direction(p, key, pc, taken, 5);
    case 6:
        return direction(p, key, pc, taken, 6);
    case 7:
        return direction(p, key, pc, taken, 7);
    case 8:
        return direction(p, key, pc, taken, 8);
    default:
        return direction(p, key, pc, taken, p->tables);
    }
}

/* ---- targets ---- */

bool timing_indirect(struct timing_predictor *p, uint64_t key, uint64_t pc, uint64_t to)
{
    struct timing_target *entry[TIMING_TABLES], *best = NULL;
    uint16_t tag[TIMING_TABLES];
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->targets; i++) {
        uint64_t h = hash(p, &p->target_see[i], key);
        entry[i] = &p->target[i][index_of(h, p->target_bits)];
        tag[i] = tag_of(h);
        if (entry[i]->tag == tag[i] && entry[i]->target) {
            best = entry[i];
            at = i + 1;
        }
    }
    uint64_t *base = &p->base_target[(pc >> 2) % 512];
    bool wrong = (best ? best->target : *base) != to;
    if (best) {
        if (!wrong)
            best->confidence = (uint8_t)(best->confidence + (best->confidence < 3));
        else if (best->confidence)
            best->confidence--;
        else
            best->target = to;
    }
    *base = to;
    if (wrong && at < p->targets) {
        uint32_t i = at;
        while (i < p->targets && entry[i]->confidence)
            i++;
        if (i < p->targets)
            *entry[i] = (struct timing_target){.target = to, .tag = tag[i]};
        else
            for (i = at; i < p->targets; i++)
                entry[i]->confidence--;
    }
    remember(p, (to >> 2 ^ to >> 7) & 3, 2);
    return wrong;
}
