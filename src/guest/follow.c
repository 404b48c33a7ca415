#include "follow.h"

#include "account.h"
#include "image.h"
#include "origin.h"
#include "plugin.h"
#include "regs.h"
#include "start.h"
#include "trace.h"

#include "base/vec.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS_MOST = 1 << 20, TEXT_MOST = 8 << 20 };
#define GUEST_AT_EMPTY_PATH 0x1000
#define GUEST_AT_FDCWD (-100)

/* ---- from the guest's memory ---- */

struct text {
    char *bytes;
    size_t size, room;
};

/* Appends a string with its zero. */
static bool read_text(uint64_t address, struct text *text)
{
    for (;;) {
        size_t part = PAGE - address % PAGE;
        part = part < 256 ? part : 256;
        if (text->size > TEXT_MOST || !vec_grow(&text->bytes, &text->room, text->size + part, 1) ||
            !regs_memory(address, text->bytes + text->size, (unsigned)part))
            return false;
        char *end = memchr(text->bytes + text->size, '\0', part);
        text->size += end ? (size_t)(end + 1 - (text->bytes + text->size)) : part;
        if (end)
            return true;
        address += part;
    }
}

struct list {
    struct text text;
    char **words; /* NULL-terminated */
};

static bool read_list(uint64_t address, struct list *list)
{
    size_t *at = NULL, count = 0, room = 0;
    uint64_t word = 0;
    bool ok = true;
    *list = (struct list){0};
    while (ok && address && (ok = regs_memory(address, &word, 8)) && word) {
        ok = count < WORDS_MOST && vec_grow(&at, &room, count + 1, sizeof *at);
        if (ok)
            at[count++] = list->text.size;
        ok = ok && read_text(word, &list->text);
        address += 8;
    }
    list->words = ok ? calloc(count + 1, sizeof *list->words) : NULL;
    for (size_t i = 0; list->words && i < count; i++)
        list->words[i] = list->text.bytes + at[i];
    free(at);
    return list->words != NULL;
}

static void free_list(struct list *list)
{
    free(list->text.bytes);
    free(list->words);
}

