#include "memory.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local struct memory *current;
static _Thread_local struct memory_guard *guarded;

/* ---- accounts ---- */

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

uint64_t memory_half(void)
{
    static const char *const groups[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t whole = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        uint64_t group = number_in(groups[i]);
        whole = group < whole ? group : whole;
    }
    return whole / 2;
}

struct memory *memory_open(uint64_t limit, const struct spex_allocator *allocator)
{
    if (!limit && !allocator && current && !current->in_use)
        return memory_keep(current);
    struct memory *m =
        allocator ? allocator->allocate(allocator->context, sizeof *m) : malloc(sizeof *m);
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    if (allocator)
        m->allocator = *allocator;
    m->outer = current;
    /* a program that looks at all of its memory has said how much it may be */
    m->limit = limit ? limit : current ? UINT64_MAX : memory_half();
    atomic_init(&m->handles, 1);
    return m;
}

struct memory *memory_keep(struct memory *m)
{
    assert(m && atomic_load(&m->handles) > 0);
    atomic_fetch_add(&m->handles, 1);
    return m;
}

void memory_drop(struct memory *m)
{
    if (!m || atomic_fetch_sub(&m->handles, 1) > 1)
        return;
    if (m == current)
        current = m->outer;
    if (m->allocator.allocate)
        m->allocator.release(m->allocator.context, m);
    else
        free(m);
}

void memory_end(struct memory *m, struct memory *before)
{
    current = before;
    memory_drop(m);
}

struct memory *memory_enter(struct memory *m)
{
    struct memory *before = current;
    current = m;
    return before;
}

struct memory *memory_current(void)
{
    return current;
}

uint64_t memory_limit(void)
{
    uint64_t least = UINT64_MAX;
    for (const struct memory *m = current; m; m = m->outer)
        least = m->limit < least ? m->limit : least;
    return least;
}

enum { SMALL = 256 << 10 }; /* too small to be worth asking a program for */

static bool allows(struct memory *m, uint64_t bytes, uint64_t spare)
{
    int64_t used = m->in_use ? (int64_t)m->in_use() : atomic_load(&m->used);
    if (used < 0)
        used = 0;
    return m->limit == UINT64_MAX ||
           ((uint64_t)used <= m->limit - spare && bytes <= m->limit - spare - (uint64_t)used);
}

bool memory_allows(size_t bytes)
{
    for (struct memory *m = current; m; m = m->outer)
        if (m->in_use ? bytes >= SMALL && !allows(m, bytes, 0) : !allows(m, bytes, m->limit / 16))
            return false;
    return true;
}

static void count(int64_t bytes)
{
    for (struct memory *m = current; m; m = m->outer)
        if (!m->in_use)
            atomic_fetch_add_explicit(&m->used, bytes, memory_order_relaxed);
}

/* Counts the bytes if they are allowed. */
static bool claim(size_t bytes)
{
    for (struct memory *m = current; m; m = m->outer)
        if ((!m->in_use || bytes >= SMALL) && !allows(m, bytes, 0))
            return false;
    count((int64_t)bytes);
    return true;
}

/* ---- blocks ---- */

/* Before a block of an allocator, which does not say how large it is. */
struct head {
    size_t size, before; /* size of the block; offset of the memory in it */
};
_Static_assert(sizeof(struct head) % _Alignof(max_align_t) == 0, "blocks stay aligned");

static struct head *head_of(void *block)
{
    return (struct head *)block - 1;
}

static bool own(void)
{
    return current && current->allocator.allocate;
}

