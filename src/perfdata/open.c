/* Opening, querying and closing a file; reader.c interprets its bytes. */
#include "file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool spex_perfdata_is(const void *data, size_t size)
{
    assert(data || !size);
    static const char *const magics[] = {"PERFILE2", "2ELIFREP", "PERFFILE", "ELIFFREP"};
    for (size_t i = 0; size >= SPEX_PERFDATA_MAGIC_SIZE && i < 4; i++)
        if (!memcmp(data, magics[i], SPEX_PERFDATA_MAGIC_SIZE))
            return true;
    return false;
}

/* ---- finding the bytes ---- */

/* Maps what a descriptor or a path (NULL: standard input) refers to; a descriptor stays open. */
static enum spex_status map_file(struct spex_perfdata *file, const char *path, int given,
                                 struct spex_error *error)
{
    struct stat st;
    enum spex_status status = SPEX_OK;
    bool standard = given >= 0 || !path || !strcmp(path, "-");
    int fd = given >= 0 ? given : standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (!standard && !*path) {
        status = error_set(error, SPEX_IO, 0, "the name of the file is empty");
    } else if (fd < 0 || fstat(fd, &st)) {
        status = error_set(error, SPEX_IO, 0, "cannot read %s: %s", file->path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        /* perf record --kcore and --threads make a directory with the file inside. */
        int inner = openat(fd, "data", O_RDONLY | O_CLOEXEC);
        int threads = openat(fd, "data.0", O_RDONLY | O_CLOEXEC);
        if (threads >= 0) {
            close(threads);
            perfdata_problem(
                file, SPEX_UNSUPPORTED, 0,
                "a recording with --threads: only the records of its main file are read");
        }
        if (inner < 0 || fstat(inner, &st))
            status = error_set(error, SPEX_IO, 0, "%s is a directory without perf's file `data`",
                               file->path);
        if (!standard)
            close(fd);
        standard = false;
        fd = inner;
    }
    if (status == SPEX_OK && !S_ISREG(st.st_mode)) {
        int copy = file_spool(fd, file->below->progress, file->below->context);
        if (!standard)
            close(fd);
        fd = copy;
        standard = false;
        if (fd < 0 || fstat(fd, &st))
            status = error_set(error, SPEX_IO, 0,
                               "cannot copy %s to a temporary file: %s (set TMPDIR to a place "
                               "with room)",
                               file->path, strerror(errno));
    }
    if (status == SPEX_OK && st.st_size == 0)
        status = error_set(error, SPEX_TRUNCATED, 0, "%s is empty", file->path);
    if (status == SPEX_OK && (uint64_t)st.st_size > SIZE_MAX)
        status = error_set(error, SPEX_UNSUPPORTED, 0,
                           "%s is larger than the memory that a 32-bit program can address; "
                           "read it with a 64-bit one",
                           file->path);
    if (status == SPEX_OK) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            status = error_set(error, SPEX_IO, 0, "cannot map %s: %s", file->path, strerror(errno));
        } else {
            file->data = data;
            file->size = (uint64_t)st.st_size;
            file->mapped = true;
            file->fd = standard ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : fd;
        }
    }
    if (fd >= 0 && !standard && fd != file->fd)
        close(fd);
    return status;
}

static struct spex_perfdata *new_file(const char *name)
{
    static const char *const nothing[1] = {NULL};
    struct spex_perfdata *file = memory_zeroed(1, sizeof *file);
    if (!file)
        return NULL;
    file->path = memory_text(name, strlen(name));
    if (!file->path) {
        memory_free(file);
        return NULL;
    }
    file->fd = -1;
    file->inflate_limit = 64 << 20;
    file->info.path = file->path;
    file->info.hostname = file->info.osrelease = file->info.version = file->info.arch = "";
    file->info.cpudesc = file->info.cpuid = "";
    file->info.cmdline = nothing;
    return file;
}

static const struct below here = {.roots = {"", NULL}};

static enum spex_status start(struct spex_perfdata *file, struct spex_error *error)
{
    file->info.file_size = file->size;
    enum spex_status status = perfdata_header_read(file, error);
    if (status != SPEX_OK)
        return status;
    perfdata_scan(file);
    perfdata_aux_build(file);
    if (file->failed || !perfdata_state_build(file))
        return error_set(error, SPEX_NO_MEMORY, 0,
                         "no memory for the tables of %s: %llu MB are allowed", file->path,
                         (unsigned long long)(memory_limit() >> 20));
    spex_perfdata_rewind(file);
    file->below = NULL;
    return SPEX_OK;
}

