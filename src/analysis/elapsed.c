#include "elapsed.h"

#include "pass.h"

#include "base/error.h"
#include "base/memory.h"
#include "perfdata/elapsed.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spex_elapsed {
    struct memory *account;
    struct spex_analysis *analysis;
    bool by_thread;
    struct spex_elapsed_row *rows;
    size_t count, room;
    struct spex_elapsed_sum sum;
};

/* ---- what stands in the file ---- */

const struct spex_perf_attr *elapsed_attr(const struct spex_perfdata *file)
{
    const uint64_t parts = SPEX_PERF_SAMPLE_IP | SPEX_PERF_SAMPLE_TIME | SPEX_PERF_SAMPLE_ADDR |
                           SPEX_PERF_SAMPLE_PERIOD | SPEX_PERF_SAMPLE_CALLCHAIN |
                           SPEX_PERF_SAMPLE_WEIGHT;
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++) {
        const struct spex_perf_attr *attr = spex_perfdata_attr(file, i);
        if (!strncmp(attr->name, ELAPSED_EVENT, strlen(ELAPSED_EVENT)) &&
            (attr->sample_type & parts) == parts)
            return attr;
    }
    return NULL;
}

void elapsed_take(struct elapsed_sample *to, const struct spex_perf_event *e)
{
    const struct spex_perf_sample *s = &e->u.sample;
    *to = (struct elapsed_sample){.pid = e->pid,
                                  .tid = e->tid,
                                  .time = e->time,
                                  .ns = s->period,
                                  .object = s->addr,
                                  .weight = s->weight};
    for (size_t i = 0; i < s->callchain_count && to->depth < ELAPSED_FRAMES; i++)
        if (s->callchain[i] < CALLCHAIN_USER)
            to->chain[to->depth++] = s->callchain[i];
}

/* ---- names ---- */

static const char *call_name(unsigned number, char text[32])
{
    switch (number) {
#define SYSCALL(n, name, cycles, moves, kind)                                                      \
    case n:                                                                                        \
        return #name;
#include "account/syscalls.def"
    }
    snprintf(text, 32, "call %u", number);
    return text;
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* A library that programs call for the kernel or for locks. */
static bool is_system(const struct spex_module *module)
{
    static const char *const names[] = {"libc.",      "libc-",    "ld-",     "ld.",   "libpthread",
                                        "libstdc++.", "libgcc_s", "libc++.", "[vdso]"};
    const char *name = spex_module_name(module);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(name, names[i]))
            return true;
    return false;
}

/* The same in a program that has its libraries in it. */
static bool is_inner(const char *name)
{
    static const char *const names[] = {"__",         "_IO_",      "pthread_",  "std::", "futex_",
                                        "syscall",    "nptl_",     "sem_",      "lll_",  "_Unwind",
                                        "clock_nano", "nanosleep", "___pthread"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(name, names[i]))
            return true;
    return false;
}

static char *copy(const char *text)
{
    return text && *text ? memory_copy(text) : NULL;
}

/* Who called: the first function that is no library's, and which of these it called. */
static void name_caller(struct spex_analysis *a, const struct elapsed_sample *s,
                        struct spex_elapsed_row *row)
{
    const char *through = NULL;
    struct spex_place place;
    uint32_t i = 0;
    for (; i < s->depth; i++) {
        const uint64_t ip = s->chain[i] - (i ? 4 : 0);
        analysis_place(a, s->pid, s->time, ip, false, &place);
        const char *name = place.symbol ? place.symbol->name : NULL;
        if (place.module && !is_system(place.module) &&
            !(name && (is_inner(name) || (row->call && !strcmp(name, row->call)))))
            break;
        through = name ? name : through;
    }
    row->through = copy(through);
    if (i == s->depth)
        return;
    char text[600];
    struct spex_line line = {0};
    snprintf(text, sizeof text, "%s+0x%llx", spex_module_name(place.module),
             (unsigned long long)place.address);
    row->function = copy(place.symbol && place.symbol->name ? place.symbol->name : text);
    analysis_line(a, place.module, place.address, &line);
    if (!line.file)
        return;
    const char *slash = strrchr(line.file, '/');
    snprintf(text, sizeof text, "%s:%u", slash ? slash + 1 : line.file, line.line);
    row->line = copy(text);
}

