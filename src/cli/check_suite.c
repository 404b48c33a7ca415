/*
 * Reads the suite file of spex check: the part of TOML that it needs. Keys before the first [name]
 * are for all benchmarks; values are strings, numbers, and arrays of strings.
 */
#include "check.h"

#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 256, MOST = 1 << 20 };

struct value {
    char *words[WORDS + 1]; /* NULL after the last */
    size_t count;
    bool array;
};

struct suite {
    const char *path;
    struct check_plan *plan;
    const char *at;
    unsigned line;
    struct value value;
    /* common: keys before the first benchmark; now: the benchmark whose keys are being read */
    struct check_case common, now;
    struct value cpus, common_cpus;
    char *name;
};

static int wrong(const struct suite *s, const char *what, const char *word)
{
    cli_error("%s:%u: %s%s%s", s->path, s->line, what, word ? " " : "", word ? word : "");
    return CLI_USAGE;
}

/* ---- TOML ---- */

static void skip_blanks(struct suite *s, bool lines)
{
    for (;; s->at++) {
        if (*s->at == '#')
            s->at += strcspn(s->at, "\n");
        if (*s->at == '\n' && lines)
            s->line++;
        else if (*s->at != ' ' && *s->at != '\t' && *s->at != '\r')
            return;
    }
}

static char *new_word(struct suite *s, const char *text, size_t size)
{
    char *word = check_keep(s->plan, memory_checked(strndup(text, size)));
    if (s->value.count == WORDS)
        return NULL;
    s->value.words[s->value.count++] = word;
    s->value.words[s->value.count] = NULL;
    return word;
}

/* Either "..." with escapes, or '...' without. */
static int read_string(struct suite *s)
{
    static const char names[] = "\"\\nt", values[] = "\"\\\n\t";
    char quote = *s->at++;
    const char *from = s->at, *known;
    while (*s->at && *s->at != quote && *s->at != '\n')
        s->at += 1 + (quote == '"' && *s->at == '\\' && s->at[1] && s->at[1] != '\n');
    if (*s->at != quote)
        return wrong(s, "the string has no end", NULL);
    char *word = new_word(s, from, (size_t)(s->at++ - from)), *to = word;
    if (!word)
        return wrong(s, "more than 256 words", NULL);
    for (const char *p = word; *p; p++) {
        char c = *p;
        if (quote == '"' && c == '\\') {
            if (!(known = strchr(names, *++p)))
                return wrong(s, "an escape other than \\\" \\\\ \\n \\t; '...' needs none", NULL);
            c = values[known - names];
        }
        *to++ = c;
    }
    *to = '\0';
    return CLI_OK;
}

static int read_word(struct suite *s)
{
    if (*s->at == '"' || *s->at == '\'')
        return read_string(s);
    size_t n = strcspn(s->at, " \t\r\n,]#=[{}\"'");
    if (!n || !isdigit((unsigned char)*s->at))
        return wrong(s, "a value is a string in quotes, a number, or an array [...] of strings",
                     NULL);
    new_word(s, s->at, n);
    s->at += n;
    return CLI_OK;
}

static int read_value(struct suite *s)
{
    s->value = (struct value){.array = *s->at == '['};
    if (!s->value.array)
        return read_word(s);
    s->at++;
    for (;;) {
        skip_blanks(s, true);
        if (*s->at == ']')
            break;
        int status = read_word(s);
        if (status)
            return status;
        skip_blanks(s, true);
        if (*s->at == ',')
            s->at++;
        else if (*s->at != ']')
            return wrong(s, "a comma or ] is missing", NULL);
    }
    s->at++;
    return CLI_OK;
}

/* ---- keys ---- */

static int one_text(struct suite *s, const char **to, const char *key)
{
    if (s->value.array || s->value.count != 1)
        return wrong(s, "one string is expected for", key);
    *to = s->value.words[0];
    return CLI_OK;
}

static int add_list(struct suite *s, struct cli_list *to)
{
    for (size_t i = 0; i < s->value.count; i++) {
        to->items = memory_grow(to->items, to->count, &to->capacity, sizeof *to->items);
        to->items[to->count++] = s->value.words[i];
    }
    return CLI_OK;
}

/* A string is split at blanks. */
static int set_command(struct suite *s)
{
    struct value *v = &s->value;
    if (!v->array && v->count == 1) {
        char *text = v->words[0];
        v->count = 0;
        for (char *word = strtok(text, " \t"); word && v->count < WORDS; word = strtok(NULL, " \t"))
            v->words[v->count++] = word;
        v->words[v->count] = NULL;
    }
    if (!v->count)
        return wrong(s, "command is empty", NULL);
    s->now.argv = memory_get(v->count + 1, sizeof *s->now.argv);
    check_keep(s->plan, (char *)s->now.argv);
    memcpy(s->now.argv, v->words, v->count * sizeof *v->words);
    return CLI_OK;
}

static int set_number(struct suite *s, const char *key)
{
    struct check_case *c = &s->now;
    const char *text;
    int status = one_text(s, &text, key);
    if (status)
        return status;
    if (!strcmp(key, "threshold"))
        return cli_percent(text, &c->threshold)
                   ? CLI_OK
                   : wrong(s, "threshold is a percentage such as \"0.5%\", not", text);
    return cli_number(text, &c->layouts) && c->layouts && c->layouts <= 64
               ? CLI_OK
               : wrong(s, "repeat is a number from 1 to 64, not", text);
}

