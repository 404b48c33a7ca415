/* Source lines and inlined calls from DWARF, one compilation unit at a time. */
#include "module.h"

#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"

#include <assert.h>
#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <stdlib.h>
#include <string.h>

static int compare_units(const void *a, const void *b)
{
    const struct module_unit *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

uint64_t lines_inflated(Elf *elf)
{
    uint64_t size = 0;
    size_t names;
    if (elf_getshdrstrndx(elf, &names))
        return 0;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        GElf_Chdr ch;
        Elf_Data *data;
        const char *name;
        if (!gelf_getshdr(scn, &sh))
            continue;
        uint64_t own = 0;
        if (sh.sh_flags & SHF_COMPRESSED) {
            own = gelf_getchdr(scn, &ch) ? ch.ch_size : 0;
        } else if ((name = elf_strptr(elf, names, sh.sh_name)) && !strncmp(name, ".zdebug", 7) &&
                   (data = elf_rawdata(scn, NULL)) && data->d_size >= 12) {
            for (int i = 4; i < 12; i++) /* "ZLIB", then the size, high byte first */
                own = own << 8 | ((const uint8_t *)data->d_buf)[i];
        }
        size = own > UINT64_MAX - size ? UINT64_MAX : size + own;
    }
    return size;
}

static Dwarf *begin_dwarf(struct spex_module *module, Elf *elf)
{
    uint64_t size = lines_inflated(elf);
    if (size > SIZE_MAX / 2 || !memory_allows((size_t)size)) {
        if (module_problem(module,
                           "%s: its debug information would take %llu MB, more than is allowed, "
                           "and is not read",
                           module->name, (unsigned long long)(size >> 20)))
            module->remedy = SPEX_REMEDY_MEMORY;
        return NULL;
    }
    return dwarf_begin_elf(elf, DWARF_C_READ, NULL);
}

/* libdw would open any path that the file names, so it gets the file that we opened, or none. */
static void supply_alternate(struct spex_module *module, const char *path)
{
    const char *name;
    const void *id;
    ssize_t size = dwelf_dwarf_gnu_debugaltlink(module->dwarf, &name, &id);
    if (size <= 0)
        return;
    if (module_open_alternate(module, path, name, id, (size_t)size))
        module->alternate_dwarf = begin_dwarf(module, module->alternate.elf);
    /* -1 tells libdw that there is none, so that it does not look */
    dwarf_setalt(module->dwarf,
                 module->alternate_dwarf ? module->alternate_dwarf : (Dwarf *)(intptr_t)-1);
}

bool lines_range(struct spex_module *module, struct range_budget *budget, Dwarf_Die *die)
{
    Dwarf *dwarf = dwarf_cu_getdwarf(die->cu);
    if (budget->dwarf != dwarf) {
        size_t size = 0;
        Elf *elf = dwarf_getelf(dwarf);
        if (elf)
            elf_rawfile(elf, &size);
        *budget = (struct range_budget){dwarf, size + (elf ? lines_inflated(elf) : 0)};
    }
    if (budget->left) {
        budget->left--;
        return true;
    }
    if (!module->told_ranges)
        module_problem(module,
                       "%s: its debug information has more ranges of addresses than bytes; the "
                       "rest of them is left out",
                       module->name);
    module->told_ranges = true;
    return false;
}

/* The ranges of every unit: .debug_aranges would be shorter but clang leaves it out. */
void lines_load(struct spex_module *module)
{
    if (module->tried_lines)
        return;
    module->tried_lines = true;
    module_load(module);
    if (!elf_section(module->image.elf, ".debug_info", NULL))
        module_fetch_debug(module); /* not needed if its debug file is there */
    Elf *elf = module->debug.elf ? module->debug.elf : module->image.elf;
    if (!elf)
        return;
    const char *path = module->debug.elf ? module->debug.path : module->image.path;
    module->dwarf = begin_dwarf(module, elf);
    if (!module->dwarf && elf == module->debug.elf && module->image.elf) {
        module->dwarf = begin_dwarf(module, module->image.elf);
        path = module->image.path;
    }
    if (!module->dwarf)
        return;
    supply_alternate(module, path);
    size_t capacity = 0;
    struct range_budget budget = {0};
    Dwarf_Off offset = 0, next;
    size_t header;
    while (!dwarf_nextcu(module->dwarf, offset, &next, &header, NULL, NULL, NULL)) {
        Dwarf_Die die;
        if (dwarf_offdie(module->dwarf, offset + header, &die)) {
            Dwarf_Addr base, low, high;
            ptrdiff_t at = 0;
            while ((at = dwarf_ranges(&die, at, &base, &low, &high)) > 0 &&
                   lines_range(module, &budget, &die)) {
                if (low >= high)
                    continue;
                module->units = memory_grow(module->units, module->unit_count, &capacity,
                                            sizeof *module->units);
                module->units[module->unit_count++] =
                    (struct module_unit){low, high, dwarf_dieoffset(&die)};
            }
        }
        offset = next;
    }
    if (module->unit_count)
        qsort(module->units, module->unit_count, sizeof *module->units, compare_units);
}

