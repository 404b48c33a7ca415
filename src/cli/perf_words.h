/*
 * What people who know perf type, and what spex has for it. A word that spex itself has never gets
 * here: the tables of commands and options are asked first.
 */
#ifndef CLI_PERF_WORDS_H
#define CLI_PERF_WORDS_H

#include <stddef.h>

struct perf_word {
    const char *where; /* commands that it is about; "" for commands themselves; or --OPTION */
    const char *words; /* perf's spellings */
    const char *ours;  /* exactly the same: our option's long name, "" for what spex does anyway */
    const char *says;  /* what to use instead, if not the same */
};

/* The row about a word of size bytes, or NULL. */
const struct perf_word *perf_word(const char *where, const char *word, size_t size);

#endif
