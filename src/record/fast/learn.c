/* Learning the shapes of records. */
#include "record/fast/fast.h"
#include "record/run.h"

#include <string.h>

#define AT(member) offsetof(struct spex_record, member)
_Static_assert(sizeof(struct spex_record) == 96 && AT(events) == 40 && AT(timestamp) == 48 &&
                   AT(offset) == 56 && AT(context) == 64 && AT(total) == 72 &&
                   AT(data_source) == 80 && AT(op_payload) == 87,
               "records are written in pieces of 64, 16 and 16 bytes");
_Static_assert(sizeof(((struct shape *)0)->fixed) == sizeof(struct spex_record) - AT(data_source),
               "the fixed part of a shape is the end of a record");

void shapes_init(struct spex_shapes *shapes, const struct fast_variant *variant)
{
    enum { PAUSE = 256 };
    memset(shapes, 0, offsetof(struct spex_shapes, by_key));
    shapes->variant = variant;
    shapes->pause = PAUSE;
    shapes->shapes_at = -(uintptr_t)shapes->shapes % CELL;
    shapes_restart(shapes, false);
}

void shapes_restart(struct spex_shapes *shapes, bool streaming)
{
    shapes->streaming = streaming;
    shapes->count = 0;
    shapes->tail_count = 0;
    shapes->last = NO_SHAPE;
    if (streaming) /* otherwise filled by the first shape that has keys */
        memset(shapes->by_key, 0xff, sizeof shapes->by_key); /* NO_SHAPE */
}

/* The field that a packet fills, by slot. */
static const uint8_t field_of[SLOTS] = {
    [SLOT_PC] = FIELD_ADDRESS,
    [SLOT_TARGET] = FIELD_ADDRESS + 1,
    [SLOT_VA] = FIELD_ADDRESS + 2,
    [SLOT_PA] = FIELD_ADDRESS + 3,
    [SLOT_PREV_TARGET] = FIELD_ADDRESS + 4,
    [SLOT_TOTAL] = FIELD_COUNTER,
    [SLOT_ISSUE] = FIELD_COUNTER + 1,
    [SLOT_TRANSLATION] = FIELD_COUNTER + 2,
    [SLOT_ALT_ISSUE] = FIELD_COUNTER + 3,
    [SLOT_CONTEXT_EL1] = FIELD_CONTEXT,
    [SLOT_CONTEXT_EL2] = FIELD_CONTEXT + 1,
    [SLOT_EVENTS] = FIELD_EVENTS,
    [SLOT_DATA_SOURCE] = FIELD_DATA_SOURCE,
    [SLOT_OP] = FIELD_OP,
    [SLOT_TIMESTAMP] = FIELD_TIMESTAMP,
};

/* The offset of each field in struct spex_record. */
/* clang-format off */
static const uint8_t position_of[FIELD_COUNT] = {
    0, 8, 16, 24, 32, AT(events), AT(timestamp), AT(context), AT(context) + 4, AT(total),
    AT(issue), AT(translation), AT(alt_issue), AT(data_source), AT(op_payload)};
/* clang-format on */

static void add_packet(struct shape *shape, const struct spex_packet *packet, size_t at)
{
    enum slot slot = slot_of(packet);
    shape->fixed.present |= (uint16_t)SLOT_BITS(slot);
    if (slot >= SLOTS)
        return;
    unsigned field = field_of[slot];
    shape->at[field] = (uint8_t)at;
    uint64_t bytes = BIT(packet->size) - 1;
    if (position_of[field] < 64)
        shape->filled_low |= bytes << position_of[field];
    else
        shape->filled_high |= (uint32_t)bytes << (position_of[field] - 64);
    uint64_t ones = spread((unsigned)bytes);
    if (field <= FIELD_TIMESTAMP)
        shape->wide_mask[field] = ones;
    else if (field < FIELD_COUNTER)
        shape->context_mask[field - FIELD_CONTEXT] = (uint32_t)ones;
    else if (field < FIELD_DATA_SOURCE)
        shape->counter_mask[field - FIELD_COUNTER] = (uint16_t)ones;
    if (field == FIELD_EVENTS) {
        shape->fixed.events_size = packet->size;
    } else if (field == FIELD_DATA_SOURCE) {
        shape->fixed.data_source_size = packet->size;
    } else if (field == FIELD_OP) {
        shape->fixed.op_class = packet->index;
    }
}

/* The first free slot of a key; NO_KEY if all are taken. */
static unsigned free_slot(const struct spex_shapes *shapes, unsigned key)
{
    for (unsigned i = 0; i < KEY_PLACES; i++)
        if (shapes->by_key[key ^ i] == NO_SHAPE)
            return key ^ i;
    return NO_KEY;
}

/* Enters a shape under a key; if all slots are taken, it replaces the last. */
static void enter_shape(struct spex_shapes *shapes, unsigned number, unsigned key)
{
    unsigned at = free_slot(shapes, key);
    shapes->by_key[at != NO_KEY ? at : key ^ (KEY_PLACES - 1)] = (uint16_t)number;
}

static unsigned cell_key(const struct spex_shapes *shapes, const struct shape *shape)
{
    return shapes->variant->cell_key(shapes->cell_keys, shape->head.value);
}

