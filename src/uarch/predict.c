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
 * Index from the top bits of a hash of branch and history, tag from those in the middle. Each
 * table sees another part of the history.
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
 * How an entry changes: its counter moves towards what the branch did; it was useful if the
 * prediction below it would have been different. A recent entry that is not sure yet leaves
 * the decision to the one below. Indexed by state, the prediction below << 5, taken << 6: the
 * next state, WRONG, FRESH.
 */
enum { WRONG = 1 << 8, FRESH = 1 << 9 };
#define GUESS(s) ((s) >> 2 & 1)
#define NEW(s) ((s) == 3 || (s) == 4)
#define COUNT(c, taken) ((taken) ? (c) + ((c) < 7) : (c) - ((c) > 0))
#define USE(u, s, below, taken)                                                                    \
    (GUESS(s) == (below) ? (u) : GUESS(s) == (taken) ? (u) + ((u) < 3) : (u) - ((u) > 0))
#define RULE(s, below, taken)                                                                      \
    (USE((s) >> 3, s, below, taken) << 3 | COUNT((s)&7, taken) |                                   \
     ((NEW(s) ? (below) : GUESS(s)) != (taken) ? WRONG : 0) | (NEW(s) ? FRESH : 0))
#define EIGHT(s, below, taken)                                                                     \
    RULE(s, below, taken), RULE(s + 1, below, taken), RULE(s + 2, below, taken),                   \
        RULE(s + 3, below, taken), RULE(s + 4, below, taken), RULE(s + 5, below, taken),           \
        RULE(s + 6, below, taken), RULE(s + 7, below, taken)
#define STATES(below, taken)                                                                       \
    EIGHT(0, below, taken), EIGHT(8, below, taken), EIGHT(16, below, taken), EIGHT(24, below, taken)
static const uint16_t rules[4 * TIMING_STATES] = {STATES(0, 0), STATES(1, 0), STATES(0, 1),
                                                  STATES(1, 1)};

/* A two-bit counter: counts | taken << 1. */
static const uint8_t counted[4][4] = {{0, 1, 2, 3}, {0, 0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3, 3}};

/*
 * The branch was mispredicted: a table above those that know it gets an entry, if one can be
 * replaced. at: entries of the branch, longest history first; knew: the first that knows it.
 */
static __attribute__((noinline)) void learn(struct timing_predictor *p,
                                            struct timing_tagged *const *at, uint32_t knew,
                                            uint64_t key, bool taken)
{
    for (uint32_t i = knew; i-- > 0;)
        if (!(at[i]->state >> 3)) {
            uint16_t tag = tag_of(hash(p, &p->see[p->tables - 1 - i], key));
            *at[i] = (struct timing_tagged){.tag = tag, .state = taken ? 4 : 3};
            return;
        }
    for (uint32_t i = 0; i < knew;
         i++) /* none could be replaced: age them, so that one can be later */
        at[i]->state = (uint16_t)(at[i]->state - 8);
}

/*
 * Avoids branches where possible: the host cannot predict what the guest's branches do,
 * either. tables is a constant: the loop is unrolled.
 */
static inline __attribute__((always_inline)) bool direction(struct timing_predictor *p,
                                                            uint64_t key, uint64_t pc, bool taken,
                                                            uint32_t tables, bool far)
{
    const unsigned shift = 64 - p->bits;
    const uint64_t newest = p->history[0];
    uint8_t *base = &p->base[(pc >> 2) & p->base_mask], below = *base;
    struct timing_tagged *at[TIMING_TABLES + 1];
    uint32_t known = 1; /* a bit for each table, that of the longest history in bit 0 */
#pragma GCC unroll 8
    for (uint32_t i = 0; i < tables; i++) {
        const struct timing_table *see = &p->see[i];
        uint64_t h = key ^ (newest & see->mask[0]) * ODD0;
        if (i + 2 >= tables) /* others see no more than 64 branches */
            h ^= (p->history[1] & see->mask[1]) * ODD1;
        if (i + 1 == tables && far) /* and 128 */
            h ^= (p->history[2] & see->mask[2]) * ODD2;
        struct timing_tagged *e = &p->tagged[i][h >> shift];
        at[tables - 1 - i] = e;
        known += known + (e->tag == tag_of(h));
    }
    /* The counter below them as an entry that is sure: 6, 7 are taken. */
    struct timing_tagged bottom = {.state = (uint16_t)(below + (below & 2) * 2)};
    at[tables] = &bottom;
    uint32_t best = (uint32_t)__builtin_ctz(known);
    uint32_t second = (uint32_t)__builtin_ctz((known & (known - 1)) | 1u << tables);
    uint32_t other = at[second]->state >> 2 & 1;
    uint32_t rule = rules[at[best]->state | other << 5 | (uint32_t)taken << 6];
    at[best]->state = rule & 0xff;
    uint32_t counts = (best == tables) | ((rule / FRESH) & (second == tables));
    *base = counted[counts | (uint32_t)taken << 1][below];
    if (rule & WRONG)
        learn(p, at, best, key, taken);
    remember(p, taken, 1);
    return rule & WRONG;
}

bool timing_direction(struct timing_predictor *p, uint64_t key, uint64_t pc, bool taken)
{
    if (p->tables == 5 && p->see[4].words < 3) /* as most do; then those of other presets */
        return direction(p, key, pc, taken, 5, false);
    switch (p->tables) {
    case 6:
        return direction(p, key, pc, taken, 6, true);
    case 7:
        return direction(p, key, pc, taken, 7, true);
    case 8:
        return direction(p, key, pc, taken, 8, true);
    default:
        return direction(p, key, pc, taken, p->tables, true);
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
