/*
 * Walks the records of the data section, one after the other, skipping damage.
 *
 * Only a record's size links it to the next. Where a size cannot be right, this searches for
 * the next place where several records follow each other.
 */
#include "auxtrace.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    DROP_BEHIND = 8 << 20, /* release pages in steps of this */
    CHAIN = 4,             /* records in a row that make an offset credible */
    TYPE_LAST = 255,       /* no version of perf has record types above this */
    NO_MISC = 0x0ff8,      /* bits of misc that no record type uses */
};
/* The most data written at once: an AUX area. */
#define AUXTRACE_MOST (UINT64_C(4) << 30)

void perfdata_walk_init(struct walk *walk, struct spex_perfdata *file, bool report)
{
    *walk = (struct walk){.file = file, .report = report};
    walk->position = file->info.data_offset;
    walk->end = file->info.data_offset + file->info.data_size;
    walk->last = walk->position;
    walk->dropped = walk->position;
}

void perfdata_walk_seek(struct walk *walk, uint64_t offset)
{
    uint64_t start = walk->file->info.data_offset;
    walk->position = offset < start || offset > walk->end ? walk->end : offset;
    walk->last = walk->dropped = walk->position;
    walk->inflating = false;
    walk->index = 0;
}

void perfdata_walk_fini(struct walk *walk)
{
    perfdata_inflater_free(walk->inflater);
    walk->inflater = NULL;
}

void perfdata_drop_pages(const struct spex_perfdata *file, uint64_t from, uint64_t to)
{
    /* Touching a page also maps those around it, so whole neighbourhoods are released. */
    enum { AROUND = 64 << 10 };
    if (!file->mapped)
        return;
    from &= ~(uint64_t)(AROUND - 1);
    to = (to + AROUND - 1) & ~(uint64_t)(AROUND - 1);
    if (to > file->size)
        to = file->size;
    if (from < to)
        madvise((void *)(uintptr_t)(file->data + from), to - from, MADV_DONTNEED);
}

void perfdata_need_pages(const struct spex_perfdata *file, uint64_t from, uint64_t to)
{
#ifdef MADV_POPULATE_READ
    enum { WORTH_IT = 128 << 10, PAGES = 64 << 10 };
    from &= ~(uint64_t)(PAGES - 1);
    if (file->mapped && to > from + WORTH_IT) /* where this fails, pages come one by one */
        (void)madvise((void *)(uintptr_t)(file->data + from), to - from, MADV_POPULATE_READ);
#else
    (void)file;
    (void)from;
    (void)to;
#endif
}

/*
 * What was read is not needed again soon: keeps resident memory small for files of any size. The
 * last DROP_BEHIND bytes stay, since threads may still be reading them (spex dump).
 */
static void drop_read(struct walk *walk)
{
    if (!walk->file->mapped || walk->position - walk->dropped < 2 * DROP_BEHIND)
        return;
    perfdata_drop_pages(walk->file, walk->dropped, walk->position - DROP_BEHIND);
    walk->dropped = walk->position - DROP_BEHIND;
}

/* Bytes that follow a record and are not in its size; 0 for nearly all types. */
static uint64_t trailing(const struct spex_perfdata *file, const uint8_t *bytes, uint32_t type,
                         uint32_t size)
{
    if (type == SPEX_PERF_AUXTRACE && size >= AUXTRACE_SIZE)
        return get64(file, bytes + 8);
    if (type == SPEX_PERF_TRACING_DATA && size >= HEADER_SIZE + 4)
        return (get32(file, bytes + 8) + UINT64_C(7)) & ~UINT64_C(7);
    return 0;
}

