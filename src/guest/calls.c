#include "calls.h"

#include "need.h"
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS(frame) ((frame).back & ~UINT64_C(3))

/* Shared by the whole process, but only the model's thread uses it. */
static struct {
    struct run_call **rows; /* hash table; its size is a power of two */
    size_t size, used;
} all;

static size_t hash(uint64_t site, uint64_t target)
{
    return (size_t)((site * UINT64_C(0x9e3779b97f4a7c15) ^ target) * UINT64_C(0xd6e8feb86659fd93) >>
                    20);
}

static struct run_call **place(uint64_t site, uint64_t target)
{
    size_t i = hash(site, target) & (all.size - 1);
    while (all.rows[i] && (all.rows[i]->site != site || all.rows[i]->target != target))
        i = (i + 1) & (all.size - 1);
    return &all.rows[i];
}

static void grow(void)
{
    struct run_call **old = all.rows;
    size_t size = all.size;
    all.size = size ? 2 * size : 1024;
    all.rows = need(calloc(all.size, sizeof *all.rows));
    for (size_t i = 0; i < size; i++)
        if (old[i])
            *place(old[i]->site, old[i]->target) = old[i];
    free(old);
}

/* NULL if the disk is full. */
static struct run_call *row_of(uint64_t site, uint64_t target)
{
    if (2 * all.used >= all.size)
        grow();
    struct run_call **at = place(site, target);
    if (!*at) {
        pthread_mutex_lock(&plugin.user.lock);
        *at = block_new_call();
        pthread_mutex_unlock(&plugin.user.lock);
        if (!*at)
            return NULL;
        all.used++;
        (*at)->site = site;
        (*at)->target = target;
    }
    return *at;
}

static void end_last(struct calls *c, uint64_t number)
{
    const struct calls_open *o = &c->open[--c->count];
    struct run_call *row = o->target ? row_of(ADDRESS(o->frame) - 4, o->target) : NULL;
    if (!row)
        return;
    row->calls++;
    for (unsigned i = 0; i < RUN_COUNTS; i++)
        row->counts[i] += i == RUN_CYCLES ? 0 : c->sum[i] - o->before[i];
    if (c->ended_count == c->ended_room) {
        c->ended_room = c->ended_room ? 2 * c->ended_room : 256;
        c->ended = need(realloc(c->ended, c->ended_room * sizeof *c->ended));
    }
    c->ended[c->ended_count++] = (struct calls_ended){.row = row,
                                                      .before = o->before[RUN_CYCLES],
                                                      .first = o->first,
                                                      .last = number,
                                                      .settled = o->settled};
}

static void begin(struct calls *c, struct stack_frame frame, uint64_t target, uint64_t number)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->open = need(realloc(c->open, c->room * sizeof *c->open));
    }
    struct calls_open *o = &c->open[c->count++];
    o->frame = frame;
    o->target = target;
    o->fresh = target != 0;
    memcpy(o->before, c->sum, sizeof o->before);
    o->first = number;
    o->settled = false;
}

void calls_settle(struct calls *c, const struct blame *cycles)
{
    size_t done = 0;
    for (size_t i = c->count; i && !c->open[i - 1].settled; i--) {
        struct calls_open *o = &c->open[i - 1];
        o->settled = o->first <= cycles->settled;
        if (o->settled)
            o->before[RUN_CYCLES] = blame_before(cycles, o->first);
    }
    for (; done < c->ended_count && c->ended[done].last <= cycles->settled; done++) {
        const struct calls_ended *e = &c->ended[done];
        e->row->counts[RUN_CYCLES] += blame_before(cycles, e->last) -
                                      (e->settled ? e->before : blame_before(cycles, e->first));
    }
    c->ended_count -= done;
    if (done)
        memmove(c->ended, c->ended + done, c->ended_count * sizeof *c->ended);
}

static bool is_open(const struct calls_open *o, const struct stack_frame *frame)
{
    return o->frame.sp == frame->sp && ADDRESS(o->frame) == ADDRESS(*frame);
}

void calls_follow(struct calls *c, const struct stack *s, unsigned turn, uint64_t pc,
                  uint64_t number)
{
    const struct stack_frame *frames = s->room->frames;
    size_t depth = (size_t)(s->top - frames);
    turn &= STACK_MOVES - 1;
    while (c->count && (c->count > depth || !is_open(&c->open[c->count - 1], &frames[c->count])))
        end_last(c, number);
    if (c->count && c->count == depth && c->open[depth - 1].fresh) {
        c->open[depth - 1].fresh = false;
        if (turn == STACK_JUMP) /* the jump came from a PLT entry */
            c->open[depth - 1].target = pc;
    }
    while (c->count < depth)
        begin(c, frames[c->count + 1], turn == STACK_CALL && c->count + 1 == depth ? pc : 0,
              number);
}

void calls_end(struct calls *c, const struct blame *cycles)
{
    while (c->count)
        end_last(c, cycles->number);
    if (cycles)
        calls_settle(c, cycles);
    free(c->open);
    free(c->ended);
    *c = (struct calls){0};
}

void calls_forked(struct calls *c, uint64_t number)
{
    c->ended_count = 0;
    for (size_t i = 0; i < c->count; i++) {
        memcpy(c->open[i].before, c->sum, sizeof c->sum);
        c->open[i].first = number;
        c->open[i].settled = false;
    }
}
