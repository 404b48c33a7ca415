#include "run.h"

#include "locate.h"
#include "run_file.h"
#include "table.h"

#include <spex/a64.h>
#include "a64/needs.h"
#include "guest/cpu.h"

#include <spex/perfdata.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- options ---- */

const char run_standard_cpu[] = "neoverse-n1";

/* PAGES,PAGES as in perf; the part before the comma is for a ring, which QEMU runs do not have. */
static bool parse_aux(const char *text, uint64_t *size)
{
    const char *comma = strchr(text, ',');
    uint64_t ring;
    char before[32] = "0";
    if (!comma || comma - text >= (ptrdiff_t)sizeof before)
        return false;
    if (comma > text)
        snprintf(before, sizeof before, "%.*s", (int)(comma - text), text);
    if (!cli_number(before, &ring) || !cli_number(comma + 1, size))
        return false;
    bool pages = comma[1 + strspn(comma + 1, "0123456789abcdefxABCDEFX")] == '\0';
    if (pages && *size > UINT64_MAX / 4096)
        return false;
    *size *= pages ? 4096 : 1;
    return true;
}

static int parse_cpu(const char *word, struct engine_options *o)
{
    struct spex_error error;
    struct cpu_choice cpu;
    if (!*word)
        return cli_usage("--cpu: the name is empty; 'spex help cpus' lists CPUs");
    if (cpu_parse(word, &cpu, &error))
        return *word >= '0' && *word <= '9'
                   ? cli_usage("--cpu %s: this is the CPU to model, by name (spex help cpus); "
                               "-C %s samples these CPUs of a machine with SPE",
                               word, word)
                   : cli_usage("--cpu: %s; 'spex help cpus' lists CPUs", error.text);
    o->features = cpu.features;
    o->model = cpu.model;
    o->layout = cpu.layout;
    o->select_group = cpu.select_group;
    o->vector_bits = cpu.vector_bits;
    return CLI_OK;
}

static int parse_event(const char *event, struct engine_options *o)
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
    o->config[0] |= 1; /* perf record of a program records per CPU, and therefore with time */
    if (terms.period)
        o->period = terms.period;
    return CLI_OK;
}

/* Sampled detail unless something else is asked for; the full model if every operation counts. */
static int parse_model(const struct run_options *in, struct engine_options *o)
{
    struct spex_error error;
    o->model.sampled = !in->exact && !o->truth;
    o->deterministic = in->deterministic;
    for (size_t i = 0; i < in->model.count; i++)
        if (uarch_config_set(&o->model, in->model.items[i], &error))
            return cli_usage("--model: %s", error.text);
    if (o->deterministic && o->model.none)
        return cli_usage(
            "--deterministic and --ideal need the model's time: leave --model none out");
    if (o->truth && o->model.sampled)
        return cli_usage("--truth needs details of every operation, which --model sampled has only "
                         "near samples: use --model full");
    return CLI_OK;
}

static int parse_options(const struct run_options *in, struct engine_options *o)
{
    o->period = in->period;
    int status = parse_cpu(in->cpu, o);
    if (!status)
        status = parse_event(in->event, o);
    if (status)
        return status;
    status = parse_model(in, o);
    if (status)
        return status;
    for (size_t i = 0; i < in->environment.count; i++)
        if (!strchr(in->environment.items[i], '=') || in->environment.items[i][0] == '=')
            return cli_usage("--env: '%s' is not NAME=VALUE", in->environment.items[i]);
    if (!parse_aux(in->aux ? in->aux : ",1M", &o->aux_size))
        return cli_usage(
            "-m: '%s' is not ,SIZE: the AUX area, after a comma, in pages or with K, M, G (-m ,4M)",
            in->aux);
    o->seed = in->seed;
    o->ideal = in->ideal;
    o->ideal_count = in->ideal_count;
    o->sysroot = in->sysroot;
    o->qemu = in->qemu;
    o->qemu_cpu = in->qemu_cpu;
    return CLI_OK;
}

/* ---- the run ---- */

static volatile sig_atomic_t guest, stopped;

static void on_signal(int signo, siginfo_t *info, void *context)
{
    (void)context;
    if (signo == SIGUSR1 || signo == SIGUSR2) {
        if (guest > 0)
            kill(guest, signo);
        return;
    }
    /* Ctrl-C on the terminal reaches the guest by itself, which may choose to continue. */
    if ((signo == SIGINT || signo == SIGQUIT) && info->si_code == SI_KERNEL)
        return;
    if (guest > 0)
        kill(guest, stopped ? SIGKILL : SIGTERM);
    stopped = signo;
}

