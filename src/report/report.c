#include "report/internal.h"
#include "report/sources.h"

#include <spex/findings.h>
#include <spex/stacks.h>
#include "base/jobs.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { HOT_LINES = 25, LINES_MOST = 4096 };

static const struct {
    enum spex_key keys[CUBE_KEYS];
    size_t key_count;
    unsigned flags;
    enum spex_order order;
    size_t keep; /* the most rows that can be shown */
} sets[SETS] = {
    [FUNCTIONS] = {{SPEX_KEY_SYMBOL, SPEX_KEY_DSO},
                   2,
                   SPEX_GROUP_PERCENTILES,
                   SPEX_BY_SAMPLES,
                   FUNCTIONS_MOST},
    [CODE] = {{SPEX_KEY_PC, SPEX_KEY_SYMBOL, SPEX_KEY_DSO},
              3,
              SPEX_GROUP_PERCENTILES | SPEX_GROUP_REPEAT_FUNCTIONS,
              SPEX_BY_MISPREDICTS,
              SIZE_MAX},
    [SOURCES] = {{SPEX_KEY_SOURCE}, 1, SPEX_GROUP_PERCENTILES, SPEX_BY_LATENCY, ROWS_MOST},
    [THREADS] = {{SPEX_KEY_PID, SPEX_KEY_TID, SPEX_KEY_COMM}, 3, 0, SPEX_BY_SAMPLES, ROWS_MOST},
    [CPUS] = {{SPEX_KEY_CPU}, 1, 0, SPEX_BY_SAMPLES, ROWS_MOST},
    [DATA] = {{SPEX_KEY_DATA_SYMBOL}, 1, SPEX_GROUP_PERCENTILES, SPEX_BY_LATENCY, ROWS_MOST},
    [LINES] = {{SPEX_KEY_CACHE_LINE}, 1, 0, SPEX_BY_LATENCY, HOT_LINES},
    [PAGES] = {{SPEX_KEY_PAGE}, 1, 0, SPEX_BY_LATENCY, HOT_LINES},
    [TARGETS] = {{SPEX_KEY_PC, SPEX_KEY_SYMBOL, SPEX_KEY_TARGET}, 3, 0, SPEX_BY_SAMPLES, ROWS_MOST},
    [STACKS] = {{SPEX_KEY_STACK, SPEX_KEY_SYMBOL}, 2, 0, SPEX_BY_SAMPLES, SIZE_MAX},
};

/*
 * The groups that take samples: counting a sample once and adding up rows at the end costs less
 * than counting it in every cube.
 */
static const struct {
    enum spex_key keys[SPEX_KEYS_MAX];
    size_t key_count;
    unsigned flags;
    enum set cubes[2];
} feeds[FEEDS] = {
    [RUNNING] = {{SPEX_KEY_PID, SPEX_KEY_TID, SPEX_KEY_COMM, SPEX_KEY_CPU, SPEX_KEY_TIME_BIN},
                 5,
                 0,
                 {THREADS, CPUS}},
    [ACCESSES] = {{SPEX_KEY_SOURCE, SPEX_KEY_DATA_SYMBOL, SPEX_KEY_TIME_BIN},
                  3,
                  SPEX_GROUP_PERCENTILES,
                  {SOURCES, DATA}},
};

/* ---- gathering ---- */

typedef bool keep_sample(const struct report *r, const struct spex_sample *s);

/* Passes the samples to keep to these groups. Inlined because keep is called for each sample. */
static inline __attribute__((always_inline)) void feed_kept(const struct report *r,
                                                            const struct spex_sample *samples,
                                                            size_t count, keep_sample *keep,
                                                            const struct spex_feed *feed)
{
    const struct spex_sample *list[SPEX_RECORD_BATCH];
    for (size_t i = 0; i < count;) {
        size_t kept = 0;
        for (; i < count && kept < SPEX_RECORD_BATCH; i++) {
            list[kept] = &samples[i];
            kept += keep(r, &samples[i]);
        }
        if (kept)
            spex_feed_add(feed, list, kept);
    }
}

