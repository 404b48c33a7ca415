/* The reader as a plain struct, for other modules of spex; see <spex/record.h>. */
#ifndef RECORD_READER_H
#define RECORD_READER_H

#include <spex/record.h>

#include "record/fast/fast.h"

/* How many bytes from a record's beginning can decide what it is. */
enum { READER_VIEW = 3 * SPEX_RECORD_MAX };

/* The last record that was certainly good, for resynchronization. */
struct reader_good {
    uint64_t close; /* stream offset of its closing packet */
    size_t floor;   /* data before this offset belongs to that record */
    int first;      /* its first header byte; -1: there was no such record */
};

struct spex_reader {
    const uint8_t *data;
    size_t size, position;
    uint64_t base; /* stream offset of data[0] */
    bool last;     /* nothing follows this data */
    bool owned;    /* this reader owns its shapes */
    struct reader_good good;
    /* NULL: nothing is learnt, every record is read by the general code */
    struct spex_shapes *shapes;
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
