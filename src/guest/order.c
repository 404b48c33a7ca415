#include "order.h"

#include "account.h"
#include "plugin.h"
#include "regs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    FEW = 64,       /* words in a turn of threads that take lines from each other, or wait */
    MANY = 4096,    /* words in a turn of threads that do not */
    WINDOW = 16384, /* cycles in a turn: others may see its writes early by that much */
    LOOK = 5,       /* milliseconds after which a waiting thread checks on the holder */
    NOT_SEEN = 1,   /* value of runs for a thread in a call that was not checked yet */
    ODD = 20000,    /* checks of a thread that sleeps where nothing in the guest can wake it */
};

static bool away(const struct flow *f)
{
    return __atomic_load_n(&f->away, __ATOMIC_ACQUIRE);
}

/* When it continues: at the end of its timeout, unless others wake it earlier. */
static uint64_t time_of(const struct flow *f, bool words)
{
    uint64_t clock = account_clock(f);
    if (words || !f->pausing || f->found_ready)
        return clock;
    const struct pause *p = &f->pause;
    uint64_t end = (p->until ? 0 : clock) + p->time;
    return end > clock ? end : clock;
}

/*
 * The flow furthest behind in modelled time, among those that run or have words. limit: how far its
 * words may be processed.
 */
static struct flow *first(uint64_t *limit, bool *ready)
{
    struct flow *best = NULL;
    uint64_t behind = 0, second = UINT64_MAX;
    for (unsigned i = 0; i < plugin.order.count; i++) {
        struct flow *f = plugin.order.flows[i];
        bool words = account_ready(f);
        if (!words && ((away(f) && !f->pausing && !f->found_ready) || account_waits(f)))
            continue;
        uint64_t clock = time_of(f, words);
        if (best && clock >= behind) {
            second = clock < second ? clock : second;
            continue;
        }
        if (best)
            second = behind;
        behind = clock;
        best = f;
        *ready = words;
    }
    uint64_t turn = plugin.run->model.turn;
    *limit = second < UINT64_MAX - turn ? second + turn : UINT64_MAX;
    return best;
}

/* Finds which of the threads held for a descriptor may continue, because it is ready. */
static void look_at_descriptors(void)
{
    if (!plugin.order.called)
        return;
    plugin.order.called = false;
    for (unsigned i = 0; i < plugin.order.count; i++) {
        struct flow *f = plugin.order.flows[i];
        if (f->held && f->ready.count)
            f->found_ready = ready_look(&f->ready, 0);
    }
}

/*
 * Processes the words that are there. Returns the flow that must run now, or NULL if all are away.
 */
static struct flow *next(void)
{
    look_at_descriptors();
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
        unsigned i = 0; /* no thread is left that could wake it: an old wake was lost */
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
    if (!f)
        return;
    f->held = 0; /* the kernel itself ends the wait */
    pthread_cond_signal(&f->turn);
}

/* ---- thread states from the kernel ---- */

enum host_state {
    HOST_RUNS,
    HOST_SLEEPS,    /* asleep in the guest's system call */
    HOST_ELSEWHERE, /* asleep elsewhere: it waits for a lock in QEMU */
    HOST_GONE
};

