/*
 * --time for commands that read packets: finds the bytes of a stream that are records of that time.
 */
#ifndef CLI_WINDOW_H
#define CLI_WINDOW_H

#include "cli/cli.h"

#include <spex/perfdata.h>

#define CLI_WINDOW(at)                                                                             \
    {                                                                                              \
        "time", 0, CLI_STRING, at, "RANGE",                                                        \
            "only records of this time: START,STOP in seconds, 10%-20% of the profile, 10%/2",     \
            NULL, NULL                                                                             \
    }

struct window;

/*
 * time is that of --time; file NULL: a raw stream, whose timestamps count nanoseconds. CLI_OK, or
 * the exit status after a message.
 */
int window_new(const char *time, const struct spex_perfdata *file, struct window **window);
void window_free(struct window *window);
/* The next bytes belong to another stream. */
void window_restart(struct window *window);

/* Bytes [from, to) of a piece: whole records and the padding between them. */
typedef void window_use(void *context, size_t from, size_t to);
/*
 * Takes a piece of the stream; returns how many of its bytes were read: the rest must be given
 * again.
 */
size_t window_feed(struct window *window, const uint8_t *data, size_t size, bool last,
                   window_use *use, void *context);

#endif
