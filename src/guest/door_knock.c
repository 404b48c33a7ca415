/* The plugin's side. */
#include "door_words.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static ssize_t hear(int door, struct msghdr *message)
{
    ssize_t n;
    while ((n = recvmsg(door, message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    return n;
}

static int speak(int door, const struct door_ask *ask, int *error)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec text = {error, sizeof *error};
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fd = -1;
    if (send(door, ask, sizeof *ask, MSG_NOSIGNAL) != sizeof *ask ||
        hear(door, &message) != sizeof *error) {
        *error = EACCES;
        return -1;
    }
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    else if (!*error && ask->flags != DOOR_UNLINK)
        *error = EMFILE; /* no room for it here */
    return *error ? -1 : ask->flags == DOOR_UNLINK ? 0 : fd;
}

int door_open(const struct run_control *control, const char *name, int flags)
{
    struct door_ask ask = {.flags = flags};
    struct sockaddr_un address;
    size_t size = strlen(name);
    int result = -1, error = EACCES;
    if (!control->door[0] || size >= sizeof ask.name) {
        errno = EACCES;
        return -1;
    }
    memcpy(ask.name, name, size);
    memcpy(ask.pass, control->pass, sizeof ask.pass);
    socklen_t length = door_address(control, &address);
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (door < 0) {
        error = errno;
    } else {
        int connected;
        while ((connected = connect(door, (struct sockaddr *)&address, length)) && errno == EINTR)
            ;
        if (!connected)
            result = speak(door, &ask, &error);
        close(door);
    }
    errno = error;
    return result;
}
