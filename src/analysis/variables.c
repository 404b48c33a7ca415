/* What DWARF says about functions and variables, unit by unit and function by function. */
#include "types.h"

#include "step.h"

#include "base/bits.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/search.h"

#include <dwarf.h>
#include <stdlib.h>

enum {
    DEEP = 100, /* nesting of DIEs */
    LOCATIONS_MOST = 1 << 16,
    NO_FRAME = 255,
};

struct range {
    uint64_t low, high;
    Dwarf_Die die;
};

struct variables {
    struct type_variable *items;
    size_t count, capacity;
};

struct type_unit {
    const void *die; /* its address identifies the unit */
    struct range *functions;
    size_t function_count, function_capacity;
    struct variables variables;
    struct type_unit *next;
};

/* Index over all units: variables, and types by name. */
struct type_index {
    struct variables variables;
    struct named {
        uint64_t hash;
        Dwarf_Die die;
    } * named;
    size_t named_count, named_capacity;
};

/* Collects what a walk over DIEs finds, in one unit or in all. */
struct collector {
    struct spex_module *module;
    struct type_unit *unit;
    struct type_index *index;
};

static uint64_t name_hash(const char *name)
{
    return hash_bytes(hash_seed(), name, strlen(name));
}

/* DW_OP_addr or addrx: only these are fixed addresses. */
static bool fixed_address(Dwarf_Die *die, struct type_variable *v)
{
    Dwarf_Attribute attribute, address;
    Dwarf_Block block;
    Dwarf_Op *ops;
    size_t count;
    if (!dwarf_attr(die, DW_AT_location, &attribute) || dwarf_formblock(&attribute, &block) ||
        !block.length)
        return false;
    uint8_t op = block.data[0];
    v->die = *die;
    if (op == DW_OP_addr && block.length == 9) {
        v->address = le64(block.data + 1);
        return true;
    }
    if (op != DW_OP_addrx && op != DW_OP_GNU_addr_index)
        return false;
    return !dwarf_getlocation(&attribute, &ops, &count) && count == 1 &&
           !dwarf_getlocation_attr(&attribute, ops, &address) &&
           !dwarf_formaddr(&address, &v->address);
}

static void add_function(struct spex_module *module, struct type_unit *unit, Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0 &&
           lines_range(module, &module->function_budget, die)) {
        if (low >= high)
            continue;
        unit->functions = memory_grow(unit->functions, unit->function_count,
                                      &unit->function_capacity, sizeof *unit->functions);
        unit->functions[unit->function_count++] = (struct range){low, high, *die};
    }
}

static void add_variable(struct variables *v, Dwarf_Die *die)
{
    struct type_variable variable = {0};
    if (!fixed_address(die, &variable))
        return;
    v->items = memory_grow(v->items, v->count, &v->capacity, sizeof *v->items);
    v->items[v->count++] = variable;
}

static void add_named(struct type_index *index, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = dwarf_diename(die);
    if (!name || dwarf_attr(die, DW_AT_declaration, &attribute))
        return;
    index->named =
        memory_grow(index->named, index->named_count, &index->named_capacity, sizeof *index->named);
    index->named[index->named_count++] = (struct named){name_hash(name), *die};
}

static void collect(struct collector *c, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    if (depth > DEEP || dwarf_child(parent, &die))
        return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_variable:
            add_variable(c->unit ? &c->unit->variables : &c->index->variables, &die);
            break;
        case DW_TAG_subprogram:
            if (c->unit)
                add_function(c->module, c->unit, &die);
            collect(c, &die, depth + 1);
            break;
        case DW_TAG_structure_type:
        case DW_TAG_class_type:
        case DW_TAG_union_type:
            if (c->index)
                add_named(c->index, &die);
            /* fall through */
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_lexical_block:
        case DW_TAG_common_block:
            collect(c, &die, depth + 1);
            break;
        default:
            break;
        }
    } while (!dwarf_siblingof(&die, &die));
}

static int by_low(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static int by_address(const void *a, const void *b)
{
    const struct type_variable *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (x->die.addr > y->die.addr) - (x->die.addr < y->die.addr);
}

static int by_hash(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->die.addr > y->die.addr) - (x->die.addr < y->die.addr);
}

static void sort_variables(struct variables *v)
{
    if (v->count)
        qsort(v->items, v->count, sizeof *v->items, by_address);
}

