/*
 * The unit and the naive one side by side, as a run of steps.h plays: play.c does a step on both,
 * compare.c looks whether they are the same, say.c prints what happens as a script.
 */
#ifndef PAIR_H
#define PAIR_H

#include "ops.h"
#include "steps.h"

#include "base/rng.h"

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

/* ---- steps.c ---- */

/* clang-format off */
/* Registers of the unit, and others that it looks at; those that stand twice are drawn more often. */
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

/* Of the Profiling Buffer. */
static const uint64_t BASE = 0x40000000;
#define PICK(rng, array) ((array)[rng_below(rng, sizeof(array) / sizeof *(array))])

/* A value for a register. */
uint64_t step_value(struct rng *rng, unsigned encoding);

/* ---- play.c ---- */

/* They differ: says how, the first time. */
void pair_differ(struct pair *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Can the register be compared? */
bool pair_looked_at(struct pair *p, unsigned encoding);
uint64_t pair_get(struct pair *p, unsigned encoding);
/* Another Exception level or Security state; any step. */
void pair_move(struct pair *p, const struct step *step);
void pair_play(struct pair *p, const struct step *step);

/* ---- compare.c ---- */

void pair_open(struct pair *p, const struct run *run, enum path path, bool naive, bool telling,
               struct run_result *result);
void pair_close(struct pair *p);

/* ---- say.c ---- */

#define SAY(p, ...) ((p)->telling ? (void)printf(__VA_ARGS__) : (void)0)

static const char *const securities[] = {"s", "ns", "realm", "root"};

void say_op(const struct pair *p, const struct made_op *made);
void say_result(const struct pair *p, enum spex_sysreg_result result,
                const struct spex_sysreg_detail *syndrome);
void say_configuration(const struct pair *p);

#endif
