/*
 * The feature set of a PE with an SPU, as a struct, from which every ID register follows;
 * <spex/features.h> describes the text form. No allocation, no state.
 */
#ifndef ARCH_FEATURE_SET_H
#define ARCH_FEATURE_SET_H

#include <spex/features.h>

struct arch_features {
#define FLAG(field, name, text) bool field;
#define NUMBER(field, name, min, max, text) uint8_t field;
#include "arch/features.def"
    uint32_t midr; /* MIDR_EL1 of the core the preset stands for */
};

enum spex_status arch_features_preset(const char *name, struct arch_features *features);

/* Parses a list as <spex/features.h> describes it. */
enum spex_status arch_features_parse(const char *list, struct arch_features *features,
                                     struct spex_error *error);

/* SPEX_OK, or SPEX_INVALID with the dependency that is violated. */
enum spex_status arch_features_check(const struct arch_features *features,
                                     struct spex_error *error);

#endif
