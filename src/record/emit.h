/* A record -> bytes in a layout: the only emitter, for spex_record_encode and for the unit. */
#ifndef RECORD_EMIT_H
#define RECORD_EMIT_H

#include <spex/record.h>

/* IMPLEMENTATION DEFINED packets that a unit adds; INDEX 0: none. */
struct record_extra {
    uint8_t counter_index, address_index;
    uint16_t counter;
    uint64_t address;
};

enum { RECORD_EMIT_ROOM = 192 }; /* upper bound of what record_emit writes */

/*
 * Writes the packets of *record, all of which must fit the layout, in the sizes that the record
 * asks for. Returns the bytes written; up to eight more may be overwritten. extra may be NULL.
 */
size_t record_emit(const struct spex_record *record, enum spex_layout layout,
                   const struct record_extra *extra, uint8_t *out);

/* Whether these packets (enum spex_has), with these sizes, fit the layout. */
bool record_fits(enum spex_layout layout, unsigned present, unsigned events_size,
                 unsigned data_source_size);

#endif
