/* heap.h against a plain list of all blocks that ever were. */
#include "guest/heap.h"

#include "guest/need.h"

#include "support/test.h"

void *need(void *memory)
{
    assert_non_null(memory);
    return memory;
}

enum { STEPS = 3000, BEHIND = 64, BASE = 0x10000, SPAN = 0x4000 };

struct row {
    uint64_t start, end, born, died; /* died: UINT64_MAX while it lives */
    const void *site;
    bool map;
};
static struct row rows[4 * STEPS];
static size_t count;
static uint64_t now, state = 7;
static char sites[64];

static unsigned draw(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

/* Ends living blocks that overlap; the rest of a mapping goes on. */
static void end_rows(bool map, uint64_t start, uint64_t end)
{
    size_t all = count;
    for (size_t i = 0; i < all; i++) {
        struct row *r = &rows[i];
        if (r->map != map || r->died != UINT64_MAX || r->start >= end || r->end <= start)
            continue;
        r->died = now;
        if (map && r->start < start)
            rows[count++] = (struct row){r->start, start, now, UINT64_MAX, r->site, true};
        if (map && r->end > end)
            rows[count++] = (struct row){end, r->end, now, UINT64_MAX, r->site, true};
    }
}

static void add_row(bool map, uint64_t start, uint64_t size, const void *site)
{
    now++;
    end_rows(map, start, start + size);
    rows[count++] = (struct row){start, start + size, now, UINT64_MAX, site, map};
}

static const struct row *look(uint64_t address, uint64_t time)
{
    const struct row *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        if (address >= r->start && address < r->end && r->born <= time && time < r->died &&
            (!best || best->map))
            best = r;
    }
    return best;
}

static void change(struct heap *heap)
{
    const char *site = &sites[draw(64)];
    uint64_t start = BASE + 16 * draw(SPAN / 16), size = 1 + draw(100);
    switch (draw(8)) {
    case 0:
        heap_map(heap, start, 8 * size, site);
        add_row(true, start, 8 * size, site);
        break;
    case 1:
        heap_unmap(heap, start, 4 * size);
        now++;
        end_rows(true, start, start + 4 * size);
        break;
    case 2:
    case 3:
    case 4: { /* mostly of one that lives */
        for (size_t i = count; i-- > 0;)
            if (!rows[i].map && rows[i].died == UINT64_MAX && !draw(8)) {
                start = rows[i].start;
                break;
            }
        heap_remove(heap, start);
        for (size_t i = 0; i < count; i++)
            if (!rows[i].map && rows[i].died == UINT64_MAX && rows[i].start == start)
                rows[i].died = ++now;
        break;
    }
    default:
        heap_add(heap, start, size, site);
        add_row(false, start, size, site);
    }
    assert_int_equal(heap_time(heap), now);
}

static void test_against_list(void **unused)
{
    struct heap *heap = heap_new(1 << 12);
    (void)unused;
    for (unsigned step = 0; step < STEPS; step++) {
        change(heap);
        for (unsigned i = 0; i < 16; i++) {
            uint64_t address = BASE + draw(SPAN), late = draw(BEHIND);
            uint64_t time = i % 2 || late > now ? HEAP_NOW : now - late;
            const struct row *want = look(address, time == HEAP_NOW ? now : time);
            struct heap_block got;
            assert_int_equal(heap_find(heap, address, time, &got), want != NULL);
            if (!want)
                continue;
            assert_ptr_equal(got.site, want->site);
            assert_int_equal(got.start, want->start);
            assert_int_equal(got.size, want->end - want->start);
            assert_int_equal(got.born, want->born);
        }
    }
    heap_free(heap);
}

static void test_nothing_remembered(void **unused)
{
    struct heap *heap = heap_new(0);
    struct heap_block got;
    (void)unused;
    heap_add(heap, 0x1000, 0, sites);
    assert_false(heap_find(heap, 0x1000, HEAP_NOW, &got)); /* a block of no bytes */
    heap_add(heap, UINT64_MAX - 15, 64, sites);
    assert_false(heap_find(heap, UINT64_MAX, HEAP_NOW, &got)); /* past the end of memory */
    heap_add(heap, 0x1000, 48, sites);
    assert_true(heap_find(heap, 0x102f, HEAP_NOW, &got));
    assert_false(heap_find(heap, 0x1030, HEAP_NOW, &got));
    heap_remove(heap, 0x1008);
    assert_true(heap_find(heap, 0x1000, HEAP_NOW, &got));
    heap_remove(heap, 0x1000);
    assert_false(heap_find(heap, 0x1000, HEAP_NOW, &got));
    heap_free(heap);
}

TEST_MAIN(TEST(test_against_list), TEST(test_nothing_remembered))
