/* spex verify: lists every violation of D18 and D17.6 in a stream, with its place and rule. */
#include "cli.h"
#include "profile.h"
#include "window.h"

#include <spex/perfdata.h>
#include "record/verifier.h"

#include "base/chunks.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum format { TEXT, JSON };

struct options {
    bool raw, rules;
    int format;
    const char *features, *ignore, *time;
    struct cli_list inputs;
    uint64_t threads, max_memory;
};

struct run {
    const struct options *options;
    struct arch_features features;        /* features of --features */
    struct arch_features core;            /* features of the core that recorded */
    const struct arch_features *in_use;   /* one of the two above; NULL: every feature is allowed */
    struct window *window;                /* --time */
    const char *name;                     /* name of the input */
    struct spex_verifier verifier, after; /* state before the current piece, and after it */
    struct chunks *chunks;
    struct out out;
    uint64_t violations, warnings;
    uint64_t done, all;                  /* bytes of the input; 0: not known */
    bool usage;                          /* a mistake was reported */
    const struct spex_perf_queue *queue; /* perf.data: the current queue */
    /* the current piece */
    const uint8_t *data;
    size_t size;
    uint64_t base;
    bool last;
};

/* What was found in one chunk of it. */
struct part {
    struct spex_verifier verifier;
    bool ends;                             /* the piece ends in this chunk */
    VEC(struct spex_violation) violations; /* record numbers count from the chunk's beginning */
};

/* ---- output ---- */

/* Prints the table of docs/verify.md. */
static void print_rules(struct out *out)
{
    const struct spex_rule *rule;
    out_text(out, "| rule | requirement | what the manual says |\n|---|---|---|\n");
    for (size_t i = 0; (rule = spex_verifier_rule(i)); i++)
        out_printf(out, "| `%s`%s%s | %s | %s%s%s |\n", rule->id, rule->exact ? " (*)" : "",
                   rule->unless ? " (w)" : "", rule->requirements, rule->title,
                   rule->unless ? "; unless " : "", rule->unless ? rule->unless : "");
}

/* Names a stream of a perf.data file: by CPU, or by thread if it has none. */
static const char *queue_name(const struct spex_perf_queue *queue, int32_t *number)
{
    *number = queue->cpu >= 0 ? queue->cpu : queue->tid;
    return queue->cpu >= 0 ? "cpu" : "tid";
}

static void print_text(struct out *out, const struct spex_violation *v,
                       const struct spex_perf_queue *queue)
{
    if (queue) {
        int32_t number;
        const char *name = queue_name(queue, &number);
        out_printf(out, "%s %d: ", name, number);
    }
    out_text(out, "0x");
    out_hex_fixed(out, v->offset, v->offset >> 32 ? 16 : 8);
    out_text(out, ": record ");
    out_u64(out, v->record);
    out_line(out, ": %s%s: %s (%s)", v->rule->unless ? "warning: " : "", v->rule->id, v->what,
             v->rule->title);
}

static void print_json(struct out *out, const struct spex_violation *v,
                       const struct spex_perf_queue *queue)
{
    struct json json = json_to(out);
    json_object(&json);
    if (queue) {
        int32_t number;
        const char *name = queue_name(queue, &number);
        json_name(&json, name);
        json_i64(&json, number);
    }
    JSON_MEMBER(&json, "offset", u64, v->offset);
    JSON_MEMBER(&json, "record", u64, v->record);
    JSON_MEMBER(&json, "rule", string, v->rule->id);
    JSON_MEMBER(&json, "warning", bool, v->rule->unless != NULL);
    json_name(&json, "requirements");
    json_array(&json);
    for (const char *p = v->rule->requirements; *p;) {
        char id[80];
        size_t n = strcspn(p, " ");
        snprintf(id, sizeof id, "%.*s", (int)n, p);
        json_string(&json, id);
        p += n + (p[n] == ' ');
    }
    json_end(&json);
    JSON_MEMBER(&json, "what", string, v->what);
    JSON_MEMBER(&json, "why", string, v->rule->title);
    json_end(&json);
}

/* ---- pieces, by several threads ---- */

