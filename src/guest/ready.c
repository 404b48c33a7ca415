#include "ready.h"

#include "account.h"
#include "need.h"
#include "plugin.h"
#include "regs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    EPOLL_PWAIT = 22,
    READ = 63,
    WRITE = 64,
    READV = 65,
    WRITEV = 66,
    PSELECT6 = 72,
    PPOLL = 73,
    ACCEPT = 202,
    SENDTO = 206,
    RECVFROM = 207,
    SENDMSG = 211,
    RECVMSG = 212,
    ACCEPT4 = 242,
    RECVMMSG = 243,
};

enum { MOST = 4096 }; /* most descriptors in a call */

static void add(struct ready *r, int fd, short events)
{
    if (r->count == r->room) {
        r->room = r->room ? 2 * r->room : 4;
        r->files = need(realloc(r->files, r->room * sizeof *r->files));
    }
    r->files[r->count++] = (struct pollfd){.fd = fd, .events = events};
}

/* Would the socket wait until there are connections or bytes? */
static bool socket_waits(int fd, bool accepts)
{
    struct timeval limit = {0};
    int listens = 0;
    socklen_t size = sizeof listens, limit_size = sizeof limit;
    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && !listens == !accepts &&
           !getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &limit_size) && !limit.tv_sec &&
           !limit.tv_usec;
}

/*
 * A FIFO with a name ends at once while nobody has opened it to write, and looks as if it waited.
 */
static bool is_named(int fd)
{
    enum { PIPES = 0x50495045 };
    struct statfs s;
    return fstatfs(fd, &s) || s.f_type != PIPES;
}

/* How much a read must ask for, at the least, or it fails at once; of what has no type. */
static uint64_t least_bytes(int fd)
{
    static const char signals[] = "anon_inode:[signalfd]";
    char path[64], name[sizeof signals] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) > 0 && !strcmp(name, signals))
        return sizeof(struct signalfd_siginfo);
    return sizeof(uint64_t);
}

/* Terminals and other devices have rules of their own; files are always ready. */
static bool is_stream(int fd, bool write, mode_t *type)
{
    struct stat s;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || flags & (O_NONBLOCK | O_PATH) || fstat(fd, &s))
        return false;
    *type = s.st_mode & S_IFMT; /* 0 for event counters and similar */
    return (flags & O_ACCMODE) != (write ? O_RDONLY : O_WRONLY) &&
           (!*type || *type == S_IFIFO || *type == S_IFSOCK);
}

/* size: 0 if nothing is to be read. */
static void find_read(struct ready *r, int fd, uint64_t size, bool accepts)
{
    mode_t type;
    if (!is_stream(fd, false, &type) || (type == S_IFSOCK && !socket_waits(fd, accepts)) ||
        (type == S_IFIFO && is_named(fd)) || size < (type ? 1 : least_bytes(fd)))
        return;
    add(r, fd, POLLIN);
}

static void find_receive(struct ready *r, int fd, uint64_t flags)
{
    const uint64_t plain = MSG_PEEK | MSG_TRUNC | MSG_WAITALL | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC;
    if (!(flags & ~plain))
        find_read(r, fd, SIZE_MAX, false);
}

static void find_write(struct ready *r, int fd, uint64_t size)
{
    mode_t type;
    if (!is_stream(fd, true, &type))
        return;
    add(r, fd, POLLOUT);
    r->writes = true;
    r->much = size > PIPE_BUF;
}

/*
 * False for a call with a set of signals, which only the kernel can wait for, and for a timeout of
 * 0.
 */
static bool waits(uint64_t time, uint64_t signals)
{
    uint64_t t[2] = {0};
    return !signals && (!time || (regs_memory(time, t, sizeof t) && (t[0] || t[1])));
}

static void find_poll(struct ready *r, const uint64_t *a)
{
    struct pollfd file;
    if (a[1] > MOST || !waits(a[2], a[3]))
        return;
    for (uint64_t i = 0; i < a[1]; i++) {
        if (!regs_memory(a[0] + i * sizeof file, &file, sizeof file)) {
            r->count = 0;
            return;
        }
        add(r, file.fd, file.events);
    }
}

static void find_select(struct ready *r, const uint64_t *a)
{
    static const short events[] = {POLLIN, POLLOUT, POLLPRI};
    uint64_t signals[2] = {0};
    if ((a[5] && !regs_memory(a[5], signals, sizeof signals)) || !waits(a[4], signals[0]))
        return;
    for (uint64_t fd = 0; fd < a[0] && fd < MOST; fd++)
        for (unsigned set = 0; set < 3; set++) {
            uint8_t bits = 0;
            if (a[1 + set])
                regs_memory(a[1 + set] + fd / 8, &bits, 1);
            if (bits >> fd % 8 & 1)
                add(r, (int)fd, events[set]);
        }
}

void ready_find(struct vcpu *v, int64_t number)
{
    struct ready *r = &v->flow->ready;
    const uint64_t *a = v->argument;
    int fd = (int)a[0];
    r->count = 0;
    r->writes = r->much = false;
    if (!plugin.user.registers || plugin.user.interrupts)
        return;
    switch (number) {
    case READ:
    case READV:
        find_read(r, fd, a[2], false);
        break;
    case ACCEPT:
    case ACCEPT4:
        find_read(r, fd, SIZE_MAX, true);
        break;
    case RECVFROM:
        find_receive(r, fd, a[3]);
        break;
    case RECVMSG:
        find_receive(r, fd, a[2]);
        break;
    case RECVMMSG:
        if (!a[4])
            find_receive(r, fd, a[3]);
        break;
    case WRITE:
        find_write(r, fd, a[2]);
        break;
    case WRITEV:
    case SENDMSG:
        find_write(r, fd, SIZE_MAX);
        break;
    case SENDTO:
        if (!(a[3] & MSG_DONTWAIT))
            find_write(r, fd, a[2]);
        break;
    case PPOLL:
        find_poll(r, a);
        break;
    case PSELECT6:
        find_select(r, a);
        break;
    case EPOLL_PWAIT:
        if ((int32_t)a[2] > 0 && a[3] && !a[4])
            add(r, fd, POLLIN);
        break;
    }
}

bool ready_look(const struct ready *ready, int wait)
{
    return poll(ready->files, ready->count, wait) > 0;
}
