/*
 * The command that installs the debug symbols of a stripped file: found through the note in the
 * file that names its package, or what dpkg or rpm installed below the root that the file belongs
 * to.
 */
#include "module.h"

#include "base/file.h"
#include "base/json_read.h"
#include "base/memory.h"

#include <assert.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Users copy commands into a shell, and names come from files that anybody may have written. */
static bool plain(const char *name)
{
    return *name && *name != '-' &&
           !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "+.-_:~")];
}

/* "libc6:arm64" */
static char *of_dpkg(const char *package, const char *arch)
{
    static const char cross[] = "-cross";
    char *text = NULL, name[256];
    const size_t n = strlen(package), tail = sizeof cross - 1;
    int room = (int)n;
    if (n > tail && !strcmp(package + n - tail, cross)) { /* libc6-arm64-cross is the arm64 one */
        room = (int)(n - tail);
        while (room > 0 && package[room - 1] != '-')
            room--;
        snprintf(name, sizeof name, "%.*s", (int)(n - tail) - room, package + room);
        arch = room > 0 && *name ? name : arch;
        room = room > 0 ? room - 1 : (int)n;
    }
    if (!plain(package) || (arch && !plain(arch)))
        return NULL;
    const bool libc = room == 5 && !strncmp(package, "libc6", 5);
    if (asprintf(&text, "apt install %.*s-%s%s%s", room, package, libc ? "dbg" : "dbgsym",
                 arch ? ":" : "", arch ? arch : "") < 0)
        text = NULL;
    return text;
}

/* ---- the note of systemd's package metadata: JSON ---- */

static char *of_note(const char *text, size_t size)
{
    struct json_document *document;
    const char *type, *name, *arch = NULL;
    char *command = NULL;
    size = strnlen(text, size);
    if (json_read(text, size, &document, NULL))
        return NULL;
    const struct json_value *root = json_root(document);
    if (json_get_text(json_member(root, "type"), &type) &&
        json_get_text(json_member(root, "name"), &name) && plain(name)) {
        json_get_text(json_member(root, "architecture"), &arch);
        if (!strcmp(type, "deb"))
            command = of_dpkg(name, arch);
        else if (!strcmp(type, "rpm") && asprintf(&command, "dnf debuginfo-install %s", name) < 0)
            command = NULL;
    }
    json_forget(document);
    return command;
}

static char *by_note(const struct spex_module *module)
{
    enum { PACKAGE = 0xcafe1a7e };
    const char *data;
    size_t size = 0;
    return (data = elf_note(module->image.elf, "FDO", PACKAGE, &size)) ? of_note(data, size) : NULL;
}

/* ---- what is installed ---- */

static bool is_directory(const char *root, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    return snprintf(path, sizeof path, "%s%s", root, name) < PATH_MAX && !stat(path, &st) &&
           S_ISDIR(st.st_mode);
}

/* Does a dpkg list contain the file, with or without the /usr that directories were merged into? */
static bool lists(const char *list, const char *file)
{
    const char *other = !strncmp(file, "/usr/", 5) ? file + 4 : NULL;
    for (const char *line = list; *line;) {
        const size_t n = strcspn(line, "\n");
        if ((n == strlen(file) && !strncmp(line, file, n)) ||
            (other && n == strlen(other) && !strncmp(line, other, n)) ||
            (!other && n == strlen(file) + 4 && !strncmp(line, "/usr", 4) &&
             !strncmp(line + 4, file, n - 4)))
            return true;
        line += n + (line[n] == '\n');
    }
    return false;
}

/* dpkg lists the files of a package in var/lib/dpkg/info/NAME.list or NAME:ARCH.list. */
static char *by_dpkg(const char *root, const char *file)
{
    enum { LIST_MOST = 16 << 20 };
    char dir[PATH_MAX], path[PATH_MAX + 256], *command = NULL;
    if (snprintf(dir, sizeof dir, "%s/var/lib/dpkg/info", root) >= PATH_MAX)
        return NULL;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && !command && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        size_t size;
        if (n < 6 || strcmp(e->d_name + n - 5, ".list"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        char *list = file_read_named(path, LIST_MOST, FILE_OWN_OR_ROOT, &size);
        if (list && lists(list, file)) {
            e->d_name[n - 5] = '\0';
            char *arch = strchr(e->d_name, ':');
            if (arch)
                *arch++ = '\0';
            command = of_dpkg(e->d_name, arch);
        }
        memory_free(list);
    }
    if (d)
        closedir(d);
    return command;
}

/*
 * The rpm database is not read: Fedora and related distributions provide debug files by build id.
 */
static char *by_rpm(const char *root, const struct module_id *id)
{
    char text[2 * sizeof id->bytes + 1], *command = NULL;
    if (!id->size ||
        !(is_directory(root, "/var/lib/rpm") || is_directory(root, "/usr/lib/sysimage/rpm")))
        return NULL;
    for (size_t i = 0; i < id->size; i++)
        snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
    if (asprintf(&command,
                 "dnf --enablerepo='*debug*' install /usr/lib/debug/.build-id/%.2s/%s.debug", text,
                 text + 2) < 0)
        command = NULL;
    return command;
}

char *spex_module_package(const struct spex_module *module)
{
    assert(module);
    char path[PATH_MAX];
    if (!module->stripped || !module->image.elf)
        return NULL;
    char *command = by_note(module);
    if (command || !module->image.path || !realpath(module->image.path, path))
        return command;
    /* any directory above the file may be the root, the nearest first */
    for (size_t n = strlen(path); !command && n > 0;) {
        char root[PATH_MAX];
        while (n > 0 && path[--n] != '/')
            ;
        snprintf(root, sizeof root, "%.*s", (int)n, path);
        command = by_dpkg(root, path + n);
        if (!command)
            command = by_rpm(root, &module->found);
    }
    return command;
}
