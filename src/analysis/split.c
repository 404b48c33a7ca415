/*
 * Split DWARF: the part of a unit that is in a .dwo file. libdw opens that file by name, so first
 * every path where it looks must have no file, or a regular one that memory allows.
 */
#include "module.h"

#include "base/memory.h"

#include <dwarf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if path does not exist or is safe to read. */
static bool harmless(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return true;
    bool ok = !fstat(fd, &st) && S_ISREG(st.st_mode);
    Elf *elf = ok ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
    uint64_t size = elf ? lines_inflated(elf) : 0;
    elf_end(elf);
    close(fd);
    return ok && size < SIZE_MAX / 2 && memory_allows((size_t)size);
}

static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr(die, name, &attribute));
}

static bool may_open(struct spex_module *module, const char *name, const char *dir)
{
    char path[PATH_MAX], *own;
    const char *from = module->debug.elf ? module->debug.path : module->image.path;
    if (name[0] == '/')
        return harmless(name);
    if (dir && snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX && !harmless(path))
        return false;
    own = from ? realpath(from, NULL) : NULL;
    char *slash = own ? strrchr(own, '/') : NULL;
    int length = slash ? (int)(slash - own) : 0;
    bool ok =
        own && snprintf(path, sizeof path, "%.*s/%s", length, own, name) < PATH_MAX &&
        harmless(path) &&
        (!dir || (snprintf(path, sizeof path, "%.*s/%s/%s", length, own, dir, name) < PATH_MAX &&
                  harmless(path)));
    free(own);
    return ok;
}

void split_unit(struct spex_module *module, Dwarf_Die *unit)
{
    Dwarf_Die whole;
    uint8_t kind;
    const char *name = text_of(unit, DW_AT_dwo_name);
    name = name ? name : text_of(unit, DW_AT_GNU_dwo_name);
    if (!name || !may_open(module, name, text_of(unit, DW_AT_comp_dir)))
        return;
    if (!dwarf_cu_info(unit->cu, NULL, &kind, NULL, &whole, NULL, NULL, NULL) &&
        kind == DW_UT_skeleton && dwarf_tag(&whole) > 0)
        *unit = whole;
}
