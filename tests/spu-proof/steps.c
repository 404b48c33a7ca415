/* Runs: a random configuration, random steps, and a failing run made short. */
#include "pair.h"

#include "base/bits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- configurations ---- */

static bool possible(const struct arch_features *features, const struct spu_choices *choices)
{
    struct spu_config config;
    struct spex_error error;
    spu_config_default(&config);
    config.features = *features;
    config.choices = *choices;
    return spu_config_check(&config, &error) == SPEX_OK;
}

/* A preset, or one with random changes of which each is kept if the set stays possible. */
static void make_features(struct rng *rng, struct arch_features *f)
{
    unsigned count = 0;
    while (spex_features_preset_name(count))
        count++;
    arch_features_preset(spex_features_preset_name(rng_below(rng, count)), f);
    if (rng_chance(rng, 1, 4))
        return;
    for (unsigned i = 0; i < 60; i++) {
        struct arch_features next = *f;
        const char *text, *name;
        unsigned rows = 0;
        while (spex_features_describe(rows, &text))
            rows++;
        unsigned row = rng_below(rng, rows);
        name = spex_features_describe(row, &text);
        uint8_t *field = (uint8_t *)&next + row; /* rows and fields have one order, a byte each */
        if (!strcmp(name, "version")) {
            next.version = (uint8_t)(1 + rng_below(rng, 6));
            next.FnE = next.version >= 3;
            next.F |= next.version >= 4;
            if (next.version >= 6)
                next.CRR = next.EXC = next.nVM = true;
            else
                next.EXC = false;
        } else if (*field > 1 || !strcmp(name, "altclk") || !strcmp(name, "align") ||
                   !strcmp(name, "ea")) {
            *field = (uint8_t)rng_below(rng, 12);
        } else {
            *field = !*field;
        }
        if (!strcmp(name, "eft") || !strcmp(name, "fpf"))
            next.EFT = next.FPF = *field;
        struct spex_error error;
        if (arch_features_check(&next, &error) == SPEX_OK)
            *f = next;
    }
}

