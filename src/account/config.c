/* Parameters: presets, settings, consistency. The table is numbers.def, the values are share/cpus.
 */
#include "account/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    struct uarch_parameter p;
    size_t at;
} rows[] = {
#define PARAM(field, key, unit, min, max, text)                                                    \
    {{key, unit, text, min, max}, offsetof(struct uarch_config, field)},
#include "account/numbers.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct {
    const char *name, *text;
} presets[] = {
#include "presets.inc"
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *uarch_preset_name(size_t index)
{
    return index < PRESETS ? presets[index].name : NULL;
}

const char *uarch_preset_text(size_t index)
{
    return index < PRESETS ? presets[index].text : NULL;
}

bool uarch_parameter(size_t index, struct uarch_parameter *parameter)
{
    if (index >= ROWS)
        return false;
    *parameter = rows[index].p;
    return true;
}

static uint32_t *field(struct uarch_config *config, size_t index)
{
    return (uint32_t *)((char *)config + rows[index].at);
}

uint32_t uarch_config_get(const struct uarch_config *config, size_t index)
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

static enum spex_status check(const struct uarch_config *c, struct spex_error *error)
{
    enum spex_status status;
    if ((status = check_sets("l1d", c->l1d_size >> UARCH_LINE, c->l1d_ways, error)) ||
        (status = check_sets("l2", c->l2_size >> UARCH_LINE, c->l2_ways, error)) ||
        (status = check_sets("llc", c->llc_size >> UARCH_LINE, c->llc_ways, error)) ||
        (status = check_sets("tlb2", c->tlb2_entries, c->tlb2_ways, error)) ||
        (status = check_sets("l1i", c->l1i_size >> UARCH_LINE, c->l1i_ways, error)) ||
        (status = check_sets("btb", c->btb_entries, c->btb_ways, error)) ||
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

/* Row of a key, or ROWS. */
static size_t find_key(const char *key, size_t length)
{
    size_t r = 0;
    while (r < ROWS && (strlen(rows[r].p.key) != length || memcmp(rows[r].p.key, key, length)))
        r++;
    return r;
}

static enum spex_status set_value(struct uarch_config *config, size_t r, const char *value,
                                  size_t length, struct spex_error *error)
{
    const struct uarch_parameter *p = &rows[r].p;
    uint32_t number;
    if (!parse_number(value, length, &number) || number < p->min || number > p->max)
        return fail(error, SPEX_RANGE, "'%s=%.*s': %s is a number of %s from %u to %u", p->key,
                    (int)length, value, p->key, p->unit, p->min, p->max);
    *field(config, r) = number;
    return SPEX_OK;
}

/* ---- files ---- */

static size_t word_at(const char **at, const char *end)
{
    while (*at < end && (**at == ' ' || **at == '\t'))
        (*at)++;
    const char *stop = *at;
    while (stop < end && *stop != ' ' && *stop != '\t')
        stop++;
    return (size_t)(stop - *at);
}

/* The model does not use keys that identify the CPU: <guest/cpu.h> does. */
static enum spex_status skip_identity(void *context, const struct uarch_line *line,
                                      struct spex_error *error)
{
    static const char *const keys[] = {"features", "layout", "select_group", "sve.bits"};
    (void)context;
    (void)error;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i]) == line->key_length && !memcmp(keys[i], line->key, line->key_length))
            return SPEX_OK;
    return SPEX_UNSUPPORTED;
}

/* Reads a line with a parameter, or passes it on. seen: by row. */
static enum spex_status read_line(const struct uarch_line *line, uarch_other *other, void *context,
                                  struct uarch_config *work, bool *seen, struct spex_error *error)
{
    size_t r = find_key(line->key, line->key_length);
    if (r == ROWS) {
        enum spex_status status = other(context, line, error);
        if (status != SPEX_UNSUPPORTED)
            return status;
        return fail(error, SPEX_INVALID, "no parameter '%.*s'; see docs/model.md",
                    (int)line->key_length, line->key);
    }
    if (seen[r])
        return fail(error, SPEX_INVALID, "%s a second time", rows[r].p.key);
    seen[r] = true;
    return set_value(work, r, line->value, line->value_length, error);
}

