/* Help topics: the tables that several commands take names from. */
#include "cli.h"

#include "cli/columns.h"

#include "base/out.h"

#include "export/export.h"
#include <spex/features.h>
#include "guest/cpu.h"

#include <stdio.h>
#include <stdlib.h>

enum { INDENT = 18 };

static void row(struct out *out, const char *name, const char *text)
{
    if (strlen(name) > INDENT - 3)
        out_printf(out, "  %s\n%*s", name, INDENT, "");
    else
        out_printf(out, "  %-*s", INDENT - 2, name);
    cli_wrap(out, text, INDENT);
}

static void print_features(struct out *out)
{
    const char *name, *text;
    out_text(out, "A feature list is a preset or a version, then NAME, no-NAME or NAME=VALUE, "
                  "separated\nby commas: 'neoverse-n1', 'v1p2,pbt,align=6', "
                  "'max,no-sme,no-spe-sme'. midr=VALUE is\nMIDR_EL1, by which readers "
                  "know the meaning of Data Source packets.\n\nPresets:");
    for (size_t i = 0; (name = spex_features_preset_name(i)); i++)
        out_printf(out, " %s", name);
    out_text(out, "\nVersions: v1p0 v1p1 v1p2 v1p3 v1p4 v1p5\n\nNames:\n");
    for (size_t i = 0; (name = spex_features_describe(i, &text)); i++)
        row(out, name, text);
}

static void print_model(struct out *out)
{
    struct uarch_parameter p;
    struct uarch_config config[16];
    size_t presets = 0;
    const char *name;
    out_text(
        out,
        "--model takes words separated by commas: KEY=VALUE (K, M and G are powers of "
        "1024), the name\nof a preset, and one of\n"
        "  sampled  the default: as full, but with details only near samples; costs seven to nine\n"
        "        tenths of it (several threads: details of all operations, at the cost of full)\n"
        "  full  an account of time for every operation, as --truth needs it; prefetch=none "
        "switches\n"
        "        prefetchers off\n"
        "  none  no caches, TLBs or prediction\n"
        "docs/model.md explains it. Values below are of the presets in this order:");
    while (presets < 16 && (name = uarch_preset_name(presets)) &&
           !uarch_config_preset(name, &config[presets], NULL)) {
        out_printf(out, " %s", name);
        presets++;
    }
    out_text(out, "\n\n");
    for (size_t i = 0; uarch_parameter(i, &p); i++) {
        char text[500];
        int n = snprintf(text, sizeof text, "%s:", p.text);
        for (size_t c = 0; c < presets && n < (int)sizeof text; c++)
            n +=
                snprintf(text + n, sizeof text - (size_t)n, " %u", uarch_config_get(&config[c], i));
        if (n < (int)sizeof text)
            snprintf(text + n, sizeof text - (size_t)n, " %s", p.unit);
        row(out, p.key, text);
    }
}

/* Says how many of a file's lines have which source. */
static void print_sources(struct out *out, const char *text)
{
    struct {
        char name[16];
        unsigned count;
    } kinds[16] = {{"", 0}};
    size_t n = 0;
    char line[400];
    for (size_t length; *text; text += length + (text[length] != '\0')) {
        char key[32], value[64], source[16];
        length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        if (line[0] == '#' || sscanf(line, "%31s %63s %15s", key, value, source) != 3)
            continue;
        source[strcspn(source, ":")] = '\0'; /* drops the reference after the colon */
        size_t i = 0;
        while (i < n && strcmp(kinds[i].name, source))
            i++;
        if (i == sizeof kinds / sizeof kinds[0])
            continue;
        if (i == n)
            memcpy(kinds[n++].name, source, sizeof source);
        kinds[i].count++;
    }
    int at = snprintf(line, sizeof line, "Lines by source:");
    for (size_t i = 0; i < n; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, "%s %u %s", i ? "," : "",
                       kinds[i].count, kinds[i].name);
    out_printf(out, "%*s", INDENT, "");
    cli_wrap(out, line, INDENT);
}

