/* What was not recorded, over time: events lost, buffers cut off, collisions. */
#include "report/internal.h"

#include "base/memory.h"

#include <stdlib.h>

enum { LOST, TRUNCATED, COLLIDED, KINDS };

void marks_write(struct report *r, struct json *json)
{
    /* The passes are over, so that nobody else reads the file's events. */
    struct spex_perfdata *file = (struct spex_perfdata *)spex_analysis_file(r->analysis);
    uint64_t(*counts)[KINDS] = memory_get(r->bins.count + 1, sizeof *counts);
    struct spex_perf_event e;
    if (file)
        spex_perfdata_rewind(file);
    while (file && r->bins.count && spex_perfdata_next(file, &e) == SPEX_OK) {
        uint64_t bin = (e.time >> r->bins.shift) - r->bins.first;
        if (bin >= r->bins.count) /* behind the last record: the last interval */
            bin = e.time >> r->bins.shift < r->bins.first ? 0 : r->bins.count - 1;
        if (e.type == SPEX_PERF_LOST) {
            counts[bin][LOST] += e.u.lost.lost;
        } else if (e.type == SPEX_PERF_AUX) {
            counts[bin][TRUNCATED] += (e.u.aux.flags & SPEX_PERF_AUX_TRUNCATED) != 0;
            counts[bin][COLLIDED] += (e.u.aux.flags & SPEX_PERF_AUX_COLLISION) != 0;
        }
    }
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
