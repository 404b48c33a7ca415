/* Types from DWARF: each has a number, a name, a size, and members at offsets. */
#include "types.h"

#include "base/hash.h"
#include "base/memory.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TYPES_MOST = 1 << 20,
    DEEP = 24,      /* nesting of types: damaged DWARF may go in circles */
    VISITS = 20000, /* members looked at for one answer */
    CHOICES = 4,    /* members of a union that are shown */
    LEAVES = 4096,
};

static Dwarf_Word number_of(Dwarf_Die *die, unsigned name, Dwarf_Word otherwise)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_attr_integrate(die, name, &attribute) && !dwarf_formudata(&attribute, &value)
               ? value
               : otherwise;
}

static bool flag_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    bool value;
    return dwarf_attr(die, name, &attribute) && !dwarf_formflag(&attribute, &value) && value;
}

static bool refer(Dwarf_Die *die, unsigned name, Dwarf_Die *to)
{
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, name, &attribute) && dwarf_formref_die(&attribute, to);
}

/* Strips typedefs and qualifiers; false: void, or damaged. */
static bool peel(Dwarf_Die *die, const char **alias)
{
    for (unsigned depth = 0; depth < DEEP; depth++) {
        int tag = dwarf_tag(die);
        if (tag == DW_TAG_typedef)
            *alias = dwarf_diename(die);
        else if (tag != DW_TAG_const_type && tag != DW_TAG_volatile_type &&
                 tag != DW_TAG_restrict_type && tag != DW_TAG_atomic_type)
            return tag > 0;
        Dwarf_Die next;
        if (!refer(die, DW_AT_type, &next))
            return false;
        *die = next;
    }
    return false;
}

/* Replaces a declaration by the complete type. */
static void complete(struct spex_module *module, Dwarf_Die *die)
{
    Dwarf_Die found;
    const char *name;
    if (!flag_of(die, DW_AT_declaration))
        return;
    if (refer(die, DW_AT_signature, &found) ||
        ((name = dwarf_diename(die)) && type_complete(module, name, dwarf_tag(die), &found)))
        *die = found;
}

static enum type_kind kind_of(int tag)
{
    switch (tag) {
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        return KIND_POINTER;
    case DW_TAG_array_type:
        return KIND_ARRAY;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_interface_type:
        return KIND_STRUCT;
    case DW_TAG_union_type:
        return KIND_UNION;
    default:
        return KIND_SCALAR;
    }
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product >> 48 ? 0 : product;
}

/* The number of elements in all dimensions; 0 if one is open. */
static uint64_t elements(Dwarf_Die *array)
{
    Dwarf_Die die;
    uint64_t count = 1;
    unsigned visits = 0;
    if (dwarf_child(array, &die))
        return 0;
    do {
        if (dwarf_tag(&die) != DW_TAG_subrange_type)
            continue;
        Dwarf_Word last = number_of(&die, DW_AT_upper_bound, UINT64_MAX);
        count = times(count, number_of(&die, DW_AT_count, last + 1));
    } while (visits++ < 16 && !dwarf_siblingof(&die, &die));
    return count;
}

static uint32_t *find_slot(const struct module_types *t, const void *die)
{
    size_t i = hash_word(hash_seed(), (uintptr_t)die) & t->mask;
    while (t->by_die[i] && t->types[t->by_die[i]].die.addr != die)
        i = (i + 1) & t->mask;
    return &t->by_die[i];
}

static void more_slots(struct module_types *t)
{
    uint32_t *old = t->by_die;
    t->by_die = memory_get(2 * (t->mask + 1), sizeof *t->by_die);
    t->mask = 2 * t->mask + 1;
    memory_free(old);
    for (uint32_t i = TYPE_FIRST; i < t->count; i++)
        *find_slot(t, t->types[i].die.addr) = i;
}

