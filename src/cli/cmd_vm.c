/*
 * spex vm: a Linux guest whose own arm_spe_pmu driver sees the SPU.
 *
 * QEMU describes its machine in a device tree; we add the node that the driver
 * binds to, and start QEMU with the plugin that serves the SPE registers.
 */
#include "cli.h"
#include "locate.h"

#include <spex/vm.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct vm_options {
    const char *features, *cpu, *kernel, *initrd, *append, *setup, *suite, *guest, *share, *memory;
    const char *qemu, *log, *seed, *model;
    struct cli_list inject, choices;
    uint64_t smp;
    bool el2, verbose;
};

enum { ARGS = 96, TEXT = 4096 };

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

/* QEMU cuts some arguments at commas; two of them stand for one. */
static const char *escaped(const char *path, char *out)
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

/* Runs to the end; the exit status, or -1 with a message. quiet drops its output. */
static int run(const struct command *c, bool quiet)
{
    if (c->full) {
        cli_error("the command line for %s is too long", c->argv[0]);
        return -1;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        cli_error("fork: %s", strerror(errno));
        return -1;
    }
    if (!pid) {
        if (quiet) {
            int null = open("/dev/null", O_WRONLY);
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
        _exit(errno == ENOENT ? 127 : 126);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 127 || code == 126)
        cli_error("cannot run %s (Debian packages: qemu-system-arm, device-tree-compiler)",
                  c->argv[0]);
    return code;
}

/* The machine as QEMU must be told in both runs: once for its device tree, once for real. */
static void add_machine(struct command *c, const struct vm_options *o, uint32_t midr,
                        const char *dtb)
{
    add(c, "%s", o->qemu);
    add(c, "-M");
    add(c, "virt,gic-version=3%s%s%s", o->el2 ? ",virtualization=on" : "", dtb ? ",dumpdtb=" : "",
        dtb ? dtb : "");
    add(c, "-cpu");
    /* Fast pointer authentication: else a boot takes three times as long. No SVE: QEMU does not
     * show its data accesses. */
    if (midr >> 24) /* a core that exists: tools in the guest decode its data sources */
        add(c, "max,pauth-impdef=on,sve=off,sme=off,midr=0x%x", midr);
    else
        add(c, "max,pauth-impdef=on,sve=off,sme=off");
    add(c, "-m");
    add(c, "%s", o->memory);
    add(c, "-smp");
    add(c, "%llu", (unsigned long long)o->smp);
    add(c, "-nographic");
    add(c, "-nic");
    add(c, "none");
}

/* PMBIRQ is a PPI of each PE: INTID 21 is PPI 5, level high (BSA; ISMLLS). */
static bool make_device_tree(const struct vm_options *o, uint32_t midr, const char *dtb)
{
    static const char *const node[][6] = {
        {"-c", NULL, "/spe-pmu"},
        {"-ts", NULL, "/spe-pmu", "compatible", "arm,statistical-profiling-extension-v1"},
        {"-tx", NULL, "/spe-pmu", "interrupts", "1 5 4"},
    };
    struct command c = {0};
    add_machine(&c, o, midr, dtb);
    if (run(&c, true) || access(dtb, R_OK)) {
        cli_error("%s could not describe its machine; is it a qemu-system-aarch64?", o->qemu);
        return false;
    }
    for (size_t i = 0; i < sizeof node / sizeof node[0]; i++) {
        struct command put = {0};
        add(&put, "fdtput");
        add(&put, "%s", node[i][0]);
        add(&put, "%s", dtb);
        for (size_t j = 2; j < 5 && node[i][j]; j++) {
            if (i == 2 && j == 4) {
                add(&put, "1");
                add(&put, "5");
                add(&put, "4");
            } else {
                add(&put, "%s", node[i][j]);
            }
        }
        if (run(&put, false)) {
            cli_error("fdtput could not add the SPE node to the device tree");
            return false;
        }
    }
    return true;
}

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
    if (run(&c, false))
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
 * Each setting is checked here and goes to the plugin as a word: before anything is
 * started, what is wrong is one sentence.
 */
struct settings {
    struct spex_vm_config config;
    char text[TEXT];
    size_t used;
};

static bool set(struct settings *s, const char *name, const char *value, struct spex_error *error)
{
    if (spex_vm_config_set(&s->config, name, value, error))
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

static bool is_model(const char *cpu)
{
    const char *name;
    for (size_t i = 0; (name = spex_uarch_preset_name(i)); i++)
        if (!strcmp(name, cpu))
            return true;
    return false;
}

static bool settle(const struct vm_options *o, struct settings *s, struct spex_error *error)
{
    spex_vm_config_default(&s->config);
    if (!set(s, "features", o->features ? o->features : o->cpu, error) ||
        (is_model(o->cpu) && !set(s, "model", o->cpu, error)) ||
        (o->model && !set(s, "model", o->model, error)) || !set(s, "seed", o->seed, error))
        return false;
    for (size_t i = 0; i < o->choices.count; i++)
        if (!set(s, "choice", o->choices.items[i], error))
            return false;
    for (size_t i = 0; i < o->inject.count; i++)
        if (!set(s, "inject", o->inject.items[i], error))
            return false;
    return !spex_spu_config_check(&s->config.unit, error);
}

static int run_vm(void *options, int argc, char **argv)
{
    struct vm_options *o = options;
    struct settings settings = {.used = 0};
    struct spex_error error;
    char kernel[TEXT], initrd[TEXT], plugin[TEXT], directory[] = "/tmp/spex-vm-XXXXXX";
    char dtb[sizeof directory + 16], path[2 * TEXT], log[2 * TEXT];
    if (argc)
        return cli_usage("unexpected operand '%s'", argv[0]);
    if (o->setup)
        return set_up(o);
    if (!settle(o, &settings, &error))
        return cli_usage("%s", error.text);
    if (!o->smp || o->smp > 64)
        return cli_usage("--smp takes 1 to 64");
    if (o->guest) {
        snprintf(kernel, sizeof kernel, "%s/Image", o->guest);
        snprintf(initrd, sizeof initrd, "%s/initrd", o->guest);
        if (access(kernel, R_OK)) {
            cli_error("%s is no prepared guest; make one with: spex vm --setup %s", o->guest,
                      o->guest);
            return CLI_DATA;
        }
        o->kernel = o->kernel ? o->kernel : kernel;
        o->initrd = o->initrd ? o->initrd : initrd;
    }
    if (!o->kernel)
        return cli_usage("say which guest to run: --guest DIR, or --kernel IMAGE --initrd FILE");
    if (!readable("kernel", o->kernel) || (o->initrd && !readable("initrd", o->initrd)) ||
        (o->share && !readable("share", o->share)) ||
        !cli_locate("libspex-qemu.so", plugin, sizeof plugin))
        return CLI_DATA;
    if (!mkdtemp(directory)) {
        cli_error("%s: %s", directory, strerror(errno));
        return CLI_DATA;
    }
    snprintf(dtb, sizeof dtb, "%s/virt.dtb", directory);
    int status = CLI_DATA;
    uint32_t midr = settings.config.unit.features.midr;
    if (make_device_tree(o, midr, dtb)) {
        struct command c = {0};
        add_machine(&c, o, midr, NULL);
        add(&c, "-dtb");
        add(&c, "%s", dtb);
        add(&c, "-kernel");
        add(&c, "%s", o->kernel);
        if (o->initrd) {
            add(&c, "-initrd");
            add(&c, "%s", o->initrd);
        }
        add(&c, "-append");
        /* The driver refuses KPTI: its buffer is in kernel addresses. */
        add(&c, "console=ttyAMA0 kpti=off%s%s%s", o->verbose ? "" : " quiet", o->append ? " " : "",
            o->append ? o->append : "");
        if (o->share) {
            add(&c, "-fsdev");
            add(&c, "local,id=share,path=%s,security_model=none", escaped(o->share, path));
            add(&c, "-device");
            add(&c, "virtio-9p-device,fsdev=share,mount_tag=host");
        }
        add(&c, "-no-reboot");
        add(&c, "-plugin");
        add(&c, "%s%s%s%s", escaped(plugin, path), settings.text, o->log ? ",log=" : "",
            o->log ? escaped(o->log, log) : "");
        status = run(&c, false);
        status = status < 0 ? CLI_DATA : status;
    }
    unlink(dtb);
    rmdir(directory);
    return status;
}

#define AT(field) offsetof(struct vm_options, field)
static const struct cli_option vm_options[] = {
    {"guest", 'g', CLI_STRING, AT(guest), "DIR", "run the guest prepared there by --setup", NULL, NULL},
    {"setup", 0, CLI_STRING, AT(setup), "DIR",
     "prepare a guest from Debian's arm64 packages in this directory and exit", NULL, NULL},
    {"suite", 0, CLI_STRING, AT(suite), "NAME",
     "with --setup: the Debian suite of the kernel, for example bookworm-backports", NULL, NULL},
    {"cpu", 0, CLI_STRING, AT(cpu), "MODEL", "the SPU of this core", "max", NULL},
    {"features", 0, CLI_STRING, AT(features), "LIST",
     "or an SPU with these features, for example v1p2,pbt,align=6", NULL, NULL},
    {"model", 0, CLI_STRING, AT(model), "WORDS",
     "the microarchitecture: see docs/model.md; default: that of --cpu, or neoverse-n1", NULL, NULL},
    {"smp", 0, CLI_NUMBER, AT(smp), "N", "number of CPUs", "1", NULL},
    {"el2", 0, CLI_FLAG, AT(el2), NULL, "boot at EL2: the kernel runs with VHE", NULL, NULL},
    {"kernel", 0, CLI_STRING, AT(kernel), "IMAGE", "kernel to boot", NULL, NULL},
    {"initrd", 0, CLI_STRING, AT(initrd), "FILE", "initial RAM disk", NULL, NULL},
    {"append", 0, CLI_STRING, AT(append), "TEXT", "more kernel arguments", NULL, NULL},
    {"share", 0, CLI_STRING, AT(share), "DIR",
     "mount this directory at /host; a prepared guest runs /host/run if there is one, writes its "
     "exit status to /host/status and powers off", NULL, NULL},
    {"memory", 'm', CLI_STRING, AT(memory), "SIZE", "guest memory", "1G", NULL},
    {"inject", 0, CLI_LIST, AT(inject), "FAULT",
     "fault@N, abort@N, collide@N+COUNT, event@N or id:REGISTER:VALUE: see docs/vm.md", NULL, NULL},
    {"choice", 0, CLI_LIST, AT(choices), "NAME=VALUE",
     "an IMPLEMENTATION DEFINED choice of the unit: see spex spu choices", NULL, NULL},
    {"seed", 0, CLI_STRING, AT(seed), "N", "seed of the unit's random numbers", "1", NULL},
    {"log", 0, CLI_STRING, AT(log), "FILE", "write the unit's own log of accesses and events", NULL, NULL},
    {"qemu", 0, CLI_STRING, AT(qemu), "PROGRAM", "the QEMU to run", "qemu-system-aarch64", NULL},
    {"verbose", 'v', CLI_FLAG, AT(verbose), NULL, "show the kernel's messages", NULL, NULL},
    {0},
};

extern const struct cli_command cli_vm;
const struct cli_command cli_vm = {
    .name = "vm",
    .group = "Profile without Arm hardware",
    .synopsis = "",
    .summary = "run a Linux guest whose own SPE driver sees the SPU",
    .details = "The guest's unmodified arm_spe_pmu driver and perf program the unit: in the guest, "
               "'perf record -e arm_spe// -- CMD' takes profiles of kernel and user code. QEMU's "
               "console is passed through; Ctrl-A X ends it.",
    .options = vm_options,
    .size = sizeof(struct vm_options),
    .run = run_vm,
};
