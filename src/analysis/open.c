/* Opens, describes and closes files. */
#include "allocs.h"
#include "elapsed.h"
#include "pass.h"
#include "replay.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "perfdata/spans.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void add_space(struct spex_analysis *a, const struct spex_perf_event *e)
{
    if (e->u.namespaces.pid != e->u.namespaces.tid || !e->u.namespaces.mount_inode)
        return;
    a->spaces = memory_grow(a->spaces, a->space_count, &a->space_room, sizeof *a->spaces);
    a->spaces[a->space_count] = (struct process_space){
        .pid = e->u.namespaces.pid,
        .order = (uint32_t)a->space_count,
        .time = e->time,
        .space = {e->u.namespaces.mount_device, e->u.namespaces.mount_inode}};
    a->space_count++;
}

static int by_process(const void *a, const void *b)
{
    const struct process_space *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void add_switch(struct spex_analysis *a, const struct spex_perf_event *e)
{
    changes_add(&a->switches, e->tid, e->time);
    a->switches.items[a->switches.count - 1].how =
        (uint32_t)a->switches.count << CHANGE_ORDER |
        (e->misc & SPEX_PERF_MISC_SWITCH_OUT ? CHANGE_OUT : 0) |
        (e->misc & SPEX_PERF_MISC_SWITCH_PREEMPT ? CHANGE_PREEMPT : 0);
}

static void add_elapsed(struct spex_analysis *a, const struct spex_perf_event *e)
{
    a->elapsed = memory_grow(a->elapsed, a->elapsed_count, &a->elapsed_room, sizeof *a->elapsed);
    elapsed_take(&a->elapsed[a->elapsed_count++], e);
}

/* Collects the times at which the state of threads, processes and CPUs changes. */
static void gather_changes(struct spex_analysis *a)
{
    const struct spex_perf_attr *elapsed = elapsed_attr(a->file);
    struct spex_perf_event e;
    spex_perfdata_rewind(a->file);
    while (spex_perfdata_next(a->file, &e) == SPEX_OK) {
        switch (e.type) {
        case SPEX_PERF_SAMPLE:
            if (elapsed && e.attr == elapsed)
                add_elapsed(a, &e);
            break;
        case SPEX_PERF_COMM:
            changes_add(&a->thread_changes, e.u.comm.tid, e.time);
            if (e.misc & SPEX_PERF_MISC_COMM_EXEC)
                changes_add(&a->process_changes, e.u.comm.pid, e.time);
            break;
        case SPEX_PERF_FORK:
        case SPEX_PERF_EXIT:
            changes_add(&a->thread_changes, e.u.task.tid, e.time);
            if (e.u.task.pid == e.u.task.tid)
                changes_add(&a->process_changes, e.u.task.pid, e.time);
            break;
        case SPEX_PERF_NAMESPACES:
            add_space(a, &e);
            break;
        case SPEX_PERF_SWITCH:
        case SPEX_PERF_SWITCH_CPU_WIDE:
        case SPEX_PERF_ITRACE_START:
            changes_add(&a->cpu_changes, e.cpu, e.time);
            if (e.type != SPEX_PERF_ITRACE_START)
                add_switch(a, &e);
            break;
        default:
            break;
        }
    }
    size_t count = spex_perfdata_map_count(a->file);
    for (size_t i = 0; i < count; i++) {
        const struct spex_perf_map *map = spex_perfdata_map_at(a->file, i);
        changes_add(&a->process_changes, map->pid, map->time);
    }
    if (a->space_count)
        qsort(a->spaces, a->space_count, sizeof *a->spaces, by_process);
    changes_sort(&a->thread_changes);
    changes_sort(&a->process_changes);
    changes_sort(&a->cpu_changes);
    changes_sort(&a->switches);
}

static bool has_wide_counter(struct spex_analysis *a, const uint8_t *data, size_t size)
{
    enum spex_status status = SPEX_OK;
    queue_need_reader(&a->lane, &a->lane.reader);
    spex_reader_feed(a->lane.reader, data, size, 0, true);
    while (status == SPEX_OK) {
        size_t n = spex_reader_batch(a->lane.reader, a->records, a->batch, &status, NULL);
        for (size_t i = 0; i < n; i++)
            if (counters_of(&a->records[i]) & 0xf * EACH_COUNTER << 12)
                return true;
    }
    return false;
}

/*
 * The largest counter value. Files do not record PMSIDR_EL1.CountSize: 12 bits are assumed, unless
 * the first quarter of a megabyte, taken equally from all queues, shows larger counters.
 */
static uint16_t counter_most(struct spex_analysis *a)
{
    enum { LOOK = 1 << 18, LEAST = 1 << 12 };
    size_t part = a->queue_count ? LOOK / a->queue_count : 0;
    part = part > LEAST ? part : LEAST;
    bool wide = false;
    if (a->file) {
        struct spex_aux_span span;
        for (size_t i = 0; i < a->queue_count && !wide; i++) {
            struct queue *q = &a->queues[i];
            enum spex_status status;
            if (!queue_open(a, q, &status))
                break;
            if (spex_aux_next(q->cursor, &span) == SPEX_OK)
                wide = has_wide_counter(a, span.data, span.size < part ? span.size : part);
            queue_close(q);
        }
    } else {
        uint8_t *data = a->queues[0].buffer;
        ssize_t n = pread(a->raw_fd, data, LOOK, 0);
        wide = n > 0 && has_wide_counter(a, data, (size_t)n);
    }
    return wide ? 0xffff : 0xfff;
}

static void describe_sampling(struct spex_analysis *a)
{
    struct spex_sampling *s = &a->sampling;
    s->counter_most = counter_most(a);
    a->end = counters_end(s->counter_most);
    const struct spex_perf_attr *attr = a->file ? spex_perfdata_spe_attr(a->file) : NULL;
    s->midr = a->options.midr;
    if (a->file && !s->midr)
        s->midr = spex_perfdata_midr(a->file, -1);
    const struct spex_cpu_model *cpu = spex_cpu_find(s->midr);
    s->cpu_name = cpu ? spex_cpu_name(cpu) : NULL;
    if (!attr)
        return;
    /* ts_enable 0, pa_enable 1, jitter 16; filters from 32 on (the PMU's format) */
    enum { TS = 0, PA = 1, JITTER = 16, DISCARD = 35 };
    uint64_t filters[5] = {attr->config[0] >> 32 << 32, attr->config[1], attr->config[2],
                           attr->config[3], attr->config[4]};
    filters[0] &= ~(UINT64_C(1) << DISCARD);
    s->known = true;
    a->user_only = attr->exclude_kernel;
    s->period = attr->freq ? 0 : attr->period;
    s->timestamps = attr->config[0] >> TS & 1;
    s->physical = attr->config[0] >> PA & 1;
    s->jitter = attr->config[0] >> JITTER & 1;
    spex_perf_terms_text(attr->config, s->terms, sizeof s->terms);
    spex_perf_terms_text(filters, s->filters, sizeof s->filters);
}

static int open_raw_input(const char *path, const struct spex_analysis_options *options)
{
    if (options->input == SPEX_INPUT_MEMORY) {
        int fd = memfd_create("spex", MFD_CLOEXEC);
        const char *data = options->data;
        for (size_t at = 0; fd >= 0 && at < options->data_size;) {
            ssize_t n = write(fd, data + at, options->data_size - at);
            if (n < 0 && errno != EINTR) {
                close(fd);
                return -1;
            }
            at += n > 0 ? (size_t)n : 0;
        }
        return fd;
    }
    if (options->input == SPEX_INPUT_DESCRIPTOR)
        return fcntl(options->descriptor, F_DUPFD_CLOEXEC, 0);
    return path && strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC)
                                     : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
}

