/*
 * The program of a recording: started without the privileges of spex, it waits until it is let go.
 */
#ifndef NATIVE_START_H
#define NATIVE_START_H

#include <spex/base.h>

#include <sys/types.h>

struct native_child {
    int pid;
    int go, failure; /* a byte on the first lets it run; the second says errno if it could not */
    uid_t user;      /* the user that it runs as, if root was dropped; else 0 */
};

struct native_start {
    char **argv;
    bool keep_root;
    bool aside; /* our output is standard output, so the program gets standard error */
};

enum spex_status native_start(const struct native_start *how, struct native_child *child,
                              struct spex_error *error);
/* Lets it run, and waits until it does. */
enum spex_status native_go(struct native_child *child, const char *name, struct spex_error *error);
/* Also for a program that was never let go. */
void native_child_close(struct native_child *child);

#endif
