/* Feature sets: presets, lists, dependencies (Arm ARM A2; PMSIDR_EL1, PMBIDR_EL1). */
#include "arch/feature_set.h"

#include "base/error.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *name, *text;
    size_t at;
    uint8_t min, max;
    bool flag;
};

static const struct row rows[] = {
#define FLAG(field, name, text) {name, text, offsetof(struct arch_features, field), 0, 1, true},
#define NUMBER(field, name, min, max, text)                                                        \
    {name, text, offsetof(struct arch_features, field), min, max, false},
#include "arch/features.def"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/*
 * From the ID registers and Technical Reference Manuals of the cores. What is not published we
 * chose: the SPE version of Neoverse V3 (that of its architecture, Armv9.2), all of AmpereOne
 * except its MIDR, and whatever the public streams of Kunpeng 920 do not show (they show
 * SPEv1.0, no Data Source packets, and records of a multiple of 4 bytes).
 */
#define SYSTEM                                                                                     \
    .ERnd = true, .Interval = 4, .F = true, .EL2 = true, .EL3 = true, .Secure = true, .VHE = true, \
    .RAS = true, .Remote = true, .TS = true
#define SIZES .CountSize = 2, .MaxSize = 6
#define COMMON SYSTEM, SIZES, .Align = 6, .LDS = true
#define V8_4 .SEL2 = true, .NV = true, .NV2 = true, .FGT = true, .ECV = true, .ECV_POFF = true

/* clang-format off */
static const struct preset {
    const char *name;
    struct arch_features features;
} presets[] = {
    {"neoverse-n1", {COMMON, .LLC = true, .version = 1, .midr = 0x413fd0c1}},
    {"neoverse-v1", {COMMON, .LLC = true, .version = 2, .SVE = true, .Misaligned = true,
                     .SEL2 = true, .midr = 0x411fd401}},
    {"neoverse-n2", {COMMON, V8_4, .LLC = true, .version = 3, .FnE = true, .SVE = true,
                     .MTE2 = true, .Misaligned = true, .PMUv3p7 = true, .midr = 0x410fd490}},
    {"neoverse-v2", {COMMON, V8_4, .LLC = true, .version = 3, .FnE = true, .SVE = true,
                     .MTE2 = true, .Misaligned = true, .PMUv3p7 = true, .midr = 0x410fd4f1}},
    /* No last-level events: the core does not see the mesh's cache. */
    {"neoverse-v3", {COMMON, V8_4, .version = 3, .FnE = true, .SVE = true, .MTE2 = true,
                     .RME = true, .Misaligned = true, .PMUv3p7 = true, .midr = 0x410fd840}},
    {"ampereone", {COMMON, V8_4, .LLC = true, .version = 2, .MTE2 = true, .Misaligned = true,
                   .midr = 0xc00fac40}},
    {"kunpeng-920", {SYSTEM, SIZES, .Align = 2, .LLC = true, .version = 1, .midr = 0x481fd010}},
    {"max", {SYSTEM, V8_4, .LDS = true, .LLC = true, .FnE = true, .version = 6, .PBT = true,
             .CRR = true, .FDS = true, .EFT = true, .FPF = true, .SPE_SME = true, .EXC = true,
             .nVM = true, .DPFZS = true, .ALTCLK = 1, .ArchInst = true, .CountSize = 3,
             .MaxSize = 8, .Align = 0, .EA = 1, .FGT2 = true, .RME = true, .THE = true,
             .MTE2 = true, .GCS = true, .MOPS = true, .LS64 = true, .SVE = true, .SME = true,
             .PMUv3p7 = true, .Misaligned = true, .L2D = true, .Modified = true, .Recent = true,
             .Snooped = true, .SMCU = true, .midr = 0x000f0000}},
    {"min", {.version = 1, .CountSize = 2, .MaxSize = 6, .ArchInst = true, .Interval = 4,
             .TS = true, .midr = 0x000f0000}},
};
/* clang-format on */

enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *spex_features_preset_name(size_t index)
{
    return index < PRESETS ? presets[index].name : NULL;
}

enum spex_status arch_features_preset(const char *name, struct arch_features *features)
{
    for (size_t i = 0; i < PRESETS; i++) {
        if (!strcmp(presets[i].name, name)) {
            *features = presets[i].features;
            return SPEX_OK;
        }
    }
    return SPEX_INVALID;
}

const char *spex_features_describe(size_t index, const char **text)
{
    if (index >= ROWS)
        return NULL;
    *text = rows[index].text;
    return rows[index].name;
}

static uint8_t *field(struct arch_features *features, const struct row *row)
{
    return (uint8_t *)features + row->at;
}

/* Sets what a version makes mandatory and clears what it is too old for. */
static void set_version(struct arch_features *f, unsigned version)
{
    f->version = (uint8_t)version;
    f->FnE = version >= 3;
    f->EXC = f->nVM = version >= 6;
    f->F = version >= 4 || f->F;
    f->CRR = version >= 6 || (version >= 5 && f->CRR);
    f->GCS = version >= 5 && f->GCS;
    f->FDS = version >= 5 && f->LDS && f->FDS;
    f->PBT = version >= 3 && f->PBT;
    f->DPFZS = version >= 3 && f->DPFZS;
    f->SPE_SME = version >= 2 && f->SPE_SME;
    f->Misaligned = version >= 2 && f->Misaligned;
    if (version < 5)
        f->L2D = f->Modified = f->Recent = f->Snooped = f->SMCU = false;
}

static bool parse_version(const char *word, unsigned *version)
{
    if (strlen(word) == 4 && !strncmp(word, "v1p", 3) && word[3] >= '0' && word[3] <= '5') {
        *version = (unsigned)(word[3] - '0') + 1;
        return true;
    }
    return false;
}

static enum spex_status parse_midr(const char *value, struct arch_features *f,
                                   struct spex_error *error)
{
    char *end;
    unsigned long long n = strtoull(value, &end, 0);
    if (*value < '0' || *value > '9' || *end || n > UINT32_MAX)
        return error_set(error, SPEX_RANGE, 0, "feature 'midr' takes a value of 32 bits");
    f->midr = (uint32_t)n;
    return SPEX_OK;
}

static enum spex_status parse_word(char *word, bool first, struct arch_features *f,
                                   struct spex_error *error)
{
    unsigned version;
    if (first && arch_features_preset(word, f) == SPEX_OK)
        return SPEX_OK;
    if (parse_version(word, &version)) {
        set_version(f, version);
        return SPEX_OK;
    }
    char *value = strchr(word, '=');
    if (value)
        *value++ = '\0';
    bool off = !value && !strncmp(word, "no-", 3);
    const char *name = off ? word + 3 : word;
    if (value && !strcmp(word, "midr"))
        return parse_midr(value, f, error);
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        if (strcmp(row->name, name))
            continue;
        if (row->flag && !value) {
            *field(f, row) = !off;
            return SPEX_OK;
        }
        char *end = NULL;
        unsigned long n = value ? strtoul(value, &end, 0) : 0;
        if (!value || end == value || *end || n < row->min || n > row->max)
            return error_set(error, SPEX_RANGE, 0, "feature '%s' takes a value from %u to %u", name,
                             row->min, row->max);
        *field(f, row) = (uint8_t)n;
        return SPEX_OK;
    }
    return error_set(error, SPEX_INVALID, 0,
                     "unknown feature '%s'; see 'spex help features' for the names", name);
}

