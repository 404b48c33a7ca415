/* What is shown beside the samples of a function: its source, and where its branches go. */
#ifndef REPORT_SOURCES_H
#define REPORT_SOURCES_H

#include <spex/symbols.h>

/*
 * Where sources may be read from. Debug information names them, but grants nothing: whoever made
 * the profile or the program may have put the name of any file into it. A file is read only if it
 * is a regular file that lies, with all links resolved, below the working directory, the directory
 * of the program's file, or one that the user named. Hidden files (.ssh, .env) are read only below
 * what the user named, and nothing is ever read from /proc, /sys, /dev and /etc.
 */
struct source_places {
    const char *symfs;       /* may be NULL */
    const char *const *dirs; /* directories given by --source-dir */
    size_t dir_count;
    bool none; /* no source at all */
};

/* A source file; looked for once. */
struct source {
    char *path;                  /* path in the debug information */
    struct spex_module *program; /* the module whose debug information names it */
    char *real;                  /* path of the file that was read, links resolved; NULL: none */
    char *text;                  /* NULL: not found; its lines end with 0 */
    char **lines;
    size_t count, capacity;
    int error;     /* errno if the file exists but cannot be read */
    bool outside;  /* the file exists outside the directories that may be read */
    bool reported; /* set by the caller once it has shown the reason */
    struct source *next;
};

struct sources;
struct sources *sources_new(const struct source_places *places); /* allocates with base/memory.h */
void sources_free(struct sources *sources);
/*
 * Looks below the directories that the user named, at the path itself, and in the working
 * directory.
 */
struct source *sources_get(struct sources *sources, const struct spex_line *line,
                           struct spex_module *program);
/* Why a file that exists has no text; NULL otherwise. */
const char *source_problem(const struct source *source);
/* The files that were read, by number; NULL after the last. */
const struct source *sources_read(const struct sources *sources, size_t index);

/* "bl #0xfc" to "bl sum", "b.ne #-0xc" to "b.ne 0x401204". */
void code_name_target(const struct spex_symbol *symbol, uint32_t word, uint64_t address,
                      char text[SPEX_INSTRUCTION_TEXT]);

#endif
