#include "clickhouse.h"

#include "base/error.h"
#include "base/memory.h"
#include "export/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MOST = 256 << 20,
    CONNECT_TIMEOUT = 10,
    PATIENCE = 300, /* seconds for which a server may be silent, since it may have to merge */
    WAIT_FIRST = 200,
    WAIT_MOST = 15000
};

struct clickhouse {
    struct http *http;
    struct clickhouse_options options;
    char *url, *database;
    struct out target, scratch;
    int code;
};

static const char hex[] = "0123456789ABCDEF";

static void put_encoded(struct out *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            c == '_') {
            out_char(out, *text);
        } else {
            out_char(out, '%');
            out_char(out, hex[c >> 4]);
            out_char(out, hex[c & 15]);
        }
    }
}

void clickhouse_quote(struct out *out, const char *text)
{
    out_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            out_char(out, '\\');
        if (*text == '\n' || *text == '\t')
            out_text(out, *text == '\n' ? "\\n" : "\\t");
        else
            out_char(out, *text);
    }
    out_char(out, '\'');
}

void clickhouse_name(struct out *out, const char *name)
{
    out_char(out, '`');
    for (; *name; name++) {
        if (*name == '`' || *name == '\\')
            out_char(out, '\\');
        out_char(out, *name);
    }
    out_char(out, '`');
}

static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case '0':
        return '0'; /* a 0 byte becomes a digit 0, so that the text does not end there */
    default:
        return c;
    }
}

char *clickhouse_cell(char **at, char *end)
{
    char *begin = *at, *to = begin, *from = begin;
    if (!*from)
        return NULL;
    for (; *from && *from != '\t' && *from != '\n'; from++)
        *to++ = *from == '\\' && from[1] ? unescape(*++from) : *from;
    *end = *from;
    *at = *from ? from + 1 : from;
    *to = 0;
    return begin;
}

/* ---- making one ---- */

static enum spex_status check_url(const char *url, struct spex_error *error)
{
    const char *rest = !strncmp(url, "http://", 7)    ? url + 7
                       : !strncmp(url, "https://", 8) ? url + 8
                                                      : NULL;
    if (!rest || !*rest || *rest == '/')
        return error_set(
            error, SPEX_RANGE, 0,
            "'%.100s' is not a URL of ClickHouse's HTTP interface: http://HOST:8123 or "
            "https://HOST:8443",
            url);
    if (strpbrk(rest, "?#"))
        return error_set(error, SPEX_RANGE, 0, "the URL ends before '?': '%.100s'", url);
    if (strchr(rest, '@'))
        return error_set(error, SPEX_RANGE, 0,
                         "a password in a URL is seen by every process: give it by "
                         "--credentials FILE or SPEX_CLICKHOUSE_PASSWORD");
    return SPEX_OK;
}

/* Goes into a header: a newline would begin another one. */
static enum spex_status put_header(struct out *out, const char *name, const char *value,
                                   struct spex_error *error)
{
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < ' ')
            return error_set(error, SPEX_RANGE, 0,
                             "the user or the password has a control character");
    out_text(out, name);
    out_text(out, ": ");
    out_text(out, value);
    out_char(out, 0);
    return SPEX_OK;
}

enum spex_status clickhouse_new(const struct clickhouse_options *options,
                                struct clickhouse **server, struct spex_error *error)
{
    struct out user, password;
    const char *headers[4] = {"Expect:"};
    size_t count = 1;
    enum spex_status status = check_url(options->url, error);
    if (status)
        return status;
    struct clickhouse *s = memory_get(1, sizeof *s);
    s->options = *options;
    s->url = memory_copy(options->url);
    s->database = memory_copy(options->database ? options->database : "spex");
    for (size_t n = strlen(s->url); n && s->url[n - 1] == '/'; n--)
        s->url[n - 1] = 0;
    out_init(&s->target, -1);
    out_init(&s->scratch, -1);
    out_init(&user, -1);
    out_init(&password, -1);
    if (options->user)
        status = put_header(&user, "X-ClickHouse-User", options->user, error);
    if (options->user)
        headers[count++] = user.data;
    if (!status && options->password)
        status = put_header(&password, "X-ClickHouse-Key", options->password, error);
    if (options->password)
        headers[count++] = password.data;
    struct http_options http = {.headers = headers,
                                .ca = options->ca,
                                .connect_timeout = CONNECT_TIMEOUT,
                                .patience = options->patience ? options->patience : PATIENCE};
    if (!status)
        status = http_new(&http, &s->http, error);
    out_fini(&user);
    out_fini(&password);
    if (status) {
        clickhouse_free(s);
        return status;
    }
    *server = s;
    return SPEX_OK;
}

