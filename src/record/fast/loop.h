/*
 * The loops of the fast path, compiled once by each variant. Before including this, a variant
 * defines: struct bytes, the 64 bytes of a cell; load and matches; hash_cell, a cell's key;
 * constants_make and prepare, which precompute what take needs for all shapes and for one;
 * take, which fills a record; walk, and WALK_WIDTH. This exports VARIANT, a table of functions.
 */
#include "record/reader.h"
#include "record/run.h"

#include <string.h>

enum {
    REPEATS = 8,       /* after this many of one shape, expect the next to have it, too */
    GROUP = 16,        /* cells whose shapes are looked up before the first is read */
    AHEAD = 2048,      /* bytes to prefetch */
    LANE_LEAST = 64,   /* least bytes of a lane near the end of the data */
    LANE_SEARCH = 512, /* bytes in which a lane's first record must begin */
};

/*
 * An incomplete record is accepted if its Events allow it; all records of its shape have
 * Events.
 */
FAST_INLINE bool excused(const struct shape *shape, const uint8_t *data)
{
    return !shape->partial || events_excuse(data[shape->at[FIELD_EVENTS]]);
}

/*
 * How many of these records can be accepted, up to the first incomplete one whose Events do not
 * allow it. Checked after all have been read: a branch in between would be unpredictable.
 */
static size_t excused_until(const struct spex_record *records, size_t count, const uint8_t *partial,
                            size_t partials)
{
    for (size_t i = 0; i < partials; i++)
        if (!events_excuse(records[partial[i]].events))
            return partial[i];
    return count;
}

/* A part of the data that is searched for records, side by side with others. */
struct lane {
    const uint8_t *at, *end;
    struct queued *next; /* where its next record is queued */
    bool open;           /* inside a record that takes more than one walk */
};

/*
 * The shape under this key that matches these bytes, or NULL. A tail is still to be
 * compared.
 */
static inline const struct shape *lookup(const struct spex_shapes *known,
                                         const struct shape *shapes, unsigned key,
                                         struct bytes bytes)
{
    for (unsigned i = 0; i < KEY_PLACES; i++) {
        unsigned number = known->by_key[key ^ i];
        if (number != NO_SHAPE && matches(&shapes[number].head, bytes))
            return &shapes[number];
    }
    return NULL;
}

/* Reads records as long as they have the last shape. */
static size_t repeat(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    const struct spex_shapes *known = reader->shapes;
    const struct shape *shape = &shapes_of(known)[known->last];
    /* copies: the compiler must assume that records overlap it */
    const struct pattern head = shape->head;
    const struct constants places = constants_make();
    const struct prepared prepared = prepare(places, shape);
    const uint8_t *data = reader->data;
    const uint64_t base = reader->base;
    const bool partial = shape->partial;
    size_t position = reader->position, n = 0, last = reader->size - MARGIN;
    for (; n < count && position <= last; n++, position += CELL) {
        const uint8_t *cell = data + position;
        struct bytes bytes = load(cell);
        if (!matches(&head, bytes) || (partial && !excused(shape, cell)))
            break;
        take(&prepared, &bytes, NULL, cell, base + position, &records[n]);
    }
    reader->position = position;
    return n;
}

/*
 * Reads records as long as they have known shapes. In two steps for a group of cells at once: a
 * processor that looks a few hundred instructions ahead finds more independent work within a
 * step than across both steps of a few cells.
 */
