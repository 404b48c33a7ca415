/*
 * Text profiles for optimizers: BOLT's pre-aggregated lines (perf2bolt -pa), llvm-profgen's
 * unsymbolized profile, and the input of AutoFDO's create_gcov --profiler=text.
 */
#include "flows.h"

/* ---- bolt ---- */

/* An address of the file; for any other file, BOLT need only know that it is another. */
static void put_location(const struct flows *f, const struct spex_module *module, uint64_t address)
{
    if (module != f->module)
        out_text(f->job->out, "X:");
    out_hex(f->job->out, address);
    out_char(f->job->out, ' ');
}

static enum spex_status end_bolt(struct export_job *job)
{
    struct flows *f = flows_finish(job);
    struct out *out = job->out;
    for (size_t i = 0; i < f->branch_count; i++) {
        const struct flow *b = &f->branches[i];
        if (!b->taken && f->run_count && !f->inferred)
            continue; /* inside runs, so counted already */
        out_text(out, "B ");
        put_location(f, b->module, b->from);
        put_location(f, b->to_module, b->to);
        out_u64(out, b->count);
        out_char(out, ' ');
        out_u64(out, b->mispredicts);
        out_char(out, '\n');
    }
    for (size_t i = 0; i < f->run_count; i++) {
        out_text(out, "F ");
        put_location(f, f->runs[i].module, f->runs[i].start);
        put_location(f, f->runs[i].module, f->runs[i].end);
        out_u64(out, f->runs[i].count);
        out_char(out, '\n');
    }
    flows_free(f);
    return SPEX_OK;
}

/* ---- profgen, autofdo ---- */

typedef uint64_t offset_of(const struct flows *flows, uint64_t address);

static void put_runs(const struct flows *f, const struct flow_run *runs, size_t count,
                     offset_of *offset, bool pairs)
{
    struct out *out = f->job->out;
    out_u64(out, count);
    out_char(out, '\n');
    for (size_t i = 0; i < count; i++) {
        out_hex(out, offset(f, runs[i].start));
        if (pairs) {
            out_char(out, '-');
            out_hex(out, offset(f, runs[i].end));
        }
        out_char(out, ':');
        out_u64(out, runs[i].count);
        out_char(out, '\n');
    }
}

/* Taken branches inside the file. */
static void put_branches(const struct flows *f, offset_of *offset)
{
    struct out *out = f->job->out;
    size_t count = 0;
    for (size_t i = 0; i < f->branch_count; i++)
        count += f->branches[i].taken && f->branches[i].to_module == f->module;
    out_u64(out, count);
    out_char(out, '\n');
    for (size_t i = 0; i < f->branch_count; i++) {
        const struct flow *b = &f->branches[i];
        if (!b->taken || b->to_module != f->module)
            continue;
        out_hex(out, offset(f, b->from));
        out_text(out, "->");
        out_hex(out, offset(f, b->to));
        out_char(out, ':');
        out_u64(out, b->count);
        out_char(out, '\n');
    }
}

/* Without runs each sampled instruction is one. */
static enum spex_status end_profgen(struct export_job *job)
{
    struct flows *f = flows_finish(job);
    if (f->run_count)
        put_runs(f, f->runs, f->run_count, flows_image_offset, true);
    else
        put_runs(f, f->places, f->place_count, flows_image_offset, true);
    put_branches(f, flows_image_offset);
    flows_free(f);
    return SPEX_OK;
}

static enum spex_status end_autofdo(struct export_job *job)
{
    struct flows *f = flows_finish(job);
    put_runs(f, f->runs, f->run_count, flows_file_offset, true);
    put_runs(f, f->places, f->run_count ? 0 : f->place_count, flows_file_offset, false);
    put_branches(f, flows_file_offset);
    flows_free(f);
    return SPEX_OK;
}

#define FLOW_WANT (SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_BRANCH)

const struct export_format export_bolt = {
    .name = "bolt",
    .summary = "branches of one file for perf2bolt -pa and llvm-bolt",
    .weight =
        "sampled branches and their mispredictions, and runs between them: from the previous "
        "branch "
        "target to a taken branch, else from an edge to the next branch of the code; then a branch "
        "that is not taken goes to PC+4",
    .cannot = "other operations, latencies, threads, other files",
    .want = FLOW_WANT,
    .begin = flows_begin,
    .sink = flows_sink,
    .end = end_bolt,
};
const struct export_format export_profgen = {
    .name = "profgen",
    .summary = "runs and branches of one file for llvm-profgen --unsymbolized-profile",
    .weight =
        "runs as bolt, or samples of each instruction where there are none; sampled taken branches",
    .cannot = "mispredictions, latencies, threads, other files",
    .want = FLOW_WANT,
    .begin = flows_begin,
    .sink = flows_sink,
    .end = end_profgen,
};
const struct export_format export_autofdo = {
    .name = "autofdo",
    .summary = "runs or addresses, and branches, of one file for create_gcov --profiler=text",
    .weight = "as profgen",
    .cannot = "mispredictions, latencies, threads, other files",
    .want = FLOW_WANT,
    .begin = flows_begin,
    .sink = flows_sink,
    .end = end_autofdo,
};
