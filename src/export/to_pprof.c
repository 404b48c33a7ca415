/*
 * pprof's profile.proto, gzip'd: samples with several values and labels, code locations with their
 * inlined functions, mappings with build-ids. Each message is built in memory and written with its
 * length; all of them are small.
 */
#include "frames.h"

#include "base/error.h"
#include "base/memory.h"
#include "export/texts.h"
#include "export/thrift.h"

#include <stdlib.h>
#include <zlib.h>

/* Fields of messages, by the names of profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14
};
enum { MESSAGES = 3 }; /* how deep they nest */

struct pprof {
    struct export_job *job;
    struct tally *tally;
    struct texts strings;
    struct ids modules, locations, functions; /* their numbers are 1 more */
    struct out message[MESSAGES];
    bool timed; /* records have timestamps */
    z_stream zip;
    bool failed;
};

/* ---- the output ---- */

static void zip_bytes(struct pprof *p, const void *data, size_t size, int flush)
{
    p->zip.next_in = (Bytef *)(uintptr_t)data;
    p->zip.avail_in = (uInt)size;
    do {
        char *room = out_room(p->job->out, OUT_ROOM);
        p->zip.next_out = (Bytef *)room;
        p->zip.avail_out = OUT_ROOM;
        if (p->failed || deflate(&p->zip, flush) == Z_STREAM_ERROR) {
            p->failed = true;
            return;
        }
        p->job->out->size += OUT_ROOM - p->zip.avail_out;
    } while (!p->zip.avail_out);
}

/* ---- messages ---- */

static void put_number(struct out *out, unsigned field, uint64_t value)
{
    if (!value)
        return; /* zero is the default: left out */
    thrift_varint(out, field << 3);
    thrift_varint(out, value);
}

static void put_bytes(struct out *out, unsigned field, const void *data, size_t size)
{
    thrift_varint(out, field << 3 | 2);
    thrift_varint(out, size);
    out_bytes(out, data, size);
}

static struct out *begin_message(struct pprof *p, unsigned depth)
{
    p->message[depth].size = 0;
    return &p->message[depth];
}

/* A message that is a field of the profile. */
static void put_message(struct pprof *p, unsigned field)
{
    struct out head;
    out_init(&head, -1);
    thrift_varint(&head, field << 3 | 2);
    thrift_varint(&head, p->message[0].size);
    zip_bytes(p, head.data, head.size, Z_NO_FLUSH);
    zip_bytes(p, p->message[0].data, p->message[0].size, Z_NO_FLUSH);
    p->failed |= p->message[0].error || p->message[1].error || p->message[2].error;
    out_fini(&head);
}

/* A message in another. */
static void end_message(struct pprof *p, unsigned depth, unsigned field)
{
    put_bytes(&p->message[depth - 1], field, p->message[depth].data, p->message[depth].size);
}

static void put_type(struct pprof *p, unsigned field, const char *type, const char *unit)
{
    struct out *m = begin_message(p, 0);
    put_number(m, 1, texts_find(&p->strings, type));
    put_number(m, 2, texts_find(&p->strings, unit));
    put_message(p, field);
}

static void put_single(struct pprof *p, unsigned field, uint64_t value)
{
    struct out *m = begin_message(p, 0);
    put_number(m, field, value);
    zip_bytes(p, m->data, m->size, Z_NO_FLUSH);
}

/* ---- places ---- */

static void put_mapping(struct pprof *p, const struct spex_module *module, uint32_t id)
{
    struct out text;
    out_init(&text, -1);
    size_t size;
    const uint8_t *bytes = spex_module_build_id(module, true, &size);
    for (size_t i = 0; i < size; i++)
        out_hex_fixed(&text, bytes[i], 2);
    out_char(&text, 0);
    uint32_t path = texts_find(&p->strings, spex_module_path(module));
    uint32_t build_id = texts_find(&p->strings, text.data);
    struct out *m = begin_message(p, 0);
    put_number(m, 1, id);
    put_number(m, 3, UINT64_MAX >> 1); /* addresses are the file's own */
    put_number(m, 5, path);
    put_number(m, 6, build_id);
    for (unsigned has = 7; has <= 10; has++) /* functions, files, lines, inlined frames */
        put_number(m, has, 1);
    put_message(p, PROFILE_MAPPING);
    out_fini(&text);
}