/* Replaces a descriptor by the name of its file, or makes sure that it stays open. */
static void path_of_descriptor(int fd, char path[IMAGE_PATH])
{
    char link[64];
    struct stat a, b;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (realpath(link, path) && !stat(link, &a) && !stat(path, &b) && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return;
    fcntl(fd, F_SETFD, fcntl(fd, F_GETFD) & ~FD_CLOEXEC);
    snprintf(path, IMAGE_PATH, "%s", link);
}

static bool read_path(bool at, const uint64_t *a, char path[IMAGE_PATH])
{
    struct text text = {0};
    char *end;
    bool ok = read_text(a[at ? 1 : 0], &text) && text.size <= IMAGE_PATH;
    int fd = at ? (int)a[0] : GUEST_AT_FDCWD;
    if (ok && at && !*text.bytes && a[4] & GUEST_AT_EMPTY_PATH && fd != GUEST_AT_FDCWD)
        path_of_descriptor(fd, path);
    else if (ok && !strcmp(text.bytes, "/proc/self/exe")) /* under QEMU this names QEMU */
        ok = snprintf(path, IMAGE_PATH, "%s", plugin.user.program.path) > 0;
    else if (ok && !strncmp(text.bytes, "/proc/self/fd/", 14) &&
             (fd = (int)strtol(text.bytes + 14, &end, 10), !*end))
        path_of_descriptor(fd, path);
    else if (ok && at && *text.bytes != '/' && fd != GUEST_AT_FDCWD)
        ok = snprintf(path, IMAGE_PATH, "/proc/self/fd/%d/%s", fd, text.bytes) < IMAGE_PATH;
    else if (ok)
        memcpy(path, text.bytes, text.size);
    free(text.bytes);
    return ok;
}

/* ---- turning the process into another program ---- */

/*
 * The first thread has the process's number. After execve the calling thread has it, whichever it
 * was.
 */
static void leave(struct vcpu *v)
{
    struct uarch_counts counts = {0};
    uint64_t clock = clock_of(v);
    if (plugin.user.full) {
        account_tell(v->flow);
        account_save(v->flow);
        timing_counts(v->flow->core, &counts);
    } else {
        sample_end(v);
    }
    task_count(&v->task, &counts);
    task_leave(&v->task, clock);
    for (unsigned i = 0; v->task.id != plugin.user.process && i < MAX_VCPUS; i++) {
        struct vcpu *first = plugin.hot[i].vcpu;
        if (first && first->live && first->task.id == plugin.user.process)
            first->task.shared->clock = clock;
    }
    origin_leave(plugin.run, plugin.user.process, clock);
}

static void log_host(struct vcpu *v, const char *path)
{
    struct run_event event = {.type = RUN_HOST, .time = clock_of(v)};
    task_log(&v->task, &event, path);
}

/* A host program takes no samples and needs no CPU of the model. */
static void set_aside(struct vcpu *v)
{
    if (v->task.unit && !v->off)
        task_pause(&v->task);
    task_give_cpu(&v->task, clock_of(v));
}

/* The program did not start: restores everything. */
static void take_back(struct vcpu *v)
{
    task_take_cpu(&v->task);
    if (!v->task.unit || v->off)
        return;
    task_go_on(&v->task);
    if (plugin.user.full)
        account_begin(v->flow, clock_of(v));
    else
        sample_begin(v);
}

static __thread bool tells_host; /* the current call was logged as a host program's */

static void become_host(struct vcpu *v, const struct start *start, bool at, const char *path,
                        const uint64_t *a)
{
    leave(v);
    log_host(v, path);
    tells_host = true;
    set_aside(v);
    if (!trace_enter(start->word[START_SPEX], task_directory()))
        __atomic_store_n(&plugin.run->untraced, 1, __ATOMIC_RELAXED);
    struct list argv, environment;
    if (at && read_list(a[2], &argv)) { /* QEMU does not know execveat */
        if (read_list(a[3], &environment)) {
            execve(path, argv.words, environment.words);
            free_list(&environment);
        }
        free_list(&argv);
    }
}

static void become_guest(struct vcpu *v, const struct start *start, bool at, const char *path,
                         const struct image *image, const uint64_t *a)
{
    struct list argv = {0}, environment = {0};
    if (read_list(a[at ? 2 : 1], &argv) && read_list(a[at ? 3 : 2], &environment)) {
        leave(v);
        int control = task_pass_on();
        start_guest(start, task_directory(), image, path, argv.words, environment.words, true,
                    control);
        if (control >= 0)
            close(control);
    }
    free_list(&argv);
    free_list(&environment);
}

/* ---- a file whose dynamic linker is missing: Linux says ENOENT, QEMU would say ENOEXEC ---- */

static __thread struct {
    uint64_t address;
    char byte;
} hidden;

static bool write_byte(uint64_t address, char byte)
{
    int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC); /* also where it may only be read */
    bool ok = fd >= 0 && pwrite(fd, &byte, 1, (off_t)regs_host(address)) == 1;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* The path is empty while the call lasts. */
static void hide_path(uint64_t address)
{
    if (regs_memory(address, &hidden.byte, 1) && write_byte(address, '\0'))
        hidden.address = address;
}

void follow_exec(struct vcpu *v, bool at, const uint64_t *a)
{
    char path[IMAGE_PATH];
    struct start start;
    struct image image;
    tells_host = false;
    if (!read_path(at, a, path) ||
        !start_read_open(task_open("engine", O_RDONLY | O_NOFOLLOW), &start))
        return;
    struct image_search here = {"", "", start.word[START_SYSROOT], true};
    switch (image_find(path, &here, &image)) {
    case IMAGE_GUEST:
        become_guest(v, &start, at, path, &image, a);
        break;
    case IMAGE_HOST:
        become_host(v, &start, at, path, a);
        break;
    case IMAGE_ORPHAN:
        hide_path(a[at ? 1 : 0]);
        break;
    case IMAGE_NONE:
        break;
    }
    start_free(&start);
}

void follow_failed(struct vcpu *v)
{
    if (hidden.address)
        write_byte(hidden.address, hidden.byte);
    hidden.address = 0;
    if (tells_host) {
        log_host(v, "");
        take_back(v);
    }
    tells_host = false;
}
