/* Names of statuses. */
#include <spex/base.h>

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
        [SPEX_CANCELLED] = "cancelled",
    };
    return (unsigned)status < SPEX_STATUS_COUNT ? names[status] : "unknown";
}

const char *spex_version(void)
{
    return SPEX_VERSION;
}
