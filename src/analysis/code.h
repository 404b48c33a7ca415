/* What is shown beside the samples of a function: its source, and where its branches go. */
#ifndef ANALYSIS_CODE_H
#define ANALYSIS_CODE_H

#include <spex/symbols.h>

/* A source file that debug information names; looked for once. */
struct source {
    char *path; /* as the debug information names it */
    char *text; /* NULL: not found; its lines end with 0 */
    char **lines;
    size_t count, capacity;
    int error;     /* errno where the file is there and cannot be read */
    bool reported; /* for the caller: the error was shown */
    struct source *next;
};

struct sources;
struct sources *sources_new(void); /* of base/memory.h */
void sources_free(struct sources *sources);
/* Looks below symfs if that is not NULL, at the path itself, and in the working directory. */
struct source *sources_get(struct sources *sources, const struct spex_line *line,
                           const char *symfs);

/* Where a direct branch goes: B, BL, B.cond, CBZ, TBZ (DDI 0487 C4.1). */
bool code_branch_target(uint32_t word, uint64_t address, uint64_t *target);
/* "bl #0xfc" to "bl sum", "b.ne #-0xc" to "b.ne 0x401204". */
void code_name_target(const struct spex_symbol *symbol, uint32_t word, uint64_t address,
                      char text[SPEX_INSTRUCTION_TEXT]);

#endif
