/* What to do about a record that is not beyond doubt; docs/format.md, "Resynchronization". */
#ifndef RECORD_RESYNC_H
#define RECORD_RESYNC_H

#include "record/run.h"

typedef enum outcome run_function(const uint8_t *data, size_t size, size_t start,
                                  struct spex_record *record, struct run *run);

/*
 * A run that is odd or has no end: is there a better reading of its bytes? SPEX_OK if not and it
 * stands as it is, else as spex_record_next.
 */
enum spex_status resync(struct spex_record_reader *reader, size_t start, const struct run *run,
                        enum outcome outcome, run_function *run_again, struct spex_damage *damage);

#endif
