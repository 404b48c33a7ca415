/* The text of a row's keys, for tables and for sorting. */
#include "allocs.h"
#include "group.h"
#include "module.h"
#include "stacks.h"
#include "types.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* "libc.so.6+0x1234"; "0x1234" in the kernel, in JIT code and where nothing is mapped. */
static size_t place_text(const struct spex_module *module, uint64_t address, char *text,
                         size_t capacity)
{
    int n = !module && !address ? snprintf(text, capacity, "[no address]")
            : module && module_is_file(module)
                ? snprintf(text, capacity, "%s+0x%llx", spex_module_name(module),
                           (unsigned long long)address)
                : snprintf(text, capacity, "0x%llx", (unsigned long long)address);
    return (size_t)n;
}

static const struct spex_module *module_of(const uint64_t *key)
{
    return (const struct spex_module *)(uintptr_t)(key[0] & ~(uint64_t)KEY_NO_SYMBOL);
}

/* Code made at run time that has no names: named after its process. */
static size_t anonymous_text(const struct spex_group *g, const struct spex_module *module,
                             char *text, size_t capacity)
{
    return (size_t)snprintf(text, capacity, "[anonymous code of %s]",
                            spex_analysis_comm(g->analysis, module->pid));
}

static size_t symbol_text(const struct spex_symbol *symbol, char *text, size_t capacity)
{
    if (!symbol->name)
        return place_text(symbol->module, symbol->start, text, capacity);
    return (size_t)snprintf(text, capacity, "%s", symbol->name);
}

static size_t located_text(const struct spex_group *g, uint64_t address, uint64_t pid, char *text,
                           size_t capacity)
{
    struct spex_place place;
    if (!address)
        return (size_t)snprintf(text, capacity, "-");
    spex_analysis_locate(g->analysis, (int)pid, address, &place);
    if (!place.symbol)
        return place_text(place.module, place.address, text, capacity);
    size_t n = symbol_text(place.symbol, text, capacity);
    uint64_t offset = place.address - place.symbol->start;
    if (offset && n < capacity)
        n += (size_t)snprintf(text + n, capacity - n, "+0x%llx", (unsigned long long)offset);
    return n;
}

/* Truncates the text at the end of the buffer. */
static size_t stack_text(const struct spex_group *g, uint64_t stack, char *text, size_t capacity)
{
    size_t n = 0;
    if (!stack)
        return (size_t)snprintf(text, capacity, "[no caller]");
    for (const struct spex_call *call; stack && n < capacity; stack = call->caller) {
        call = spex_analysis_call(g->analysis, (uint32_t)stack);
        n += (size_t)snprintf(text + n, capacity - n, "%s%s", n ? " < " : "",
                              call->cut ? "[...] < " : "");
        if (n < capacity)
            n += call->symbol ? symbol_text(call->symbol, text + n, capacity - n)
                              : place_text(call->module, call->address, text + n, capacity - n);
    }
    return n;
}

/* Includes the type unless that is a key of its own: "struct node.next", "next". */
static size_t member_text(const struct spex_group *g, const struct spex_member *m, char *text,
                          size_t capacity)
{
    bool alone = group_key_of(g, SPEX_KEY_TYPE) < g->key_count;
    if (!m->member[0])
        return (size_t)snprintf(text, capacity, "%s", alone ? "-" : m->type);
    return (size_t)snprintf(text, capacity, "%s%s%s", alone ? "" : m->type,
                            alone       ? ""
                            : m->scalar ? " "
                                        : ".",
                            m->member);
}

/* A function or a variable, or its address if it has no name. */
static size_t named_text(const struct spex_group *g, enum spex_key kind, const uint64_t *key,
                         char *text, size_t capacity)
{
    if (key[0] & KEY_SITE)
        return spex_analysis_site_text(g->analysis, (uint32_t)(key[0] >> 2), text, capacity);
    if (key[0] == KEY_NO_SYMBOL && key[1] == KEY_NO_SYMBOL && kind == SPEX_KEY_CALLER)
        return (size_t)snprintf(text, capacity, "[no caller]");
    if (!(key[0] & KEY_NO_SYMBOL))
        return symbol_text((const struct spex_symbol *)(uintptr_t)key[0], text, capacity);
    const struct spex_module *module = module_of(key);
    if (kind != SPEX_KEY_DATA_SYMBOL && kind != SPEX_KEY_ALLOC && module &&
        module->kind == SPEX_MODULE_JIT && !key[1])
        return anonymous_text(g, module, text, capacity);
    if (kind != SPEX_KEY_DATA_SYMBOL && kind != SPEX_KEY_ALLOC)
        return place_text(module, key[1], text, capacity);
    return (size_t)snprintf(text, capacity, "%s",
                            module   ? spex_module_name(module)
                            : key[1] ? "[kernel]"
                                     : "[unmapped]");
}