/* Reads a file of the thread; false if there is none. */
static bool read_of(int tid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Linux's letter for the state of a thread; 0 if it is gone. */
static char state_letter(int tid)
{
    char text[512];
    const char *name_end = read_of(tid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] && !strchr("ZX", name_end[2]) ? name_end[2] : '\0';
}

/*
 * Does the thread sleep in the guest's own call? QEMU's own locks wait at words elsewhere in their
 * pages.
 */
static bool in_its_call(const struct flow *f)
{
    char text[512];
    unsigned long long number, word;
    if (!read_of(f->tid, "syscall", text, sizeof text))
        return true; /* this kernel does not say */
    if (sscanf(text, "%llu %llx", &number, &word) != 2)
        return false; /* running again */
    return f->word ? number == SYS_futex && (word ^ f->word) % RUN_PAGE == 0 : number != SYS_futex;
}

static enum host_state host_state(const struct flow *f)
{
    char letter = state_letter(f->tid);
    if (!letter)
        return HOST_GONE;
    if (letter != 'S')
        return HOST_RUNS;
    return __atomic_load_n(&f->calls, __ATOMIC_RELAXED) && in_its_call(f) ? HOST_SLEEPS
                                                                          : HOST_ELSEWHERE;
}

/* How often a thread has run so far, counted by its context switches. */
static uint64_t times_run(int tid)
{
    static const char word[] = "voluntary_ctxt_switches:";
    char text[4096];
    uint64_t times = 0;
    const char *at = read_of(tid, "status", text, sizeof text) ? text : "";
    while ((at = strstr(at, word))) { /* and nonvoluntary */
        at += sizeof word - 1;
        times += strtoull(at, NULL, 10);
    }
    return times;
}

static void pause_a_little(unsigned times)
{
    if (times < 10)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static bool inside(const struct flow *f)
{
    return __atomic_load_n(&f->inside, __ATOMIC_SEQ_CST);
}

/*
 * Waits until a thread in a call is back or sleeps in that call, however long the host takes.
 * Returns whether it sleeps; *waited: was that not so at once?
 */
static bool await(const struct flow *f, bool *waited)
{
    *waited = false;
    for (unsigned n = 0, odd = 0; odd < ODD; n++) {
        enum host_state state = away(f) && !inside(f) ? host_state(f) : HOST_RUNS;
        if (!away(f) || state == HOST_SLEEPS || state == HOST_GONE)
            return away(f) && state == HOST_SLEEPS;
        odd += state == HOST_ELSEWHERE;
        *waited = true;
        pause_a_little(n);
    }
    *waited = false;
    return true; /* it cannot come back while others wait */
}

static void await_end(int tid)
{
    char letter = state_letter(tid);
    for (unsigned n = 0, odd = 0; letter && odd < ODD; n++) {
        pause_a_little(n);
        odd += letter == 'S';
        letter = state_letter(tid);
    }
}

static bool may_come(const struct flow *f)
{
    return f == plugin.order.left ||
           (f->word ? plugin.order.word == ORDER_ANY || plugin.order.word == f->word
                    : plugin.order.calls);
}

/*
 * Waits until all threads that may be coming back are back or asleep. A thread that was still
 * running may have woken one that we had already seen asleep, so with --deterministic no thread may
 * have run between two checks of all of them. That takes five times as long with many threads;
 * without the option one check of each is enough.
 */
static void await_all(void)
{
    const bool exact = plugin.run->deterministic;
    unsigned several = 2;
    for (bool quiet = false; !quiet && (several > 1 || !exact);) {
        quiet = true;
        several = 0;
        for (unsigned i = 0; i < plugin.order.count; i++) {
            struct flow *f = plugin.order.flows[i];
            bool waited;
            if (f->held || (exact && !f->runs) || !may_come(f))
                continue;
            const bool asleep = await(f, &waited);
            several++;
            if (exact) {
                uint64_t runs = asleep ? NOT_SEEN + 1 + times_run(f->tid) : 0;
                waited = runs != f->runs;
                f->runs = runs;
            }
            quiet &= !waited;
        }
    }
}

/*
 * Waits until threads that may be coming back are back or asleep in the kernel, and until those
 * that are ending have ended. Releases the lock meanwhile: nobody has the turn, so no flow begins
 * or ends.
 */
static void settle(void)
{
    plugin.order.unsettled = false;
    plugin.order.settling = true;
    pthread_mutex_unlock(&plugin.order.lock);
    for (unsigned i = 0; i < plugin.order.gone_count; i++)
        await_end(plugin.order.gone[i]);
    await_all();
    pthread_mutex_lock(&plugin.order.lock);
    plugin.order.gone_count = 0;
    plugin.order.left = NULL;
    plugin.order.word = 0;
    plugin.order.calls = plugin.order.settling = false;
    plugin.order.called = true;
}

/* Nobody has the turn: chooses who gets it. */
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

static bool looks_on(int tid)
{
    for (unsigned i = 0; i < plugin.order.count; i++)
        if (plugin.order.flows[i]->tid == tid)
            return inside(plugin.order.flows[i]);
    return false;
}

/* Are all threads asleep, not counting those that ask for a turn? */
static bool look_at_all(uint64_t *times)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    bool quiet = threads != NULL;
    *times = 0;
    while (quiet && (entry = readdir(threads))) {
        int tid = atoi(entry->d_name);
        if (tid <= 0 || looks_on(tid))
            continue;
        *times += times_run(tid);
        quiet = state_letter(tid) == 'S';
    }
    if (threads)
        closedir(threads);
    return quiet;
}

/*
 * Are all threads of this process asleep, except those that ask for a turn? One thread may wake
 * another unseen, so no thread may have run between two checks.
 */
static bool all_quiet(void)
{
    uint64_t before, after;
    return look_at_all(&before) && look_at_all(&after) && before == after;
}

/*
 * Called when the holder has done nothing for a while. If it sleeps in a call that was not known to
 * wait, it loses its turn. If it sleeps elsewhere, QEMU is waiting for all threads to stop: returns
 * true, so that they run on to the next check.
 */
static bool look_at_holder(uint64_t moves, unsigned times)
{
    struct flow *h = plugin.order.holder;
    if (!h || plugin.order.moves != moves || times < 2 || inside(h) ||
        __atomic_load_n(&plugin.order.wanted, __ATOMIC_SEQ_CST))
        return false;
    if (!h->tid || (h->pausing && away(h))) /* its thread has not begun; or its time has not come */
        return false;
    enum host_state state = host_state(h);
    if (state == HOST_ELSEWHERE)
        return all_quiet();
    if (state == HOST_SLEEPS) {
        __atomic_store_n(&h->away, true, __ATOMIC_RELEASE);
        h->runs = NOT_SEEN;
        plugin.order.called = true; /* its call may have changed something already */
        give(NULL);
    }
    return false;
}

/* QEMU has taken a signal for this thread: it blocks all others until the guest has seen it. */
static bool signalled(const sigset_t *before)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (int i = 1; i < SIGRTMIN; i++)
        if (sigismember(&now, i) > sigismember(before, i))
            return true;
    return false;
}