static enum spex_status open_raw(struct spex_analysis *a, const char *path,
                                 const struct spex_analysis_options *options,
                                 struct spex_error *error)
{
    a->raw_fd = open_raw_input(path, options);
    off_t size = a->raw_fd < 0 ? -1 : lseek(a->raw_fd, 0, SEEK_END);
    if (a->raw_fd >= 0 && size < 0) {
        /* a pipe: to a temporary file, since a pass may be repeated */
        int copy = file_spool(a->raw_fd, a->options.progress, a->options.context);
        close(a->raw_fd);
        a->raw_fd = copy;
        size = copy < 0 ? 0 : lseek(copy, 0, SEEK_END);
    }
    if (a->raw_fd < 0)
        return error_set(error, SPEX_IO, 0, "%s: %s", a->name, strerror(errno));
    a->raw_size = (uint64_t)size;
    a->queue_count = 1;
    return SPEX_OK;
}

static enum spex_status open_input(struct spex_analysis *a, const char *path,
                                   const struct spex_analysis_options *options,
                                   struct spex_error *error)
{
    bool standard = !path || !strcmp(path, "-");
    enum spex_status status;
    a->options = *options;
    if (!a->options.want)
        a->options.want = ~0u;
    for (size_t i = 0; i < options->filter_count; i++) {
        const char *name = options->filters[i].name;
        if (!strcmp(name, "time"))
            a->filter_want |= SPEX_WANT_TIME;
        if (!strcmp(name, "dso") || !strcmp(name, "symbol"))
            a->filter_want |= SPEX_WANT_SYMBOL;
    }
    a->name = memory_copy(!standard                           ? path
                          : options->input == SPEX_INPUT_PATH ? "standard input"
                                                              : "input");
    a->ops = op_table();
    if (a->whole)
        a->symbols = a->whole->symbols;
    status = a->whole ? SPEX_OK : spex_symbols_new(options->symbols, &a->symbols, error);
    lane_init(&a->lane, a, &analysis_first(a)->versions);
    if (status)
        return status;
    if (options->raw) {
        status = open_raw(a, path, options, error);
    } else {
        struct module_roots roots;
        symbols_roots(a->symbols, &roots);
        roots.below.progress = a->options.progress;
        roots.below.context = a->options.context;
        const struct spex_perfdata_options from = {.path = path,
                                                   .input = options->input,
                                                   .descriptor = options->descriptor,
                                                   .data = options->data,
                                                   .data_size = options->data_size};
        status = below_open(&from, &roots.below, &a->file, error);
        if (!status) {
            a->info = spex_perfdata_info(a->file);
            a->queue_count = spex_perfdata_queue_count(a->file);
            merge_losses(a);
            gather_changes(a);
            a->map_modules = memory_get(spex_perfdata_map_count(a->file), sizeof *a->map_modules);
            a->stacks = stacks_new(a, a->file, &analysis_first(a)->calls);
            a->allocs = stacks_new_allocs(a, a->file, &analysis_first(a)->calls,
                                          &analysis_first(a)->blocks);
        }
    }
    return status;
}

