/*
 * spex calibrate compares samples with what its benchmarks did: loads of one chain, all of which
 * come from one level.
 */
#include "calibrate.h"

#include "base/name.h"
#include "base/order.h"
#include "base/out.h"

#include <spex/analysis.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES_MOST = 4096, WORDS_MOST = 24 };
static const char EVENT[] = "arm_spe/ts_enable=1,jitter=1,load_filter=1/";

struct level {
    const char *name, *key; /* key of its latency */
    unsigned sources;       /* expected sources: bits of enum spex_source */
    struct {
        uint64_t count, with_source, right;
        uint64_t by_source[SPEX_SOURCE_COUNT];
        uint16_t took[SAMPLES_MOST]; /* execute latencies */
    } seen;
    uint64_t start, end; /* address range of the benchmark loops */
};

#define BIT(source) (1u << SPEX_SOURCE_##source)
#define BEYOND                                                                                     \
    (BIT(L3) | BIT(SYSTEM_CACHE) | BIT(LOCAL_CLUSTER) | BIT(PEER_CLUSTER) | BIT(PEER_CORE))

/* Runs a spex command in a child process, with its messages going to a file. */
static int do_command(const char *const *argv, const char *output, bool quiet)
{
    int count = 0, how;
    while (argv[count])
        count++;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || (quiet && dup2(fd, STDERR_FILENO) < 0))
            _exit(CLI_DATA);
        exit(cli_main(count, (char **)(uintptr_t)argv));
    }
    if (pid < 0 || waitpid(pid, &how, 0) != pid || !WIFEXITED(how))
        return CLI_DATA;
    return WEXITSTATUS(how);
}

static int record(struct calibrate *c, char *words, const char *data, const char *output)
{
    bool model = c->where == CALIBRATE_MODEL;
    const char *argv[WORDS_MOST + 1] = {
        "spex", "record", "-q", "-o", data, "-c", model ? "256" : "1024", "-e", EVENT};
    size_t n = 9;
    if (model) {
        const char *const words_of_model[] = {"--engine",          "qemu",  "--model",
                                              "full,page.size=2M", "--cpu", c->cpu};
        memcpy(argv + n, words_of_model, sizeof words_of_model);
        n += sizeof words_of_model / sizeof *words_of_model;
    }
    argv[n++] = "--";
    argv[n++] = c->micro;
    char *rest = words, *word;
    while (n < WORDS_MOST && (word = strsep(&rest, " ")))
        argv[n++] = word;
    return do_command(argv, output, false);
}

static void take(void *context, const struct spex_sample *samples, size_t count)
{
    struct level *level = context;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        const unsigned wanted = SPEX_HAS_TOTAL | SPEX_HAS_ISSUE;
        if (s->pc < level->start || s->pc >= level->end || s->op != SPEX_SAMPLE_LOAD ||
            (s->record->present & wanted) != wanted || level->seen.count == SAMPLES_MOST)
            continue;
        level->seen.took[level->seen.count++] = (uint16_t)(s->record->total - s->record->issue);
        level->seen.by_source[s->source]++;
        level->seen.with_source += s->source != SPEX_SOURCE_UNKNOWN;
        level->seen.right += level->sources >> s->source & 1;
    }
}

static int by_number(const void *a, const void *b)
{
    return ORDER(*(const uint16_t *)a, *(const uint16_t *)b);
}

