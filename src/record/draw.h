/* What the generator draws at random: the fields and packets of one record. */
#ifndef RECORD_DRAW_H
#define RECORD_DRAW_H

#include "generator.h"

#include "base/rng.h"

enum { DRAW_ROWS = 15, DRAW_PACKETS = 40 };

struct draw_state {
    struct rng rng;
    uint64_t timestamp, pc[3];
    uint16_t weights[DRAW_ROWS];
    uint32_t total;
};

/* One record while it is being made. */
struct draft {
    const struct arch_features *f;
    struct rng *rng;
    struct spex_record *record;
    struct spex_packet packets[DRAW_PACKETS];
    unsigned count;
    size_t room; /* bytes left below MaxSize, closing packet deducted */
    bool rich;   /* may use extended headers and IMPLEMENTATION DEFINED packets */
};

static inline bool chance(struct rng *rng, uint32_t percent)
{
    return rng_chance(rng, percent, 100);
}

/* Selects the operations to draw from; s was zero except for its random numbers. */
void draw_choose(struct draw_state *s, const struct arch_features *f, unsigned ops);
void draw_record(const struct spex_generator *g, struct draw_state *s, struct draft *d);

#endif
