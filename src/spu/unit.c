/*
 * The unit as a whole: configuration, lifetime, PE state, effects of a change, save and
 * restore.
 */
#include "unit.h"

#include "base/error.h"
#include "base/sized.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration ---- */

void spu_config_default(struct spu_config *config)
{
    memset(config, 0, sizeof *config);
    arch_features_preset("max", &config->features);
    spu_choices_default(&config->choices);
    config->seed = 1;
}

/*
 * Arm cores with 64-byte records use fixed offsets (N1 and its successors); HiSilicon's do
 * not.
 */
static unsigned layout_of(const struct spu_config *config)
{
    const struct arch_features *f = &config->features;
    const struct spu_choices *c = &config->choices;
    if (c->layout)
        return (unsigned)c->layout - 1;
    if (f->midr >> 24 == 0x48)
        return SPEX_LAYOUT_HISI;
    bool arm64 = f->midr >> 24 == 0x41 && f->MaxSize == 6 && f->Align == 6;
    bool plain = !f->PBT && !f->GCS && !f->ALTCLK && !c->impdef_counter && !c->impdef_address;
    return arm64 && plain ? SPEX_LAYOUT_N1 : SPEX_LAYOUT_COMPACT;
}

static unsigned events_size_of(const struct spex_spu *u)
{
    if (u->config.choices.events_size)
        return (unsigned)u->config.choices.events_size;
    return u->events >> 32 ? 8 : u->events >> 16 ? 4 : u->events >> 8 ? 2 : 1;
}

static bool impdef_index(uint64_t index)
{
    return index == 0 || index == 6 || index == 7 || index >= 16;
}

enum spex_status spu_config_check(const struct spu_config *config, struct spex_error *error)
{
    const struct spu_choices *c = &config->choices;
    enum spex_status status = arch_features_check(&config->features, error);
    if (status)
        return status;
    const struct spex_spu_choice *row;
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        uint64_t value = *spu_choice_field(c, i);
        if (value < row->min || value > row->max)
            return error_set(error, SPEX_RANGE, 0, "choice '%s' takes %llu to %llu, not %llu",
                             row->name, (unsigned long long)row->min, (unsigned long long)row->max,
                             (unsigned long long)value);
    }
    if (!impdef_index(c->impdef_counter) || !impdef_index(c->impdef_address))
        return error_set(error, SPEX_RANGE, 0,
                         "impdef_counter and impdef_address are 6, 7, 16 to 31, or 0 for none");
    if (c->alt_clock == ALT_CLOCK_IMPDEF && !c->impdef_counter)
        return error_set(error, SPEX_INVALID, 0, "alt_clock=impdef needs impdef_counter");
    if (c->events_size & (c->events_size - 1))
        return error_set(error, SPEX_RANGE, 0, "events_size is 0, 1, 2, 4 or 8");
    if (c->granule & 1)
        return error_set(error, SPEX_RANGE, 0, "granule is 12, 14 or 16");
    if (c->oa_bits & 3)
        return error_set(error, SPEX_RANGE, 0, "oa_bits is 48, 52 or 56");
    if (c->pa_bits > c->oa_bits)
        return error_set(error, SPEX_INVALID, 0, "pa_bits may not exceed oa_bits");

    if (c->hold && config->features.version < 6)
        return error_set(error, SPEX_INVALID, 0,
                         "hold needs SPEv1p5: before that a fault is reported before another "
                         "operation is sampled");

    struct spex_spu probe = {.config = *config};
    spu_registers_init(&probe);
    unsigned size = events_size_of(&probe), layout = layout_of(config);
    if (size < 8 && probe.events >> (8 * size))
        return error_set(error, SPEX_INVALID, 0,
                         "events_size=%u cannot hold the events of this "
                         "feature set",
                         size);
    size_t bound = spu_record_bound(config, size, layout);
    if (!bound)
        return error_set(error, SPEX_INVALID, 0,
                         "the layout has no place for all packets of this "
                         "feature set; use layout=compact");
    if (bound > (size_t)1 << config->features.MaxSize)
        return error_set(error, SPEX_INVALID, 0,
                         "records of up to %zu bytes do not fit into "
                         "maxsize=%u (%u bytes)",
                         bound, config->features.MaxSize, 1u << config->features.MaxSize);
    return SPEX_OK;
}

/* ---- life ---- */

size_t spex_spu_size(void)
{
    return sizeof(struct spex_spu);
}

static uint64_t hash(uint64_t h, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++, value >>= 8)
        h = (h ^ (value & 255)) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t config_hash(const struct spu_config *config)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
