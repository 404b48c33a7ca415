/*
 * Allocations of the guest (--allocs). The functions of allocators.def are found in the symbols of
 * loaded files. Their arguments are read at the entry, their result at the return, and heap.h keeps
 * which memory belongs to which allocation. When allocator functions call each other, only the
 * outermost counts: memory that operator new gets from malloc belongs to the caller of operator
 * new.
 *
 * An allocation's site is the address that the function returns to, and with --stacks the callers'
 * return addresses as well.
 */
#ifndef GUEST_ALLOCS_H
#define GUEST_ALLOCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;

enum allocs_kind {
    ALLOCS_NONE,
    ALLOCS_SIZE,          /* (size, ...) */
    ALLOCS_PRODUCT,       /* (count, size) */
    ALLOCS_AGAIN,         /* (pointer, size, ...) */
    ALLOCS_AGAIN_PRODUCT, /* (pointer, count, size) */
    ALLOCS_ALIGNED,       /* (alignment, size) */
    ALLOCS_STORED,        /* (place for the pointer, alignment, size); returns 0 if it is there */
    ALLOCS_MAP,           /* (address, size, prot, flags, ...) */
    ALLOCS_REMAP,         /* (address, size, new size, ...) */
    ALLOCS_FREE,          /* (pointer, ...) */
    ALLOCS_UNMAP,         /* (address, size) */
    ALLOCS_LEAVE,
};

/* The allocator function that a thread is in; back is 0 if it is in none. */
struct allocs_call {
    uint64_t back, sp; /* return address, and the stack pointer there */
    uint64_t pointer, size, flags;
    enum allocs_kind kind;
};

void allocs_open(void);
/* A file is mapped as code; or the program and its dynamic linker, which QEMU has loaded. */
void allocs_mapped(const char *path, uint64_t address, uint64_t size, uint64_t offset);
void allocs_program(const char *path, uint64_t start_code, uint64_t entry);

/* Kind of the allocator function that begins at pc, or ALLOCS_NONE. */
enum allocs_kind allocs_at(uint64_t pc);
/* May a call return to this address? */
bool allocs_after_call(uint64_t pc);
/* Callbacks at the entry of such a block, called before its own. data: the kind; the address. */
void allocs_entered(unsigned vcpu, void *data);
void allocs_back(unsigned vcpu, void *data);

/* Number of changes so far, for allocs_look(). */
uint64_t allocs_time(void);
/* Finds the block that the operation followed by v accessed, at a time. */
void allocs_look(struct vcpu *v, uint64_t address, uint64_t time);

/* Called before and after a fork. */
void allocs_before_fork(void);
void allocs_after_fork(void);

#endif
