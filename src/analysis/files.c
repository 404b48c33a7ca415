/* Finds the files of a module: the one that ran, and those with its symbols and DWARF. */
#include "module.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest file that is read: a kernel with its debug information has half a gigabyte. */
#define ELF_MOST (UINT64_C(16) << 30)

void elf_close(struct module_elf *file)
{
    if (file->elf)
        elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    memory_free(file->path);
    *file = (struct module_elf){.fd = -1};
}

static const char *find_note(Elf_Data *data, const char *owner, unsigned type, size_t *size)
{
    size_t at = 0, name, desc;
    GElf_Nhdr note;
    while (data && data->d_buf && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0)
        if (note.n_type == type && note.n_namesz == 4 &&
            !memcmp((char *)data->d_buf + name, owner, 4)) {
            *size = note.n_descsz;
            return (char *)data->d_buf + desc;
        }
    return NULL;
}

const char *elf_note(Elf *elf, const char *owner, unsigned type, size_t *size)
{
    const char *found;
    size_t headers;
    if (elf_getphdrnum(elf, &headers))
        return NULL;
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_NOTE &&
            (found = find_note(elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
                                                    ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
                               owner, type, size)))
            return found;
    }
    /* separate debug files keep the note as a section only */
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_NOTE &&
            (found = find_note(elf_getdata(scn, NULL), owner, type, size)))
            return found;
    }
    return NULL;
}

struct module_id elf_build_id(Elf *elf)
{
    struct module_id id = {.size = 0};
    size_t size;
    const char *bytes = elf_note(elf, "GNU", NT_GNU_BUILD_ID, &size);
    if (bytes && size <= sizeof id.bytes) {
        memcpy(id.bytes, bytes, size);
        id.size = size;
    }
    return id;
}

static bool id_equal(const struct module_id *a, const struct module_id *b)
{
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

enum open_result elf_open_build(const char *path, const struct module_id *id,
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
        if (!gelf_getehdr(f.elf, &header) || header.e_machine != EM_AARCH64) {
            result = OPEN_NOT_ARM;
        } else if (id->size) {
            struct module_id own = elf_build_id(f.elf);
            result = id_equal(&own, id) ? OPEN_OK : OPEN_OTHER_BUILD;
        }
    }
    if (result) {
        elf_close(&f);
    } else {
        *file = f; /* its owner closes it, even if there is no memory for the path */
        file->path = memory_copy(path);
    }
    return result;
}

const char *open_advice(int reason, enum spex_remedy *remedy)
{
    *remedy = reason == EACCES || reason == EPERM ? SPEX_REMEDY_ACCESS : SPEX_REMEDY_NONE;
    return reason == EMFILE || reason == ENFILE ? "; allow more open files (ulimit -n)" : "";
}

static void id_text(const struct module_id *id, char text[129])
{
    text[0] = 0;
    for (size_t i = 0; i < id->size; i++)
        sprintf(text + 2 * i, "%02x", id->bytes[i]);
}

const char *id_path(const struct module_id *id, const char *dir, const char *tail, char *path)
{
    char text[129];
    if (id->size < 2 || id->size > sizeof id->bytes)
        return NULL;
    id_text(id, text);
    int n = snprintf(path, PATH_MAX, "%s/.build-id/%.2s/%s%s", dir, text, text + 2, tail);
    return n > 0 && n < PATH_MAX ? path : NULL;
}

Elf_Scn *elf_section(Elf *elf, const char *name, GElf_Shdr *header)
{
    size_t names;
    GElf_Shdr sh;
    if (!elf || elf_getshdrstrndx(elf, &names))
        return NULL;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        const char *text;
        if (gelf_getshdr(scn, &sh) && sh.sh_type != SHT_NOBITS &&
            (text = elf_strptr(elf, names, sh.sh_name)) && !strcmp(text, name)) {
            if (header)
                *header = sh;
            return scn;
        }
    }
    return NULL;
}

/* ---- the file that ran ---- */

struct search { /* why the file could not be opened */
    enum open_result why;
    int reason;
    char seen[PATH_MAX];
};

static bool try_image(struct spex_module *module, const char *path, struct search *search)
{
    enum open_result r = elf_open_build(path, &module->recorded, &module->image);
    if (r > search->why) {
        search->why = r;
        search->reason = errno;
        snprintf(search->seen, sizeof search->seen, "%s", path);
    }
    return r == OPEN_OK;
}

