/* What `spex record` and `spex stat` share: options, the run, its end. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli.h"
#include "control.h"

#include <time.h>

#include "guest/engine.h"

struct run_options {
    const char *event, *cpu, *sysroot, *qemu_cpu, *qemu, *aux;
    struct cli_list model, environment;
    uint64_t period, seed;
    bool deterministic, exact; /* exact: every operation is modelled */
    const struct engine_ideal *ideal;
    size_t ideal_count;
};

/* The default of --cpu; compared by address, to tell whether the option was given. */
extern const char run_standard_cpu[];

/* clang-format off */
/* Rows for the table of a command whose options struct begins with struct run_options. */
#define RUN_OPTIONS                                                                                \
    {"event", 'e', CLI_STRING, offsetof(struct run_options, event), "EVENT",                       \
     "SPE event with the terms of Linux's arm_spe PMU, as for perf record",                        \
     "arm_spe/ts_enable=1,jitter=1/", NULL},                                                       \
    {"count", 'c', CLI_NUMBER, offsetof(struct run_options, period), "PERIOD",                     \
     "sampling interval in operations, a multiple of 256", "4096", NULL},                          \
    {"mmap-pages", 'm', CLI_STRING, offsetof(struct run_options, aux), ",SIZE",                    \
     "size of the AUX buffer, after a comma as in perf; it interrupts whenever half of it is "      \
     "full (default ,1M under QEMU; native 512K,4M: first the ring of other events)",               \
     NULL, NULL},                                                                                  \
    {"cpu", 0, CLI_STRING, offsetof(struct run_options, cpu), "CPU",                               \
     "CPU to model: a preset or a file of that form (spex help cpus), or a feature list (spex "    \
     "help features)",                                                                             \
     run_standard_cpu, NULL},                                                                      \
    {"model", 0, CLI_LIST, offsetof(struct run_options, model), "KEY=VALUE",                       \
     "how the core is modelled: sampled (default), full or none; or one of its numbers, or "       \
     "a preset (spex help model)",                                                                 \
     NULL, NULL},                                                                                  \
    {"deterministic", 0, CLI_FLAG, offsetof(struct run_options, deterministic), NULL,              \
     "write the same bytes each time, even with several threads: clocks show modelled time", NULL,  \
     NULL},                                                                                        \
    {"seed", 0, CLI_NUMBER, offsetof(struct run_options, seed), "N",                               \
     "seed of the sampling jitter and of the guest's AT_RANDOM", "1", NULL},                       \
    {"sysroot", 'L', CLI_STRING, offsetof(struct run_options, sysroot), "DIR",                     \
     "where dynamic programs find their libraries (default /usr/aarch64-linux-gnu)", NULL, NULL},  \
    {"env", 0, CLI_LIST, offsetof(struct run_options, environment), "NAME=VALUE",                  \
     "environment variable for the program", NULL, NULL},                                          \
    {"qemu", 0, CLI_STRING, offsetof(struct run_options, qemu), "PROGRAM",                         \
     "QEMU with plugin support (default: qemu-aarch64, or the one that --setup-qemu built)", NULL, \
     NULL},                                                                                        \
    {"qemu-cpu", 0, CLI_STRING, offsetof(struct run_options, qemu_cpu), "NAME",                    \
     "QEMU's own CPU model (default: the nearest to --cpu)",                                       \
     NULL, NULL}
/* clang-format on */

/* A run that has ended: the engine, its files, and how the guest ended. */
struct run {
    struct engine *engine;
    struct left_run *left;
    char directory[4096];
    struct engine_options options; /* the options used: with the period within its limits */
    uint64_t asked_period;
    bool quiet;   /* show no progress on a terminal */
    time_t begun; /* the guest */
    struct engine_totals totals;
    struct control *control; /* control while it runs, or NULL */
    int status;              /* exit status, as from waitpid */
};

/*
 * Runs argv. Fills in the rest of run->options from options; the caller has set prefix, keep and
 * truth. CLI_OK, or the exit code after a message.
 */
int run_guest(const struct run_options *options, char **argv, struct run *run);

/* The directory that record --setup-qemu builds into. */
void run_own_qemu(char *path, size_t size);

/* Makes a prefix for a run's files if there is no output file beside which they could be. */
void run_temporary(char *path, size_t size);

/*
 * Frees the run and returns the guest's exit status; or dies by the signal that ended the run or
 * killed the guest.
 */
int run_end(struct run *run);

/* Reports on stderr what the engine could not see. */
void run_notes(const struct run *run);

#endif
