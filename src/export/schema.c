#include "schema.h"

#include <string.h>

/* The compiler sees constants: no search is left. */
#define SHOWN(shown, letter) (__builtin_strchr(shown, letter) != NULL)
#define EXPORT_ADDRESS EXPORT_ADDRESS_TYPE /* the type; there is a column of that name, too */

const struct export_field export_fields[EXPORT_COLUMNS] = {
#define COLUMN(id_, name_, type_, bits_, unit_, packet_, null_, from_, shown_, label_, meaning_)   \
    {                                                                                              \
        .name = name_,                                                                             \
        .type = EXPORT_##type_,                                                                    \
        .bits = bits_,                                                                             \
        .unit = unit_,                                                                             \
        .packet = packet_,                                                                         \
        .null = null_[0] == '-' ? NULL : null_,                                                    \
        .from = EXPORT_FROM_##from_,                                                               \
        .text = SHOWN(shown_, 't'),                                                                \
        .machine = SHOWN(shown_, 'j'),                                                             \
        .columnar = SHOWN(shown_, 'p'),                                                            \
        .label = label_,                                                                           \
        .meaning = meaning_,                                                                       \
    },
#include "export/schema.def"
};

enum export_column export_column_find(const char *name, size_t length)
{
    static const struct {
        const char *name;
        enum export_column column;
    } perf[] = {
        {"ip", EXPORT_PC},        {"sym", EXPORT_SYMBOL},     {"addr", EXPORT_VA},
        {"phys_addr", EXPORT_PA}, {"weight", EXPORT_LATENCY}, {"event", EXPORT_EVENTS},
    };
    for (unsigned i = 0; i < EXPORT_COLUMNS; i++)
        if (strlen(export_fields[i].name) == length &&
            !strncmp(export_fields[i].name, name, length))
            return i;
    for (size_t i = 0; i < sizeof perf / sizeof *perf; i++)
        if (strlen(perf[i].name) == length && !strncmp(perf[i].name, name, length))
            return perf[i].column;
    return EXPORT_COLUMNS;
}
