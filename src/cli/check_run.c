/*
 * Runs the programs of spex check: in the same process layout each time, or with memory elsewhere.
 */
#include "check.h"
#include "batch.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"

#include "guest/cpu.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, STACK = 8 << 20, PROGRAM_MOST = 1 << 30 };

/* ---- layouts ---- */

static void *at(char *data, size_t size, uint64_t offset, uint64_t want)
{
    return offset <= size && want <= size - offset && !(offset % 8) ? data + offset : NULL;
}

/*
 * Extends the zeroed data of the segment before the heap, so that the heap begins later. Not
 * possible where libraries are looked for beside the program, since the copy is in another place.
 */
static bool move_heap(char *data, size_t size, uint64_t by)
{
    const Elf64_Ehdr *head = at(data, size, 0, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_phentsize != sizeof(Elf64_Phdr) ||
        memmem(data, size, "$ORIGIN", 7))
        return false;
    Elf64_Phdr *segment = at(data, size, head->e_phoff, head->e_phnum * sizeof *segment);
    Elf64_Phdr *last = NULL;
    for (unsigned i = 0; segment && i < head->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && segment[i].p_flags & PF_W)
            last = &segment[i];
    if (last)
        last->p_memsz += by;
    return last != NULL;
}

/* Replaces the program by a copy whose heap begins elsewhere. */
static void copy_program(struct batch_run *job, struct check_plan *plan, const char *to,
                         uint64_t by)
{
    char from[BATCH_PATH];
    size_t size;
    if (!strchr(job->alone, '/'))
        return; /* the program is found through PATH */
    snprintf(from, sizeof from, "%s%s%s",
             *job->alone != '/' && job->directory ? job->directory : "",
             *job->alone != '/' && job->directory ? "/" : "", job->alone);
    char *data = file_read_named(from, PROGRAM_MOST, FILE_ANY_OWNER, &size);
    if (data && move_heap(data, size, by)) {
        FILE *file = fopen(to, "wxe");
        bool ok = file && fwrite(data, 1, size, file) == size;
        if (file && !fclose(file) && ok && !chmod(to, 0700))
            job->alone = check_keep(plan, memory_copy(to));
    }
    free(data);
}

/* Moves stack, heap and mappings by amounts that follow from the layout's number. */
static void move(struct batch_run *job, struct check_plan *plan, const char *place, size_t index,
                 uint64_t layout)
{
    enum { PAGES = 61, LINES = 64, WORDS = 61 };
    char name[BATCH_PATH], pad[16 * WORDS + 1];
    struct rng rng = {layout};
    size_t words = 1 + rng_below(&rng, WORDS - 1);
    memset(pad, '0', 16 * words);
    pad[16 * words] = '\0';
    char *variable;
    if (asprintf(&variable, "SPEX_LAYOUT=%s", pad) < 0)
        variable = NULL;
    struct cli_list *list = &job->options.environment;
    list->items = memory_grow(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = check_keep(plan, memory_checked(variable));
    job->stack = STACK + PAGE * (1 + rng_below(&rng, PAGES));
    uint64_t heap = PAGE * (1 + rng_below(&rng, PAGES)) + 64 * rng_below(&rng, LINES);
    snprintf(name, sizeof name, "%.4000s/%zu.program", place, index);
    copy_program(job, plan, name, heap);
}

/* ---- the model that was used ---- */

static void add_number(uint64_t *hash, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++, number >>= 8)
        *hash = (*hash ^ (number & 0xff)) * UINT64_C(0x100000001b3);
}

/* Results of different models are not compared. */
static int name_model(const struct check_case *c, char name[20])
{
    struct spex_error error;
    struct cpu_choice cpu;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (cpu_parse(c->cpu, &cpu, &error))
        return cli_usage("%s: %s; 'spex help cpus' lists CPUs", c->name, error.text);
    for (size_t i = 0; i < c->model.count; i++)
        if (uarch_config_set(&cpu.model, c->model.items[i], &error))
            return cli_usage("%s: model: %s", c->name, error.text);
    struct uarch_parameter p;
    for (size_t i = 0; uarch_parameter(i, &p); i++)
        add_number(&hash, uarch_config_get(&cpu.model, i));
    add_number(&hash, cpu.vector_bits);
    snprintf(name, 20, "%016llx", (unsigned long long)hash);
    return CLI_OK;
}

/* ---- runs ---- */

