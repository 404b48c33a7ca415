/* Finding the files of a module: the one that ran, and those with its symbols and DWARF. */
#include "module.h"

#include "base/bits.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest files that are read: a kernel with its debug information has half a gigabyte. */
#define ELF_MOST (UINT64_C(16) << 30)

void elf_close(struct module_elf *file)
{
    if (file->elf)
        elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    *file = (struct module_elf){.fd = -1};
}

static size_t elf_build_id(Elf *elf, uint8_t *id, size_t capacity)
{
    size_t headers;
    if (elf_getphdrnum(elf, &headers))
        return 0;
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
                                              ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        size_t at = 0, name, desc;
        GElf_Nhdr note;
        while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0)
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp((char *)data->d_buf + name, "GNU", 4) && note.n_descsz <= capacity) {
                memcpy(id, (char *)data->d_buf + desc, note.n_descsz);
                return note.n_descsz;
            }
    }
    /* separate debug files keep the note as a section only */
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_NOTE)
            continue;
        Elf_Data *data = elf_getdata(scn, NULL);
        size_t at = 0, name, desc;
        GElf_Nhdr note;
        while (data && data->d_buf && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0)
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp((char *)data->d_buf + name, "GNU", 4) && note.n_descsz <= capacity) {
                memcpy(id, (char *)data->d_buf + desc, note.n_descsz);
                return note.n_descsz;
            }
    }
    return 0;
}

/* An ELF file for AArch64, with this build id unless id_size is 0. */
static enum open_result open_build(const char *path, const uint8_t *build_id, size_t id_size,
                                   struct module_elf *file)
{
    struct module_elf f = {.fd = file_open_named(path, ELF_MOST, FILE_ANY_OWNER)};
    enum open_result result = OPEN_OK;
    if (f.fd < 0) {
        return errno == EINVAL || errno == EFBIG     ? OPEN_NOT_FILE
               : errno == ENOENT || errno == ENOTDIR ? OPEN_MISSING
                                                     : OPEN_REFUSED;
    } else if (!(f.elf = elf_begin(f.fd, ELF_C_READ_MMAP, NULL)) || elf_kind(f.elf) != ELF_K_ELF) {
        result = OPEN_NOT_ELF;
    } else {
        GElf_Ehdr header;
        uint8_t id[64];
        if (!gelf_getehdr(f.elf, &header) || header.e_machine != EM_AARCH64)
            result = OPEN_NOT_ARM;
        else if (id_size &&
                 (elf_build_id(f.elf, id, sizeof id) != id_size || memcmp(id, build_id, id_size)))
            result = OPEN_OTHER_BUILD;
    }
    if (result) {
        elf_close(&f);
    } else {
        *file = f; /* its owner closes it, even if there is no memory for the path */
        file->path = memory_copy(path);
    }
    return result;
}

enum open_result module_open_elf(const struct spex_module *module, const char *path,
                                 struct module_elf *file)
{
    return open_build(path, module->build_id, module->build_id_size, file);
}

const char *open_advice(int reason)
{
    return reason == EACCES || reason == EPERM ? "; let it be read, or give a copy with --symfs DIR"
           : reason == EMFILE || reason == ENFILE ? "; allow more open files (ulimit -n)"
                                                  : "";
}

static void hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

/* "DIR/.build-id/ab/cdef" + tail, the layout that perf and gdb share. */
static const char *id_path(const uint8_t *build_id, size_t size, const char *dir, const char *tail,
                           char *path)
{
    char id[129] = "";
    if (size < 2 || size > 64)
        return NULL;
    hex(build_id, size, id);
    int n = snprintf(path, PATH_MAX, "%s/.build-id/%.2s/%s%s", dir, id, id + 2, tail);
    return n > 0 && n < PATH_MAX ? path : NULL;
}

const char *module_id_path(const struct spex_module *module, const char *dir, const char *tail,
                           char *path)
{
    return id_path(module->build_id, module->build_id_size, dir, tail, path);
}

/*
 * The file that a debug file shares DWARF with others in (dwz): a name, relative to that of the
 * debug file, or below .build-id.
 */
bool module_open_alternate(struct spex_module *module, const char *from, const char *name,
                           const uint8_t *id, size_t id_size)
{
    char path[PATH_MAX];
    const char *slash = strrchr(from, '/');
    int dir = name[0] == '/' || !slash ? 0 : (int)(slash - from + 1);
    int n = snprintf(path, sizeof path, "%.*s%s", dir, from, name);
    return (n < PATH_MAX && !open_build(path, id, id_size, &module->alternate)) ||
           (id_path(id, id_size, module->owner->options.debug_dir, ".debug", path) &&
            !open_build(path, id, id_size, &module->alternate));
}

bool elf_has_section(Elf *elf, unsigned type, const char *name)
{
    size_t names;
    if (!elf || elf_getshdrstrndx(elf, &names))
        return false;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        const char *text;
        if (gelf_getshdr(scn, &sh) && sh.sh_type == type &&
            (text = elf_strptr(elf, names, sh.sh_name)) && !strcmp(text, name))
            return true;
    }
    return false;
}

