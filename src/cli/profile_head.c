/*
 * What a command prints about its profile before its tables, as text and as JSON: files, samples,
 * time, filters; and why there is no table, if nothing is left.
 */
#include "profile.h"

#include "run_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void profile_filters(const struct profile *p, struct out *out)
{
    for (size_t i = 0; i < p->filter_count; i++) {
        out_printf(out, "%s--%s ", i ? " " : "", p->filters[i].name);
        out_name(out, p->filters[i].value);
    }
    out_char(out, 0);
}

/* The model that made the records, with its CPU and version; NULL if they are not from spex. */
static const char *model_of(const struct profile *p)
{
    const struct spex_perfdata *file = spex_analysis_file(p->analysis);
    const char *text = file ? spex_perfdata_info(file)->cpudesc : "";
    size_t size = strlen(RUN_FILE_MODEL);
    return strncmp(text, RUN_FILE_MODEL, size) ? NULL : text + size;
}

/* How well the owner of the time is known; share is 0 if nothing was replayed. */
static struct spex_replay replay_of(const struct profile *p)
{
    struct spex_replay r = {.size = sizeof r};
    spex_analysis_replay(p->analysis, &r);
    return r;
}

static void replay_members(const struct profile *p, struct json *json)
{
    const struct spex_replay r = replay_of(p);
    json_name(json, "replay");
    json_object(json);
    JSON_MEMBER(json, "trust", string, spex_trust_name(r.trust));
    JSON_MEMBER(json, "share", real, r.share);
    JSON_MEMBER(json, "core", string, r.core);
    JSON_MEMBER(json, "chosen_by_fit", bool, r.chosen);
    JSON_MEMBER(json, "unfit_core", string, r.unfit);
    JSON_MEMBER(json, "unfit_misfit", real, r.unfit_misfit);
    JSON_MEMBER(json, "issue_misfit", real, r.misfit);
    JSON_MEMBER(json, "cycles_per_operation", real, r.cycles);
    JSON_MEMBER(json, "clock_ghz", real, r.clock);
    json_end(json);
}

void profile_members(struct profile *p, struct json *json)
{
    const struct spex_totals *t = spex_analysis_totals(p->analysis);
    const struct spex_sampling *s = spex_analysis_sampling(p->analysis);
    JSON_MEMBER(json, "input", string, p->name);
    json_name(json, "sampling");
    json_object(json);
    JSON_MEMBER(json, "event", string, s->known ? s->terms : NULL);
    json_name(json, "period");
    if (s->period)
        json_u64(json, s->period);
    else
        json_null(json);
    JSON_MEMBER(json, "jitter", bool, s->jitter);
    JSON_MEMBER(json, "filters", string, s->filters);
    JSON_MEMBER(json, "cpu", string, s->cpu_name);
    JSON_MEMBER(json, "model", string, model_of(p));
    JSON_MEMBER(json, "erratum", string, profile_bias(p, 0).erratum);
    JSON_MEMBER(json, "counter_most", u64, s->counter_most);
    JSON_MEMBER(json, "no_estimate", string, spex_analysis_no_estimate(p->analysis));
    json_end(json);
    replay_members(p, json);
    json_name(json, "totals");
    json_object(json);
    JSON_MEMBER(json, "records", u64, t->records);
    JSON_MEMBER(json, "samples", u64, t->kept);
    JSON_MEMBER(json, "bytes", u64, t->bytes);
    p->told = true;
    JSON_MEMBER(json, "lost", u64, t->lost);
    JSON_MEMBER(json, "truncated", u64, t->truncated);
    JSON_MEMBER(json, "collided", u64, t->collided);
    JSON_MEMBER(json, "damaged", u64, t->damaged);
    JSON_MEMBER(json, "timed", u64, t->timed);
    JSON_MEMBER(json, "with_context", u64, t->with_context);
    JSON_MEMBER(json, "with_source", u64, t->with_source);
    JSON_MEMBER(json, "with_address", u64, t->with_va);
    JSON_MEMBER(json, "saturated", u64, t->saturated);
    JSON_MEMBER(json, "first_time", u64, t->first_time);
    JSON_MEMBER(json, "last_time", u64, t->last_time);
    JSON_MEMBER(json, "time_ns", u64, t->spent);
    JSON_MEMBER(json, "time_away_ns", u64, t->away);
    JSON_MEMBER(json, "time_beside_loss_ns", u64, t->beside_loss);
    JSON_MEMBER(json, "time_unseen_ns", u64, t->unseen);
    json_end(json);
}

