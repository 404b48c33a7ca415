/* spex generate: seeded random conforming streams, whole or damaged. */
#include "cli.h"

#include "record/generator.h"

#include "base/json.h"
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

static bool open_output(const char *path, struct out *out)
{
    int fd = !path || !strcmp(path, "-")
                 ? STDOUT_FILENO
                 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        cli_error("%s: %s", path, strerror(errno));
    else
        out_init(out, fd);
    return fd >= 0;
}

static bool close_output(const char *path, struct out *out)
{
    int fd = out->fd, failed = out_fini(out);
    if (fd != STDOUT_FILENO && close(fd) && !failed)
        failed = errno;
    if (failed)
        cli_error("%s: %s", path && strcmp(path, "-") ? path : "standard output", strerror(failed));
    return !failed;
}

/* One line per record that a perfect decoder finds: where, how long, and its bytes. */
static bool write_truth(const char *path, const uint8_t *data, const struct spex_record *records,
                        size_t count)
{
    struct out out;
    if (!open_output(path, &out))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct json json = json_to(&out);
        JSON_FIRST(&json, "offset", u64, records[i].offset);
        JSON_MEMBER(&json, "size", u64, records[i].size);
        JSON_MEMBER(&json, "bytes", bytes, data + records[i].offset, records[i].size);
        json_end(&json);
    }
    return close_output(path, &out);
}

/* With damage or truth the whole stream is needed at once. */
static bool generate_whole(struct spex_generator *g, const struct options *o)
{
    struct out stream, out;
    struct spex_record *records = calloc(o->records ? o->records : 1, sizeof *records);
    size_t count = (size_t)o->records;
    bool ok = records != NULL;
    out_init(&stream, -1);
    for (size_t i = 0; ok && i < count; i++) {
        uint8_t *room = (uint8_t *)out_room(&stream, SPEX_RECORD_MAX);
        stream.size += spex_generator_next(g, room, &records[i]);
        ok = !stream.error;
    }
    if (!ok) {
        cli_error("out of memory for %llu records; damage needs all of them at once",
                  (unsigned long long)o->records);
    } else {
        uint8_t *data = (uint8_t *)stream.data;
        if (o->damage)
            count = spex_damage_apply((enum spex_damage_kind)(o->damage - 1), o->seed, data,
                                      &stream.size, records, count);
        ok = (!o->truth || write_truth(o->truth, data, records, count)) &&
             open_output(o->output, &out);
        if (ok) {
            out_bytes(&out, data, stream.size);
            ok = close_output(o->output, &out);
        }
    }
    out_fini(&stream);
    free(records);
    return ok;
}

static bool generate_stream(struct spex_generator *g, const struct options *o)
{
    struct out out;
    struct spex_record record;
    if (!open_output(o->output, &out))
        return false;
    for (uint64_t i = 0; i < o->records && !out.error; i++)
        out.size += spex_generator_next(g, (uint8_t *)out_room(&out, SPEX_RECORD_MAX), &record);
    return close_output(o->output, &out);
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
    if ((!o->output || !strcmp(o->output, "-")) && isatty(STDOUT_FILENO))
        return cli_usage("will not write packets to a terminal; use -o FILE or a pipe");
    bool ok =
        o->damage || o->truth ? generate_whole(&generator, o) : generate_stream(&generator, o);
    return ok ? CLI_OK : CLI_DATA;
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
            {"seed", 's', CLI_NUMBER, offsetof(struct options, seed), "N", "seed of the numbers",
             "1", NULL},
            {"records", 'n', CLI_NUMBER, offsetof(struct options, records), "N", "how many records",
             "1000", NULL},
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
             "the stream; default standard output", NULL, NULL},
            {"damage", 0, CLI_CHOICE, offsetof(struct options, damage), "KIND",
             "none, truncate, flip, lose or splice", "none", damages},
            {"truth", 0, CLI_STRING, offsetof(struct options, truth), "FILE",
             "list the intact records here", NULL, NULL},
            {NULL},
        },
    .size = sizeof(struct options),
    .run = run,
};
