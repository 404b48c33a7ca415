#include "rig.h"

#include "base/bits.h"
#include "record/reader.h"

void rig_open(struct rig *rig, const char *features, const char *choices)
{
    struct spex_error error = {0};
    memset(rig, 0, sizeof *rig);
    host_init(&rig->host);
    spu_config_default(&rig->config);
    if (arch_features_parse(features, &rig->config.features, &error))
        fail_msg("%s: %s", features, error.text);
    char text[512];
    snprintf(text, sizeof text, "%s", choices ? choices : "");
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        if (spu_choices_set(&rig->config.choices, word, &error))
            fail_msg("%s: %s", word, error.text);
    rig->config.host = host_callbacks(&rig->host);
    rig_reopen(rig);
}

void rig_reopen(struct rig *rig)
{
    struct spex_error error = {0};
    spex_spu_free(rig->unit);
    if (spu_new(&rig->config, &rig->unit, &error))
        fail_msg("%s", error.text);
    spex_spu_boot(rig->unit);
}

void rig_close(struct rig *rig)
{
    spex_spu_free(rig->unit);
    host_fini(&rig->host);
}

void rig_set(struct rig *rig, unsigned encoding, uint64_t value)
{
    if (!spex_spu_set(rig->unit, encoding, value))
        fail_msg("no register %s", spex_sysreg_name(encoding));
}

uint64_t rig_get(struct rig *rig, unsigned encoding)
{
    uint64_t value;
    if (!spex_spu_get(rig->unit, encoding, &value))
        fail_msg("no register %s", spex_sysreg_name(encoding));
    return value;
}

void rig_field(struct rig *rig, unsigned encoding, enum spex_sysreg_field field, uint64_t value)
{
    rig_set(rig, encoding, spex_field_set(rig_get(rig, encoding), field, value));
}

void rig_write(struct rig *rig, unsigned encoding, uint64_t value)
{
    enum spex_sysreg_result result = spex_spu_write(rig->unit, encoding, 0, value, NULL);
    if (result != SPEX_SYSREG_OK)
        fail_msg("msr %s: %d", spex_sysreg_name(encoding), result);
}

uint64_t rig_read(struct rig *rig, unsigned encoding)
{
    uint64_t value = 0;
    enum spex_sysreg_result result = spex_spu_read(rig->unit, encoding, 0, &value, NULL);
    if (result != SPEX_SYSREG_OK)
        fail_msg("mrs %s: %d", spex_sysreg_name(encoding), result);
    return value;
}

void rig_state(struct rig *rig, unsigned el, enum spex_security security)
{
    const struct arch_features *f = &rig->config.features;
    struct spex_spu_state state;
    spex_spu_get_state(rig->unit, &state);
    if (f->EL3 && el < 3) {
        state.el = 3;
        state.security = f->RME ? SPEX_ROOT : SPEX_SECURE;
        spex_spu_set_state(rig->unit, &state);
        RIG_FIELD(rig, SCR_EL3, NS, security != SPEX_SECURE);
        RIG_FIELD(rig, SCR_EL3, NSE, security == SPEX_REALM);
    }
    state.el = (uint8_t)el;
    state.security = el == 3 ? (f->RME ? SPEX_ROOT : SPEX_SECURE) : (uint8_t)security;
    spex_spu_set_state(rig->unit, &state);
}

void rig_start(struct rig *rig, uint64_t size)
{
    rig_set(rig, SPEX_PMSCR_EL1, 0);
    rig_set(rig, SPEX_PMBSR_EL1, 0);
    rig_set(rig, SPEX_PMBPTR_EL1, RIG_BASE);
    rig_set(rig, SPEX_PMBLIMITR_EL1, (RIG_BASE + size) | 1);
    rig_set(rig, SPEX_PMSIRR_EL1, 1 << 8);
    rig_set(rig, SPEX_PMSICR_EL1, 1);
    RIG_FIELD(rig, PMSCR_EL1, E1SPE, 1);
    RIG_FIELD(rig, PMSCR_EL1, E0SPE, 1);
}

void rig_arm(struct rig *rig)
{
    rig_set(rig, SPEX_PMSICR_EL1, 1);
}

void rig_sample(struct rig *rig, const struct made_op *op)
{
    rig_arm(rig);
    spex_spu_op(rig->unit, op->pc, &op->op, &op->outcome);
}

void rig_sample_plain(struct rig *rig)
{
    struct made_op op;
    ops_plain(SPEX_OP_OTHER, 0, &op);
    rig_sample(rig, &op);
}

bool rig_has_record(const struct rig *rig)
{
    return rig->host.count > 0;
}

struct spex_record rig_record(struct rig *rig)
{
    static uint8_t bytes[SPEX_RECORD_MAX * 2];
    struct spex_reader reader;
    struct spex_record record = {0}, more;
    size_t size = host_bytes(&rig->host, bytes, sizeof bytes);
    if (!size)
        fail_msg("no record was written");
    reader_whole(&reader, bytes, size, 0);
    if (spex_reader_next(&reader, &record, NULL) ||
        spex_reader_next(&reader, &more, NULL) != SPEX_END)
        fail_msg("not exactly one record in %zu bytes", size);
    host_clear(&rig->host);
    return record;
}

uint64_t rig_pmu(struct rig *rig, unsigned event)
{
    spex_spu_flush(rig->unit);
    return rig->host.pmu[naive_pmu_index(event)];
}

static bool fits(const char *cell, unsigned value)
{
    if (!strncmp(cell, "!=", 2))
        return !fits(cell + 2, value);
    size_t bits = strlen(cell);
    for (size_t i = 0; i < bits; i++)
        if (cell[i] != 'x' && (unsigned)(cell[i] - '0') != (value >> (bits - 1 - i) & 1))
            return false;
    return true;
}

void rig_expand(const char *const *cells, size_t columns,
                void (*each)(void *context, const unsigned *values), void *context)
{
    unsigned values[RIG_COLUMNS] = {0};
    unsigned sizes[RIG_COLUMNS];
    assert_true(columns <= RIG_COLUMNS);
    for (size_t i = 0; i < columns; i++)
        sizes[i] = 1u << (strlen(cells[i]) - (cells[i][0] == '!' ? 2 : 0));
    for (;;) {
        bool all = true;
        for (size_t i = 0; i < columns; i++)
            all = all && fits(cells[i], values[i]);
        if (all)
            each(context, values);
        size_t i = 0;
        while (i < columns && ++values[i] == sizes[i])
            values[i++] = 0;
        if (i == columns)
            return;
    }
}
