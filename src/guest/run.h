/*
 * The files that `spex record` and the plugin share, in one directory per run:
 *
 *   control   struct run_control, mapped by all: settings and shared counters
 *   N         struct run_task, mapped: one per guest thread that ever lived
 *   N.aux     the thread's Profiling Buffers, one behind the other, mapped
 *   N.log     the thread's events, appended with write()
 *   N.truth   whole-population counts of a process (--truth), mapped
 *
 * The plugin writes through as it goes, so that whatever ends the guest, what
 * was there at that moment can be read. Files are grown with posix_fallocate:
 * a full disk is an error, not a signal. Same build on both sides; no format.
 */
#ifndef GUEST_RUN_H
#define GUEST_RUN_H

#include "driver.h"

#include "uarch/model.h"

enum {
    RUN_VERSION = 1,
    RUN_CPUS = 1024, /* CPU numbers that guest threads can get */
    RUN_FIRST_PID = 1000,
    RUN_EVENTS = 14, /* PMU events of the unit */
    RUN_PATH = 4096,
    RUN_PAGE = 4096,
    RUN_ENDED = 256,
    RUN_TRUTH = 1 << 20, /* bytes that N.truth grows by; rows do not cross them */
};

struct run_control {
    uint32_t version, size;
    /* settings */
    struct spex_features features;
    struct spex_spu_choices choices;
    struct spex_uarch_config model;
    struct driver_event event;
    uint64_t seed;
    uint64_t buffer;    /* bytes of one Profiling Buffer */
    uint32_t zva_bytes; /* what DC ZVA writes on QEMU's CPU */
    bool keep;          /* keep records; otherwise only count */
    bool truth;
    /* shared, atomic */
    uint32_t installed;    /* the plugin runs */
    uint32_t tasks;        /* threads so far */
    uint32_t cpus;         /* highest CPU number used, plus one */
    uint32_t failed;       /* errno of the first file that could not be made or grown */
    uint32_t execs;        /* successful execve calls: out of sight from there on */
    uint32_t no_registers; /* this QEMU shows no registers: faults are not given back */
    struct {
        int32_t host_pid;
        uint64_t clock;
    } ended[RUN_ENDED]; /* processes by number: their last clock, for who waits for them */
    uint64_t busy[RUN_CPUS / 64]; /* CPU numbers in use */
    uint64_t clock[RUN_CPUS];     /* when the last thread left that CPU */
};

/* The unit's PMU events in the order of enum spex_pmu_event. */
extern const uint16_t run_events[RUN_EVENTS];

enum run_unseen { /* sampled operations whose data address the engine does not show */
                  RUN_UNSEEN_ZVA,
                  RUN_UNSEEN_PREFETCH,
                  RUN_UNSEEN_SVE,
                  RUN_UNSEEN_OTHER,
                  RUN_UNSEEN_COUNT
};

struct run_task {
    int32_t pid, tid, ppid, ptid, cpu;
    int32_t host_pid;
    bool ended;     /* finished in good order */
    uint64_t start; /* model clock */
    uint64_t clock; /* last known */
    uint64_t pmu[RUN_EVENTS];
    uint64_t unseen[RUN_UNSEEN_COUNT];
    uint64_t interrupts; /* PMBIRQ served */
    uint64_t cut;        /* blocks that a fault cut short */
    uint64_t buffers;    /* opened in N.aux */
    uint64_t head;       /* bytes of whole records in the last of them */
    struct spex_uarch_counts counts;
};

enum run_event_type {
    RUN_COMM,    /* text: name */
    RUN_IMAGE,   /* the program: start_code, end_code, entry of what runs first */
    RUN_MAP,     /* address, length, offset, prot, flags; text: path, "[heap]" or empty */
    RUN_PROTECT, /* address, length, prot */
    RUN_FORK,    /* this task begins */
    RUN_EXIT,
    RUN_AUX,  /* a buffer is complete: number, bytes, PERF_RECORD_AUX flags */
    RUN_EXEC, /* execve is about to be tried; text: path */
};

struct run_event {
    uint32_t type;
    uint32_t text; /* bytes of text behind this struct, with its zero */
    uint64_t time; /* model clock */
    uint64_t a, b, c;
    uint32_t prot, flags;
};

/* One block's worth of truth, or one instruction's, in N.truth. */
struct run_truth {
    uint64_t pc;
    uint64_t count; /* instructions: block != 0: times the block was entered */
    uint32_t block; /* instructions of the block; 0: this is a row of one instruction */
    uint32_t pad;
    uint64_t cut; /* instruction: counted with its block but never executed */
    uint64_t l1_miss, llc_miss, walk, mispredict, taken;
};

#endif
