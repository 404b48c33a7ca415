/*
 * The fast path for records of any length. Streams use few shapes here, too, but
 * where a record begins is known only when the one before has been read. So this
 * goes in two steps (shape_loop.inc):
 *
 *   1. Find: where does each record begin, and which headers does it have? A walk from
 *      header to header tells, which is a chain of loads, each waiting for the one
 *      before, so that several lanes of some kilobytes are walked at once. All lanes
 *      but the first begin at a guess, which counts if the lane before ends there.
 *   2. Take: the headers lead to a known shape, a masked compare makes sure, and the
 *      fields come from fixed places.
 */
#include "record/reader.h"

#include <string.h>

void stream_start(struct spex_record_reader *reader)
{
    struct reader_state *state = reader_state(reader);
    state->streaming = true;
    state->failures = 0;
    state->shape_count = 0;
    state->tail_count = 0;
    state->last_shape = NO_SHAPE;
    state->queued = state->taken = state->missed = 0;
    state->idle = state->idle_left = 0;
    memset(state->by_key, 0xff, sizeof state->by_key); /* NO_SHAPE */
}

/* Whether the records of the queue are cells, all of them as it seems. */
static bool queue_of_cells(const struct reader_state *state)
{
    enum { ENOUGH = 32 };
    unsigned apart = CELL;
    for (unsigned i = 1; i < state->queued && i < ENOUGH; i++)
        apart |= (unsigned)state->queue[i].at - state->queue[i - 1].at;
    return apart == CELL && state->queued > LANES;
}

/* Fills the queue, which is empty; false if there is nothing to find, or no use in it. */
static bool refill(struct spex_record_reader *reader)
{
    enum { IDLE_LEAST = 16, IDLE_MOST = 4096 };
    struct reader_state *state = reader_state(reader);
    if (2 * state->missed > state->queued) { /* the last one was no use */
        state->idle = state->idle < IDLE_MOST ? 2 * state->idle + IDLE_LEAST : IDLE_MOST;
        state->idle_left = state->idle;
    } else if (state->queued) {
        state->idle = 0;
    }
    state->queued = state->taken = state->missed = 0;
    if (state->idle_left) {
        state->idle_left--;
        return false;
    }
    if (reader->position >= reader->size || reader->size - reader->position <= LANE_MARGIN + CELL)
        return false;
    shape_find(reader);
    state->missed = !state->queued;
    return state->queued;
}

size_t stream_records(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    struct reader_state *state = reader_state(reader);
    size_t n = 0;
    while (n < count) {
        if (state->taken == state->queued) {
            if (!refill(reader))
                break;
            if (queue_of_cells(state)) {
                shape_start(reader);
                break;
            }
        }
        size_t found = shape_found(reader, records + n, count - n);
        n += found;
        if (n < count && found < AT_ONCE && state->taken < state->queued) {
            /* One that is not known, or odd: the general reader is next, which comes after 0. */
            state->taken += n == 0;
            state->missed += n == 0;
            break;
        }
    }
    return n;
}
