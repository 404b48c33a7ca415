/*
 * Every variant of the fast reader against the oracle, batch sizes drawn at random:
 * same records, same damage, same positions, on good, damaged, random and hostile
 * streams. Plain TAP without libraries, so that it runs for other targets under an
 * emulator too (test_cross.py).
 */
#include <spex/record.h>

#include "record/oracle.h"
#include "record/reader.h"
#include "record/stream.h"

#include <stdio.h>

static struct spex_shapes shapes;

/* Reads data both ways; false at the first difference, with its place. */
static bool same(const struct fast_variant *variant, const uint8_t *data, size_t size,
                 uint64_t seed, const char **what, size_t *where)
{
    static struct spex_record batch[300];
    struct spex_reader fast;
    struct rng rng = {seed};
    struct oracle oracle = oracle_start(data, size, 7);
    shapes_init(&shapes, variant);
    reader_init(&fast, &shapes);
    spex_reader_feed(&fast, data, size, 7, true);
    if (seed % 2) /* else when there are no cells */
        shapes_restart(&shapes, true);
    for (enum spex_status status = SPEX_OK; status != SPEX_END;) {
        struct spex_damage a = {0}, b = {0};
        struct spex_record record;
        *where = fast.position;
        size_t n = spex_reader_batch(&fast, batch, 1 + rng_below(&rng, 300), &status, &a);
        for (size_t i = 0; i < n; i++) {
            if (oracle_next(&oracle, &record, &b) != SPEX_OK ||
                memcmp(&record, &batch[i], sizeof record)) {
                *where = (size_t)batch[i].offset - 7;
                *what = "a record";
                return false;
            }
        }
        if (status != SPEX_OK) {
            enum spex_status other = oracle_next(&oracle, &record, &b);
            if (other != status ||
                (status != SPEX_END && (a.offset != b.offset || a.size != b.size || !a.reason))) {
                *what = "the status or damage";
                return false;
            }
        }
        if (fast.position != oracle.position) {
            *what = "the position";
            return false;
        }
    }
    return true;
}

/* Pieces by two readers in turn, which share what they learn: each as if there were no other. */
static bool same_pieces(const struct fast_variant *variant, const uint8_t *data, size_t size,
                        uint64_t seed, const char **what, size_t *where)
{
    static struct spex_reader both[2];
    struct rng rng = {seed};
    shapes_init(&shapes, variant);
    reader_init(&both[0], &shapes);
    reader_init(&both[1], &shapes);
    *what = "a piece";
    for (size_t at = 0, length; at < size; at += length) {
        struct spex_reader *fast = &both[rng_below(&rng, 2)];
        length = 1 + rng_below(&rng, rng_chance(&rng, 1, 2) ? 300 : 6000);
        length = length < size - at ? length : size - at;
        *where = at;
        spex_reader_feed(fast, data + at, length, at, true);
        struct oracle oracle = oracle_start(data + at, length, at);
        for (enum spex_status status = SPEX_OK; status != SPEX_END;) {
            struct spex_record batch[100], record;
            struct spex_damage a = {0}, b = {0};
            size_t n = spex_reader_batch(fast, batch, 100, &status, &a);
            for (size_t i = 0; i < n; i++)
                if (oracle_next(&oracle, &record, &b) != SPEX_OK ||
                    memcmp(&record, &batch[i], sizeof record))
                    return false;
            if (status != SPEX_OK && (oracle_next(&oracle, &record, &b) != status ||
                                      a.offset != b.offset || a.size != b.size))
                return false;
        }
    }
    return true;
}