/* Prepares what is read from an open input; first and last are the limits of all inputs' times. */
static enum spex_status open_queues(struct spex_analysis *a,
                                    const struct spex_analysis_options *options, uint64_t first,
                                    uint64_t last, struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    for (size_t i = 0; i < options->filter_count && !status; i++)
        status = filter_new(&options->filters[i], first, last, &a->lane.filters[i], error);
    if (status)
        return status;
    a->queues = memory_get(a->queue_count + 1, sizeof *a->queues);
    bool merge = options->ordered && a->queue_count > 1;
    a->batch = merge && a->queue_count > RECORDS / BATCH ? RECORDS / a->queue_count + 1 : BATCH;
    a->records = memory_get(a->batch, sizeof *a->records);
    a->stretch_count = 0;
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        q->index = (uint32_t)i;
        q->cpu = q->tid = -1;
        q->first_stretch = a->stretch_count;
        a->stretch_count += a->file ? spans_stretches(a->file, i) : 1;
        if (a->file) {
            const struct spex_perf_queue *from = spex_perfdata_queue(a->file, i);
            q->cpu = from->cpu;
            q->tid = from->tid;
            uint64_t midr = options->midr ? options->midr : spex_perfdata_midr(a->file, q->cpu);
            q->model = spex_cpu_find(midr);
        } else {
            q->model = spex_cpu_find(options->midr);
            q->buffer = memory_get(1, RAW_CHUNK + SPEX_READER_REST);
        }
    }
    describe_sampling(a);
    return SPEX_OK;
}

