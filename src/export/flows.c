#include "flows.h"

#include "base/bits.h"
#include "base/memory.h"
#include "base/name.h"
#include "base/order.h"

#include <stdlib.h>

enum { INSTRUCTION = 4, RUN_MOST = 1 << 20 };

void flows_begin(struct export_job *job)
{
    struct flows *f = job->state = memory_get(1, sizeof *f);
    f->job = job;
}

static void add_branch(struct flows *f, const struct spex_sample *s, bool taken)
{
    uint64_t key[IDS_WORDS] = {(uintptr_t)s->module, s->address,
                               taken ? s->target : s->pc + INSTRUCTION,
                               (uint64_t)taken << 32 | s->maps[0]};
    bool fresh;
    uint32_t n = ids_find_again(&f->branch_ids, &f->last[s->place].branch, key, &fresh);
    if (fresh) {
        struct spex_place to = {.module = s->module, .address = s->address + INSTRUCTION};
        if (taken)
            spex_sample_locate(f->job->analysis, s, s->target, &to);
        f->branches =
            memory_grow(f->branches, f->branch_count, &f->branch_capacity, sizeof *f->branches);
        f->branches[f->branch_count++] = (struct flow){.module = s->module,
                                                       .from = s->address,
                                                       .to_module = to.module,
                                                       .to = to.address,
                                                       .taken = taken};
    }
    f->branches[n].count++;
    f->branches[n].mispredicts += s->record->events >> SPEX_EV_MISPREDICT & 1;
}

static struct flow_run *new_run(struct flow_run **runs, size_t *count, size_t *capacity)
{
    *runs = memory_grow(*runs, *count, capacity, sizeof **runs);
    (*runs)[*count] = (struct flow_run){0};
    return &(*runs)[(*count)++];
}

static void add_place(struct flows *f, const struct spex_sample *s)
{
    uint64_t key[IDS_WORDS] = {(uintptr_t)s->module, s->address, 0, 1};
    bool fresh;
    uint32_t n = ids_find_again(&f->place_ids, &f->last[s->place].place, key, &fresh);
    if (fresh)
        *new_run(&f->places, &f->place_count, &f->place_capacity) =
            (struct flow_run){.module = s->module, .start = s->address, .end = s->address};
    f->places[n].count++;
}

/* Counts the run from the previous branch target, which is looked up once for each mapping. */
static void add_run(struct flows *f, const struct spex_sample *s)
{
    uint64_t key[IDS_WORDS] = {(uintptr_t)s->module, s->address, s->prev_target,
                               UINT64_C(1) << 32 | s->maps[0]};
    bool fresh;
    uint32_t n = ids_find_again(&f->run_ids, &f->last[s->place].run, key, &fresh);
    if (fresh) {
        struct spex_place start;
        spex_sample_locate(f->job->analysis, s, s->prev_target, &start);
        struct flow_run *run = new_run(&f->runs, &f->run_count, &f->run_capacity);
        if (start.module == s->module && start.address <= s->address &&
            s->address - start.address <= RUN_MOST)
            *run =
                (struct flow_run){.module = s->module, .start = start.address, .end = s->address};
    }
    f->runs[n].count++;
}

void flows_sink(void *job, const struct spex_sample *samples, size_t count)
{
    struct flows *f = ((struct export_job *)job)->state;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        const struct spex_record *r = s->record;
        if (!s->module || !(r->present & SPEX_HAS_PC))
            continue;
        add_place(f, s);
        if (s->op != SPEX_SAMPLE_BRANCH)
            continue;
        bool taken = !(r->events >> SPEX_EV_NOT_TAKEN & 1);
        if (taken && !(r->present & SPEX_HAS_TARGET)) {
            f->no_target++;
            continue;
        }
        add_branch(f, s, taken);
        if (taken && r->present & SPEX_HAS_PREV_TARGET)
            add_run(f, s);
    }
}

/* ---- after the pass ---- */

static void choose_module(struct flows *f)
{
    struct ids modules = {0};
    size_t count = f->branch_count ? f->branch_count : f->place_count;
    uint64_t *sums = memory_get(count + 1, sizeof *sums), most = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_module *m = f->branch_count ? f->branches[i].module : f->places[i].module;
        uint64_t key[IDS_WORDS] = {(uintptr_t)m, 1}, n;
        n = f->branch_count ? f->branches[i].count : f->places[i].count;
        bool fresh;
        sums[ids_find(&modules, key, &fresh)] += n;
        all += n;
    }
    for (size_t i = 0; i < modules.count; i++) {
        struct spex_module *m = (struct spex_module *)(uintptr_t)modules.keys[i][0];
        if (spex_module_kind(m) == SPEX_MODULE_FILE && sums[i] > most) {
            most = sums[i];
            f->module = m;
        }
    }
    ids_free(&modules);
    free(sums);
    if (f->module && most < all) {
        out_printf(&f->job->notes, "%.1f%% of %s are in other files than ",
                   100.0 * (double)(all - most) / (double)all,
                   f->branch_count ? "branches" : "samples");
        out_name(&f->job->notes, spex_module_path(f->module));
        out_text(&f->job->notes, "; --dso NAME writes those of another\n");
    }
}