/* Smallest size of each type whose layout is known, to make guesses reliable. */
static uint32_t least_size(uint32_t type)
{
    switch (type) {
    case SPEX_PERF_MMAP:
        return 40;
    case SPEX_PERF_LOST:
        return 24;
    case SPEX_PERF_COMM:
        return 24;
    case SPEX_PERF_EXIT:
    case SPEX_PERF_FORK:
        return 32;
    case SPEX_PERF_THROTTLE:
    case SPEX_PERF_UNTHROTTLE:
        return 32;
    case SPEX_PERF_MMAP2:
        return 72;
    case SPEX_PERF_AUX:
        return 32;
    case SPEX_PERF_ITRACE_START:
        return 16;
    case SPEX_PERF_AUXTRACE_INFO:
        return 16;
    case SPEX_PERF_AUXTRACE:
        return AUXTRACE_SIZE;
    case SPEX_PERF_TIME_CONV:
        return 32;
    default:
        return HEADER_SIZE;
    }
}

/*
 * Bytes of the file, which may be valid no longer than until the walk goes on. Behind AUX data they
 * are read: to map a page, and those around it, for one header takes several times as long.
 */
static bool in_window(const struct walk *walk, uint64_t position, size_t size)
{
    return position >= walk->window_at && position + size <= walk->window_at + walk->window_size;
}

static const uint8_t *bytes_at(const struct walk *walk, uint64_t position, size_t size)
{
    return in_window(walk, position, size) ? walk->window + (position - walk->window_at)
                                           : walk->file->data + position;
}

static void move_window(struct walk *walk, uint64_t position)
{
    enum { FAR = 64 << 10 };
    if (walk->file->fd < 0 || position < walk->position + FAR ||
        in_window(walk, position, AUXTRACE_SIZE))
        return;
    const ssize_t n = pread(walk->file->fd, walk->window, WALK_WINDOW, (off_t)position);
    walk->window_at = position;
    walk->window_size = n < 0 ? 0 : (size_t)n;
}

/* Whether a record could be at position; *next is where it would end. Only for searching. */
static bool credible(const struct walk *walk, uint64_t position, uint64_t *next)
{
    const struct spex_perfdata *file = walk->file;
    if (walk->end - position < HEADER_SIZE)
        return false;
    const uint8_t *bytes = bytes_at(walk, position, AUXTRACE_SIZE);
    uint32_t type = get32(file, bytes);
    uint16_t misc = get16(file, bytes + 4), size = get16(file, bytes + 6);
    if (misc & NO_MISC)
        return false;
    bool known = (type >= SPEX_PERF_MMAP && type <= SPEX_PERF_AUX_OUTPUT_HW_ID) ||
                 (type >= SPEX_PERF_HEADER_ATTR && type <= SPEX_PERF_COMPRESSED2);
    if (!known || size < least_size(type) || size > walk->end - position)
        return false;
    if (size & 7 && type != SPEX_PERF_COMPRESSED)
        return false;
    uint64_t more = trailing(file, bytes, type, size);
    if (more > walk->end - position - size)
        return false;
    *next = position + size + more;
    return true;
}

static bool credible_chain(const struct walk *walk, uint64_t position)
{
    for (unsigned i = 0; i < CHAIN; i++) {
        if (i > 0 && position == walk->end)
            return true;
        if (!credible(walk, position, &position))
            return false;
    }
    return true;
}

/* The first offset in [from, limit) where records go on; limit if there is none. */
static uint64_t resynchronize(const struct walk *walk, uint64_t from, uint64_t limit)
{
    uint64_t position = from + ((walk->last - from) & 7);
    for (; position < limit; position += 8)
        if (credible_chain(walk, position))
            return position;
    return limit;
}

/*
 * The next position after `position` where the AUXTRACE index names a record; end if there is
 * none. Entries that point elsewhere are reported and skipped.
 */