static uint32_t intern(struct spex_module *module, Dwarf_Die die)
{
    struct module_types *t = module->types;
    const char *alias = NULL;
    if (!peel(&die, &alias))
        return TYPE_VOID;
    enum type_kind kind = kind_of(dwarf_tag(&die));
    if (kind == KIND_STRUCT || kind == KIND_UNION)
        complete(module, &die);
    uint32_t *slot = find_slot(t, die.addr);
    if (*slot) {
        struct type *known = &t->types[*slot];
        known->alias = known->alias ? known->alias : alias;
        return *slot;
    }
    if (t->count >= TYPES_MOST)
        return TYPE_NONE;
    if (2 * t->count > t->mask) {
        more_slots(t);
        slot = find_slot(t, die.addr);
    }
    t->types = memory_grow(t->types, t->count, &t->capacity, sizeof *t->types);
    int size = dwarf_bytesize(&die);
    uint32_t number = *slot = (uint32_t)t->count++;
    t->types[number] = (struct type){.die = die,
                                     .kind = kind,
                                     .alias = alias,
                                     .size = size > 0               ? (uint64_t)size
                                             : kind == KIND_POINTER ? 8
                                                                    : 0};
    if (kind == KIND_ARRAY && size <= 0 && t->depth < DEEP) {
        uint64_t count = elements(&die);
        t->depth++;
        uint32_t of = count ? type_target(module, number) : TYPE_NONE;
        t->depth--;
        t->types[number].size = times(count, type_get(module, of)->size);
    }
    return number;
}

uint32_t type_of(struct spex_module *module, Dwarf_Die *die)
{
    Dwarf_Die type;
    return refer(die, DW_AT_type, &type) ? intern(module, type) : TYPE_VOID;
}

const struct type *type_get(const struct spex_module *module, uint32_t number)
{
    return &module->types->types[number];
}

uint32_t type_target(struct spex_module *module, uint32_t number)
{
    struct type *type = &module->types->types[number];
    if (type->target || (type->kind != KIND_POINTER && type->kind != KIND_ARRAY))
        return type->target;
    type->target = TYPE_VOID; /* the look-up may ask for it again */
    Dwarf_Die die = type->die;
    uint32_t target = type_of(module, &die);
    module->types->types[number].target = target; /* the look-up may have moved the array */
    return target;
}

uint32_t type_element(struct spex_module *module, uint32_t number)
{
    for (unsigned i = 0; i < DEEP && type_get(module, number)->kind == KIND_ARRAY; i++)
        number = type_target(module, number);
    return number;
}

/* ---- names ---- */

/* Writes the namespaces and types around a DIE, outermost first: "ns::Outer::". */
static size_t put_scopes(Dwarf_Die *die, char *text, size_t room)
{
    Dwarf_Die unit, around, next;
    size_t used = 0;
    Dwarf_Off wanted = dwarf_dieoffset(die);
    text[0] = 0;
    if (!dwarf_diecu(die, &unit, NULL, NULL))
        return 0;
    around = unit;
    for (unsigned depth = 0; depth < DEEP; depth++) {
        Dwarf_Die child;
        if (dwarf_child(&around, &child))
            break;
        while (!dwarf_siblingof(&child, &next) && dwarf_dieoffset(&next) <= wanted)
            child = next;
        if (dwarf_dieoffset(&child) == wanted)
            break;
        const char *name = dwarf_diename(&child);
        int tag = dwarf_tag(&child);
        around = child;
        if (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block)
            continue;
        int n = snprintf(text + used, room - used, "%s::", name ? name : "(anonymous namespace)");
        used += n > 0 && (size_t)n < room - used ? (size_t)n : 0;
    }
    return used;
}

static bool is_c(Dwarf_Die *die)
{
    Dwarf_Die unit;
    switch (dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_srclang(&unit) : 0) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_ObjC:
        return true;
    default:
        return false;
    }
}

