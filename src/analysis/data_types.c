/* The type and member that an access uses, or why it is not known. */
#include "pass.h"
#include "types.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/search.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 4096, ANSWERS = 1 << 14, KNOWN = 4096 };

static const char *const reasons[] = {
    [ACCESS_NO_DWARF] = "[no debug information]", [ACCESS_NO_LOCATION] = "[no location]",
    [ACCESS_NO_POINTER] = "[not a pointer]",      [ACCESS_NO_MEMBER] = "[no such member]",
    [ACCESS_NO_VARIABLE] = "[no variable there]", [ACCESS_NO_OPERAND] = "[no memory operand]",
    [ACCESS_ADDRESS] = "[no variable there]",
};

struct member_node {
    struct member_node *next;
    struct spex_member member;
};

struct text {
    struct text *next;
    char bytes[];
};

struct answer {
    const struct spex_module *code, *data;
    uint64_t pc, address;
    const struct spex_member *member;
};

struct named_part { /* the part of a type at an offset */
    const struct spex_module *module;
    const char *variable;
    uint64_t offset;
    uint32_t type, bytes;
    const struct spex_member *member;
};

struct type_names {
    struct text *texts[BUCKETS];
    struct member_node *members[BUCKETS];
    struct answer answers[ANSWERS];
    struct named_part parts[KNOWN];
    bool failed; /* memory ran out: only free it */
};

static const struct spex_member no_memory = {.type = "[no memory]", .member = ""};

static const char *intern_text(struct type_names *names, const char *text)
{
    size_t length = strlen(text);
    struct text **bucket = &names->texts[hash_bytes(hash_seed(), text, length) % BUCKETS];
    for (struct text *t = *bucket; t; t = t->next)
        if (!strcmp(t->bytes, text))
            return t->bytes;
    struct text *t = memory_get(1, sizeof *t + length + 1);
    memcpy(t->bytes, text, length);
    t->next = *bucket;
    *bucket = t;
    return t->bytes;
}

static const struct spex_member *intern(struct type_names *names, const struct spex_member *m)
{
    uint64_t hash = hash_word(hash_word(hash_seed(), (uintptr_t)m->type), (uintptr_t)m->member);
    hash = hash_word(hash_word(hash, m->offset), m->size);
    struct member_node **bucket = &names->members[hash % BUCKETS];
    for (struct member_node *n = *bucket; n; n = n->next) {
        const struct spex_member *k = &n->member;
        if (k->type == m->type && k->member == m->member && k->offset == m->offset &&
            k->size == m->size && k->type_size == m->type_size && k->known == m->known &&
            k->scalar == m->scalar)
            return k;
    }
    struct member_node *node = memory_get(1, sizeof *node);
    *node = (struct member_node){*bucket, *m};
    *bucket = node;
    return &node->member;
}

static const struct spex_member *no_type(struct type_names *names, enum access_kind why)
{
    const struct spex_member m = {.type = intern_text(names, reasons[why]),
                                  .member = intern_text(names, "")};
    return intern(names, &m);
}

/*
 * offset: bytes from the beginning of an object of the type; variable: the object's name if it is
 * one.
 */
static const struct spex_member *named(struct type_names *names, struct spex_module *module,
                                       uint32_t type, int64_t offset, unsigned bytes,
                                       const char *variable)
{
    struct type_part part;
    uint32_t element = type_element(module, type);
    uint64_t size = type_get(module, element)->size, at = (uint64_t)offset;
    if (element != type)
        at = size ? at % size : at;
    if (element < TYPE_FIRST)
        return no_type(names, ACCESS_NO_LOCATION);
    uint64_t hash = hash_word(hash_word(hash_seed(), element), at << 8 | bytes);
    struct named_part *slot = &names->parts[hash % KNOWN];
    if (slot->member && slot->module == module && slot->type == element && slot->offset == at &&
        slot->bytes == bytes && slot->variable == variable && offset >= 0)
        return slot->member;
    if (offset < 0 || !type_part(module, element, at, bytes, &part))
        return no_type(names, ACCESS_NO_MEMBER);
    bool scalar = !part.path[0];
    const struct spex_member m = {
        .type = intern_text(names, type_name(module, element)),
        .member = intern_text(names, scalar && variable ? variable : part.path),
        .offset = part.offset,
        .size = part.size,
        .type_size = size,
        .known = true,
        .scalar = scalar,
    };
    *slot = (struct named_part){module, variable, at, element, bytes, intern(names, &m)};
    return slot->member;
}