enum spex_status arch_features_parse(const char *list, struct arch_features *features,
                                     struct spex_error *error)
{
    struct arch_features f;
    arch_features_preset("max", &f);
    bool first = true;
    while (*list) {
        char word[64];
        size_t n = strcspn(list, ",");
        if (n >= sizeof word)
            return error_set(error, SPEX_INVALID, 0, "feature name too long: '%.20s...'", list);
        memcpy(word, list, n);
        word[n] = '\0';
        if (n) {
            enum spex_status status = parse_word(word, first, &f, error);
            if (status)
                return status;
            first = false;
        }
        list += n + (list[n] == ',');
    }
    enum spex_status status = arch_features_check(&f, error);
    if (!status)
        *features = f;
    return status;
}

/* What each feature needs (Arm ARM A2, the dependencies of FEAT_SPE*); REG-34. */
enum spex_status arch_features_check(const struct arch_features *f, struct spex_error *error)
{
    const struct {
        bool broken;
        const char *text;
    } rules[] = {
        {f->version < 1 || f->version > 6, "PMSVer must be 1 (SPEv1.0) to 6 (SPEv1p5)"},
        {f->FnE != (f->version >= 3), "fne comes with SPEv1p2 and only with it"},
        {f->PBT && f->version < 3, "pbt needs SPEv1p2"},
        {f->CRR && f->version < 5, "crr needs SPEv1p4"},
        {f->GCS && !f->CRR, "gcs makes crr mandatory"},
        {f->FDS && !(f->LDS && f->version >= 5), "fds needs lds and SPEv1p4"},
        {f->EFT != f->FPF, "eft and fpf come together"},
        {f->SPE_SME && !(f->SME && f->version >= 2), "spe-sme needs sme and SPEv1p1"},
        {f->EXC && f->version < 6, "exc needs SPEv1p5"},
        {f->version >= 6 && !(f->CRR && f->EXC && f->nVM),
         "SPEv1p5 makes crr, exc and nvm mandatory"},
        {f->DPFZS && !(f->version >= 3 && f->PMUv3p7), "dpfzs needs SPEv1p2 and pmuv3p7"},
        {f->ALTCLK != 0 && f->ALTCLK != 1 && f->ALTCLK != 15, "altclk is 0, 1 or 15"},
        {f->CountSize != 2 && f->CountSize != 3, "countsize is 2 or 3"},
        {f->MaxSize < 6 || f->MaxSize > 11, "maxsize is 6 to 11"},
        {f->Align > 11, "align is 0 to 11"},
        {f->Align > f->MaxSize, "align may not exceed maxsize"},
        {f->Interval == 1 || f->Interval > 8, "interval is 0 or 2 to 8"},
        {f->EA > 2, "ea is 0, 1 or 2"},
        {f->version >= 4 && !f->F, "SPEv1p3 makes f mandatory"},
        {f->SEL2 && !(f->EL2 && f->Secure), "sel2 needs el2 and secure"},
        {f->VHE && !f->EL2, "vhe needs el2"},
        {f->NV && !f->VHE, "nv needs vhe"},
        {f->NV2 && !f->NV, "nv2 needs nv"},
        {f->RME && !(f->EL3 && f->EL2), "rme needs el3 and el2"},
        {f->FGT2 && !f->FGT, "fgt2 needs fgt"},
        {f->FGT && !f->EL2, "fgt needs el2"},
        {f->ECV_POFF && !f->ECV, "ecv-poff needs ecv"},
        {f->Misaligned && f->version < 2, "ev-misaligned needs SPEv1p1"},
        {(f->L2D || f->Modified || f->Recent || f->Snooped) && f->version < 5,
         "the events of E[23:19] need SPEv1p4"},
        {f->SMCU && !f->SPE_SME && f->version < 6, "ev-smcu needs spe-sme or SPEv1p5"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].broken)
            return error_set(error, SPEX_INVALID, 0, "impossible feature set: %s", rules[i].text);
    return SPEX_OK;
}

enum spex_status spex_features_check(const char *list, struct spex_error *error)
{
    assert(list);
    struct arch_features features;
    return arch_features_parse(list, &features, error);
}
