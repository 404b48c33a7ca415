/*
 * Writing perf.data: what Linux perf 6.1 and newer accept (docs/perf-data.md).
 *
 * The file is readable whenever writing stops. The header and the attributes come first and
 * claim no feature sections; machine and CPUs are in FEATURE records at the head of the data;
 * the header's data size is updated after the data. Finishing adds the feature sections, and a
 * final write of the header makes them count. When the disk is full, what fits is kept: the
 * header then says that the data ends after the last whole record. All numbers are
 * little-endian, whatever the host.
 */
#include "writing.h"

#include "auxtrace.h"

#include "base/error.h"
#include "base/sized.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 256 << 10 };

/* ---- writing bytes to the file ---- */

void writing_write(struct spex_perf_writer *w, const uint8_t *data, size_t size)
{
    while (size && !w->error) {
        ssize_t n = write(w->fd, data, size);
        if (n >= 0) {
            data += n;
            size -= (size_t)n;
            w->written += (uint64_t)n;
        } else if (errno != EINTR) {
            w->error = errno;
        }
    }
}

void writing_flush(struct spex_perf_writer *w)
{
    writing_write(w, w->buffer, w->buffered);
    w->buffered = 0;
}

void writing_emit(struct spex_perf_writer *w, const void *data, size_t size)
{
    assert(w->buffered <= BUFFER);
    w->position += size;
    if (size > BUFFER - w->buffered)
        writing_flush(w);
    if (size >= BUFFER) {
        writing_write(w, data, size);
    } else if (size) {
        memcpy(w->buffer + w->buffered, data, size);
        w->buffered += size;
    }
}

void writing_patch(struct spex_perf_writer *w, const void *data, size_t size, off_t at)
{
    const uint8_t *p = data;
    while (size && !w->error) {
        ssize_t n = pwrite(w->fd, p, size, at);
        if (n >= 0) {
            p += n;
            at += n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            w->error = errno;
        }
    }
}

void writing_commit(struct spex_perf_writer *w)
{
    uint8_t size[8];
    writing_flush(w);
    put_le64(size, w->position - w->data_offset);
    if (!w->pipe)
        writing_patch(w, size, sizeof size, 48);
}

/* ---- what the file already holds ---- */

static bool adopt_chunk(struct spex_perf_writer *w, uint64_t at, const uint8_t *h)
{
    int32_t cpu = (int32_t)le32(h + 40);
    if (le32(h) != AUXTRACE_TYPE || le64(h + 8) & 7 || cpu < 0 || (uint32_t)cpu >= w->cpus)
        return false;
    struct writer_queue *queue = writing_queue(w, cpu, -1);
    struct index_entry *entry = vec_push(&w->index);
    if (!queue || !entry) {
        w->error = ENOMEM;
        return false;
    }
    *entry = (struct index_entry){.offset = at, .size = AUXTRACE_SIZE};
    queue->offset = le64(h + 16) + le64(h + 8);
    w->reference++;
    return true;
}

/* A few bytes of the file at a time: records of stacks are many and small. */
struct window {
    uint8_t bytes[32 << 10];
    uint64_t at;
    size_t size;
};

/* Up to `want` bytes at `at`, at least HEADER_SIZE; NULL if the file is shorter. */
static const uint8_t *look(struct spex_perf_writer *w, struct window *window, uint64_t at,
                           size_t *size)
{
    if (at < window->at || at + AUXTRACE_SIZE > window->at + window->size) {
        ssize_t n;
        do
            n = pread(w->fd, window->bytes, sizeof window->bytes, (off_t)at);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            w->error = errno;
        window->at = at;
        window->size = n > 0 ? (size_t)n : 0;
    }
    *size = window->size - (size_t)(at - window->at);
    return *size < HEADER_SIZE ? NULL : window->bytes + (at - window->at);
}

/*
 * Where the last whole record between `at` and `end` ends. With `adopt` the records are AUX
 * data that others appended: they are added to the index and their queues.
 */
static uint64_t walk_records(struct spex_perf_writer *w, uint64_t at, uint64_t end, bool adopt)
{
    struct window window = {.size = 0};
    while (end - at >= HEADER_SIZE) {
        size_t n;
        const uint8_t *h = look(w, &window, at, &n);
        if (!h)
            break;
        uint64_t size = le16(h + 6);
        bool stack = w->stacks && le32(h) == SPEX_PERF_SAMPLE;
        if (size < HEADER_SIZE || size > end - at || (adopt && size != AUXTRACE_SIZE && !stack))
            break;
        if (le32(h) == AUXTRACE_TYPE) {
            if (n < AUXTRACE_SIZE || size < AUXTRACE_SIZE || le64(h + 8) > end - at - size)
                break;
            size += le64(h + 8);
        }
        if (adopt && !stack && !adopt_chunk(w, at, h))
            break;
        at += size;
    }
    return at;
}

/* ---- opening ---- */

/* Continues a file that was begun before and that others appended AUX data to: both stay. */
static enum spex_status adopt(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                              struct spex_error *error)
{
    if (w->pipe || w->position != o->kept_start || o->kept_end < o->kept_start)
        return error_set(error, SPEX_INVALID, o->kept_start,
                         "%s was not begun by this version of spex: use the one that recorded it",
                         w->path);
    writing_flush(w);
    uint64_t end = walk_records(w, o->kept_start, o->kept_end, true);
    if (!w->error && (lseek(w->fd, (off_t)end, SEEK_SET) < 0 || ftruncate(w->fd, (off_t)end)))
        w->error = errno;
    if (w->error) /* nothing was cut: another attempt may succeed */
        return error_set(error, w->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, end, "%s: %s",
                         w->path, strerror(w->error));
    w->position = w->written = end;
    return SPEX_OK;
}