static void say(struct calibrate *c, struct level *level, struct out *out)
{
    uint64_t n = level->seen.count;
    unsigned most = 0;
    double true_latency = calibrate_value(c, level->key)->measured.value;
    qsort(level->seen.took, n, sizeof *level->seen.took, by_number);
    for (unsigned i = 1; i < SPEX_SOURCE_COUNT; i++)
        if (level->seen.by_source[i] > level->seen.by_source[most] || !most)
            most = i;
    if (!n) {
        out_line(out, "%-12s %6.1f cycles; no samples of these loads: more cannot be said",
                 level->name, true_latency);
        return;
    }
    unsigned middle = level->seen.took[n / 2];
    double off = middle - true_latency, share = (double)level->seen.right / (double)n;
    out_printf(out, "%-12s %6.1f cycles; %llu samples say %u", level->name, true_latency,
               (unsigned long long)n, middle);
    if (off > 2 + 0.15 * true_latency || off < -2 - 0.15 * true_latency)
        out_printf(out, ", which is not the latency of these loads");
    if (!level->seen.with_source)
        out_line(out, "; no source");
    else
        out_line(out, "; %.0f%% from %s%s", 100.0 * (double)level->seen.by_source[most] / (double)n,
                 spex_source_name((enum spex_source)most),
                 share < 0.9 ? ", where these loads did not find their data" : "");
}

/* The output of the benchmark says where its kernels are. */
static int look(struct level *level, const char *data, const char *output)
{
    char line[400] = "", *end = NULL;
    FILE *file = fopen(output, "re");
    if (file && fgets(line, sizeof line, file)) {
        strtoull(line + strcspn(line, " "), &end, 10);
        level->start = strtoull(end, &end, 0);
        level->end = strtoull(end, &end, 0);
    }
    if (file)
        fclose(file);
    struct spex_error error;
    struct spex_analysis *analysis;
    struct spex_analysis_options options = {
        .size = sizeof options, .want = SPEX_WANT_BASE, .threads = 1};
    enum spex_status status = spex_analysis_open(data, &options, &analysis, &error);
    if (!status) {
        status = spex_analysis_run(analysis, take, level, &error);
        spex_analysis_close(analysis);
    }
    if (status)
        cli_error("%s: %s", data, error.text);
    return status ? CLI_DATA : CLI_OK;
}

static int verify(const char *data, const char *output, const char *name, struct out *out)
{
    const char *argv[] = {"spex", "verify", data, NULL};
    char line[400];
    int status = do_command(argv, output, true);
    FILE *file = fopen(output, "re");
    while (status && file && fgets(line, sizeof line, file))
        out_printf(out, "  %s", line);
    if (file)
        fclose(file);
    out_line(out, "%-12s spex verify: %s", name,
             status ? "the records deviate from the manual, as above" : "no violation");
    return CLI_OK;
}

int calibrate_samples(struct calibrate *c, struct out *out)
{
    static struct level levels[] = {{"level 1", "l1d.latency", BIT(L1) | BIT(LFB), {0}, 0, 0},
                                    {"level 2", "l2.latency", BIT(L2), {0}, 0, 0},
                                    {"last level", "llc.latency", BEYOND, {0}, 0, 0},
                                    {"memory", "dram.latency", BIT(DRAM), {0}, 0, 0}};
    char words[4][CALIBRATE_WORDS], data[2 * BATCH_PATH], output[2 * BATCH_PATH];
    unsigned l1 = (unsigned)calibrate_value(c, "l1d.size")->measured.value;
    unsigned l2 = (unsigned)calibrate_value(c, "l2.size")->measured.value;
    snprintf(words[0], sizeof words[0], "spaced 16384 64 64000");
    snprintf(words[1], sizeof words[1], "spaced %u 64 64000", 4 * l1);
    snprintf(words[2], sizeof words[2], "spaced %u 64 64000", 3 * l2);
    snprintf(words[3], sizeof words[3], "spaced-cold 256M 4160 64000");
    snprintf(data, sizeof data, "%s/samples.data", c->place);
    snprintf(output, sizeof output, "%s/samples.output", c->place);
    out_char(out, '\n');
    out_line(out, "Loads of one level, and samples of them");
    for (size_t i = 0; i < sizeof levels / sizeof *levels && !c->status; i++) {
        cli_progress_text("samples of %s", levels[i].name);
        c->status = record(c, words[i], data, output);
        if (!c->status)
            c->status = look(&levels[i], data, output);
        cli_progress_end();
        if (!c->status)
            say(c, &levels[i], out);
        if (!c->status)
            c->status = verify(data, output, levels[i].name, out);
        out_flush(out);
    }
    return c->status;
}