enum spex_status uarch_config_read(const char *text, uarch_other *other, void *context,
                                   struct uarch_config *config, struct spex_error *error)
{
    struct uarch_config work = {.sources = ARCH_SOURCES_COMMON};
    bool seen[ROWS] = {false};
    unsigned number = 0;
    for (const char *next = text; *next; number++) {
        const char *end = next + strcspn(next, "\n");
        struct uarch_line line = {.key = next};
        struct spex_error why = {0};
        next = *end ? end + 1 : end;
        line.key_length = word_at(&line.key, end);
        if (!line.key_length || *line.key == '#')
            continue;
        line.value = line.key + line.key_length;
        line.value_length = word_at(&line.value, end);
        enum spex_status status =
            read_line(&line, other ? other : skip_identity, context, &work, seen, &why);
        if (status)
            return fail(error, status, "line %u: %.400s", number + 1, why.text);
    }
    for (size_t r = 0; r < ROWS; r++)
        if (!seen[r])
            return fail(error, SPEX_INVALID, "%s is missing", rows[r].p.key);
    enum spex_status status = check(&work, error);
    if (status == SPEX_OK)
        *config = work;
    return status;
}

static size_t find_preset(const char *name, size_t length)
{
    size_t i = 0;
    while (i < PRESETS &&
           (strlen(presets[i].name) != length || memcmp(presets[i].name, name, length)))
        i++;
    return i;
}

static const char *preset_list(char text[256])
{
    size_t n = 0;
    for (size_t i = 0; i < PRESETS; i++)
        n += (size_t)snprintf(text + n, n < 256 ? 256 - n : 0, "%s%s", i ? ", " : "",
                              presets[i].name);
    return text;
}

enum spex_status uarch_config_preset(const char *name, struct uarch_config *config,
                                     struct spex_error *error)
{
    char list[256];
    size_t i = find_preset(name, strlen(name));
    if (i == PRESETS)
        return fail(error, SPEX_INVALID, "no model '%s'; there are %s", name, preset_list(list));
    return uarch_config_read(presets[i].text, NULL, NULL, config, error);
}

/* ---- words of --model ---- */

const char *uarch_mode(const struct uarch_config *config)
{
    return config->none ? "none" : config->sampled ? "sampled" : "full";
}

/* Sets full, sampled or none: how the numbers are used. */
static bool set_mode(struct uarch_config *config, const char *word, size_t length)
{
    static const char *const modes[3] = {"full", "none", "sampled"};
    for (unsigned m = 0; m < 3; m++)
        if (strlen(modes[m]) == length && !memcmp(modes[m], word, length)) {
            config->none = m == 1;
            config->sampled = m == 2;
            return true;
        }
    return false;
}

static void no_prefetch(struct uarch_config *c)
{
    c->pf_code = c->pf_stride = c->pf_stream = c->pf_l2 = c->pf_next = c->pf_spatial = 0;
}

static enum spex_status set_word(struct uarch_config *work, const char *word, size_t length,
                                 struct spex_error *error)
{
    static const char none[] = "prefetch=none";
    char list[256];
    const char *equal = memchr(word, '=', length);
    if (!equal) {
        size_t i = find_preset(word, length);
        if (i <
            /* uses the numbers of another CPU; its SPU, records and kind of model stay */
            PRESETS) {
            struct uarch_config before = *work;
            enum spex_status status = uarch_config_read(presets[i].text, NULL, NULL, work, error);
            work->sources = before.sources;
            work->none = before.none;
            work->sampled = before.sampled;
            return status;
        }
        if (set_mode(work, word, length))
            return SPEX_OK;
        if (length == 4 && !memcmp(word, "fast", 4))
            return fail(error, SPEX_INVALID,
                        "'fast' is no model any more: there are sampled (the default), full and "
                        "none; see docs/model.md");
        return fail(error, SPEX_INVALID,
                    "model '%.*s': neither KEY=VALUE nor sampled, full, none, %s", (int)length,
                    word, preset_list(list));
    }
    if (length == sizeof none - 1 && !memcmp(word, none, length)) {
        no_prefetch(work);
        return SPEX_OK;
    }
    size_t name = (size_t)(equal - word), r = find_key(word, name);
    if (r == ROWS)
        return fail(error, SPEX_INVALID, "model: no parameter '%.*s'; see docs/model.md", (int)name,
                    word);
    struct spex_error why = {0};
    enum spex_status status = set_value(work, r, equal + 1, length - name - 1, &why);
    return status ? fail(error, status, "model %.400s", why.text) : SPEX_OK;
}

enum spex_status uarch_config_set(struct uarch_config *config, const char *words,
                                  struct spex_error *error)
{
    struct uarch_config work = *config;
    for (const char *word = words;;) {
        size_t length = strcspn(word, ",");
        enum spex_status status = set_word(&work, word, length, error);
        if (status)
            return status;
        if (!word[length])
            break;
        word += length + 1;
    }
    enum spex_status status = check(&work, error);
    if (status == SPEX_OK)
        *config = work;
    return status;
}
