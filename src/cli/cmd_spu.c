/* spex spu: runs scripts against the unit, and lists what a configuration can set. */
#include "cli.h"

#include <spex/spu.h>

#include "base/name.h"
#include "script/script.h"
#include "script/serve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct options {
    bool trace, tap;
    const char *via;
    double timeout;
};

struct run {
    const struct options *options;
    struct out out;
    const char *name;
    char test[200];
    unsigned tests, checks, failures; /* failures is that of the current test */
    unsigned failed;
};

static void tap_line(struct run *run)
{
    if (run->options->tap && run->tests)
        out_line(&run->out, "%sok %u %s", run->failures ? "not " : "", run->tests, run->test);
}

static void hear(void *user, const struct script_report *report)
{
    struct run *run = user;
    switch (report->kind) {
    case SCRIPT_TRACE:
        if (run->options->trace)
            out_line(&run->out, "%s%s:%u: %s", run->options->tap ? "# " : "", run->name,
                     report->line, report->text);
        return;
    case SCRIPT_TEST:
        tap_line(run);
        run->tests++;
        run->failures = 0;
        snprintf(run->test, sizeof run->test, "%s", report->text);
        return;
    case SCRIPT_SPEC: /* scripts/conformance.py joins these with the test's name */
        if (run->options->tap)
            out_line(&run->out, "# SPEC %s %s", run->test, report->text);
        return;
    case SCRIPT_PASSED:
        run->checks++;
        if (run->options->trace)
            out_line(&run->out, "%s%s:%u: ok: %s", run->options->tap ? "# " : "", run->name,
                     report->line, report->text);
        return;
    default:
        run->checks++;
        run->failures++;
        run->failed++;
        out_flush(&run->out);
        if (run->options->tap)
            out_line(&run->out, "# %s:%u: %s", run->name, report->line, report->text);
        else
            cli_error("%s:%u: %s", run->name, report->line, report->text);
    }
}

static int run_script(const struct options *options, const char *path)
{
    struct cli_input input;
    struct run run = {.options = options};
    if (!cli_load(path, &input))
        return CLI_DATA;
    run.name = input.name;
    out_init(&run.out, STDOUT_FILENO);
    struct script_options via = {options->via,
                                 (unsigned)(1000 * (options->timeout > 0 ? options->timeout : 10))};
    enum spex_status status = script_run((const char *)input.data, input.size, &via, hear, &run);
    tap_line(&run);
    if (status == SPEX_NO_MEMORY)
        cli_error("out of memory");
    if (options->tap)
        out_line(&run.out, "1..%u", run.tests);
    else if (!run.failed && !status)
        out_line(&run.out, "%s: %u checks hold", run.name, run.checks);
    int error = cli_end_output(&run.out);
    cli_unload(&input);
    return status || error ? CLI_DATA : CLI_OK;
}

static int list_choices(void)
{
    struct out out;
    const struct spex_spu_choice *row;
    out_init(&out, STDOUT_FILENO);
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        out_printf(&out, "%s=", row->name);
        const char *word = row->values;
        for (uint64_t k = row->min; *word && k < row->standard; k++) {
            word += strcspn(word, " ");
            word += *word == ' ';
        }
        if (*word)
            out_bytes(&out, word, strcspn(word, " "));
        else if (row->standard == UINT64_MAX)
            out_text(&out, "all");
        else
            out_u64(&out, row->standard);
        if (*row->values)
            out_printf(&out, "\n    one of: %s", row->values);
        out_printf(&out, "\n    %s (%s)\n", row->text, row->requirements);
    }
    return cli_end_output(&out);
}

/* Lets other programs be the host of our unit. */
static int serve(void)
{
    struct spex_error error;
    if (!script_serve(STDIN_FILENO, STDOUT_FILENO, &error))
        return CLI_OK;
    cli_error("%s", error.text);
    return CLI_DATA;
}

static int run(void *options, int argc, char **argv)
{
    if (argc == 1 && !strcmp(argv[0], "choices"))
        return list_choices();
    if (argc == 1 && !strcmp(argv[0], "serve"))
        return serve();
    if (argc < 1 || strcmp(argv[0], "run"))
        return cli_usage("say 'run FILE...', 'choices' or 'serve'");
    double timeout = ((const struct options *)options)->timeout;
    if (timeout < 0 || timeout > 86400)
        return cli_usage("--timeout: seconds, up to 86400");
    int worst = CLI_OK;
    for (int i = 1; i < argc || i == 1; i++) {
        int status = run_script(options, argv[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}

static const struct cli_option table[] = {
    {"trace", 't', CLI_FLAG, offsetof(struct options, trace), NULL, "print everything that happens",
     NULL, NULL},
    {"tap", 0, CLI_FLAG, offsetof(struct options, tap), NULL,
     "print one TAP line for each test of the script", NULL, NULL},
    {"via", 0, CLI_STRING, offsetof(struct options, via), "COMMAND",
     "run the script on the unit behind this shell command", NULL, NULL},
    {"timeout", 0, CLI_REAL, offsetof(struct options, timeout), "SECONDS",
     "time limit for each answer of that unit (default 10)", NULL, NULL},
    {0},
};

const struct cli_command cli_spu = {
    .name = "spu",
    .group = CLI_RECORDS,
    .synopsis = "run FILE... | choices | serve",
    .summary = "play a script of register accesses, operations and faults on the SPU",
    .details =
        "A script is text: docs/spu-script.md has the language. Every expectation that "
        "does not hold is printed with its line; the exit status is then 1.\n\n'spex spu "
        "choices' lists every IMPLEMENTATION DEFINED choice with its default.\n\nWith --via the "
        "script checks another implementation, which speaks the protocol of "
        "docs/spu-protocol.md on its standard input and output; 'spex spu serve' is ours "
        "behind it. Scripts for all of D17 are installed in share/spex/scripts.",
    .options = table,
    .size = sizeof(struct options),
    .run = run,
};
