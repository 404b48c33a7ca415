#include "error.h"

#include <stdarg.h>
#include <stdio.h>

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
