/*
 * Sends table samples and the tables beside it to ClickHouse: blocks of the Native format,
 * compressed with zstd, in insertions of LEDGER_PART rows. Only the count of rows decides where a
 * part begins, never names that may or may not be found, so a file that is sent again has the same
 * parts.
 */
#include "export.h"

#include "base/error.h"
#include "base/memory.h"
#include "export/digest.h"
#include "export/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

enum {
    BLOCK_ROWS = 1 << 14,
    FRAME_MOST = 4 << 20, /* bytes before compression */
    FRAME_ZSTD = 0x90,
    FRAME_SUM = 16, /* bytes of a checksum, which the server is asked to ignore */
    FRAME_HEAD = 9, /* method, size with this head, size before compression */
    LEVEL = 1,
    READ_SIZE = 1 << 20,
    LOCK_STEP = 100, /* ms between two looks at a file that another process sends */
    LOCK_MOST = 600000
};

struct sending {
    struct export_job *job;
    struct native native;
    struct ledger ledger;
    struct tables *tables;
    int lock; /* the file, open and locked; -1: none */
    bool begun;
    enum spex_status status;
    ZSTD_CCtx *zstd;
    struct out block, body;
    uint32_t part;
    uint64_t part_rows;
    struct stat stat;
};

/* ---- which batch ---- */

/*
 * Lets only one process at a time send a file; the next one finds it already sent. If files cannot
 * be locked, or two copies are sent, ledger_check notices.
 */
static void lock_file(struct sending *s, int fd)
{
    const struct export_fleet *fleet = s->job->settings->fleet;
    const struct timespec step = {.tv_nsec = LOCK_STEP * 1000000};
    s->lock = fd;
    for (unsigned ms = 0; ms < LOCK_MOST && flock(fd, LOCK_EX | LOCK_NB); ms += LOCK_STEP) {
        if (errno != EWOULDBLOCK)
            return;
        if (!ms && fleet->waiting)
            fleet->waiting(fleet);
        nanosleep(&step, NULL);
    }
}

