/* Names from the kernel: vmlinux, kallsyms. */
#include "module.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file that the user names may be a pipe or lie in /proc. */
static char *read_kallsyms(const char *path, size_t *size)
{
    return file_read_all(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), TEXT_MOST, size);
}

/* Lines are "ADDRESS TYPE NAME[\t[MODULE]]"; reads only the symbols of this module. */
static bool load_kallsyms(struct spex_module *module, const char *path)
{
    size_t size;
    struct module_table table = {0};
    char *wanted = NULL;
    module->text = path == module->owner->options.kallsyms
                       ? read_kallsyms(path, &size)
                       : file_read_named(path, TEXT_MOST, FILE_ANY_OWNER, &size);
    if (!module->text) {
        module_problem(module, "%s: %s", path, strerror(errno));
        return false;
    }
    if (module->path[0] == '[' && !starts_with(module->path, "[kernel") &&
        !starts_with(module->path, "[guest"))
        wanted = module->path;
    uint64_t any = 0;
    for (char *line = module->text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *end, *name, *owner;
        uint64_t address = strtoull(line, &end, 16);
        if (end == line || *end != ' ' || !end[1] || end[2] != ' ')
            continue;
        char type = end[1];
        name = end + 3;
        owner = strchr(name, '\t');
        if (owner)
            *owner++ = 0;
        if (!strchr("tTwWdDbBrRvV", type) || !name[0] || name[0] == '$' ||
            (wanted ? !owner || strcmp(owner, wanted) : owner != NULL))
            continue;
        any |= address;
        table_add(&table, address, 0, name, strchr("tTwW", type) != NULL,
                  type == 'w' || type == 'W', type >= 'A' && type <= 'Z');
    }
    if (table.count && !any) {
        module_problem(module, "%s: all addresses are zero; read /proc/kallsyms as root", path);
        table.count = 0;
    }
    table_finish(module, &table);
    memory_free(module->source);
    module->source = module->count ? memory_copy(path) : NULL;
    return module->count > 0;
}

/* Looks by build id, then for kallsyms beside the profile. */
static bool find_kernel(struct spex_module *module, bool main_kernel)
{
    const struct spex_symbols *owner = module->owner;
    const char *const dirs[] = {owner->beside_debug, owner->options.build_id_dir};
    char path[PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        if (main_kernel && id_path(&module->recorded, dirs[i], "/vmlinux", path) &&
            !elf_open_build(path, &module->recorded, &module->image) && module_load_elf(module))
            return true;
        if (id_path(&module->recorded, dirs[i], "/kallsyms", path) && !access(path, R_OK) &&
            load_kallsyms(module, path))
            return true;
    }
    module->found = module->recorded;
    if (main_kernel && module->recorded.size &&
        (module_open_debug(module) || module_fetch_debug(module)) && module_load_elf(module))
        return true;
    return owner->options.beside &&
           snprintf(path, sizeof path, "%s/kallsyms", owner->options.beside) < PATH_MAX &&
           !access(path, R_OK) && load_kallsyms(module, path);
}

void module_load_kernel(struct spex_module *module)
{
    const struct spex_symbols_options *o = &module->owner->options;
    bool main_kernel = starts_with(module->path, "[kernel") || starts_with(module->path, "[guest");
    if (o->vmlinux && main_kernel) {
        enum open_result r = elf_open_build(o->vmlinux, &module->recorded, &module->image);
        int reason = errno;
        if (r == OPEN_OK && module_load_elf(module))
            return;
        enum spex_remedy remedy;
        const char *advice = open_advice(reason, &remedy);
        if (r == OPEN_REFUSED && module_problem(module, "%s cannot be opened: %s%s", o->vmlinux,
                                                strerror(reason), advice))
            module->remedy = remedy;
        module_problem(module,
                       r == OPEN_MISSING       ? "%s: no such file"
                       : r == OPEN_OTHER_BUILD ? "%s: not the kernel that was profiled "
                                                 "(another build id)"
                                               : "%s: not an AArch64 kernel with symbols",
                       o->vmlinux);
    }
    if (o->kallsyms && load_kallsyms(module, o->kallsyms))
        return;
    if (!module->problem && find_kernel(module, main_kernel))
        return;
    if (!module->symbols)
        table_finish(module, &(struct module_table){0});
    if (module_problem(module, "%s: no kernel symbols", module->path))
        module->remedy = SPEX_REMEDY_KERNEL;
}
