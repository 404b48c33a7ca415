/*
 * The generator: draws a record (draw.c), then finds a place for each packet. It shares no code
 * with the checker, so that each tests the other.
 */
#include "draw.h"

#include "base/error.h"
#include "base/sized.h"
#include "record/slots.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct draw_state) <= sizeof((struct spex_generator){0}.opaque), "state fits");

enum spex_status generator_init(struct spex_generator *g, const struct generate_options *options,
                                struct spex_error *error)
{
    struct draw_state *s = (struct draw_state *)g->opaque;
    const struct arch_features *f = &options->features;
    enum spex_status status = arch_features_check(f, error);
    if (status)
        return status;
    if ((unsigned)options->layout > SPEX_LAYOUT_HISI)
        return error_set(error, SPEX_INVALID, 0, "no layout %u", (unsigned)options->layout);
    if (options->ops & ~(unsigned)SPEX_GENERATE_ALL)
        return error_set(error, SPEX_UNSUPPORTED, 0, "unknown kinds of operation: 0x%x",
                         options->ops & ~(unsigned)SPEX_GENERATE_ALL);
    if (options->align > f->MaxSize)
        return error_set(error, SPEX_INVALID, 0,
                         "records of at most %u bytes cannot be aligned to 2^%u", 1u << f->MaxSize,
                         options->align);
    memset(g, 0, sizeof *g);
    g->options = *options;
    if (!g->options.ops)
        g->options.ops = SPEX_GENERATE_ALL;
    s->rng.state = options->seed;
    s->timestamp = rng_next(&s->rng) >> 20;
    s->pc[0] = 0x0000aaaab0000000 + (rng_next(&s->rng) & 0xfffffffc);
    s->pc[1] = s->pc[2] = 0x00ffff8008000000 + (rng_next(&s->rng) & 0x3fffffc);
    draw_choose(s, f, g->options.ops);
    return SPEX_OK;
}

size_t spex_generator_size(void)
{
    return sizeof(struct spex_generator);
}

enum spex_status spex_generator_init(void *memory, const struct spex_generate_options *options,
                                     struct spex_generator **generator, struct spex_error *error)
{
    assert(memory && generator);
    struct spex_generate_options in = {0};
    struct generate_options o;
    enum spex_status status = SPEX_OK;
    if (options)
        status = sized_take("spex_generate_options", options, &in, sizeof in, error);
    if (!status)
        status = arch_features_parse(in.features ? in.features : "max", &o.features, error);
    if (status)
        return status;
    o.seed = in.seed;
    o.layout = in.layout;
    o.align = in.align;
    o.ops = in.ops;
    status = generator_init(memory, &o, error);
    if (!status)
        *generator = memory;
    return status;
}

enum spex_status spex_generator_new(const struct spex_generate_options *options,
                                    struct spex_generator **generator, struct spex_error *error)
{
    assert(generator);
    void *memory = malloc(sizeof(struct spex_generator));
    if (!memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a generator");
    enum spex_status status = spex_generator_init(memory, options, generator, error);
    if (status)
        free(memory);
    return status;
}

void spex_generator_free(struct spex_generator *generator)
{
    free(generator);
}

/* ---- bytes ---- */

/* The order of the manual's example: contexts, counters, addresses, source, type, events. */
static unsigned example_order(const struct spex_packet *p)
{
    static const uint8_t order[SPEX_PACKET_TYPE_COUNT] = {
        /* clang-format off */
        [SPEX_PACKET_CONTEXT] = 0,        [SPEX_PACKET_COUNTER] = 1,
        [SPEX_PACKET_ADDRESS] = 2,        [SPEX_PACKET_DATA_SOURCE] = 3,
        [SPEX_PACKET_OPERATION_TYPE] = 4, [SPEX_PACKET_EVENTS] = 5,
    };
    /* clang-format on */
    return (unsigned)order[p->type] << 8 | p->index;
}

static void arrange(struct draft *d)
{
    bool shuffle = chance(d->rng, 12); /* packets before the closing one may come in any order */
    for (unsigned i = 1; i < d->count; i++) {
        struct spex_packet p = d->packets[i];
        unsigned j = i;
        if (shuffle) {
            j = rng_below(d->rng, i + 1);
            d->packets[i] = d->packets[j];
        } else {
            for (; j && example_order(&d->packets[j - 1]) > example_order(&p); j--)
                d->packets[j] = d->packets[j - 1];
        }
        d->packets[j] = p;
    }
}

static size_t write_packets(struct draft *d, uint8_t *out)
{
    size_t size = 0, length;
    arrange(d);
    struct spex_packet close;
    bool ts = d->f->TS;
    spex_packet_make(ts ? SPEX_PACKET_TIMESTAMP : SPEX_PACKET_END, 0, 0,
                     ts ? d->record->timestamp : 0, &close);
    d->packets[d->count++] = close;
    for (unsigned i = 0; i < d->count; i++) {
        enum spex_status status =
            spex_packet_encode(&d->packets[i], out + size, SPEX_RECORD_MAX - size, &length);
        assert(status == SPEX_OK);
        (void)status;
        size += length;
    }
    return size;
}

size_t spex_generator_next(struct spex_generator *g, uint8_t *out, struct spex_record *record)
{
    struct draw_state *s = (struct draw_state *)g->opaque;
    const struct arch_features *f = &g->options.features;
    bool rich = g->options.layout == SPEX_LAYOUT_COMPACT;
    struct draft d = {.f = f, .rng = &s->rng, .record = record, .rich = rich};
    d.room = ((size_t)1 << f->MaxSize) - closing_length(f->TS ? SPEX_HAS_TIMESTAMP : 0);
    if (g->options.layout == SPEX_LAYOUT_HISI)
        d.room -= 6; /* its own padding */
    memset(record, 0, sizeof *record);
    draw_record(g, s, &d);
    if (f->TS) {
        s->timestamp += 1 + rng_below(&s->rng, 4000);
        record->timestamp = s->timestamp;
        record->present |= SPEX_HAS_TIMESTAMP;
    }
    size_t size = 0;
    if (rich) {
        size = write_packets(&d, out);
    } else {
        enum spex_status status =
            spex_record_encode(record, g->options.layout, 0, out, SPEX_RECORD_MAX, &size);
        assert(status == SPEX_OK);
        (void)status;
    }
    size_t lead = 0; /* in a fixed layout, padding may stand in place of the PC packet */
    while (!out[lead])
        lead++;
    record->offset = g->offset + lead;
    record->size = (uint16_t)(size - lead);
    size_t unit = (size_t)1 << g->options.align, padded = (size + unit - 1) & ~(unit - 1);
    if (rich && padded + unit <= SPEX_RECORD_MAX && chance(&s->rng, 6))
        padded += unit == 1 ? 1 + rng_below(&s->rng, 7) : unit;
    memset(out + size, 0, padded - size);
    g->offset += padded;
    return padded;
}
