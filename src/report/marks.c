/* What was not recorded, over time: events lost, buffers cut off, collisions. */
#include "report/internal.h"

#include "base/memory.h"

#include <stdlib.h>

enum { LOST, TRUNCATED, COLLIDED, KINDS };

static void count_marks(const struct report *r, struct spex_perfdata *file,
                        uint64_t (*counts)[KINDS])
{
    struct spex_perf_event e;
    spex_perfdata_rewind(file);
    while (spex_perfdata_next(file, &e) == SPEX_OK) {
        uint64_t bin = (e.time >> r->bins.shift) - r->bins.first;
        if (bin >= r->bins.count) /* after the last record: the last interval */
            bin = e.time >> r->bins.shift < r->bins.first ? 0 : r->bins.count - 1;
        if (e.type == SPEX_PERF_LOST) {
            counts[bin][LOST] += e.u.lost.lost;
        } else if (e.type == SPEX_PERF_AUX) {
            counts[bin][TRUNCATED] += (e.u.aux.flags & SPEX_PERF_AUX_TRUNCATED) != 0;
            counts[bin][COLLIDED] += (e.u.aux.flags & SPEX_PERF_AUX_COLLISION) != 0;
        }
    }
}

/* The passes are over, so that nobody else reads the files' events. */
void marks_write(struct report *r, struct json *json)
{
    uint64_t(*counts)[KINDS] = memory_get(r->bins.count + 1, sizeof *counts);
    struct spex_part part;
    for (size_t i = 0; spex_analysis_part(r->analysis, i, &part); i++)
        if (part.file && r->bins.count)
            count_marks(r, part.file, counts);
    json_name(json, "marks");
    json_array(json);
    for (unsigned b = 0; b < r->bins.count; b++)
        for (unsigned k = 0; k < KINDS; k++)
            if (counts[b][k]) {
                json_u64(json, b);
                json_u64(json, k);
                json_u64(json, counts[b][k]);
            }
    json_end(json);
    free(counts);
}