/* A stream that comes bit by bit: as if it had come at once. */
static bool same_fed(const struct fast_variant *variant, const uint8_t *data, size_t size,
                     uint64_t seed, const char **what, size_t *where)
{
    enum { MOST = 9000 };
    static struct spex_reader fast;
    static uint8_t buffer[SPEX_READER_REST + MOST];
    struct oracle oracle = oracle_start(data, size, 3);
    struct rng rng = {seed};
    size_t kept = 0, at = 0;
    bool last = false;
    shapes_init(&shapes, variant);
    reader_init(&fast, rng_chance(&rng, 1, 4) ? NULL : &shapes);
    *what = "the stream in pieces";
    while (!last) {
        size_t length = 1 + rng_below(&rng, rng_chance(&rng, 1, 2) ? 100 : MOST - 1);
        length = length < size - at ? length : size - at;
        last = at + length == size;
        memcpy(buffer + kept, data + at, length);
        spex_reader_feed(&fast, buffer, kept + length, at - kept + 3, last);
        at += length;
        for (enum spex_status status = SPEX_OK; status != SPEX_END;) {
            struct spex_record batch[100], record;
            struct spex_damage a = {0}, b = {0};
            *where = (size_t)spex_reader_position(&fast) - 3;
            size_t n = spex_reader_batch(&fast, batch, 1 + rng_below(&rng, 100), &status, &a);
            for (size_t i = 0; i < n; i++)
                if (oracle_next(&oracle, &record, &b) != SPEX_OK ||
                    memcmp(&record, &batch[i], sizeof record))
                    return false;
            if (status != SPEX_OK && (status != SPEX_END || last) &&
                (oracle_next(&oracle, &record, &b) != status || a.offset != b.offset ||
                 a.size != b.size))
                return false;
        }
        kept = spex_reader_rest(&fast);
        if (kept > SPEX_READER_REST)
            return false;
        memmove(buffer, buffer + fast.size - kept, kept);
    }
    return true;
}

/* A copy of the exact size, so that a sanitizer sees an over-read. */
static bool same_copy(const struct fast_variant *variant, const struct stream *s, size_t from,
                      size_t to, uint64_t seed, const char **what, size_t *where)
{
    uint8_t *copy = malloc(to - from + 1);
    memcpy(copy, s->data + from, to - from);
    uint8_t *exact = realloc(copy, to - from ? to - from : 1);
    bool ok = same(variant, exact, to - from, seed, what, where) &&
              same_pieces(variant, exact, to - from, seed, what, where) &&
              same_fed(variant, exact, to - from, seed, what, where);
    free(exact);
    return ok;
}

/* Runs of cells of one shape; some incomplete, of which an operation that retired may not be. */
static struct stream equal_cells(uint64_t seed, size_t count)
{
    struct rng rng = {seed};
    struct stream s = stream_make(seed, STREAM_N1, count);
    for (size_t i = 0, end; i < count; i = end) {
        bool incomplete = rng_chance(&rng, 1, 3);
        end = i + 1 + rng_below(&rng, rng_chance(&rng, 1, 2) ? 20 : 400);
        end = end < count ? end : count;
        if (incomplete) {
            memset(s.data + 64 * i + 19, 0, 2); /* no operation */
            s.data[64 * i + 22] |= 3;           /* but an exception */
        }
        for (size_t j = i + 1; j < end; j++) {
            memcpy(s.data + 64 * j, s.data + 64 * i, 64);
            s.data[64 * j + 1] = (uint8_t)(4 * j);
            if (incomplete && rng_chance(&rng, 1, 60))
                s.data[64 * j + 22] &= (uint8_t)~1;
        }
    }
    return s;
}

/* Streams of one kind: whole, from the middle, cut, flipped, with bytes lost; noise mixed in. */
static bool try_streams(const struct fast_variant *variant, enum stream_kind kind, unsigned seeds,
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

/* Packets with these headers and any payloads. */
static void put_packets(struct stream *s, const uint8_t *headers, size_t count, struct rng *rng)
{
    for (size_t i = 0; i < count; i++) {
        s->data[s->size++] = headers[i];
        for (size_t n = headers[i] < 0x40 ? 0 : (size_t)1 << (headers[i] >> 4 & 3); n; n--)
            s->data[s->size++] = (uint8_t)rng_next(rng);
    }
}

/*
 * Records of more than 64 bytes that differ after these only, in far more ways than are
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
        put_packets(&s, headers, n, &rng);
        if (n == sizeof other && rng_chance(&rng, 1, 4))
            s.size -= 8; /* what comes next looks like the timestamp */
    }
    return s;
}

