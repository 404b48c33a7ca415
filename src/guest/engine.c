/* Starting QEMU with the plugin. What the run leaves is read by left.c. */
#include "guest/engine.h"

#include "base/error.h"
#include "base/vec.h"
#include "elf.h"
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GENERIC_MIDR = 0x000f0000 }; /* of no real CPU; as of the presets min and max */

struct spex_engine {
    char directory[RUN_PATH];
    char program[RUN_PATH], sysroot[RUN_PATH], qemu[RUN_PATH];
    const struct spex_engine_options *options;
    struct run_control settings;
    struct driver_caps caps;
    int control; /* locked: the run is somebody's */
    pid_t process;
};

static const char default_sysroot[] = "/usr/aarch64-linux-gnu";

/* ---- before the start ---- */

static bool search_path(const char *name, char *path, size_t size)
{
    const char *list = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        return !access(path, X_OK);
    }
    for (list = list ? list : "/usr/bin:/bin"; *list;) {
        size_t n = strcspn(list, ":");
        snprintf(path, size, "%.*s%s%s", (int)n, list, n ? "/" : "./", name);
        struct stat st;
        if (!access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode))
            return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

/* Can this QEMU load plugins? Those that can export the functions that plugins call. */
static bool has_plugins(const char *path)
{
    static const char symbol[] = "qemu_plugin_register_vcpu_tb_trans_cb";
    bool found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            found = memmem(map, (size_t)st.st_size, symbol, sizeof symbol) != NULL;
            munmap(map, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
    return found;
}

static enum spex_status check_qemu(const char *name, char *path, size_t size,
                                   struct spex_error *error)
{
    if (!search_path(name, path, size))
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "cannot find %s; install Debian 12's package qemu-user", name);
    if (!has_plugins(path))
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "%s has no plugin support (static builds have none); Debian 12's "
                         "qemu-user 7.2 does",
                         path);
    return SPEX_OK;
}

static enum spex_status check_program(struct spex_engine *e, const char *name, const char *sysroot,
                                      struct spex_error *error)
{
    struct elf elf;
    char interpreter[2 * RUN_PATH];
    if (!search_path(name, e->program, sizeof e->program))
        return error_set(error, SPEX_INVALID, 0, "%s: %s", name,
                         strchr(name, '/') ? strerror(errno) : "not found in PATH");
    switch (elf_read(e->program, &elf)) {
    case SPEX_OK:
        break;
    case SPEX_IO:
        return error_set(error, SPEX_INVALID, 0, "%s: %s", e->program, strerror(errno));
    default:
        return error_set(error, SPEX_INVALID, 0,
                         "%s is not an ELF program; for a script, run its interpreter", e->program);
    }
    if (elf.machine != 183 || !elf.little || !elf.is64)
        return error_set(error, SPEX_INVALID, 0,
                         "%s is a program for %s; spex record runs 64-bit AArch64 programs",
                         e->program, elf_machine_name(&elf));
    if (!elf.executable)
        return error_set(error, SPEX_INVALID, 0, "%s is an AArch64 object file, not a program",
                         e->program);
    if (!sysroot)
        sysroot = getenv("QEMU_LD_PREFIX");
    if (!sysroot && !access(default_sysroot, F_OK))
        sysroot = default_sysroot;
    snprintf(e->sysroot, sizeof e->sysroot, "%s", sysroot ? sysroot : "");
    if (!elf.interpreter[0])
        return SPEX_OK;
    snprintf(interpreter, sizeof interpreter, "%s%s", e->sysroot, elf.interpreter);
    if (access(interpreter, R_OK) && access(elf.interpreter, R_OK))
        return error_set(error, SPEX_INVALID, 0,
                         "%s needs %s, which is not under %s; install libc6-arm64-cross or give -L",
                         e->program, elf.interpreter, sysroot ? sysroot : default_sysroot);
    return SPEX_OK;
}

