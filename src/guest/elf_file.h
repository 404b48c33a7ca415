/* The parts of an ELF file needed to start a program and to name its mappings. */
#ifndef GUEST_ELF_FILE_H
#define GUEST_ELF_FILE_H

#include <spex/base.h>

#include <elf.h>

struct elf_segment { /* PT_LOAD */
    uint64_t vaddr, offset, file_size, memory_size;
    uint32_t prot; /* PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4 */
};

enum { ELF_SEGMENTS = 16 };

struct elf {
    unsigned machine;              /* e_machine: EM_AARCH64, ... */
    bool is64, little, executable; /* ET_EXEC or ET_DYN */
    uint64_t entry;
    struct elf_segment segment[ELF_SEGMENTS];
    unsigned segments;
    char interpreter[256]; /* PT_INTERP or empty */
    uint8_t build_id[20];
    unsigned build_id_size;
};

/*
 * SPEX_IO with errno; SPEX_INVALID if it is not an ELF file. Reads only the header if it is not
 * 64-bit little-endian.
 */
enum spex_status elf_read(const char *path, struct elf *elf);

/* The linked address of a function, from either symbol table; false if there is none. */
bool elf_function(const char *path, const char *name, uint64_t *address);

/* Calls `one` for each function defined in the file, from both tables, until it returns false. */
void elf_functions(const char *path, bool (*one)(void *context, const char *name, uint64_t address),
                   void *context);

/* "x86-64", "32-bit Arm" ... for messages. */
const char *elf_machine_name(const struct elf *elf);

#endif
