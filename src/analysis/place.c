/* Finds what code and data addresses belong to: mappings, modules, symbols, lines. */
#include "pass.h"

#include "base/memory.h"
#include "base/search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_SLOTS = 1 << 13, /* caches of data locations: cache lines, pages, addresses */
    PAGE_SLOTS = 1 << 15,
    SINGLE_SLOTS = 1 << 13,
};

/* The mount namespace of a mapping's file: the last one recorded before the mapping. */
static struct module_space space_of(const struct spex_analysis *a, const struct spex_perf_map *map)
{
    size_t low = SEARCH(i, 0, a->space_count,
                        a->spaces[i].pid < map->pid ||
                            (a->spaces[i].pid == map->pid && a->spaces[i].time <= map->time));
    bool known = low && a->spaces[low - 1].pid == map->pid;
    return known ? a->spaces[low - 1].space : (struct module_space){0, 0};
}

static struct spex_module *find_module(struct spex_analysis *a, const struct spex_perf_map *map)
{
    size_t size = map->build_id_size;
    const uint8_t *id = map->build_id;
    if (!size)
        id = spex_perfdata_build_id(a->file, map->filename, &size);
    struct module_space space = space_of(a, map);
    return symbols_module(a->symbols, map->filename, id, id ? size : 0, map->pid, &space);
}

/*
 * The module of a mapping, with its symbols. The lock is for the first thread that asks; after that
 * neither the module nor its symbols change.
 */
static struct spex_module *map_module(struct spex_analysis *a, const struct spex_perf_map *map)
{
    struct spex_module **at = &a->map_modules[map - spex_perfdata_map_at(a->file, 0)];
    struct spex_module *module = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (__builtin_expect(module != NULL, 1))
        return module;
    analysis_lock(a);
    module = find_module(a, map);
    module_load(module);
    __atomic_store_n(at, module, __ATOMIC_RELEASE);
    analysis_unlock(a);
    return module;
}

