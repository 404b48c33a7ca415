/*
 * Which process this is, across execve: the plugin begins anew with each program, and a program of
 * the host in between has none. A process leaves its number in the run's control; the next program
 * finds it by the host's process, or that of its next ancestor of which there is one.
 */
#ifndef GUEST_ORIGIN_H
#define GUEST_ORIGIN_H

#include "run.h"

/* This process, or its ancestor, as it left; NULL if there is none. *same: this process. */
struct run_gone *origin_find(struct run_control *run, bool *same);
/* What is to be found of this process. */
void origin_leave(struct run_control *run, uint32_t task, uint64_t clock);
/* Time has passed for who waits for a process. */
void origin_reach(struct run_gone *gone, uint64_t clock);
/* The clock of a child of this process, by its number: 0 if it is not known. */
uint64_t origin_clock(struct run_control *run, int32_t host_pid);

#endif