static struct type_unit *unit_at(struct spex_module *module, uint64_t pc)
{
    Dwarf_Die die;
    if (!types_load(module) || !lines_unit(module, pc, &die))
        return NULL;
    for (struct type_unit *u = module->types->units; u; u = u->next)
        if (u->die == die.addr)
            return u;
    struct type_unit *unit = memory_get(1, sizeof *unit);
    unit->die = die.addr;
    unit->next = module->types->units;
    module->types->units = unit;
    collect(&(struct collector){.module = module, .unit = unit}, &die, 0);
    if (unit->function_count)
        qsort(unit->functions, unit->function_count, sizeof *unit->functions, by_low);
    sort_variables(&unit->variables);
    return unit;
}

static struct type_index *whole_index(struct spex_module *module)
{
    struct module_types *t = module->types;
    Dwarf_Off offset = 0, next;
    size_t header;
    if (t->index)
        return t->index;
    t->index = memory_get(1, sizeof *t->index);
    while (!dwarf_nextcu(module->dwarf, offset, &next, &header, NULL, NULL, NULL)) {
        Dwarf_Die die;
        if (dwarf_offdie(module->dwarf, offset + header, &die)) {
            split_unit(module, &die);
            collect(&(struct collector){.module = module, .index = t->index}, &die, 0);
        }
        offset = next;
    }
    sort_variables(&t->index->variables);
    if (t->index->named_count)
        qsort(t->index->named, t->index->named_count, sizeof *t->index->named, by_hash);
    return t->index;
}

bool type_complete(struct spex_module *module, const char *name, int tag, Dwarf_Die *die)
{
    struct type_index *index = whole_index(module);
    uint64_t hash = name_hash(name);
    size_t low = SEARCH(i, 0, index->named_count, index->named[i].hash < hash);
    for (; low < index->named_count && index->named[low].hash == hash; low++) {
        Dwarf_Die found = index->named[low].die;
        bool is_union = dwarf_tag(&found) == DW_TAG_union_type;
        const char *own = dwarf_diename(&found);
        if (is_union == (tag == DW_TAG_union_type) && own && !strcmp(own, name)) {
            *die = found;
            return true;
        }
    }
    return false;
}

/* ---- variables ---- */

/* The last variable that begins at or before address and extends to it. */
static const struct type_variable *find_variable(struct spex_module *module,
                                                 const struct variables *v, uint64_t address)
{
    size_t low = SEARCH(i, 0, v->count, v->items[i].address <= address);
    for (size_t i = low; i > 0 && low - i < 16; i--) {
        const struct type_variable *found = &v->items[i - 1];
        Dwarf_Die die = found->die;
        uint64_t size = type_get(module, type_of(module, &die))->size;
        if (address - found->address < (size ? size : 1))
            return found;
    }
    return NULL;
}

const struct type_variable *variable_at(struct spex_module *module, uint64_t near, uint64_t address)
{
    struct type_unit *unit = near ? unit_at(module, near) : NULL;
    const struct type_variable *found =
        unit ? find_variable(module, &unit->variables, address) : NULL;
    if (found || !types_load(module))
        return found;
    /* read the whole file only for a name that may be in it */
    const struct spex_symbol *symbol = spex_module_symbol(module, address);
    if (!symbol || !symbol->data)
        return NULL;
    return find_variable(module, &whole_index(module)->variables, address);
}

bool variable_named(struct spex_module *module, uint64_t near, const char *name, Dwarf_Die *found)
{
    Dwarf_Die unit, die;
    if (!types_load(module) || !lines_unit(module, near, &unit) || dwarf_child(&unit, &die))
        return false;
    do {
        const char *own = dwarf_tag(&die) == DW_TAG_variable ? dwarf_diename(&die) : NULL;
        if (own && !strcmp(own, name)) {
            *found = die;
            return true;
        }
    } while (!dwarf_siblingof(&die, &die));
    return false;
}

/* ---- thread-local data: gcc gives it no location on AArch64, so symbols are used ---- */

struct thread_symbol {
    uint64_t start, size;
    const char *name;
};

static void read_threads(struct module_types *t, Elf *elf)
{
    size_t capacity = 0;
    GElf_Shdr header;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_SYMTAB || !header.sh_entsize)
            continue;
        Elf_Data *data = elf_getdata(scn, NULL);
        size_t count = data ? data->d_size / header.sh_entsize : 0;
        for (size_t i = 0; i < count && i < INT_MAX; i++) {
            GElf_Sym symbol;
            const char *name;
            if (!gelf_getsym(data, (int)i, &symbol) || GELF_ST_TYPE(symbol.st_info) != STT_TLS ||
                !(name = elf_strptr(elf, header.sh_link, symbol.st_name)))
                continue;
            t->threads = memory_grow(t->threads, t->thread_count, &capacity, sizeof *t->threads);
            t->threads[t->thread_count++] =
                (struct thread_symbol){symbol.st_value, symbol.st_size, name};
        }
    }
}