/*
 * A signal that would end us ends the run, as in perf record; a second one ends us whatever the
 * guest does.
 */
static void set_signals(void)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    struct sigaction old;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signals[i] != SIGHUP || sigaction(SIGHUP, NULL, &old) || old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL); /* a signal that nohup ignores stays ignored */
}

/*
 * Makes reaching the file size limit (RLIMIT_FSIZE) an error like a full disk. It is a handler
 * because the guest would inherit an ignored signal.
 */
static void on_limit(int signo)
{
    (void)signo;
}

void run_temporary(char *path, size_t size)
{
    const char *directory = getenv("TMPDIR");
    snprintf(path, size, "%s/spex", directory && *directory ? directory : "/tmp");
}

static void control_enable(void *engine, bool on)
{
    engine_enable(engine, on);
}

static void control_end(void *engine)
{
    kill(engine_process(engine), SIGTERM);
}

/* Shows on a terminal how far the guest is. */
static void show_progress(void *context)
{
    const struct run *run = context;
    uint64_t clock, samples;
    char modelled[32], count[32], rate[32];
    double seconds = fmax(difftime(time(NULL), run->begun), 1);
    if (!engine_glance(run->engine, &clock, &samples)) {
        cli_progress_forget();
        return;
    }
    cli_progress_text("%s modelled, %s samples, %s a second", text_time(modelled, (double)clock),
                      text_count(count, samples), text_scaled(rate, (double)samples / seconds));
}

/* Runs the guest to its end and opens the files that it left. */
static int start(struct run *run)
{
    struct spex_error error;
    set_signals();
    enum spex_status s = engine_start(run->engine, &error);
    if (!s) {
        guest = engine_process(run->engine);
        if (stopped) /* in between */
            kill(guest, SIGTERM);
        struct control_target target = {
            .user = run->engine, .enable = control_enable, .stop = control_end};
        control_start(run->control, &target);
        bool show = isatty(STDERR_FILENO) && !run->quiet;
        run->begun = time(NULL);
        s = engine_wait(run->engine, &run->status, show ? show_progress : NULL, run, &error);
        if (show)
            cli_progress_end();
        control_stop(run->control);
        guest = 0;
        signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe is an error like any other */
    }
    if (!s)
        s = left_open(run->directory, run->engine, &run->left, &error);
    if (s) {
        cli_error("%s", error.text);
        return CLI_DATA;
    }
    left_totals(run->left, &run->totals);
    return CLI_OK;
}

void run_own_qemu(char *path, size_t size)
{
    char data[4000];
    cli_data_directory(data, sizeof data);
    snprintf(path, size, "%s/qemu", data);
}

int run_guest(const struct run_options *in, char **argv, struct run *run)
{
    char plugin[4096], own_qemu[4096];
    struct spex_error error;
    struct engine_options *o = &run->options;
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
    run_own_qemu(own_qemu, sizeof own_qemu - 16);
    strcat(own_qemu, "/qemu-aarch64"); /* own_qemu has room for it */
    o->own_qemu = own_qemu;
    o->plugin = plugin;
    o->environment = environment;
    o->argv = argv;
    o->cpu = o->model.none ? "no" : in->cpu;
    run->asked_period = o->period;
    if (signal(SIGXFSZ, on_limit) == SIG_IGN)
        signal(SIGXFSZ, SIG_IGN);
    enum spex_status s = engine_new(o, &run->engine, &error);
    if (s) {
        cli_error("%s", error.text);
        status = s == SPEX_IO ? CLI_DATA : CLI_USAGE;
    } else {
        snprintf(run->directory, sizeof run->directory, "%s", engine_directory(run->engine));
        status = o->keep && !run_file_begin(run->engine) ? CLI_DATA : start(run);
    }
    free(environment);
    o->plugin = o->own_qemu = NULL;
    o->environment = NULL;
    if (status && run->engine) {
        left_remove(run->directory);
        engine_free(run->engine);
    }
    return status;
}

int run_end(struct run *run)
{
    int status = run->status, signo = stopped;
    left_close(run->left);
    engine_free(run->engine);
    if (!signo && WIFSIGNALED(status))
        signo = WTERMSIG(status);
    if (signo) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none); /* core dumps are for the guest */
        signal(signo, SIG_DFL);
        raise(signo);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_DATA;
}

