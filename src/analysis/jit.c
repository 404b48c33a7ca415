/* Names of code from just-in-time compilers: perf-PID.map. */
#include "module.h"

#include "perfdata/jit.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct names {
    struct spex_module *module;
    struct module_table table;
};

static void add_name(void *context, const struct jit_code *code)
{
    struct names *names = context;
    char *name = module_text(names->module, code->name_length + 1);
    memcpy(name, code->name, code->name_length);
    size_t before = names->table.count;
    table_add(&names->table, code->start, code->length, name, true, false, 0);
    if (names->table.count > before)
        names->table.items[before].order = (uint32_t)before;
}

void module_load_jit(struct spex_module *module)
{
    char path[PATH_MAX];
    size_t size;
    struct names names = {module, {0}};
    snprintf(path, sizeof path, "%s%s/perf-%d.map",
             module->owner->options.symfs ? module->owner->options.symfs : "",
             module->owner->options.map_dir, module->pid);
    char packed[PATH_MAX];
    int n =
        snprintf(packed, sizeof packed, "%s/perf-%d.map", module->owner->beside_debug, module->pid);
    if (n < PATH_MAX)
        module->text = file_read_named(packed, JIT_FILE_MOST, FILE_OWN_OR_ROOT, &size);
    if (!module->text)
        module->text = file_read_named(path, JIT_FILE_MOST, FILE_OWN_OR_ROOT, &size);
    if (!module->text && errno != ENOENT) /* most programs have none */
        module_problem(module, "%s: %s, so it is not read", path,
                       errno == EPERM    ? "belongs neither to you nor to root"
                       : errno == EINVAL ? "is not a regular file"
                       : errno == EFBIG  ? "is larger than 256 MB"
                                         : strerror(errno));
    if (module->text) {
        module->source = memory_copy(path);
        jit_read(module->text, size, add_name, &names);
    }
    table_finish(module, &names.table);
}
