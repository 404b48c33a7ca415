/*
 * Branch stacks in the format of `perf script --show-mmap-events -F ip,brstack`: the mappings of
 * executable code, then one line per sampled taken branch: the branch itself and, if the record has
 * it, the target of the branch before. Between that target and the branch, execution was straight.
 */
#include "export/export.h"

#include "base/memory.h"
#include "base/name.h"

#include <stdlib.h>

#include <sys/mman.h>

/* A mapping as perf prints it; readers take the one of their file for its load address. */
static void put_map(struct out *out, const struct spex_perf_map *m)
{
    out_printf(out,
               "PERF_RECORD_MMAP2 %d/%d: [0x%llx(0x%llx) @ 0x%llx %02x:%02x %llu %llu]: ", m->pid,
               m->tid, (unsigned long long)m->start, (unsigned long long)(m->end - m->start),
               (unsigned long long)m->pgoff, m->maj, m->min, (unsigned long long)m->ino,
               (unsigned long long)m->ino_generation);
    out_char(out, m->prot & PROT_READ || !m->prot ? 'r' : '-');
    out_char(out, m->prot & PROT_WRITE ? 'w' : '-');
    out_char(out, 'x');
    out_char(out, m->flags & MAP_SHARED ? 's' : 'p');
    out_char(out, ' ');
    out_name(out, m->filename);
    out_char(out, '\n');
}

struct brstack {
    uint64_t branches, with_previous;
};

static void begin(struct export_job *job)
{
    job->state = memory_get(1, sizeof(struct brstack));
    const struct spex_perfdata *file = spex_analysis_file(job->analysis);
    for (size_t i = 0; file && i < spex_perfdata_map_count(file); i++) {
        const struct spex_perf_map *m = spex_perfdata_map_at(file, i);
        if (!m->data && (!m->prot || m->prot & PROT_EXEC))
            put_map(job->out, m);
    }
}

static void put_entry(struct out *out, uint64_t from, uint64_t to, char predicted, uint64_t cycles)
{
    out_text(out, " 0x");
    out_hex(out, from);
    out_text(out, "/0x");
    out_hex(out, to);
    out_char(out, '/');
    out_char(out, predicted);
    out_text(out, "/-/-/");
    out_u64(out, cycles);
    out_char(out, ' ');
}

static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct export_job *job = context;
    struct brstack *b = job->state;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        const struct spex_record *r = s->record;
        if (s->op != SPEX_SAMPLE_BRANCH || r->events >> SPEX_EV_NOT_TAKEN & 1 ||
            !(r->present & SPEX_HAS_PC) || !(r->present & SPEX_HAS_TARGET))
            continue;
        out_hex(job->out, s->pc);
        put_entry(job->out, s->pc, s->target, r->events >> SPEX_EV_MISPREDICT & 1 ? 'M' : 'P',
                  r->present & SPEX_HAS_TOTAL ? r->total : 0);
        if (r->present & SPEX_HAS_PREV_TARGET) {
            put_entry(job->out, 0, s->prev_target, '-', 0);
            b->with_previous++;
        }
        b->branches++;
        out_char(job->out, '\n');
    }
}

static enum spex_status end(struct export_job *job)
{
    struct brstack *b = job->state;
    if (b->branches && !b->with_previous)
        out_text(&job->notes, "records have no previous branch target: no line says where code ran "
                              "straight on; bolt and profgen take that from the code\n");
    free(b);
    return SPEX_OK;
}

const struct export_format export_brstack = {
    .name = "brstack",
    .summary = "branches as perf script -F ip,brstack prints them, for llvm-profgen --perfscript",
    .weight = "a line for each sampled taken branch: itself, and the previous branch target",
    .cannot = "branches that are not taken, other operations, threads; where the second and "
              "further files were mapped",
    .want = SPEX_WANT_BASE | SPEX_WANT_BRANCH,
    .begin = begin,
    .sink = sink,
    .end = end,
};
