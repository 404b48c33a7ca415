/* spex's side of the door: one thread, which never blocks on a single client. */
#include "door.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "door_words.h"

enum { GUESTS = 32 }; /* most connections; a client that stays silent makes room */

struct door {
    int directory, listener, stop[2];
    uint8_t pass[RUN_PASS];
    pthread_t thread;
    bool runs;
};

static bool is_name(const struct door_ask *ask)
{
    return ask->name[0] && ask->name[0] != '.' && memchr(ask->name, '\0', sizeof ask->name) &&
           !strchr(ask->name, '/');
}

/* Is this the pass? Takes the same time wherever it differs. */
static bool knows(const struct door *d, const struct door_ask *ask)
{
    unsigned differs = 0;
    for (size_t i = 0; i < sizeof d->pass; i++)
        differs |= d->pass[i] ^ ask->pass[i];
    return !differs;
}

/* Returns a descriptor, 0 for unlink, or an error below 0. */
static int serve(const struct door *d, const struct door_ask *ask)
{
    const int allowed = O_ACCMODE | O_CREAT | O_APPEND | O_NONBLOCK;
    int fd = -1;
    if (!is_name(ask))
        return -EINVAL;
    if (ask->flags == DOOR_UNLINK)
        return unlinkat(d->directory, ask->name, 0) ? -errno : 0;
    fd = openat(d->directory, ask->name, (ask->flags & allowed) | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static void answer(const struct door *d, int guest)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct door_ask ask;
    if (recv(guest, &ask, sizeof ask, MSG_DONTWAIT) != sizeof ask || !knows(d, &ask))
        return;
    int result = serve(d, &ask), error = result < 0 ? -result : 0;
    struct iovec text = {&error, sizeof error};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    bool file = !error && ask.flags != DOOR_UNLINK;
    if (file) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof result);
        memcpy(CMSG_DATA(c), &result, sizeof result);
    }
    sendmsg(guest, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (file)
        close(result);
}

static void *keep(void *context)
{
    struct door *d = context;
    struct pollfd at[2 + GUESTS] = {{.fd = d->stop[0], .events = POLLIN},
                                    {.fd = d->listener, .events = POLLIN}};
    nfds_t count = 2;
    while (poll(at, count, -1) >= 0 || errno == EINTR) {
        if (at[0].revents)
            break;
        for (nfds_t i = 2; i < count;) {
            if (!at[i].revents) {
                i++;
                continue;
            }
            answer(d, at[i].fd);
            close(at[i].fd);
            memmove(&at[i], &at[i + 1], (--count - i) * sizeof *at);
        }
        int guest = at[1].revents ? accept4(d->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (guest < 0 &&
            (!at[1].revents || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
            continue;
        if (guest < 0)
            break;
        if (count == 2 + GUESTS) { /* the client that has been silent longest */
            close(at[2].fd);
            memmove(&at[2], &at[3], (--count - 2) * sizeof *at);
        }
        at[count++] = (struct pollfd){.fd = guest, .events = POLLIN};
    }
    while (count > 2)
        close(at[--count].fd);
    return NULL;
}

struct door *door_new(const char *directory, struct run_control *control)
{
    struct door *d = calloc(1, sizeof *d);
    uint8_t name[RUN_DOOR / 2 - 1];
    struct sockaddr_un address;
    if (!d)
        return NULL;
    d->stop[0] = d->stop[1] = -1;
    d->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = getrandom(name, sizeof name, 0) == sizeof name &&
              getrandom(d->pass, sizeof d->pass, 0) == sizeof d->pass;
    for (size_t i = 0; i < sizeof name; i++)
        snprintf(control->door + 2 * i, 3, "%02x", name[i]);
    memcpy(control->pass, d->pass, sizeof d->pass);
    socklen_t size = door_address(control, &address);
    if (!ok || d->directory < 0 || d->listener < 0 || pipe2(d->stop, O_CLOEXEC) ||
        bind(d->listener, (struct sockaddr *)&address, size) || listen(d->listener, GUESTS)) {
        control->door[0] = '\0';
        door_free(d);
        return NULL;
    }
    return d;
}

void door_begin(struct door *d)
{
    sigset_t every, old;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &old);
    d->runs = !pthread_create(&d->thread, NULL, keep, d);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void door_free(struct door *d)
{
    if (!d)
        return;
    if (d->runs && write(d->stop[1], "", 1) == 1)
        pthread_join(d->thread, NULL);
    const int open[] = {d->directory, d->listener, d->stop[0], d->stop[1]};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (open[i] >= 0)
            close(open[i]);
    free(d);
}
