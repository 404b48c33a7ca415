#include "code.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES = 1024, TEXT_MOST = 64 << 20 };

struct sources {
    struct source *list[SOURCES];
};

struct sources *sources_new(void)
{
    return memory_get(1, sizeof(struct sources));
}

static char *read_text(struct source *s, const char *path)
{
    size_t size;
    char *text = file_read_named(path, TEXT_MOST, FILE_ANY_OWNER, &size);
    if (!text && errno != ENOENT && errno != ENOTDIR)
        s->error = errno;
    return text;
}

struct source *sources_get(struct sources *sources, const struct spex_line *line, const char *symfs)
{
    struct source **place =
        &sources->list[hash_bytes(hash_seed(), line->file, strlen(line->file)) % SOURCES];
    for (struct source *s = *place; s; s = s->next)
        if (!strcmp(s->path, line->file))
            return s;
    struct source *s = memory_get(1, sizeof *s);
    char path[4096];
    s->path = memory_copy(line->file);
    s->next = *place;
    *place = s;
    const char *dir = line->file[0] != '/' && line->dir ? line->dir : "";
    if (symfs) {
        snprintf(path, sizeof path, "%s%s%s%s", symfs, dir, *dir ? "/" : "", line->file);
        s->text = read_text(s, path);
    }
    if (!s->text) {
        snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", line->file);
        s->text = read_text(s, path);
    }
    if (!s->text) {
        const char *slash = strrchr(line->file, '/');
        s->text = read_text(s, slash ? slash + 1 : line->file);
    }
    for (char *p = s->text; p && *p;) {
        s->lines = memory_grow(s->lines, s->count, &s->capacity, sizeof *s->lines);
        s->lines[s->count++] = p;
        p += strcspn(p, "\n");
        if (*p)
            *p++ = 0;
    }
    return s;
}

void sources_free(struct sources *sources)
{
    for (size_t i = 0; sources && i < SOURCES; i++)
        for (struct source *s = sources->list[i], *next; s; s = next) {
            next = s->next;
            free(s->path);
            free(s->text);
            free(s->lines);
            free(s);
        }
    free(sources);
}

bool code_branch_target(uint32_t word, uint64_t address, uint64_t *target)
{
    int64_t offset;
    if ((word & 0x7c000000) == 0x14000000)
        offset = (int64_t)((uint64_t)word << 38) >> 36;
    else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000)
        offset = (int64_t)((uint64_t)(word >> 5 & 0x7ffff) << 45) >> 43;
    else if ((word & 0x7e000000) == 0x36000000)
        offset = (int64_t)((uint64_t)(word >> 5 & 0x3fff) << 50) >> 48;
    else
        return false;
    *target = address + (uint64_t)offset;
    return true;
}

void code_name_target(const struct spex_symbol *symbol, uint32_t word, uint64_t address,
                      char text[SPEX_INSTRUCTION_TEXT])
{
    uint64_t target;
    char *operand = strrchr(text, ',');
    if (!code_branch_target(word, address, &target))
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
