/* Files that belong to spex: beside the program in a build tree, or installed. */
#ifndef CLI_LOCATE_H
#define CLI_LOCATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path of a file by name (libspex-qemu.so, vm-setup): beside the running
 * program, in ../lib/spex of it, or in scripts/ of the source tree it was built
 * from. Prints what was looked for and returns false if there is none.
 */
bool cli_locate(const char *name, char *path, size_t size);

/* A program in PATH, or with a / in its name where that says. */
bool cli_program(const char *name, char *path, size_t size);
/* Shows a page in the browser, if there is one: an exit code. */
int cli_browse(const char *page);
/* What shows a page: $BROWSER, or what the desktop says; false without a desktop. */
bool cli_browser(char *path, size_t size);
/*
 * Where DuckDB's library is: named by the user, next to the program, set up, or left to the
 * system's loader.
 */
void cli_duckdb(char *path, size_t size);

/* Where a user keeps what spex has set up: in $XDG_DATA_HOME or ~/.local/share. */
void cli_data_directory(char *path, size_t size);

/* Runs a script that cli_locate() finds with a directory and a word (or NULL): exit code. */
int cli_set_up(const char *script, const char *directory, const char *word);

/* The path of something beside the running program: where begins with a name or "../". */
bool cli_beside(const char *where, char *path, size_t size);

#endif
