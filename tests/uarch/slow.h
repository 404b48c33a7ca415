/*
 * The full model a second time: docs/model.md written down with plain lists, one
 * instruction after the other, and nothing remembered that the description does not
 * name. Slow, and meant to be read beside that page.
 */
#ifndef TESTS_UARCH_SLOW_H
#define TESTS_UARCH_SLOW_H

#include "uarch/timing.h"

struct slow;

struct slow *slow_new(const struct uarch_config *config, unsigned cores);
void slow_free(struct slow *slow);
/* Core number `core` runs a block, as timing_run(). insns and results must be there. */
void slow_run(struct slow *slow, unsigned core, const struct spex_op *ops, uint64_t pc,
              size_t count, struct timing_run *run);
void slow_spend(struct slow *slow, unsigned core, uint64_t cycles);
void slow_counts(struct slow *slow, unsigned core, struct uarch_counts *counts);

#endif
