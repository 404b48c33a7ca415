/*
 * Symbols, source lines, inlined calls and instructions of the files that ran in a profile.
 *
 * A module is one file (or the kernel, or the JIT code of a process). It is opened on first use
 * and turned into sorted tables once; a look-up is a binary search. "Address" is always an
 * address in the module's own numbering: the ELF virtual address, the kernel's link address, or
 * the run-time address of JIT code; spex_module_address computes it from a run-time address and
 * its mapping. Strings belong to the module. A spex_symbols belongs to one thread.
 */
#ifndef SPEX_SYMBOLS_H
#define SPEX_SYMBOLS_H

#include <spex/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spex_symbols; /* all modules of one profile */
struct spex_module;

struct spex_symbols_options {
    size_t size;              /* sizeof(struct spex_symbols_options) */
    const char *symfs;        /* directory put before every path, or NULL */
    const char *vmlinux;      /* kernel with symbols, or NULL */
    const char *kallsyms;     /* text like /proc/kallsyms, or NULL */
    const char *build_id_dir; /* perf's cache; NULL: $HOME/.debug */
    const char *debug_dir;    /* separate debug files; NULL: /usr/lib/debug */
    const char *map_dir;      /* directory of perf-PID.map files; NULL: /tmp */
    bool raw_names;           /* leave C++ and Rust names mangled */
    /*
     * Called while a debug file is fetched from a server of DEBUGINFOD_URLS, with its name, the
     * bytes so far and the total (0: unknown). False cancels the download. May be NULL.
     */
    bool (*fetching)(void *context, const char *file, uint64_t done, uint64_t size);
    void *context;
    /*
     * The directory of the profile, or NULL. It may hold the files of an archive (in .debug),
     * the programs that a guest ran (in /host), and the kernel's symbols (a file kallsyms).
     */
    const char *beside;
    /*
     * Bytes that all of this may allocate, 0: half of the machine's; and where from, NULL: malloc
     * (since 1.4). Those of an analysis share its limit unless they have one of their own.
     */
    uint64_t max_memory;
    const struct spex_allocator *allocator;
};

/* options NULL: none. What they point to is copied. Since 1.0. */
enum spex_status spex_symbols_new(const struct spex_symbols_options *options,
                                  struct spex_symbols **symbols, struct spex_error *error);
void spex_symbols_free(struct spex_symbols *symbols); /* since 1.0 */

/*
 * The module for a path as a mapping record names it ("/bin/ls", "[kernel.kallsyms]_text",
 * "//anon", "[vdso]"); the same one for the same path and build id. pid is used for JIT maps
 * only. NULL only when out of memory: a module without a usable file has no symbols, and
 * spex_module_problem says why. Since 1.0.
 */
struct spex_module *spex_symbols_module(struct spex_symbols *symbols, const char *path,
                                        const uint8_t *build_id, size_t build_id_size, int pid);

/* The n-th module that was asked for, NULL past the last. */
struct spex_module *spex_symbols_nth(struct spex_symbols *symbols, size_t n); /* since 1.0 */

const char *spex_module_path(const struct spex_module *module); /* the recorded path; since 1.0 */
/* Last part of the path. Since 1.0. */
const char *spex_module_name(const struct spex_module *module);
/* Kernel or its modules. Since 1.0. */
bool spex_module_is_kernel(const struct spex_module *module);

/* What a module is (since 1.4). */
enum spex_module_kind {
    SPEX_MODULE_FILE,   /* a program or a library: an ELF file */
    SPEX_MODULE_KERNEL, /* the kernel or a module of it */
    SPEX_MODULE_JIT,    /* anonymous code of a process, which a file perf-PID.map may name */
    SPEX_MODULE_CODE,   /* one function named by its mapping: code of a JIT or of BPF */
    SPEX_MODULE_NONE,   /* heap, stack, special pages */
};
enum spex_module_kind spex_module_kind(const struct spex_module *module); /* since 1.4 */
/* The process that the code belongs to; only for SPEX_MODULE_JIT and _CODE (since 1.4). */
int spex_module_pid(const struct spex_module *module);
/*
 * The build id in the profile or, if opened is set, that of the file that was opened (if none was,
 * the one in the profile); *size 0: not known. The module owns the bytes (since 1.4).
 */
const uint8_t *spex_module_build_id(const struct spex_module *module, bool opened, size_t *size);
/* The file that was opened for its code, NULL if none was; opens it (since 1.4). */
const char *spex_module_file(struct spex_module *module);

/*
 * The command that gets a stripped file's debug symbols from its distribution; the caller frees it.
 * NULL: none is known, or there is no memory (since 1.4).
 */
char *spex_module_package(const struct spex_module *module);

struct spex_segment {           /* a loaded segment of the file; all since 1.4 */
    uint64_t address, size;     /* module addresses */
    uint64_t offset, file_size; /* position in the file; what is beyond file_size is zero */
};
/* The n-th segment, in the order of the file; false past the last (since 1.4). */
bool spex_module_segment(struct spex_module *module, size_t n, struct spex_segment *segment);

