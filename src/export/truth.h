/* The file of exact counts that spex record --truth writes: docs/truth.md. */
#ifndef EXPORT_TRUTH_H
#define EXPORT_TRUTH_H

#include <spex/base.h>

enum truth_count {
    TRUTH_OPERATIONS,
    TRUTH_L1_MISS,
    TRUTH_LLC_MISS,
    TRUTH_WALK,
    TRUTH_MISPREDICT,
    TRUTH_TAKEN,
    TRUTH_CYCLES, /* 0 in older files, like TRUTH_L2_MISS */
    TRUTH_L2_MISS,
    TRUTH_COUNTS
};

/* An instruction that was executed. */
struct truth_row {
    int32_t pid;
    uint64_t pc, counts[TRUTH_COUNTS];
    uint64_t target, calls; /* not 0: calls from pc, and what was counted until they returned */
};

/* SPEX_IO if there is no such file; SPEX_INVALID with the number of the line. */
enum spex_status truth_read(const char *path, void (*use)(void *context, const struct truth_row *),
                            void *context, struct spex_error *error);
/* Adds the cycles of system calls to *cycles; files of before do not tell them. */
enum spex_status truth_read_kernel(const char *path, uint64_t *cycles, struct spex_error *error);
/* The calls, which record writes with --stacks and the full model. */
enum spex_status truth_read_calls(const char *path,
                                  void (*use)(void *context, const struct truth_row *),
                                  void *context, struct spex_error *error);

#endif
