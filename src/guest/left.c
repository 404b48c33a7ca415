/*
 * Reads the directory of a run (run.h) after the guest has ended, to finish the file. The guest may
 * have written anything here: only regular files are opened, they are read and not mapped, and each
 * number is checked before it is used.
 */
#include "left.h"

#include "base/error.h"
#include "base/order.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TASKS_MAX = 1 << 20,
    LOGS_MAX = 256 << 20, /* most bytes of all logs */
    COMMAND_MAX = 4 << 20,
    WAIT_TENTHS = 20, /* seconds for a child of the guest that is writing just now */
};

/* ---- files ---- */

int left_open_file(const struct left_run *run, const char *name, int flags, struct stat *st)
{
    int fd = openat(run->directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, st) || !S_ISREG(st->st_mode))) {
        close(fd);
        errno = EINVAL;
        fd = -1;
    }
    return fd;
}

bool left_read(int fd, void *data, size_t size, uint64_t at)
{
    while (size) {
        ssize_t n = pread(fd, data, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data = (char *)data + n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

/* Reads a whole file into memory, with a zero after it; NULL if it does not exist. */
static char *load(struct left_run *run, const char *name, size_t limit, size_t *size)
{
    struct stat st;
    int fd = left_open_file(run, name, O_RDONLY, &st);
    char *data = NULL;
    *size = 0;
    if (fd < 0)
        return NULL;
    size_t want = (uint64_t)st.st_size < limit ? (size_t)st.st_size : limit;
    run->damaged += (uint64_t)st.st_size > limit;
    data = malloc(want + 1);
    if (!data) {
        run->no_memory = true;
    } else if (!left_read(fd, data, want, 0)) {
        run->damaged++;
        free(data);
        data = NULL;
    } else {
        *size = want;
        data[want] = '\0';
    }
    close(fd);
    return data;
}

/* ---- control, command ---- */

/* Keeps the plugin from adding to the data from now on. */
static enum spex_status close_data(struct left_run *run, struct spex_error *error)
{
    struct run_control *c = &run->control;
    struct stat st;
    uint32_t yes = 1;
    int fd = left_open_file(run, "data", O_RDWR, &st);
    if (fd < 0)
        return error_set(error, SPEX_IO, 0, "%s/data: %s", run->name, strerror(errno));
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) && i < WAIT_TENTHS; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    bool ok = pwrite(run->control_fd, &yes, sizeof yes, offsetof(struct run_control, closed)) ==
                  sizeof yes &&
              left_read(run->control_fd, c, sizeof *c, 0) && !fstat(fd, &st);
    close(fd);
    if (!ok)
        return error_set(error, SPEX_IO, 0, "%s/control: %s", run->name, strerror(errno));
    uint64_t size = (uint64_t)st.st_size;
    if (c->output.start > size || c->end < c->output.start || c->end > size) {
        run->damaged++;
        c->end = c->end > c->output.start && c->output.start <= size ? size : c->output.start;
    }
    return SPEX_OK;
}

static enum spex_status open_control(struct left_run *run, const struct engine *owner,
                                     struct spex_error *error)
{
    struct run_control *c = &run->control;
    struct stat st;
    run->control_fd = left_open_file(run, "control", O_RDWR, &st);
    if (run->control_fd < 0 || !left_read(run->control_fd, c, sizeof *c, 0) ||
        c->version != RUN_VERSION || c->size != sizeof *c)
        return error_set(error, SPEX_INVALID, 0,
                         "%s is not a run of this version of spex: use the one that recorded it",
                         run->name);
    if (!owner && flock(run->control_fd, LOCK_EX | LOCK_NB))
        return error_set(error, SPEX_INVALID, 0,
                         "%s: the run is still under way: wait until it ends", run->name);
    struct left_about about = {0};
    if (owner)
        engine_about(owner, &about);
    if (!c->installed && about.host)
        return error_set(
            error, SPEX_UNSUPPORTED, 0,
            "%s is not an AArch64 program, and started none: there is nothing to record%s",
            about.argv[0], c->untraced ? " (ptrace is not allowed here)" : "");
    if (!c->installed)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         owner ? "QEMU ended before it loaded the plugin; see its message above"
                               : "%s: QEMU ended before it loaded the plugin: there is no data",
                         run->name);
    if (owner) {
        /*
         * The guest could not reach spex's own copy; only the end of the data comes from the file.
         */
        c->output.keep = about.keep;
        c->output.stacks = about.stacks;
        c->output.allocs = about.allocs;
        c->output.elapsed = about.elapsed;
    }
    if (c->cpus > RUN_CPUS) {
        run->damaged++;
        c->cpus = RUN_CPUS;
    }
    return c->output.keep ? close_data(run, error) : SPEX_OK;
}

static enum spex_status read_command(struct left_run *run, struct spex_error *error)
{
    size_t size, words = 0;
    run->command = load(run, "command", COMMAND_MAX, &size);
    for (size_t i = 0; i < size; i++)
        words += !run->command[i];
    if (words < 3 || (size && run->command[size - 1]))
        return error_set(error, SPEX_INVALID, 0, "%s/command is damaged", run->name);
    run->argv = calloc(words + 1, sizeof *run->argv);
    if (!run->argv)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    const char *word = run->command;
    for (size_t i = 0; i < words; i++, word += strlen(word) + 1)
        run->argv[i] = word;
    run->sysroot = run->argv[1];
    return SPEX_OK;
}

/* ---- tasks ---- */

static int by_number(const void *a, const void *b)
{
    const struct left_task *x = a, *y = b;
    return ORDER(x->id, y->id);
}

/* Lists the numbers that name files: those of threads. */
static bool list_tasks(struct left_run *run)
{
    int fd = openat(run->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;
    size_t room = 0;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (d = readdir(dir))) {
        char *end;
        unsigned long id = strtoul(d->d_name, &end, 10);
        if (d->d_name[0] < '0' || d->d_name[0] > '9' || *end || id >= TASKS_MAX)
            continue;
        if (!vec_grow(&run->tasks, &room, run->task_count + 1, sizeof *run->tasks)) {
            run->no_memory = true;
            break;
        }
        run->tasks[run->task_count++] = (struct left_task){.id = (uint32_t)id};
    }
    if (dir)
        closedir(dir);
    if (run->task_count)
        qsort(run->tasks, run->task_count, sizeof *run->tasks, by_number);
    return dir != NULL;
}

/* Files that are not tasks are skipped; a thread whose fork failed has no file. */
static bool read_task(struct left_run *run, struct left_task *t)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%u", t->id);
    int fd = left_open_file(run, name, O_RDONLY, &st);
    struct run_task *s = &t->task;
    bool ok = fd >= 0 && left_read(fd, s, sizeof *s, 0);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && (!st.st_size || (ok && !s->tid))) /* created, but nothing was written */
        return false;
    if (!ok || s->cpu < 0 || s->cpu >= RUN_CPUS || s->tid != RUN_FIRST_PID + (int32_t)t->id ||
        s->pid < RUN_FIRST_PID || s->pid > s->tid || s->ppid < 0 || s->ptid < 0) {
        run->damaged++;
        return false;
    }
    snprintf(name, sizeof name, "%u.log", t->id);
    t->log = load(run, name, run->log_room, &t->log_size);
    run->log_room -= t->log_size;
    return true;
}

