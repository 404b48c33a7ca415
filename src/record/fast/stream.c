/*
 * The fast path for records of any length. Streams use few shapes here, too, but where a record
 * begins is known only when the previous one has been read. So this goes in two steps (loop.h):
 *
 * 1. Find: where each record begins, and which headers it has. A walk from header to header
 * tells; since it is a chain of dependent loads, several lanes of some kilobytes are walked at
 * once. All lanes but the first begin at a guess, which counts if the previous lane ends there.
 * 2. Take: the headers lead to a known shape, a masked compare makes sure, and the fields come
 * from fixed offsets.
 */
#include "record/reader.h"

/* Whether all records of the queue look like cells. */
static bool queue_of_cells(const struct fast_stream *stream)
{
    enum { ENOUGH = 32 };
    unsigned apart = CELL;
    for (unsigned i = 1; i < stream->queued && i < ENOUGH; i++)
        apart |= (unsigned)stream->queue[i].at - stream->queue[i - 1].at;
    return apart == CELL && stream->queued > LANES;
}

/* Fills the empty queue; false if there is nothing to find, or if the search does not pay. */
static bool refill(struct spex_reader *reader)
{
    enum { IDLE_LEAST = 16, IDLE_MOST = 4096 };
    struct fast_stream *stream = &reader->stream;
    if (2 * stream->missed > stream->queued) { /* the last search did not help */
        stream->idle = stream->idle < IDLE_MOST ? 2 * stream->idle + IDLE_LEAST : IDLE_MOST;
        stream->idle_left = stream->idle;
    } else if (stream->queued) {
        stream->idle = 0;
    }
    stream->queued = stream->taken = stream->missed = 0;
    if (stream->idle_left) {
        stream->idle_left--;
        return false;
    }
    if (reader->position >= reader->size || reader->size - reader->position <= LANE_MARGIN + CELL)
        return false;
    reader->shapes->variant->find(reader);
    stream->missed = !stream->queued;
    return stream->queued;
}

static size_t read_found(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    struct fast_stream *stream = &reader->stream;
    size_t n = 0;
    while (n < count) {
        if (stream->taken == stream->queued) {
            if (!refill(reader))
                break;
            if (queue_of_cells(stream)) {
                shapes_restart(reader->shapes, false);
                break;
            }
        }
        size_t found = reader->shapes->variant->found(reader, records + n, count - n);
        n += found;
        if (n < count && found < AT_ONCE && stream->taken < stream->queued) {
            /*
             * A record of no known shape, or an odd one: return what there is; a return of 0
             * hands it to the general reader.
             */
            stream->taken += n == 0;
            stream->missed += n == 0;
            break;
        }
    }
    return n;
}

size_t stream_read(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    enum { LONGEST = 1 << 20 };
    struct fast_stream *stream = &reader->stream;
    struct spex_shapes *shapes = reader->shapes;
    /* Streaming does not help either: try cells again later, less and less often. */
    if (stream->idle && ++stream->failures > shapes->pause) {
        shapes->pause = shapes->pause < LONGEST ? 2 * shapes->pause : LONGEST;
        stream->failures = 0;
        shapes_restart(shapes, false);
        return 0;
    }
    return read_found(reader, records, count);
}

void stream_learn(struct spex_reader *reader, const struct spex_record *record)
{
    shapes_learn_stream(reader->shapes, reader->data + (record->offset - reader->base), record);
}
