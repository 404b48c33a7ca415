/* The internals of modules. */
#ifndef ANALYSIS_MODULE_H
#define ANALYSIS_MODULE_H

#include <spex/symbols.h>

#include "perfdata/below.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <limits.h>
#include <string.h>

enum { SPACE_ROOT = 32 };

/* A mount namespace; inode 0: not known, or our own. */
struct module_space {
    uint64_t device, inode;
};

struct module_segment {
    uint64_t offset, address, file_size, size;
};

/* An ELF file held open, because names point into it. */
struct module_elf {
    int fd;
    Elf *elf;
    char *path;
};

struct module_id { /* build id; size 0: not known */
    uint8_t bytes[64];
    size_t size;
};

/* Memory that lives as long as its module; new text goes into the newest block while it fits. */
struct module_text {
    struct module_text *next;
    size_t used, size;
    char bytes[];
};

struct module_unit { /* code range of one compilation unit */
    uint64_t low, high;
    Dwarf_Off die;
};

struct module_inline {
    uint64_t low, high;
    uint64_t reach; /* the highest end among this entry and those below it in the tree */
    size_t order;   /* position among the DIEs */
    const char *name;
    struct spex_line call;
};

struct module_inlines { /* inlined calls of one compilation unit, by address */
    Dwarf_Off die;
    struct module_inline *entries;
    size_t count;
};

/*
 * Ranges of addresses that may still be read from debug information, one budget per purpose. DIEs
 * can share a list of ranges, and so ask for more than the square of their size; no list that a
 * compiler writes has as many ranges as the file has bytes.
 */
struct range_budget {
    const void *dwarf; /* the file's DWARF; each file has its own budget */
    uint64_t left;
};

struct spex_module {
    struct spex_symbols *owner;
    /* for JIT or BPF code, the first such module; else the module itself */
    struct spex_module *whole;
    enum spex_module_kind kind;
    char *path;
    const char *name;
    struct module_id recorded; /* id in the profile */
    struct module_id found;    /* id of the opened file; without one, the recorded id */
    int pid;
    struct module_space space;  /* the mount namespace of its path */
    uint32_t number;            /* counts from 1 */
    uint64_t samples, left_out; /* that passed the filters, and that did not */
    uint64_t unnamed;           /* that passed, without a name because the file is stripped */
    bool loaded, tried_lines;
    bool stripped; /* its problem matters only if an address has no name */
    char *problem;
    enum spex_remedy remedy; /* for it */

    struct spex_symbol *symbols;
    size_t count, capacity;
    struct module_segment *segments;
    size_t segment_count;
    struct module_elf image, debug; /* image: has the code; debug: separate symbols or DWARF */
    struct module_elf alternate;    /* DWARF shared by several debug files */
    struct module_elf small;        /* only symbols, from .gnu_debugdata of the image */
    uint8_t *small_bytes;
    char *source;              /* the text file that names were read from */
    char *text;                /* contents of kallsyms or perf-PID.map, which names point into */
    struct module_text *texts; /* names that no file has in this form */
    void *spare;               /* freed with the module */
    uint64_t link_text;        /* vmlinux: link address of _text; 0 none or kallsyms */

    struct go_table *go; /* .gopclntab */
    Dwarf *dwarf, *alternate_dwarf;
    struct module_unit *units;
    size_t unit_count;
    struct module_inlines *inlines;
    size_t inline_count, inline_capacity;
    struct range_budget inline_budget, function_budget;
    bool told_ranges;
    struct module_types *types; /* types.h */
};

struct spex_symbols {
    struct memory *account;
    struct spex_symbols_options options;
    char *strings[7]; /* copies of the option texts */
    char home_debug[PATH_MAX], beside_debug[PATH_MAX];
    struct spex_module **modules;
    size_t count, capacity;
    /* Module number plus one: by path (the first module with it), and by path and build id. */
    uint32_t *by_path, *by_id;
    size_t mask;
    struct debuginfod *debuginfod;
    struct known_space { /* root directory of each mount namespace */
        struct module_space space;
        int pid; /* a process in this namespace; 0: none is known */
    } * spaces;
    size_t space_count, space_room;
    struct spex_module *code[2]; /* the first SPEX_MODULE_CODE modules: of JITs, of BPF */
    struct type_names *types;    /* data_types.c */
};

