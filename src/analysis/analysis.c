/* Runs a pass over all files of a profile, and answers questions about the result. */
#include "allocs.h"
#include "pass.h"
#include "replay.h"

#include "base/error.h"
#include "base/jobs.h"
#include "base/memory.h"
#include "base/sized.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void totals_add(struct spex_totals *sum, const struct spex_totals *t)
{
    uint64_t *const counts[] = {&sum->records,      &sum->kept,          &sum->timed,
                                &sum->with_context, &sum->with_source,   &sum->with_va,
                                &sum->with_pa,      &sum->saturated,     &sum->bytes,
                                &sum->damaged,      &sum->damaged_bytes, &sum->lost,
                                &sum->truncated,    &sum->collided,      &sum->spent,
                                &sum->away,         &sum->beside_loss,   &sum->unseen};
    const uint64_t more[] = {
        t->records,   t->kept,      t->timed, t->with_context, t->with_source,   t->with_va,
        t->with_pa,   t->saturated, t->bytes, t->damaged,      t->damaged_bytes, t->lost,
        t->truncated, t->collided,  t->spent, t->away,         t->beside_loss,   t->unseen};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        *counts[i] += more[i];
    for (size_t i = 0; i < SPEX_FILTER_MAX; i++)
        sum->rejected[i] += t->rejected[i];
    if (t->damaged && !sum->damage_reason) {
        sum->first_damage = t->first_damage;
        sum->damage_reason = t->damage_reason;
    }
    if (!t->last_time)
        return;
    if (!sum->last_time || t->first_time < sum->first_time)
        sum->first_time = t->first_time;
    if (t->last_time > sum->last_time)
        sum->last_time = t->last_time;
}

/* Sums the threads of all files by number: a thread that goes on in the next file counts once. */
static void sum_threads(struct spex_analysis *a)
{
    state_free(&a->thread_sums, true);
    a->thread_sums = (struct table){0};
    for (size_t p = 0; p < a->part_count; p++) {
        const struct table *threads = &a->parts[p]->lane.threads;
        for (size_t i = 0; threads->slots && i <= threads->mask; i++) {
            const struct thread *t = threads->slots[i].value;
            if (!t || !t->samples)
                continue;
            void **slot = state_slot(&a->thread_sums, (uint32_t)t->tid);
            struct thread *sum = *slot;
            if (!sum)
                *slot = sum = memory_get(1, sizeof *sum);
            uint64_t samples = sum->samples + t->samples;
            *sum = *t; /* its name is the last one */
            sum->samples = samples;
        }
    }
}

/* Lists the CPUs of all files; queues of threads are not combined. */
static void sum_cpus(struct spex_analysis *a)
{
    size_t count = 0;
    for (size_t p = 0; p < (a->part_count ? a->part_count : 1); p++)
        count += (a->part_count ? a->parts[p] : a)->queue_count;
    memory_free(a->cpu_sums);
    a->cpu_sums = NULL;
    a->cpu_sum_count = 0;
    a->cpu_sums = memory_get(count + 1, sizeof *a->cpu_sums);
    for (size_t p = 0; p < (a->part_count ? a->part_count : 1); p++) {
        const struct spex_analysis *part = a->part_count ? a->parts[p] : a;
        for (size_t i = 0; i < part->queue_count; i++) {
            const struct queue *q = &part->queues[i];
            size_t n = p && q->cpu >= 0 ? 0 : a->cpu_sum_count;
            while (n < a->cpu_sum_count && a->cpu_sums[n].cpu != q->cpu)
                n++;
            if (n == a->cpu_sum_count)
                a->cpu_sums[a->cpu_sum_count++] = (struct cpu_sum){q->cpu, 0};
            a->cpu_sums[n].samples += q->samples;
        }
    }
}

/* Reads one file after the other. */
static enum spex_status run_parts(struct spex_analysis *a, const struct spex_sink *sinks,
                                  size_t count, struct shards *shards, struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    struct spex_totals sum = {0};
    for (size_t i = 0; i < a->part_count && !status && !a->enough && !a->cancelled; i++) {
        struct spex_analysis *part = a->parts[i];
        if (part == a)
            a->totals = a->own;
        a->reading = part;
        status = merge_file(part, sinks, count, shards, error);
        if (part == a)
            a->own = a->totals;
        totals_add(&sum, &part->totals);
    }
    a->reading = NULL;
    a->totals = sum;
    sum_threads(a);
    return status;
}

