/* The register protocol of Linux's SPE driver (docs/record-internals.md lists the steps). */
#include "driver.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bits of the config words; perfdata's terms.def has the names. */
enum {
    TS_ENABLE = 0,
    PA_ENABLE = 1,
    PCT_ENABLE = 2,
    JITTER = 16,
    BRANCH_FILTER = 32,
    LOAD_FILTER = 33,
    STORE_FILTER = 34,
    DISCARD = 35,
    BRANCH_FILTER_MASK = 36,
    LOAD_FILTER_MASK = 37,
    STORE_FILTER_MASK = 38,
    SIMD_FILTER = 39,
    SIMD_FILTER_MASK = 40,
    FLOAT_FILTER = 41,
    FLOAT_FILTER_MASK = 42,
};

static bool on(const struct driver_event *event, unsigned bit)
{
    return event->config[0] >> bit & 1;
}

/* Kernel code: at EL1. The driver's own accesses never trap. */
static void enter(struct spex_spu *unit, unsigned el)
{
    struct spex_spu_state state = {.el = (uint8_t)el, .security = SPEX_NONSECURE};
    spex_spu_set_state(unit, &state);
}

static uint64_t mrs(struct spex_spu *unit, unsigned reg)
{
    uint64_t value = 0;
    spex_spu_read(unit, reg, 0, &value, NULL);
    return value;
}

static void msr(struct spex_spu *unit, unsigned reg, uint64_t value)
{
    spex_spu_write(unit, reg, 0, value, NULL);
}

static void isb(struct spex_spu *unit)
{
    spex_spu_context_sync(unit);
}

static uint64_t put(enum spex_sysreg_field field, uint64_t value)
{
    return spex_field_set(0, field, value);
}

/* ---- probe ---- */

enum spex_status driver_probe(struct spex_spu *unit, struct driver_caps *caps,
                              struct spex_error *error)
{
    static const uint16_t intervals[9] = {256, 0, 512, 768, 1024, 1536, 2048, 3072, 4096};
    enter(unit, 1);
    uint64_t dfr0 = mrs(unit, SPEX_ID_AA64DFR0_EL1);
    caps->version = (unsigned)spex_field_get(dfr0, SPEX_ID_AA64DFR0_EL1_PMSVer);
    if (!caps->version)
        return error_set(error, SPEX_UNSUPPORTED, 0, "the CPU has no Statistical Profiling Unit");
    /* PMBIDR_EL1.P before any other register: they may trap otherwise. */
    uint64_t buffer = mrs(unit, SPEX_PMBIDR_EL1);
    if (spex_field_get(buffer, SPEX_PMBIDR_EL1_P))
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "the Profiling Buffer is owned by a higher "
                         "Exception level");
    caps->align = 1u << spex_field_get(buffer, SPEX_PMBIDR_EL1_Align);
    if (caps->align > 2048)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "PMBIDR_EL1.Align is %u bytes: Linux's driver takes at most 2048",
                         caps->align);
    caps->id = mrs(unit, SPEX_PMSIDR_EL1);
    unsigned interval = (unsigned)spex_field_get(caps->id, SPEX_PMSIDR_EL1_Interval);
    caps->min_interval = interval < 9 && intervals[interval] ? intervals[interval] : 4096;
    caps->max_record = 1u << spex_field_get(caps->id, SPEX_PMSIDR_EL1_MaxSize);
    if (caps->max_record < 16 || caps->max_record > 2048)
        return error_set(error, SPEX_UNSUPPORTED, 0, "PMSIDR_EL1.MaxSize is %u bytes",
                         caps->max_record);
    msr(unit, SPEX_PMSEVFR_EL1, UINT64_MAX);
    caps->event_filter = mrs(unit, SPEX_PMSEVFR_EL1);
    msr(unit, SPEX_PMSEVFR_EL1, 0);
    return SPEX_OK;
}

/* ---- event ---- */

static enum spex_status refuse(struct spex_error *error, const char *term, const char *why)
{
    return error_set(error, SPEX_UNSUPPORTED, 0, "%s: %s", term, why);
}