static void add_word(struct cli_list *list, const char *word)
{
    list->items = memory_grow(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = word;
}

static void prepare(struct batch_run *job, struct check_plan *plan, const struct check_case *c,
                    const struct check_engine *engine)
{
    const char *slash = strrchr(c->argv[0], '/');
    size_t count = 0;
    while (c->argv[count])
        count++;
    char **argv = memory_get(count + 1, sizeof *argv);
    check_keep(plan, (char *)argv);
    memcpy(argv, c->argv, count * sizeof *argv);
    if (slash && slash[1])
        argv[0] = (char *)(uintptr_t)(slash + 1);
    *job = (struct batch_run){.name = c->name,
                              .argv = argv,
                              .alone = c->argv[0],
                              .start_at = c->start_at,
                              .stop_at = c->stop_at,
                              .input = c->input,
                              .directory = c->directory,
                              .truth = true,
                              .options = {.event = "arm_spe/ts_enable=1/",
                                          .cpu = c->cpu,
                                          .sysroot = c->sysroot,
                                          .qemu = engine->qemu,
                                          .qemu_cpu = engine->qemu_cpu,
                                          .aux = ",64K",
                                          /* no samples: everything is counted */
                                          .period = 0xffffff00,
                                          .seed = engine->seed,
                                          .deterministic = true}};
    add_word(&job->options.model, "full");
    for (size_t i = 0; i < c->model.count; i++)
        add_word(&job->options.model, c->model.items[i]);
    for (size_t i = 0; i < c->environment.count; i++)
        add_word(&job->options.environment, c->environment.items[i]);
}

static int check_end(const struct batch_run *job)
{
    if (!job->status)
        return CLI_OK;
    if (WIFSIGNALED(job->status))
        cli_error("%s ended by signal %d: its counts are not those of the benchmark", job->name,
                  WTERMSIG(job->status));
    else
        cli_error("%s ended with status %d: its counts are not those of the benchmark", job->name,
                  WEXITSTATUS(job->status));
    return CLI_DATA;
}

/* Makes the result of a case from its runs. */
static int result_of(const struct check_case *c, const struct batch_run *runs, const char *model,
                     struct check_results *results)
{
    struct check_result *layouts = memory_get(c->layouts, sizeof *layouts);
    int status = CLI_OK;
    for (uint64_t i = 0; i < c->layouts && !status; i++) {
        status = check_end(&runs[i]);
        if (!status)
            status = check_collect(runs[i].data, !c->start_at && !c->stop_at, &layouts[i]);
        layouts[i].time = runs[i].totals.clock;
    }
    if (!status) {
        struct check_result *r = check_results_add(results, c->name, c->cpu), names = *r;
        check_median(layouts, c->layouts);
        *r = layouts[0];
        r->name = names.name;
        r->cpu = names.cpu;
        memcpy(r->model, model, sizeof r->model);
    }
    for (uint64_t i = !status; i < c->layouts; i++)
        check_result_free(&layouts[i]);
    free(layouts);
    return status;
}

static int run_in(struct check_plan *plan, const struct check_engine *engine, const char *place,
                  char (*models)[20], struct check_results *results)
{
    size_t count = 0, n = 0;
    for (size_t i = 0; i < plan->count; i++)
        count += plan->items[i].layouts;
    struct batch_run *runs = memory_get(count, sizeof *runs);
    for (size_t i = 0; i < plan->count; i++)
        for (uint64_t layout = 0; layout < plan->items[i].layouts; layout++, n++) {
            prepare(&runs[n], plan, &plan->items[i], engine);
            if (layout)
                move(&runs[n], plan, place, n, layout);
        }
    int status = batch_do(runs, count, cli_threads(engine->jobs), place, "runs");
    n = 0;
    for (size_t i = 0; i < plan->count && !status; n += plan->items[i++].layouts)
        status = result_of(&plan->items[i], &runs[n], models[i], results);
    for (size_t i = 0; i < count; i++) {
        free(runs[i].options.model.items);
        free(runs[i].options.environment.items);
    }
    free(runs);
    return status;
}

int check_run(struct check_plan *plan, const struct check_engine *engine,
              struct check_results *results)
{
    char place[BATCH_PATH], (*models)[20] = memory_get(plan->count, sizeof *models);
    int status = CLI_OK;
    for (size_t i = 0; i < plan->count && !status; i++)
        status = name_model(&plan->items[i], models[i]);
    if (!status) {
        run_temporary(place, sizeof place - 16);
        strcat(place, ".check-XXXXXX");
        if (mkdtemp(place)) {
            status = run_in(plan, engine, place, models, results);
            if (!left_remove(place))
                cli_error("%s stays", place);
        } else {
            cli_error("%s: %s", place, strerror(errno));
            status = CLI_DATA;
        }
    }
    free(models);
    return status;
}