/* The context of a sink. */
struct feeding {
    struct spex_feed to; /* groups */
    struct spex_group *groups[3];
    const struct report *report;
};

/* Each of these is a separate sink, so that threads share the work. */

static bool is_any(const struct report *r, const struct spex_sample *s)
{
    (void)r;
    (void)s;
    return true;
}

static bool is_memory(const struct report *r, const struct spex_sample *s)
{
    (void)r;
    return spex_sample_memory(s);
}

/*
 * Is the sample's record in one of the lines shown? Also true of a few others that share their bit.
 */
static bool is_hot(const struct report *r, const struct spex_sample *s)
{
    bool physical = s->record->present & SPEX_HAS_PA;
    return spex_sample_memory(s) &&
           (line_set_has(&r->hot, s->va) || (physical && line_set_has(&r->hot, s->pa)));
}

static bool has_target(const struct report *r, const struct spex_sample *s)
{
    (void)r;
    return s->flags & SPEX_SAMPLE_INDIRECT && s->record->present & SPEX_HAS_TARGET;
}

#define FEED(name, keep)                                                                           \
    static void feed_##name(void *context, const struct spex_sample *samples, size_t count)        \
    {                                                                                              \
        const struct feeding *f = context;                                                         \
        feed_kept(f->report, samples, count, keep, &f->to);                                        \
    }
FEED(code, is_any)
FEED(memory, is_memory)
FEED(hot, is_hot)
FEED(targets, has_target)
#undef FEED

static struct spex_sink feed_sink(struct feeding *f, spex_sample_sink *sink)
{
    f->to.size = sizeof *f;
    f->to.groups = f->groups;
    while (f->to.count < sizeof f->groups / sizeof *f->groups && f->groups[f->to.count])
        f->to.count++;
    return spex_sink_groups(&f->to, sink);
}

/* Reads all records: counts everything but the cells of hot lines, and finds shared lines. */
static enum spex_status count_samples(struct report *r, struct spex_error *error)
{
    struct feeding code = {
        .report = r, .groups = {r->cubes[CODE].fine, r->feeds[RUNNING], r->cubes[STACKS].fine}};
    struct feeding memory = {.report = r, .groups = {r->feeds[ACCESSES], r->cubes[PAGES].fine}};
    struct feeding targets = {.report = r, .groups = {r->cubes[TARGETS].fine}};
    const struct spex_sink sinks[] = {feed_sink(&code, feed_code),
                                      feed_sink(&memory, feed_memory),
                                      feed_sink(&targets, feed_targets),
                                      spex_sink_findings(r->findings),
                                      spex_sink_find(r->sharing),
                                      /* the last one, used only if there are several nodes */
                                      {nodes_sink, r->nodes, &nodes_shards}};
    size_t count = sizeof sinks / sizeof *sinks - !r->nodes;
    struct spex_time_bins intervals = {r->bins.first, r->at_work, r->bins.shift, r->bins.count};
    spex_analysis_want(r->analysis, ~(unsigned)SPEX_WANT_BASE);
    spex_analysis_count_time(r->analysis, &intervals);
    enum spex_status status = spex_analysis_pass(r->analysis, sinks, count, error);
    spex_analysis_count_time(r->analysis, NULL);
    return status;
}

