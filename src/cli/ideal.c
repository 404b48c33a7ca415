#include "ideal.h"

#include "base/memory.h"
#include "base/vec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDEAL_DATA = SPEX_IDEAL_SHARE | SPEX_IDEAL_PAGES };

static const struct kind {
    const char *name;
    unsigned bit;
} kinds[] = {
    {"loads", SPEX_IDEAL_LOADS}, {"branch", SPEX_IDEAL_BRANCH}, {"divide", SPEX_IDEAL_DIVIDE},
    {"time", SPEX_IDEAL_TIME},   {"share", SPEX_IDEAL_SHARE},   {"pages", SPEX_IDEAL_PAGES},
};

/* ---- parsing ---- */

struct place {
    char *name; /* name of a function, file or object; NULL: the place is an address */
    unsigned bit;
    uint64_t first, last; /* addresses, or source lines; 0: none */
    bool all, found;
};

struct ideal {
    const char *spec;
    VEC(struct place) places;
    struct profile *profile;
    VEC(struct engine_ideal) ranges;
};

static void ideal_free(struct ideal *ideal)
{
    for (size_t i = 0; i < ideal->places.count; i++)
        free(ideal->places.items[i].name);
    vec_free(&ideal->places);
    vec_free(&ideal->ranges);
}

/* Length up to one of these marks, ignoring those in the brackets of a C++ name. */
static size_t part_of(const char *text, const char *marks)
{
    size_t n = 0;
    for (unsigned depth = 0; text[n] && (depth || !strchr(marks, text[n])); n++) {
        depth += text[n] == '<' || text[n] == '(';
        depth -= depth && (text[n] == '>' || text[n] == ')');
    }
    return n;
}

/* "0x4a20c0", "0x4a20c0-0x4a2100" */
static bool read_addresses(const char *text, struct place *place)
{
    char *end;
    if (strncmp(text, "0x", 2))
        return false;
    place->first = place->last = strtoull(text, &end, 16);
    if (*end == '-')
        place->last = strtoull(end + 1, &end, 16) - 1;
    return !*end && place->last >= place->first;
}

/* "parse:42", "parse.c:42-45": splits the lines off the name. */
static void read_lines(struct place *place)
{
    char *colon = strrchr(place->name, ':'), *end;
    if (!colon || colon == place->name || colon[1] < '1' || colon[1] > '9')
        return;
    uint64_t first = strtoull(colon + 1, &end, 10), last = first;
    if (*end == '-')
        last = strtoull(end + 1, &end, 10);
    if (*end || last < first)
        return;
    *colon = '\0';
    place->first = first;
    place->last = last;
}

static int read_place(struct ideal *ideal, const struct kind *kind, const char *text, size_t size)
{
    struct place place = {.bit = kind->bit};
    place.name = memory_checked(strndup(text, size));
    bool data = kind->bit & IDEAL_DATA, bad = false;
    if (!strcmp(place.name, "all") ||
        (kind->bit == SPEX_IDEAL_PAGES && !strcmp(place.name, "huge"))) {
        place.all = place.found = true;
    } else if (read_addresses(place.name, &place)) {
        place.found = true;
    } else {
        bad = !size || !strncmp(place.name, "0x", 2);
        read_lines(&place);
    }
    int status = CLI_OK;
    if (bad)
        status = cli_usage("--ideal %s: '%.*s' is no place: %s", ideal->spec, (int)size, text,
                           data ? "OBJECT, 0xADDRESS, 0xFROM-0xTO, heap or all"
                                : "FUNCTION, FILE:LINE, FUNCTION:LINE, 0xADDRESS or all");
    else if (data && !place.all && place.first && place.name && !place.found)
        status = cli_usage("--ideal %s: %s= is of data: an OBJECT or 0xADDRESS, not lines of code",
                           ideal->spec, kind->name);
    if (place.found) {
        free(place.name);
        place.name = NULL;
    }
    *(struct place *)memory_checked(vec_push(&ideal->places)) = place;
    return status;
}

/* Parses KIND=PLACE,... of this length. */
static int read_word(struct ideal *ideal, const char *word, size_t size)
{
    const char *equals = memchr(word, '=', size), *end = word + size;
    const struct kind *kind = NULL;
    int status = CLI_OK;
    for (size_t i = 0; equals && i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == (size_t)(equals - word) &&
            !strncmp(kinds[i].name, word, (size_t)(equals - word)))
            kind = &kinds[i];
    if (!kind)
        return cli_usage("--ideal %s: '%.*s' is none of loads=, branch=, divide=, time=, share=, "
                         "pages= (for example loads=walk; spex help whatif)",
                         ideal->spec, (int)(equals ? equals + 1 - word : end - word), word);
    for (const char *at = equals + 1; !status; at++) {
        size_t n = part_of(at, ", ");
        status = read_place(ideal, kind, at, n);
        at += n;
        if (at >= end)
            break;
    }
    return status;
}

