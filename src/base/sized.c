#include "sized.h"

#include "error.h"

#include <assert.h>
#include <string.h>

enum { SIZE_MAX_SANE = 1 << 16 }; /* a larger size must be uninitialized memory */

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

enum spex_status sized_take(const char *name, const void *given, void *known, size_t known_size,
                            struct spex_error *error)
{
    size_t size = size_of(given);
    if (size < sizeof size || size > SIZE_MAX_SANE)
        return error_set(error, SPEX_INVALID, 0,
                         "struct %s: size is %zu; set it to sizeof(struct %s)", name, size, name);
    for (size_t i = known_size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return error_set(error, SPEX_UNSUPPORTED, i,
                             "struct %s: this library knows its first %zu bytes, but byte %zu is "
                             "not zero: the program wants something of a newer version",
                             name, known_size, i);
    memset(known, 0, known_size);
    memcpy(known, given, size < known_size ? size : known_size);
    memcpy(known, &known_size, sizeof known_size);
    return SPEX_OK;
}

void sized_give(void *out, const void *known)
{
    size_t size = size_of(out), known_size = size_of(known);
    assert(size >= sizeof size && size <= SIZE_MAX_SANE && "set size before the call");
    const size_t common = size < known_size ? size : known_size;
    memcpy(out, known, common);
    memset((unsigned char *)out + common, 0, size - common);
    memcpy(out, &size, sizeof size);
}