enum spex_status driver_init_event(const struct driver_caps *caps, struct driver_event *event,
                                   struct spex_error *error)
{
    static const struct {
        unsigned bit;
        const char *term;
    } extended[] = {
        {BRANCH_FILTER_MASK, "branch_filter_mask"}, {LOAD_FILTER_MASK, "load_filter_mask"},
        {STORE_FILTER_MASK, "store_filter_mask"},   {SIMD_FILTER, "simd_filter"},
        {SIMD_FILTER_MASK, "simd_filter_mask"},     {FLOAT_FILTER, "float_filter"},
        {FLOAT_FILTER_MASK, "float_filter_mask"},
    };
    for (size_t i = 0; i < sizeof extended / sizeof extended[0]; i++)
        if (on(event, extended[i].bit) && !spex_field_get(caps->id, SPEX_PMSIDR_EL1_EFT))
            return refuse(error, extended[i].term, "this CPU has no FEAT_SPE_EFT; allowed: 0");
    if (on(event, DISCARD) && caps->version < 3)
        return refuse(error, "discard", "this CPU is older than SPEv1p2; allowed: 0");
    for (unsigned word = 1; word <= 3; word += 2) {
        const char *term = word == 1 ? "event_filter" : "inv_event_filter";
        uint64_t allowed = caps->event_filter, value = event->config[word];
        if (word == 3 && !spex_field_get(caps->id, SPEX_PMSIDR_EL1_FnE)) {
            if (value)
                return refuse(error, term, "this CPU has no PMSNEVFR_EL1 (FnE); allowed: 0");
            continue;
        }
        if (value & ~allowed)
            return error_set(error, SPEX_UNSUPPORTED, 0,
                             "%s=0x%" PRIx64 ": bits 0x%" PRIx64 " cannot be filtered on this CPU; "
                             "allowed: bits of 0x%" PRIx64,
                             term, value, value & ~allowed, allowed);
    }
    if (event->config[4] && !spex_field_get(caps->id, SPEX_PMSIDR_EL1_FDS))
        return refuse(error, "inv_data_src_filter", "this CPU has no FEAT_SPE_FDS; allowed: 0");
    if (event->config[2] > 0xfff)
        return error_set(error, SPEX_RANGE, 0, "min_latency=%" PRIu64 ": allowed: 0 to 4095",
                         event->config[2]);
    if (event->period < 0x100)
        event->period = 0x100;
    if (event->period > 0xffffff00)
        event->period = 0xffffff00;
    event->period &= 0xffffff00;
    return SPEX_OK;
}

static uint64_t to_pmsfcr(const struct driver_event *event)
{
    uint64_t reg = put(SPEX_PMSFCR_EL1_B, on(event, BRANCH_FILTER)) |
                   put(SPEX_PMSFCR_EL1_LD, on(event, LOAD_FILTER)) |
                   put(SPEX_PMSFCR_EL1_ST, on(event, STORE_FILTER)) |
                   put(SPEX_PMSFCR_EL1_SIMD, on(event, SIMD_FILTER)) |
                   put(SPEX_PMSFCR_EL1_FP, on(event, FLOAT_FILTER)) |
                   put(SPEX_PMSFCR_EL1_Bm, on(event, BRANCH_FILTER_MASK)) |
                   put(SPEX_PMSFCR_EL1_LDm, on(event, LOAD_FILTER_MASK)) |
                   put(SPEX_PMSFCR_EL1_STm, on(event, STORE_FILTER_MASK)) |
                   put(SPEX_PMSFCR_EL1_SIMDm, on(event, SIMD_FILTER_MASK)) |
                   put(SPEX_PMSFCR_EL1_FPm, on(event, FLOAT_FILTER_MASK));
    if (reg)
        reg |= put(SPEX_PMSFCR_EL1_FT, 1);
    return reg | put(SPEX_PMSFCR_EL1_FE, event->config[1] != 0) |
           put(SPEX_PMSFCR_EL1_FnE, event->config[3] != 0) |
           put(SPEX_PMSFCR_EL1_FL, event->config[2] != 0) |
           put(SPEX_PMSFCR_EL1_FDS, event->config[4] != 0);
}

static uint64_t to_pmscr(const struct driver_event *event)
{
    return put(SPEX_PMSCR_EL1_TS, on(event, TS_ENABLE)) |
           put(SPEX_PMSCR_EL1_PA, on(event, PA_ENABLE)) |
           put(SPEX_PMSCR_EL1_PCT, on(event, PCT_ENABLE)) | put(SPEX_PMSCR_EL1_CX, 1) |
           put(SPEX_PMSCR_EL1_E0SPE, 1) | put(SPEX_PMSCR_EL1_E1SPE, 1);
}

/* ---- start, interrupt, stop ---- */

