/*
 * The feature set of a PE with an SPU (Arm ARM A2, D17; ID_AA64DFR0_EL1.PMSVer,
 * PMSIDR_EL1, PMBIDR_EL1), in words: a comma-separated list such as
 * "neoverse-n1" or "v1p2,pbt,align=6". A preset or a version comes first (default
 * max), then NAME, no-NAME, NAME=VALUE, or midr=VALUE for MIDR_EL1. The unit, the
 * checker and the generator take such a list, so that features can be added without
 * a change of any struct. No allocation, no state.
 */
#ifndef SPEX_FEATURES_H
#define SPEX_FEATURES_H

#include <spex/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* SPEX_OK, or what is wrong with the list: an unknown word, or a feature that needs another one. */
enum spex_status spex_features_check(const char *list, struct spex_error *error); /* since 1.0 */

/* Presets: neoverse-n1 and other cores, max, min. NULL past the last. */
const char *spex_features_preset_name(size_t index); /* since 1.0 */

/* Every name and its meaning, for help and docs. NULL past the last. */
const char *spex_features_describe(size_t index, const char **text); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
