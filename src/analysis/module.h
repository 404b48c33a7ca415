/* A module's insides, shared by symbols.c (files, tables) and lines.c (DWARF). */
#ifndef ANALYSIS_MODULE_H
#define ANALYSIS_MODULE_H

#include <spex/symbols.h>

#include <elfutils/libdw.h>
#include <libelf.h>

enum module_kind {
    MODULE_FILE,   /* ELF file */
    MODULE_KERNEL, /* vmlinux, kallsyms */
    MODULE_JIT,    /* anonymous code: perf-PID.map */
    MODULE_NONE,   /* heap, stack, special pages */
};

struct module_segment {
    uint64_t offset, address, file_size, size;
};

/* One ELF file held open; its strings are referred to. */
struct module_elf {
    int fd;
    Elf *elf;
    char *path;
};

struct module_unit { /* code range of one compilation unit */
    uint64_t low, high;
    Dwarf_Off die;
};

struct module_inline {
    uint64_t low, high;
    const char *name;
    struct spex_line call;
};

struct module_inlines { /* of one compilation unit, in order of the DIEs */
    Dwarf_Off die;
    struct module_inline *entries;
    size_t count;
};

struct spex_module {
    struct spex_symbols *owner;
    enum module_kind kind;
    char *path;
    const char *name;
    uint8_t build_id[64];
    size_t build_id_size;
    int pid;
    uint64_t samples, left_out; /* kept by the filters, and not */
    bool loaded, tried_lines;
    char *problem;

    struct spex_symbol *symbols;
    size_t count, capacity;
    struct module_segment *segments;
    size_t segment_count;
    struct module_elf image, debug; /* with the code; with symbols or DWARF where separate */
    struct module_elf alternate;    /* with DWARF that several debug files share */
    char *text;                     /* kallsyms or perf-PID.map, the owner of names */
    uint64_t link_text;             /* vmlinux: link address of _text; 0 none or kallsyms */

    Dwarf *dwarf, *alternate_dwarf;
    struct module_unit *units;
    size_t unit_count;
    struct module_inlines *inlines;
    size_t inline_count;
};

void module_load(struct spex_module *module);
/* spex_symbols_module, never NULL. */
struct spex_module *symbols_module(struct spex_symbols *symbols, const char *path,
                                   const uint8_t *build_id, size_t build_id_size, int pid);
bool module_open_alternate(struct spex_module *module, const char *from, const char *name,
                           const uint8_t *id, size_t id_size);
bool module_is_file(const struct spex_module *module);
/* False for the heap, the stack and the like: an address there is just itself. */
bool module_has_symbols(struct spex_module *module);
/* spex_module_symbol, and the addresses around this one for which it says the same. */
const struct spex_symbol *module_symbol_around(struct spex_module *module, uint64_t address,
                                               uint64_t *first, uint64_t *last);
/* Is address in the image as loaded, .bss included? */
bool module_covers(struct spex_module *module, uint64_t address);
void lines_load(struct spex_module *module);
void lines_free(struct spex_module *module);
void module_problem(struct spex_module *module, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
