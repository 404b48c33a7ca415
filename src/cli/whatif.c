#include "whatif.h"

#include "output.h"

#include "base/memory.h"

#include "guest/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- variants ---- */

struct choice { /* one --model with several values */
    const char *key;
    size_t key_length;
    const char *values[WHATIF_VARIANTS];
    size_t count;
};

static void add_word(struct cli_list *list, const char *word)
{
    list->items = memory_grow(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = word;
}

/* KEY=VALUE, kept by the plan. */
static const char *pair_text(struct whatif_plan *plan, const struct choice *c, size_t value)
{
    char *at = plan->text + plan->text_used;
    plan->text_used +=
        (size_t)sprintf(at, "%.*s=%s", (int)c->key_length, c->key, c->values[value]) + 1;
    return at;
}

/* Cuts text at each mark; the parts. */
static size_t cut(char *text, char mark, const char *parts[WHATIF_VARIANTS])
{
    size_t n = 0;
    for (char *next; text && n < WHATIF_VARIANTS; text = next) {
        next = strchr(text, mark);
        if (next)
            *next++ = '\0';
        parts[n++] = text;
    }
    return n;
}

/* The model of a variant: fixed words, then one value of each choice. */
static int add_variant(struct whatif_plan *plan, const char *cpu, const struct cli_list *fixed,
                       const struct choice *choices, size_t choice_count, size_t which,
                       size_t value)
{
    if (plan->count == WHATIF_VARIANTS)
        return cli_usage("more than %d variants", WHATIF_VARIANTS);
    struct whatif_variant *v = &plan->variants[plan->count];
    bool first = !plan->count;
    *v = (struct whatif_variant){.cpu = cpu};
    add_word(&v->model, "full");
    for (size_t i = 0; i < fixed->count; i++)
        add_word(&v->model, fixed->items[i]);
    size_t used =
        (size_t)snprintf(v->name, sizeof v->name, "%s", first || which == SIZE_MAX ? cpu : "");
    for (size_t i = 0; i < choice_count; i++) {
        const char *word = pair_text(plan, &choices[i], i == which ? value : 0);
        add_word(&v->model, word);
        if ((first || i == which) && used < sizeof v->name)
            used += (size_t)snprintf(v->name + used, sizeof v->name - used, "%s%s", used ? " " : "",
                                     word);
    }
    plan->count++;
    struct spex_cpu parsed;
    struct spex_error error;
    if (spex_cpu_parse(cpu, &parsed, &error))
        return cli_usage("--cpu: %s", error.text);
    for (size_t i = 0; i < v->model.count; i++)
        if (spex_uarch_config_set(&parsed.model, v->model.items[i], &error))
            return cli_usage("--model: %s", error.text);
    return CLI_OK;
}

int whatif_plan(const char *cpus, const struct cli_list *words, struct whatif_plan *plan)
{
    struct choice choices[WHATIF_VARIANTS] = {0};
    struct cli_list fixed = {0};
    const char *cpu[WHATIF_VARIANTS];
    size_t size = strlen(cpus) + 1, n = 0;
    for (size_t i = 0; i < words->count; i++)
        size += strlen(words->items[i]) + 1;
    *plan = (struct whatif_plan){.text = memory_get(size * (WHATIF_VARIANTS + 1), 1)};
    strcpy(plan->text, cpus);
    size_t cpu_count = cut(plan->text, ',', cpu);
    plan->text_used = strlen(cpus) + 1;
    for (size_t i = 0; i < words->count; i++) {
        char *word = strcpy(plan->text + plan->text_used, words->items[i]), *equals;
        plan->text_used += strlen(word) + 1;
        equals = strchr(word, '=');
        if (!equals || !strchr(equals, ':') || n == WHATIF_VARIANTS) {
            add_word(&fixed, word);
            continue;
        }
        choices[n] = (struct choice){.key = word, .key_length = (size_t)(equals - word)};
        choices[n].count = cut(equals + 1, ':', choices[n].values);
        n++;
    }
    int status = add_variant(plan, cpu[0], &fixed, choices, n, SIZE_MAX, 0);
    for (size_t i = 1; !status && i < cpu_count; i++)
        status = add_variant(plan, cpu[i], &fixed, choices, n, SIZE_MAX, 0);
    for (size_t i = 0; !status && i < n; i++)
        for (size_t k = 1; !status && k < choices[i].count; k++)
            status = add_variant(plan, cpu[0], &fixed, choices, n, i, k);
    free(fixed.items);
    if (!status && plan->count < 2)
        status = cli_usage("nothing to compare: give several CPUs (--cpu A,B) or several values "
                           "of something (--model page.size=4K:2M)");
    return status;
}

void whatif_plan_free(struct whatif_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->variants[i].model.items);
    free(plan->text);
}