/*
 * What user mode cannot know is switched off where the manual lets an
 * implementation choose: conditions of selects and compares (DAT-125 to DAT-130)
 * and addresses of prefetches (DAT-184). A branch that is not taken has the next instruction as
 * its target, as silicon has it (docs/deviations.md).
 */
static void user_mode_choices(struct spu_choices *choices)
{
    spu_choices_default(choices);
    choices->csel_conditional = choices->csinc_conditional = choices->csneg_conditional = 0;
    choices->csinv_conditional = choices->ccmp_conditional = choices->ccmn_conditional = 0;
    choices->cache_op_info = 0;
    choices->sve_prefetch_info = 0;
    choices->not_taken_target = 1;
}

static enum spex_status check_event(struct spex_engine *e, struct spex_engine_options *o,
                                    struct run_control *c, struct spex_error *error)
{
    struct spu_config config;
    struct spex_spu *unit;
    if (o->config[0] & 2)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "pa_enable: a program under QEMU has no physical addresses; allowed: 0");
    spu_config_default(&config);
    config.features = c->features;
    config.choices = c->choices;
    enum spex_status status = spu_new(&config, &unit, error);
    if (status)
        return status;
    spex_spu_boot(unit);
    status = driver_probe(unit, &e->caps, error);
    memcpy(c->event.config, o->config, sizeof c->event.config);
    c->event.period = o->period;
    if (!status)
        status = driver_init_event(&e->caps, &c->event, error);
    spex_spu_free(unit);
    o->period = c->event.period;
    uint64_t size = o->aux_size;
    if (!status && (size < 2 * RUN_PAGE || size & (size - 1) || size > UINT64_C(1) << 32))
        return error_set(error, SPEX_RANGE, 0,
                         "AUX size %" PRIu64 ": a power of two from 8192 to 4G", size);
    c->buffer = size / 2;
    return status;
}

/* ---- start ---- */

static bool write_file(const struct spex_engine *e, const char *name, const void *data, size_t size,
                       struct spex_error *error)
{
    char path[RUN_PATH + 16];
    snprintf(path, sizeof path, "%s/%s", e->directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    errno = fd < 0 ? errno : ENOSPC;
    bool ok = fd >= 0 && write(fd, data, size) == (ssize_t)size;
    int problem = errno;
    if (fd >= 0 && close(fd) && ok) {
        problem = errno;
        ok = false;
    }
    if (!ok)
        error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(problem));
    return ok;
}

/* The words of the file `command`. */
static bool write_command(const struct spex_engine *e, struct spex_error *error)
{
    size_t size = 0, room = 0;
    char *text = NULL;
    for (size_t i = 0; i < 3 || e->options->argv[i - 3]; i++) {
        const char *word = i == 0   ? e->program
                           : i == 1 ? e->sysroot
                           : i == 2 ? e->options->cpu ? e->options->cpu : ""
                                    : e->options->argv[i - 3];
        size_t n = strlen(word) + 1;
        if (!vec_grow(&text, &room, size + n, 1)) {
            free(text);
            error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
            return false;
        }
        memcpy(text + size, word, n);
        size += n;
    }
    bool ok = write_file(e, "command", text, size, error);
    free(text);
    return ok;
}

/* The directory with what is there before the guest runs. */
static bool make_directory(struct spex_engine *e, struct spex_error *error)
{
    char path[RUN_PATH];
    int n = snprintf(path, sizeof path, "%s.run-XXXXXX", e->options->prefix);
    /* Absolute, because the guest may change its directory. */
    if (n < 0 || (size_t)n >= sizeof path - 16 || !mkdtemp(path) || !realpath(path, e->directory)) {
        error_set(error, SPEX_IO, 0, "%s: %s", path,
                  (size_t)n >= sizeof path - 16 ? "the name is too long" : strerror(errno));
        return false;
    }
    if (!write_file(e, "control", &e->settings, sizeof e->settings, error) ||
        !write_command(e, error))
        return false;
    snprintf(path, sizeof path, "%.*s/control", (int)sizeof path - 16, e->directory);
    e->control = open(path, O_RDWR | O_CLOEXEC);
    if (e->control < 0 || flock(e->control, LOCK_EX | LOCK_NB)) {
        error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(errno));
        return false;
    }
    if (!e->settings.keep)
        return true;
    snprintf(path, sizeof path, "%.*s/reserve", (int)sizeof path - 16, e->directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int problem = fd < 0 ? errno : posix_fallocate(fd, 0, RUN_RESERVE);
    if (fd >= 0)
        close(fd);
    if (problem)
        error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(problem));
    return !problem;
}

