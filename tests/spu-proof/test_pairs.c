/*
 * Every choice and every feature with every other: configurations that together hold all pairs
 * of values that the configuration check accepts, each driven through the model-based comparison.
 *
 * Usage: test-pairs [SEED STEPS [refused]]: STEPS in runs of 1000 for each configuration; the
 * pairs that no accepted configuration was found for.
 *
 * The configurations are a greedy covering array: one begins with a pair that none has held so
 * far; then each factor in turn takes the value that brings the most new pairs, as long as the
 * check accepts the whole.
 */
#include "steps.h"

#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACTORS = 192, VALUES = 10, ALL = 1024 };

/* A row of choices.def or features.def, and the values that are tried. */
static struct factor {
    const char *name;
    bool feature;
    size_t row;
    unsigned count, first; /* values; number of the first among all */
    uint64_t values[VALUES];
} factors[FACTORS];
static unsigned factor_count, all;

enum { UNKNOWN, COVERED, REFUSED };
static uint8_t pair_state[ALL][ALL];

struct setting {
    struct arch_features features;
    struct spu_choices choices;
};

static bool accepted(const struct setting *s)
{
    struct spu_config config;
    struct spex_error error;
    spu_config_default(&config);
    config.features = s->features;
    config.choices = s->choices;
    return spu_config_check(&config, &error) == SPEX_OK;
}

static uint64_t get(const struct setting *s, const struct factor *f)
{
    return f->feature ? ((const uint8_t *)&s->features)[f->row]
                      : *spu_choice_field(&s->choices, f->row);
}

static void put(struct setting *s, const struct factor *f, uint64_t value)
{
    if (f->feature)
        ((uint8_t *)&s->features)[f->row] = (uint8_t)value;
    else
        *spu_choice_field(&s->choices, f->row) = value;
}

/* The number of the value that a factor has, or -1: one that is not tried. */
static int number(const struct setting *s, const struct factor *f)
{
    uint64_t value = get(s, f);
    for (unsigned v = 0; v < f->count; v++)
        if (f->values[v] == value)
            return (int)(f->first + v);
    return -1;
}

/* ---- which values ---- */

static void add_value(struct factor *f, uint64_t value)
{
    for (unsigned v = 0; v < f->count; v++)
        if (f->values[v] == value)
            return;
    if (f->count < VALUES)
        f->values[f->count++] = value;
}

/* All of a few; else the ends, the default and what has a meaning of its own. */
static void add_values(struct factor *f, uint64_t min, uint64_t max, uint64_t standard)
{
    static const uint64_t special[] = {1,  6,  7,  12, 14,
                                       15, 16, 48, 52, UINT64_C(0x5555555555555555)};
    add_value(f, standard);
    add_value(f, min);
    add_value(f, max);
    if (max - min < VALUES)
        for (uint64_t value = min; value <= max; value++)
            add_value(f, value);
    else
        for (size_t i = 0; i < sizeof special / sizeof *special; i++)
            if (special[i] > min && special[i] < max && (max != UINT64_MAX || special[i] > 99))
                add_value(f, special[i]);
}

static void list_factors(void)
{
    const char *name, *text;
    struct arch_features most;
    arch_features_preset("max", &most);
    for (size_t row = 0; (name = spex_features_describe(row, &text)); row++) {
        struct factor *f = &factors[factor_count];
        if (!strcmp(name, "ts")) /* of the generator and the checker */
            continue;
        *f = (struct factor){.name = name, .feature = true, .row = row};
        uint64_t least = 0, largest = 1;
        if (!strcmp(name, "version"))
            least = 1, largest = 6;
        else if (!strcmp(name, "countsize"))
            least = 2, largest = 3;
        else if (!strcmp(name, "maxsize"))
            least = 6, largest = 11;
        else if (!strcmp(name, "interval") || !strcmp(name, "align"))
            largest = 8;
        else if (!strcmp(name, "ea"))
            largest = 2;
        else if (!strcmp(name, "altclk"))
            largest = 15;
        add_values(f, least, largest, ((uint8_t *)&most)[row]);
        factor_count++;
    }
    const struct spex_spu_choice *choice;
    for (size_t row = 0; (choice = spex_spu_choice_at(row)); row++) {
        struct factor *f = &factors[factor_count];
        if (run_leaves_out(choice->name))
            continue;
        *f = (struct factor){.name = choice->name, .row = row};
        /* A lag is a lag; long ones only make fewer faults. */
        add_values(f, choice->min, strcmp(choice->name, "fault_lag") ? choice->max : 4,
                   choice->standard);
        factor_count++;
    }
    if (factor_count > FACTORS)
        abort();
}

/* ---- configurations ---- */

static void base(struct rng *rng, struct setting *s)
{
    static const char *const presets[] = {"max", "min", "neoverse-n1", "neoverse-n2"};
    char list[64];
    struct spex_error error;
    spu_choices_default(&s->choices);
    do
        snprintf(list, sizeof list, "%s,v1p%u,maxsize=8", presets[rng_below(rng, 4)],
                 rng_below(rng, 6));
    while (arch_features_parse(list, &s->features, &error) || !accepted(s));
}

/* Changes others until the check accepts the setting; keep and with stay as they are. */
static bool repair(struct rng *rng, struct setting *s, const struct factor *keep,
                   const struct factor *with)
{
    for (unsigned depth = 0; depth < 4; depth++) {
        if (accepted(s))
            return true;
        struct setting next;
        for (unsigned n = 0; n < factor_count; n++) { /* one change that mends it */
            const struct factor *f = &factors[n];
            for (unsigned v = 0; f != keep && f != with && v < f->count; v++) {
                next = *s;
                put(&next, f, f->values[v]);
                if (accepted(&next)) {
                    *s = next;
                    return true;
                }
            }
        }
        const struct factor *any = &factors[rng_below(rng, factor_count)];
        if (any != keep && any != with)
            put(s, any, any->values[rng_below(rng, any->count)]);
    }
    return false;
}