static void print_cpus(struct out *out)
{
    const char *name;
    cli_wrap(out,
             "--cpu takes one of these presets, also with features after it "
             "(neoverse-n1,no-ernd); the path of a file of the same form, which has a / in it or "
             "ends with .cpu; or a feature list alone, which goes with the numbers of "
             "neoverse-n1. The presets are files in share/cpus: copy one to describe your own. "
             "docs/model.md has all numbers and what the sources are.",
             0);
    for (size_t i = 0; (name = uarch_preset_name(i)); i++) {
        struct cpu_choice cpu;
        char text[200];
        const char *file = uarch_preset_text(i) + 2; /* the text begins with a comment */
        out_char(out, '\n');
        snprintf(text, sizeof text, "%.*s", (int)strcspn(file, "\n"), file);
        row(out, name, text);
        if (cpu_parse(name, &cpu, NULL))
            continue;
        snprintf(text, sizeof text, "SPEv1.%u, MIDR_EL1 0x%08x, data sources: %s",
                 cpu.features.version - 1u, (unsigned)cpu.features.midr,
                 cpu.features.LDS ? arch_sources_name(cpu.model.sources) : "none, by events");
        out_printf(out, "%*s", INDENT, "");
        cli_wrap(out, text, INDENT);
        print_sources(out, file + strcspn(file, "\n"));
    }
}

static void print_fields(struct out *out)
{
    static const enum spex_key none[1];
    struct table_column *columns = columns_for_keys(none, 0);
    cli_wrap(out,
             "-F takes columns in order, separated by commas; +LIST adds to the usual ones. "
             "JSON and CSV have all of them. In report and mem, next to the keys of --sort:",
             0);
    out_char(out, '\n');
    for (size_t i = 0; columns[i].name; i++)
        row(out, columns[i].name, columns[i].help);
    out_text(out, "\nOther commands have columns of their own: docs/schema.md lists them.\n");
    free(columns);
}

static void print_keys(struct out *out)
{
    out_printf(out, "--sort takes up to %d keys, separated by commas.\n\n", SPEX_KEYS_MAX);
    for (unsigned k = 0; k < SPEX_KEY_COUNT; k++)
        row(out, spex_key_name(k), columns_key_help(k));
}

static void print_filters(struct out *out)
{
    const char *name, *help;
    cli_wrap(out,
             "All commands that read profiles take these filters. Several must all hold; "
             "commas in a value mean 'or'.",
             0);
    out_char(out, '\n');
    for (size_t i = 0; (name = spex_filter_name(i, &help)); i++)
        row(out, name, help);
    char text[600] = "Events:";
    for (unsigned bit = 0; bit < 64; bit++)
        if (spex_event_name(bit))
            snprintf(text + strlen(text), sizeof text - strlen(text), " %s", spex_event_name(bit));
    out_char(out, '\n');
    cli_wrap(out, text, 2);
    snprintf(text, sizeof text, "Sources:");
    for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %s", spex_source_name(s));
    cli_wrap(out, text, 2);
    cli_wrap(out,
             "Words of operations: load store atomic branch other cond indirect call return "
             "exclusive acq-rel simd-fp sve fp simd pred gather tag memcpy memset gcs",
             2);
}

static void print_formats(struct out *out)
{
    cli_wrap(out, "spex export --to FORMAT writes these. docs/export.md says what reads them.", 0);
    for (size_t i = 0; export_formats[i]; i++) {
        const struct export_format *f = export_formats[i];
        out_char(out, '\n');
        row(out, f->name, f->summary);
        row(out, "  counts", f->weight);
        row(out, "  cannot say", f->cannot);
    }
}

const struct cli_topic cli_topics[] = {
    {"formats", "what spex export writes", print_formats},
    {"fields", "columns that -F takes", print_fields},
    {"keys", "what --sort groups by", print_keys},
    {"filters", "--comm, --op, --event and the other filters", print_filters},
    {"features", "feature lists: presets and names of SPE features", print_features},
    {"cpus", "presets of --cpu, and files of one's own", print_cpus},
    {"model", "parameters of the microarchitecture model", print_model},
    {NULL, NULL, NULL},
};
