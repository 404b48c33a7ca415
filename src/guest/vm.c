/* Words that describe a guest's SPUs. */
#include <spex/vm.h>

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Condition outcomes are not to be seen in QEMU; where the manual lets an
 * implementation choose (DAT-125 to DAT-130), selects and compares are then not
 * conditional. Nor are the addresses of prefetches (DAT-164, DAT-184).
 */
static const char *const unseen[] = {"csel_conditional=no",  "csinc_conditional=no",
                                     "csneg_conditional=no", "csinv_conditional=no",
                                     "ccmp_conditional=no",  "ccmn_conditional=no",
                                     "cache_op_info=none",   "sve_prefetch_info=none"};
enum { UNSEEN = sizeof unseen / sizeof unseen[0] };

void spex_vm_config_default(struct spex_vm_config *config)
{
    memset(config, 0, sizeof *config);
    spex_spu_config_default(&config->unit);
    for (size_t i = 0; i < UNSEEN; i++)
        spex_spu_choices_set(&config->unit.choices, unseen[i], NULL);
    spex_uarch_config_preset("neoverse-n1", &config->model, NULL);
    snprintf(config->features, sizeof config->features, "max");
}

static bool number(const char **text, uint64_t *value)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *value = strtoull(*text, &end, 0);
    *text = end;
    return true;
}

/* "@N" with N from 1, to the end of the text or to `stop`. */
static bool at(const char *text, char stop, uint64_t *n, const char **rest)
{
    if (*text++ != '@' || !number(&text, n) || !*n || (*text && *text != stop))
        return false;
    *rest = text;
    return true;
}

static enum spex_status set_injection(struct spex_vm_config *config, const char *value,
                                      struct spex_error *error)
{
    struct spex_vm_injection *in = &config->inject;
    size_t n = strcspn(value, "@:");
    const char *rest = "", *behind = value + n;
    char name[32];
    bool ok = false;
    if (n == 5 && !memcmp(value, "fault", n)) {
        ok = at(behind, '\0', &in->fault, &rest);
    } else if (n == 5 && !memcmp(value, "abort", n)) {
        ok = at(behind, '\0', &in->abort, &rest);
    } else if (n == 5 && !memcmp(value, "event", n)) {
        ok = at(behind, '\0', &in->event, &rest);
        config->unit.choices.impdef_event = 1; /* else the unit has no such event */
    } else if (n == 7 && !memcmp(value, "collide", n)) {
        in->collisions = 1;
        ok = at(behind, '+', &in->collide, &rest);
        if (ok && *rest++ == '+')
            ok = number(&rest, &in->collisions) && in->collisions && !*rest;
    } else if (n == 2 && !memcmp(value, "id:", 3)) {
        behind++;
        n = strcspn(behind, ":");
        if (n < sizeof name && behind[n] == ':') {
            memcpy(name, behind, n);
            name[n] = '\0';
            behind += n + 1;
            ok = !spex_sysreg_find(name, &in->id_register) && number(&behind, &in->id_value) &&
                 !*behind &&
                 (in->id_register == SPEX_PMSIDR_EL1 || in->id_register == SPEX_PMBIDR_EL1);
        }
    }
    if (ok)
        return SPEX_OK;
    return error_set(error, SPEX_INVALID, 0,
                     "injection '%s': allowed: fault@N, abort@N, event@N, collide@N, "
                     "collide@N+COUNT, id:PMSIDR_EL1:VALUE, id:PMBIDR_EL1:VALUE; N from 1", value);
}

static enum spex_status set_choice(struct spex_vm_config *config, const char *value,
                                   struct spex_error *error)
{
    struct spex_spu_choices choices = config->unit.choices, seen;
    enum spex_status status = spex_spu_choices_set(&choices, value, error);
    if (status)
        return status;
    seen = choices;
    for (size_t i = 0; i < UNSEEN; i++)
        spex_spu_choices_set(&seen, unseen[i], NULL);
    if (memcmp(&seen, &choices, sizeof seen))
        return error_set(error, SPEX_INVALID, 0,
                         "choice '%s': QEMU does not show conditions of selects and compares, nor "
                         "addresses of prefetches; allowed: no, none", value);
    config->unit.choices = choices;
    return SPEX_OK;
}

enum spex_status spex_vm_config_set(struct spex_vm_config *config, const char *name,
                                    const char *value, struct spex_error *error)
{
    if (!strcmp(name, "features")) {
        if (strlen(value) >= sizeof config->features)
            return error_set(error, SPEX_RANGE, 0, "features: at most %zu characters",
                             sizeof config->features - 1);
        enum spex_status status = spex_features_parse(value, &config->unit.features, error);
        if (!status)
            snprintf(config->features, sizeof config->features, "%s", value);
        return status;
    }
    if (!strcmp(name, "model"))
        return spex_uarch_config_set(&config->model, value, error);
    if (!strcmp(name, "choice"))
        return set_choice(config, value, error);
    if (!strcmp(name, "inject"))
        return set_injection(config, value, error);
    if (!strcmp(name, "seed")) {
        if (number(&value, &config->unit.seed) && !*value)
            return SPEX_OK;
        return error_set(error, SPEX_INVALID, 0, "seed: a number");
    }
    return error_set(error, SPEX_INVALID, 0, "unknown setting '%s'", name);
}