/* ---- words ---- */

/* Lists host programs that the guest started. */
static void note_hosts(const struct run *run)
{
    enum { NAMES = 8 };
    char text[1024] = "";
    const char *name;
    size_t n = 0, times, i;
    for (i = 0; (name = left_machine(run->left, i, &times)); i++) {
        if (i >= NAMES || n >= sizeof text / 2)
            continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.40s", i ? ", " : "", name);
        if (times > 1)
            n += (size_t)snprintf(text + n, sizeof text - n, " (%zu times)", times);
    }
    if (i > NAMES)
        snprintf(text + n, sizeof text - n, " and %zu others", i - NAMES);
    if (i)
        cli_note("the program started programs of this machine, which were not profiled: %s", text);
    if (run->totals.untraced)
        cli_note("programs that these start are not profiled, and AArch64 ones cannot run: ptrace "
                 "is not allowed here");
}

/* Reports that a process executed an instruction that QEMU's CPU does not have. */
static void note_illegal(const struct run *run)
{
    const struct engine_totals *t = &run->totals;
    const char *cpu = engine_cpu(run->engine), *name = spex_a64_name(t->illegal);
    char offer[128] = "no CPU has it";
    struct a64_need need = {0};
    if (!t->illegal_pc) {
        if (WIFSIGNALED(run->status) && WTERMSIG(run->status) == SIGILL)
            cli_note("SIGILL ended the program: another process sent it, or QEMU's CPU (%s) lacks "
                     "an instruction; --qemu-cpu max has most of them",
                     cpu);
        return;
    }
    if (name && a64_needs(t->illegal, &need)) {
        if (!strcmp(need.from, A64_NEWER))
            snprintf(offer, sizeof offer,
                     "--qemu-cpu max of a newer QEMU may have it ('spex record --setup-qemu')");
        else if (!strcmp(need.from, A64_MAX))
            snprintf(offer, sizeof offer, "--cpu max has it");
        else
            snprintf(offer, sizeof offer, "--cpu %s has it", need.from);
    }
    cli_note(
        "process %u ended at an instruction that QEMU's CPU (%s) does not have: 0x%08x (%s%s%s) "
        "at 0x%llx; %s",
        t->illegal_pid, cpu, t->illegal, name ? name : "not allocated", need.feature ? ", " : "",
        need.feature ? need.feature : "", (unsigned long long)t->illegal_pc, offer);
}

void run_notes(const struct run *run)
{
    if (run->asked_period != run->options.period)
        cli_note("the period is %llu, not %llu: as in Linux's driver, a multiple of 256 from 256 "
                 "to 4,294,967,040",
                 (unsigned long long)run->options.period, (unsigned long long)run->asked_period);
    const struct engine_totals *t = &run->totals;
    char number[32];
    static const struct {
        size_t at;
        const char *text;
    } unseen[] = {
        {offsetof(struct engine_totals, unseen_zva), "of DC ZVA"},
        {offsetof(struct engine_totals, unseen_prefetch), "of prefetches"},
        {offsetof(struct engine_totals, unseen_sve), "of SVE and SME loads and stores"},
        {offsetof(struct engine_totals, unseen_other), "of other accesses"},
    };
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++) {
        uint64_t n = *(const uint64_t *)((const char *)t + unseen[i].at);
        if (n)
            cli_note("%s samples %s have no address: QEMU does not show them",
                     text_count(number, n), unseen[i].text);
    }
    note_hosts(run);
    if (t->full)
        cli_note("--max-size was reached: what the program did later is not in the profile");
    note_illegal(run);
    if (t->no_stacks)
        cli_note("this QEMU does not show the stack pointer: there are no call stacks");
    if (t->stacks_cut)
        cli_note("%s call stacks are deeper than 510 frames: the middle is left out",
                 text_count(number, t->stacks_cut));
    if (t->stacks_doubted)
        cli_note("%s call stacks may lack frames, or have wrong ones, where they are marked",
                 text_count(number, t->stacks_doubted));
    if (run->options.allocs && t->uncorrected)
        cli_note("this QEMU shows no registers: there are no allocations");
    else if (run->options.allocs && !t->allocators)
        cli_note("no function that allocates was found (malloc, operator new and others): the "
                 "program is linked statically and stripped, or has an allocator of its own");
    if (t->uncorrected)
        cli_note("this QEMU shows no registers: counts are a little high where "
                 "faults were handled");
}
