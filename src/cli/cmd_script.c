/*
 * spex script: one record a line, as text, JSON lines or CSV; or, with --itrace,
 * the samples that perf would make of the records, in perf script's format.
 */
#include "script_lines.h"

#include "base/digits.h"
#include "base/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct script_options {
    struct profile_options profile;
    const char *itrace;
    int style;
    uint64_t limit, threads;
    bool full_path;
};

enum { LINE_ROOM = 2048, PERF_EVENTS = 10, BATCH = 512, BATCHES = 16 };

struct script {
    struct profile *p;
    const struct script_options *options;
    struct script_lines *lines;
    spex_sample_sink *put; /* makes the lines of samples */
    struct relay *relay;   /* batches for the thread that makes the lines */
    uint64_t line_count;
    /* itrace */
    bool letters[128];
    uint64_t period, seen;
    unsigned event_width; /* of the longest event name, as perf aligns them */
    struct {
        char text[700];
        unsigned size;
    } perf_events[PERF_EVENTS];
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct script *s = context;
    if (s->options->limit && count >= s->options->limit - s->line_count) {
        count = s->options->limit - s->line_count;
        spex_analysis_stop(s->p->analysis);
    }
    s->line_count += count;
    script_lines_put(s->lines, samples, count);
}

/* ---- perf's synthesized samples (docs/schema.md names the letters) ---- */

static void perf_line(struct script *s, const struct spex_sample *sample, unsigned event)
{
    struct out *out = &s->p->out;
    struct script_text thread, code;
    script_lines_perf(s->lines, sample, &thread, &code);
    char *p = out_room(out, LINE_ROOM), *end = p + LINE_ROOM - SCRIPT_BLOCK;
    s->line_count++;
    p = script_copy(p, thread.data, thread.size);
    p = put_padded(p, sample->time / 1000000000, 5);
    *p++ = '.';
    p = put_fixed(p, (uint32_t)(sample->time % 1000000000) / 1000, 6);
    p = script_copy(p, s->perf_events[event].text, s->perf_events[event].size);
    bool fits = p + code.size <= end;
    if (fits)
        p = script_copy(p, code.data, code.size);
    out->size = (size_t)(p - out->data);
    if (!fits)
        out_bytes(out, code.data, code.size);
    out->data[out->size - 1] = '\n';
}

/* In the order in which perf emits them for one record. */
enum {
    L1D_MISS,
    L1D_ACCESS,
    LLC_MISS,
    LLC_ACCESS,
    TLB_MISS,
    TLB_ACCESS,
    BRANCH,
    REMOTE,
    MEMORY,
    INSTRUCTIONS,
    PERF_EVENTS_END
};
_Static_assert((int)PERF_EVENTS_END == (int)PERF_EVENTS, "one text per event");
static const struct {
    char letter;
    uint8_t bit; /* of the Events packet, for those that are one */
    const char *name;
} perf_events[PERF_EVENTS] = {
    [L1D_MISS] = {'f', SPEX_EV_L1D_MISS, "l1d-miss"},
    [L1D_ACCESS] = {'f', SPEX_EV_L1D_ACCESS, "l1d-access"},
    [LLC_MISS] = {'m', SPEX_EV_LLC_MISS, "llc-miss"},
    [LLC_ACCESS] = {'m', SPEX_EV_LLC_ACCESS, "llc-access"},
    [TLB_MISS] = {'t', SPEX_EV_TLB_WALK, "tlb-miss"},
    [TLB_ACCESS] = {'t', SPEX_EV_TLB_ACCESS, "tlb-access"},
    [BRANCH] = {'b', 0, "branch"},
    [REMOTE] = {'a', SPEX_EV_REMOTE, "remote-access"},
    [MEMORY] = {'M', 0, "memory"},
    [INSTRUCTIONS] = {'i', 0, "instructions"},
};

