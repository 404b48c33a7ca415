/* A reader by value, for the modules of this tree; see <spex/record.h>. */
#ifndef RECORD_READER_H
#define RECORD_READER_H

#include <spex/record.h>

#include "record/fast/fast.h"

/* Bytes from a record's beginning that decide what it is, whatever follows them. */
enum { READER_VIEW = 3 * SPEX_RECORD_MAX };

/* The last record that was certainly good, for resynchronization. */
struct reader_good {
    uint64_t close; /* stream offset of its closing packet */
    size_t floor;   /* data before this offset belongs to it */
    int first;      /* its first header byte, -1: there was none */
};

struct spex_reader {
    const uint8_t *data;
    size_t size, position;
    uint64_t base; /* stream offset of data[0] */
    bool last;     /* nothing follows this data */
    bool owned;    /* shapes are this reader's own */
    struct reader_good good;
    struct spex_shapes *shapes; /* NULL: nothing is learnt, every record takes the general way */
    struct fast_cells cells;
    struct fast_stream stream;
};

void reader_init(struct spex_reader *reader, struct spex_shapes *shapes);

/* The data is complete: nothing follows it. */
static inline void reader_whole(struct spex_reader *reader, const uint8_t *data, size_t size,
                                uint64_t base)
{
    reader_init(reader, NULL);
    spex_reader_feed(reader, data, size, base, true);
}

#endif
