/* Options from the command table, messages, input files, the terminal. */
#include "cli.h"

#include "base/jobs.h"
#include "base/memory.h"
#include "base/name.h"
#include "base/vec.h"
#include "cli/perf_words.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *current; /* command name for messages; the process runs one command */

static void put(const char *before, const char *format, va_list args)
{
    struct out line;
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    out_init(&line, -1);
    out_text(&line, before);
    out_name(&line, text ? text : format);
    fwrite(line.data, 1, line.size, stderr);
    out_fini(&line);
    free(text);
}

/* The files that spex query reads side by side report their progress from several threads. */
static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static bool under_way; /* a line of progress stands on the terminal */

/*
 * Is it time for a progress line? On a terminal, ten times a second, and not for work that is soon
 * done. The lock is held.
 */
static bool progress_is_due(void)
{
    enum { TENTHS = 5 };
    static time_t last;
    static int terminal = -1;
    struct timespec now;
    if (terminal < 0)
        terminal = isatty(STDERR_FILENO);
    if (!terminal)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t tenth = now.tv_sec * 10 + now.tv_nsec / 100000000;
    if (!last)
        last = tenth + TENTHS;
    if (tenth <= last)
        return false;
    last = tenth;
    return under_way = true;
}

void cli_progress_text(const char *format, ...)
{
    va_list args;
    pthread_mutex_lock(&progress_lock);
    if (progress_is_due()) {
        va_start(args, format);
        put("\r", format, args);
        va_end(args);
        fputs("\033[K", stderr);
    }
    pthread_mutex_unlock(&progress_lock);
}

void cli_progress(const char *name, uint64_t done, uint64_t size)
{
    pthread_mutex_lock(&progress_lock);
    if (progress_is_due()) {
        if (size)
            cli_put("\r", "%3d%% of %s", (int)(100 * done / size), name);
        else
            cli_put("\r", "%.1f MB of %s", (double)done / 1e6, name);
    }
    pthread_mutex_unlock(&progress_lock);
}

void cli_progress_end(void)
{
    pthread_mutex_lock(&progress_lock);
    if (under_way)
        fputs("\r\033[K", stderr);
    under_way = false;
    pthread_mutex_unlock(&progress_lock);
}

void cli_progress_forget(void)
{
    pthread_mutex_lock(&progress_lock);
    under_way = false;
    pthread_mutex_unlock(&progress_lock);
}

static void message(const char *command, const char *format, va_list args)
{
    char before[80] = "spex: ";
    cli_progress_end();
    if (command)
        snprintf(before, sizeof before, "spex %s: ", command);
    put(before, format, args);
    fputc('\n', stderr);
}

void cli_put(const char *before, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put(before, format, args);
    va_end(args);
}

void cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    message(current, format, args);
    va_end(args);
}

void cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    message(NULL, format, args);
    va_end(args);
}

/* How much malloc has given to the whole process; 0 under a sanitizer's malloc. */
static uint64_t in_use(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return (uint64_t)info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

static void out_of_memory(size_t size)
{
    char how_much[48] = "";
    if (size)
        snprintf(how_much, sizeof how_much, " for %zu bytes more", size);
    cli_error("no memory%s: %llu MB are allowed; --max-memory SIZE allows more, "
              "--time or another filter needs less",
              how_much, (unsigned long long)(memory_limit() >> 20));
    exit(CLI_DATA);
}

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    message(current, format, args);
    va_end(args);
    fprintf(stderr, current ? "Try 'spex help %s'.\n" : "Try 'spex help'.\n", current);
    return CLI_USAGE;
}

int cli_end_output(struct out *out)
{
    int error = out_fini(out);
    if (error)
        cli_error("standard output: %s", strerror(error));
    return error ? CLI_DATA : CLI_OK;
}

/* ---- nearest name ---- */