static void read_tasks(struct left_run *run)
{
    size_t n = 0;
    run->log_room = LOGS_MAX;
    if (!list_tasks(run))
        run->damaged++;
    for (size_t i = 0; i < run->task_count; i++) {
        struct left_task t = run->tasks[i];
        if (read_task(run, &t))
            run->tasks[n++] = t;
    }
    run->task_count = n;
}

/* ---- open, close ---- */

enum spex_status left_open(const char *directory, const struct engine *engine,
                           struct left_run **out, struct spex_error *error)
{
    struct left_run *run = calloc(1, sizeof *run);
    if (!run)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    run->control_fd = -1;
    run->name = strdup(directory);
    run->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum spex_status status = SPEX_OK;
    if (!run->name)
        status = error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    else if (run->directory < 0)
        status = error_set(error, SPEX_IO, 0, "%s: %s", directory, strerror(errno));
    if (!status)
        status = open_control(run, engine, error);
    if (!status)
        status = read_command(run, error);
    if (!status) {
        read_tasks(run);
        left_read_events(run);
        if (run->no_memory)
            status = error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    }
    if (status) {
        left_close(run);
        return status;
    }
    *out = run;
    return SPEX_OK;
}

void left_close(struct left_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->task_count; i++)
        free(run->tasks[i].log);
    left_free_events(run);
    if (run->control_fd >= 0)
        close(run->control_fd);
    if (run->directory >= 0)
        close(run->directory);
    free(run->argv);
    free(run->command);
    free(run->tasks);
    free(run->truth);
    free(run->name);
    free(run);
}

