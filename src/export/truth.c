#include "truth.h"

#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum spex_status truth_read(const char *path, void (*use)(void *context, const struct truth_row *),
                            void *context, struct spex_error *error)
{
    char line[512];
    unsigned number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, SPEX_IO, 0, "%s: %s; record with --truth", path, strerror(errno));
    bool ok = true;
    while (ok && fgets(line, sizeof line, file)) {
        struct truth_row row = {0};
        uint64_t *c = row.counts;
        number++;
        if (line[0] == '#')
            continue;
        ok = sscanf(line,
                    "%" SCNd32 " %" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                    " %" SCNu64 " %" SCNu64 " %" SCNu64,
                    &row.pid, &row.pc, &c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6]) >= 8;
        if (ok)
            use(context, &row);
    }
    fclose(file);
    return ok ? SPEX_OK
              : error_set(error, SPEX_INVALID, 0, "%s:%u: not a row of a truth file", path, number);
}