/* Orders by process, address and time. */
static int compare_maps(const void *a, const void *b, void *context)
{
    const struct spex_perfdata *file = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct spex_perf_map *x = spex_perfdata_map_at(file, i);
    const struct spex_perf_map *y = spex_perfdata_map_at(file, j);
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void sort_maps(struct spex_analysis *a)
{
    size_t count = spex_perfdata_map_count(a->file);
    uint32_t *maps = memory_get(count + 1, sizeof *maps);
    for (size_t i = 0; i < count; i++)
        maps[i] = (uint32_t)i;
    qsort_r(maps, count, sizeof *maps, compare_maps, a->file);
    __atomic_store_n(&a->maps, maps, __ATOMIC_RELEASE);
}

static bool map_up_to(const struct spex_perf_map *map, int32_t pid, uint64_t start, uint64_t time)
{
    if (map->pid != pid)
        return map->pid < pid;
    return map->start < start || (map->start == start && map->time <= time);
}

/* How many entries of a->maps are not after this one, in the order (process, address, time). */
static size_t maps_up_to(struct spex_analysis *a, int32_t pid, uint64_t start, uint64_t time)
{
    return SEARCH(i, 0, spex_perfdata_map_count(a->file),
                  map_up_to(spex_perfdata_map_at(a->file, a->maps[i]), pid, start, time));
}

/* The last among the first n maps of a->maps; NULL if n is 0. */
static const struct spex_perf_map *map_before(const struct spex_analysis *a, size_t n)
{
    return n ? spex_perfdata_map_at(a->file, a->maps[n - 1]) : NULL;
}

/* .bss has no file behind it: find the file mapped below whose image reaches this far. */
static void locate_image(struct spex_analysis *a, int32_t pid, uint64_t time, uint64_t ip,
                         struct spex_place *place)
{
    enum { NEAR = 64 }; /* an image is mapped in a few pieces, with little in between */
    if (!__atomic_load_n(&a->maps, __ATOMIC_ACQUIRE)) {
        analysis_lock(a);
        if (!a->maps)
            sort_maps(a);
        analysis_unlock(a);
    }
    size_t n = maps_up_to(a, pid, ip, UINT64_MAX);
    for (unsigned i = 0; i < NEAR; i++) {
        const struct spex_perf_map *map = map_before(a, n);
        if (!map || map->pid != pid)
            return;
        uint64_t start = map->start;
        if (map->time > time) { /* a later mapping: look up what was there at that time */
            n = maps_up_to(a, pid, start, time);
            map = map_before(a, n);
        }
        if (map && map->pid == pid && map->start == start) {
            struct spex_module *module = map_module(a, map);
            uint64_t address = ip - (start - spex_module_address(module, start, start, map->pgoff));
            if (module_is_file(module) && module_covers(module, address) &&
                spex_perfdata_map(a->file, pid, start, time) == map) {
                place->module = module;
                place->address = address;
                place->symbol = spex_module_symbol(module, address);
                return;
            }
        }
        /* Continue with the entry before, unless there are others at the same address. */
        const struct spex_perf_map *next = n ? map_before(a, n - 1) : NULL;
        if (next && next->pid == pid && next->start == start)
            n = start ? maps_up_to(a, pid, start - 1, UINT64_MAX) : 0;
        else if (map && map->pid == pid && map->start == start)
            n--;
    }
}

static void find_place(struct spex_analysis *a, int32_t pid, uint64_t time, uint64_t ip, bool data,
                       struct spex_place *place)
{
    *place = (struct spex_place){.address = ip};
    if (!a->file)
        return;
    const struct spex_perf_map *map = spex_perfdata_map(a->file, pid, ip, time);
    if (map && !data && map->filename[0] == '/' && map->filename[1] == '/') {
        /* the compiler may name its functions late: take what is there at the end */
        const struct spex_perf_map *last = spex_perfdata_map(a->file, pid, ip, UINT64_MAX);
        if (last && module_is_code(map_module(a, last)))
            map = last;
    }
    if (map) {
        place->module = map_module(a, map);
        place->address = spex_module_address(place->module, ip, map->start, map->pgoff);
        place->symbol = spex_module_symbol(place->module, place->address);
    }
    if (data && !place->symbol && !(ip >> 63) && (!map || !module_is_file(place->module)))
        locate_image(a, pid, time, ip, place);
}

void analysis_place(struct spex_analysis *a, int32_t pid, uint64_t time, uint64_t ip, bool data,
                    struct spex_place *place)
{
    find_place(a, pid, time, ip, data, place);
}

void place_fill(struct lane *lane, struct place_slot *s, uint32_t version, int32_t pid,
                uint64_t time, uint64_t ip)
{
    struct spex_place place;
    find_place(lane->analysis, ip >> 63 ? SPEX_PERF_PID_KERNEL : pid, time, ip, false, &place);
    const struct spex_module *module = place.module;
    const uint32_t number = module ? module->number : 0;
    if (number >= lane->module_room) {
        const size_t old = lane->module_room, room = 2 * (size_t)number + 16;
        lane->modules = memory_resize(lane->modules, room, sizeof *lane->modules);
        memset(lane->modules + old, 0, (room - old) * sizeof *lane->modules);
        lane->module_room = room;
    }
    lane->modules[number].stripped = module && module->stripped;
    /* assigned last: there may be no memory */
    *s = (struct place_slot){ip, version, number, place};
}

/*
 * A cached answer for data: for a cache line or page whose addresses all share it, or for one
 * address.
 */
struct data_slot {
    uint64_t number;  /* number of the line or page */
    uint32_t version; /* 0: none */
    struct data_place of;
};

/* Caches places of data. */
struct place_cache {
    struct data_slot near[LINE_SLOTS], far[PAGE_SLOTS], single[SINGLE_SLOTS];
    struct data_place none;
};

enum { LINE_BITS = 6, PAGE_BITS = 12 };

static inline struct data_slot *near_slot(struct place_cache *cache, uint64_t ip, uint32_t version)
{
    return &cache->near[mix(ip >> LINE_BITS ^ (uint64_t)version << 48) % LINE_SLOTS];
}

static inline struct data_slot *far_slot(struct place_cache *cache, uint64_t ip, uint32_t version)
{
    return &cache->far[mix(ip >> PAGE_BITS ^ (uint64_t)version << 48) % PAGE_SLOTS];
}

/* `place`, found for ip, is right for the whole block, except for its address. */
static void fill_block(struct data_slot *block, unsigned bits, uint32_t version, uint64_t ip,
                       const struct spex_place *place)
{
    *block = (struct data_slot){ip >> bits, version, {.place = *place}};
    block->of.place.address -= ip & ((UINT64_C(1) << bits) - 1);
}

/* Does the whole page lie in one mapping without names? */
static bool page_alike(uint64_t ip, const struct spex_place *place)
{
    if (!place->module)
        return ip >> 63;
    /* no part of a missing file has a name */
    return !module_has_symbols(place->module) ||
           (module_is_file(place->module) && !place->module->count &&
            !module_covers(place->module, place->address));
}

/* A file is mapped by pages; in one with symbols, a line may still belong to one symbol. */
static void fill_blocks(struct place_cache *cache, uint32_t version, uint64_t ip,
                        const struct spex_place *place)
{
    const unsigned line = (1u << LINE_BITS) - 1;
    uint64_t first, last, at = ip & line;
    if (page_alike(ip, place)) {
        fill_block(far_slot(cache, ip, version), PAGE_BITS, version, ip, place);
        return;
    }
    if (!place->symbol) /* the next address may belong to another file's image */
        return;
    module_symbol_around(place->module, place->address, &first, &last);
    if (place->address - first >= at && last - place->address >= line - at)
        fill_block(near_slot(cache, ip, version), LINE_BITS, version, ip, place);
}

/* All ones if the slot is for this block, else 0. */
static inline uintptr_t is_of(const struct data_slot *slot, uint64_t number, uint32_t version)
{
    uintptr_t is = -(uintptr_t) !((slot->number ^ number) | (slot->version ^ version));
    __asm__("" : "+r"(is)); /* keeps the compiler from making this a branch */
    return is;
}

/*
 * Looks ip up in a cache. bits: size of the block for which the answer's address is right (0: ip
 * alone). version: that of the mappings that contain ip.
 */
static inline struct data_place *locate(struct spex_analysis *a, struct place_cache *cache,
                                        uint32_t version, int32_t pid,
                                        const struct spex_sample *sample, uint64_t ip,
                                        unsigned *bits)
{
    /* no branch between the two sizes of block: it would be unpredictable */
    struct data_slot *far = far_slot(cache, ip, version), *near = near_slot(cache, ip, version);
    uintptr_t in_page = is_of(far, ip >> PAGE_BITS, version);
    *bits = LINE_BITS + (in_page & (PAGE_BITS - LINE_BITS));
    const uintptr_t found = ((uintptr_t)far & in_page) | ((uintptr_t)near & ~in_page);
    if (in_page | is_of(near, ip >> LINE_BITS, version))
        return &((struct data_slot *)found)->of;
    *bits = 0;
    struct data_slot *slot = &cache->single[mix(ip ^ (uint64_t)version << 48) % SINGLE_SLOTS];
    if (!is_of(slot, ip, version)) {
        struct spex_place place;
        bool timed = sample && sample->flags & SPEX_SAMPLE_TIMED;
        uint64_t time = timed ? tick_time(a, sample->record->timestamp) : UINT64_MAX;
        find_place(a, ip >> 63 ? SPEX_PERF_PID_KERNEL : pid, time, ip, true, &place);
        fill_block(slot, 0, version, ip, &place);
        fill_blocks(cache, version, ip, &place);
    }
    return &slot->of;
}

void place_cache_free(struct place_cache *cache)
{
    memory_free(cache);
}

void place_cache_clear(struct place_cache *cache)
{
    if (cache)
        memset(cache, 0, sizeof *cache);
}

static inline struct place_cache *need_cache(struct place_cache **cache)
{
    if (__builtin_expect(!*cache, 0))
        *cache = memory_get(1, sizeof **cache);
    return *cache;
}

/* At the end of a process, or at the time of a sample. */
static void place_of(struct spex_analysis *a, int pid, const struct spex_sample *sample,
                     uint64_t ip, struct spex_place *place)
{
    unsigned bits;
    uint32_t version =
        sample
            ? sample_maps(sample, ip)
            : state_process(&a->lane, ip >> 63 ? SPEX_PERF_PID_KERNEL : pid, UINT64_MAX)->version;
    *place = locate(a, need_cache(&a->data_places), version, pid, sample, ip, &bits)->place;
    place->address += ip & ((UINT64_C(1) << bits) - 1);
}

/* With several files, the first that knows the address answers. */
static void locate_in_any(struct spex_analysis *a, int pid, uint64_t ip, struct spex_place *place)
{
    place_of(a, pid, NULL, ip, place);
    for (size_t i = 0; !place->module && i < a->part_count; i++)
        if (a->parts[i] != a)
            place_of(a->parts[i], pid, NULL, ip, place);
}

void spex_analysis_locate(struct spex_analysis *a, int pid, uint64_t ip, struct spex_place *place)
{
    assert(a);
    if (!memory_guarded(a->account, locate_in_any(a, pid, ip, place)))
        *place = (struct spex_place){0};
}

void spex_sample_locate(struct spex_analysis *a, const struct spex_sample *sample, uint64_t ip,
                        struct spex_place *place)
{
    assert(a && sample);
    const unsigned held = analysis_lock(a); /* sinks share its cache */
    if (!memory_guarded(a->account, place_of(analysis_reading(a), sample->pid, sample, ip, place)))
        *place = (struct spex_place){0};
    analysis_unlock_to(a, held);
}

struct data_place *analysis_data_line(struct spex_analysis *a, struct place_cache **cache,
                                      const struct spex_sample *sample, bool *whole)
{
    struct place_cache *own = need_cache(cache);
    unsigned bits = 0;
    uint64_t va = sample->va;
    struct data_place *found = &own->none;
    if (__builtin_expect(sample->record->present & SPEX_HAS_VA, 1))
        found = locate(analysis_reading(a), own, sample_maps(sample, va), sample->pid, sample, va,
                       &bits);
    *whole = bits;
    return found;
}

struct data_place *analysis_data_place(struct spex_analysis *a, struct place_cache **cache,
                                       const struct spex_sample *sample)
{
    bool whole;
    return analysis_data_line(a, cache, sample, &whole);
}

void analysis_maps(struct spex_analysis *a, int32_t pid, uint64_t time, uint32_t maps[2])
{
    maps[0] = state_process(&a->lane, pid, time)->version;
    maps[1] = state_process(&a->lane, SPEX_PERF_PID_KERNEL, time)->version;
}

const struct spex_place *analysis_code_place(struct spex_analysis *a, uint32_t maps, int32_t pid,
                                             uint64_t time, uint64_t ip)
{
    struct place_slot *slot = &a->lane.places[place_index(ip, maps << 1)];
    if (slot->ip != ip || slot->version != maps << 1)
        place_fill(&a->lane, slot, maps << 1, pid, time, ip);
    return &slot->place;
}

void analysis_line(struct spex_analysis *a, struct spex_module *module, uint64_t address,
                   struct spex_line *line)
{
    analysis_lock(a);
    if (spex_module_line(module, address, line))
        line->file = analysis_intern(a, line->file);
    else
        *line = (struct spex_line){0};
    analysis_unlock(a);
}

size_t analysis_read(struct spex_analysis *a, struct spex_module *module, uint64_t address,
                     void *bytes, size_t size)
{
    analysis_lock(a);
    size_t read = spex_module_read(module, address, bytes, size);
    analysis_unlock(a);
    return read;
}
