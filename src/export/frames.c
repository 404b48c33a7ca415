#include "frames.h"

#include <spex/stacks.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

struct tally *tally_new(struct export_job *job, unsigned parts)
{
    struct tally *t = memory_get(1, sizeof *t);
    t->job = job;
    t->parts = parts;
    if (parts & TALLY_STACK && spex_analysis_stacks(job->analysis) == SPEX_STACKS_COMPANION)
        out_printf(&job->notes,
                   "call stacks come from a second event, %s: a function's samples are divided "
                   "among its callers in that event's proportions\n",
                   spex_analysis_stacks_event(job->analysis));
    return t;
}

static uint32_t find_row(struct tally *t, const struct spex_sample *s)
{
    const struct spex_record *r = s->record;
    bool memory = s->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES);
    uint64_t address = s->module ? s->address : s->pc, known = !!(r->present & SPEX_HAS_PC);
    uint64_t key[IDS_WORDS] = {(uintptr_t)s->module, address, 0, 1};
    if (t->parts & TALLY_THREAD)
        key[2] = (uint64_t)(uint32_t)s->pid << 32 | (uint32_t)s->tid;
    uint32_t stack = t->parts & TALLY_STACK ? spex_sample_stack(t->job->analysis, s) : 0;
    if (t->parts & TALLY_WHAT)
        key[3] |= (uint64_t)s->op << 16 | (uint64_t)s->source << 8 | (uint64_t)memory << 2;
    key[3] |= (uint64_t)stack << 32 | (uint64_t)known << 1;
    bool fresh;
    uint32_t row = ids_find_again(&t->ids, &t->last[s->place], key, &fresh);
    if (fresh) {
        t->rows = memory_grow(t->rows, t->count, &t->capacity, sizeof *t->rows);
        t->rows[t->count++] =
            (struct tally_row){.at = {.module = s->module, .address = address, .symbol = s->symbol},
                               .comm = s->comm,
                               .pid = s->pid,
                               .tid = s->tid,
                               .op = s->op,
                               .source = s->source,
                               .memory = memory,
                               .stack = stack};
    }
    return row;
}

uint32_t tally_one(struct tally *t, const struct spex_sample *sample)
{
    const struct spex_record *r = sample->record;
    uint32_t number = find_row(t, sample); /* may move the rows */
    struct tally_row *row = &t->rows[number];
    row->samples++;
    row->spent += (double)sample->spent;
    row->latency += r->total; /* 0 where there is no counter */
    row->misses += r->events >> SPEX_EV_L1D_MISS & 1;
    row->mispredicts += r->events >> SPEX_EV_MISPREDICT & 1;
    row->comm = sample->comm; /* a thread's last name */
    return number;
}

void tally_add(struct tally *t, const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tally_one(t, &samples[i]);
}

static int by_place(const void *a, const void *b)
{
    const struct tally_row *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->at.module != y->at.module) {
        int order = !x->at.module ? 1 : !y->at.module ? -1 : 0;
        if (!order)
            order = strcmp(spex_module_path(x->at.module), spex_module_path(y->at.module));
        return order ? order : x->at.module < y->at.module ? -1 : 1;
    }
    return x->at.address != y->at.address ? ORDER(x->at.address, y->at.address)
           : x->stack != y->stack         ? ORDER(x->stack, y->stack)
           : x->op != y->op               ? ORDER(x->op, y->op)
           : x->memory != y->memory       ? ORDER(x->memory, y->memory)
                                          : ORDER(x->source, y->source);
}

void tally_sort(struct tally *t)
{
    if (!(t->parts & TALLY_THREAD))
        for (size_t i = 0; i < t->count; i++)
            t->rows[i].pid = t->rows[i].tid = -1;
    if (t->count)
        qsort(t->rows, t->count, sizeof *t->rows, by_place);
    ids_free(&t->ids);
}

void tally_free(struct tally *t)
{
    ids_free(&t->ids);
    free(t->rows);
    free(t->frames);
    free(t->places);
    free(t);
}

