#include "pause.h"

#include "account.h"
#include "plugin.h"
#include "regs.h"

#include <time.h>

enum {
    EPOLL_PWAIT = 22,
    PSELECT6 = 72,
    PPOLL = 73,
    FUTEX = 98,
    NANOSLEEP = 101,
    CLOCK_GETTIME = 113,
    CLOCK_NANOSLEEP = 115,
    RT_SIGTIMEDWAIT = 137,
    GETTIMEOFDAY = 169,
    AGAIN = -11,
    TIMED_OUT = -110,
};

#define SECOND UINT64_C(1000000000)
#define LONGEST (FLOW_VALUE / PAUSE_CLOCKS) /* nine hours */

/* A time in guest memory, of which the second half counts so much. */
static bool read_time(uint64_t at, uint64_t unit, uint64_t *ns)
{
    int64_t t[2];
    if (!at || !plugin.user.registers || !regs_memory(at, t, sizeof t) || t[0] < 0 || t[1] < 0 ||
        (uint64_t)t[0] >= UINT64_MAX / SECOND / 2 || (uint64_t)t[1] >= SECOND)
        return false;
    *ns = (uint64_t)t[0] * SECOND + (uint64_t)t[1] * unit;
    return true;
}

/* The coarse clocks are the others, seldom updated. */
static unsigned clock_number(uint64_t id)
{
    return id == CLOCK_REALTIME_COARSE    ? CLOCK_REALTIME
           : id == CLOCK_MONOTONIC_COARSE ? CLOCK_MONOTONIC
           : id < PAUSE_CLOCKS            ? (unsigned)id
                                          : PAUSE_CLOCKS;
}

static uint64_t cycles_of(uint64_t ns)
{
    return ns < LONGEST ? ns : LONGEST;
}

static void set_for(struct vcpu *v, enum pause_kind kind, uint64_t ns)
{
    v->flow->pause = (struct pause){.kind = kind, .clock = PAUSE_CLOCKS, .cycles = cycles_of(ns)};
}

static void set_until(struct vcpu *v, enum pause_kind kind, uint64_t id, uint64_t ns)
{
    unsigned clock = clock_number(id);
    if (clock == PAUSE_CLOCKS)
        return;
    uint64_t read = v->flow->clock_read[clock];
    if (!read) { /* another thread's, or the program's own: this comes from outside */
        struct timespec now;
        clock_gettime((clockid_t)clock, &now);
        read = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
        clock = PAUSE_CLOCKS;
    }
    v->flow->pause = (struct pause){
        .kind = kind, .clock = clock, .cycles = cycles_of(ns > read ? ns - read : 0)};
}

static void find_futex(struct vcpu *v)
{
    enum { WAIT = 0, WAIT_BITSET = 9, OPERATION = 127, PRIVATE = 128, REALTIME = 256 };
    const uint64_t *a = v->argument;
    uint64_t ns;
    /* one that is not private may be woken by another process */
    enum pause_kind kind = a[1] & PRIVATE ? PAUSE_FUTEX : PAUSE_OTHER;
    unsigned operation = a[1] & OPERATION;
    if ((operation != WAIT && operation != WAIT_BITSET) || !read_time(a[3], 1, &ns))
        return;
    if (operation == WAIT)
        set_for(v, kind, ns);
    else
        set_until(v, kind, a[1] & REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, ns);
    v->flow->pause.result = TIMED_OUT;
}

void pause_find(struct vcpu *v, int64_t number)
{
    const uint64_t *a = v->argument;
    uint64_t ns;
    v->flow->pause = (struct pause){.kind = PAUSE_NONE};
    switch (number) {
    case NANOSLEEP:
        if (read_time(a[0], 1, &ns))
            set_for(v, PAUSE_SLEEP, ns);
        break;
    case CLOCK_NANOSLEEP:
        if (!read_time(a[2], 1, &ns))
            break;
        if (a[1] & TIMER_ABSTIME)
            set_until(v, PAUSE_SLEEP, a[0], ns);
        else
            set_for(v, PAUSE_SLEEP, ns);
        break;
    case PPOLL:
        if (read_time(a[2], 1, &ns))
            set_for(v, a[1] ? PAUSE_OTHER : PAUSE_SLEEP, ns);
        break;
    case PSELECT6:
        if (read_time(a[4], 1, &ns))
            set_for(v, a[0] ? PAUSE_OTHER : PAUSE_SLEEP, ns);
        break;
    case EPOLL_PWAIT:
        if ((int32_t)a[3] > 0)
            set_for(v, PAUSE_OTHER, (uint64_t)(int32_t)a[3] * 1000000);
        break;
    case RT_SIGTIMEDWAIT:
        if (read_time(a[2], 1, &ns))
            set_for(v, PAUSE_OTHER, ns);
        v->flow->pause.result = AGAIN;
        break;
    case FUTEX:
        find_futex(v);
        break;
    }
}

void pause_account(struct vcpu *v, int64_t number, int64_t result)
{
    struct flow *f = v->flow;
    uint64_t ns;
    if (pause_over(&f->pause, result)) {
        if (f->pause.clock < PAUSE_CLOCKS)
            flow_mark(v, FLOW_UNTIL, PAUSE_CLOCKS * f->pause.cycles + f->pause.clock);
        else
            flow_mark(v, FLOW_SLEPT, f->pause.cycles);
    }
    unsigned clock = number == CLOCK_GETTIME  ? clock_number(v->argument[0])
                     : number == GETTIMEOFDAY ? CLOCK_REALTIME
                                              : PAUSE_CLOCKS;
    bool micro = number == GETTIMEOFDAY;
    if (!result && clock < PAUSE_CLOCKS &&
        read_time(v->argument[micro ? 0 : 1], micro ? 1000 : 1, &ns)) {
        f->clock_read[clock] = ns;
        flow_mark(v, FLOW_READ, clock);
    }
}
