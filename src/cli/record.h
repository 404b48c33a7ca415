/* spex record: its options, and the part that uses the machine's own SPE. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include "run.h"

#include "native/native.h"

enum record_engine { ENGINE_AUTO, ENGINE_NATIVE, ENGINE_QEMU };

/* Options that choose whether to record on this machine. */
struct native_choice {
    int engine; /* enum record_engine */
    bool all_cpus, per_thread, snapshot, keep_root;
    const char *cpus;
    struct cli_list pids, tids;
};

struct record_options {
    struct run_options run;
    struct native_choice native;
    const char *output, *control, *start_at, *stop_at, *delay, *parts, *suite;
    uint64_t max_size;
    bool truth, stacks, allocs, quiet, setup;
    bool live; /* native: the file is read while it grows */
};

/* clang-format off */
#define NATIVE_OPTIONS(type, member)                                                               \
    {"engine", 0, CLI_CHOICE, offsetof(type, member.engine), "auto|native|qemu",                   \
     "this machine's SPE, or the model under QEMU; auto prefers SPE", "auto",    \
     record_engines},                                                                              \
    {"all-cpus", 'a', CLI_FLAG, offsetof(type, member.all_cpus), NULL,                             \
     "native: the whole machine, until the program ends or Ctrl-C", NULL,  \
     NULL},                                                                                        \
    {"cpu-list", 'C', CLI_STRING, offsetof(type, member.cpus), "LIST",                             \
     "native: only these CPUs (0-3,8)", NULL, NULL},                                              \
    {"pid", 'p', CLI_LIST, offsetof(type, member.pids), "PID[,PID]",                               \
     "native: running processes, with their threads and children", NULL, NULL},    \
    {"tid", 't', CLI_LIST, offsetof(type, member.tids), "TID[,TID]", "native: these threads",      \
     NULL, NULL},                                                                                  \
    {"per-thread", 0, CLI_FLAG, offsetof(type, member.per_thread), NULL,                           \
     "native: one buffer per thread instead of per CPU; children are not recorded", NULL,       \
     NULL},                                                                                        \
    {"keep-root", 0, CLI_FLAG, offsetof(type, member.keep_root), NULL,                             \
     "native: under sudo, run the program as root, not as the calling user", NULL, NULL}
/* clang-format on */

/*
 * Records a program; returns the program's exit status, or dies by the signal that ended the
 * program.
 */
int record_program(struct record_options *options, char **argv);

extern const char *const record_engines[];

/*
 * Decides which engine is used; for the native one, machine is filled in. CLI_OK, or the exit code
 * after a message.
 */
int record_choose(const struct native_choice *choice, struct native_machine *machine, bool *native);
/* totals: receives the figures instead of stderr; the caller then ends with record_end(). */
int record_native(const struct record_options *options, const struct native_machine *machine,
                  char **argv, struct native_totals *totals);
/* Exits like the program: with its status, or by the signal that ended it. */
int record_end(const struct native_totals *totals, bool program);

#endif