/*
 * Sleeps briefly while a thread waits for its turn. A thread held for a descriptor, while all
 * others wait too, waits for the descriptor instead: an event may come from outside.
 */
static void sleep_a_little(struct flow *f)
{
    struct timespec until;
    if (f->held && f->ready.count && !plugin.order.holder && !plugin.order.settling) {
        pthread_mutex_unlock(&plugin.order.lock);
        ready_look(&f->ready, LOOK);
        pthread_mutex_lock(&plugin.order.lock);
    } else {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&f->turn, &plugin.order.lock, &until);
    }
    plugin.order.called |= f->held && f->ready.count;
}

/*
 * Waits until it is the thread's turn or, if the thread is held, until it may enter the kernel.
 * in_block: the thread is inside guest code, which QEMU may want to stop.
 */
static void wait_for_turn(struct flow *f, bool in_block)
{
    uint64_t moves = plugin.order.moves;
    bool was_held = f->held;
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    for (unsigned times = 0; was_held ? f->held != 0 : plugin.order.holder != f; times++) {
        if (!plugin.order.holder)
            elect();
        if (was_held ? !f->held : plugin.order.holder == f)
            break;
        sleep_a_little(f);
        if (plugin.order.moves != moves) {
            moves = plugin.order.moves;
            times = 0;
        }
        if ((f->pausing || was_held) && signalled(&before)) { /* a signal from outside: at once */
            f->pausing = false;
            f->held = 0;
        }
        if (look_at_holder(moves, times) && in_block)
            return;
    }
}

/*
 * Waits for the turn of a thread that may be back. A holder that is still waiting for its time
 * gives way.
 */
static void take_turn(struct flow *f, bool in_block)
{
    const struct flow *h = plugin.order.holder;
    __atomic_store_n(&f->away, false, __ATOMIC_RELEASE); /* whatever others assumed */
    if (h && h != f && h->pausing && away(h))            /* an event came from outside */
        give(NULL);
    if (plugin.order.holder != f)
        wait_for_turn(f, in_block);
}

/* The next thread that checks chooses who continues. */
static void let_go(void)
{
    plugin.order.unsettled = true;
    give(NULL);
    struct flow *f = next();
    if (f)
        pthread_cond_signal(&f->turn);
}

/* ---- what threads report ---- */

/*
 * Sets the length of the next turn. Threads that take lines from each other get short turns, and so
 * does a thread that spins. YIELD ends the turn every time at first, later less often.
 */
