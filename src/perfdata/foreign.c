/*
 * AUX data that is not SPE's: Intel PT, CoreSight ETM and others look like SPE records in
 * places. AUXTRACE_INFO and the events of AUX records decide what a chunk holds.
 */
#include "file.h"

#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *name_of(unsigned type)
{
    static const char *const names[] = {
        "of no known kind", "Intel PT",      "Intel BTS",    "Arm CoreSight ETM (cs_etm)",
        "Arm SPE",          "s390 (CPU-MF)", "HiSilicon PTT"};
    return type < sizeof names / sizeof *names ? names[type] : names[0];
}

void perfdata_foreign_info(struct spex_perfdata *file, const struct raw *raw, unsigned type)
{
    struct foreign *f = &file->foreign;
    f->now = true;
    if (!f->there) {
        f->there = true;
        f->type = type;
        f->offset = raw->offset;
    }
}

void perfdata_foreign_aux(struct spex_perfdata *file, const struct spex_perf_event *event)
{
    if (!file->foreign.there || !event->attr)
        return;
    struct aux_span *span = vec_push(&file->foreign.spans);
    if (!span) {
        file->failed = true;
        return;
    }
    *span = (struct aux_span){.owner = event->cpu,
                              .tid = event->tid,
                              .attr = (uint32_t)(event->attr - file->attrs.items),
                              .offset = event->u.aux.offset,
                              .size = event->u.aux.size};
}

static int by_place(const void *a, const void *b)
{
    const struct aux_span *x = a, *y = b;
    return x->owner != y->owner ? ORDER(x->owner, y->owner) : ORDER(x->offset, y->offset);
}

/* The event whose AUX records cover the chunk, if they are all of one kind; else NULL. */
static const struct spex_perf_attr *event_of(const struct spex_perfdata *file, int32_t owner,
                                             const struct chunk *chunk)
{
    const struct aux_span *spans = file->foreign.spans.items;
    const struct spex_perf_attr *found = NULL;
    const struct aux_span key = {.owner = owner, .offset = chunk->offset};
    size_t low = SEARCH(i, 0, file->foreign.spans.count, by_place(&spans[i], &key) <= 0);
    /* spans that begin before the chunk: the nearest ones, as each kind has its own offsets */
    for (size_t i = low; i && low - i < 4 && spans[i - 1].owner == owner; i--) {
        const struct aux_span *span = &spans[i - 1];
        const struct spex_perf_attr *attr = &file->attrs.items[span->attr];
        if (chunk->offset - span->offset >= span->size)
            continue;
        if (found && found->spe != attr->spe)
            return NULL;
        found = attr;
    }
    return found;
}

static bool is_foreign(const struct spex_perfdata *file, const struct queue *queue,
                       const struct chunk *chunk)
{
    if (!file->info.auxtrace_version)
        return true; /* nothing in this file is SPE data */
    int32_t owner = file->foreign.by_cpu ? queue->queue.cpu : queue->queue.tid;
    const struct spex_perf_attr *attr = event_of(file, owner, chunk);
    return attr ? !attr->spe : chunk->foreign;
}

/* Drops chunks that are not SPE's; returns the bytes dropped. */
static uint64_t sift(struct spex_perfdata *file, struct queue *queue)
{
    size_t kept = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < queue->chunks.count; i++) {
        const struct chunk *chunk = &queue->chunks.items[i];
        if (!is_foreign(file, queue, chunk)) {
            queue->chunks.items[kept++] = *chunk;
            continue;
        }
        bytes += chunk->size;
        queue->queue.bytes -= chunk->size;
        queue->queue.chunks--;
        file->info.aux_bytes -= chunk->size;
        file->info.aux_chunks--;
    }
    queue->chunks.count = kept;
    return bytes;
}

void perfdata_foreign_refuse(struct spex_perfdata *file)
{
    struct foreign *f = &file->foreign;
    uint64_t bytes = 0;
    size_t kept = 0;
    if (!f->there)
        return;
    for (size_t i = 0; i < file->queues.count; i++)
        f->by_cpu |= file->queues.items[i].queue.cpu >= 0;
    for (size_t i = 0; i < f->spans.count && !f->by_cpu; i++)
        f->spans.items[i].owner = f->spans.items[i].tid;
    if (f->spans.count)
        qsort(f->spans.items, f->spans.count, sizeof *f->spans.items, by_place);
    for (size_t i = 0; i < file->queues.count; i++) {
        struct queue *queue = &file->queues.items[i];
        bytes += sift(file, queue);
        if (queue->chunks.count)
            file->queues.items[kept++] = *queue;
        else
            vec_free(&queue->chunks);
    }
    file->queues.count = kept;
    perfdata_problem(file, SPEX_UNSUPPORTED, f->offset,
                     "the trace is %s (type %u), not Arm SPE: %" PRIu64 " bytes of it are left out",
                     name_of(f->type), f->type, bytes);
    vec_free(&f->spans);
}
