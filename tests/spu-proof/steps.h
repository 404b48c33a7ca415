/*
 * Random steps on the unit and on the naive one, compared after each.
 *
 * A run is a configuration and a list of steps. Every step has all it needs, and
 * what depends on the state (how many operations may pass, which slot to
 * complete) is cut to fit when it is played: so any part of a list is a valid
 * list, and a failing list can be shrunk by leaving steps out.
 */
#ifndef STEPS_H
#define STEPS_H

#include "host.h"

enum step_kind {
    STEP_OP,       /* one operation */
    STEP_SAMPLE,   /* the same, with PMSICR_EL1 set to select it */
    STEP_PASS,     /* a block of operations */
    STEP_BEGIN,    /* an operation starts */
    STEP_COMPLETE, /* one in flight ends */
    STEP_ABANDON,
    STEP_MSR, /* register accesses as instructions */
    STEP_MRS,
    STEP_SET,   /* the register itself */
    STEP_STATE, /* Exception level, Security state, Debug state, PSTATE.PM */
    STEP_PSB,
    STEP_SYNC,
    STEP_EXCEPTION, /* an exception is taken */
    STEP_PLAN,      /* writes meet a fault from here on */
    STEP_ABORT,     /* an asynchronous External abort arrives */
    STEP_IMPDEF,
    STEP_TIME,
    STEP_RESTART, /* what a driver does to go on */
    STEP_SAVE,    /* save and restore into a new unit */
    STEP_KINDS
};

struct step {
    uint8_t kind;
    uint8_t el, security, flags;
    uint16_t encoding;
    uint64_t value, seed;
};

struct run {
    struct arch_features features;
    struct spu_choices choices;
    uint8_t random[64];
    struct step *steps;
    size_t count;
};

/* A random configuration and count random steps. */
void run_make(struct run *run, uint64_t seed, size_t count);
/* Random steps for the configuration that the run has. */
void run_fill(struct run *run, uint64_t seed, size_t count);
void run_free(struct run *run);
/* Choices that runs do not vary. */
bool run_leaves_out(const char *name);

/* How the unit is fed: the same records must come of it. */
enum path { ONE_AT_A_TIME, IN_BLOCKS };

struct run_result {
    bool equal;
    size_t step; /* where it differed */
    char what[512];
    /* What was seen, to show that the run did something. */
    uint64_t records, bytes, events, enabled;
    uint64_t coverage[STEP_KINDS];
};

/* Plays the run on both, up to the first difference; then checks the stream of whole records. */
void run_play(const struct run *run, enum path path, struct run_result *result);

/* The unit alone, in both ways of feeding it: the identity test. */
void run_identity(const struct run *run, struct run_result *result);

/* Leaves out steps as long as the run still fails. */
void run_shrink(struct run *run, enum path path);

/* As a script for `spex spu run` that expects what the naive unit says in the end. */
void run_print(const struct run *run, enum path path);
/* Both, and how it fails. */
void run_print_shrunk(struct run *run, enum path path);

#endif
