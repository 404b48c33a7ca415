/*
 * The numbers of a core: numbers.def has their names, share/cpus their values for each CPU. Both
 * the microarchitecture model and the replay use them.
 */
#ifndef ACCOUNT_CONFIG_H
#define ACCOUNT_CONFIG_H

#include <spex/op.h>

#include "arch/sources.h"

enum {
    UARCH_LINE = 6,             /* log2 of the bytes of a line */
    SPEX_UARCH_SETS_MAX = 1024, /* most sets of the level 1 data cache */
};

struct uarch_config {
#define PARAM(field, key, unit, min, max, text) uint32_t field;
#include "account/numbers.def"
    bool sampled;    /* --model sampled: details only near samples */
    bool none;       /* --model none: no caches, TLBs or prediction */
    uint8_t sources; /* enum arch_sources: the CPU's Data Source values; not in its file */
};

/* The word of --model for how the numbers are used: sampled, full or none. */
const char *uarch_mode(const struct uarch_config *config);

/* The files of share/cpus: names and contents; NULL past the last. */
const char *uarch_preset_name(size_t index);
const char *uarch_preset_text(size_t index);
enum spex_status uarch_config_preset(const char *name, struct uarch_config *config,
                                     struct spex_error *error);
/*
 * Reads the text of such a file: lines of KEY VALUE SOURCE, # for comments, every key once. Other
 * keys are passed to `other`, which returns SPEX_UNSUPPORTED for unknown ones; NULL accepts the
 * keys of our files and ignores them. The error names the line. *config is unchanged on failure.
 */
struct uarch_line {
    const char *key, *value; /* not terminated */
    size_t key_length, value_length;
};
typedef enum spex_status uarch_other(void *context, const struct uarch_line *line,
                                     struct spex_error *error);
enum spex_status uarch_config_read(const char *text, uarch_other *other, void *context,
                                   struct uarch_config *config, struct spex_error *error);

/*
 * Sets words of `--model`, separated by commas: a preset's name (which resets all numbers),
 * sampled, full or none, prefetch=none, or KEY=VALUE with K, M, G (1024). The error names the word
 * and what is allowed. SPEX_OK only if the whole configuration is consistent; *config is unchanged
 * otherwise.
 */
enum spex_status uarch_config_set(struct uarch_config *config, const char *words,
                                  struct spex_error *error);

/* For help and docs: row index of numbers.def; false past the last. */
struct uarch_parameter {
    const char *key, *unit, *text;
    uint32_t min, max;
};
bool uarch_parameter(size_t index, struct uarch_parameter *parameter);
uint32_t uarch_config_get(const struct uarch_config *config, size_t index);

#endif