/* Beside the profile: in an archive, or in the folder that a guest saw as /host. */
static bool open_beside(struct spex_module *module, struct search *search)
{
    const char *dir = module->owner->options.beside, *debug = module->owner->beside_debug;
    char path[PATH_MAX];
    if (!dir)
        return false;
    if (id_path(&module->recorded, debug, "/elf", path) && try_image(module, path, search))
        return true;
    if (module->path[0] == '/' &&
        snprintf(path, sizeof path, "%s/root%s", debug, module->path) < PATH_MAX &&
        try_image(module, path, search))
        return true;
    return starts_with(module->path, "/host/") &&
           snprintf(path, sizeof path, "%s/%s", dir, module->path + 6) < PATH_MAX &&
           try_image(module, path, search);
}

/* In a container that is still running. */
static bool open_in_space(struct spex_module *module, struct search *search)
{
    char root[SPACE_ROOT];
    if (module->path[0] != '/' || !space_root(module->owner, &module->space, module->pid, root))
        return false;
    enum open_result r = space_open(root, module->path, &module->recorded, &module->image);
    if (r > search->why) {
        search->why = r;
        search->reason = errno;
        snprintf(search->seen, sizeof search->seen, "%s%s", root, module->path);
    }
    return r == OPEN_OK;
}

/*
 * Below --symfs, in perf's cache, then where it was recorded. With --symfs, the recorded path
 * counts only if the file has the same build id, or is itself below --symfs, which was then the
 * sysroot.
 */
static bool open_image(struct spex_module *module, struct search *search)
{
    const struct spex_symbols_options *o = &module->owner->options;
    bool vdso = starts_with(module->path, "[vdso");
    char path[PATH_MAX];
    if (open_beside(module, search))
        return true;
    if (o->symfs &&
        snprintf(path, sizeof path, "%s%s%s", o->symfs, module->path[0] == '/' ? "" : "/",
                 module->path) < PATH_MAX &&
        try_image(module, path, search))
        return true;
    if (id_path(&module->recorded, o->build_id_dir, vdso ? "/vdso" : "/elf", path) &&
        try_image(module, path, search))
        return true;
    if (id_path(&module->recorded, o->build_id_dir, "", path) && try_image(module, path, search))
        return true;
    if (vdso)
        return false;
    if (module->space.inode && open_in_space(module, search))
        return true;
    if ((!o->symfs || module->recorded.size || starts_with(module->path, o->symfs)) &&
        try_image(module, module->path, search))
        return true;
    char *fetched = debuginfod_fetch(module, &module->recorded, DEBUGINFOD_EXECUTABLE);
    bool ok = fetched && try_image(module, fetched, search);
    free(fetched);
    return ok;
}

void module_open_files(struct spex_module *module)
{
    struct search search = {.why = OPEN_MISSING};
    open_image(module, &search);
    Elf *elf = module->image.elf;
    module->found = elf ? elf_build_id(elf) : module->recorded;
    /* symbols and DWARF may live elsewhere */
    bool symbols = elf_section(elf, ".symtab", NULL);
    if ((!symbols || !elf_section(elf, ".debug_info", NULL)) && !module_open_debug(module) &&
        !symbols)
        module_fetch_debug(module);
    if (elf || module->debug.elf || starts_with(module->path, "[vdso"))
        return;
    const char *seen = search.seen, *advice;
    enum spex_remedy remedy = SPEX_REMEDY_NONE;
    bool told = false;
    char id[129];
    id_text(&module->recorded, id);
    switch (search.why) {
    case OPEN_REFUSED:
        advice = open_advice(search.reason, &remedy);
        told = module_problem(module, "%s: %s cannot be opened: %s%s", module->name, seen,
                              strerror(search.reason), advice);
        break;
    case OPEN_NOT_FILE:
        module_problem(module,
                       "%s: %s is not a regular file, or larger than 16 GB: it was not opened",
                       module->name, seen);
        break;
    case OPEN_NOT_ELF:
        module_problem(module, "%s: %s is not an ELF file", module->name, seen);
        break;
    case OPEN_NOT_ARM:
        remedy = SPEX_REMEDY_ARM;
        told = module_problem(module, "%s: %s is not for AArch64", module->name, seen);
        break;
    case OPEN_OTHER_BUILD:
        remedy = SPEX_REMEDY_BUILD;
        told = module_problem(module, "%s: %s is another build (the profile ran build id %s)",
                              module->name, seen, id);
        break;
    default:
        remedy = SPEX_REMEDY_COPY;
        told = module_problem(module, "%s: no such file here%s%s", module->path,
                              *id ? ", build id " : "", id);
    }
    if (told)
        module->remedy = remedy;
}
