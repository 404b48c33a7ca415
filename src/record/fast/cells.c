/*
 * Records that begin every 64 bytes. The shape to compare with is the last one as long as it
 * repeats, else the one learnt for the same bytes at the positions that distinguish shapes.
 */
#include "record/reader.h"

enum { GIVE_UP = 32 }; /* after so many failures in a row, give up on cells */

static size_t read_known(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    const struct spex_shapes *shapes = reader->shapes;
    size_t position = reader->position, into = (position - reader->cells.anchor) % CELL;
    if (!shapes->count || !reader->cells.anchored || reader->size < MARGIN)
        return 0;
    /* Skip the rest of the last record's cell if it is padding. */
    if (into) {
        size_t next = position + CELL - into;
        for (size_t at = position; at < next; at++)
            if (at >= reader->size || reader->data[at])
                return 0;
        reader->position = next;
    }
    size_t n = shapes->variant->cells(reader, records, count);
    if (n)
        reader->position = (size_t)(records[n - 1].offset - reader->base) + records[n - 1].size;
    else
        reader->position = position;
    return n;
}

size_t cells_read(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    struct fast_cells *cells = &reader->cells;
    size_t n = read_known(reader, records, count);
    cells->failures = n ? 0 : cells->failures + 1;
    if (cells->failures == GIVE_UP) {
        cells->failures = 0;
        cells->anchored = false;
        shapes_restart(reader->shapes, true);
    }
    return n;
}

void cells_learn(struct spex_reader *reader, const struct spex_record *record)
{
    struct fast_cells *cells = &reader->cells;
    size_t start = (size_t)(record->offset - reader->base);
    if (record->size > CELL)
        return;
    if (!cells->anchored) { /* an incomplete record may have set it wrong; then it is set again */
        cells->anchored = true;
        cells->anchor = (uint8_t)(start % CELL);
    }
    size_t lead = (start - cells->anchor) % CELL;
    if (lead + record->size > CELL)
        cells->anchor = (uint8_t)(start % CELL); /* an offset that no cell has */
    else if (start >= lead && reader->size - (start - lead) >= MARGIN)
        shapes_learn_cell(reader->shapes, reader->data + start - lead, lead, record);
}