static int by_first_time(const void *x, const void *y)
{
    const struct spex_analysis *a = *(struct spex_analysis *const *)x;
    const struct spex_analysis *b = *(struct spex_analysis *const *)y;
    uint64_t first_a = a->info ? a->info->first_time : 0,
             first_b = b->info ? b->info->first_time : 0;
    if (first_a != first_b)
        return first_a < first_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* If all files agree on a value, the first file's describes them all. */
static void agree(struct spex_analysis *a)
{
    uint16_t most = 0;
    uint32_t stretches = 0;
    for (size_t i = 0; i < a->part_count; i++) {
        a->parts[i]->first_stretch = stretches;
        stretches += a->parts[i]->stretch_count;
        const struct spex_sampling *s = &a->parts[i]->sampling;
        most = s->counter_most > most ? s->counter_most : most;
        a->mixed |= s->period != a->parts[0]->sampling.period;
        if (s->midr != a->sampling.midr)
            a->sampling.cpu_name = NULL;
    }
    for (size_t i = 0; i < a->part_count; i++) {
        a->parts[i]->sampling.counter_most = most;
        a->parts[i]->end = counters_end(most);
    }
}

static enum spex_status open_profile(struct spex_analysis *a, const char *path,
                                     const struct spex_analysis_options *options,
                                     struct spex_error *error)
{
    enum spex_status status = open_input(a, path, options, error);
    size_t files = 1 + options->more_count;
    uint64_t first, last;
    if (!status && files > 1) {
        a->parts = memory_get(files, sizeof *a->parts);
        a->parts[a->part_count++] = a;
    }
    struct spex_analysis_options other = *options;
    other.input = SPEX_INPUT_PATH;
    for (size_t i = 0; i < options->more_count && !status; i++) {
        struct spex_analysis *part = a->parts[a->part_count++] = memory_get(1, sizeof *part);
        part->account = memory_keep(a->account);
        part->raw_fd = -1;
        pthread_mutex_init(&part->lock, NULL);
        part->whole = a;
        status = open_input(part, options->more[i], &other, error);
    }
    if (!status && a->part_count)
        qsort(a->parts, a->part_count, sizeof *a->parts, by_first_time);
    spex_analysis_extent(a, &first, &last);
    if (!status)
        status = open_queues(a, options, first, last, error);
    for (size_t i = 0; i < a->part_count && !status; i++)
        if (a->parts[i] != a)
            status = open_queues(a->parts[i], options, first, last, error);
    if (!status)
        agree(a);
    return status;
}

enum spex_status spex_analysis_open(const char *path, const struct spex_analysis_options *given,
                                    struct spex_analysis **analysis, struct spex_error *error)
{
    assert(analysis);
    struct spex_analysis_options known = {0};
    const struct spex_analysis_options *options = &known;
    volatile enum spex_status status = SPEX_OK;
    if (given)
        status = sized_take("spex_analysis_options", given, &known, sizeof known, error);
    if (status)
        return status;
    if (options->filter_count > SPEX_FILTER_MAX)
        return error_set(error, SPEX_RANGE, 0, "%zu filters; at most %d", options->filter_count,
                         SPEX_FILTER_MAX);
    if (options->input > SPEX_INPUT_MEMORY)
        return error_set(error, SPEX_UNSUPPORTED, 0, "no kind of input %u", options->input);
    struct memory *account = memory_open(options->max_memory, options->allocator);
    MEMORY_OF(account);
    struct spex_analysis *a = account ? memory_zeroed(1, sizeof *a) : NULL;
    if (!a) {
        memory_end(account, memory_before_);
        return error_set(error, SPEX_NO_MEMORY, 0, "not enough memory for a profile");
    }
    a->account = account;
    a->raw_fd = -1;
    pthread_mutex_init(&a->lock, NULL);
    if (!memory_guarded(account, status = open_profile(a, path, options, error)))
        status = error_set(error, SPEX_NO_MEMORY, 0, "not enough memory for a profile");
    if (status)
        spex_analysis_close(a);
    else
        *analysis = a;
    return status;
}

void spex_analysis_close(struct spex_analysis *a)
{
    if (!a)
        return;
    struct memory *account = a->account, *before = memory_enter(account);
    pull_end(a);
    for (size_t i = 0; i < a->part_count; i++)
        if (a->parts[i] != a)
            spex_analysis_close(a->parts[i]);
    memory_free(a->parts);
    state_free(&a->thread_sums, true);
    memory_free(a->cpu_sums);
    for (size_t i = 0; a->queues && i < a->queue_count; i++) {
        queue_close(&a->queues[i]);
        if (a->queues[i].reader != a->lane.reader)
            memory_free(a->queues[i].reader);
        memory_free(a->queues[i].buffer);
    }
    lane_fini(&a->lane);
    memory_free(a->records);
    memory_free(a->spaces);
    memory_free(a->stack_numbers);
    stacks_free(a->stacks);
    memory_free(a->alloc_numbers);
    stacks_free(a->allocs);
    allocs_table_free(a->blocks);
    stacks_table_free(a->calls);
    memory_free(a->queues);
    state_free(&a->strings, true);
    memory_free(a->map_modules);
    memory_free(a->thread_changes.items);
    memory_free(a->process_changes.items);
    memory_free(a->cpu_changes.items);
    memory_free(a->switches.items);
    memory_free(a->elapsed);
    memory_free(a->maps);
    replay_free(a->replay);
    place_cache_free(a->data_places);
    for (size_t i = 0; i < a->piece_count; i++)
        piece_fini(&a->pieces[i]);
    pthread_mutex_destroy(&a->lock);
    if (!a->whole)
        spex_symbols_free(a->symbols);
    if (a->file)
        spex_perfdata_close(a->file);
    if (a->raw_fd >= 0)
        close(a->raw_fd);
    memory_free(a->name);
    memory_free(a);
    memory_end(account, before);
}
