/*
 * spex vm: runs a Linux guest whose own arm_spe_pmu driver sees the SPU.
 *
 * QEMU describes its machine in a device tree; we add the node that the driver binds to, and start
 * QEMU with the plugin that serves the SPE registers.
 */
#include "cli.h"
#include "locate.h"
#include "output.h"
#include "run.h"
#include "typist.h"

#include "base/error.h"
#include "guest/cpu.h"
#include "guest/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct vm_options {
    const char *features, *cpu, *kernel, *initrd, *append, *setup, *suite, *guest, *share, *memory;
    const char *qemu, *log, *seed, *model, *firmware;
    struct cli_list inject, choices, devices;
    uint64_t smp;
    bool el2, verbose, append_only;
};

enum { ARGS = 96, TEXT = 4096 };

/* ---- commands ---- */

/* An argument vector whose strings live in one buffer. */
struct command {
    const char *argv[ARGS];
    int argc;
    char text[8 * TEXT];
    size_t used;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void add(struct command *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(c->text + c->used, sizeof c->text - c->used, format, args);
    va_end(args);
    if (n < 0 || c->used + (size_t)n >= sizeof c->text || c->argc >= ARGS - 1) {
        c->full = true;
        return;
    }
    c->argv[c->argc++] = c->text + c->used;
    c->used += (size_t)n + 1;
}

/* Adds arguments unchanged, up to NULL. */
static void add_all(struct command *c, ...)
{
    va_list args;
    const char *word;
    va_start(args, c);
    while ((word = va_arg(args, const char *)))
        add(c, "%s", word);
    va_end(args);
}

/* QEMU splits some arguments at commas; a doubled comma stands for one. */
static const char *escaped(const char *path, char out[2 * TEXT])
{
    size_t n = 0;
    for (; *path && n + 2 < 2 * TEXT; path++) {
        if (*path == ',')
            out[n++] = ',';
        out[n++] = *path;
    }
    out[n] = '\0';
    return out;
}

static volatile sig_atomic_t child, stopped;

static void pass_on(int signo)
{
    stopped = signo;
    if (child > 0)
        kill(child, signo);
}

/* A signal that ends spex ends QEMU first: it restores the terminal, and we clean up. */
static void set_signals(void)
{
    struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &pass, NULL);
    sigaction(SIGTERM, &pass, NULL);
    sigaction(SIGHUP, &pass, NULL);
}

/*
 * Runs the command to its end; returns its exit status, or -1 with a message. Its output goes to
 * `output`, if given; its console belongs to the typist, if there is one.
 */
static int run(const struct command *c, const char *output, const struct typist *typist)
{
    if (c->full) {
        cli_error("the command line for %s is too long", c->argv[0]);
        return -1;
    }
    if (stopped)
        return -1;
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        cli_error("fork: %s", strerror(errno));
        return -1;
    }
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* in case we are killed by SIGKILL */
        if (getppid() != parent)
            _exit(126);
        if (typist) {
            dup2(typist->keyboard, STDIN_FILENO);
            dup2(typist->screen, STDOUT_FILENO);
        }
        if (output) {
            int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
            dup2(fd, STDOUT_FILENO);
            dup2(fd, STDERR_FILENO);
        }
        execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
        _exit(errno == ENOENT ? 127 : 126);
    }
    child = pid;
    if (stopped) /* a signal came before the child was known */
        kill(pid, stopped);
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    if (stopped && output)
        return -1;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 127 && code != 126)
        return code;
    cli_error("cannot run %s (Debian packages: qemu-system-arm, device-tree-compiler)", c->argv[0]);
    return -1;
}

/* ---- the machine ---- */

/* Where a run keeps its files until it ends. */
struct scratch {
    char directory[TEXT], dtb[TEXT + 16], output[TEXT + 16];
};

static bool make_scratch(struct scratch *p)
{
    char temporary[TEXT - 16];
    run_temporary(temporary, sizeof temporary);
    snprintf(p->directory, sizeof p->directory, "%s-vm-XXXXXX", temporary);
    if (!mkdtemp(p->directory)) {
        cli_error("%s: %s", p->directory, strerror(errno));
        return false;
    }
    snprintf(p->dtb, sizeof p->dtb, "%s/virt.dtb", p->directory);
    snprintf(p->output, sizeof p->output, "%s/output", p->directory);
    return true;
}

static void remove_scratch(const struct scratch *p)
{
    unlink(p->dtb);
    unlink(p->output);
    rmdir(p->directory);
}

