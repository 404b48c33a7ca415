#include "order.h"

#include "account.h"
#include "plugin.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    FEW = 64,       /* words in a turn of threads that take lines from each other, or wait */
    MANY = 4096,    /* words in a turn of threads that do not */
    WINDOW = 16384, /* cycles of a turn: others may see its writes early by that much */
    LOOK = 5,       /* milliseconds after which a thread that waits looks at the holder */
    PATIENCE = 200, /* how often to look at a thread that neither sleeps nor comes back */
};

static bool away(const struct flow *f)
{
    return __atomic_load_n(&f->away, __ATOMIC_ACQUIRE);
}

/*
 * The flow that is furthest behind in modelled time, among those that run or have words.
 * limit: how far its account may go.
 */
static struct flow *first(uint64_t *limit, bool *ready)
{
    struct flow *best = NULL;
    uint64_t second = UINT64_MAX;
    for (unsigned i = 0; i < plugin.order.count; i++) {
        struct flow *f = plugin.order.flows[i];
        bool words = account_ready(f);
        if (!words && (away(f) || account_waits(f)))
            continue;
        uint64_t clock = account_clock(f);
        if (best && clock >= account_clock(best)) {
            second = clock < second ? clock : second;
            continue;
        }
        if (best)
            second = account_clock(best);
        best = f;
        *ready = words;
    }
    uint64_t turn = plugin.run->model.turn;
    *limit = second < UINT64_MAX - turn ? second + turn : UINT64_MAX;
    return best;
}

/*
 * Accounts for the words that are there; returns the flow that must run now, NULL if all are away.
 */
static struct flow *next(void)
{
    for (;;) {
        uint64_t limit;
        bool ready = false;
        struct flow *f = first(&limit, &ready);
        if (f && !ready)
            return f;
        if (f) {
            account_turn(f, limit, UINT32_MAX);
            continue;
        }
        unsigned i = 0; /* no thread is left that could wake it: an old wake was forgotten */
        while (i < plugin.order.count && !account_waits(plugin.order.flows[i]))
            i++;
        if (i == plugin.order.count)
            return NULL;
        account_wait_no_more(plugin.order.flows[i]);
    }
}

static void give(struct flow *f)
{
    plugin.order.holder = f;
    if (f)
        pthread_cond_signal(&f->turn);
}

/* ---- what the kernel says about threads ---- */

enum host_state { HOST_RUNS, HOST_SLEEPS, HOST_GONE };

static enum host_state host_state(int tid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return HOST_GONE;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    if (!name_end || !name_end[1])
        return HOST_GONE;
    return strchr("StT", name_end[2])  ? HOST_SLEEPS
           : strchr("ZX", name_end[2]) ? HOST_GONE
                                       : HOST_RUNS;
}

static void pause_a_little(unsigned times)
{
    if (times < 10)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static bool may_come(const struct flow *f)
{
    return f == plugin.order.left ||
           (f->word ? plugin.order.word == ORDER_ANY || plugin.order.word == f->word
                    : plugin.order.calls);
}

/*
 * Waits until threads that may be coming back are back or sleep in the kernel, and those that
 * are ending have ended. The lock is released meanwhile: since it is nobody's turn, no flow
 * ends or begins.
 */
static void settle(void)
{
    plugin.order.unsettled = false;
    plugin.order.settling = true;
    pthread_mutex_unlock(&plugin.order.lock);
    for (unsigned i = 0; i < plugin.order.gone_count; i++)
        for (unsigned n = 0; n < PATIENCE && host_state(plugin.order.gone[i]) != HOST_GONE; n++)
            pause_a_little(n);
    for (unsigned i = 0; i < plugin.order.count; i++) {
        struct flow *f = plugin.order.flows[i];
        if (may_come(f))
            for (unsigned n = 0; n < PATIENCE && away(f) && host_state(f->tid) == HOST_RUNS; n++)
                pause_a_little(n);
    }
    pthread_mutex_lock(&plugin.order.lock);
    plugin.order.gone_count = 0;
    plugin.order.left = NULL;
    plugin.order.word = 0;
    plugin.order.calls = plugin.order.settling = false;
}

/* It is nobody's turn: chooses whose it is now. */
static void elect(void)
{
    while (!plugin.order.holder && !plugin.order.settling) {
        if (plugin.order.unsettled) {
            settle();
            continue;
        }
        struct flow *f = next();
        if (!f)
            return;
        give(f);
    }
}

/* ---- waiting ---- */

/*
 * The holder has done nothing for a while. If it sleeps in a call that was not known to wait,
 * it loses its turn. If it sleeps elsewhere, QEMU is waiting for all threads to stop: returns
 * true, so that they run on to the next check.
 */
static bool look_at_holder(uint64_t moves, unsigned times)
{
    struct flow *h = plugin.order.holder;
    if (!h || plugin.order.moves != moves || times < 2 ||
        __atomic_load_n(&h->inside, __ATOMIC_SEQ_CST))
        return false;
    bool missing = !h->tid; /* its thread has not begun */
    if (missing ? times < PATIENCE : host_state(h->tid) == HOST_RUNS)
        return false;
    if (!missing && !h->calls)
        return true;
    __atomic_store_n(&h->away, true, __ATOMIC_RELEASE);
    give(NULL);
    return false;
}

static void wait_for_turn(struct flow *f)
{
    uint64_t moves = plugin.order.moves;
    __atomic_store_n(&f->away, false, __ATOMIC_RELEASE); /* whatever others thought */
    for (unsigned times = 0; plugin.order.holder != f; times++) {
        if (!plugin.order.holder)
            elect();
        if (plugin.order.holder == f)
            break;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&f->turn, &plugin.order.lock, &until);
        if (plugin.order.moves != moves) {
            moves = plugin.order.moves;
            times = 0;
        }
        if (look_at_holder(moves, times))
            return;
    }
}

