/* spex top: shows on a terminal what takes the time now. */
#include "top.h"

#include "base/out.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

struct top_options {
    struct record_options record; /* begins with struct run_options */
    int by, order;
    const char *symfs;
};

static const struct cli_option top_options[] = {
    RUN_OPTIONS,
    NATIVE_OPTIONS(struct top_options, record.native),
    {"by", 0, CLI_CHOICE, offsetof(struct top_options, by), "function|line|source|page",
     "what a row is", "function", top_by_names},
    {"order", 0, CLI_CHOICE, offsetof(struct top_options, order), "time|latency|samples",
     "what comes first", "time", top_order_names},
    {"symfs", 0, CLI_STRING, offsetof(struct top_options, symfs), "DIR",
     "look for the profiled binaries below this directory", NULL, NULL},
    {0},
};

/* ---- the screen ---- */

struct screen {
    struct termios before;
    struct top_recording *recording;
    struct top_view view;
    struct top_table table;
    bool typing; /* the user is typing the filter */
    unsigned chosen;
};

static volatile sig_atomic_t ended;

static void on_signal(int signo)
{
    if (signo != SIGWINCH)
        ended = 1;
}

static void put(const char *text)
{
    for (size_t n = strlen(text); n;) {
        ssize_t k = write(STDOUT_FILENO, text, n);
        if (k < 0 && errno != EINTR)
            return;
        text += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
}

static void enter(struct screen *s)
{
    struct termios raw = s->before;
    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    put("\033[?1049h\033[?25l");
}

static void leave(struct screen *s)
{
    put("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &s->before);
}

/* The size that the terminal reports; a serial line reports none, but the shell may know it. */
static unsigned extent(unsigned reported, const char *variable, unsigned otherwise)
{
    const char *text = getenv(variable);
    int n = reported ? (int)reported : text ? atoi(text) : 0;
    return n > 0 && n < 10000 ? (unsigned)n : otherwise;
}

static void measure(struct screen *s)
{
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    unsigned rows = extent(size.ws_row, "LINES", 24);
    s->view.columns = extent(size.ws_col, "COLUMNS", 80);
    s->view.rows = rows > 6 ? rows - 3 : 3; /* minus title, heading and keys */
}

/* The table has escaped names, so they are safe for terminals. */
static void put_line(struct out *out, const char *text, size_t length, bool chosen)
{
    if (chosen)
        out_text(out, "\033[7m");
    out_bytes(out, text, length);
    out_text(out, chosen ? "\033[0m\033[K\r\n" : "\033[K\r\n");
}

static void paint(struct screen *s, bool runs)
{
    char line[400];
    struct out out;
    unsigned rows = 0, columns = s->view.columns;
    out_init(&out, STDOUT_FILENO);
    out_text(&out, "\033[H");
    int n =
        snprintf(line, sizeof line, "spex top: %s%s; by %s, most %s first%s%s",
                 *s->table.title ? s->table.title : "no samples yet",
                 runs ? "" : " (the program has ended)", top_by_names[s->view.by],
                 top_order_names[s->view.order], *s->view.filter ? "; only *" : "", s->view.filter);
    if (*s->view.filter && n > 0 && n < (int)sizeof line - 1) {
        line[n++] = '*';
        line[n] = '\0';
    }
    size_t length = strlen(line);
    put_line(&out, line, length < columns ? length : columns, false);
    for (const char *at = s->table.text; at && *at && rows <= s->view.rows; rows++) {
        size_t k = strcspn(at, "\n");
        put_line(&out, at, k, rows && rows == s->chosen + 1);
        at += k + (at[k] != '\0');
    }
    out_text(&out, "\033[J");
    if (s->typing)
        snprintf(line, sizeof line, "only functions with: %s_", s->view.filter);
    else
        snprintf(line, sizeof line,
                 "f function  l line  s source  p page | t time  y latency  n samples | / filter  "
                 "up down  enter annotate  q quit");
    length = strlen(line);
    out_printf(&out, "\033[%u;1H", s->view.rows + 3);
    out_bytes(&out, line, length < columns ? length : columns - 1);
    out_text(&out, "\033[K");
    out_fini(&out);
}

static void annotate(struct screen *s)
{
    const char *name = s->table.names;
    char function[512];
    for (unsigned i = 0; name && i < s->chosen; i++) {
        name = strchr(name, '\n');
        name = name ? name + 1 : NULL;
    }
    if (s->view.by != TOP_FUNCTION || !name || !*name)
        return;
    snprintf(function, sizeof function, "%.*s", (int)strcspn(name, "\n"), name);
    leave(s);
    top_annotate(s->recording, &s->view, function);
    struct termios raw = s->before;
    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    put("-- a key goes back --");
    char key;
    if (read(STDIN_FILENO, &key, 1) < 0)
        ended = errno != EINTR;
    enter(s);
}

/* Handles a key typed into the filter. */
static void type(struct screen *s, char key)
{
    size_t n = strlen(s->view.filter);
    if (key == '\r' || key == '\n' || key == 27)
        s->typing = false;
    else if ((key == 127 || key == 8) && n)
        s->view.filter[n - 1] = '\0';
    else if (key > ' ' && key < 127 && key != ',' && n + 1 < sizeof s->view.filter)
        s->view.filter[n] = key, s->view.filter[n + 1] = '\0';
}

static void press(struct screen *s, char key)
{
    static const char by[] = "flsp", order[] = "tyn";
    const char *at;
    if (s->typing) {
        type(s, key);
    } else if (key == 'q') {
        ended = 1;
    } else if (key == '/') {
        s->typing = true;
        s->view.filter[0] = '\0';
    } else if (key == 'j' || key == 'B') { /* ESC [ B is the arrow */
        s->chosen += s->chosen + 1 < s->view.rows;
    } else if (key == 'k' || key == 'A') {
        s->chosen -= s->chosen > 0;
    } else if (key == '\r' || key == '\n') {
        annotate(s);
    } else if (key && (at = strchr(by, key))) {
        s->view.by = (int)(at - by);
        s->chosen = 0;
    } else if (key && (at = strchr(order, key))) {
        s->view.order = (int)(at - order);
    }
}

/* runs: the program had not ended before the samples were read. The last table is complete. */
static void show(struct screen *s, bool runs)
{
    struct top_table next;
    measure(s);
    if (top_look(s->recording, &s->view, &next)) {
        top_free(&s->table);
        s->table = next;
    } else if (*s->view.filter) {
        top_free(&s->table);
        snprintf(s->table.title, sizeof s->table.title, "no such function");
    }
    paint(s, runs);
}

static void live(struct screen *s)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
    enter(s);
    while (!ended) {
        char keys[64];
        bool runs = top_runs(s->recording);
        show(s, runs);
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&in, 1, runs || !*s->table.title ? 1000 : -1) <= 0)
            continue;
        ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
        if (n <= 0)
            break; /* the terminal is gone */
        for (ssize_t i = 0; i < n && !ended; i++)
            if (n < 3 || (keys[i] != 27 && keys[i] != '['))
                press(s, keys[i]);
    }
    leave(s);
}