static void set_words(struct flow *f)
{
    uint64_t taken = timing_lines_taken(f->core), clock = account_clock(f), took = clock - f->since;
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
    if (plugin.order.count == 1) { /* called by the thread that makes the second one */
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
    plugin.order.word = ORDER_ANY; /* the thread that joins it */
    if (plugin.order.holder == f || !plugin.order.holder)
        let_go();
}

static void know_thread(struct flow *f)
{
    if (!f->tid)
        f->tid = (int)syscall(SYS_gettid);
}

/* Called whenever a thread does something: waits until it has the turn. */
static void begin(struct flow *f, bool in_block)
{
    know_thread(f);
    if (plugin.order.holder != f)
        take_turn(f, in_block);
    plugin.order.moves++;
}

void order_check(struct flow *f, bool in_block)
{
    begin(f, in_block);
    struct flow *n = next();
    set_words(f);
    if (plugin.order.holder != f || !n || n == f)
        return;
    give(n);
    take_turn(f, in_block);
}

/* Of the threads held at a futex, the one held longest. */
static struct flow *held_at(uint64_t word)
{
    struct flow *first = NULL;
    for (unsigned i = 0; i < plugin.order.count; i++) {
        struct flow *f = plugin.order.flows[i];
        if (f->held && (word == ORDER_ANY || word == f->word) && (!first || f->held < first->held))
            first = f;
    }
    return first;
}

/* Threads that a call may wake enter the kernel first, so that the call finds them there. */
static void let_in(uint64_t word, uint64_t most)
{
    struct flow *f;
    bool waited;
    while (most-- && (f = held_at(word))) {
        f->held = 0;
        f->pausing = false;
        f->woken = true;
        pthread_cond_signal(&f->turn);
        pthread_mutex_unlock(&plugin.order.lock); /* still the caller's turn */
        await(f, &waited);
        pthread_mutex_lock(&plugin.order.lock);
    }
}

static void let_woken_in(const struct flow *f, enum flow_call call)
{
    const uint64_t *a = f->vcpu->argument;
    if (call == FLOW_FUTEX_WAKE)
        let_in(a[0], (uint32_t)a[2]);
    if (call == FLOW_FUTEX_MOVE) {
        let_in(a[0], UINT64_MAX);
        let_in(a[4], UINT64_MAX);
    }
    if (call == FLOW_SIGNALS)
        let_in(ORDER_ANY, UINT64_MAX);
}

/*
 * Must the thread be held before it enters the kernel? A thread that waits at a futex is held, or
 * the host's clock would end its wait. It is let in when another thread's call wakes it or modelled
 * time has passed; other threads only see that its call is slow. A thread that waits for a
 * descriptor is held until the descriptor is ready in the thread's turn: inside the kernel, the
 * host would choose which of several threads gets the data.
 */
static bool to_be_held(const struct flow *f)
{
    uint32_t value;
    if (f->ready.count)
        return !f->ready.writes && !ready_look(&f->ready, 0);
    return f->pause.kind == PAUSE_FUTEX && regs_memory(f->word, &value, sizeof value) &&
           value == (uint32_t)f->vcpu->argument[2];
}

/* May the call sleep in the kernel while others continue? */
static bool may_sleep(const struct flow *f, enum flow_call call)
{
    if (!f->ready.count)
        return call == FLOW_WAITS || call == FLOW_FUTEX_WAIT;
    return f->ready.much || !ready_look(&f->ready, 0);
}

void order_call(struct flow *f, enum flow_call call)
{
    begin(f, false);
    f->calls = true;
    f->woken = false;
    let_woken_in(f, call);
    f->word = call == FLOW_FUTEX_WAIT ? f->vcpu->argument[0] : 0;
    f->found_ready = false;
    if (!may_sleep(f, call))
        return;
    __atomic_store_n(&f->away, true, __ATOMIC_RELEASE);
    f->runs = NOT_SEEN;
    f->held = to_be_held(f) ? ++plugin.order.holds : 0;
    f->pausing = f->pause.kind == PAUSE_SLEEP || (f->held && f->pause.kind != PAUSE_NONE);
    plugin.order.left = f;
    /* it may make room for a writer, or write what wakes a reader */
    plugin.order.calls |= call != FLOW_FUTEX_WAIT;
    if (plugin.order.holder == f)
        let_go();
    if (f->held)
        wait_for_turn(f, false);
    if (plugin.order.holder != f || !f->found_ready)
        return;
    __atomic_store_n(&f->away, false, __ATOMIC_RELEASE); /* the call will not wait */
    f->pausing = false;
}

void order_return(struct flow *f, enum flow_call call, bool over)
{
    know_thread(f);
    f->calls = false;
    f->pausing = f->pausing && over;
    plugin.order.moves++;
    plugin.order.called = true;
    if (call == FLOW_WAITS && f->ready.count) /* it may have made room */
        call = FLOW_WAKES;
    if (plugin.order.holder == f && call >= FLOW_WAKES && call != FLOW_FUTEX_WAIT) {
        plugin.order.calls |= call == FLOW_WAKES || call == FLOW_SIGNALS;
        if (call != FLOW_WAKES)
            plugin.order.word = call == FLOW_FUTEX_WAKE ? f->vcpu->argument[0] : ORDER_ANY;
        plugin.order.unsettled = true;
        give(NULL);
    }
    if (plugin.order.holder != f)
        take_turn(f, false);
    f->pausing = false;
    f->runs = 0;
}

void order_in_child(struct flow *f)
{
    pthread_mutex_init(&plugin.order.lock, NULL);
    for (unsigned i = 0; i < plugin.order.count; i++)
        if (plugin.order.flows[i] != f)
            account_forget(plugin.order.flows[i]);
    plugin.order.holder = NULL;
    plugin.order.settling = plugin.order.unsettled = plugin.order.calls = false;
    plugin.order.called = false;
    plugin.order.left = NULL;
    plugin.order.word = 0;
    plugin.order.gone_count = 0;
    plugin.order.busy = 0;
    plugin.order.flows[0] = f;
    plugin.order.count = f != NULL;
    if (f)
        f->tid = 0;
}
