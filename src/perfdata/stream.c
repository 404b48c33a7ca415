/* A perf.data file as a stream: perf's pipe format. */
#include "file.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

struct stream {
    int from, to;
    uint8_t *block;
    int error; /* errno of a write */
    bool cut;  /* the file contradicts its header */
};

static bool read_at(struct stream *s, void *data, size_t size, uint64_t at)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(s->from, (uint8_t *)data + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            s->cut = true;
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

static void put(struct stream *s, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size && !s->error) {
        ssize_t n = write(s->to, p, size);
        if (n >= 0) {
            p += n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            s->error = errno;
        }
    }
}

static void put_record(struct stream *s, uint32_t type, const void *head, size_t head_size,
                       uint64_t from, uint64_t size)
{
    uint8_t record[8] = {0};
    uint64_t whole = (sizeof record + head_size + size + 7) & ~UINT64_C(7);
    if (size > RECORD_MAX || whole > RECORD_MAX || !read_at(s, s->block, size, from))
        return;
    put_le32(record, type);
    put_le16(record + 6, (uint16_t)whole);
    memset(s->block + size, 0, 8);
    put(s, record, sizeof record);
    put(s, head, head_size);
    put(s, s->block, whole - sizeof record - head_size);
}

/* Attributes, each with the ids of its events. */
static void put_attrs(struct stream *s, const uint8_t *header)
{
    uint64_t each = le64(header + 16), at = le64(header + 24), size = le64(header + 32);
    uint8_t attr[1024];
    if (each < 16 || each > sizeof attr)
        s->cut = true;
    for (uint64_t i = 0; !s->cut && i + each <= size; i += each)
        if (read_at(s, attr, each, at + i))
            put_record(s, SPEX_PERF_HEADER_ATTR, attr, each - 16, le64(attr + each - 16),
                       le64(attr + each - 8));
}

/* MEM_TOPOLOGY has no record in a file, since perf rejects a second one: it gets one here. */
static void put_memory(struct stream *s, const uint8_t *header)
{
    uint64_t at = le64(header + 40) + le64(header + 48);
    uint8_t section[16], head[8];
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        if (!(header[72 + i / 8] >> i % 8 & 1))
            continue;
        if (i == FEATURE_MEM_TOPOLOGY && read_at(s, section, sizeof section, at)) {
            put_le64(head, i);
            put_record(s, SPEX_PERF_FEATURE, head, sizeof head, le64(section), le64(section + 8));
        }
        at += sizeof section;
    }
}

enum spex_status spex_perf_stream(int from, int to, struct spex_error *error)
{
    struct stream s = {.from = from, .to = to, .block = malloc(BLOCK)};
    uint8_t header[FILE_HEADER_SIZE], start[PIPE_HEADER_SIZE];
    if (!s.block)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    if (read_at(&s, header, sizeof header, 0)) {
        uint64_t at = le64(header + 40), size = le64(header + 48);
        memcpy(start, header, 8);
        put_le64(start + 8, PIPE_HEADER_SIZE);
        put(&s, start, sizeof start);
        put_attrs(&s, header);
        put_memory(&s, header);
        while (size && !s.cut && !s.error) {
            size_t n = size < BLOCK ? (size_t)size : BLOCK;
            if (read_at(&s, s.block, n, at))
                put(&s, s.block, n);
            at += n;
            size -= n;
        }
    }
    free(s.block);
    errno = s.error;
    if (s.error)
        return error_set(error, SPEX_IO, 0, "%s", strerror(s.error));
    return s.cut ? error_set(error, SPEX_INVALID, 0, "the file is cut short") : SPEX_OK;
}
