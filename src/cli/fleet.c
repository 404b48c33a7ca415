#include "fleet.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CREDENTIALS_MOST = 64 << 10 };

struct credentials {
    char *text; /* text of the credentials file, which the others point into */
    const char *user, *password;
};

/* Reads "user NAME" and "password SECRET", each up to the end of its line. */
static int read_credentials(const char *path, struct credentials *c)
{
    struct stat st;
    size_t size;
    if (!(c->text = file_read_named(path, CREDENTIALS_MOST, FILE_OWN_OR_ROOT, &size))) {
        cli_error("--credentials: %s: %s", path,
                  errno == EPERM ? "it must belong to you or to root" : strerror(errno));
        return CLI_DATA;
    }
    if (!stat(path, &st) && st.st_mode & S_IROTH) {
        cli_error("--credentials: %s can be read by everybody: chmod 600 it", path);
        return CLI_DATA;
    }
    for (char *line = c->text, *next; *line; line = next) {
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] == '\n');
        line[n] = 0;
        if (!strncmp(line, "user ", 5))
            c->user = line + 5;
        else if (!strncmp(line, "password ", 9))
            c->password = line + 9;
        else if (*line && *line != '#') {
            cli_error("--credentials: %s: a line is neither 'user NAME' nor 'password SECRET'",
                      path);
            return CLI_DATA;
        }
    }
    return CLI_OK;
}

static void tell_waiting(void *context, const char *why, unsigned ms)
{
    (void)context;
    cli_note("%s; trying again in %.1f s", why, ms / 1000.0);
}

/* Is the connection encrypted, or local to this machine? */
static bool is_private(const char *url)
{
    if (!strncmp(url, "https://", 8))
        return true;
    const char *host = url + strcspn(url, "/");
    host += strspn(host, "/");
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    return (n == 9 && !strncmp(host, "localhost", n)) || (n == 5 && !strncmp(host, "[::1]", n)) ||
           (!strncmp(host, "127.", 4) && strspn(host, "0123456789.") == n);
}

int fleet_connect(const struct fleet_options *o, bool waiting, struct clickhouse **server)
{
    struct credentials c = {.user = getenv("SPEX_CLICKHOUSE_USER"),
                            .password = getenv("SPEX_CLICKHOUSE_PASSWORD")};
    static bool told;
    struct spex_error error;
    int status = CLI_OK;
    if (!o->url)
        return cli_usage("--url URL is missing: ClickHouse's HTTP interface, http://HOST:8123");
    if (o->credentials)
        status = read_credentials(o->credentials, &c);
    struct clickhouse_options options = {
        .url = o->url,
        .database = o->database,
        .user = c.user,
        .password = c.password,
        .ca = o->ca,
        .retry = o->retry > UINT32_MAX / 1000 ? UINT32_MAX / 1000 : (unsigned)o->retry,
        .patience = o->patience > 86400 ? 86400 : (unsigned)o->patience,
        .waiting = waiting ? tell_waiting : NULL};
    if (!status && c.password && !is_private(o->url) && !told) {
        cli_note("the password goes to %s unencrypted: use https://", o->url);
        told = true;
    }
    if (!status) {
        enum spex_status made = clickhouse_new(&options, server, &error);
        if (made == SPEX_RANGE)
            status = cli_usage("--url: %s", error.text);
        else if (made) {
            cli_error("%s", error.text);
            status = CLI_DATA;
        }
    }
    free(c.text);
    return status;
}

/* ---- queries ---- */

/*
 * Errors of ClickHouse about a shard rather than the server itself: no connection to it, or one
 * that was lost.
 */
static bool is_shard_away(int code)
{
    return code == 279 || code == 210 || code == 209 || code == 198 || code == 32 || code == 102;
}

/* Reports how many of the cluster's servers answer. */
static char *shards_text(struct clickhouse *server)
{
    static const char *const queries[] = {
        "SELECT cluster FROM spex_schema",
        "SELECT count() FROM cluster('%s', system.one)",
        "SELECT uniqExact(shard_num) FROM system.clusters WHERE cluster = '%s'",
    };
    char cells[3][100] = {"", "some", "its"}, query[200];
    struct out answer;
    struct spex_error error;
    out_init(&answer, -1);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(query, sizeof query, queries[i], cells[0]);
        struct clickhouse_request request = {
            .query = query, .settings = "&skip_unavailable_shards=1", .answer = &answer};
        if (!clickhouse_try(server, &request, &error))
            snprintf(cells[i], sizeof cells[i], "%.*s", (int)strcspn(answer.data, "\n"),
                     answer.data);
    }
    out_fini(&answer);
    char *text = memory_get(1, 400);
    snprintf(text, 400,
             "PARTIAL: %s of %s shards of cluster %s answer; the hosts of the others are missing",
             cells[1], cells[2], cells[0]);
    return text;
}

