/* spex generate: makes random conforming streams from a seed, intact or damaged. */
#include "cli.h"
#include "output.h"

#include "record/generator.h"

#include "base/json.h"
#include "base/out.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    uint64_t seed, records;
    int layout, damage; /* index of the choices below */
    const char *features, *align, *ops, *output, *truth;
};

static const char *const layouts[] = {"compact", "n1", "hisi", NULL}; /* enum spex_layout */
static const char *const damages[] = {"none", "truncate", "flip", "lose", "splice", NULL};

/* PMBIDR_EL1.Align itself, or a number of bytes, at least 16. */
static bool parse_align(const char *text, unsigned *align)
{
    char *end;
    unsigned long value = strtoul(text, &end, 0);
    if (*text < '0' || *text > '9' || *end)
        return false;
    if (value >= 16 && value <= 2048 && !(value & (value - 1)))
        value = (unsigned)__builtin_ctzl(value);
    *align = (unsigned)value;
    return value <= 11;
}

static bool parse_ops(const char *list, unsigned *ops)
{
    static const char *const names[] = {"load", "store", "branch", "other"};
    *ops = 0;
    while (list && *list) {
        size_t n = strcspn(list, ","), i = 0;
        while (i < 4 && !(strlen(names[i]) == n && !strncmp(names[i], list, n)))
            i++;
        if (i == 4)
            return false;
        *ops |= 1u << i;
        list += n + (list[n] == ',');
    }
    return true;
}

struct work {
    struct spex_generator *generator;
    const struct options *options;
    struct out stream; /* with damage or truth, the whole stream is needed at once */
    struct spex_record *records;
    size_t count;
};

static bool end(const char *name, struct out *out)
{
    int problem = out_fini(out);
    if (problem)
        cli_error("%s: %s", name, strerror(problem));
    return !problem;
}

/*
 * Writes one line for each record that a perfect decoder finds: where it is, its length and its
 * bytes.
 */
static bool write_truth(void *context, int fd)
{
    const struct work *w = context;
    struct out out;
    out_init(&out, fd);
    for (size_t i = 0; i < w->count; i++) {
        const struct spex_record *r = &w->records[i];
        struct json json = json_to(&out);
        JSON_FIRST(&json, "offset", u64, r->offset);
        JSON_MEMBER(&json, "size", u64, r->size);
        JSON_MEMBER(&json, "bytes", bytes, (uint8_t *)w->stream.data + r->offset, r->size);
        json_end(&json);
    }
    return end(w->options->truth, &out);
}

static bool write_whole(void *context, int fd)
{
    const struct work *w = context;
    struct out out;
    out_init(&out, fd);
    out_bytes(&out, w->stream.data, w->stream.size);
    return end(w->options->output, &out);
}

static bool write_stream(void *context, int fd)
{
    const struct work *w = context;
    struct out out;
    struct spex_record record;
    out_init(&out, fd);
    for (uint64_t i = 0; i < w->options->records && !out.error; i++)
        out.size +=
            spex_generator_next(w->generator, (uint8_t *)out_room(&out, SPEX_RECORD_MAX), &record);
    return end(w->options->output, &out);
}

/* Makes the whole stream at once; CLI_OK, or CLI_DATA after a message. */
static int generate_whole(struct work *w)
{
    const struct options *o = w->options;
    w->count = (size_t)o->records;
    w->records = calloc(w->count ? w->count : 1, sizeof *w->records);
    bool ok = w->records != NULL;
    for (size_t i = 0; ok && i < w->count; i++) {
        uint8_t *room = (uint8_t *)out_room(&w->stream, SPEX_RECORD_MAX);
        w->stream.size += spex_generator_next(w->generator, room, &w->records[i]);
        ok = !w->stream.error;
    }
    if (!ok) {
        cli_error("out of memory for %llu records; damage needs all of them at once",
                  (unsigned long long)o->records);
        return CLI_DATA;
    }
    if (o->damage)
        w->count =
            spex_damage_apply((enum spex_damage_kind)(o->damage - 1), o->seed,
                              (uint8_t *)w->stream.data, &w->stream.size, w->records, w->count);
    return CLI_OK;
}