static size_t srcline_text(const uint64_t *key, char *text, size_t capacity)
{
    if (!(key[1] >> 63) || key[0] & KEY_NO_SYMBOL)
        return place_text(module_of(key), key[1], text, capacity);
    const char *file = (const char *)(uintptr_t)key[0], *slash = strrchr(file, '/');
    return (size_t)snprintf(text, capacity, "%s:%u", slash ? slash + 1 : file, (unsigned)key[1]);
}

size_t spex_row_text(const struct spex_group *g, const struct spex_row *row, size_t n, char *text,
                     size_t capacity)
{
    assert(g && row);
    const uint64_t *key = row->key + g->first_slot[n];
    const struct spex_module *module;
    switch (g->keys[n]) {
    case SPEX_KEY_SYMBOL:
    case SPEX_KEY_CALLER:
    case SPEX_KEY_ALLOC:
    case SPEX_KEY_DATA_SYMBOL:
        return named_text(g, g->keys[n], key, text, capacity);
    case SPEX_KEY_DSO:
    case SPEX_KEY_DATA_DSO:
        module = (const struct spex_module *)(uintptr_t)key[0];
        return (size_t)snprintf(text, capacity, "%s",
                                module ? spex_module_name(module) : "[unknown]");
    case SPEX_KEY_SRCLINE:
        return srcline_text(key, text, capacity);
    case SPEX_KEY_PC:
        return place_text((const struct spex_module *)(uintptr_t)key[0], key[1], text, capacity);
    case SPEX_KEY_COMM:
    case SPEX_KEY_TYPE:
        return (size_t)snprintf(text, capacity, "%s", (const char *)(uintptr_t)key[0]);
    case SPEX_KEY_MEMBER:
        return member_text(g, (const struct spex_member *)(uintptr_t)key[0], text, capacity);
    case SPEX_KEY_PID:
    case SPEX_KEY_TID:
    case SPEX_KEY_CPU:
        return (size_t)snprintf(text, capacity, "%d", (int)key[0]);
    case SPEX_KEY_OP:
        return (size_t)snprintf(text, capacity, "%s",
                                key[0] == UINT32_MAX ? "no operation type"
                                                     : op_table()->text[key[0] & 1023]);
    case SPEX_KEY_SOURCE:
        return (size_t)snprintf(text, capacity, "%s",
                                key[0] < SPEX_SOURCE_COUNT ? spex_source_name(key[0])
                                                           : "(no memory access)");
    case SPEX_KEY_PAGE:
    case SPEX_KEY_CACHE_LINE:
        return (size_t)snprintf(text, capacity, "0x%llx", (unsigned long long)key[0]);
    case SPEX_KEY_TYPE_LINE:
        return (size_t)snprintf(text, capacity, "%llu", (unsigned long long)key[0]);
    case SPEX_KEY_TYPE_OFFSET:
    case SPEX_KEY_OFFSET:
        return (size_t)snprintf(text, capacity, "+0x%02x", (unsigned)key[0]);
    case SPEX_KEY_STACK:
        return stack_text(g, key[0], text, capacity);
    case SPEX_KEY_BLOCK_OFFSET:
        if (key[0] == UINT64_MAX)
            return (size_t)snprintf(text, capacity, "-");
        return (size_t)snprintf(text, capacity, "+%llu", (unsigned long long)key[0]);
    case SPEX_KEY_TARGET:
    case SPEX_KEY_PREV_TARGET:
        return located_text(g, key[0], key[1], text, capacity);
    case SPEX_KEY_LATENCY:
        if (!key[0])
            return (size_t)snprintf(text, capacity, "0");
        return (size_t)snprintf(text, capacity, "%u-%u", 1u << (key[0] - 1), (1u << key[0]) - 1);
    case SPEX_KEY_TIME_BIN:
        if (key[0] == UINT64_MAX)
            return (size_t)snprintf(text, capacity, "(no time)");
        return (size_t)snprintf(text, capacity, "%llu.%09llu",
                                (unsigned long long)((key[0] << g->time_shift) / 1000000000),
                                (unsigned long long)((key[0] << g->time_shift) % 1000000000));
    case SPEX_KEY_COUNT:
        break;
    }
    return 0;
}
