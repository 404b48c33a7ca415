/*
 * Spans of AUX data that are read into memory of the caller, rather than mapped.
 *
 * Threads that map and give back pages of one file wait for each other and interrupt each other's
 * CPUs; reading shares nothing, and what was read is still in the caches of the CPU that wants it.
 */
#ifndef PERFDATA_SPANS_H
#define PERFDATA_SPANS_H

#include <spex/perfdata.h>

enum { SPANS_ROOM = 256 << 10 };

/*
 * From now on spans lie in these SPANS_ROOM bytes, and are no longer than that, until the next one
 * is asked for; but where the file cannot be read, as it is mapped. One cursor uses them at a time.
 */
void spans_read_into(struct spex_aux_cursor *cursor, uint8_t *room);

#endif
