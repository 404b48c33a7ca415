/* The benchmarks of spex calibrate: under the model, on this machine, or behind a command. */
#include "calibrate.h"

#include "base/memory.h"
#include "base/order.h"
#include "export/truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 4096, RUNS_MOST = 64, ARGUMENTS = 12 };

/* Splits words in place, appends them to argv; NULL ends it. */
static void split(char *words, const char **argv, size_t count)
{
    char *rest = words, *word;
    while (count + 1 < ARGUMENTS && (word = strsep(&rest, " ")))
        argv[count++] = word;
    argv[count] = NULL;
}

/* "NAME UNITS START END ..." */
struct said {
    uint64_t units, start, end;
    const char *rest;
};

static bool read_said(const char *line, struct said *said)
{
    char *end;
    line += strcspn(line, " ");
    said->units = strtoull(line, &end, 10);
    said->start = strtoull(end, &end, 0);
    said->end = strtoull(end, &end, 0);
    said->rest = end;
    return said->units && said->end > said->start;
}

static int bad_answer(const struct calibrate *c, const char *words, const char *line)
{
    cli_error("the benchmark '%s' printed '%.*s', not 'NAME UNITS START END%s'; is %s of this "
              "version?",
              words, (int)strcspn(line, "\n"), line,
              c->where == CALIBRATE_MODEL ? "" : " CLOCK CYCLES...",
              c->where == CALIBRATE_VIA ? "the spex-micro behind --via" : c->micro);
    return CLI_DATA;
}

/* ---- under the model ---- */

struct summing {
    struct said said;
    uint64_t cycles;
};

static void sum(void *context, const struct truth_row *row)
{
    struct summing *s = context;
    if (row->pc >= s->said.start && row->pc < s->said.end)
        s->cycles += row->counts[TRUTH_CYCLES];
}

static int run_model(struct calibrate *c, bool pages, const char *words, struct summing *s)
{
    const char *model[] = {"full", "page.size=2M"};
    char copy[CALIBRATE_WORDS], line[LINE] = "", path[2 * BATCH_PATH];
    const char *argv[ARGUMENTS] = {c->micro};
    struct spex_error error;
    snprintf(copy, sizeof copy, "%s", words);
    split(copy, argv, 1);
    struct batch_run run = {.name = words,
                            .argv = (char **)(uintptr_t)argv,
                            .truth = true,
                            .options = {.event = "arm_spe/ts_enable=1/",
                                        .cpu = c->cpu,
                                        .aux = ",64K",
                                        /* no samples: everything is counted */
                                        .period = 0xffffff00,
                                        .seed = 1,
                                        .deterministic = true,
                                        .model = {.items = model, .count = pages ? 1 : 2}}};
    int status = batch_do(&run, 1, 1, c->place, words);
    if (status)
        return status;
    snprintf(path, sizeof path, "%s/0.output", c->place);
    FILE *file = fopen(path, "re");
    bool good = file && fgets(line, sizeof line, file) && read_said(line, &s->said);
    if (file)
        fclose(file);
    if (!good || run.status)
        return bad_answer(c, words, line);
    snprintf(path, sizeof path, "%s.truth", run.data);
    if (truth_read(path, sum, s, &error)) {
        cli_error("%s: %s", path, error.text);
        return CLI_DATA;
    }
    return CLI_OK;
}

/*
 * Counts are exact, so one run is enough. The cost of steady state is that of twice the work minus
 * that of the work.
 */
static int cost_model(struct calibrate *c, unsigned how, const char *words, struct measured *m)
{
    struct summing once = {0}, twice = {0};
    int status = run_model(c, how & CALIBRATE_PAGES, words, &once);
    double cycles = (double)once.cycles, units = (double)once.said.units;
    if (!status && how & CALIBRATE_AGAIN) {
        char more[CALIBRATE_WORDS];
        const char *last = strrchr(words, ' ');
        snprintf(more, sizeof more, "%.*s %llu", (int)(last - words), words,
                 2 * strtoull(last, NULL, 10));
        status = run_model(c, how & CALIBRATE_PAGES, more, &twice);
        cycles = (double)twice.cycles - cycles;
        units = (double)twice.said.units - units;
    }
    if (!status)
        m->value = m->low = m->high = units > 0 ? cycles / units : 0;
    return status;
}

/* ---- with a clock ---- */

