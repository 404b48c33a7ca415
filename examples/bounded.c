/*
 * A profile in a host that must go on whatever it is given: at most so many bytes, from the host's
 * own allocator, and all of them given back on every way out. docs/profile.md says more.
 *
 *     cc bounded.c $(pkg-config --cflags --libs spex-profile) -o bounded
 *     ./bounded perf.data [BYTES]
 *
 * Exit status 0; 1: the profile cannot be read; 2: not with so little memory; 3: bytes are lost.
 */
#include <spex/analysis.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the host's memory: malloc, with a count ---- */

struct pool {
    atomic_size_t used, most; /* the library's threads allocate, too */
};

union block {
    size_t size;
    max_align_t align;
};

static void *allocate(void *context, size_t size)
{
    struct pool *pool = context;
    union block *block = size > SIZE_MAX / 2 ? NULL : malloc(sizeof *block + size);
    if (!block)
        return NULL; /* the library says SPEX_NO_MEMORY then */
    block->size = size;
    size_t used = atomic_fetch_add(&pool->used, size) + size, most = atomic_load(&pool->most);
    while (used > most && !atomic_compare_exchange_weak(&pool->most, &most, used))
        ;
    return block + 1;
}

static void release(void *context, void *memory)
{
    struct pool *pool = context;
    union block *block = (union block *)memory - 1;
    atomic_fetch_sub(&pool->used, block->size);
    free(block);
}

/* ---- the host's work ---- */

/* Functions by samples. What was made is ended whether or not the rest worked: NULL is ignored. */
static enum spex_status print_functions(const char *path, uint64_t bytes, struct pool *pool,
                                        struct spex_error *error)
{
    static const enum spex_key by_symbol[] = {SPEX_KEY_SYMBOL};
    const struct spex_allocator allocator = {allocate, release, pool};
    const struct spex_analysis_options options = {.size = sizeof options,
                                                  .want = SPEX_WANT_SYMBOL,
                                                  .max_memory = bytes,
                                                  .allocator = &allocator};
    const struct spex_group_options table = {
        .size = sizeof table, .keys = by_symbol, .key_count = 1};
    struct spex_analysis *profile = NULL;
    struct spex_group *group = NULL;
    enum spex_status status = spex_analysis_open(path, &options, &profile, error);
    if (!status)
        status = spex_group_new(profile, &table, &group, error);
    if (!status)
        status = spex_analysis_run(profile, spex_group_sink, group, error);
    if (!status && (status = spex_group_sort(group, SPEX_BY_SAMPLES)))
        snprintf(error->text, sizeof error->text, "no memory for the rows");
    for (size_t i = 0; !status && i < spex_group_count(group); i++) {
        const struct spex_row *row = spex_group_row(group, i);
        char name[200];
        spex_row_text(group, row, 0, name, sizeof name);
        printf("%llu %s\n", (unsigned long long)spex_row_stat(row, SPEX_STAT_SAMPLES), name);
    }
    spex_group_free(group); /* before the analysis, whose memory it uses */
    spex_analysis_close(profile);
    return status;
}

int main(int argc, char **argv)
{
    struct pool pool = {0};
    struct spex_error error = {0};
    const char *path = argc > 1 ? argv[1] : "perf.data";
    const uint64_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 64 << 20;
    enum spex_status status = print_functions(path, bytes, &pool, &error);
    if (status)
        fprintf(stderr, "bounded: %s\n", error.text);
    fprintf(stderr, "%zu bytes at most, %zu left\n", (size_t)pool.most, (size_t)pool.used);
    return pool.used ? 3 : status == SPEX_NO_MEMORY ? 2 : status != SPEX_OK;
}