static bool find_unit(struct spex_module *module, uint64_t address, Dwarf_Die *die)
{
    lines_load(module);
    size_t low = SEARCH(i, 0, module->unit_count, module->units[i].low <= address);
    return low > 0 && address < module->units[low - 1].high &&
           dwarf_offdie(module->dwarf, module->units[low - 1].die, die);
}

bool lines_unit(struct spex_module *module, uint64_t address, Dwarf_Die *die)
{
    if (!find_unit(module, address, die))
        return false;
    split_unit(module, die);
    return true;
}

static const char *unit_directory(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
}

static bool find_line(struct spex_module *module, uint64_t address, struct spex_line *line)
{
    Dwarf_Die unit;
    int number = 0;
    module_load(module);
    if (go_line(module, address, line))
        return true;
    if (!find_unit(module, address, &unit))
        return false;
    Dwarf_Line *found = dwarf_getsrc_die(&unit, address);
    const char *file = found ? dwarf_linesrc(found, NULL, NULL) : NULL;
    if (!file || dwarf_lineno(found, &number) || number <= 0)
        return false;
    *line =
        (struct spex_line){.file = file, .dir = unit_directory(&unit), .line = (unsigned)number};
    return true;
}

bool spex_module_line(struct spex_module *module, uint64_t address, struct spex_line *line)
{
    assert(module);
    volatile bool found = false;
    return memory_guarded(module->owner->account, found = find_line(module, address, line)) &&
           found;
}

void module_load_lines(struct spex_module *module)
{
    (void)!memory_guarded(module->owner->account, lines_load(module));
}

static unsigned find_discriminator(struct spex_module *module, uint64_t address)
{
    Dwarf_Die unit;
    unsigned discriminator = 0;
    Dwarf_Line *line = find_unit(module, address, &unit) ? dwarf_getsrc_die(&unit, address) : NULL;
    return line && !dwarf_linediscriminator(line, &discriminator) ? discriminator : 0;
}

unsigned spex_module_discriminator(struct spex_module *module, uint64_t address)
{
    assert(module);
    volatile unsigned found = 0;
    return memory_guarded(module->owner->account, found = find_discriminator(module, address))
               ? found
               : 0;
}

/* ---- inlined calls ---- */

struct walk {
    struct spex_module *module;
    struct module_inlines *unit;
    size_t capacity;
    Dwarf_Files *files;
    size_t file_count;
    const char *directory;
};

static unsigned attribute_number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_attr(die, name, &attribute) && !dwarf_formudata(&attribute, &value)
               ? (unsigned)value
               : 0;
}

static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
    return name ? name : "?";
}

/* One inlined call: an entry for each of its ranges. */
static void add_inline(struct walk *walk, Dwarf_Die *die)
{
    struct module_inlines *unit = walk->unit;
    unsigned file = attribute_number(die, DW_AT_call_file);
    const char *source = walk->files && file < walk->file_count
                             ? dwarf_filesrc(walk->files, file, NULL, NULL)
                             : NULL;
    struct module_inline entry = {
        .name = function_name(die),
        .call = {source, walk->directory, attribute_number(die, DW_AT_call_line)}};
    Dwarf_Addr base;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &entry.low, &entry.high)) > 0 &&
           lines_range(walk->module, &walk->module->inline_budget, die)) {
        if (entry.low >= entry.high)
            continue;
        unit->entries =
            memory_grow(unit->entries, unit->count, &walk->capacity, sizeof *unit->entries);
        entry.order = unit->count;
        unit->entries[unit->count++] = entry;
    }
}

