#include <spex/base.h>

#include "error.h"

#include <stdarg.h>
#include <stdio.h>

const char *spex_status_name(enum spex_status status)
{
    static const char *const names[SPEX_STATUS_COUNT] = {
        [SPEX_OK] = "ok",
        [SPEX_END] = "end",
        [SPEX_TRUNCATED] = "truncated",
        [SPEX_RESERVED] = "reserved",
        [SPEX_INVALID] = "invalid",
        [SPEX_UNSUPPORTED] = "unsupported",
        [SPEX_RANGE] = "out of range",
        [SPEX_NO_MEMORY] = "out of memory",
        [SPEX_IO] = "input/output error",
    };
    return (unsigned)status < SPEX_STATUS_COUNT ? names[status] : "unknown";
}

enum spex_status error_set(struct spex_error *error, enum spex_status status, uint64_t offset,
                           const char *format, ...)
{
    if (error) {
        va_list args;
        error->status = status;
        error->offset = offset;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return status;
}
