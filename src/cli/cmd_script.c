/*
 * spex script: prints one record a line, as text, JSON lines or CSV; or, with --itrace, the samples
 * that perf would make from the records, in perf script's format.
 */
#include "script_lines.h"

#include "base/digits.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

struct script_options {
    struct profile_options profile;
    const char *itrace;
    int style;
    uint64_t limit, threads;
    bool full_path;
};

enum { LINE_ROOM = 2048, PERF_EVENTS = 10, APART = 128 /* what threads write */ };

/* Where one thread's lines go. */
struct writer {
    _Alignas(APART) struct script *script;
    struct script_lines *lines;
    struct out *out;
    uint64_t count; /* lines */
    uint64_t seen;  /* itrace: samples since the last instruction */
};

struct script {
    struct profile *p;
    const struct script_options *options;
    spex_sample_sink *put; /* makes the lines of samples; the context is a writer */
    struct writer writer;  /* writer of the calling thread */
    struct writer *others; /* writers of the threads that make slices, if any */
    /* itrace */
    bool letters[128];
    uint64_t period;
    unsigned event_width; /* length of the longest event name: perf pads names to it */
    struct {
        char text[700];
        unsigned size;
    } perf_events[PERF_EVENTS];
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct writer *w = context;
    struct script *s = w->script;
    if (s->options->limit && count >= s->options->limit - w->count) {
        count = s->options->limit - w->count;
        spex_analysis_stop(s->p->analysis);
    }
    w->count += count;
    script_lines_put(w->lines, w->out, samples, count);
}

/* ---- perf's synthesized samples (docs/schema.md lists the letters) ---- */

/* Returns the number of lines, which is one. */
static unsigned perf_line(struct writer *w, const struct spex_sample *sample, unsigned event)
{
    const struct script *s = w->script;
    struct out *out = w->out;
    struct script_text thread, code;
    script_lines_perf(w->lines, sample, &thread, &code);
    char *p = out_room(out, LINE_ROOM), *end = p + LINE_ROOM - SCRIPT_BLOCK;
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
    return 1;
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
    uint8_t bit; /* bit of the Events packet, for rows that are events */
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

/* Makes ": period event:" with perf's padding. */
static void name_events(struct script *s)
{
    for (unsigned i = 0; i < PERF_EVENTS; i++) {
        /* 6.1 makes an event only from mispredicted branches, later releases from every branch */
        const char *name =
            i == BRANCH && s->options->style == 0 ? "branch-miss" : perf_events[i].name;
        s->perf_events[i].size = (unsigned)snprintf(
            s->perf_events[i].text, sizeof s->perf_events[i].text,
            ": %10llu %*s:  ", (unsigned long long)s->period, (int)s->event_width, name);
    }
}

static void itrace_feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct writer *w = context;
    struct script *s = w->script;
    bool old = s->options->style == 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *sample = &samples[i];
        uint64_t e = sample->record->events, lines = 0;
        if (s->options->limit && w->count >= s->options->limit) {
            spex_analysis_stop(s->p->analysis);
            break;
        }
        for (unsigned event = L1D_MISS; event <= TLB_ACCESS; event++)
            if (s->letters[(unsigned)perf_events[event].letter] && e >> perf_events[event].bit & 1)
                lines += perf_line(w, sample, event);
        if (s->letters['b'] &&
            (old ? e >> SPEX_EV_MISPREDICT & 1 : sample->op == SPEX_SAMPLE_BRANCH))
            lines += perf_line(w, sample, BRANCH);
        if (s->letters['a'] && e >> SPEX_EV_REMOTE & 1)
            lines += perf_line(w, sample, REMOTE);
        if (s->letters['M'] && sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES))
            lines += perf_line(w, sample, MEMORY);
        if (s->letters['i'] && ++w->seen >= s->period) {
            w->seen = 0;
            lines += perf_line(w, sample, INSTRUCTIONS);
        }
        w->count += lines;
    }
}

/* ---- making lines in several threads ---- */

static void make_lines(void *context, void *item, unsigned thread,
                       const struct spex_sample *samples, size_t count)
{
    struct script *s = ((struct writer *)context)->script;
    struct writer *w = &s->others[thread];
    w->out = item;
    if (!w->out->data)
        out_init(w->out, -1);
    s->put(w, samples, count);
}

static void put_lines(void *context, void *item)
{
    struct out *text = item;
    out_block(&((struct writer *)context)->script->p->out, text->data, text->size);
    text->size = 0;
}

static void free_lines(void *item)
{
    out_fini(item);
}

static const struct spex_sink_slices line_slices = {sizeof(struct out), make_lines, put_lines,
                                                    free_lines};