/* ---- without a terminal: one table at the end ---- */

static int once(struct top_recording *r, struct top_view *view)
{
    struct top_table table;
    view->columns = cli_columns();
    view->rows = 40;
    while (r->process && waitpid(r->process, &r->status, 0) < 0 && errno == EINTR)
        ;
    r->process = 0;
    if (!top_look(r, view, &table)) {
        cli_error("no samples");
        return CLI_DATA;
    }
    struct out out;
    out_init(&out, STDOUT_FILENO);
    out_printf(&out, "# %s; by %s, most %s first\n", table.title, top_by_names[view->by],
               top_order_names[view->order]);
    out_text(&out, table.text);
    top_free(&table);
    return cli_end_output(&out);
}

static int run_top(void *options, int argc, char **argv)
{
    const struct top_options *o = options;
    struct native_machine machine;
    struct top_recording recording;
    bool native;
    struct screen s = {.recording = &recording,
                       .view = {.by = o->by, .order = o->order, .symfs = o->symfs}};
    bool terminal =
        isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !tcgetattr(STDIN_FILENO, &s.before);
    int status = record_choose(&o->record.native, &machine, &native);
    (void)argc;
    if (!status && !native && !argv[0])
        status = cli_usage("no program; spex top [OPTIONS] -- PROGRAM [ARGUMENTS]");
    if (!status)
        status = top_start(&recording, &o->record, native, terminal, argv);
    if (status)
        return status;
    s.view.kallsyms = *recording.kallsyms ? recording.kallsyms : NULL;
    s.view.colour = terminal && cli_colour(STDOUT_FILENO);
    if (terminal)
        live(&s);
    else
        status = once(&recording, &s.view);
    bool by_itself = !top_runs(&recording);
    top_end(&recording);
    top_free(&s.table);
    if (status || !by_itself)
        return status;
    return WIFEXITED(recording.status) ? WEXITSTATUS(recording.status) : CLI_DATA;
}

const struct cli_command cli_top = {
    .name = "top",
    .records = true,
    .group = CLI_RUNS,
    .synopsis = "[--] [PROGRAM [ARGUMENTS]]",
    .summary = "live view of what takes the time, once a second",
    .details =
        "Records as spex record does, with the same options, and shows a table of functions, "
        "lines, data sources or pages with their time and latency. On a machine with SPE it covers "
        "the last seconds, under QEMU the run so far. Keys: f, l, s, p choose what a "
        "row is; t, y, n sort by time, latency or samples; / shows only functions whose name "
        "contains a word; up and down (k, j) choose a row and enter shows its instructions; q "
        "ends. What the "
        "program prints is not shown. Where standard output is no terminal, the table is printed "
        "once, at the end.",
    .options = top_options,
    .size = sizeof(struct top_options),
    .run = run_top,
};
