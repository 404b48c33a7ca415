/*
 * Any bytes as a perf.data file: everything is read in every way. Properties: records
 * lie inside the input, spans follow each other as they say they do, whatever is kept
 * comes again, state look-ups hold what was asked for.
 */
#include <spex/perfdata.h>

#include "mutate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static void must(bool what)
{
    if (!what)
        abort();
}

static uint64_t sum;

static void look(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)data)[i];
}

static void events(struct spex_perfdata *file, size_t size)
{
    struct spex_perf_event e;
    uint64_t last = 0;
    while (spex_perfdata_next(file, &e) == SPEX_OK) {
        must(e.offset >= last && e.offset < size && e.size >= 8);
        last = e.offset;
        look(e.bytes, e.size);
        if (e.type == SPEX_PERF_SAMPLE) {
            const struct spex_perf_sample *s = &e.u.sample;
            look(s->callchain, s->callchain_count * 8);
            look(s->branches, s->branch_count * 24);
            look(s->read, s->read_count * 8);
            look(s->raw, s->raw_size);
            look(s->stack, s->stack_size);
            look(s->aux, s->aux_size);
            look(s->regs_user, s->regs_user ? s->regs_user_count * 8 : 0);
            look(s->regs_intr, s->regs_intr ? s->regs_intr_count * 8 : 0);
        } else if (e.type == SPEX_PERF_MMAP || e.type == SPEX_PERF_MMAP2) {
            look(e.u.map.filename, strlen(e.u.map.filename));
            const struct spex_perf_map *map =
                spex_perfdata_map(file, e.u.map.pid, e.u.map.start, UINT64_MAX);
            must(!map || (map->start <= e.u.map.start && map->end > e.u.map.start));
            map = spex_perfdata_map(file, e.u.map.pid, e.u.map.start, e.time);
            must(!map || map->time <= e.time);
        } else if (e.type == SPEX_PERF_COMM) {
            look(e.u.comm.comm, strlen(e.u.comm.comm));
            const char *comm = spex_perfdata_comm(file, e.u.comm.tid, e.time);
            look(comm, comm ? strlen(comm) : 0);
            spex_perfdata_pid(file, e.u.comm.tid, e.time);
        } else if (e.type == SPEX_PERF_AUXTRACE) {
            look(e.u.auxtrace.data, e.u.auxtrace.available);
        } else if (e.type == SPEX_PERF_AUXTRACE_ERROR) {
            look(e.u.auxtrace_error.message, strlen(e.u.auxtrace_error.message));
        }
        int32_t pid, tid;
        spex_perfdata_running(file, e.cpu, e.time, &pid, &tid);
    }
}

/* A consumer that uses whole items of a size and keeps the rest. */
static void spans(struct spex_perfdata *file, size_t queue, size_t item)
{
    struct spex_aux_cursor *cursor;
    struct spex_aux_span span;
    uint64_t used = 0, next = 0;
    bool any = false;
    must(spex_aux_open(file, queue, &cursor) == SPEX_OK);
    while (spex_aux_next(cursor, &span) == SPEX_OK) {
        must(span.size > 0);
        must(any || !span.contiguous);
        if (span.contiguous && item <= SPEX_AUX_KEEP_MAX)
            must(span.position == next);
        look(span.data, span.size);
        size_t use = span.last ? span.size : span.size / item * item;
        must(use || !span.last);
        used += use;
        next = span.position + use;
        any = true;
        if (!span.last)
            spex_aux_keep(cursor, span.size - use);
    }
    if (item <= SPEX_AUX_KEEP_MAX)
        must(used == spex_perfdata_queue(file, queue)->bytes);
    spex_aux_close(cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spex_perfdata *file;
    struct spex_error error;
    if (spex_perfdata_open_memory(data, size, &file, &error) != SPEX_OK) {
        must(error.text[0]);
        return 0;
    }
    const struct spex_perf_info *info = spex_perfdata_info(file);
    must(info->aux_bytes <= size && info->data_offset + info->data_size <= size);
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++) {
        const struct spex_perf_attr *attr = spex_perfdata_attr(file, i);
        char text[512];
        look(attr->ids, attr->id_count * 8);
        look(attr->name, strlen(attr->name));
        spex_perf_terms_text(attr->config, text, sizeof text);
    }
    for (unsigned i = 0; i < 256; i++) {
        const uint8_t *section;
        size_t length;
        if (spex_perfdata_feature(file, i, &section, &length))
            look(section, length);
    }
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++)
        must(spex_perfdata_problem(file, i)->text[0] && spex_perfdata_problem(file, i)->count);
    for (int32_t cpu = -1; cpu < 4; cpu++) {
        spex_perfdata_midr(file, cpu);
        spex_perfdata_node(file, cpu);
        for (unsigned bit = 0; bit < 64; bit++)
            spex_perfdata_memory_node(file, UINT64_C(1) << bit);
    }
    for (size_t i = 0; i < info->cmdline_count; i++)
        look(info->cmdline[i], strlen(info->cmdline[i]));
    events(file, size);
    for (size_t i = 0; i < spex_perfdata_queue_count(file); i++) {
        static const size_t items[] = {1, 7, 64, 5000, 40000};
        for (size_t j = 0; j < sizeof items / sizeof *items; j++)
            spans(file, i, items[j]);
    }
    spex_perfdata_rewind(file);
    events(file, size);
    spex_perfdata_close(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return mutate_perfdata(data, size, most, seed);
}
