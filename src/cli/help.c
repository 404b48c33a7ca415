/* Help, man pages and completion, all made from the tables of commands, options and topics. */
#include "cli.h"

#include "base/name.h"
#include "base/out.h"

#include <stdio.h>
#include <unistd.h>

static void option_label(const struct cli_option *o, char *label, size_t size)
{
    char letter[5] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(label, size, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
             o->argument ? o->argument : "");
}

static bool has_options(const struct cli_command *command)
{
    return command->options && command->options[0].name;
}

/* ---- terminal ---- */

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
    out_printf(out, "spex %s - %s\n\nUsage: spex %s%s%s%s\n", command->name, command->summary,
               command->name, has_options(command) ? " [OPTIONS]" : "",
               *command->synopsis ? " " : "", command->synopsis);
    if (command->details) {
        out_char(out, '\n');
        cli_wrap(out, command->details, 0);
    }
    if (!has_options(command))
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

void cli_help_all(struct out *out)
{
    const char *group = "";
    out_text(out, "spex - the Arm Statistical Profiling Extension in software\n\n"
                  "Usage: spex [--no-pager] COMMAND [OPTIONS] [OPERANDS]\n");
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

/* ---- man pages: one for spex, one for each command, one for the topics ---- */

/* Escapes dashes and backslashes, and lines that would begin a request. */
static void roff(struct out *out, const char *text)
{
    for (bool start = true; *text; start = *text++ == '\n') {
        if (start && (*text == '.' || *text == '\''))
            out_text(out, "\\&");
        if (*text == '-' || *text == '\\')
            out_char(out, '\\');
        out_char(out, *text);
    }
}

static void man_head(struct out *out, const char *name, int section, const char *summary)
{
    out_text(out, ".TH ");
    for (const char *p = name; *p; p++)
        out_char(out, *p == '-' ? '-' : (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p));
    out_printf(out, " %d \"\" \"spex " SPEX_VERSION "\" \"spex manual\"\n.SH NAME\n", section);
    roff(out, name);
    out_text(out, " \\- ");
    roff(out, summary);
    out_char(out, '\n');
}

static void man_options(struct out *out, const struct cli_command *command)
{
    if (has_options(command))
        out_text(out, ".SH OPTIONS\n");
    for (const struct cli_option *o = command->options; o && o->name; o++) {
        char label[80];
        option_label(o, label, sizeof label);
        out_text(out, ".TP\n.B ");
        roff(out, label);
        out_char(out, '\n');
        roff(out, o->help);
        if (o->standard) {
            out_text(out, " (default ");
            roff(out, o->standard);
            out_char(out, ')');
        }
        out_char(out, '\n');
    }
}

/* The end of every page: options common to all commands, and where to read on. */
static void man_tail(struct out *out, const struct cli_command *command)
{
    out_text(out, ".SH ENVIRONMENT\n.TP\n.B SPEX_PAGER, PAGER\npager for long output on a "
                  "terminal (default: less); empty or cat disables it\n.TP\n.B NO_COLOR\n"
                  "disables colour if set and not empty\n.TP\n.B COLUMNS\nwidth of tables\n"
                  ".SH EXIT STATUS\n0: success. 1: data errors; partial results are still printed. "
                  "2: usage error.\n.SH SEE ALSO\n");
    if (command)
        out_text(out, ".BR spex (1),\n");
    for (size_t i = 0; cli_commands[i]; i++)
        if (cli_commands[i] != command &&
            (!command || !strcmp(cli_commands[i]->group, command->group)))
            out_printf(out, ".BR spex\\-%s (1),\n", cli_commands[i]->name);
    out_text(out, ".BR spex\\-formats (7)\n");
}

static void man_command(struct out *out, const struct cli_command *command)
{
    char name[40];
    snprintf(name, sizeof name, "spex-%s", command->name);
    man_head(out, name, 1, command->summary);
    out_printf(out, ".SH SYNOPSIS\n.B spex %s\n", command->name);
    roff(out, has_options(command) ? "[OPTIONS] " : "");
    roff(out, command->synopsis);
    if (command->details) {
        out_text(out, "\n.SH DESCRIPTION\n");
        roff(out, command->details);
    }
    out_char(out, '\n');
    man_options(out, command);
    man_tail(out, command);
}

static void man_overview(struct out *out)
{
    const char *group = "";
    man_head(out, "spex", 1, "the Arm Statistical Profiling Extension in software");
    out_text(out, ".SH SYNOPSIS\n.B spex\n[\\-\\-no\\-pager] COMMAND [OPTIONS] [OPERANDS]\n"
                  ".SH DESCRIPTION\nProfiles AArch64 programs with the Arm Statistical Profiling "
                  "Extension (SPE), on Arm hardware or under QEMU with a model of the unit, and "
                  "reads such profiles.\n.B spex help NAME\nexplains a command.\n.SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *c = cli_commands[i];
        if (strcmp(c->group, group))
            out_printf(out, ".SS %s\n", group = c->group);
        out_printf(out, ".TP\n.BR spex\\-%s (1)\n", c->name);
        roff(out, c->summary);
        out_char(out, '\n');
    }
    man_tail(out, NULL);
}

/* The topics of `spex help`, as one page of section 7. */
static void man_formats(struct out *out)
{
    man_head(out, "spex-formats", 7, "names that spex takes and formats that it writes");
    out_text(out, ".SH DESCRIPTION\nTables that several commands of\n.BR spex (1)\nrefer to. Each "
                  "section is printed by\n.B spex help NAME\nas well.\n");
    for (const struct cli_topic *t = cli_topics; t->name; t++) {
        struct out text;
        out_init(&text, -1);
        t->print(&text);
        out_text(out, ".SH ");
        for (const char *p = t->name; *p; p++)
            out_char(out, (char)(*p - 'a' + 'A'));
        out_text(out, "\n");
        roff(out, t->summary);
        out_text(out, "\n.PP\n.nf\n");
        out_char(&text, '\0');
        roff(out, text.data);
        out_text(out, ".fi\n");
        out_fini(&text);
    }
}

/* ---- completion ---- */

static void all_names(struct out *out)
{
    for (size_t i = 0; cli_commands[i]; i++)
        out_printf(out, "%s%s", i ? " " : "", cli_commands[i]->name);
}

static void complete_bash(struct out *out)
{
    out_text(out, "# bash completion for spex\n_spex() {\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
                  "options=\n"
                  "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                  "        COMPREPLY=($(compgen -W \"");
    all_names(out);
    out_text(out,
             "\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]}$before in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        for (const struct cli_option *o = cli_commands[i]->options; o && o->name; o++) {
            if (o->type != CLI_CHOICE)
                continue;
            out_printf(out, "    %s--%s) COMPREPLY=($(compgen -W \"", cli_commands[i]->name,
                       o->name);
            for (size_t c = 0; o->choices[c]; c++)
                out_printf(out, "%s%s", c ? " " : "", o->choices[c]);
            out_text(out, "\" -- \"$word\")); return ;;\n");
        }
    }
    out_text(out, "    esac\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        out_printf(out, "    %s) options=\"", cli_commands[i]->name);
        for (const struct cli_option *o = cli_commands[i]->options; o && o->name; o++)
            out_printf(out, "%s--%s", o == cli_commands[i]->options ? "" : " ", o->name);
        out_text(out, "\" ;;\n");
    }
    out_text(out, "    help) options=\"");
    all_names(out);
    out_text(out, "\" ;;\n    esac\n    case $word in\n"
                  "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                  "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\n"
                  "complete -o filenames -F _spex spex\n");
}