static uint64_t next_indexed(struct walk *walk, uint64_t position)
{
    struct spex_perfdata *file = walk->file;
    for (; walk->index < file->index.count; walk->index++) {
        uint64_t offset = file->index.items[walk->index].offset, next;
        if (offset <= position)
            continue;
        if (offset < walk->end)
            move_window(walk, offset);
        if (offset < walk->end && credible(walk, offset, &next) &&
            get32(file, bytes_at(walk, offset, HEADER_SIZE)) == SPEX_PERF_AUXTRACE)
            return offset;
        if (walk->report)
            perfdata_problem(file, SPEX_INVALID, offset,
                             "the AUXTRACE index points here, where no AUXTRACE record is");
    }
    return walk->end;
}

/*
 * How much data follows an AUXTRACE record that claims more than there is. Either the file was
 * cut off here, and all of the rest is its data, or its size is wrong, and records go on
 * somewhere inside. Sample records often look like perf's (the same bytes at the same
 * distances), so a search would take whole stretches away from good data: it is only used for
 * impossible sizes.
 */
static uint64_t cut_payload(struct walk *walk, uint64_t start, uint64_t size)
{
    uint64_t told = walk->file->told_end;
    if (told ? told > walk->end && size <= told - start : size <= AUXTRACE_MOST)
        return walk->end - start;
    return resynchronize(walk, start, next_indexed(walk, start - 1)) - start;
}

/* Determines how much of an AUXTRACE's data is present. Sets the position after it. */
static void take_payload(struct walk *walk, struct raw *raw, uint64_t size)
{
    uint64_t start = walk->position, room = walk->end - start, stop;
    raw->bytes = raw->size > sizeof walk->before ? walk->file->data + raw->offset
                                                 : memcpy(walk->before, raw->bytes, raw->size);
    raw->payload = walk->file->data + start;
    if (size <= room)
        move_window(walk, start + size);
    if (size <= room && (stop = next_indexed(walk, start - 1)) >= start + size) {
        raw->payload_size = size;
    } else if (size <= room) {
        raw->payload_size = resynchronize(walk, start, stop) - start;
        if (walk->report)
            perfdata_problem(
                walk->file, SPEX_INVALID, raw->offset,
                "AUXTRACE record of 0x%llx bytes reaches over the next one in the index; "
                "cut there",
                (unsigned long long)size);
    } else {
        raw->payload_size = cut_payload(walk, start, size);
        if (walk->report)
            perfdata_problem(
                walk->file, raw->payload_size == room ? SPEX_TRUNCATED : SPEX_INVALID, raw->offset,
                "AUXTRACE record of 0x%llx bytes, but only 0x%llx follow; these are read",
                (unsigned long long)size, (unsigned long long)raw->payload_size);
    }
    move_window(walk, start + raw->payload_size);
    walk->position += raw->payload_size;
}

static bool from_inflater(struct walk *walk, struct raw *raw)
{
    const uint8_t *bytes;
    enum spex_status status = perfdata_inflater_next(walk->inflater, walk->file->swap, &bytes);
    if (status != SPEX_OK) {
        walk->inflating = false;
        if (walk->report && status == SPEX_INVALID)
            perfdata_problem(walk->file, SPEX_INVALID, raw->offset,
                             "COMPRESSED record does not decompress; its contents are lost");
        else if (walk->report && status == SPEX_RANGE)
            perfdata_problem(walk->file, SPEX_INVALID, raw->offset,
                             "COMPRESSED record grows beyond all bounds (more than 16 MB, and a "
                             "hundred times its size); the rest of it is lost");
        return false;
    }
    raw->bytes = bytes;
    raw->inflated = true;
    raw->payload = NULL;
    raw->payload_size = 0;
    return true;
}

