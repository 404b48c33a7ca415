/* Which QEMU runs the guest, what features it has, and which CPU it emulates. */
#ifndef GUEST_OFFER_H
#define GUEST_OFFER_H

#include "guest/engine.h"

/* What a QEMU can do. One with plugins exports the functions that plugins call, by name. */
struct offer {
    bool plugins; /* it supports plugins at all */
    bool boards;  /* has scoreboards (9.0 and later), */
    bool memory;  /* and reads guest memory (9.2 and later) */
    bool n2;      /* a CPU that 7.2 does not have */
};

/* A program in PATH; if name contains a /, the file at that path. False with errno. */
bool offer_search(const char *name, char *path, size_t size);
/* The QEMU that these two options name, or why it cannot run. */
enum spex_status offer_find(const char *qemu, const char *own_qemu, char *path, size_t size,
                            struct offer *offer, struct spex_error *error);
/* Makes QEMU's -cpu. */
void offer_cpu(const struct offer *offer, const struct engine_options *options, char *cpu,
               size_t size);

#endif
