/* What commands that talk to ClickHouse share: options, credentials, connection. */
#ifndef CLI_FLEET_H
#define CLI_FLEET_H

#include "cli/profile.h"

#include "export/clickhouse.h"
#include "export/export.h"

struct fleet_options {
    const char *url, *database, *credentials, *ca;
    uint64_t retry, patience;
};

#define FLEET_AT(type, field) offsetof(type, fleet.field)
/* clang-format off */
#define FLEET_OPTIONS(type)                                                                    \
    {"url", 0, CLI_STRING, FLEET_AT(type, url), "URL",                                         \
     "ClickHouse's HTTP interface, http://HOST:8123 or https://HOST:8443", NULL, NULL},        \
    {"database", 0, CLI_STRING, FLEET_AT(type, database), "NAME",                              \
     "the server's database with the tables of spex", "spex", NULL},                           \
    {"credentials", 0, CLI_STRING, FLEET_AT(type, credentials), "FILE",                        \
     "a line 'user NAME' and a line 'password SECRET'; without it "                            \
     "SPEX_CLICKHOUSE_USER and SPEX_CLICKHOUSE_PASSWORD", NULL, NULL},                         \
    {"ca", 0, CLI_STRING, FLEET_AT(type, ca), "FILE",                                          \
     "CA certificates for https, instead of the system's", NULL, NULL},                  \
    {"retry", 0, CLI_NUMBER, FLEET_AT(type, retry), "SECONDS",                                 \
     "how long to retry while the server is unreachable or overloaded", "60", NULL},                    \
    {"patience", 0, CLI_NUMBER, FLEET_AT(type, patience), "SECONDS",                           \
     "give up a request after this long with hardly any answer", "300", NULL}
/* clang-format on */

/*
 * Returns CLI_OK, or the exit status after a message. waiting: tells on stderr what it waits for.
 */
int fleet_connect(const struct fleet_options *options, bool waiting, struct clickhouse **server);

/*
 * Asks the whole fleet. If a shard does not answer, the others are asked: *partial is then a
 * sentence that says so, which the caller frees; else NULL. CLI_OK, or CLI_DATA after a message.
 */
int fleet_ask(struct clickhouse *server, const char *query, struct out *answer, char **partial);

/*
 * Appends " AND ..." to select rows of these hosts (a list; * and ? match) and of the last "30m",
 * "1h" or "7d", by a column with the time; NULL selects all. CLI_OK, or CLI_USAGE after a message.
 */
int fleet_where(struct out *out, const char *time, const char *hosts, const char *last);

/* The result of sending a file. */
enum fleet_result {
    FLEET_SENT,     /* the server has it, from before or now */
    FLEET_BAD_FILE, /* the file cannot be read */
    FLEET_NO_SERVER /* the server is not available, or refuses it */
};
/*
 * Opens a profile, sends it to the fleet's server and closes it. Prints messages and sets the exit
 * status; fleet_tell reports what was done.
 */
enum fleet_result fleet_send(struct export_fleet *fleet, const struct profile_options *options,
                             const char *path, struct export_settings *settings, int *status);
void fleet_tell(const struct export_fleet *fleet);

#endif
