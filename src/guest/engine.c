/* Starting QEMU with the plugin, and reading what the run left. */
#include "guest/engine.h"

#include "base/error.h"
#include "elf.h"
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct task_files {
    const struct run_task *task;
    const uint8_t *aux;
    size_t aux_size;
    const uint8_t *log;
    size_t log_size;
};

/* Build-ids by path. */
struct file_id {
    char *path;
    uint8_t id[20];
    unsigned size;
};

struct entry {
    struct spex_engine_event event;
    uint32_t task, order;
};

struct spex_engine {
    char directory[RUN_PATH];
    char program[RUN_PATH], sysroot[RUN_PATH];
    struct run_control *control;
    struct driver_caps caps;
    pid_t process;
    struct task_files *tasks;
    uint32_t task_count;
    struct entry *entries;
    size_t entry_count, entry_room, position;
    struct file_id *files;
    size_t file_count;
    struct spex_engine_truth *truth;
    size_t truth_count;
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
 * and addresses of prefetches (DAT-184).
 */
static void user_mode_choices(struct spex_spu_choices *choices)
{
    spu_choices_default(choices);
    choices->csel_conditional = choices->csinc_conditional = choices->csneg_conditional = 0;
    choices->csinv_conditional = choices->ccmp_conditional = choices->ccmn_conditional = 0;
    choices->cache_op_info = 0;
    choices->sve_prefetch_info = 0;
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

static struct run_control *make_control(struct spex_engine *e, struct spex_error *error)
{
    char path[RUN_PATH + 16];
    snprintf(path, sizeof path, "%s/control", e->directory);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int problem = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof(struct run_control));
    void *map = MAP_FAILED;
    if (!problem) {
        map = mmap(NULL, sizeof(struct run_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        problem = errno;
    }
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED) {
        error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(problem));
        return NULL;
    }
    return map;
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

static void run_qemu(const struct spex_engine *e, const struct spex_engine_options *o,
                     const char *qemu)
{
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
    for (const char *const *v = o->environment; v && *v; v++)
        putenv((char *)(uintptr_t)*v);
    execv(qemu, argv);
    _exit(errno == ENOENT ? 127 : 126);
}

enum spex_status spex_engine_start(struct spex_engine_options *o, struct spex_engine **out,
                                   struct spex_error *error)
{
    char qemu[RUN_PATH];
    enum spex_status status;
    struct spex_engine *e = calloc(1, sizeof *e);
    struct run_control *settings = calloc(1, sizeof *settings);
    if (!e || !settings) {
        free(e);
        free(settings);
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    }
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
    status = check_qemu(o->qemu ? o->qemu : "qemu-aarch64", qemu, sizeof qemu, error);
    if (!status)
        status = check_program(e, o->argv[0], o->sysroot, error);
    if (!status)
        status = check_event(e, o, settings, error);
    if (!status) {
        char absolute[RUN_PATH];
        snprintf(absolute, sizeof absolute, "%s.run-XXXXXX", o->prefix);
        if (!mkdtemp(absolute))
            status = error_set(error, SPEX_IO, 0, "%s: %s", absolute, strerror(errno));
        else if (!realpath(absolute, e->directory)) /* the guest may change its directory */
            status = error_set(error, SPEX_IO, 0, "%s: %s", absolute, strerror(errno));
    }
    if (!status) {
        e->control = make_control(e, error);
        if (!e->control)
            status = error ? error->status : SPEX_IO;
        else
            *e->control = *settings;
    }
    free(settings);
    if (!status) {
        fflush(NULL);
        e->process = fork();
        if (!e->process)
            run_qemu(e, o, qemu);
        if (e->process < 0)
            status = error_set(error, SPEX_IO, 0, "fork: %s", strerror(errno));
    }
    if (status) {
        spex_engine_free(e);
        return status;
    }
    *out = e;
    return SPEX_OK;
}

int spex_engine_process(const struct spex_engine *e)
{
    return (int)e->process;
}

/* ---- reading ---- */

static const void *map_file(const struct spex_engine *e, uint32_t id, const char *suffix,
                            size_t *size)
{
    char path[RUN_PATH + 32];
    struct stat st;
    void *map = NULL;
    snprintf(path, sizeof path, "%s/%u%s", e->directory, id, suffix);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *size = 0;
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        *size = (size_t)st.st_size;
        if (map == MAP_FAILED) {
            map = NULL;
            *size = 0;
        }
    }
    if (fd >= 0)
        close(fd);
    return map;
}

static struct entry *add(struct spex_engine *e, uint32_t task, enum spex_engine_event_kind kind,
                         uint64_t time)
{
    if (e->entry_count == e->entry_room) {
        size_t room = e->entry_room ? 2 * e->entry_room : 256;
        struct entry *more = realloc(e->entries, room * sizeof *more);
        if (!more)
            abort();
        e->entries = more;
        e->entry_room = room;
    }
    const struct run_task *t = e->tasks[task].task;
    struct entry *entry = &e->entries[e->entry_count];
    *entry = (struct entry){.task = task,
                            .order = (uint32_t)e->entry_count,
                            .event = {.kind = kind,
                                      .time = time,
                                      .pid = t->pid,
                                      .tid = t->tid,
                                      .ppid = t->ppid,
                                      .ptid = t->ptid,
                                      .cpu = t->cpu,
                                      .text = ""}};
    e->entry_count++;
    return entry;
}

static const struct file_id *file_id(struct spex_engine *e, const char *path)
{
    for (size_t i = 0; i < e->file_count; i++)
        if (!strcmp(e->files[i].path, path))
            return &e->files[i];
    struct file_id *more = realloc(e->files, (e->file_count + 1) * sizeof *more);
    if (!more)
        abort();
    e->files = more;
    struct file_id *f = &e->files[e->file_count++];
    struct elf elf;
    *f = (struct file_id){.path = strdup(path)};
    if (!f->path)
        abort();
    if (path[0] == '/' && elf_read(path, &elf) == SPEX_OK) {
        memcpy(f->id, elf.build_id, sizeof f->id);
        f->size = elf.build_id_size;
    }
    return f;
}

/* The text outlives the entry: it belongs to a file's record or to a mapped log. */
static void add_map(struct spex_engine *e, uint32_t task, uint64_t time, uint64_t address,
                    uint64_t length, uint64_t offset, uint32_t prot, uint32_t flags,
                    const char *path, bool first)
{
    const char *text = path;
    if (path[0] == '/')
        text = file_id(e, path)->path;
    struct entry *entry = add(e, task, SPEX_ENGINE_MAP, time);
    entry->event.address = address;
    entry->event.length = length;
    entry->event.offset = offset;
    entry->event.prot = prot;
    entry->event.flags = flags;
    entry->event.text = text;
    entry->event.first = first;
}

enum { MAP_PRIVATE_FLAG = 2 };

/* QEMU loaded an ELF file so that virtual address v is at v + bias. */
static void add_image(struct spex_engine *e, uint32_t task, uint64_t time, const struct elf *elf,
                      uint64_t bias, const char *path)
{
    for (unsigned i = 0; i < elf->segments; i++) {
        const struct elf_segment *s = &elf->segment[i];
        uint64_t start = (s->vaddr + bias) & ~4095ull;
        uint64_t end = (s->vaddr + bias + s->memory_size + 4095) & ~4095ull;
        add_map(e, task, time, start, end - start, s->offset & ~4095ull, s->prot, MAP_PRIVATE_FLAG,
                path, true);
    }
}

static void add_program(struct spex_engine *e, uint32_t task, const struct run_event *event)
{
    struct elf elf;
    char path[RUN_PATH], interpreter[2 * RUN_PATH];
    if (!realpath(e->program, path) || elf_read(path, &elf))
        return;
    uint64_t lowest = UINT64_MAX;
    for (unsigned i = 0; i < elf.segments; i++)
        if (elf.segment[i].prot & 4 && elf.segment[i].vaddr < lowest)
            lowest = elf.segment[i].vaddr;
    if (lowest != UINT64_MAX)
        add_image(e, task, event->time, &elf, event->a - lowest, path);
    if (!elf.interpreter[0])
        return;
    snprintf(interpreter, sizeof interpreter, "%s%s", e->sysroot, elf.interpreter);
    if (!realpath(access(interpreter, R_OK) ? elf.interpreter : interpreter, path) ||
        elf_read(path, &elf))
        return;
    add_image(e, task, event->time, &elf, event->c - elf.entry, path);
}

static void add_aux(struct spex_engine *e, uint32_t task, uint64_t time, uint64_t buffer,
                    uint64_t bytes, uint32_t flags)
{
    const struct task_files *f = &e->tasks[task];
    uint64_t at = buffer * e->control->buffer;
    if (at + bytes > f->aux_size || bytes > e->control->buffer)
        return;
    struct entry *entry = add(e, task, SPEX_ENGINE_AUX, time);
    entry->event.data = f->aux + at;
    entry->event.size = bytes;
    entry->event.aux_flags = flags;
}

static void read_log(struct spex_engine *e, uint32_t id)
{
    const struct task_files *f = &e->tasks[id];
    bool ended = false;
    uint64_t done = 0; /* buffers that the log closed */
    for (size_t at = 0; at + sizeof(struct run_event) <= f->log_size;) {
        struct run_event event;
        memcpy(&event, f->log + at, sizeof event);
        at += sizeof event;
        if (event.text > f->log_size - at)
            break;
        const char *text = event.text ? (const char *)f->log + at : "";
        at += event.text;
        if (event.text && text[event.text - 1])
            break;
        switch ((enum run_event_type)event.type) {
        case RUN_FORK:
            add(e, id, SPEX_ENGINE_FORK, event.time);
            break;
        case RUN_EXIT:
            add(e, id, SPEX_ENGINE_EXIT, event.time);
            ended = true;
            break;
        case RUN_COMM: {
            struct entry *entry = add(e, id, SPEX_ENGINE_COMM, event.time);
            entry->event.text = text;
            entry->event.first = id == 0 && event.time == 0;
            break;
        }
        case RUN_IMAGE:
            add_program(e, id, &event);
            break;
        case RUN_MAP:
            add_map(e, id, event.time, event.a, event.b, event.c, event.prot, event.flags, text,
                    false);
            break;
        case RUN_PROTECT: /* memory becomes code: a just-in-time compiler */
            add_map(e, id, event.time, event.a, event.b, 0, event.prot, 0x22, "", false);
            break;
        case RUN_AUX:
            add_aux(e, id, event.time, event.a, event.b, event.flags);
            done = event.a + 1;
            break;
        case RUN_EXEC:
            break;
        }
    }
    if (f->task->buffers > done && f->task->head) /* the guest was killed */
        add_aux(e, id, f->task->clock, f->task->buffers - 1, f->task->head, 0);
    if (!ended)
        add(e, id, SPEX_ENGINE_EXIT, f->task->clock);
}

static int by_time(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->event.time != y->event.time)
        return x->event.time < y->event.time ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/*
 * mprotect tells no file: if the pages are of one, the mapping keeps its name. A
 * mapping that is code already (text relocations) is left alone.
 */
static void name_protected(struct spex_engine *e)
{
    for (size_t i = 0; i < e->entry_count; i++) {
        struct spex_engine_event *m = &e->entries[i].event;
        if (m->kind != SPEX_ENGINE_MAP || m->flags != 0x22 || !(m->prot & 4) || *m->text)
            continue;
        for (size_t j = i; j-- > 0;) {
            const struct spex_engine_event *old = &e->entries[j].event;
            if (old->kind == SPEX_ENGINE_MAP && old->pid == m->pid &&
                m->address - old->address < old->length) {
                if (*old->text == '/') {
                    m->text = old->text;
                    m->offset = old->offset + (m->address - old->address);
                    m->flags = old->flags;
                }
                break;
            }
        }
    }
}

static void read_run(struct spex_engine *e)
{
    e->task_count = e->control->tasks;
    e->tasks = calloc(e->task_count + 1, sizeof *e->tasks);
    if (!e->tasks)
        abort();
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->task_count; i++) {
        struct task_files *f = &e->tasks[n];
        size_t size;
        f->task = map_file(e, i, "", &size);
        if (size < sizeof *f->task)
            continue; /* reserved, but the fork failed */
        f->aux = map_file(e, i, ".aux", &f->aux_size);
        f->log = map_file(e, i, ".log", &f->log_size);
        read_log(e, n++);
    }
    e->task_count = n;
    if (e->entry_count)
        qsort(e->entries, e->entry_count, sizeof *e->entries, by_time);
    name_protected(e);
    for (size_t i = 0; i < e->entry_count; i++) {
        struct spex_engine_event *m = &e->entries[i].event;
        if (m->kind == SPEX_ENGINE_MAP && *m->text == '/') {
            const struct file_id *f = file_id(e, m->text);
            m->build_id = f->id;
            m->build_id_size = f->size;
        }
    }
}

