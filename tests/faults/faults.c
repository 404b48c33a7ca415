/*
 * Calls that fail on request, for the build of `make check-faults`: the linker sends the calls of
 * our own objects here (--wrap), those of other libraries not. A call site is a return address.
 * With SPEX_FAULT_LOG=FILE each site is noted there when it is first reached, "FUNCTION SITE"; with
 * SPEX_FAULT=SITE:N its Nth call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

extern const char __executable_start[];

enum { SITES = 1 << 13 };
static struct {
    _Atomic uintptr_t site;
    atomic_uint calls;
} sites[SITES];
static uintptr_t target;
static unsigned nth;
static int log_file = -1;
static atomic_int ready;

static void prepare(void)
{
    const char *fault = getenv("SPEX_FAULT"), *path = getenv("SPEX_FAULT_LOG");
    if (fault)
        sscanf(fault, "%lx:%u", &target, &nth);
    if (path)
        log_file = (int)syscall(SYS_openat, AT_FDCWD, path,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ready = 1;
}

/* Does this call fail? */
static int fails(const char *name, const void *from, int error)
{
    uintptr_t site = (uintptr_t)from - (uintptr_t)__executable_start;
    if (!ready)
        prepare();
    size_t i = (site * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SITES;
    for (;; i = (i + 1) % SITES) {
        uintptr_t none = 0;
        if (sites[i].site == site)
            break;
        if (atomic_compare_exchange_strong(&sites[i].site, &none, site)) {
            char line[80];
            int n = snprintf(line, sizeof line, "%s %lx\n", name, site);
            if (log_file >= 0)
                syscall(SYS_write, log_file, line, (size_t)n);
            break;
        }
        if (none == site)
            break;
    }
    if (atomic_fetch_add(&sites[i].calls, 1) + 1 != nth || site != target)
        return 0;
    errno = error;
    return 1;
}

#define WRAP(type, name, params, args, error, bad)                                                 \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        return fails(#name, __builtin_return_address(0), error) ? (type)bad : __real_##name args;  \
    }

WRAP(void *, malloc, (size_t n), (n), ENOMEM, 0)
WRAP(void *, calloc, (size_t n, size_t m), (n, m), ENOMEM, 0)
WRAP(void *, realloc, (void *p, size_t n), (p, n), ENOMEM, 0)
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n), ENOMEM, 0)
WRAP(char *, strdup, (const char *s), (s), ENOMEM, 0)
WRAP(char *, strndup, (const char *s, size_t n), (s, n), ENOMEM, 0)
WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), EIO, -1)
WRAP(ssize_t, pread64, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), EIO, -1)
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), ENOSPC, -1)
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), ENOSPC, -1)
WRAP(void *, mmap64, (void *p, size_t n, int a, int b, int fd, off_t at), (p, n, a, b, fd, at),
     ENOMEM, -1)
WRAP(int, fsync, (int fd), (fd), EIO, -1)
WRAP(int, ftruncate64, (int fd, off_t n), (fd, n), EIO, -1)
WRAP(int, posix_fallocate64, (int fd, off_t at, off_t n), (fd, at, n), ENOSPC, ENOSPC)
WRAP(int, rename, (const char *a, const char *b), (a, b), EACCES, -1)
WRAP(int, fstat64, (int fd, struct stat *st), (fd, st), EIO, -1)
WRAP(off_t, lseek64, (int fd, off_t at, int how), (fd, at, how), EIO, -1)
WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode), EMFILE, 0)
WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode), ENOMEM, 0)
WRAP(pid_t, fork, (void), (), EAGAIN, -1)
WRAP(char *, mkdtemp, (char *name), (name), ENOSPC, 0)

/* These have done their work when they fail. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    int failed = fails("close", __builtin_return_address(0), EIO), problem = errno;
    int result = __real_close(fd);
    if (!failed)
        return result;
    errno = problem;
    return -1;
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    int failed = fails("fclose", __builtin_return_address(0), ENOSPC), problem = errno;
    int result = __real_fclose(file);
    if (!failed)
        return result;
    errno = problem;
    return EOF;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails("open", __builtin_return_address(0), EMFILE) ? -1
                                                              : __real_open64(path, flags, mode);
}

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails("openat", __builtin_return_address(0), EMFILE)
               ? -1
               : __real_openat64(dir, path, flags, mode);
}
