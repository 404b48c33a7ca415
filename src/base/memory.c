#include "memory.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t limit;
static void (*handler)(size_t size);
static _Thread_local struct memory_guard *guarded;

/* The number in a one-line file; UINT64_MAX if there is none ("max": no limit). */
static uint64_t number_in(const char *path)
{
    unsigned long long n = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return n;
    if (fscanf(file, "%llu", &n) != 1)
        n = UINT64_MAX;
    fclose(file);
    return n;
}

void memory_limit_set(uint64_t bytes)
{
    static const char *const groups[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    if (!bytes) {
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
        uint64_t whole = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            uint64_t group = number_in(groups[i]);
            whole = group < whole ? group : whole;
        }
        bytes = whole / 2;
    }
    __atomic_store_n(&limit, bytes, __ATOMIC_RELAXED);
}

uint64_t memory_limit(void)
{
    if (!__atomic_load_n(&limit, __ATOMIC_RELAXED))
        memory_limit_set(0);
    return __atomic_load_n(&limit, __ATOMIC_RELAXED);
}

/* What malloc has given out to the whole process; 0 under a sanitizer's malloc. */
static uint64_t in_use(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return (uint64_t)info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

bool memory_allows(size_t bytes)
{
    enum { SMALL = 256 << 10 }; /* too small to be worth asking */
    if (bytes < SMALL)
        return true;
    uint64_t most = memory_limit(), used = in_use();
    return used <= most && bytes <= most - used;
}

void memory_set_handler(void (*call)(size_t size))
{
    handler = call;
}

void memory_guard_begin(struct memory_guard *guard)
{
    guard->outer = guarded;
    guarded = guard;
}

struct memory_guard *memory_guard_pause(void)
{
    struct memory_guard *guard = guarded;
    guarded = NULL;
    return guard;
}

void memory_guard_resume(struct memory_guard *guard)
{
    guarded = guard;
}

static void *given(void *memory, size_t size)
{
    if (!memory) {
        if (handler)
            handler(size);
        if (guarded)
            longjmp(guarded->at, 1);
        abort(); /* an API function lacks its guard */
    }
    return memory;
}

void *memory_checked(void *memory)
{
    return given(memory, 0);
}

void *memory_get(size_t count, size_t size)
{
    bool fits = size <= PTRDIFF_MAX / (count ? count : 1) && memory_allows(count * size);
    return given(fits ? calloc(count ? count : 1, size) : NULL, count * size);
}

void *memory_resize(void *memory, size_t count, size_t size)
{
    bool fits = size <= PTRDIFF_MAX / (count ? count : 1) && memory_allows(count * size);
    return given(fits ? realloc(memory, count ? count * size : 1) : NULL, count * size);
}

void *memory_aligned(size_t alignment, size_t size)
{
    return given(memory_allows(size) ? aligned_alloc(alignment, size) : NULL, size);
}

char *memory_copy(const char *text)
{
    return given(strdup(text), strlen(text));
}

void *memory_grow(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t more = *capacity ? *capacity + *capacity / 2 : 16;
    items = memory_resize(items, more, size);
    *capacity = more;
    return items;
}
