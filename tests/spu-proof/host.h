/*
 * A test host for a unit: keeps every byte written, counts events, follows
 * PMBIRQ and exceptions, and answers writes with planned faults and aborts.
 */
#ifndef HOST_H
#define HOST_H

#include "naive.h"

/* Writes to [low, high) meet stop. */
struct plan {
    uint64_t low, high;
    struct spex_spu_stop stop;
};

struct written {
    uint64_t address;
    uint8_t byte;
};

struct host {
    struct plan plan;
    struct written *log; /* bytes that reached memory, in order */
    size_t count, capacity;
    uint32_t store_flags;        /* of the last write */
    struct spex_spu_store store; /* the last write; bytes is NULL */
    uint64_t pmu[NAIVE_PMU];
    uint64_t triggers, serrors, irq_edges;
    uint64_t lost; /* bytes that met an External abort and did not reach memory */
    bool irq;
    struct spex_spu_exception exception;
    bool counter_on;
    uint64_t time;
    const uint8_t *random; /* bytes to hand out in turn */
    size_t random_count, random_at;
};

void host_init(struct host *host);
void host_fini(struct host *host);
void host_clear(struct host *host); /* forget what was written */

/* Callbacks for both models. */
struct spex_spu_host host_callbacks(struct host *host);
struct naive_world host_world(struct host *host);

/* The bytes of the log; addresses must ascend without a gap. Returns the count. */
size_t host_bytes(const struct host *host, uint8_t *bytes, size_t capacity);

#endif
