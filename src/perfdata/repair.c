/*
 * Completes a file that ends too early because its writer was killed, the disk was full, or it
 * was not copied to its end. Nothing that a reader could get from the incomplete file may be
 * lost: whatever data the last AUXTRACE record has stays, and its size is corrected.
 */
#include "auxtrace.h"
#include "file.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, COMPRESSION = 20 };

struct repair {
    int from, to;
    uint64_t end; /* where the kept part ends */
    /* the AUXTRACE record whose data is incomplete; how much of it there is */
    uint64_t cut, cut_size;
    bool compressed;                   /* there are COMPRESSED records */
    VEC(uint64_t) index;               /* offsets of AUXTRACE records */
    uint64_t feature[FEATURE_BITS][2]; /* offset and size of the contents of FEATURE records */
    int error;
};

static bool get(struct repair *r, void *data, size_t size, uint64_t at)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(r->from, (uint8_t *)data + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r->error = errno;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static void put(struct repair *r, const void *data, size_t size, uint64_t at)
{
    const uint8_t *p = data;
    while (size && !r->error) {
        ssize_t n = pwrite(r->to, p, size, (off_t)at);
        if (n >= 0) {
            p += n;
            at += (uint64_t)n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            r->error = errno;
        }
    }
}

/* Walks records from `at` to the end of the file, as long as each leads to the next. */
static void walk(struct repair *r, uint64_t at, uint64_t size)
{
    uint8_t h[AUXTRACE_SIZE];
    r->end = at;
    while (size - at >= HEADER_SIZE) {
        size_t n = size - at < sizeof h ? (size_t)(size - at) : sizeof h;
        if (!get(r, h, n, at))
            return;
        uint64_t whole = le16(h + 6);
        uint32_t type = le32(h);
        if (whole < HEADER_SIZE || whole > size - at)
            return;
        uint64_t more = 0;
        if (type == AUXTRACE_TYPE) {
            if (whole < AUXTRACE_SIZE)
                return;
            more = le64(h + 8);
            if (more > size - at - whole) {
                if (!(more = size - at - whole))
                    return;
                r->cut = at;
                r->cut_size = more;
            }
            uint64_t *entry = vec_push(&r->index);
            if (!entry) {
                r->error = ENOMEM;
                return;
            }
            *entry = at;
        } else if (type == SPEX_PERF_TRACING_DATA && whole >= HEADER_SIZE + 4) {
            more = (le32(h + 8) + UINT64_C(7)) & ~UINT64_C(7);
            if (more > size - at - whole)
                return;
        } else if (type == SPEX_PERF_FEATURE && whole >= 16 && le64(h + 8) < FEATURE_BITS) {
            r->feature[le64(h + 8)][0] = at + 16;
            r->feature[le64(h + 8)][1] = whole - 16;
        }
        r->compressed |= type == SPEX_PERF_COMPRESSED || type == SPEX_PERF_COMPRESSED2;
        r->end = at += whole + more;
    }
}

static void copy(struct repair *r, uint8_t *block, uint64_t from, uint64_t size, uint64_t to)
{
    while (size && !r->error) {
        size_t n = size < BLOCK ? (size_t)size : BLOCK;
        if (!get(r, block, n, from))
            r->error = r->error ? r->error : EIO;
        else
            put(r, block, n, to);
        from += n;
        to += n;
        size -= n;
    }
}

/*
 * Copies the sections after the data, as far as they are present; false if all are, and the
 * file is whole.
 */
static bool take_sections(struct repair *r, const uint8_t *header, uint64_t table, uint64_t size)
{
    uint8_t section[16];
    bool cut = false;
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        if (!(header[72 + i / 8] >> i % 8 & 1))
            continue;
        uint64_t at = 0, bytes = 0;
        if (table <= size - sizeof section && get(r, section, sizeof section, table)) {
            at = le64(section);
            bytes = le64(section + 8);
        }
        table += sizeof section;
        if (at && at <= size && bytes <= size - at) {
            r->feature[i][0] = at;
            r->feature[i][1] = bytes;
        } else {
            cut = true;
        }
    }
    return cut;
}

