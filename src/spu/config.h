/*
 * The configuration of a unit as structs, for the modules of this tree: <spex/spu.h> takes the
 * same in words, which can grow without breaking anyone.
 */
#ifndef SPU_CONFIG_H
#define SPU_CONFIG_H

#include <spex/spu.h>

#include "arch/feature_set.h"

/* One field per row of choices.def. */
struct spu_choices {
#define CHOICE(field, standard, min, max, values, ids, text) uint64_t field;
#include "spu/choices.def"
};

void spu_choices_default(struct spu_choices *choices);

/* "in_flight=4" or "isb_branch=yes". The error names what is allowed. */
enum spex_status spu_choices_set(struct spu_choices *choices, const char *assignment,
                                 struct spex_error *error);
/* Several of them, between them commas or blanks. */
enum spex_status spu_choices_parse(struct spu_choices *choices, const char *list,
                                   struct spex_error *error);
/* The field of the row at index of choices.def. */
uint64_t *spu_choice_field(const struct spu_choices *choices, size_t index);

struct spu_config {
    struct arch_features features;
    struct spu_choices choices;
    struct spex_spu_host host; /* its size is not looked at */
    uint64_t seed;
};

/* max features, default choices, no host, seed 1. */
void spu_config_default(struct spu_config *config);
enum spex_status spu_config_check(const struct spu_config *config, struct spex_error *error);
const struct spu_config *spu_get_config(const struct spex_spu *unit);

/* spex_spu_new and spex_spu_init. */
enum spex_status spu_new(const struct spu_config *config, struct spex_spu **unit,
                         struct spex_error *error);
enum spex_status spu_init(void *memory, const struct spu_config *config, struct spex_spu **unit,
                          struct spex_error *error);

#endif
