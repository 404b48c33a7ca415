/* Separate debug files: by build id, by .gnu_debuglink, from debuginfod, shared ones (dwz). */
#include "module.h"

#include "base/bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Debug files are in usr/lib/debug below the root that a file belongs to. Any of the directories
 * above the file may be that root (a sysroot, an unpacked image, a container's layer), so each is
 * tried, the nearest first. --symfs comes before them, the debug directory of this machine after
 * them.
 */
struct roots {
    const struct spex_module *module;
    const char *path; /* the file's path: as opened, else as recorded */
    int next;         /* length of the next directory above path; -1: --symfs; -2: the end */
};

static struct roots roots_of(const struct spex_module *module)
{
    return (struct roots){module, module->image.path ? module->image.path : module->path, -1};
}

/*
 * Copies the next debug directory to dir (PATH_MAX bytes). *root: how much of the file's path is
 * that directory's root. False after the last.
 */
static bool next_root(struct roots *roots, char *dir, size_t *root)
{
    const struct spex_symbols_options *o = &roots->module->owner->options;
    for (;;) {
        int n = 0;
        *root = 0;
        if (roots->next == -2)
            return false;
        if (roots->next == -1) {
            const char *slash = strrchr(roots->path, '/');
            roots->next = slash ? (int)(slash - roots->path) : 0;
            if (!o->symfs)
                continue;
            n = snprintf(dir, PATH_MAX, "%s/usr/lib/debug", o->symfs);
            if (starts_with(roots->path, o->symfs))
                *root = strlen(o->symfs);
        } else if (roots->next == 0) {
            roots->next = -2;
            n = snprintf(dir, PATH_MAX, "%s", o->debug_dir);
        } else {
            n = snprintf(dir, PATH_MAX, "%.*s/usr/lib/debug", roots->next, roots->path);
            *root = (size_t)roots->next;
            while (--roots->next > 0 && roots->path[roots->next] != '/')
                ;
        }
        if (n < PATH_MAX)
            return true;
    }
}

/*
 * The file at this path may have neither symbols nor DWARF: it may be the stripped file itself,
 * linked or copied.
 */
static bool open_debug(const char *path, const struct module_id *id, struct module_elf *file)
{
    if (elf_open_build(path, id, file))
        return false;
    if (elf_section(file->elf, ".symtab", NULL) || elf_section(file->elf, ".debug_info", NULL) ||
        elf_section(file->elf, ".zdebug_info", NULL))
        return true;
    elf_close(file);
    return false;
}

static bool open_by_id(struct spex_module *module, const struct module_id *id,
                       struct module_elf *file)
{
    char dir[PATH_MAX], path[PATH_MAX];
    size_t root;
    if (id_path(id, module->owner->beside_debug, "/debug", path) && open_debug(path, id, file))
        return true;
    for (struct roots roots = roots_of(module); next_root(&roots, dir, &root);)
        if (id_path(id, dir, ".debug", path) && open_debug(path, id, file))
            return true;
    return id_path(id, module->owner->options.build_id_dir, "/debug", path) &&
           open_debug(path, id, file);
}

static bool fetch(struct spex_module *module, const struct module_id *id, struct module_elf *file)
{
    char *path = id->size ? debuginfod_fetch(module, id, DEBUGINFOD_DEBUG) : NULL;
    bool ok = path && open_debug(path, id, file);
    free(path);
    return ok;
}

bool module_open_alternate(struct spex_module *module, const char *from, const char *name,
                           const void *id_bytes, size_t id_size)
{
    char path[PATH_MAX];
    struct module_id id = {.size = id_size};
    const char *slash = strrchr(from, '/'), *debug = strstr(from, "/usr/lib/debug/");
    int dir = 0;
    if (!id_size || id_size > sizeof id.bytes)
        return false;
    memcpy(id.bytes, id_bytes, id_size);
    if (name[0] != '/')
        dir = slash ? (int)(slash - from + 1) : 0;
    else if (debug)
        dir = (int)(debug - from);
    int n = snprintf(path, sizeof path, "%.*s%s", dir, from, name);
    return (n < PATH_MAX && open_debug(path, &id, &module->alternate)) ||
           (name[0] == '/' && open_debug(name, &id, &module->alternate)) ||
           open_by_id(module, &id, &module->alternate) || fetch(module, &id, &module->alternate);
}

/* The CRC-32 of .gnu_debuglink. */
static uint32_t file_crc(int fd)
{
    uint32_t crc = ~0u, table[256];
    uint8_t block[16384];
    ssize_t n;
    off_t at = 0;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    while ((n = pread(fd, block, sizeof block, at)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            crc = crc >> 8 ^ table[(crc ^ block[i]) & 255];
        at += n;
    }
    return ~crc;
}

struct debug_link {
    const char *name;
    uint32_t crc;
};

static bool find_link(Elf *elf, struct debug_link *link)
{
    Elf_Scn *scn = elf_section(elf, ".gnu_debuglink", NULL);
    Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
    if (!data || !data->d_buf)
        return false;
    link->name = data->d_buf;
    size_t length = strnlen(link->name, data->d_size), crc_at = (length + 4) & ~(size_t)3;
    if (!length || crc_at + 4 > data->d_size || strchr(link->name, '/'))
        return false;
    link->crc = le32(link->name + crc_at);
    return true;
}

static bool try_link(struct spex_module *module, const struct debug_link *link, const char *path)
{
    const struct module_id *id = &module->found;
    if (!open_debug(path, id, &module->debug))
        return false;
    if (id->size || file_crc(module->debug.fd) == link->crc)
        return true;
    module_problem(module, "%s: its separate debug file %s belongs to another build", module->name,
                   path);
    elf_close(&module->debug);
    return false;
}

/*
 * Looks for the file named by .gnu_debuglink: next to the file, in .debug, and below each debug
 * directory at the file's path from its root.
 */
static bool open_link(struct spex_module *module)
{
    struct debug_link link;
    char dir[PATH_MAX], path[PATH_MAX];
    size_t root;
    if (!module->image.elf || !find_link(module->image.elf, &link))
        return false;
    const char *image = module->image.path, *slash = strrchr(image, '/');
    int length = slash ? (int)(slash - image) : 0;
    for (int below = 0; below < 2; below++)
        if (snprintf(path, sizeof path, "%.*s%s%s%s", length, image, slash ? "/" : "",
                     below ? ".debug/" : "", link.name) < PATH_MAX &&
            try_link(module, &link, path))
            return true;
    for (struct roots roots = roots_of(module); next_root(&roots, dir, &root);)
        if ((int)root <= length &&
            snprintf(path, sizeof path, "%s%.*s/%s", dir, length - (int)root, image + root,
                     link.name) < PATH_MAX &&
            try_link(module, &link, path))
            return true;
    return false;
}

bool module_open_debug(struct spex_module *module)
{
    return open_by_id(module, &module->found, &module->debug) || open_link(module);
}

bool module_fetch_debug(struct spex_module *module)
{
    return !module->debug.elf && fetch(module, &module->found, &module->debug);
}

/* The root of a file is the nearest directory above it that contains usr/lib. */
const char *module_debug_place(const struct spex_module *module, char *path)
{
    char dir[PATH_MAX];
    size_t root;
    for (struct roots roots = roots_of(module); next_root(&roots, dir, &root);) {
        char *end = strstr(dir, "/debug");
        if (roots.next == -2 || !end)
            break;
        end[0] = 0;
        bool is_root = !access(dir, F_OK);
        end[0] = '/';
        if (is_root)
            break;
    }
    return id_path(&module->found, dir, ".debug", path);
}
