/*
 * Runs an AArch64 program under QEMU in user mode with one SPU per thread, and reads the files of
 * the run (docs/record-internals.md).
 *
 * engine_new checks everything that can be checked in advance, so that most failures are one clear
 * sentence before anything runs. A run keeps its files in a directory; run.h has their names. Once
 * the guest has ended, and also if spex itself was killed, left_open reads that directory: threads,
 * the location of their Profiling Buffers, and events in order of time. The guest may have written
 * to these files: impossible values are left out and counted. One handle, one thread. The handle
 * owns what it returns.
 */
#ifndef SPEX_ENGINE_H
#define SPEX_ENGINE_H

#include "spu/config.h"
#include "uarch/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range to make ideal in processes whose program has this name; its first 15 characters count. */
struct engine_ideal {
    struct ideal_range range;
    char program[16];
};

struct engine_options {
    /* program, searched in PATH; NULL: qemu-aarch64 or, if that does not support */
    const char *qemu;
    const char *own_qemu; /* plugins, this one if it exists; or NULL */
    const char *plugin;   /* path of libspex-qemu.so */
    const char *sysroot;  /* for dynamic programs; NULL: /usr/aarch64-linux-gnu if it exists */
    /* QEMU's -cpu; NULL: chosen from MIDR_EL1, vector_bits and what QEMU offers */
    const char *qemu_cpu;
    uint32_t vector_bits;           /* SVE vector length; 0: the CPU has no SVE */
    const char *prefix;             /* the run's files are kept in PREFIX.run-XXXXXX */
    const char *cpu;                /* name of the CPU, shown at the end of the run */
    const char *const *environment; /* "NAME=VALUE" to add for the guest, NULL-ended; or NULL */
    char *const *argv;              /* the program and its arguments */
    /*
     * The program's path, if every run must have the same process memory, whoever starts it and
     * wherever the file is: the environment is then only the one above, and the program sees
     * argv[0] but not this path. NULL: argv[0] is the program, and it gets this process's
     * environment.
     */
    const char *alone;
    /* bytes of the main thread's stack, below which memory is mapped. 0: QEMU's default */
    uint64_t stack;
    struct arch_features features;
    struct uarch_config model;
    uint64_t layout;            /* record layout: the unit's choice with that name */
    uint64_t select_group;      /* the unit's choice with that name */
    uint64_t config[5], period; /* perf_event_attr of the SPE event */
    uint64_t aux_size; /* bytes of the AUX area: each half raises an interrupt when it is full */
    uint64_t seed;
    bool keep;                        /* keep the records; otherwise only count */
    bool aside;                       /* send the guest's standard output to its standard error */
    bool truth;                       /* exact counts for each instruction, */
    bool truth_parts;                 /* only while sampling is switched on */
    bool regions;                     /* sampling is switched on and off: */
    bool disabled;                    /* sampling is off at first */
    const char *start_at, *stop_at;   /* functions of the program, or NULL */
    uint64_t delay;                   /* cycles without samples at the beginning */
    uint64_t max_size;                /* most bytes in the file with records; 0: no limit */
    bool stacks;                      /* keep the call stack of each record */
    bool allocs;                      /* keep the allocation that each record's data is in */
    bool deterministic;               /* waits end in modelled time */
    const struct engine_ideal *ideal; /* what to make ideal; needs the full model */
    size_t ideal_count;
};

struct engine;
struct left_run;

/*
 * Checks the options and makes the directory. SPEX_INVALID, SPEX_UNSUPPORTED and SPEX_IO come with
 * one sentence for the user. Limits the period in options as Linux does. options must live until
 * the engine has started.
 */
enum spex_status engine_new(struct engine_options *options, struct engine **engine,
                            struct spex_error *error);
/* Finds the QEMU that a run with these two options uses, and its path; or says why none works. */
enum spex_status engine_qemu(const char *qemu, const char *own_qemu, char *path, size_t size,
                             struct spex_error *error);
const char *engine_directory(const struct engine *engine);
/* The CPU that QEMU emulates: its -cpu. */
const char *engine_cpu(const struct engine *engine);
/* If records are kept, DIRECTORY/data exists by then. */
enum spex_status engine_start(struct engine *engine, struct spex_error *error);
/* Host process of the guest, for passing on signals. */
int engine_process(const struct engine *engine);
/*
 * Waits for the first process of the guest; sets *status as waitpid does. Calls tick, unless it is
 * NULL, about twenty times a second.
 */
enum spex_status engine_wait(struct engine *engine, int *status, void (*tick)(void *),
                             void *context, struct spex_error *error);
/*
 * Progress so far, if known: modelled time of the furthest thread, number of samples. False once
 * the guest has written to its standard output or error: a progress line would be in the way, and
 * the plugin has removed the last one.
 */
bool engine_glance(const struct engine *engine, uint64_t *clock, uint64_t *samples);
/* Switches sampling on or off while the guest runs, if options->regions was set. */
void engine_enable(struct engine *engine, bool on);
/* Does not remove the run's files. */
void engine_free(struct engine *engine);
/* Number of the PMU event at index, 0 past the last; *present: does the CPU count it? */
unsigned engine_pmu_event(const struct engine *engine, size_t index, bool *present);

/* ---- results of a run ---- */

