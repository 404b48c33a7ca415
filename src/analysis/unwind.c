/*
 * Functions of a stripped file from its unwind tables (LSB Core 10.6): their addresses from the
 * search table of .eh_frame_hdr, their sizes from .eh_frame.
 */
#include "types.h"

#include "base/bits.h"

#include <dwarf.h>
#include <stdlib.h>

enum { SDATA4_PCREL = 0x1b, UDATA4 = 0x03, SDATA4_DATAREL = 0x3b };

struct frames { /* .eh_frame as loaded */
    const uint8_t *data;
    size_t size;
    uint64_t address;
};

static struct frames find_frames(Elf *elf)
{
    GElf_Shdr header;
    Elf_Scn *scn = elf_section(elf, ".eh_frame", &header);
    Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
    return data && data->d_buf ? (struct frames){data->d_buf, data->d_size, header.sh_addr}
                               : (struct frames){0};
}

/*
 * How many bytes of code the entry at address covers; 0 if not known. An entry has a length, the
 * distance to its CIE, then start and size in the 4-byte form that compilers write for AArch64.
 */
static uint64_t size_of(const struct frames *frames, uint64_t address, uint64_t start)
{
    uint64_t at = address - frames->address;
    if (address < frames->address || frames->size < 16 || at > frames->size - 16)
        return 0;
    const uint8_t *p = frames->data + at;
    uint32_t length = le32(p), size = le32(p + 12);
    bool same = address + 8 + (uint64_t)(int64_t)(int32_t)le32(p + 8) == start;
    return length >= 12 && length != UINT32_MAX && same ? size : 0;
}

size_t unwind_symbols(Elf *elf, struct module_table *table)
{
    size_t headers, added = 0;
    GElf_Shdr plt;
    if (!elf || elf_getphdrnum(elf, &headers))
        return 0;
    if (!elf_section(elf, ".plt", &plt))
        plt = (GElf_Shdr){0};
    const struct frames frames = find_frames(elf);
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        Elf_Data *data;
        if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME ||
            !(data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_BYTE)) ||
            data->d_size < 12)
            continue;
        const uint8_t *p = data->d_buf;
        if (p[0] != 1 || p[1] != SDATA4_PCREL || p[2] != UDATA4 || p[3] != SDATA4_DATAREL)
            continue;
        uint32_t count = le32(p + 8);
        for (uint32_t n = 0; n < count && 12 + 8 * ((size_t)n + 1) <= data->d_size; n++) {
            const uint8_t *row = p + 12 + 8 * (size_t)n;
            uint64_t start = ph.p_vaddr + (uint64_t)(int64_t)(int32_t)le32(row);
            uint64_t entry = ph.p_vaddr + (uint64_t)(int64_t)(int32_t)le32(row + 4);
            if (start - plt.sh_addr < plt.sh_size)
                continue; /* a single entry describes the whole PLT */
            table_add(table, start, size_of(&frames, entry, start), NULL, true, false, false);
            added++;
        }
    }
    return added;
}

bool unwind_cfa(struct spex_module *module, uint64_t address, unsigned *reg, int64_t *offset)
{
    struct module_types *t = module->types;
    Dwarf_Frame *frame = NULL;
    Dwarf_Op *ops;
    size_t count;
    if (!t->tried_frames && module->image.elf) {
        t->tried_frames = true;
        t->frames = dwarf_getcfi_elf(module->image.elf);
    }
    Dwarf_CFI *debug = dwarf_getcfi(module->dwarf);
    if ((!t->frames || dwarf_cfi_addrframe(t->frames, address, &frame)) &&
        (!debug || dwarf_cfi_addrframe(debug, address, &frame)))
        return false;
    bool found = !dwarf_frame_cfa(frame, &ops, &count) && count == 1;
    bool indexed = found && ops->atom == DW_OP_bregx;
    if (found) {
        *reg = (unsigned)(indexed ? ops->number : (uint64_t)ops->atom - DW_OP_breg0);
        *offset = (int64_t)(indexed ? ops->number2 : ops->number);
    }
    free(frame);
    return found && *offset > -(1 << 30) && *offset < 1 << 30;
}