static bool guess(void *user, size_t from, size_t to, struct chunks_state *state)
{
    const struct run *run = user;
    struct spex_record before;
    size_t start;
    if (!spex_record_find(run->data, run->size, from, to, &before, &start))
        return false;
    uint64_t begin = run->base + before.offset;
    *state = (struct chunks_state){start, {begin, begin + before.size}};
    return true;
}

static void check_chunk(void *user, unsigned thread, struct chunks_state *state, size_t to,
                        void *result)
{
    const struct run *run = user;
    struct part *part = result;
    struct spex_verifier *verifier = &part->verifier;
    struct spex_verifier_place place = {.begin = state->more[0], .end = state->more[1]};
    size_t from = (size_t)state->position;
    (void)thread;
    *verifier = run->verifier;
    verifier->records = 0;
    if (from)
        spex_verifier_feed_at(verifier, place, run->data + from, run->size - from, run->base + from,
                              run->last);
    else /* continue with what the piece before left open */
        spex_verifier_feed(verifier, run->data, run->size, run->base, run->last);
    if (to < run->size)
        spex_verifier_until(verifier, run->base + to);
    for (part->violations.count = 0;;) {
        struct spex_violation *violation = memory_checked(vec_push(&part->violations));
        if (spex_verifier_next(verifier, violation) != SPEX_OK)
            break;
    }
    part->violations.count--;
    part->ends = !spex_verifier_at_place(verifier, &place);
    size_t stop = part->ends ? run->size : run->size - spex_verifier_rest(verifier);
    *state = (struct chunks_state){stop, {place.begin, place.end}};
}

static bool print_chunk(void *user, void *result)
{
    struct run *run = user;
    const struct part *part = result;
    uint64_t records = run->after.records;
    for (size_t i = 0; i < part->violations.count; i++) {
        struct spex_violation v = part->violations.items[i];
        v.record += records;
        *(v.rule->unless ? &run->warnings : &run->violations) += 1;
        if (run->options->format == JSON)
            print_json(&run->out, &v, run->queue);
        else
            print_text(&run->out, &v, run->queue);
    }
    if (part->ends)
        run->after = part->verifier;
    run->after.records = records + part->verifier.records;
    return !run->out.error;
}

static void free_part(void *result)
{
    vec_free(&((struct part *)result)->violations);
}

/* Checks one piece. Returns how many of its bytes must be given again. */
static size_t check(struct run *run, const uint8_t *data, size_t size, uint64_t base, bool last)
{
    const struct chunks_job job = {
        .user = run,
        .size = size,
        .chunk = 64 * 1024,
        .guess = guess,
        .run = check_chunk,
        .reduce = print_chunk,
    };
    struct chunks_state state = {.position = 0};
    run->data = data;
    run->size = size;
    run->base = base;
    run->last = last;
    run->after = run->verifier;
    if (size) {
        chunks_run(run->chunks, &job, &state);
    } else { /* check the end of the stream, and what was left open */
        struct part part = {.ends = false};
        check_chunk(run, 0, &state, 0, &part);
        print_chunk(run, &part);
        free_part(&part);
    }
    run->verifier = run->after;
    return run->out.error ? 0 : spex_verifier_rest(&run->verifier);
}

/* ---- the implementation ---- */

