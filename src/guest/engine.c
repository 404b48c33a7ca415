/* Starts QEMU with the plugin. left.c reads the results of the run. */
#include "guest/engine.h"

#include "base/error.h"
#include "base/vec.h"
#include "door.h"
#include "elf_file.h"
#include "image.h"
#include "offer.h"
#include "origin.h"
#include "run.h"
#include "start.h"
#include "trace.h"

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
#include <time.h>
#include <unistd.h>

enum { GENERIC_MIDR = 0x000f0000 }; /* belongs to no real CPU; also used by presets min and max */

struct engine {
    char directory[RUN_PATH];
    char program[RUN_PATH], sysroot[RUN_PATH], qemu[RUN_PATH], spex[RUN_PATH];
    char qemu_cpu[RUN_NAME];
    struct offer offer;
    struct image image;
    bool host; /* a program of this machine, which may start AArch64 ones */
    const struct engine_options *options;
    struct run_control settings;
    struct driver_caps caps;
    int control; /* descriptor of `control`; locked while someone uses the run */
    struct door *door;
    pid_t process;
};

static const char default_sysroot[] = "/usr/aarch64-linux-gnu";

/*
 * QEMU 7.2 puts the stack and position-independent files at 0x5500000000. Later versions leave the
 * address to the host, so it differs each time. In an address space of limited size they start at a
 * third of it.
 */
static const char address_space[] = "0xff00000000";

/* ---- before the start ---- */

#ifdef __x86_64__
enum { HOST_MACHINE = EM_X86_64, HOST_MACHINE_32 = EM_386 };
#else
enum { HOST_MACHINE = -1, HOST_MACHINE_32 = -1 }; /* trace.c cannot follow */
#endif

/* Checks a file that is neither an AArch64 program nor a script. */
static enum spex_status check_host(const char *program, struct spex_error *error)
{
    struct elf elf;
    switch (elf_read(program, &elf)) {
    case SPEX_OK:
        break;
    case SPEX_IO:
        return error_set(error, SPEX_INVALID, 0, "%s: %s", program, strerror(errno));
    default:
        return error_set(
            error, SPEX_INVALID, 0,
            "%s is neither an ELF program nor a script (#!) whose interpreter is there", program);
    }
    if (elf.machine == EM_AARCH64 && elf.little && elf.is64)
        return error_set(error, SPEX_INVALID, 0, "%s is an AArch64 object file, not a program",
                         program);
    if ((int)elf.machine != HOST_MACHINE && (int)elf.machine != HOST_MACHINE_32)
        return error_set(error, SPEX_INVALID, 0,
                         "%s is a program for %s; spex record runs 64-bit AArch64 programs",
                         program, elf_machine_name(&elf));
    return SPEX_OK;
}

static enum spex_status check_program(struct engine *e, const char *name, const char *sysroot,
                                      struct spex_error *error)
{
    struct elf elf;
    if (!offer_search(name, e->program, sizeof e->program))
        return error_set(error, SPEX_INVALID, 0, "%s: %s", name,
                         strchr(name, '/') ? strerror(errno) : "not found in PATH");
    if (!sysroot)
        sysroot = getenv("QEMU_LD_PREFIX");
    if (!sysroot && !access(default_sysroot, F_OK))
        sysroot = default_sysroot;
    snprintf(e->sysroot, sizeof e->sysroot, "%s", sysroot ? sysroot : "");
    struct image_search here = {"", "", e->sysroot, false};
    enum image_kind kind = image_find(e->program, &here, &e->image);
    if (kind == IMAGE_ORPHAN && elf_read(e->image.program, &elf) == SPEX_OK)
        return error_set(error, SPEX_INVALID, 0,
                         "%s needs %s, which is not under %s; install libc6-arm64-cross or give -L",
                         e->image.program, elf.interpreter, sysroot ? sysroot : default_sysroot);
    e->host = kind == IMAGE_HOST && e->image.scripts;
    if (kind == IMAGE_GUEST || e->host)
        return SPEX_OK;
    enum spex_status status = check_host(e->program, error);
    e->host = !status;
    return status;
}