bool variable_of_thread(struct spex_module *module, uint64_t near, uint64_t place, Dwarf_Die *die,
                        uint64_t *offset)
{
    struct module_types *t = types_load(module);
    Elf *elf = module->debug.elf ? module->debug.elf : module->image.elf;
    if (!t)
        return false;
    if (!t->tried_threads) {
        t->tried_threads = true;
        read_threads(t, elf);
    }
    for (size_t i = 0; i < t->thread_count; i++)
        if (place - t->threads[i].start < t->threads[i].size) {
            *offset = place - t->threads[i].start;
            return variable_named(module, near, t->threads[i].name, die);
        }
    return false;
}

/* ---- one function ---- */

static const struct range *find_range(struct spex_module *module, uint64_t pc)
{
    struct type_unit *unit = unit_at(module, pc);
    size_t low = SEARCH(i, 0, unit ? unit->function_count : 0, unit->functions[i].low <= pc);
    return low && pc < unit->functions[low - 1].high ? &unit->functions[low - 1] : NULL;
}

bool unit_function(struct spex_module *module, uint64_t pc, uint64_t *low, uint64_t *high,
                   Dwarf_Die *die)
{
    const struct range *range = find_range(module, pc);
    if (!range)
        return false;
    *low = range->low;
    *high = range->high;
    *die = range->die;
    return true;
}

uint32_t function_returns(struct spex_module *module, uint64_t address)
{
    const struct range *range = find_range(module, address);
    Dwarf_Die die;
    if (!range || range->low != address)
        return TYPE_NONE;
    die = range->die;
    return type_of(module, &die);
}

struct reader {
    struct spex_module *module;
    struct type_function *function;
};

static void add_location(struct reader *r, const struct type_location *location)
{
    struct type_function *f = r->function;
    struct type_location l = *location;
    l.low = l.low < f->low ? f->low : l.low;
    l.high = l.high > f->high ? f->high : l.high;
    if (l.low >= l.high || f->location_count >= LOCATIONS_MOST)
        return;
    f->locations =
        memory_grow(f->locations, f->location_count, &f->location_capacity, sizeof *f->locations);
    f->locations[f->location_count++] = l;
}

/* DW_OP_reg0 to 31 and regx, or the corresponding breg operations. */
static bool op_register(const Dwarf_Op *op, bool based, uint8_t *reg)
{
    unsigned first = based ? DW_OP_breg0 : DW_OP_reg0;
    if (op->atom >= first && op->atom < first + 32u)
        *reg = (uint8_t)(op->atom - first);
    else if (op->atom == (based ? DW_OP_bregx : DW_OP_regx) && op->number < STEP_REGS)
        *reg = (uint8_t)op->number;
    else
        return false;
    return true;
}

/* Where a variable is; false if it is in a place that no instruction's operand can show. */
static bool read_location(const struct reader *r, const Dwarf_Op *ops, size_t count,
                          struct type_location *l)
{
    bool value = count == 2 && ops[1].atom == DW_OP_stack_value;
    if (count != 1 && !value)
        return false;
    l->offset = 0;
    if (!value && op_register(ops, false, &l->reg)) {
        l->how = AT_REGISTER;
        return true;
    }
    if (ops->atom == DW_OP_fbreg) {
        l->how = AT_STACK;
        l->reg = r->function->frame;
        l->offset = (int64_t)ops->number;
        return !value && l->reg != NO_FRAME;
    }
    if (!op_register(ops, true, &l->reg))
        return false;
    l->offset = (int64_t)(ops->atom == DW_OP_bregx ? ops->number2 : ops->number);
    l->how = value ? AT_REGISTER : l->reg == STEP_SP || l->reg == 29 ? AT_STACK : AT_POINTER;
    return true;
}

static void read_variable(struct reader *r, Dwarf_Die *die, Dwarf_Die *scope)
{
    Dwarf_Attribute attribute;
    Dwarf_Addr base, low, high;
    Dwarf_Op *ops;
    size_t count;
    ptrdiff_t at = 0;
    if (!dwarf_attr(die, DW_AT_location, &attribute))
        return;
    struct type_location l = {.type = type_of(r->module, die), .name = dwarf_diename(die)};
    unsigned left = LOCATIONS_MOST;
    while (left-- &&
           (at = dwarf_getlocations(&attribute, at, &base, &low, &high, &ops, &count)) > 0) {
        if (!read_location(r, ops, count, &l))
            continue;
        l.low = low;
        l.high = high;
        if (low || high != UINT64_MAX) {
            add_location(r, &l);
            continue;
        }
        unsigned most = LOCATIONS_MOST;
        for (ptrdiff_t n = 0; most-- && (n = dwarf_ranges(scope, n, &base, &l.low, &l.high)) > 0;)
            add_location(r, &l);
    }
}

