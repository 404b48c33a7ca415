/*
 * Preloaded into QEMU: with NO_MEMORY=N in the environment the Nth call of calloc, malloc,
 * realloc or aligned_alloc from within the plugin finds no memory; other calls are libc's. With
 * NO_THREAD=N the Nth thread cannot be made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static long left, threads; /* until one fails */

__attribute__((constructor)) static void start(void)
{
    const char *n = getenv("NO_MEMORY");
    left = n ? atol(n) : 0;
    n = getenv("NO_THREAD");
    threads = n ? atol(n) : 0;
}

static bool fails(const void *from)
{
    Dl_info info;
    return left > 0 && dladdr(from, &info) && strstr(info.dli_fname, "libspex-qemu") &&
           __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) == 0;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (threads > 0 && __atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED) == 0)
        return EAGAIN;
    return real(thread, attributes, run, argument);
}
