/* A guest thread's unit, its Profiling Buffer and its life. */
#include "task.h"

#include "origin.h"
#include "perfdata/allocation.h"
#include "plugin.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The unit's address of the Profiling Buffer: kernel memory. */
#define BUFFER_BASE UINT64_C(0xffff800010000000)

/* ---- the unit's host ---- */

static void on_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct task *task = user;
    uint64_t at = store->address - BUFFER_BASE;
    if (!task->buffer || at + store->count > plugin.run->buffer) {
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = 0x07};
        return;
    }
    memcpy(task->buffer + at, store->bytes, store->count);
    task->written = at + store->count;
}

static bool on_counter(void *user, uint64_t *count)
{
    struct task *task = user;
    *count = task->stamp = task->now;
    return true;
}

static void on_trigger(void *user)
{
    ((struct task *)user)->made = true;
}

static void on_pmu(void *user, unsigned event, uint64_t count)
{
    struct task *task = user;
    for (unsigned i = 0; i < RUN_EVENTS; i++)
        if (run_events[i] == event)
            task->shared->pmu[i] += count;
}

static void on_irq(void *user, bool level)
{
    ((struct task *)user)->irq = level;
}

/* ---- buffers ---- */

static struct driver_buffer window(void)
{
    return (struct driver_buffer){BUFFER_BASE, BUFFER_BASE + plugin.run->buffer};
}