static int generate(struct spex_generator *generator, const struct options *o)
{
    struct work w = {.generator = generator, .options = o};
    struct output output, truth = {.stream = -1};
    int status = output_open(&output, o->output, 0);
    if (!status && o->truth && !(status = output_open(&truth, o->truth, 0)) &&
        output_same(&output, &truth))
        status = cli_usage("-o and --truth name the same file");
    out_init(&w.stream, -1);
    bool whole = o->damage || o->truth;
    if (!status && whole)
        status = generate_whole(&w);
    if (!status && o->truth)
        status = output_make(&truth, write_truth, &w);
    if (!status)
        status = output_make(&output, whole ? write_whole : write_stream, &w);
    out_fini(&w.stream);
    free(w.records);
    output_close(&truth);
    output_close(&output);
    return status;
}

static int run(void *data, int argc, char **argv)
{
    struct options *o = data;
    struct generate_options options = {.seed = o->seed, .layout = (enum spex_layout)o->layout};
    struct spex_generator generator;
    struct spex_error error = {0};
    if (argc)
        return cli_usage("unexpected operand '%s'", argv[0]);
    if (arch_features_parse(o->features ? o->features : "max", &options.features, &error))
        return cli_usage("--features: %s", error.text);
    if (!parse_ops(o->ops, &options.ops))
        return cli_usage("--ops: '%s' is not a list of load, store, branch, other", o->ops);
    options.align = options.features.Align;
    if (o->align && !parse_align(o->align, &options.align))
        return cli_usage("--align: '%s' is neither a log2 (0 to 11) nor a power of two up to 2048",
                         o->align);
    if (generator_init(&generator, &options, &error))
        return cli_usage("%s", error.text);
    if (!strcmp(o->output, "-") && isatty(STDOUT_FILENO))
        return cli_usage("will not write packets to a terminal; use -o FILE or a pipe");
    return generate(&generator, o);
}

const struct cli_command cli_generate = {
    .name = "generate",
    .group = CLI_RECORDS,
    .synopsis = "",
    .summary = "write random conforming records",
    .details =
        "Writes an SPE stream (spex reads it with --raw) that uses every packet, subclass, "
        "size "
        "and header form of the feature set. The same options give the same bytes on every "
        "machine.\n\n"
        "'spex help features' explains LIST.\n\n"
        "--damage ends the stream inside a record (truncate), flips bits in some records "
        "(flip), "
        "drops runs of bytes (lose), or starts in the middle of a record and jumps, like a "
        "ring "
        "buffer that was overwritten (splice). --truth then lists what a perfect decoder still "
        "finds: one JSON object per intact record with its offset, size and bytes.",
    .options =
        (const struct cli_option[]){
            {"seed", 's', CLI_NUMBER, offsetof(struct options, seed), "N", "random seed", "1",
             NULL},
            {"records", 'n', CLI_NUMBER, offsetof(struct options, records), "N",
             "number of records", "1000", NULL},
            {"features", 'F', CLI_STRING, offsetof(struct options, features), "LIST",
             "what the implementation has", "max", NULL},
            {"layout", 'l', CLI_CHOICE, offsetof(struct options, layout), "LAYOUT",
             "compact, n1 (64 bytes, fixed places) or hisi", "compact", layouts},
            {"align", 'a', CLI_STRING, offsetof(struct options, align), "N",
             "pad records to 2^N bytes, or to N bytes from 16 on (default: as the features "
             "say)",
             NULL, NULL},
            {"ops", 0, CLI_STRING, offsetof(struct options, ops), "LIST",
             "only these: load, store, branch, other", NULL, NULL},
            {"output", 'o', CLI_STRING, offsetof(struct options, output), "FILE",
             "the stream; - for standard output", "-", NULL},
            {"damage", 0, CLI_CHOICE, offsetof(struct options, damage), "KIND",
             "none, truncate, flip, lose or splice", "none", damages},
            {"truth", 0, CLI_STRING, offsetof(struct options, truth), "FILE",
             "list the intact records here", NULL, NULL},
            {NULL},
        },
    .size = sizeof(struct options),
    .run = run,
};