static size_t read_cells(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    struct spex_shapes *known = reader->shapes;
    const struct constants places = constants_make();
    /* copies: the compiler must assume that records overlap it */
    const uint8_t *data = reader->data;
    const uint64_t base = reader->base;
    size_t n = 0, last = reader->size - MARGIN, position = reader->position, partials = 0;
    uint8_t partial[AT_ONCE];
    count = count < AT_ONCE ? count : AT_ONCE;
    unsigned same = known->last == NO_SHAPE ? 0 : REPEATS;
    const struct shape *shapes = shapes_of(known), *before = same ? &shapes[known->last] : NULL;
    while (n < count && position <= last) {
        if (same >= REPEATS) {
            known->last = (uint16_t)(before - shapes);
            reader->position = position;
            n += repeat(reader, records + n, count - n);
            position = reader->position;
            same = n == count ? REPEATS : 0; /* the run may continue in the next call */
            continue;
        }
        const uint8_t *cells = data + position;
        uint16_t keys[GROUP];
        size_t group = (last - position) / CELL + 1, i;
        group = group < GROUP ? group : GROUP;
        group = group < count - n ? group : count - n;
        for (i = 0; i < group; i++) {
            __builtin_prefetch(cells + CELL * i + AHEAD);
            keys[i] = (uint16_t)hash_cell(known->cell_keys, cells + CELL * i);
        }
        for (i = 0; i < group; i++, n++) {
            const uint8_t *cell = cells + CELL * i;
            struct bytes bytes = load(cell);
            const struct shape *shape = lookup(known, shapes, keys[i], bytes);
            if (!shape)
                break;
            const struct prepared prepared = prepare(places, shape);
            take(&prepared, &bytes, NULL, cell, base + position + CELL * i, &records[n]);
            partial[partials] = (uint8_t)n;
            partials += shape->partial;
            /* not a branch: it would often be mispredicted */
            same = (same + 1) & -(unsigned)(shape == before);
            before = shape;
        }
        position += CELL * i;
        if (i < group)
            break;
    }
    known->last = same >= REPEATS ? (uint16_t)(before - shapes) : NO_SHAPE;
    return excused_until(records, n, partial, partials);
}

/* For learning. */
static unsigned cell_key(const struct cell_keys *keys, const uint8_t *cell)
{
    return hash_cell(keys, cell);
}

static void walk_one(const uint8_t *p, struct walked *walked)
{
    walk(&p, 1, walked);
}

/* Advances all lanes by one record; false once they have reached their ends. */
FAST_INLINE bool advance(struct lane *lanes, const uint8_t *data)
{
    bool working = false;
    for (struct lane *lane = lanes; lane < lanes + LANES; lane += WALK_WIDTH) {
        const uint8_t *p[WALK_WIDTH];
        struct walked walked[WALK_WIDTH];
#pragma GCC unroll 8
        for (unsigned i = 0; i < WALK_WIDTH; i++) {
            p[i] = lane[i].at;
            if (!*p[i]) /* padding */
                p[i] += (unsigned)__builtin_ctzll(le64(p[i]) | BIT(63)) / 8;
            /* where this lane will be in the next round */
            __builtin_prefetch(p[i] + LANES * LANE, 0, 2);
        }
        walk(p, WALK_WIDTH, walked);
#pragma GCC unroll 8
        for (unsigned i = 0; i < WALK_WIDTH; i++) {
            if (lane[i].at >= lane[i].end)
                continue;
            bool open = lane[i].open;
            struct queued *next = lane[i].next;
            next->at = open ? next->at : (uint16_t)(p[i] - data);
            next->key = open ? (uint16_t)keys_together(next->key, walked[i].key) : walked[i].key;
            lane[i].next += walked[i].closed;
            lane[i].open = !walked[i].closed;
            lane[i].at = p[i] + walked[i].end;
            working = true;
        }
    }
    return working;
}

/*
 * Where a lane may begin within size bytes: at a record of a known shape that begins like the
 * last record.
 */
static const uint8_t *begin(const struct spex_reader *reader, const uint8_t *p, size_t size)
{
    for (const uint8_t *end = p + size; (p = memchr(p, reader->good.first, (size_t)(end - p)));
         p++) {
        struct walked walked;
        walk(&p, 1, &walked);
        if (lookup(reader->shapes, shapes_of(reader->shapes), walked.key, load(p)))
            break;
    }
    return p;
}

