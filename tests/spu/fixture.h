/* A unit with a host that remembers: memory, PMU counts, interrupt, exception. */
#ifndef TESTS_SPU_FIXTURE_H
#define TESTS_SPU_FIXTURE_H

#include "support/test.h"

#include <spex/record.h>
#include "spu/config.h"

enum { BASE = 0x10000, MEMORY = 1 << 20 };

struct fixture {
    struct spex_spu *unit;
    uint8_t *memory;   /* from BASE on */
    uint64_t highest;  /* one past the highest byte written */
    uint64_t fault_at; /* a write to this address faults, UINT64_MAX for none */
    bool abort;        /* an External abort instead of the fault */
    bool late;         /* an asynchronous External abort arrives during the next write */
    uint64_t serror;   /* address of the last SError */
    bool anywhere;     /* writes elsewhere are no mistake of the test */
    uint64_t time;
    uint64_t pmu[65536 / 8]; /* by event, hashed: the numbers in use do not collide */
    uint64_t triggers;
    bool irq;
    struct spex_spu_exception exception;
};

static inline unsigned fixture_slot(unsigned event)
{
    return (event * 7 + (event >> 9)) % (65536 / 8);
}

static inline void fixture_write(void *user, const struct spex_spu_store *s,
                                 struct spex_spu_stop *stop)
{
    struct fixture *f = user;
    size_t count = s->count;
    if (f->late) {
        f->late = false;
        spex_spu_external_abort(f->unit, 0);
    }
    if (f->fault_at >= s->address && f->fault_at - s->address < s->count) {
        count = (size_t)(f->fault_at - s->address);
        *stop = (struct spex_spu_stop){
            .kind = f->abort ? SPEX_STOP_ABORT : SPEX_STOP_FAULT, .fsc = 0x07, .written = count};
    }
    bool inside = s->address >= BASE && s->address + s->count <= BASE + MEMORY;
    assert_true(inside || f->anywhere);
    if (!inside)
        return;
    if (count)
        memcpy(f->memory + s->address - BASE, s->bytes, count);
    if (s->address + count > f->highest)
        f->highest = s->address + count;
}

static inline bool fixture_counter(void *user, uint64_t *count)
{
    *count = ((struct fixture *)user)->time;
    return true;
}

static inline void fixture_pmu(void *user, unsigned event, uint64_t count)
{
    ((struct fixture *)user)->pmu[fixture_slot(event)] += count;
}

static inline void fixture_trigger(void *user)
{
    ((struct fixture *)user)->triggers++;
}

static inline void fixture_serror(void *user, uint64_t address)
{
    ((struct fixture *)user)->serror = address;
}

static inline void fixture_irq(void *user, bool level)
{
    struct fixture *f = user;
    assert_true(f->irq != level);
    f->irq = level;
}

static inline void fixture_exception(void *user, const struct spex_spu_exception *e)
{
    ((struct fixture *)user)->exception = *e;
}

/* features NULL is max; choices: "a=1 b=2" or NULL. */
static inline struct fixture *fixture_new(const char *features, const char *choices, uint64_t seed)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct spu_config config;
    struct spex_error error = {0};
    f->memory = calloc(1, MEMORY);
    f->fault_at = UINT64_MAX;
    spu_config_default(&config);
    if (features && arch_features_parse(features, &config.features, &error))
        fail_msg("%s", error.text);
    for (char *copy = choices ? strdup(choices) : NULL, *rest = copy, *word; copy;) {
        word = strtok_r(rest, " ", &rest);
        if (!word) {
            free(copy);
            break;
        }
        if (spu_choices_set(&config.choices, word, &error))
            fail_msg("%s", error.text);
    }
    config.seed = seed;
    config.host = (struct spex_spu_host){.user = f,
                                         .write = fixture_write,
                                         .counter = fixture_counter,
                                         .pmu = fixture_pmu,
                                         .trigger = fixture_trigger,
                                         .serror = fixture_serror,
                                         .irq = fixture_irq,
                                         .exception = fixture_exception};
    if (spu_new(&config, &f->unit, &error))
        fail_msg("%s", error.text);
    spex_spu_boot(f->unit);
    return f;
}

static inline void fixture_free(struct fixture *f)
{
    spex_spu_free(f->unit);
    free(f->memory);
    free(f);
}

static inline uint64_t fixture_get(struct fixture *f, unsigned encoding)
{
    uint64_t value = 0;
    assert_true(spex_spu_get(f->unit, encoding, &value));
    return value;
}

static inline void fixture_set(struct fixture *f, unsigned encoding, uint64_t value)
{
    assert_true(spex_spu_set(f->unit, encoding, value));
}

/* Profiling EL1 and EL0 with timestamps and physical addresses into [BASE, BASE + size). */
static inline void fixture_start(struct fixture *f, uint64_t size, uint64_t irr)
{
    fixture_set(f, SPEX_PMSCR_EL1, 0);
    fixture_set(f, SPEX_PMBSR_EL1, 0);
    fixture_set(f, SPEX_PMBPTR_EL1, BASE);
    fixture_set(f, SPEX_PMBLIMITR_EL1, (BASE + size) | 1);
    fixture_set(f, SPEX_PMSIRR_EL1, irr);
    fixture_set(f, SPEX_PMSICR_EL1, 0);
    fixture_set(f, SPEX_PMSCR_EL1, 0x73);
}

static inline uint64_t fixture_pmu_count(struct fixture *f, unsigned event)
{
    spex_spu_flush(f->unit);
    return f->pmu[fixture_slot(event)];
}

#endif
