/*
 * The command line: one table of commands, one table of options per command.
 * Help, man page synopsis and completion are printed from these tables alone.
 * Only this module prints to the terminal or exits.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <spex/base.h>

enum cli_exit { CLI_OK = 0, CLI_DATA = 1, CLI_USAGE = 2 };

enum cli_type {
    CLI_FLAG,   /* bool */
    CLI_STRING, /* const char * */
    CLI_NUMBER, /* uint64_t; 0x, and the suffixes K, M, G (1024) */
    CLI_REAL,   /* double */
    CLI_CHOICE, /* int: index into choices */
    CLI_LIST,   /* struct cli_list: may be given several times */
};

struct cli_list {
    const char **items;
    size_t count, capacity;
};

struct cli_option {
    const char *name; /* long name without dashes; NULL ends the table */
    char letter;      /* short name or 0 */
    enum cli_type type;
    size_t at;                  /* offsetof in the command's options struct */
    const char *argument;       /* name of the value in help, NULL for a flag */
    const char *help;           /* one sentence, no full stop */
    const char *standard;       /* default as text, or NULL for zero */
    const char *const *choices; /* CLI_CHOICE: NULL-terminated */
};

struct cli_command {
    const char *name;
    const char *group;    /* heading in `spex help` */
    const char *synopsis; /* what follows the options, for example "[FILE]" */
    const char *summary;  /* one line, starts lower case */
    const char *details;  /* further paragraphs for `spex help NAME`, or NULL */
    const struct cli_option *options;
    size_t size; /* size of the options struct; it is zeroed and filled before run */
    /* argv holds operands only; argv[argc] is NULL */
    int (*run)(void *options, int argc, char **argv);
    bool pages;   /* prints for people to read: through a pager on a terminal */
    bool records; /* uses this machine's SPE: keeps privileges from capabilities or set-user-ID */
};

/* Gives up the privileges of the file's capabilities or set-user-ID bit, for good. */
void cli_give_up_privileges(void);

/* The row of --threads N, for commands that use several threads. */
#define CLI_THREADS(type, member)                                                                  \
    {                                                                                              \
        "threads", 0, CLI_NUMBER, offsetof(type, member), "N",                                     \
            "threads to use; the output does not depend on it (default: one per CPU)", NULL, NULL  \
    }
unsigned cli_threads(uint64_t option);

/* The groups of commands, in the order of help. */
#define CLI_FIRST "The first day"
#define CLI_WHY "Who is slow and why"
#define CLI_RUNS "Other runs"
#define CLI_OTHERS "For other programs"
#define CLI_RECORDS "Records and the unit"

/* The row of --max-memory SIZE, for commands that read. */
#define CLI_MEMORY(at)                                                                             \
    {                                                                                              \
        "max-memory", 0, CLI_NUMBER, at, "SIZE",                                                   \
            "memory limit for the input (default: half of the machine's)", NULL, NULL              \
    }

#define COMMAND(name) extern const struct cli_command cli_##name;
#include "cli/commands.def"
/* All commands, NULL-terminated, in the order of help. */
extern const struct cli_command *const cli_commands[];

/* Topics of help that are not commands: `spex help features`. NULL-terminated. */
struct out;
struct cli_topic {
    const char *name, *summary;
    void (*print)(struct out *out);
};
extern const struct cli_topic cli_topics[];

/* Prints words wrapped to the terminal, continuation lines indented; ends the line. */
void cli_wrap(struct out *out, const char *text, unsigned indent);

/*
 * Prints "spex NAME: text" or "spex: text" on stderr, in one line. Characters that control a
 * terminal are escaped as base/name.h says, so that any name may be part of it.
 */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same without a newline: `before`, which may contain anything, then the text. */
void cli_put(const char *before, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Shows on a terminal how much of a long task is done; the next message, or the end, removes it. */
void cli_progress(const char *name, uint64_t done, uint64_t size);
/* The same for work whose size is not known: any line of text. */
void cli_progress_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_progress_end(void);
void cli_progress_forget(void); /* someone else has removed the line */
/* The size of a regular file; 0 for anything else. */
uint64_t cli_size(int fd);
/* Like cli_error, with a pointer to help; returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A number as options accept it: 0x, and the suffixes K, M, G (1024). */
bool cli_number(const char *text, uint64_t *value);

/* 1% or 0.5, as a fraction; false if it is neither. */
bool cli_percent(const char *text, double *fraction);

/* Ends standard output: CLI_OK, or CLI_DATA after a message if not all could be written. */
int cli_end_output(struct out *out);

/* The candidate that starts with word, or the nearest one (edit distance); NULL if none is near. */
const char *cli_nearest(const char *word, const char *const *candidates, size_t count);

/* An entire input: a file, or standard input for "-" or NULL. cli_unload frees it. */
struct cli_input {
    const char *name; /* shown in messages */
    uint8_t *data;
    size_t size;
    bool mapped;
};
bool cli_load(const char *path, struct cli_input *input); /* prints why and returns false */
void cli_unload(struct cli_input *input);

/* Width of the terminal on stdout, or $COLUMNS; 0 when output is not a terminal. */
unsigned cli_columns(void);
/* Should this stream have colour? It is a terminal and NO_COLOR is not set. */
bool cli_colour(int fd);

/*
 * Sends long output through $SPEX_PAGER, $PAGER or less on a terminal; width and colour remain
 * those of the terminal. Ending closes standard output and waits until the user leaves the pager.
 */
void cli_pager_start(void);
void cli_pager_end(void);
void cli_pager_off(void);

const struct cli_command *cli_find(const char *name); /* or NULL */
/* Reports a word that is not a command, with the nearest one; returns CLI_USAGE. */
int cli_unknown(const char *name);
int cli_help_on(const char *name);
void cli_help_all(struct out *out);

int cli_main(int argc, char **argv);

#endif
