/* Where functions are declared, as their debug information says. */
#include "module.h"

#include <assert.h>
#include <dwarf.h>

struct taking {
    void (*take)(void *context, const struct spex_declaration *function);
    void *context;
};

static void take_function(const struct taking *t, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Addr entry;
    int line;
    if (dwarf_decl_line(die, &line) || line <= 0)
        return;
    const struct spex_declaration function = {
        .name = dwarf_diename(die),
        .linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute)),
        .entry = dwarf_entrypc(die, &entry) ? 0 : entry,
        .line = (unsigned)line,
    };
    t->take(t->context, &function);
}

/* level limits the recursion; libdw's dwarf_getfuncs() has no limit. */
static void take_functions(const struct taking *t, Dwarf_Die *parent, unsigned level)
{
    enum { LEVELS = 24 };
    Dwarf_Die die;
    if (level == LEVELS || dwarf_child(parent, &die))
        return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
            take_function(t, &die);
            /* fall through */
        case DW_TAG_class_type:
        case DW_TAG_lexical_block:
        case DW_TAG_module:
        case DW_TAG_namespace:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
            take_functions(t, &die, level + 1);
            break;
        default:
            break;
        }
    } while (!dwarf_siblingof(&die, &die));
}

void spex_module_declarations(struct spex_module *module,
                              void (*take)(void *context, const struct spex_declaration *function),
                              void *context)
{
    assert(module && take);
    const struct taking t = {take, context};
    Dwarf_Off offset = 0, next;
    size_t header;
    module_load_lines(module);
    while (module->dwarf &&
           !dwarf_nextcu(module->dwarf, offset, &next, &header, NULL, NULL, NULL)) {
        Dwarf_Die unit;
        if (dwarf_offdie(module->dwarf, offset + header, &unit))
            take_functions(&t, &unit, 0);
        offset = next;
    }
}
