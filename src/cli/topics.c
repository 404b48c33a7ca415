/* Help topics: the tables that several commands take names from. */
#include "cli.h"

#include "base/out.h"

#include <spex/features.h>
#include <spex/uarch.h>

#include <stdio.h>

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
                  "'max,no-sme,no-spe-sme'.\n\nPresets:");
    for (size_t i = 0; (name = spex_features_preset_name(i)); i++)
        out_printf(out, " %s", name);
    out_text(out, "\nVersions: v1p0 v1p1 v1p2 v1p3 v1p4 v1p5\n\nNames:\n");
    for (size_t i = 0; (name = spex_features_describe(i, &text)); i++)
        row(out, name, text);
}

static void print_model(struct out *out)
{
    struct spex_uarch_parameter p;
    const char *name;
    out_text(out, "--model takes a preset or KEY=VALUE, separated by commas; K, M and G are powers "
                  "of 1024.\nValues below are of the presets in this order:");
    for (size_t i = 0; (name = spex_uarch_preset_name(i)); i++)
        out_printf(out, " %s", name);
    out_text(out, "\n(none has no caches, TLBs or prediction).\n\n");
    for (size_t i = 0; spex_uarch_parameter(i, &p); i++) {
        char text[400];
        snprintf(text, sizeof text, "%s: %u %u %u %u %s", p.text, p.preset[0], p.preset[1],
                 p.preset[2], p.preset[3], p.unit);
        row(out, p.key, text);
    }
}

const struct cli_topic cli_topics[] = {
    {"features", "feature lists: presets and names of SPE features", print_features},
    {"model", "parameters of the microarchitecture model", print_model},
    {NULL, NULL, NULL},
};
