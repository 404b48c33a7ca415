/* spex ship: sends the finished profiles in a directory to ClickHouse, each once. */
#include "fleet.h"
#include "output.h"
#include "spool.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_EVERY = 30, /* seconds between scans, for changes that inotify does not report */
    WAIT_FIRST = 2,
    WAIT_MOST = 300,
    CHILD_RETRY = 10,
    TRIES = 5, /* how often a server that is running may refuse a file */
    REASON_MOST = 4096
};

struct ship_options {
    struct profile_options profile;
    struct fleet_options fleet;
    const char *spool, *host, *boot, *metrics;
    uint64_t limit;
    bool once;
};

/* What the process that sends a file reports to its parent. */
struct outcome {
    enum fleet_result result;
    bool done, server; /* done: result is set; server: it still answers other requests */
    uint64_t rows;
};

struct ship {
    const struct ship_options *options;
    struct spool spool;
    char *boot;
    struct outcome *outcome; /* shared with the child */
    bool up;
    uint64_t sent, rows, bytes, aside, dropped, dropped_bytes, failures;
    time_t last;
};

static volatile sig_atomic_t stop;
static volatile pid_t child;

static void on_signal(int number)
{
    stop = number;
    if (child > 0)
        kill(child, SIGKILL); /* if only part of the file was sent, the next round replaces it */
}

/* ---- metrics ---- */

static void put_metric(struct out *out, const char *name, const char *type, const char *help)
{
    out_printf(out, "# HELP spex_ship_%s %s\n# TYPE spex_ship_%s %s\n", name, help, name, type);
}

static void put_value(struct out *out, const char *name, uint64_t value)
{
    out_printf(out, "spex_ship_%s %llu\n", name, (unsigned long long)value);
}

static bool put_metrics(void *context, int fd)
{
    const struct ship *s = context;
    struct out out;
    out_init(&out, fd);
    put_metric(&out, "files_total", "counter", "Profiles by what became of them");
    put_value(&out, "files_total{result=\"sent\"}", s->sent);
    put_value(&out, "files_total{result=\"aside\"}", s->aside);
    put_value(&out, "files_total{result=\"dropped\"}", s->dropped);
    put_metric(&out, "rows_total", "counter", "Rows sent");
    put_value(&out, "rows_total", s->rows);
    put_metric(&out, "bytes_total", "counter", "Bytes of the profiles that were sent");
    put_value(&out, "bytes_total", s->bytes);
    put_metric(&out, "dropped_bytes_total", "counter", "Bytes removed because the spool was full");
    put_value(&out, "dropped_bytes_total", s->dropped_bytes);
    put_metric(&out, "failures_total", "counter", "Attempts that the server did not take");
    put_value(&out, "failures_total", s->failures);
    put_metric(&out, "spool_files", "gauge", "Profiles that wait");
    put_value(&out, "spool_files", s->spool.count);
    put_metric(&out, "spool_bytes", "gauge", "Bytes in the spool, with what was set aside");
    put_value(&out, "spool_bytes", s->spool.bytes);
    put_metric(&out, "server_up", "gauge", "Whether the last attempt reached the server");
    put_value(&out, "server_up", s->up);
    put_metric(&out, "last_sent_timestamp_seconds", "gauge", "When a profile was last sent");
    put_value(&out, "last_sent_timestamp_seconds", (uint64_t)s->last);
    int error = out_fini(&out);
    if (error)
        cli_error("--metrics: %s: %s", s->options->metrics, strerror(error));
    return !error;
}

/* Readable by everyone, because any user's monitoring may collect it. */
static void write_metrics(struct ship *s)
{
    struct output output;
    if (!s->options->metrics || output_open(&output, s->options->metrics, 0))
        return;
    output_mode(&output, "644");
    output_make(&output, put_metrics, s); /* prints its own messages */
    output_close(&output);
}

/* ---- one file, in a process of its own ---- */

static void send_file(const struct ship *s, const char *path)
{
    const struct ship_options *o = s->options;
    struct export_settings settings = {
        .host = o->host, .boot = o->boot ? o->boot : s->boot, .version = spex_version()};
    struct fleet_options fleet = o->fleet;
    struct export_fleet to = {0};
    struct spex_error error;
    int status;
    fleet.retry = fleet.retry < CHILD_RETRY ? fleet.retry : CHILD_RETRY;
    s->outcome->result = FLEET_NO_SERVER;
    if (fleet_connect(&fleet, false, &to.server)) {
        s->outcome->done = true;
        return;
    }
    s->outcome->result = fleet_send(&to, &o->profile, path, &settings, &status);
    s->outcome->rows = to.rows;
    if (s->outcome->result == FLEET_NO_SERVER) {
        struct clickhouse_request request = {.query = "SELECT schema FROM spex_schema"};
        s->outcome->server = !clickhouse_try(to.server, &request, &error);
    }
    s->outcome->done = true;
    clickhouse_free(to.server);
}