enum spex_status below_open(const struct spex_perfdata_options *options, const struct below *below,
                            struct spex_perfdata **result, struct spex_error *error)
{
    const bool standard = !options->path || !strcmp(options->path, "-");
    const char *name = !standard                           ? options->path
                       : options->input == SPEX_INPUT_PATH ? "standard input"
                                                           : "input";
    struct memory *account = memory_open(options->max_memory, options->allocator);
    MEMORY_OF(account);
    struct spex_perfdata *file = account ? new_file(name) : NULL;
    if (!file) {
        memory_end(account, memory_before_);
        return error_set(error, SPEX_NO_MEMORY, 0, "%s: not enough memory to open it", name);
    }
    enum spex_status status = SPEX_OK;
    file->account = account;
    file->below = below;
    if (options->input == SPEX_INPUT_MEMORY) {
        file->data = options->data;
        file->size = options->data_size;
    } else {
        const int fd = options->input == SPEX_INPUT_DESCRIPTOR ? options->descriptor : -1;
        status = options->input == SPEX_INPUT_DESCRIPTOR && fd < 0
                     ? error_set(error, SPEX_IO, 0, "%s: %s", name, strerror(EBADF))
                     : map_file(file, options->path, fd, error);
    }
    if (status == SPEX_OK)
        status = start(file, error);
    if (status == SPEX_OK)
        *result = file;
    else
        spex_perfdata_close(file);
    return status;
}

enum spex_status spex_perfdata_new(const struct spex_perfdata_options *given,
                                   struct spex_perfdata **file, struct spex_error *error)
{
    assert(file);
    struct spex_perfdata_options options = {0};
    enum spex_status status =
        sized_take("spex_perfdata_options", given, &options, sizeof options, error);
    if (status != SPEX_OK)
        return status;
    if (options.input > SPEX_INPUT_MEMORY)
        return error_set(error, SPEX_UNSUPPORTED, 0, "no kind of input %u", options.input);
    const struct below below = {{"", NULL}, options.progress, options.context};
    return below_open(&options, &below, file, error);
}

enum spex_status spex_perfdata_open(const char *path, struct spex_perfdata **file,
                                    struct spex_error *error)
{
    assert(file);
    return below_open(&(struct spex_perfdata_options){.path = path}, &here, file, error);
}

enum spex_status spex_perfdata_open_memory(const void *data, size_t size,
                                           struct spex_perfdata **file, struct spex_error *error)
{
    assert((data || !size) && file);
    return below_open(&(struct spex_perfdata_options){.input = SPEX_INPUT_MEMORY,
                                                      .data = data,
                                                      .data_size = size},
                      &here, file, error);
}

void spex_perfdata_close(struct spex_perfdata *file)
{
    if (!file)
        return;
    struct memory *account = file->account, *before = memory_enter(account);
    perfdata_walk_fini(&file->walk);
    perfdata_aux_fini(file);
    perfdata_state_fini(file);
    for (size_t i = 0; i < file->attrs.count; i++)
        memory_free((void *)(uintptr_t)file->attrs.items[i].ids);
    vec_free(&file->attrs);
    vec_free(&file->ids);
    vec_free(&file->problems);
    vec_free(&file->problem_kinds);
    vec_free(&file->nodes);
    vec_free(&file->memory);
    vec_free(&file->blocks);
    vec_free(&file->cpus);
    vec_free(&file->cmdline);
    vec_free(&file->build_ids);
    vec_free(&file->index);
    perfdata_strings_fini(&file->strings);
    if (file->mapped)
        munmap((void *)(uintptr_t)file->data, file->size);
    if (file->fd >= 0)
        close(file->fd);
    memory_free(file->path);
    memory_free(file);
    memory_end(account, before);
}

/* ---- asking ---- */

const struct spex_perf_info *spex_perfdata_info(const struct spex_perfdata *file)
{
    assert(file);
    return &file->info;
}

size_t spex_perfdata_problem_count(const struct spex_perfdata *file)
{
    assert(file);
    return file->problems.count;
}

