/* spex whatif --findings: turns findings in a profile into texts of --ideal. */
#include "advice.h"
#include "whatif.h"

#include "report/words.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Splits "walk (list_walk.c:31)" into the function, and the line or NULL. False if it is neither.
 */
static bool take_apart(const char *place, char *function, char *line, size_t size)
{
    const char *open = place ? strstr(place, " (") : NULL, *next;
    while (open && (next = strstr(open + 1, " (")))
        open = next;
    if (!open || !strrchr(open, ')'))
        open = NULL;
    *line = '\0';
    if (!place || strstr(place, "+0x"))
        return false;
    snprintf(function, size, "%.*s", open ? (int)(open - place) : (int)strlen(place), place);
    if (open)
        snprintf(line, size, "%.*s", (int)strcspn(open + 2, ")"), open + 2);
    return true;
}

/* What must be ideal for this finding to go away: the only place that knows kinds of findings. */
static void add(struct whatif_findings *to, const struct spex_finding *finding,
                uint64_t shared_line)
{
    enum { TEXT = 512 };
    char function[TEXT], line[TEXT], *ideal = NULL, *title = NULL;
    bool known = take_apart(finding->place, function, line, sizeof function);
    int n = 0;
    switch (finding->kind) {
    case SPEX_FINDING_FAR_DATA:
        n = asprintf(&ideal, "loads=%s", known ? function : "all");
        n = n < 0 ? n
                  : asprintf(&title, known ? "the loads of %s" : "all loads%s",
                             known ? function : "");
        break;
    case SPEX_FINDING_PEER_DATA:
        n = asprintf(&ideal, "share=all");
        n = n < 0 ? n : asprintf(&title, "all data that threads share");
        break;
    case SPEX_FINDING_TABLE_WALKS:
        n = asprintf(&ideal, "pages=all");
        n = n < 0 ? n : asprintf(&title, "pages that are small");
        break;
    case SPEX_FINDING_MISPREDICTED:
        if (known)
            n = asprintf(&ideal, "branch=%s", *line ? line : function);
        n = n < 0 ? n : asprintf(&title, "the branch at %s", finding->place);
        break;
    case SPEX_FINDING_DIVISION:
        if (known)
            n = asprintf(&ideal, "divide=%s", function);
        n = n < 0 ? n : asprintf(&title, "divisions in %s", finding->place);
        break;
    case SPEX_FINDING_FALSE_SHARING:
    case SPEX_FINDING_TRUE_SHARING:
    case SPEX_FINDING_MIXED_SHARING:
    case SPEX_FINDING_LOCK:
        n = asprintf(&ideal, "share=0x%llx", (unsigned long long)shared_line);
        n = n < 0 ? n : asprintf(&title, "sharing the line of %s", finding->place);
        break;
    default:
        title = words_of(finding, WORDS_FOUND, true);
    }
    memory_checked(n < 0 ? NULL : title);
    for (size_t i = 0; ideal && i < to->count; i++) /* two findings may have the same cause */
        if (to->items[i].ideal && !strcmp(to->items[i].ideal, ideal)) {
            free(ideal);
            free(title);
            return;
        }
    to->items = memory_grow(to->items, to->count, &to->capacity, sizeof *to->items);
    to->items[to->count++] = (struct whatif_finding){.ideal = ideal,
                                                     .title = title,
                                                     .text = words_of(finding, WORDS_FOUND, true),
                                                     .advice = words_of(finding, WORDS_DO, true),
                                                     .share = finding->share};
}

static void add_lines(struct whatif_findings *to, struct profile *p, const struct spex_sharing *s)
{
    enum { MOST = 10 };
    const struct spex_shared_line *line;
    for (size_t i = 0; to->count < MOST && (line = spex_sharing_line(s, i)); i++) {
        struct spex_finding *finding = NULL;
        if (line->score < SPEX_FINDING_SCORE ||
            line->score * (double)line->samples < 0.005 * (double)spex_sharing_totals(s)->memory)
            continue;
        if (spex_finding_of_line(p->analysis, s, line, &finding))
            memory_checked(NULL);
        add(to, finding, line->address);
        spex_finding_free(finding);
    }
}

