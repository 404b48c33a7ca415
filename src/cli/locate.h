/* Finds files that belong to spex: beside the program in a build tree, or installed. */
#ifndef CLI_LOCATE_H
#define CLI_LOCATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path of a file by name (libspex-qemu.so, vm-setup): beside the running program, in
 * ../lib/spex from there, or in scripts/ of the source tree it was built from. If there is none,
 * prints where it looked and returns false.
 */
bool cli_locate(const char *name, char *path, size_t size);

/* A program in PATH; if name contains a /, the file at that path. */
bool cli_program(const char *name, char *path, size_t size);
/* Shows a page in the browser, if there is one; returns an exit code. */
int cli_browse(const char *page);
/* The browser: $BROWSER, or the desktop's; false without a desktop. */
bool cli_browser(char *path, size_t size);
/*
 * DuckDB's library: named by the user, beside the program, installed by spex, or left to the
 * system's loader.
 */
void cli_duckdb(char *path, size_t size);

/* Where spex installs things for a user: in $XDG_DATA_HOME or ~/.local/share. */
void cli_data_directory(char *path, size_t size);

/*
 * Runs a script found by cli_locate() with a directory and a word (or NULL); returns its exit code.
 */
int cli_set_up(const char *script, const char *directory, const char *word);

/* The path of something relative to the running program: where begins with a name or "../". */
bool cli_beside(const char *where, char *path, size_t size);

#endif