static void make_name(struct spex_module *module, uint32_t number, char *text, size_t room,
                      unsigned depth)
{
    struct type *type = &module->types->types[number];
    Dwarf_Die die = type->die;
    uint32_t target;
    const char *own = number < TYPE_FIRST ? NULL : dwarf_diename(&die);
    int tag = number < TYPE_FIRST ? 0 : dwarf_tag(&die), line = 0;
    bool is_struct = type->kind == KIND_STRUCT || type->kind == KIND_UNION;
    bool keyword = is_struct || tag == DW_TAG_enumeration_type;
    const char *word = type->kind == KIND_UNION         ? "union"
                       : tag == DW_TAG_enumeration_type ? "enum"
                                                        : "struct";
    if (number < TYPE_FIRST) {
        snprintf(text, room, "void");
    } else if (type->kind == KIND_POINTER || type->kind == KIND_ARRAY) {
        if (own && type->kind == KIND_POINTER) { /* named the way Rust and Go do it */
            snprintf(text, room, "%s", own);
            return;
        }
        target = type_target(module, number);
        text[0] = 0;
        if (depth < 4)
            make_name(module, target, text, room, depth + 1);
        size_t used = strlen(text);
        snprintf(text + used, room - used, "%s",
                 type_get(module, number)->kind == KIND_ARRAY ? "[]"
                 : tag == DW_TAG_reference_type               ? " &"
                                                              : " *");
    } else if (own && keyword && is_c(&die)) {
        snprintf(text, room, "%s %s", word, own);
    } else if (own) {
        size_t used = keyword ? put_scopes(&die, text, room) : 0;
        snprintf(text + used, room - used, "%s", own);
    } else if (type->alias) {
        snprintf(text, room, "%s", type->alias);
    } else if (keyword) {
        const char *file = dwarf_decl_file(&die), *slash = file ? strrchr(file, '/') : NULL;
        dwarf_decl_line(&die, &line);
        snprintf(text, room, "%s (%s:%d)", word, slash ? slash + 1 : file ? file : "unnamed", line);
    } else {
        snprintf(text, room, "%s", tag == DW_TAG_subroutine_type ? "function" : "scalar");
    }
}

const char *type_name(struct spex_module *module, uint32_t number)
{
    char text[512];
    if (!module->types->types[number].name) {
        make_name(module, number, text, sizeof text, 0);
        char *copy = module_text(module, strlen(text) + 1);
        module->types->types[number].name = strcpy(copy, text);
    }
    return module->types->types[number].name;
}

/* ---- members ---- */

struct member {
    Dwarf_Die die;
    uint32_t type;
    uint64_t start, size;
    unsigned bits; /* width of a bit field */
    bool base;     /* a class that this one inherits from */
    bool open;     /* an array without a number of elements */
};

struct finder {
    struct spex_module *module;
    unsigned bytes, visits, depth;
};

/* False: it is not a member, or has no fixed offset. */
static bool read_member(struct finder *f, Dwarf_Die *die, struct member *m)
{
    Dwarf_Attribute attribute;
    int tag = dwarf_tag(die);
    if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || flag_of(die, DW_AT_external) ||
        flag_of(die, DW_AT_declaration) || f->visits++ > VISITS ||
        f->module->types->work++ > f->module->types->work_most)
        return false;
    *m = (struct member){.die = *die, .type = type_of(f->module, die)};
    m->base = tag == DW_TAG_inheritance;
    if (dwarf_attr(die, DW_AT_data_member_location, &attribute)) {
        Dwarf_Word offset;
        Dwarf_Op *ops;
        size_t count;
        if (!dwarf_formudata(&attribute, &offset))
            m->start = offset;
        else if (!dwarf_getlocation(&attribute, &ops, &count) && count == 1 &&
                 ops->atom == DW_OP_plus_uconst)
            m->start = ops->number;
        else
            return false; /* member of a virtual base class */
    }
    const struct type *type = type_get(f->module, m->type);
    m->size = type->size;
    m->open = type->kind == KIND_ARRAY && !type->size;
    m->bits = (unsigned)number_of(die, DW_AT_bit_size, 0);
    if (m->bits) {
        uint64_t first = number_of(die, DW_AT_data_bit_offset, UINT64_MAX);
        if (first == UINT64_MAX) { /* DWARF 3 counts from the high end of the storage */
            uint64_t storage = 8 * number_of(die, DW_AT_byte_size, type->size);
            first = 8 * m->start + storage - number_of(die, DW_AT_bit_offset, 0) - m->bits;
        }
        m->start = first / 8;
        m->size = (first % 8 + m->bits + 7) / 8;
    }
    return true;
}

