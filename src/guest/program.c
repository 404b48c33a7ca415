#include "program.h"

#include "elf_file.h"
#include "qemu_plugin.h"
#include "regs.h"

#include <stdlib.h>
#include <string.h>

enum { /* types of entries */
       AUX_ENTRY = 9,
       AUX_HWCAP = 16,
       AUX_HWCAP2 = 26,
       AUX_EXECFN = 31,
       AUX_VDSO = 33,
       AUX_TYPES = 64,
       HWCAP_SVE_BIT = 22,
       HWCAP2_SME_BIT = 23,
};

static bool read_vector(uint64_t sp, uint64_t value[AUX_TYPES])
{
    enum { WORDS = 1 << 20 };
    uint64_t word[2];
    unsigned zeros = 0;
    for (unsigned i = 1; i < WORDS && zeros < 2; i++) { /* argc, argv, environment */
        if (!regs_memory(sp + 8 * i, word, 8))
            return false;
        zeros += !word[0];
        if (zeros == 2)
            sp += 8 * (i + 1);
    }
    for (unsigned i = 0; i < AUX_TYPES; i++, sp += 16) {
        if (!regs_memory(sp, word, 16))
            return false;
        if (!word[0])
            return true;
        if (word[0] < AUX_TYPES)
            value[word[0]] = word[1];
    }
    return true;
}

static void set_path(struct program *p, const char *path)
{
    if (!path || !realpath(path, p->path))
        p->path[0] = '\0';
}

static void read_path(struct program *p, uint64_t address)
{
    char path[PATH_MAX] = "";
    for (unsigned n = 0; address && n + 1 < sizeof path; n++)
        if (!regs_memory(address + n, &path[n], 1) || !path[n])
            break;
    path[sizeof path - 1] = '\0';
    set_path(p, *path ? path : NULL);
}

/* Finds its code from the entry point, which both the file and the loader give. */
static void find_code(struct program *p, uint64_t entry)
{
    struct elf elf;
    if (!p->path[0] || elf_read(p->path, &elf))
        return;
    for (unsigned i = 0; i < elf.segments; i++) {
        const struct elf_segment *s = &elf.segment[i];
        if (!(s->prot & 4))
            continue;
        uint64_t at = s->vaddr + entry - elf.entry;
        p->start = !p->start || at < p->start ? at : p->start;
        p->end = at + s->file_size > p->end ? at + s->file_size : p->end;
    }
}

void program_find(struct program *p, uint64_t pc, uint64_t sp, bool registers)
{
    uint64_t value[AUX_TYPES] = {0};
    *p = (struct program){.entry = pc};
    if (registers && read_vector(sp, value)) {
        p->vdso = value[AUX_VDSO];
        p->sve = value[AUX_HWCAP] >> HWCAP_SVE_BIT & 1;
        p->sme = value[AUX_HWCAP2] >> HWCAP2_SME_BIT & 1;
    }
    if (qemu_plugin_path_to_binary) { /* QEMU 10.0 removed these functions */
        set_path(p, qemu_plugin_path_to_binary());
        p->start = qemu_plugin_start_code();
        p->end = qemu_plugin_end_code();
        p->entry = qemu_plugin_entry_code();
        return;
    }
    read_path(p, value[AUX_EXECFN]);
    find_code(p, value[AUX_ENTRY]);
}
