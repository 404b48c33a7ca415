/* The events of a recording: attributes, descriptors, rings. */
#ifndef NATIVE_OPEN_H
#define NATIVE_OPEN_H

#include "native.h"
#include "ring.h"

/* Longer than this machine's headers may know: config3 and config4 are newer. */
union native_attr {
    struct perf_event_attr a;
    uint8_t bytes[144];
};

enum native_role { ROLE_SPE, ROLE_TRACKING, ROLE_STACKS };

struct open_event { /* one kind: a PMU's SPE, tracking, stacks */
    enum native_role role;
    union native_attr attr;
    const struct native_pmu *pmu; /* PMU of the SPE event */
    char name[320];
    VEC(uint64_t) ids;
};

struct open_fd {
    int fd, ring;  /* ring: descriptor of the event that it was made for */
    uint8_t event; /* index */
};

struct open_ring {
    struct native_ring ring;
    int fd, cpu, tid;  /* event that it was made for; fd -1: closed */
    bool ended;        /* nothing more will come */
    bool gone;         /* its CPU is offline, */
    uint64_t gone_at;  /* since then */
    bool again;        /* its events were opened again: their records must be renamed */
    uint64_t aux_base; /* added to AUX offsets: a queue of the file has one count */
    unsigned restart;  /* how many times SPE must still be switched on again */
    size_t map_size;
};

struct open_alias { /* an event that was opened again, and the one that the file knows */
    uint64_t id, known;
};

struct opened {
    struct open_event events[NATIVE_PMUS + 2];
    unsigned event_count, tracking;
    VEC(struct open_fd) fds;
    VEC(struct open_ring) rings;
    VEC(struct open_alias) aliases;
    bool begun; /* the file's list of ids is closed: later events take known ones */
    bool user_only;
    uint64_t aux_size;
};

/* What to ask the kernel for; user_only: nothing of the kernel itself. */
void native_attr_spe(const struct native_options *o, const struct native_event *e, bool user_only,
                     union native_attr *attr);
/* Newer kernels offer more: level 0 asks for all of it. */
enum { TRACKING_LEVELS = 4 };
void native_attr_tracking(const struct native_options *o, unsigned level, union native_attr *attr);
/* Callchains; on a clock where the CPU's cycles cannot be counted. */
void native_attr_stacks(const struct native_options *o, bool clock, bool user_only,
                        union native_attr *attr);

/* For these threads (-1 for all, on each CPU). Closed by native_unopen() in any case. */
enum spex_status native_open_events(const struct native_options *o, const int32_t *tids,
                                    size_t count, struct opened *opened, struct spex_error *error);
void native_unopen(struct opened *opened);
/* Switches events of a role on or off. */
void native_switch(const struct opened *opened, enum native_role role, bool on);
struct open_ring *native_ring_of(const struct opened *opened, unsigned cpu); /* or NULL */
void native_switch_ring(const struct opened *opened, const struct open_ring *ring,
                        enum native_role role, bool on);
/*
 * With whole CPUs: opens the events of one, again or for the first time, switched off. Linux
 * ends a CPU's events when it goes offline, and only the recorder can bring them back.
 */
enum spex_status native_open_cpu(const struct native_options *o, struct opened *opened,
                                 unsigned cpu, struct spex_error *error);
/* Rewrites a record of an event that was opened again as one of the event that the file knows. */
void native_rename(const struct opened *opened, const struct open_ring *ring, uint8_t *record,
                   size_t size);

#endif
