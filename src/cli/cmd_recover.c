/* spex recover: a whole file from a run whose spex was killed. */
#include "cli.h"
#include "output.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

struct recover_options {
    const char *output;
};

static int run_recover(void *options, int argc, char **argv)
{
    const struct recover_options *o = options;
    struct output output;
    struct output_result result;
    struct spex_error error;
    struct spex_run *run;
    struct spex_run_about about;
    if (argc != 1)
        return cli_usage("which run? spex recover DIR, the directory FILE.run-... that it left");
    if (spex_run_open(argv[0], NULL, &run, &error)) {
        cli_error("%s", error.text);
        return CLI_DATA;
    }
    spex_run_about(run, &about);
    if (!about.keep) {
        cli_error("%s: a run of spex stat has no records", argv[0]);
        spex_run_close(run);
        return CLI_DATA;
    }
    int status = output_open(&output, o->output, about.truth);
    if (!status) {
        struct spex_engine_totals totals;
        char samples[32];
        spex_run_totals(run, &totals);
        status = output_finish(&output, argv[0], run, &result);
        if (!status)
            fprintf(stderr, "spex: %s samples; wrote %s (%.1f kB)\n",
                    text_count(samples, totals.pmu[2]), o->output, (double)result.size / 1000);
        output_close(&output);
    }
    spex_run_close(run);
    return status;
}

static const struct cli_option recover_options[] = {
    {"output", 'o', CLI_STRING, offsetof(struct recover_options, output), "FILE",
     "file to write; an older one is kept as FILE.old", "perf.data", NULL},
    {0},
};

const struct cli_command cli_recover = {
    .name = "recover",
    .group = "Profile without Arm hardware",
    .synopsis = "DIR",
    .summary = "make a profile of what a killed spex record left behind",
    .details = "A run keeps its files in FILE.run-XXXXXX until the profile is whole. Where that "
               "directory is left, because spex was killed or could not write, this makes the "
               "profile of it, up to the moment of the end, and removes it.",
    .options = recover_options,
    .size = sizeof(struct recover_options),
    .run = run_recover,
};
