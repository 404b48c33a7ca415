/* spex record on a machine with SPE. */
#include "record.h"

#include "output.h"
#include "parts.h"
#include "table.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const record_engines[] = {"auto", "native", "qemu", NULL};

int record_choose(const struct native_choice *c, struct native_machine *machine, bool *native)
{
    char why[320];
    const char *root = secure_getenv("SPEX_ROOT");
    bool asked = c->all_cpus || c->per_thread || c->snapshot || c->keep_root || c->cpus ||
                 c->pids.count || c->tids.count;
    *native = false;
    if (c->engine == ENGINE_QEMU)
        return asked ? cli_usage("-a, -C, -p, -t, --per-thread, --snapshot and --keep-root are for "
                                 "this machine's SPE, not for --engine qemu")
                     : CLI_OK;
    native_machine_read(root ? root : "", machine);
    *native = machine->pmu_count > 0;
    if (*native || (!asked && c->engine != ENGINE_NATIVE))
        return CLI_OK;
    native_machine_why(machine, why, sizeof why);
    cli_error("no SPE here: %s", why);
    if (asked)
        cli_note("to record a program under the model, leave out -a, -C, -p, -t, --per-thread, "
                 "--snapshot and --keep-root: spex record -- PROGRAM");
    return CLI_DATA;
}

/* ---- options ---- */

/* Refuses options that only the model has. */
static int refuse_model(const struct record_options *o)
{
    const struct run_options *r = &o->run;
    struct native_cpus list;
    if (r->cpu != run_standard_cpu)
        return cli_usage(native_cpus_parse(r->cpu, &list)
                             ? "--cpu names a CPU to model; CPUs of this machine are -C %s"
                             : "--cpu %s is a CPU to model, and this machine has SPE of its own; "
                               "--engine qemu uses the model",
                         r->cpu);
    const char *word = r->model.count     ? "--model"
                       : r->deterministic ? "--deterministic"
                       : r->sysroot       ? "--sysroot"
                       : r->qemu_cpu      ? "--qemu-cpu"
                       : o->truth         ? "--truth"
                       : o->allocs        ? "--allocs"
                       : o->start_at      ? "--start-at"
                       : o->stop_at       ? "--stop-at"
                                          : NULL;
    if (word)
        return cli_usage("%s belongs to the model: add --engine qemu, or leave it out", word);
    return CLI_OK;
}

static bool parse_ids(const struct cli_list *list, int32_t **ids, size_t *count)
{
    for (size_t i = 0; i < list->count; i++)
        for (const char *at = list->items[i]; *at;) {
            char *end;
            long id = strtol(at, &end, 10);
            int32_t *more = realloc(*ids, (*count + 1) * sizeof **ids);
            if (!more)
                return false;
            *ids = more;
            if (end == at || id <= 0 || id > INT32_MAX || (*end && *end != ','))
                return false;
            (*ids)[(*count)++] = (int32_t)id;
            at = end + (*end == ',');
        }
    return true;
}

static int parse_target(const struct record_options *o, char **argv, struct native_options *n,
                        struct native_cpus *cpus, int32_t **ids)
{
    const struct native_choice *c = &o->native;
    bool some = c->pids.count || c->tids.count;
    if (c->cpus) {
        if (!native_cpus_parse(c->cpus, cpus))
            return cli_usage("-C: '%s' is not a list of CPUs such as 0-3,8", c->cpus);
        n->cpus = cpus;
    }
    if (c->pids.count && c->tids.count)
        return cli_usage("-p and -t do not go together");
    if (!parse_ids(c->pids.count ? &c->pids : &c->tids, ids, &n->id_count))
        return cli_usage("-%c needs the number of a %s, or several separated by commas",
                         c->pids.count ? 'p' : 't', c->pids.count ? "process" : "thread");
    n->ids = *ids;
    n->threads = c->tids.count > 0;
    n->argv = argv[0] ? argv : NULL;
    n->all_cpus = c->all_cpus || (c->cpus && !some);
    n->per_thread = c->per_thread;
    if (some && (n->argv || n->all_cpus))
        return cli_usage("-p and -t name what is running: leave the program and -a out");
    if (!some && !n->argv && !n->all_cpus)
        return cli_usage(
            "say what to record: spex record [OPTIONS] -- PROGRAM, -p PID, -t TID, or -a");
    if (n->per_thread && n->all_cpus)
        return cli_usage("--per-thread and -a do not go together");
    return CLI_OK;
}

/* "[DATA][,AUX]": pages, or bytes with K, M, G; the kernel requires powers of two. */
static bool parse_size(const char *text, const char **end, uint64_t *size)
{
    char *stop;
    uint64_t n = strtoull(text, &stop, 10);
    switch (*stop) {
    case 'G':
        n <<= 10;
        /* fall through */
    case 'M':
        n <<= 10;
        /* fall through */
    case 'K':
    case 'k':
        n <<= 10;
        stop++;
        break;
    default:
        n *= 4096;
    }
    *end = stop;
    *size = n;
    return stop != text && n >= 8192 && !(n & (n - 1)) && n <= UINT64_C(1) << 36;
}