static uint32_t file_crc(int fd)
{
    uint32_t crc = ~0u;
    uint8_t block[16384];
    ssize_t n;
    off_t at = 0;
    while ((n = pread(fd, block, sizeof block, at)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            crc ^= block[i];
            for (int bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        at += n;
    }
    return ~crc;
}

/* .gnu_debuglink: beside the file, in .debug, or below the debug directory. */
static void open_debuglink(struct spex_module *module, const char *image_path)
{
    size_t names;
    if (elf_getshdrstrndx(module->image.elf, &names))
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(module->image.elf, scn));) {
        GElf_Shdr sh;
        const char *name;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &sh) || !(name = elf_strptr(module->image.elf, names, sh.sh_name)) ||
            strcmp(name, ".gnu_debuglink") || !(data = elf_rawdata(scn, NULL)) || !data->d_buf)
            continue;
        const char *link = data->d_buf;
        size_t length = strnlen(link, data->d_size), crc_at = (length + 4) & ~(size_t)3;
        if (crc_at + 4 > data->d_size || strchr(link, '/'))
            return;
        uint32_t crc = le32(link + crc_at);
        const char *slash = strrchr(image_path, '/');
        int dir = slash ? (int)(slash - image_path) : 0;
        for (size_t i = 0; i < 3; i++) {
            char path[PATH_MAX];
            int n;
            if (i == 0)
                n = snprintf(path, sizeof path, "%.*s/%s", dir, image_path, link);
            else if (i == 1)
                n = snprintf(path, sizeof path, "%.*s/.debug/%s", dir, image_path, link);
            else
                n = snprintf(path, sizeof path, "%s%.*s/%s", module->owner->options.debug_dir, dir,
                             image_path, link);
            if (n >= (int)sizeof path || module_open_elf(module, path, &module->debug))
                continue;
            if (module->build_id_size || file_crc(module->debug.fd) == crc)
                return;
            module_problem(module, "%s: its separate debug file %s belongs to another build",
                           module->name, path);
            elf_close(&module->debug);
        }
    }
}

void module_open_files(struct spex_module *module)
{
    const struct spex_symbols_options *o = &module->owner->options;
    char path[PATH_MAX], seen[PATH_MAX] = "";
    enum open_result why = OPEN_MISSING;
    int reason = 0;
    const char *candidates[4];
    char symfs[PATH_MAX], cache[PATH_MAX], cache_file[PATH_MAX];
    size_t count = 0;
    if (o->symfs) {
        if (snprintf(symfs, sizeof symfs, "%s%s%s", o->symfs, module->path[0] == '/' ? "" : "/",
                     module->path) < (int)sizeof symfs)
            candidates[count++] = symfs;
    }
    bool vdso = starts_with(module->path, "[vdso");
    if (module_id_path(module, o->build_id_dir, vdso ? "/vdso" : "/elf", cache))
        candidates[count++] = cache;
    if (module_id_path(module, o->build_id_dir, "", cache_file))
        candidates[count++] = cache_file;
    if (!o->symfs && !vdso)
        candidates[count++] = module->path;
    for (size_t i = 0; i < count && !module->image.elf; i++) {
        enum open_result r = module_open_elf(module, candidates[i], &module->image);
        if (r == OPEN_OK || r > why) {
            why = r;
            reason = errno;
            snprintf(seen, sizeof seen, "%s", candidates[i]);
        }
    }
    /* symbols and DWARF may live elsewhere */
    Elf *elf = module->image.elf;
    if (!elf_has_section(elf, SHT_SYMTAB, ".symtab") ||
        !elf_has_section(elf, SHT_PROGBITS, ".debug_info")) {
        if (!(module_id_path(module, o->debug_dir, ".debug", path) &&
              !module_open_elf(module, path, &module->debug)) &&
            !(module_id_path(module, o->build_id_dir, "/debug", path) &&
              !module_open_elf(module, path, &module->debug)) &&
            elf)
            open_debuglink(module, seen);
    }
    if (elf || module->debug.elf || vdso)
        return;
    char id[129] = "";
    hex(module->build_id, module->build_id_size, id);
    switch (why) {
    case OPEN_REFUSED:
        module_problem(module, "%s: %s cannot be opened: %s%s", module->name, seen,
                       strerror(reason), open_advice(reason));
        break;
    case OPEN_NOT_FILE:
        module_problem(module, "%s: %s is no regular file (or larger than 16 GB), and not opened",
                       module->name, seen);
        break;
    case OPEN_NOT_ELF:
        module_problem(module, "%s: %s is not an ELF file", module->name, seen);
        break;
    case OPEN_NOT_ARM:
        module_problem(module,
                       "%s: %s is not for AArch64; copy the file from the machine that "
                       "was profiled and give its root with --symfs DIR",
                       module->name, seen);
        break;
    case OPEN_OTHER_BUILD:
        module_problem(module,
                       "%s: %s is another build (the profile ran build id %s); give the "
                       "matching file with --symfs DIR",
                       module->name, seen, id);
        break;
    default:
        module_problem(module,
                       "%s: no such file here%s%s; copy it from the machine that was "
                       "profiled and give its root with --symfs DIR",
                       module->path, *id ? ", build id " : "", id);
    }
}
