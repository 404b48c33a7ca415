#include "spool.h"

#include "base/memory.h"
#include "base/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE "aside"
#define LOCK ".spex-ship.lock"
#define TAKEN ".spex-ship.taken" /* hidden: neither listed nor sent again */

enum { OLD_ENOUGH = 5 }; /* seconds to wait if we cannot find out whether a file is being written */

static bool is_file(int directory, const char *name, const struct spool_file *file)
{
    struct stat st;
    return !fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == file->inode &&
           st.st_dev == file->device;
}

/* Gives a file that was taken by mistake its name back, or a new one if that is in use again. */
static void give_back(int directory, const char *name)
{
    char other[NAME_MAX + 1];
    if (!linkat(directory, TAKEN, directory, name, 0)) {
        unlinkat(directory, TAKEN, 0);
        return;
    }
    snprintf(other, sizeof other, "%.*s.%lx", NAME_MAX - 24, name, (unsigned long)time(NULL));
    renameat(directory, TAKEN, directory, other);
}

int spool_open(struct spool *s, const char *path)
{
    *s = (struct spool){.path = path, .lock = -1};
    s->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->directory < 0) {
        cli_error("--spool: %s: %s", path, strerror(errno));
        return CLI_DATA;
    }
    s->lock = openat(s->directory, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0 || flock(s->lock, LOCK_EX | LOCK_NB)) {
        cli_error(s->lock >= 0 && errno == EWOULDBLOCK
                      ? "--spool: another spex ship is at work in %s"
                      : "--spool: cannot lock %s/" LOCK ": %s",
                  path, strerror(errno));
        spool_close(s);
        return CLI_DATA;
    }
    give_back(s->directory, "recovered"); /* left behind by a ship that was killed */
    return CLI_OK;
}

static void clear(struct spool_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].name);
    free(files);
}

void spool_close(struct spool *s)
{
    clear(s->files, s->count);
    if (s->lock >= 0)
        close(s->lock);
    close(s->directory);
}

/* The kernel grants a read lease only while nobody writes the file. */
static bool is_finished(int directory, const char *name, const struct stat *st)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return true; /* reading it will report why it cannot be read */
    int lent = fcntl(fd, F_SETLEASE, F_RDLCK), error = errno;
    if (!lent)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
    if (!lent || error == EAGAIN)
        return !lent;
    return time(NULL) - st->st_mtim.tv_sec >=
           OLD_ENOUGH; /* another user's file, or a system without leases */
}

static int by_age(const void *a, const void *b)
{
    const struct spool_file *x = a, *y = b;
    if (x->written.tv_sec != y->written.tv_sec)
        return x->written.tv_sec < y->written.tv_sec ? -1 : 1;
    if (x->written.tv_nsec != y->written.tv_nsec)
        return x->written.tv_nsec < y->written.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/*
 * Lists the regular files of a directory, oldest first, and closes the descriptor. NULL if there
 * are none, or with errno.
 */
static struct spool_file *list(int fd, size_t *count, uint64_t *bytes)
{
    struct spool_file *files = NULL;
    size_t capacity = 0;
    struct dirent *entry;
    struct stat st;
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    *count = 0;
    if (!directory) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        errno = why;
        return NULL;
    }
    while (errno = 0, (entry = readdir(directory))) {
        if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        files = memory_grow(files, *count, &capacity, sizeof *files);
        files[(*count)++] = (struct spool_file){.name = memory_copy(entry->d_name),
                                                .device = st.st_dev,
                                                .inode = st.st_ino,
                                                .size = (uint64_t)st.st_size,
                                                .written = st.st_mtim,
                                                .finished = is_finished(fd, entry->d_name, &st)};
        *bytes += (uint64_t)st.st_size;
    }
    int why = errno;
    closedir(directory);
    if (*count)
        qsort(files, *count, sizeof *files, by_age);
    errno = why;
    return files;
}