static char *output_of(const struct scratch *p, char text[TEXT])
{
    FILE *f = fopen(p->output, "r");
    size_t n = f ? fread(text, 1, TEXT - 1, f) : 0;
    if (f)
        fclose(f);
    while (n && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    return text;
}

/* Says what went wrong, and what the program printed about it. */
static void tell(const char *what, char *text)
{
    cli_error("%s:", what);
    for (char *line; (line = strsep(&text, "\n"));)
        cli_error("%s", line);
}

/*
 * Accepts Debian 12's 7.2 with any update, and 11.1 or later. The plugin checks what it relies on;
 * checking the version here gives a clear answer before anything starts.
 */
static bool known_version(const struct vm_options *o, const struct scratch *p, unsigned *major)
{
    struct command c = {0};
    char text[TEXT];
    unsigned minor;
    add_all(&c, o->qemu, "--version", NULL);
    if (run(&c, p->output, NULL) < 0)
        return false;
    const char *found = strstr(output_of(p, text), "version ");
    if (!found || sscanf(found, "version %u.%u", major, &minor) != 2) {
        cli_error("%s does not say that it is a QEMU", o->qemu);
        return false;
    }
    if ((*major == 7 && minor == 2) || *major > 11 || (*major == 11 && minor >= 1))
        return true;
    cli_error("%s is version %u.%u; spex vm needs Debian 12's qemu-system-arm 7.2, or QEMU 11.1 or "
              "later (--qemu)",
              o->qemu, *major, minor);
    return false;
}

/* Adds QEMU's arguments for both runs: one to get its device tree, one to run the guest. */
static void add_machine(struct command *c, const struct vm_options *o,
                        const struct vm_config *config, const char *dtb)
{
    char path[2 * TEXT], sve[32] = "sve=off", core[32] = "";
    uint32_t midr = config->unit.features.midr;
    add_all(c, o->qemu, "-M", NULL);
    /* Only the device tree has the SPU, so firmware must not provide ACPI tables instead. */
    add(c, "virt,gic-version=3%s%s%s%s", o->el2 ? ",virtualization=on" : "",
        o->firmware ? ",acpi=off" : "", dtb ? ",dumpdtb=" : "", dtb ? escaped(dtb, path) : "");
    add(c, "-cpu");
    if (midr >> 24) /* name a core that exists: tools in the guest decode its data sources */
        snprintf(core, sizeof core, ",midr=0x%x", midr);
    if (config->vector_bits)
        snprintf(sve, sizeof sve, "sve%u=on", config->vector_bits);
    /* Use fast pointer authentication: otherwise booting takes three times as long. */
    add(c, "max,pauth-impdef=on,%s,sme=off%s", sve, core);
    add_all(c, "-m", o->memory, "-nographic", "-nic", "none", "-smp", NULL);
    add(c, "%llu", (unsigned long long)o->smp);
}

static bool put_in_tree(const struct scratch *p, const struct command *c)
{
    char text[TEXT];
    int status = run(c, p->output, NULL);
    if (status > 0)
        tell("fdtput could not add the SPE node to the device tree", output_of(p, text));
    return !status;
}

/* PMBIRQ is a PPI of each PE: INTID 21 is PPI 5, level high (BSA; ISMLLS). */
static bool make_device_tree(const struct vm_options *o, const struct vm_config *config,
                             const struct scratch *p)
{
    struct command describe = {0}, node = {0}, compatible = {0}, interrupts = {0};
    char text[TEXT];
    add_machine(&describe, o, config, p->dtb);
    int status = run(&describe, p->output, NULL);
    if (status < 0)
        return false;
    if (status || access(p->dtb, R_OK)) {
        tell("QEMU cannot make the machine", output_of(p, text));
        return false;
    }
    add_all(&node, "fdtput", "-c", p->dtb, "/spe-pmu", NULL);
    add_all(&compatible, "fdtput", "-ts", p->dtb, "/spe-pmu", "compatible",
            "arm,statistical-profiling-extension-v1", NULL);
    add_all(&interrupts, "fdtput", "-tx", p->dtb, "/spe-pmu", "interrupts", "1", "5", "4", NULL);
    return put_in_tree(p, &node) && put_in_tree(p, &compatible) && put_in_tree(p, &interrupts);
}

/* ---- the guest ---- */

static int set_up(const struct vm_options *o)
{
    char script[TEXT];
    struct command c = {0};
    if (!cli_locate("vm-setup", script, sizeof script))
        return CLI_DATA;
    add(&c, "%s", script);
    add(&c, "%s", o->setup);
    if (o->suite)
        add(&c, "%s", o->suite);
    if (run(&c, NULL, NULL))
        return CLI_DATA;
    fprintf(stderr, "spex vm: start the guest with: spex vm --guest %s\n", o->setup);
    return CLI_OK;
}

static bool readable(const char *what, const char *path)
{
    if (!access(path, R_OK))
        return true;
    cli_error("%s: %s: %s", what, path, strerror(errno));
    return false;
}

/*
 * Each setting is checked here and passed to the plugin as a word, so that a mistake is reported in
 * one sentence before anything starts.
 */
struct settings {
    struct vm_config config;
    char text[TEXT];
    size_t used;
    uint32_t vector_bits; /* length of the CPU's vectors */
};

static bool set(struct settings *s, const char *name, const char *value, struct spex_error *error)
{
    if (vm_config_set(&s->config, name, value, error))
        return false;
    int n = snprintf(s->text + s->used, sizeof s->text - s->used, ",%s=", name);
    s->used += (size_t)n;
    for (; *value && s->used + 1 < sizeof s->text; value++)
        s->text[s->used++] = *value == ',' ? ':' : *value; /* commas separate the words */
    s->text[s->used] = '\0';
    if (s->used + 64 > sizeof s->text) {
        snprintf(error->text, sizeof error->text, "too many settings");
        return false;
    }
    return true;
}

/*
 * Passes every number of a CPU as words of --model, so that the plugin does not read the file
 * again.
 */
static bool set_numbers(struct settings *s, const struct uarch_config *model,
                        struct spex_error *error)
{
    char words[TEXT];
    size_t n = 0;
    struct uarch_parameter p;
    for (size_t i = 0; uarch_parameter(i, &p) && n < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, "%s%s=%u", i ? "," : "", p.key,
                              uarch_config_get(model, i));
    return set(s, "model", words, error);
}

static bool set_cpu(const struct vm_options *o, struct settings *s, struct spex_error *error)
{
    struct cpu_choice cpu;
    char choice[32], group[32];
    struct spex_error why;
    if (cpu_parse(o->cpu, &cpu, &why))
        return error_set(error, why.status, 0, "--cpu: %s; 'spex help cpus' lists CPUs", why.text),
               false;
    s->vector_bits = cpu.vector_bits;
    snprintf(choice, sizeof choice, "layout=%llu", (unsigned long long)cpu.layout);
    snprintf(group, sizeof group, "select_group=%llu", (unsigned long long)cpu.select_group);
    return set(s, "features", o->features ? o->features : cpu.list, error) &&
           set_numbers(s, &cpu.model, error) &&
           (!cpu.layout || o->features || set(s, "choice", choice, error)) &&
           (!cpu.select_group || o->features || set(s, "choice", group, error));
}

/*
 * Enables SVE if the CPU has it and QEMU shows the registers that its accesses need (11.1 or
 * later).
 */
static bool set_vectors(struct settings *s, unsigned major)
{
    char bits[16];
    struct spex_error error;
    snprintf(bits, sizeof bits, "%u", s->vector_bits);
    return !s->vector_bits || major < 11 || set(s, "vectors", bits, &error);
}

static bool settle(const struct vm_options *o, struct settings *s, struct spex_error *error)
{
    vm_config_default(&s->config);
    if (!set_cpu(o, s, error) || (o->model && !set(s, "model", o->model, error)) ||
        !set(s, "seed", o->seed, error))
        return false;
    for (size_t i = 0; i < o->choices.count; i++)
        if (!set(s, "choice", o->choices.items[i], error))
            return false;
    for (size_t i = 0; i < o->inject.count; i++)
        if (!set(s, "inject", o->inject.items[i], error))
            return false;
    return !spu_config_check(&s->config.unit, error);
}

/* Finds the files to boot; false with a message. */
static bool find_guest(struct vm_options *o, char kernel[TEXT], char initrd[TEXT])
{
    if (o->guest) {
        snprintf(kernel, TEXT, "%s/Image", o->guest);
        snprintf(initrd, TEXT, "%s/initrd", o->guest);
        if (access(kernel, R_OK)) {
            cli_error("%s is no prepared guest; make one with: spex vm --setup %s", o->guest,
                      o->guest);
            return false;
        }
        o->kernel = o->kernel ? o->kernel : kernel;
        o->initrd = o->initrd ? o->initrd : initrd;
    }
    return (!o->kernel || readable("kernel", o->kernel)) &&
           (!o->initrd || readable("initrd", o->initrd)) &&
           (!o->firmware || readable("firmware", o->firmware)) &&
           (!o->share || readable("share", o->share));
}

/*
 * The kernel's arguments: those of --append, and what Linux needs. The driver refuses KPTI: its
 * buffer is in kernel addresses.
 */
static void add_arguments(struct command *c, const struct vm_options *o)
{
    char size[64] = "";
    struct winsize window;
    /* A serial console does not know its size; the environment of the guest's init can tell it. */
    if (isatty(STDIN_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) && window.ws_row)
        snprintf(size, sizeof size, " LINES=%u COLUMNS=%u", window.ws_row, window.ws_col);
    if (o->append_only) {
        if (o->append)
            add_all(c, "-append", o->append, NULL);
        return;
    }
    add(c, "-append");
    add(c, "console=ttyAMA0 kpti=off%s%s%s%s", o->verbose ? "" : " quiet", size,
        o->append ? " " : "", o->append ? o->append : "");
}

static void add_guest(struct command *c, const struct vm_options *o, const struct scratch *p,
                      const char *plugin, const char *settings)
{
    char path[2 * TEXT], log[2 * TEXT];
    add_all(c, "-dtb", p->dtb, "-no-reboot", NULL);
    if (o->firmware)
        add_all(c, "-bios", o->firmware, NULL);
    if (o->kernel)
        add_all(c, "-kernel", o->kernel, NULL);
    if (o->initrd)
        add_all(c, "-initrd", o->initrd, NULL);
    if (o->kernel)
        add_arguments(c, o);
    for (size_t i = 0; i < o->devices.count; i++)
        add_all(c, "-device", o->devices.items[i], NULL);
    if (o->share) {
        add(c, "-fsdev");
        add(c, "local,id=share,path=%s,security_model=none", escaped(o->share, path));
        add_all(c, "-device", "virtio-9p-device,fsdev=share,mount_tag=host", NULL);
    }
    add(c, "-plugin");
    add(c, "%s%s%s%s", escaped(plugin, path), settings, o->log ? ",log=" : "",
        o->log ? escaped(o->log, log) : "");
}

/* Tells the user what we are waiting for. */
static void announce(const struct vm_options *o)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "spex vm: booting %s with %llu CPU%s, SPU of %s; Ctrl-A X ends it\n",
                o->kernel ? o->kernel : o->firmware, (unsigned long long)o->smp,
                o->smp > 1 ? "s" : "", o->features ? o->features : o->cpu);
}