/* A batch is the bytes of a file, and what was asked of it. */
static enum spex_status name_batch(struct sending *s, char batch[NATIVE_ID + 1])
{
    const struct export_settings *o = s->job->settings;
    const char *asked[] = {EXPORT_SCHEMA, s->job->source.host, o->filters ? o->filters : ""};
    uint8_t result[NATIVE_ID / 2];
    struct digest digest;
    ssize_t n;
    int fd = open(o->fleet->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &s->stat)) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error_set(&s->job->error, SPEX_IO, 0, "%.150s: %s", o->fleet->path, strerror(error));
    }
    lock_file(s, fd);
    char *buffer = memory_get(1, READ_SIZE);
    digest_begin(&digest, sizeof result);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        digest_add(&digest, asked[i], strlen(asked[i]) + 1);
    while ((n = read(fd, buffer, READ_SIZE)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            digest_add(&digest, buffer, (size_t)n);
    int error = n < 0 ? errno : 0;
    free(buffer);
    if (error)
        return error_set(&s->job->error, SPEX_IO, 0, "%.150s: %s", o->fleet->path, strerror(error));
    digest_end(&digest, result);
    for (size_t i = 0; i < sizeof result; i++)
        snprintf(batch + 2 * i, 3, "%02x", result[i]);
    return SPEX_OK;
}

/*
 * perf's clock counts from the start of the machine. To map it to the wall clock, we assume that
 * the file was last written at the time of its last event.
 */
static void tie_clock(struct sending *s)
{
    const struct spex_perfdata *file = spex_analysis_file(s->job->analysis);
    uint64_t last = file ? spex_perfdata_info(file)->last_time : 0;
    uint64_t end =
        (uint64_t)s->stat.st_mtim.tv_sec * 1000000000 + (uint64_t)s->stat.st_mtim.tv_nsec;
    s->native.timed = last != 0;
    s->native.wall_shift = (int64_t)(end - last);
    s->native.wall_end = (uint32_t)s->stat.st_mtim.tv_sec;
}

/* ---- parts ---- */

static void put_little(char *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (char)(value >> 8 * i);
}

static enum spex_status put_frame(struct sending *s, struct out *body, const char *data,
                                  size_t size)
{
    size_t bound = ZSTD_compressBound(size);
    if (body->capacity - body->size < bound + FRAME_SUM + FRAME_HEAD)
        out_grow(body, bound + FRAME_SUM + FRAME_HEAD);
    if (body->error)
        return error_set(&s->job->error, SPEX_NO_MEMORY, 0, "no memory for a part of the rows");
    char *frame = body->data + body->size;
    size_t n = ZSTD_compressCCtx(s->zstd, frame + FRAME_SUM + FRAME_HEAD, bound, data, size, LEVEL);
    if (ZSTD_isError(n))
        return error_set(&s->job->error, SPEX_NO_MEMORY, 0, "cannot compress: %s",
                         ZSTD_getErrorName(n));
    memset(frame, 0, FRAME_SUM);
    frame[FRAME_SUM] = (char)FRAME_ZSTD;
    put_little(frame + FRAME_SUM + 1, (uint32_t)(n + FRAME_HEAD));
    put_little(frame + FRAME_SUM + 5, (uint32_t)size);
    body->size += FRAME_SUM + FRAME_HEAD + n;
    return SPEX_OK;
}

static enum spex_status put_frames(struct sending *s, struct out *body, const struct out *block)
{
    enum spex_status status = SPEX_OK;
    for (size_t at = 0; at < block->size && !status; at += FRAME_MOST) {
        size_t rest = block->size - at;
        status = put_frame(s, body, block->data + at, rest < FRAME_MOST ? rest : FRAME_MOST);
    }
    return status;
}

static void end_block(struct sending *s)
{
    if (!s->native.rows || s->status)
        return;
    s->block.size = 0;
    if (!native_take(&s->native, s->part, &s->block))
        s->status = error_set(&s->job->error, SPEX_NO_MEMORY, 0, "no memory for a block of rows");
    if (!s->status)
        s->status = put_frames(s, &s->body, &s->block);
}

static void list_samples(struct out *out, const char *table)
{
    (void)table;
    for (unsigned i = 0; i < NATIVE_EXTRAS; i++)
        out_printf(out, "%s`%s`", i ? ", " : "", native_extra_names[i]);
    for (unsigned i = 0; i < EXPORT_COLUMNS; i++)
        if (native_has(i))
            out_printf(out, ", `%s`", export_fields[i].name);
}

static void list_table(struct out *out, const char *table)
{
    unsigned n = 0;
    while (strcmp(tables_info[n].name, table) != 0)
        n++;
    for (unsigned i = 0; i < NATIVE_HEADS; i++)
        out_printf(out, "%s`%s`", i ? ", " : "", native_head_names[i]);
    for (size_t i = 0; i < tables_columns(n); i++)
        out_printf(out, ", `%s`", tables_info[n].columns[i].name);
}

struct side {
    struct sending *sending;
    struct out body;
};

static enum spex_status put_block(void *user, struct out *block)
{
    struct side *side = user;
    return put_frames(side->sending, &side->body, block);
}

/* The tables beside samples, which go with the last part. */
static enum spex_status make_tables(struct sending *s, struct side sides[TABLES_SENT],
                                    struct ledger_body *bodies, uint64_t *rows)
{
    const struct native_head_values head = {s->job->source.host, s->native.wall_end,
                                            s->native.batch, s->part};
    enum spex_status status = SPEX_OK;
    for (unsigned i = 0; i < TABLES_SENT; i++) {
        sides[i].sending = s;
        out_init(&sides[i].body, -1);
        bodies[i] = (struct ledger_body){.table = tables_info[i].name, .columns = list_table};
        if (!status)
            status = native_table(s->tables, i, &head, put_block, &sides[i], &bodies[i].rows);
        bodies[i].data = sides[i].body.data;
        bodies[i].size = sides[i].body.size;
        *rows += bodies[i].rows;
    }
    return status == SPEX_NO_MEMORY
               ? error_set(&s->job->error, status, 0, "no memory for the tables beside samples")
               : status;
}

static void send_part(struct sending *s, struct ledger_row *row)
{
    struct ledger_body bodies[1 + TABLES_SENT] = {{.table = "samples",
                                                   .columns = list_samples,
                                                   .rows = s->part_rows,
                                                   .data = s->body.data,
                                                   .size = s->body.size}};
    struct side sides[TABLES_SENT];
    if (row->last)
        s->status = make_tables(s, sides, bodies + 1, &row->side);
    if (!s->status)
        s->status = ledger_send(&s->ledger, s->part, bodies, row->last ? 1 + TABLES_SENT : 1, row,
                                &s->job->error);
    for (unsigned i = 0; row->last && i < TABLES_SENT; i++)
        out_fini(&sides[i].body);
}

static void end_part(struct sending *s, bool last)
{
    const struct spex_totals *t = spex_analysis_totals(s->job->analysis);
    const struct spex_sampling *sampling = spex_analysis_sampling(s->job->analysis);
    const struct export_settings *o = s->job->settings;
    struct ledger_row row = {.boot = s->job->source.boot,
                             .input = o->input,
                             .event = sampling->known ? sampling->terms : NULL,
                             .cpu = sampling->cpu_name,
                             .filters = o->filters,
                             .version = o->version,
                             .period = sampling->period,
                             .last = last};
    end_block(s);
    row.first = s->part_rows && s->native.until ? s->native.first : s->native.wall_end;
    row.until = s->part_rows && s->native.until ? s->native.until : s->native.wall_end;
    if (last) {
        row.records = t->records;
        row.lost = t->lost;
        row.truncated = t->truncated;
        row.collided = t->collided;
        row.damaged = t->damaged;
    }
    if (!s->status && !ledger_has(&s->ledger, s->part))
        send_part(s, &row);
    s->body.size = 0;
    s->part++;
    s->part_rows = 0;
    s->native.first = UINT32_MAX;
    s->native.until = 0;
}

static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct sending *s = ((struct export_job *)context)->state;
    tables_sink(s->tables, samples, count);
    while (count && !s->status) {
        size_t block = BLOCK_ROWS - s->native.rows, part = LEDGER_PART - s->part_rows;
        size_t n = block < part ? block : part;
        n = n < count ? n : count;
        if (!ledger_has(&s->ledger, s->part))
            native_add(&s->native, samples, n);
        s->part_rows += n;
        samples += n;
        count -= n;
        if (s->native.rows == BLOCK_ROWS)
            end_block(s);
        if (s->part_rows == LEDGER_PART)
            end_part(s, false);
    }
    if (s->status)
        spex_analysis_stop(s->job->analysis);
}