/* Text inside single quotes; the characters in `special` are escaped for the shell's own syntax. */
static void quoted(struct out *out, const char *text, const char *special)
{
    out_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'') {
            out_text(out, "'\\''");
            continue;
        }
        if (strchr(special, *text))
            out_char(out, '\\');
        out_char(out, *text == '\n' ? ' ' : *text);
    }
    out_char(out, '\'');
}

/* --name[help]:argument:action, as zsh's _arguments expects it. */
static void zsh_option(struct out *out, const struct cli_option *o)
{
    char spec[600];
    out_text(out, " \\\n        ");
    if (o->letter)
        out_printf(out, "'(-%c --%s)'{-%c,--%s}", o->letter, o->name, o->letter, o->name);
    else if (o->type == CLI_LIST)
        out_printf(out, "'*'--%s", o->name);
    else
        out_printf(out, "--%s", o->name);
    snprintf(spec, sizeof spec, "[%s]", o->help);
    for (char *p = spec + 1; p[1]; p++) /* a bracket would end the text */
        *p = *p == '[' ? '(' : *p == ']' ? ')' : *p;
    quoted(out, spec, ":");
    if (!o->argument)
        return;
    out_text(out, "':value:");
    if (o->type == CLI_CHOICE) {
        out_char(out, '(');
        for (size_t c = 0; o->choices[c]; c++)
            out_printf(out, "%s%s", c ? " " : "", o->choices[c]);
        out_char(out, ')');
    } else {
        out_text(out, "_files");
    }
    out_char(out, '\'');
}

