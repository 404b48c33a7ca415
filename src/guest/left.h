/* Shared by the readers of a run's directory. */
#ifndef GUEST_LEFT_H
#define GUEST_LEFT_H

#include "guest/engine.h"
#include "run.h"

#include <sys/stat.h>

struct left_task {
    uint32_t id;
    struct run_task task; /* checked */
    char *log;            /* texts of events point into it */
    size_t log_size;
};

enum entry_how { /* what a new mapping inherits from an older one */
                 ENTRY_WHOLE,
                 ENTRY_PROTECTED, /* the file */
                 ENTRY_MOVED,     /* everything but the address */
                 ENTRY_STACK,     /* everything but the name */
};

struct entry {
    struct engine_event event;
    uint32_t task, order;
    enum entry_how how;
    uint64_t from; /* an address in the older mapping */
};

/* Build-ids by path. */
struct file_id {
    char *path;
    uint8_t id[20];
    unsigned size;
};

/* A file of a just-in-time compiler, with its size at each time it was written. */
struct jit_file {
    size_t task;
    uint64_t number;
    const char *path; /* points into the log */
    struct jit_write {
        uint64_t end, time;
    } * writes;
    size_t count, capacity;
    char *names; /* names of its functions, as mappings name them */
};

/* A program of the host that the guest started. */
struct left_host {
    size_t task;
    const char *name; /* points into the log */
};

struct left_run {
    char *name;
    int directory, control_fd;
    struct run_control control; /* flags are not used, only numbers */
    char *command;
    const char **argv; /* words of `command`: program, sysroot, cpu, command line */
    const char *sysroot;
    struct left_task *tasks;
    size_t task_count, log_room;
    struct entry *entries, spare;
    size_t entry_count, entry_room, position;
    struct file_id **files; /* hash table */
    size_t file_count, file_room;
    struct jit_file *jits;
    size_t jit_count;
    struct left_host *hosts;
    size_t host_count, host_room;
    uint8_t *bytes; /* bytes of the last event returned */
    struct engine_truth *truth;
    size_t truth_count, truth_room;
    uint64_t damaged;
    bool no_memory;
};

/* Opens a regular file of the run; refuses anything else that has its name. */
int left_open_file(const struct left_run *run, const char *name, int flags, struct stat *st);
bool left_read(int fd, void *data, size_t size, uint64_t at);

/* Reads the events of all tasks, in order of time. */
void left_read_events(struct left_run *run);
void left_free_events(struct left_run *run);
/* Number of AUX records that say that data was lost after them. */
uint64_t left_truncated(const struct left_run *run);

/*
 * left_jit.c: handles an event about such a file; adds what the files contain as mappings; frees it
 * all.
 */
void left_jit_event(struct left_run *run, size_t task, const struct run_event *event,
                    const char *text);
void left_read_jits(struct left_run *run);
void left_free_jits(struct left_run *run);
/* Adds an entry for this task; without memory, returns one that is not kept. */
struct entry *left_add(struct left_run *run, size_t task, enum engine_event_kind kind,
                       uint64_t time);

#endif