/* level bounds the recursion: damaged DWARF may nest without end. */
static void walk_inlines(struct walk *walk, Dwarf_Die *parent, unsigned level)
{
    Dwarf_Die die;
    if (level > 200 || dwarf_child(parent, &die))
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_inlined_subroutine)
            add_inline(walk, &die);
        if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram ||
            tag == DW_TAG_lexical_block || tag == DW_TAG_namespace)
            walk_inlines(walk, &die, level + 1);
    } while (!dwarf_siblingof(&die, &die));
}

static int by_low(const void *a, const void *b)
{
    const struct module_inline *x = a, *y = b;
    return x->low != y->low ? ORDER(x->low, y->low) : ORDER(x->order, y->order);
}

/* Sorted entries as a tree: the one in the middle of a part is above both halves. */
static uint64_t set_reach(struct module_inline *entries, size_t count)
{
    size_t middle = count / 2;
    if (!count)
        return 0;
    uint64_t below = set_reach(entries, middle),
             above = set_reach(entries + middle + 1, count - middle - 1);
    struct module_inline *e = &entries[middle];
    e->reach = below > above ? below : above;
    e->reach = e->high > e->reach ? e->high : e->reach;
    return e->reach;
}

enum { INLINES_MOST = 256 }; /* most calls inlined around one address; further ones are ignored */

struct matches {
    const struct module_inline *found[INLINES_MOST]; /* ordered like the DIEs */
    size_t count;
};

static void match(const struct module_inline *entries, size_t count, uint64_t address,
                  struct matches *m)
{
    size_t middle = count / 2;
    if (!count || m->count == INLINES_MOST || entries[middle].reach <= address)
        return;
    match(entries, middle, address, m);
    const struct module_inline *e = &entries[middle];
    if (e->low > address)
        return;
    if (address < e->high && m->count < INLINES_MOST) {
        size_t at = m->count++;
        for (; at && m->found[at - 1]->order > e->order; at--)
            m->found[at] = m->found[at - 1];
        m->found[at] = e;
    }
    match(entries + middle + 1, count - middle - 1, address, m);
}

static const struct module_inlines *unit_inlines(struct spex_module *module, Dwarf_Die *unit)
{
    Dwarf_Off offset = dwarf_dieoffset(unit);
    for (size_t i = 0; i < module->inline_count; i++)
        if (module->inlines[i].die == offset)
            return &module->inlines[i];
    if (!vec_grow(&module->inlines, &module->inline_capacity, module->inline_count + 1,
                  sizeof *module->inlines))
        return NULL;
    struct module_inlines *entry = &module->inlines[module->inline_count++];
    *entry = (struct module_inlines){.die = offset};
    struct walk walk = {.module = module, .unit = entry, .directory = unit_directory(unit)};
    dwarf_getsrcfiles(unit, &walk.files, &walk.file_count);
    Dwarf_Die whole = *unit;
    split_unit(module, &whole);
    walk_inlines(&walk, &whole, 0);
    if (entry->count)
        qsort(entry->entries, entry->count, sizeof *entry->entries, by_low);
    set_reach(entry->entries, entry->count);
    return entry;
}

static size_t find_inlines(struct spex_module *module, uint64_t address, struct spex_inline *frames,
                           size_t capacity)
{
    Dwarf_Die unit;
    if (!find_unit(module, address, &unit))
        return 0;
    const struct module_inlines *list = unit_inlines(module, &unit);
    struct matches m = {.count = 0};
    if (list)
        match(list->entries, list->count, address, &m);
    /* DIEs come outermost first; a later one that holds the address is further in. */
    size_t kept = m.count < capacity ? m.count : capacity;
    for (size_t i = 0; i < kept; i++) {
        const struct module_inline *e = m.found[kept - 1 - i];
        frames[i] = (struct spex_inline){.name = e->name, .call = e->call};
    }
    return m.count;
}

void lines_free(struct spex_module *module)
{
    for (size_t i = 0; i < module->inline_count; i++)
        memory_free(module->inlines[i].entries);
    memory_free(module->inlines);
    memory_free(module->units);
    if (module->dwarf)
        dwarf_end(module->dwarf);
    if (module->alternate_dwarf)
        dwarf_end(module->alternate_dwarf);
}

size_t spex_module_inlines(struct spex_module *module, uint64_t address, struct spex_inline *frames,
                           size_t capacity)
{
    assert(module);
    volatile size_t count = 0;
    return memory_guarded(module->owner->account,
                          count = find_inlines(module, address, frames, capacity))
               ? count
               : 0;
}