static void name_object(struct spex_analysis *a, const struct elapsed_sample *s,
                        struct spex_elapsed_row *row)
{
    struct spex_place place;
    char text[600];
    if (!s->object)
        return;
    analysis_place(a, s->pid, s->time, s->object, true, &place);
    if (place.symbol && place.symbol->name && place.address > place.symbol->start)
        snprintf(text, sizeof text, "%s+0x%llx", place.symbol->name,
                 (unsigned long long)(place.address - place.symbol->start));
    else if (place.symbol && place.symbol->name)
        snprintf(text, sizeof text, "%s", place.symbol->name);
    else
        snprintf(text, sizeof text, "0x%llx%s%s", (unsigned long long)s->object,
                 place.module ? " in " : "", place.module ? spex_module_name(place.module) : "");
    row->object = copy(text);
}

/* ---- rows ---- */

static struct spex_elapsed_row *new_row(struct spex_elapsed *e)
{
    e->rows = memory_grow(e->rows, e->count, &e->room, sizeof *e->rows);
    e->rows[e->count] = (struct spex_elapsed_row){.threads = 1};
    return &e->rows[e->count++];
}

static void add_sample(struct spex_elapsed *e, struct spex_analysis *a,
                       const struct elapsed_sample *s)
{
    static const char *const texts[] = {"[running]", "[kernel: %s]", "[blocked: %s]"};
    const enum elapsed_state state = elapsed_state(s->weight);
    char name[32], text[64];
    if (state > ELAPSED_WAITS)
        return;
    struct spex_elapsed_row *row = new_row(e);
    row->state = (enum spex_elapsed_state)state;
    row->pid = s->pid;
    row->tid = s->tid;
    row->ns = s->ns;
    if (state != ELAPSED_RUNS) {
        row->calls = elapsed_count(s->weight);
        row->call = copy(call_name(elapsed_call(s->weight), name));
        name_caller(a, s, row);
        name_object(a, s, row);
    }
    snprintf(text, sizeof text, texts[state], row->call);
    row->what = copy(text);
}

/* The switches of one thread, in order of time. */
static void add_switches(struct spex_elapsed *e, const struct spex_analysis *a,
                         const struct change *all, size_t count)
{
    uint64_t away[2] = {0, 0}, times[2] = {0, 0}, out = 0;
    unsigned how = 0; /* SWITCH_OUT and perhaps SWITCH_PREEMPT, while it is out */
    const int32_t tid = all[0].id, pid = spex_perfdata_pid(a->file, tid, all[count - 1].time);
    for (size_t i = 0; i < count; i++) {
        if (!(all[i].how & CHANGE_OUT) && how) {
            away[how & CHANGE_PREEMPT ? 1 : 0] += all[i].time - out;
            times[how & CHANGE_PREEMPT ? 1 : 0]++;
        }
        how = all[i].how & CHANGE_OUT ? all[i].how & (CHANGE_OUT | CHANGE_PREEMPT) : 0;
        out = all[i].time;
    }
    for (unsigned k = 0; k < 3; k++) {
        const uint64_t ran = all[count - 1].time - all[0].time - away[0] - away[1];
        if (k < 2 && !away[k])
            continue;
        struct spex_elapsed_row *row = new_row(e);
        row->state = k < 2 ? SPEX_ELAPSED_WAITS : SPEX_ELAPSED_RUNS;
        row->pid = pid;
        row->tid = tid;
        row->ns = k < 2 ? away[k] : ran;
        row->calls = k < 2 ? times[k] : 0;
        row->what = copy(k == 0 ? "[blocked]" : k == 1 ? "[preempted]" : "[running]");
    }
}

static void read_file(struct spex_elapsed *e, struct spex_analysis *a)
{
    for (size_t i = 0; i < a->elapsed_count; i++)
        add_sample(e, a, &a->elapsed[i]);
    for (size_t i = 0, n; i < a->switches.count && !a->elapsed_count; i += n) {
        const struct change *all = &a->switches.items[i];
        for (n = 1; i + n < a->switches.count && all[n].id == all->id;)
            n++;
        if (all->id > 0 && n > 1)
            add_switches(e, a, all, n);
    }
}

