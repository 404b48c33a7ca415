/* Source lines and inlined calls from DWARF, one compilation unit at a time. */
#include "module.h"

#include "base/memory.h"
#include "base/vec.h"

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
        module_problem(module,
                       "%s: its debug information would take %llu MB, more than is allowed, and is "
                       "not read: --max-memory SIZE allows more",
                       module->name, (unsigned long long)(size >> 20));
        return NULL;
    }
    return dwarf_begin_elf(elf, DWARF_C_READ, NULL);
}

/* libdw would open whatever the file names: so it is given the opened file, or none at all. */
static void supply_alternate(struct spex_module *module, const char *path)
{
    const char *name;
    const void *id;
    ssize_t size = dwelf_dwarf_gnu_debugaltlink(module->dwarf, &name, &id);
    if (size <= 0)
        return;
    if (module_open_alternate(module, path, name, id, (size_t)size))
        module->alternate_dwarf = begin_dwarf(module, module->alternate.elf);
    /* -1 is how libdw remembers that it looked and found none */
    dwarf_setalt(module->dwarf,
                 module->alternate_dwarf ? module->alternate_dwarf : (Dwarf *)(intptr_t)-1);
}

/* The ranges of every unit: .debug_aranges would be shorter but clang leaves it out. */
void lines_load(struct spex_module *module)
{
    if (module->tried_lines)
        return;
    module->tried_lines = true;
    module_load(module);
    if (!elf_section(module->image.elf, ".debug_info", NULL))
        module_fetch_debug(module); /* nothing to do if its debug file is there */
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
    Dwarf_Off offset = 0, next;
    size_t header;
    while (!dwarf_nextcu(module->dwarf, offset, &next, &header, NULL, NULL, NULL)) {
        Dwarf_Die die;
        if (dwarf_offdie(module->dwarf, offset + header, &die)) {
            Dwarf_Addr base, low, high;
            ptrdiff_t at = 0;
            while ((at = dwarf_ranges(&die, at, &base, &low, &high)) > 0) {
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
    size_t low = 0, high = module->unit_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (module->units[middle].low <= address)
            low = middle + 1;
        else
            high = middle;
    }
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
    volatile bool found = false;
    return memory_guarded(found = find_line(module, address, line)) && found;
}

unsigned module_discriminator(struct spex_module *module, uint64_t address)
{
    Dwarf_Die unit;
    unsigned discriminator = 0;
    Dwarf_Line *line = find_unit(module, address, &unit) ? dwarf_getsrc_die(&unit, address) : NULL;
    return line && !dwarf_linediscriminator(line, &discriminator) ? discriminator : 0;
}

/* ---- inlined calls ---- */

struct walk {
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

/* level bounds the recursion: damaged DWARF may nest without end. */
static void walk_inlines(struct walk *walk, Dwarf_Die *parent, unsigned level)
{
    Dwarf_Die die;
    if (level > 200 || dwarf_child(parent, &die))
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_inlined_subroutine) {
            unsigned file = attribute_number(&die, DW_AT_call_file);
            const char *source = walk->files && file < walk->file_count
                                     ? dwarf_filesrc(walk->files, file, NULL, NULL)
                                     : NULL;
            Dwarf_Addr base, low, high;
            ptrdiff_t at = 0;
            while ((at = dwarf_ranges(&die, at, &base, &low, &high)) > 0) {
                if (low >= high)
                    continue;
                walk->unit->entries = memory_grow(walk->unit->entries, walk->unit->count,
                                                  &walk->capacity, sizeof *walk->unit->entries);
                walk->unit->entries[walk->unit->count++] = (struct module_inline){
                    low,
                    high,
                    function_name(&die),
                    {source, walk->directory, attribute_number(&die, DW_AT_call_line)}};
            }
        }
        if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram ||
            tag == DW_TAG_lexical_block || tag == DW_TAG_namespace)
            walk_inlines(walk, &die, level + 1);
    } while (!dwarf_siblingof(&die, &die));
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
    struct walk walk = {.unit = entry, .directory = unit_directory(unit)};
    dwarf_getsrcfiles(unit, &walk.files, &walk.file_count);
    Dwarf_Die whole = *unit;
    split_unit(module, &whole);
    walk_inlines(&walk, &whole, 0);
    return entry;
}

static size_t find_inlines(struct spex_module *module, uint64_t address, struct spex_inline *frames,
                           size_t capacity)
{
    Dwarf_Die unit;
    if (!find_unit(module, address, &unit))
        return 0;
    const struct module_inlines *list = unit_inlines(module, &unit);
    size_t count = 0;
    /* DIEs come outermost first; a deeper one that holds the address is further in. */
    for (size_t i = 0; list && i < list->count; i++) {
        const struct module_inline *e = &list->entries[i];
        if (address < e->low || address >= e->high)
            continue;
        if (count < capacity)
            frames[count] = (struct spex_inline){.name = e->name, .call = e->call};
        count++;
    }
    size_t kept = count < capacity ? count : capacity;
    for (size_t i = 0; i < kept / 2; i++) {
        struct spex_inline swap = frames[i];
        frames[i] = frames[kept - 1 - i];
        frames[kept - 1 - i] = swap;
    }
    return count;
}

void lines_free(struct spex_module *module)
{
    for (size_t i = 0; i < module->inline_count; i++)
        free(module->inlines[i].entries);
    free(module->inlines);
    free(module->units);
    if (module->dwarf)
        dwarf_end(module->dwarf);
    if (module->alternate_dwarf)
        dwarf_end(module->alternate_dwarf);
}

size_t spex_module_inlines(struct spex_module *module, uint64_t address, struct spex_inline *frames,
                           size_t capacity)
{
    volatile size_t count = 0;
    return memory_guarded(count = find_inlines(module, address, frames, capacity)) ? count : 0;
}