static void open_buffer(struct spex_spu *unit, const struct driver_event *event,
                        const struct driver_buffer *buffer)
{
    if (on(event, DISCARD)) {
        msr(unit, SPEX_PMBLIMITR_EL1, put(SPEX_PMBLIMITR_EL1_FM, 2) | put(SPEX_PMBLIMITR_EL1_E, 1));
        return;
    }
    msr(unit, SPEX_PMBPTR_EL1, buffer->base);
    msr(unit, SPEX_PMBLIMITR_EL1, buffer->limit | put(SPEX_PMBLIMITR_EL1_E, 1));
}

static void disable_and_drain(struct spex_spu *unit)
{
    msr(unit, SPEX_PMSCR_EL1, 0);
    isb(unit);
    spex_spu_psb(unit, NULL); /* PSB CSYNC, DSB NSH */
    msr(unit, SPEX_PMBLIMITR_EL1, 0);
    isb(unit);
}

void driver_start(struct spex_spu *unit, const struct driver_event *event,
                  const struct driver_buffer *buffer, uint32_t context)
{
    enter(unit, 1);
    disable_and_drain(unit); /* reset of the CPU when it comes online */
    msr(unit, SPEX_PMBPTR_EL1, 0);
    isb(unit);
    msr(unit, SPEX_PMBSR_EL1, 0);
    isb(unit);

    open_buffer(unit, event, buffer);
    msr(unit, SPEX_PMSFCR_EL1, to_pmsfcr(event));
    msr(unit, SPEX_PMSEVFR_EL1, event->config[1]);
    if (event->config[3])
        msr(unit, SPEX_PMSNEVFR_EL1, event->config[3]);
    if (event->config[4])
        msr(unit, SPEX_PMSDSFR_EL1, ~event->config[4]);
    msr(unit, SPEX_PMSLATFR_EL1, event->config[2]);
    msr(unit, SPEX_PMSIRR_EL1, event->period | on(event, JITTER));
    isb(unit);
    msr(unit, SPEX_PMSICR_EL1,
        event->period); /* perf's period_left: the first one is not jittered */
    isb(unit);
    msr(unit, SPEX_PMSCR_EL1, to_pmscr(event));
    spex_spu_set(unit, SPEX_CONTEXTIDR_EL1, context); /* contextidr_thread_switch() */
    isb(unit);                                        /* ERET */
    enter(unit, 0);
}

static uint32_t aux_flags_of(uint64_t status)
{
    uint32_t flags = 0;
    if (spex_field_get(status, SPEX_PMBSR_EL1_DL))
        flags |= DRIVER_AUX_TRUNCATED | DRIVER_AUX_PARTIAL;
    if (spex_field_get(status, SPEX_PMBSR_EL1_COLL))
        flags |= DRIVER_AUX_COLLISION;
    return flags;
}

enum driver_irq driver_interrupt(struct spex_spu *unit, uint32_t *aux_flags, uint64_t *end)
{
    enter(unit, 1);
    spex_spu_psb(unit, NULL);
    isb(unit);
    uint64_t status = mrs(unit, SPEX_PMBSR_EL1);
    if (!spex_field_get(status, SPEX_PMBSR_EL1_S)) {
        enter(unit, 0);
        return DRIVER_SPURIOUS;
    }
    *aux_flags = aux_flags_of(status);
    *end = mrs(unit, SPEX_PMBPTR_EL1);
    if (spex_field_get(status, SPEX_PMBSR_EL1_EC) == 0 &&
        spex_field_get(status, SPEX_PMBSR_EL1_MSS) == 1)
        return DRIVER_FULL;
    disable_and_drain(unit);
    msr(unit, SPEX_PMBSR_EL1, 0);
    enter(unit, 0);
    return DRIVER_FATAL;
}

void driver_resume(struct spex_spu *unit, const struct driver_event *event,
                   const struct driver_buffer *buffer)
{
    open_buffer(unit, event, buffer);
    isb(unit);
    msr(unit, SPEX_PMBSR_EL1, 0); /* profiling goes on from the frozen PMSICR_EL1 */
    isb(unit);
    enter(unit, 0);
}

void driver_stop(struct spex_spu *unit, uint32_t *aux_flags, uint64_t *end)
{
    enter(unit, 1);
    disable_and_drain(unit);
    spex_spu_psb(unit, NULL);
    isb(unit);
    uint64_t status = mrs(unit, SPEX_PMBSR_EL1);
    *aux_flags = aux_flags_of(status);
    *end = mrs(unit, SPEX_PMBPTR_EL1);
    msr(unit, SPEX_PMBSR_EL1, 0);
    enter(unit, 0);
}