static int parse_rings(const char *text, struct native_options *n)
{
    const char *at = text;
    if (!text)
        return CLI_OK;
    bool ok = *at == ',' || parse_size(at, &at, &n->data_size);
    if (ok && *at == ',')
        ok = parse_size(at + 1, &at, &n->aux_size);
    return ok && !*at ? CLI_OK
                      : cli_usage("-m: '%s' is not [SIZE][,AUXSIZE]: pages, or bytes with K, M, G, "
                                  "each a power of two from 8K on",
                                  text);
}

static int parse_when(const struct record_options *o, struct native_options *n)
{
    char *end = NULL;
    double ms = o->delay ? strtod(o->delay, &end) : 0;
    struct parts_limit limit = {0};
    if (o->delay && (*end || end == o->delay || (ms < 0 && ms != -1) || ms > 1e12))
        return cli_usage("-D: '%s' is not a number of milliseconds, or -1", o->delay);
    if (ms == -1 && !o->control)
        return cli_usage("-D -1: nothing would start the samples; --control does");
    n->delay = ms < 0 ? -1 : (int64_t)(ms * 1e6);
    n->max_size = o->max_size;
    if (o->parts && !parts_parse(o->parts, &limit))
        return cli_usage("--switch-output: '%s' is neither a size (10M) nor a time (5s)", o->parts);
    if (o->parts && !strcmp(o->output, "-"))
        return cli_usage("--switch-output writes several files: -o must name one");
    n->part_bytes = limit.bytes;
    n->part_time = limit.time;
    n->snapshot = o->native.snapshot;
    return CLI_OK;
}

static int set_environment(const struct cli_list *words)
{
    for (size_t i = 0; i < words->count; i++)
        if (!strchr(words->items[i], '=') || words->items[i][0] == '=' ||
            putenv((char *)(uintptr_t)words->items[i]))
            return cli_usage("--env: '%s' is not NAME=VALUE", words->items[i]);
    return CLI_OK;
}

/* ---- while it runs ---- */

static struct native_session *volatile running;
static volatile sig_atomic_t stopped, snapshots; /* snapshots: SIGUSR2 takes them */

static void on_signal(int signo, siginfo_t *info, void *context)
{
    struct native_session *s = running;
    int kept = errno, program = s ? native_process(s) : -1;
    (void)context;
    if (!s)
        return;
    if (signo == SIGCHLD) {
        native_tell(s, NATIVE_WAKE);
    } else if (signo == SIGUSR2 && snapshots) {
        native_tell(s, NATIVE_SNAPSHOT);
    } else if (signo == SIGUSR1 || signo == SIGUSR2) { /* passed on to the program, as under QEMU */
        if (program > 0)
            kill(program, signo);
    } else if (program > 0 && (signo == SIGINT || signo == SIGQUIT) && info->si_code == SI_KERNEL) {
        ; /* Ctrl-C reaches the program by itself, which may choose to continue */
    } else {
        if (program > 0)
            kill(program, stopped ? SIGKILL : SIGTERM);
        else
            native_tell(s, NATIVE_STOP);
        stopped = signo;
    }
    errno = kept;
}

static void set_signals(void)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    struct sigaction old;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signals[i] != SIGHUP || sigaction(SIGHUP, NULL, &old) || old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void control_enable(void *user, bool on)
{
    native_enable(user, on);
}

static void control_end(void *user)
{
    int program = native_process(user);
    if (program > 0)
        kill(program, SIGTERM);
    else
        native_tell(user, NATIVE_STOP);
}

static void control_snapshot(void *user)
{
    native_tell(user, NATIVE_SNAPSHOT);
}

/* ---- words ---- */

static void say(const struct record_options *o, const struct native_options *n,
                const struct native_totals *t)
{
    char name[OUTPUT_PATH + 64], a[32], b[32], c[32], pmus[256] = "";
    double mega = (double)t->size / 1e6, records = (double)t->aux_bytes / 1e6;
    size_t k = 0;
    for (unsigned i = 0; i < n->event_count && k < sizeof pmus; i++)
        k += (size_t)snprintf(pmus + k, sizeof pmus - k, "%s%s", k ? ", " : "",
                              n->machine->pmus[n->events[i].pmu].name);
    if (t->parts)
        snprintf(name, sizeof name, "%.4000s.00001 to .%05u", o->output, t->parts);
    else
        snprintf(name, sizeof name, "%.4000s", o->output);
    cli_note(
        "%.1f %s of records, %s buffers truncated, %s with collisions, %s events lost; native, "
        "%s; wrote %s (%.1f %s)",
        records >= 0.1 ? records : records * 1000, records >= 0.1 ? "MB" : "kB",
        text_count(a, t->truncated), text_count(b, t->collided), text_count(c, t->lost), pmus, name,
        mega >= 0.1 ? mega : mega * 1000, mega >= 0.1 ? "MB" : "kB");
}

