/*
 * Recording on a machine with SPE: Linux's arm_spe PMU through perf_event_open(2) and its AUX area,
 * to the same perf.data that the model writes. One thread runs a recording; native_tell() and
 * native_enable() may come from others, native_tell() from a signal handler too.
 */
#ifndef NATIVE_NATIVE_H
#define NATIVE_NATIVE_H

#include "machine.h"

#include <signal.h>

struct native_options {
    const struct native_machine *machine;
    const struct native_event *events; /* one for each PMU that takes part */
    unsigned event_count;
    uint64_t period;
    const char *path; /* file to write; parts are PATH.00001 ... */
    const char *const *cmdline;
    char **argv; /* program to start, or NULL */
    /* Whom, without a program: all on these CPUs, or processes, or threads. */
    bool all_cpus, threads, per_thread;
    const struct native_cpus *cpus; /* subset of the online CPUs; NULL: all */
    const int32_t *ids;             /* ids of processes or threads */
    size_t id_count;
    uint64_t data_size, aux_size; /* bytes of each CPU's rings, powers of two; 0: chosen */
    bool no_aux;                  /* no AUX area: other events than SPE's, for tests */
    bool stacks;                  /* a second event with callchains */
    bool count;                   /* also the CPU's SAMPLE_* counters, where it has them */
    bool snapshot;                /* AUX data only on request (native_tell) */
    bool live;                    /* AUX data once a second, however little there is */
    bool keep_root;               /* the program stays root under sudo */
    int64_t delay;                /* ns before samples; -1: until native_enable() */
    uint64_t max_size, part_bytes, part_time; /* bytes, bytes, ns; 0: none */
};

struct native_totals {
    uint64_t size;                         /* bytes written, of all parts */
    uint64_t aux_bytes, aux_buffers;       /* bytes of SPE records, AUX records */
    uint64_t truncated, collided, partial; /* AUX records with that flag */
    uint64_t lost; /* kernel records that were lost because the ring was full */
    uint64_t throttled;
    unsigned parts, snapshots;
    unsigned offline, back,
        added;           /* CPUs that went offline, came back, or were not there at the beginning */
    uint64_t away;       /* ns until those that came back were recorded again */
    bool full;           /* max_size was reached */
    bool user_only;      /* the kernel was left out because the user lacks the privilege */
    int program;         /* exit status, as from waitpid */
    uint64_t aux_size;   /* size in effect */
    uint64_t program_us; /* CPU time of the program and what it waited for */
    uint64_t own_us;     /* CPU time of spex while it recorded */
    uint64_t count[4];   /* enum native_count, where counted */
    bool counted[4];
    uid_t user; /* the user that the program ran as, if root was dropped; else 0 */
};

struct native_session;

/* Opens events and rings, and starts the program, which waits. */
enum spex_status native_open(const struct native_options *options, struct native_session **session,
                             struct spex_error *error);
/* Records until the program or the processes end, or native_tell() ends it. */
enum spex_status native_run(struct native_session *session, struct native_totals *totals,
                            struct spex_error *error);
void native_close(struct native_session *session);

enum native_word { NATIVE_STOP = 1, NATIVE_SNAPSHOT = 2, NATIVE_WAKE = 4 };
void native_tell(struct native_session *session, enum native_word word);
void native_enable(struct native_session *session, bool on);
int native_process(const struct native_session *session); /* the program, or -1 */

#endif
