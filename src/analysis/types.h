/*
 * Types of data, from DWARF: which type and member an access uses.
 *
 * A variable with a fixed address is found by the address of the data. Otherwise, what the
 * registers of the code point to is followed through each function (flow.c), beginning with the
 * variables that DWARF says they hold (variables.c). Everything is computed on first use.
 */
#ifndef ANALYSIS_TYPES_H
#define ANALYSIS_TYPES_H

#include "module.h"

#include <spex/data.h>

/* ---- types of one module (types.c) ---- */

enum { TYPE_NONE, TYPE_VOID, TYPE_FIRST }; /* type numbers; 0: not known */

enum type_kind {
    KIND_SCALAR,
    KIND_POINTER,
    KIND_ARRAY,
    KIND_STRUCT, /* and classes */
    KIND_UNION,
};

struct type {
    Dwarf_Die die; /* without typedef, const and so on */
    enum type_kind kind;
    uint64_t size;   /* 0: not known */
    uint32_t target; /* what a pointer points to, or an array holds; TYPE_NONE: not looked up yet */
    const char *alias; /* the typedef that names it */
    const char *name;  /* name as shown; NULL: not made yet */
};

/* Where data lies in a type, and its own type. */
struct type_part {
    char path[256];        /* "next", "a.b[].c", "" for a scalar */
    uint64_t offset, size; /* extent of the member; inside an array, of the whole array */
    uint32_t leaf;         /* type of the data; TYPE_NONE: several */
};

/* The number of the type in DW_AT_type of a DIE; TYPE_VOID if it has none. */
uint32_t type_of(struct spex_module *module, Dwarf_Die *die);
const struct type *type_get(const struct spex_module *module, uint32_t number);
/* What a pointer points to, or an array holds. */
uint32_t type_target(struct spex_module *module, uint32_t number);
/*
 * The type of an array's elements, for any number of dimensions; of other types, the type itself.
 */
uint32_t type_element(struct spex_module *module, uint32_t number);
const char *type_name(struct spex_module *module, uint32_t number);
/*
 * False: the type has nothing at this offset. bytes: the size of the access, for unions and bit
 * fields.
 */
bool type_part(struct spex_module *module, uint32_t number, uint64_t offset, unsigned bytes,
               struct type_part *part);
/* Only the type of the data at an offset; TYPE_NONE if it is not known. */
uint32_t type_leaf(struct spex_module *module, uint32_t number, uint64_t offset, unsigned bytes);
/* Is its last member an array without a number of elements? */
bool type_is_open(struct spex_module *module, uint32_t number);

/* ---- functions and variables of a compilation unit (variables.c) ---- */

struct type_variable { /* a variable with a fixed address */
    uint64_t address;
    Dwarf_Die die;
};

/* One location of a variable, valid in code from low up to high. */
struct type_location {
    uint64_t low, high;
    enum {
        AT_REGISTER, /* address is the register plus offset */
        AT_STACK,    /* address is the register plus offset; STEP_NONE: the CFA plus offset */
        AT_POINTER,  /* like AT_STACK, for a register other than SP and FP */
    } how;
    uint8_t reg;
    int64_t offset;
    uint32_t type;
    const char *name;
};

struct type_call { /* a call that returns to address */
    uint64_t address;
    uint32_t type;
    bool never; /* never returns */
};

/* What DWARF says about one function. */
struct type_function {
    uint64_t low, high; /* the part of it that was asked for */
    uint64_t entry;
    uint8_t frame; /* register that DW_OP_fbreg counts from; STEP_NONE: the CFA */
    struct type_location *locations;
    size_t location_count, location_capacity;
    struct type_call *calls; /* ordered by address */
    size_t call_count, call_capacity;
};

/* The code range of the function at pc; false if DWARF has none there. die: the function. */
bool unit_function(struct spex_module *module, uint64_t pc, uint64_t *low, uint64_t *high,
                   Dwarf_Die *die);