static void *allocate(size_t alignment, size_t size, bool zero)
{
    assert(!(alignment & (alignment - 1)));
    char *block;
    size = size ? size : 1;
    if (size > PTRDIFF_MAX - 2 * alignment || !claim(size))
        return NULL;
    if (own()) {
        const struct spex_allocator *a = &current->allocator;
        size_t before = sizeof(struct head) + (alignment > sizeof(struct head) ? alignment : 0);
        char *raw = a->allocate(a->context, before + size);
        block = raw ? raw + sizeof(struct head) : NULL;
        while (block && alignment && (uintptr_t)block % alignment)
            block += sizeof(struct head);
        if (block) {
            *head_of(block) = (struct head){size, (size_t)(block - raw)};
            if (zero)
                memset(block, 0, size);
        }
    } else if (alignment) {
        block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    } else {
        block = zero ? calloc(1, size) : malloc(size);
    }
    if (!block)
        count(-(int64_t)size);
    else if (current && !own())
        count((int64_t)malloc_usable_size(block) - (int64_t)size);
    return block;
}

void *memory_new(size_t size)
{
    return allocate(0, size, false);
}

void *memory_zeroed(size_t n, size_t size)
{
    return n && size > PTRDIFF_MAX / n ? NULL : allocate(0, n * size, true);
}

void memory_free(void *block)
{
    if (!block)
        return;
    if (own()) {
        struct head *head = head_of(block);
        count(-(int64_t)head->size);
        current->allocator.release(current->allocator.context, (char *)block - head->before);
        return;
    }
    if (current)
        count(-(int64_t)malloc_usable_size(block));
    free(block);
}

void *memory_again(void *block, size_t size)
{
    size = size ? size : 1;
    if (!block)
        return memory_new(size);
    if (own()) {
        size_t old = head_of(block)->size;
        void *more = memory_new(size);
        if (!more)
            return NULL;
        memcpy(more, block, old < size ? old : size);
        memory_free(block);
        return more;
    }
    int64_t old = current ? (int64_t)malloc_usable_size(block) : 0;
    int64_t more = (int64_t)size > old ? (int64_t)size - old : 0;
    if (size > PTRDIFF_MAX || !claim((size_t)more))
        return NULL;
    void *again = realloc(block, size);
    if (!again)
        count(-more);
    else if (current)
        count((int64_t)malloc_usable_size(again) - old - more);
    return again;
}

char *memory_text(const char *text, size_t length)
{
    char *copy = memory_new(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    return copy;
}

/* ---- without a way to go on ---- */

void memory_guard_begin(struct memory_guard *guard, struct memory *account)
{
    guard->outer = guarded;
    guard->before = memory_enter(account);
    guarded = guard;
}

void memory_guard_end(const struct memory_guard *guard)
{
    guarded = guard->outer;
    current = guard->before;
}

struct memory_pause memory_pause(void)
{
    struct memory_pause pause = {guarded, current};
    guarded = NULL;
    current = current && !current->in_use ? current->outer : current;
    return pause;
}

void memory_resume(struct memory_pause pause)
{
    guarded = pause.guard;
    current = pause.account;
}

static void *given(void *block, size_t size)
{
    if (!block) {
        for (struct memory *m = current; m; m = m->outer)
            if (m->exhausted)
                m->exhausted(size);
        assert(guarded && "an API function lacks its guard");
        longjmp(guarded->at, 1);
    }
    return block;
}

void *memory_checked(void *block)
{
    return given(block, 0);
}

void *memory_get(size_t n, size_t size)
{
    return given(memory_zeroed(n, size), n * size);
}

void *memory_resize(void *block, size_t n, size_t size)
{
    bool fits = size <= PTRDIFF_MAX / (n ? n : 1);
    return given(fits ? memory_again(block, n * size) : NULL, n * size);
}

void *memory_aligned(size_t alignment, size_t size)
{
    return given(allocate(alignment, size, false), size);
}

char *memory_copy(const char *text)
{
    return given(memory_text(text, strlen(text)), strlen(text));
}

void *memory_grow(void *items, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity)
        return items;
    size_t more = *capacity ? *capacity + *capacity / 2 : 16;
    items = memory_resize(items, more, size);
    *capacity = more;
    return items;
}