/* ": period event:" as perf pads it. */
static void name_events(struct script *s)
{
    for (unsigned i = 0; i < PERF_EVENTS; i++) {
        /* 6.1 makes an event of mispredicted branches only; later ones of every branch */
        const char *name =
            i == BRANCH && s->options->style == 0 ? "branch-miss" : perf_events[i].name;
        s->perf_events[i].size = (unsigned)snprintf(
            s->perf_events[i].text, sizeof s->perf_events[i].text,
            ": %10llu %*s:  ", (unsigned long long)s->period, (int)s->event_width, name);
    }
}

static void itrace_feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct script *s = context;
    bool old = s->options->style == 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *sample = &samples[i];
        uint64_t e = sample->record->events;
        if (s->options->limit && s->line_count >= s->options->limit) {
            spex_analysis_stop(s->p->analysis);
            return;
        }
        for (unsigned event = L1D_MISS; event <= TLB_ACCESS; event++)
            if (s->letters[(unsigned)perf_events[event].letter] && e >> perf_events[event].bit & 1)
                perf_line(s, sample, event);
        if (s->letters['b'] &&
            (old ? e >> SPEX_EV_MISPREDICT & 1 : sample->op == SPEX_SAMPLE_BRANCH))
            perf_line(s, sample, BRANCH);
        if (s->letters['a'] && e >> SPEX_EV_REMOTE & 1)
            perf_line(s, sample, REMOTE);
        if (s->letters['M'] && sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES))
            perf_line(s, sample, MEMORY);
        if (s->letters['i'] && ++s->seen >= s->period) {
            s->seen = 0;
            perf_line(s, sample, INSTRUCTIONS);
        }
    }
}

/* ---- a thread for the lines ---- */

struct batch {
    size_t count;
    struct spex_sample samples[BATCH];
    struct spex_record records[BATCH];
};

static void use_batch(void *user, void *item)
{
    struct script *s = user;
    struct batch *batch = item;
    s->put(s, batch->samples, batch->count);
    batch->count = 0;
}

static void pass_samples(void *context, const struct spex_sample *samples, size_t count)
{
    struct script *s = context;
    for (size_t i = 0; i < count; i++) {
        struct batch *batch = relay_item(s->relay);
        struct spex_sample *sample = &batch->samples[batch->count];
        struct spex_record *record = &batch->records[batch->count];
        *sample = samples[i];
        *record = *samples[i].record;
        sample->record = record;
        if (++batch->count == BATCH)
            relay_pass(s->relay);
    }
}

/*
 * Copying samples for another thread takes a fifth of the time of its work: worth it where the
 * text is written to a file or pipe, not where it is shown or thrown away.
 */
static bool wants_thread(const struct script *s)
{
    struct stat file;
    if (s->options->limit) /* the pass stops at the limit */
        return false;
    if (!s->options->threads && !fstat(s->p->out.fd, &file) && S_ISCHR(file.st_mode))
        return false;
    return cli_threads(s->options->threads) > 1 && script_lines_alone(s->lines);
}

/* One pass over the profile; the exit status. */
static int put_samples(struct script *s)
{
    s->put = s->options->itrace ? itrace_feed : feed;
    if (wants_thread(s))
        s->relay = relay_new(BATCHES, sizeof(struct batch), use_batch, s);
    if (!s->relay)
        return profile_run(s->p, (struct analysis_sink){s->put, s});
    int status = profile_run(s->p, (struct analysis_sink){pass_samples, s});
    relay_pass(s->relay);
    relay_free(s->relay);
    return status;
}

static int parse_itrace(struct script *s, const char *text)
{
    s->period = 1;
    for (const char *p = text; *p; p++) {
        if (!strchr("fMtbami", *p))
            return cli_usage("--itrace: '%c' is none of f (L1D), m (LLC), t (TLB), b (branch), "
                             "a (remote), M (memory), i (instructions, i100i every 100th)",
                             *p);
        s->letters[(unsigned)*p] = true;
        if (*p == 'i' && p[1] >= '0' && p[1] <= '9') {
            char *end;
            s->period = strtoull(p + 1, &end, 10);
            if (!s->period || *end != 'i')
                return cli_usage("--itrace: '%s' has no period such as i100i", p);
            p = end;
        }
    }
    return CLI_OK;
}

