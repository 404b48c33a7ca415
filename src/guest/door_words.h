/* The messages between the two sides of a door (door.h). */
#ifndef GUEST_DOOR_WORDS_H
#define GUEST_DOOR_WORDS_H

#include "door.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct door_ask {
    uint8_t pass[RUN_PASS];
    int32_t flags;
    char name[28];
};

/* The answer is an errno, and a descriptor if that is 0 and a file was asked for. */

/* An abstract name, which is in no file system, so it is the same in every root. */
static inline socklen_t door_address(const struct run_control *control, struct sockaddr_un *address)
{
    size_t size = strnlen(control->door, sizeof control->door);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, control->door, size);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

#endif
