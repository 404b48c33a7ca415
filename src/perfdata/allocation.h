/*
 * The sample that names the allocation which an SPE record's data belongs to: a
 * PERF_RECORD_SAMPLE of its own event, with the record's thread, time and PC. Its address is
 * the start of the block, its period the block's size, its weight the block's number (two
 * blocks at the same address differ in it); the callchain says where it was allocated.
 */
#ifndef PERFDATA_ALLOCATION_H
#define PERFDATA_ALLOCATION_H

#include "callchain.h"

#define ALLOCATION_EVENT "spe-allocs"

enum { ALLOCATION_ID = 4, ALLOCATION_HEAD = 72 };

struct allocation {
    uint64_t pc, time, start, size, number;
    int32_t pid, tid, cpu;
    size_t count; /* words of the site: return addresses, innermost first */
};

static inline size_t allocation_size(size_t count)
{
    return ALLOCATION_HEAD + 8 * (count + 2);
}

static inline void allocation_write(uint8_t *to, const struct allocation *a, const uint64_t *site)
{
    callchain_head(to, allocation_size(a->count), ALLOCATION_ID, a->pc, a->pid, a->tid, a->time);
    put_le64(to + 40, a->start);
    put_le64(to + 48, (uint32_t)a->cpu);
    put_le64(to + 56, a->size);
    put_le64(to + 64, a->count + 1);
    put_le64(to + 72, CALLCHAIN_USER);
    for (size_t i = 0; i < a->count; i++)
        put_le64(to + 80 + 8 * i, site[i]);
    put_le64(to + 80 + 8 * a->count, a->number);
}

/* Size of the record at `at`; 0 if it is not one. */
static inline size_t allocation_check(const uint8_t *at, size_t size)
{
    if (size < allocation_size(0) || le32(at) != 9 || le64(at + 8) != ALLOCATION_ID)
        return 0;
    uint64_t count = le64(at + 64);
    if (count < 1 || count > CALLCHAIN_MOST || le16(at + 6) != allocation_size(count - 1) ||
        le16(at + 6) > size)
        return 0;
    return le16(at + 6);
}

#endif