/* Not in these runs: there is no reset, and the random source is the host's. */
bool run_leaves_out(const char *name)
{
    static const char *const names[] = {"reset_unknown", "random_register"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static void make_choices(struct rng *rng, const struct arch_features *f,
                         struct spu_choices *choices)
{
    spu_choices_default(choices);
    if (rng_chance(rng, 1, 4))
        return;
    const struct spex_spu_choice *row;
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        struct spu_choices next = *choices;
        uint64_t *field = spu_choice_field(&next, i);
        if (run_leaves_out(row->name) || rng_chance(rng, 2, 3))
            continue;
        uint64_t range = row->max - row->min;
        *field = range == UINT64_MAX ? rng_next(rng) & rng_next(rng)
                                     : row->min + rng_below(rng, (uint32_t)range + 1);
        if (!strcmp(row->name, "fault_lag"))
            *field %= 4;
        if (!strcmp(row->name, "register_sync") && rng_chance(rng, 2, 3))
            *field = 0; /* rarer: little is enabled with it */
        if (possible(f, &next))
            *choices = next;
    }
}

/* ---- steps ---- */

/* Values that mean something more often than 64 random bits would. */
uint64_t step_value(struct rng *rng, unsigned encoding)
{
    uint64_t r = rng_next(rng);
    switch (encoding) {
    /* clang-format off */
    case SPEX_PMSICR_EL1:
        return rng_chance(rng, 1, 8) ? r & (BITS(63, 56) | 0x3ff)
               : rng_chance(rng, 1, 8) ? r & 7 : 1 + r % 2;
    case SPEX_PMSIRR_EL1: return (r >> 8) % 4 << 8 | (r & 1);
    case SPEX_PMBPTR_EL1: return BASE + (r & (rng_chance(rng, 3, 4) ? 0x1800 : 0x1fff));
    /* clang-format on */
    case SPEX_PMBLIMITR_EL1:
        return (rng_chance(rng, 1, 10) ? r & BITS(63, 12) : BASE + ((r >> 20) % 4 << 12)) |
               (rng_chance(rng, 3, 4) ? 1 : r & 0xff);
    case SPEX_PMBSR_EL1:
    case SPEX_PMBSR_EL2:
    case SPEX_PMBSR_EL3:
    case SPEX_PMBSR_EL12:
        return rng_chance(rng, 2, 3) ? r & ~BIT(17) : r;
    case SPEX_PMSEVFR_EL1:
    case SPEX_PMSNEVFR_EL1:
        return rng_chance(rng, 1, 3) ? r : r & rng_next(rng) & rng_next(rng) & rng_next(rng);
    case SPEX_PMSFCR_EL1:
        return rng_chance(rng, 1, 2) ? 0 : r;
    case SPEX_PMSLATFR_EL1:
        return rng_chance(rng, 1, 2) ? r & 15 : r & 0xffff;
    case SPEX_HDFGRTR_EL2:
    case SPEX_HDFGWTR_EL2:
        return rng_chance(rng, 1, 2) ? BIT(62) : r & rng_next(rng);
    case SPEX_HDFGRTR2_EL2:
    case SPEX_HDFGWTR2_EL2:
        return r | rng_next(rng);
    case SPEX_HCR_EL2: /* TGE, E2H, TEA, GPF; or NV too */
        return rng_chance(rng, 1, 2) ? r & (BIT(27) | BIT(34) | BIT(37) | BIT(48)) : r;
    }
    return r;
}

static void make_step(struct rng *rng, struct step *step)
{
    static const struct {
        uint8_t kind, weight;
    } table[] = {
        /* clang-format off */
        {STEP_OP, 40}, {STEP_SAMPLE, 110}, {STEP_PASS, 30},   {STEP_BEGIN, 12}, {STEP_COMPLETE, 12},
        {STEP_ABANDON, 1},   {STEP_MSR, 26},    {STEP_MRS, 10},   {STEP_SET, 40},
        {STEP_STATE, 8},    {STEP_PSB, 4},     {STEP_SYNC, 3},   {STEP_EXCEPTION, 2},
        {STEP_PLAN, 5},      {STEP_ABORT, 2},   {STEP_IMPDEF, 1}, {STEP_TIME, 3},
        {STEP_RESTART, 16},  {STEP_SAVE, 1},
    };
    /* clang-format on */
    unsigned total = 0, pick;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        total += table[i].weight;
    pick = rng_below(rng, total);
    size_t i = 0;
    while (pick >= table[i].weight)
        pick -= table[i++].weight;
    *step = (struct step){.kind = table[i].kind, .seed = rng_next(rng)};
    step->el = (uint8_t)rng_below(rng, 4);
    step->security = (uint8_t)rng_below(rng, 3);
    step->flags = rng_chance(rng, 1, 8) ? (uint8_t)rng_next(rng) : (uint8_t)rng_below(rng, 2);
    step->value = rng_next(rng);
    switch (step->kind) {
    case STEP_MSR:
    case STEP_MRS:
        step->encoding = rng_chance(rng, 1, 8) ? PICK(rng, others) : PICK(rng, ours);
        step->value = step_value(rng, step->encoding);
        break;
    case STEP_SET: /* half of them bring the next sample near */
        step->encoding = rng_chance(rng, 1, 2)   ? SPEX_PMSICR_EL1
                         : rng_chance(rng, 2, 3) ? PICK(rng, others)
                                                 : PICK(rng, ours);
        step->value = step_value(rng, step->encoding);
        break;
    /* clang-format off */
    case STEP_PASS: step->value %= rng_chance(rng, 1, 6) ? 1200 : 12; break;
    case STEP_TIME: step->value %= 100000; break;
        /* clang-format on */
    }
}

static void make_steps(struct rng *rng, struct run *run, size_t count)
{
    uint8_t fixed = (uint8_t)rng_next(rng);
    bool same = rng_chance(rng, 1, 4);
    for (size_t i = 0; i < sizeof run->random; i++)
        run->random[i] = same ? fixed : (uint8_t)rng_next(rng);
    run->count = count;
    run->steps = calloc(count ? count : 1, sizeof *run->steps);
    if (!run->steps)
        abort();
    for (size_t i = 0; i < count; i++)
        make_step(rng, &run->steps[i]);
    if (count)
        run->steps[0].kind = STEP_RESTART;
}

void run_fill(struct run *run, uint64_t seed, size_t count)
{
    struct rng rng = {seed};
    make_steps(&rng, run, count);
}

void run_make(struct run *run, uint64_t seed, size_t count)
{
    struct rng r = {seed}, *rng = &r;
    do {
        make_features(rng, &run->features);
        spu_choices_default(&run->choices);
    } while (!possible(&run->features, &run->choices));
    make_choices(rng, &run->features, &run->choices);
    make_steps(rng, run, count);
}

void run_free(struct run *run)
{
    free(run->steps);
    run->steps = NULL;
}

/* ---- shrinking ---- */

static bool fails(const struct run *run, enum path path)
{
    struct run_result result;
    run_play(run, path, &result);
    return !result.equal;
}

/* Delta debugging: leave out half, a quarter, ... single steps, until nothing can go. */
void run_shrink(struct run *run, enum path path)
{
    struct run_result result;
    run_play(run, path, &result);
    if (result.equal)
        return;
    if (result.step + 1 < run->count)
        run->count = result.step + 1;
    struct step *all = malloc(run->count * sizeof *all);
    if (!all)
        abort();
    for (size_t chunk = run->count / 2; chunk >= 1;) {
        bool shorter = false;
        for (size_t at = 0; at < run->count;) {
            size_t n = at + chunk > run->count ? run->count - at : chunk, before = run->count;
            memcpy(all, run->steps, before * sizeof *all);
            memmove(run->steps + at, run->steps + at + n, (before - at - n) * sizeof *all);
            run->count -= n;
            if (run->count && fails(run, path)) {
                shorter = true;
                continue;
            }
            memcpy(run->steps, all, before * sizeof *all);
            run->count = before;
            at += n;
        }
        if (chunk == 1 && !shorter)
            break;
        if (chunk > 1)
            chunk /= 2;
    }
    free(all);
    for (size_t i = 0; i < run->count; i++) { /* blocks as short as they may be */
        struct step *step = &run->steps[i];
        uint64_t before = step->value;
        if (step->kind != STEP_PASS)
            continue;
        for (uint64_t less = before / 2; less; less /= 2) {
            while (step->value > less) {
                step->value -= less;
                if (!fails(run, path)) {
                    step->value += less;
                    break;
                }
            }
        }
    }
}
