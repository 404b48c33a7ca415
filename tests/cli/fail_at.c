/*
 * Preloaded into spex: the FAIL_AT-th call of FAIL_CALL on a regular file fails with the error
 * FAIL_WITH, or the program is killed there (FAIL_WITH=KILL). FAIL_AT=0 only counts: the number of
 * calls is written to the file FAIL_COUNT at the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long calls;

static bool fails(const char *call)
{
    const char *wanted = getenv("FAIL_CALL"), *with = getenv("FAIL_WITH");
    if (!wanted || strcmp(wanted, call))
        return false;
    if (++calls != atol(getenv("FAIL_AT")))
        return false;
    if (!strcmp(with, "KILL"))
        raise(SIGKILL);
    errno = atoi(with);
    return true;
}

static bool file(int fd)
{
    struct stat st;
    int kept = errno;
    bool is = fd > 2 && !fstat(fd, &st) && S_ISREG(st.st_mode);
    int flags = is ? fcntl(fd, F_GETFL) : 0;
    errno = kept;
    return is && (flags & O_ACCMODE) != O_RDONLY;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
    return file(fd) && fails("write")
               ? -1
               : REAL(ssize_t, write, int, const void *, size_t)(fd, data, size);
}

int fsync(int fd)
{
    return fails("fsync") ? -1 : REAL(int, fsync, int)(fd);
}

int close(int fd)
{
    if (file(fd) && fails("close")) {
        REAL(int, close, int)(fd);
        errno = atoi(getenv("FAIL_WITH"));
        return -1;
    }
    return REAL(int, close, int)(fd);
}

int rename(const char *from, const char *to)
{
    return fails("rename") ? -1 : REAL(int, rename, const char *, const char *)(from, to);
}

int link(const char *from, const char *to)
{
    return fails("link") ? -1 : REAL(int, link, const char *, const char *)(from, to);
}

__attribute__((destructor)) static void count(void)
{
    const char *path = getenv("FAIL_COUNT");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (out) {
        fprintf(out, "%ld", calls);
        fclose(out);
    }
}