static int run_script(void *options, int argc, char **argv)
{
    const struct script_options *o = options;
    struct profile p;
    static struct script s; /* large; the process runs one command */
    s = (struct script){.p = &p, .options = o};
    (void)argc;
    if (o->itrace && o->profile.format != TABLE_AS_TEXT)
        return cli_usage("--itrace prints text only");
    int status = o->itrace ? parse_itrace(&s, o->itrace) : CLI_OK;
    if (status)
        return status;
    /* perf's lines have no addresses of data and targets */
    unsigned want = SPEX_WANT_TIME | SPEX_WANT_SYMBOL;
    want |= o->itrace ? 0 : SPEX_WANT_DATA | SPEX_WANT_BRANCH;
    if (o->profile.fields && strstr(o->profile.fields, "estimated_time"))
        want |= SPEX_WANT_SPENT;
    if (o->profile.fields &&
        (strstr(o->profile.fields, "stack") || strstr(o->profile.fields, "callers")))
        want |= SPEX_WANT_STACK;
    struct spex_analysis_options more = {.size = sizeof more, .ordered = true, .want = want};
    if ((status = profile_open_all(&p, &o->profile, argv, &more)))
        return status;
    const struct spex_perfdata *file = spex_analysis_file(p.analysis);
    for (size_t i = 0; file && i < spex_perfdata_attr_count(file); i++) {
        size_t n = strlen(spex_perfdata_attr(file, i)->name);
        if (n > s.event_width && n < 500)
            s.event_width = (unsigned)n;
    }
    p.status = script_lines_new(
        &s.lines, &p, (o->full_path ? SCRIPT_FULL_PATH : 0) | (o->itrace ? SCRIPT_PERF : 0));
    name_events(&s);
    if (!p.status) {
        if (o->profile.format == TABLE_AS_CSV)
            script_lines_header(s.lines);
        p.status = put_samples(&s);
        if (!p.status && !s.line_count)
            profile_empty(&p, 0, "make an event that --itrace asks for");
    }
    script_lines_free(s.lines);
    return profile_close(&p);
}

static const char *const styles[] = {"perf", "perf-7", NULL};

static const struct cli_option script_options[] = {
    PROFILE_INPUT_OPTIONS(struct script_options),
    {"fields", 'F', CLI_STRING, PROFILE_AT(struct script_options, fields), "LIST",
     "fields to print, in order; +LIST adds to the usual ones (docs/schema.md); stack is the "
     "functions that called",
     NULL, NULL},
    {"limit", 'n', CLI_NUMBER, offsetof(struct script_options, limit), "N", "stop after N lines",
     NULL, NULL},
    {"full-path", 0, CLI_FLAG, offsetof(struct script_options, full_path), NULL,
     "print whole paths of files", NULL, NULL},
    {"itrace", 0, CLI_STRING, offsetof(struct script_options, itrace), "LETTERS",
     "print the samples perf makes of the records, as perf script prints them: f L1D, m LLC, t "
     "TLB, b branch, a remote, M memory, i instructions",
     NULL, NULL},
    {"style", 0, CLI_CHOICE, offsetof(struct script_options, style), "STYLE",
     "with --itrace: perf (6.1) or perf-7", "perf", styles},
    CLI_THREADS(struct script_options, threads),
#define OPTIONS struct script_options
#include "filter_options.def"
    PROFILE_REPLAY(struct script_options),
    PROFILE_SYMBOL_OPTIONS(struct script_options),
    {0},
};

const struct cli_command cli_script = {
    .name = "script",
    .group = CLI_READING,
    .synopsis = "[FILE...]",
    .summary = "one record a line: text, JSON lines or CSV",
    .details = "Records of all CPUs in order of time. Fields are described in docs/schema.md.",
    .options = script_options,
    .size = sizeof(struct script_options),
    .run = run_script,
};
