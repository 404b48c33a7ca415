/* Who ran where, and since when: threads, processes, names. */
#include "pass.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void changes_add(struct changes *changes, int32_t id, uint64_t time)
{
    changes->items =
        memory_grow(changes->items, changes->count, &changes->capacity, sizeof *changes->items);
    changes->items[changes->count++] = (struct change){.id = id, .time = time};
}

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->how < y->how ? -1 : x->how > y->how;
}

void changes_sort(struct changes *changes)
{
    if (changes->count)
        qsort(changes->items, changes->count, sizeof *changes->items, compare_changes);
}

struct span changes_span(const struct changes *changes, int32_t id, uint64_t time)
{
    size_t low = SEARCH(i, 0, changes->count,
                        changes->items[i].id < id ||
                            (changes->items[i].id == id && changes->items[i].time <= time));
    struct span span = {0, UINT64_MAX};
    if (low > 0 && changes->items[low - 1].id == id)
        span.from = changes->items[low - 1].time;
    if (low < changes->count && changes->items[low].id == id)
        span.until = changes->items[low].time - 1;
    return span;
}

void **state_slot(struct table *table, uint64_t key)
{
    if (!table->slots || table->count * 2 >= table->mask) {
        struct table old = *table;
        size_t mask = old.mask ? old.mask * 2 + 1 : 63;
        table->slots = memory_get(mask + 1, sizeof *table->slots);
        table->mask = mask;
        table->count = 0;
        for (size_t i = 0; old.slots && i <= old.mask; i++)
            if (old.slots[i].value)
                *state_slot(table, old.slots[i].key) = old.slots[i].value;
        memory_free(old.slots);
    }
    size_t i = hash_word(hash_seed(), key) & table->mask;
    while (table->slots[i].value && table->slots[i].key != key)
        i = (i + 1) & table->mask;
    if (!table->slots[i].value) {
        table->slots[i].key = key;
        table->count++;
    }
    return &table->slots[i].value;
}

void *state_find(const struct table *table, uint64_t key)
{
    if (!table->slots)
        return NULL;
    size_t i = hash_word(hash_seed(), key) & table->mask;
    while (table->slots[i].value && table->slots[i].key != key)
        i = (i + 1) & table->mask;
    return table->slots[i].value;
}

const char *analysis_intern(struct spex_analysis *a, const char *text)
{
    const char *found = NULL;
    uint64_t hash = hash_bytes(hash_seed(), text, strlen(text));
    a = analysis_first(a);
    analysis_lock(a);
    for (; !found; hash++) { /* equal hashes of different texts: take the next key */
        void **slot = state_slot(&a->strings, hash);
        if (!*slot)
            *slot = memory_copy(text);
        if (!strcmp(*slot, text))
            found = *slot;
    }
    analysis_unlock(a);
    return found;
}

struct process *state_process(struct lane *lane, int32_t pid, uint64_t time)
{
    void **slot = state_slot(&lane->processes, (uint32_t)pid);
    struct process *p = *slot;
    if (!p) {
        *slot = p = memory_get(1, sizeof *p);
        p->pid = pid;
        p->span.from = 1; /* empty */
    }
    if (time < p->span.from || time > p->span.until) {
        p->span = changes_span(&lane->analysis->process_changes, pid, time);
        p->version = __atomic_add_fetch(lane->versions, 1, __ATOMIC_RELAXED) &
                     ((UINT32_C(1) << MAPS_BITS) - 1);
    }
    return p;
}

/* Looks up what is known about the thread from t->span.from on. */
static void look_up_thread(const struct lane *lane, struct thread *t, uint64_t time)
{
    struct spex_analysis *a = lane->analysis;
    char unknown[16];
    const char *comm = NULL;
    t->known = false;
    if (a->file) {
        int32_t pid = spex_perfdata_pid(a->file, t->tid, time);
        comm = spex_perfdata_comm(a->file, t->tid, time);
        t->known = pid >= 0;
        if (t->known)
            t->pid = pid;
    }
    snprintf(unknown, sizeof unknown, ":%d", t->tid);
    t->comm = analysis_intern(a, comm ? comm : t->tid < 0 ? "[unknown]" : unknown);
    t->span = changes_span(&a->thread_changes, t->tid, time); /* valid from this time on */
}

struct thread *state_thread(struct lane *lane, int32_t tid, int32_t pid, uint64_t time)
{
    void **slot = state_slot(&lane->threads, (uint32_t)tid);
    struct thread *t = *slot;
    if (!t) {
        *slot = t = memory_get(1, sizeof *t);
        t->tid = tid;
        t->span.from = 1;
        t->latest.pid = INT32_MIN;
    }
    if (time < t->span.from || time > t->span.until)
        look_up_thread(lane, t, time);
    if (!t->known)
        t->pid = pid;
    thread_latest(t, t->span.from, t->comm, t->pid);
    if (!t->process || t->process->pid != t->pid || time < t->process->span.from ||
        time > t->process->span.until)
        t->process = state_process(lane, t->pid, time);
    return t;
}

void state_free(struct table *table, bool values)
{
    for (size_t i = 0; values && table->slots && i <= table->mask; i++)
        memory_free(table->slots[i].value);
    memory_free(table->slots);
}