/* Samples in the module in the last analysis pass, before and after the filters. */
uint64_t spex_module_samples(const struct spex_module *module, bool filtered); /* since 1.0 */
/* How many of these have no name because of spex_module_problem. */
uint64_t spex_module_unnamed(const struct spex_module *module, bool filtered); /* since 1.1 */
/* Why symbols or lines could not be read; NULL if they could. */
const char *spex_module_problem(struct spex_module *module); /* since 1.0 */

/* What helps against that (since 1.4); the names are those of struct spex_symbols_options. */
enum spex_remedy {
    SPEX_REMEDY_NONE,       /* nothing, or what the text says */
    SPEX_REMEDY_COPY,       /* symfs: a copy of the file, from the machine that was profiled */
    SPEX_REMEDY_ARM,        /* symfs: the same, in place of a file for another architecture */
    SPEX_REMEDY_BUILD,      /* symfs: the file of the build that ran */
    SPEX_REMEDY_UNSTRIPPED, /* symfs: a copy that was not stripped */
    SPEX_REMEDY_ACCESS,     /* the right to read it, or symfs: a copy */
    SPEX_REMEDY_KERNEL, /* vmlinux; or kallsyms, read as root on the machine that was profiled */
    SPEX_REMEDY_MEMORY, /* max_memory: more of it */
    SPEX_REMEDY_COUNT
};
enum spex_remedy spex_module_remedy(struct spex_module *module); /* since 1.4 */

/*
 * Module address of the run-time address ip in a mapping that begins at start and maps the file
 * from offset pgoff.
 */
uint64_t spex_module_address(struct spex_module *module, uint64_t ip, uint64_t start,
                             uint64_t pgoff); /* since 1.0 */

struct spex_symbol {
    uint64_t start, end; /* module addresses [start, end) */
    const char *name;    /* demangled; NULL: the file has no name for this function (stripped) */
    const char *raw;     /* the name in the file */
    struct spex_module *module;
    bool data; /* an object, not code */
};

/* The symbol that contains address, or NULL. Since 1.0. */
const struct spex_symbol *spex_module_symbol(struct spex_module *module, uint64_t address);
/* The n-th symbol in order of address, NULL past the last. */
const struct spex_symbol *spex_module_nth(struct spex_module *module, size_t n); /* since 1.0 */

struct spex_line {
    const char *file; /* the name in the debug information */
    const char *dir;  /* compilation directory, may be NULL */
    unsigned line;
    uint8_t zero[12];
};

/* Source line of a code address; false if the file has none. Since 1.0. */
bool spex_module_line(struct spex_module *module, uint64_t address, struct spex_line *line);

/*
 * Functions inlined at address, innermost first, without the enclosing symbol; each with the line
 * that calls it. Returns how many there are; at most capacity of them are filled in.
 */
struct spex_inline {
    const char *name;
    struct spex_line call;
    uint64_t zero;
};
size_t spex_module_inlines(struct spex_module *module, uint64_t address, struct spex_inline *frames,
                           size_t capacity); /* since 1.0 */

/*
 * The compiler's number for one of several blocks of a line that the instruction at address is in;
 * 0: none (since 1.4).
 */
unsigned spex_module_discriminator(struct spex_module *module, uint64_t address);

/* Where functions are declared, by the debug information (since 1.4). */
struct spex_declaration {
    const char *name, *linkage; /* in the source, for the linker; NULL: none */
    uint64_t entry;             /* first instruction; 0: none, as of a function only inlined */
    unsigned line;
    uint8_t zero[12];
};
/* take is called for each that has a line, in no order; a function may have several. Since 1.4. */
void spex_module_declarations(struct spex_module *module,
                              void (*take)(void *context, const struct spex_declaration *function),
                              void *context);

/* Bytes of the file's image at address; returns how many could be read. Since 1.0. */
size_t spex_module_read(struct spex_module *module, uint64_t address, void *data, size_t size);

/* ---- instructions ---- */

struct spex_disassembler;
enum { SPEX_INSTRUCTION_TEXT = 96 };

/*
 * Uses the newest libLLVM found, else objdump, else prints instruction words; fails only
 * when out of memory.
 */
enum spex_status spex_disassembler_new(struct spex_disassembler **disassembler,
                                       struct spex_error *error);                 /* since 1.0 */
void spex_disassembler_free(struct spex_disassembler *disassembler);              /* since 1.0 */
const char *spex_disassembler_name(const struct spex_disassembler *disassembler); /* since 1.0 */
/* Disassembles count A64 instructions at address; words are little-endian in code. */
void spex_disassemble(struct spex_disassembler *disassembler, uint64_t address, const uint8_t *code,
                      size_t count, char (*text)[SPEX_INSTRUCTION_TEXT]); /* since 1.0 */

/* ---- names ---- */

/* Demangled C++ or Rust name, for the caller to free(); NULL if name is not mangled. */
char *spex_demangle(const char *name); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