static unsigned distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    unsigned row[MAX + 1];
    size_t n = strnlen(b, MAX);
    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i] && i < MAX; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < n; j++) {
            unsigned keep = row[j + 1];
            unsigned best = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (keep + 1 < best)
                best = keep + 1;
            row[j + 1] = best;
            diagonal = keep;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    unsigned least = (unsigned)strlen(word) / 3 + 2;
    for (size_t i = 0; i < count; i++) /* rep: report */
        if (*word && !strncmp(candidates[i], word, strlen(word)))
            return candidates[i];
    for (size_t i = 0; i < count; i++) {
        unsigned d = distance(word, candidates[i]);
        if (d < least) {
            least = d;
            best = candidates[i];
        }
    }
    return best;
}

/* ---- options ---- */

bool cli_number(const char *text, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    uint64_t n = strtoull(text, &end, 0);
    static const char suffixes[] = "KMGkmg";
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)((suffix - suffixes) % 3 + 1) : 0;
    if (shift)
        end++;
    if (errno || *end || (shift && n >> (64 - shift)))
        return false;
    *value = n << shift;
    return true;
}

bool cli_percent(const char *text, double *fraction)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || (*end && strcmp(end, "%")) || !(percent >= 0 && percent <= 1000))
        return false;
    *fraction = percent / 100;
    return true;
}

static int bad_value(const struct cli_option *option, const char *value, const char *expected)
{
    return cli_usage("--%s: '%s' is not %s", option->name, value, expected);
}

/* Stands for an option of perf that has no effect here. */
static const struct cli_option nothing = {.type = CLI_FLAG};

static int set_option(void *options, const struct cli_option *option, const char *value)
{
    void *at = (char *)options + option->at;
    if (option == &nothing)
        return CLI_OK;
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)at = true;
        return CLI_OK;
    case CLI_STRING:
        *(const char **)at = value;
        return CLI_OK;
    case CLI_NUMBER:
        return cli_number(value, at) ? CLI_OK
                                     : bad_value(option, value, "a number (4096, 0x1000, 4K, 1M)");
    case CLI_REAL: {
        char *end;
        *(double *)at = strtod(value, &end);
        return end != value && !*end ? CLI_OK : bad_value(option, value, "a number");
    }
    case CLI_CHOICE: {
        size_t count = 0;
        for (; option->choices[count]; count++) {
            if (!strcmp(option->choices[count], value)) {
                *(int *)at = (int)count;
                return CLI_OK;
            }
        }
        char list[200] = "";
        for (size_t i = 0; i < count; i++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                     option->choices[i]);
        return cli_usage("--%s: '%s' is not one of %s", option->name, value, list);
    }
    case CLI_LIST: {
        struct cli_list *list = at;
        const char **item = memory_checked(vec_push(list));
        *item = value;
        return CLI_OK;
    }
    }
    return CLI_USAGE;
}

static const struct cli_option *find_long(const struct cli_command *command, const char *name,
                                          size_t size)
{
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == size && !strncmp(o->name, name, size))
            return o;
    return NULL;
}

/* The option that a word starting with a dash names, as spelled by us or by perf; and its value. */
static const struct cli_option *find_option(const struct cli_command *command, const char *word,
                                            const char **value)
{
    const struct cli_option *option = NULL;
    size_t size = word[1] == '-' ? strcspn(word, "=") : 2;
    if (word[1] == '-')
        option = find_long(command, word + 2, size - 2);
    for (const struct cli_option *o = command->options; o && o->name && word[1] != '-'; o++)
        if (o->letter == word[1])
            option = o;
    const struct perf_word *perf = option ? NULL : perf_word(command->name, word, size);
    if (perf && perf->ours)
        option = *perf->ours ? find_long(command, perf->ours, strlen(perf->ours)) : &nothing;
    *value = !word[size] ? NULL : word + size + (word[1] == '-');
    return option;
}

/* An operand that perf treats as a word: no file of that name exists. */
static const struct perf_word *perf_operand(const struct cli_command *command, const char *word)
{
    const struct perf_word *perf = perf_word(command->name, word, strlen(word));
    return perf && (perf->ours || access(word, F_OK)) ? perf : NULL;
}

