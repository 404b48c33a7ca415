/*
 * Prediction of directions (TAGE-like) and of targets of indirect branches (ITTAGE-like). Each
 * table sees more of the history than the one below; the one with the longest history that knows
 * the branch decides.
 */
#include "uarch/far.h"

#define ODD 0x9e3779b97f4a7c15ull

/*
 * Index from the top bits of a hash of branch and history, tag from the middle bits. Each table
 * sees a different part of the history.
 */
static inline uint64_t hash(const struct timing_predictor *p, const struct timing_table *see,
                            uint64_t key)
{
    uint64_t x = key ^ (p->history[0] & see->mask[0]) * p->odd[0];
    if (see->words > 1)
        x ^= (p->history[1] & see->mask[1]) * p->odd[1];
    if (see->words > 2)
        x ^= (p->history[2] & see->mask[2]) * p->odd[2];
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
 * prediction below it would have been different. A recent entry that is not sure yet leaves the
 * decision to the one below. The two-bit counters below all tables are entries, too. Indexed by
 * state, the prediction below << 6, taken << 7; values: the next state, WRONG, FRESH.
 */
enum { WRONG = 1 << 8, FRESH = 1 << 9 };
#define COUNTER(s) ((s) / TIMING_COUNTER)
#define GUESS(s) ((s) >> 2 & 1)
#define NEW(s) ((s) == 3 || (s) == 4)
#define COUNT(c, taken) ((taken) ? (c) + ((c) < 7) : (c) - ((c) > 0))
#define COUNT2(c, taken)                                                                           \
    ((taken) ? ((c) == 1 ? 6 : (c) == 0 ? 1 : 7) : ((c) == 6 ? 1 : (c) == 7 ? 6 : 0))
#define USE(u, s, below, taken)                                                                    \
    (GUESS(s) == (below) ? (u) : GUESS(s) == (taken) ? (u) + ((u) < 3) : (u) - ((u) > 0))
#define NEXT(s, below, taken)                                                                      \
    (COUNTER(s) ? TIMING_COUNTER | COUNT2((s)&7, taken)                                            \
                : USE((s) >> 3, s, below, taken) << 3 | COUNT((s)&7, taken))
#define RULE(s, below, taken)                                                                      \
    (NEXT(s, below, taken) | ((NEW(s) ? (below) : GUESS(s)) != (taken) ? WRONG : 0) |              \
     (NEW(s) ? FRESH : 0))
/*
 * How the entry below changes: a counter below a FRESH one counts, too. Indexed by state, taken <<
 * 6, fresh << 7.
 */
#define BENEATH(s, taken, fresh)                                                                   \
    ((fresh) && COUNTER(s) ? TIMING_COUNTER | COUNT2((s)&7, taken) : (s))
#define EIGHT(row, s, a, b)                                                                        \
    row(s, a, b), row(s + 1, a, b), row(s + 2, a, b), row(s + 3, a, b), row(s + 4, a, b),          \
        row(s + 5, a, b), row(s + 6, a, b), row(s + 7, a, b)
#define STATES(row, a, b)                                                                          \
    EIGHT(row, 0, a, b), EIGHT(row, 8, a, b), EIGHT(row, 16, a, b), EIGHT(row, 24, a, b),          \
        EIGHT(row, 32, a, b), EIGHT(row, 40, a, b), EIGHT(row, 48, a, b), EIGHT(row, 56, a, b)
#define ALL(row)                                                                                   \
    {                                                                                              \
        STATES(row, 0, 0), STATES(row, 1, 0), STATES(row, 0, 1), STATES(row, 1, 1)                 \
    }
static const uint16_t rules[4 * TIMING_STATES] = ALL(RULE);
static const uint8_t beneath[4 * TIMING_STATES] = ALL(BENEATH);

/* A branch's slot in a table, and the tag that marks the slot as its own. */
static struct timing_tagged *entry_of(const struct timing_predictor *p, uint32_t table,
                                      uint64_t key, uint16_t *tag)
{
    uint64_t h = hash(p, &p->see[table], key);
    *tag = tag_of(h);
    return &p->tagged[table][h >> p->shift];
}

/*
 * Called on a misprediction: a table above the one that knew the branch gets an entry, if one can
 * be replaced.
 */
static __attribute__((noinline)) bool
learn(struct timing_predictor *p, const struct timing_tagged *knew, uint64_t key, bool taken)
{
    uint32_t first = 0, i;
    uint16_t tag;
    if (!COUNTER(knew->state))
        first = (uint32_t)((size_t)(knew - p->tagged[0]) / TIMING_ENTRIES) + 1;
    for (i = first; i < p->tables; i++) {
        struct timing_tagged *e = entry_of(p, i, key, &tag);
        if (e->state >> 3)
            continue;
        *e = (struct timing_tagged){.tag = tag, .state = taken ? 4 : 3};
        break;
    }
    if (i == p->tables) /* none could be replaced: age them, so that one can be replaced later */
        for (i = first; i < p->tables; i++)
            entry_of(p, i, key, &tag)->state -= 8;
    remember(p, taken, 1);
    return true;
}

/* An entry with the right tag becomes the best, and the best becomes the second. */
static inline __attribute__((always_inline)) void prefer(struct timing_tagged *entry, uint16_t tag,
                                                         struct timing_tagged **best,
                                                         struct timing_tagged **second)
{
#if defined __x86_64__ /* compilers make a branch, which the host mispredicts */
    __asm__("cmpw %w3, %4\n\tcmove %0, %1\n\tcmove %2, %0"
            : "+&r"(*best), "+&r"(*second)
            : "r"(entry), "r"(tag), "m"(entry->tag)
            : "cc");
#else
    bool knows = entry->tag == tag;
    *second = knows ? *best : *second;
    *best = knows ? entry : *best;
#endif
}

/*
 * Avoids branches where possible: the host cannot predict what the guest's branches do either.
 * tables is a constant, so the loop is unrolled. far: the last table sees more than 128 branches.
 */
static inline __attribute__((always_inline)) bool direction(struct timing_predictor *p,
                                                            uint64_t key, uint64_t pc, bool taken,
                                                            uint32_t tables, bool far)
{
    const uint64_t h0 = p->history[0], h1 = p->history[1];
    struct timing_tagged *best = &p->base[(pc >> 2) & p->base_mask], *second = best;
#pragma GCC unroll 8
    for (uint32_t i = 0; i < tables; i++) {
        const struct timing_table *see = &p->see[i];
        uint64_t h = key ^ (h0 & see->mask[0]) * p->odd[0];
        if (i + 2 >= tables) /* shorter tables see at most 64 branches */
            h ^= (h1 & see->mask[1]) * p->odd[1];
        if (i + 1 == tables && far)
            h ^= (p->history[2] & see->mask[2]) * p->odd[2];
        prefer(&p->tagged[i][h >> p->shift], tag_of(h), &best, &second);
    }
    uint32_t below = second->state;
    uint32_t rule = rules[best->state | GUESS(below) << 6 | (uint32_t)taken << 7];
    second->state = beneath[below | (uint32_t)taken << 6 | (rule & FRESH) >> 2];
    best->state = rule & 0xff; /* written last, since it may also be the second */
    if (rule & WRONG)
        return learn(p, best, key, taken);
    if (far)
        p->history[2] = p->history[2] << 1 | h1 >> 63;
    p->history[1] = h1 << 1 | h0 >> 63;
    p->history[0] = h0 << 1 | taken;
    return false;
}

static __attribute__((noinline)) bool long_direction(struct timing_predictor *p, uint64_t key,
                                                     uint64_t pc, bool taken)
{
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

static inline __attribute__((always_inline)) bool
any_direction(struct timing_predictor *p, uint64_t key, uint64_t pc, bool taken)
{
    return p->usual ? direction(p, key, pc, taken, 5, false) : long_direction(p, key, pc, taken);
}

/*
 * Most branches always go the same way. Once the counter below the tables is sure of such a branch,
 * it teaches the predictor nothing: no table disagrees, because tables only learn from
 * mispredictions.
 */
static inline bool steady(struct timing_predictor *p, struct timing_block *block, bool taken)
{
    uint8_t way = taken ? 2 : 1;
    if (__builtin_expect(block->ways != way, 0)) {
        block->ways |= way;
        return false;
    }
    return p->base[((block->next - 4) >> 2) & p->base_mask].state ==
           (TIMING_COUNTER | (taken ? 7 : 0));
}

void timing_far_cond(struct timing_core *core, struct timing_block *block, uint64_t next)
{
    struct timing_predictor *p = core->predictor;
    const bool taken = next != block->next;
    bool wrong = false;
    if (steady(p, block, taken))
        timing_history(p, taken);
    else
        wrong = any_direction(p, block->key, block->next - 4, taken) && !block->foreseen;
    core->counts.mispredict += wrong;
    if (taken && !timing_btb_near(core, block))
        timing_btb_look(core, block);
}

/* ---- targets ---- */

static bool indirect(struct timing_predictor *p, uint64_t key, uint64_t pc, uint64_t to)
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

/* ---- all branches ---- */

static bool mispredicts(struct timing_core *core, const struct timing_block *block, uint64_t next)
{
    struct timing_predictor *p = core->predictor;
    uint64_t pc = block->next - 4;
    bool wrong = false;
    switch (block->end) {
    case SPEX_UARCH_END_COND:
        return any_direction(p, block->key, pc, next != block->next);
    case SPEX_UARCH_END_RETURN:
        return p->ras[p->ras_top-- & p->ras_mask] != next;
    case SPEX_UARCH_END_INDIRECT_CALL:
    case SPEX_UARCH_END_INDIRECT:
        wrong = indirect(p, block->key, pc, next);
        break;
    }
    if (block->end == SPEX_UARCH_END_CALL || block->end == SPEX_UARCH_END_INDIRECT_CALL)
        p->ras[++p->ras_top & p->ras_mask] = block->next;
    return wrong;
}

bool timing_predict(struct timing_core *core, const struct timing_block *block, uint64_t next)
{
    return mispredicts(core, block, next) && !block->foreseen;
}