/* Fills the queue. */
static void find(struct spex_reader *reader)
{
    struct fast_stream *stream = &reader->stream;
    const uint8_t *data = reader->data + reader->position;
    size_t window = reader->size - reader->position - LANE_MARGIN;
    window = window < LANES * LANE ? window : LANES * LANE;
    const size_t lane_size = window / LANES < LANE_LEAST ? window : window / LANES;
    const size_t search = lane_size < LANE_SEARCH ? lane_size : LANE_SEARCH;
    struct lane lanes[LANES];
    unsigned count = 1;
    for (unsigned i = 0; i < LANES; i++)
        lanes[i] = (struct lane){.at = data, .end = data, .next = stream->queue + i * LANE_ROOM};
    lanes[0].end = data + lane_size;
    for (; count < LANES && (count + 1) * lane_size <= window && reader->good.first > 0; count++) {
        const uint8_t *start = begin(reader, lanes[count - 1].end, search);
        if (!start)
            break;
        lanes[count - 1].end = lanes[count].at = start;
        lanes[count].end = data + (count + 1) * lane_size;
    }
    for (unsigned rounds = 0; rounds < LANE_ROOM && advance(lanes, data); rounds++)
        ;
    /* A lane counts only if the one before it ended at its beginning. */
    stream->origin = reader->position;
    stream->taken = stream->missed = stream->queued = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct queued *from = stream->queue + i * LANE_ROOM;
        size_t found = (size_t)(lanes[i].next - from);
        memmove(stream->queue + stream->queued, from, found * sizeof *from);
        stream->queued += (uint32_t)found;
        if (lanes[i].at != lanes[i].end || lanes[i].open)
            break;
    }
}

static size_t found(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    struct fast_stream *stream = &reader->stream;
    const struct spex_shapes *known = reader->shapes;
    const struct constants places = constants_make();
    const struct shape *const shapes = shapes_of(known);
    const uint8_t *data = reader->data;
    const uint64_t base = reader->base;
    const size_t origin = stream->origin, last = reader->size - MARGIN - CELL;
    const struct queued *next = stream->queue + stream->taken,
                        *all = stream->queue + stream->queued;
    const struct queued *end = all;
    size_t n = 0, position = reader->position, specials = 0;
    struct {
        const struct shape *shape;
        size_t n;
    } special[AT_ONCE];
    count = count < AT_ONCE ? count : AT_ONCE;
    if (reader->size < MARGIN + CELL)
        return 0;
    while (end > next && origin + end[-1].at > last)
        end--;
    end = (size_t)(end - next) < count ? end : next + count;
    for (; next < end; n++, next++) {
        size_t at = origin + next->at;
        if (__builtin_expect(at != position, 0)) {
            while (position < at && position < reader->size && !data[position])
                position++;
            if (at != position) { /* the position was changed */
                stream->missed += (uint32_t)(all - next);
                next = all;
                break;
            }
        }
        struct bytes bytes = load(data + at);
        const struct shape *shape = lookup(known, shapes, next->key, bytes);
        if (!shape)
            break;
        const struct prepared prepared = prepare(places, shape);
        take(&prepared, &bytes, NULL, data + at, base + at, &records[n]);
        position = at + shape->fixed.size;
        special[specials].shape = shape;
        special[specials].n = n;
        specials += shape->special;
    }
    /*
     * Rare but unpredictable conditions are checked last, so that no branch above is
     * mispredicted.
     */
    for (size_t i = 0, found = n; i < specials && n == found; i++) {
        struct spex_record *record = &records[special[i].n];
        const struct shape *shape = special[i].shape;
        bool stands = true;
        if (shape->tail) {
            const uint8_t *p = data + (record->offset - base);
            struct bytes bytes = load(p);
            struct bytes more = load(p + CELL);
            (void)bytes;
            stands = matches(&known->tails[shape->tail], more);
            const struct prepared prepared = prepare(places, shape);
            take(&prepared, &bytes, &more, p, record->offset, record);
        }
        if (!stands || (shape->partial && !events_excuse(record->events))) {
            n = special[i].n;
            next = stream->queue + stream->taken + n;
        }
    }
    if (n)
        reader->position = (size_t)(records[n - 1].offset - base) + records[n - 1].size;
    stream->taken = (uint32_t)(next - stream->queue);
    return n;
}
