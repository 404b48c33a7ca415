/* Threads, forks, exits and system calls of the guest. */
#include "perfdata/jit.h"

#include "account.h"
#include "chance.h"
#include "clock.h"
#include "follow.h"
#include "need.h"
#include "origin.h"
#include "owner.h"
#include "plugin.h"
#include "regs.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread struct vcpu *caller; /* the vCPU whose system call this thread is making */

bool life_is_handler(uint64_t pc)
{
    for (unsigned i = 0; i < plugin.user.handler_count; i++)
        if (plugin.user.handlers[i] == pc)
            return true;
    return false;
}

/* ---- threads and processes ---- */

static void log_event(struct vcpu *v, struct run_event *event, const char *text)
{
    if (!plugin.user.full) {
        event->time = clock_of(v);
        task_log(&v->task, event, text);
        return;
    }
    size_t size = text ? strlen(text) + 1 : 1;
    struct flow_log *log = need(malloc(sizeof *log + size));
    log->event = *event;
    memcpy(log->text, text ? text : "", size);
    flow_mark(v, FLOW_LOG, (uintptr_t)log);
}

static void end_vcpu(struct vcpu *v)
{
    if (!v->live)
        return;
    v->live = false;
    if (plugin.user.full) {
        flow_end(v);
        return;
    }
    sample_end(v);
    task_end(&v->task, clock_of(v));
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The identity of a new thread. */
struct birth {
    uint32_t number;
    int32_t cpu;
    uint64_t start;
    bool again; /* a process that ran another program before */
    bool child; /* the parent is known: */
    struct run_task parent;
};

static void plan(struct birth *b, const struct vcpu *creator)
{
    bool same = false;
    struct run_gone *gone = creator ? NULL : origin_find(plugin.run, &same);
    bool known = gone && gone->task != RUN_NO_TASK && task_look(gone->task, &b->parent);
    b->again = known && same;
    b->child = creator || (known && !same);
    if (creator)
        b->parent = *creator->task.shared;
    if (b->again) {
        b->number = gone->task;
        b->cpu = b->parent.cpu;
        b->start = later(later(b->parent.clock, gone->clock), plugin.run->clock[b->cpu]);
        gone->host_pid = 0;
        return;
    }
    b->number = task_reserve(&b->cpu);
    b->start = __atomic_load_n(&plugin.run->clock[b->cpu], __ATOMIC_ACQUIRE);
    if (creator)
        b->start = later(b->start, clock_of(creator));
    if (gone) /* a process that waits for this one does so through that entry */
        b->start = later(b->start, gone->clock);
    if (!creator)
        plugin.waits = gone;
}

/* creator: the thread that makes this one, NULL for the first of a process. */
static void begin_vcpu(unsigned index, struct vcpu *creator)
{
    struct birth b;
    if (index >= MAX_VCPUS)
        need_end(EAGAIN, "the program has more threads at a time than is supported (8192)");
    struct hot *h = &plugin.hot[index];
    if (!h->vcpu)
        h->vcpu = need(calloc(1, sizeof *h->vcpu));
    struct vcpu *v = h->vcpu;
    end_vcpu(v);
    plan(&b, creator);
    stack_end(&v->callers);
    *v = (struct vcpu){.hot = h, .index = index, .live = true};
    if (plugin.user.stacks)
        turns_begin(h);
    if (creator) {
        v->clear_tid = creator->argument[4]; /* clone(flags, stack, parent_tid, tls, child_tid) */
        creator->made = index + 1;
    }
    if (!creator)
        plugin.user.process = b.number;
    if (b.again) {
        task_resume(&v->task, b.number);
        task_take_cpu(&v->task);
        block_resumed();
    } else {
        task_begin(&v->task, b.number, b.cpu, b.child ? &b.parent : NULL, !creator, b.start);
    }
    if (plugin.user.full) {
        flow_begin(v, b.cpu, b.start);
    } else {
        h->open = NULL;
        h->clock = b.start << SPEX_FAR_FRACTION;
        sample_begin(v);
    }
    if (creator && creator->argument[1]) { /* clone's stack */
        struct run_event event = {.type = RUN_STACK, .a = creator->argument[1]};
        char text[32];
        snprintf(text, sizeof text, "[stack:%d]", v->task.shared->tid);
        log_event(v, &event, text);
    }
    if (plugin.user.full)
        flow_started(v);
}

/*
 * With version 1 of the plugin interface, the thread that makes a vCPU announces it. With later
 * versions the vCPU's own thread does, before it runs anything. Then the creator is found by the
 * stack that it passed, and it waits in its system call until the thread is known, so that threads
 * always begin in the same order.
 */
static struct vcpu *find_creator(void)
{
    uint64_t sp = plugin.user.registers ? regs_read(0, 31) : 0;
    struct vcpu *any = NULL;
    for (unsigned i = 0; i < MAX_VCPUS; i++) {
        struct vcpu *v = plugin.hot[i].vcpu;
        if (!v || !__atomic_load_n(&v->makes, __ATOMIC_ACQUIRE))
            continue;
        if (v->argument[1] == sp)
            return v;
        any = v; /* if none matches: a child on the stack of its creator */
    }
    return any;
}

void life_vcpu(unsigned index)
{
    if (plugin.user.api < 2) {
        begin_vcpu(index, caller);
        return;
    }
    struct vcpu *creator = find_creator();
    if (!creator && index < MAX_VCPUS && plugin.hot[index].vcpu)
        return; /* the first one, which has begun with the first block */
    begin_vcpu(index, creator);
    if (creator)
        __atomic_store_n(&creator->makes, false, __ATOMIC_RELEASE);
}

/* clone's flags: CLONE_VM and not CLONE_VFORK, which QEMU takes for a fork. */
static bool makes_thread(uint64_t flags)
{
    return plugin.user.api >= 2 && (flags & 0x4100) == 0x100;
}

/*
 * Waits until the thread exists, or is known never to come. Meanwhile order.c counts the creator as
 * awake.
 */
static void await_thread(struct vcpu *v, int64_t result)
{
    if (result < 0)
        __atomic_store_n(&v->makes, false, __ATOMIC_RELEASE);
    while (__atomic_load_n(&v->makes, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* The host had no thread for one that was announced: others must not wait for its turn. */
static void lose_thread(struct vcpu *v, int64_t result)
{
    struct vcpu *lost = v->made ? plugin.hot[v->made - 1].vcpu : NULL;
    v->made = 0;
    if (result >= 0 || !lost || !lost->live)
        return;
    if (!plugin.user.full) {
        end_vcpu(lost);
        return;
    }
    lost->live = false;
    flow_abandon(lost);
}

void life_vcpu_exit(unsigned index)
{
    if (plugin.hot[index].vcpu)
        end_vcpu(plugin.hot[index].vcpu);
}

static void before_fork(void)
{
    if (caller)
        plugin.user.fork_id = task_reserve(&plugin.user.fork_cpu);
    owner_before_fork();
    if (plugin.user.full)
        flow_before_fork();
    if (plugin.user.allocs)
        allocs_before_fork();
}

static void in_parent(void)
{
    owner_after_fork();
    if (plugin.user.allocs)
        allocs_after_fork();
    if (plugin.user.full)
        flow_after_fork();
}

/* In the child only the calling thread continues, as a new process with an event of its own. */
static void in_child(void)
{
    struct vcpu *v = caller;
    owner_in_child();
    if (plugin.user.allocs)
        allocs_after_fork();
    if (plugin.user.full)
        flow_in_child(v);
    if (!v)
        return;
    pthread_mutex_init(&plugin.user.lock, NULL);
    stack_forked();
    uint64_t start = later(clock_of(v), plugin.run->clock[plugin.user.fork_cpu]);
    struct run_task creator = *v->task.shared;
    for (unsigned i = 0; i < MAX_VCPUS; i++)
        if (plugin.hot[i].vcpu && plugin.hot[i].vcpu != v)
            plugin.hot[i].vcpu->live = false;
    task_forget(&v->task);
    block_forked();
    plugin.user.process = plugin.user.fork_id;
    v->off = false;
    task_begin(&v->task, plugin.user.fork_id, plugin.user.fork_cpu, &creator, true, start);
    if (plugin.user.full) {
        flow_begin_again(v, start);
        return;
    }
    v->hot->clock = later(v->hot->clock, start << SPEX_FAR_FRACTION);
    sample_begin(v);
}

void life_end(void)
{
    if (plugin.user.over)
        return;
    plugin.user.over = true;
    if (plugin.user.full) {
        flow_end_all();
        return;
    }
    for (unsigned i = 0; i < MAX_VCPUS; i++)
        if (plugin.hot[i].vcpu)
            end_vcpu(plugin.hot[i].vcpu);
}

/* ---- system calls ---- */

enum { /* generic numbers, as AArch64 has them */
       SYS_OPENAT = 56,
       SYS_CLOSE = 57,
       SYS_WRITE = 64,
       SYS_WRITEV = 66,
       SYS_EXIT = 93,
       SYS_EXIT_GROUP = 94,
       SYS_WAITID = 95,
       SYS_SET_TID_ADDRESS = 96,
       SYS_FUTEX = 98,
       SYS_RT_SIGACTION = 134,
       SYS_RT_SIGRETURN = 139,
       SYS_PRCTL = 167,
       SYS_BRK = 214,
       SYS_MREMAP = 216,
       SYS_CLONE = 220,
       SYS_EXECVE = 221,
       SYS_MMAP = 222,
       SYS_MPROTECT = 226,
       SYS_WAIT4 = 260,
       SYS_GETRANDOM = 278,
       SYS_EXECVEAT = 281,
};

static unsigned wake_slot(uint64_t word)
{
    return (unsigned)(word >> 2 ^ word >> 10) %
           (sizeof plugin.user.wakes / sizeof plugin.user.wakes[0]);
}

static void wake(struct vcpu *v, uint64_t word)
{
    unsigned i = wake_slot(word);
    uint64_t clock = plugin.user.full
                         ? __atomic_add_fetch(&plugin.user.tickets, 1, __ATOMIC_RELAXED)
                         : clock_of(v);
    if (plugin.user.full)
        flow_mark(v, FLOW_WAKE, clock);
    __atomic_store_n(&plugin.user.wakes[i].clock, clock, __ATOMIC_RELAXED);
    __atomic_store_n(&plugin.user.wakes[i].word, word, __ATOMIC_RELEASE);
}

/* When a thread was last woken at this futex, if that is still remembered. */
static uint64_t wake_clock(uint64_t word)
{
    unsigned i = wake_slot(word);
    return __atomic_load_n(&plugin.user.wakes[i].word, __ATOMIC_ACQUIRE) == word
               ? __atomic_load_n(&plugin.user.wakes[i].clock, __ATOMIC_RELAXED)
               : 0;
}

/* A wait ended: the time is at least that of the waker. */
static void woken(struct vcpu *v, uint64_t clock, enum flow_mark mark)
{
    if (!plugin.user.full)
        v->hot->clock = later(v->hot->clock, clock << SPEX_FAR_FRACTION);
    else if (clock)
        flow_mark(v, mark, clock);
}

/* The thread stops running guest code, or continues. */
static void set_idle(struct vcpu *v, bool idle, int64_t number, int64_t result)
{
    enum flow_call kind = flow_call_kind(number, v->argument[1]);
    if (idle && plugin.user.full && plugin.run->deterministic) {
        pause_find(v, number);
        ready_find(v, number);
    }
    if (!idle && kind >= FLOW_FUTEX_WAKE && result <= 0)
        kind = FLOW_PLAIN;
    if (plugin.user.full && idle)
        flow_call(v, kind);
    else if (plugin.user.full)
        flow_return(v, kind, result);
}

/* Can this signal come from outside? Other signals come from the thread itself or its libraries. */
static bool may_interrupt(uint64_t signal)
{
    enum { LIBRARY = 32 };
    return signal < LIBRARY && signal != SIGILL && signal != SIGTRAP && signal != SIGABRT &&
           signal != SIGBUS && signal != SIGFPE && signal != SIGSEGV && signal != SIGPIPE;
}

/* Processes everything the thread did. */
static void settle(struct vcpu *v)
{
    if (plugin.user.full)
        flow_drain(v);
    else
        sample_settle(v);
}

/* The thread gets a name, which may be empty; a name that cannot be read is ignored. */
static void log_name(struct vcpu *v, uint64_t address)
{
    char name[16] = "";
    struct run_event event = {.type = RUN_COMM};
    for (unsigned n = 0; n < sizeof name - 1; n++) {
        if (!regs_memory(address + n, &name[n], 1))
            return;
        if (!name[n])
            break;
    }
    log_event(v, &event, name);
}

/* An anonymous area gets a name, whether or not this QEMU knows the call. */
static void log_area(struct vcpu *v, uint64_t address, uint64_t size, uint64_t name)
{
    char text[96] = "[anon:";
    size_t n = strlen(text);
    struct run_event event = {.type = RUN_MAP, .a = address, .b = size, .prot = 3, .flags = 0x22};
    while (n < sizeof text - 2 && regs_memory(name++, &text[n], 1) && text[n])
        n++;
    memcpy(text + n, "]", 2);
    log_event(v, &event, text);
}

/* The guest writes to the terminal for the first time: no more progress lines. */
static void talk(void)
{
    static const char clear[] = "\r\033[K";
    plugin.run->talked = 1;
    if (plugin.run->shown && write(STDERR_FILENO, clear, sizeof clear - 1) < 0)
        return; /* so be it */
}

void life_call(unsigned index, int64_t number, const uint64_t a[6])
{
    struct vcpu *v = plugin.hot[index].vcpu;
    caller = v;
    doubt_ends();
    owner_call(number);
    sve_call(number == SYS_RT_SIGRETURN);
    memcpy(v->argument, a, sizeof v->argument);
    if (plugin.user.full)
        flow_mark(v, FLOW_CALL, (uintptr_t)elapsed_note(v, number));
    if (plugin.user.full &&
        plugin.run->regions) /* what others can see the program do has also happened in the model */
        flow_drain(v);
    switch (number) {
    case SYS_EXIT:
        if (v->clear_tid)
            wake(v, v->clear_tid);
        end_vcpu(v);
        return;
    case SYS_EXIT_GROUP:
    case SYS_CLONE:
        settle(v);
        if (number == SYS_CLONE && makes_thread(a[0]))
            __atomic_store_n(&v->makes, true, __ATOMIC_RELEASE);
        break;
    case SYS_EXECVE:
    case SYS_EXECVEAT:
        settle(v);
        follow_exec(v, number == SYS_EXECVEAT, v->argument);
        break;
    case SYS_WRITE:
    case SYS_WRITEV:
        if ((a[0] == STDOUT_FILENO || a[0] == STDERR_FILENO) && !plugin.run->talked)
            talk();
        break;
    case SYS_FUTEX:
        if ((a[1] & 127) != 0 && (a[1] & 127) != 9) /* not FUTEX_WAIT or WAIT_BITSET, so a wake */
            wake(v, a[0]);
        break;
    case SYS_SET_TID_ADDRESS:
        v->clear_tid = a[0];
        break;
    case SYS_RT_SIGACTION: {
        uint64_t handler = 0;
        if (a[1] && plugin.user.registers && regs_memory(a[1], &handler, 8) && handler > 1) {
            pthread_mutex_lock(&plugin.user.lock);
            if (!life_is_handler(handler) &&
                plugin.user.handler_count <
                    sizeof plugin.user.handlers / sizeof plugin.user.handlers[0])
                plugin.user.handlers[plugin.user.handler_count++] = handler;
            plugin.user.interrupts |= may_interrupt(a[0]);
            pthread_mutex_unlock(&plugin.user.lock);
        }
        break;
    }
    case SYS_RT_SIGRETURN:
        if (plugin.user.stacks)
            turns_sigreturn(v);
        break;
    case SYS_PRCTL:
        if (a[0] == 15) /* PR_SET_NAME */
            log_name(v, a[1]);
        if (a[0] == 0x53564d41 && !a[1] && a[4]) /* PR_SET_VMA, PR_SET_VMA_ANON_NAME */
            log_area(v, a[2], a[3], a[4]);
        break;
    }
    set_idle(v, true, number, 0);
    if (plugin.user.full && plugin.run->deterministic)
        clock_call(v, number);
}

static void log_map(struct vcpu *v, uint64_t address)
{
    const uint64_t *a = v->argument;
    char link[64], path[RUN_PATH] = "";
    struct run_event event = {.type = RUN_MAP,
                              .a = address,
                              .b = a[1],
                              .c = a[5],
                              .prot = (uint32_t)a[2],
                              .flags = (uint32_t)a[3]};
    if (!(a[3] & 0x20)) { /* MAP_ANONYMOUS */
        snprintf(link, sizeof link, "/proc/self/fd/%d", (int)a[4]);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
    } else {
        event.c = 0;
    }
    log_event(v, &event, path);
    if (plugin.user.allocs && path[0] == '/' && a[2] & 4) /* PROT_EXEC */
        allocs_mapped(path, address, a[1], a[5]);
}

/* ---- files written by just-in-time compilers ---- */

static void jit_opened(struct vcpu *v, int fd)
{
    char link[64], path[RUN_PATH];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (!jit_is_map(path) && !jit_is_dump(path))
        return;
    pthread_mutex_lock(&plugin.user.lock);
    for (size_t i = 0; i < sizeof plugin.user.jit / sizeof *plugin.user.jit; i++)
        if (!plugin.user.jit[i]) {
            plugin.user.number[i] = plugin.user.opened++;
            struct run_event event = {.type = RUN_JIT, .a = plugin.user.number[i]};
            __atomic_store_n(&plugin.user.jit[i], fd + 1, __ATOMIC_RELEASE);
            log_event(v, &event, path);
            break;
        }
    pthread_mutex_unlock(&plugin.user.lock);
}

/* The profile records what is written from here on. */
static void jit_written(struct vcpu *v, int fd, uint64_t bytes, bool closed)
{
    for (size_t i = 0; i < sizeof plugin.user.jit / sizeof *plugin.user.jit; i++) {
        if (__atomic_load_n(&plugin.user.jit[i], __ATOMIC_ACQUIRE) != fd + 1)
            continue;
        struct run_event event = {.type = RUN_JIT, .a = plugin.user.number[i], .b = bytes};
        if (closed)
            __atomic_store_n(&plugin.user.jit[i], 0, __ATOMIC_RELEASE);
        else
            log_event(v, &event, NULL);
    }
}

/* Logs a call that changed the mappings of the process. */
static void log_memory(struct vcpu *v, int64_t number, int64_t result)
{
    const uint64_t *a = v->argument;
    switch (number) {
    case SYS_MMAP:
        if ((uint64_t)result < UINT64_MAX - 4096)
            log_map(v, (uint64_t)result);
        break;
    case SYS_MPROTECT:
        if (!result && a[2] & 4) { /* PROT_EXEC */
            struct run_event event = {
                .type = RUN_PROTECT, .a = a[0], .b = a[1], .prot = (uint32_t)a[2]};
            log_event(v, &event, NULL);
        }
        break;
    case SYS_MREMAP:
        if ((uint64_t)result < UINT64_MAX - 4096) {
            struct run_event event = {
                .type = RUN_MOVE, .a = (uint64_t)result, .b = a[2], .c = a[0]};
            log_event(v, &event, NULL);
        }
        break;
    case SYS_BRK:
        if (!plugin.user.heap)
            plugin.user.heap = (uint64_t)result;
        if ((uint64_t)result > plugin.user.heap && a[0]) {
            struct run_event event = {.type = RUN_MAP,
                                      .a = plugin.user.heap,
                                      .b = (uint64_t)result - plugin.user.heap,
                                      .prot = 3,
                                      .flags = 0x22};
            log_event(v, &event, "[heap]");
        }
        break;
    }
}

void life_return(unsigned index, int64_t number, int64_t result)
{
    struct vcpu *v = plugin.hot[index].vcpu;
    const uint64_t *a = v->argument;
    if (!v->live)
        return;
    await_thread(v, result);
    if (number == SYS_CLONE)
        lose_thread(v, result);
    set_idle(v, false, number, result);
    if (plugin.user.full && plugin.run->deterministic) {
        pause_account(v, result);
        clock_return(v, number, result);
    }
    switch (number) {
    case SYS_MMAP:
    case SYS_MPROTECT:
    case SYS_MREMAP:
    case SYS_BRK:
        log_memory(v, number, result);
        break;
    case SYS_GETRANDOM:
        if (result > 0 && plugin.run->deterministic && plugin.user.registers)
            chance_fill(a[0], (uint64_t)result);
        break;
    case SYS_OPENAT:
        if (result >= 0)
            jit_opened(v, (int)result);
        break;
    case SYS_WRITE:
    case SYS_WRITEV:
        if (plugin.user.opened && result > 0)
            jit_written(v, (int)a[0], (uint64_t)result, false);
        break;
    case SYS_CLOSE:
        if (plugin.user.opened)
            jit_written(v, (int)a[0], 0, true);
        break;
    case SYS_EXECVE:
    case SYS_EXECVEAT:
        follow_failed(v);
        break;
    case SYS_FUTEX:
        if ((!result || (plugin.user.full && v->flow->woken)) &&
            ((a[1] & 127) == 0 || (a[1] & 127) == 9))
            woken(v, wake_clock(a[0]), FLOW_WOKEN);
        break;
    case SYS_WAIT4:
    case SYS_WAITID:
        for (unsigned i = 0; result > 0 && i < RUN_ENDED; i++)
            if (__atomic_load_n(&plugin.run->ended[i].host_pid, __ATOMIC_ACQUIRE) == result)
                woken(v, plugin.run->ended[i].clock, FLOW_REACH);
        if (result > 0) /* result of a host program: the process it started */
            woken(v, origin_clock(plugin.run, (int32_t)result), FLOW_REACH);
        break;
    }
    if (plugin.user.full)
        flow_mark(v, FLOW_RETURN, flow_call_cycles(number, result));
    caller = NULL;
}

void life_install(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}
