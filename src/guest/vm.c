/* Parses the words that describe a guest's SPUs. */
#include "guest/vm.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * QEMU does not show the outcome of conditions; where the manual lets an implementation choose
 * (DAT-125 to DAT-130), selects and compares are then not conditional. It does not show the
 * addresses of prefetches either (DAT-164, DAT-184).
 */
static const char *const unseen[] = {"csel_conditional=no",  "csinc_conditional=no",
                                     "csneg_conditional=no", "csinv_conditional=no",
                                     "ccmp_conditional=no",  "ccmn_conditional=no",
                                     "cache_op_info=none",   "sve_prefetch_info=none"};
enum { UNSEEN = sizeof unseen / sizeof unseen[0] };

void vm_config_default(struct vm_config *config)
{
    memset(config, 0, sizeof *config);
    spu_config_default(&config->unit);
    for (size_t i = 0; i < UNSEEN; i++)
        spu_choices_set(&config->unit.choices, unseen[i], NULL);
    config->unit.choices.not_taken_target = 1; /* as on real cores */
    uarch_config_preset("neoverse-n1", &config->model, NULL);
    config->model.sampled = true;
    snprintf(config->features, sizeof config->features, "max");
}

static bool number(const char **text, uint64_t *value)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *value = strtoull(*text, &end, 0);
    *text = end;
    return !errno; /* errno is set for more than 64 bits */
}

/* "REGISTER:VALUE" of an ID register, or "PMSVer:VALUE". */
static bool set_id(struct vm_injection *in, const char *text)
{
    size_t n = strcspn(text, ":");
    char name[32];
    uint64_t value;
    if (n >= sizeof name || !text[n])
        return false;
    memcpy(name, text, n);
    name[n] = '\0';
    text += n + 1;
    if (!number(&text, &value) || *text)
        return false;
    if (!strcmp(name, "PMSVer")) {
        in->version = (unsigned)value;
        return value >= 1 && value <= 15;
    }
    in->id_value = value;
    return !spex_sysreg_find(name, &in->id_register) &&
           (in->id_register == SPEX_PMSIDR_EL1 || in->id_register == SPEX_PMBIDR_EL1);
}

static enum spex_status set_injection(struct vm_config *config, const char *value,
                                      struct spex_error *error)
{
    struct vm_injection *in = &config->inject;
    const struct {
        const char *name;
        uint64_t *at, *count;
    } kinds[] = {{"fault", &in->fault, NULL},
                 {"abort", &in->abort, NULL},
                 {"event", &in->event, NULL},
                 {"irq", &in->irq, NULL},
                 {"collide", &in->collide, &in->collisions}};
    size_t n = strcspn(value, "@:");
    bool ok = !strncmp(value, "id:", 3) && set_id(in, value + 3);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *rest = value + n;
        if (n != strlen(kinds[i].name) || memcmp(value, kinds[i].name, n) || *rest++ != '@')
            continue;
        ok = number(&rest, kinds[i].at) && *kinds[i].at;
        if (kinds[i].count) {
            *kinds[i].count = 1;
            if (*rest == '+') {
                rest++;
                ok = ok && number(&rest, kinds[i].count) && *kinds[i].count;
            }
        }
        ok = ok && !*rest;
    }
    if (!ok)
        return error_set(error, SPEX_INVALID, 0,
                         "injection '%s': allowed: fault@N, abort@N, event@N, irq@N, collide@N, "
                         "collide@N+COUNT with N from 1; id:PMSIDR_EL1:VALUE, "
                         "id:PMBIDR_EL1:VALUE, id:PMSVer:1 to 15",
                         value);
    if (in->event)
        config->unit.choices.impdef_event = 1; /* otherwise the unit has no such event */
    return SPEX_OK;
}

static enum spex_status set_choice(struct vm_config *config, const char *value,
                                   struct spex_error *error)
{
    struct spu_choices choices = config->unit.choices, seen;
    enum spex_status status = spu_choices_set(&choices, value, error);
    if (status)
        return status;
    seen = choices;
    for (size_t i = 0; i < UNSEEN; i++)
        spu_choices_set(&seen, unseen[i], NULL);
    if (memcmp(&seen, &choices, sizeof seen))
        return error_set(error, SPEX_INVALID, 0,
                         "choice '%s': QEMU does not show conditions of selects and compares, nor "
                         "addresses of prefetches; allowed: no, none",
                         value);
    config->unit.choices = choices;
    return SPEX_OK;
}

enum spex_status vm_config_set(struct vm_config *config, const char *name, const char *value,
                               struct spex_error *error)
{
    if (!strcmp(name, "features")) {
        if (strlen(value) >= sizeof config->features)
            return error_set(error, SPEX_RANGE, 0, "features: at most %zu characters",
                             sizeof config->features - 1);
        enum spex_status status = arch_features_parse(value, &config->unit.features, error);
        if (!status) {
            snprintf(config->features, sizeof config->features, "%s", value);
            config->model.sources = (uint8_t)arch_sources_of(config->unit.features.midr);
        }
        return status;
    }
    if (!strcmp(name, "model"))
        return uarch_config_set(&config->model, value, error);
    if (!strcmp(name, "choice"))
        return set_choice(config, value, error);
    if (!strcmp(name, "inject"))
        return set_injection(config, value, error);
    if (!strcmp(name, "vectors")) {
        uint64_t bits;
        if (!number(&value, &bits) || *value || bits < 128 || bits > 2048 || bits & (bits - 1))
            return error_set(error, SPEX_INVALID, 0, "vectors: a power of two from 128 to 2048");
        config->vector_bits = (uint32_t)bits;
        return SPEX_OK;
    }
    if (!strcmp(name, "seed")) {
        if (number(&value, &config->unit.seed) && !*value)
            return SPEX_OK;
        return error_set(error, SPEX_INVALID, 0, "seed: a number");
    }
    return error_set(error, SPEX_INVALID, 0, "unknown setting '%s'", name);
}
