/*
 * Code that a just-in-time compiler made, as it reports it to perf: perf-PID.map (a line "START
 * SIZE NAME" for each function) or jitdump (records with times). The program that ran wrote these
 * files, so they may hold any bytes.
 */
#ifndef PERFDATA_JIT_H
#define PERFDATA_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JIT_NAME_MOST = 4000, JIT_FILE_MOST = 256 << 20 };
#define JIT_PREFIX "[jit] " /* a mapping of one function is named like this */

struct jit_code {
    uint64_t time; /* jitdump: by the clock that the file names; perf-PID.map: 0 */
    size_t end;    /* of its record in the file */
    uint64_t start, length;
    const char *name; /* not ended by a zero */
    size_t name_length;
};

typedef void jit_sink(void *context, const struct jit_code *code);
void jit_read(const char *data, size_t size, jit_sink *sink, void *context);

/* Is this the name of such a file? */
bool jit_is_map(const char *path);
bool jit_is_dump(const char *path);
/* The process that a jitdump file names; -1: it is not such a file. */
int64_t jit_dump_pid(const char *data, size_t size);

#endif