/* Reads again the records of the lines that are shown and of those that threads share. */
static enum spex_status look_closer(struct report *r, struct spex_error *error)
{
    struct feeding hot = {.report = r, .groups = {r->cubes[LINES].fine}};
    const struct spex_sink sinks[] = {feed_sink(&hot, feed_hot), spex_sink_look(r->sharing)};
    enum spex_status status = SPEX_OK;
    uint64_t shown[2 * HOT_LINES];
    size_t count = 0;
    r->lines = memory_get(LINES_MOST, sizeof *r->lines);
    if (spex_sharing_hottest(r->sharing, LINES_MOST, r->lines, &r->line_count))
        memory_checked(NULL);
    spex_sharing_choose(r->sharing);
    for (size_t i = 0; i < r->line_count && i < HOT_LINES; i++) {
        shown[count++] = r->lines[i].address;
        if (r->lines[i].physical) /* others may have mapped it elsewhere */
            shown[count++] = r->lines[i].physical;
    }
    for (size_t i = 0; i < count; i++)
        line_set_add(&r->hot, shown[i]);
    spex_sharing_widen(r->sharing,
                       SPEX_WANT_DATA | SPEX_WANT_TIME | SPEX_WANT_SYMBOL | SPEX_WANT_ALLOC |
                           SPEX_WANT_SPENT,
                       shown, count);
    if (r->line_count)
        status = spex_analysis_pass(r->analysis, sinks, sizeof sinks / sizeof *sinks, error);
    spex_analysis_want(r->analysis, ~(unsigned)SPEX_WANT_BASE);
    return status;
}

/* 128 to 256 intervals of a power of two, so that their ends are the same in every profile. */
static struct bins choose_bins(uint64_t first, uint64_t last)
{
    struct bins bins = {0};
    uint64_t span = last - first;
    bins.shift = span > 256 ? 56 - (unsigned)__builtin_clzll(span) : 1;
    bins.first = first >> bins.shift;
    if (last)
        bins.count = (unsigned)((last >> bins.shift) - bins.first) + 1;
    return bins;
}

/*
 * Samples were counted with guessed intervals. True if the guess fits them; at_work is then moved
 * to begin where they do.
 */
static bool bins_fit(struct report *r)
{
    const struct spex_totals *t = spex_analysis_totals(r->analysis);
    struct bins guess = r->bins, need = choose_bins(t->first_time, t->timed ? t->last_time : 0);
    r->bins = need;
    if (!need.count) /* without times, any intervals will do */
        return true;
    uint64_t before = need.first - guess.first;
    if (need.shift != guess.shift || before >= guess.count || need.count > guess.count - before)
        return false;
    memmove(r->at_work, r->at_work + before, need.count * sizeof *r->at_work);
    return true;
}

static bool has_set(const struct report *r, enum set set)
{
    return set != STACKS || spex_analysis_stacks(r->analysis) != SPEX_STACKS_NONE;
}

/* Makes the groups that count samples. */
static enum spex_status make_tables(struct report *r, struct spex_error *error)
{
    enum spex_status status = spex_sharing_new(r->analysis, &r->sharing, error);
    if (!status)
        status = spex_findings_new(r->analysis, &r->findings, error);
    r->nodes = nodes_new(r->analysis);
    for (unsigned s = 0; s < SETS && !status; s++)
        if (has_set(r, s))
            status = cube_new(&r->cubes[s], r->analysis, sets[s].keys, sets[s].key_count,
                              sets[s].flags, r->bins.shift, error);
    for (unsigned f = 0; f < FEEDS && !status; f++) {
        struct spex_group_options options = {.size = sizeof options,
                                             .keys = feeds[f].keys,
                                             .key_count = feeds[f].key_count,
                                             .flags = feeds[f].flags,
                                             .time_shift = r->bins.shift};
        status = spex_group_new(r->analysis, &options, &r->feeds[f], error);
        for (unsigned c = 0; c < 2 && !status; c++)
            spex_group_derive(r->cubes[feeds[f].cubes[c]].fine, r->feeds[f]);
    }
    if (!status)
        spex_group_derive(r->cubes[FUNCTIONS].fine, r->cubes[CODE].fine);
    r->cubes[FUNCTIONS].intervals = true; /* the page shows confidence intervals only for these */
    return status;
}

