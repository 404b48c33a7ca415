/*
 * Every variant of the fast reader against the table-driven one, batch sizes drawn
 * at random: same records, same damage, same positions, on good, damaged and
 * random streams. Plain TAP without libraries, so that it runs for other targets
 * under an emulator too (test_cross.py).
 */
#include <spex/record.h>

#include "record/reader.h"
#include "record/stream.h"

#include <stdio.h>

static const char *const variant_names[READER_VARIANTS] = {
    [READER_PORTABLE] = "portable",
    [READER_AVX2] = "AVX2",
    [READER_AVX512] = "AVX-512",
    [READER_NEON] = "NEON",
};

/* Reads data both ways; false at the first difference, with its place. */
static bool same(enum reader_variant variant, const uint8_t *data, size_t size, uint64_t seed,
                 const char **what, size_t *where)
{
    static struct spex_record batch[300];
    struct spex_record_reader fast, table;
    struct rng rng = {seed};
    spex_record_reader_init(&fast, data, size, 7);
    spex_record_reader_init(&table, data, size, 7);
    reader_state(&fast)->variant = (uint8_t)variant;
    for (enum spex_status status = SPEX_OK; status != SPEX_END;) {
        struct spex_damage a = {0}, b = {0};
        struct spex_record record;
        *where = fast.position;
        size_t n = spex_record_batch(&fast, batch, 1 + rng_below(&rng, 300), &status, &a);
        for (size_t i = 0; i < n; i++) {
            if (spex_record_next_table(&table, &record, &b) != SPEX_OK ||
                memcmp(&record, &batch[i], sizeof record)) {
                *where = (size_t)batch[i].offset - 7;
                *what = "a record";
                return false;
            }
        }
        if (status != SPEX_OK) {
            enum spex_status other = spex_record_next_table(&table, &record, &b);
            if (other != status || (status != SPEX_END && (a.offset != b.offset || a.size != b.size ||
                                                           a.reason != b.reason))) {
                *what = "the status or damage";
                return false;
            }
        }
        if (fast.position != table.position) {
            *what = "the position";
            return false;
        }
    }
    return true;
}

/* A copy of the exact size, so that a sanitizer sees an over-read. */
static bool same_copy(enum reader_variant variant, const struct stream *s, size_t from, size_t to,
                      uint64_t seed, const char **what, size_t *where)
{
    uint8_t *copy = malloc(to - from + 1);
    memcpy(copy, s->data + from, to - from);
    uint8_t *exact = realloc(copy, to - from ? to - from : 1);
    bool ok = same(variant, exact, to - from, seed, what, where);
    free(exact);
    return ok;
}

/* Streams of one kind: whole, from the middle, cut, flipped, with bytes lost; noise mixed in. */
static bool try_streams(enum reader_variant variant, enum stream_kind kind, unsigned seeds,
                        size_t count, const char **what, size_t *where)
{
    bool ok = true;
    for (uint64_t seed = 1; ok && seed <= seeds; seed++) {
        struct stream s = stream_make(seed * 13, kind, count);
        struct rng rng = {seed};
        ok = same_copy(variant, &s, 0, s.size, seed, what, where) &&
             same_copy(variant, &s, rng_below(&rng, 300), s.size - rng_below(&rng, 300), seed, what,
                       where);
        for (int i = 0; i < 12; i++)
            stream_flip(&s, rng_below(&rng, (uint32_t)s.size), rng_below(&rng, 8));
        ok = ok && same_copy(variant, &s, 0, s.size, seed, what, where);
        for (int i = 0; i < 12; i++) {
            size_t at = rng_below(&rng, (uint32_t)s.size - 100);
            stream_remove(&s, at, at + 1 + rng_below(&rng, 90));
        }
        ok = ok && same_copy(variant, &s, 0, s.size, seed, what, where);
        for (size_t i = 0; i < s.size; i++)
            if (rng_chance(&rng, 1, 200))
                s.data[i] = (uint8_t)rng_next(&rng);
        ok = ok && same_copy(variant, &s, 0, s.size, seed, what, where);
        stream_free(&s);
    }
    return ok;
}

/* Cells of 64 bytes with many shapes, incomplete records and strangers among them. */
static struct stream cells(uint64_t seed, size_t count)
{
    struct rng rng = {seed};
    struct stream s = stream_make(seed, STREAM_N1, count);
    for (size_t i = 0; i < count; i++) {
        uint8_t *cell = s.data + 64 * i;
        unsigned draw = rng_below(&rng, 40);
        if (draw == 0)
            memset(cell, 0, 9); /* no PC */
        else if (draw == 1)
            memset(cell + 19, 0, 2); /* no operation */
        else if (draw == 2)
            cell[22] ^= 3; /* other events */
        else if (draw == 3)
            memset(cell, 0, 64); /* nothing */
        else if (draw == 4)
            cell[9 + rng_below(&rng, 5)] = 0x02; /* a reserved packet, maybe */
        else if (draw == 5)
            memcpy(cell, s.data + 64 * rng_below(&rng, (uint32_t)count) + 20, 44);
    }
    return s;
}

int main(void)
{
    unsigned tests = 0;
    bool passed = true;
    for (int variant = 0; variant < READER_VARIANTS; variant++) {
        if (!reader_has_variant((enum reader_variant)variant))
            continue;
        for (int kind = 0; kind < STREAM_KINDS + 2; kind++) {
            const char *what = "", *name = kind < STREAM_KINDS ? stream_names[kind] : "";
            size_t where = 0;
            bool ok = true;
            if (kind < STREAM_KINDS) {
                ok = try_streams((enum reader_variant)variant, (enum stream_kind)kind, 40, 150,
                                 &what, &where) &&
                     try_streams((enum reader_variant)variant, (enum stream_kind)kind, 2, 6000,
                                 &what, &where);
            } else if (kind == STREAM_KINDS) {
                name = "cells";
                for (uint64_t seed = 1; ok && seed < 30; seed++) {
                    struct stream s = cells(seed, 900);
                    ok = same_copy((enum reader_variant)variant, &s, 64 * (seed % 3) + seed % 2,
                                   s.size, seed, &what, &where);
                    stream_free(&s);
                }
            } else {
                name = "noise";
                for (uint64_t seed = 1; ok && seed < 60; seed++) {
                    struct rng rng = {seed};
                    struct stream s = {.size = 5000};
                    s.data = malloc(s.size);
                    for (size_t i = 0; i < s.size; i++)
                        s.data[i] = rng_chance(&rng, 1, 2) ? 0 : (uint8_t)rng_next(&rng);
                    ok = same_copy((enum reader_variant)variant, &s, 0, s.size, seed, &what, &where);
                    free(s.data);
                }
            }
            printf("%s %u - %s reads %s as the table-driven reader does\n", ok ? "ok" : "not ok",
                   ++tests, variant_names[variant], name);
            if (!ok)
                printf("# %s differs at %zu\n", what, where);
            passed &= ok;
        }
    }
    printf("1..%u\n", tests);
    return !passed;
}
