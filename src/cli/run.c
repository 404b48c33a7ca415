#include "run.h"

#include "locate.h"
#include "table.h"

#include <spex/perfdata.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- options ---- */

static bool parse_aux(const char *text, uint64_t *size)
{
    char *end;
    if (*text++ != ',' || *text < '0' || *text > '9')
        return false;
    uint64_t n = strtoull(text, &end, 0);
    if (*end == 'K' || *end == 'k')
        n <<= 10;
    else if (*end == 'M')
        n <<= 20;
    else if (*end == 'G')
        n <<= 30;
    else if (*end)
        return false;
    else
        n *= 4096; /* pages, as in perf */
    *size = n;
    return !*end || !end[1];
}

static int parse_cpu(const char *cpu, struct spex_engine_options *o)
{
    struct spex_error error;
    char preset[64];
    if (arch_features_parse(cpu, &o->features, &error))
        return cli_usage("--cpu: %s", error.text);
    if (arch_features_check(&o->features, &error))
        return cli_usage("--cpu: %s", error.text);
    snprintf(preset, sizeof preset, "%.*s", (int)strcspn(cpu, ","), cpu);
    if (spex_uarch_config_preset(preset, &o->model, &error) &&
        spex_uarch_config_preset("neoverse-n1", &o->model, &error))
        return cli_usage("--cpu: %s", error.text);
    return CLI_OK;
}

static int parse_event(const char *event, struct spex_engine_options *o)
{
    struct spex_error error;
    struct spex_perf_terms terms;
    if (strncmp(event, "arm_spe", 7) || !strchr(event, '/'))
        return cli_usage("-e %s: the event is arm_spe/TERMS/, for example "
                         "arm_spe/load_filter=1,jitter=1/",
                         event);
    if (spex_perf_terms_parse(event, &terms, &error))
        return cli_usage("-e: %s", error.text);
    if (terms.exclude_user)
        return cli_usage("-e %s: modifier 'k': a program under QEMU has no kernel; allowed: u",
                         event);
    memcpy(o->config, terms.config, sizeof o->config);
    o->config[0] |= 1; /* perf record of a program records per CPU, and so with time */
    if (terms.period)
        o->period = terms.period;
    return CLI_OK;
}

static int parse_options(const struct run_options *in, struct spex_engine_options *o)
{
    struct spex_error error;
    o->period = in->period;
    int status = parse_cpu(in->cpu, o);
    if (!status)
        status = parse_event(in->event, o);
    if (status)
        return status;
    for (size_t i = 0; i < in->model.count; i++)
        if (spex_uarch_config_set(&o->model, in->model.items[i], &error))
            return cli_usage("--model: %s", error.text);
    for (size_t i = 0; i < in->environment.count; i++)
        if (!strchr(in->environment.items[i], '=') || in->environment.items[i][0] == '=')
            return cli_usage("--env: '%s' is not NAME=VALUE", in->environment.items[i]);
    if (!parse_aux(in->aux, &o->aux_size))
        return cli_usage("-m: '%s' is not ,SIZE (pages, or with K, M, G)", in->aux);
    o->seed = in->seed;
    o->sysroot = in->sysroot;
    o->qemu = in->qemu;
    o->qemu_cpu = in->qemu_cpu;
    return CLI_OK;
}

/* ---- the run ---- */

static volatile sig_atomic_t guest;

static void pass_on(int signo)
{
    if (guest > 0)
        kill(guest, signo);
}

/*
 * The terminal's signals reach the guest by themselves and must not end us before
 * the profile is written; others are passed on.
 */
static void set_signals(void)
{
    struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    sigaction(SIGTERM, &pass, NULL);
    sigaction(SIGHUP, &pass, NULL);
    sigaction(SIGUSR1, &pass, NULL);
    sigaction(SIGUSR2, &pass, NULL);
}

void run_temporary(char *path, size_t size)
{
    const char *directory = getenv("TMPDIR");
    snprintf(path, size, "%s/spex", directory && *directory ? directory : "/tmp");
}

int run_guest(const struct run_options *in, char **argv, struct run *run)
{
    char plugin[4096];
    struct spex_error error;
    struct spex_engine_options *o = &run->options;
    if (!argv[0])
        return cli_usage("no program; spex %s [OPTIONS] -- PROGRAM [ARGUMENTS]",
                         o->keep ? "record" : "stat");
    int status = parse_options(in, o);
    if (status)
        return status;
    if (!cli_locate("libspex-qemu.so", plugin, sizeof plugin))
        return CLI_DATA;
    const char **environment = calloc(in->environment.count + 1, sizeof *environment);
    if (!environment)
        return cli_usage("out of memory");
    for (size_t i = 0; i < in->environment.count; i++)
        environment[i] = in->environment.items[i];
    o->plugin = plugin;
    o->environment = environment;
    o->argv = argv;
    enum spex_status s = spex_engine_start(o, &run->engine, &error);
    free(environment);
    o->plugin = NULL;
    o->environment = NULL;
    if (s) {
        cli_error("%s", error.text);
        return s == SPEX_IO ? CLI_DATA : CLI_USAGE;
    }
    guest = spex_engine_process(run->engine);
    set_signals();
    s = spex_engine_wait(run->engine, &run->status, &error);
    guest = 0;
    if (s) {
        cli_error("%s", error.text);
        spex_engine_free(run->engine);
        return CLI_DATA;
    }
    spex_engine_totals(run->engine, &run->totals);
    return CLI_OK;
}

int run_end(struct run *run)
{
    int status = run->status;
    spex_engine_free(run->engine);
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none); /* the core is the guest's */
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_DATA;
}

/* ---- words ---- */

void run_notes(const struct run *run)
{
    const struct spex_engine_totals *t = &run->totals;
    char number[32];
    static const struct {
        size_t at;
        const char *text;
    } unseen[] = {
        {offsetof(struct spex_engine_totals, unseen_zva), "of DC ZVA"},
        {offsetof(struct spex_engine_totals, unseen_prefetch), "of prefetches"},
        {offsetof(struct spex_engine_totals, unseen_sve), "of SVE loads and stores"},
        {offsetof(struct spex_engine_totals, unseen_other), "of other accesses"},
    };
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++) {
        uint64_t n = *(const uint64_t *)((const char *)t + unseen[i].at);
        if (n)
            cli_note("%s samples %s have no address: QEMU does not show them",
                     text_count(number, n), unseen[i].text);
    }
    if (t->execs)
        cli_note("%s started another program with execve; it was not profiled",
                 t->execs == 1 ? "a process" : "processes");
    if (t->uncorrected)
        cli_note("this QEMU shows no registers: counts are a little high where "
                 "faults were handled");
}
