/*
 * The sample that carries the call stack of an SPE record: a PERF_RECORD_SAMPLE of its own
 * event. The writer makes the event; code that appends to its file makes the records.
 */
#ifndef PERFDATA_CALLCHAIN_H
#define PERFDATA_CALLCHAIN_H

#include "base/bits.h"

#include <stdbool.h>
#include <stddef.h>

#define CALLCHAIN_EVENT "spe-stacks"
#define CALLCHAIN_USER (-UINT64_C(512)) /* PERF_CONTEXT_USER */

enum { CALLCHAIN_ID = 3, CALLCHAIN_HEAD = 56, CALLCHAIN_MOST = 4096 };

struct callchain {
    uint64_t pc, time;
    int32_t pid, tid, cpu;
    size_t count; /* words of the chain, which begins with CALLCHAIN_USER and the pc */
};

static inline size_t callchain_size(size_t count)
{
    return CALLCHAIN_HEAD + 8 * (count + 2);
}

/* Writes the beginning of such a sample: id, pc, thread and time. */
static inline void callchain_head(uint8_t *to, size_t size, uint64_t id, uint64_t pc, int32_t pid,
                                  int32_t tid, uint64_t time)
{
    enum { SAMPLE = 9, USER = 2 };
    put_le32(to, SAMPLE);
    put_le16(to + 4, USER);
    put_le16(to + 6, (uint16_t)size);
    put_le64(to + 8, id);
    put_le64(to + 16, pc);
    put_le32(to + 24, (uint32_t)pid);
    put_le32(to + 28, (uint32_t)tid);
    put_le64(to + 32, time);
}

/*
 * Writes the callers, innermost first, after the two leading words; callchain_size() bytes
 * in all.
 */
static inline void callchain_write(uint8_t *to, const struct callchain *c, const uint64_t *callers)
{
    callchain_head(to, callchain_size(c->count), CALLCHAIN_ID, c->pc, c->pid, c->tid, c->time);
    put_le64(to + 40, (uint32_t)c->cpu);
    put_le64(to + 48, c->count + 2);
    put_le64(to + 56, CALLCHAIN_USER);
    put_le64(to + 64, c->pc);
    for (size_t i = 0; i < c->count; i++)
        put_le64(to + 72 + 8 * i, callers[i]);
}

/* Size of the record at `at`; 0 if it is not one. */
static inline size_t callchain_check(const uint8_t *at, size_t size)
{
    if (size < callchain_size(0) || le32(at) != 9 || le64(at + 8) != CALLCHAIN_ID)
        return 0;
    uint64_t count = le64(at + 48);
    if (count < 2 || count > CALLCHAIN_MOST || le16(at + 6) != callchain_size(count - 2) ||
        le16(at + 6) > size)
        return 0;
    return le16(at + 6);
}

#endif
