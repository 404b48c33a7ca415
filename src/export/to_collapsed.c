/*
 * Collapsed stacks, one per line: "thread;main;a;b COUNT", root first, as flame graph tools read
 * them. Samples without call stacks have a stack of what surrounds them:
 * "thread;object;function;file:line", with the functions inlined there before the line.
 */
#include "frames.h"

#include "base/memory.h"
#include "base/name.h"
#include "export/texts.h"

#include <stdlib.h>

static void begin(struct export_job *job)
{
    job->state = tally_new(job, TALLY_THREAD | TALLY_STACK);
}

static void sink(void *job, const struct spex_sample *samples, size_t count)
{
    tally_add(((struct export_job *)job)->state, samples, count);
}

/* A semicolon ends a frame, so a name's own becomes a comma. */
static void put_frame(struct out *out, const char *name)
{
    for (;;) {
        size_t n = strcspn(name, ";");
        out_name_bytes(out, name, n);
        name += n;
        if (!*name)
            break;
        out_char(out, ',');
        name++;
    }
}

static void put_row(struct out *out, struct tally *t, const struct tally_row *row)
{
    const struct export_frame *frames;
    size_t n = tally_frames(t, row, &frames);
    put_frame(out, row->comm && *row->comm ? row->comm : "[unknown]");
    for (size_t i = 0; i < n; i++) {
        out_char(out, ';');
        put_frame(out, frames[i].name);
    }
    if (!row->stack && frames[n - 1].file && frames[n - 1].line) {
        out_char(out, ';');
        put_frame(out, frames[n - 1].file);
        out_char(out, ':');
        out_u64(out, frames[n - 1].line);
    }
}

/* Several instructions of a line are one stack. */
static enum spex_status end(struct export_job *job)
{
    struct tally *t = job->state;
    enum spex_status status = tally_check(job);
    struct texts texts;
    struct out line;
    uint64_t *sums = memory_get(t->count + 1, sizeof *sums);
    out_init(&line, -1);
    texts_init(&texts);
    tally_sort(t);
    for (size_t i = 0; i < t->count; i++) {
        line.size = 0;
        put_row(&line, t, &t->rows[i]);
        out_char(&line, 0);
        sums[texts_find(&texts, line.data)] += tally_weight(&t->rows[i], job->settings->weight);
    }
    for (size_t i = 0; i < texts.count; i++) {
        if (!sums[i])
            continue;
        out_text(job->out, texts_at(&texts, i));
        out_char(job->out, ' ');
        out_u64(job->out, sums[i]);
        out_char(job->out, '\n');
    }
    out_fini(&line);
    texts_fini(&texts);
    free(sums);
    tally_free(t);
    return status;
}

const struct export_format export_collapsed = {
    .name = "collapsed",
    .summary = "collapsed stacks, one a line, for flame graph tools",
    .weight = EXPORT_WEIGHT_HELP,
    .cannot =
        "when a sample was taken, addresses, more than one weight; a ; in a name becomes a comma",
    .want = SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_STACK,
    .weights = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