/* A setting with both values, or false if none is found. */
static bool with_pair(struct rng *rng, const struct factor *a, uint64_t x, const struct factor *b,
                      uint64_t y, unsigned tries, struct setting *s)
{
    for (unsigned i = 0; i < tries; i++) {
        base(rng, s);
        put(s, a, x);
        put(s, b, y);
        if (accepted(s))
            return true;
    }
    for (unsigned i = 0; i < 40; i++) {
        base(rng, s);
        put(s, a, x);
        put(s, b, y);
        if (repair(rng, s, a, b))
            return true;
    }
    return false;
}

static unsigned gain(const struct setting *s, const struct factor *f, unsigned value)
{
    unsigned fresh = 0;
    for (unsigned i = 0; i < factor_count; i++) {
        int other = &factors[i] == f ? -1 : number(s, &factors[i]);
        if (other >= 0)
            fresh += pair_state[value][other] != COVERED;
    }
    return fresh;
}

/* Each factor in turn takes what brings the most. */
static void fill(struct rng *rng, struct setting *s, const struct factor *a, const struct factor *b)
{
    unsigned start = rng_below(rng, factor_count);
    for (unsigned n = 0; n < factor_count; n++) {
        const struct factor *f = &factors[(start + n * 71) % factor_count];
        if (f == a || f == b)
            continue;
        int now = number(s, f);
        unsigned best = now >= 0 ? gain(s, f, (unsigned)now) : 0;
        struct setting next = *s;
        for (unsigned v = 0; v < f->count; v++) {
            unsigned fresh = gain(s, f, f->first + v);
            struct setting other = *s;
            put(&other, f, f->values[v]);
            if (fresh > best && accepted(&other)) {
                best = fresh;
                next = other;
            }
        }
        *s = next;
    }
}

static void cover(const struct setting *s)
{
    for (unsigned i = 0; i < factor_count; i++)
        for (unsigned j = 0; j < factor_count; j++) {
            int x = number(s, &factors[i]), y = number(s, &factors[j]);
            if (i != j && x >= 0 && y >= 0)
                pair_state[x][y] = COVERED;
        }
}

/* Values that no configuration can have: not of the array. */
static void drop_impossible(struct rng *rng)
{
    for (unsigned i = 0; i < factor_count; i++) {
        struct factor *f = &factors[i];
        unsigned kept = 0;
        for (unsigned v = 0; v < f->count; v++) {
            struct setting s;
            if (with_pair(rng, f, f->values[v], f, f->values[v], 40, &s))
                f->values[kept++] = f->values[v];
            else
                printf("# %s is never %" PRIu64 "\n", f->name, f->values[v]);
        }
        f->count = kept;
        f->first = all;
        all += kept;
    }
    if (all > ALL)
        abort();
}

/* ---- the run ---- */

static bool drive(const struct setting *s, uint64_t seed, size_t steps, uint64_t *records)
{
    for (size_t done = 0; done < steps; done += 1000, seed++) {
        struct run run = {.features = s->features, .choices = s->choices};
        struct run_result result;
        enum path path = seed & 1 ? IN_BLOCKS : ONE_AT_A_TIME;
        run_fill(&run, seed, 1000);
        run_play(&run, path, &result);
        *records += result.records;
        if (!result.equal) {
            printf("# step %zu: %s\n", result.step, result.what);
            run_print_shrunk(&run, path);
            run_free(&run);
            return false;
        }
        run_free(&run);
    }
    return true;
}

int main(int argc, char **argv)
{
    struct rng r = {argc > 1 ? strtoull(argv[1], NULL, 0) : 1}, *rng = &r;
    size_t steps = argc > 2 ? strtoul(argv[2], NULL, 0) : 30000;
    uint64_t covered = 0, refused = 0, records = 0;
    unsigned settings = 0, broken = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool verbose = argc > 3 && !strcmp(argv[3], "refused");
    list_factors();
    drop_impossible(rng);
    for (unsigned i = 0; i < factor_count; i++)
        for (unsigned v = 0; v < factors[i].count; v++)
            for (unsigned j = i + 1; j < factor_count; j++)
                for (unsigned w = 0; w < factors[j].count; w++) {
                    const struct factor *a = &factors[i], *b = &factors[j];
                    uint8_t *state = &pair_state[a->first + v][b->first + w];
                    struct setting s;
                    if (*state == COVERED) {
                        covered++;
                        continue;
                    }
                    if (!with_pair(rng, a, a->values[v], b, b->values[w], 60, &s)) {
                        refused++;
                        *state = REFUSED;
                        if (verbose)
                            printf("# refused: %s=%" PRIu64 " %s=%" PRIu64 "\n", a->name,
                                   a->values[v], b->name, b->values[w]);
                        continue;
                    }
                    fill(rng, &s, a, b);
                    cover(&s);
                    covered++;
                    settings++;
                    broken += !drive(&s, rng_next(rng) >> 1, steps, &records);
                }
    printf("%sok 1 - the unit equals the naive unit in every pair of choices and features\n",
           broken ? "not " : "");
    printf("# %u factors, %u values, %" PRIu64 " pairs in %u configurations; %" PRIu64
           " pairs refused; %" PRIu64 " records checked\n",
           factor_count, all, covered, settings, refused, records);
    printf("1..1\n");
    return broken != 0;
}
