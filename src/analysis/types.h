/*
 * Types of data, from DWARF: which type and member an access is of.
 *
 * A variable with a fixed address is known by the address of the data. For the rest, what the
 * registers of the code point to is followed through each function (flow.c), beginning with the
 * variables that DWARF says are in them (variables.c). All of it is made on first use.
 */
#ifndef ANALYSIS_TYPES_H
#define ANALYSIS_TYPES_H

#include "module.h"

/* ---- types of one module (types.c) ---- */

enum { TYPE_NONE, TYPE_VOID, TYPE_FIRST }; /* numbers; 0: not known */

enum type_kind {
    KIND_SCALAR,
    KIND_POINTER,
    KIND_ARRAY,
    KIND_STRUCT, /* and classes */
    KIND_UNION,
};

struct type {
    Dwarf_Die die; /* without typedef, const and the like */
    enum type_kind kind;
    uint64_t size;     /* 0: not known */
    uint32_t target;   /* target of a pointer or array; TYPE_NONE: not looked up yet */
    const char *alias; /* the typedef that names it */
    const char *name;  /* name as shown; NULL: not made yet */
};

/* Where data lies in a type, and what it is. */
struct type_part {
    char path[256];        /* "next", "a.b[].c", "" for a scalar */
    uint64_t offset, size; /* extent of the member; inside an array, of the whole array */
    uint32_t leaf;         /* type of what is there; TYPE_NONE: several */
};

/* The number of the type that DW_AT_type of a DIE names; TYPE_VOID without one. */
uint32_t type_of(struct spex_module *module, Dwarf_Die *die);
const struct type *type_get(const struct spex_module *module, uint32_t number);
/* What a pointer points to, or an array is of. */
uint32_t type_target(struct spex_module *module, uint32_t number);
/* An array's elements, of any dimension; others: itself. */
uint32_t type_element(struct spex_module *module, uint32_t number);
const char *type_name(struct spex_module *module, uint32_t number);
/* False: the type has nothing there. bytes: how much is accessed, for unions and bit fields. */
bool type_part(struct spex_module *module, uint32_t number, uint64_t offset, unsigned bytes,
               struct type_part *part);
/* The type of what is there alone, TYPE_NONE if that is not known. */
uint32_t type_leaf(struct spex_module *module, uint32_t number, uint64_t offset, unsigned bytes);
/* Whether its last member is an array without a number of elements. */
bool type_is_open(struct spex_module *module, uint32_t number);

/* ---- what a compilation unit has (variables.c) ---- */

struct type_variable { /* a variable with a fixed address */
    uint64_t address;
    Dwarf_Die die;
};

/* One location of a variable, while the code is in [low, high). */
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
    uint64_t low, high; /* the range of it that was asked for */
    uint64_t entry;
    uint8_t frame; /* register that DW_OP_fbreg counts from; STEP_NONE: the CFA */
    struct type_location *locations;
    size_t location_count, location_capacity;
    struct type_call *calls; /* ordered by address */
    size_t call_count, call_capacity;
};

/* The code range of a function at pc; false if DWARF has none there. die: the function. */
bool unit_function(struct spex_module *module, uint64_t pc, uint64_t *low, uint64_t *high,
                   Dwarf_Die *die);
/* Everything about it; the caller gives a function that is zero, and fini. */
void function_read(struct spex_module *module, uint64_t low, uint64_t high, Dwarf_Die *die,
                   struct type_function *function);
void function_fini(struct type_function *function);
/* What the function that begins at address returns; TYPE_NONE: not known. */
uint32_t function_returns(struct spex_module *module, uint64_t address);

/* The variable at address; near: of the unit whose code is at this address, if it is there. */
const struct type_variable *variable_at(struct spex_module *module, uint64_t near,
                                        uint64_t address);
/* A variable of the unit whose code is at near, by name. */
bool variable_named(struct spex_module *module, uint64_t near, const char *name, Dwarf_Die *die);
/* A thread-local one, by its place in the module's block of each thread; offset: in it. */
bool variable_of_thread(struct spex_module *module, uint64_t near, uint64_t place, Dwarf_Die *die,
                        uint64_t *offset);
/* The complete type that is declared under a name somewhere; false if there is none. */
bool type_complete(struct spex_module *module, const char *name, int tag, Dwarf_Die *die);

/* ---- what instructions use (flow.c) ---- */

enum access_kind {
    ACCESS_TYPE,     /* data of the type, at an offset */
    ACCESS_NO_DWARF, /* the reasons why none is known */
    ACCESS_NO_LOCATION,
    ACCESS_NO_POINTER,
    ACCESS_NO_MEMBER,
    ACCESS_NO_VARIABLE,
    ACCESS_NO_OPERAND,
    ACCESS_ADDRESS, /* offset is an address in the code itself */
};

struct access {
    uint32_t code; /* bytes from the begin of the range */
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

/* All accesses of a function's range. */
void flow_run(struct spex_module *module, const struct type_function *function,
              struct type_code *code);

struct type_unit;
struct type_index;
enum {
    CODES = 1024,
    WORK_FUNCTION = 20000000, /* members and variables looked at for one function */
    WORK_MODULE = 500000000,  /* members and variables looked at for one module */
};

/* All that is known of a module's types. */
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
    struct type_function function; /* the one that is followed */
    struct type_leaf {             /* answers of type_leaf */
        uint64_t offset;
        uint32_t type, bytes, leaf;
    } * leaves;
    /*
     * Damaged DWARF may ask for any amount of work: how much was done, how much may be, and how
     * much of it was to follow functions.
     */
    uint64_t work, work_most, followed;
};
/* The CFA at an address as the unwind tables have it: a register plus offset. unwind.c */
bool unwind_cfa(struct spex_module *module, uint64_t address, unsigned *reg, int64_t *offset);

/* For a module with DWARF; NULL without. */
struct module_types *types_load(struct spex_module *module);

/* ---- the answer (data_types.c) ---- */

/* Equal ones are the same pointer. */
struct data_member {
    const char *type;   /* the name, or the reason why it is not known, in brackets */
    const char *member; /* path of the member; for a scalar variable its name; or "" */
    uint64_t offset, size, type_size;
    bool known;
    bool scalar; /* member is the name of a variable */
    struct data_member *next;
};

/*
 * What an instruction at a code address accesses. data: the module of the data's address, NULL if
 * that is not in a file; address: the address there.
 */
const struct data_member *data_member_of(struct spex_symbols *symbols, struct spex_module *code,
                                         uint64_t pc, struct spex_module *data, uint64_t address);
void type_names_free(struct spex_symbols *symbols);
void types_free(struct spex_module *module);

#endif
