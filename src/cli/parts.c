#include "parts.h"

#include "cli.h"

#include "base/bits.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool parts_parse(const char *text, struct parts_limit *limit)
{
    static const struct {
        const char *unit;
        double factor;
        bool time;
    } units[] = {{"", 1, false},        {"K", 1 << 10, false}, {"M", 1 << 20, false},
                 {"G", 1 << 30, false}, {"s", 1e9, true},      {"ms", 1e6, true},
                 {"us", 1e3, true}};
    char *end;
    double n = strtod(text, &end);
    *limit = (struct parts_limit){0};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != text && !strcmp(end, units[i].unit) && n * units[i].factor >= 1 && n < 1e12) {
            *(units[i].time ? &limit->time : &limit->bytes) = (uint64_t)(n * units[i].factor);
            return true;
        }
    return false;
}

/* Where some AUX bytes are in the run's file. */
struct splitting {
    const struct output *output;
    const char *directory;
    const struct spex_perf_writer_options *options;
    struct parts_limit limit;
    int data;
    struct spex_perf_kept *kept; /* where AUX bytes are in the run's file */
    size_t kept_count, kept_room;
    struct engine_event *state; /* earlier events that a part must repeat */
    size_t state_count, state_room;
    struct spex_perf_writer *writer; /* writer of the current part */
    unsigned number;
    uint64_t bytes, since, total; /* AUX bytes in the part; its start time; bytes in all files */
    bool failed;
};

static void find_kept(struct splitting *s, uint64_t at, uint64_t end)
{
    struct spex_perf_kept kept;
    while (!s->failed && !spex_perf_kept_next(s->data, &at, end, &kept)) {
        s->kept = memory_grow(s->kept, s->kept_count, &s->kept_room, sizeof *s->kept);
        s->kept[s->kept_count++] = kept;
    }
}

/* ---- a part ---- */

static void part_name(const struct splitting *s, char *name, size_t size)
{
    snprintf(name, size, "%s/part", s->directory);
}

static bool put_part(const struct splitting *s, const char *made)
{
    struct output part = *s->output;
    part.how = OUTPUT_PRIVATE; /* replaces a part of an earlier recording */
    snprintf(part.path, sizeof part.path, "%.*s.%05u", OUTPUT_PATH - 32, s->output->path,
             s->number);
    return output_put(&part, made);
}

static void end_part(struct splitting *s)
{
    struct spex_error error;
    char name[4200];
    struct stat st;
    if (!s->writer)
        return;
    part_name(s, name, sizeof name);
    if (spex_perf_writer_finish(s->writer, &error)) {
        cli_error("%s", error.text);
        s->failed = true;
    }
    s->writer = NULL;
    s->total += stat(name, &st) ? 0 : (uint64_t)st.st_size;
    s->failed |= !s->failed && !put_part(s, name);
}

static void begin_part(struct splitting *s, uint64_t time)
{
    struct spex_error error;
    char name[4200];
    s->number++;
    s->bytes = 0;
    s->since = time;
    part_name(s, name, sizeof name);
    if (spex_perf_writer_open(name, s->options, &s->writer, &error)) {
        cli_error("%s", error.text);
        s->writer = NULL;
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < s->state_count; i++)
        run_file_event(s->writer, &s->state[i]);
}

static bool is_over(const struct splitting *s, const struct engine_event *e)
{
    if (!s->writer)
        return true;
    return s->bytes && ((s->limit.bytes && s->bytes + e->size > s->limit.bytes) ||
                        (s->limit.time && e->time - s->since >= s->limit.time));
}

static void add_aux(struct splitting *s, const struct engine_event *e)
{
    if (is_over(s, e)) {
        end_part(s);
        begin_part(s, e->time);
    }
    if (s->failed || !s->writer)
        return;
    s->bytes += e->size;
    if (e->kind == SPEX_ENGINE_LEFT) {
        run_file_event(s->writer, e);
        return;
    }
    uint8_t *bytes = memory_get(e->size + 1, 1);
    size_t i = 0;
    while (i < s->kept_count &&
           (s->kept[i].cpu != e->cpu || e->offset - s->kept[i].offset >= s->kept[i].size ||
            e->size > s->kept[i].size))
        i++;
    if (!e->size ||
        (i < s->kept_count &&
         pread(s->data, bytes, e->size, (off_t)(s->kept[i].at + e->offset - s->kept[i].offset)) ==
             (ssize_t)e->size))
        spex_perf_writer_aux(s->writer, e->cpu, e->pid, e->tid, bytes, e->size, e->aux_flags,
                             e->time);
    else
        s->failed = true;
    free(bytes);
}

static void add(struct splitting *s, const struct engine_event *e)
{
    if (e->kind == SPEX_ENGINE_AUX || e->kind == SPEX_ENGINE_LEFT) {
        add_aux(s, e);
        return;
    }
    s->state = memory_grow(s->state, s->state_count, &s->state_room, sizeof *s->state);
    s->state[s->state_count++] = *e;
    if (s->writer)
        run_file_event(s->writer, e);
}

unsigned parts_write(const struct output *output, const char *directory, struct left_run *run,
                     const struct spex_perf_writer_options *options,
                     const struct parts_limit *limit, uint64_t *bytes)
{
    struct spex_perf_writer_options fresh = *options;
    struct splitting s = {
        .output = output, .directory = directory, .options = &fresh, .limit = *limit};
    struct engine_event event;
    struct spex_error error = {0};
    char name[4200];
    enum spex_status more;
    snprintf(name, sizeof name, "%s/data", directory);
    s.data = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    s.failed = s.data < 0;
    find_kept(&s, options->kept_start, options->kept_end);
    fresh.kept_start = fresh.kept_end = 0;
    fresh.elapsed = false; /* its records are of the whole run */
    while (!s.failed && (more = left_next(run, &event, &error)) != SPEX_END)
        if (more) {
            cli_error("%s", error.text);
            s.failed = true;
        } else {
            add(&s, &event);
        }
    if (!s.failed && !s.writer)
        begin_part(&s, 0); /* a part without samples still tells what ran */
    end_part(&s);
    if (s.data >= 0)
        close(s.data);
    free(s.kept);
    free(s.state);
    *bytes = s.total;
    return s.failed ? 0 : s.number;
}
