/* What was there before a recording began, from /proc and /sys, as records of the same file. */
#ifndef NATIVE_PROC_H
#define NATIVE_PROC_H

#include <spex/perfdata.h>

#include "base/vec.h"

typedef VEC(int32_t) native_ids;

/* Threads of a process; false if there is no such process. */
bool native_proc_threads(const char *root, int32_t pid, native_ids *tids);
/* Every process; or those that descend from one, and it. */
bool native_proc_all(const char *root, native_ids *pids);
void native_proc_family(const char *root, int32_t pid, native_ids *pids);
/* The process of a thread; -1 if it is gone. */
int32_t native_proc_of(const char *root, int32_t tid);

/* What each record for perf_writer_raw() ends with. */
struct native_trailer {
    bool per_thread;
    uint64_t id;
};

enum { NATIVE_TRAILER = 32 };
/* Writes its bytes, with time 0; returns how many. */
size_t native_trailer_put(uint8_t *at, const struct native_trailer *trailer, int32_t pid,
                          int32_t tid);

/* Names, namespaces and mappings of a process and its threads. */
void native_proc_process(const char *root, int32_t pid, const struct native_trailer *trailer,
                         struct spex_perf_writer *writer);
/*
 * What /proc/kallsyms says. Reading it takes hundreds of millions of operations, so it is done
 * once.
 */
struct native_kernel {
    uint64_t text, stext, end; /* 0: not there, or hidden */
    char *bpf;                 /* its lines about BPF, freed by the caller */
};
void native_kernel_read(const char *root, struct native_kernel *kernel);
/* The kernel, its modules and BPF programs, as far as the user may see addresses; build-ids. */
void native_proc_kernel(const char *root, const struct native_kernel *kernel,
                        const struct native_trailer *trailer, struct spex_perf_writer *writer);

#endif
