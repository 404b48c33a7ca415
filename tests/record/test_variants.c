/*
 * Every variant of the fast reader against the table-driven one, batch sizes drawn
 * at random, and teams of threads with chunks of random sizes: same records, same
 * damage, same positions, on good, damaged, random and hostile streams. Plain TAP without
 * libraries, so that it runs for other targets under an emulator too (test_cross.py).
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
    if (seed % 2) /* else when there are no cells */
        stream_start(&fast);
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
            if (other != status ||
                (status != SPEX_END &&
                 (a.offset != b.offset || a.size != b.size || a.reason != b.reason))) {
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

/* The data in pieces, by one reader that goes on learning: each as by a new one. */
static bool same_pieces(enum reader_variant variant, const uint8_t *data, size_t size,
                        uint64_t seed, const char **what, size_t *where)
{
    struct spex_record_reader fast, table;
    struct rng rng = {seed};
    spex_record_reader_init(&fast, data, 0, 0);
    reader_state(&fast)->variant = (uint8_t)variant;
    *what = "a piece";
    for (size_t at = 0, length; at < size; at += length) {
        length = 1 + rng_below(&rng, rng_chance(&rng, 1, 2) ? 300 : 6000);
        length = length < size - at ? length : size - at;
        *where = at;
        spex_record_reader_continue(&fast, data + at, length, at);
        spex_record_reader_init(&table, data + at, length, at);
        for (enum spex_status status = SPEX_OK; status != SPEX_END;) {
            struct spex_record batch[100], record;
            struct spex_damage a = {0}, b = {0};
            size_t n = spex_record_batch(&fast, batch, 100, &status, &a);
            for (size_t i = 0; i < n; i++)
                if (spex_record_next_table(&table, &record, &b) != SPEX_OK ||
                    memcmp(&record, &batch[i], sizeof record))
                    return false;
            if (status != SPEX_OK &&
                (spex_record_next_table(&table, &record, &b) != status || a.offset != b.offset ||
                 a.size != b.size || a.reason != b.reason))
                return false;
        }
    }
    return true;
}

/* ---- teams ---- */

/* What a chunk found: records, and damage where a record has size 0. */
struct found {
    struct spex_record *records;
    struct spex_damage *damages;
    size_t count, capacity;
};

struct compare {
    struct spex_record_reader table;
    bool differs;
    size_t where, chunks;
    size_t stop; /* after so many chunks */
};

static void found_begin(void *user, void *result)
{
    (void)user;
    ((struct found *)result)->count = 0;
}

static void found_map(void *user, void *result, const struct spex_record *records, size_t count,
                      const struct spex_damage *damage)
{
    struct found *found = result;
    (void)user;
    if (found->capacity < found->count + count + 1) {
        found->capacity = 2 * found->capacity + count + 1;
        found->records = realloc(found->records, found->capacity * sizeof *found->records);
        found->damages = realloc(found->damages, found->capacity * sizeof *found->damages);
    }
    if (count)
        memcpy(found->records + found->count, records, count * sizeof *records);
    found->count += count;
    if (damage) {
        found->records[found->count].size = 0;
        found->damages[found->count++] = *damage;
    }
}

static bool found_reduce(void *user, void *result)
{
    const struct found *found = result;
    struct compare *compare = user;
    for (size_t i = 0; i < found->count && !compare->differs; i++) {
        struct spex_record record;
        struct spex_damage damage = {0};
        compare->where = compare->table.position;
        enum spex_status status = spex_record_next_table(&compare->table, &record, &damage);
        const struct spex_damage *other = &found->damages[i];
        if (found->records[i].size)
            compare->differs =
                status != SPEX_OK || memcmp(&record, &found->records[i], sizeof record) != 0;
        else
            compare->differs = status != other->status || damage.offset != other->offset ||
                               damage.size != other->size || damage.reason != other->reason;
    }
    return ++compare->chunks != compare->stop && !compare->differs;
}

static void found_fini(void *result)
{
    free(((struct found *)result)->records);
    free(((struct found *)result)->damages);
}

enum { TEAMS = 3 };
static struct spex_record_team *teams[TEAMS]; /* of 1, 2, 3 threads */

static bool same_team(enum reader_variant variant, unsigned team, size_t chunk, const uint8_t *data,
                      size_t size, const char **what, size_t *where)
{
    const struct spex_record_job job = {
        .chunk = chunk, .begin = found_begin, .map = found_map, .reduce = found_reduce};
    struct compare compare = {.differs = false};
    struct spex_record_job mine = job;
    struct spex_record_reader reader;
    struct spex_record record;
    mine.user = &compare;
    spex_record_reader_init(&compare.table, data, size, 7);
    spex_record_reader_init(&reader, data, size, 7);
    reader_state(&reader)->variant = (uint8_t)variant;
    bool whole = spex_record_team_read(teams[team], &reader, &mine);
    *what = "a team";
    *where = compare.where;
    if (!whole || compare.differs || reader.position != size ||
        spex_record_next_table(&compare.table, &record, NULL) != SPEX_END)
        return false;
    /* Ended early: no more is reduced, and a reader goes on where the team stopped. */
    size_t chunks = compare.chunks;
    compare = (struct compare){.stop = chunks / 2 + 1};
    spex_record_reader_init(&compare.table, data, size, 7);
    spex_record_reader_init(&reader, data, size, 7);
    reader_state(&reader)->variant = (uint8_t)variant;
    if (chunks && (spex_record_team_read(teams[team], &reader, &mine) ||
                   compare.chunks != compare.stop || compare.differs))
        return false;
    for (enum spex_status status = SPEX_OK; chunks && status != SPEX_END;) {
        struct spex_record other;
        struct spex_damage a = {0}, b = {0};
        *where = reader.position;
        status = spex_record_next(&reader, &record, &a);
        if (spex_record_next_table(&compare.table, &other, &b) != status ||
            (status == SPEX_OK && memcmp(&record, &other, sizeof record)) || a.offset != b.offset ||
            a.size != b.size || a.reason != b.reason)
            return false;
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
    bool ok = same(variant, exact, to - from, seed, what, where) &&
              same_pieces(variant, exact, to - from, seed, what, where);
    struct rng rng = {seed + to};
    size_t chunk = rng_chance(&rng, 1, 4) ? 1 + rng_below(&rng, 80) : 80 + rng_below(&rng, 4000);
    chunk += (to - from) / 200; /* threads wait for each other at every chunk */
    ok = ok && same_team(variant, rng_below(&rng, TEAMS), chunk, exact, to - from, what, where);
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

/*
 * Records of more than 64 bytes that differ behind these only, in far more ways than are
 * remembered, so that many are taken for another at first sight; among them short ones without
 * an operation, which stand or not by their Events, and some that have lost their last bytes.
 */
static struct stream wide(uint64_t seed, size_t count)
{
    static const uint8_t head[] = {0xb0, 0x99, 0x98, 0x62, 0x49, 0xb2,
                                   0x9a, 0xb3, 0x65, 0x64, 0xb1};
    static const uint8_t tail[] = {0x00, 0x43, 0x64, 0x65, 0x9e, 0x9f, 0xb6, 0xb7};
    static const uint8_t other[] = {0xb0, 0x52, 0x71};
    struct rng rng = {seed};
    struct stream s = {.data = malloc(count * 256)};
    for (size_t i = 0; i < count; i++) {
        uint8_t headers[32];
        size_t n = 0;
        if (rng_chance(&rng, 1, 8)) {
            memcpy(headers, other, n = sizeof other);
        } else {
            memcpy(headers, head, n = sizeof head);
            for (size_t more = 1 + rng_below(&rng, 5); more; more--)
                headers[n++] = tail[rng_below(&rng, sizeof tail)];
            headers[n++] = 0x71;
        }
        for (size_t j = 0; j < n; j++) {
            s.data[s.size++] = headers[j];
            for (size_t size = headers[j] < 0x40 ? 0 : (size_t)1 << (headers[j] >> 4 & 3); size;
                 size--)
                s.data[s.size++] = (uint8_t)rng_next(&rng);
        }
        if (n == sizeof other && rng_chance(&rng, 1, 4))
            s.size -= 8; /* what comes next looks like the timestamp */
    }
    return s;
}

/*
 * Two streams in one: groups of nine bytes are whole records read from byte 0, and
 * other whole records read from byte 1, without end. Guesses go wrong all the time.
 */
static struct stream twins(uint64_t seed, size_t groups)
{
    /* B is the other stream's header in a packet of nine bytes, S four short ones. */
    static const char *const mine = "P6S6T", *const other = "PS66T";
    struct rng rng = {seed};
    struct stream s = {.size = 9 * groups + 40};
    s.data = calloc(1, s.size);
    for (size_t i = 0; i < groups; i++) {
        uint8_t *group = s.data + 9 * i;
        char a = mine[i % 5], b = other[(i + 4) % 5]; /* an S falls on a 6 of the other */
        for (size_t j = 0; j < 9; j++)
            group[j] = (uint8_t)rng_next(&rng);
        const char both[2] = {a, b};
        for (size_t j = 0; j < 2; j++) {
            if (both[j] == 'S') { /* total latency, operation, events, data source */
                static const uint8_t at[] = {0, 3, 5, 7}, header[] = {0x98, 0x49, 0x42, 0x43};
                for (size_t k = 0; k < 4; k++)
                    if (j + at[k] < 9)
                        group[j + at[k]] = header[k];
            } else {
                group[j] = both[j] == 'P' ? 0xb0 : both[j] == '6' ? 0xb6 : 0x71;
            }
        }
    }
    return s;
}

/* The longest run of whole records without damage from a position on. */
static size_t whole_records(const struct stream *s, size_t from)
{
    struct spex_record_reader reader;
    struct spex_record record;
    size_t n = 0;
    spex_record_reader_init(&reader, s->data, s->size, 0);
    reader.position = from;
    while (spex_record_next(&reader, &record, NULL) == SPEX_OK)
        n++;
    return n;
}

static bool try_twins(enum reader_variant variant, unsigned seeds, const char **what, size_t *where)
{
    bool ok = true;
    for (uint64_t seed = 1; ok && seed < seeds; seed++) {
        struct stream s = twins(seed, 3000);
        *what = "the two streams";
        ok = whole_records(&s, 0) > 590 && whole_records(&s, 10) > 590 &&
             same_copy(variant, &s, 0, s.size, seed, what, where) &&
             same_copy(variant, &s, 1, s.size, seed, what, where);
        stream_free(&s);
    }
    return ok;
}

/* Every size of chunks, so that a chunk ends at every offset of a record; by one thread. */
static bool try_splits(enum reader_variant variant, const char **what, size_t *where)
{
    bool ok = true;
    for (int kind = 0; ok && kind < STREAM_KINDS; kind++) {
        struct stream s = stream_make(7, (enum stream_kind)kind, 60);
        for (int damaged = 0; ok && damaged < 2; damaged++) {
            for (size_t chunk = 1; ok && chunk < 140; chunk++)
                ok = same_team(variant, 0, chunk, s.data, s.size, what, where);
            struct rng rng = {11};
            for (int i = 0; i < 6; i++)
                stream_flip(&s, rng_below(&rng, (uint32_t)s.size), rng_below(&rng, 8));
        }
        stream_free(&s);
    }
    return ok;
}

/* "quick" tries few streams, for slow machines and sanitizers. */
int main(int argc, char **argv)
{
    bool quick = argc > 1 && !strcmp(argv[1], "quick");
    unsigned tests = 0;
    bool passed = true;
    for (unsigned i = 0; i < TEAMS; i++)
        if (!(teams[i] = spex_record_team_new(i + 1, sizeof(struct found))))
            return 1;
    for (int variant = 0; variant < READER_VARIANTS; variant++) {
        if (!reader_has_variant((enum reader_variant)variant))
            continue;
        for (int kind = 0; kind < STREAM_KINDS + 5; kind++) {
            const char *what = "", *name = kind < STREAM_KINDS ? stream_names[kind] : "";
            size_t where = 0;
            bool ok = true;
            if (kind < STREAM_KINDS) {
                ok = try_streams((enum reader_variant)variant, (enum stream_kind)kind,
                                 quick ? 4 : 40, 150, &what, &where) &&
                     try_streams((enum reader_variant)variant, (enum stream_kind)kind,
                                 quick ? 0 : 2, 6000, &what, &where);
            } else if (kind == STREAM_KINDS) {
                name = "cells";
                for (uint64_t seed = 1; ok && seed < (quick ? 4 : 30); seed++) {
                    struct stream s = cells(seed, 900);
                    ok = same_copy((enum reader_variant)variant, &s, 64 * (seed % 3) + seed % 2,
                                   s.size, seed, &what, &where);
                    stream_free(&s);
                }
            } else if (kind == STREAM_KINDS + 1) {
                name = "two streams in one";
                ok = try_twins((enum reader_variant)variant, quick ? 3 : 20, &what, &where);
            } else if (kind == STREAM_KINDS + 2) {
                name = "chunks of every size";
                ok = try_splits((enum reader_variant)variant, &what, &where);
            } else if (kind == STREAM_KINDS + 3) {
                name = "long records";
                for (uint64_t seed = 1; ok && seed < (quick ? 3 : 10); seed++) {
                    struct stream s = wide(seed, 10000);
                    ok =
                        same_copy((enum reader_variant)variant, &s, 0, s.size, seed, &what, &where);
                    stream_free(&s);
                }
            } else {
                name = "noise";
                for (uint64_t seed = 1; ok && seed < (quick ? 6 : 60); seed++) {
                    struct rng rng = {seed};
                    struct stream s = {.size = 5000};
                    s.data = malloc(s.size);
                    for (size_t i = 0; i < s.size; i++)
                        s.data[i] = rng_chance(&rng, 1, 2) ? 0 : (uint8_t)rng_next(&rng);
                    ok =
                        same_copy((enum reader_variant)variant, &s, 0, s.size, seed, &what, &where);
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
    for (unsigned i = 0; i < TEAMS; i++)
        spex_record_team_free(teams[i], found_fini);
    printf("1..%u\n", tests);
    return !passed;
}