#define FLAG(field, name, text) h = hash(h, config->features.field);
#define NUMBER(field, name, min, max, text) h = hash(h, config->features.field);
#include "arch/features.def"
#define CHOICE(field, standard, min, max, values, ids, text) h = hash(h, config->choices.field);
#include "spu/choices.def"
    return hash(h, R_COUNT);
}

enum spex_status spu_init(void *memory, const struct spu_config *config, struct spex_spu **unit,
                          struct spex_error *error)
{
    enum spex_status status = spu_config_check(config, error);
    if (status)
        return status;
    struct spex_spu *u = memory;
    memset(u, 0, sizeof *u);
    u->config = *config;
    spu_registers_init(u);
    u->layout = layout_of(config);
    u->events_size = events_size_of(u);
    u->counter_most = u->config.features.CountSize == 3 ? 0xffff : 0xfff;
    u->config_hash = config_hash(config);
    u->w.random = config->seed;
    u->w.el = config->features.EL3 ? 3 : config->features.EL2 ? 2 : 1;
    u->w.security = config->features.RME      ? SPEX_ROOT
                    : config->features.Secure ? SPEX_SECURE
                                              : SPEX_NONSECURE;
    u->quiet.wants_branches = config->features.PBT;
    u->quiet.until = u->mark = UINT64_MAX;
    spu_registers_reset(u);
    spu_update(u);
    *unit = u;
    return SPEX_OK;
}

void spex_spu_fini(struct spex_spu *u)
{
    if (u)
        spex_spu_flush(u);
}