void clickhouse_free(struct clickhouse *s)
{
    if (!s)
        return;
    http_free(s->http);
    out_fini(&s->target);
    out_fini(&s->scratch);
    free(s->url);
    free(s->database);
    free(s);
}

const char *clickhouse_database(const struct clickhouse *s)
{
    return s->database;
}

int clickhouse_code(const struct clickhouse *s)
{
    return s->code;
}

/* ---- requests ---- */

/* Errors of ClickHouse that do not pass by themselves (its ErrorCodes). */
static bool is_certain(int code)
{
    static const int codes[] = {
        10,  16,  36,  43,  44,  46,  47,  50,  53, /* columns, functions, types */
        60,  62,  81,  115, 117, 164, 192, 193, 194, 195 /* tables, syntax, settings, users */,
        291, 497, 516, /* rights */
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* "Code: 193, e.displayText() = DB::Exception: Wrong password ..., e.what() = ..." */
static enum spex_status refuse(struct clickhouse *s, long http, const char *text,
                               struct spex_error *error)
{
    const char *code = strstr(text, "Code: "), *message = strstr(text, "Exception: ");
    s->code = code ? atoi(code + 6) : 0;
    message = message ? message + 11 : text;
    const char *end = strstr(message, ", e.what()");
    size_t size = end ? (size_t)(end - message) : strcspn(message, "\n");
    int shown = size < 150 ? (int)size : 150;
    bool certain = s->code ? is_certain(s->code) : http < 500 && http != 408 && http != 429;
    if (s->code)
        return error_set(error, certain ? SPEX_INVALID : SPEX_IO, 0, "%.60s: error %d: %.*s",
                         s->url, s->code, shown, message);
    return error_set(error, certain ? SPEX_INVALID : SPEX_IO, 0,
                     "%.60s answers with HTTP status %ld: %.*s", s->url, http, shown, message);
}

enum spex_status clickhouse_try(struct clickhouse *s, const struct clickhouse_request *r,
                                struct spex_error *error)
{
    struct out *answer = r->answer ? r->answer : &s->scratch;
    struct spex_error reason;
    const char *body = r->body ? r->body : r->query;
    bool certain;
    long http;
    s->code = 0;
    s->target.size = answer->size = 0;
    if (answer->fd >= 0 && (ftruncate(answer->fd, 0) || lseek(answer->fd, 0, SEEK_SET)))
        return error_set(error, SPEX_INVALID, 0, "a temporary file: %s", strerror(errno));
    out_text(&s->target, s->url);
    out_text(&s->target, "/?wait_end_of_query=1&database=");
    put_encoded(&s->target, s->database);
    if (r->id) {
        out_text(&s->target, "&query_id=");
        put_encoded(&s->target, r->id);
    }
    if (r->settings)
        out_text(&s->target, r->settings);
    if (r->body) {
        out_text(&s->target, "&query=");
        put_encoded(&s->target, r->query);
    }
    out_char(&s->target, 0);
    enum spex_status status =
        http_post(s->http, s->target.data, body, r->body ? r->size : strlen(body), answer,
                  ANSWER_MOST, &http, &certain, &reason);
    out_char(answer, 0);
    answer->size--;
    if (status)
        return error_set(error, certain ? SPEX_INVALID : SPEX_IO, 0, "%.60s: %.150s", s->url,
                         reason.text);
    if (http != 200)
        return refuse(s, http, answer->data, error);
    if (answer->fd >= 0)
        out_flush(answer);
    if (answer->error && answer->error != ENOMEM)
        return error_set(error, SPEX_INVALID, 0, "the answer of %.60s cannot be kept: %s", s->url,
                         strerror(answer->error));
    if (answer->error || s->target.error)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for what %.60s answers", s->url);
    return SPEX_OK;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool clickhouse_wait(struct clickhouse *s, struct clickhouse_patience *p, const char *why)
{
    uint64_t now = now_ms();
    if (!p->begin) {
        p->begin = now;
        p->next = WAIT_FIRST;
    }
    uint64_t over = p->begin + (p->seconds ? p->seconds : s->options.retry) * UINT64_C(1000);
    if (now >= over)
        return false;
    unsigned ms = over - now < p->next ? (unsigned)(over - now) : p->next;
    p->next = 2 * p->next < WAIT_MOST ? 2 * p->next : WAIT_MOST;
    if (s->options.waiting)
        s->options.waiting(s->options.context, why, ms);
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
    return true;
}

enum spex_status clickhouse_ask(struct clickhouse *s, const struct clickhouse_request *request,
                                struct spex_error *error)
{
    struct clickhouse_patience patience = {0};
    enum spex_status status;
    do
        status = clickhouse_try(s, request, error);
    while (status == SPEX_IO && clickhouse_wait(s, &patience, error->text));
    return status;
}