/* Replays the code of a file, before the first pass that asks for time. */
static void need_replay(struct spex_analysis *a)
{
    if (a->replayed || !(a->options.want & SPEX_WANT_SPENT) || a->only)
        return;
    a->replayed = true;
    a->replay = replay_make(a);
}

static enum spex_status run_pass(struct spex_analysis *a, const struct spex_sink *sinks,
                                 size_t count, struct shards *shards, struct spex_error *error)
{
    struct spex_module *module;
    bool again = a->only && a->counted;
    a->no_memory = a->too_many = a->inexact = a->crowded = false;
    a->failure = SPEX_OK;
    for (size_t i = 0; i < (a->part_count ? a->part_count : 1); i++)
        need_replay(a->part_count ? a->parts[i] : a);
    for (size_t i = 0; !again && (module = spex_symbols_nth(a->symbols, i)); i++)
        module->samples = module->left_out = module->unnamed = 0;
    a->enough = false;
    enum spex_status status = a->part_count ? run_parts(a, sinks, count, shards, error)
                                            : merge_file(a, sinks, count, shards, error);
    sum_cpus(a);
    return status;
}

/*
 * Lets several threads count, each its own part. Each has rows of its own for what many of them
 * see: if that was too much, a quarter of the threads try again. If it is not possible or was not
 * exact, one thread reads everything.
 */
static enum spex_status run_passes(struct spex_analysis *a, const struct spex_sink *sinks,
                                   size_t count, struct spex_error *error)
{
    unsigned threads = JOBS_THREADS;
    while ((a->shards = shards_new(a, sinks, count, threads))) {
        threads = a->shards->count / 4;
        enum spex_status status = run_pass(a, sinks, count, a->shards, error);
        bool exact = shards_add_up(a->shards, a);
        shards_free(a->shards);
        a->shards = NULL;
        if (exact || a->failure)
            return status;
        threads = a->crowded ? threads : 1;
        if (a->intervals)
            memset(a->intervals->ns, 0, a->intervals->count * sizeof *a->intervals->ns);
    }
    return run_pass(a, sinks, count, NULL, error);
}

static enum spex_status sink_failed(const struct spex_analysis *a, enum spex_status status,
                                    struct spex_error *error)
{
    return error_set(error, status, 0, "%s: the sink of its samples failed: %s", a->name,
                     spex_status_name(status));
}

enum spex_status spex_analysis_pass(struct spex_analysis *a, const struct spex_sink *sinks,
                                    size_t count, struct spex_error *error)
{
    assert(a && count <= SPEX_SINKS_MAX && (sinks || !count));
    volatile enum spex_status status = SPEX_NO_MEMORY;
    MEMORY_OF(a->account);
    bool done = memory_guarded(a->account, status = run_passes(a, sinks, count, error));
    shards_free(a->shards); /* out of memory, some may be left */
    a->shards = NULL;
    if (!done || a->no_memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "%s: not enough memory to read it", a->name);
    if (atomic_exchange(&a->cancelled, false))
        return error_set(error, SPEX_CANCELLED, 0, "%s: cancelled", a->name);
    if (a->too_many && !status)
        return error_set(
            error, SPEX_RANGE, 0,
            "%s: more samples than a table can count (4,294,967,295): choose a part of "
            "them, by time for example",
            a->name);
    if (a->failure && !status)
        return sink_failed(a, a->failure, error);
    return status;
}

enum spex_status spex_analysis_run(struct spex_analysis *a, spex_sample_sink *sink, void *context,
                                   struct spex_error *error)
{
    assert(a);
    const struct spex_sink one = {.call = sink, .context = context};
    return spex_analysis_pass(a, &one, sink != NULL, error);
}

/* A sink that can fail, and its status. */
struct taker {
    struct spex_analysis *analysis;
    spex_sample_taker *take;
    void *context;
    enum spex_status status;
};

static void take(void *context, const struct spex_sample *samples, size_t count)
{
    struct taker *t = context;
    if (t->status == SPEX_OK && !t->analysis->cancelled)
        t->status = t->take(t->context, samples, count);
    if (t->status != SPEX_OK)
        spex_analysis_stop(t->analysis);
}

enum spex_status spex_analysis_each(struct spex_analysis *a, spex_sample_taker *sink, void *context,
                                    struct spex_error *error)
{
    assert(a && sink);
    struct taker t = {.analysis = a, .take = sink, .context = context};
    enum spex_status status = spex_analysis_run(a, take, &t, error);
    if (status != SPEX_OK || t.status == SPEX_OK || t.status == SPEX_END)
        return status;
    return sink_failed(a, t.status, error);
}

