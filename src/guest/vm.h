/*
 * The settings of a guest's SPUs, as words: `spex vm` checks them before anything
 * is started, and the plugin reads the same words (docs/vm.md).
 *
 * No allocation, no state.
 */
#ifndef SPEX_VM_H
#define SPEX_VM_H

#include "spu/config.h"
#include "uarch/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Faults on request. Numbers count the records or samples of one CPU from 1; 0 means never. */
struct vm_injection {
    uint64_t fault, abort;        /* the write of this record */
    uint64_t event, irq;          /* inject after this sample */
    uint64_t collide, collisions; /* number of collisions to inject, starting at this sample */
    unsigned id_register;         /* an ID register that reads as id_value; 0 for none */
    uint64_t id_value;
    unsigned version; /* ID_AA64DFR0_EL1.PMSVer, if not 0 */
};

struct vm_config {
    struct spu_config unit; /* features, choices, seed; no host */
    struct uarch_config model;
    struct vm_injection inject;
    char features[256];   /* the text of unit.features */
    uint32_t vector_bits; /* SVE vector length in the guest; 0: off */
};

/* max features, the neoverse-n1 model, seed 1, nothing injected. */
void vm_config_default(struct vm_config *config);

/*
 * name is features, model, choice, seed, vectors or inject. SPEX_INVALID or SPEX_RANGE with
 * the word and what is allowed.
 */
enum spex_status vm_config_set(struct vm_config *config, const char *name, const char *value,
                               struct spex_error *error);

#ifdef __cplusplus
}
#endif
#endif
