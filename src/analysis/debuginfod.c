/*
 * Files from debuginfod servers, through libdebuginfod if it is installed and DEBUGINFOD_URLS names
 * a server. It keeps what it fetched in a cache of its own; limits of time and size beyond ours are
 * set by its variables (debuginfod-find(1)).
 */
#include "module.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 30 };               /* seconds without a byte */
#define FETCH_MOST (INT64_C(4) << 30) /* bytes of one file */

typedef struct debuginfod_client client_type;
typedef int watch_type(client_type *, long, long);
typedef int find_type(client_type *, const unsigned char *, int, char **);

struct debuginfod {
    void *library;
    client_type *client;
    find_type *find[2]; /* indexed by enum debuginfod_kind */
    void (*end)(client_type *);
    bool given_up;
    /* the download under way */
    struct spex_module *module;
    int64_t last;
    time_t since;
};

/*
 * The download that runs on this thread: old releases of the library do not pass a pointer to the
 * callback.
 */
static __thread struct debuginfod *current;

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* A result other than 0 ends the download. */
static int watch(client_type *client, long now_done, long now_size)
{
    int64_t done = now_done, size = now_size; /* long has 32 bits on some machines */
    struct debuginfod *d = current;
    const struct spex_symbols_options *o = &d->module->owner->options;
    (void)client;
    if (done != d->last) {
        d->last = done;
        d->since = now();
    }
    if (done > FETCH_MOST || size > FETCH_MOST || now() - d->since > PATIENCE)
        return 1;
    if (!o->fetching)
        return 0;
    struct memory_pause pause = memory_pause(); /* the host's function may not return */
    bool go_on = o->fetching(o->context, d->module->name, done > 0 ? (uint64_t)done : 0,
                             size > 0 ? (uint64_t)size : 0);
    memory_resume(pause);
    return !go_on;
}

static bool begin(struct debuginfod *d)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!urls || !*urls || !(d->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL)))
        return false;
    client_type *(*start)(void) = NULL;
    void (*set_watch)(client_type *, watch_type *) = NULL;
    *(void **)&start = dlsym(d->library, "debuginfod_begin");
    *(void **)&set_watch = dlsym(d->library, "debuginfod_set_progressfn");
    *(void **)&d->end = dlsym(d->library, "debuginfod_end");
    *(void **)&d->find[DEBUGINFOD_DEBUG] = dlsym(d->library, "debuginfod_find_debuginfo");
    *(void **)&d->find[DEBUGINFOD_EXECUTABLE] = dlsym(d->library, "debuginfod_find_executable");
    if (!start || !set_watch || !d->end || !d->find[0] || !d->find[1] || !(d->client = start()))
        return false;
    set_watch(d->client, watch);
    return true;
}

char *debuginfod_fetch(struct spex_module *module, const struct module_id *id,
                       enum debuginfod_kind kind)
{
    struct spex_symbols *symbols = module->owner;
    char *path = NULL;
    if (!symbols->debuginfod) {
        symbols->debuginfod = memory_get(1, sizeof *symbols->debuginfod);
        symbols->debuginfod->given_up = !begin(symbols->debuginfod);
    }
    struct debuginfod *d = symbols->debuginfod;
    if (d->given_up || !id->size)
        return NULL;
    d->module = module;
    d->last = 0;
    d->since = now();
    current = d;
    int fd = d->find[kind](d->client, id->bytes, (int)id->size, &path);
    if (fd >= 0) {
        close(fd);
        return path;
    }
    /* a server that does not answer is not asked for every file */
    if (fd != -ENOENT) {
        d->given_up = true;
        module_problem(module,
                       "%s: the servers of DEBUGINFOD_URLS will not be asked again (%s); other "
                       "files are named without them",
                       module->name, strerror(-fd));
    }
    return NULL;
}

void debuginfod_free(struct spex_symbols *symbols)
{
    struct debuginfod *d = symbols->debuginfod;
    if (!d)
        return;
    if (d->client)
        d->end(d->client);
    /* never unloaded: libraries that it loads (TLS) keep state */
    memory_free(d);
}
