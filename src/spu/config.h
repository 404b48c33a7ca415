/*
 * The configuration of a unit as structs, for the modules of this tree. <spex/spu.h> takes the
 * same as text, which can grow without breaking anyone.
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

/* Values of choices that are not just no and yes, in the order of choices.def. */
enum { LOAD_ENABLING, LOAD_FIRST_OP };                               /* initial_load */
enum { EXCEPTION_INFO_ALL, EXCEPTION_INFO_PC, EXCEPTION_INFO_NONE }; /* exception_info */
enum { TIMESTAMP_SELECTION, TIMESTAMP_COMPLETION };                  /* timestamp_at */
enum { ALT_CLOCK_MAIN, ALT_CLOCK_INDEX_4, ALT_CLOCK_IMPDEF };        /* alt_clock */
enum { DC_ZVA_STORE, DC_ZVA_OTHER };                                 /* dc_zva */
enum { PART_ADDRESS_PART, PART_ADDRESS_LOWEST };                     /* part_address */
enum { PART_EVENTS_PART, PART_EVENTS_WHOLE };                        /* part_events */
enum { INFO_NONE, INFO_ADDRESS, INFO_ALL }; /* cache_op_info, sve_prefetch_info */
enum { FILTER_OFF, FILTER_DROP };           /* ft_zero, fe_zero, ..., fe_fne_overlap */
enum { UNSPECIFIED_REPORT, UNSPECIFIED_IGNORE, UNSPECIFIED_SERROR }; /* abort_unspecified */
enum { WALK_ABORT_FAULT, WALK_ABORT_EXTERNAL };                      /* walk_abort */
enum { LATE_DROP, LATE_WRITE, LATE_NOT_ALLOWED };                    /* late_write */
enum { RESET_ZERO, RESET_ONES, RESET_RANDOM };                       /* reset_unknown */
enum {                                                               /* pointer_rule */
       POINTER_FULL,
       POINTER_NOT_ALLOWED,
       POINTER_FAULT,
       POINTER_IMPDEF,
       POINTER_DISCARD,
       POINTER_DISABLED,
};
enum { INTERVAL_ZERO_EACH, INTERVAL_ZERO_NEVER }; /* interval_zero */
enum { POINTER_AT_RECORD, POINTER_AT_ENABLING };  /* pointer_rule_at */

void spu_choices_default(struct spu_choices *choices);

/* "in_flight=4" or "isb_branch=yes". The error names what is allowed. */
enum spex_status spu_choices_set(struct spu_choices *choices, const char *assignment,
                                 struct spex_error *error);
/* Several of them, separated by commas or blanks. */
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
