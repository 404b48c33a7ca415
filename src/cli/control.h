/*
 * --control of spex record, as perf record has it: lines of words on a FIFO switch sampling on and
 * off while the program runs.
 */
#ifndef CLI_CONTROL_H
#define CLI_CONTROL_H

#include <spex/base.h>

struct control;

/* What the commands do. */
struct control_target {
    void *user;
    void (*enable)(void *user, bool on);
    void (*stop)(void *user);
    void (*snapshot)(void *user); /* NULL: there are no snapshots */
};

/* text: fifo:CTL[,ACK] or fd:N[,N]. CLI_OK, or the exit code after a message. */
int control_open(struct control **control, const char *text);
/* Starts a thread that reads until control_stop(). These functions accept NULL. */
void control_start(struct control *control, const struct control_target *target);
void control_stop(struct control *control);
void control_close(struct control *control);

#endif
