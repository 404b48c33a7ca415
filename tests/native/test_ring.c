/* The kernel's rings, on memory that looks like them (struct perf_event_mmap_page). */
#include "support/test.h"

#include "native/ring.h"

enum { DATA = 4096, AUX = 4096 };

struct fake {
    struct perf_event_mmap_page page;
    uint8_t data[DATA], aux[AUX];
    struct native_ring ring;
    uint8_t got[1 << 16];
    size_t size, calls;
};

static struct fake *make(void)
{
    struct fake *f = calloc(1, sizeof *f);
    f->ring = (struct native_ring){
        .page = &f->page, .data = f->data, .data_size = DATA, .aux = f->aux, .aux_size = AUX};
    return f;
}

/* As the kernel writes a record: at the head, round the end. */
static void put(struct fake *f, uint32_t type, uint16_t size, uint8_t fill)
{
    uint8_t r[4096];
    struct perf_event_header h = {.type = type, .size = size};
    memset(r, fill, sizeof r);
    memcpy(r, &h, sizeof h);
    for (uint16_t i = 0; i < size; i++)
        f->data[(f->page.data_head + i) % DATA] = r[i];
    f->page.data_head += size;
}

static void take(void *context, const uint8_t *records, size_t size)
{
    struct fake *f = context;
    memcpy(f->got + f->size, records, size);
    f->size += size;
    f->calls++;
}

static void test_records_come_whole_and_in_order(void **state)
{
    struct fake *f = make();
    uint8_t expected[1 << 16];
    size_t n = 0;
    (void)state;
    /* Sizes that take the head round the ring at every multiple of 8. */
    for (unsigned i = 0; i < 400; i++) {
        uint16_t size = (uint16_t)(8 + 8 * (i * 7 % 23));
        struct perf_event_header h = {.type = i, .size = size};
        put(f, i, size, (uint8_t)i);
        memset(expected + n, (uint8_t)i, size);
        memcpy(expected + n, &h, sizeof h);
        n += size;
        if (i % 5 == 4) {
            native_ring_records(&f->ring, take, f);
            assert_int_equal(f->page.data_tail, f->page.data_head);
            assert_int_equal(f->size, n);
            assert_memory_equal(f->got, expected, n);
            n = f->size = 0;
        }
    }
    native_ring_records(&f->ring, take, f); /* nothing there */
    assert_int_equal(f->size, 0);
    free(f);
}

static void test_a_full_ring_is_emptied(void **state)
{
    struct fake *f = make();
    (void)state;
    f->page.data_head = f->page.data_tail = DATA - 16; /* so that the last one wraps */
    put(f, 1, DATA - 8, 1);
    put(f, 2, 8, 2);
    native_ring_records(&f->ring, take, f);
    assert_int_equal(f->size, DATA);
    assert_int_equal(f->page.data_tail, f->page.data_head);
    free(f);
}

static void test_a_record_that_no_kernel_writes_ends_it(void **state)
{
    struct fake *f = make();
    (void)state;
    put(f, 1, 16, 1);
    put(f, 2, 0, 2);
    f->page.data_head += 64;
    native_ring_records(&f->ring, take, f);
    assert_int_equal(f->size, 16);
    assert_int_equal(f->page.data_tail, f->page.data_head);
    free(f);
}

static void test_aux_bytes_are_taken_once(void **state)
{
    struct fake *f = make();
    struct native_piece piece;
    (void)state;
    for (unsigned i = 0; i < AUX; i++)
        f->aux[i] = (uint8_t)(i / 16);
    assert_false(native_ring_aux(&f->ring, &piece));
    f->page.aux_head = AUX - 64;
    assert_true(native_ring_aux(&f->ring, &piece));
    assert_int_equal(piece.offset, 0);
    assert_int_equal(piece.size[0], AUX - 64);
    assert_int_equal(piece.size[1], 0);
    assert_ptr_equal(piece.part[0], f->aux); /* where it lies: no copy */
    assert_int_equal(f->page.aux_tail, 0);   /* until it is written, it stays ours */
    native_ring_aux_done(&f->ring, &piece);
    assert_int_equal(f->page.aux_tail, AUX - 64);
    assert_false(native_ring_aux(&f->ring, &piece));
    f->page.aux_head = AUX + 128; /* round the end */
    assert_true(native_ring_aux(&f->ring, &piece));
    assert_int_equal(piece.offset, AUX - 64);
    assert_int_equal(piece.size[0], 64);
    assert_int_equal(piece.size[1], 128);
    assert_ptr_equal(piece.part[0], f->aux + AUX - 64);
    assert_ptr_equal(piece.part[1], f->aux);
    native_ring_aux_done(&f->ring, &piece);
    assert_int_equal(f->page.aux_tail, AUX + 128);
    f->page.aux_head += AUX; /* all of it */
    assert_true(native_ring_aux(&f->ring, &piece));
    assert_int_equal(piece.size[0] + piece.size[1], AUX);
    free(f);
}

static void test_snapshots(void **state)
{
    struct fake *f = make();
    struct native_piece a, b, c;
    (void)state;
    f->ring.snapshot = true;
    assert_false(native_ring_snapshot(&f->ring, &a)); /* nothing written */
    memset(f->aux, 1, 640);
    f->page.aux_head = 640;
    assert_false(native_ring_aux(&f->ring, &a));
    assert_true(native_ring_snapshot(&f->ring, &a));
    assert_int_equal(a.size[0], 640);
    assert_int_equal(a.size[1], 0);
    memset(f->aux + 640, 2, 320);
    f->page.aux_head = 960;
    assert_true(native_ring_snapshot(&f->ring, &b)); /* what is new */
    assert_ptr_equal(b.part[0], f->aux + 640);
    assert_int_equal(b.size[0], 320);
    /* Not as if it went on where the first ended: spans with a gap are not joined. */
    assert_true(b.offset > a.offset + a.size[0]);
    memset(f->aux, 3, AUX); /* the whole area was written, and the head is in the middle */
    f->page.aux_head = 1024;
    assert_true(native_ring_snapshot(&f->ring, &c));
    assert_ptr_equal(c.part[0], f->aux + 1024); /* the oldest first */
    assert_int_equal(c.size[0], AUX - 1024);
    assert_ptr_equal(c.part[1], f->aux);
    assert_int_equal(c.size[1], 1024);
    free(f);
}

static void test_a_head_that_started_over_has_wrapped(void **state)
{
    struct fake *f = make();
    struct native_piece piece;
    (void)state;
    f->ring.snapshot = true;
    memset(f->aux, 1, AUX - 64); /* padding at the end */
    f->page.aux_head = AUX - 64;
    assert_true(native_ring_snapshot(&f->ring, &piece));
    f->page.aux_head = 128;
    assert_true(native_ring_snapshot(&f->ring, &piece));
    assert_int_equal(piece.size[0] + piece.size[1], AUX);
    assert_ptr_equal(piece.part[0], f->aux + 128);
    free(f);
}

TEST_MAIN(TEST(test_records_come_whole_and_in_order), TEST(test_a_full_ring_is_emptied),
          TEST(test_a_record_that_no_kernel_writes_ends_it), TEST(test_aux_bytes_are_taken_once),
          TEST(test_snapshots), TEST(test_a_head_that_started_over_has_wrapped))