/*
 * The unit's choices for user mode. Everything QEMU does not show is switched off: the conditions
 * of selects and compares (DAT-125 to DAT-130), and everything about prefetches except addresses
 * (DAT-164, DAT-184). The target of a branch that is not taken is the next instruction, as on real
 * cores (docs/deviations.md).
 */
static void user_mode_choices(struct spu_choices *choices)
{
    spu_choices_default(choices);
    choices->csel_conditional = choices->csinc_conditional = choices->csneg_conditional = 0;
    choices->csinv_conditional = choices->ccmp_conditional = choices->ccmn_conditional = 0;
    choices->cache_op_info = choices->sve_prefetch_info = INFO_ADDRESS;
    choices->not_taken_target = 1;
    choices->sve_va = 1; /* gives each access an address: that of the lowest Active element */
}

/* Looks up the functions that start and stop sampling in the program, if it is a guest program. */
static enum spex_status check_markers(struct engine *e, const struct engine_options *o,
                                      struct spex_error *error)
{
    const char *names[2] = {o->start_at, o->stop_at};
    char *to[2] = {e->settings.start_at, e->settings.stop_at};
    uint64_t address;
    for (unsigned i = 0; i < 2; i++) {
        if (!names[i])
            continue;
        if (strlen(names[i]) >= RUN_NAME)
            return error_set(error, SPEX_RANGE, 0, "the name of a function is too long");
        if (!e->host && !elf_function(e->image.program, names[i], &address))
            return error_set(error, SPEX_INVALID, 0,
                             "%s has no function %s, or no symbols; nm lists what it has",
                             e->image.program, names[i]);
        strcpy(to[i], names[i]);
    }
    return SPEX_OK;
}

