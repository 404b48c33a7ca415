#include "truth.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char call_mark[] = "#call\t", kernel_mark[] = "#kernel\t";

/* Numbers from text on, which an empty line ends; how many there are. */
static unsigned read_numbers(const char *text, uint64_t *numbers, unsigned most)
{
    unsigned n = 0;
    char *end;
    for (; n < most; n++, text = end) {
        while (*text == ' ' || *text == '\t')
            text++;
        numbers[n] = strtoull(text, &end, 0);
        if (end == text)
            break;
    }
    return n;
}

static bool read_row(const char *line, struct truth_row *row, bool call)
{
    enum { MOST = 4 + TRUTH_COUNTS };
    uint64_t numbers[MOST] = {0};
    unsigned before = call ? 4 : 2; /* pid, pc; target, calls */
    unsigned n = read_numbers(line, numbers, before + TRUTH_COUNTS);
    row->pid = (int32_t)numbers[0];
    row->pc = numbers[1];
    row->target = call ? numbers[2] : 0;
    row->calls = call ? numbers[3] : 0;
    memcpy(row->counts, numbers + before, sizeof row->counts);
    return n + 2 >= before + TRUTH_COUNTS; /* older files have no cycles, no level 2 */
}

static FILE *open_file(const char *path, struct spex_error *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        error_set(error, SPEX_IO, 0, "%s: %s; record with --truth", path, strerror(errno));
    return file;
}

static enum spex_status read_file(const char *path, bool calls,
                                  void (*use)(void *context, const struct truth_row *),
                                  void *context, struct spex_error *error)
{
    char line[512];
    unsigned number = 0;
    FILE *file = open_file(path, error);
    if (!file)
        return SPEX_IO;
    bool ok = true;
    while (ok && fgets(line, sizeof line, file)) {
        struct truth_row row = {0};
        bool call = !strncmp(line, call_mark, sizeof call_mark - 1);
        number++;
        if (call != calls || (line[0] == '#' && !call))
            continue;
        ok = read_row(line + (call ? sizeof call_mark - 1 : 0), &row, call);
        if (ok)
            use(context, &row);
    }
    fclose(file);
    return ok ? SPEX_OK
              : error_set(error, SPEX_INVALID, 0, "%s:%u: not a row of a truth file", path, number);
}

enum spex_status truth_read(const char *path, void (*use)(void *context, const struct truth_row *),
                            void *context, struct spex_error *error)
{
    return read_file(path, false, use, context, error);
}

enum spex_status truth_read_kernel(const char *path, uint64_t *cycles, struct spex_error *error)
{
    char line[512];
    FILE *file = open_file(path, error);
    if (!file)
        return SPEX_IO;
    while (fgets(line, sizeof line, file) && line[0] == '#') /* header lines come before the rows */
        if (!strncmp(line, kernel_mark, sizeof kernel_mark - 1))
            *cycles += strtoull(line + sizeof kernel_mark - 1, NULL, 10);
    fclose(file);
    return SPEX_OK;
}

enum spex_status truth_read_calls(const char *path,
                                  void (*use)(void *context, const struct truth_row *),
                                  void *context, struct spex_error *error)
{
    return read_file(path, true, use, context, error);
}