const struct spex_perf_problem *spex_perfdata_problem(const struct spex_perfdata *file,
                                                      size_t index)
{
    assert(file);
    return index < file->problems.count ? &file->problems.items[index] : NULL;
}

size_t spex_perfdata_attr_count(const struct spex_perfdata *file)
{
    assert(file);
    return file->attrs.count;
}

const struct spex_perf_attr *spex_perfdata_attr(const struct spex_perfdata *file, size_t index)
{
    assert(file);
    return index < file->attrs.count ? &file->attrs.items[index] : NULL;
}

const struct spex_perf_attr *spex_perfdata_spe_attr(const struct spex_perfdata *file)
{
    assert(file);
    for (size_t i = 0; i < file->attrs.count; i++)
        if (file->attrs.items[i].spe)
            return &file->attrs.items[i];
    return NULL;
}

static const struct spex_perf_cpu *find_cpu(const struct spex_perfdata *file, int32_t cpu)
{
    for (size_t i = 0; i < file->cpus.count; i++)
        if (cpu < 0 || file->cpus.items[i].cpu == (uint32_t)cpu)
            return &file->cpus.items[i];
    return NULL;
}

uint64_t spex_perfdata_midr(const struct spex_perfdata *file, int32_t cpu)
{
    assert(file);
    const struct spex_perf_cpu *entry = find_cpu(file, cpu);
    if (!entry)
        return file->midr;
    for (size_t i = 0; cpu < 0 && i < file->cpus.count; i++)
        if (file->cpus.items[i].midr != entry->midr)
            return 0;
    return entry->midr;
}

uint64_t spex_perfdata_event_filter(const struct spex_perfdata *file, int32_t cpu)
{
    assert(file);
    const struct spex_perf_cpu *entry = find_cpu(file, cpu);
    return entry ? entry->event_filter : 0;
}

void spex_perfdata_rewind(struct spex_perfdata *file)
{
    assert(file);
    MEMORY_OF(file->account);
    perfdata_walk_fini(&file->walk);
    perfdata_walk_init(&file->walk, file, false);
}

void spex_perfdata_seek(struct spex_perfdata *file, uint64_t offset)
{
    assert(file);
    MEMORY_OF(file->account);
    perfdata_walk_seek(&file->walk, offset);
}

enum spex_status spex_perfdata_next(struct spex_perfdata *file, struct spex_perf_event *event)
{
    assert(file && event);
    struct raw raw;
    MEMORY_OF(file->account);
    if (!perfdata_walk_next(&file->walk, &raw))
        return SPEX_END;
    perfdata_event_parse(file, &raw, file->scratch, event);
    return SPEX_OK;
}

const char *spex_perf_type_name(uint32_t type)
{
    static const char *const names[] = {
        [1] = "MMAP",
        [2] = "LOST",
        [3] = "COMM",
        [4] = "EXIT",
        [5] = "THROTTLE",
        [6] = "UNTHROTTLE",
        [7] = "FORK",
        [8] = "READ",
        [9] = "SAMPLE",
        [10] = "MMAP2",
        [11] = "AUX",
        [12] = "ITRACE_START",
        [13] = "LOST_SAMPLES",
        [14] = "SWITCH",
        [15] = "SWITCH_CPU_WIDE",
        [16] = "NAMESPACES",
        [17] = "KSYMBOL",
        [18] = "BPF_EVENT",
        [19] = "CGROUP",
        [20] = "TEXT_POKE",
        [21] = "AUX_OUTPUT_HW_ID",
        [64] = "ATTR",
        [65] = "EVENT_TYPE",
        [66] = "TRACING_DATA",
        [67] = "BUILD_ID",
        [68] = "FINISHED_ROUND",
        [69] = "ID_INDEX",
        [70] = "AUXTRACE_INFO",
        [71] = "AUXTRACE",
        [72] = "AUXTRACE_ERROR",
        [73] = "THREAD_MAP",
        [74] = "CPU_MAP",
        [75] = "STAT_CONFIG",
        [76] = "STAT",
        [77] = "STAT_ROUND",
        [78] = "EVENT_UPDATE",
        [79] = "TIME_CONV",
        [80] = "FEATURE",
        [81] = "COMPRESSED",
        [82] = "FINISHED_INIT",
        [83] = "COMPRESSED2",
    };
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}