void spex_analysis_cancel(struct spex_analysis *a)
{
    assert(a);
    a->cancelled = true;
}

unsigned spex_sample_alike(const struct spex_sample *sample)
{
    assert(sample);
    return sample_alike(sample);
}

static _Thread_local unsigned held; /* how often this thread has taken the lock */

unsigned spex_analysis_together(struct spex_analysis *a, bool on)
{
    assert(a);
    const unsigned threads = analysis_first(a)->options.threads;
    if (threads > 1)
        analysis_first(a)->together += on ? 1 : -1u;
    return threads ? threads : 1;
}

unsigned analysis_lock(struct spex_analysis *a)
{
    struct spex_analysis *first = analysis_first(a);
    const unsigned before = held;
    if (first->together && !held++)
        pthread_mutex_lock(&first->lock);
    return before;
}

void analysis_unlock(struct spex_analysis *a)
{
    if (held && !--held)
        pthread_mutex_unlock(&analysis_first(a)->lock);
}

void analysis_unlock_to(struct spex_analysis *a, unsigned before)
{
    while (held > before)
        analysis_unlock(a);
}

void analysis_no_memory(struct spex_analysis *a)
{
    if (a) {
        analysis_unlock_to(a, 0);
        a->no_memory = true;
        spex_analysis_stop(a);
    }
}

void analysis_too_many(struct spex_analysis *a)
{
    if (a) {
        a->too_many = true;
        spex_analysis_stop(a);
    }
}

void spex_analysis_fail(struct spex_analysis *a, enum spex_status status)
{
    assert(a && status != SPEX_OK);
    if (status == SPEX_NO_MEMORY) {
        analysis_no_memory(a);
    } else {
        a->failure = (int)status;
        spex_analysis_stop(a);
    }
}

void spex_analysis_stop(struct spex_analysis *analysis)
{
    assert(analysis);
    analysis->enough = true;
    analysis_reading(analysis)->stopped = true;
}

void analysis_narrow(struct spex_analysis *a, unsigned want, const struct line_set *lines)
{
    a->options.want = want;
    a->only = lines;
    for (size_t i = 0; i < a->part_count; i++) {
        a->parts[i]->options.want = want;
        a->parts[i]->only = lines;
    }
}

void spex_analysis_want(struct spex_analysis *a, unsigned want)
{
    assert(a && !a->pull);
    analysis_narrow(a, want ? want : ~0u, NULL);
}

/* ---- asking ---- */

struct memory *analysis_account(const struct spex_analysis *a)
{
    return a->account;
}

const char *spex_analysis_comm(const struct spex_analysis *a, int32_t pid)
{
    assert(a);
    const struct table *threads = a->part_count ? &a->thread_sums : &a->lane.threads;
    const struct thread *best = state_find(threads, (uint32_t)pid);
    if (best && best->samples && best->latest.pid == pid && best->latest.comm)
        return best->latest.comm;
    best = NULL;
    for (size_t i = 0; threads->slots && i <= threads->mask; i++) {
        const struct thread *t = threads->slots[i].value;
        if (t && t->samples && t->latest.pid == pid && t->latest.comm &&
            (!best || t->tid == pid || (best->tid != pid && t->tid < best->tid)))
            best = t;
    }
    return best ? best->latest.comm : "?";
}

size_t spex_analysis_threads(const struct spex_analysis *a)
{
    assert(a);
    const struct table *threads = a->part_count ? &a->thread_sums : &a->lane.threads;
    size_t count = 0;
    for (size_t i = 0; threads->slots && i <= threads->mask; i++) {
        const struct thread *t = threads->slots[i].value;
        count += t && t->samples;
    }
    return count;
}

/* The index-th largest, by selection: callers ask for few, and there are few. */
bool spex_analysis_thread(const struct spex_analysis *a, size_t index,
                          struct spex_thread_total *total)
{
    assert(a);
    const struct table *threads = a->part_count ? &a->thread_sums : &a->lane.threads;
    const struct thread *last = NULL;
    for (size_t n = 0; n <= index; n++) {
        const struct thread *best = NULL;
        for (size_t i = 0; threads->slots && i <= threads->mask; i++) {
            const struct thread *t = threads->slots[i].value;
            if (!t || !t->samples ||
                (last && (t->samples > last->samples ||
                          (t->samples == last->samples && t->tid <= last->tid))))
                continue;
            if (!best || t->samples > best->samples ||
                (t->samples == best->samples && t->tid < best->tid))
                best = t;
        }
        if (!best)
            return false;
        last = best;
    }
    *total = (struct spex_thread_total){last->latest.comm, last->latest.pid, last->tid,
                                        last->samples, 0};
    return true;
}

