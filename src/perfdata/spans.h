/*
 * Spans of AUX data that are read into memory of the caller, rather than mapped.
 *
 * Threads that map and give back pages of one file wait for each other and interrupt each other's
 * CPUs; reading shares nothing, and what was read is still in the caches of the CPU that wants it.
 */
#ifndef PERFDATA_SPANS_H
#define PERFDATA_SPANS_H

#include <spex/perfdata.h>

enum { SPANS_ROOM = 1 << 20 }; /* the longest span */

/*
 * From now on spans lie in these SPANS_ROOM bytes until the next one is asked for; but where the
 * file cannot be read, as it is mapped. Only one cursor uses them at a time. part: of each span the
 * beginning alone is read, that part of it and a little more; 1: all. Nothing can be kept then.
 */
void spans_read_into(struct spex_aux_cursor *cursor, uint8_t *room, double part);

/*
 * A queue is cut into stretches of a megabyte or more, at the beginnings of AUXTRACE data, so that
 * several threads can read it.
 */
uint32_t spans_stretches(const struct spex_perfdata *file, size_t queue);
/*
 * Of a new cursor: the next span is the end of the data before this stretch, which is not the
 * first. What begins there may be in the middle of an item.
 */
void spans_seek(struct spex_aux_cursor *cursor, uint32_t stretch);
/* Whether the last span was the first of a stretch that is not the first. */
bool spans_begins(const struct spex_aux_cursor *cursor);

#endif
