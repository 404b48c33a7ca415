/*
 * For LD_PRELOAD: logs each allocation (place, size, caller) of a program, in order, to the file
 * that HEAP_LOG names, when it ends. glibc's own functions do the work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static struct {
    void *p;
    size_t size;
    void *caller;
} entries[1 << 20];
static size_t count;

static void *note(void *p, size_t size, void *caller)
{
    if (p && count < sizeof entries / sizeof *entries) {
        entries[count].p = p;
        entries[count].size = size;
        entries[count++].caller = caller;
    }
    return p;
}

void *malloc(size_t size)
{
    return note(__libc_malloc(size), size, __builtin_return_address(0));
}

void *calloc(size_t n, size_t size)
{
    return note(__libc_calloc(n, size), n * size, __builtin_return_address(0));
}

void *realloc(void *p, size_t size)
{
    return note(__libc_realloc(p, size), size, __builtin_return_address(0));
}

void *memalign(size_t alignment, size_t size)
{
    return note(__libc_memalign(alignment, size), size, __builtin_return_address(0));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return note(__libc_memalign(alignment, size), size, __builtin_return_address(0));
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
    *p = note(__libc_memalign(alignment, size), size, __builtin_return_address(0));
    return *p ? 0 : ENOMEM;
}

void free(void *p)
{
    __libc_free(p);
}

__attribute__((destructor)) static void write_log(void)
{
    const char *name = getenv("HEAP_LOG");
    int fd = name ? open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    const char *at = (const char *)entries;
    size_t left = count * sizeof *entries;
    for (ssize_t n; fd >= 0 && left && (n = write(fd, at, left)) > 0; at += n)
        left -= (size_t)n;
}
