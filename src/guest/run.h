/*
 * The files that `spex record` and the plugin share, in one directory per run:
 *
 *   control   struct run_control, mapped by the plugin: settings and shared counters
 *   command   words, each ended by a zero: program, sysroot, CPU, then the command line
 *   engine    how QEMU is started, for every program of the guest (start.h)
 *   ideal     what is made ideal: struct engine_ideal, if anything is
 *   start     a link to spex, and
 *   exec.N    what process N of the host is to execute by it (trace.h)
 *   data      perf.data in the making: its beginning, then an AUXTRACE record for each
 *             Profiling Buffer that was full. Never copied: at the end events and
 *             header are added, and it gets its name
 *   reserve   room for these, in case the disk is full by then
 *   N         struct run_task, mapped: one per guest thread that ever lived
 *   N.aux     the thread's Profiling Buffer, mapped, until it is written to data
 *   N.log     the thread's events, appended with write()
 *   N.stacks  the thread's call stacks and allocations, mapped, until they are written to data
 *             (--stacks, --allocs): whole records as they stand there
 *   N.truth   whole-population counts of a process (--truth), mapped
 *
 * The plugin writes as it goes, so that whatever ends the guest, or spex, everything up to
 * that moment can be read. Mapped files are grown with posix_fallocate: a full disk is an
 * error, not a signal. Same build on both sides; no format. The guest can write to these files
 * like any other of its user's: spex maps none of them, and believes no number it reads back.
 */
#ifndef GUEST_RUN_H
#define GUEST_RUN_H

#include "driver.h"

#include "uarch/model.h"

enum {
    RUN_VERSION = 9,
    RUN_CPUS = 1024, /* CPU numbers that guest threads can get */
    RUN_FIRST_PID = 1000,
    RUN_EVENTS = 14, /* PMU events of the unit */
    RUN_PATH = 4096,
    RUN_NAME = 256,
    RUN_PAGE = 4096,
    RUN_ENDED = 256,
    RUN_GONE = 1024,
    RUN_RESERVE = 256 << 10,
    RUN_TRUTH = 1 << 20,    /* bytes that N.truth grows by; a row lies in one piece */
    RUN_STACKS = 256 << 10, /* bytes of N.stacks */
    RUN_DOOR = 40,
    RUN_PASS = 16,
};

/* Settings needed at the end of a run; any value is harmless. */
struct run_output {
    uint64_t midr, min_interval, event_filter, period, config[5];
    uint64_t start; /* offset in `data` where the AUX data begins */
    uint64_t keep, truth, stacks, allocs, elapsed;
};

#define RUN_NO_TASK UINT32_MAX

/* A process that has become another program, or is about to (origin.h). */
struct run_gone {
    int32_t host_pid;
    uint32_t task;    /* the task it was, or RUN_NO_TASK */
    uint64_t started; /* start time of the host's process, since process ids are reused */
    uint64_t clock; /* clock of the process, or of the last process started by it that has ended */
};

struct run_control {
    uint32_t version, size;
    struct run_output output;
    /* settings */
    struct arch_features features;
    struct spu_choices choices;
    struct uarch_config model;
    struct driver_event event;
    uint64_t seed;
    uint64_t buffer;    /* bytes of one Profiling Buffer */
    uint32_t zva_bytes; /* bytes that DC ZVA writes on QEMU's CPU */
    bool keep;          /* keep records; otherwise only count */
    bool truth;
    bool truth_parts;   /* count only inside the regions (region.h) */
    bool stacks;        /* keep call stacks */
    bool allocs;        /* keep allocations */
    bool deterministic; /* waits end in modelled time (pause.h) */
    bool regions;       /* sampling may be off for parts of the run (region.h): */
    char start_at[RUN_NAME], stop_at[RUN_NAME]; /* functions of the program, or empty */
    uint64_t delay;                             /* cycles without samples at the beginning */
    uint64_t max_size;                          /* bytes of `data` with records; 0: any */
    char door[RUN_DOOR];                        /* name of the door's socket (door.h), or empty */
    uint8_t pass[RUN_PASS];
    /* shared, atomic */
    uint32_t installed;                /* the plugin runs */
    uint32_t tasks;                    /* threads so far */
    uint32_t cpus;                     /* highest CPU number used, plus one */
    uint32_t failed;                   /* errno of the first file that could not be made or grown */
    uint32_t unprofiled;               /* threads without files */
    uint64_t lost_bytes, lost_records; /* lost for lack of room in `data` */
    uint32_t disabled;                 /* no samples now: switched off by a marker or --control */
    uint32_t full;                     /* max_size was reached */
    uint32_t untraced;                 /* programs of the host that got no supervisor (trace.h) */
    uint64_t lost_stacks;              /* call stacks that found no room */
    uint32_t no_stacks;                /* this QEMU does not show the stack pointer */
    uint32_t allocators;               /* allocator functions, in all loaded files */
    uint32_t shown, talked; /* spex shows progress on the terminal; the guest has written to it */
    /* this QEMU shows no registers: blocks cut by faults are counted whole */
    uint32_t no_registers;
    struct {
        int32_t host_pid;
        uint64_t clock;
        /* last clock of ended processes, by process id, for those that wait for them */
    } ended[RUN_ENDED];
    struct run_gone gone[RUN_GONE]; /* indexed by number */
    uint64_t busy[RUN_CPUS / 64];   /* CPU numbers in use */
    uint64_t clock[RUN_CPUS];       /* when the last thread left that CPU */
    /* `data` is written by the process that holds its lock (flock) */
    uint32_t closed;        /* the run is being read: nothing is added any more */
    uint64_t end;           /* end of the last whole AUXTRACE record */
    uint64_t chunks;        /* number of AUXTRACE records */
    uint64_t aux[RUN_CPUS]; /* bytes so far in each CPU's AUX area */
};

