/* spex verify: every violation of D18 and D17.6 in a stream, with its place and rule. */
#include "cli.h"

#include <spex/verify.h>

#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum format { TEXT, JSON };

struct options {
    bool raw, rules;
    int format;
    const char *features, *ignore, *input;
};

struct run {
    const struct options *options;
    struct spex_verifier verifier;
    struct out out;
    uint64_t violations;
};

/* ---- output ---- */

/* The table of docs/verify.md. */
static void print_rules(struct out *out)
{
    const struct spex_rule *rule;
    out_text(out, "| rule | requirement | what the manual says |\n|---|---|---|\n");
    for (size_t i = 0; (rule = spex_verifier_rule(i)); i++)
        out_printf(out, "| `%s`%s | %s | %s |\n", rule->id, rule->exact ? " (*)" : "",
                   rule->requirements, rule->title);
}

static void print_json(struct out *out, const struct spex_violation *v)
{
    out_text(out, "{\"offset\":");
    out_u64(out, v->offset);
    out_text(out, ",\"record\":");
    out_u64(out, v->record);
    out_printf(out, ",\"rule\":\"%s\",\"requirements\":[", v->rule->id);
    for (const char *p = v->rule->requirements; *p;) {
        size_t n = strcspn(p, " ");
        out_printf(out, "%s\"%.*s\"", p == v->rule->requirements ? "" : ",", (int)n, p);
        p += n + (p[n] == ' ');
    }
    out_text(out, "],\"what\":");
    out_json_string(out, v->what);
    out_text(out, ",\"why\":");
    out_json_string(out, v->rule->title);
    out_text(out, "}\n");
}

/* Checks one piece. Returns how many of its bytes must come again. */
static size_t check(struct run *run, const uint8_t *data, size_t size, uint64_t base, bool last)
{
    struct spex_violation v;
    spex_verifier_feed(&run->verifier, data, size, base, last);
    while (spex_verifier_next(&run->verifier, &v) == SPEX_OK) {
        run->violations++;
        if (run->options->format == JSON) {
            print_json(&run->out, &v);
            continue;
        }
        out_text(&run->out, "0x");
        out_hex_fixed(&run->out, v.offset, v.offset >> 32 ? 16 : 8);
        out_text(&run->out, ": record ");
        out_u64(&run->out, v.record);
        out_printf(&run->out, ": %s: %s (%s)\n", v.rule->id, v.what, v.rule->title);
    }
    return spex_verifier_rest(&run->verifier);
}

/* ---- inputs ---- */

static bool check_raw(struct run *run, const char *path)
{
    enum { BLOCK = 1 << 20 };
    bool standard = !strcmp(path, "-"), ok = true;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *block = malloc(BLOCK);
    size_t kept = 0;
    uint64_t base = 0;
    while (fd >= 0 && block && !run->out.error) {
        ssize_t n = read(fd, block + kept, BLOCK - kept);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            ok = false;
            break;
        }
        size_t size = kept + (size_t)n;
        kept = check(run, block, size, base, n == 0);
        if (n == 0)
            break;
        memmove(block, block + size - kept, kept);
        base += size - kept;
    }
    if (fd < 0 || !block || !ok)
        cli_error("%s: %s", standard ? "standard input" : path, strerror(errno));
    ok = ok && fd >= 0 && block;
    free(block);
    if (fd >= 0 && !standard)
        close(fd);
    return ok;
}

/* ---- command ---- */

static int ignore_rules(struct run *run, const char *list)
{
    while (list && *list) {
        char id[64];
        size_t n = strcspn(list, ",");
        snprintf(id, sizeof id, "%.*s", (int)n, list);
        if (n && spex_verifier_ignore(&run->verifier, id) != SPEX_OK) {
            const char *names[200];
            size_t count = 0;
            for (; count < 200 && spex_verifier_rule(count); count++)
                names[count] = spex_verifier_rule(count)->id;
            const char *near = cli_nearest(id, names, count);
            return near ? cli_usage("--ignore: no rule '%s'; did you mean '%s'?", id, near)
                        : cli_usage("--ignore: no rule '%s'; --rules lists them", id);
        }
        list += n + (list[n] == ',');
    }
    return CLI_OK;
}

static int run_verify(void *data, int argc, char **argv)
{
    const struct options *options = data;
    struct run run = {.options = options};
    struct spex_features features;
    struct spex_error error = {0};
    if (argc + (options->input != NULL) > 1)
        return cli_usage("one input only");
    const char *path = argc ? argv[0] : options->input ? options->input : "perf.data";
    if (options->features && spex_features_parse(options->features, &features, &error))
        return cli_usage("--features: %s", error.text);
    spex_verifier_init(&run.verifier, options->features ? &features : NULL);
    int status = ignore_rules(&run, options->ignore);
    if (status)
        return status;
    out_init(&run.out, STDOUT_FILENO);
    bool ok = true;
    if (options->rules)
        print_rules(&run.out);
    else if (options->raw)
        ok = check_raw(&run, path);
    else
        status = cli_usage("%s: reading perf.data is not there yet; use --raw", path);
    int failed = out_fini(&run.out);
    if (failed)
        cli_error("standard output: %s", strerror(failed));
    if (!status && ok && !options->rules)
        fprintf(stderr, "spex: %llu %s, %llu %s\n", (unsigned long long)run.verifier.records,
                run.verifier.records == 1 ? "record" : "records",
                (unsigned long long)run.violations,
                run.violations == 1 ? "violation" : "violations");
    return status ? status : ok && !failed && !run.violations ? CLI_OK : CLI_DATA;
}

static const char *const formats[] = {"text", "json", NULL};

const struct cli_command cli_verify = {
    .name = "verify",
    .group = "Records",
    .synopsis = "[FILE|-]",
    .summary = "check a stream against the manual for a feature set",
    .details = "Prints one line per violation: offset, record, rule, what was found, and what the "
               "manual says. Only what no conforming implementation may write is a violation. "
               "Exit status 1 if there is any.\n\n"
               "FILE is a perf.data file (default perf.data), or with --raw the bytes of an SPE "
               "buffer; - is standard input. Without --features anything that some implementation "
               "may write passes; see 'spex generate --help' for the form of LIST.\n\n"
               "An implementation may leave out a counter whose value is fixed (D17.6): tell with "
               "--ignore issue-missing and the like.",
    .options =
        (const struct cli_option[]){
            {"raw", 'r', CLI_FLAG, offsetof(struct options, raw), NULL,
             "the input is an SPE stream, not a perf.data file", NULL, NULL},
            {"features", 'F', CLI_STRING, offsetof(struct options, features), "LIST",
             "what the implementation has, for example neoverse-n1,no-ts", NULL, NULL},
            {"ignore", 0, CLI_STRING, offsetof(struct options, ignore), "RULES",
             "leave these rules out, separated by commas", NULL, NULL},
            {"format", 'f', CLI_CHOICE, offsetof(struct options, format), "FORMAT",
             "text or json", "text", formats},
            {"rules", 0, CLI_FLAG, offsetof(struct options, rules), NULL,
             "print the table of rules instead", NULL, NULL},
            {"input", 'i', CLI_STRING, offsetof(struct options, input), "FILE", "the input",
             NULL, NULL},
            {NULL},
        },
    .size = sizeof(struct options),
    .run = run_verify,
};