bool spex_analysis_cpu(const struct spex_analysis *a, size_t index, struct spex_cpu_total *total)
{
    assert(a);
    const struct cpu_sum *last = NULL;
    for (size_t n = 0; n <= index; n++) {
        const struct cpu_sum *best = NULL;
        for (size_t i = 0; i < a->cpu_sum_count; i++) {
            const struct cpu_sum *c = &a->cpu_sums[i];
            if (!c->samples || (last && (c->samples > last->samples ||
                                         (c->samples == last->samples && c <= last))))
                continue;
            if (!best || c->samples > best->samples)
                best = c;
        }
        if (!best)
            return false;
        last = best;
    }
    *total = (struct spex_cpu_total){last->cpu, last->samples, 0};
    return true;
}

bool spex_analysis_part(const struct spex_analysis *a, size_t index, struct spex_part *part)
{
    assert(a && part);
    if (index >= (a->part_count ? a->part_count : 1))
        return false;
    const struct spex_analysis *p = a->part_count ? a->parts[index] : a;
    *part = (struct spex_part){p->name, a->part_count && p == a ? &a->own : &p->totals, p->file, 0};
    return true;
}

uint32_t analysis_order_of(struct spex_analysis *a, const struct spex_sample *s)
{
    const struct spex_analysis *reading = analysis_reading(a);
    return analysis_order ? analysis_order : stretch_order(reading, &reading->queues[s->queue]);
}

void spex_analysis_extent(const struct spex_analysis *a, uint64_t *first, uint64_t *last)
{
    assert(a && first && last);
    *first = *last = 0;
    for (size_t i = 0; i < (a->part_count ? a->part_count : 1); i++) {
        const struct spex_perf_info *info = (a->part_count ? a->parts[i] : a)->info;
        if (!info || !info->last_time)
            continue;
        if (!*last || info->first_time < *first)
            *first = info->first_time;
        if (info->last_time > *last)
            *last = info->last_time;
    }
}

void spex_analysis_count_time(struct spex_analysis *a, struct spex_time_bins *bins)
{
    assert(a && (!bins || bins->ns || !bins->count));
    analysis_first(a)->intervals = bins;
}

const struct spex_totals *spex_analysis_totals(const struct spex_analysis *a)
{
    assert(a);
    return &a->totals;
}

unsigned spex_analysis_saturated(const struct spex_analysis *a, const struct spex_record *r)
{
    assert(a);
    unsigned most = a->sampling.counter_most;
    return r->present &
           ((r->total == most ? SPEX_HAS_TOTAL : 0u) | (r->issue == most ? SPEX_HAS_ISSUE : 0u) |
            (r->translation == most ? SPEX_HAS_TRANSLATION : 0u) |
            (r->alt_issue == most ? SPEX_HAS_ALT_ISSUE : 0u));
}

const struct spex_sampling *spex_analysis_sampling(const struct spex_analysis *a)
{
    assert(a);
    return &a->sampling;
}

const char *spex_trust_name(enum spex_trust trust)
{
    static const char *const names[] = {"none", "poor", "fair", "good"};
    return (unsigned)trust < sizeof names / sizeof *names ? names[trust] : NULL;
}

/* docs/time.md has the figures behind the limits. */
static enum spex_trust trust_in(const struct spex_replay *r)
{
    static const double good = 0.3, fair = 0.6, most = 0.5, slowest = 0.2, fastest = 6;
    if (r->share <= 0)
        return SPEX_TRUST_NONE;
    if (r->misfit > fair || r->share < most ||
        (r->clock > 0 && (r->clock < slowest || r->clock > fastest)))
        return SPEX_TRUST_POOR;
    return r->misfit > good || r->chosen ? SPEX_TRUST_FAIR : SPEX_TRUST_GOOD;
}

/* Standard deviations, of rows of programs: docs/time.md. */
static double off_by_weights(const struct spex_replay *r)
{
    static const double unknown = 0.35, least = 0.2, most = 0.5;
    const double known = least + r->misfit / 4;
    return r->share * (known < most ? known : most) + (1 - r->share) * unknown;
}