struct json profile_json(struct profile *p, const char *schema)
{
    struct json json = json_to(&p->out);
    json_object_lines(&json);
    JSON_MEMBER(&json, "schema", string, schema);
    profile_members(p, &json);
    return json;
}

/* "# text", wrapped at the terminal's width. */
void profile_comment(struct profile *p, struct out *out, const char *format, ...)
{
    char text[1200];
    struct out shown;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->options->format != TABLE_AS_TEXT)
        return;
    out_init(&shown, -1);
    out_name(&shown, text);
    const char *at = shown.data, *end = at + shown.size;
    size_t width = p->width > 20 ? p->width - 2 : shown.size;
    bool first = true;
    while (at < end) {
        size_t n = (size_t)(end - at);
        size_t room = first || !p->width ? width : width - 2;
        if (n > room) {
            /* break after a comma if one is near, else between words */
            for (n = room; n > room / 2 && !(at[n] == ' ' && at[n - 1] == ','); n--)
                ;
            if (n == room / 2)
                for (n = room; n > 0 && at[n] != ' '; n--)
                    ;
            if (!n) /* a word longer than the line: break after a comma in it */
                for (n = room; n > 0 && at[n - 1] != ','; n--)
                    ;
            while (!n || (at + n < end && at[n] != ' ' && at[n - 1] != ','))
                n++;
        }
        out_printf(out, "%s#%s ", p->colour ? "\033[2m" : "", first ? "" : "  ");
        out_bytes(out, at, n);
        out_text(out, p->colour ? "\033[0m\n" : "\n");
        for (at += n; at < end && *at == ' '; at++)
            ;
        first = false;
    }
    out_fini(&shown);
}

void profile_header(struct profile *p, struct out *out)
{
    const struct spex_totals *t = spex_analysis_totals(p->analysis);
    const struct spex_sampling *s = spex_analysis_sampling(p->analysis);
    char a[32], b[32], c[32], d[32], period[64] = "", time[32] = "", terms[200] = "";
    if (p->options->format != TABLE_AS_TEXT)
        return;
    if (s->known)
        snprintf(terms, sizeof terms, ", arm_spe/%s/", s->terms);
    if (s->period)
        snprintf(period, sizeof period, ", period %s%s", text_count(c, s->period),
                 s->jitter ? "" : " (no jitter)");
    if (t->last_time > t->first_time)
        snprintf(time, sizeof time, ", %.3f s", (double)(t->last_time - t->first_time) / 1e9);
    profile_comment(p, out, "%s%s: %s sample%s%s%s%s%s%s%s%s", p->label ? p->label : "", p->name,
                    text_count(a, t->kept), t->kept == 1 ? "" : "s",
                    t->kept != t->records ? " of " : "",
                    t->kept != t->records ? text_count(b, t->records) : "", terms, period,
                    s->cpu_name ? ", " : "", s->cpu_name ? s->cpu_name : "", time);
    if (model_of(p))
        profile_comment(p, out, "model: %s; intervals cover sampling, not the model's error",
                        model_of(p));
    p->told = true;
    if (t->lost || t->truncated || t->collided || t->damaged)
        profile_comment(p, out,
                        "not all was recorded: %s events lost, %s buffers truncated, %s "
                        "with collisions%s",
                        text_count(a, t->lost), text_count(b, t->truncated),
                        text_count(c, t->collided), t->damaged ? ", damaged data" : "");
    if (t->saturated)
        profile_comment(p, out,
                        "%s sample%s with a counter that ended at %u: latencies may be more",
                        text_count(a, t->saturated), t->saturated == 1 ? "" : "s", s->counter_most);
    if (s->filters[0])
        profile_comment(p, out, "the PMU kept only operations with %s: shares are of those",
                        s->filters);
    for (size_t i = 0; i < p->filter_count; i++)
        profile_comment(p, out, "--%s %s leaves out %s", p->filters[i].name, p->filters[i].value,
                        text_count(d, t->rejected[i]));
}

