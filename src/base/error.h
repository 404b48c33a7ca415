/* Filling a struct spex_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <spex/base.h>

/*
 * Formats into error (if not NULL) and returns status, so that callers can write `return
 * error_set(...)`.
 */
enum spex_status error_set(struct spex_error *error, enum spex_status status, uint64_t offset,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
