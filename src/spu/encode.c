/* A sample -> bytes, in the layout of the unit, padded to PMBIDR_EL1.Align. */
#include "unit.h"

#include <string.h>

size_t SPEConstructRecord(const struct spex_spu *u, const struct sample *s, uint8_t *out)
{
    size_t size = record_emit(&s->record, (enum spex_layout)u->layout, &s->extra, out);
    size_t align = (size_t)1 << u->config.features.Align;
    size_t padded = (size + align - 1) & ~(align - 1);
    if (padded != size)
        memset(out + size, 0, padded - size);
    return padded;
}

/*
 * The largest record that the feature set and the choices can make; 0: a packet does not fit the
 * layout.
 */
size_t spu_record_bound(const struct spu_config *config, unsigned events_size, unsigned layout)
{
    const struct arch_features *f = &config->features;
    const struct spu_choices *c = &config->choices;
    uint8_t bytes[RECORD_EMIT_ROOM];
    struct spex_record r = {.events_size = (uint8_t)events_size};
    const struct record_extra extra = {.counter_index = (uint8_t)c->impdef_counter,
                                       .address_index = (uint8_t)c->impdef_address};
    unsigned always = SPEX_HAS_PC | SPEX_HAS_CONTEXT_EL1 | (f->EL2 ? SPEX_HAS_CONTEXT_EL2 : 0) |
                      SPEX_HAS_TOTAL | (c->omit_issue ? 0 : SPEX_HAS_ISSUE) |
                      (f->ALTCLK && c->alt_clock == ALT_CLOCK_INDEX_4 ? SPEX_HAS_ALT_ISSUE : 0) |
                      SPEX_HAS_OP | SPEX_HAS_EVENTS | SPEX_HAS_TIMESTAMP;
    unsigned memory = SPEX_HAS_VA | SPEX_HAS_PA | SPEX_HAS_TRANSLATION |
                      (f->LDS ? SPEX_HAS_DATA_SOURCE : 0) |
                      (f->PBT && c->pbt_any_op ? SPEX_HAS_PREV_TARGET : 0);
    unsigned branch = SPEX_HAS_TARGET | (f->PBT ? SPEX_HAS_PREV_TARGET : 0);
    if (f->GCS) /* a branch that is also an access */
        memory = branch |= memory;
    size_t most = 0, align = (size_t)1 << f->Align;
    r.data_source_size = (uint8_t)(c->data_source_size ? c->data_source_size
                                   : f->MaxSize > 6 && layout != SPEX_LAYOUT_N1 ? 2
                                                                                : 1);
    for (unsigned i = 0; i < 2; i++) {
        r.present = (uint16_t)(always | (i ? memory : branch));
        if (!record_fits((enum spex_layout)layout, r.present, events_size, r.data_source_size) ||
            (layout == SPEX_LAYOUT_N1 && (extra.counter_index || extra.address_index)))
            return 0;
        size_t size = record_emit(&r, (enum spex_layout)layout, &extra, bytes);
        most = size > most ? size : most;
    }
    return (most + align - 1) & ~(align - 1);
}