enum spex_status spu_new(const struct spu_config *config, struct spex_spu **unit,
                         struct spex_error *error)
{
    void *memory = malloc(sizeof(struct spex_spu));
    if (!memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a unit");
    enum spex_status status = spu_init(memory, config, unit, error);
    if (status)
        free(memory);
    return status;
}

/* ---- configuration as text ---- */

static enum spex_status config_read(const struct spex_spu_config *given, struct spu_config *config,
                                    struct spex_error *error)
{
    struct spex_spu_config in = {0};
    enum spex_status status = SPEX_OK;
    if (given)
        status = sized_take("spex_spu_config", given, &in, sizeof in, error);
    if (status)
        return status;
    spu_config_default(config);
    config->seed = in.seed;
    if (in.features && (status = arch_features_parse(in.features, &config->features, error)))
        return status;
    if (in.choices && (status = spu_choices_parse(&config->choices, in.choices, error)))
        return status;
    if (in.host)
        return sized_take("spex_spu_host", in.host, &config->host, sizeof config->host, error);
    return SPEX_OK;
}

enum spex_status spex_spu_config_check(const struct spex_spu_config *given,
                                       struct spex_error *error)
{
    struct spu_config config;
    enum spex_status status = config_read(given, &config, error);
    return status ? status : spu_config_check(&config, error);
}

enum spex_status spex_spu_init(void *memory, const struct spex_spu_config *given,
                               struct spex_spu **unit, struct spex_error *error)
{
    assert(memory && unit);
    struct spu_config config;
    enum spex_status status = config_read(given, &config, error);
    return status ? status : spu_init(memory, &config, unit, error);
}

enum spex_status spex_spu_new(const struct spex_spu_config *given, struct spex_spu **unit,
                              struct spex_error *error)
{
    assert(unit);
    struct spu_config config;
    enum spex_status status = config_read(given, &config, error);
    return status ? status : spu_new(&config, unit, error);
}

void spex_spu_free(struct spex_spu *u)
{
    spex_spu_fini(u);
    free(u);
}

const struct spu_config *spu_get_config(const struct spex_spu *u)
{
    return &u->config;
}

void spex_spu_reset(struct spex_spu *u)
{
    assert(u);
    spex_spu_flush(u);
    struct words *w = &u->w;
    w->after = w->due = w->part = w->previous_valid = w->drop = w->held_count = 0;
    w->late.pending = 0;
    memset(w->slot, 0, sizeof w->slot);
    spu_registers_reset(u);
    w->enabled = false;
    spu_update(u);
}

void spex_spu_boot(struct spex_spu *u)
{
    assert(u);
    static const struct spex_spu_state el1 = {.el = 1, .security = SPEX_NONSECURE};
#define FIELD(name) SPEX_FIELD_MASK(SPEX_##name)
#define LEAST(name) (UINT64_C(1) << SPEX_FIELD_LO(SPEX_##name)) /* a field that is 1 */
    static const struct {
        unsigned encoding;
        uint64_t value;
    } settings[] = {
        {SPEX_SCR_EL3, FIELD(SCR_EL3_NS) | FIELD(SCR_EL3_RW) | FIELD(SCR_EL3_FGTEn) |
                           FIELD(SCR_EL3_ECVEn) | FIELD(SCR_EL3_FGTEn2)},
        /* owner Non-secure, no traps from it; PMSEE delegated */
        {SPEX_MDCR_EL3, FIELD(MDCR_EL3_EnPMS4) | LEAST(MDCR_EL3_PMSEE) | FIELD(MDCR_EL3_EnPMS3) |
                            FIELD(MDCR_EL3_EnPMSN) | FIELD(MDCR_EL3_NSPB)},
        {SPEX_MDCR_EL2, FIELD(MDCR_EL2_E2PB)},
        {SPEX_HCR_EL2, BIT(31)}, /* RW: EL1 is AArch64 */
        {SPEX_PMSCR_EL2, LEAST(PMSCR_EL2_PCT) | FIELD(PMSCR_EL2_PA)},
        {SPEX_HDFGRTR_EL2, FIELD(HDFGRTR_EL2_nPMSNEVFR_EL1)},
        {SPEX_HDFGWTR_EL2, FIELD(HDFGWTR_EL2_nPMSNEVFR_EL1)},
        {SPEX_HDFGRTR2_EL2, FIELD(HDFGRTR2_EL2_nPMSDSFR_EL1) | FIELD(HDFGRTR2_EL2_nPMBMAR_EL1)},
        {SPEX_HDFGWTR2_EL2, FIELD(HDFGWTR2_EL2_nPMSDSFR_EL1) | FIELD(HDFGWTR2_EL2_nPMBMAR_EL1)},
        {SPEX_HFGITR_EL2, 0},
        {SPEX_PMSCR_EL1, 0},
        {SPEX_PMBLIMITR_EL1, 0},
        {SPEX_PMBSR_EL1, 0},
        {SPEX_PMBSR_EL2, 0},
        {SPEX_PMBSR_EL3, 0},
    };
#undef FIELD
#undef LEAST
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        spex_spu_set(u, settings[i].encoding, settings[i].value);
    spex_spu_context_sync(u);
    spex_spu_set_state(u, &el1);
}

/* ---- the PE ---- */

void spex_spu_set_state(struct spex_spu *u, const struct spex_spu_state *s)
{
    struct words *w = &u->w;
    assert(s->el < 4 && s->security <= SPEX_ROOT);
    if (w->el == s->el && w->security == s->security && w->aarch32 == s->aarch32 &&
        w->halted == s->halted && w->sdd == s->sdd && w->pm == s->pm)
        return;
    spex_spu_flush(u);
    w->el = s->el;
    w->security = s->security;
    w->aarch32 = s->aarch32;
    w->halted = s->halted;
    w->sdd = s->sdd;
    w->pm = s->pm;
    spu_update(u);
}

void spex_spu_get_state(const struct spex_spu *u, struct spex_spu_state *s)
{
    assert(u && s);
    const struct words *w = &u->w;
    *s = (struct spex_spu_state){.el = (uint8_t)w->el,
                                 .security = (uint8_t)w->security,
                                 .aarch32 = (uint8_t)w->aarch32,
                                 .halted = w->halted,
                                 .sdd = w->sdd,
                                 .pm = w->pm};
}

void spex_spu_context_sync(struct spex_spu *u)
{
    assert(u);
    struct words *w = &u->w;
    spex_spu_flush(u);
    if (!u->config.choices.pbt_stale)
        w->previous_valid = false;
    for (unsigned r = 0; r < R_COUNT && w->unsynced >> r; r++)
        if (w->unsynced >> r & 1)
            spu_take_direct(u, r);
    w->unsynced = 0;
    spu_update(u);
}

void spex_spu_exception_taken(struct spex_spu *u)
{
    assert(u);
    spex_spu_context_sync(u);
}

void spex_spu_get_status(const struct spex_spu *u, struct spex_spu_status *status)
{
    assert(u && status);
    struct owner owner = ProfilingBufferOwner(u);
    struct spex_spu_status s = {
        .size = sizeof s,
        .enabled = u->w.enabled,
        .buffer_enabled = ProfilingBufferEnabled(u),
        .stopped = SPEProfilingStopped(u),
        .discard = spu_discard_mode(u),
        .owner_el = owner.el,
        .owner_security = owner.security,
        .owner_valid = owner.valid,
        .irq = u->irq,
        .held = (uint8_t)u->w.held_count,
        .impossible_events = u->impossible,
        .impossible_addresses = u->impossible_addresses,
    };
    for (unsigned i = 0; i < SLOTS; i++)
        s.in_flight += u->w.slot[i].busy != 0;
    sized_give(status, &s);
}

/* ---- effects of a change ---- */

void spu_pmu_tell(struct spex_spu *u, unsigned event, uint64_t count)
{
    const struct arch_features *f = &u->config.features;
    bool exists = true;
    switch (event) {
    case SPEX_PMU_SAMPLE_FEED_DS:
        exists = f->FDS;
        break;
    case SPEX_PMU_SAMPLE_BUFFER_FULL:
        exists = f->version >= 5;
        break;
    case SPEX_PMU_SAMPLE_FEED_FP:
    case SPEX_PMU_SAMPLE_FEED_SIMD:
        exists = f->EFT;
        break;
    default:
        exists = event < 0x8000 || f->version >= 3;
    }
    if (exists)
        u->config.host.pmu(u->config.host.user, event, count);
}

static void tell_host(struct spex_spu *u)
{
    bool irq = SPEInterruptEnabled(u) && FIELD_OF(u->w.eff[R_PMBSR_EL1], PMBSR_EL1_S);
    struct spex_spu_exception e = {0};
    if (irq != u->irq) {
        u->irq = irq;
        if (u->config.host.irq)
            u->config.host.irq(u->config.host.user, irq);
    }
    if (u->config.features.EXC)
        spex_spu_get_exception(u, 0, &e);
    if (e.source != u->exception.source || e.target != u->exception.target ||
        e.unmasked != u->exception.unmasked) {
        u->exception = e;
        if (u->config.host.exception)
            u->config.host.exception(u->config.host.user, &e);
    }
}

void spu_update(struct spex_spu *u)
{
    u->now.known = false;
    if (u->w.held_count || u->w.late.pending) {
        if (!ProfilingBufferEnabled(u))
            spu_buffer_closed(u);
    }
    bool enabled = StatisticalProfilingEnabled(u, (unsigned)u->w.el);
    if (enabled && !u->w.enabled) {
        u->w.drop = false;
        if (u->config.choices.pointer_rule_at == POINTER_AT_ENABLING && !spu_discard_mode(u) &&
            !spu_pointer_ok(u)) {
            spu_pointer_violation(u);
            if (SPEProfilingStopped(u))
                spu_buffer_closed(u);
            enabled = u->w.drop; /* otherwise stopped by the event, or not enabled by choice */
        }
        if (enabled)
            spu_sample_initial_load(u);
    }
    u->w.enabled = enabled;
    u->now.known = false;
    spu_sample_plan(u);
    tell_host(u);
}

/* ---- random numbers ---- */

uint8_t spu_random(struct spex_spu *u)
{
    if (u->config.host.random)
        return u->config.host.random(u->config.host.user);
    struct rng rng = {u->w.random};
    uint8_t byte = (uint8_t)(rng_next(&rng) >> 56);
    u->w.random = rng.state;
    return byte;
}

unsigned spu_random_below(struct spex_spu *u, unsigned n)
{
    if (n <= 1)
        return 0;
    unsigned high = spu_random(u), low = spu_random(u);
    return ((high << 8 | low) * n) >> 16;
}

/* ---- PMU event names ---- */

static const struct {
    unsigned event;
    const char *name;
} pmu_names[] = {
    {SPEX_PMU_SAMPLE_POP, "SAMPLE_POP"},
    {SPEX_PMU_SAMPLE_FEED, "SAMPLE_FEED"},
    {SPEX_PMU_SAMPLE_FILTRATE, "SAMPLE_FILTRATE"},
    {SPEX_PMU_SAMPLE_COLLISION, "SAMPLE_COLLISION"},
    {SPEX_PMU_SAMPLE_FEED_DS, "SAMPLE_FEED_DS"},
    {SPEX_PMU_SAMPLE_BUFFER_FULL, "SAMPLE_BUFFER_FULL"},
    {SPEX_PMU_SAMPLE_FEED_BR, "SAMPLE_FEED_BR"},
    {SPEX_PMU_SAMPLE_FEED_LD, "SAMPLE_FEED_LD"},
    {SPEX_PMU_SAMPLE_FEED_ST, "SAMPLE_FEED_ST"},
    {SPEX_PMU_SAMPLE_FEED_OP, "SAMPLE_FEED_OP"},
    {SPEX_PMU_SAMPLE_FEED_EVENT, "SAMPLE_FEED_EVENT"},
    {SPEX_PMU_SAMPLE_FEED_LAT, "SAMPLE_FEED_LAT"},
    {SPEX_PMU_SAMPLE_FEED_FP, "SAMPLE_FEED_FP"},
    {SPEX_PMU_SAMPLE_FEED_SIMD, "SAMPLE_FEED_SIMD"},
};

const char *spex_pmu_event_name(unsigned event)
{
    for (size_t i = 0; i < sizeof pmu_names / sizeof pmu_names[0]; i++)
        if (pmu_names[i].event == event)
            return pmu_names[i].name;
    return NULL;
}

enum spex_status spex_pmu_event_find(const char *name, unsigned *event)
{
    assert(name && event);
    for (size_t i = 0; i < sizeof pmu_names / sizeof pmu_names[0]; i++) {
        if (!strcmp(pmu_names[i].name, name)) {
            *event = pmu_names[i].event;
            return SPEX_OK;
        }
    }
    return SPEX_INVALID;
}

/* ---- save and restore ---- */

/* Header: magic, version, configuration hash, then words, then held records. */
enum { SAVE_VERSION = 2, SAVE_HEADER = 24, WORDS = sizeof(struct words) / 8 };
#define SAVE_MAGIC UINT64_C(0x3155505358455053) /* "SPEXSPU1" */
static_assert(sizeof(struct words) % 8 == 0, "words only");

size_t spex_spu_save(const struct spex_spu *u, uint8_t *bytes, size_t capacity)
{
    assert(u && (bytes || !capacity));
    spu_sample_settled(u);
    size_t size = SAVE_HEADER + sizeof u->w;
    for (size_t i = 0; i < u->w.held_count; i++)
        size += (size_t)u->w.held_size[i];
    if (capacity < size)
        return size;
    put_le64(bytes, SAVE_MAGIC);
    put_le64(bytes + 8, SAVE_VERSION);
    put_le64(bytes + 16, u->config_hash);
    uint64_t words[WORDS];
    memcpy(words, &u->w, sizeof words);
    for (size_t i = 0; i < WORDS; i++)
        put_le64(bytes + SAVE_HEADER + 8 * i, words[i]);
    uint8_t *p = bytes + SAVE_HEADER + sizeof u->w;
    for (size_t i = 0; i < u->w.held_count; i++) {
        memcpy(p, u->held[i], (size_t)u->w.held_size[i]);
        p += u->w.held_size[i];
    }
    return size;
}

/* Checks values that index or bound something; others may be anything. */
static bool words_ok(const struct words *w, const struct spu_choices *c)
{
    if (w->el > 3 || w->security > SPEX_ROOT || w->held_count > HELD || w->halted > 1 ||
        w->late.data_lost > 2 || (w->late.pending && !w->late.samples) ||
        w->after > c->select_after + c->select_group)
        return false;
    for (size_t i = 0; i < w->held_count; i++)
        if (!w->held_size[i] || w->held_size[i] > SPEX_RECORD_MAX)
            return false;
    for (size_t i = 0; i < SLOTS; i++)
        if (w->slot[i].time_kind > TIME_PHYSICAL)
            return false;
    return true;
}

enum spex_status spex_spu_restore(struct spex_spu *u, const uint8_t *bytes, size_t size)
{
    assert(u && (bytes || !size));
    if (size < SAVE_HEADER)
        return SPEX_TRUNCATED;
    if (le64(bytes) != SAVE_MAGIC)
        return SPEX_INVALID;
    if (le64(bytes + 8) != SAVE_VERSION || le64(bytes + 16) != u->config_hash)
        return SPEX_UNSUPPORTED;
    if (size < SAVE_HEADER + sizeof u->w)
        return SPEX_TRUNCATED;
    uint64_t values[WORDS];
    struct words w;
    for (size_t i = 0; i < WORDS; i++)
        values[i] = le64(bytes + SAVE_HEADER + 8 * i);
    memcpy(&w, values, sizeof w);
    if (!words_ok(&w, &u->config.choices))
        return SPEX_INVALID;
    size_t rest = size - SAVE_HEADER - sizeof w, need = 0;
    for (size_t i = 0; i < w.held_count; i++)
        need += (size_t)w.held_size[i];
    if (rest < need)
        return SPEX_TRUNCATED;
    const uint8_t *p = bytes + SAVE_HEADER + sizeof w;
    u->w = w;
    for (size_t i = 0; i < w.held_count; i++) {
        memcpy(u->held[i], p, (size_t)w.held_size[i]);
        p += w.held_size[i];
    }
    u->now.known = false;
    u->quiet.until = u->mark = UINT64_MAX; /* discards what passed in the old state */
    u->pop = 0;
    spu_sample_plan(u);
    tell_host(u);
    return SPEX_OK;
}
