/*
 * The CPU chosen by --cpu: a preset of share/cpus, a file of the same format, or a list of SPE
 * features (docs/model.md, "CPUs"). No state.
 */
#ifndef SPEX_CPU_H
#define SPEX_CPU_H

#include "spu/config.h"
#include "uarch/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cpu_choice {
    struct arch_features features;
    struct uarch_config model; /* the model of neoverse-n1 if only features were given */
    uint64_t layout;           /* the unit's choices with these names */
    uint64_t select_group;
    uint32_t vector_bits; /* SVE vector length; 0: the CPU has no SVE */
    char list[256];       /* the words that features were made of */
    bool file;            /* the model's numbers come from a file, not from a preset */
};

/*
 * word is NAME or NAME,FEATURE,... for a preset; the path of a file, which contains a / or ends in
 * .cpu; or a list of features. On SPEX_IO, SPEX_INVALID or SPEX_RANGE, the error names the file,
 * the line and the mistake.
 */
enum spex_status cpu_parse(const char *word, struct cpu_choice *cpu, struct spex_error *error);

/*
 * Reads the text of a file: fills in cpu->list and what follows from it, cpu->model, cpu->layout.
 */
enum spex_status cpu_read(const char *text, struct cpu_choice *cpu, struct spex_error *error);

#ifdef __cplusplus
}
#endif
#endif
