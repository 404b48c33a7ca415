/*
 * Code of a just-in-time compiler, as it reports it to perf: perf-PID.map (a line "START SIZE
 * NAME" for each function) or jitdump (records with times). The profiled program wrote these
 * files, so they may hold any bytes.
 */
#ifndef PERFDATA_JIT_H
#define PERFDATA_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JIT_NAME_MOST = 4000, JIT_FILE_MOST = 256 << 20 };
#define JIT_PREFIX "[jit] " /* prefix of the mapping name of one function */

struct jit_code {
    uint64_t time; /* jitdump: in the clock that the file names; perf-PID.map: 0 */
    size_t end;    /* offset of the record's end in the file */
    uint64_t start, length;
    const char *name; /* not null-terminated */
    size_t name_length;
};

typedef void jit_sink(void *context, const struct jit_code *code);
void jit_read(const char *data, size_t size, jit_sink *sink, void *context);

/* Whether path is the name of a perf-PID.map file. */
bool jit_is_map(const char *path);
bool jit_is_dump(const char *path);
/* The process that a jitdump file names; -1 if it is not a jitdump file. */
int64_t jit_dump_pid(const char *data, size_t size);

#endif
