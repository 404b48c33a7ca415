/* Notes of ELF files, read with bounds checks: files may be damaged. */
#ifndef BASE_NOTES_H
#define BASE_NOTES_H

#include "base/bits.h"

#include <string.h>

/* Copies the GNU build-id from little-endian notes; returns its size, 0 if there is none. */
static inline uint8_t notes_build_id(const uint8_t *notes, size_t size, uint8_t id[20])
{
    enum { GNU_BUILD_ID = 3 };
    for (size_t at = 0; size >= 12 && at <= size - 12;) {
        uint64_t name = le32(notes + at), desc = le32(notes + at + 4);
        uint64_t data = at + 12 + ((name + 3) & ~3ull), next = data + ((desc + 3) & ~3ull);
        if (data + desc > size)
            break;
        if (le32(notes + at + 8) == GNU_BUILD_ID && name == 4 &&
            !memcmp(notes + at + 12, "GNU", 4) && desc <= 20) {
            memcpy(id, notes + data, desc);
            return (uint8_t)desc;
        }
        at = (size_t)next;
    }
    return 0;
}

#endif