static void read_call(struct reader *r, Dwarf_Die *die)
{
    struct type_function *f = r->function;
    Dwarf_Attribute attribute;
    Dwarf_Addr address;
    Dwarf_Die origin;
    bool modern = dwarf_tag(die) == DW_TAG_call_site, never = false;
    if (!dwarf_attr(die, modern ? DW_AT_call_return_pc : DW_AT_low_pc, &attribute) ||
        dwarf_formaddr(&attribute, &address) || f->call_count >= LOCATIONS_MOST ||
        !dwarf_attr(die, modern ? DW_AT_call_origin : DW_AT_abstract_origin, &attribute) ||
        !dwarf_formref_die(&attribute, &origin))
        return;
    if (dwarf_attr_integrate(&origin, DW_AT_noreturn, &attribute))
        dwarf_formflag(&attribute, &never);
    uint32_t type = type_of(r->module, &origin);
    f->calls = memory_grow(f->calls, f->call_count, &f->call_capacity, sizeof *f->calls);
    f->calls[f->call_count++] = (struct type_call){address, type, never};
}

static void read_children(struct reader *r, Dwarf_Die *scope, unsigned depth)
{
    Dwarf_Die die;
    if (depth > DEEP || dwarf_child(scope, &die))
        return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_variable:
        case DW_TAG_formal_parameter:
            read_variable(r, &die, scope);
            break;
        case DW_TAG_call_site:
        case DW_TAG_GNU_call_site:
            read_call(r, &die);
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_inlined_subroutine:
            read_children(r, &die, depth + 1);
            break;
        default:
            break;
        }
    } while (!dwarf_siblingof(&die, &die));
}

static int by_range(const void *a, const void *b)
{
    const struct type_location *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->high > y->high ? -1 : x->high < y->high; /* inner scopes come later */
}

static int by_call(const void *a, const void *b)
{
    const struct type_call *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

void function_read(struct spex_module *module, uint64_t low, uint64_t high, Dwarf_Die *die,
                   struct type_function *f)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    struct reader r = {module, f};
    *f = (struct type_function){.low = low, .high = high, .entry = low, .frame = NO_FRAME};
    Dwarf_Addr entry;
    if (!dwarf_entrypc(die, &entry))
        f->entry = entry;
    if (dwarf_attr_integrate(die, DW_AT_frame_base, &attribute) &&
        !dwarf_getlocation(&attribute, &ops, &count) && count == 1) {
        if (ops->atom == DW_OP_call_frame_cfa)
            f->frame = STEP_NONE;
        else if (!op_register(ops, false, &f->frame))
            f->frame = NO_FRAME;
    }
    read_children(&r, die, 0);
    if (f->location_count)
        qsort(f->locations, f->location_count, sizeof *f->locations, by_range);
    if (f->call_count)
        qsort(f->calls, f->call_count, sizeof *f->calls, by_call);
}

void function_fini(struct type_function *function)
{
    memory_free(function->locations);
    memory_free(function->calls);
}

struct module_types *types_load(struct spex_module *module)
{
    lines_load(module);
    if (!module->dwarf)
        return NULL;
    if (!module->types) {
        struct module_types *t = memory_get(1, sizeof *t);
        module->types = t;
        t->types = memory_get(64, sizeof *t->types);
        t->capacity = 64;
        t->count = TYPE_FIRST;
        t->by_die = memory_get(1024, sizeof *t->by_die);
        t->mask = 1023;
        t->work_most = UINT64_MAX;
    }
    return module->types;
}

void types_free(struct spex_module *module)
{
    struct module_types *t = module->types;
    if (!t)
        return;
    function_fini(&t->function);
    for (struct type_unit *u = t->units, *next; u; u = next) {
        next = u->next;
        memory_free(u->functions);
        memory_free(u->variables.items);
        memory_free(u);
    }
    if (t->index) {
        memory_free(t->index->variables.items);
        memory_free(t->index->named);
        memory_free(t->index);
    }
    for (size_t i = 0; i < CODES; i++)
        for (struct type_code *c = t->codes[i], *next; c; c = next) {
            next = c->next;
            memory_free(c->accesses);
            memory_free(c);
        }
    if (t->frames)
        dwarf_cfi_end(t->frames);
    memory_free(t->threads);
    memory_free(t->leaves);
    memory_free(t->types);
    memory_free(t->by_die);
    memory_free(t);
    module->types = NULL;
}
