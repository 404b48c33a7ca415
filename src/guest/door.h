/*
 * Gives a run's files to processes that may not open them: a program that changed its user or its
 * root directory and then forks or executes. spex, which made the files, opens them for anyone who
 * knows the run's pass. The pass is in `control`; the name of the socket is public. Only files in
 * the run's directory are opened, and no links.
 */
#ifndef GUEST_DOOR_H
#define GUEST_DOOR_H

#include "run.h"

enum { DOOR_UNLINK = -1 }; /* flags of a request */

/* ---- in spex ---- */

struct door;

/* Sets the socket's name and the pass in control; neither if the host has no such sockets. */
struct door *door_new(const char *directory, struct run_control *control);
/* Starts answering. */
void door_begin(struct door *door);
void door_free(struct door *door);

/* ---- in the plugin ---- */

/* Like open(name, flags, 0600) in the run's directory, or unlink. */
int door_open(const struct run_control *control, const char *name, int flags);

#endif