static int set_key(struct suite *s, const char *key)
{
    struct check_case *c = &s->now;
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"input", &c->input},
                 {"directory", &c->directory},
                 {"start_at", &c->start_at},
                 {"stop_at", &c->stop_at},
                 {"sysroot", &c->sysroot}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key))
            return one_text(s, texts[i].to, key);
    if (!strcmp(key, "command"))
        return s->name ? set_command(s)
                       : wrong(s, "command stands below the [name] of its", "benchmark");
    if (!strcmp(key, "env"))
        return add_list(s, &c->environment);
    if (!strcmp(key, "model"))
        return add_list(s, &c->model);
    if (!strcmp(key, "cpu")) {
        s->cpus = s->value;
        return s->value.count ? CLI_OK : wrong(s, "cpu is empty", NULL);
    }
    if (!strcmp(key, "threshold") || !strcmp(key, "repeat"))
        return set_number(s, key);
    static const char *const keys[] = {"command", "input",     "directory", "start_at",
                                       "stop_at", "sysroot",   "env",       "model",
                                       "cpu",     "threshold", "repeat"};
    const char *near = cli_nearest(key, keys, sizeof keys / sizeof *keys);
    if (near)
        cli_error("%s:%u: unknown key %s; did you mean %s?", s->path, s->line, key, near);
    else
        wrong(s, "unknown key", key);
    return CLI_USAGE;
}

/* ---- benchmarks ---- */

static struct cli_list copy_list(const struct cli_list *from)
{
    struct cli_list to = {0};
    for (size_t i = 0; i < from->count; i++) {
        to.items = memory_grow(to.items, to.count, &to.capacity, sizeof *to.items);
        to.items[to.count++] = from->items[i];
    }
    return to;
}

/* Called when the keys of a benchmark have been read: makes one case for each CPU. */
static int end_benchmark(struct suite *s)
{
    if (!s->name) {
        s->common = s->now;
        s->common_cpus = s->cpus;
        return CLI_OK;
    }
    if (!s->now.argv)
        return wrong(s, "there is no command for", s->name);
    for (size_t i = 0; i < s->cpus.count || !i; i++) {
        struct check_case *c = check_add(s->plan);
        *c = s->now;
        c->name = s->name;
        if (s->cpus.count)
            c->cpu = s->cpus.words[i];
        c->environment = copy_list(&s->now.environment);
        c->model = copy_list(&s->now.model);
    }
    free(s->now.environment.items);
    free(s->now.model.items);
    return CLI_OK;
}

static int begin_benchmark(struct suite *s)
{
    int status = end_benchmark(s);
    if (status)
        return status;
    s->now = s->common;
    s->now.environment = copy_list(&s->common.environment);
    s->now.model = copy_list(&s->common.model);
    s->cpus = s->common_cpus;
    s->at++;
    skip_blanks(s, false);
    s->value = (struct value){0};
    if (*s->at == '"' || *s->at == '\'') {
        status = read_string(s);
    } else {
        size_t n = strcspn(s->at, "] \t\r\n#");
        new_word(s, s->at, n);
        s->at += n;
    }
    skip_blanks(s, false);
    if (status || !s->value.words[0][0] || *s->at++ != ']')
        return status ? status : wrong(s, "a benchmark begins with its [name]", NULL);
    s->name = s->value.words[0];
    for (size_t i = 0; i < s->plan->count; i++)
        if (!strcmp(s->plan->items[i].name, s->name))
            return wrong(s, "a second benchmark is called", s->name);
    return CLI_OK;
}

static int read_line(struct suite *s)
{
    int status;
    char key[40];
    if (*s->at == '[') {
        status = begin_benchmark(s);
    } else {
        size_t n = strcspn(s->at, " \t\r\n=");
        snprintf(key, sizeof key, "%.*s", (int)n, s->at);
        s->at += n;
        skip_blanks(s, false);
        if (*s->at != '=')
            return wrong(s, "a line is [name], or KEY = VALUE; this begins with", key);
        s->at++;
        skip_blanks(s, false);
        status = read_value(s);
        if (!status)
            status = set_key(s, key);
    }
    if (status)
        return status;
    skip_blanks(s, false);
    return !*s->at || *s->at == '\n' ? CLI_OK : wrong(s, "something follows the value", NULL);
}

int check_suite(const char *path, const struct check_case *standard, struct check_plan *plan)
{
    struct cli_input input;
    const char *slash = strrchr(path, '/');
    if (!cli_load(path, &input))
        return CLI_DATA;
    struct suite s = {.path = path, .plan = plan, .line = 1, .now = *standard};
    s.now.environment = copy_list(&standard->environment);
    s.now.model = copy_list(&standard->model);
    if (slash && !standard->directory)
        s.now.directory =
            check_keep(plan, memory_checked(strndup(path, (size_t)(slash - path + 1))));
    int status = CLI_OK;
    if (input.size > MOST || memchr(input.data, '\0', input.size)) {
        cli_error("%s is no suite of benchmarks: %s", path,
                  input.size > MOST ? "it is larger than 1 MB" : "it holds a byte of zero");
        status = CLI_USAGE;
    } else {
        s.at = check_keep(plan, memory_checked(strndup((char *)input.data, input.size)));
    }
    for (skip_blanks(&s, true); !status && *s.at; skip_blanks(&s, true))
        status = read_line(&s);
    if (!status)
        status = end_benchmark(&s);
    if (!status && !plan->count)
        status = wrong(&s, "there is no benchmark: [name], then command = [...]", NULL);
    free(s.common.environment.items);
    free(s.common.model.items);
    cli_unload(&input);
    return status;
}