void spex_analysis_replay(const struct spex_analysis *a, struct spex_replay *out)
{
    assert(a);
    struct spex_replay sum = {.size = sizeof sum};
    struct spex_part part;
    double samples = 0, replayed = 0, cycles = 0, off = 0;
    for (size_t i = 0; spex_analysis_part(a, i, &part); i++) {
        const struct replay *r = (a->part_count ? a->parts[i] : a)->replay;
        const double count = (double)part.totals->records;
        const double known =
            r && r->fits && r->samples ? count * (double)r->replayed / (double)r->samples : 0;
        samples += count;
        if (r && !r->fits && replayed <= 0)
            sum.misfit = r->misfit;
        if (known <= 0)
            continue;
        sum.core = r->core;
        sum.chosen = r->chosen;
        sum.unfit = r->unfit;
        sum.unfit_misfit = r->unfit_misfit;
        replayed += known;
        cycles += r->cycles * known;
        off += r->misfit * known;
    }
    if (replayed > 0) {
        const double spent = (double)a->totals.spent, records = (double)a->totals.records;
        const double operations = records * (double)a->sampling.period;
        sum.share = replayed / samples;
        sum.cycles = cycles / replayed;
        sum.misfit = off / replayed;
        sum.clock =
            spent > 0 && !spex_analysis_no_estimate(a) ? sum.cycles * operations / spent : 0;
    }
    sum.weights_off = off_by_weights(&sum);
    sum.trust = trust_in(&sum);
    sized_give(out, &sum);
}

double weights_off(const struct spex_analysis *a)
{
    struct spex_replay r = {.size = sizeof r};
    if (!a)
        return off_by_weights(&r);
    spex_analysis_replay(a, &r);
    return r.weights_off;
}

struct spex_symbols *spex_analysis_symbols(struct spex_analysis *a)
{
    assert(a);
    return a->symbols;
}

/* The stacks of the first file that has some. */
static const struct stacks *any_stacks(const struct spex_analysis *a)
{
    const struct stacks *s = a->stacks;
    for (size_t i = 0; !s && i < a->part_count; i++)
        s = a->parts[i]->stacks;
    return s;
}

enum spex_stacks spex_analysis_stacks(const struct spex_analysis *a)
{
    assert(a);
    return stacks_kind(any_stacks(a));
}

const char *spex_analysis_stacks_event(const struct spex_analysis *a)
{
    assert(a);
    return stacks_event(any_stacks(a));
}

uint32_t spex_sample_stack(struct spex_analysis *whole, const struct spex_sample *s)
{
    assert(whole && s);
    const struct spex_analysis *a = analysis_reading(whole);
    const struct queue *q = &a->queues[s->queue];
    if (!a->stack_numbers)
        return 0;
    if (stacks_kind(a->stacks) == SPEX_STACKS_COMPANION)
        return stacks_guess(a->stacks, s);
    return q->stacks[s->record - q->records];
}

const struct spex_call *spex_analysis_call(const struct spex_analysis *a, uint32_t n)
{
    assert(a);
    return stacks_call(a->calls, n);
}

size_t spex_analysis_calls(const struct spex_analysis *a)
{
    assert(a);
    return stacks_count(a->calls);
}

uint32_t spex_sample_block(struct spex_analysis *whole, const struct spex_sample *s)
{
    assert(whole && s);
    const struct spex_analysis *a = analysis_reading(whole);
    const struct queue *q = &a->queues[s->queue];
    return a->alloc_numbers ? q->allocs[s->record - q->records] : 0;
}

const struct spex_block *spex_analysis_block(const struct spex_analysis *a, uint32_t n)
{
    assert(a);
    return allocs_block(a->blocks, n);
}

const struct spex_site *spex_analysis_site(const struct spex_analysis *a, uint32_t n)
{
    assert(a);
    return allocs_site(a->blocks, n);
}

const struct spex_perfdata *spex_analysis_file(const struct spex_analysis *a)
{
    assert(a);
    return a->file;
}

const char *spex_analysis_no_estimate(const struct spex_analysis *a)
{
    assert(a);
    if (a->mixed)
        return "the files were sampled with different periods";
    if (!a->sampling.period)
        return "the sampling period is not known";
    if (a->totals.truncated || a->totals.lost)
        return "samples were lost: buffers were truncated";
    if (a->totals.collided)
        return "samples collided: an unknown number is missing";
    if (a->totals.damaged)
        return "parts of the data are damaged";
    return NULL;
}
