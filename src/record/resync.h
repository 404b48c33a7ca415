/* What to do about a record that is not beyond doubt; docs/format.md, "Resynchronization". */
#ifndef RECORD_RESYNC_H
#define RECORD_RESYNC_H

#include "record/run.h"

/*
 * A run that is odd or has no end: is there a better reading of its bytes? SPEX_OK if not and it
 * stands as it is, else as spex_record_next. The data ends at size.
 */
enum spex_status resync(struct spex_record_reader *reader, size_t size, size_t start,
                        const struct run *run, enum outcome outcome, struct spex_damage *damage);

#endif
