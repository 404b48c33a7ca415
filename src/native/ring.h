/*
 * The rings that the kernel fills: records (struct perf_event_mmap_page and pages after it), and
 * the AUX area with the bytes of SPE. Works on any memory of that form.
 */
#ifndef NATIVE_RING_H
#define NATIVE_RING_H

#include <spex/base.h>

#include <linux/perf_event.h>

struct native_ring {
    struct perf_event_mmap_page *page;
    uint8_t *data; /* a power of two of bytes */
    uint64_t data_size;
    const uint8_t *aux; /* NULL: none */
    uint64_t aux_size;
    bool snapshot;      /* the kernel overwrites the AUX area */
    uint64_t aux_taken; /* snapshot: the head when the last one was taken */
    uint64_t aux_given; /* snapshot: bytes handed out so far */
    bool wrapped;       /* snapshot: all of the area holds data */
};

/* Hands out whole records, some at a time; they belong to the kernel again when it returns. */
typedef void native_records(void *context, const uint8_t *records, size_t size);
void native_ring_records(struct native_ring *ring, native_records *use, void *context);

/* Bytes of the AUX area, in up to two parts. */
struct native_piece {
    uint64_t offset; /* kernel's offset of the first byte */
    const uint8_t *part[2];
    size_t size[2];
};
/*
 * The new AUX data; false if there is none. The kernel may reuse it after native_ring_aux_done().
 */
bool native_ring_aux(struct native_ring *ring, struct native_piece *piece);
void native_ring_aux_done(struct native_ring *ring, const struct native_piece *piece);

/*
 * What the AUX area of a snapshot holds since the last one, while the event is off. The kernel's
 * head starts over at the end of the area, so only the bytes show whether all of it was written.
 */
bool native_ring_snapshot(struct native_ring *ring, struct native_piece *piece);

#endif
