/* The payload of the Operation Type packet (Arm ARM D18.2.7), from ops.def. */
#include <spex/wire.h>

#include "wire/ops.h"

#include <assert.h>

enum field { ASE, FP, COND, EVL, ETS, PRED, LDST, AR, EXCL, AT, SG, COMM, CR, GCS, IND, FIELDS };

struct row {
    uint8_t op_class, subclass, mask, value;
    uint8_t at[FIELDS]; /* payload bits of each field */
};

static const struct row rows[] = {
#define AT(subclass, field) [field] = WIRE_OP_##subclass##_##field
#define OP(op_class, subclass, b7, b6, b5, b4, b3, b2, b1, b0, name)                               \
    {SPEX_CLASS_##op_class,                                                                        \
     SPEX_SUB_##subclass,                                                                          \
     WIRE_FIXED_OP_##subclass,                                                                     \
     WIRE_OP_##subclass,                                                                           \
     {AT(subclass, ASE), AT(subclass, FP), AT(subclass, COND), AT(subclass, EVL),                  \
      AT(subclass, ETS), AT(subclass, PRED), AT(subclass, LDST), AT(subclass, AR),                 \
      AT(subclass, EXCL), AT(subclass, AT), AT(subclass, SG), AT(subclass, COMM),                  \
      AT(subclass, CR), AT(subclass, GCS), AT(subclass, IND)}},
#include "wire/ops.def"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* The bits of payload under mask, packed together. */
static unsigned gather(unsigned payload, unsigned mask)
{
    unsigned value = 0, n = 0;
    for (; mask; mask &= mask - 1)
        value |= (payload >> __builtin_ctz(mask) & 1) << n++;
    return value;
}

/* EVL: 32 bits << code, 7 is more than 2048. ETS: 128 bits << code up to 11, 15 is all of ZA. */
static uint32_t length_bits(const struct row *row, unsigned code)
{
    if (row->at[EVL])
        return code < 7 ? 32u << code : 0;
    if (row->at[ETS])
        return code < 12 ? 128u << code : 0;
    return 0;
}

void spex_op_type_decode(unsigned op_class, unsigned payload, struct spex_op_type *type)
{
    assert(type);
    *type = (struct spex_op_type){.subclass = SPEX_SUB_RESERVED};
    const struct row *row = rows;
    while (row < rows + ROWS && (row->op_class != op_class || (payload & row->mask) != row->value))
        row++;
    if (row == rows + ROWS)
        return;
    *type = (struct spex_op_type){
        .subclass = row->subclass,
        .store = op_class == SPEX_CLASS_LDST && (payload & 1),
        .cond = payload & row->at[COND],
        .fp = payload & row->at[FP],
        .ase = payload & row->at[ASE],
        .pred = payload & row->at[PRED],
        .sg = payload & row->at[SG],
        .ar = payload & row->at[AR],
        .excl = payload & row->at[EXCL],
        .at = payload & row->at[AT],
        .gcs = payload & row->at[GCS],
        .comm = payload & row->at[COMM],
        .indirect = payload & row->at[IND],
        .cr = (uint8_t)gather(payload, row->at[CR]),
        .length_code = (uint8_t)gather(payload, row->at[EVL] | row->at[ETS]),
    };
    type->bits = length_bits(row, type->length_code);
}

enum spex_status spex_op_type_encode(const struct spex_op_type *type, unsigned *op_class,
                                     unsigned *payload)
{
    assert(type && op_class && payload);
    const struct row *row = rows;
    while (row < rows + ROWS && row->subclass != type->subclass)
        row++;
    if (row == rows + ROWS)
        return SPEX_INVALID;
    unsigned value = row->value;
    const struct {
        enum field field;
        unsigned value;
    } fields[] = {
        {COND, type->cond}, {FP, type->fp},     {ASE, type->ase}, {PRED, type->pred},
        {SG, type->sg},     {AR, type->ar},     {AT, type->at},   {EXCL, type->excl},
        {GCS, type->gcs},   {COMM, type->comm}, {CR, type->cr},   {IND, type->indirect},
    };
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        unsigned bits = wire_scatter(fields[i].value, row->at[fields[i].field]);
        if (gather(bits, row->at[fields[i].field]) != fields[i].value)
            return SPEX_INVALID; /* the row has no such field, or the value is too large */
        value |= bits;
    }
    unsigned at = row->at[EVL] | row->at[ETS];
    value |= wire_scatter(type->length_code, at);
    if (gather(value, at) != type->length_code)
        return SPEX_RANGE;
    value |= wire_scatter(type->store, row->at[LDST]);
    if ((row->op_class == SPEX_CLASS_LDST && (value & 1)) != type->store)
        return SPEX_INVALID;
    *op_class = row->op_class;
    *payload = value;
    return SPEX_OK;
}

const char *spex_op_subclass_name(enum spex_op_subclass subclass)
{
    static const char *const names[SPEX_SUB_COUNT] = {
        [SPEX_SUB_RESERVED] = "reserved",
#define OP(op_class, subclass, b7, b6, b5, b4, b3, b2, b1, b0, name) [SPEX_SUB_##subclass] = name,
#include "wire/ops.def"

    };
    return subclass < SPEX_SUB_COUNT ? names[subclass] : "?";
}
