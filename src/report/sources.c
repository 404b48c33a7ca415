#include "sources.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/vec.h"

#include <spex/a64.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    SOURCES = 1024,
    SOURCE_MOST = 64 << 20,
    PROC_MAGIC = 0x9fa0,
    SYSFS_MAGIC = 0x62656572,
};

struct sources {
    struct source *list[SOURCES];
    VEC(const struct source *) read;
    char **dirs; /* directories that the user named, links resolved */
    size_t dir_count;
    char *cwd;
    bool none;
};

struct sources *sources_new(const struct source_places *places)
{
    struct sources *s = memory_get(1, sizeof *s);
    s->none = places->none;
    s->dirs = memory_get(places->dir_count + 1, sizeof *s->dirs);
    for (size_t i = 0; i <= places->dir_count; i++) {
        const char *dir = i < places->dir_count ? places->dirs[i] : places->symfs;
        char *real = dir ? realpath(dir, NULL) : NULL;
        if (real)
            s->dirs[s->dir_count++] = real;
    }
    s->cwd = realpath(".", NULL);
    return s;
}

/* ---- which files may be read ---- */

/* The part of a path below a directory; NULL if it lies elsewhere. */
static const char *below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    while (n && dir[n - 1] == '/')
        n--;
    return !strncmp(path, dir, n) && path[n] == '/' ? path + n : NULL;
}

/* A user cannot allow the root of the file system. */
static bool shows(const char *path, const char *dir)
{
    const char *rest = dir && strcmp(dir, "/") ? below(path, dir) : NULL;
    return rest && !strstr(rest, "/.");
}

static bool allowed(const struct sources *s, struct spex_module *program, const char *path)
{
    static const char *const never[] = {"/proc", "/sys", "/dev", "/etc"};
    char image[PATH_MAX] = "";
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (below(path, never[i]))
            return false;
    for (size_t i = 0; i < s->dir_count; i++)
        if (below(path, s->dirs[i]))
            return true;
    const char *file = program ? spex_module_file(program) : NULL;
    if (file && realpath(file, image))
        *strrchr(image, '/') = 0;
    return shows(path, s->cwd) || shows(path, image);
}

/* Checks the opened file, since a name can change between checking and opening it. */
static bool may_read(const struct sources *s, struct spex_module *program, int fd,
                     char path[PATH_MAX])
{
    char link[64];
    struct statfs system;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 && n < PATH_MAX - 1 && !fstatfs(fd, &system) && system.f_type != PROC_MAGIC &&
           system.f_type != SYSFS_MAGIC && allowed(s, program, path);
}

static bool read_text(struct sources *sources, struct source *s, const char *path)
{
    char real[PATH_MAX];
    size_t size;
    int fd = file_open_named(path, SOURCE_MOST, FILE_ANY_OWNER);
    if (fd >= 0 && !may_read(sources, s->program, fd, real)) {
        close(fd);
        s->outside = true;
        return false;
    }
    s->text = file_read_all(fd, SOURCE_MOST, &size);
    if (!s->text) {
        s->error = errno == ENOENT || errno == ENOTDIR ? s->error : errno;
        return false;
    }
    s->real = memory_copy(real);
    const struct source **slot = memory_checked(vec_push(&sources->read));
    *slot = s;
    return true;
}

/* ---- searching ---- */

/* Tries the path below a directory: whole, then without its first directory, and so on. */
static bool look_below(struct sources *sources, struct source *s, const char *dir, const char *path)
{
    char name[2 * PATH_MAX];
    for (const char *rest = path; rest; rest = strchr(rest + 1, '/')) {
        snprintf(name, sizeof name, "%s/%s", dir, rest + (*rest == '/'));
        if (read_text(sources, s, name))
            return true;
    }
    return false;
}

static void find_text(struct sources *sources, struct source *s, const struct spex_line *line)
{
    char path[PATH_MAX];
    const char *dir = line->file[0] != '/' && line->dir ? line->dir : "";
    const char *slash = strrchr(line->file, '/');
    snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", line->file);
    for (size_t i = 0; i < sources->dir_count; i++)
        if (look_below(sources, s, sources->dirs[i], path))
            return;
    if (!read_text(sources, s, path))
        read_text(sources, s, slash ? slash + 1 : line->file);
}

struct source *sources_get(struct sources *sources, const struct spex_line *line,
                           struct spex_module *program)
{
    struct source **place =
        &sources->list[hash_bytes(hash_seed(), line->file, strlen(line->file)) % SOURCES];
    for (struct source *s = *place; s; s = s->next)
        if (s->program == program && !strcmp(s->path, line->file))
            return s;
    struct source *s = memory_get(1, sizeof *s);
    s->path = memory_copy(line->file);
    s->program = program;
    s->next = *place;
    *place = s;
    if (!sources->none)
        find_text(sources, s, line);
    for (char *p = s->text; p && *p;) {
        s->lines = memory_grow(s->lines, s->count, &s->capacity, sizeof *s->lines);
        s->lines[s->count++] = p;
        p += strcspn(p, "\n");
        if (*p)
            *p++ = 0;
    }
    return s;
}

const char *source_problem(const struct source *s)
{
    return s->text      ? NULL
           : s->error   ? strerror(s->error)
           : s->outside ? "not shown: it lies neither below the current directory nor below the "
                          "program's; --source-dir DIR names where sources are"
                        : NULL;
}

const struct source *sources_read(const struct sources *sources, size_t index)
{
    return index < sources->read.count ? sources->read.items[index] : NULL;
}

void sources_free(struct sources *sources)
{
    for (size_t i = 0; sources && i < SOURCES; i++)
        for (struct source *s = sources->list[i], *next; s; s = next) {
            next = s->next;
            free(s->path);
            free(s->real);
            free(s->text);
            free(s->lines);
            free(s);
        }
    for (size_t i = 0; sources && i < sources->dir_count; i++)
        free(sources->dirs[i]);
    if (sources) {
        vec_free(&sources->read);
        free(sources->dirs);
        free(sources->cwd);
    }
    free(sources);
}

void code_name_target(const struct spex_symbol *symbol, uint32_t word, uint64_t address,
                      char text[SPEX_INSTRUCTION_TEXT])
{
    uint64_t target;
    char *operand = strrchr(text, ',');
    if (!spex_a64_target(word, address, &target))
        return;
    operand = operand ? operand + 1 : strchr(text, ' ');
    if (!operand)
        return;
    while (*operand == ' ')
        operand++;
    size_t room = SPEX_INSTRUCTION_TEXT - (size_t)(operand - text);
    const struct spex_symbol *other = spex_module_symbol(symbol->module, target);
    if (other && other != symbol && other->name && target == other->start)
        snprintf(operand, room, "%s", other->name);
    else
        snprintf(operand, room, "0x%llx", (unsigned long long)target);
}