/* A whole record: class, size of its Events packet, other packets and closing one by a number. */
static void put_shape(struct stream *s, unsigned number, struct rng *rng)
{
    static const uint8_t more[] = {0xb1, 0xb2, 0x98, 0x99, 0x9a, 0x64, 0x65, 0x43};
    uint8_t headers[16] = {0xb0, (uint8_t)(0x48 + number % 3), number / 3 & 1 ? 0x52 : 0x42};
    size_t n = 3;
    for (unsigned i = 0; i < sizeof more; i++)
        if (number / 12 >> i & 1)
            headers[n++] = more[i];
    headers[n++] = number / 6 & 1 ? 0x71 : 0x01;
    put_packets(s, headers, n, rng);
}

/* The tables of the fast reader have their bounds: what is beyond them is read none the less. */
enum bound { MANY_SHAPES, SHORT_RECORDS, PADDED_RECORDS, PADDED_CHAINS, UNLIKE_RECORDS, BOUNDS };

static struct stream bounds(enum bound bound, uint64_t seed)
{
    struct rng rng = {seed};
    struct stream s = {.data = calloc(3 << 20, 1)};
    if (bound == MANY_SHAPES) /* of cells, each twice, beside one that is known */
        for (unsigned i = 0; i < 4 * 1500; i++) {
            put_shape(&s, i % 2 ? i / 4 : 0, &rng);
            s.size = (s.size + 63) & ~(size_t)63;
        }
    if (bound == SHORT_RECORDS) /* more in 8 KB than have room */
        for (unsigned i = 0; i < 20000; i++)
            put_shape(&s, 0, &rng);
    if (bound == PADDED_RECORDS) /* two cells do not hold them */
        for (unsigned i = 0; i < 4000; i++) {
            put_packets(&s, (const uint8_t[]){0xb0, 0x49, 0x52}, 3, &rng);
            s.size += i % 3 ? i % 7 : 150;
            put_packets(&s, (const uint8_t[]){0x98, 0x71}, 2, &rng);
        }
    if (bound == PADDED_CHAINS) /* packets that could be one record, were it not for its length */
        for (unsigned i = 0; i < 200; i++) {
            put_shape(&s, i, &rng);
            s.size += 20 + rng_below(&rng, 40);
            put_packets(&s, (const uint8_t[]){0xb0, 0x00, 0x02}, 1 + 2 * (i % 2), &rng);
            s.size += 2000 + rng_below(&rng, 45);
            put_packets(&s, (const uint8_t[]){0x49, 0x71}, 2, &rng);
        }
    if (bound == UNLIKE_RECORDS) /* no two with their packets in the same order */
        for (unsigned i = 0; i < 40000; i++) {
            uint8_t headers[] = {0xb0, 0x49, 0x52, 0xb2, 0x98, 0x99, 0x9a, 0x64, 0x65, 0x43};
            for (uint32_t n = sizeof headers; n > 1; n--) {
                uint32_t other = rng_below(&rng, n);
                uint8_t swap = headers[n - 1];
                headers[n - 1] = headers[other];
                headers[other] = swap;
            }
            put_packets(&s, headers, sizeof headers, &rng);
            s.data[s.size++] = 0x01;
        }
    return s;
}

/* Millions of records, none like another: ever less is tried to learn them. */
static bool read_on(const struct fast_variant *variant, const struct stream *s, unsigned times)
{
    static struct spex_record batch[300];
    struct spex_reader reader;
    size_t count = 0, n;
    shapes_init(&shapes, variant);
    reader_init(&reader, &shapes);
    for (unsigned i = 0; i < times; i++) {
        enum spex_status status = SPEX_OK;
        spex_reader_feed(&reader, s->data, s->size, 0, true);
        for (; status == SPEX_OK; count += n)
            n = spex_reader_batch(&reader, batch, 300, &status, NULL);
    }
    return count == 40000 * (size_t)times;
}

