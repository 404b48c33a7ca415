/*
 * The files that a profile was read with, and where they are looked for beside a profile: the
 * layout of perf's cache, by path for what has no build id.
 */
#include "module.h"
#include "pass.h"

#include "base/memory.h"

#include <assert.h>
#include <stdio.h>

struct giving {
    spex_file_taker *take;
    void *context;
    enum spex_status status;
};

static void give(struct giving *g, const char *path, const char *name)
{
    if (g->status == SPEX_OK)
        g->status = g->take(g->context, path, name);
}

/* Under its build id; under its path if it has none. */
static void give_elf(struct giving *g, const struct module_elf *file, const struct module_id *id,
                     const char *path, const char *tail)
{
    char name[PATH_MAX];
    if (!file->elf || !file->path)
        return;
    if (!id_path(id, ".debug", tail, name) &&
        (*path != '/' || snprintf(name, sizeof name, ".debug/root%s", path) >= PATH_MAX))
        return;
    give(g, file->path, name);
}

static void give_module(struct giving *g, struct spex_module *m)
{
    char name[PATH_MAX];
    if (m->kind == SPEX_MODULE_FILE) {
        give_elf(g, &m->image, &m->recorded, m->path, "/elf"); /* the reader looks here */
        give_elf(g, &m->debug, &m->found, "", "/debug");
        if (m->alternate.elf) {
            struct module_id id = elf_build_id(m->alternate.elf);
            give_elf(g, &m->alternate, &id, "", "/debug");
        }
    } else if (m->kind == SPEX_MODULE_KERNEL && m->image.elf) {
        give_elf(g, &m->image, &m->recorded, "", "/vmlinux");
    } else if (m->kind == SPEX_MODULE_KERNEL && m->source) {
        give(g, m->source, "kallsyms");
    } else if (m->kind == SPEX_MODULE_JIT && m->source) {
        snprintf(name, sizeof name, ".debug/perf-%d.map", m->pid);
        give(g, m->source, name);
    }
}

/* Is the file of a mapping a compiler's jitdump? path is where it is. */
static bool find_dump(const struct spex_analysis *a, const struct spex_perf_map *map,
                      char path[BELOW_PATH])
{
    MEMORY_OF(a->account);
    struct module_roots roots;
    size_t size;
    symbols_roots(a->symbols, &roots);
    char *data = below_dump(&roots.below, map, path, &size);
    memory_free(data);
    return data != NULL;
}

/* One dump may be mapped several times. */
static void give_dumps(struct giving *g, const struct spex_analysis *a,
                       const struct spex_perfdata *file)
{
    const size_t count = file ? spex_perfdata_map_count(file) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_perf_map *map = spex_perfdata_map_at(file, i);
        char path[BELOW_PATH], name[PATH_MAX];
        bool again = !find_dump(a, map, path);
        for (size_t j = 0; !again && j < i; j++)
            again = !strcmp(spex_perfdata_map_at(file, j)->filename, map->filename);
        if (!again && snprintf(name, sizeof name, ".debug/root%s", map->filename) < PATH_MAX)
            give(g, path, name);
    }
}

enum spex_status spex_analysis_beside(struct spex_analysis *a, spex_file_taker *take, void *context)
{
    assert(a && take);
    struct giving g = {take, context, SPEX_OK};
    struct spex_module *m;
    struct spex_part part;
    bool kallsyms = false;
    for (size_t i = 0; (m = spex_symbols_nth(a->symbols, i)); i++) {
        bool text = m->kind == SPEX_MODULE_KERNEL && !m->image.elf && m->source;
        if (!text || !kallsyms) { /* one for the kernel and its modules */
            module_load_lines(m); /* opens what it has */
            give_module(&g, m);
        }
        kallsyms |= text;
    }
    for (size_t i = 0; spex_analysis_part(a, i, &part); i++)
        give_dumps(&g, a, part.file);
    return g.status;
}
