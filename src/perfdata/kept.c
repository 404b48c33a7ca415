/* What others appended to a file that is still being written. */
#include "auxtrace.h"

#include <spex/perfdata.h>

#include <assert.h>
#include <unistd.h>

enum spex_status spex_perf_kept_next(int fd, uint64_t *at, uint64_t end,
                                     struct spex_perf_kept *kept)
{
    assert(at && kept);
    uint8_t h[AUXTRACE_SIZE];
    while (*at < end && end - *at >= sizeof h && pread(fd, h, sizeof h, (off_t)*at) == sizeof h) {
        const bool found = le32(h) == AUXTRACE_TYPE;
        const uint64_t record = le16(h + 6), size = found ? le64(h + 8) : 0;
        const uint64_t left = end - *at, first = *at + record;
        const bool whole = record >= 8 && record <= left && size <= left - record;
        *at = whole ? first + size : end;
        if (found) {
            *kept = (struct spex_perf_kept){
                .offset = le64(h + 16), .size = size, .at = first, .cpu = (int32_t)le32(h + 40)};
            return SPEX_OK;
        }
    }
    return SPEX_END;
}