/* The Profiling Buffer is in the file, so that it survives the process. */
static bool make_buffer(struct task *task)
{
    if (plugin.run->keep) {
        task->buffer = task_map(task->id, ".aux", 0, plugin.run->buffer, NULL);
    } else {
        void *map = mmap(NULL, plugin.run->buffer, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        task->buffer = map == MAP_FAILED ? NULL : map;
    }
    return task->buffer != NULL;
}

static void serve_interrupt(struct task *task)
{
    uint32_t flags;
    uint64_t end;
    task->irq = false;
    task->shared->interrupts++;
    enum driver_irq what = driver_interrupt(task->unit, &flags, &end);
    if (what == DRIVER_SPURIOUS)
        return;
    task_save(task, end - BUFFER_BASE, flags, false);
    task->written = 0;
    if (what == DRIVER_FULL) {
        struct driver_buffer buffer = window();
        driver_resume(task->unit, &plugin.run->event, &buffer);
    }
}

/* ---- call stacks ---- */

/* Makes room for `size` bytes in N.stacks. */
static uint8_t *beside(struct task *task, size_t size)
{
    if (task->shared->stacks_head + size > RUN_STACKS)
        task_save_stacks(task, false);
    return task->stacks + task->shared->stacks_head;
}

/* The unit made a record of the operation whose stack was remembered: writes the stack. */
static void add_stack(struct task *task)
{
    struct run_task *s = task->shared;
    const struct callchain chain = {.pc = task->chain_pc,
                                    .time = task->stamp,
                                    .pid = s->pid,
                                    .tid = s->tid,
                                    .cpu = s->cpu,
                                    .count = task->chain_count};
    size_t size = callchain_size(chain.count);
    callchain_write(beside(task, size), &chain, task->chain);
    __atomic_store_n(&s->stacks_head, s->stacks_head + size, __ATOMIC_RELEASE);
    s->stacks++;
    s->stacks_cut += (task->chain_notes & STACK_CUT) != 0;
    s->stacks_doubted += (task->chain_notes & STACK_DOUBTED) != 0;
}

/* The unit made a record whose data was in a block: writes the allocation. */
static void add_alloc(struct task *task)
{
    struct run_task *s = task->shared;
    const struct task_alloc *a = &task->alloc;
    const struct allocation allocation = {.pc = task->chain_pc,
                                          .time = task->stamp,
                                          .start = a->start,
                                          .size = a->size,
                                          .number = a->number,
                                          .pid = s->pid,
                                          .tid = s->tid,
                                          .cpu = s->cpu,
                                          .count = a->site_count};
    size_t size = allocation_size(allocation.count);
    allocation_write(beside(task, size), &allocation, a->site);
    __atomic_store_n(&s->stacks_head, s->stacks_head + size, __ATOMIC_RELEASE);
    s->allocs++;
}

void task_complete(struct task *task, int slot, const struct spex_op *op,
                   const struct spex_outcome *outcome)
{
    task->made = false;
    spex_spu_complete(task->unit, slot, op, outcome);
    if (task->made && task->stacks && plugin.run->stacks)
        add_stack(task);
    if (task->made && task->stacks && task->alloc.site_count)
        add_alloc(task);
    if (__builtin_expect(task->irq, 0))
        serve_interrupt(task);
    else
        __atomic_store_n(&task->shared->head, task->written, __ATOMIC_RELEASE);
    task->shared->clock = task->now;
}

/* ---- life ---- */

uint32_t task_reserve(int32_t *cpu)
{
    uint32_t id = __atomic_fetch_add(&plugin.run->tasks, 1, __ATOMIC_RELAXED);
    *cpu = (int32_t)(id % RUN_CPUS); /* if all are taken */
    for (unsigned i = 0; i < RUN_CPUS; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;
        if (!(__atomic_fetch_or(&plugin.run->busy[i / 64], bit, __ATOMIC_RELAXED) & bit)) {
            *cpu = (int32_t)i;
            break;
        }
    }
    uint32_t seen = __atomic_load_n(&plugin.run->cpus, __ATOMIC_RELAXED);
    while (seen < (uint32_t)*cpu + 1 &&
           !__atomic_compare_exchange_n(&plugin.run->cpus, &seen, (uint32_t)*cpu + 1, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return id;
}

static struct run_task nowhere; /* when even a page cannot be had */

static void start_unit(struct task *task)
{
    struct spu_config config;
    struct spex_error error;
    spu_config_default(&config);
    config.features = plugin.run->features;
    config.choices = plugin.run->choices;
    config.seed = plugin.run->seed + task->id * UINT64_C(0x9e3779b97f4a7c15);
    config.host = (struct spex_spu_host){
        .user = task, .write = on_write, .counter = on_counter, .pmu = on_pmu, .irq = on_irq};
    if (plugin.run->keep && ((plugin.run->stacks && !plugin.run->no_stacks) || plugin.run->allocs))
        task->stacks = task_map(task->id, ".stacks", 0, RUN_STACKS, NULL);
    if (task->stacks)
        config.host.trigger = on_trigger;
    if (spu_new(&config, &task->unit, &error)) {
        task_failed(ENOMEM);
        __atomic_fetch_add(&plugin.run->unprofiled, 1, __ATOMIC_RELAXED);
        return;
    }
    spex_spu_boot(task->unit);
    struct driver_buffer buffer = window();
    if (make_buffer(task))
        driver_start(task->unit, &plugin.run->event, &buffer, (uint32_t)task->shared->tid);
    else
        __atomic_fetch_add(&plugin.run->unprofiled, 1, __ATOMIC_RELAXED);
}

void task_begin(struct task *task, uint32_t id, int32_t cpu, const struct run_task *creator,
                bool new_process, uint64_t start)
{
    *task = (struct task){.id = id, .now = start};
    task->shared = task_map(id, "", 0, RUN_PAGE, NULL);
    if (!task->shared)
        task->shared = &nowhere;
    struct run_task *s = task->shared;
    s->tid = RUN_FIRST_PID + (int32_t)id;
    s->pid = new_process ? s->tid : creator->pid;
    s->ppid = creator ? creator->pid : 1;
    s->ptid = creator ? creator->tid : 1;
    s->cpu = cpu;
    s->host_pid = getpid();
    s->start = s->clock = start;
    struct run_event fork = {.type = RUN_FORK, .time = start};
    task_log(task, &fork, NULL);
    start_unit(task);
}

void task_resume(struct task *task, uint32_t id)
{
    *task = (struct task){.id = id};
    task->shared = task_map(id, "", 0, RUN_PAGE, NULL);
    if (!task->shared)
        task->shared = &nowhere;
    struct run_task *s = task->shared;
    task->now = s->clock;
    task->before = s->counts;
    s->host_pid = getpid();
    if (s->at && s->at < plugin.run->end)
        s->head = 0; /* already written */
    if (s->stacks_at && s->stacks_at < plugin.run->end)
        s->stacks_head = 0;
    if (plugin.run->keep && s->head && make_buffer(task)) {
        task_save(task, s->head, 0, false);
        munmap(task->buffer, plugin.run->buffer);
        task->buffer = NULL;
    }
    start_unit(task);
}

void task_pause(struct task *task)
{
    uint32_t flags;
    uint64_t end;
    spex_spu_flush(task->unit);
    driver_stop(task->unit, &flags, &end);
    task_save(task, task->written, flags, false);
    task->written = 0;
    __atomic_store_n(&task->shared->head, 0, __ATOMIC_RELEASE);
}

void task_go_on(struct task *task)
{
    struct driver_buffer buffer = window();
    if (task->buffer)
        driver_start(task->unit, &plugin.run->event, &buffer, (uint32_t)task->shared->tid);
}

void task_give_cpu(struct task *task, uint64_t clock)
{
    int32_t cpu = task->shared->cpu;
    __atomic_store_n(&plugin.run->clock[cpu], clock, __ATOMIC_RELEASE);
    __atomic_fetch_and(&plugin.run->busy[cpu / 64], ~(UINT64_C(1) << cpu % 64), __ATOMIC_RELEASE);
}

void task_take_cpu(const struct task *task)
{
    int32_t cpu = task->shared->cpu;
    __atomic_fetch_or(&plugin.run->busy[cpu / 64], UINT64_C(1) << cpu % 64, __ATOMIC_RELAXED);
}

void task_leave(struct task *task, uint64_t clock)
{
    task->now = clock;
    if (task->unit)
        spex_spu_flush(task->unit);
    __atomic_store_n(&task->shared->head, task->written, __ATOMIC_RELEASE);
    task->shared->clock = clock;
}

void task_count(struct task *task, const struct uarch_counts *counts)
{
    const uint64_t *before = (const uint64_t *)&task->before, *now = (const uint64_t *)counts;
    uint64_t *sum = (uint64_t *)&task->shared->counts;
    for (size_t i = 0; i < sizeof *counts / sizeof *sum; i++)
        sum[i] = before[i] + now[i];
}

void task_forget(struct task *task)
{
    if (task->buffer)
        munmap(task->buffer, plugin.run->buffer);
    if (task->stacks)
        munmap(task->stacks, RUN_STACKS);
    if (task->shared && task->shared != &nowhere)
        munmap(task->shared, RUN_PAGE);
    /* the unit may still count operations that belong to another process */
    task->shared = &nowhere;
    spex_spu_free(task->unit);
    *task = (struct task){0};
}

void task_end(struct task *task, uint64_t clock)
{
    uint32_t flags;
    uint64_t end;
    struct run_task *s = task->shared;
    if (!s || s->ended)
        return;
    task->now = clock;
    if (task->unit) {
        spex_spu_flush(task->unit);
        driver_stop(task->unit, &flags, &end);
        task_save(task, task->written, flags, true);
    }
    if (task->stacks)
        task_save_stacks(task, true);
    struct run_event event = {.type = RUN_EXIT, .time = clock};
    task_log(task, &event, NULL);
    s->clock = clock;
    s->ended = true;
    if (plugin.run->keep && !s->head)
        task_remove(task->id, ".aux");
    if (task->stacks && !s->stacks_head)
        task_remove(task->id, ".stacks");
    task_give_cpu(task, clock);
    if (s->pid == s->tid) {
        if (plugin.waits)
            origin_reach(plugin.waits, clock);
        unsigned slot = (unsigned)s->host_pid % RUN_ENDED;
        plugin.run->ended[slot].clock = clock;
        __atomic_store_n(&plugin.run->ended[slot].host_pid, s->host_pid, __ATOMIC_RELEASE);
    }
    task_forget(task);
}