enum spex_status spex_engine_wait(struct spex_engine *e, int *status, struct spex_error *error)
{
    pid_t pid;
    while ((pid = waitpid(e->process, status, 0)) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        return error_set(error, SPEX_IO, 0, "waitpid: %s", strerror(errno));
    e->process = 0;
    if (!e->control->installed)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "QEMU ended before it loaded the plugin; see its message above");
    read_run(e);
    return SPEX_OK;
}

enum spex_status spex_engine_next(struct spex_engine *e, struct spex_engine_event *event,
                                  struct spex_error *error)
{
    (void)error;
    if (e->position == e->entry_count)
        return SPEX_END;
    *event = e->entries[e->position++].event;
    return SPEX_OK;
}

uint64_t spex_engine_min_interval(const struct spex_engine *e)
{
    return e->caps.min_interval;
}

uint64_t spex_engine_event_filter(const struct spex_engine *e)
{
    return e->caps.event_filter;
}

unsigned spex_engine_pmu_event(const struct spex_engine *e, size_t index, bool *present)
{
    if (index >= RUN_EVENTS)
        return 0;
    unsigned event = run_events[index];
    const struct spex_features *f = &e->control->features;
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

void spex_engine_totals(struct spex_engine *e, struct spex_engine_totals *totals)
{
    const struct run_control *c = e->control;
    *totals = (struct spex_engine_totals){.tasks = e->task_count,
                                          .cpus = c->cpus,
                                          .failed = (int)c->failed,
                                          .execs = c->execs,
                                          .uncorrected = c->no_registers != 0};
    for (size_t i = 0; i < e->entry_count; i++)
        totals->lost += e->entries[i].event.kind == SPEX_ENGINE_AUX &&
                        e->entries[i].event.aux_flags & DRIVER_AUX_TRUNCATED;
    for (uint32_t i = 0; i < e->task_count; i++) {
        const struct run_task *t = e->tasks[i].task;
        for (unsigned j = 0; j < RUN_EVENTS; j++)
            totals->pmu[j] += t->pmu[j];
        totals->unseen_zva += t->unseen[RUN_UNSEEN_ZVA];
        totals->unseen_prefetch += t->unseen[RUN_UNSEEN_PREFETCH];
        totals->unseen_sve += t->unseen[RUN_UNSEEN_SVE];
        totals->unseen_other += t->unseen[RUN_UNSEEN_OTHER];
        totals->interrupts += t->interrupts;
        totals->cut += t->cut;
        totals->processes += t->pid == t->tid;
        if (t->clock > totals->clock)
            totals->clock = t->clock;
        const uint64_t *from = (const uint64_t *)&t->counts;
        uint64_t *to = (uint64_t *)&totals->counts;
        for (size_t j = 0; j < sizeof t->counts / sizeof *from; j++)
            to[j] += from[j];
    }
}

/* ---- truth ---- */

static int by_pc(const void *a, const void *b)
{
    const struct spex_engine_truth *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->pc < y->pc ? -1 : x->pc > y->pc;
}

static size_t read_truth(const struct run_truth *rows, size_t count, int32_t pid,
                         struct spex_engine_truth *out)
{
    size_t n = 0;
    uint64_t entered = 0;
    for (size_t i = 0; i < count; i++) {
        const struct run_truth *r = &rows[i];
        if (r->block) {
            entered = r->count;
        } else if (r->pc && entered >= r->cut) {
            out[n++] = (struct spex_engine_truth){.pid = pid,
                                                  .pc = r->pc,
                                                  .count = entered - r->cut,
                                                  .l1_miss = r->l1_miss,
                                                  .llc_miss = r->llc_miss,
                                                  .walk = r->walk,
                                                  .mispredict = r->mispredict,
                                                  .taken = r->taken};
        }
    }
    return n;
}

enum spex_status spex_engine_truth(struct spex_engine *e, const struct spex_engine_truth **rows,
                                   size_t *count, struct spex_error *error)
{
    size_t n = 0;
    for (uint32_t i = 0; i < e->task_count && !e->truth; i++) {
        const struct run_task *t = e->tasks[i].task;
        size_t size;
        const void *map = map_file(e, (uint32_t)(t->tid - RUN_FIRST_PID), ".truth", &size);
        if (!map)
            continue;
        size_t in = size / sizeof(struct run_truth);
        struct spex_engine_truth *more = realloc(e->truth, (n + in) * sizeof *more);
        if (!more) {
            munmap((void *)(uintptr_t)map, size);
            return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
        }
        e->truth = more;
        for (size_t chunk = 0; chunk < size; chunk += RUN_TRUTH)
            n += read_truth((const void *)((const char *)map + chunk),
                            RUN_TRUTH / sizeof(struct run_truth), t->pid, e->truth + n);
        munmap((void *)(uintptr_t)map, size);
    }
    if (n) {
        qsort(e->truth, n, sizeof *e->truth, by_pc);
        size_t last = 0;
        for (size_t i = 1; i < n; i++) { /* blocks overlap */
            struct spex_engine_truth *a = &e->truth[last], *b = &e->truth[i];
            if (a->pid != b->pid || a->pc != b->pc) {
                e->truth[++last] = *b;
                continue;
            }
            a->count += b->count;
            a->l1_miss += b->l1_miss;
            a->llc_miss += b->llc_miss;
            a->walk += b->walk;
            a->mispredict += b->mispredict;
            a->taken += b->taken;
        }
        e->truth_count = last + 1;
    }
    *rows = e->truth;
    *count = e->truth_count;
    return SPEX_OK;
}

/* ---- the end ---- */

static void remove_directory(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *d;
    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.')
            unlinkat(dirfd(dir), d->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

void spex_engine_free(struct spex_engine *e)
{
    if (!e)
        return;
    if (e->directory[0])
        remove_directory(e->directory);
    for (uint32_t i = 0; e->tasks && i < e->task_count; i++) {
        const struct task_files *f = &e->tasks[i];
        munmap((void *)(uintptr_t)f->task, RUN_PAGE);
        if (f->aux)
            munmap((void *)(uintptr_t)f->aux, f->aux_size);
        if (f->log)
            munmap((void *)(uintptr_t)f->log, f->log_size);
    }
    if (e->control)
        munmap(e->control, sizeof *e->control);
    for (size_t i = 0; i < e->file_count; i++)
        free(e->files[i].path);
    free(e->files);
    free(e->entries);
    free(e->tasks);
    free(e->truth);
    free(e);
}
