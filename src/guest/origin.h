/*
 * Recognizes a process across execve: the plugin starts afresh with each program, and a host
 * program in between has no plugin. A process leaves its number in the run's `control`. The next
 * program looks it up by its host process id, or by that of its nearest ancestor with an entry.
 */
#ifndef GUEST_ORIGIN_H
#define GUEST_ORIGIN_H

#include "run.h"

/*
 * The entry of this process or of an ancestor; NULL if there is none. *same: it is this process's
 * own.
 */
struct run_gone *origin_find(struct run_control *run, bool *same);
/* Leaves an entry for this process. */
void origin_leave(struct run_control *run, uint32_t task, uint64_t clock);
/* Passes the time on to a process that waits for this one. */
void origin_reach(struct run_gone *gone, uint64_t clock);
/* The clock of a child of this process, by process id; 0 if it is not known. */
uint64_t origin_clock(struct run_control *run, int32_t host_pid);

#endif
