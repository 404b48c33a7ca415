/* What to do about a record that may be damaged; docs/format.md, "Resynchronization". */
#ifndef RECORD_RESYNC_H
#define RECORD_RESYNC_H

#include "record/run.h"

struct spex_reader;

/* How many bytes before a record's end are searched. */
enum { RESYNC_WINDOW = SPEX_RECORD_MAX + 32 };

/*
 * For a run that is odd or has no end: whether its bytes can be read in a better way. SPEX_OK
 * if not, and the run stays as it is; otherwise a status of spex_reader_next. The data ends at
 * size.
 */
enum spex_status resync(struct spex_reader *reader, size_t size, size_t start,
                        const struct run *run, enum outcome outcome, struct spex_damage *damage);

#endif
