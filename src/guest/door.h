/*
 * The way to the files of a run for processes that have no right to open them: a program that
 * became another user, or lives in another root, and then forks or executes. spex, which made the
 * files, opens them for whoever knows the pass of the run, which stands in `control`; the socket's
 * name is everybody's to see. Only files of the run's directory, and no links.
 */
#ifndef GUEST_DOOR_H
#define GUEST_DOOR_H

#include "run.h"

enum { DOOR_UNLINK = -1 }; /* flags of a request */

/* ---- in spex ---- */

struct door;

/* Fills in where the door is, and its pass; nothing if the host has no such sockets. */
struct door *door_new(const char *directory, struct run_control *control);
/* From here on it is answered. */
void door_begin(struct door *door);
void door_free(struct door *door);

/* ---- in the plugin ---- */

/* Like open(name, flags, 0600) in the run's directory, or unlink. */
int door_open(const struct run_control *control, const char *name, int flags);

#endif