/* The key that walks of records of this shape give; NO_KEY if they do not reach the end. */
static unsigned stream_key(const struct spex_shapes *shapes, const struct shape *shape)
{
    uint8_t headers[4 * CELL] = {0};
    struct walked walked;
    unsigned key = 0;
    size_t at = 0;
    memcpy(headers, shape->head.value, CELL);
    if (shape->tail)
        memcpy(headers + CELL, shapes->tails[shape->tail].value, CELL);
    do {
        shapes->variant->walk(headers + at, &walked);
        key = at ? keys_together(key, walked.key) : walked.key;
        at += walked.end;
    } while (!walked.closed && at < shape->fixed.size);
    return walked.closed && at == shape->fixed.size ? key : NO_KEY;
}

/*
 * The newest shape may change which positions all shapes of its group have in common and which
 * distinguish some of them. The first byte of a cell is header or padding.
 */
static void index_shape(struct spex_shapes *shapes)
{
    unsigned number = shapes->count - 1u;
    const struct shape *shape = &shapes_of(shapes)[number];
    struct cell_keys *keys = &shapes->cell_keys[cell_group(shape->head.value)];
    if (number == 0)
        memset(shapes->cell_keys, 0, sizeof shapes->cell_keys);
    if (!keys->common) {
        keys->common = shape->head.compared;
        keys->differ = 1;
        memcpy(keys->example, shape->head.value, CELL);
    }
    for (unsigned i = 0; i < CELL; i++)
        if (keys->example[i] != shape->head.value[i])
            keys->differ |= BIT(i);
    keys->common &= shape->head.compared;
    if (number > 0 && keys->places == (keys->common & keys->differ)) {
        enter_shape(shapes, number, cell_key(shapes, shape));
        return;
    }
    keys->places = keys->common & keys->differ;
    for (unsigned i = 0; i < CELL; i += 8)
        keys->words[i / 8] = spread(keys->places >> i & 255);
    memset(shapes->by_key, 0xff, sizeof shapes->by_key); /* NO_SHAPE */
    for (unsigned i = 0; i <= number; i++)
        enter_shape(shapes, i, cell_key(shapes, &shapes_of(shapes)[i]));
}

/* Learns a shape only when a similar one comes for the second time: many come only once. */
static bool comes_again(struct spex_shapes *shapes, const struct spex_record *record)
{
    unsigned about =
        (record->present * 0x9e3779b1u + record->size * 0x85ebca6bu +
         (record->op_class | record->events_size << 2 | record->data_source_size << 6) *
             0xc2b2ae35u) >>
        20;
    bool again = shapes->seen[about / 8] >> (about % 8) & 1;
    shapes->seen[about / 8] |= (uint8_t)(1u << (about % 8));
    return again;
}

/*
 * Adds the shape of a record that begins lead bytes into the size bytes at cell, with padding
 * around it. False if the cell holds anything else, or there is no room.
 */
static bool add_shape(struct spex_shapes *shapes, const uint8_t *cell, size_t size, size_t lead,
                      const struct spex_record *record)
{
    if (shapes->count == SHAPES || (size > CELL && shapes->tail_count == TAILS - 1))
        return false;
    size_t end = lead + record->size;
    struct shape shape = {.fixed.size = record->size, .lead = (uint8_t)lead};
    struct pattern tail = {.compared = 0};
    for (size_t at = 0; at < size;) {
        struct spex_packet packet = {.header_size = 1};
        if (at >= lead && at < end)
            wire_decode(cell + at, end - at, &packet);
        else if (cell[at])
            return false; /* another record in the same cell */
        for (size_t i = at; i < at + packet.header_size; i++) {
            struct pattern *pattern = i < CELL ? &shape.head : &tail;
            pattern->value[i % CELL] = cell[i];
            pattern->compared |= BIT(i % CELL);
        }
        add_packet(&shape, &packet, at + packet.header_size);
        at += spex_packet_length(&packet);
    }
    shape.partial = (shape.fixed.present & HAS_WHOLE) != HAS_WHOLE;
    if (size > CELL) {
        shape.tail = ++shapes->tail_count;
        shapes->tails[shape.tail] = tail;
    }
    shape.special = shape.partial || shape.tail;
    shapes_of(shapes)[shapes->count++] = shape;
    return true;
}

void shapes_learn_cell(struct spex_shapes *shapes, const uint8_t *cell, size_t lead,
                       const struct spex_record *record)
{
    if (shapes->rest) {
        shapes->rest--;
        return;
    }
    if (!comes_again(shapes, record) || shapes->count == CELL_SHAPES ||
        !add_shape(shapes, cell, CELL, lead, record))
        return;
    const struct shape *shape = &shapes_of(shapes)[shapes->count - 1];
    for (const struct shape *other = shapes_of(shapes); other < shape; other++) {
        if (other->head.compared == shape->head.compared &&
            !memcmp(other->head.value, shape->head.value, CELL)) {
            shapes->count--; /* known, but another shape took its slot, and would again */
            shapes->rest = REST;
            return;
        }
    }
    index_shape(shapes);
}

void shapes_learn_stream(struct spex_shapes *shapes, const uint8_t *data,
                         const struct spex_record *record)
{
    if (record->size > 2 * CELL || !comes_again(shapes, record) ||
        !add_shape(shapes, data, record->size, 0, record))
        return;
    unsigned number = shapes->count - 1u, key = stream_key(shapes, &shapes_of(shapes)[number]);
    if (key != NO_KEY && free_slot(shapes, key) != NO_KEY) {
        enter_shape(shapes, number, key);
    } else {
        shapes->count--;
        shapes->tail_count -= record->size > CELL;
    }
}
