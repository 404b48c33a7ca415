/* Names from an ELF file: symbol tables and the PLT, else what stripping left. */
#include "module.h"

#include "base/bits.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The version of a symbol (foo@@GLIBC_2.34, foo@GLIBC_2.17) is not part of its name. */
static const char *without_version(struct spex_module *module, const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";
    const char *at = strchr(name, '@'), *version = at ? at + 1 + (at[1] == '@') : NULL;
    if (!at || at == name || *version < 'A' || *version > 'Z' || version[strspn(version, letters)])
        return name;
    size_t n = (size_t)(at - name);
    char *text = module_text(module, n + 1);
    memcpy(text, name, n);
    return text;
}

static void elf_symbols(struct spex_module *module, Elf *elf, unsigned section_type,
                        struct module_table *table, uint64_t *link_text)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != section_type || !sh.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 1; i < data->d_size / sh.sh_entsize; i++) {
            GElf_Sym sym;
            const char *name;
            if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
                sym.st_shndx == SHN_ABS || !(name = elf_strptr(elf, sh.sh_link, sym.st_name)) ||
                !*name)
                continue;
            unsigned type = GELF_ST_TYPE(sym.st_info), bind = GELF_ST_BIND(sym.st_info);
            bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
            if (!function && type != STT_OBJECT && type != STT_NOTYPE)
                continue;
            if (type == STT_OBJECT && !sym.st_size)
                continue; /* _GLOBAL_OFFSET_TABLE_, _DYNAMIC: marks, not objects */
            if (!function && name[0] == '$' && strchr("xdc", name[1]) && name[1] &&
                (!name[2] || name[2] == '.'))
                continue; /* AArch64 mapping symbols */
            if (!strcmp(name, "_text") && link_text)
                *link_text = sym.st_value;
            GElf_Shdr in;
            bool code = function;
            Elf_Scn *home = type == STT_NOTYPE ? elf_getscn(elf, sym.st_shndx) : NULL;
            if (home && gelf_getshdr(home, &in)) {
                code = in.sh_flags & SHF_EXECINSTR;
                if (!code && !sym.st_size)
                    continue; /* __bss_start, edata: marks, not objects */
            }
            table_add(table, sym.st_value, sym.st_size, without_version(module, name), code,
                      bind == STB_WEAK, bind == STB_GLOBAL);
        }
    }
}

/*
 * Names entries foo@plt from the relocations of .plt: entries are in the same order, from byte 32
 * on.
 */
static void plt_symbols(struct spex_module *module, struct module_table *table)
{
    Elf *elf = module->image.elf;
    GElf_Shdr plt, rela, dyn;
    Elf_Scn *relocations = elf_section(elf, ".rela.plt", &rela);
    Elf_Scn *dynsym = relocations ? elf_getscn(elf, rela.sh_link) : NULL;
    if (!dynsym || !elf_section(elf, ".plt", &plt) || !rela.sh_entsize ||
        rela.sh_type != SHT_RELA || !gelf_getshdr(dynsym, &dyn))
        return;
    Elf_Data *data = elf_getdata(relocations, NULL), *syms = elf_getdata(dynsym, NULL);
    uint64_t count = rela.sh_size / rela.sh_entsize, header = 32;
    if (!data || !syms || !count || plt.sh_size <= header)
        return;
    uint64_t entry = (plt.sh_size - header) / count;
    if (entry < 16)
        return;
    for (uint64_t i = 0; i < count; i++) {
        GElf_Rela r;
        GElf_Sym sym;
        const char *name;
        char *text;
        if (!gelf_getrela(data, (int)i, &r) ||
            !gelf_getsym(syms, (int)GELF_R_SYM(r.r_info), &sym) ||
            !(name = elf_strptr(elf, dyn.sh_link, sym.st_name)) || !*name)
            continue;
        text = module_text(module, strlen(name) + 5);
        sprintf(text, "%s@plt", name);
        table_add(table, plt.sh_addr + header + i * entry, entry, text, true, false, true);
    }
}

static void load_segments(struct spex_module *module)
{
    Elf *elf = module->image.elf ? module->image.elf : module->debug.elf;
    size_t headers;
    if (!elf || elf_getphdrnum(elf, &headers))
        return;
    module->segments = memory_get(headers + 1, sizeof *module->segments);
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_LOAD)
            module->segments[module->segment_count++] =
                (struct module_segment){ph.p_offset, ph.p_vaddr, ph.p_filesz, ph.p_memsz};
    }
}

/* It asks the servers of Debian, Ubuntu, Fedora and others. */
#define DEBUGINFOD "export DEBUGINFOD_URLS=https://debuginfod.elfutils.org"

/* Tells the user what to do about a file without symbols, if anything can be done. */
static void say_stripped(struct spex_module *module, bool named, bool starts)
{
    char place[PATH_MAX];
    module->stripped = !module->problem;
    const char *shown = named    ? "only exported names are shown"
                        : starts ? "functions are shown as offsets"
                                 : "addresses are shown as offsets";
    if (module_debug_place(module, place))
        module_problem(module, "%s: stripped; %s; its debug file is looked for as %s%s",
                       module->name, shown, place,
                       getenv("DEBUGINFOD_URLS") ? "" : "; or run " DEBUGINFOD " to fetch it");
    else if (module_problem(module,
                            "%s: stripped, and without a build id by which debug symbols could be "
                            "found; %s",
                            module->name, shown))
        module->remedy = SPEX_REMEDY_UNSTRIPPED;
}

bool module_load_elf(struct spex_module *module)
{
    struct module_table table = {0};
    load_segments(module);
    if (elf_section(module->debug.elf, ".symtab", NULL))
        elf_symbols(module, module->debug.elf, SHT_SYMTAB, &table, &module->link_text);
    else if (module->image.elf)
        elf_symbols(module, module->image.elf, SHT_SYMTAB, &table, &module->link_text);
    bool stripped = table.count == 0;
    if (stripped && module->image.elf) {
        elf_symbols(module, module->image.elf, SHT_DYNSYM, &table, NULL);
        if (module_open_small(module)) {
            size_t exported = table.count;
            elf_symbols(module, module->small.elf, SHT_SYMTAB, &table, NULL);
            stripped = table.count == exported;
        }
    }
    go_symbols(module, &table); /* not only if stripped: .symtab has names that Go does not use */
    size_t named = table.count;
    plt_symbols(module, &table);
    got_symbols(module, &table);
    if (stripped && module->image.elf) {
        table.gaps = unwind_symbols(module->image.elf, &table) || module->go;
        ifunc_symbols(module, module->image.elf, &table);
        say_stripped(module, named, table.gaps);
    }
    table_finish(module, &table);
    return module->count > 0;
}
