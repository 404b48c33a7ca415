/*
 * Names the implementations of indirect functions in files without symbols: the dynamic symbol
 * memcpy is a resolver, whose code names the functions it chooses from (ADRP, ADD). If the unwind
 * table has a function without a name at such an address, it becomes memcpy@ifunc.
 */
#include "module.h"
#include "step.h"

#include "base/memory.h"
#include "base/search.h"

#include <stdio.h>
#include <string.h>

enum {
    RESOLVER_MOST = 4096,
    RESOLVERS_MOST = 1 << 20 /* in bytes; the second is for all resolvers */
};

static void name_at(struct spex_module *module, struct module_table *table, uint64_t address,
                    const char *name)
{
    char text[256];
    if (table_name(table, address)) /* the call also sorts them */
        return;
    size_t at = SEARCH(i, 0, table->count, table->items[i].symbol.start < address);
    if (at == table->count || table->items[at].symbol.start != address)
        return;
    const int n = snprintf(text, sizeof text, "%s@ifunc", name);
    if (n > 0 && (size_t)n < sizeof text)
        table->items[at].symbol.raw =
            memcpy(module_text(module, (size_t)n + 1), text, (size_t)n + 1);
}

/*
 * Names the choices of one resolver; code: its section from its first instruction on. Returns how
 * much was read.
 */
static size_t name_choices(struct spex_module *module, struct module_table *table,
                           const GElf_Sym *sym, const uint8_t *code, size_t size, const char *name)
{
    uint64_t value[STEP_REGS];
    uint32_t known = 0;
    size = size < sym->st_size ? size : sym->st_size;
    size = size < RESOLVER_MOST ? size : RESOLVER_MOST;
    for (size_t at = 0; at + 4 <= size; at += 4) {
        const uint8_t *b = code + at;
        struct step step;
        step_decode((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                        (uint32_t)b[3] << 24,
                    sym->st_value + at, &step);
        if (step.kind == STEP_SET && step.rd < STEP_SP) {
            value[step.rd] = step.value;
            known |= UINT32_C(1) << step.rd;
        } else if (step.kind == STEP_ADD && step.rd < STEP_SP && step.rn < STEP_SP &&
                   known >> step.rn & 1) {
            value[step.rd] = value[step.rn] + step.value;
            known |= UINT32_C(1) << step.rd;
        } else {
            continue;
        }
        name_at(module, table, value[step.rd], name);
    }
    return size;
}

void ifunc_symbols(struct spex_module *module, Elf *elf, struct module_table *table)
{
    size_t read = 0;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh, in;
        Elf_Data *data, *code;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_DYNSYM || !sh.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 1; i < data->d_size / sh.sh_entsize && read < RESOLVERS_MOST; i++) {
            GElf_Sym sym;
            const char *name;
            if (!gelf_getsym(data, (int)i, &sym) || GELF_ST_TYPE(sym.st_info) != STT_GNU_IFUNC ||
                !(name = elf_strptr(elf, sh.sh_link, sym.st_name)) || !*name)
                continue;
            Elf_Scn *home = elf_getscn(elf, sym.st_shndx);
            if (!home || !gelf_getshdr(home, &in) || !(code = elf_getdata(home, NULL)) ||
                !code->d_buf || sym.st_value < in.sh_addr ||
                sym.st_value - in.sh_addr >= code->d_size)
                continue;
            const size_t from = (size_t)(sym.st_value - in.sh_addr);
            read += name_choices(module, table, &sym, (const uint8_t *)code->d_buf + from,
                                 code->d_size - from, name);
        }
    }
}
