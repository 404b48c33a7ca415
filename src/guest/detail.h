/*
 * Sampled detail (docs/model.md): blocks and accesses go through the full model only near samples;
 * in user mode as words of a ring, in system mode one block at a time. The guest's thread does
 * this. Far from samples, its callbacks keep caches and predictors warm, and each block takes its
 * mean time from when the model ran it.
 *
 * Several threads of a program take turns (order.h), and everything they do goes through the model.
 */
#ifndef GUEST_DETAIL_H
#define GUEST_DETAIL_H

#include <stdbool.h>
#include <stdint.h>

struct block;
struct flow;
struct hot;
struct vcpu;
struct timing_block;
struct timing_core;
struct timing_run;
struct uarch_config;

struct detail {
    bool learns;     /* words are processed at once, and the time of blocks is learned */
    uint64_t window; /* operations with details before a sample */
    uint64_t filled; /* operations until the pipeline is full */
    uint64_t near;   /* operations until the words reach the sample; 0: they have */
    /*
     * the current window: operations until the pipeline is full, and the time they took beyond the
     * mean
     */
    uint64_t fill;
    int64_t debt;
    /*
     * sums over the last windows: operations; their time by the means and in truth, cycles <<
     * SPEX_FAR_FRACTION
     */
    double operations, expected, cycles;
    uint64_t start; /* start of the stretch without details */
};

/* ---- in both modes ---- */

void detail_init(struct detail *detail, const struct uarch_config *config);
/* Time assumed for a block until it has been measured, cycles << SPEX_FAR_FRACTION. */
uint64_t detail_guess(uint64_t operations);
/* Learns how many cycles a block took in the account of time. */
void detail_learn(struct detail *detail, struct timing_block *block, const struct timing_run *run,
                  uint64_t cycles);
/* Details end here; returns the time, cycles << SPEX_FAR_FRACTION. */
uint64_t detail_leave(struct detail *detail, struct timing_core *core);
/* Details begin again at this time. */
void detail_return(struct detail *detail, struct timing_core *core, uint64_t clock);

/* ---- in user mode ---- */

/* A task begins. */
void detail_begin(struct flow *f);
/* The entry of a block that is not far from the next sample, or whose lines are not there. */
void detail_enter(struct hot *hot, struct block *block);
/* Far from samples: a mark ends the last block, if there is one. */
void detail_mark(struct vcpu *v, const struct block *last, uint64_t word);
/* All words so far have been processed: continues near samples or far from them. */
void detail_resume(struct flow *f);
/* Sets operations and time of the flow to what really ran. */
void detail_settle(struct flow *f);

#endif
