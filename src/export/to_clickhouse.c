/*
 * Table samples into ClickHouse: blocks of the Native format, compressed by zstd, in insertions of
 * LEDGER_PART rows. Where a part begins is a matter of counting rows alone, never of names that may
 * be found or not, so that a file sent again has the same parts.
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
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
    BLOCK_ROWS = 1 << 14,
    FRAME_MOST = 4 << 20, /* bytes before compression */
    FRAME_ZSTD = 0x90,
    FRAME_SUM = 16, /* bytes of a checksum that the server is told not to look at */
    FRAME_HEAD = 9, /* method, size with this head, size before compression */
    LEVEL = 1,
    READ_SIZE = 1 << 20
};

struct sending {
    struct export_job *job;
    struct native native;
    struct ledger ledger;
    bool begun;
    enum spex_status status;
    ZSTD_CCtx *zstd;
    struct out block, body;
    uint32_t part;
    uint64_t part_rows;
    struct stat stat;
};

/* ---- which batch ---- */

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
    char *buffer = memory_get(1, READ_SIZE);
    digest_begin(&digest, sizeof result);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        digest_add(&digest, asked[i], strlen(asked[i]) + 1);
    while ((n = read(fd, buffer, READ_SIZE)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            digest_add(&digest, buffer, (size_t)n);
    int error = n < 0 ? errno : 0;
    close(fd);
    free(buffer);
    if (error)
        return error_set(&s->job->error, SPEX_IO, 0, "%.150s: %s", o->fleet->path, strerror(error));
    digest_end(&digest, result);
    for (size_t i = 0; i < sizeof result; i++)
        snprintf(batch + 2 * i, 3, "%02x", result[i]);
    return SPEX_OK;
}

/*
 * perf's clock counts from the start of the machine. What ties it to the world is that a file is
 * written last when its last event is.
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

static enum spex_status put_frame(struct sending *s, const char *data, size_t size)
{
    size_t bound = ZSTD_compressBound(size);
    struct out *body = &s->body;
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

static void end_block(struct sending *s)
{
    if (!s->native.rows || s->status)
        return;
    s->block.size = 0;
    if (!native_take(&s->native, s->part, &s->block))
        s->status = error_set(&s->job->error, SPEX_NO_MEMORY, 0, "no memory for a block of rows");
    for (size_t at = 0; at < s->block.size && !s->status; at += FRAME_MOST) {
        size_t rest = s->block.size - at;
        s->status = put_frame(s, s->block.data + at, rest < FRAME_MOST ? rest : FRAME_MOST);
    }
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
        s->status = ledger_send(&s->ledger, s->part, s->part_rows, s->body.data, s->body.size, &row,
                                &s->job->error);
    s->body.size = 0;
    s->part++;
    s->part_rows = 0;
    s->native.first = UINT32_MAX;
    s->native.until = 0;
}

static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct sending *s = ((struct export_job *)context)->state;
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
    }
    fleet->rows = s->ledger.rows;
    fleet->repaired = s->ledger.repaired;
    if (s->begun)
        ledger_end(&s->ledger);
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
    .summary = "table samples into a ClickHouse server, each file once; docs/fleet.md",
    .weight = "each row is a sample; column operations says what it stands for",
    .cannot = "events as a list: event_bits and the ev_ columns say it",
    .ordered = true,
    .binary = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