static int unknown_option(const struct cli_command *command, const char *word)
{
    size_t size = word[1] == '-' ? strcspn(word, "=") : 2;
    const struct perf_word *perf = perf_word(command->name, word, size);
    if (perf && perf->says)
        return cli_usage("%.*s: %s", (int)size, word, perf->says);
    const char *names[100];
    size_t count = 0;
    for (const struct cli_option *o = command->options; o && o->name && count < 100; o++)
        names[count++] = o->name;
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)size - 2, word + 2);
    const char *near = word[1] == '-' ? cli_nearest(name, names, count) : NULL;
    if (near)
        return cli_usage("unknown option '%s'; did you mean '--%s'?", word, near);
    return cli_usage("unknown option '%s'", word);
}

/*
 * Fills options from argv. Operands are gathered at the front of operands.
 * A command whose synopsis starts with "--" (it runs a program) stops at the
 * first operand, as perf record does.
 */
static int parse(const struct cli_command *command, void *options, int argc, char **argv,
                 char **operands, int *operand_count)
{
    bool runs_program = !strncmp(command->synopsis, "[--]", 4);
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (o->standard)
            set_option(options, o, o->standard);
    *operand_count = 0;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        if (!strcmp(word, "--") || (runs_program && (word[0] != '-' || !word[1]))) {
            i += !strcmp(word, "--");
            while (i < argc)
                operands[(*operand_count)++] = argv[i++];
            break;
        }
        if (word[0] != '-' || !word[1]) {
            const struct perf_word *perf = *operand_count ? NULL : perf_operand(command, word);
            if (perf && perf->says)
                return cli_usage("%s: %s", word, perf->says);
            if (!perf)
                operands[(*operand_count)++] = word;
            continue;
        }
        const char *value;
        const struct cli_option *option = find_option(command, word, &value);
        const struct perf_word *style = NULL; /* -g caller, --call-graph=caller */
        if (option && option->type == CLI_FLAG && value)
            style = perf_word(command->name, value, strlen(value));
        if (style && style->says)
            return cli_usage("%s: %s", word, style->says);
        if (option && word[1] != '-' && value && *value != '-' && option->type == CLI_FLAG) {
            /* -abc: set this flag and look at the rest again */
            set_option(options, option, NULL);
            memmove(word + 1, word + 2, strlen(word + 2) + 1);
            i--;
            continue;
        }
        if (!option)
            return unknown_option(command, word);
        if (option->type == CLI_FLAG) {
            if (value)
                return cli_usage("%.*s takes no value", (int)strcspn(word, "="), word);
        } else if (!value) {
            if (++i >= argc)
                return cli_usage("--%s needs a value (%s)", option->name, option->argument);
            value = argv[i];
        }
        int status = set_option(options, option, value);
        if (status)
            return status;
    }
    operands[*operand_count] = NULL;
    return CLI_OK;
}

const struct cli_command *const cli_commands[] = {
#define COMMAND(name) &cli_##name,
#include "commands.def"
    NULL,
};

const struct cli_command *cli_find(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (!strcmp(cli_commands[i]->name, name))
            return cli_commands[i];
    return NULL;
}

int cli_unknown(const char *name)
{
    const char *names[100];
    size_t count = 0;
    while (cli_commands[count] && count < 100) {
        names[count] = cli_commands[count]->name;
        count++;
    }
    const char *near = cli_nearest(name, names, count);
    current = NULL;
    const struct perf_word *perf = perf_word("", name, strlen(name));
    if (perf)
        return cli_usage("%s: %s", name, perf->says);
    if (near)
        return cli_usage("unknown command '%s'; did you mean '%s'?", name, near);
    return cli_usage("unknown command '%s'", name);
}

/* ---- input and terminal ---- */