/* QEMU cuts the argument at commas. */
static bool escape_commas(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text; text++) {
        if (n + 3 > size)
            return false;
        if (*text == ',')
            out[n++] = ',';
        out[n++] = *text;
    }
    out[n] = '\0';
    return true;
}

static void run_qemu(const struct spex_engine *e)
{
    const struct spex_engine_options *o = e->options;
    const char *qemu = e->qemu;
    char plugin[5 * RUN_PATH], library[2 * RUN_PATH], directory[2 * RUN_PATH], seed[32];
    size_t count = 0, n = 0;
    while (o->argv[count])
        count++;
    char **argv = calloc(count + 16, sizeof *argv);
    if (!argv || !escape_commas(o->plugin, library, sizeof library) ||
        !escape_commas(e->directory, directory, sizeof directory))
        _exit(126);
    snprintf(plugin, sizeof plugin, "file=%s,dir=%s", library, directory);
    snprintf(seed, sizeof seed, "%u", (unsigned)o->seed);
    static char option_plugin[] = "-plugin", option_cpu[] = "-cpu", option_sysroot[] = "-L",
                option_seed[] = "-seed", option_name[] = "-0", default_cpu[] = "neoverse-n1";
    argv[n++] = (char *)(uintptr_t)qemu;
    argv[n++] = option_plugin;
    argv[n++] = plugin;
    argv[n++] = option_cpu;
    argv[n++] = o->qemu_cpu ? (char *)(uintptr_t)o->qemu_cpu : default_cpu;
    argv[n++] = option_seed;
    argv[n++] = seed;
    if (e->sysroot[0]) {
        argv[n++] = option_sysroot;
        argv[n++] = (char *)(uintptr_t)e->sysroot;
    }
    argv[n++] = option_name;
    argv[n++] = o->argv[0];
    argv[n++] = (char *)(uintptr_t)e->program;
    for (size_t i = 1; i < count; i++)
        argv[n++] = o->argv[i];
    unsetenv("QEMU_PLUGIN");
    if (o->aside)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    for (const char *const *v = o->environment; v && *v; v++)
        putenv((char *)(uintptr_t)*v);
    execv(qemu, argv);
    _exit(errno == ENOENT ? 127 : 126);
}

static void set_output(struct spex_engine *e, const struct spex_engine_options *o)
{
    struct run_output *out = &e->settings.output;
    /* Readers take a load without Data Source packet on a known CPU for a level 1 hit. */
    out->midr = o->model.none ? GENERIC_MIDR : o->features.midr;
    out->min_interval = e->caps.min_interval;
    out->event_filter = e->caps.event_filter;
    out->period = o->period;
    memcpy(out->config, o->config, sizeof out->config);
    out->keep = o->keep;
    out->truth = o->truth;
}