static void become(const struct calibrate *c, char *words, int output)
{
    const char *program = c->via ? "sh" : c->micro;
    char runs[16], shell[BATCH_PATH];
    const char *argv[ARGUMENTS + 8] = {"sh", "-c", shell};
    const char **micro = c->via ? argv + 3 : argv; /* $0 of the shell command */
    snprintf(runs, sizeof runs, "%u", c->runs);
    snprintf(shell, sizeof shell, "%.4000s \"$@\"", c->via ? c->via : "");
    micro[0] = c->micro;
    micro[1] = "--clock";
    micro[2] = runs;
    split(words, micro, 3);
    dup2(output, STDOUT_FILENO);
    execvp(program, (char **)(uintptr_t)argv);
    cli_error("%s: %s", program, strerror(errno));
    _exit(CLI_DATA);
}

/* Reads its line of output; returns its status as from waitpid, or -1. */
static int listen(const struct calibrate *c, const char *words, char line[LINE])
{
    char copy[CALIBRATE_WORDS];
    int ends[2], how;
    snprintf(copy, sizeof copy, "%s", words);
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid)
        become(c, copy, ends[1]);
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    if (!file || !fgets(line, LINE, file))
        *line = '\0';
    if (file)
        fclose(file);
    return pid > 0 && waitpid(pid, &how, 0) == pid ? how : -1;
}

static int by_value(const void *a, const void *b)
{
    return ORDER(*(const double *)a, *(const double *)b);
}

static int cost_clock(struct calibrate *c, const char *words, struct measured *m)
{
    char line[LINE] = "";
    struct said said;
    double cycles[RUNS_MOST];
    size_t count = 0;
    int how = listen(c, words, line);
    if (how) {
        cli_error("the benchmark '%s' of %s ended with status %d", words,
                  c->via ? c->via : c->micro, WIFEXITED(how) ? WEXITSTATUS(how) : how);
        return CLI_DATA;
    }
    if (!read_said(line, &said))
        return bad_answer(c, words, line);
    said.rest += strspn(said.rest, " ");
    snprintf(c->clock, sizeof c->clock, "%.*s", (int)strcspn(said.rest, " \n"), said.rest);
    const char *at = said.rest + strlen(c->clock);
    for (char *end; count < RUNS_MOST; at = end) {
        cycles[count] = strtod(at, &end) / (double)said.units;
        if (end == at)
            break;
        count++;
    }
    if (!count)
        return bad_answer(c, words, line);
    qsort(cycles, count, sizeof *cycles, by_value);
    *m = (struct measured){cycles[count / 2], cycles[count / 4], cycles[count - 1 - count / 4]};
    return CLI_OK;
}

struct measured calibrate_cost(struct calibrate *c, unsigned how, const char *format, ...)
{
    char words[CALIBRATE_WORDS];
    struct calibrate_known now = {0};
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    if (c->status)
        return now.cost;
    snprintf(now.words, sizeof now.words, "%u %s", how, words);
    for (size_t i = 0; i < c->known_count; i++)
        if (!strcmp(c->known[i].words, now.words))
            return c->known[i].cost;
    cli_progress_text("%s", words);
    c->status = c->where == CALIBRATE_MODEL ? cost_model(c, how, words, &now.cost)
                                            : cost_clock(c, words, &now.cost);
    c->known = memory_grow(c->known, c->known_count, &c->known_capacity, sizeof *c->known);
    c->known[c->known_count++] = now;
    return now.cost;
}

/*
 * Detects emulators, which translate code and leave out instructions without effect: no core starts
 * more than 16 instructions in a cycle, or adds in less than a cycle.
 */
int calibrate_clock(struct calibrate *c)
{
    enum { FASTEST = 16 };
    const double most = 0.1;
    struct measured add = calibrate_cost(c, CALIBRATE_PLAIN, "add 2000000");
    struct measured nop = calibrate_cost(c, CALIBRATE_PLAIN, "near 8000000");
    const char *advice = "'spex calibrate --cpu CPU' calibrates the model of a CPU";
    if (c->status)
        return c->status;
    if (nop.value * FASTEST < 1)
        cli_error("the clock here cannot be used: %.0f instructions that do nothing took as long "
                  "as an addition, and no core starts more than %d in a cycle, so this is an "
                  "emulator; %s",
                  nop.value > 0 ? add.value / nop.value : 1e6, FASTEST, advice);
    else if (add.high - add.low > most * add.value)
        cli_error("the clock here cannot be used: an addition took from %.2f to %.2f cycles; stop "
                  "other programs, or let --via 'taskset -c CPU %s' choose a CPU; %s",
                  add.low, add.high, c->micro, advice);
    else if (add.value < 0.9 || add.value > 1.15)
        cli_error("the clock here cannot be used: the cycle counter says that an addition takes "
                  "%.2f cycles, and it takes 1 on every core; %s",
                  add.value, advice);
    else
        return CLI_OK;
    return c->status = CLI_DATA;
}
