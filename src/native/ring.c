#include "ring.h"

#include "base/bits.h"

#include <string.h>

enum { HEADER = 8, RECORD_MOST = 65536 };

/* ---- records ---- */

static size_t size_at(const struct native_ring *ring, uint64_t at)
{
    /* Records are multiples of 8 bytes: a header never wraps. */
    const uint8_t *h = ring->data + (at & (ring->data_size - 1));
    uint16_t size;
    memcpy(&size, h + 6, sizeof size);
    return size;
}

void native_ring_records(struct native_ring *ring, native_records *use, void *context)
{
    uint8_t joined[RECORD_MOST];
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t at = ring->page->data_tail;
    while (at < head) {
        uint64_t start = at & (ring->data_size - 1), run = 0;
        size_t n = 0;
        /* Records that follow each other in memory. */
        while (at + run < head && (n = size_at(ring, at + run)) >= HEADER &&
               start + run + n <= ring->data_size && at + run + n <= head)
            run += n;
        if (run) {
            use(context, ring->data + start, (size_t)run);
            at += run;
            continue;
        }
        if (n < HEADER ||
            at + n > head) { /* no kernel does this: the end of the record is unknown */
            at = head;
            break;
        }
        size_t first = (size_t)(ring->data_size - start);
        memcpy(joined, ring->data + start, first);
        memcpy(joined + first, ring->data, n - first);
        use(context, joined, n);
        at += n;
    }
    __atomic_store_n(&ring->page->data_tail, at, __ATOMIC_RELEASE);
}

/* ---- AUX ---- */

/* From one count of bytes to another, in a ring. */
static void cut(const struct native_ring *ring, uint64_t from, uint64_t to,
                struct native_piece *piece)
{
    uint64_t start = from % ring->aux_size, size = to - from;
    uint64_t first = start + size > ring->aux_size ? ring->aux_size - start : size;
    *piece = (struct native_piece){.offset = from,
                                   .part = {ring->aux + start, ring->aux},
                                   .size = {(size_t)first, (size_t)(size - first)}};
}

bool native_ring_aux(struct native_ring *ring, struct native_piece *piece)
{
    if (!ring->aux || ring->snapshot)
        return false;
    uint64_t head = __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
    uint64_t tail = ring->page->aux_tail;
    if (head == tail || head - tail > ring->aux_size)
        return false;
    cut(ring, tail, head, piece);
    return true;
}

void native_ring_aux_done(struct native_ring *ring, const struct native_piece *piece)
{
    __atomic_store_n(&ring->page->aux_tail, piece->offset + piece->size[0] + piece->size[1],
                     __ATOMIC_RELEASE);
}

static bool any_after(const struct native_ring *ring, uint64_t from)
{
    for (uint64_t i = from; i < ring->aux_size; i++)
        if (ring->aux[i])
            return true;
    return false;
}

bool native_ring_snapshot(struct native_ring *ring, struct native_piece *piece)
{
    uint64_t head = __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
    uint64_t at = head % ring->aux_size, from = ring->aux_taken;
    if (!ring->aux)
        return false;
    if (!ring->wrapped && (at < from || any_after(ring, at)))
        ring->wrapped = true;
    if (ring->wrapped)
        cut(ring, at, at + ring->aux_size, piece);
    else
        cut(ring, from, at, piece);
    ring->aux_taken = at;
    if (!piece->size[0])
        return false;
    /* Leaves a gap to what was handed out before: a record may have been cut in between. */
    uint64_t size = piece->size[0] + piece->size[1];
    piece->offset = ring->aux_given;
    ring->aux_given += size + ring->aux_size;
    return true;
}