/* ---- runs ---- */

static void redirect(int fd, const char *path, int flags)
{
    int to = open(path, flags | O_CLOEXEC, 0600);
    if (to >= 0)
        dup2(to, fd);
}

static void name_file(char path[WHATIF_PATH], const char *directory, size_t index, const char *what)
{
    snprintf(path, WHATIF_PATH, "%.4000s/%zu.%s", directory, index, what);
}

/* In a process of its own: what the model counted goes into a file. */
static int run_one(const struct run_options *options, const struct whatif_variant *variant,
                   char **argv, const char *directory, size_t index)
{
    char data[WHATIF_PATH], counts[WHATIF_PATH];
    struct run_options o = *options;
    struct output output;
    struct output_result result;
    o.cpu = variant->cpu;
    o.model = variant->model;
    name_file(data, directory, index, "data");
    name_file(counts, directory, index, "counts");
    int status = output_open(&output, data, false);
    struct run run = {.options = {.keep = true, .prefix = data}};
    if (!status)
        status = run_guest(&o, argv, &run);
    if (status)
        return status;
    status = output_finish(&output, run.directory, run.left, &result);
    FILE *file = fopen(counts, "we");
    if (!file || fwrite(&run.totals, sizeof run.totals, 1, file) != 1 ||
        fwrite(&run.status, sizeof run.status, 1, file) != 1 || fclose(file)) {
        cli_error("%s: %s", counts, strerror(errno));
        status = CLI_DATA;
    }
    spex_run_close(run.left);
    spex_engine_free(run.engine);
    output_close(&output);
    return status;
}

/*
 * All runs see the same environment, so that no variant takes another path: no input, and files
 * for output. The output of the first variant is shown at its end; that of the others only if they
 * fail.
 */
static pid_t begin(const struct run_options *options, const struct whatif_plan *plan,
                   char ***programs, const char *directory, size_t index)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid)
        return pid;
    char path[WHATIF_PATH];
    signal(SIGINT, SIG_DFL);
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    name_file(path, directory, index, "output");
    redirect(STDOUT_FILENO, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    name_file(path, directory, index, "messages");
    redirect(STDERR_FILENO, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    exit(run_one(options, &plan->variants[index % plan->count], programs[index / plan->count],
                 directory, index));
}

static void show(const char *directory, size_t index, const char *what, FILE *to)
{
    char path[WHATIF_PATH], bytes[4096];
    size_t n;
    name_file(path, directory, index, what);
    FILE *file = fopen(path, "re");
    while (file && (n = fread(bytes, 1, sizeof bytes, file)))
        fwrite(bytes, 1, n, to);
    if (file)
        fclose(file);
    fflush(to);
}

static bool take(struct whatif_run *run, const char *directory, size_t index)
{
    char counts[WHATIF_PATH];
    name_file(run->data, directory, index, "data");
    name_file(counts, directory, index, "counts");
    FILE *file = fopen(counts, "re");
    run->done = file && fread(&run->totals, sizeof run->totals, 1, file) == 1 &&
                fread(&run->status, sizeof run->status, 1, file) == 1;
    if (file)
        fclose(file);
    return run->done;
}

int whatif_run(const struct run_options *options, const struct whatif_plan *plan, char ***programs,
               size_t program_count, unsigned jobs, const char *directory, struct whatif_run *runs)
{
    size_t all = plan->count * program_count, next = 0, running = 0;
    pid_t *pids = memory_get(all, sizeof *pids);
    int status = CLI_OK, how;
    void (*old)(int) = signal(SIGINT, SIG_IGN); /* the signal reaches the runs by itself */
    while (running || (next < all && !status)) {
        if (next < all && running < jobs && !status) {
            pids[next] = begin(options, plan, programs, directory, next);
            running += pids[next] > 0;
            if (pids[next] < 0) {
                cli_error("fork: %s", strerror(errno));
                status = CLI_DATA;
            }
            next++;
            continue;
        }
        pid_t pid = waitpid(-1, &how, 0);
        if (pid < 0 && errno != EINTR)
            break;
        for (size_t i = 0; i < next; i++) {
            if (pid <= 0 || pids[i] != pid)
                continue;
            running--;
            pids[i] = 0;
            bool good = take(&runs[i], directory, i) && WIFEXITED(how) && !WEXITSTATUS(how);
            if (i % plan->count == 0)
                show(directory, i, "output", stdout);
            if (!good || i % plan->count == 0)
                show(directory, i, "messages", stderr);
            if (!good) {
                status = WIFEXITED(how) && WEXITSTATUS(how) ? WEXITSTATUS(how) : CLI_DATA;
            }
        }
    }
    signal(SIGINT, old);
    free(pids);
    return status;
}
