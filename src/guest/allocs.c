#include "allocs.h"

#include "elf_file.h"
#include "heap.h"
#include "need.h"
#include "plugin.h"
#include "regs.h"
#include "start.h"

#include "perfdata/callchain.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FUNCTIONS = 4096,
    ENDED = 1 << 16, /* blocks that are kept after they ended, since the full model may be behind */
    FRAMES = 64,     /* frames kept per site */
    SITES = 1 << 18, /* sites that are kept with their callers; any further ones without */
    TRIES = 64,      /* attempts to find where QEMU keeps registers */
};

struct site {
    struct site *next; /* next in the hash chain */
    size_t count;
    uint64_t words[];
};

static struct {
    pthread_mutex_t lock;
    struct heap *heap;
    uint64_t time;       /* the heap's time: read without the lock */
    struct site **sites; /* hash table */
    size_t site_count, mask;
    struct {
        uint64_t pc;
        enum allocs_kind kind;
    } functions[FUNCTIONS]; /* plugin.user.lock */
    size_t function_count;
    unsigned tries;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

void allocs_open(void)
{
    all.heap = heap_new(plugin.user.full ? ENDED : 0);
    all.mask = 1023;
    all.sites = need(calloc(all.mask + 1, sizeof(struct site *)));
}

void allocs_before_fork(void)
{
    pthread_mutex_lock(&all.lock);
}

void allocs_after_fork(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* ---- functions ---- */

static enum allocs_kind kind_of(const char *name)
{
    static const struct {
        const char *name;
        enum allocs_kind kind;
    } names[] = {
#define ALLOCATOR(kind, name) {name, ALLOCS_##kind},
#include "allocators.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].name[0] == name[0] && !strcmp(names[i].name, name))
            return names[i].kind;
    return ALLOCS_NONE;
}

enum allocs_kind allocs_at(uint64_t pc)
{
    for (size_t i = 0; i < all.function_count; i++)
        if (all.functions[i].pc == pc)
            return all.functions[i].kind;
    return ALLOCS_NONE;
}

static bool add_function(void *context, const char *name, uint64_t address)
{
    uint64_t pc = address + *(const uint64_t *)context;
    enum allocs_kind kind = kind_of(name);
    if (kind && !allocs_at(pc) && all.function_count < FUNCTIONS) {
        all.functions[all.function_count].pc = pc;
        all.functions[all.function_count++].kind = kind;
        if (kind < ALLOCS_MAP)
            __atomic_fetch_add(&plugin.run->allocators, 1, __ATOMIC_RELAXED);
    }
    return true;
}

static void add_functions(const char *path, uint64_t bias)
{
    pthread_mutex_lock(&plugin.user.lock);
    elf_functions(path, add_function, &bias);
    pthread_mutex_unlock(&plugin.user.lock);
}

void allocs_mapped(const char *path, uint64_t address, uint64_t size, uint64_t offset)
{
    struct elf elf;
    size_t kept = 0;
    pthread_mutex_lock(&plugin.user.lock); /* something else may have been loaded there */
    for (size_t i = 0; i < all.function_count; i++)
        if (all.functions[i].pc - address >= size)
            all.functions[kept++] = all.functions[i];
    all.function_count = kept;
    pthread_mutex_unlock(&plugin.user.lock);
    if (elf_read(path, &elf))
        return;
    for (unsigned i = 0; i < elf.segments; i++) {
        const struct elf_segment *s = &elf.segment[i];
        if (s->prot & 4 && s->offset + s->file_size > offset && s->offset < offset + size) {
            add_functions(path, address - (s->vaddr + (offset - s->offset)));
            return;
        }
    }
}

void allocs_program(const char *path, uint64_t start_code, uint64_t entry)
{
    struct elf elf;
    struct start start;
    uint64_t lowest = UINT64_MAX;
    char linker[2 * PATH_MAX];
    if (elf_read(path, &elf))
        return;
    for (unsigned i = 0; i < elf.segments; i++)
        if (elf.segment[i].prot & 4 && elf.segment[i].vaddr < lowest)
            lowest = elf.segment[i].vaddr;
    add_functions(path, start_code - lowest);
    if (!elf.interpreter[0] || !start_read_open(task_open("engine", O_RDONLY | O_NOFOLLOW), &start))
        return;
    snprintf(linker, sizeof linker, "%s%s", start.word[START_SYSROOT], elf.interpreter);
    if (access(linker, R_OK))
        snprintf(linker, sizeof linker, "%s", elf.interpreter);
    start_free(&start);
    if (!elf_read(linker, &elf))
        add_functions(linker, entry - elf.entry);
}

bool allocs_after_call(uint64_t pc)
{
    uint32_t word;
    if (!regs_memory(pc - 4, &word, sizeof word))
        return false;
    return (word & 0xfc000000) == 0x94000000 || /* BL */
           (word & 0xfefff000) == 0xd63f0000;   /* BLR, BLRAA and others */
}

/* ---- sites ---- */

static uint64_t hash_words(const uint64_t *words, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static void grow_sites(void)
{
    size_t mask = 2 * all.mask + 1;
    struct site **sites = need(calloc(mask + 1, sizeof(struct site *)));
    for (size_t i = 0; i <= all.mask; i++)
        for (struct site *s = all.sites[i], *next; s; s = next) {
            struct site **to = &sites[hash_words(s->words, s->count) & mask];
            next = s->next;
            s->next = *to;
            *to = s;
        }
    free(all.sites);
    all.sites = sites;
    all.mask = mask;
}

/* Sites live as long as the process: samples point to them. */
static const struct site *find_site(const uint64_t *words, size_t count)
{
    if (all.site_count >= SITES)
        count = 1;
    uint64_t hash = hash_words(words, count);
    for (const struct site *s = all.sites[hash & all.mask]; s; s = s->next)
        if (s->count == count && !memcmp(s->words, words, count * sizeof *words))
            return s;
    if (++all.site_count > all.mask)
        grow_sites();
    struct site *site = need(malloc(sizeof *site + count * sizeof *words));
    site->count = count;
    memcpy(site->words, words, count * sizeof *words);
    site->next = all.sites[hash & all.mask];
    return all.sites[hash & all.mask] = site;
}

/* The site of a call that is about to return to `back`: its own frame is still on the stack. */
static const struct site *site_of(struct vcpu *v, uint64_t back)
{
    uint64_t words[1 + 2 * STACK_CHAIN];
    size_t count = 1;
    unsigned notes;
    words[0] = back;
    if (plugin.user.stacks) {
        const struct stack *stack = plugin.user.full ? &v->callers : &v->hot->stack;
        size_t n = stack->room ? stack_chain(stack, CALLCHAIN_USER, words + 1, &notes) : 0;
        size_t own = n && words[1] == back;
        memmove(words + 1, words + 1 + own, (n - own) * sizeof *words);
        count = n - own + 1;
    }
    return find_site(words, count < FRAMES ? count : FRAMES);
}

/* ---- calls ---- */

/* X0 to X30, then SP; NULL if they cannot be read directly. */
static const uint64_t *registers_of(struct vcpu *v)
{
    if (!v->registers && all.tries < TRIES) {
        const uint64_t *sp = regs_stack_pointer(v->index);
        all.tries += !sp;
        v->registers = sp ? sp - 31 : NULL;
    }
    return v->registers;
}

static uint64_t reg(struct vcpu *v, unsigned n)
{
    const uint64_t *x = registers_of(v);
    return x ? x[n] : regs_read(v->index, n);
}

/* The heap has changed, or may have; releases the lock. */
static void changed(struct vcpu *v)
{
    uint64_t time = heap_time(all.heap);
    __atomic_store_n(&all.time, time, __ATOMIC_RELEASE);
    if (plugin.user.full)
        flow_heap(v, time);
    pthread_mutex_unlock(&all.lock);
}

uint64_t allocs_time(void)
{
    return __atomic_load_n(&all.time, __ATOMIC_ACQUIRE);
}

static void free_block(struct vcpu *v, uint64_t pointer)
{
    const struct allocs_call *c = &v->call;
    if (!pointer || (c->back && c->pointer == pointer &&
                     (c->kind == ALLOCS_AGAIN || c->kind == ALLOCS_AGAIN_PRODUCT)))
        return; /* a call within realloc: counted when realloc returns */
    pthread_mutex_lock(&all.lock);
    heap_remove(all.heap, pointer);
    changed(v);
}

static void unmap(struct vcpu *v, uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&all.lock);
    heap_unmap(all.heap, address, size);
    changed(v);
}

void allocs_entered(unsigned vcpu, void *data)
{
    struct vcpu *v = plugin.hot[vcpu].vcpu;
    enum allocs_kind kind = (enum allocs_kind)(uintptr_t)data;
    struct allocs_call *c = &v->call;
    uint64_t back = reg(v, 30), sp = reg(v, 31), x0 = reg(v, 0), x1 = reg(v, 1), x2 = reg(v, 2);
    /* called by a function of the allocators, or jumped to */
    bool inner = c->back && (sp < c->sp || (sp == c->sp && back == c->back));
    if (kind == ALLOCS_LEAVE)
        c->back = 0;
    if (kind == ALLOCS_FREE)
        free_block(v, x0);
    if (inner || kind == ALLOCS_FREE || kind == ALLOCS_LEAVE)
        return;
    if (kind == ALLOCS_UNMAP) {
        unmap(v, x0, x1);
        return;
    }
    *c = (struct allocs_call){.back = back, .sp = sp, .kind = kind, .pointer = x0};
    switch (kind) {
    case ALLOCS_SIZE:
        c->size = x0;
        break;
    case ALLOCS_PRODUCT:
        c->size = x0 * x1;
        break;
    case ALLOCS_AGAIN_PRODUCT:
        c->size = x1 * x2;
        break;
    case ALLOCS_STORED:
        c->size = x2;
        break;
    case ALLOCS_REMAP:
        c->flags = x1;
        c->size = x2;
        break;
    case ALLOCS_MAP:
        c->flags = reg(v, 3);
        c->size = x1;
        break;
    default:
        c->size = x1;
        break;
    }
}

/* Records memory that a program maps, but not files or thread stacks. */
static void mapped(struct vcpu *v, const struct allocs_call *c, uint64_t address)
{
    enum { ANONYMOUS = 0x20, STACK = 0x20000 };
    if (address > UINT64_MAX - 4096)
        return;
    if (c->kind == ALLOCS_REMAP)
        heap_unmap(all.heap, c->pointer, c->flags);
    if (c->kind == ALLOCS_REMAP || (c->flags & ANONYMOUS && !(c->flags & STACK)))
        heap_map(all.heap, address, c->size, site_of(v, c->back));
    else
        heap_unmap(all.heap, address, c->size);
}

static void returned(struct vcpu *v, const struct allocs_call *c, uint64_t result)
{
    switch (c->kind) {
    case ALLOCS_MAP:
    case ALLOCS_REMAP:
        mapped(v, c, result);
        return;
    case ALLOCS_STORED:
        if ((uint32_t)result || !regs_memory(c->pointer, &result, sizeof result))
            return;
        break;
    case ALLOCS_AGAIN:
    case ALLOCS_AGAIN_PRODUCT:
        if (result || !c->size) /* NULL for no bytes: the old one is gone */
            heap_remove(all.heap, c->pointer);
        break;
    default:
        break;
    }
    if (result)
        heap_add(all.heap, result, c->size, site_of(v, c->back));
}

void allocs_back(unsigned vcpu, void *data)
{
    struct vcpu *v = plugin.hot[vcpu].vcpu;
    if (__builtin_expect(v->call.back != (uintptr_t)data, 1) || reg(v, 31) != v->call.sp)
        return;
    struct allocs_call call = v->call;
    v->call.back = 0;
    pthread_mutex_lock(&all.lock);
    returned(v, &call, reg(v, 0));
    changed(v);
}

/* ---- samples ---- */

void allocs_look(struct vcpu *v, uint64_t address, uint64_t time)
{
    struct heap_block block;
    pthread_mutex_lock(&all.lock);
    bool found = heap_find(all.heap, address, time, &block);
    pthread_mutex_unlock(&all.lock);
    v->task.alloc = (struct task_alloc){0};
    if (!found)
        return;
    const struct site *site = block.site;
    v->task.alloc = (struct task_alloc){.start = block.start,
                                        .size = block.size,
                                        .number = block.born,
                                        .site = site->words,
                                        .site_count = site->count};
}