void profile_no_estimate(struct profile *p, struct out *out)
{
    const char *reason = spex_analysis_no_estimate(p->analysis);
    if (reason)
        profile_comment(p, out, "numbers of operations are not estimated: %s", reason);
}

/* Neoverse N1 before r4p1 has erratum 1694299; the unit of spex has it only if configured so. */
static bool has_erratum(const struct profile *p, uint32_t midr)
{
    uint32_t revision = (midr >> 20 & 15) << 4 | (midr & 15);
    return (midr & 0xff00fff0) == 0x4100d0c0 && revision < 0x41 && !model_of(p);
}

struct profile_bias profile_bias(const struct profile *p, size_t never)
{
    const struct spex_sampling *s = spex_analysis_sampling(p->analysis);
    /* with filters, missing samples prove nothing */
    return (struct profile_bias){s->filters[0] || p->filter_count ? 0 : never,
                                 has_erratum(p, s->midr) ? "1694299" : NULL};
}

void profile_bias_print(struct profile *p, struct out *out, size_t never)
{
    const struct profile_bias b = profile_bias(p, never);
    if (b.never)
        profile_comment(
            p, out,
            "sampling looks biased here: %zu instruction%s of hot blocks %s never sampled; "
            "trust functions and lines, not single instructions%s",
            b.never, b.never == 1 ? "" : "s", b.never == 1 ? "was" : "were",
            b.erratum ? " (erratum 1694299 of the Neoverse N1 before r4p1)" : "");
    else if (b.erratum)
        profile_comment(p, out,
                        "Neoverse N1 before r4p1 (erratum 1694299): shares of neighbouring "
                        "instructions are biased; trust functions and lines");
}

/* "over 999" percent at most. */
static const char *over(double misfit)
{
    return misfit > 9.99 ? "over " : "";
}

static double percent(double misfit)
{
    return misfit > 9.99 ? 999 : 100 * misfit;
}

void profile_trust(struct profile *p, struct out *out)
{
    const struct spex_replay r = replay_of(p);
    char clock[64] = "", rest[64] = "";
    if (r.trust == SPEX_TRUST_NONE) {
        char why[64] = " (no code could be replayed)";
        if (r.misfit > 0)
            snprintf(why, sizeof why, " (a replay would be off by %s%.0f%%)", over(r.misfit),
                     percent(r.misfit));
        profile_comment(
            p, out,
            "time is shared by latencies alone%s; functions that take turns may be 20%% "
            "off",
            r.misfit <= 0 && p->options->no_replay ? "" : why);
        return;
    }
    if (r.clock > 0)
        snprintf(clock, sizeof clock, " (implies a clock of %.2f GHz)", r.clock);
    if (r.share < 0.995)
        snprintf(rest, sizeof rest, "; %.0f%% of samples by latencies alone", 100 * (1 - r.share));
    const char *core = r.core ? r.core : "a generic core";
    if (r.unfit)
        profile_comment(
            p, out,
            "the numbers of this CPU, %s, do not fit (issue latencies off by %s%.0f%%): "
            "those of %s are used, which fit best",
            r.unfit, over(r.unfit_misfit), percent(r.unfit_misfit), core);
    profile_comment(p, out,
                    "time is shared by replaying the code on %s%s; fit: %s, issue latencies off by "
                    "%.0f%%, %.2f cycles per operation%s%s",
                    core, r.chosen && !r.unfit ? ", which fits best (this CPU is not known)" : "",
                    spex_trust_name(r.trust), 100 * r.misfit, r.cycles, clock, rest);
}

