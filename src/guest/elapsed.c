#include "elapsed.h"

#include "base/hash.h"
#include "flow.h"
#include "need.h"
#include "perfdata/elapsed.h"
#include "plugin.h"
#include "regs.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 2048 }; /* more are counted by system call alone */

struct elapsed_row {
    uint64_t object, chain[ELAPSED_CHAIN];
    uint32_t depth;
    uint16_t number;
    uint64_t hash, count, kernel, waited;
};

/* ---- the guest's thread ---- */

/* Callers by their frame records, as the compilers of AArch64 make them; as many as there are. */
static uint32_t walk(uint64_t frame, uint64_t *chain, uint32_t most)
{
    enum { AT_ONCE = 64 }; /* words that are read at a time */
    uint64_t words[AT_ONCE], from = 0, n = 0;
    uint32_t depth = 0;
    while (depth < most && frame && !(frame & 7)) {
        if (frame < from || frame + 16 > from + 8 * n) {
            from = frame;
            for (n = AT_ONCE; n && !regs_memory(from, words, (unsigned)(8 * n)); n = n > 2 ? 2 : 0)
                ;
        }
        if (!n)
            break;
        const uint64_t *record = words + (frame - from) / 8;
        if (!record[1])
            break;
        chain[depth++] = record[1];
        if (record[0] <= frame)
            break;
        frame = record[0];
    }
    return depth;
}

struct elapsed_syscall *elapsed_note(struct vcpu *v, int64_t number)
{
    if (!plugin.run->keep)
        return NULL;
    struct elapsed_syscall *s = need(calloc(1, sizeof *s));
    const enum flow_call kind = flow_call_kind(number, v->argument[1]);
    const struct block *last = v->hot->open;
    s->number = number >= 0 && number < UINT16_MAX ? (uint16_t)number : UINT16_MAX;
    s->object = kind == FLOW_FUTEX_WAIT ? v->argument[0] : 0;
    if (!last || !plugin.user.registers)
        return s;
    const uint64_t link = regs_read(v->index, 30);
    uint64_t *to = s->chain;
    *to++ = last->timing.next - 4;
    if (kind == FLOW_FUTEX_WAIT || kind == FLOW_WAITS)
        to += walk(regs_read(v->index, 29), to, ELAPSED_CHAIN - 2);
    if (link && s->chain[1] != link) { /* the function has no record of its own */
        memmove(s->chain + 2, s->chain + 1, (size_t)(to - s->chain - 1) * sizeof *to);
        s->chain[1] = link;
        to++;
    }
    s->depth = (uint32_t)(to - s->chain);
    return s;
}

/* ---- the model's ---- */

void elapsed_begin(struct elapsed *e, uint64_t clock)
{
    e->count = 0;
    if (e->index)
        memset(e->index, 0, (e->mask + 1) * sizeof *e->index);
    e->began = e->since = clock;
    e->called = 0;
}

void elapsed_enter(struct elapsed *e, struct elapsed_syscall *call, uint64_t clock)
{
    free(e->call);
    e->call = call;
    e->since = clock;
}

static bool same(const struct elapsed_row *row, const struct elapsed_syscall *s, uint64_t hash)
{
    return row->hash == hash && row->number == s->number && row->object == s->object &&
           row->depth == s->depth && !memcmp(row->chain, s->chain, s->depth * sizeof *s->chain);
}

static void grow(struct elapsed *e)
{
    e->room = e->room ? 2 * e->room : 64;
    e->rows = need(realloc(e->rows, e->room * sizeof *e->rows));
    free(e->index);
    e->mask = 2 * e->room - 1;
    e->index = need(calloc(e->mask + 1, sizeof *e->index));
    for (size_t n = 0; n < e->count; n++) {
        size_t i = e->rows[n].hash & e->mask;
        while (e->index[i])
            i = (i + 1) & e->mask;
        e->index[i] = (uint32_t)n + 1;
    }
}

static struct elapsed_row *find(struct elapsed *e, const struct elapsed_syscall *s)
{
    uint64_t hash = hash_word(s->number, s->object);
    for (uint32_t i = 0; i < s->depth; i++)
        hash = hash_word(hash, s->chain[i]);
    if (e->count == e->room)
        grow(e);
    size_t i = hash & e->mask;
    for (; e->index[i]; i = (i + 1) & e->mask)
        if (same(&e->rows[e->index[i] - 1], s, hash))
            return &e->rows[e->index[i] - 1];
    if (e->count >= ROWS && s->depth) {
        const struct elapsed_syscall any = {.number = s->number};
        return find(e, &any);
    }
    struct elapsed_row *row = &e->rows[e->count++];
    *row = (struct elapsed_row){
        .object = s->object, .depth = s->depth, .number = s->number, .hash = hash};
    memcpy(row->chain, s->chain, sizeof row->chain);
    e->index[i] = (uint32_t)e->count;
    return row;
}

static void add(struct elapsed *e, uint64_t kernel, uint64_t waited)
{
    struct elapsed_row *row = find(e, e->call);
    row->count++;
    row->kernel += kernel;
    row->waited += waited;
    e->called += kernel + waited;
}

void elapsed_leave(struct elapsed *e, uint64_t clock, uint64_t kernel)
{
    if (!e->call)
        return;
    const uint64_t took = clock - e->since;
    kernel = kernel < took ? kernel : took;
    add(e, kernel, took - kernel);
    free(e->call);
    e->call = NULL;
}

/* ---- into the data ---- */

static uint8_t *put(uint8_t *to, const struct task *task, uint64_t time,
                    const struct elapsed_row *row, enum elapsed_state state, uint64_t ns)
{
    const struct run_task *s = task->shared;
    const struct allocation a = {.pc = row->chain[0],
                                 .time = time,
                                 .start = row->object,
                                 .size = ns,
                                 .number = elapsed_weight(row->count, state, row->number),
                                 .pid = s->pid,
                                 .tid = s->tid,
                                 .cpu = s->cpu,
                                 .count = row->depth};
    elapsed_write(to, &a, row->chain);
    return to + allocation_size(a.count);
}

void elapsed_save(struct elapsed *e, struct task *task, uint64_t clock, uint64_t end)
{
    if (!plugin.run->keep || clock <= e->began)
        return;
    const uint64_t time = clock - 1; /* what happens at the end is after it */
    const struct elapsed_row runs = {.count = 1};
    uint64_t ran = clock - e->began - e->called;
    if (e->call && end > clock)
        add(e, 0, end - clock);
    uint8_t *all = need(malloc((2 * e->count + 1) * allocation_size(ELAPSED_CHAIN)));
    uint8_t *to = put(all, task, time, &runs, ELAPSED_RUNS, ran);
    for (size_t i = 0; i < e->count; i++) {
        const struct elapsed_row *row = &e->rows[i];
        if (row->kernel)
            to = put(to, task, time, row, ELAPSED_KERNEL, row->kernel);
        if (row->waited)
            to = put(to, task, time, row, ELAPSED_WAITS, row->waited);
    }
    task_add_records(all, (uint64_t)(to - all));
    free(all);
    elapsed_begin(e, clock);
}

void elapsed_fini(struct elapsed *e)
{
    free(e->rows);
    free(e->index);
    free(e->call);
    *e = (struct elapsed){0};
}