static const struct type_code *code_at(struct spex_module *module, uint64_t pc)
{
    uint64_t low, high;
    Dwarf_Die die;
    if (!unit_function(module, pc, &low, &high, &die))
        return NULL;
    struct module_types *t = module->types;
    struct type_code **bucket = &t->codes[hash_word(hash_seed(), low) % CODES];
    for (struct type_code *c = *bucket; c; c = c->next)
        if (c->low == low)
            return c;
    struct type_code *code = memory_get(1, sizeof *code);
    *code = (struct type_code){.low = low, .high = high, .next = *bucket};
    *bucket = code;
    uint64_t before = t->work, left = WORK_MODULE - t->followed;
    t->work_most = before + (left < WORK_FUNCTION ? left : WORK_FUNCTION);
    function_read(module, low, high, &die, &t->function);
    flow_run(module, &t->function, code);
    t->followed += t->work < t->work_most ? t->work - before : t->work_most - before;
    t->work_most = UINT64_MAX; /* an answer has bounds of its own */
    function_fini(&t->function);
    t->function = (struct type_function){0};
    return code;
}

static struct access access_of(struct spex_module *module, uint64_t pc)
{
    const struct type_code *code = module && types_load(module) ? code_at(module, pc) : NULL;
    if (!code)
        return (struct access){.kind = ACCESS_NO_DWARF};
    size_t low = SEARCH(i, 0, code->count, code->low + code->accesses[i].code < pc);
    if (low < code->count && code->low + code->accesses[low].code == pc)
        return code->accesses[low];
    return (struct access){.kind = ACCESS_NO_OPERAND};
}

static const struct spex_member *answer(struct type_names *names, struct spex_module *code,
                                        uint64_t pc, struct spex_module *data, uint64_t address)
{
    struct access a = access_of(code, pc);
    const struct type_variable *v =
        data && types_load(data) ? variable_at(data, data == code ? pc : 0, address) : NULL;
    if (v) {
        Dwarf_Die die = v->die;
        return named(names, data, type_of(data, &die), (int64_t)(address - v->address), a.bytes,
                     dwarf_diename(&die));
    }
    if (a.kind == ACCESS_TYPE)
        return named(names, code, a.type, a.offset, a.bytes, a.variable);
    return no_type(names,
                   a.kind == ACCESS_ADDRESS && data && !data->dwarf ? ACCESS_NO_DWARF : a.kind);
}

static const struct spex_member *guarded(struct type_names *names, struct spex_module *code,
                                         uint64_t pc, struct spex_module *data, uint64_t address)
{
    const struct spex_member *volatile found = NULL;
    if (names->failed ||
        !memory_guarded(memory_current(), found = answer(names, code, pc, data, address))) {
        names->failed = true;
        return &no_memory;
    }
    return found;
}

const struct spex_member *data_member_of(struct spex_symbols *symbols, struct spex_module *code,
                                         uint64_t pc, struct spex_module *data, uint64_t address)
{
    if (!symbols->types && !(symbols->types = memory_zeroed(1, sizeof *symbols->types)))
        return &no_memory;
    struct type_names *names = symbols->types;
    if (data && !module_is_file(data))
        data = NULL;
    address = data ? address : 0;
    uint64_t hash = hash_word(hash_word(hash_seed(), pc ^ (uintptr_t)code), address);
    struct answer *slot = &names->answers[hash % ANSWERS];
    if (slot->member && slot->code == code && slot->pc == pc && slot->data == data &&
        slot->address == address)
        return slot->member;
    const struct spex_member *found = guarded(names, code, pc, data, address);
    *slot = (struct answer){code, data, pc, address, found};
    return found;
}

const struct spex_member *analysis_member(struct spex_analysis *analysis,
                                          struct place_cache **cache,
                                          const struct spex_sample *sample)
{
    const struct spex_place *rough = &analysis_data_place(analysis, cache, sample)->place;
    struct spex_place place = {0};
    if (rough->module && module_is_file(rough->module)) /* elsewhere the address gives no type */
        spex_sample_locate(analysis, sample, sample->va, &place);
    analysis_lock(analysis); /* sinks share the modules */
    const struct spex_member *m = data_member_of(spex_analysis_symbols(analysis), sample->module,
                                                 sample->address, place.module, place.address);
    analysis_unlock(analysis);
    return m;
}

const struct spex_member *spex_sample_member(struct spex_analysis *analysis,
                                             const struct spex_sample *sample)
{
    assert(analysis && sample);
    struct spex_place place = {0};
    if (sample->record->present & SPEX_HAS_VA)
        spex_sample_locate(analysis, sample, sample->va, &place);
    const unsigned before = analysis_lock(analysis);
    const struct spex_member *m = data_member_of(spex_analysis_symbols(analysis), sample->module,
                                                 sample->address, place.module, place.address);
    analysis_unlock_to(analysis, before);
    return m;
}

void type_names_free(struct spex_symbols *symbols)
{
    struct type_names *names = symbols->types;
    for (size_t i = 0; names && i < BUCKETS; i++) {
        for (struct text *t = names->texts[i], *next; t; t = next) {
            next = t->next;
            memory_free(t);
        }
        for (struct member_node *m = names->members[i], *next; m; m = next) {
            next = m->next;
            memory_free(m);
        }
    }
    memory_free(names);
    symbols->types = NULL;
}
