/*
 * Internals of the writer: writer.c opens and ends a file, writer_head.c makes what comes
 * before and after the records, writer_records.c the records.
 */
#ifndef PERFDATA_WRITING_H
#define PERFDATA_WRITING_H

#include "perfdata/file.h"
#include "perfdata/writer.h"

enum {
    ATTR_SIZE = PERF_WRITER_ATTR,
    NAME_ALIGN = 64, /* alignment of strings in feature sections, as perf pads them */
};

/* A record or feature section under construction. */
struct bytes {
    VEC(uint8_t) vec;
    bool failed;
};

static inline uint8_t *put_room(struct bytes *b, size_t size)
{
    if (!vec_reserve(&b->vec, b->vec.count + size)) {
        b->failed = true;
        return NULL;
    }
    uint8_t *p = b->vec.items + b->vec.count;
    b->vec.count += size;
    return p;
}

static inline void put_bytes(struct bytes *b, const void *data, size_t size)
{
    uint8_t *p = size ? put_room(b, size) : NULL;
    if (p)
        memcpy(p, data, size);
}

static inline void put_zeros(struct bytes *b, size_t size)
{
    uint8_t *p = size ? put_room(b, size) : NULL;
    if (p)
        memset(p, 0, size);
}

static inline void put16(struct bytes *b, uint16_t value)
{
    uint8_t *p = put_room(b, 2);
    if (p)
        put_le16(p, value);
}

static inline void put32(struct bytes *b, uint32_t value)
{
    uint8_t *p = put_room(b, 4);
    if (p)
        put_le32(p, value);
}

static inline void put64(struct bytes *b, uint64_t value)
{
    uint8_t *p = put_room(b, 8);
    if (p)
        put_le64(p, value);
}

static inline void put_aligned(struct bytes *b, const char *text, size_t align)
{
    size_t length = strlen(text) + 1;
    put_bytes(b, text, length);
    put_zeros(b, -length & (align - 1));
}

/* A string of a feature section: padded length, then the text. */
static inline void put_string(struct bytes *b, const char *text)
{
    size_t length = strlen(text) + 1;
    put32(b, (uint32_t)((length + NAME_ALIGN - 1) & ~(size_t)(NAME_ALIGN - 1)));
    put_aligned(b, text, NAME_ALIGN);
}

struct writer_queue {
    int32_t cpu, tid;
    uint64_t offset; /* AUX bytes written so far */
    bool started;    /* ITRACE_START was written */
};

struct writer_attr {
    uint8_t bytes[ATTR_SIZE];
    const char *name;    /* NULL: built from the terms */
    const uint64_t *ids; /* NULL: a single id, the event's own */
    size_t id_count;
    uint64_t own;
};

struct spex_perf_writer {
    struct memory *account; /* entered by every function that may allocate */
    int fd;
    bool pipe, per_thread, untimed;
    uint32_t cpus;
    int error; /* errno of the first failure */
    char *path;
    uint64_t position; /* offset of the next byte, buffered ones included */
    uint64_t written;  /* where the bytes end that have reached the file */
    uint64_t data_offset;
    uint64_t reference;
    uint64_t first_time, last_time;
    uint8_t *buffer;
    size_t buffered;
    struct bytes record; /* scratch */
    VEC(struct writer_queue) queues;
    VEC(struct index_entry) index;
    VEC(struct build_id) build_ids;
    struct strings strings;
    struct bytes features[FEATURE_BITS]; /* made at the start, written again at the end */
    bool has_feature[FEATURE_BITS];
    struct writer_attr attrs[PERF_WRITER_EVENTS];
    unsigned attr_count;
    uint64_t id_spe, id_tracking; /* ids that the writer's own records carry */
    bool stacks; /* there is an event for the records of spex_perf_writer_stacks() */
};

/* ---- writer.c ---- */

/* Writes directly, and through a buffer. */
void writing_write(struct spex_perf_writer *w, const uint8_t *data, size_t size);
void writing_emit(struct spex_perf_writer *w, const void *data, size_t size);
void writing_flush(struct spex_perf_writer *w);
/* Overwrites bytes of the file at an offset. */
void writing_patch(struct spex_perf_writer *w, const void *data, size_t size, off_t at);
/* Makes everything added so far part of the file. */
void writing_commit(struct spex_perf_writer *w);

/* ---- writer_head.c ---- */

/* Attributes of spex's own events, or of a machine's. */
void writing_make_attrs(struct spex_perf_writer *w, const struct spex_perf_writer_options *o);
void writing_take_attrs(struct spex_perf_writer *w, const struct perf_writer_machine *m);
/* Makes the feature sections known at the start; those known at the end. */
void writing_make_features(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                           const struct perf_writer_machine *machine);
void writing_finish_features(struct spex_perf_writer *w);
/* Writes the file's header; finished: it names the feature sections. */
void writing_header(struct spex_perf_writer *w, uint64_t data_size, bool finished);
/* Writes everything before the first event. */
void writing_start(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                   const struct spex_perf_cpu *cpus);
/* Writes the feature sections, after the data. */
void writing_sections(struct spex_perf_writer *w);

/* ---- writer_records.c ---- */

struct bytes *writing_begin(struct spex_perf_writer *w, uint32_t type, uint16_t misc);
void writing_end(struct spex_perf_writer *w);
/* NULL: out of memory, and the writer has failed. */
struct writer_queue *writing_queue(struct spex_perf_writer *w, int32_t cpu, int32_t tid);

#endif
