#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(type, key, member)                                                                   \
    {                                                                                              \
        key, offsetof(struct type, member), sizeof(((struct type *)0)->member),                    \
            _Generic(((struct type *)0)->member, bool                                              \
                     : true, default                                                               \
                     : false)                                                                      \
    }

/* clang-format off */
const struct wire_field wire_state[] = {
    FIELD(spex_spu_state, "el", el), FIELD(spex_spu_state, "security", security),
    FIELD(spex_spu_state, "aarch32", aarch32), FIELD(spex_spu_state, "halted", halted),
    FIELD(spex_spu_state, "sdd", sdd), FIELD(spex_spu_state, "pm", pm), {0}};
const struct wire_field wire_status[] = {
    FIELD(spex_spu_status, "enabled", enabled),
    FIELD(spex_spu_status, "buffer-enabled", buffer_enabled),
    FIELD(spex_spu_status, "stopped", stopped), FIELD(spex_spu_status, "discard", discard),
    FIELD(spex_spu_status, "owner-el", owner_el),
    FIELD(spex_spu_status, "owner-security", owner_security),
    FIELD(spex_spu_status, "owner-valid", owner_valid), FIELD(spex_spu_status, "irq", irq),
    FIELD(spex_spu_status, "in-flight", in_flight), FIELD(spex_spu_status, "held", held),
    FIELD(spex_spu_status, "impossible-events", impossible_events),
    FIELD(spex_spu_status, "impossible-addresses", impossible_addresses), {0}};
const struct wire_field wire_exception[] = {
    FIELD(spex_spu_exception, "source", source), FIELD(spex_spu_exception, "target", target),
    FIELD(spex_spu_exception, "pending", pending), FIELD(spex_spu_exception, "unmasked", unmasked),
    FIELD(spex_spu_exception, "esr", esr), {0}};
static const struct wire_field op_fields[] = {
    FIELD(spex_op, "op-flags", flags), FIELD(spex_op, "vector-bits", vector_bits),
    FIELD(spex_op, "vectors", vectors), {0}};
static const struct wire_field outcome_fields[] = {
    FIELD(spex_outcome, "flags", flags), FIELD(spex_outcome, "events", events),
    FIELD(spex_outcome, "total", total), FIELD(spex_outcome, "issue", issue),
    FIELD(spex_outcome, "alt-issue", alt_issue), FIELD(spex_outcome, "target", target),
    FIELD(spex_outcome, "target-el", target_el),
    FIELD(spex_outcome, "target-security", target_security),
    FIELD(spex_outcome, "spsr-el", spsr_el), FIELD(spex_outcome, "spsr-security", spsr_security),
    FIELD(spex_outcome, "impdef-address", impdef_address),
    FIELD(spex_outcome, "impdef-counter", impdef_counter), {0}};
static const struct wire_field access_fields[] = {
    FIELD(spex_access, "va", va), FIELD(spex_access, "pa", pa),
    FIELD(spex_access, "events", events), FIELD(spex_access, "start", start),
    FIELD(spex_access, "translation", translation), FIELD(spex_access, "memory", memory),
    FIELD(spex_access, "total", total), FIELD(spex_access, "data-source", data_source),
    FIELD(spex_access, "flags", flags), FIELD(spex_access, "pas", pas),
    FIELD(spex_access, "tag", tag), {0}};
/* clang-format on */

void wire_put(struct wire *w, const char *format, ...)
{
    va_list args;
    size_t left = w->capacity - w->size;
    va_start(args, format);
    int n = vsnprintf(w->text + w->size, left, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= left)
        w->full = true;
    else
        w->size += (size_t)n;
}

bool wire_number(const char *word, uint64_t *value)
{
    char *end;
    if (*word < '0' || *word > '9')
        return false;
    errno = 0;
    *value = strtoull(word, &end, word[0] == '0' && word[1] == 'x' ? 16 : 10);
    return !*end && !errno;
}

static uint64_t load(const void *from, size_t size)
{
    switch (size) {
    case 1:
        return *(const uint8_t *)from;
    case 2:
        return *(const uint16_t *)from;
    case 4:
        return *(const uint32_t *)from;
    default:
        return *(const uint64_t *)from;
    }
}

static void store(void *to, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(uint8_t *)to = (uint8_t)value;
        break;
    case 2:
        *(uint16_t *)to = (uint16_t)value;
        break;
    case 4:
        *(uint32_t *)to = (uint32_t)value;
        break;
    default:
        *(uint64_t *)to = value;
    }
}