/* What perf needs to read COMPRESSED records: zstd, and the largest output of one of them. */
static void put_compression(struct repair *r, uint64_t at)
{
    static const uint32_t words[COMPRESSION / 4] = {1, 1, 1, 1, 64 << 20};
    uint8_t bytes[COMPRESSION];
    for (unsigned i = 0; i < COMPRESSION / 4; i++)
        put_le32(bytes + 4 * i, words[i]);
    put(r, bytes, sizeof bytes, at);
}

/* Writes what the file says about itself, and the index, which perf needs. */
static void put_features(struct repair *r, uint8_t *header, uint8_t *block)
{
    bool compression = r->compressed && !r->feature[FEATURE_COMPRESSED][1];
    uint64_t count = 1 + compression, table = r->end;
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        count += r->feature[i][1] && i != FEATURE_AUXTRACE;
    uint64_t at = table + 16 * count;
    memset(header + 72, 0, FEATURE_BITS / 8);
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        uint8_t section[16];
        uint64_t size = r->feature[i][1];
        if (i == FEATURE_AUXTRACE)
            size = 8 + 16 * (uint64_t)r->index.count;
        else if (i == FEATURE_COMPRESSED && compression)
            size = COMPRESSION;
        if (!size)
            continue;
        header[72 + i / 8] |= (uint8_t)(1 << i % 8);
        put_le64(section, at);
        put_le64(section + 8, size);
        put(r, section, sizeof section, table);
        table += sizeof section;
        if (i == FEATURE_COMPRESSED && compression) {
            put_compression(r, at);
        } else if (i != FEATURE_AUXTRACE) {
            copy(r, block, r->feature[i][0], size, at);
        } else {
            put_le64(section, r->index.count);
            put(r, section, 8, at);
            for (size_t k = 0; k < r->index.count; k++) {
                put_le64(section, r->index.items[k]);
                put_le64(section + 8, AUXTRACE_SIZE);
                put(r, section, sizeof section, at + 8 + 16 * (uint64_t)k);
            }
        }
        at += size;
    }
}

static enum spex_status repair(struct repair *r, uint8_t *block, uint64_t *kept, uint64_t *lost,
                               struct spex_error *error)
{
    uint8_t header[FILE_HEADER_SIZE];
    off_t size = lseek(r->from, 0, SEEK_END);
    if (size < 0 || !get(r, header, sizeof header, 0) || memcmp(header, "PERFILE2", 8) ||
        le64(header + 8) != FILE_HEADER_SIZE)
        return error_set(error, SPEX_INVALID, 0,
                         "not the beginning of a perf.data file with a header of its own");
    uint64_t at = le64(header + 40), data = le64(header + 48);
    if (at < FILE_HEADER_SIZE || at > (uint64_t)size || le64(header + 24) > at ||
        le64(header + 32) > at - le64(header + 24))
        return error_set(error, SPEX_INVALID, 40, "it ends before its records begin");
    bool features = false;
    for (unsigned i = 0; i < FEATURE_BITS / 8; i++)
        features |= header[72 + i];
    bool all = data && data <= (uint64_t)size - at;
    if (all && features && !take_sections(r, header, at + data, (uint64_t)size))
        return error_set(error, SPEX_INVALID, 48, "it is whole: there is nothing to recover");
    walk(r, at, all && features ? at + data : (uint64_t)size);
    copy(r, block, 0, r->end, 0);
    if (r->cut) {
        uint8_t left[8];
        put_le64(left, r->cut_size);
        put(r, left, sizeof left, r->cut + 8);
    }
    put_features(r, header, block);
    put_le64(header + 48, r->end - at);
    put(r, header, sizeof header, 0);
    *kept = r->end;
    *lost = (uint64_t)size - r->end;
    if (r->error)
        return error_set(error, r->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, r->end, "%s",
                         strerror(r->error));
    return SPEX_OK;
}

enum spex_status spex_perf_repair(int from, int to, uint64_t *kept, uint64_t *lost,
                                  struct spex_error *error)
{
    assert(kept && lost);
    struct memory *account = memory_open(0, NULL);
    MEMORY_OF(account);
    struct repair *r = account ? memory_zeroed(1, sizeof *r) : NULL;
    uint8_t *block = account ? memory_new(BLOCK) : NULL;
    enum spex_status status;
    if (!r || !block) {
        status = error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    } else {
        r->from = from;
        r->to = to;
        status = repair(r, block, kept, lost, error);
        vec_free(&r->index);
    }
    memory_free(block);
    memory_free(r);
    memory_end(account, memory_before_);
    return status;
}