uint64_t tally_weight(const struct tally_row *row, enum export_weight weight)
{
    static const double most = 4e18, ps = 1000; /* damaged timestamps lie far apart */
    switch (weight) {
    case EXPORT_WEIGHT_TIME:
        return (uint64_t)(row->spent / ps < most ? row->spent / ps + 0.5 : most);
    case EXPORT_WEIGHT_LATENCY:
        return row->latency;
    case EXPORT_WEIGHT_MISSES:
        return row->misses;
    default:
        return row->samples;
    }
}

enum spex_status tally_check(struct export_job *job)
{
    const struct spex_totals *totals = spex_analysis_totals(job->analysis);
    if (job->settings->weight != EXPORT_WEIGHT_TIME || totals->spent || !totals->kept)
        return SPEX_OK;
    return error_set(&job->error, SPEX_INVALID, 0,
                     "--weight time: records have no timestamps; use --weight samples, or record "
                     "with ts_enable=1");
}

size_t export_frames(const struct spex_place *at, struct export_frame frames[FRAMES_MOST])
{
    struct spex_inline inlines[FRAMES_MOST - 1];
    struct spex_line line = {0};
    size_t n = 0;
    if (!at->module) {
        frames[0] = (struct export_frame){.name = at->symbol ? at->symbol->name : "[unknown]"};
        return 1;
    }
    if (!spex_module_line(at->module, at->address, &line))
        line = (struct spex_line){0};
    size_t count = spex_module_inlines(at->module, at->address, inlines, FRAMES_MOST - 1);
    if (count > FRAMES_MOST - 1)
        count = FRAMES_MOST - 1;
    for (size_t i = 0; i < count; i++) {
        frames[n++] = (struct export_frame){.name = inlines[i].name ? inlines[i].name : "[inlined]",
                                            .file = line.file,
                                            .line = line.line,
                                            .inlined = true,
                                            .module = at->module};
        line = inlines[i].call;
    }
    const char *name = at->symbol ? at->symbol->name : NULL;
    frames[n++] = (struct export_frame){.name = name ? name : spex_module_name(at->module),
                                        .file = line.file,
                                        .line = line.line,
                                        .module = at->module};
    return n;
}

static void add_frame(struct tally *t, const struct export_frame *frame)
{
    t->frames = memory_grow(t->frames, t->frame_count, &t->frame_capacity, sizeof *t->frames);
    t->frames[t->frame_count++] = *frame;
}

static void add_place(struct tally *t, const struct spex_place *place)
{
    t->places = memory_grow(t->places, t->place_count, &t->place_capacity, sizeof *t->places);
    t->places[t->place_count++] = *place;
}

size_t tally_places(struct tally *t, const struct tally_row *row, const struct spex_place **out)
{
    static const struct spex_symbol missing = {.name = "[...]"};
    const struct spex_call *call;
    t->place_count = 0;
    add_place(t, &row->at);
    for (uint32_t n = row->stack; n; n = call->caller) {
        call = spex_analysis_call(t->job->analysis, n);
        if (call->cut)
            add_place(t, &(struct spex_place){.symbol = &missing});
        add_place(t, &(struct spex_place){
                         .module = call->module, .address = call->address, .symbol = call->symbol});
    }
    *out = t->places;
    return t->place_count;
}

size_t tally_frames(struct tally *t, const struct tally_row *row, const struct export_frame **out)
{
    struct export_frame frames[FRAMES_MOST];
    const struct spex_place *places;
    size_t count = tally_places(t, row, &places);
    t->frame_count = 0;
    bool named =
        row->at.symbol && row->at.symbol->name; /* if not, the frame has the name of the file */
    if (!row->stack && row->at.module && named)
        add_frame(t, &(struct export_frame){.name = spex_module_name(row->at.module),
                                            .module = row->at.module});
    while (count-- > 0)
        for (size_t n = export_frames(&places[count], frames); n-- > 0;)
            add_frame(t, &frames[n]);
    *out = t->frames;
    return t->frame_count;
}
