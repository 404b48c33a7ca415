/*
 * A unit and its host for written tests: registers by field, plain operations,
 * the records it wrote. Everything goes through the public interface.
 */
#ifndef RIG_H
#define RIG_H

#include "host.h"
#include "ops.h"

#include "support/test.h"

#include <spex/record.h>

struct rig {
    struct spu_config config;
    struct spex_spu *unit;
    struct host host;
};

/* features: a list as for arch_features_parse; choices: "name=value ...". Booted: NS EL1. */
void rig_open(struct rig *rig, const char *features, const char *choices);
void rig_close(struct rig *rig);
/* The unit made anew and booted, after a change of rig->config. */
void rig_reopen(struct rig *rig);

void rig_set(struct rig *rig, unsigned encoding, uint64_t value);
uint64_t rig_get(struct rig *rig, unsigned encoding);
void rig_field(struct rig *rig, unsigned encoding, enum spex_sysreg_field field, uint64_t value);
#define RIG_FIELD(rig, reg, field, value) rig_field(rig, SPEX_##reg, SPEX_##reg##_##field, value)
#define RIG_GET(rig, reg, field) spex_field_get(rig_get(rig, SPEX_##reg), SPEX_##reg##_##field)

/* MSR and MRS that must succeed. */
void rig_write(struct rig *rig, unsigned encoding, uint64_t value);
uint64_t rig_read(struct rig *rig, unsigned encoding);

/* Exception level and Security state; SCR_EL3.{NSE,NS} follow. */
void rig_state(struct rig *rig, unsigned el, enum spex_security security);

/* Buffer [base, base + size), profiling at every Exception level that may, interval 256. */
enum { RIG_BASE = 0x100000 };
void rig_start(struct rig *rig, uint64_t size);

/* Make the next operation the sampled one: PMSICR_EL1.COUNT is 1. */
void rig_arm(struct rig *rig);

/* One sampled operation: arm and run it. */
void rig_sample(struct rig *rig, const struct made_op *op);
void rig_sample_plain(struct rig *rig);

/* The only record the host holds, decoded; the host forgets it. Fails the test if there is none. */
struct spex_record rig_record(struct rig *rig);
bool rig_has_record(const struct rig *rig);

uint64_t rig_pmu(struct rig *rig, unsigned event);

/*
 * Tables of the manual: a cell is a pattern over bits ("0x", "xx", "10") or "!=00".
 * Calls each with every combination of values that the row's cells stand for.
 */
enum { RIG_COLUMNS = 10 };
void rig_expand(const char *const *cells, size_t columns,
                void (*each)(void *context, const unsigned *values), void *context);

#endif