/* Reads the child's messages, to print them and as a reason; the text ends with a 0. */
static void read_reason(int fd, char reason[REASON_MOST])
{
    char rest[512];
    size_t size = 0;
    ssize_t n;
    while ((n = size < REASON_MOST - 1 ? read(fd, reason + size, REASON_MOST - 1 - size)
                                       : read(fd, rest, sizeof rest)) > 0 ||
           (n < 0 && errno == EINTR))
        if (n > 0 && size < REASON_MOST - 1)
            size += (size_t)n;
    reason[size] = 0;
}

static enum fleet_result run_child(struct ship *s, const char *name, char reason[REASON_MOST])
{
    char path[8192];
    int fds[2], status = 0;
    snprintf(path, sizeof path, "%s/%s", s->spool.path, name);
    *s->outcome = (struct outcome){0};
    reason[0] = 0;
    if (pipe2(fds, O_CLOEXEC)) {
        cli_error("no pipe: %s", strerror(errno));
        return FLEET_NO_SERVER;
    }
    child = fork();
    if (!child) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child must not outlive a ship that was killed */
        dup2(fds[1], STDERR_FILENO);
        send_file(s, path);
        fflush(stderr);
        _exit(0);
    }
    close(fds[1]);
    if (child < 0)
        cli_error("no process: %s", strerror(errno));
    else
        read_reason(fds[0], reason);
    close(fds[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    bool was = child > 0;
    child = 0;
    if (!was)
        return FLEET_NO_SERVER;
    if (!s->outcome->done && WIFSIGNALED(status))
        snprintf(reason + strlen(reason), REASON_MOST - strlen(reason),
                 "spex: reading it ended by signal %d\n", WTERMSIG(status));
    /* ended early, by a signal or out of memory: blame the file */
    return s->outcome->done ? s->outcome->result : FLEET_BAD_FILE;
}

/* ---- rounds ---- */

/* Prints warnings about a file that was sent nevertheless; each line already names the command. */
static void tell_lines(const char *text)
{
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        cli_put("", "%.*s", (int)n, text);
        fputc('\n', stderr);
    }
}

/* False: the server is not available, so the other files need not be tried. */
static bool ship_file(struct ship *s, struct spool_file *file)
{
    char reason[REASON_MOST];
    enum fleet_result result = run_child(s, file->name, reason);
    if (stop)
        return false;
    s->up = result != FLEET_NO_SERVER || s->outcome->server;
    if (result == FLEET_SENT) {
        s->sent++;
        s->rows += s->outcome->rows;
        s->bytes += file->size;
        s->last = time(NULL);
        tell_lines(reason);
        spool_remove(&s->spool, file);
        return true;
    }
    if (result == FLEET_NO_SERVER) {
        s->failures++;
        cli_note("%s/%s was not sent: %.*s", s->spool.path, file->name, (int)strcspn(reason, "\n"),
                 reason);
        if (!s->outcome->server)
            return false;
        if (++file->tries < TRIES)
            return true;
    }
    s->aside += spool_set_aside(&s->spool, file, reason[0] ? reason : "no reason was given\n");
    return true;
}

/* Makes one pass over the spool; true if no file waits for the server. */
static bool ship_round(struct ship *s)
{
    bool calm = spool_scan(&s->spool);
    struct spool_dropped dropped = spool_bound(&s->spool, s->options->limit);
    s->dropped += dropped.files;
    s->dropped_bytes += dropped.bytes;
    for (size_t i = 0; i < s->spool.count && !stop; i++) {
        struct spool_file *file = &s->spool.files[i];
        if (!file->finished)
            continue;
        bool reached = ship_file(s, file);
        calm &= reached && !file->tries;
        if (!reached)
            break;
    }
    calm &= spool_scan(&s->spool);
    write_metrics(s);
    return calm;
}

static void wait_for_files(int notify, int seconds)
{
    char events[4096];
    struct pollfd poll_fd = {.fd = notify, .events = POLLIN};
    if (poll(&poll_fd, notify >= 0, 1000 * seconds) > 0)
        while (read(notify, events, sizeof events) > 0)
            ;
}