static void complete_zsh(struct out *out)
{
    out_text(out, "#compdef spex\nlocal -a commands\ncommands=(\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        char row[400];
        snprintf(row, sizeof row, "%s:%s", cli_commands[i]->name, cli_commands[i]->summary);
        out_text(out, "    ");
        quoted(out, row, "");
        out_char(out, '\n');
    }
    out_text(out, ")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
                  "local name=$words[2]\nshift words\n(( CURRENT-- ))\ncase $name in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        out_printf(out, "    %s) _arguments", cli_commands[i]->name);
        for (const struct cli_option *o = cli_commands[i]->options; o && o->name; o++)
            zsh_option(out, o);
        out_text(out, strcmp(cli_commands[i]->name, "help")
                          ? " \\\n        '*:file:_files' ;;\n"
                          : " \\\n        '1:command:{_describe command commands}' ;;\n");
    }
    out_text(out, "esac\n");
}

static void complete_fish(struct out *out)
{
    out_text(out, "# fish completion for spex\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *c = cli_commands[i];
        out_printf(out, "complete -c spex -n __fish_use_subcommand -f -a %s -d ", c->name);
        quoted(out, c->summary, "\\");
        out_char(out, '\n');
        for (const struct cli_option *o = c->options; o && o->name; o++) {
            out_printf(out, "complete -c spex -n '__fish_seen_subcommand_from %s' -l %s", c->name,
                       o->name);
            if (o->letter)
                out_printf(out, " -s %c", o->letter);
            if (o->type == CLI_CHOICE) {
                out_text(out, " -x -a '");
                for (size_t k = 0; o->choices[k]; k++)
                    out_printf(out, "%s%s", k ? " " : "", o->choices[k]);
                out_char(out, '\'');
            } else if (o->argument) {
                out_text(out, " -r");
            }
            out_text(out, " -d ");
            quoted(out, o->help, "\\");
            out_char(out, '\n');
        }
    }
}

/* ---- the command ---- */

static const struct cli_topic *find_topic(const char *name)
{
    for (const struct cli_topic *t = cli_topics; t->name; t++)
        if (!strcmp(t->name, name))
            return t;
    return NULL;
}

struct help_options {
    bool man;
    const char *completion;
};

static int run_help(void *options, int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*print)(struct out *out);
    } shells[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};
    const struct help_options *o = options;
    const struct cli_command *command = argc ? cli_find(argv[0]) : NULL;
    const struct cli_topic *topic = argc ? find_topic(argv[0]) : NULL;
    struct out out;
    if (argc && !command && !topic)
        return cli_unknown(argv[0]);
    void (*print)(struct out *) = o->man && topic ? man_formats
                                  : o->man        ? man_overview
                                  : topic         ? topic->print
                                                  : cli_help_all;
    if (o->completion) {
        print = NULL;
        for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
            if (!strcmp(o->completion, shells[i].shell))
                print = shells[i].print;
        if (!print)
            return cli_usage("--completion: '%s' is not one of bash, zsh, fish", o->completion);
    }
    out_init(&out, STDOUT_FILENO);
    if (command && !o->completion)
        (o->man ? man_command : help_command)(&out, command);
    else
        print(&out);
    return cli_end_output(&out);
}

int cli_help_on(const char *name)
{
    char *operand[] = {(char *)name, NULL};
    return run_help(&(struct help_options){0}, 1, operand);
}

static const struct cli_option help_options[] = {
    {"man", 0, CLI_FLAG, offsetof(struct help_options, man), NULL,
     "print the man page of spex, of a command, or, for a topic, of all formats", NULL, NULL},
    {"completion", 0, CLI_STRING, offsetof(struct help_options, completion), "SHELL",
     "print a completion script for bash, zsh or fish", NULL, NULL},
    {0},
};

const struct cli_command cli_help = {
    .name = "help",
    .group = "General",
    .pages = true,
    .synopsis = "[COMMAND|TOPIC]",
    .summary = "explain a command or topic, or list all",
    .options = help_options,
    .size = sizeof(struct help_options),
    .run = run_help,
};
