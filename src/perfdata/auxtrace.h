/* The record in front of AUX bytes, made by the writer and by code that appends to its file. */
#ifndef PERFDATA_AUXTRACE_H
#define PERFDATA_AUXTRACE_H

#include "base/bits.h"

#include <string.h>

enum { AUXTRACE_SIZE = 48, AUXTRACE_TYPE = 71 };

/*
 * size: bytes of data after the header, a multiple of 8. offset: where the first of them is in the
 * queue's AUX area.
 */
static inline void auxtrace_header(uint8_t h[AUXTRACE_SIZE], uint64_t size, uint64_t offset,
                                   uint64_t reference, uint32_t queue, int32_t tid, int32_t cpu)
{
    memset(h, 0, AUXTRACE_SIZE);
    put_le32(h, AUXTRACE_TYPE);
    put_le16(h + 6, AUXTRACE_SIZE);
    put_le64(h + 8, size);
    put_le64(h + 16, offset);
    put_le64(h + 24, reference);
    put_le32(h + 32, queue);
    put_le32(h + 36, (uint32_t)tid);
    put_le32(h + 40, (uint32_t)cpu);
}

#endif
