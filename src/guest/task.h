/*
 * One guest thread in the plugin: its unit, its Profiling Buffers and its files
 * (run.h). Belongs to the thread, except while it is being made or ended.
 */
#ifndef GUEST_TASK_H
#define GUEST_TASK_H

#include "run.h"
#include "stack.h"

/* The block that holds the data of the sampled operation (allocs.h). */
struct task_alloc {
    uint64_t start, size, number; /* number: distinguishes blocks at the same address */
    const uint64_t *site;         /* return addresses, innermost first */
    size_t site_count;            /* 0: no block */
};

struct task {
    struct run_task *shared;
    struct spex_spu *unit;
    uint64_t now;     /* system counter as the unit reads it */
    uint8_t *buffer;  /* mapping of the current Profiling Buffer */
    uint64_t written; /* bytes in it */
    uint32_t id;
    uint64_t stamp;  /* the last counter value that the unit read */
    uint8_t *stacks; /* mapping of N.stacks, or NULL */
    struct task_alloc alloc;
    /*
     * call stack of the sampled operation, until the unit has made a record of it, or decided not
     * to
     */
    uint64_t chain_pc, chain[2 * STACK_CHAIN];
    size_t chain_count;
    unsigned chain_notes;
    struct uarch_counts before; /* counts of the programs that this process ran before */
    bool made;                  /* the unit has made a record */
    bool irq;                   /* PMBIRQ */
    bool quiet;                 /* the log could not be written */
};

/* Maps DIRECTORY/control. False with a message in error if it is not of this build. */
/* control: a descriptor of the file, which is closed, or below 0. */
bool task_open_run(const char *directory, int control, struct spex_error *error);
/* A file of the run, even if the guest may not open it. */
int task_open(const char *file, int flags);
/*
 * A descriptor of `control` for the program that this process is about to execute, which will not
 * be able to open it; -1 if it will.
 */
int task_pass_on(void);
const char *task_directory(void);

/* Marks the run: data is missing for this reason (errno.h). Only the first reason is kept. */
void task_failed(int error);

/* Reserves a number for a thread that is about to be made, and a free CPU. */
uint32_t task_reserve(int32_t *cpu);

/* Makes the files and starts profiling; on failure profiling stays off and the run is marked.
 */
void task_begin(struct task *task, uint32_t id, int32_t cpu, const struct run_task *creator,
                bool new_process, uint64_t start);
/* Continues a process that became another program: its number, time and files stay. */
void task_resume(struct task *task, uint32_t id);
/* Gives up its CPU number, or takes one again; everything it holds is written first. */
void task_give_cpu(struct task *task, uint64_t clock);
void task_take_cpu(const struct task *task);
/* Copies what is known about a task of any process. */
bool task_look(uint32_t id, struct run_task *copy);
/* Switches the unit off, or on again. */
void task_pause(struct task *task);
void task_go_on(struct task *task);
/* Writes everything recorded, so that the next program of this process finds it. */
void task_leave(struct task *task, uint64_t clock);
void task_count(struct task *task, const struct uarch_counts *counts);
/* Closes the parent's files and unit in the child of a fork. */
void task_forget(struct task *task);
void task_end(struct task *task, uint64_t clock);

/* Completes a sampled operation and serves the interrupt it may raise. */
void task_complete(struct task *task, int slot, const struct spex_op *op,
                   const struct spex_outcome *outcome);

void task_log(struct task *task, const struct run_event *event, const char *text);

/*
 * Maps size bytes of the run's file ID.SUFFIX, growing it as needed; at the address `at` if that is
 * not NULL. NULL if the disk is full: the run is marked.
 */
void *task_map(uint32_t id, const char *suffix, uint64_t offset, size_t size, void *at);
void task_remove(uint32_t id, const char *suffix);
/*
 * Moves the buffer's bytes to the data and logs it. At the end of a thread, bytes without room stay
 * where they are: there may be room later.
 */
void task_save(struct task *task, uint64_t bytes, uint32_t flags, bool last);
/* Appends whole records of perf.data to the data, or none. */
void task_add_records(const void *records, uint64_t size);
/* Appends N.stacks to the data. At the end of a thread, records without room stay. */
void task_save_stacks(struct task *task, bool last);

#endif