static bool try_bounds(const struct fast_variant *variant, bool quick, const char **what,
                       size_t *where)
{
    bool ok = true;
    for (enum bound bound = MANY_SHAPES; ok && bound < BOUNDS; bound++) {
        struct stream s = bounds(bound, bound + 1);
        ok = same(variant, s.data, s.size, bound, what, where) &&
             same(variant, s.data, s.size, bound + 1, what, where) &&
             same_fed(variant, s.data, s.size, bound, what, where);
        if (ok && bound == UNLIKE_RECORDS && !quick) {
            *what = "the count";
            ok = read_on(variant, &s, 60);
        }
        free(s.data);
    }
    return ok;
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
    struct spex_reader reader;
    struct spex_record record;
    size_t n = 0;
    reader_whole(&reader, s->data, s->size, 0);
    reader.position = from;
    while (spex_reader_next(&reader, &record, NULL) == SPEX_OK)
        n++;
    return n;
}

static bool try_twins(const struct fast_variant *variant, unsigned seeds, const char **what,
                      size_t *where)
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

/* "quick" tries few streams, for slow machines and sanitizers. */
int main(int argc, char **argv)
{
    bool quick = argc > 1 && !strcmp(argv[1], "quick");
    unsigned tests = 0;
    bool passed = true;
    const struct fast_variant *variant;
    for (size_t v = 0; (variant = fast_variant(v)); v++) {
        for (int kind = 0; kind < STREAM_KINDS + 6; kind++) {
            const char *what = "", *name = kind < STREAM_KINDS ? stream_names[kind] : "";
            size_t where = 0;
            bool ok = true;
            if (kind < STREAM_KINDS) {
                ok = try_streams(variant, (enum stream_kind)kind, quick ? 4 : 40, 150, &what,
                                 &where) &&
                     try_streams(variant, (enum stream_kind)kind, quick ? 0 : 2, 6000, &what,
                                 &where);
            } else if (kind == STREAM_KINDS) {
                name = "cells";
                for (uint64_t seed = 1; ok && seed < (quick ? 4 : 30); seed++) {
                    struct stream s = cells(seed, 900);
                    ok = same_copy(variant, &s, 64 * (seed % 3) + seed % 2, s.size, seed, &what,
                                   &where);
                    stream_free(&s);
                }
            } else if (kind == STREAM_KINDS + 4) {
                name = "cells of one shape";
                for (uint64_t seed = 1; ok && seed < (quick ? 4 : 30); seed++) {
                    struct stream s = equal_cells(seed, 3000);
                    ok = same_copy(variant, &s, 0, s.size, 2 * seed, &what, &where);
                    stream_free(&s);
                }
            } else if (kind == STREAM_KINDS + 5) {
                name = "what its tables have no room for";
                ok = try_bounds(variant, quick, &what, &where);
            } else if (kind == STREAM_KINDS + 1) {
                name = "two streams in one";
                ok = try_twins(variant, quick ? 3 : 20, &what, &where);
            } else if (kind == STREAM_KINDS + 2) {
                name = "long records";
                for (uint64_t seed = 1; ok && seed < (quick ? 3 : 10); seed++) {
                    struct stream s = wide(seed, 10000);
                    ok = same_copy(variant, &s, 0, s.size, seed, &what, &where);
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
                    ok = same_copy(variant, &s, 0, s.size, seed, &what, &where);
                    free(s.data);
                }
            }
            printf("%s %u - %s reads %s as the oracle does\n", ok ? "ok" : "not ok", ++tests,
                   variant->name, name);
            if (!ok)
                printf("# %s differs at %zu\n", what, where);
            passed &= ok;
        }
    }
    printf("1..%u\n", tests);
    return !passed;
}