/*
 * Can several threads make lines? Not with a limit, since no thread knows how many lines the others
 * made.
 */
static bool lines_apart(const struct script *s)
{
    return !s->options->limit && s->period == 1 && script_lines_alone(s->writer.lines);
}

static int new_writer(struct script *s, struct writer *w)
{
    const struct script_options *o = s->options;
    *w = (struct writer){.script = s, .out = &s->p->out};
    return script_lines_new(&w->lines, s->p,
                            (o->full_path ? SCRIPT_FULL_PATH : 0) | (o->itrace ? SCRIPT_PERF : 0));
}

/* Makes one pass over the profile; returns the exit status. */
static int put_samples(struct script *s)
{
    const unsigned threads = lines_apart(s) ? cli_threads(s->options->threads) : 0;
    struct spex_sink sink = {.context = &s->writer};
    sink.call = s->put = s->options->itrace ? itrace_feed : feed;
    sink.slices = threads ? &line_slices : NULL;
    s->others = memory_aligned(APART, (threads + 1) * sizeof *s->others);
    for (unsigned i = 0; i < threads; i++)
        new_writer(s, &s->others[i]);
    int status = profile_run(s->p, sink);
    for (unsigned i = 0; i < threads; i++) {
        s->writer.count += s->others[i].count;
        script_lines_free(s->others[i].lines);
    }
    free(s->others);
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
    static struct script s; /* static because it is large; the process runs one command */
    s = (struct script){.p = &p, .options = o, .period = 1};
    (void)argc;
    if (o->itrace && o->profile.format != TABLE_AS_TEXT)
        return cli_usage("--itrace prints text only");
    int status = o->itrace ? parse_itrace(&s, o->itrace) : CLI_OK;
    if (status)
        return status;
    /* perf's lines have no data and target addresses */
    unsigned want = SPEX_WANT_TIME | SPEX_WANT_SYMBOL;
    want |= o->itrace ? 0 : SPEX_WANT_DATA | SPEX_WANT_BRANCH;
    if (o->profile.fields && strstr(o->profile.fields, "estimated_time"))
        want |= SPEX_WANT_SPENT;
    if (o->profile.fields &&
        (strstr(o->profile.fields, "stack") || strstr(o->profile.fields, "callers")))
        want |= SPEX_WANT_STACK;
    /* how far several threads read before the limit would depend on their number */
    struct spex_analysis_options more = {.size = sizeof more,
                                         .ordered = true,
                                         .want = want,
                                         .threads = o->limit ? 1 : cli_threads(o->threads)};
    if ((status = profile_open_all(&p, &o->profile, argv, &more)))
        return status;
    const struct spex_perfdata *file = spex_analysis_file(p.analysis);
    for (size_t i = 0; file && i < spex_perfdata_attr_count(file); i++) {
        size_t n = strlen(spex_perfdata_attr(file, i)->name);
        if (n > s.event_width && n < 500)
            s.event_width = (unsigned)n;
    }
    p.status = new_writer(&s, &s.writer);
    name_events(&s);
    if (!p.status) {
        if (o->profile.format == TABLE_AS_CSV)
            script_lines_header(s.writer.lines);
        p.status = put_samples(&s);
        if (!p.status && !s.writer.count)
            profile_empty(&p, 0, "make an event that --itrace asks for");
    }
    script_lines_free(s.writer.lines);
    return profile_close(&p);
}

static const char *const styles[] = {"perf", "perf-7", NULL};

static const struct cli_option script_options[] = {
    PROFILE_INPUT_OPTIONS(struct script_options),
    {"fields", 'F', CLI_STRING, PROFILE_AT(struct script_options, fields), "LIST",
     "fields to print, in order; +LIST adds to the default ones (docs/schema.md); stack is the "
     "call stack",
     NULL, NULL},
    {"limit", 'n', CLI_NUMBER, offsetof(struct script_options, limit), "N", "stop after N lines",
     NULL, NULL},
    {"full-path", 0, CLI_FLAG, offsetof(struct script_options, full_path), NULL,
     "print whole paths of files", NULL, NULL},
    {"itrace", 0, CLI_STRING, offsetof(struct script_options, itrace), "LETTERS",
     "print the samples that perf synthesizes, as perf script does: f L1D, m LLC, t "
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
    .group = CLI_OTHERS,
    .pages = true,
    .synopsis = "[FILE...]",
    .summary = "one record a line: text, JSON lines or CSV",
    .details = "Records of all CPUs in order of time. Fields are described in docs/schema.md.",
    .options = script_options,
    .size = sizeof(struct script_options),
    .run = run_script,
};
