#include "origin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GENERATIONS = 64 };

/* When a host process started, and its parent; 0 if there is no such process. */
static uint64_t started(int32_t pid, int32_t *parent)
{
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at =
        strrchr(text, ')'); /* the last ')', since the name before it may contain others */
    uint64_t start = 0;
    *parent = 0;
    for (int field = 3; at && field <= 22 && (at = strchr(at, ' ')); field++) {
        at++;
        if (field == 4)
            *parent = (int32_t)strtol(at, NULL, 10);
        if (field == 22)
            start = strtoull(at, NULL, 10);
    }
    return start;
}

static struct run_gone *slot(struct run_control *run, int32_t pid)
{
    return &run->gone[(unsigned)pid % RUN_GONE];
}

struct run_gone *origin_find(struct run_control *run, bool *same)
{
    int32_t pid = getpid(), parent;
    for (int i = 0; i < GENERATIONS && pid > 1; i++, pid = parent) {
        uint64_t start = started(pid, &parent);
        struct run_gone *gone = slot(run, pid);
        *same = !i;
        if (__atomic_load_n(&gone->host_pid, __ATOMIC_ACQUIRE) == pid && gone->started == start)
            return gone;
    }
    return NULL;
}

void origin_leave(struct run_control *run, uint32_t task, uint64_t clock)
{
    int32_t pid = getpid(), parent;
    struct run_gone *gone = slot(run, pid);
    __atomic_store_n(&gone->host_pid, 0, __ATOMIC_RELEASE);
    gone->started = started(pid, &parent);
    gone->task = task;
    gone->clock = clock;
    __atomic_store_n(&gone->host_pid, pid, __ATOMIC_RELEASE);
}

void origin_reach(struct run_gone *gone, uint64_t clock)
{
    uint64_t seen = __atomic_load_n(&gone->clock, __ATOMIC_RELAXED);
    while (seen < clock && !__atomic_compare_exchange_n(&gone->clock, &seen, clock, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

uint64_t origin_clock(struct run_control *run, int32_t host_pid)
{
    const struct run_gone *gone = slot(run, host_pid);
    return __atomic_load_n(&gone->host_pid, __ATOMIC_ACQUIRE) == host_pid ? gone->clock : 0;
}
