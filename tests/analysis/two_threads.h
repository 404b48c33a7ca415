/* A small profile for tests in C. */
#ifndef TESTS_TWO_THREADS_H
#define TESTS_TWO_THREADS_H

#include <spex/analysis.h>

#include "support/test.h"

/* Two threads of an existing program (PROG), with loads and stores to a few lines. */
static inline void make(const char *path, const char *raw, const char *program)
{
    enum { RECORDS = 300, LOAD = 0x401104 /* of PROG: enough of it is replayed */ };
    static uint8_t bytes[2][RECORDS * 64];
    struct spex_perf_writer_options options = {
        .size = sizeof options, .cpus = 2, .period = 1024, .midr = 0x413fd0c1};
    struct spex_perf_writer *writer;
    struct spex_error error;
    spex_perf_time_init(&options.time, 1000000000);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        for (unsigned i = 0; i < RECORDS; i++) {
            struct spex_record r = {
                .present = SPEX_HAS_PC | SPEX_HAS_VA | SPEX_HAS_OP | SPEX_HAS_EVENTS |
                           SPEX_HAS_TOTAL | SPEX_HAS_TIMESTAMP,
                .address = {i % 2 ? LOAD : 0x401000 + i % 40 * 4, 0, 0x410000 + i % 7 * 72},
                .events = 0x16,
                .events_size = 4,
                .op_class = SPEX_CLASS_LDST,
                .op_payload = (uint8_t)(i % 3 == 0),
                .total = (uint16_t)(i % 90),
                .timestamp = 1000 + i * 10 + cpu};
            size_t length;
            assert_int_equal(
                spex_record_encode(&r, SPEX_LAYOUT_N1, 6, bytes[cpu] + i * 64, 64, &length),
                SPEX_OK);
        }
    }
    assert_int_equal(spex_perf_writer_open(path, &options, &writer, &error), SPEX_OK);
    struct spex_perf_map map = {
        .start = 0x400000, .end = 0x430000, .pid = 7, .tid = 7, .filename = program};
    for (int cpu = 0; cpu < 2; cpu++) {
        spex_perf_writer_comm(writer, 7, 7 + cpu, cpu ? "two" : "one", true, 0);
        spex_perf_writer_map(writer, &map);
        spex_perf_writer_itrace_start(writer, cpu, 7, 7 + cpu, 1);
        spex_perf_writer_aux(writer, cpu, 7, 7 + cpu, bytes[cpu], sizeof bytes[cpu], 0, 2);
    }
    assert_int_equal(spex_perf_writer_finish(writer, &error), SPEX_OK);
    FILE *file = fopen(raw, "wb");
    assert_true(file && fwrite(bytes, sizeof bytes, 1, file) == 1 && !fclose(file));
}

#endif
