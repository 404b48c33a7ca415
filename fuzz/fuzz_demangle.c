/* Any text as a mangled name: an end in sight, and a C++ name no longer than its computed bound. */
#include <spex/symbols.h>

#include "analysis/expand.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *name = malloc(size + 1);
    if (!name)
        return 0;
    memcpy(name, data, size);
    name[size] = 0;
    char *text = spex_demangle(name);
    if (text && strlen(text) > 1 << 17)
        abort();
    free(text);
    if (!strncmp(name, "_Z", 2) && !expand_cxx(name))
        abort();
    free(name);
    return 0;
}
