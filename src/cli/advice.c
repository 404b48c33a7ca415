#include "advice.h"

#include "report/words.h"

#include <stdio.h>
#include <stdlib.h>

struct advice advice_new(struct profile *p, bool wanted, struct spex_sink sink)
{
    struct advice a = {0};
    struct spex_error error;
    if (wanted && spex_findings_new(p->analysis, &a.findings, &error)) {
        cli_error("%s", error.text);
        exit(CLI_DATA);
    }
    if (a.findings)
        advice_feed(&a, spex_sink_findings(a.findings));
    if (sink.call)
        advice_feed(&a, sink);
    return a;
}

void advice_feed(struct advice *a, struct spex_sink sink)
{
    a->sinks[a->sink_count++] = sink;
}

void advice_free(struct advice *a)
{
    spex_findings_free(a->findings);
    a->findings = NULL;
}

int advice_run(struct advice *a, struct profile *p)
{
    int status = profile_run_all(p, a->sinks, a->sink_count);
    if (!status && a->findings)
        spex_findings_finish(a->findings, NULL);
    return status;
}

static void paragraph(struct profile *p, unsigned indent, const char *before, const char *text)
{
    unsigned more = indent + (unsigned)strlen(before);
    out_printf(&p->out, "%*s%s", (int)indent, "", before);
    cli_wrap(&p->out, text, more);
}

void advice_do(struct profile *p, const struct spex_finding *finding, unsigned indent)
{
    out_printf(&p->out, "%*s%sdo:%s ", (int)indent, "", p->colour ? "\033[1m" : "",
               p->colour ? "\033[0m" : "");
    char *text = words_of(finding, WORDS_DO, true);
    cli_wrap(&p->out, text, indent + 4);
    free(text);
}

/* Writes the command, with the files that it has to read. */
static void name_command(const struct profile *p, const char *command, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%s", command);
    if (!p->directory || (!p->paths[1] && !strcmp(p->paths[0], "perf.data")))
        return;
    for (size_t i = 0; p->paths[i] && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, " -i %s", p->paths[i]);
}

void advice_print(const struct advice *a, struct profile *p)
{
    const struct spex_finding *finding;
    if (!a->findings || p->options->format != TABLE_AS_TEXT || p->options->fields)
        return;
    for (size_t i = 0; (finding = spex_findings_at(a->findings, i)); i++) {
        char number[24], see[1000];
        snprintf(number, sizeof number, "%zu. ", i + 1);
        char *found = words_of(finding, WORDS_FOUND, spex_findings_timed(a->findings));
        char *command = words_of(finding, WORDS_SEE, true);
        name_command(p, command, see, sizeof see);
        if (!i)
            out_char(&p->out, '\n');
        paragraph(p, 0, number, found);
        advice_do(p, finding, (unsigned)strlen(number));
        paragraph(p, (unsigned)strlen(number), "see: ", see);
        free(found);
        free(command);
    }
}

void advice_json(const struct advice *a, struct json *json)
{
    json_name(json, "findings");
    words_write(a->findings, json);
}
