/* What the parts of a recording share. */
#ifndef NATIVE_SESSION_H
#define NATIVE_SESSION_H

#include "count.h"
#include "native.h"
#include "open.h"
#include "proc.h"
#include "start.h"

#include "perfdata/writer.h"

struct native_session {
    struct native_options o;
    struct native_child child;
    bool reaped;
    native_ids tids, pids; /* threads with events; processes, but for a program and -a */
    struct opened opened;
    struct native_counters counters; /* with options.count */
    struct spex_perf_writer *writer;
    struct native_totals totals;
    int wake;       /* eventfd */
    unsigned words; /* enum native_word, atomic */
    bool on;
    uint64_t start_at, looked, part_start; /* times of native_now(); start_at 0: no more */
    uint64_t part_bytes;                   /* of AUX data in this file */
};

uint64_t native_now(void); /* ns */
/* All that is in the rings, to the file. */
void native_drain(struct native_session *s);

/* ---- file.c ---- */

enum spex_status native_file_begin(struct native_session *s, struct spex_error *error);
/* What is running, for a reader of this file alone. */
void native_file_state(struct native_session *s);
/* Ends this one and begins the next part. */
enum spex_status native_file_next(struct native_session *s, struct spex_error *error);
enum spex_status native_file_end(struct native_session *s, struct spex_error *error);
void native_file_drop(struct native_session *s);

#endif