enum spex_status spex_engine_new(struct spex_engine_options *o, struct spex_engine **out,
                                 struct spex_error *error)
{
    struct spex_error unused;
    struct spex_engine *e = calloc(1, sizeof *e);
    if (!e)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    if (!error)
        error = &unused;
    struct run_control *settings = &e->settings;
    e->options = o;
    e->control = -1;
    settings->version = RUN_VERSION;
    settings->size = sizeof *settings;
    settings->features = o->features;
    settings->features.ArchInst = true; /* each instruction is one operation here */
    settings->model = o->model;
    if (o->model.none) /* no caches, no memory of branches */
        settings->features.LDS = settings->features.FDS = settings->features.PBT = false;
    settings->seed = o->seed;
    settings->zva_bytes = o->qemu_cpu && !strncmp(o->qemu_cpu, "max", 3) ? 512 : 64; /* DCZID_EL0 */
    settings->keep = o->keep;
    settings->truth = o->truth;
    user_mode_choices(&settings->choices);
    settings->choices.layout = o->layout;
    enum spex_status status =
        check_qemu(o->qemu ? o->qemu : "qemu-aarch64", e->qemu, sizeof e->qemu, error);
    if (!status)
        status = check_program(e, o->argv[0], o->sysroot, error);
    if (!status)
        status = check_event(e, o, settings, error);
    if (!status) {
        set_output(e, o);
        if (!make_directory(e, error)) {
            status = error->status;
            if (e->directory[0])
                spex_run_remove(e->directory);
        }
    }
    if (status) {
        spex_engine_free(e);
        return status;
    }
    *out = e;
    return SPEX_OK;
}

const char *spex_engine_directory(const struct spex_engine *e)
{
    return e->directory;
}

void spex_engine_about(const struct spex_engine *e, struct spex_run_about *about)
{
    const struct run_output *o = &e->settings.output;
    *about = (struct spex_run_about){.midr = o->midr,
                                     .min_interval = o->min_interval,
                                     .event_filter = o->event_filter,
                                     .period = o->period,
                                     .cpus = 1,
                                     .keep = o->keep,
                                     .truth = o->truth,
                                     .cpu = e->options->cpu,
                                     .argv = (const char *const *)e->options->argv};
    memcpy(about->config, o->config, sizeof about->config);
}

enum spex_status spex_engine_start(struct spex_engine *e, struct spex_error *error)
{
    if (e->settings.keep) {
        char path[RUN_PATH + 16];
        struct stat st;
        snprintf(path, sizeof path, "%s/data", e->directory);
        if (stat(path, &st))
            return error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(errno));
        e->settings.output.start = e->settings.end = (uint64_t)st.st_size;
        if (pwrite(e->control, &e->settings, sizeof e->settings, 0) != sizeof e->settings)
            return error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(errno));
    }
    fflush(NULL);
    pid_t parent = getpid();
    e->process = fork();
    if (!e->process) {
        /* If spex is killed outright, so is the guest; what it wrote can be recovered. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
        run_qemu(e);
    }
    if (e->process < 0)
        return error_set(error, SPEX_IO, 0, "fork: %s", strerror(errno));
    return SPEX_OK;
}

int spex_engine_process(const struct spex_engine *e)
{
    return (int)e->process;
}

enum spex_status spex_engine_wait(struct spex_engine *e, int *status, struct spex_error *error)
{
    pid_t pid;
    while ((pid = waitpid(e->process, status, 0)) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        return error_set(error, SPEX_IO, 0, "waitpid: %s", strerror(errno));
    e->process = 0;
    return SPEX_OK;
}

void spex_engine_free(struct spex_engine *e)
{
    if (!e)
        return;
    if (e->control >= 0)
        close(e->control);
    free(e);
}

unsigned spex_engine_pmu_event(const struct spex_engine *e, size_t index, bool *present)
{
    if (index >= RUN_EVENTS)
        return 0;
    unsigned event = run_events[index];
    const struct arch_features *f = &e->settings.features;
    switch (event) { /* "required with" of D14.3 */
    case SPEX_PMU_SAMPLE_FEED_DS:
        *present = f->FDS;
        break;
    case SPEX_PMU_SAMPLE_BUFFER_FULL:
        *present = f->version >= 5;
        break;
    case SPEX_PMU_SAMPLE_FEED_FP:
    case SPEX_PMU_SAMPLE_FEED_SIMD:
        *present = f->EFT;
        break;
    default:
        *present = event < 0x8000 || f->version >= 3;
    }
    return event;
}