static uint32_t mapping_of(struct pprof *p, const struct spex_module *module)
{
    uint64_t key[IDS_WORDS] = {(uintptr_t)module, 1};
    bool fresh;
    uint32_t id = ids_find(&p->modules, key, &fresh) + 1;
    if (fresh)
        put_mapping(p, module, id);
    return id;
}

static uint32_t function_of(struct pprof *p, const struct spex_place *at,
                            const struct export_frame *frame)
{
    uint32_t name = texts_find(&p->strings, frame->name);
    uint32_t system = frame->inlined || !at->symbol || !at->symbol->raw
                          ? name
                          : texts_find(&p->strings, at->symbol->raw);
    uint32_t file = frame->file ? texts_find(&p->strings, frame->file) : 0;
    uint64_t key[IDS_WORDS] = {name, file, system, (uintptr_t)at->module | 1};
    bool fresh;
    uint32_t id = ids_find(&p->functions, key, &fresh) + 1;
    if (fresh) {
        struct out *m = begin_message(p, 0);
        put_number(m, 1, id);
        put_number(m, 2, name);
        put_number(m, 3, system);
        put_number(m, 4, file);
        put_message(p, PROFILE_FUNCTION);
    }
    return id;
}

static uint32_t location_of(struct pprof *p, const struct spex_place *at)
{
    struct export_frame frames[FRAMES_MOST];
    uint32_t functions[FRAMES_MOST];
    uint64_t key[IDS_WORDS] = {(uintptr_t)at->module, at->address,
                               at->module ? 0 : (uintptr_t)at->symbol, 1};
    bool fresh;
    uint32_t id = ids_find(&p->locations, key, &fresh) + 1;
    if (!fresh)
        return id;
    size_t n = export_frames(at, frames);
    uint32_t mapping = at->module ? mapping_of(p, at->module) : 0;
    for (size_t i = 0; i < n; i++)
        functions[i] = function_of(p, at, &frames[i]);
    struct out *m = begin_message(p, 0);
    put_number(m, 1, id);
    put_number(m, 2, mapping);
    put_number(m, 3, at->address);
    for (size_t i = 0; i < n; i++) {
        struct out *line = begin_message(p, 1);
        put_number(line, 1, functions[i]);
        put_number(line, 2, frames[i].line);
        end_message(p, 1, 4);
    }
    put_message(p, PROFILE_LOCATION);
    return id;
}

/* ---- samples ---- */

static void put_label(struct pprof *p, const char *key, const char *text, uint64_t number)
{
    uint32_t name = texts_find(&p->strings, key);
    uint32_t value = text ? texts_find(&p->strings, text) : 0;
    struct out *m = begin_message(p, 1);
    put_number(m, 1, name);
    put_number(m, 2, value);
    put_number(m, 3, number);
    end_message(p, 1, 3);
}

static void put_sample(struct pprof *p, const struct tally_row *row)
{
    struct out *values = &p->message[2];
    const struct spex_place *places;
    size_t count = tally_places(p->tally, row, &places);
    for (size_t i = 0; i < count; i++) /* locations that are new are written before this message */
        location_of(p, &places[i]);
    begin_message(p, 0);
    begin_message(p, 2);
    for (size_t i = 0; i < count; i++)
        thrift_varint(values, location_of(p, &places[i]));
    put_bytes(&p->message[0], 1, values->data, values->size);
    begin_message(p, 2);
    thrift_varint(values, row->samples);
    if (p->timed)
        thrift_varint(values, tally_weight(row, EXPORT_WEIGHT_TIME));
    thrift_varint(values, row->latency);
    thrift_varint(values, row->misses);
    thrift_varint(values, row->mispredicts);
    if (p->job->source.can_estimate)
        thrift_varint(values, row->samples * p->job->source.period);
    put_bytes(&p->message[0], 2, values->data, values->size);
    put_label(p, "op", spex_sample_op_name(row->op), 0);
    if (row->memory)
        put_label(p, "data_source", spex_source_name(row->source), 0);
    if (row->comm)
        put_label(p, "thread", row->comm, 0);
    if (row->tid >= 0)
        put_label(p, "tid", NULL, (uint64_t)row->tid);
    if (row->pid >= 0)
        put_label(p, "pid", NULL, (uint64_t)row->pid);
    put_message(p, PROFILE_SAMPLE);
}