static bool load_stream(int fd, struct cli_input *input)
{
    size_t capacity = 0;
    for (;;) {
        if (!vec_grow(&input->data, &capacity, input->size + (1 << 16), 1)) {
            errno = ENOMEM;
            break;
        }
        ssize_t n = read(fd, input->data + input->size, capacity - input->size);
        if (n == 0)
            return true;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        input->size += (size_t)n;
    }
    cli_error("%s: %s", input->name, strerror(errno));
    free(input->data);
    return false;
}

bool cli_load(const char *path, struct cli_input *input)
{
    *input = (struct cli_input){.name = path && strcmp(path, "-") ? path : "standard input"};
    if (!path || !strcmp(path, "-"))
        return load_stream(STDIN_FILENO, input);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        cli_error("%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool ok = true;
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > SIZE_MAX) {
        cli_error("%s is larger than the memory that a 32-bit program can address; read it with a "
                  "64-bit one",
                  path);
        ok = false;
    } else if (S_ISREG(st.st_mode) && st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            input->data = data;
            input->size = (size_t)st.st_size;
            input->mapped = true;
        } else {
            ok = load_stream(fd, input);
        }
    } else {
        ok = load_stream(fd, input);
    }
    close(fd);
    return ok;
}

uint64_t cli_size(int fd)
{
    struct stat st;
    return !fstat(fd, &st) && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

void cli_unload(struct cli_input *input)
{
    if (input->mapped)
        munmap(input->data, input->size);
    else
        free(input->data);
    input->data = NULL;
}

unsigned cli_threads(uint64_t option)
{
    if (option)
        return option < JOBS_THREADS ? (unsigned)option : JOBS_THREADS;
    return jobs_cpus();
}

static bool asks_for_help(const struct cli_command *command, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
        if (!strncmp(command->synopsis, "[--]", 4) && argv[i][0] != '-')
            break; /* the rest belongs to the program */
    }
    return false;
}

/* Inputs are mapped: if a file becomes shorter, pages past its new end are gone. */
static void input_shrank(int signo, siginfo_t *info, void *context)
{
    static const char text[] = ": the input became shorter while it was read\n";
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        signal(signo, SIG_DFL);
        raise(signo);
        return;
    }
    (void)!write(STDERR_FILENO, "spex ", 5);
    (void)!write(STDERR_FILENO, current, strlen(current));
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(CLI_DATA);
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    current = command->name;
    static struct memory all = {.in_use = in_use, .exhausted = out_of_memory};
    all.limit = memory_half();
    memory_enter(&all);
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = input_shrank, .sa_flags = SA_SIGINFO},
              NULL);
    void *options = memory_get(1, command->size ? command->size : 1);
    char **operands = memory_get((size_t)argc + 1, sizeof *operands);
    int count = 0, status = parse(command, options, argc, argv, operands, &count);
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (!strcmp(o->name, "max-memory") && *(const uint64_t *)((char *)options + o->at))
            all.limit = *(const uint64_t *)((char *)options + o->at);
    if (!status) {
        if (command->pages)
            cli_pager_start();
        status = command->run(options, count, operands);
        cli_pager_end();
    }
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (o->type == CLI_LIST)
            free(((struct cli_list *)((char *)options + o->at))->items);
    free(operands);
    free(options);
    return status;
}

int cli_main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--no-pager")) {
        cli_pager_off();
        argc--;
        argv++;
    }
    if (argc < 2) {
        struct out out;
        out_init(&out, STDERR_FILENO);
        cli_help_all(&out);
        out_fini(&out);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "-v")) {
        printf("spex " SPEX_VERSION "\n");
        return CLI_OK;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    const struct cli_command *command = cli_find(name);
    if (!command || !command->records)
        cli_give_up_privileges();
    if (!command)
        return cli_unknown(name);
    if (asks_for_help(command, argc - 2, argv + 2))
        return cli_help_on(command->name);
    return run_command(command, argc - 2, argv + 2);
}