static int open_file(const char *path, const struct spex_perf_writer_options *o)
{
    if (!strcmp(path, "-"))
        return STDOUT_FILENO;
    if (o->fd > 0)
        return o->fd;
    int how = o->kept_start ? O_NOFOLLOW | O_NONBLOCK : O_CREAT | O_TRUNC;
    return open(path, O_RDWR | O_CLOEXEC | how, 0600);
}

static void free_writer(struct spex_perf_writer *w)
{
    struct memory *account = w->account, *before = memory_enter(account);
    if (w->fd > STDOUT_FILENO)
        close(w->fd);
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        vec_free(&w->features[i].vec);
    vec_free(&w->record.vec);
    vec_free(&w->queues);
    vec_free(&w->index);
    vec_free(&w->build_ids);
    perfdata_strings_fini(&w->strings);
    memory_free(w->buffer);
    memory_free(w->path);
    memory_free(w);
    memory_end(account, before);
}

enum spex_status perf_writer_open_machine(const char *path,
                                          const struct spex_perf_writer_options *options,
                                          const struct perf_writer_machine *machine,
                                          struct spex_perf_writer **result,
                                          struct spex_error *error)
{
    struct spex_perf_writer_options known, *o = &known;
    enum spex_status status =
        sized_take("spex_perf_writer_options", options, &known, sizeof known, error);
    if (status)
        return status;
    struct memory *account = memory_open(o->max_memory, o->allocator);
    MEMORY_OF(account);
    struct spex_perf_writer *w = account ? memory_zeroed(1, sizeof *w) : NULL;
    struct stat st;
    if (!w) {
        memory_end(account, memory_before_);
        if (o->fd > STDOUT_FILENO)
            close(o->fd);
        return error_set(error, SPEX_NO_MEMORY, 0, "%s: not enough memory to write it", path);
    }
    w->account = account;
    bool standard = !strcmp(path, "-");
    w->fd = open_file(path, o);
    const char *name = standard ? "standard output" : path;
    w->path = memory_text(name, strlen(name));
    w->buffer = memory_new(BUFFER);
    if (!w->path || !w->buffer)
        status = error_set(error, SPEX_NO_MEMORY, 0, "%s: not enough memory to write it", path);
    else if (w->fd < 0 || fstat(w->fd, &st))
        status = error_set(error, SPEX_IO, 0, "cannot write %s: %s", path, strerror(errno));
    else if (o->time.mult == 0 && !o->untimed)
        status = error_set(error, SPEX_INVALID, 0, "no time conversion was given for %s", path);
    else if (o->metadata > 2)
        status = error_set(error, SPEX_UNSUPPORTED, 0, "SPE metadata version %u", o->metadata);
    if (status != SPEX_OK) {
        free_writer(w);
        return status;
    }
    w->pipe = standard || !S_ISREG(st.st_mode);
    w->per_thread = o->per_thread;
    w->untimed = o->untimed;
    w->cpus = o->cpus ? o->cpus : 1;
    if (machine)
        writing_take_attrs(w, machine);
    else
        writing_make_attrs(w, o);
    for (unsigned i = 0; i < w->attr_count && !machine; i++) {
        w->attrs[i].ids = &w->attrs[i].own;
        w->attrs[i].id_count = 1;
    }
    writing_make_features(w, o, machine);
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        if (w->features[i].failed)
            w->error = ENOMEM;
    writing_start(w, o, machine ? machine->cpus : NULL);
    if (o->kept_start)
        status = adopt(w, o, error);
    if (status != SPEX_OK) {
        free_writer(w);
        return status;
    }
    if (!w->pipe) {
        writing_flush(w);
        writing_header(w, w->position - w->data_offset, false);
    }
    *result = w;
    return SPEX_OK;
}

enum spex_status spex_perf_writer_open(const char *path,
                                       const struct spex_perf_writer_options *options,
                                       struct spex_perf_writer **result, struct spex_error *error)
{
    assert(path && options && result);
    return perf_writer_open_machine(path, options, NULL, result, error);
}

/* ---- the end ---- */

enum spex_status spex_perf_writer_leave(struct spex_perf_writer *w, struct spex_error *error)
{
    assert(w);
    MEMORY_OF(w->account);
    enum spex_status status = SPEX_OK;
    writing_flush(w);
    if (w->error)
        status = error_set(error, w->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, w->position,
                           "cannot write %s: %s", w->path, strerror(w->error));
    free_writer(w);
    return status;
}

enum spex_status spex_perf_writer_finish(struct spex_perf_writer *w, struct spex_error *error)
{
    assert(w);
    MEMORY_OF(w->account);
    enum spex_status status = SPEX_OK;
    uint64_t missing = 0;
    writing_flush(w);
    if (!w->pipe) {
        uint64_t end = w->position;
        writing_finish_features(w);
        writing_sections(w);
        int problem = w->error;
        if (problem) { /* keep what fits, up to the last whole record */
            w->error = 0;
            end = walk_records(w, w->data_offset, end < w->written ? end : w->written, false);
            missing = w->position - end;
        }
        writing_header(w, end - w->data_offset, !problem);
        if (problem && !w->error && ftruncate(w->fd, (off_t)end))
            w->error = errno;
        w->error = problem ? problem : w->error;
    }
    if (w->fd > STDOUT_FILENO) {
        if (close(w->fd) && !w->error)
            w->error = errno;
        w->fd = -1;
    }
    if (w->error)
        status = missing
                     ? error_set(error, SPEX_TRUNCATED, w->position - missing,
                                 "%s: %s: the last %llu bytes are missing", w->path,
                                 strerror(w->error), (unsigned long long)missing)
                     : error_set(error, w->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, w->position,
                                 "cannot write %s: %s", w->path, strerror(w->error));
    free_writer(w);
    return status;
}