static int ideal_read(const char *spec, struct ideal *ideal)
{
    *ideal = (struct ideal){.spec = spec};
    int status = CLI_OK;
    const char *at = spec + strspn(spec, " ");
    if (!*at)
        status = cli_usage("--ideal '': what is to be ideal? For example loads=walk");
    while (*at && !status) {
        size_t n = part_of(at, " ");
        status = read_word(ideal, at, n);
        at += n;
        at += strspn(at, " ");
    }
    return status;
}

int ideal_check(const char *spec)
{
    struct ideal ideal;
    int status = ideal_read(spec, &ideal);
    ideal_free(&ideal);
    return status;
}

bool ideal_large_pages(const char *spec)
{
    struct ideal ideal;
    bool large = false;
    if (!ideal_read(spec, &ideal))
        for (size_t i = 0; i < ideal.places.count; i++)
            large |= ideal.places.items[i].bit == SPEX_IDEAL_PAGES && ideal.places.items[i].all;
    ideal_free(&ideal);
    return large;
}

/* ---- finding ---- */

/* A mapping of a program's code. */
struct where {
    struct spex_module *module;
    const char *program;
    uint64_t bias;        /* run-time address minus module address */
    uint64_t first, last; /* range of its code, in module addresses */
};

static void add_range(struct ideal *ideal, const struct place *place, const char *program,
                      uint64_t first, uint64_t last)
{
    enum { LINE = 64, HUGE = 2 << 20 };
    uint64_t align = place->bit == SPEX_IDEAL_SHARE   ? LINE
                     : place->bit == SPEX_IDEAL_PAGES ? HUGE
                                                      : 4;
    first -= first % align;
    last |= align - 1;
    struct engine_ideal *to =
        ideal->ranges.count ? &ideal->ranges.items[ideal->ranges.count - 1] : NULL;
    if (to && to->range.first + to->range.size == first && to->range.kinds == place->bit &&
        !strncmp(to->program, program, sizeof to->program - 1)) {
        to->range.size = last + 1 - to->range.first;
        return;
    }
    to = memory_checked(vec_push(&ideal->ranges));
    *to = (struct engine_ideal){
        .range = {.first = first, .size = last + 1 - first, .kinds = place->bit}};
    snprintf(to->program, sizeof to->program, "%s", program);
}

/* Accepts "hash" for "hash(int)", "hash<int>" and the compiler's "hash.part.0". */
static bool is_name(const char *full, const char *name)
{
    size_t n = strlen(name);
    return full && !strncmp(full, name, n) && (!full[n] || strchr("(<.", full[n]));
}

static bool is_symbol(const struct spex_symbol *symbol, const char *name)
{
    return is_name(symbol->name, name) || is_name(symbol->raw, name);
}

/* Accepts "parse.c" or "src/parse.c" for "/home/x/src/parse.c". */
static bool is_file(const char *file, const char *name)
{
    size_t n = strlen(file), m = strlen(name);
    return n >= m && !strcmp(file + n - m, name) && (n == m || file[n - m - 1] == '/');
}

/* Does the place contain this instruction of this function? */
static bool has_code(const struct where *where, const struct place *place,
                     const struct spex_symbol *symbol, uint64_t address)
{
    enum { FRAMES = 32 };
    struct spex_inline frames[FRAMES];
    struct spex_line line;
    if (place->first && (!spex_module_line(where->module, address, &line) || !line.file ||
                         line.line < place->first || line.line > place->last))
        return false;
    if (is_symbol(symbol, place->name) || (place->first && is_file(line.file, place->name)))
        return true;
    size_t n = spex_module_inlines(where->module, address, frames, FRAMES);
    for (size_t i = 0; i < n && i < FRAMES; i++)
        if (is_name(frames[i].name, place->name))
            return true;
    return false;
}

static void find_code(struct ideal *ideal, const struct where *where, struct place *place)
{
    const struct spex_symbol *symbol;
    for (size_t i = 0; (symbol = spex_module_nth(where->module, i)); i++) {
        if (symbol->data || symbol->start < where->first || symbol->end > where->last + 1)
            continue;
        for (uint64_t at = symbol->start; at < symbol->end; at += 4)
            if (has_code(where, place, symbol, at)) {
                add_range(ideal, place, where->program, at + where->bias, at + where->bias);
                place->found = true;
            }
    }
}