static void put_head(struct pprof *p)
{
    const struct spex_totals *totals = spex_analysis_totals(p->job->analysis);
    const struct spex_sampling *sampling = spex_analysis_sampling(p->job->analysis);
    p->timed = totals->spent > 0;
    texts_find(&p->strings, ""); /* number 0, as the format wants it */
    put_type(p, PROFILE_SAMPLE_TYPE, "samples", "count");
    if (p->timed)
        put_type(p, PROFILE_SAMPLE_TYPE, "time", "nanoseconds");
    put_type(p, PROFILE_SAMPLE_TYPE, "latency", "cycles");
    put_type(p, PROFILE_SAMPLE_TYPE, "l1d_misses", "count");
    put_type(p, PROFILE_SAMPLE_TYPE, "mispredicts", "count");
    if (p->job->source.can_estimate)
        put_type(p, PROFILE_SAMPLE_TYPE, "operations", "count");
    if (sampling->period) {
        put_type(p, PROFILE_PERIOD_TYPE, "operations", "count");
        put_single(p, PROFILE_PERIOD, sampling->period);
    }
    if (totals->last_time > totals->first_time)
        put_single(p, PROFILE_DURATION_NANOS, totals->last_time - totals->first_time);
    put_single(p, PROFILE_COMMENT, texts_find(&p->strings, sampling->terms));
    put_single(p, PROFILE_DEFAULT_SAMPLE_TYPE,
               texts_find(&p->strings, p->timed ? "time" : "samples"));
}

static void begin(struct export_job *job)
{
    struct pprof *p = job->state = memory_get(1, sizeof *p);
    p->job = job;
    p->tally = tally_new(job, TALLY_THREAD | TALLY_WHAT | TALLY_STACK);
    texts_init(&p->strings);
    for (unsigned i = 0; i < MESSAGES; i++)
        out_init(&p->message[i], -1);
    enum { GZIP = 16, WINDOW = 15 };
    p->failed = deflateInit2(&p->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP + WINDOW, 8,
                             Z_DEFAULT_STRATEGY) != Z_OK;
}

static void sink(void *job, const struct spex_sample *samples, size_t count)
{
    struct pprof *p = ((struct export_job *)job)->state;
    tally_add(p->tally, samples, count);
}

static enum spex_status end(struct export_job *job)
{
    struct pprof *p = job->state;
    tally_sort(p->tally);
    put_head(p);
    for (size_t i = 0; i < p->tally->count; i++)
        put_sample(p, &p->tally->rows[i]);
    for (size_t i = 0; i < p->strings.count; i++) {
        struct out *m = begin_message(p, 0);
        out_text(m, texts_at(&p->strings, i));
        put_message(p, PROFILE_STRING_TABLE);
    }
    zip_bytes(p, "", 0, Z_FINISH);
    bool failed = p->failed;
    deflateEnd(&p->zip);
    texts_fini(&p->strings);
    ids_free(&p->modules);
    ids_free(&p->locations);
    ids_free(&p->functions);
    for (unsigned i = 0; i < MESSAGES; i++)
        out_fini(&p->message[i]);
    tally_free(p->tally);
    free(p);
    return failed ? error_set(&job->error, SPEX_NO_MEMORY, 0, "not enough memory") : SPEX_OK;
}

const struct export_format export_pprof = {
    .name = "pprof",
    .summary = "profile.proto, gzip'd, for go tool pprof and what else reads it",
    .weight =
        "samples, time in ns (docs/time.md) where records have timestamps, cycles of total "
        "latency, level 1 data cache misses, mispredicted branches, and operations where they can "
        "be estimated; labels op, data_source, thread, tid, pid",
    .cannot = "when a sample was taken, data addresses, branch targets",
    .want = SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_SPENT | SPEX_WANT_STACK,
    .binary = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