/*
 * The log is written while the guest runs, and replaces any file of that name: it must not be one
 * that the run needs.
 */
static int check_log(const struct vm_options *o)
{
    const char *const inputs[] = {o->kernel, o->initrd, o->firmware};
    struct output log;
    int status = o->log ? output_open(&log, o->log, 0) : CLI_OK;
    for (size_t i = 0; o->log && !status && i < sizeof inputs / sizeof *inputs; i++)
        status = inputs[i] ? output_from(&log, inputs[i]) : CLI_OK;
    if (o->log)
        output_close(&log);
    return status;
}

/* A prepared guest has a shell, which ends when its input does, and the guest with it. */
static int run_typed(const struct command *c)
{
    struct typist typist;
    if (!typist_start(&typist, "guest:/")) {
        cli_error("a pipe for the guest's input: %s", strerror(errno));
        return -1;
    }
    int status = run(c, NULL, &typist);
    close(typist.keyboard);
    close(typist.screen);
    typist_end(&typist, stopped);
    return status;
}

static int run_vm(void *options, int argc, char **argv)
{
    struct vm_options *o = options;
    struct settings settings = {.used = 0};
    struct spex_error error;
    char kernel[TEXT], initrd[TEXT], plugin[TEXT];
    struct scratch scratch;
    if (argc)
        return cli_usage("unexpected operand '%s'", argv[0]);
    set_signals();
    if (o->setup)
        return set_up(o);
    if (!settle(o, &settings, &error))
        return cli_usage("%s", error.text);
    if (!o->smp || o->smp > 64)
        return cli_usage("--smp takes 1 to 64");
    if (!o->guest && !o->kernel && !o->firmware)
        return cli_usage("say which guest to run: --guest DIR, --kernel IMAGE or --firmware FILE");
    if (!o->guest && !o->kernel && (o->initrd || o->append || o->append_only))
        return cli_usage("--initrd, --append and --append-only are for a --kernel");
    if (!find_guest(o, kernel, initrd) || !cli_locate("libspex-qemu.so", plugin, sizeof plugin))
        return CLI_DATA;
    int status = check_log(o);
    if (status)
        return status;
    if (!make_scratch(&scratch))
        return CLI_DATA;
    status = CLI_DATA;
    unsigned major;
    if (known_version(o, &scratch, &major) && set_vectors(&settings, major) &&
        make_device_tree(o, &settings.config, &scratch)) {
        struct command c = {0};
        add_machine(&c, o, &settings.config, NULL);
        add_guest(&c, o, &scratch, plugin, settings.text);
        announce(o);
        status = o->guest && !isatty(STDIN_FILENO) ? run_typed(&c) : run(&c, NULL, NULL);
    }
    remove_scratch(&scratch);
    return stopped ? 128 + stopped : status < 0 ? CLI_DATA : status;
}