static int ship_all(struct ship *s)
{
    int notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), wait = WAIT_FIRST;
    if (notify < 0 || inotify_add_watch(notify, s->spool.path, IN_CLOSE_WRITE | IN_MOVED_TO) < 0)
        cli_note("%s cannot be watched (%s): it is looked at every %d s", s->spool.path,
                 strerror(errno), LOOK_EVERY);
    while (!stop) {
        bool calm = ship_round(s);
        if (s->options->once)
            return calm && !stop ? CLI_OK : CLI_DATA;
        if (!stop)
            wait_for_files(calm ? notify : -1, calm ? LOOK_EVERY : wait);
        wait = calm ? WAIT_FIRST : wait * 2 < WAIT_MOST ? wait * 2 : WAIT_MOST;
    }
    cli_note("ended by signal %d; what is left is sent next time", (int)stop);
    return CLI_OK;
}

/*
 * The metrics file is rewritten after each round, so it must not be a file that ship reads, or lie
 * where profiles wait.
 */
static int check_metrics(const struct ship *s)
{
    const char *const inputs[] = {s->options->fleet.credentials, s->options->fleet.ca};
    struct output output;
    if (!s->options->metrics)
        return CLI_OK;
    int status = output_open(&output, s->options->metrics, 0);
    for (size_t i = 0; !status && i < sizeof inputs / sizeof *inputs; i++)
        status = inputs[i] ? output_from(&output, inputs[i]) : CLI_OK;
    if (!status && output_is_in(&output, s->spool.path))
        status = cli_usage("--metrics: %s lies in the spool: name a file elsewhere",
                           s->options->metrics);
    output_close(&output);
    return status;
}

static int run_ship(void *options, int argc, char **argv)
{
    const struct ship_options *o = options;
    struct ship s = {.options = o};
    struct clickhouse *server;
    size_t size;
    (void)argv;
    if (argc)
        return cli_usage("too many operands");
    if (!o->spool)
        return cli_usage("--spool DIR is missing: where the recorder puts its files");
    int status =
        fleet_connect(&o->fleet, false, &server); /* finds mistakes in the options right away */
    if (status)
        return status;
    clickhouse_free(server);
    if ((status = spool_open(&s.spool, o->spool)))
        return status;
    if ((status = check_metrics(&s))) {
        spool_close(&s.spool);
        return status;
    }
    s.outcome =
        mmap(NULL, sizeof *s.outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.outcome == MAP_FAILED) {
        cli_error("no memory: %s", strerror(errno));
        spool_close(&s.spool);
        return CLI_DATA;
    }
    s.boot = file_read_named("/proc/sys/kernel/random/boot_id", 4096, FILE_ANY_OWNER, &size);
    if (s.boot)
        s.boot[strcspn(s.boot, "\n")] = 0;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    status = ship_all(&s);
    munmap(s.outcome, sizeof *s.outcome);
    free(s.boot);
    spool_close(&s.spool);
    return status;
}

static const struct cli_option ship_options[] = {
    {"spool", 0, CLI_STRING, offsetof(struct ship_options, spool), "DIR",
     "directory that the recorder writes to; sent files are removed", NULL, NULL},
    FLEET_OPTIONS(struct ship_options),
    {"spool-limit", 0, CLI_NUMBER, offsetof(struct ship_options, limit), "SIZE",
     "size limit while the server is unreachable; the oldest files are dropped first", "4G", NULL},
    {"metrics", 0, CLI_STRING, offsetof(struct ship_options, metrics), "FILE",
     "counters as Prometheus reads them: a .prom file for node_exporter's textfile collector", NULL,
     NULL},
    {"once", 0, CLI_FLAG, offsetof(struct ship_options, once), NULL,
     "send what is there and exit, with status 1 if anything could not be sent", NULL, NULL},
    {"host", 0, CLI_STRING, offsetof(struct ship_options, host), "NAME",
     "machine name to send, instead of the one in the files", NULL, NULL},
    {"boot", 0, CLI_STRING, offsetof(struct ship_options, boot), "ID",
     "boot id to send (default: the kernel's)", NULL, NULL},
    CLI_MEMORY(PROFILE_AT(struct ship_options, max_memory)),
    PROFILE_REPLAY(struct ship_options),
    PROFILE_SYMBOL_OPTIONS(struct ship_options),
    {0},
};

const struct cli_command cli_ship = {
    .name = "ship",
    .group = CLI_OTHERS,
    .pages = true,
    .synopsis = "--spool DIR --url URL",
    .summary = "send the finished profiles of a directory to ClickHouse, each once",
    .details =
        "Watches a directory that perf record --switch-output or spex record fills, and sends each "
        "file that is finished as spex export --to clickhouse does, oldest first, then removes it. "
        "Nothing is sent twice, even if spex or the server is killed in between. While the server "
        "is away files wait; one "
        "that cannot be read is moved to DIR/aside with its reason, and the rest goes on. "
        "docs/fleet.md has a systemd unit and what the metrics mean.",
    .options = ship_options,
    .size = sizeof(struct ship_options),
    .run = run_ship,
};
