/*
 * Names slots of the global offset table as objects, by target, from the relocations that fill
 * them.
 */
#include "module.h"

#include "base/memory.h"
#include "base/vec.h"

#include <stdio.h>
#include <stdlib.h>

struct slot {
    uint64_t address;
    unsigned size;
    const char *target;
};

struct slots {
    struct slot *items;
    size_t count, capacity;
};

static bool in_section(const GElf_Shdr *section, uint64_t address)
{
    return address - section->sh_addr < section->sh_size;
}

/* The name in the relocation, or the name of the symbol at its address. */
static const char *target_of(Elf *elf, const GElf_Rela *rela, Elf_Data *symbols, size_t strings,
                             struct module_table *table)
{
    GElf_Sym sym;
    if (!GELF_R_SYM(rela->r_info))
        return table_name(table, (uint64_t)rela->r_addend);
    return symbols && gelf_getsym(symbols, (int)GELF_R_SYM(rela->r_info), &sym)
               ? elf_strptr(elf, strings, sym.st_name)
               : NULL;
}

static void read_section(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, const GElf_Shdr got[2],
                         struct module_table *table, struct slots *slots)
{
    GElf_Shdr linked = {0};
    Elf_Data *data = elf_getdata(scn, NULL), *symbols = NULL;
    Elf_Scn *dynsym = elf_getscn(elf, header->sh_link);
    if (dynsym && gelf_getshdr(dynsym, &linked) && linked.sh_type == SHT_DYNSYM)
        symbols = elf_getdata(dynsym, NULL);
    for (size_t i = 0; data && i < data->d_size / header->sh_entsize; i++) {
        GElf_Rela rela;
        const char *target;
        if (!gelf_getrela(data, (int)i, &rela) ||
            (!in_section(&got[0], rela.r_offset) && !in_section(&got[1], rela.r_offset)) ||
            !(target = target_of(elf, &rela, symbols, linked.sh_link, table)) || !*target)
            continue;
        if (slots->count == slots->capacity &&
            (!memory_allows(slots->capacity * 2 * sizeof *slots->items) ||
             !vec_reserve(slots, slots->count + 1))) {
            table->full = true; /* a message says so */
            return;
        }
        unsigned size = GELF_R_TYPE(rela.r_info) == R_AARCH64_TLSDESC ? 16 : 8;
        slots->items[slots->count++] = (struct slot){rela.r_offset, size, target};
    }
}

void got_symbols(struct spex_module *module, struct module_table *table)
{
    Elf *elf = module->image.elf;
    GElf_Shdr got[2] = {{0}}, header;
    struct slots slots = {0};
    elf_section(elf, ".got", &got[0]);
    elf_section(elf, ".got.plt", &got[1]);
    if (!got[0].sh_size && !got[1].sh_size)
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));)
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_RELA && header.sh_entsize)
            read_section(elf, scn, &header, got, table, &slots);
    module->spare = slots.items; /* a list of its own, in case memory runs out */
    for (size_t i = 0; i < slots.count; i++) {
        const struct slot *s = &slots.items[i];
        size_t size = strlen(s->target) + 5;
        char *name = module_text(module, size);
        snprintf(name, size, "%s@got", s->target);
        table_add(table, s->address, s->size, name, false, false, 0);
    }
    memory_free(slots.items);
    module->spare = NULL;
}
