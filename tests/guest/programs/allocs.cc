/*
 * A program that logs its own heap: each use of a block with the block's number, place, size and
 * the function that asked for it, thread by thread in order.
 *
 *   allocs THREADS STEPS [fork]
 *
 * Blocks come from every function that allocates; some are grown, some are handed to another
 * thread, which uses and frees them, so that places are used again by other sites.
 */
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAKE(name, type, call)                                                                     \
    extern "C" __attribute__((noinline)) void *make_##name(size_t size)                            \
    {                                                                                              \
        type p = (type)(call);                                                                     \
        __asm__ volatile("" : "+r"(p)); /* not a tail call */                                      \
        return (void *)p;                                                                          \
    }
static size_t zero;
static void *stored(size_t size)
{
    void *p = NULL;
    return posix_memalign(&p, 64, size) ? NULL : p;
}
MAKE(malloc, void *, malloc(size))
MAKE(calloc, void *, calloc(size / 8, 8))
MAKE(aligned, void *, aligned_alloc(32, size))
MAKE(memalign, void *, memalign(128, size))
MAKE(stored, void *, stored(size))
MAKE(valloc, void *, valloc(size))
MAKE(again, void *, realloc(NULL, size))
MAKE(array, void *, reallocarray(NULL, size / 8, 8))
MAKE(new, char *, ::operator new(size))
MAKE(new_array, char *, new char[size])
MAKE(nothrow, char *, new (std::nothrow) char[size])
MAKE(new_aligned, char *, ::operator new(size, std::align_val_t(64)))
MAKE(map, void *, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
extern "C" __attribute__((noinline)) void *make_tail(size_t size)
{
    return malloc(size); /* a jump: the block is its caller's */
}
extern "C" __attribute__((noinline)) void *grow(void *p, size_t size)
{
    p = realloc(p, size);
    __asm__ volatile("" : "+r"(p));
    return p;
}

enum { KINDS = 14, MAP = 12, NEW = 8, LIVE = 64, THREADS = 8, LOG = 1 << 16 };
static const struct {
    void *(*make)(size_t size);
    const char *site;
} kinds[KINDS] = {
    {make_malloc, "make_malloc"},   {make_calloc, "make_calloc"},
    {make_aligned, "make_aligned"}, {make_memalign, "make_memalign"},
    {make_stored, "make_stored"},   {make_valloc, "make_valloc"},
    {make_again, "make_again"},     {make_array, "make_array"},
    {make_new, "make_new"},         {make_new_array, "make_new_array"},
    {make_nothrow, "make_nothrow"}, {make_new_aligned, "make_new_aligned"},
    {make_map, "make_map"},         {make_tail, "step"},
};

struct block {
    unsigned id, kind;
    size_t size;
    uint64_t *p;
    const char *site;
};
struct thread {
    pthread_t thread;
    unsigned number, steps;
    uint64_t random;
    struct block live[LIVE];
    struct block log[LOG];
    unsigned uses;
};
static struct thread threads[THREADS];
static unsigned ids;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block box; /* from one thread to another */

static unsigned next(struct thread *t, unsigned below)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(t->random >> 33) % below;
}

/* Seldom the same: a block is known by its place and size. */
static size_t size_of(unsigned id)
{
    return 32 + 8 * (id * 7 % 509);
}

/* Whoever is sampled here uses a block that is logged. */
extern "C" __attribute__((noinline)) void touch(volatile uint64_t *p, size_t words)
{
    for (unsigned times = 0; times < 3; times++)
        for (size_t i = 0; i < words; i++)
            p[i] += i;
}

static void use(struct thread *t, const struct block *b)
{
    if (t->uses == LOG || !b->p)
        return;
    t->log[t->uses++] = *b;
    touch(b->p, (b->size < 512 ? b->size : 512) / 8);
}

static void give_back(struct block *b)
{
    if (b->kind == MAP)
        munmap(b->p, b->size);
    else if (b->kind == 11)
        ::operator delete(b->p, std::align_val_t(64));
    else if (b->kind >= NEW && b->kind < 11)
        b->kind == NEW ? ::operator delete(b->p) : delete[](char *) b->p;
    else
        free(b->p);
    b->p = NULL;
}

/* What fails, and what is nothing. */
static void odd(void)
{
    volatile size_t huge = (size_t)1 << 62;
    free(malloc(zero));
    free(NULL);
    if (malloc(huge))
        abort();
    try {
        char *p = new char[huge / 2];
        __asm__ volatile("" : : "r"(p));
    } catch (const std::bad_alloc &) {
    }
    void *kept = malloc(16);
    if (realloc(kept, huge))
        abort();
    free(kept);
}

extern "C" __attribute__((noinline)) void step(struct thread *t)
{
    struct block *b = &t->live[next(t, LIVE)];
    unsigned what = next(t, 16);
    if (!b->p) {
        unsigned kind = next(t, KINDS), id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
        size_t size = size_of(id) + (kind == MAP ? 4096 : 0);
        *b = (struct block){id, kind, size, (uint64_t *)kinds[kind].make(size), kinds[kind].site};
        use(t, b);
    } else if (what < 4) {
        give_back(b);
    } else if (what == 4 && b->kind < NEW) {
        b->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
        b->size = size_of(b->id);
        b->p = (uint64_t *)grow(b->p, b->size);
        b->site = "grow";
        use(t, b);
    } else if (what == 5) {
        pthread_mutex_lock(&lock); /* what is in the box is used and freed here */
        struct block got = box;
        box = *b;
        b->p = NULL;
        pthread_mutex_unlock(&lock);
        if (got.p) {
            use(t, &got);
            give_back(&got);
        }
    } else if (what == 6 && !next(t, 8)) {
        odd();
    } else {
        use(t, b);
    }
}

static void *work(void *context)
{
    struct thread *t = (struct thread *)context;
    for (unsigned i = 0; i < t->steps; i++)
        step(t);
    return NULL;
}

static void print(const char *process, unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        for (unsigned i = 0; i < threads[n].uses; i++) {
            const struct block *b = &threads[n].log[i];
            printf("%s %u %u %p %zu %s\n", process, n, b->id, (void *)b->p, b->size, b->site);
        }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned count = (unsigned)atoi(argv[1]), steps = (unsigned)atoi(argv[2]);
    for (unsigned n = 0; n < count; n++) {
        threads[n].number = n;
        threads[n].steps = steps;
        threads[n].random = n + 1;
    }
    for (unsigned n = 1; n < count; n++)
        pthread_create(&threads[n].thread, NULL, work, &threads[n]);
    work(&threads[0]);
    for (unsigned n = 1; n < count; n++)
        pthread_join(threads[n].thread, NULL);
    if (argc > 3) { /* both go on with what there is */
        pid_t child = fork();
        threads[0].random += !child;
        threads[0].uses = child ? threads[0].uses : 0;
        ids += child ? 0 : 1 << 24;
        work(&threads[0]);
        if (!child) {
            print("child", 1);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    print("parent", count);
    return 0;
}
