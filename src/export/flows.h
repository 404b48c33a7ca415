/*
 * Branches and straight runs of one file, for optimizers.
 *
 * A branch is an edge with the number of times it was sampled and mispredicted; one that was not
 * taken goes to the instruction after it. A run is code executed without a taken branch in between:
 * from the previous branch target, if the record has one, to a sampled taken branch. Samples of
 * other operations make no runs: they would count the beginning of a run more often than its end.
 */
#ifndef EXPORT_FLOWS_H
#define EXPORT_FLOWS_H

#include "export/export.h"
#include "base/ids.h"

struct flow {
    struct spex_module *module; /* module that contains `from` */
    uint64_t from;
    struct spex_module *to_module; /* NULL: not known */
    uint64_t to;
    bool taken;
    uint64_t count, mispredicts;
};

struct flow_run {
    struct spex_module *module; /* NULL: ends before it begins, or in another file */
    uint64_t start, end;        /* addresses of the first and last instruction */
    uint64_t count;
};

struct flows {
    struct export_job *job;
    struct ids branch_ids, run_ids, place_ids;
    struct { /* indexed by a sample's place; values: 1 + number */
        uint32_t branch, run, place;
    } last[SPEX_PLACES];
    struct flow *branches;
    struct flow_run *runs, *places; /* places: sampled instructions, start and end the same */
    size_t branch_count, branch_capacity, run_count, run_capacity, place_count, place_capacity;
    bool inferred;              /* runs follow from the code */
    uint64_t no_target;         /* taken branches that do not say where they went */
    struct spex_module *module; /* the file: that with most branches, else with most samples */
};

void flows_begin(struct export_job *job);
void flows_sink(void *job, const struct spex_sample *samples, size_t count);
/* Chooses the file, orders branches, runs and places; says what is left out. */
struct flows *flows_finish(struct export_job *job);
void flows_free(struct flows *flows);

/* Converts an address of the file: to the linked address, and to the offset in the file. */
uint64_t flows_image_offset(const struct flows *flows, uint64_t address);
uint64_t flows_file_offset(const struct flows *flows, uint64_t address);

#endif
