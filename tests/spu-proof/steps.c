#include "steps.h"

#include "ops.h"

#include "base/bits.h"
#include "base/rng.h"

#include "record/verifier.h"

#include <inttypes.h>
#include <stdarg.h>
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

/* clang-format off */
static const uint16_t ours[] = {
    SPEX_PMSCR_EL1,    SPEX_PMSCR_EL1,   SPEX_PMSICR_EL1,  SPEX_PMSICR_EL1,   SPEX_PMSIRR_EL1,
    SPEX_PMSFCR_EL1,   SPEX_PMSEVFR_EL1, SPEX_PMSNEVFR_EL1, SPEX_PMSLATFR_EL1, SPEX_PMSDSFR_EL1,
    SPEX_PMSIDR_EL1,   SPEX_PMBLIMITR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1,   SPEX_PMBSR_EL2,
    SPEX_PMBSR_EL3,    SPEX_PMBMAR_EL1,  SPEX_PMBIDR_EL1,  SPEX_PMSCR_EL2,    SPEX_PMSCR_EL12,
    SPEX_PMBSR_EL12,
};
static const uint16_t others[] = {
    SPEX_MDCR_EL2,     SPEX_MDCR_EL2,     SPEX_MDCR_EL3,       SPEX_MDCR_EL3,  SPEX_HCR_EL2,
    SPEX_HCR_EL2,      SPEX_SCR_EL3,      SPEX_SCR_EL3,        SPEX_CNTHCTL_EL2, SPEX_CNTVOFF_EL2,
    SPEX_CNTPOFF_EL2,  SPEX_CONTEXTIDR_EL1, SPEX_CONTEXTIDR_EL2, SPEX_PMCR_EL0, SPEX_HDFGRTR_EL2,
    SPEX_HDFGWTR_EL2,  SPEX_HDFGRTR2_EL2, SPEX_HDFGWTR2_EL2,   SPEX_HFGITR_EL2,
};
/* clang-format on */
#define PICK(rng, array) ((array)[rng_below(rng, sizeof(array) / sizeof *(array))])

static const uint64_t BASE = 0x40000000;