/* If memory runs out, the module has no symbols; the rest of the profile is still read. */
void module_load(struct spex_module *module);
/* Like spex_symbols_module, but never NULL. space: that of the process, or NULL. */
struct spex_module *symbols_module(struct spex_symbols *symbols, const char *path,
                                   const uint8_t *build_id, size_t build_id_size, int pid,
                                   const struct module_space *space);
/* The directories that may contain the profile's files: its archive, --symfs, the original root. */
struct module_roots {
    char archive[PATH_MAX + 8];
    struct below below;
};
void symbols_roots(const struct spex_symbols *symbols, struct module_roots *roots);

/* ---- files.c ---- */

enum open_result {
    OPEN_OK,
    OPEN_MISSING,
    OPEN_REFUSED, /* errno says why */
    OPEN_NOT_FILE,
    OPEN_NOT_ELF,
    OPEN_NOT_ARM,
    OPEN_OTHER_BUILD
};

/* Finds and opens the files of a module; if it cannot, the reason becomes the module's problem. */
void module_open_files(struct spex_module *module);
/* Opens an AArch64 ELF file, which must have this build id unless that is not known. */
enum open_result elf_open_build(const char *path, const struct module_id *id,
                                struct module_elf *file);

/* ---- spaces.c: mount namespaces of containers ---- */

/* Is this our own namespace? */
bool space_is_own(const struct module_space *space);
/*
 * The root directory of a namespace, as "/proc/PID/root": of this process if it is still in the
 * namespace, else of any process that is. False if there is none that we may access.
 */
bool space_root(struct spex_symbols *symbols, const struct module_space *space, int pid,
                char root[SPACE_ROOT]);
/* Like elf_open_build, for a file below such a root; links in it do not lead out of it. */
enum open_result space_open(const char *root, const char *path, const struct module_id *id,
                            struct module_elf *file);

/* What is to be said of a file that cannot be opened for this reason, and what helps. */
const char *open_advice(int reason, enum spex_remedy *remedy);
void elf_close(struct module_elf *file);
/* The section of this name, unless it has no bytes; header may be NULL. */
Elf_Scn *elf_section(Elf *elf, const char *name, GElf_Shdr *header);
/*
 * Finds the first note of a type with this three-letter owner: its contents in memory, and their
 * *size in bytes; or NULL.
 */
const char *elf_note(Elf *elf, const char *owner, unsigned type, size_t *size);
struct module_id elf_build_id(Elf *elf);
/*
 * "DIR/.build-id/ab/cdef" + tail, the layout that perf and gdb share; NULL without a build id. path
 * has PATH_MAX bytes.
 */
const char *id_path(const struct module_id *id, const char *dir, const char *tail, char *path);

/* ---- debug_files.c ---- */

/* Opens module->debug, from this machine or from debuginfod servers. */
bool module_open_debug(struct spex_module *module);
bool module_fetch_debug(struct spex_module *module);
/* The path at which a debug file of this module would be looked for; NULL without a build id. */
const char *module_debug_place(const struct spex_module *module, char *path);
/*
 * Opens the file whose DWARF several debug files share (dwz): by name, relative to the debug file
 * or its root, or by build id.
 */
bool module_open_alternate(struct spex_module *module, const char *from, const char *name,
                           const void *id, size_t id_size);

/* ---- small.c ---- */

/* Opens module->small, if the image has .gnu_debugdata. */
bool module_open_small(struct spex_module *module);

/* ---- debuginfod.c ---- */

enum debuginfod_kind { DEBUGINFOD_DEBUG, DEBUGINFOD_EXECUTABLE };