/* The next thread to look chooses who goes on. */
static void let_go(void)
{
    plugin.order.unsettled = true;
    give(NULL);
    struct flow *f = next();
    if (f)
        pthread_cond_signal(&f->turn);
}

/* ---- what threads do ---- */

/*
 * Threads that take lines from each other take short turns, and so does one that waits. One that
 * says so (YIELD) ends its turn each time, later less often.
 */
static void set_words(struct flow *f)
{
    uint64_t taken = spex_timing_taken(f->core), clock = account_clock(f), took = clock - f->since;
    bool alone = taken == f->taken;
    f->taken = taken;
    f->since = clock;
    if (!alone || account_spins(f))
        f->words = FEW;
    else if (took < WINDOW / 2 && f->words < MANY)
        f->words *= 2;
    else if (took > WINDOW && f->words > FEW)
        f->words /= 2;
    f->patience = !alone || !f->yields ? 1 : f->patience < FEW ? f->patience + 1 : FEW;
    f->yields = 0;
}

void order_begin(struct flow *f)
{
    pthread_cond_init(&f->turn, NULL);
    f->words = FEW;
    if (plugin.order.count == 1) { /* the one that makes the second */
        plugin.order.flows[0]->calls = false;
        give(plugin.order.flows[0]);
    }
    plugin.order.flows[plugin.order.count++] = f;
}

void order_end(struct flow *f)
{
    for (unsigned i = 0; i < plugin.order.count; i++)
        if (plugin.order.flows[i] == f)
            plugin.order.flows[i] = plugin.order.flows[--plugin.order.count];
    if (plugin.order.gone_count < sizeof plugin.order.gone / sizeof *plugin.order.gone && f->tid)
        plugin.order.gone[plugin.order.gone_count++] = f->tid;
    plugin.order.left = plugin.order.left == f ? NULL : plugin.order.left;
    plugin.order.word = ORDER_ANY; /* whoever joins it */
    if (plugin.order.holder == f || !plugin.order.holder)
        let_go();
}

/* The thread whose turn it is has done something. */
static void begin(struct flow *f)
{
    if (!f->tid)
        f->tid = (int)syscall(SYS_gettid);
    if (plugin.order.holder != f)
        wait_for_turn(f);
    plugin.order.moves++;
}

void order_check(struct flow *f)
{
    begin(f);
    struct flow *n = next();
    set_words(f);
    if (plugin.order.holder != f || !n || n == f)
        return;
    give(n);
    wait_for_turn(f);
}

void order_call(struct flow *f, enum flow_call call)
{
    begin(f);
    f->calls = true;
    if (call != FLOW_WAITS && call != FLOW_FUTEX_WAIT)
        return;
    f->word = call == FLOW_FUTEX_WAIT ? f->vcpu->argument[0] : 0;
    __atomic_store_n(&f->away, true, __ATOMIC_RELEASE);
    plugin.order.left = f;
    if (plugin.order.holder == f)
        let_go();
}

void order_return(struct flow *f, enum flow_call call)
{
    f->calls = false;
    plugin.order.moves++;
    if (plugin.order.holder == f &&
        (call == FLOW_WAKES || call == FLOW_FUTEX_WAKE || call == FLOW_FUTEX_MOVE)) {
        plugin.order.calls |= call == FLOW_WAKES;
        if (call != FLOW_WAKES)
            plugin.order.word = call == FLOW_FUTEX_WAKE ? f->vcpu->argument[0] : ORDER_ANY;
        plugin.order.unsettled = true;
        give(NULL);
    }
    if (plugin.order.holder != f)
        wait_for_turn(f);
}

void order_in_child(struct flow *f)
{
    pthread_mutex_init(&plugin.order.lock, NULL);
    for (unsigned i = 0; i < plugin.order.count; i++)
        if (plugin.order.flows[i] != f)
            account_forget(plugin.order.flows[i]);
    plugin.order.holder = NULL;
    plugin.order.settling = plugin.order.unsettled = plugin.order.calls = false;
    plugin.order.left = NULL;
    plugin.order.word = 0;
    plugin.order.gone_count = 0;
    plugin.order.flows[0] = f;
    plugin.order.count = f != NULL;
    if (f)
        f->tid = 0;
}