void profile_doubt(struct profile *p, struct out *out)
{
    if (replay_of(p).trust != SPEX_TRUST_GOOD)
        profile_trust(p, out);
}

void profile_time(struct profile *p, struct out *out, const struct spex_group *group)
{
    const struct spex_totals *t = spex_analysis_totals(p->analysis);
    double all = spex_row_time(spex_group_total(group));
    char a[32], b[32], c[32], d[32], away[64] = "", loss[80] = "", unseen[80] = "";
    if (all <= 0) {
        profile_comment(p, out, "time is not known, since %s: shares are of operations",
                        t->timed ? "no time lies between the records"
                                 : "the records have no timestamps (ts_enable=1)");
        return;
    }
    if (t->away >= t->spent / 1000 && t->away && !p->elapsed)
        snprintf(away, sizeof away, "; threads did not run for %s", text_time(b, (double)t->away));
    if (t->beside_loss)
        snprintf(loss, sizeof loss, "; %s beside lost data is not counted",
                 text_time(c, (double)t->beside_loss));
    if (t->unseen >= t->spent / 1000 && t->unseen && !p->elapsed)
        snprintf(unseen, sizeof unseen, "; about %s more in the kernel, which was not sampled",
                 text_time(d, (double)t->unseen));
    profile_comment(p, out, "time: %s%s%s%s%s", text_time(a, all),
                    t->kept != t->records ? " of what is shown" : " on all CPUs", unseen, away,
                    loss);
    if (spex_analysis_sampling(p->analysis)->filters[0])
        profile_comment(p, out,
                        "time is measured from one recorded operation to the next, including what "
                        "was not recorded in between");
    profile_trust(p, out);
}

/* Prints a line of text output, wrapped on a terminal. */
static void say(struct profile *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct profile *p, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n >= 0 && p->whole_names)
        out_line(&p->out, "%s", text);
    else if (n >= 0)
        cli_wrap(&p->out, text, 0);
    free(text);
}

/* "; the profile is of 12.500000 to 13.750000 s": the values that --time could have had. */
static const char *extent(const struct profile *p, char text[96])
{
    uint64_t first, last;
    spex_analysis_extent(p->analysis, &first, &last);
    text[0] = 0;
    if (last)
        snprintf(text, 96, "; the profile is of %.6f to %.6f s", (double)first / 1e9,
                 (double)last / 1e9);
    return text;
}

bool profile_empty(struct profile *p, uint64_t samples, const char *what)
{
    const struct spex_totals *t = spex_analysis_totals(p->analysis);
    char a[32], b[32], span[96];
    if (samples)
        return false;
    if (p->options->format != TABLE_AS_TEXT)
        return false; /* an empty table already says so */
    if (!t->records) {
        const struct spex_perfdata *file = spex_analysis_file(p->analysis);
        /* otherwise profile_close gives details */
        if (!file || spex_perfdata_info(file)->aux_bytes)
            say(p, "%s holds no sample records", p->name);
        return true;
    }
    if (!t->kept) {
        for (size_t i = 0; i < p->filter_count; i++)
            if (t->rejected[i]) {
                uint64_t before = t->records;
                for (size_t j = 0; j < i; j++)
                    before -= t->rejected[j];
                if (t->rejected[i] == before)
                    say(p, "nothing matches --%s %s: all %s records%s were left out%s",
                        p->filters[i].name, p->filters[i].value, text_count(a, before),
                        i ? " that the filters before it kept" : "",
                        strcmp(p->filters[i].name, "time") ? "" : extent(p, span));
            }
        return true;
    }
    say(p, "none of the %s samples%s %s", text_count(b, t->kept),
        p->filter_count ? " that match the filters" : "", what);
    return true;
}