/* Whether this A64 instruction ends a run: a branch, or an exception. */
static bool ends_run(uint32_t word)
{
    static const struct {
        uint32_t mask, value;
    } rows[] = {
        {0x7c000000, 0x14000000}, /* B, BL */
        {0xff000000, 0x54000000}, /* B.cond, BC.cond */
        {0x7e000000, 0x34000000}, /* CBZ, CBNZ */
        {0x7e000000, 0x36000000}, /* TBZ, TBNZ */
        {0xfe000000, 0x74000000}, /* compare and branch */
        {0xfe000000, 0xd6000000}, /* BR, BLR, RET and their kin */
        {0xff000000, 0xd4000000}, /* SVC, BRK, ... */
        {0xffff0000, 0x00000000}, /* UDF */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((word & rows[i].mask) == rows[i].value)
            return true;
    return false;
}

/* The first instruction from address on that ends a run; false if the code is not available. */
static bool run_end(struct spex_module *module, uint64_t address, uint64_t *end)
{
    enum { WORDS = 64, MOST = 64 };
    uint8_t code[INSTRUCTION * WORDS];
    for (unsigned part = 0; part < MOST; part++) {
        size_t n = spex_module_read(module, address, code, sizeof code) / INSTRUCTION;
        for (size_t i = 0; i < n; i++)
            if (ends_run(le32(code + INSTRUCTION * i))) {
                *end = address + INSTRUCTION * i;
                return true;
            }
        if (n < WORDS)
            return false;
        address += sizeof code;
    }
    return false;
}

/* After each edge the code goes straight on up to the next branch. */
static void infer_runs(struct flows *f)
{
    for (size_t i = 0; i < f->branch_count; i++) {
        const struct flow *b = &f->branches[i];
        struct flow_run run = {.module = f->module, .start = b->to};
        if (b->to_module != f->module || !run_end(f->module, b->to, &run.end))
            continue;
        run.count = b->count;
        *new_run(&f->runs, &f->run_count, &f->run_capacity) = run;
    }
    f->inferred = f->run_count > 0;
}

static int by_address(const void *a, const void *b)
{
    const struct flow *x = a, *y = b;
    return x->from != y->from     ? ORDER(x->from, y->from)
           : x->taken != y->taken ? ORDER(x->taken, y->taken)
                                  : ORDER(x->to, y->to);
}

static int by_start(const void *a, const void *b)
{
    const struct flow_run *x = a, *y = b;
    return x->start != y->start ? ORDER(x->start, y->start) : ORDER(x->end, y->end);
}

/* Keeps only runs in the file, and merges equal runs of several processes. */
static void sort_runs(const struct flows *f, struct flow_run *runs, size_t *count)
{
    size_t n = 0, m = 0;
    for (size_t i = 0; i < *count; i++)
        if (runs[i].module && runs[i].module == f->module)
            runs[n++] = runs[i];
    if (n)
        qsort(runs, n, sizeof *runs, by_start);
    for (size_t i = 0; i < n; i++) {
        if (m && !by_start(&runs[m - 1], &runs[i]))
            runs[m - 1].count += runs[i].count;
        else
            runs[m++] = runs[i];
    }
    *count = m;
}

static void sort_branches(struct flows *f)
{
    size_t n = 0, m = 0;
    for (size_t i = 0; i < f->branch_count; i++)
        if (f->branches[i].module == f->module)
            f->branches[n++] = f->branches[i];
    if (n)
        qsort(f->branches, n, sizeof *f->branches, by_address);
    for (size_t i = 0; i < n; i++) {
        struct flow *b = &f->branches[i], *last = m ? &f->branches[m - 1] : NULL;
        if (last && last->from == b->from && last->to == b->to && last->taken == b->taken &&
            last->to_module == b->to_module) {
            last->count += b->count;
            last->mispredicts += b->mispredicts;
        } else {
            f->branches[m++] = *b;
        }
    }
    f->branch_count = m;
}

struct flows *flows_finish(struct export_job *job)
{
    struct flows *f = job->state;
    struct out *notes = &job->notes;
    choose_module(f);
    sort_branches(f);
    uint64_t crooked = 0;
    bool sampled = false;
    for (size_t i = 0; i < f->run_count; i++) {
        crooked += f->runs[i].module ? 0 : f->runs[i].count;
        sampled |= f->runs[i].module != NULL;
    }
    if (!sampled && f->module)
        infer_runs(f);
    sort_runs(f, f->runs, &f->run_count);
    sort_runs(f, f->places, &f->place_count);
    if (!f->module && spex_analysis_totals(job->analysis)->kept)
        out_text(notes, "no sample is in a file: there is nothing to write\n");
    if (f->no_target)
        out_printf(notes, "%llu taken branches do not say where they went: left out\n",
                   (unsigned long long)f->no_target);
    if (f->branch_count && !sampled)
        out_printf(notes, "records have no previous branch target: fall-throughs are %s\n",
                   f->inferred ? "those that the code proves, from an edge to the next branch"
                               : "missing, as the code was not found");
    if (crooked)
        out_printf(notes, "%llu runs from the previous branch target end elsewhere: left out\n",
                   (unsigned long long)crooked);
    return f;
}

void flows_free(struct flows *f)
{
    ids_free(&f->branch_ids);
    ids_free(&f->run_ids);
    ids_free(&f->place_ids);
    free(f->branches);
    free(f->runs);
    free(f->places);
    free(f);
}

uint64_t flows_image_offset(const struct flows *f, uint64_t address)
{
    struct spex_segment s;
    uint64_t base = spex_module_segment(f->module, 0, &s) ? s.address : 0;
    for (size_t i = 1; spex_module_segment(f->module, i, &s); i++)
        if (s.address < base)
            base = s.address;
    return address - (base & ~UINT64_C(4095));
}

uint64_t flows_file_offset(const struct flows *f, uint64_t address)
{
    struct spex_segment s;
    for (size_t i = 0; spex_module_segment(f->module, i, &s); i++)
        if (address >= s.address && address - s.address < s.file_size)
            return address - s.address + s.offset;
    return address;
}
