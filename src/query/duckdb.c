#include "duckdb.h"

#include "base/error.h"

#include <dlfcn.h>
#include <string.h>

/* ISO C does not let dlsym's pointer be converted to a function pointer directly. */
static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

struct duckdb duck;

bool duckdb_load(const char *path, struct spex_error *error)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error_set(error, SPEX_IO, 0, "%s", dlerror());
        return false;
    }
#define FUNCTION(result, name, arguments)                                                          \
    if (!find(library, "duckdb_" #name, &duck.name)) {                                             \
        error_set(error, SPEX_UNSUPPORTED, 0, "%s: this DuckDB has no duckdb_" #name, path);       \
        return false;                                                                              \
    }
#include "query/duckdb.def"
    return true;
}
