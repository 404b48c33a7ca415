/*
 * The lines of spex script: one record each, as text, JSON or CSV, with the fields that were
 * asked for.
 */
#ifndef CLI_SCRIPT_LINES_H
#define CLI_SCRIPT_LINES_H

#include "cli/profile.h"

struct script_lines;

enum {
    SCRIPT_BLOCK = 64,    /* bytes that may be read after the text of a piece */
    SCRIPT_FULL_PATH = 1, /* flags: whole paths of files */
    SCRIPT_PERF = 2,      /* only what script_lines_perf gives */
};

/* Fields, format and output are the profile's. CLI_OK, or the exit status, the reason printed.
 */
int script_lines_new(struct script_lines **lines, struct profile *profile, unsigned flags);
void script_lines_free(struct script_lines *lines);

/* Can other threads than the one that runs the analysis make lines, each with lines of its own? */
bool script_lines_alone(const struct script_lines *lines);
/* The names of the fields, as CSV. */
void script_lines_header(struct script_lines *lines);
void script_lines_put(struct script_lines *lines, struct out *out,
                      const struct spex_sample *samples, size_t count);

/* SCRIPT_BLOCK bytes more may be read; until the next call. */
struct script_text {
    const char *data;
    size_t size;
};

/* As perf script prints them: "            prog   100 [000] ", "401104 walk+0x4 (prog) ". */
void script_lines_perf(struct script_lines *lines, const struct spex_sample *sample,
                       struct script_text *thread, struct script_text *code);

/* Appends in blocks; there must be room for one more. */
static inline char *script_copy(char *p, const char *text, size_t size)
{
    size_t i = 0;
    do
        memcpy(p + i, text + i, SCRIPT_BLOCK);
    while ((i += SCRIPT_BLOCK) < size);
    return p + size;
}

#endif