/* Starts over for another implementation; the count of records goes on. */
static int start(struct run *run, const struct arch_features *features)
{
    uint64_t records = run->verifier.records;
    run->in_use = features;
    verifier_init(&run->verifier, features);
    run->verifier.records = records;
    for (const char *list = run->options->ignore; list && *list;) {
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

/*
 * Finds the preset of the core that recorded, whatever its variant and revision, with ts as in its
 * event.
 */
static bool recorded_on(const struct spex_perfdata *file, int32_t cpu,
                        struct arch_features *features)
{
    const uint64_t core = 0xff00fff0; /* implementer and part */
    uint64_t midr = spex_perfdata_midr(file, cpu);
    const struct spex_perf_attr *attr = spex_perfdata_spe_attr(file);
    const char *name;
    for (size_t i = 0; attr && midr && (name = spex_features_preset_name(i)); i++) {
        arch_features_preset(name, features);
        if ((features->midr & core) == (midr & core) && features->midr >> 24) {
            features->TS = attr->config[0] & 1;
            return true;
        }
    }
    return false;
}

/* ---- inputs ---- */

/* For --time: each run of adjacent chosen records is a separate stream. */
struct windowed {
    struct run *run;
    const uint8_t *data;
    uint64_t base;
};

static void check_records(void *context, size_t from, size_t to)
{
    const struct windowed *w = context;
    start(w->run, w->run->in_use);
    /* the padding of the last record is cut off */
    spex_verifier_ignore(&w->run->verifier, "record-align");
    check(w->run, w->data + from, to - from, w->base + from, true);
}

/* Like check, but with --time. */
static size_t check_piece(struct run *run, const uint8_t *data, size_t size, uint64_t base,
                          bool last)
{
    struct windowed windowed = {run, data, base};
    cli_progress_end(); /* violations may go to the same terminal */
    size_t rest = run->window
                      ? size - window_feed(run->window, data, size, last, check_records, &windowed)
                      : check(run, data, size, base, last);
    run->done += size - rest;
    if (isatty(STDOUT_FILENO))
        out_flush(&run->out);
    cli_progress(run->name, run->done, run->all);
    return rest;
}

static bool check_raw(struct run *run, const char *path)
{
    enum { BLOCK = 4 << 20 };
    bool standard = !strcmp(path, "-"), ok = true;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *block = malloc(BLOCK);
    size_t size = 0;
    uint64_t base = 0;
    run->all = fd < 0 ? 0 : cli_size(fd);
    while (fd >= 0 && block && !run->out.error) {
        ssize_t n = read(fd, block + size, BLOCK - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            ok = false;
            break;
        }
        size += (size_t)n;
        if (n > 0 && size < BLOCK)
            continue;
        size_t kept = check_piece(run, block, size, base, n == 0);
        if (n == 0)
            break;
        memmove(block, block + size - kept, kept);
        base += size - kept;
        size = kept;
    }
    if (fd < 0 || !block || !ok)
        cli_error("%s: %s", standard ? "standard input" : path, strerror(errno));
    ok = ok && fd >= 0 && block;
    free(block);
    if (fd >= 0 && !standard)
        close(fd);
    return ok;
}

static bool check_perfdata(struct run *run, const char *path)
{
    struct spex_perfdata *file;
    struct spex_error error;
    if (spex_perfdata_open(path, &file, &error)) {
        cli_error("%s%s", error.text,
                  error.status == SPEX_INVALID     ? "; --raw reads a bare SPE stream"
                  : error.status == SPEX_NO_MEMORY ? PROFILE_MORE_MEMORY
                                                   : "");
        return false;
    }
    bool ok = true;
    run->all = spex_perfdata_info(file)->aux_bytes;
    if (run->options->time && window_new(run->options->time, file, &run->window)) {
        spex_perfdata_close(file);
        run->usage = true;
        return false;
    }
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++) {
        const struct spex_perf_problem *p = spex_perfdata_problem(file, i);
        profile_problem(path, p);
        ok = false;
    }
    const struct spex_perf_info *info = spex_perfdata_info(file);
    profile_losses(path, info->lost, info->truncated);
    if (!spex_perfdata_queue_count(file)) {
        cli_error("%s: no SPE data in this file", path);
        ok = false;
    }
    for (size_t i = 0; i < spex_perfdata_queue_count(file) && !run->out.error; i++) {
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        run->queue = spex_perfdata_queue(file, i);
        if (!run->options->features && recorded_on(file, run->queue->cpu, &run->core))
            start(run, &run->core);
        if (run->window)
            window_restart(run->window);
        if (spex_aux_open(file, i, &cursor)) {
            cli_error("%s: out of memory", path);
            ok = false;
            break;
        }
        while (!run->out.error && spex_aux_next(cursor, &span) == SPEX_OK) {
            size_t rest = check_piece(run, span.data, span.size, span.offset, span.last);
            if (!span.last)
                spex_aux_keep(cursor, rest);
        }
        spex_aux_close(cursor);
    }
    spex_perfdata_close(file);
    return ok;
}

/* ---- command ---- */

static bool check_input(struct run *run, const char *path, bool several)
{
    const struct options *o = run->options;
    if (several && o->format == TEXT)
        out_line(&run->out, "# %s", path);
    run->name = strcmp(path, "-") ? path : "standard input";
    run->done = 0;
    run->usage = o->raw && o->time && window_new(o->time, NULL, &run->window);
    bool ok = !run->usage && (o->raw ? check_raw(run, path) : check_perfdata(run, path));
    window_free(run->window);
    run->window = NULL;
    cli_progress_end();
    return ok;
}

static void print_summary(const struct run *run)
{
    uint64_t records = run->verifier.records;
    char warnings[40] = "";
    if (run->warnings)
        snprintf(warnings, sizeof warnings, ", %llu %s", (unsigned long long)run->warnings,
                 run->warnings == 1 ? "warning" : "warnings");
    cli_note("%llu %s, %llu %s%s", (unsigned long long)records, records == 1 ? "record" : "records",
             (unsigned long long)run->violations, run->violations == 1 ? "violation" : "violations",
             warnings);
}

static int run_verify(void *data, int argc, char **argv)
{
    const struct options *options = data;
    struct run run = {.options = options};
    struct spex_error error = {0};
    size_t count = options->inputs.count + (size_t)argc;
    if (options->features && arch_features_parse(options->features, &run.features, &error))
        return cli_usage("--features: %s", error.text);
    int status = start(&run, options->features ? &run.features : NULL);
    if (status)
        return status;
    run.chunks = chunks_new(cli_threads(options->threads), sizeof(struct part));
    if (!run.chunks) {
        cli_error("out of memory");
        return CLI_DATA;
    }
    out_init(&run.out, STDOUT_FILENO);
    bool ok = true;
    if (options->rules)
        print_rules(&run.out);
    for (size_t i = 0; !options->rules && i < (count ? count : 1) && !run.usage; i++) {
        const char *path = !count                      ? "perf.data"
                           : i < options->inputs.count ? options->inputs.items[i]
                                                       : argv[i - options->inputs.count];
        if (i) /* each input is a separate stream */
            start(&run, options->features ? &run.features : NULL);
        ok &= check_input(&run, path, count > 1);
    }
    chunks_free(run.chunks, free_part);
    int failed = out_fini(&run.out);
    if (failed)
        cli_error("standard output: %s", strerror(failed));
    if (run.usage)
        return CLI_USAGE;
    if (!options->rules && (ok || run.verifier.records))
        print_summary(&run);
    return ok && !failed && !run.violations ? CLI_OK : CLI_DATA;
}

static const char *const formats[] = {"text", "json", NULL};

const struct cli_command cli_verify = {
    .name = "verify",
    .group = CLI_RECORDS,
    .synopsis = "[FILE|-]...",
    .summary = "check a stream against the manual for a feature set",
    .details = "Prints one line per violation: offset, record, rule, what was found, and what the "
               "manual says. A violation is what no conforming implementation may write, a warning "
               "what only one reading of the manual allows. Exit status 1 if there is any "
               "violation.\n\n"
               "FILE is a perf.data file (default perf.data), or with --raw the bytes of an SPE "
               "buffer; - is standard input. Without --features the core that a perf.data file "
               "names is taken if there is a preset for it; else anything that some implementation "
               "may write passes. 'spex help features' explains LIST.\n\n"
               "An implementation may leave out a counter whose value is fixed (D17.6): say so "
               "with --ignore, for example --ignore issue-missing.",
    .options =
        (const struct cli_option[]){
            {"raw", 'r', CLI_FLAG, offsetof(struct options, raw), NULL,
             "the input is an SPE stream, not a perf.data file", NULL, NULL},
            {"features", 'F', CLI_STRING, offsetof(struct options, features), "LIST",
             "features of the implementation, for example neoverse-n1,no-ts", NULL, NULL},
            {"ignore", 0, CLI_STRING, offsetof(struct options, ignore), "RULES",
             "ignore these rules, separated by commas", NULL, NULL},
            {"format", 'f', CLI_CHOICE, offsetof(struct options, format), "FORMAT", "text or json",
             "text", formats},
            {"rules", 0, CLI_FLAG, offsetof(struct options, rules), NULL, "list the rules and exit",
             NULL, NULL},
            {"input", 'i', CLI_LIST, offsetof(struct options, inputs), "FILE",
             "the input; several are checked one after the other", NULL, NULL},
            CLI_WINDOW(offsetof(struct options, time)),
            CLI_THREADS(struct options, threads),
            CLI_MEMORY(offsetof(struct options, max_memory)),
            {NULL},
        },
    .size = sizeof(struct options),
    .run = run_verify,
};
