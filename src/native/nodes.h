/* The memory of the machine by NUMA node, from /sys. */
#ifndef NATIVE_NODES_H
#define NATIVE_NODES_H

#include "machine.h"

#include "perfdata/writer.h"

enum { NATIVE_NODES = 64 };

struct native_nodes {
    struct perf_writer_node node[NATIVE_NODES];
    size_t count;
    uint64_t block; /* bytes of a block of memory; 0: not known */
    char cpus[NATIVE_NODES][512];
};

/* No nodes where the kernel does not say. Freed by native_nodes_free(). */
void native_nodes_read(const struct native_machine *machine, struct native_nodes *nodes);
void native_nodes_free(struct native_nodes *nodes);

#endif
