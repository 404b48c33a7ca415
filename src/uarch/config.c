/* Parameters: presets, settings, consistency. The table is "uarch/uarch.def". */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uarch/uarch.h"

static const struct row {
    struct spex_uarch_parameter p;
    size_t at;
} rows[] = {
#define PARAM(field, key, unit, min, max, n1, v1, n2, v2, source, text)                            \
    {{key, unit, source, text, min, max, {n1, v1, n2, v2}},                                        \
     offsetof(struct spex_uarch_config, field)},
#include "uarch/uarch.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const char *const presets[SPEX_UARCH_PRESETS] = {"neoverse-n1", "neoverse-v1", "neoverse-n2",
                                                        "neoverse-v2", "none"};

const char *spex_uarch_preset_name(size_t index)
{
    return index < SPEX_UARCH_PRESETS ? presets[index] : NULL;
}

bool spex_uarch_parameter(size_t index, struct spex_uarch_parameter *parameter)
{
    if (index >= ROWS)
        return false;
    *parameter = rows[index].p;
    return true;
}

static uint32_t *field(struct spex_uarch_config *config, size_t index)
{
    return (uint32_t *)((char *)config + rows[index].at);
}

uint32_t spex_uarch_config_get(const struct spex_uarch_config *config, size_t index)
{
    return *(const uint32_t *)((const char *)config + rows[index].at);
}

static enum spex_status fail(struct spex_error *error, enum spex_status status, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));
static enum spex_status fail(struct spex_error *error, enum spex_status status, const char *format,
                             ...)
{
    if (error) {
        va_list list;
        va_start(list, format);
        error->status = status;
        error->offset = 0;
        vsnprintf(error->text, sizeof error->text, format, list);
        va_end(list);
    }
    return status;
}

static bool preset_fill(const char *name, size_t length, struct spex_uarch_config *config)
{
    for (size_t i = 0; i < SPEX_UARCH_PRESETS; i++) {
        if (strlen(presets[i]) != length || memcmp(presets[i], name, length))
            continue;
        memset(config, 0, sizeof *config);
        config->none = i == SPEX_UARCH_PRESETS - 1;
        for (size_t r = 0; r < ROWS; r++)
            *field(config, r) = rows[r].p.preset[config->none ? 0 : i];
        return true;
    }
    return false;
}

enum spex_status spex_uarch_config_preset(const char *name, struct spex_uarch_config *config,
                                          struct spex_error *error)
{
    if (preset_fill(name, strlen(name), config))
        return SPEX_OK;
    return fail(error, SPEX_INVALID,
                "no model '%s'; there are neoverse-n1, neoverse-v1, neoverse-n2, neoverse-v2, none",
                name);
}

static bool is_power(uint32_t x)
{
    return x && !(x & (x - 1));
}

/* Sets of a cache must be a power of two, so that an address has a set number. */
static enum spex_status check_sets(const char *name, uint64_t lines, uint32_t ways,
                                   struct spex_error *error)
{
    if (lines % ways || !is_power((uint32_t)(lines / ways)))
        return fail(error, SPEX_INVALID,
                    "%s: %llu lines or entries in %u ways do not make a power of two of sets", name,
                    (unsigned long long)lines, ways);
    return SPEX_OK;
}

static enum spex_status check(const struct spex_uarch_config *c, struct spex_error *error)
{
    enum spex_status status;
    if ((status = check_sets("l1d", c->l1d_size >> UARCH_LINE, c->l1d_ways, error)) ||
        (status = check_sets("l2", c->l2_size >> UARCH_LINE, c->l2_ways, error)) ||
        (status = check_sets("llc", c->llc_size >> UARCH_LINE, c->llc_ways, error)) ||
        (status = check_sets("dir", c->dir_size, UARCH_DIR_WAYS, error)) ||
        (status = check_sets("tlb2", c->tlb2_entries, c->tlb2_ways, error)) ||
        (status = check_sets("walk", c->walk_entries, 1, error)))
        return status;
    if ((c->l1d_size >> UARCH_LINE) / c->l1d_ways > SPEX_UARCH_SETS_MAX)
        return fail(error, SPEX_INVALID, "l1d: at most %d sets (l1d.size / 64 / l1d.ways)",
                    SPEX_UARCH_SETS_MAX);
    if (c->l2_size < c->l1d_size || c->l2_size / c->l2_ways < c->l1d_size / c->l1d_ways)
        return fail(error, SPEX_INVALID,
                    "l2 includes l1d: it needs at least as many bytes and sets as l1d");
    if (!is_power(c->ras_depth))
        return fail(error, SPEX_INVALID, "ras.depth: a power of two");
    if (c->page_size != 4096 && c->page_size != 16384 && c->page_size != 65536 &&
        c->page_size != 2097152)
        return fail(error, SPEX_INVALID, "page.size: 4096, 16384, 65536 or 2097152");
    if (!is_power(c->align_load) || !is_power(c->align_store))
        return fail(error, SPEX_INVALID, "align.load, align.store: powers of two");
    return SPEX_OK;
}

static bool parse_number(const char *text, size_t length, uint32_t *value)
{
    char copy[24];
    char *end;
    if (!length || length >= sizeof copy || text[0] < '0' || text[0] > '9')
        return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    unsigned long long number = strtoull(copy, &end, 0);
    unsigned shift = 0;
    if (*end == 'K' || *end == 'k')
        shift = 10;
    else if (*end == 'M' || *end == 'm')
        shift = 20;
    else if (*end == 'G' || *end == 'g')
        shift = 30;
    if (shift)
        end++;
    if (*end || number > (UINT32_MAX >> shift))
        return false;
    *value = (uint32_t)(number << shift);
    return true;
}

enum spex_status spex_uarch_config_set(struct spex_uarch_config *config, const char *words,
                                       struct spex_error *error)
{
    struct spex_uarch_config work = *config;
    const char *word = words;
    for (;;) {
        size_t length = strcspn(word, ",");
        const char *equal = memchr(word, '=', length);
        if (!equal) {
            if (!preset_fill(word, length, &work))
                return fail(error, SPEX_INVALID,
                            "model '%.*s': neither KEY=VALUE nor one of neoverse-n1, neoverse-v1, "
                            "neoverse-n2, neoverse-v2, none",
                            (int)length, word);
        } else {
            size_t name = (size_t)(equal - word), r = 0;
            while (r < ROWS && (strlen(rows[r].p.key) != name || memcmp(rows[r].p.key, word, name)))
                r++;
            if (r == ROWS)
                return fail(error, SPEX_INVALID, "model: no parameter '%.*s'; see docs/model.md",
                            (int)name, word);
            const struct spex_uarch_parameter *p = &rows[r].p;
            uint32_t value;
            if (!parse_number(equal + 1, length - name - 1, &value) || value < p->min ||
                value > p->max)
                return fail(error, SPEX_RANGE, "model '%.*s': %s is a number of %s from %u to %u",
                            (int)length, word, p->key, p->unit, p->min, p->max);
            *field(&work, r) = value;
        }
        if (!word[length])
            break;
        word += length + 1;
    }
    enum spex_status status = check(&work, error);
    if (status == SPEX_OK)
        *config = work;
    return status;
}