static void start_inflating(struct walk *walk, const struct raw *raw)
{
    size_t skip = HEADER_SIZE;
    size_t size = raw->size - skip;
    if (raw->type == SPEX_PERF_COMPRESSED2) {
        if (size < 8)
            return;
        uint64_t inner = get64(walk->file, raw->bytes + skip);
        skip += 8;
        size -= 8;
        if (inner < size)
            size = inner;
        else if (inner > size && walk->report)
            perfdata_problem(walk->file, SPEX_INVALID, raw->offset,
                             "COMPRESSED2 record says more bytes than it has");
    }
    if (!walk->inflater)
        walk->inflater = perfdata_inflater_new();
    if (!walk->inflater) {
        walk->file->failed = true;
        return;
    }
    perfdata_inflater_feed(walk->inflater, raw->bytes + skip, size, walk->file->inflate_limit);
    walk->inflating = true;
    if (walk->report)
        walk->file->info.compressed_bytes += raw->size;
}

static void read_header(const struct spex_perfdata *file, struct raw *raw)
{
    raw->type = get32(file, raw->bytes);
    raw->misc = get16(file, raw->bytes + 4);
    raw->size = get16(file, raw->bytes + 6);
}

bool perfdata_walk_next(struct walk *walk, struct raw *raw)
{
    struct spex_perfdata *file = walk->file;
    for (;;) {
        if (walk->inflating) {
            raw->offset = walk->last; /* the COMPRESSED record */
            if (from_inflater(walk, raw)) {
                read_header(file, raw);
                if (raw->type != SPEX_PERF_AUXTRACE && raw->type != SPEX_PERF_COMPRESSED &&
                    raw->type != SPEX_PERF_COMPRESSED2)
                    return true;
                if (walk->report)
                    perfdata_problem(file, SPEX_INVALID, raw->offset,
                                     "record type %u inside a COMPRESSED record, skipped",
                                     raw->type);
            }
            continue;
        }
        drop_read(walk);
        uint64_t left = walk->end - walk->position;
        if (left < HEADER_SIZE) {
            if (left && walk->report)
                perfdata_problem(file, SPEX_TRUNCATED, walk->position,
                                 "the data ends inside a record header");
            if (walk->inflater && perfdata_inflater_rest(walk->inflater) && walk->report)
                perfdata_problem(file, SPEX_TRUNCATED, walk->position,
                                 "the data ends inside a compressed record");
            walk->position = walk->end;
            return false;
        }
        raw->offset = walk->position;
        raw->bytes = bytes_at(walk, walk->position, HEADER_SIZE);
        raw->payload = NULL;
        raw->payload_size = 0;
        raw->inflated = false;
        read_header(file, raw);
        if (raw->type >= SPEX_PERF_HEADER_ATTR && raw->type != SPEX_PERF_AUXTRACE)
            raw->bytes = file->data + walk->position; /* not in the window: it must stay valid */
        else
            raw->bytes = bytes_at(walk, walk->position, raw->size);
        if (raw->size < HEADER_SIZE || raw->size > left || raw->type > TYPE_LAST ||
            raw->type == 0) {
            uint64_t next = resynchronize(walk, walk->position + 1, walk->end);
            if (walk->report) {
                if (raw->size > left && next == walk->end)
                    perfdata_problem(file, SPEX_TRUNCATED, raw->offset,
                                     "the data ends inside a record of %u bytes (type %u)",
                                     raw->size, raw->type);
                else
                    perfdata_problem(file, SPEX_INVALID, raw->offset,
                                     "no record here (type %u, size %u); skipped 0x%llx bytes",
                                     raw->type, raw->size,
                                     (unsigned long long)(next - raw->offset));
            }
            walk->position = next;
            continue;
        }
        walk->last = raw->offset;
        walk->position += raw->size;
        if (raw->type == SPEX_PERF_COMPRESSED || raw->type == SPEX_PERF_COMPRESSED2) {
            start_inflating(walk, raw);
            continue;
        }
        uint64_t more = trailing(file, raw->bytes, raw->type, raw->size);
        if (raw->type == SPEX_PERF_AUXTRACE && more)
            take_payload(walk, raw, more);
        else
            walk->position += more < walk->end - walk->position ? more : walk->end - walk->position;
        return true;
    }
}