static bool holds(const struct finder *f, const struct member *m, uint64_t offset)
{
    if (m->bits)
        return offset < m->start + m->size && m->start < offset + f->bytes;
    return offset >= m->start && (offset - m->start < m->size || m->open);
}

struct members {
    struct member list[CHOICES];
    unsigned count; /* may be more than the array holds */
};

/* Finds members that contain the offset; for variants (Rust), in all of them. */
static void find_members(struct finder *f, Dwarf_Die *parent, uint64_t offset,
                         struct members *members, unsigned depth)
{
    Dwarf_Die die;
    struct member m;
    if (depth > 3 || dwarf_child(parent, &die))
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_variant_part || tag == DW_TAG_variant)
            find_members(f, &die, offset, members, depth + 1);
        if (!read_member(f, &die, &m) || !holds(f, &m, offset))
            continue;
        if (members->count < CHOICES)
            members->list[members->count] = m;
        members->count++;
    } while (f->visits < VISITS && !dwarf_siblingof(&die, &die));
}

static void put(struct type_part *part, const char *text)
{
    size_t used = strlen(part->path);
    snprintf(part->path + used, sizeof part->path - used, "%s", text);
}

static bool descend(struct finder *f, uint32_t number, uint64_t offset, uint64_t base,
                    struct type_part *part);

/* Adds one member to the path, and continues in its type. */
static bool enter_member(struct finder *f, const struct member *m, uint64_t offset, uint64_t base,
                         struct type_part *part)
{
    Dwarf_Die die = m->die;
    const char *name = dwarf_diename(&die);
    char bits[24], base_name[64];
    if (m->base) { /* "Thing::", without its namespace and arguments */
        die = type_get(f->module, m->type)->die;
        name = m->type < TYPE_FIRST ? NULL : dwarf_diename(&die);
        snprintf(base_name, sizeof base_name, "%.*s", name ? (int)strcspn(name, "<") : 0, name);
        name = base_name;
    }
    if (name && part->path[0] && part->path[strlen(part->path) - 1] != ':')
        put(part, ".");
    put(part, name ? name : "");
    if (m->bits) {
        snprintf(bits, sizeof bits, ":%u", m->bits);
        put(part, bits);
        part->offset = base + m->start;
        part->size = m->size;
        return true;
    }
    if (m->base)
        put(part, "::");
    uint64_t inside = offset - m->start;
    const struct type *type = type_get(f->module, m->type);
    if (m->type < TYPE_FIRST || type->kind == KIND_SCALAR || type->kind == KIND_POINTER) {
        part->offset = base + m->start;
        part->size = m->size;
        part->leaf = m->type;
        return true;
    }
    return descend(f, m->type, inside, base + m->start, part);
}