void wire_put_struct(struct wire *w, const char *prefix, const struct wire_field *f,
                     const void *data)
{
    for (; f->key; f++) {
        uint64_t value = load((const char *)data + f->at, f->size);
        if (value)
            wire_put(w, " %s%s=0x%llx", prefix, f->key, (unsigned long long)value);
    }
}

bool wire_get_field(const char *word, const struct wire_field *f, void *data)
{
    size_t n = strcspn(word, "=");
    uint64_t value;
    if (!word[n] || !wire_number(word + n + 1, &value))
        return false;
    for (; f->key; f++) {
        if (strlen(f->key) != n || memcmp(f->key, word, n))
            continue;
        if (f->flag ? value > 1 : f->size < 8 && value >> (8 * f->size))
            return false;
        store((char *)data + f->at, f->size, value);
        return true;
    }
    return false;
}

bool wire_get_struct(char *words, const struct wire_field *fields, void *data, const char **wrong)
{
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest));) {
        if (!wire_get_field(word, fields, data)) {
            *wrong = word;
            return false;
        }
    }
    return true;
}

/* ---- operations ---- */

void wire_put_op(struct wire *w, const struct spex_op *op, const struct spex_outcome *outcome)
{
    wire_put(w, " kind=%s", spex_op_kind_name(op->kind));
    wire_put_struct(w, "", op_fields, op);
    bool zt = false, predicate = false;
    for (unsigned i = 0; i < sizeof op->src; i++) {
        zt |= op->src[i] == SPEX_REG_ZT0;
        predicate |= op->src[i] >= SPEX_REG_P0 && op->src[i] < SPEX_REG_P0 + 16;
    }
    wire_put(w, "%s%s", zt ? " zt0=1" : "", predicate ? " predicate=1" : "");
    wire_put_struct(w, "", outcome_fields, outcome);
    wire_put_struct(w, "a0.", access_fields, &outcome->access[0]);
    wire_put_struct(w, "a1.", access_fields, &outcome->access[1]);
    if (outcome->part_count)
        wire_put(w, " parts=%zu", outcome->part_count);
    for (size_t i = 0; i < outcome->part_count; i++) {
        char prefix[24];
        snprintf(prefix, sizeof prefix, "p%zu.", i);
        wire_put_struct(w, prefix, access_fields, &outcome->parts[i]);
    }
}

static bool get_kind(const char *name, struct spex_op *op)
{
    for (unsigned k = 0; k < SPEX_OP_KIND_COUNT; k++) {
        if (!strcmp(spex_op_kind_name(k), name)) {
            op->kind = (uint8_t)k;
            return true;
        }
    }
    return false;
}

/* a0., a1., p0. to p63. */
static bool get_access(const char *word, struct wire_op *o)
{
    char *end;
    unsigned long n = strtoul(word + 1, &end, 10);
    if (end == word + 1 || *end != '.')
        return false;
    if (*word == 'a' && n < 2)
        return wire_get_field(end + 1, access_fields, &o->outcome.access[n]);
    return *word == 'p' && n < WIRE_PARTS && wire_get_field(end + 1, access_fields, &o->parts[n]);
}

bool wire_get_op(char *words, struct wire_op *o, const char **wrong)
{
    uint64_t value;
    memset(o, 0, sizeof *o);
    memset(o->op.src, SPEX_REG_NONE, sizeof o->op.src);
    memset(o->op.dst, SPEX_REG_NONE, sizeof o->op.dst);
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest));) {
        bool ok;
        if (!strncmp(word, "kind=", 5))
            ok = get_kind(word + 5, &o->op);
        else if (!strcmp(word, "zt0=1"))
            ok = true, o->op.src[0] = SPEX_REG_ZT0;
        else if (!strcmp(word, "predicate=1"))
            ok = true, o->op.src[1] = SPEX_REG_P0;
        else if (!strncmp(word, "parts=", 6)) {
            ok = wire_number(word + 6, &value) && value <= WIRE_PARTS;
            o->outcome.part_count = ok ? (size_t)value : 0;
            o->outcome.parts = o->parts;
        } else
            ok = get_access(word, o) || wire_get_field(word, op_fields, &o->op) ||
                 wire_get_field(word, outcome_fields, &o->outcome);
        if (!ok) {
            *wrong = word;
            return false;
        }
    }
    return true;
}