static void find_data(struct ideal *ideal, const struct where *where, struct place *place)
{
    const struct spex_symbol *symbol;
    for (size_t i = 0; (symbol = spex_module_nth(where->module, i)); i++)
        if (symbol->data && symbol->end > symbol->start && is_symbol(symbol, place->name)) {
            add_range(ideal, place, where->program, symbol->start + where->bias,
                      symbol->end - 1 + where->bias);
            place->found = true;
        }
}

/* Adds the heap and other memory without a file. */
static void find_heap(struct ideal *ideal, const char *program, const struct spex_perf_map *map,
                      struct place *place)
{
    if (strcmp(map->filename, "[heap]") && strcmp(map->filename, "//anon"))
        return;
    add_range(ideal, place, program, map->start, map->end - 1);
    place->found = true;
}

static void find_in(struct ideal *ideal, const struct spex_perfdata *file, size_t index)
{
    const struct spex_perf_map *map = spex_perfdata_map_at(file, index);
    const char *program = spex_perfdata_comm(file, map->tid, map->time);
    struct where where = {.program = program ? program : ""};
    bool code = map->pid >= 0 && !map->data && map->prot & 4;
    for (size_t i = 0; code && i < index; i++) { /* may already be listed for another process */
        const struct spex_perf_map *other = spex_perfdata_map_at(file, i);
        const char *also = spex_perfdata_comm(file, other->tid, other->time);
        code = other->start != map->start || other->pgoff != map->pgoff ||
               strcmp(other->filename, map->filename) || strcmp(also ? also : "", where.program);
    }
    if (code) {
        size_t size = map->build_id_size;
        const uint8_t *id =
            size ? map->build_id : spex_perfdata_build_id(file, map->filename, &size);
        where.module =
            memory_checked(spex_symbols_module(spex_analysis_symbols(ideal->profile->analysis),
                                               map->filename, id, id ? size : 0, map->pid));
        where.first = spex_module_address(where.module, map->start, map->start, map->pgoff);
        where.last = where.first + (map->end - map->start) - 1;
        where.bias = map->start - where.first;
    }
    for (size_t i = 0; i < ideal->places.count; i++) {
        struct place *place = &ideal->places.items[i];
        if (!place->name)
            continue;
        if (place->bit & IDEAL_DATA && !strcmp(place->name, "heap"))
            find_heap(ideal, where.program, map, place);
        else if (code && place->bit & IDEAL_DATA)
            find_data(ideal, &where, place);
        else if (code)
            find_code(ideal, &where, place);
    }
}

static int nothing_found(const struct ideal *ideal, const struct place *place)
{
    const char *program = ideal->profile->label ? ideal->profile->label : "the program";
    if (place->bit & IDEAL_DATA)
        return cli_usage("--ideal %s: %s has no object '%s'; give its 0xADDRESS as spex c2c and "
                         "spex mem show it",
                         ideal->spec, program, place->name);
    if (place->first)
        return cli_usage("--ideal %s: no code of %s is of %s, line %llu (is it compiled with -g?)",
                         ideal->spec, program, place->name, (unsigned long long)place->first);
    return cli_usage("--ideal %s: %s has no function '%s'; spex report shows their names",
                     ideal->spec, program, place->name);
}

int ideal_find(const char *spec, struct profile *profile, struct engine_ideal **ranges,
               size_t *count)
{
    struct ideal ideal;
    int status = ideal_read(spec, &ideal);
    ideal.profile = profile;
    const struct spex_perfdata *file = spex_analysis_file(profile->analysis);
    for (size_t i = 0; !status && i < ideal.places.count; i++) {
        const struct place *place = &ideal.places.items[i];
        if (!place->name && (!place->all || place->bit != SPEX_IDEAL_PAGES))
            add_range(&ideal, place, "", place->first,
                      place->all ? (UINT64_C(1) << 56) - 1 : place->last);
    }
    for (size_t i = 0; !status && i < spex_perfdata_map_count(file); i++)
        find_in(&ideal, file, i);
    for (size_t i = 0; !status && i < ideal.places.count; i++)
        if (!ideal.places.items[i].found)
            status = nothing_found(&ideal, &ideal.places.items[i]);
    *ranges = ideal.ranges.items;
    *count = ideal.ranges.count;
    ideal.ranges.items = NULL;
    ideal_free(&ideal);
    return status;
}
