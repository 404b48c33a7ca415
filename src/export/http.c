#include "http.h"

#include "base/error.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef void curl_type;
struct curl_list;

/* Numbers of libcurl's ABI, which does not change (curl.h). */
enum {
    OPTION_URL = 10002,
    OPTION_HEADERS = 10023,
    OPTION_BODY = 10015,
    OPTION_BODY_SIZE = 30120,
    OPTION_WRITE = 20011,
    OPTION_WRITE_TO = 10001,
    OPTION_ERROR = 10010,
    OPTION_CONNECT_TIMEOUT = 78,
    OPTION_SLOW_LIMIT = 19,
    OPTION_SLOW_TIME = 20,
    OPTION_NO_SIGNAL = 99,
    OPTION_PROTOCOLS = 181,
    OPTION_CA = 10065,
    OPTION_AGENT = 10018,
    INFO_CODE = 0x200002,
    PROTOCOL_HTTP = 1,
    PROTOCOL_HTTPS = 2,
    ERROR_SIZE = 256,
    SLOW = 1000, /* bytes a second: less is as good as nothing */
    /* errors that stay */
    FAILED_PROTOCOL = 1,
    FAILED_URL = 3,
    FAILED_CERTIFICATE = 60,
    FAILED_CA_FILE = 77,
};

struct http {
    curl_type *easy;
    struct curl_list *headers;
    char message[ERROR_SIZE];
    int (*set)(curl_type *, int, ...);
    int (*perform)(curl_type *);
    int (*info)(curl_type *, int, ...);
    const char *(*reason)(int);
    void (*cleanup)(curl_type *);
    struct curl_list *(*append)(struct curl_list *, const char *);
    void (*free_list)(struct curl_list *);
    /* the answer under way */
    struct out *answer;
    size_t most;
    bool over; /* the answer is larger than `most` */
};

static size_t take(char *data, size_t one, size_t size, void *context)
{
    struct http *h = context;
    h->over |= h->answer->fd < 0 && size > h->most - h->answer->size;
    if (h->over)
        return 0; /* ends the request */
    out_bytes(h->answer, data, size);
    return one * size;
}

static void *open_library(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library; /* never unloaded: libraries that it loads (TLS) keep state */
}

static void set_options(struct http *h, const struct http_options *o)
{
    for (const char *const *header = o->headers; header && *header; header++) {
        struct curl_list *longer = h->append(h->headers, *header);
        h->headers = memory_checked(longer);
    }
    h->set(h->easy, OPTION_HEADERS, h->headers);
    h->set(h->easy, OPTION_WRITE, take);
    h->set(h->easy, OPTION_WRITE_TO, h);
    h->set(h->easy, OPTION_ERROR, h->message);
    h->set(h->easy, OPTION_CONNECT_TIMEOUT, (long)o->connect_timeout);
    h->set(h->easy, OPTION_SLOW_LIMIT, (long)SLOW);
    h->set(h->easy, OPTION_SLOW_TIME, (long)o->patience);
    h->set(h->easy, OPTION_NO_SIGNAL, 1L);
    h->set(h->easy, OPTION_PROTOCOLS, (long)(PROTOCOL_HTTP | PROTOCOL_HTTPS));
    h->set(h->easy, OPTION_AGENT, "spex");
    if (o->ca)
        h->set(h->easy, OPTION_CA, o->ca);
}

enum spex_status http_new(const struct http_options *options, struct http **http,
                          struct spex_error *error)
{
    curl_type *(*start)(void) = NULL;
    void *library = open_library();
    if (!library)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "libcurl, which speaks to ClickHouse, is missing: install it (Debian "
                         "and Ubuntu: apt-get install libcurl4)");
    struct http *h = memory_get(1, sizeof *h);
    *(void **)&start = dlsym(library, "curl_easy_init");
    *(void **)&h->set = dlsym(library, "curl_easy_setopt");
    *(void **)&h->perform = dlsym(library, "curl_easy_perform");
    *(void **)&h->info = dlsym(library, "curl_easy_getinfo");
    *(void **)&h->reason = dlsym(library, "curl_easy_strerror");
    *(void **)&h->cleanup = dlsym(library, "curl_easy_cleanup");
    *(void **)&h->append = dlsym(library, "curl_slist_append");
    *(void **)&h->free_list = dlsym(library, "curl_slist_free_all");
    if (!start || !h->set || !h->perform || !h->info || !h->reason || !h->cleanup || !h->append ||
        !h->free_list || !(h->easy = start())) {
        free(h);
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "libcurl is there but cannot be used: it lacks functions or memory");
    }
    set_options(h, options);
    *http = h;
    return SPEX_OK;
}

void http_free(struct http *h)
{
    if (!h)
        return;
    h->cleanup(h->easy);
    h->free_list(h->headers);
    free(h);
}

enum spex_status http_post(struct http *h, const char *url, const void *body, size_t size,
                           struct out *answer, size_t most, long *code, bool *certain,
                           struct spex_error *error)
{
    h->answer = answer;
    h->most = most;
    h->over = false;
    h->message[0] = 0;
    h->set(h->easy, OPTION_URL, url);
    h->set(h->easy, OPTION_BODY_SIZE, (int64_t)size);
    h->set(h->easy, OPTION_BODY, body);
    int result = h->perform(h->easy);
    *certain = result == FAILED_PROTOCOL || result == FAILED_URL || result == FAILED_CERTIFICATE ||
               result == FAILED_CA_FILE || h->over;
    if (h->over)
        return error_set(error, SPEX_RANGE, 0, "the answer is larger than %zu MB", most >> 20);
    if (result)
        return error_set(error, SPEX_IO, 0, "%.200s",
                         h->message[0] ? h->message : h->reason(result));
    h->info(h->easy, INFO_CODE, code);
    return SPEX_OK;
}
