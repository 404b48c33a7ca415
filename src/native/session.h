/* What the parts of a recording share. */
#ifndef NATIVE_SESSION_H
#define NATIVE_SESSION_H

#include "count.h"
#include "native.h"
#include "open.h"
#include "proc.h"
#include "start.h"

#include "perfdata/writer.h"

#include <poll.h>
#include <pthread.h>

struct native_session {
    struct native_options o;
    struct native_child child;
    bool reaped;
    native_ids tids, pids; /* threads with events; processes, but for a program and -a */
    struct opened opened;
    struct native_kernel kernel;
    struct native_counters counters; /* used with options.count */
    struct spex_perf_writer *writer;
    struct native_totals totals;
    int wake;    /* eventfd */
    int uevents; /* socket on which the kernel reports CPUs; -1: none */
    VEC(struct pollfd) polls;
    unsigned words;       /* enum native_word, atomic */
    pthread_mutex_t lock; /* guards `on` and the list of events: another thread may enable */
    bool on;
    uint64_t start_at, looked, flushed, part_start; /* native_now() values; start_at 0: already
                                                       started; looked: last look for CPUs */
    uint64_t part_bytes;                            /* AUX bytes in this file */
};

uint64_t native_now(void); /* ns */
/* Writes everything in the rings to the file. */
void native_drain(struct native_session *s);

/* ---- hotplug.c, with whole CPUs ---- */

int native_hotplug_open(void);
/* Reports CPUs that went, records those that came. */
void native_hotplug_look(struct native_session *s);

/* ---- file.c ---- */

enum spex_status native_file_begin(struct native_session *s, struct spex_error *error);
/* Writes what is running, for a reader who has this file alone. */
void native_file_state(struct native_session *s);
/* Ends this one and begins the next part. */
enum spex_status native_file_next(struct native_session *s, struct spex_error *error);
enum spex_status native_file_end(struct native_session *s, struct spex_error *error);
void native_file_drop(struct native_session *s);

#endif
