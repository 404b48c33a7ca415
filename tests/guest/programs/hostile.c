/*
 * A guest that works against its own profile: hostile DIRECTORY HOW [SEED]. The directory is that
 * of its run; spex must survive whatever is left there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static volatile uint64_t sink;

static void work(void)
{
    for (int i = 0; i < 100000; i++)
        sink += (uint64_t)i * 7;
}

/* Some words of a file become other numbers. */
static void scribble(const char *path)
{
    static const uint64_t odd[] = {0,          1,        7,    UINT64_MAX,        INT64_MAX,
                                   UINT32_MAX, 1u << 31, 4096, 0xff00ff00ff00ff00};
    struct stat st;
    int fd = open(path, O_RDWR);
    if (fd < 0 || fstat(fd, &st))
        return;
    for (int i = 0; i < 24; i++) {
        uint64_t value = next() % 3 ? odd[next() % 9] : next();
        off_t at = (off_t)(next() % (uint64_t)(st.st_size + 64));
        if (next() % 2)
            at %= 1024;
        if (pwrite(fd, &value, 1u << next() % 4, at & ~7l) < 0)
            break;
    }
    close(fd);
}

static void spoil(const char *path, const char *how)
{
    char other[4096];
    if (!strcmp(how, "scribble")) {
        scribble(path);
    } else if (!strcmp(how, "cut")) {
        struct stat st;
        if (!stat(path, &st))
            (void)!truncate(path, (off_t)(next() % (uint64_t)(st.st_size + 1)));
    } else if (!strcmp(how, "grow")) {
        (void)!truncate(path, 1l << 40);
    } else if (!strcmp(how, "fifo")) {
        unlink(path);
        mkfifo(path, 0600);
    } else if (!strcmp(how, "link")) {
        unlink(path);
        (void)!symlink("/dev/zero", path);
    } else if (!strcmp(how, "directory")) {
        unlink(path);
        mkdir(path, 0700);
    } else if (!strcmp(how, "remove")) {
        unlink(path);
    } else if (!strcmp(how, "swap")) {
        snprintf(other, sizeof other, "%s.other", path);
        rename(path, other);
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        uint64_t junk[512];
        for (int i = 0; i < 512; i++)
            junk[i] = next();
        (void)!write(fd, junk, sizeof junk);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc < 3)
        return 2;
    state += (argc > 3 ? strtoull(argv[3], NULL, 0) : 0) * 0x9e3779b97f4a7c15;
    work();
    DIR *dir = opendir(argv[1]);
    struct dirent *d;
    if (!dir)
        return 3;
    /* "HOW:NAME" spoils one file, "HOW" all of them */
    char *only = strchr(argv[2], ':');
    if (only)
        *only++ = '\0';
    while ((d = readdir(dir)))
        if (d->d_name[0] != '.' && (!only || !strcmp(only, d->d_name))) {
            snprintf(path, sizeof path, "%s/%s", argv[1], d->d_name);
            spoil(path, argv[2]);
        }
    closedir(dir);
    kill(getpid(), SIGKILL); /* what is there stays so */
    return 1;
}
