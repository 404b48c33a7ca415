/* spex recover: makes a whole file from a run whose spex was killed. */
#include "cli.h"
#include "run_file.h"
#include "table.h"

#include <sys/stat.h>

struct recover_options {
    const char *output;
};

static int recover_run(const char *directory, const char *name)
{
    struct output output;
    struct run_file result;
    struct spex_error error;
    struct left_run *run;
    struct left_about about;
    if (left_open(directory, NULL, &run, &error)) {
        cli_error("%s", error.text);
        return CLI_DATA;
    }
    left_about(run, &about);
    int status = CLI_DATA;
    if (!about.keep)
        cli_error("%s: a run of spex stat has no records", directory);
    else
        status = output_open(&output, name,
                             OUTPUT_KEEPS | OUTPUT_PRIVATE | (about.truth ? OUTPUT_TRUTH : 0));
    if (!status) {
        struct engine_totals totals;
        char samples[32];
        left_totals(run, &totals);
        status = run_file_finish(&output, NULL, directory, run, &result);
        if (!status)
            cli_note("%s samples; wrote %s (%.1f kB)", text_count(samples, totals.pmu[2]), name,
                     (double)result.size / 1000);
        output_close(&output);
    }
    left_close(run);
    return status;
}

static int recover_file(const char *from, const char *name)
{
    struct output output;
    int status = output_open(&output, name, OUTPUT_KEEPS | OUTPUT_PRIVATE | OUTPUT_IN_PLACE);
    if (!status)
        status = output_from(&output, from);
    if (!status)
        status = run_file_repair(&output, from);
    output_close(&output);
    return status;
}

static int run_recover(void *options, int argc, char **argv)
{
    const struct recover_options *o = options;
    struct stat st;
    if (argc != 1)
        return cli_usage("name the run: spex recover DIR, the directory FILE.run-... that it left");
    if (!stat(argv[0], &st) && S_ISREG(st.st_mode))
        return recover_file(argv[0], o->output);
    return recover_run(argv[0], o->output);
}

static const struct cli_option recover_options[] = {
    {"output", 'o', CLI_STRING, offsetof(struct recover_options, output), "FILE",
     "file to write; an older one is kept as FILE.old", "perf.data", NULL},
    {0},
};

const struct cli_command cli_recover = {
    .name = "recover",
    .group = CLI_RUNS,
    .synopsis = "DIR | FILE",
    .summary = "make a profile of what a killed spex record left behind",
    .details = "A run keeps its files in FILE.run-XXXXXX until the profile is complete. If spex "
               "was killed or could not write, that directory remains: this command turns it into "
               "a profile of everything recorded so far, and removes it. A perf.data FILE that was "
               "truncated, or whose writer was killed, is repaired up to its last whole record.",
    .options = recover_options,
    .size = sizeof(struct recover_options),
    .run = run_recover,
};
