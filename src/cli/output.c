#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- before any work ---- */

static int refuse(const char *name, const char *why)
{
    cli_error("%s: %s", name, why);
    return CLI_DATA;
}

/* The name of the file that a descriptor is open on. */
static bool real_name(int fd, char path[OUTPUT_PATH])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, OUTPUT_PATH - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && n < OUTPUT_PATH - 32 && path[0] == '/';
}

/* Is it a program that is running, or a part of one? Nobody wants to replace that by an answer. */
static bool is_program(const char *path, const struct stat *st)
{
    char start[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, start, sizeof start);
    if (fd >= 0)
        close(fd);
    bool runs = st->st_mode & (S_IXUSR | S_IXGRP | S_IXOTH);
    return fd < 0 ? runs
                  : n == 4 && (!memcmp(start, "\177ELF", 4) ||
                               (runs && start[0] == '#' && start[1] == '!'));
}

static int open_file(struct output *o, const char *name, const struct stat *st)
{
    if (is_program(o->path, st))
        return refuse(name, "is a program: it is not replaced; remove it, or name another file");
    o->older[0] = (struct output_older){true, st->st_dev, st->st_ino};
    return CLI_OK;
}

/*
 * Opens what is not a regular file. Follows links only if the kernel allows it
 * (fs.protected_symlinks), also a link to a file that does not exist yet.
 */