/* The path of a file fetched from a debuginfod server, which the caller frees; or NULL. */
char *debuginfod_fetch(struct spex_module *module, const struct module_id *id,
                       enum debuginfod_kind kind);
void debuginfod_free(struct spex_symbols *symbols);

/* ---- table.c ---- */

struct candidate_symbol {
    struct spex_symbol symbol;
    uint8_t weak, code;
    uint32_t order; /* the larger one comes first: the latest entry for an address counts */
    uint8_t global; /* the larger one comes first; 2: the language's own name for it */
};

struct module_table {
    struct candidate_symbol *items;
    size_t count, capacity;
    size_t sorted; /* how many of the first entries are in order */
    bool full;     /* no memory for more */
    bool gaps;     /* treat code between symbols as a function without a name */
};

void table_add(struct module_table *table, uint64_t start, uint64_t size, const char *name,
               bool code, bool weak, unsigned global);
/* The name of what begins at address, NULL if nothing does; first sorts what was added. */
const char *table_name(struct module_table *table, uint64_t address);
/* Sorts, keeps one symbol for each address, and extends symbols without a size to the next one. */
void table_finish(struct spex_module *module, struct module_table *table);

/* ---- sources of names ---- */

enum { TEXT_MOST = 256 << 20 }; /* the largest text that is read */
bool module_load_elf(struct spex_module *module);
void module_load_kernel(struct spex_module *module);
void module_load_jit(struct spex_module *module);

/* Adds the functions of a Go program; returns their number, 0 if it is not a Go program. */
size_t go_symbols(struct spex_module *module, struct module_table *table);
bool go_line(struct spex_module *module, uint64_t address, struct spex_line *line);
void go_free(struct spex_module *module);
/* Names the slots of the global offset table after what they point to: name@got. */
void got_symbols(struct spex_module *module, struct module_table *table);
/* Adds functions without names from the search table of .eh_frame_hdr; returns their number. */
size_t unwind_symbols(Elf *elf, struct module_table *table);
/* Names the functions that indirect functions choose from, if they have no name (ifunc.c). */
void ifunc_symbols(struct spex_module *module, Elf *elf, struct module_table *table);
/* size bytes, freed with the module. */
char *module_text(struct spex_module *module, size_t size);

/* ---- look-up ---- */

bool module_is_file(const struct spex_module *module);
bool module_is_code(const struct spex_module *module); /* SPEX_MODULE_CODE */
/* False for the heap, the stack and the like, which have no symbols. */
bool module_has_symbols(struct spex_module *module);
/* Like spex_module_symbol, with the range of addresses around this one that has the same answer. */
const struct spex_symbol *module_symbol_around(struct spex_module *module, uint64_t address,
                                               uint64_t *first, uint64_t *last);
/* Is address in the image as loaded, .bss included? */
bool module_covers(struct spex_module *module, uint64_t address);
void lines_load(struct spex_module *module);
/* Like lines_load; without memory the module has no lines. */
void module_load_lines(struct spex_module *module);
/* May one more range of the DIE be read? If not, the user is told once. */
bool lines_range(struct spex_module *module, struct range_budget *budget, Dwarf_Die *die);
/* The DIE of the compilation unit that contains address; that of its .dwo file if it has one. */
bool lines_unit(struct spex_module *module, uint64_t address, Dwarf_Die *die);
/*
 * How many bytes the sections of a file take when decompressed by libdw, according to their
 * headers.
 */
uint64_t lines_inflated(Elf *elf);

/* ---- split.c ---- */

/*
 * For a skeleton, the unit in its .dwo file; otherwise, or if that file is missing, the unit
 * itself.
 */
void split_unit(struct spex_module *module, Dwarf_Die *unit);
void lines_free(struct spex_module *module);
/*
 * The first problem of a module is the one to act on; later ones are dropped. True: it is this one,
 * and there is no remedy yet.
 */
bool module_problem(struct spex_module *module, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool starts_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

#endif
