/*
 * What perf users type, and what spex has instead. Words that spex itself knows never get here: the
 * tables of commands and options are searched first.
 */
#ifndef CLI_PERF_WORDS_H
#define CLI_PERF_WORDS_H

#include <stddef.h>

struct perf_word {
    /* commands that the row is about; "" for the commands themselves; or --OPTION */
    const char *where;
    const char *words; /* perf's spellings */
    const char *ours;  /* exact equivalent: our option's long name, "" for what spex does anyway */
    const char *says;  /* what to use if there is no exact equivalent */
};

/* The row for a word of size bytes, or NULL. */
const struct perf_word *perf_word(const char *where, const char *word, size_t size);

#endif