static void free_tables(struct report *r)
{
    for (unsigned s = 0; s < SETS; s++)
        cube_free(&r->cubes[s]);
    for (unsigned f = 0; f < FEEDS; f++)
        spex_group_free(r->feeds[f]);
    spex_findings_free(r->findings);
    nodes_free(r->nodes);
    spex_sharing_free(r->sharing);
    memset(r->cubes, 0, sizeof r->cubes);
    memset(r->feeds, 0, sizeof r->feeds);
    memset(r->at_work, 0, sizeof r->at_work);
    r->findings = NULL;
    r->nodes = NULL;
    r->sharing = NULL;
}

/* ---- after the last sample ---- */

struct share {
    struct report *report;
    void *context;
    void (*part)(struct report *report, void *context, size_t number);
};

static void share_part(void *user, size_t part, unsigned thread)
{
    struct share *s = user;
    (void)thread;
    s->part(s->report, s->context, part);
}

void report_share(struct report *r, size_t parts, void *context,
                  void (*part)(struct report *report, void *context, size_t number))
{
    struct share share = {r, context, part};
    const struct jobs jobs = {&share, parts, share_part};
    spex_analysis_together(r->analysis, true);
    jobs_run(&jobs, r->options.threads);
    spex_analysis_together(r->analysis, false);
}

/*
 * Finishes a table or, before the tables, loads the library for writing code, which takes longest.
 */
static void finish_part(struct report *r, void *context, size_t number)
{
    (void)context;
    const size_t set = number - 1;
    if (!number)
        r->status = spex_disassembler_new(&r->disassembler, &r->error);
    else if (has_set(r, (enum set)set))
        cube_finish(&r->cubes[set], &r->bins, sets[set].order, sets[set].keep);
}

/*
 * Counts in intervals that fit the file's first and last time; if the samples turn out to cover
 * another span (filters may choose any), counts once more.
 */
static enum spex_status count_all(struct report *r, struct spex_error *error)
{
    uint64_t first, last;
    enum spex_status status = SPEX_OK;
    spex_analysis_extent(r->analysis, &first, &last);
    if (r->options.filtered || !last) { /* nothing to guess from */
        spex_analysis_want(r->analysis, SPEX_WANT_BASE);
        status = spex_analysis_run(r->analysis, NULL, NULL, error);
        const struct spex_totals *t = spex_analysis_totals(r->analysis);
        first = t->first_time;
        last = t->last_time;
    }
    r->bins = choose_bins(first, last);
    for (bool fit = false; !fit && !status; fit = bins_fit(r)) {
        free_tables(r);
        status = make_tables(r, error);
        if (!status)
            status = count_samples(r, error);
    }
    if (!status)
        status = look_closer(r, error);
    if (!status)
        status = spex_sharing_finish(r->sharing);
    if (!status)
        status = spex_findings_finish(r->findings, r->sharing);
    if (!status) {
        report_share(r, SETS + 1, NULL, finish_part);
        status = r->status;
        if (status && error)
            *error = r->error;
    }
    if (!status)
        cube_rest_of(&r->cubes[LINES], spex_sharing_totals(r->sharing)->lines, &r->cubes[PAGES],
                     &r->bins);
    return status;
}

enum spex_status report_new(struct spex_analysis *analysis, const struct report_options *options,
                            struct report **report, struct spex_error *error)
{
    struct report *r = memory_get(1, sizeof *r);
    r->analysis = analysis;
    r->options = *options;
    r->sources = sources_new(options->sources);
    enum spex_status status = count_all(r, error);
    if (status)
        report_free(r);
    else
        *report = r;
    return status;
}

const char *report_source(const struct report *r, size_t index)
{
    const struct source *s = sources_read(r->sources, index);
    return s ? s->real : NULL;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    free_tables(r);
    free(r->lines);
    spex_disassembler_free(r->disassembler);
    sources_free(r->sources);
    free(r);
}