/* Several members at one place: all members of a union, or bit fields. */
static bool enter_several(struct finder *f, const struct members *members, uint64_t offset,
                          uint64_t base, struct type_part *part)
{
    struct type_part found[CHOICES];
    bool fits[CHOICES] = {false};
    unsigned count = members->count < CHOICES ? members->count : CHOICES, good = 0, shown = 0;
    for (unsigned i = 0; i < count; i++) {
        found[i] = (struct type_part){0};
        fits[i] = enter_member(f, &members->list[i], offset, base, &found[i]) &&
                  type_get(f->module, found[i].leaf)->size == f->bytes;
        good += fits[i];
    }
    bool one = good == 1 || (!good && count == 1);
    if (part->path[0])
        put(part, ".");
    put(part, one ? "" : "(");
    for (unsigned i = 0; i < count; i++) {
        if (good && !fits[i])
            continue;
        put(part, shown ? "|" : "");
        put(part, found[i].path);
        uint64_t first = shown && part->offset < found[i].offset ? part->offset : found[i].offset;
        uint64_t last = found[i].offset + found[i].size, old = part->offset + part->size;
        part->size = (shown && old > last ? old : last) - first;
        part->offset = first;
        part->leaf = one ? found[i].leaf : TYPE_NONE;
        shown++;
    }
    put(part, one ? "" : members->count > CHOICES ? "|...)" : ")");
    return true;
}

static bool descend(struct finder *f, uint32_t number, uint64_t offset, uint64_t base,
                    struct type_part *part)
{
    struct type type = *type_get(f->module, number);
    struct members members = {.count = 0};
    if (f->depth > DEEP || f->visits > VISITS)
        return false;
    if (type.kind == KIND_ARRAY) {
        uint32_t element = type_target(f->module, number);
        uint64_t each = type_get(f->module, element)->size;
        if (!each)
            return false;
        put(part, "[]");
        struct type_part inner = *part;
        f->depth++;
        bool ok = descend(f, element, offset % each, base + offset / each * each, &inner);
        f->depth--;
        part->offset = base;
        part->size = type.size ? type.size : each;
        part->leaf = inner.leaf;
        memcpy(part->path, inner.path, sizeof part->path);
        return ok;
    }
    if (type.kind != KIND_STRUCT && type.kind != KIND_UNION) {
        part->offset = base;
        part->size = type.size;
        part->leaf = number;
        return true;
    }
    find_members(f, &type.die, offset, &members, 0);
    if (members.count > 1 && type.kind == KIND_STRUCT) /* an open array begins where it ends */
        for (unsigned i = 0; i < members.count && i < CHOICES; i++)
            if (members.list[i].open) {
                members.list[0] = members.list[i];
                members.count = 1;
            }
    f->depth++;
    bool ok = members.count == 1 ? enter_member(f, &members.list[0], offset, base, part)
              : members.count    ? enter_several(f, &members, offset, base, part)
                                 : false;
    f->depth--;
    if (!members.count && offset < type.size) {
        put(part, part->path[0] ? ".(padding)" : "(padding)");
        part->offset = base + offset;
        part->size = 1;
        ok = true;
    }
    return ok;
}

bool type_part(struct spex_module *module, uint32_t number, uint64_t offset, unsigned bytes,
               struct type_part *part)
{
    struct finder f = {.module = module, .bytes = bytes ? bytes : 1};
    *part = (struct type_part){.path = ""};
    return number >= TYPE_FIRST && descend(&f, number, offset, 0, part);
}

uint32_t type_leaf(struct spex_module *module, uint32_t number, uint64_t offset, unsigned bytes)
{
    struct module_types *t = module->types;
    struct type_part part;
    if (!t->leaves)
        t->leaves = memory_get(LEAVES, sizeof *t->leaves);
    struct type_leaf *slot =
        &t->leaves[hash_word(hash_word(hash_seed(), number), offset << 8 | bytes) % LEAVES];
    if (slot->type != number || slot->offset != offset || slot->bytes != bytes) {
        bool found = type_part(module, number, offset, bytes, &part);
        *slot = (struct type_leaf){offset, number, bytes, found ? part.leaf : TYPE_NONE};
    }
    return slot->leaf;
}

bool type_is_open(struct spex_module *module, uint32_t number)
{
    struct finder f = {.module = module, .bytes = 1};
    struct type type = *type_get(module, number);
    struct members members = {.count = 0};
    if (type.kind != KIND_STRUCT || !type.size)
        return false;
    find_members(&f, &type.die, type.size, &members, 0);
    return members.count && members.list[0].open;
}