static int open_place(struct output *o, const char *name)
{
    struct stat st;
    int fd = open(name, O_PATH | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !lstat(name, &st)) { /* a link to nothing */
        fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
        bool ok = fd >= 0 && real_name(fd, o->path);
        if (ok)
            unlink(o->path);
        else
            cli_error("%s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return ok ? CLI_OK : CLI_DATA;
    }
    if (fd < 0 && errno == ENOENT) {
        snprintf(o->path, sizeof o->path, "%s", name);
        return CLI_OK;
    }
    if (fd < 0 || fstat(fd, &st))
        return refuse(name, strerror(errno));
    bool named = real_name(fd, o->path);
    close(fd);
    if (S_ISDIR(st.st_mode))
        return refuse(name, "is a directory; name a file");
    if (S_ISREG(st.st_mode))
        return named ? open_file(o, name, &st) : refuse(name, "cannot find out what it is called");
    o->stream = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return o->stream < 0 ? refuse(name, strerror(errno)) : CLI_OK;
}

static void directory_of(const char *path, char directory[OUTPUT_PATH])
{
    snprintf(directory, OUTPUT_PATH, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = '\0';
    else
        strcpy(directory, ".");
}

/* In a directory like /tmp, renaming over someone else's file will fail: better to say so now. */
static bool may_replace(const char *path)
{
    char directory[OUTPUT_PATH];
    struct stat file, in;
    directory_of(path, directory);
    uid_t me = geteuid();
    return !me || lstat(path, &file) || stat(directory, &in) || !(in.st_mode & S_ISVTX) ||
           file.st_uid == me || in.st_uid == me;
}

/* Does the directory exist, and can it be written to? If not, errno says why. */
static bool may_create(const char *path)
{
    char directory[OUTPUT_PATH];
    directory_of(path, directory);
    return !faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS);
}

static bool is_directory(const char *path, const char *suffix)
{
    char name[OUTPUT_PATH + 16];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    if (lstat(name, &st) || !S_ISDIR(st.st_mode))
        return false;
    cli_error("%s: is a directory; remove it, or name another file with -o", name);
    return true;
}

static int check_place(struct output *o, const char *name)
{
    size_t n = strlen(o->path);
    if (n && o->path[n - 1] == '/')
        return refuse(name, "is no name of a file");
    if (!may_replace(o->path))
        return refuse(name, "belongs to somebody else");
    if (!may_create(o->path))
        return refuse(name, strerror(errno));
    if (o->older[0].there && o->how & OUTPUT_KEEPS) {
        char old[OUTPUT_PATH + 16];
        struct stat st;
        if (is_directory(o->path, ".old"))
            return CLI_DATA;
        snprintf(old, sizeof old, "%s.old", o->path);
        if (!lstat(old, &st))
            o->older[1] = (struct output_older){true, st.st_dev, st.st_ino};
    }
    return o->how & OUTPUT_TRUTH && is_directory(o->path, ".truth") ? CLI_DATA : CLI_OK;
}

int output_open(struct output *o, const char *name, unsigned how)
{
    mode_t mask = umask(077);
    umask(mask);
    *o = (struct output){
        .name = name, .stream = -1, .how = how, .mode = how & OUTPUT_PRIVATE ? 0600 : 0666 & ~mask};
    if (!*name)
        return cli_usage("-o: the name is empty");
    if (strlen(name) >= OUTPUT_PATH - 32)
        return cli_usage("-o: the name is too long");
    if (!strcmp(name, "-")) {
        o->name = "standard output";
        o->stream = STDOUT_FILENO;
    }
    int status = o->stream < 0 ? open_place(o, name) : CLI_OK;
    if (!status && o->stream >= 0 && how & OUTPUT_TRUTH)
        status = cli_usage("--truth writes a second file beside the first: -o must name a file");
    if (!status && o->stream < 0)
        status = check_place(o, name);
    if (status)
        output_close(o);
    return status;
}

void output_close(struct output *o)
{
    if (o->stream > STDOUT_FILENO)
        close(o->stream);
    o->stream = -1;
}

int output_from_open(struct output *o, const char *input, const struct stat *st)
{
    for (unsigned i = o->how & OUTPUT_IN_PLACE ? 1 : 0; i < 2 && o->stream < 0; i++) {
        const struct output_older *older = &o->older[i];
        if (older->there && older->device == st->st_dev && older->inode == st->st_ino)
            return cli_usage("-o %s would replace %s%s, which is read: name another file", o->name,
                             input, i ? ", as the older file that is kept" : "");
    }
    if (S_ISREG(st->st_mode) && !(o->how & OUTPUT_ASKED))
        o->mode &= st->st_mode | 0600;
    return CLI_OK;
}

int output_from(struct output *o, const char *input)
{
    struct stat st;
    bool standard = !strcmp(input, "-");
    if (standard ? fstat(STDIN_FILENO, &st) : stat(input, &st))
        return CLI_OK; /* the code that reads it says why not */
    return output_from_open(o, standard ? "standard input" : input, &st);
}

bool output_is_in(const struct output *o, const char *directory)
{
    char own[OUTPUT_PATH];
    struct stat in, at;
    if (o->stream >= 0)
        return false;
    directory_of(o->path, own);
    return !stat(own, &in) && !stat(directory, &at) && in.st_dev == at.st_dev &&
           in.st_ino == at.st_ino;
}

bool output_same(const struct output *a, const struct output *b)
{
    const struct output_older *one = &a->older[0], *other = &b->older[0];
    char directory[OUTPUT_PATH];
    if (a->stream >= 0 || b->stream >= 0 || one->there != other->there)
        return false;
    if (one->there)
        return one->device == other->device && one->inode == other->inode;
    directory_of(b->path, directory);
    const char *slash = strrchr(a->path, '/'), *last = strrchr(b->path, '/');
    return !strcmp(slash ? slash + 1 : a->path, last ? last + 1 : b->path) &&
           output_is_in(a, directory);
}

int output_mode(struct output *o, const char *mode)
{
    char *end;
    unsigned long value = mode ? strtoul(mode, &end, 8) : 0;
    if (!mode)
        return CLI_OK;
    if (*mode < '0' || *mode > '7' || *end || value & ~0666ul || !(value & 0200))
        return cli_usage("--mode: '%s' is not permissions of a file of yours, such as 644", mode);
    o->mode = (mode_t)value;
    o->how |= OUTPUT_ASKED;
    return CLI_OK;
}

/* ---- the file ---- */

/* Gives the older file its second name before it loses the first. */
static bool keep_older(const struct output *o, const char *old)
{
    char beside[OUTPUT_PATH + 32];
    snprintf(beside, sizeof beside, "%s.old-%ld", o->path, (long)getpid());
    if (!link(o->path, beside)) {
        if (!rename(beside, old)) {
            unlink(beside); /* rename does nothing if .old is the same file */
            return true;
        }
        int why = errno;
        unlink(beside);
        errno = why;
        return false;
    }
    return !rename(o->path, old); /* a file system without links, or someone else's file */
}

static bool written_out(int fd)
{
    return !fsync(fd) || errno == EINVAL || errno == ENOSYS || errno == EROFS;
}

static bool put(const struct output *o, const char *made)
{
    char old[OUTPUT_PATH + 16];
    struct stat st;
    snprintf(old, sizeof old, "%s.old", o->path);
    bool older = o->how & OUTPUT_KEEPS && (lstat(o->path, &st) ? errno != ENOENT : st.st_size > 0);
    if (older && !keep_older(o, old)) {
        cli_error("cannot keep %s as %s: %s", o->path, old, strerror(errno));
        return false;
    }
    if (rename(made, o->path)) {
        cli_error("%s: %s", o->path, strerror(errno));
        return false;
    }
    return true;
}

bool output_put(const struct output *o, const char *made)
{
    int fd = open(made, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool ok = fd >= 0 && written_out(fd);
    if (!ok)
        cli_error("%s: %s", made, strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok && put(o, made);
}

/* The unfinished file, which a signal that ends us also removes. */
static char half[OUTPUT_PATH + 16];
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

static void remove_half(int signo)
{
    unlink(half);
    signal(signo, SIG_DFL);
    raise(signo);
}

static void catch_end(bool on)
{
    struct sigaction was, ours = {.sa_handler = on ? remove_half : SIG_DFL};
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (!sigaction(ending[i], NULL, &was) && was.sa_handler == (on ? SIG_DFL : remove_half))
            sigaction(ending[i], &ours, NULL);
}

int output_make(const struct output *o, output_maker *make, void *context)
{
    if (o->stream >= 0)
        return make(context, o->stream) ? CLI_OK : CLI_DATA;
    snprintf(half, sizeof half, "%s.new-XXXXXX", o->path);
    int fd = mkostemp(half, O_CLOEXEC);
    if (fd < 0) {
        cli_error("%s: %s", half, strerror(errno));
        return CLI_DATA;
    }
    catch_end(true);
    bool ok = make(context, fd);
    bool whole = ok && !fchmod(fd, o->mode) && written_out(fd);
    int why = errno;
    if (close(fd) && whole) {
        whole = false;
        why = errno;
    }
    if (ok && !whole)
        cli_error("%s: %s", o->name, strerror(why));
    ok = whole && put(o, half);
    if (!ok)
        unlink(half);
    catch_end(false);
    return ok ? CLI_OK : CLI_DATA;
}