static enum spex_status check_event(struct engine *e, struct engine_options *o,
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

static bool write_file(const struct engine *e, const char *name, const void *data, size_t size,
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

/* Writes a file of words, each ended by a zero. */
static bool write_words(const struct engine *e, const char *name, const char *const *words,
                        size_t count, char *const *more, struct spex_error *error)
{
    size_t size = 0, room = 0;
    char *text = NULL;
    for (size_t i = 0; i < count || (more && more[i - count]); i++) {
        const char *word = i < count ? words[i] : more[i - count];
        size_t n = strlen(word) + 1;
        if (!vec_grow(&text, &room, size + n, 1)) {
            free(text);
            error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
            return false;
        }
        memcpy(text + size, word, n);
        size += n;
    }
    bool ok = write_file(e, name, text, size, error);
    free(text);
    return ok;
}

/* The files `command` and `engine`, and the link `start`. */
static bool write_commands(struct engine *e, struct spex_error *error)
{
    const struct engine_options *o = e->options;
    const char *command[] = {e->program, e->sysroot, o->cpu ? o->cpu : ""};
    char seed[32], stack[32] = "", link[RUN_PATH + 16];
    ssize_t n = readlink("/proc/self/exe", e->spex, sizeof e->spex - 1);
    e->spex[n > 0 ? n : 0] = '\0';
    snprintf(seed, sizeof seed, "%u", (unsigned)o->seed);
    if (o->stack)
        snprintf(stack, sizeof stack, "%" PRIu64, o->stack);
    const char *engine[START_WORDS] = {
        [START_QEMU] = e->qemu,       [START_PLUGIN] = o->plugin,
        [START_CPU] = e->qemu_cpu,    [START_SEED] = seed,
        [START_SYSROOT] = e->sysroot, [START_SPACE] = e->offer.boards ? address_space : "",
        [START_STACK] = stack,        [START_SPEX] = e->spex};
    snprintf(link, sizeof link, "%s/" TRACE_LINK, e->directory);
    if (symlink(e->spex, link)) {
        error_set(error, SPEX_IO, 0, "%s: %s", link, strerror(errno));
        return false;
    }
    return (!o->ideal_count ||
            write_file(e, "ideal", o->ideal, o->ideal_count * sizeof *o->ideal, error)) &&
           write_words(e, "command", command, 3, o->argv, error) &&
           write_words(e, "engine", engine, START_WORDS, NULL, error);
}

/* Makes the directory with the files that exist before the guest runs. */
static bool make_directory(struct engine *e, struct spex_error *error)
{
    char path[RUN_PATH];
    int n = snprintf(path, sizeof path, "%s.run-XXXXXX", e->options->prefix);
    /* Absolute, because the guest may change its directory. */
    if (n < 0 || (size_t)n >= sizeof path - 16 || !mkdtemp(path) || !realpath(path, e->directory)) {
        error_set(error, SPEX_IO, 0, "%s: %s", path,
                  (size_t)n >= sizeof path - 16 ? "the name is too long" : strerror(errno));
        return false;
    }
    e->door = door_new(e->directory, &e->settings);
    if (!write_file(e, "control", &e->settings, sizeof e->settings, error) ||
        !write_commands(e, error))
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

/* A program of this machine: AArch64 programs that it starts are profiled. */
static void run_host(const struct engine *e)
{
    struct run_control *run =
        mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED, e->control, 0);
    if (run == MAP_FAILED)
        _exit(126);
    origin_leave(run, RUN_NO_TASK, 0);
    if (!trace_enter(e->spex, e->directory))
        run->untraced = 1;
    execv(e->program, e->options->argv);
}

/*
 * QEMU passes its own path argument on to the guest (AT_EXECFN), so this is the path of a
 * descriptor. A program that wants its real location can still read that link.
 */
static bool hide_path(struct image *image)
{
    enum { FD = 100 };
    int fd = open(image->program, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && dup2(fd, FD) == FD;
    if (fd >= 0)
        close(fd);
    snprintf(image->program, sizeof image->program, "/proc/self/fd/%d", FD);
    return ok;
}

static void run_program(const struct engine *e)
{
    const struct engine_options *o = e->options;
    static char *none[1];
    struct image image = e->image;
    struct start start;
    unsetenv("QEMU_PLUGIN");
    if (o->alone)
        environ = none;
    if (o->alone && !e->host && !hide_path(&image))
        _exit(126);
    if (o->aside)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    for (const char *const *v = o->environment; v && *v; v++)
        putenv((char *)(uintptr_t)*v);
    if (e->host)
        run_host(e);
    else if (start_read(e->directory, &start))
        start_guest(&start, e->directory, &image, e->program, o->argv, environ, false, -1);
    _exit(errno == ENOENT ? 127 : 126);
}

static void set_output(struct engine *e, const struct engine_options *o)
{
    struct run_output *out = &e->settings.output;
    /* Readers take a load without Data Source packet on a known CPU as a level 1 hit. */
    out->midr = o->model.none ? GENERIC_MIDR : o->features.midr;
    out->min_interval = e->caps.min_interval;
    out->event_filter = e->caps.event_filter;
    out->period = o->period;
    memcpy(out->config, o->config, sizeof out->config);
    out->keep = o->keep;
    out->truth = o->truth;
    out->stacks = o->stacks;
    out->allocs = o->allocs;
    out->elapsed = !o->model.none;
}

enum spex_status engine_new(struct engine_options *o, struct engine **out, struct spex_error *error)
{
    struct spex_error unused;
    struct engine *e = calloc(1, sizeof *e);
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
    if (o->model.none) /* no caches, no branch history */
        settings->features.LDS = settings->features.FDS = settings->features.PBT = false;
    settings->seed = o->seed;
    settings->keep = o->keep;
    settings->truth = o->truth;
    settings->truth_parts = o->truth_parts && o->regions;
    settings->stacks = o->stacks;
    settings->allocs = o->allocs;
    settings->regions = o->regions;
    settings->deterministic = o->deterministic;
    settings->disabled = o->disabled;
    settings->delay = o->delay;
    settings->max_size = o->max_size;
    user_mode_choices(&settings->choices);
    settings->choices.layout = o->layout;
    settings->choices.select_group = o->select_group;
    enum spex_status status =
        offer_find(o->qemu, o->own_qemu, e->qemu, sizeof e->qemu, &e->offer, error);
    offer_cpu(&e->offer, o, e->qemu_cpu, sizeof e->qemu_cpu);
    settings->zva_bytes = !strncmp(e->qemu_cpu, "max", 3) ? 512 : 64; /* DCZID_EL0 */
    if (!status)
        status = check_program(e, o->alone ? o->alone : o->argv[0], o->sysroot, error);
    if (!status)
        status = check_markers(e, o, error);
    if (!status)
        status = check_event(e, o, settings, error);
    if (!status) {
        set_output(e, o);
        if (!make_directory(e, error)) {
            status = error->status;
            if (e->directory[0])
                left_remove(e->directory);
        }
    }
    if (status) {
        engine_free(e);
        return status;
    }
    *out = e;
    return SPEX_OK;
}

const char *engine_directory(const struct engine *e)
{
    return e->directory;
}

const char *engine_cpu(const struct engine *e)
{
    return e->qemu_cpu;
}

void engine_about(const struct engine *e, struct left_about *about)
{
    const struct run_output *o = &e->settings.output;
    *about = (struct left_about){.midr = o->midr,
                                 .min_interval = o->min_interval,
                                 .event_filter = o->event_filter,
                                 .period = o->period,
                                 .cpus = 1,
                                 .keep = o->keep,
                                 .truth = o->truth,
                                 .host = e->host,
                                 .stacks = o->stacks,
                                 .allocs = o->allocs,
                                 .elapsed = o->elapsed,
                                 .cpu = e->options->cpu,
                                 .model = uarch_mode(&e->settings.model),
                                 .argv = (const char *const *)e->options->argv};
    if (e->settings.model.sockets == 2 && !e->settings.model.none)
        about->socket_cpus = e->settings.model.cluster;
    memcpy(about->config, o->config, sizeof about->config);
}

enum spex_status engine_start(struct engine *e, struct spex_error *error)
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
        /* If spex is killed by SIGKILL, so is the guest; what it wrote can be recovered. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
        run_program(e);
    }
    if (e->process < 0)
        return error_set(error, SPEX_IO, 0, "fork: %s", strerror(errno));
    if (e->door)
        door_begin(e->door);
    return SPEX_OK;
}

int engine_process(const struct engine *e)
{
    return (int)e->process;
}

enum spex_status engine_wait(struct engine *e, int *status, void (*tick)(void *), void *context,
                             struct spex_error *error)
{
    pid_t pid;
    while ((pid = waitpid(e->process, status, tick ? WNOHANG : 0)) <= 0 &&
           (!pid || errno == EINTR)) {
        if (!tick)
            continue;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        tick(context);
    }
    door_free(e->door);
    e->door = NULL;
    if (pid < 0)
        return error_set(error, SPEX_IO, 0, "waitpid: %s", strerror(errno));
    e->process = 0;
    return SPEX_OK;
}

static uint32_t control_word(const struct engine *e, size_t at)
{
    uint32_t word = 0;
    return pread(e->control, &word, sizeof word, (off_t)at) == sizeof word ? word : 0;
}

bool engine_glance(const struct engine *e, uint64_t *clock, uint64_t *samples)
{
    enum { RECORDS = 2 }; /* index of SAMPLE_FILTRATE in run_events */
    struct run_task task;
    char path[RUN_PATH + 16];
    const uint32_t shown = 1, tasks = control_word(e, offsetof(struct run_control, tasks));
    *clock = *samples = 0;
    if (control_word(e, offsetof(struct run_control, talked)) ||
        pwrite(e->control, &shown, sizeof shown, offsetof(struct run_control, shown)) < 0)
        return false;
    for (uint32_t i = 0; i < tasks; i++) {
        snprintf(path, sizeof path, "%s/%u", e->directory, i);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && pread(fd, &task, sizeof task, 0) == sizeof task) {
            *clock = task.clock > *clock ? task.clock : *clock;
            *samples += task.pmu[RECORDS];
        }
        if (fd >= 0)
            close(fd);
    }
    return true;
}

void engine_enable(struct engine *e, bool on)
{
    uint32_t disabled = !on;
    if (pwrite(e->control, &disabled, sizeof disabled, offsetof(struct run_control, disabled)) < 0)
        return; /* cannot fail: the file is ours and long enough */
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    if (e->control >= 0)
        close(e->control);
    door_free(e->door);
    free(e);
}

unsigned engine_pmu_event(const struct engine *e, size_t index, bool *present)
{
    if (index >= RUN_EVENTS)
        return 0;
    unsigned event = run_events[index];
    const struct arch_features *f = &e->settings.features;
    switch (event) { /* "required with" in D14.3 */
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