/* ---- begin and end ---- */

static void begin(struct export_job *job)
{
    struct export_fleet *fleet = job->settings->fleet;
    char batch[NATIVE_ID + 1] = "";
    struct sending *s = memory_get(1, sizeof *s);
    job->state = s;
    s->job = job;
    s->lock = -1;
    s->tables = tables_new(job->analysis);
    native_begin(&s->native, &job->source);
    out_init(&s->block, -1);
    out_init(&s->body, -1);
    s->zstd = memory_checked(ZSTD_createCCtx());
    if (!job->source.host || !*job->source.host)
        s->status = error_set(&job->error, SPEX_INVALID, 0,
                              "the file does not say on which host it was recorded: name it with "
                              "--host NAME");
    if (!s->status)
        s->status = name_batch(s, batch);
    if (s->status)
        return;
    tie_clock(s);
    memcpy(s->native.batch, batch, NATIVE_ID);
    s->native.first = UINT32_MAX;
    s->begun = true;
    s->status = ledger_begin(&s->ledger, fleet->server, batch, job->source.host, &job->error);
    fleet->whole = s->ledger.whole;
    fleet->there = s->ledger.there;
}

static enum spex_status end(struct export_job *job)
{
    struct sending *s = job->state;
    struct export_fleet *fleet = job->settings->fleet;
    enum spex_status status = s->status;
    if (!status && !fleet->whole && !fleet->failed) {
        end_part(s, true);
        status = s->status;
        if (!status)
            status = ledger_check(&s->ledger, &job->error);
    }
    fleet->rows = s->ledger.rows;
    fleet->repaired = s->ledger.repaired;
    if (s->begun)
        ledger_end(&s->ledger);
    if (s->lock >= 0)
        close(s->lock);
    tables_free(s->tables);
    native_end(&s->native);
    out_fini(&s->block);
    out_fini(&s->body);
    ZSTD_freeCCtx(s->zstd);
    free(s);
    return status;
}

bool export_clickhouse_ready(const struct export_job *job)
{
    const struct sending *s = job->state;
    return !s->status && !job->settings->fleet->whole;
}

const struct export_format export_clickhouse = {
    .name = "clickhouse",
    .summary = "samples and the tables beside them into a ClickHouse server, each file once; "
               "docs/fleet.md",
    .weight = "each row is a sample; column operations says what it stands for",
    .cannot = "events as a list: event_bits and the ev_ columns say it",
    .ordered = true,
    .binary = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
