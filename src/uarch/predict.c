/*
 * Prediction of directions (TAGE-like) and of targets of indirect branches (ITTAGE-like):
 * tables that see more and more of the history; the longest that knows the branch
 * decides.
 */
#include "uarch/account.h"

/* Index from the top bits of a hash of branch and history, tag from those in the middle. */
static inline uint64_t hash(const struct timing_predictor *p, const struct timing_table *see,
                            uint64_t pc, uint32_t table)
{
    uint64_t x = ((pc >> 2) + table) * 0x9e3779b97f4a7c15ull;
    x ^= (p->history[0] & see->mask[0]) * 0xbf58476d1ce4e5b9ull;
    if (see->words > 1)
        x ^= (p->history[1] & see->mask[1]) * 0x94d049bb133111ebull;
    if (see->words > 2)
        x ^= (p->history[2] & see->mask[2]) * 0xd6e8feb86659fd93ull;
    return x;
}

static inline uint32_t index_of(uint64_t h, uint32_t bits)
{
    return (uint32_t)(h >> (64 - bits));
}

static inline uint16_t tag_of(uint64_t h)
{
    return (uint16_t)((h >> 36 ^ h >> 14) & 0xfff);
}

static void remember(struct timing_predictor *p, uint64_t bits, unsigned count)
{
    p->history[2] = p->history[2] << count | p->history[1] >> (64 - count);
    p->history[1] = p->history[1] << count | p->history[0] >> (64 - count);
    p->history[0] = p->history[0] << count | bits;
}

static void count_to(int8_t *counter, bool up, int low, int high)
{
    if (up && *counter < high)
        ++*counter;
    else if (!up && *counter > low)
        --*counter;
}

bool timing_direction(struct timing_predictor *p, uint64_t pc, bool taken)
{
    struct timing_tagged *entry[TIMING_TABLES], *best = NULL, *second = NULL;
    uint16_t tag[TIMING_TABLES];
    uint32_t at = 0; /* tables up to the best, with it */
    for (uint32_t i = 0; i < p->tables; i++) {
        uint64_t h = hash(p, &p->see[i], pc, i);
        entry[i] = &p->tagged[i][index_of(h, p->bits)];
        tag[i] = tag_of(h);
        if (entry[i]->tag == tag[i]) {
            second = best;
            best = entry[i];
            at = i + 1;
        }
    }
    uint8_t *base = &p->base[(pc >> 2) & p->base_mask];
    bool other = second ? second->counter >= 0 : *base >= 2;
    bool guess = best ? best->counter >= 0 : other;
    /* One that was made lately and is not sure yet. */
    bool fresh = best && !best->useful && (best->counter == 0 || best->counter == -1);
    bool wrong = (fresh ? other : guess) != taken;

    if (best) {
        if (guess != other) {
            if (guess == taken && best->useful < 3)
                best->useful++;
            else if (guess != taken && best->useful > 0)
                best->useful--;
        }
        count_to(&best->counter, taken, -4, 3);
    }
    if (!best || (fresh && !second))
        *base = (uint8_t)(taken ? *base + (*base < 3) : *base - (*base > 0));
    if (wrong && at < p->tables) {
        uint32_t i = at;
        while (i < p->tables && entry[i]->useful)
            i++;
        if (i < p->tables)
            *entry[i] = (struct timing_tagged){.tag = tag[i], .counter = taken ? 0 : -1};
        else
            for (i = at; i < p->tables; i++) /* nobody gave way: some time one will */
                entry[i]->useful--;
    }
    remember(p, taken, 1);
    return wrong;
}

bool timing_indirect(struct timing_predictor *p, uint64_t pc, uint64_t to)
{
    struct timing_target *entry[TIMING_TABLES], *best = NULL;
    uint16_t tag[TIMING_TABLES];
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->targets; i++) {
        uint64_t h = hash(p, &p->target_see[i], pc, TIMING_TABLES + i);
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