static int open_below(const struct spool *s, const char *name)
{
    return openat(s->directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

bool spool_scan(struct spool *s)
{
    struct spool_file *before = s->files;
    size_t count = s->count, aside_count;
    s->bytes = 0;
    errno = 0;
    s->files = list(open_below(s, "."), &s->count, &s->bytes);
    int why = errno;
    if (why)
        cli_error("%s cannot be read: %s", s->path, strerror(why));
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < count; k++)
            if (!strcmp(s->files[i].name, before[k].name) && s->files[i].inode == before[k].inode)
                s->files[i].tries = before[k].tries;
    clear(before, count);
    struct spool_file *aside = list(open_below(s, ASIDE), &aside_count, &s->bytes);
    clear(aside, aside_count);
    return !why;
}

/*
 * Moves a file out of its directory to a name that nobody else uses. False if it is gone, even if
 * another file has its name: between checking a name and removing it, a recorder may store its next
 * profile there.
 */
static bool take(int directory, const struct spool_file *file)
{
    if (!is_file(directory, file->name, file) || renameat(directory, file->name, directory, TAKEN))
        return false;
    if (is_file(directory, TAKEN, file))
        return true;
    give_back(directory, file->name);
    return false;
}

void spool_remove(struct spool *s, const struct spool_file *file)
{
    if (!take(s->directory, file)) {
        if (!faccessat(s->directory, file->name, F_OK, AT_SYMLINK_NOFOLLOW))
            cli_note("%s/%s is another file by now, and stays", s->path, file->name);
    } else if (unlinkat(s->directory, TAKEN, 0)) {
        cli_error("cannot remove %s/%s: %s", s->path, file->name, strerror(errno));
        give_back(s->directory, file->name);
    }
}

static void drop(struct spool *s, int directory, const struct spool_file *file,
                 struct spool_dropped *dropped)
{
    if (!take(directory, file) || unlinkat(directory, TAKEN, 0))
        return;
    cli_note("%s is dropped, the spool is full: %s/%s",
             directory == s->directory ? "a profile" : "a file that was set aside", s->path,
             file->name);
    dropped->files++;
    dropped->bytes += file->size;
    s->bytes -= file->size;
}

struct spool_dropped spool_bound(struct spool *s, uint64_t limit)
{
    struct spool_dropped dropped = {0};
    if (s->bytes <= limit)
        return dropped;
    uint64_t ignored = 0;
    size_t count;
    struct spool_file *aside = list(open_below(s, ASIDE), &count, &ignored);
    int directory = open_below(s, ASIDE);
    for (size_t i = 0; i < count && s->bytes > limit; i++)
        drop(s, directory, &aside[i], &dropped);
    if (directory >= 0)
        close(directory);
    clear(aside, count);
    for (size_t i = 0; i < s->count && s->bytes > limit; i++)
        if (s->files[i].finished)
            drop(s, s->directory, &s->files[i], &dropped);
    if (dropped.files)
        spool_scan(s);
    return dropped;
}

bool spool_set_aside(struct spool *s, const struct spool_file *file, const char *reason)
{
    const char *name = file->name;
    char to[NAME_MAX + 16];
    mkdirat(s->directory, ASIDE, 0700);
    snprintf(to, sizeof to, ASIDE "/%s", name);
    if (!take(s->directory, file))
        return false;
    if (renameat(s->directory, TAKEN, s->directory, to)) {
        cli_error("cannot set %s/%s aside: %s", s->path, name, strerror(errno));
        give_back(s->directory, name);
        return false;
    }
    snprintf(to, sizeof to, ASIDE "/%.*s.reason", NAME_MAX - 7, name);
    int fd = openat(s->directory, to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        struct out out;
        out_init(&out, fd);
        out_text(&out, reason);
        out_fini(&out); /* a full disk: the reason was also printed on stderr */
        close(fd);
    }
    cli_note("set aside in %s/" ASIDE ": %s: %s", s->path, name, reason);
    return true;
}
