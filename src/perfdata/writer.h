/*
 * The writer for a recording of a running kernel: its events with their ids, its records
 * unchanged, AUX bytes straight from the ring. The rest is as in files that spex makes itself.
 */
#ifndef PERFDATA_WRITER_H
#define PERFDATA_WRITER_H

#include <spex/perfdata.h>

enum { PERF_WRITER_ATTR = 128, PERF_WRITER_EVENTS = 20 }; /* perf 6.1 refuses longer attributes */

struct perf_writer_event {
    const void *attr; /* PERF_WRITER_ATTR bytes of a struct perf_event_attr */
    const char *name;
    const uint64_t *ids;
    size_t id_count;
};

/* A NUMA node. */
struct perf_writer_node {
    uint32_t node;
    uint64_t total_kb, free_kb;
    const char *cpus; /* a list: 0-3,8 */
    uint64_t *blocks; /* one bit per block of memory that belongs to the node */
    size_t word_count;
};

/* Overrides what the options say about events, CPUs and memory. */
struct perf_writer_machine {
    const struct perf_writer_event *events; /* SPE events first */
    size_t event_count;                     /* up to PERF_WRITER_EVENTS */
    size_t tracking; /* index of the event whose id the writer's own records carry */
    const struct spex_perf_cpu *cpus;     /* one per CPU of the options */
    const struct perf_writer_node *nodes; /* none: a single node with all memory */
    size_t node_count;
    uint64_t block_size; /* size of a memory block; 0: unknown */
};

/*
 * Like spex_perf_writer_open(); records end with TID, TIME unless untimed, CPU unless per
 * thread, IDENTIFIER.
 */
enum spex_status perf_writer_open_machine(const char *path,
                                          const struct spex_perf_writer_options *options,
                                          const struct perf_writer_machine *machine,
                                          struct spex_perf_writer **writer,
                                          struct spex_error *error);

/*
 * Appends whole records of the kernel. The file of a killed writer ends at the last
 * perf_writer_sync().
 */
void perf_writer_raw(struct spex_perf_writer *writer, const void *records, size_t size);
void perf_writer_sync(struct spex_perf_writer *writer);

/* A piece of an AUX area, in two parts where the ring wraps; written without an extra copy. */
struct perf_writer_aux {
    int32_t cpu, tid;
    uint32_t queue;
    uint64_t offset; /* offset of the first byte, as the kernel counts */
    const void *part[2];
    size_t size[2];
};
void perf_writer_auxtrace(struct spex_perf_writer *writer, const struct perf_writer_aux *aux);

/* The build-id of an object whose mapping records do not have it. */
void perf_writer_build_id(struct spex_perf_writer *writer, const char *filename, const uint8_t *id,
                          uint8_t size);

#endif
