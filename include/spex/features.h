/*
 * The feature set of a PE with an SPU (Arm ARM A2, D17; ID_AA64DFR0_EL1.PMSVer,
 * PMSIDR_EL1, PMBIDR_EL1).
 *
 * One struct from which every ID register follows. Used by the unit, the
 * stream checker and the generator. A text list such as "v1p2,pbt,align=6" or a
 * preset such as "neoverse-n1" makes one. No allocation, no state.
 */
#ifndef SPEX_FEATURES_H
#define SPEX_FEATURES_H

#include <spex/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spex_features {
#define SPEX_FEATURE_FLAG(field, name, text) bool field;
#define SPEX_FEATURE_NUMBER(field, name, min, max, text) uint8_t field;
#include <spex/features.def>
    uint32_t midr; /* MIDR_EL1 of the core the preset stands for */
};

/* Names of presets: neoverse-n1, neoverse-v1, neoverse-n2, neoverse-v2, max, min. */
enum spex_status spex_features_preset(const char *name, struct spex_features *features);
const char *spex_features_preset_name(size_t index); /* NULL past the last */

/*
 * Parse a comma-separated list: a preset name or version first (default max),
 * then NAME, no-NAME or NAME=VALUE. The error names the word and what is allowed.
 */
enum spex_status spex_features_parse(const char *list, struct spex_features *features,
                                     struct spex_error *error);

/* SPEX_OK, or SPEX_INVALID with the dependency that is broken. */
enum spex_status spex_features_check(const struct spex_features *features,
                                     struct spex_error *error);

/* Text of every name and its meaning, one a line, for help and docs. NULL past the last. */
const char *spex_features_describe(size_t index, const char **text);

#ifdef __cplusplus
}
#endif
#endif