/* Removes a run's files; false if something stays. */
bool left_remove(const char *directory);

/*
 * Opens a run; nothing is added to it afterwards. engine: the one that made it, or NULL if no
 * engine may own it. SPEX_UNSUPPORTED: the plugin never ran. SPEX_INVALID: not a run of this
 * version.
 */
enum spex_status left_open(const char *directory, const struct engine *engine,
                           struct left_run **run, struct spex_error *error);
void left_close(struct left_run *run);

/* Facts about the whole run, for perf.data. */
struct left_about {
    uint64_t midr, min_interval, event_filter, period, config[5];
    uint64_t start, end; /* range of AUX data in DIRECTORY/data */
    uint32_t cpus;
    /* two sockets: CPUs belong to them in alternating groups of this size; 0: one socket */
    uint32_t socket_cpus;
    bool keep, truth;        /* truth: exact counts were kept */
    bool host;               /* the command was a program of this machine */
    bool stacks, allocs;     /* call stacks and allocations were kept */
    bool elapsed;            /* so was what threads did while they did not run */
    const char *cpu;         /* preset or file of the core */
    const char *model;       /* sampled, full or none */
    const char *const *argv; /* NULL-terminated */
};
void engine_about(const struct engine *engine, struct left_about *about);
void left_about(const struct left_run *run, struct left_about *about);

struct engine_totals {
    uint64_t pmu[14]; /* indexed like engine_pmu_event() */
    uint64_t unseen_zva, unseen_prefetch, unseen_sve, unseen_other; /* samples without an address */
    uint64_t interrupts; /* PMBIRQ served: the Profiling Buffer was full */
    uint64_t lost;       /* AUX records marked TRUNCATED */
    uint64_t cut;        /* blocks that a fault cut short */
    uint32_t tasks, processes, cpus;
    int failed; /* errno if files could not grow; then data is missing: */
    uint64_t lost_bytes, lost_records;
    /* call stacks; those with a gap in the middle; those that may be wrong */
    uint64_t stacks, stacks_cut, stacks_doubted;
    uint64_t lost_stacks; /* stacks lost for lack of room */
    bool no_stacks;       /* this QEMU does not show the registers that stacks need */
    uint32_t unprofiled;  /* threads without a profile */
    uint64_t allocs;      /* records whose data is in a known block */
    uint32_t allocators;  /* allocator functions that were found */
    uint64_t damaged;     /* parts of the run's files that cannot be true */
    bool full;            /* the file reached max_size: nothing was sampled after that */
    bool untraced;    /* programs of the host could not start programs of the guest: no ptrace */
    bool uncorrected; /* this QEMU shows no registers: cut blocks were counted whole */
    /* address of an instruction that QEMU's CPU lacks and that ended a process; or 0 */
    uint64_t illegal_pc;
    uint32_t illegal, illegal_pid;
    struct uarch_counts counts;
    uint64_t clock; /* model time at the end */
};
void left_totals(const struct left_run *run, struct engine_totals *totals);

/* A program of the host that the guest started, and how often; NULL past the last. */
const char *left_machine(struct left_run *run, size_t index, size_t *times);

enum engine_event_kind {
    SPEX_ENGINE_FORK, /* a thread begins: pid, tid, ppid, ptid */
    SPEX_ENGINE_EXIT,
    SPEX_ENGINE_COMM,
    SPEX_ENGINE_MAP,  /* address, length, offset, prot, flags, path ("" for anonymous memory) */
    SPEX_ENGINE_AUX,  /* DIRECTORY/data has new records: offset in the AUX area, size, aux_flags */
    SPEX_ENGINE_LEFT, /* data that found no room: data, size; valid until the next call */
    SPEX_ENGINE_STACKS, /* the same for call stacks: whole records of perf.data */
};

struct engine_event {
    enum engine_event_kind kind;
    uint64_t time; /* ns, model clock at 1 GHz */
    int32_t pid, tid, ppid, ptid, cpu;
    bool first;       /* COMM, MAP: for the program itself, from its exec */
    const char *text; /* COMM: name; MAP: path */
    uint64_t address, length, offset;
    uint32_t prot, flags;
    const uint8_t *build_id; /* MAP of a file */
    size_t build_id_size;
    const uint8_t *data; /* LEFT */
    size_t size;
    uint32_t aux_flags; /* PERF_RECORD_AUX */
};
/* Events in order of time. SPEX_OK, SPEX_END, or SPEX_IO. */
enum spex_status left_next(struct left_run *run, struct engine_event *event,
                           struct spex_error *error);

/*
 * --truth: one instruction of one process, ordered by pid and pc. With --stacks and the full model,
 * there are also rows for the calls from an instruction to a function, with what was counted until
 * they returned.
 */
struct engine_truth {
    int32_t pid;
    uint64_t pc;
    uint64_t target, calls; /* calls: the function called and how often; else 0 */
    uint64_t count;         /* times executed */
    uint64_t l1_miss, llc_miss, walk, mispredict, taken;
    uint64_t cycles; /* only with the full model */
    uint64_t l2_miss;
};
/* Rows; the array belongs to the run. */
enum spex_status left_truth(struct left_run *run, const struct engine_truth **rows, size_t *count,
                            struct spex_error *error);

#ifdef __cplusplus
}
#endif
#endif
