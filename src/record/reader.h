/* The private part of struct spex_record_reader. */
#ifndef RECORD_READER_H
#define RECORD_READER_H

#include <spex/record.h>

struct reader_state {
    size_t close; /* where the closing packet of the last record begins */
    size_t floor; /* bytes before this belong to records already returned */
    int first;    /* first header byte of the last record, -1 at the start */
};

static inline struct reader_state *reader_state(struct spex_record_reader *reader)
{
    return (struct reader_state *)(void *)reader->opaque;
}

#endif
