/* Option parsing, help, man page and completion from the command table. */
#include "cli.h"

#include "base/chunks.h"
#include "base/name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static void message(const char *command, const char *format, va_list args)
{
    char before[80] = "spex: ";
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

void *cli_memory(void *memory)
{
    if (!memory) {
        cli_error("out of memory");
        exit(CLI_DATA);
    }
    return memory;
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

static bool parse_number(const char *text, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    uint64_t n = strtoull(text, &end, 0);
    unsigned shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift)
        end++;
    if (errno || *end || (shift && n >> (64 - shift)))
        return false;
    *value = n << shift;
    return true;
}

static int bad_value(const struct cli_option *option, const char *value, const char *expected)
{
    return cli_usage("--%s: '%s' is not %s", option->name, value, expected);
}

static int set_option(void *options, const struct cli_option *option, const char *value)
{
    void *at = (char *)options + option->at;
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)at = true;
        return CLI_OK;
    case CLI_STRING:
        *(const char **)at = value;
        return CLI_OK;
    case CLI_NUMBER:
        return parse_number(value, at) ? CLI_OK : bad_value(option, value, "a number");
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
        const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
        if (!items)
            return cli_usage("out of memory");
        list->items = items;
        list->items[list->count++] = value;
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

static int unknown_option(const struct cli_command *command, const char *word)
{
    const char *names[100];
    size_t count = 0;
    for (const struct cli_option *o = command->options; o && o->name && count < 100; o++)
        names[count++] = o->name;
    const char *near = word[1] == '-' ? cli_nearest(word + 2, names, count) : NULL;
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
            operands[(*operand_count)++] = word;
            continue;
        }
        const struct cli_option *option = NULL;
        const char *value = NULL;
        if (word[1] == '-') {
            size_t size = strcspn(word + 2, "=");
            option = find_long(command, word + 2, size);
            if (word[2 + size] == '=')
                value = word + 2 + size + 1;
        } else {
            for (const struct cli_option *o = command->options; o && o->name; o++)
                if (o->letter == word[1])
                    option = o;
            if (option && word[2]) {
                if (option->type == CLI_FLAG) {
                    /* -abc: set this flag and look at the rest again */
                    set_option(options, option, NULL);
                    word[1] = '-';
                    memmove(word + 1, word + 2, strlen(word + 2) + 1);
                    i--;
                    continue;
                }
                value = word + 2;
            }
        }
        if (!option)
            return unknown_option(command, word);
        if (option->type == CLI_FLAG) {
            if (value)
                return cli_usage("--%s takes no value", option->name);
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

/* ---- help, man page, completion ---- */

static void option_label(const struct cli_option *o, char *label, size_t size)
{
    char letter[5] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(label, size, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
             o->argument ? o->argument : "");
}

void cli_wrap(struct out *out, const char *text, unsigned indent)
{
    unsigned width = cli_columns() ? cli_columns() : 80;
    unsigned column = indent;
    while (*text) {
        size_t n = strcspn(text, " \n");
        if (column > indent && column + 1 + n > width) {
            out_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            out_char(out, ' ');
            column++;
        }
        out_name_bytes(out, text, n);
        column += (unsigned)n;
        text += n;
        if (*text == '\n') {
            out_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        text += *text != '\0';
    }
    out_char(out, '\n');
}

static void help_command(struct out *out, const struct cli_command *command)
{
    enum { INDENT = 28 };
    bool has_options = command->options && command->options[0].name;
    out_printf(out, "spex %s - %s\n\nUsage: spex %s%s%s%s\n", command->name, command->summary,
               command->name, has_options ? " [OPTIONS]" : "", *command->synopsis ? " " : "",
               command->synopsis);
    if (command->details) {
        out_char(out, '\n');
        cli_wrap(out, command->details, 0);
    }
    if (!has_options)
        return;
    out_text(out, "\nOptions:\n");
    for (const struct cli_option *o = command->options; o->name; o++) {
        char label[80], help[400];
        option_label(o, label, sizeof label);
        if (strlen(label) > INDENT - 4)
            out_printf(out, "  %s\n%*s", label, INDENT, "");
        else
            out_printf(out, "  %-*s", INDENT - 2, label);
        snprintf(help, sizeof help, "%s%s%s%s", o->help, o->standard ? " (default " : "",
                 o->standard ? o->standard : "", o->standard ? ")" : "");
        cli_wrap(out, help, INDENT);
    }
}

static void help_all(struct out *out)
{
    const char *group = "";
    out_text(out, "spex - the Arm Statistical Profiling Extension in software\n\n"
                  "Usage: spex COMMAND [OPTIONS] [OPERANDS]\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *c = cli_commands[i];
        if (strcmp(c->group, group))
            out_printf(out, "\n%s:\n", group = c->group);
        out_printf(out, "  %-10s ", c->name);
        cli_wrap(out, c->summary, 13);
    }
    out_text(out, "\nTopics:\n");
    for (const struct cli_topic *t = cli_topics; t->name; t++)
        out_printf(out, "  %-10s %s\n", t->name, t->summary);
    out_text(
        out,
        "\n'spex help NAME' explains a command or topic; 'spex --version' prints the version.\n");
}

/* roff wants dashes and backslashes escaped. */
static void roff(struct out *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            out_char(out, '\\');
        out_char(out, *text);
    }
}

static void man_page(struct out *out)
{
    out_text(out, ".TH SPEX 1 \"\" \"spex " SPEX_VERSION "\"\n.SH NAME\nspex \\- the Arm "
                  "Statistical Profiling Extension in software\n.SH SYNOPSIS\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        out_printf(out, ".B spex %s\n", cli_commands[i]->name);
        roff(out, cli_commands[i]->options ? "[OPTIONS] " : "");
        roff(out, cli_commands[i]->synopsis);
        out_text(out, "\n.br\n");
    }
    out_text(out, ".SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *c = cli_commands[i];
        out_printf(out, ".SS %s\n", c->name);
        roff(out, c->summary);
        if (c->details) {
            out_text(out, "\n.PP\n");
            roff(out, c->details);
        }
        for (const struct cli_option *o = c->options; o && o->name; o++) {
            char label[80];
            option_label(o, label, sizeof label);
            out_text(out, "\n.TP\n.B ");
            roff(out, label);
            out_char(out, '\n');
            roff(out, o->help);
        }
        out_char(out, '\n');
    }
    out_text(out, ".SH EXIT STATUS\n0 fine, 1 data errors (partial results are still printed), "
                  "2 usage.\n");
}

static void completion(struct out *out)
{
    out_text(out, "# bash completion for spex\n_spex() {\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
                  "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                  "        COMPREPLY=($(compgen -W \"");
    for (size_t i = 0; cli_commands[i]; i++)
        out_printf(out, "%s%s", i ? " " : "", cli_commands[i]->name);
    out_text(out, "\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        out_printf(out, "    %s) options=\"", cli_commands[i]->name);
        for (const struct cli_option *o = cli_commands[i]->options; o && o->name; o++)
            out_printf(out, "%s--%s", o == cli_commands[i]->options ? "" : " ", o->name);
        out_text(out, "\" ;;\n");
    }
    out_text(out, "    esac\n    case $word in\n"
                  "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                  "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\n"
                  "complete -o filenames -F _spex spex\n");
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (!strcmp(cli_commands[i]->name, name))
            return cli_commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[100];
    size_t count = 0;
    while (cli_commands[count] && count < 100) {
        names[count] = cli_commands[count]->name;
        count++;
    }
    const char *near = cli_nearest(name, names, count);
    if (near)
        return cli_usage("unknown command '%s'; did you mean '%s'?", name, near);
    return cli_usage("unknown command '%s'", name);
}

/* ---- help as a command ---- */

static const struct cli_topic *find_topic(const char *name)
{
    for (const struct cli_topic *t = cli_topics; t->name; t++)
        if (!strcmp(t->name, name))
            return t;
    return NULL;
}

struct help_options {
    bool man, completion;
};

static int run_help(void *options, int argc, char **argv)
{
    const struct help_options *o = options;
    const struct cli_command *command = argc ? find_command(argv[0]) : NULL;
    const struct cli_topic *topic = argc ? find_topic(argv[0]) : NULL;
    struct out out;
    if (argc && !command && !topic) {
        current = NULL;
        return unknown_command(argv[0]);
    }
    out_init(&out, STDOUT_FILENO);
    if (o->man)
        man_page(&out);
    else if (o->completion)
        completion(&out);
    else if (command)
        help_command(&out, command);
    else if (topic)
        topic->print(&out);
    else
        help_all(&out);
    return out_fini(&out) ? CLI_DATA : CLI_OK;
}

static const struct cli_option help_options[] = {
    {"man", 0, CLI_FLAG, offsetof(struct help_options, man), NULL, "print the man page", NULL,
     NULL},
    {"completion", 0, CLI_FLAG, offsetof(struct help_options, completion), NULL,
     "print a completion script for bash", NULL, NULL},
    {0},
};

extern const struct cli_command cli_help;
const struct cli_command cli_help = {
    .name = "help",
    .group = "General",
    .synopsis = "[COMMAND|TOPIC]",
    .summary = "explain a command or topic, or list all",
    .options = help_options,
    .size = sizeof(struct help_options),
    .run = run_help,
};

/* ---- input and terminal ---- */

static bool load_stream(int fd, struct cli_input *input)
{
    size_t capacity = 1 << 16;
    input->data = malloc(capacity);
    while (input->data) {
        ssize_t n = read(fd, input->data + input->size, capacity - input->size);
        if (n == 0)
            return true;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        input->size += (size_t)n;
        if (input->size == capacity) {
            uint8_t *data = realloc(input->data, capacity *= 2);
            if (!data)
                break;
            input->data = data;
        }
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
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
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
    enum { STANDARD = 8 };
    unsigned cpus = chunks_cpus();
    if (option)
        return option < CHUNKS_THREADS_MAX ? (unsigned)option : CHUNKS_THREADS_MAX;
    return cpus < STANDARD ? cpus : STANDARD;
}

unsigned cli_columns(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (columns && atoi(columns) > 0)
        return (unsigned)atoi(columns);
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
        return size.ws_col;
    return isatty(STDOUT_FILENO) ? 80 : 0;
}

bool cli_colour(int fd)
{
    const char *no = getenv("NO_COLOR");
    return isatty(fd) && !(no && *no);
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        struct out out;
        out_init(&out, STDERR_FILENO);
        help_all(&out);
        out_fini(&out);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("spex " SPEX_VERSION "\n");
        return CLI_OK;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    const struct cli_command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--help")) {
            char *operand[] = {argv[1], NULL};
            struct help_options none = {0};
            return run_help(&none, 1, operand);
        }
        if (!strncmp(command->synopsis, "[--]", 4) && argv[i][0] != '-')
            break;
    }
    current = command->name;
    void *options = calloc(1, command->size ? command->size : 1);
    char **operands = calloc((size_t)argc + 1, sizeof *operands);
    int count = 0, status = CLI_USAGE;
    if (options && operands)
        status = parse(command, options, argc - 2, argv + 2, operands, &count);
    if (!status)
        status = command->run(options, count, operands);
    for (const struct cli_option *o = command->options; options && o && o->name; o++)
        if (o->type == CLI_LIST)
            free(((struct cli_list *)((char *)options + o->at))->items);
    free(operands);
    free(options);
    return status;
}
