/* The predictors of slow.c. */

static void remember(struct core *k, unsigned bit)
{
    k->history = realloc(k->history, k->branches + 1);
    k->history[k->branches++] = (unsigned char)bit;
}

/* Length of the history that table i of n sees: geometric from 4 to the longest. */
static unsigned history_length(unsigned i, unsigned n, unsigned longest)
{
    double root = 1;
    if (n < 2)
        return 4;
    for (double step = 32; step > 1e-12; step /= 2) {
        double power = 1;
        for (unsigned m = 1; m < n; m++)
            power *= root + step;
        if (power < longest / 4.0)
            root += step;
    }
    double length = 4;
    while (i--)
        length *= root;
    return (unsigned)(length + 0.5);
}

static u64 hash_of(const struct core *k, u64 pc, unsigned length)
{
    static const u64 odd[3] = {0xbf58476d1ce4e5b9ull, 0x94d049bb133111ebull, 0xd6e8feb86659fd93ull};
    u64 x = pc / 4 * 0x9e3779b97f4a7c15ull;
    for (unsigned w = 0; w * 64 < length; w++) {
        u64 bits = 0;
        for (unsigned i = w * 64; i < length && i < (w + 1) * 64; i++)
            if (i < k->branches && k->history[k->branches - 1 - i])
                bits |= 1ull << (i - w * 64);
        x ^= bits * odd[w];
    }
    return x;
}

static unsigned tag_from(u64 h)
{
    return (unsigned)(h >> 34 & 0xffff);
}

static bool predict_direction(struct core *k, u64 pc, bool taken)
{
    const struct uarch_config *c = &k->slow->c;
    struct tagged *entry[8];
    unsigned tag[8];
    int best = -1, second = -1;
    for (unsigned i = 0; i < c->tage_tables; i++) {
        u64 h = hash_of(k, pc, history_length(i, c->tage_tables, c->tage_history));
        entry[i] = &k->tagged[i][h >> (64 - c->tage_bits)];
        tag[i] = tag_from(h);
        if (entry[i]->tag == tag[i]) {
            second = best;
            best = (int)i;
        }
    }
    unsigned char *base = &k->base[pc / 4 % (1u << c->base_bits)];
    bool below = second >= 0 ? entry[second]->counter >= 0 : *base >= 2;
    bool guess = best >= 0 ? entry[best]->counter >= 0 : below;
    bool fresh = best >= 0 && entry[best]->useful == 0 &&
                 (entry[best]->counter == 0 || entry[best]->counter == -1);
    bool wrong = taken != (fresh ? below : guess);
    if (best >= 0) {
        struct tagged *b = entry[best];
        if (guess != below && guess == taken && b->useful < 3)
            b->useful++;
        if (guess != below && guess != taken && b->useful > 0)
            b->useful--;
        b->counter += taken ? b->counter < 3 : -(b->counter > -4);
    }
    if (best < 0 || (fresh && second < 0))
        *base = (unsigned char)(taken ? *base + (*base < 3) : *base - (*base > 0));
    unsigned i = (unsigned)(best + 1), n = c->tage_tables;
    if (wrong) {
        while (i < n && entry[i]->useful)
            i++;
        if (i < n)
            *entry[i] = (struct tagged){tag[i], taken ? 0 : -1, 0};
        else
            for (i = (unsigned)(best + 1); i < n; i++)
                entry[i]->useful--;
    }
    remember(k, taken);
    return wrong;
}

static bool predict_target(struct core *k, u64 pc, u64 to)
{
    const struct uarch_config *c = &k->slow->c;
    struct target *entry[8];
    unsigned tag[8], n = c->ittage_tables;
    int best = -1;
    for (unsigned i = 0; i < n; i++) {
        u64 h = hash_of(k, pc, history_length(i, n, c->tage_history));
        entry[i] = &k->target[i][h >> (64 - c->ittage_bits)];
        tag[i] = tag_from(h);
        if (entry[i]->target && entry[i]->tag == tag[i])
            best = (int)i;
    }
    u64 *base = &k->base_target[pc / 4 % 512];
    bool wrong = to != (best >= 0 ? entry[best]->target : *base);
    if (best >= 0 && !wrong)
        entry[best]->confidence += entry[best]->confidence < 3;
    else if (best >= 0 && entry[best]->confidence)
        entry[best]->confidence--;
    else if (best >= 0)
        entry[best]->target = to;
    *base = to;
    unsigned i = (unsigned)(best + 1);
    if (wrong) {
        while (i < n && entry[i]->confidence)
            i++;
        if (i < n)
            *entry[i] = (struct target){tag[i], 0, to};
        else
            for (i = (unsigned)(best + 1); i < n; i++)
                entry[i]->confidence--;
    }
    unsigned bits = (to / 4 ^ to / 128) & 3;
    remember(k, bits >> 1);
    remember(k, bits & 1);
    return wrong;
}
