/*
 * Memory and files that the plugin cannot do without. It lives in QEMU's process, which is also the
 * guest's. If they cannot be had, the process ends with a message and exit status 1, without a core
 * dump. The run's files stay, and spex makes a profile of everything recorded until then.
 */
#ifndef GUEST_NEED_H
#define GUEST_NEED_H

/* For memory just allocated; does not return if it is NULL. */
void *need(void *memory);
/* error: an errno value for spex; what: a message for the user, with what to do. */
_Noreturn void need_end(int error, const char *what);

#endif