/* The unit's PMU events in the order of enum spex_pmu_event. */
extern const uint16_t run_events[RUN_EVENTS];

enum run_unseen { /* why the engine does not show the data address of a sampled operation */
                  RUN_UNSEEN_ZVA,
                  RUN_UNSEEN_PREFETCH,
                  RUN_UNSEEN_SVE,
                  RUN_UNSEEN_OTHER,
                  RUN_UNSEEN_COUNT
};

struct run_task {
    int32_t pid, tid, ppid, ptid, cpu;
    int32_t host_pid;
    uint32_t ended; /* ended normally */
    uint64_t start; /* model clock */
    uint64_t clock; /* last known value */
    uint64_t pmu[RUN_EVENTS];
    uint64_t unseen[RUN_UNSEEN_COUNT];
    uint64_t interrupts; /* PMBIRQ served */
    uint64_t cut;        /* blocks that a fault cut short */
    uint64_t head;       /* bytes of whole records in N.aux ... */
    uint64_t at; /* ... which are already in `data` if it ends after this offset; 0: they are not */
    uint64_t stacks_head, stacks_at; /* the same for N.stacks */
    uint64_t stacks;                 /* call stacks made, */
    uint64_t stacks_cut;             /* stacks with frames left out in the middle, */
    uint64_t stacks_doubted;         /* stacks with frames that may be wrong */
    uint64_t allocs;                 /* records whose data was in a block */
    uint64_t illegal_pc; /* address of an instruction that may have ended the program; or 0 */
    uint32_t illegal;    /* the instruction there */
    struct uarch_counts counts;
};

enum run_event_type {
    RUN_COMM,    /* text: name; flags 1: caused by an exec */
    RUN_IMAGE,   /* the program: start_code, end_code, entry of what runs first; text: its path */
    RUN_MAP,     /* address, length, offset, prot, flags; text: path, "[heap]" or empty */
    RUN_PROTECT, /* address, length, prot */
    RUN_MOVE,    /* mremap: address, length, address before */
    RUN_STACK,   /* a new thread's stack pointer; text: "[stack:TID]" */
    RUN_JIT,  /* file of a just-in-time compiler: number, bytes written; text: path once opened */
    RUN_FORK, /* this task begins */
    RUN_EXIT,
    RUN_AUX,  /* a buffer is in `data`: offset in the AUX area, bytes, PERF_RECORD_AUX flags */
    RUN_HOST, /* a host program is about to be executed; text: path, empty if it was not */
};

struct run_event {
    uint32_t type;
    uint32_t text; /* bytes of text after this struct, with its zero */
    uint64_t time; /* model clock */
    uint64_t a, b, c;
    uint32_t prot, flags;
};

/* Exact counts of one block or one instruction, in N.truth. */
struct run_truth {
    uint64_t pc;
    uint64_t count; /* of an instruction: times executed; block != 0: times the block was entered */
    uint32_t block; /* instructions of the block; 0: this is a row of one instruction */
    uint32_t call;  /* not 0: this row is a struct run_call */
    uint64_t cut;   /* of an instruction: counted with its block but never executed */
    uint64_t l1_miss, llc_miss, walk, mispredict, taken;
    uint64_t cycles;        /* full model only: parts of a cycle (BLAME_CYCLE) */
    uint64_t l2_miss, none; /* none: padding to the size of struct run_call */
};

/*
 * Takes the place of a run_truth: calls from an instruction to a function, with what was counted
 * until they returned.
 */
enum {
    RUN_OPERATIONS,
    RUN_L1_MISS,
    RUN_LLC_MISS,
    RUN_WALK,
    RUN_MISPREDICT,
    RUN_TAKEN,
    RUN_CYCLES,
    RUN_L2_MISS,
    RUN_COUNTS
};
struct run_call {
    uint64_t site, calls;
    uint32_t block, call; /* always 0 and 1 */
    uint64_t target, counts[RUN_COUNTS];
};
_Static_assert(sizeof(struct run_call) == sizeof(struct run_truth), "they share a file");

#endif