/* Reads everything about it into a zeroed struct; the caller calls the fini function. */
void function_read(struct spex_module *module, uint64_t low, uint64_t high, Dwarf_Die *die,
                   struct type_function *function);
void function_fini(struct type_function *function);
/* The return type of the function that begins at address; TYPE_NONE: not known. */
uint32_t function_returns(struct spex_module *module, uint64_t address);

/* The variable at address; near: prefer the unit with code at this address. */
const struct type_variable *variable_at(struct spex_module *module, uint64_t near,
                                        uint64_t address);
/* A variable by name, in the unit with code at near. */
bool variable_named(struct spex_module *module, uint64_t near, const char *name, Dwarf_Die *die);
/*
 * A thread-local variable, by its position in the module's block of each thread; offset: within it.
 */
bool variable_of_thread(struct spex_module *module, uint64_t near, uint64_t place, Dwarf_Die *die,
                        uint64_t *offset);
/* The complete type that is declared elsewhere by this name; false if there is none. */
bool type_complete(struct spex_module *module, const char *name, int tag, Dwarf_Die *die);

/* ---- what instructions use (flow.c) ---- */

enum access_kind {
    ACCESS_TYPE,     /* data of a known type, at an offset */
    ACCESS_NO_DWARF, /* the reasons why no type is known */
    ACCESS_NO_LOCATION,
    ACCESS_NO_POINTER,
    ACCESS_NO_MEMBER,
    ACCESS_NO_VARIABLE,
    ACCESS_NO_OPERAND,
    ACCESS_ADDRESS, /* offset is an address in the code itself */
};

struct access {
    uint32_t code; /* bytes from the beginning of the range */
    uint32_t type;
    int64_t offset;
    const char *variable; /* NULL: reached through a pointer */
    uint8_t kind;         /* enum access_kind */
    uint8_t bytes;
};

struct type_code { /* what is known of one range of code */
    uint64_t low, high;
    struct access *accesses;
    size_t count, capacity;
    struct type_code *next;
};

/* Finds all accesses in a function's range. */
void flow_run(struct spex_module *module, const struct type_function *function,
              struct type_code *code);

struct type_unit;
struct type_index;
enum {
    CODES = 1024,
    WORK_FUNCTION = 20000000, /* members and variables looked at for one function */
    WORK_MODULE = 500000000,  /* members and variables looked at for one module */
};

/* Everything known about a module's types. */
struct module_types {
    struct type *types;
    size_t count, capacity;
    uint32_t *by_die; /* number of the type */
    size_t mask;
    struct type_unit *units; /* the units looked up so far */
    struct type_index *index;
    struct thread_symbol *threads; /* thread-local data */
    size_t thread_count;
    bool tried_threads;
    struct type_code *codes[CODES]; /* hash table, keyed by where the code begins */
    Dwarf_CFI *frames;              /* CFI of the image; libdw owns that of .debug_frame */
    bool tried_frames;
    unsigned depth;                /* nesting depth of the look-up */
    struct type_function function; /* the function being followed */
    struct type_leaf {             /* answers of type_leaf */
        uint64_t offset;
        uint32_t type, bytes, leaf;
    } * leaves;
    /*
     * Damaged DWARF may ask for any amount of work: how much was done, how much is allowed, and how
     * much was done to follow functions.
     */
    uint64_t work, work_most, followed;
};
/* The CFA at an address, from the unwind tables: a register plus offset. unwind.c */
bool unwind_cfa(struct spex_module *module, uint64_t address, unsigned *reg, int64_t *offset);

/* NULL for a module without DWARF. */
struct module_types *types_load(struct spex_module *module);

/* ---- the answer (data_types.c) ---- */

/*
 * What the instruction at a code address accesses. data: the module with the data's address, NULL
 * if that is not in a file; address: the address in it.
 */
const struct spex_member *data_member_of(struct spex_symbols *symbols, struct spex_module *code,
                                         uint64_t pc, struct spex_module *data, uint64_t address);
void type_names_free(struct spex_symbols *symbols);
void types_free(struct spex_module *module);

#endif