#define AT(field) offsetof(struct vm_options, field)
static const struct cli_option vm_options[] = {
    {"guest", 'g', CLI_STRING, AT(guest), "DIR", "run the guest prepared there by --setup", NULL,
     NULL},
    {"setup", 0, CLI_STRING, AT(setup), "DIR",
     "prepare a guest from Debian's arm64 packages in this directory and exit", NULL, NULL},
    {"suite", 0, CLI_STRING, AT(suite), "NAME",
     "with --setup: the Debian suite of the kernel, for example trixie-backports", NULL, NULL},
    {"cpu", 0, CLI_STRING, AT(cpu), "CPU",
     "the SPU and the caches of this core: a preset or a file of that form (spex help cpus), or "
     "max, which has every feature",
     "neoverse-n1", NULL},
    {"features", 0, CLI_STRING, AT(features), "LIST",
     "instead of --cpu: an SPU with these features, for example v1p2,pbt,align=6", NULL, NULL},
    {"model", 0, CLI_STRING, AT(model), "WORDS",
     "the microarchitecture: see docs/model.md; default: that of --cpu, or neoverse-n1", NULL,
     NULL},
    {"smp", 0, CLI_NUMBER, AT(smp), "N", "number of CPUs", "1", NULL},
    {"el2", 0, CLI_FLAG, AT(el2), NULL, "boot at EL2: the kernel runs with VHE", NULL, NULL},
    {"kernel", 0, CLI_STRING, AT(kernel), "IMAGE", "kernel to boot", NULL, NULL},
    {"initrd", 0, CLI_STRING, AT(initrd), "FILE", "initial RAM disk", NULL, NULL},
    {"append", 0, CLI_STRING, AT(append), "TEXT", "more kernel arguments", NULL, NULL},
    {"append-only", 0, CLI_FLAG, AT(append_only), NULL,
     "pass no kernel arguments but those of --append, for kernels other than Linux", NULL, NULL},
    {"firmware", 0, CLI_STRING, AT(firmware), "FILE",
     "firmware that starts first, for example UEFI; it finds the SPU in the device tree", NULL,
     NULL},
    {"device", 0, CLI_LIST, AT(devices), "DEVICE", "a device of QEMU, as its -device takes it",
     NULL, NULL},
    {"share", 0, CLI_STRING, AT(share), "DIR",
     "mount this directory at /host; a prepared guest runs /host/run if there is one, writes its "
     "exit status to /host/status and powers off",
     NULL, NULL},
    {"memory", 'm', CLI_STRING, AT(memory), "SIZE", "guest memory", "1G", NULL},
    {"inject", 0, CLI_LIST, AT(inject), "FAULT",
     "fault@N, abort@N, collide@N+COUNT, event@N, irq@N or id:REGISTER:VALUE: see docs/vm.md", NULL,
     NULL},
    {"choice", 0, CLI_LIST, AT(choices), "NAME=VALUE",
     "an IMPLEMENTATION DEFINED choice of the unit: see spex spu choices", NULL, NULL},
    {"seed", 0, CLI_STRING, AT(seed), "N", "seed of the unit's random numbers", "1", NULL},
    {"log", 0, CLI_STRING, AT(log), "FILE", "write the unit's own log of accesses and events", NULL,
     NULL},
    {"qemu", 0, CLI_STRING, AT(qemu), "PROGRAM", "the QEMU to run", "qemu-system-aarch64", NULL},
    {"verbose", 'v', CLI_FLAG, AT(verbose), NULL, "show the kernel's messages", NULL, NULL},
    {0},
};

const struct cli_command cli_vm = {
    .name = "vm",
    .group = CLI_RUNS,
    .synopsis = "",
    .summary = "run a Linux guest whose own SPE driver sees the SPU",
    .details = "The guest's unmodified arm_spe_pmu driver and perf program the unit: in the guest, "
               "'perf record -e arm_spe// -- CMD' takes profiles of kernel and user code. QEMU's "
               "console is passed through: Ctrl-C goes to the guest, Ctrl-A X ends it. First: "
               "spex vm --setup DIR, then spex vm --guest DIR.",
    .options = vm_options,
    .size = sizeof(struct vm_options),
    .run = run_vm,
};