/* Values that mean something more often than 64 random bits would. */
static uint64_t make_value(struct rng *rng, unsigned encoding)
{
    uint64_t r = rng_next(rng);
    switch (encoding) {
    /* clang-format off */
    case SPEX_PMSICR_EL1:
        return rng_chance(rng, 1, 8) ? r & (BITS(63, 56) | 0x3ff)
               : rng_chance(rng, 1, 8) ? r & 7 : 1 + r % 2;
    case SPEX_PMSIRR_EL1: return (1 + (r >> 8) % 3) << 8 | (r & 1);
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
        step->value = make_value(rng, step->encoding);
        break;
    case STEP_SET: /* half of them bring the next sample near */
        step->encoding = rng_chance(rng, 1, 2)   ? SPEX_PMSICR_EL1
                         : rng_chance(rng, 2, 3) ? PICK(rng, others)
                                                 : PICK(rng, ours);
        step->value = make_value(rng, step->encoding);
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

/* ---- playing ---- */

/* The two units. either may be absent: unit NULL, or naive not used. */
struct pair {
    const struct run *run;
    struct spu_config config;
    struct spex_spu *unit;
    struct host a, b; /* of the unit, of the naive one */
    struct naive naive;
    bool compare;
    enum path path;
    struct {
        int unit, naive;
        unsigned name;
        uint64_t seed;
        struct spex_spu_state pe;
    } flight[NAIVE_SLOTS];
    unsigned flights;
    struct spex_spu_state pe;
    struct run_result *result;
    uint8_t *stream;
    size_t stream_size, stream_capacity;
    bool telling; /* print what happens, as lines of a script */
    unsigned named;
};

#define SAY(p, ...) ((p)->telling ? (void)printf(__VA_ARGS__) : (void)0)

static const char *const securities[] = {"s", "ns", "realm", "root"};

/* key=value, where the value is not the one that scripts assume. */
static void say_key(const struct pair *p, const char *key, const char *suffix, uint64_t value)
{
    if (value)
        SAY(p, value < 10 ? " %s%s=%" PRIu64 : " %s%s=0x%" PRIx64, key, suffix, value);
}

static void say_access(const struct pair *p, const struct spex_access *a, const char *suffix)
{
    say_key(p, "va", suffix, a->va);
    say_key(p, "pa", suffix, a->pa);
    say_key(p, "events", suffix, a->events);
    say_key(p, "xlat", suffix, a->translation);
    say_key(p, "source", suffix, a->data_source);
    say_key(p, "tag", suffix, a->tag);
    if (a->va || a->pa)
        SAY(p, " pas%s=%s", suffix, securities[a->pas]);
}

#define SAY_PARTS(name, format, field)                                                             \
    for (size_t i = 0; i < out->part_count; i++)                                                   \
    SAY(p, "%s" format, i ? "," : name, out->parts[i].field)

/* KIND and everything that op.h can say. */
static void say_op(const struct pair *p, const struct made_op *made)
{
    const struct spex_op *op = &made->op;
    const struct spex_outcome *out = &made->outcome;
    if (!p->telling)
        return;
    SAY(p, "%s", spex_op_kind_name(op->kind));
    for (size_t i = 0; i < sizeof op->src; i++)
        if (op->src[i] >= SPEX_REG_P0 && op->src[i] < SPEX_REG_P0 + 16)
            SAY(p, " pred-operand");
        else if (op->src[i] == SPEX_REG_ZT0)
            SAY(p, " zt");
    say_key(p, "pc", "", made->pc);
    say_key(p, "bits", "", op->vector_bits);
    if (op->vectors != 1)
        SAY(p, " vectors=%u", op->vectors);
    say_key(p, "total", "", out->total);
    say_key(p, "issue", "", out->issue);
    say_key(p, "alt", "", out->alt_issue);
    say_key(p, "op-events", "", out->events);
    if (op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET || op->kind == SPEX_OP_EXCEPTION) {
        say_key(p, "target", "", out->target);
        SAY(p, " target-el=%u target-security=%s", out->target_el,
            securities[out->target_security]);
        if (out->flags & SPEX_OUT_ILLEGAL_ERET)
            SAY(p, " spsr-el=%u spsr-security=%s", out->spsr_el, securities[out->spsr_security]);
    }
    say_key(p, "impdef-counter", "", out->impdef_counter);
    say_key(p, "impdef-address", "", out->impdef_address);
    if (!out->part_count)
        say_access(p, &out->access[0], "");
    if (op->kind == SPEX_OP_MEMCPY || op->kind == SPEX_OP_GCS)
        say_access(p, &out->access[1], "2");
    SAY_PARTS(" parts=", "0x%" PRIx64, va);
    SAY_PARTS(" ppa=", "0x%" PRIx64, pa);
    SAY_PARTS(" pevents=", "0x%" PRIx64, events);
    SAY_PARTS(" pxlat=", "%u", translation);
    SAY_PARTS(" pstart=", "%u", start);
    SAY_PARTS(" pmemory=", "%u", memory);
    SAY_PARTS(" psource=", "%u", data_source);
    SAY_PARTS(" ptotal=", "%u", total);
    SAY_PARTS(" ptag=", "%u", tag);
    SAY_PARTS(" ppas=", "%u", pas);
    SAY_PARTS(" pflags=", "0x%x", flags);
    SAY(p, " op-flags=0x%x outcome-flags=0x%x", op->flags, out->flags);
    if (!out->part_count)
        SAY(p, " access-flags=0x%x", out->access[0].flags);
    if (op->kind == SPEX_OP_MEMCPY || op->kind == SPEX_OP_GCS)
        SAY(p, " access-flags2=0x%x", out->access[1].flags);
    SAY(p, "\n");
}

/* What an access came to. */
static void say_result(const struct pair *p, enum spex_sysreg_result result,
                       const struct spex_sysreg_detail *syndrome)
{
    uint64_t esr = syndrome->esr & ~BITS(9, 5); /* scripts have Rt 0 */
    switch (result) {
    /* clang-format off */
    case SPEX_SYSREG_UNDEFINED: SAY(p, " expect undefined\n"); break;
    case SPEX_SYSREG_TRAP_EL2: SAY(p, " expect trap el2 0x%" PRIx64 "\n", esr); break;
    case SPEX_SYSREG_TRAP_EL3: SAY(p, " expect trap el3 0x%" PRIx64 "\n", esr); break;
    case SPEX_SYSREG_MEMORY: SAY(p, " expect memory 0x%x\n", syndrome->offset); break;
    default: SAY(p, "\n");
        /* clang-format on */
    }
}

static void differ(struct pair *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void differ(struct pair *p, const char *format, ...)
{
    if (!p->result->equal)
        return;
    p->result->equal = false;
    va_list list;
    va_start(list, format);
    vsnprintf(p->result->what, sizeof p->result->what, format, list);
    va_end(list);
}

/* EL12 names hold nothing; registers of other blocks are only looked at where they exist. */
static bool looked_at(struct pair *p, unsigned encoding)
{
    uint64_t value;
    if (encoding == SPEX_PMSCR_EL12 || encoding == SPEX_PMBSR_EL12)
        return false;
    bool other = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        other = other || others[i] == encoding;
    return !other || naive_get(&p->naive, encoding, &value);
}

/* By an instruction: EL12 names too, but no registers that other blocks do not have. */
static bool reachable(struct pair *p, unsigned encoding)
{
    return encoding == SPEX_PMSCR_EL12 || encoding == SPEX_PMBSR_EL12 || looked_at(p, encoding);
}

static void set(struct pair *p, unsigned encoding, uint64_t value)
{
    if (!looked_at(p, encoding))
        return;
    bool here = spex_spu_set(p->unit, encoding, value);
    if (here)
        SAY(p, "set %s 0x%" PRIx64 "\n", spex_sysreg_name(encoding), value);
    if (p->compare && naive_set(&p->naive, encoding, value) != here)
        differ(p, "set %s: unit %s it", spex_sysreg_name(encoding), here ? "has" : "lacks");
}

static uint64_t get(struct pair *p, unsigned encoding)
{
    uint64_t value = 0;
    spex_spu_get(p->unit, encoding, &value);
    return value;
}

static void to_state(struct pair *p, const struct spex_spu_state *state)
{
    SAY(p, "state el=%u security=%s aarch32=%u halted=%d sdd=%d pm=%d\n", state->el,
        securities[state->security], state->aarch32, state->halted, state->sdd, state->pm);
    spex_spu_set_state(p->unit, state);
    if (p->compare)
        naive_state(&p->naive, state);
    p->pe = *state;
}

static uint8_t highest_security(const struct arch_features *f)
{
    return f->EL3 ? (f->RME ? SPEX_ROOT : SPEX_SECURE) : f->Secure ? SPEX_SECURE : SPEX_NONSECURE;
}

static void sync(struct pair *p)
{
    SAY(p, "isb\n");
    spex_spu_context_sync(p->unit);
    if (p->compare)
        naive_context_sync(&p->naive);
}

/* Values of SCR_EL3 and HCR_EL2 that the state of the PE allows. */
static uint64_t legal(const struct pair *p, unsigned encoding, uint64_t value)
{
    const struct arch_features *f = &p->run->features;
    if (encoding == SPEX_SCR_EL3) {
        if (!f->Secure)
            value |= BIT(0);
        if (!f->RME || !(value & BIT(0)))
            value &= ~BIT(62);
        value |= BIT(10);
        if (p->pe.el < 3) {
            value &= ~(BIT(0) | BIT(62));
            if (p->pe.security != SPEX_SECURE)
                value |= BIT(0);
            if (p->pe.security == SPEX_REALM)
                value |= BIT(62);
            if (p->pe.el == 2 && p->pe.security == SPEX_SECURE)
                value |= BIT(18);
        }
    }
    if (encoding == SPEX_HCR_EL2 && p->pe.el == 1)
        value &= ~BIT(27);
    return value;
}

static void move(struct pair *p, const struct step *step)
{
    const struct arch_features *f = &p->run->features;
    struct spex_spu_state next = {.el = step->el, .security = step->security};
    if (next.security == SPEX_REALM && !f->RME)
        next.security = SPEX_NONSECURE;
    if (next.security == SPEX_SECURE && !f->Secure)
        next.security = SPEX_NONSECURE;
    if (!f->EL3)
        next.security = highest_security(f);
    if (next.el == 3 && !f->EL3)
        next.el = 1;
    if (next.el == 2 && (!f->EL2 || (next.security == SPEX_SECURE && !f->SEL2)))
        next.el = 1;
    if (next.el == 3)
        next.security = highest_security(f);
    next.pm = step->flags & 1;
    next.halted = (step->flags & 0x82) == 0x82;
    next.sdd = (step->flags & 0x08) != 0;
    if ((step->flags & 0x70) == 0x50 && next.el == 0)
        next.aarch32 = 1;
    if (step->seed & 1) { /* only what may change without an exception */
        next.el = p->pe.el;
        next.security = p->pe.security;
        next.aarch32 = p->pe.aarch32;
        to_state(p, &next);
        return;
    }
    /* By way of the highest Exception level, where the controls change. */
    struct spex_spu_state top = {.el = f->EL3   ? 3
                                       : f->EL2 ? 2
                                                : 1,
                                 .security = highest_security(f)};
    if (top.el == 2 && top.security == SPEX_SECURE && !f->SEL2)
        top.el = 1;
    to_state(p, &top);
    p->pe = next;
    if (f->EL3)
        set(p, SPEX_SCR_EL3, legal(p, SPEX_SCR_EL3, get(p, SPEX_SCR_EL3)));
    if (f->EL2)
        set(p, SPEX_HCR_EL2, legal(p, SPEX_HCR_EL2, get(p, SPEX_HCR_EL2)));
    if (p->run->choices.register_sync) /* as an exception return does */
        sync(p);
    to_state(p, &next);
}

/* What a driver and the software above it do before they go on. */
static void restart(struct pair *p, const struct step *step)
{
    const struct arch_features *f = &p->run->features;
    struct rng r = {step->seed}, *rng = &r;
    uint64_t any = rng_next(rng);
    set(p, SPEX_PMSCR_EL1, 0);
    if (f->EL2)
        set(p, SPEX_PMSCR_EL2, 0);
    if (f->EL3) {
        uint64_t owner = p->pe.security == SPEX_SECURE ? 0 : p->pe.security == SPEX_REALM ? 5 : 4;
        if (p->pe.el == 3)
            owner = f->Secure ? rng_below(rng, 2) * 4 : 4;
        uint64_t nspb = (owner & 4 ? BIT(13) : 0) | BIT(12) | (owner & 1 ? BIT(11) : 0);
        uint64_t pmsee = rng_below(rng, 4);
        set(p, SPEX_MDCR_EL3, nspb | pmsee << 51 | BIT(36) | BIT(42) | BIT(55));
    }
    if (f->EL2)
        set(p, SPEX_MDCR_EL2, (rng_chance(rng, 1, 2) ? UINT64_C(3) : any & 3) << 12);
    set(p, SPEX_PMBSR_EL1, 0);
    if (f->EXC && f->EL2)
        set(p, SPEX_PMBSR_EL2, 0);
    if (f->EXC && f->EL3)
        set(p, SPEX_PMBSR_EL3, 0);
    uint64_t pages = 1 + rng_below(rng, 3);
    uint64_t from = rng_chance(rng, 1, 2) ? 0 : rng_below(rng, 0x1000);
    set(p, SPEX_PMBPTR_EL1, BASE + (from & (~UINT64_C(0) << f->Align)));
    set(p, SPEX_PMBLIMITR_EL1, (BASE + (pages << 12)) | 1);
    set(p, SPEX_PMSFCR_EL1, rng_chance(rng, 2, 3) ? 0 : make_value(rng, SPEX_PMSFCR_EL1));
    set(p, SPEX_PMSIRR_EL1, make_value(rng, SPEX_PMSIRR_EL1));
    set(p, SPEX_PMSICR_EL1, rng_below(rng, 6));
    set(p, SPEX_PMSCR_EL1, (rng_next(rng) & ~UINT64_C(3)) | 3);
    if (f->EL2)
        set(p, SPEX_PMSCR_EL2, (rng_next(rng) & ~UINT64_C(3)) | 3);
    if (p->run->choices.register_sync && rng_chance(rng, 3, 4))
        sync(p);
}

static void plan(struct pair *p, const struct step *step)
{
    static const uint8_t faults[] = {0x00, 0x04, 0x05, 0x07, 0x09, 0x0c, 0x0d, 0x0f,
                                     0x21, 0x22, 0x24, 0x28, 0x29, 0x30, 0x31};
    static const uint8_t walks[] = {0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x1b};
    struct rng r = {step->seed}, *rng = &r;
    struct plan plan = {0};
    const struct arch_features *f = &p->run->features;
    uint64_t at = get(p, SPEX_PMBPTR_EL1) + rng_below(rng, 100);
    plan.low = at;
    plan.high = at + 1 + (rng_chance(rng, 1, 2) ? 0 : rng_below(rng, 3));
    switch (rng_below(rng, 4)) {
    case 0:
        break; /* all well again */
    case 1:
        plan.stop.kind = SPEX_STOP_ABORT;
        plan.stop.flags = (uint16_t)(rng_next(rng) & (SPEX_STOP_STAGE2 | SPEX_STOP_WALK));
        if (rng_chance(rng, 1, 4))
            plan.stop.flags |= SPEX_STOP_ASYNC;
        if (f->RME && rng_chance(rng, 1, 4))
            plan.stop.flags = SPEX_STOP_GPT;
        if (!(plan.stop.flags & SPEX_STOP_WALK))
            plan.stop.flags &= (uint16_t)~SPEX_STOP_STAGE2;
        if (plan.stop.flags & (SPEX_STOP_WALK | SPEX_STOP_GPT))
            plan.stop.flags &= (uint16_t)~SPEX_STOP_ASYNC;
        plan.stop.fsc = PICK(rng, walks);
        break;
    default:
        plan.stop.kind = SPEX_STOP_FAULT;
        plan.stop.fsc = PICK(rng, faults);
        if (f->EL2 && plan.stop.fsc != 0x21 && plan.stop.fsc != 0x28)
            plan.stop.flags |= (uint16_t)(rng_next(rng) & SPEX_STOP_STAGE2);
        if (f->RME && rng_chance(rng, 1, 6))
            plan.stop.flags = SPEX_STOP_GPC;
        if (plan.stop.fsc >= 0x0c && plan.stop.fsc <= 0x0f && !(plan.stop.flags & SPEX_STOP_GPC))
            plan.stop.flags |=
                (uint16_t)(rng_next(rng) & (SPEX_STOP_TOP_LEVEL | SPEX_STOP_ASSURED_ONLY |
                                            SPEX_STOP_OVERLAY | SPEX_STOP_DIRTY_BIT));
    }
    if (!f->RME && plan.stop.fsc >= 0x22 && plan.stop.fsc <= 0x28)
        plan.stop.fsc = 0x07;
    p->a.plan = p->b.plan = plan;
    SAY(p, "fault none\n");
    for (uint64_t a = plan.low; a < plan.high && plan.stop.kind; a++) {
        static const char *const flags[] = {"stage2",  "gpc",       "walk",
                                            "gpt",     "top-level", "assured-only",
                                            "overlay", "dirty-bit", "async"};
        SAY(p, "%s at 0x%" PRIx64 " fsc=%u", plan.stop.kind == SPEX_STOP_FAULT ? "fault" : "abort",
            a, plan.stop.fsc);
        for (unsigned i = 0; i < 9; i++)
            if (plan.stop.flags >> i & 1)
                SAY(p, " %s", flags[i]);
        SAY(p, "\n");
    }
}

static void one_op(struct pair *p, const struct made_op *op)
{
    SAY(p, "op ");
    say_op(p, op);
    bool sampled = spex_spu_op(p->unit, op->pc, &op->op, &op->outcome);
    if (p->compare && naive_op(&p->naive, op->pc, &op->op, &op->outcome) != sampled)
        differ(p, "op: unit %s it", sampled ? "samples" : "does not sample");
}

static void pass(struct pair *p, const struct step *step)
{
    struct made_op op;
    bool branches = step->seed & 1;
    ops_plain(branches ? SPEX_OP_BRANCH : SPEX_OP_OTHER, 0, &op);
    op.outcome.target += step->seed & 0xfff0;
    ops_fit(&op, &p->pe);
    uint64_t left = step->value;
    while (left) {
        uint64_t n = p->path == IN_BLOCKS ? spex_spu_until(p->unit) : 0;
        if (n > left)
            n = left;
        if (n) {
            SAY(p, "ops %" PRIu64 "\n", n);
            spex_spu_pass(p->unit, n);
            if (branches && spex_spu_wants_branches(p->unit)) {
                SAY(p, "branch ");
                say_op(p, &op);
                spex_spu_note_branch(p->unit, &op.op, &op.outcome);
            }
            for (uint64_t i = 0; i < n && p->compare; i++)
                if (naive_op(&p->naive, op.pc, &op.op, &op.outcome))
                    differ(p, "the unit let pass an operation that is sampled");
        } else {
            one_op(p, &op);
            n = 1;
        }
        left -= n;
    }
}

static void play_time(struct pair *p, const struct step *step)
{
    p->a.time += step->value;
    p->b.time = p->a.time;
    p->a.counter_on = p->b.counter_on = step->seed % 16 != 0;
    SAY(p, "time %" PRIu64 "\n", p->a.time);
    if (!p->a.counter_on)
        SAY(p, "time off\n");
}

static void play_begin(struct pair *p, const struct step *step)
{
    struct made_op op;
    ops_make(step->seed, &p->run->features, &op);
    int slot = spex_spu_begin(p->unit, op.pc, op.outcome.flags);
    int other = p->compare ? naive_begin(&p->naive, op.pc, op.outcome.flags) : slot;
    if ((slot < 0) != (other < 0))
        differ(p, "begin: unit %s it", slot >= 0 ? "samples" : "does not sample");
    SAY(p, "begin s%u pc=0x%" PRIx64 "%s%s%s %s\n", p->named, op.pc,
        op.outcome.flags & SPEX_OUT_SPECULATIVE ? " speculative" : "",
        op.outcome.flags & SPEX_OUT_NO_INSN ? " no-insn" : "",
        op.outcome.flags & SPEX_OUT_NONARCH_EXC ? " nonarch" : "",
        other >= 0 ? "expect sampled" : "expect not-sampled");
    if (slot >= 0) {
        p->flight[p->flights].name = p->named++;
        p->flight[p->flights].unit = slot;
        p->flight[p->flights].naive = other;
        p->flight[p->flights].pe = p->pe;
        p->flight[p->flights++].seed = step->seed;
    }
}

static void play_end(struct pair *p, const struct step *step)
{
    struct made_op op;
    if (!p->flights)
        return;
    unsigned i = step->value % p->flights;
    if (step->kind == STEP_COMPLETE) {
        ops_make(p->flight[i].seed, &p->run->features, &op);
        ops_fit(&op, &p->flight[i].pe);
        SAY(p, "complete s%u ", p->flight[i].name);
        say_op(p, &op);
        spex_spu_complete(p->unit, p->flight[i].unit, &op.op, &op.outcome);
        if (p->compare)
            naive_complete(&p->naive, p->flight[i].naive, &op.op, &op.outcome);
    } else {
        SAY(p, "abandon s%u\n", p->flight[i].name);
        spex_spu_abandon(p->unit, p->flight[i].unit);
        if (p->compare)
            naive_abandon(&p->naive, p->flight[i].naive);
    }
    p->flights--;
    memmove(p->flight + i, p->flight + i + 1, (p->flights - i) * sizeof *p->flight);
}

static void play_write(struct pair *p, const struct step *step)
{
    struct spex_sysreg_detail unit = {0}, naive = {0};
    if (!reachable(p, step->encoding))
        return;
    uint64_t value = legal(p, step->encoding, step->value);
    enum spex_sysreg_result result =
        spex_spu_write(p->unit, step->encoding, step->seed & 31, value, &unit);
    if (p->compare) {
        enum spex_sysreg_result r =
            naive_write(&p->naive, step->encoding, step->seed & 31, value, &naive);
        SAY(p, "write %s 0x%" PRIx64, spex_sysreg_name(step->encoding), value);
        say_result(p, r, &naive);
        if (r != result || unit.esr != naive.esr || unit.offset != naive.offset)
            differ(p, "msr %s: unit %d esr %" PRIx64 " offset %x, naive %d %" PRIx64 " %x",
                   spex_sysreg_name(step->encoding), result, unit.esr, unit.offset, r, naive.esr,
                   naive.offset);
    }
}

static void play_read(struct pair *p, const struct step *step)
{
    struct spex_sysreg_detail unit = {0}, naive = {0};
    uint64_t x = 0, y = 0;
    if (!reachable(p, step->encoding))
        return;
    enum spex_sysreg_result result =
        spex_spu_read(p->unit, step->encoding, step->seed & 31, &x, &unit);
    if (p->compare) {
        enum spex_sysreg_result r =
            naive_read(&p->naive, step->encoding, step->seed & 31, &y, &naive);
        SAY(p, "read %s", spex_sysreg_name(step->encoding));
        if (r == SPEX_SYSREG_OK)
            SAY(p, " expect 0x%" PRIx64 "\n", y);
        else
            say_result(p, r, &naive);
        if (r != result || unit.esr != naive.esr || unit.offset != naive.offset || x != y)
            differ(p,
                   "mrs %s: unit %d esr %" PRIx64 " offset %x value %" PRIx64 ", naive %d %" PRIx64
                   " %x %" PRIx64,
                   spex_sysreg_name(step->encoding), result, unit.esr, unit.offset, x, r, naive.esr,
                   naive.offset, y);
    }
}

static void play_psb(struct pair *p)
{
    struct spex_sysreg_detail unit = {0}, naive = {0};
    enum spex_sysreg_result result = spex_spu_psb(p->unit, &unit);
    if (p->compare) {
        enum spex_sysreg_result r = naive_psb(&p->naive, &naive);
        SAY(p, "psb");
        say_result(p, r, &naive);
        if (r != result || unit.esr != naive.esr)
            differ(p, "psb: unit %d esr %" PRIx64 ", naive %d %" PRIx64, result, unit.esr, r,
                   naive.esr);
    }
}

static void play_save(struct pair *p)
{
    SAY(p, "save\nrestore\n");
    spex_spu_flush(p->unit);
    size_t size = spex_spu_save(p->unit, NULL, 0);
    uint8_t *bytes = malloc(size);
    struct spex_spu *next = NULL;
    struct spex_error error;
    if (!bytes || spex_spu_save(p->unit, bytes, size) != size ||
        spu_new(&p->config, &next, &error) || spex_spu_restore(next, bytes, size))
        differ(p, "save and restore");
    free(bytes);
    if (next) {
        spex_spu_free(p->unit);
        p->unit = next;
    }
}

static void play(struct pair *p, const struct step *step)
{
    struct made_op op;
    switch (step->kind) {
    case STEP_SAMPLE:
        set(p, SPEX_PMSICR_EL1, 1);
        if (p->run->choices.register_sync && step->flags & 1)
            sync(p);
        /* fall through */
    case STEP_OP:
        ops_make(step->seed, &p->run->features, &op);
        ops_fit(&op, &p->pe);
        one_op(p, &op);
        break;
    case STEP_PASS:
        pass(p, step);
        break;
    case STEP_BEGIN:
        play_begin(p, step);
        break;
    case STEP_COMPLETE:
    case STEP_ABANDON:
        play_end(p, step);
        break;
    case STEP_MSR:
        play_write(p, step);
        break;
    case STEP_MRS:
        play_read(p, step);
        break;
    case STEP_SET:
        set(p, step->encoding, legal(p, step->encoding, step->value));
        break;
    case STEP_STATE:
        move(p, step);
        break;
    case STEP_PSB:
        play_psb(p);
        break;
    case STEP_SYNC:
        sync(p);
        break;
    case STEP_EXCEPTION:
        SAY(p, "exception-taken\n");
        spex_spu_exception_taken(p->unit);
        if (p->compare)
            naive_exception_taken(&p->naive);
        break;
    case STEP_PLAN:
        plan(p, step);
        break;
    case STEP_ABORT: {
        uint32_t flags = SPEX_STOP_ASYNC;
        SAY(p, "late-abort\n");
        spex_spu_external_abort(p->unit, flags);
        if (p->compare)
            naive_external_abort(&p->naive, flags);
        break;
    }
    case STEP_IMPDEF: {
        uint16_t mss = (uint16_t)step->value;
        uint32_t mss2 = (uint32_t)(step->value >> 40);
        SAY(p, "impdef-event %u %u\n", mss, mss2);
        bool done = spex_spu_impdef_event(p->unit, mss, mss2);
        if (p->compare && naive_impdef_event(&p->naive, mss, mss2) != done)
            differ(p, "impdef event: unit %s it", done ? "takes" : "refuses");
        break;
    }
    case STEP_TIME:
        play_time(p, step);
        break;
    case STEP_RESTART:
        restart(p, step);
        break;
    case STEP_SAVE:
        play_save(p);
        break;
    }
}

/* ---- comparing ---- */

static void compare_register(struct pair *p, unsigned encoding)
{
    uint64_t x = 0, y = 0;
    if (!looked_at(p, encoding))
        return;
    bool a = spex_spu_get(p->unit, encoding, &x), b = naive_get(&p->naive, encoding, &y);
    if (a != b || x != y)
        differ(p, "%s: unit %s%" PRIx64 ", naive %s%" PRIx64, spex_sysreg_name(encoding),
               a ? "" : "none ", x, b ? "" : "none ", y);
}

static void compare_exception(struct pair *p, unsigned source)
{
    struct spex_spu_exception x, y;
    spex_spu_get_exception(p->unit, source, &x);
    naive_exception(&p->naive, source, &y);
    /* clang-format off */
    if (x.source != y.source || x.pending != y.pending || x.target != y.target ||
        x.unmasked != y.unmasked || x.esr != y.esr)
        differ(p, "exception %u: unit source %u target %u %s, naive source %u target %u %s", source,
               x.source, x.target, x.unmasked ? "taken" : x.pending ? "pending" : "none", y.source,
               y.target, y.unmasked ? "taken" : y.pending ? "pending" : "none");
    /* clang-format on */
    if (!source && (x.source != p->a.exception.source || x.unmasked != p->a.exception.unmasked ||
                    x.target != p->a.exception.target))
        differ(p, "exception: the callback was last told source %u, it is %u",
               p->a.exception.source, x.source);
}

static void compare(struct pair *p, bool everything)
{
    static const uint16_t moving[] = {SPEX_PMSICR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1};
    /* clang-format off */
    static const unsigned names[] = {SPEX_PMU_SAMPLE_POP,       SPEX_PMU_SAMPLE_FEED,
                                     SPEX_PMU_SAMPLE_FILTRATE,  SPEX_PMU_SAMPLE_COLLISION,
                                     SPEX_PMU_SAMPLE_FEED_DS,   SPEX_PMU_SAMPLE_BUFFER_FULL,
                                     SPEX_PMU_SAMPLE_FEED_BR,   SPEX_PMU_SAMPLE_FEED_LD,
                                     SPEX_PMU_SAMPLE_FEED_ST,   SPEX_PMU_SAMPLE_FEED_OP,
                                     SPEX_PMU_SAMPLE_FEED_EVENT, SPEX_PMU_SAMPLE_FEED_LAT,
                                     SPEX_PMU_SAMPLE_FEED_FP,   SPEX_PMU_SAMPLE_FEED_SIMD};
    /* clang-format on */
    if (p->a.count != p->b.count)
        differ(p, "bytes: unit wrote %zu, naive %zu", p->a.count, p->b.count);
    for (size_t i = 0; i < p->a.count && i < p->b.count; i++)
        if (p->a.log[i].address != p->b.log[i].address || p->a.log[i].byte != p->b.log[i].byte) {
            differ(p, "byte %zu: unit %02x at %" PRIx64 ", naive %02x at %" PRIx64, i,
                   p->a.log[i].byte, p->a.log[i].address, p->b.log[i].byte, p->b.log[i].address);
            break;
        }
    for (size_t i = 0; i < 3; i++)
        compare_register(p, moving[i]);
    if (p->run->features.EXC) {
        compare_register(p, SPEX_PMBSR_EL2);
        compare_register(p, SPEX_PMBSR_EL3);
        for (unsigned source = 0; source <= 3; source++)
            compare_exception(p, source);
    }
    if (everything) {
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            compare_register(p, ours[i]);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            compare_register(p, others[i]);
    }
    spex_spu_flush(p->unit);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned at = naive_pmu_index(names[i]);
        if (p->a.pmu[at] != p->naive.pmu[at])
            differ(p, "%s: unit %" PRIu64 ", naive %" PRIu64, spex_pmu_event_name(names[i]),
                   p->a.pmu[at], p->naive.pmu[at]);
    }
    struct spex_spu_status x = {.size = sizeof x}, y = x;
    spex_spu_get_status(p->unit, &x);
    naive_status(&p->naive, &y);
#define SAME(field)                                                                                \
    if (x.field != y.field)                                                                        \
    differ(p, #field ": unit %d, naive %d", x.field, y.field)
    SAME(owner_valid);
    if (x.owner_valid) {
        SAME(owner_el);
        SAME(owner_security);
    }
    SAME(enabled);
    SAME(buffer_enabled);
    SAME(stopped);
    SAME(discard);
    SAME(irq);
    SAME(in_flight);
    SAME(held);
    if (p->a.irq != x.irq)
        differ(p, "irq: the callback was last told %d, it is %d", p->a.irq, x.irq);
    if (p->a.triggers != p->naive.triggers)
        differ(p, "triggers: unit %" PRIu64 ", naive %" PRIu64, p->a.triggers, p->naive.triggers);
    if (!p->a.serrors != !p->naive.serrors)
        differ(p, "serrors: unit %" PRIu64 ", naive %" PRIu64, p->a.serrors, p->naive.serrors);
    for (unsigned range = 0; range < 3; range++)
        if (spex_spu_pmu_frozen(p->unit, range) != naive_frozen(&p->naive, range))
            differ(p, "frozen counters, range %u", range);
}

/* Whole records of this step go to the stream; a torn one does not. */
static void collect_stream(struct pair *p)
{
    size_t whole = p->naive.whole;
    if (p->b.lost || whole > p->a.count) /* ignored aborts leave holes: no stream */
        return;
    if (p->stream_size + whole > p->stream_capacity) {
        p->stream_capacity = 2 * (p->stream_size + whole) + 65536;
        p->stream = realloc(p->stream, p->stream_capacity);
        if (!p->stream)
            abort();
    }
    for (size_t i = 0; i < whole; i++)
        p->stream[p->stream_size++] = p->a.log[i].byte;
}

static void check_stream(struct pair *p)
{
    struct spex_verifier verifier;
    struct spex_violation violation;
    verifier_init(&verifier, &p->run->features);
    /* Controls change in a run, so timestamps come and go; accesses are random, so some lack
       what a real one has; and the issue latency may be fixed, and left out. */
    static const char *const ignored[] = {"timestamp-missing", "timestamp-present", "va-missing",
                                          "source-missing", "translation-missing"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        spex_verifier_ignore(&verifier, ignored[i]);
    if (p->run->choices.omit_issue)
        spex_verifier_ignore(&verifier, "issue-missing");
    spex_verifier_feed(&verifier, p->stream, p->stream_size, 0, true);
    if (spex_verifier_next(&verifier, &violation) == SPEX_OK)
        differ(p, "stream checker at %" PRIu64 ": %s: %s", violation.offset, violation.rule->id,
               violation.what);
    p->result->records = verifier.records;
}

static void say_configuration(const struct pair *p);

static void open_pair(struct pair *p, const struct run *run, enum path path, bool naive,
                      bool telling, struct run_result *result)
{
    struct spex_error error;
    memset(p, 0, sizeof *p);
    memset(result, 0, sizeof *result);
    result->equal = true;
    p->run = run;
    p->path = path;
    p->compare = naive;
    p->result = result;
    host_init(&p->a);
    host_init(&p->b);
    p->a.random = p->b.random = run->random;
    p->a.random_count = p->b.random_count = sizeof run->random;
    spu_config_default(&p->config);
    p->config.features = run->features;
    p->config.choices = run->choices;
    p->config.host = host_callbacks(&p->a);
    if (spu_new(&p->config, &p->unit, &error)) {
        differ(p, "new: %s", error.text);
        return;
    }
    struct naive_world world = host_world(&p->b);
    naive_init(&p->naive, &run->features, &run->choices, &world);
    p->telling = telling;
    if (telling)
        say_configuration(p);
    struct step first = {.kind = STEP_STATE, .el = 1, .security = SPEX_NONSECURE};
    move(p, &first);
}

static void close_pair(struct pair *p)
{
    spex_spu_free(p->unit);
    host_fini(&p->a);
    host_fini(&p->b);
    free(p->stream);
}

static void run_from(struct pair *p)
{
    struct run_result *result = p->result;
    for (size_t i = 0; i < p->run->count && result->equal; i++) {
        const struct step *step = &p->run->steps[i];
        result->step = i;
        result->coverage[step->kind]++;
        host_clear(&p->a);
        host_clear(&p->b);
        p->a.serrors = p->naive.serrors = 0;
        p->naive.whole = 0;
        p->b.lost = 0;
        play(p, step);
        bool registers = step->kind == STEP_MSR || step->kind == STEP_SET ||
                         step->kind == STEP_SAVE || i + 1 == p->run->count;
        if (p->compare)
            compare(p, registers);
        result->bytes += p->a.count;
        result->enabled += p->naive.was_enabled;
        collect_stream(p);
    }
    if (result->equal && p->compare)
        check_stream(p);
    result->events = p->a.pmu[naive_pmu_index(SPEX_PMU_SAMPLE_FEED)];
}

void run_play(const struct run *run, enum path path, struct run_result *result)
{
    struct pair *p = malloc(sizeof *p);
    if (!p)
        abort();
    open_pair(p, run, path, true, false, result);
    if (result->equal)
        run_from(p);
    close_pair(p);
    free(p);
}

void run_identity(const struct run *run, struct run_result *result)
{
    struct run_result other;
    struct pair *p = malloc(2 * sizeof *p), *q = p + 1;
    if (!p)
        abort();
    open_pair(p, run, ONE_AT_A_TIME, false, false, result);
    open_pair(q, run, IN_BLOCKS, false, false, &other);
    for (size_t i = 0; i < run->count && result->equal && other.equal; i++) {
        result->step = i;
        play(p, &run->steps[i]);
        play(q, &run->steps[i]);
        spex_spu_flush(p->unit);
        spex_spu_flush(q->unit);
        bool same = p->a.count == q->a.count;
        for (size_t k = 0; same && k < p->a.count; k++)
            same =
                p->a.log[k].address == q->a.log[k].address && p->a.log[k].byte == q->a.log[k].byte;
        if (!same)
            differ(p, "bytes differ between the one-operation path and the block path");
        if (memcmp(p->a.pmu, q->a.pmu, sizeof p->a.pmu))
            differ(p, "PMU counts differ between the two paths");
        static const uint16_t moving[] = {SPEX_PMSICR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1,
                                          SPEX_PMBSR_EL2, SPEX_PMBSR_EL3};
        for (size_t k = 0; k < 5; k++)
            if (get(p, moving[k]) != get(q, moving[k]))
                differ(p, "%s: %" PRIx64 " one at a time, %" PRIx64 " in blocks",
                       spex_sysreg_name(moving[k]), get(p, moving[k]), get(q, moving[k]));
        result->bytes += p->a.count;
        host_clear(&p->a);
        host_clear(&q->a);
    }
    if (!other.equal)
        *result = other;
    close_pair(p);
    close_pair(q);
    free(p);
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

/* ---- printing ---- */

static void say_configuration(const struct pair *p)
{
    const struct spex_spu_choice *row;
    const char *name, *text, *separator = "features max,";
    for (size_t i = 0; (name = spex_features_describe(i, &text)); i++) {
        static const char *const numbers[] = {"version", "altclk",   "countsize", "maxsize",
                                              "align",   "interval", "ea"};
        unsigned value = ((const uint8_t *)&p->run->features)[i];
        bool number = false;
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            number = number || !strcmp(name, numbers[k]);
        if (number)
            printf("%s%s=%u", separator, name, value);
        else
            printf("%s%s%s", separator, value ? "" : "no-", name);
        separator = ",";
    }
    printf("\nchoice layout=%s", p->naive.n1 ? "n1" : p->naive.hisi ? "hisi" : "compact");
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        uint64_t value = *spu_choice_field(&p->run->choices, i);
        if (value != row->standard && strcmp(row->name, "layout"))
            printf(" %s=%" PRIu64, row->name, value);
    }
    for (size_t i = 0; i < 4 * sizeof p->run->random; i++)
        printf("%s%u", i % 64 ? " " : "\nrandom ", p->run->random[i % sizeof p->run->random]);
    printf("\ntime %" PRIu64 "\n", p->a.time);
}

/* What the naive unit is in now. */
static void say_expectations(struct pair *p)
{
    static const uint16_t registers[] = {SPEX_PMSICR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1,
                                         SPEX_PMBSR_EL2, SPEX_PMBSR_EL3};
    struct spex_spu_status status = {.size = sizeof status};
    struct spex_spu_exception e;
    uint64_t value;
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
        if (naive_get(&p->naive, registers[i], &value))
            printf("get %s expect 0x%" PRIx64 "\n", spex_sysreg_name(registers[i]), value);
    naive_status(&p->naive, &status);
    printf("expect irq %d\nexpect enabled %d\nexpect stopped %d\nexpect in-flight %u\n"
           "expect held %u\n",
           status.irq, status.enabled, status.stopped, status.in_flight, status.held);
    naive_exception(&p->naive, 0, &e);
    if (!e.pending)
        printf("expect exception none\n");
    else
        printf("expect exception el%u %s from %u\n", e.target, e.unmasked ? "taken" : "masked",
               e.source);
    static const unsigned events[] = {SPEX_PMU_SAMPLE_POP, SPEX_PMU_SAMPLE_FEED,
                                      SPEX_PMU_SAMPLE_FILTRATE, SPEX_PMU_SAMPLE_COLLISION};
    for (size_t i = 0; i < 4; i++)
        printf("expect pmu %s %" PRIu64 "\n", spex_pmu_event_name(events[i]),
               p->naive.pmu[naive_pmu_index(events[i])]);
    for (size_t i = 0; i < p->b.count; i++)
        printf("%s%02x%s", i % 64 ? "" : "expect bytes ", p->b.log[i].byte,
               i % 64 == 63 || i + 1 == p->b.count ? "\n" : "");
    printf("expect nothing\n");
}

void run_print(const struct run *run, enum path path)
{
    struct run_result result;
    struct pair *p = malloc(sizeof *p);
    if (!p)
        abort();
    open_pair(p, run, path, true, true, &result);
    for (size_t i = 0; i < run->count; i++)
        play(p, &run->steps[i]);
    printf("# where the unit differs: what the naive one says\n");
    say_expectations(p);
    close_pair(p);
    free(p);
}

void run_print_shrunk(struct run *run, enum path path)
{
    struct run_result result;
    run_shrink(run, path);
    run_play(run, path, &result);
    printf("# shrunk to %zu steps: %s; as a script for spex spu run:\n", run->count, result.what);
    run_print(run, path);
}
