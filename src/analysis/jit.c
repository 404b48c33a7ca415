/* Names of code that a just-in-time compiler made: perf-PID.map. */
#include "module.h"

#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "START SIZE NAME" a line, hexadecimal. */
void module_load_jit(struct spex_module *module)
{
    char path[PATH_MAX];
    size_t size;
    struct module_table table = {0};
    snprintf(path, sizeof path, "%s%s/perf-%d.map",
             module->owner->options.symfs ? module->owner->options.symfs : "",
             module->owner->options.map_dir, module->pid);
    module->text = file_read_named(path, TEXT_MOST, FILE_OWN_OR_ROOT, &size);
    if (!module->text && errno != ENOENT) /* most programs have none */
        module_problem(module, "%s: %s, so it is not read", path,
                       errno == EPERM    ? "belongs neither to you nor to root"
                       : errno == EINVAL ? "is no regular file"
                       : errno == EFBIG  ? "is larger than 256 MB"
                                         : strerror(errno));
    for (char *line = module->text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *end, *name;
        uint64_t start = strtoull(line, &end, 16), length;
        if (end == line || *end != ' ')
            continue;
        length = strtoull(end + 1, &name, 16);
        if (name == end + 1 || *name != ' ' || !name[1])
            continue;
        table_add(&table, start, length, name + 1, true, false, true);
    }
    table_finish(module, &table);
}