static int by_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int by_what(const struct spex_elapsed_row *x, const struct spex_elapsed_row *y)
{
    int order = x->state != y->state ? (x->state < y->state ? -1 : 1) : by_text(x->what, y->what);
    order = order ? order : by_text(x->object, y->object);
    order = order ? order : by_text(x->function, y->function);
    order = order ? order : by_text(x->line, y->line);
    return order ? order : by_text(x->through, y->through);
}

static int by_thread(const struct spex_elapsed_row *x, const struct spex_elapsed_row *y)
{
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int by_key(const void *a, const void *b)
{
    const int order = by_what(a, b);
    return order ? order : by_thread(a, b);
}

static int by_time(const void *a, const void *b)
{
    const struct spex_elapsed_row *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return by_key(a, b);
}

static void clear_row(struct spex_elapsed_row *row)
{
    const char *const texts[] = {row->what,    row->call,     row->object,
                                 row->through, row->function, row->line};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        memory_free((void *)(uintptr_t)texts[i]);
}

/* One row for what is the same. */
static void merge(struct spex_elapsed *e)
{
    size_t kept = 0;
    int32_t tid = -1;
    if (e->count)
        qsort(e->rows, e->count, sizeof *e->rows, by_key);
    for (size_t i = 0; i < e->count; i++) {
        struct spex_elapsed_row *row = &e->rows[i], *to = &e->rows[kept ? kept - 1 : 0];
        const bool same = kept && !by_what(to, row);
        if (!same || (e->by_thread && by_thread(to, row))) {
            tid = row->tid;
            e->rows[kept++] = *row;
            continue;
        }
        to->ns += row->ns;
        to->calls += row->calls;
        to->threads += row->tid != tid;
        if (row->tid != tid)
            to->tid = -1;
        if (row->pid != to->pid)
            to->pid = -1;
        tid = row->tid;
        clear_row(row);
    }
    e->count = kept;
}

static void read_all(struct spex_elapsed *e)
{
    struct spex_analysis *a = e->analysis;
    for (size_t i = 0; i < (a->part_count ? a->part_count : 1); i++)
        read_file(e, a->part_count ? a->parts[i] : a);
    for (size_t i = 0; i < e->count; i++)
        e->sum.ns[e->rows[i].state] += e->rows[i].ns;
    merge(e);
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        e->sum.threads += e->rows[i].state == SPEX_ELAPSED_RUNS ? e->rows[i].threads : 0;
        if (e->by_thread || e->rows[i].state != SPEX_ELAPSED_RUNS)
            e->rows[kept++] = e->rows[i];
        else
            clear_row(&e->rows[i]);
    }
    e->count = kept;
    if (e->count)
        qsort(e->rows, e->count, sizeof *e->rows, by_time);
}

enum spex_status spex_elapsed_new(struct spex_analysis *analysis, bool by_thread,
                                  struct spex_elapsed **elapsed, struct spex_error *error)
{
    assert(analysis && elapsed);
    struct memory *account = memory_keep(analysis_account(analysis));
    MEMORY_OF(account);
    struct spex_elapsed *e = memory_zeroed(1, sizeof *e);
    bool ok = e != NULL;
    if (ok) {
        *e =
            (struct spex_elapsed){.account = account, .analysis = analysis, .by_thread = by_thread};
        ok = memory_guarded(account, read_all(e));
    }
    if (ok)
        *elapsed = e;
    else if (e)
        spex_elapsed_free(e);
    else
        memory_end(account, memory_before_);
    return ok ? SPEX_OK
              : error_set(error, SPEX_NO_MEMORY, 0,
                          "not enough memory for what threads waited for");
}

void spex_elapsed_free(struct spex_elapsed *e)
{
    if (!e)
        return;
    struct memory *account = e->account, *before = memory_enter(account);
    for (size_t i = 0; i < e->count; i++)
        clear_row(&e->rows[i]);
    memory_free(e->rows);
    memory_free(e);
    memory_end(account, before);
}

void spex_elapsed_add_up(const struct spex_elapsed *e, struct spex_elapsed_sum *sum)
{
    assert(e && sum);
    const size_t size = sum->size < sizeof *sum ? sum->size : sizeof *sum;
    memcpy((char *)sum + sizeof size, (const char *)&e->sum + sizeof size, size - sizeof size);
}

const struct spex_elapsed_row *spex_elapsed_at(const struct spex_elapsed *e, size_t index)
{
    return e && index < e->count ? &e->rows[index] : NULL;
}