static void notes(const struct native_options *n, const struct native_totals *t)
{
    char number[32];
    if (t->user)
        cli_note("the program ran as user %u, who called sudo; --keep-root leaves it root",
                 (unsigned)t->user);
    if (t->user_only)
        cli_note("the kernel is left out: perf_event_paranoid is %d (docs/native.md)",
                 n->machine->paranoid);
    if (t->offline > t->back)
        cli_note("%u CPU%s went offline: not recorded from then on", t->offline - t->back,
                 t->offline - t->back == 1 ? "" : "s");
    if (t->back)
        cli_note("%u CPU%s went offline and came back: not recorded for %s in between", t->back,
                 t->back == 1 ? "" : "s", text_time(number, (double)t->away));
    if (t->added)
        cli_note("%u CPU%s came online: recorded from then on", t->added, t->added == 1 ? "" : "s");
    if (t->truncated)
        cli_note("%s of %s buffers were full before they were read: records are missing; use a "
                 "larger -m ,SIZE (%lluK now) or a longer -c",
                 text_count(number, t->truncated), text_count((char[32]){0}, t->aux_buffers),
                 (unsigned long long)(t->aux_size >> 10));
    if (t->lost)
        cli_note("%s events of the kernel were lost, because the ring was full: names may be "
                 "missing; use a larger -m "
                 "SIZE",
                 text_count(number, t->lost));
    if (t->full)
        cli_note("--max-size was reached: what came later is not in the profile");
    if (n->snapshot && !t->snapshots)
        cli_note("no snapshot was asked for: 'kill -USR2' to spex takes one");
}

int record_end(const struct native_totals *t, bool program)
{
    if (!program)
        return CLI_OK;
    int signo = stopped ? stopped : WIFSIGNALED(t->program) ? WTERMSIG(t->program) : 0;
    if (signo) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none); /* core dumps are for the program */
        signal(signo, SIG_DFL);
        raise(signo);
    }
    return WIFEXITED(t->program) ? WEXITSTATUS(t->program) : CLI_DATA;
}

static int run_session(const struct record_options *o, const struct native_options *n,
                       struct native_totals *result)
{
    struct native_session *session;
    struct native_totals totals = {0};
    struct spex_error error;
    struct control *control = NULL;
    int status = o->control ? control_open(&control, o->control) : CLI_OK;
    if (status)
        return status;
    if (native_open(n, &session, &error)) {
        cli_error("%s", error.text);
        control_close(control);
        return CLI_DATA;
    }
    running = session;
    snapshots = n->snapshot;
    set_signals();
    struct control_target target = {.user = session,
                                    .enable = control_enable,
                                    .stop = control_end,
                                    .snapshot = n->snapshot ? control_snapshot : NULL};
    control_start(control, &target);
    enum spex_status s = native_run(session, &totals, &error);
    control_stop(control);
    running = NULL;
    if (s)
        cli_error("%s", error.text);
    if (!o->quiet && (!s || totals.size)) {
        notes(n, &totals);
        say(o, n, &totals);
    }
    native_close(session);
    control_close(control);
    if (result)
        *result = totals;
    return s ? CLI_DATA : result ? CLI_OK : record_end(&totals, n->argv);
}

int record_native(const struct record_options *o, const struct native_machine *machine, char **argv,
                  struct native_totals *totals)
{
    struct native_event events[NATIVE_PMUS];
    struct native_cpus cpus;
    struct spex_error error;
    struct output output;
    int32_t *ids = NULL;
    struct native_options n = {.machine = machine,
                               .events = events,
                               .period = o->run.period,
                               .stacks = o->stacks,
                               .count = totals != NULL,
                               .keep_root = o->native.keep_root,
                               .live = o->live,
                               .no_aux = secure_getenv("SPEX_ROOT") && getenv("SPEX_NO_AUX"),
                               .cmdline = argv[0] ? (const char *const *)argv : NULL};
    int status = refuse_model(o);
    if (!status)
        status = parse_target(o, argv, &n, &cpus, &ids);
    if (!status)
        status = parse_rings(o->run.aux, &n);
    if (!status)
        status = parse_when(o, &n);
    if (!status)
        status = set_environment(&o->run.environment);
    if (!status && native_events_parse(machine, o->run.event, events, &n.event_count, &error))
        status = cli_usage("-e: %s", error.text);
    if (!status)
        status = output_open(&output, o->output, OUTPUT_KEEPS | OUTPUT_PRIVATE);
    if (!status) {
        n.path = output.stream == STDOUT_FILENO ? "-"
                 : output.stream >= 0           ? o->output
                                                : output.path;
        output_close(&output);
        status = run_session(o, &n, totals);
    }
    free(ids);
    return status;
}