int whatif_find(const struct profile_options *reading, const char *file,
                struct whatif_findings *findings)
{
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want = SPEX_WANT_BASE | SPEX_WANT_SYMBOL |
                                                 SPEX_WANT_DATA | SPEX_WANT_SPENT};
    struct spex_error error;
    struct spex_sharing *sharing;
    struct profile p;
    const struct spex_finding *finding;
    int status = profile_open(&p, reading, file, &more);
    if (status)
        return status;
    if (spex_sharing_new(p.analysis, &sharing, &error)) {
        cli_error("%s", error.text);
        return CLI_DATA;
    }
    struct advice advice = advice_new(&p, true, spex_sink_find(sharing));
    status = advice_run(&advice, &p);
    for (size_t i = 0; !status && (finding = spex_findings_at(advice.findings, i)); i++)
        add(findings, finding, 0);
    if (!status && spex_sharing_choose(sharing))
        status = profile_run(&p, spex_sink_look(sharing));
    spex_sharing_finish(sharing);
    if (!status)
        add_lines(findings, &p, sharing);
    advice_free(&advice);
    spex_sharing_free(sharing);
    if (!file)
        return profile_close(&p);
    p.quiet = true; /* commands that read the profile print its notes */
    spex_analysis_close(p.analysis);
    p.analysis = NULL;
    out_fini(&p.out);
    profile_close(&p);
    return status;
}

/* ---- output ---- */

static int by_saving(const void *a, const void *b)
{
    const struct whatif_finding *x = a, *y = b;
    if (x->saves != y->saves)
        return x->saves > y->saves ? -1 : 1;
    return strcmp(x->title, y->title);
}

void whatif_sort_findings(struct whatif_findings *findings)
{
    if (findings->count)
        qsort(findings->items, findings->count, sizeof *findings->items, by_saving);
}

void whatif_print_findings(struct profile *p, const struct whatif_findings *findings, bool exact,
                           uint64_t clock)
{
    char text[400], time[32], saved[32];
    struct out *out = &p->out;
    if (!findings->count)
        profile_comment(p, out, "nothing was found that could be made ideal");
    else if (exact)
        profile_comment(p, out,
                        "%s as it is; what the run would save if a finding cost nothing, from a "
                        "model run for each",
                        text_time(time, (double)clock));
    else
        profile_comment(p, out,
                        "what was found, and its share of the time: fixing it saves no more. The "
                        "program was not run again, so it may be much less: spex whatif "
                        "--findings -- PROGRAM says it exactly, by the model");
    for (size_t i = 0; i < findings->count; i++) {
        const struct whatif_finding *f = &findings->items[i];
        if (exact && f->ideal)
            snprintf(text, sizeof text, "%s: %.1f%% at most (%s)", f->title, 100 * f->saves,
                     text_time(saved, f->saves * (double)clock));
        else
            snprintf(text, sizeof text, "%s: %.1f%% at most%s", f->title, 100 * f->saves,
                     exact ? ", its share of the time" : "");
        out_printf(out, "%zu. ", i + 1);
        cli_wrap(out, text, 3);
        out_printf(out, "   ");
        cli_wrap(out, f->text, 3);
        out_printf(out, "   do: ");
        cli_wrap(out, f->advice, 7);
        if (f->ideal)
            out_printf(out, "   ideal: %s\n", f->ideal);
    }
}

void whatif_json_findings(struct json *json, const struct whatif_findings *findings, bool exact)
{
    json_name(json, "findings");
    json_array_lines(json);
    for (size_t i = 0; i < findings->count; i++) {
        const struct whatif_finding *f = &findings->items[i];
        json_object(json);
        JSON_MEMBER(json, "title", string, f->title);
        JSON_MEMBER(json, "ideal", string, f->ideal);
        JSON_MEMBER(json, "saves", real, f->saves);
        JSON_MEMBER(json, "by", string, exact && f->ideal ? "model" : "share of the time");
        JSON_MEMBER(json, "text", string, f->text);
        JSON_MEMBER(json, "do", string, f->advice);
        json_end(json);
    }
    json_end(json);
}

void whatif_free_findings(struct whatif_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->items[i].ideal);
        free(findings->items[i].title);
        free(findings->items[i].text);
        free(findings->items[i].advice);
    }
    free(findings->items);
}
