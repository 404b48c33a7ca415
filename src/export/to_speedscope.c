/* speedscope's own JSON: frames once, and for each thread a list of stacks with their weights. */
#include "frames.h"

#include "base/json.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static void begin(struct export_job *job)
{
    job->state = tally_new(job, TALLY_THREAD | TALLY_STACK);
}

static void sink(void *job, const struct spex_sample *samples, size_t count)
{
    tally_add(((struct export_job *)job)->state, samples, count);
}

/*
 * Frames of all rows; a function has one frame for each object around it. A stack is a list of
 * frame numbers. Lines are left out: the app would show a function with two lines as two functions.
 */
struct stacks {
    struct ids ids;
    uint32_t *frames; /* frames of all rows, root first */
    size_t count, capacity;
    size_t *ends; /* one per row: where its frames end */
};

static uint32_t frame_number(struct json *json, struct stacks *s, const struct export_frame *frame)
{
    uint64_t key[IDS_WORDS] = {(uintptr_t)frame->module, (uintptr_t)frame->name, 0, 1};
    bool fresh;
    uint32_t number = ids_find(&s->ids, key, &fresh);
    if (fresh) {
        json_object(json);
        JSON_MEMBER(json, "name", string, frame->name);
        if (frame->file)
            JSON_MEMBER(json, "file", string, frame->file);
        json_end(json);
    }
    return number;
}

static void push(struct stacks *s, uint32_t frame)
{
    s->frames = memory_grow(s->frames, s->count, &s->capacity, sizeof *s->frames);
    s->frames[s->count++] = frame;
}

static void put_frames(struct json *json, struct tally *t, struct stacks *s)
{
    s->ends = memory_get(t->count + 1, sizeof *s->ends);
    JSON_MEMBER(json, "$schema", string, "https://www.speedscope.app/file-format-schema.json");
    json_name(json, "shared");
    json_object(json);
    json_name(json, "frames");
    json_array_lines(json);
    for (size_t i = 0; i < t->count; i++) {
        const struct export_frame *frames;
        size_t n = tally_frames(t, &t->rows[i], &frames);
        for (size_t k = 0; k < n; k++)
            push(s, frame_number(json, s, &frames[k]));
        s->ends[i] = s->count;
    }
    json_end(json);
    json_end(json);
}

/* Writes the rows of one thread, from first on; returns where they end. */
static size_t put_thread(struct json *json, const struct tally *t, const struct stacks *s,
                         size_t first, enum export_weight weight)
{
    const struct tally_row *rows = t->rows;
    size_t end = first;
    uint64_t sum = 0;
    char name[200];
    while (end < t->count && rows[end].pid == rows[first].pid && rows[end].tid == rows[first].tid)
        sum += tally_weight(&rows[end++], weight);
    snprintf(name, sizeof name, "%s %d", rows[first].comm ? rows[first].comm : "", rows[first].tid);
    json_object_lines(json);
    JSON_MEMBER(json, "type", string, "sampled");
    JSON_MEMBER(json, "name", string, name);
    JSON_MEMBER(json, "unit", string, weight == EXPORT_WEIGHT_TIME ? "nanoseconds" : "none");
    JSON_MEMBER(json, "startValue", u64, 0);
    JSON_MEMBER(json, "endValue", u64, sum);
    json_name(json, "samples");
    json_array_lines(json);
    for (size_t i = first; i < end; i++) {
        if (!tally_weight(&rows[i], weight))
            continue;
        json_array(json);
        for (size_t k = i ? s->ends[i - 1] : 0; k < s->ends[i]; k++)
            json_u64(json, s->frames[k]);
        json_end(json);
    }
    json_end(json);
    json_name(json, "weights");
    json_array(json);
    for (size_t i = first; i < end; i++)
        if (tally_weight(&rows[i], weight))
            json_u64(json, tally_weight(&rows[i], weight));
    json_end(json);
    json_end(json);
    return end;
}

static enum spex_status end(struct export_job *job)
{
    struct tally *t = job->state;
    struct stacks s = {0};
    struct json json = json_to(job->out);
    char exporter[64];
    tally_sort(t);
    json_object_lines(&json);
    put_frames(&json, t, &s);
    json_name(&json, "profiles");
    json_array_lines(&json);
    for (size_t i = 0; i < t->count;)
        i = put_thread(&json, t, &s, i, job->settings->weight);
    json_end(&json);
    snprintf(exporter, sizeof exporter, "spex@%s", job->settings->version);
    JSON_MEMBER(&json, "name", string, job->settings->input);
    JSON_MEMBER(&json, "exporter", string, exporter);
    json_end(&json);
    ids_free(&s.ids);
    free(s.frames);
    free(s.ends);
    tally_free(t);
    return tally_check(job);
}

const struct export_format export_speedscope = {
    .name = "speedscope",
    .summary = "speedscope's JSON, one profile per thread",
    .weight = EXPORT_WEIGHT_HELP,
    .cannot =
        "when a sample was taken: order and width on its time axis are of weights alone; lines "
        "(its table is of frames, which are functions)",
    .want = SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_STACK,
    .weights = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