/*
 * A process that outlives the program may make files meanwhile: then try once more. If it puts a
 * link there, the link is not followed.
 */
bool left_remove(const char *path)
{
    enum { TIMES = 100 };
    for (int i = 0; i < TIMES; i++) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *d;
        if (!dir && fd >= 0)
            close(fd);
        while (dir && (d = readdir(dir)))
            if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
                unlinkat(dirfd(dir), d->d_name, 0);
        if (dir)
            closedir(dir);
        if (!rmdir(path))
            return true;
        if (errno != ENOTEMPTY)
            break;
    }
    return false;
}

/* ---- the whole run ---- */

void left_about(const struct left_run *run, struct left_about *about)
{
    const struct run_output *o = &run->control.output;
    *about = (struct left_about){.midr = o->midr,
                                 .min_interval = o->min_interval,
                                 .event_filter = o->event_filter,
                                 .period = o->period,
                                 .start = o->start,
                                 .end = run->control.end,
                                 .cpus = run->control.cpus ? run->control.cpus : 1,
                                 .keep = o->keep,
                                 .truth = o->truth,
                                 .stacks = o->stacks,
                                 .allocs = o->allocs,
                                 .elapsed = o->elapsed,
                                 .cpu = run->argv[2],
                                 .model = uarch_mode(&run->control.model),
                                 .argv = run->argv + 3};
    if (run->control.model.sockets == 2 && !run->control.model.none)
        about->socket_cpus = run->control.model.cluster;
    memcpy(about->config, o->config, sizeof about->config);
}

static int by_name(const void *a, const void *b)
{
    const struct left_host *x = a, *y = b;
    return strcmp(x->name, y->name);
}

const char *left_machine(struct left_run *run, size_t index, size_t *times)
{
    if (run->host_count && !index)
        qsort(run->hosts, run->host_count, sizeof *run->hosts, by_name);
    for (size_t i = 0, n = 0; i < run->host_count; i += *times, n++) {
        const char *name = run->hosts[i].name;
        for (*times = 1;
             i + *times < run->host_count && !strcmp(run->hosts[i + *times].name, name);)
            ++*times;
        if (n == index)
            return name;
    }
    return NULL;
}

void left_totals(const struct left_run *run, struct engine_totals *totals)
{
    const struct run_control *c = &run->control;
    *totals = (struct engine_totals){.tasks = (uint32_t)run->task_count,
                                     .cpus = c->cpus,
                                     .failed = (int)(c->failed & 4095),
                                     .lost_bytes = c->lost_bytes,
                                     .lost_records = c->lost_records,
                                     .unprofiled = c->unprofiled,
                                     .damaged = run->damaged,
                                     .full = c->full != 0,
                                     .untraced = c->untraced != 0,
                                     .lost_stacks = c->lost_stacks,
                                     .allocators = c->allocators,
                                     .no_stacks = c->no_stacks != 0,
                                     .uncorrected = c->no_registers != 0};
    totals->lost = left_truncated(run);
    for (size_t i = 0; i < run->task_count; i++) {
        const struct run_task *t = &run->tasks[i].task;
        for (unsigned j = 0; j < RUN_EVENTS; j++)
            totals->pmu[j] += t->pmu[j];
        totals->unseen_zva += t->unseen[RUN_UNSEEN_ZVA];
        totals->unseen_prefetch += t->unseen[RUN_UNSEEN_PREFETCH];
        totals->unseen_sve += t->unseen[RUN_UNSEEN_SVE];
        totals->unseen_other += t->unseen[RUN_UNSEEN_OTHER];
        totals->interrupts += t->interrupts;
        totals->cut += t->cut;
        totals->stacks += t->stacks;
        totals->allocs += t->allocs;
        totals->stacks_cut += t->stacks_cut;
        totals->stacks_doubted += t->stacks_doubted;
        totals->processes += t->pid == t->tid;
        if (t->illegal_pc && !totals->illegal_pc) {
            totals->illegal_pc = t->illegal_pc;
            totals->illegal = t->illegal;
            totals->illegal_pid = (uint32_t)t->pid;
        }
        if (t->clock > totals->clock)
            totals->clock = t->clock;
        const uint64_t *from = (const uint64_t *)&t->counts;
        uint64_t *to = (uint64_t *)&totals->counts;
        for (size_t j = 0; j < sizeof t->counts / sizeof *from; j++)
            to[j] += from[j];
    }
}
