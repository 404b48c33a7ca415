/*
 * Finds out which NUMA node a page of data is on. Physical addresses show it if the file says which
 * memory belongs to which node. Otherwise the data source does: data from local DRAM is on the node
 * of the CPU; data from remote DRAM is on the other one, if there are two.
 */
#include "report/internal.h"

#include "base/ids.h"
#include "base/memory.h"

#include <stdlib.h>

struct nodes {
    struct spex_analysis *analysis;
    const struct spex_perfdata *file;
    const struct spex_perf_info *info;
    struct ids pages; /* address and process */
    uint32_t (*counts)[NODES_MOST];
    size_t capacity;
    int32_t cpu; /* CPU of the last sample; near: its node's index in the file's list */
    size_t near;
    bool full; /* some pages were left out */
};

/* Index of a node's number in the file's list; NODES_MOST if it is not counted. */
static size_t place_of(const struct nodes *n, int node)
{
    size_t i = 0;
    while (i < n->info->node_count && (int)n->info->nodes[i].node != node)
        i++;
    return node >= 0 && i < n->info->node_count && i < NODES_MOST ? i : NODES_MOST;
}

struct nodes *nodes_new(struct spex_analysis *analysis)
{
    const struct spex_perfdata *file = spex_analysis_file(analysis);
    const struct spex_perf_info *info = file ? spex_perfdata_info(file) : NULL;
    if (!info || info->node_count < 2)
        return NULL;
    struct nodes *n = memory_get(1, sizeof *n);
    *n = (struct nodes){.analysis = analysis, .file = file, .info = info};
    n->cpu = -1;
    n->near = NODES_MOST;
    return n;
}

void nodes_free(struct nodes *n)
{
    if (!n)
        return;
    ids_free(&n->pages);
    free(n->counts);
    free(n);
}

static size_t node_of(struct nodes *n, const struct spex_sample *s)
{
    if (s->record->present & SPEX_HAS_PA) {
        size_t place = place_of(n, spex_perfdata_memory_node(n->file, s->pa));
        if (place < NODES_MOST)
            return place;
    }
    if (s->source != SPEX_SOURCE_DRAM && s->source != SPEX_SOURCE_REMOTE_DRAM)
        return NODES_MOST;
    if (s->cpu != n->cpu) {
        n->cpu = s->cpu;
        n->near = place_of(n, spex_perfdata_node(n->file, s->cpu));
    }
    bool remote = s->source == SPEX_SOURCE_REMOTE_DRAM || (s->record->events >> SPEX_EV_REMOTE & 1);
    if (!remote || n->near == NODES_MOST)
        return n->near;
    return n->info->node_count == 2 ? 1 - n->near : NODES_MOST;
}

/* Counts for a page; NULL if there are too many pages. */
static uint32_t *counts_of(struct nodes *n, const uint64_t key[IDS_WORDS])
{
    bool fresh;
    uint32_t page;
    if (!ids_get(&n->pages, key, &page)) {
        n->full |= n->pages.count == SPEX_GROUP_MAX;
        if (n->full)
            return NULL;
        page = ids_find(&n->pages, key, &fresh);
        n->counts = memory_grow(n->counts, page, &n->capacity, sizeof *n->counts);
        memset(n->counts[page], 0, sizeof *n->counts);
    }
    return n->counts[page];
}

static void count(struct nodes *n, const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        size_t place = spex_sample_memory(s) ? node_of(n, s) : NODES_MOST;
        if (place == NODES_MOST)
            continue;
        const uint64_t key[IDS_WORDS] = {s->va & ~UINT64_C(0xfff),
                                         s->va >> 63 ? UINT64_MAX : (uint64_t)(int64_t)s->pid};
        uint32_t *counts = counts_of(n, key);
        if (counts)
            counts[place]++;
    }
}

void nodes_sink(void *context, const struct spex_sample *samples, size_t n)
{
    struct nodes *nodes = context;
    if (!memory_guarded(memory_current(), count(nodes, samples, n)))
        spex_analysis_fail(nodes->analysis, SPEX_NO_MEMORY);
}

/* ---- counting in several threads ---- */

static void *split(void *context, unsigned threads)
{
    (void)threads;
    return nodes_new(((struct nodes *)context)->analysis);
}

static bool join(void *to, void *from)
{
    struct nodes *n = to;
    const struct nodes *other = from;
    for (uint32_t page = 0; page < other->pages.count; page++) {
        uint32_t *counts = counts_of(n, other->pages.keys[page]);
        for (unsigned i = 0; counts && i < NODES_MOST; i++)
            counts[i] += other->counts[page][i];
    }
    return !n->full && !other->full;
}

static void take(void *context, void *sum)
{
    struct nodes *n = context, *from = sum, empty = *n;
    *n = *from;
    *from = empty;
}

static void drop(void *shard)
{
    nodes_free(shard);
}

const struct spex_sink_shards nodes_shards = {split, join, take, drop};

void nodes_add(const struct nodes *n, uint64_t page, uint64_t space, uint64_t counts[NODES_MOST])
{
    const uint64_t key[IDS_WORDS] = {page, space};
    uint32_t number;
    for (unsigned i = 0; n && ids_get(&n->pages, key, &number) && i < NODES_MOST; i++)
        counts[i] += n->counts[number][i];
}

/* Writes the largest first. */
void nodes_write(const struct nodes *n, const uint64_t counts[NODES_MOST], struct json *json)
{
    bool written[NODES_MOST] = {false};
    json_name(json, "nodes");
    json_array(json);
    for (;;) {
        unsigned best = NODES_MOST;
        for (unsigned i = 0; i < NODES_MOST; i++)
            if (counts[i] && !written[i] && (best == NODES_MOST || counts[i] > counts[best]))
                best = i;
        if (best == NODES_MOST)
            break;
        written[best] = true;
        json_u64(json, n->info->nodes[best].node);
        json_u64(json, counts[best]);
    }
    json_end(json);
}