int fleet_ask(struct clickhouse *server, const char *query, struct out *answer, char **partial)
{
    struct clickhouse_request request = {.query = query, .answer = answer};
    struct spex_error error;
    *partial = NULL;
    enum spex_status status = clickhouse_try(server, &request, &error);
    if (status == SPEX_IO && is_shard_away(clickhouse_code(server))) {
        request.settings = "&skip_unavailable_shards=1";
        status = clickhouse_try(server, &request, &error);
        if (!status)
            *partial = shards_text(server);
    } else if (status == SPEX_IO) {
        status = clickhouse_ask(server, &request, &error);
    }
    if (status)
        cli_error("%s", error.text);
    return status ? CLI_DATA : CLI_OK;
}

/* "30m", "1h", "7d" in seconds; 0 for any other text. */
static uint64_t seconds_of(const char *text)
{
    static const char units[] = "smhd";
    static const unsigned each[] = {1, 60, 3600, 86400};
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    return *text >= '0' && *text <= '9' && unit && !end[1] && n < 1000000 ? n * each[unit - units]
                                                                          : 0;
}

static void put_pattern(struct out *out, const char *name, size_t size)
{
    struct out pattern;
    out_init(&pattern, -1);
    for (size_t i = 0; i < size; i++) {
        if (strchr("%_\\", name[i]))
            out_char(&pattern, '\\');
        out_char(&pattern, name[i] == '*' ? '%' : name[i] == '?' ? '_' : name[i]);
    }
    out_char(&pattern, 0);
    clickhouse_quote(out, pattern.data);
    out_fini(&pattern);
}

int fleet_where(struct out *out, const char *time, const char *hosts, const char *last)
{
    uint64_t seconds = last ? seconds_of(last) : 0;
    if (last && !seconds)
        return cli_usage("--last: '%s' is not a time such as 30m, 1h or 7d", last);
    if (last)
        out_printf(out, " AND %s >= toStartOfMinute(toDateTime(now() - %llu))", time,
                   (unsigned long long)seconds);
    for (size_t n, i = 0; hosts && *hosts; hosts += n + (hosts[n] == ','), i++) {
        n = strcspn(hosts, ",");
        out_text(out, i ? " OR host LIKE " : " AND (host LIKE ");
        put_pattern(out, hosts, n);
        if (!hosts[n] || !hosts[n + 1])
            out_char(out, ')');
    }
    return CLI_OK;
}

/* ---- sending ---- */

void fleet_tell(const struct export_fleet *fleet)
{
    const char *name = fleet->path;
    char rows[32], there[32];
    if (fleet->whole)
        cli_note("%s was sent before: %s rows are there, nothing was added", name,
                 text_count(there, fleet->there));
    else
        cli_note("%s: %s rows sent%s%s%s", name, text_count(rows, fleet->rows),
                 fleet->there ? ", " : "", fleet->there ? text_count(there, fleet->there) : "",
                 fleet->there ? " were there" : "");
    if (fleet->repaired)
        cli_note("%s part%s that had been left half sent %s sent again",
                 text_count(rows, fleet->repaired), fleet->repaired == 1 ? "" : "s",
                 fleet->repaired == 1 ? "was" : "were");
}

static void tell_other(const struct export_fleet *fleet)
{
    cli_note("%s is being sent by another spex: waiting for it", fleet->path);
}

enum fleet_result fleet_send(struct export_fleet *fleet, const struct profile_options *options,
                             const char *path, struct export_settings *settings, int *exit_status)
{
    const struct export_format *format = &export_clickhouse;
    struct spex_analysis_options more = {
        .size = sizeof more, .ordered = format->ordered, .want = format->want};
    struct profile p;
    struct out filters;
    enum fleet_result result = FLEET_SENT;
    *exit_status = profile_open(&p, options, path, &more);
    if (*exit_status)
        return FLEET_BAD_FILE;
    if (!p.directory) {
        p.status = cli_usage("clickhouse: standard input cannot be read twice: name a file");
        *exit_status = profile_close(&p);
        return FLEET_BAD_FILE;
    }
    out_init(&filters, -1);
    profile_filters(&p, &filters);
    settings->filters = p.filter_count ? filters.data : NULL;
    fleet->path = settings->input = p.name;
    settings->fleet = fleet;
    fleet->waiting = tell_other;
    struct export_job job = {.analysis = p.analysis, .settings = settings};
    export_begin(format, &job);
    if (export_clickhouse_ready(&job)) {
        p.status = profile_run(&p, (struct spex_sink){format->sink, &job});
        fleet->failed = p.status != CLI_OK;
    }
    if (export_end(format, &job)) {
        cli_error("%s", job.error.text);
        p.status = CLI_DATA;
        result = FLEET_NO_SERVER;
    } else if (fleet->failed) {
        result = FLEET_BAD_FILE;
    }
    out_fini(&job.notes);
    out_fini(&filters);
    *exit_status = profile_close(&p);
    return result;
}
