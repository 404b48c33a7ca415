/*
 * Functions made by the guest's just-in-time compilers, as mappings of one function each. They come
 * from perf-PID.map and jitdump files, with the model time of each write.
 */
#include "left.h"

#include "perfdata/jit.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_FILES = 64 };

static struct jit_file *find_file(struct left_run *run, int32_t pid, uint64_t number)
{
    for (size_t i = 0; i < run->jit_count; i++)
        if (run->jits[i].number == number && run->tasks[run->jits[i].task].task.pid == pid)
            return &run->jits[i];
    return NULL;
}

void left_jit_event(struct left_run *run, size_t task, const struct run_event *event,
                    const char *text)
{
    struct jit_file *f = find_file(run, run->tasks[task].task.pid, event->a);
    if (*text) {
        if (f || run->jit_count == JIT_FILES)
            return;
        if (!run->jits && !(run->jits = calloc(JIT_FILES, sizeof *run->jits))) {
            run->no_memory = true;
            return;
        }
        run->jits[run->jit_count++] =
            (struct jit_file){.task = task, .number = event->a, .path = text};
        return;
    }
    if (!f)
        return;
    if (f->count == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 64;
        struct jit_write *more = realloc(f->writes, capacity * sizeof *more);
        if (!more) {
            run->no_memory = true;
            return;
        }
        f->writes = more;
        f->capacity = capacity;
    }
    uint64_t before = f->count ? f->writes[f->count - 1].end : 0;
    f->writes[f->count++] = (struct jit_write){before + event->b, event->time};
}

struct reading {
    struct left_run *run;
    struct jit_file *file;
    size_t next, used; /* next write; used bytes of names */
    bool measure;
};

static void add_function(void *context, const struct jit_code *code)
{
    struct reading *r = context;
    struct jit_file *f = r->file;
    size_t n = code->name_length < JIT_NAME_MOST ? code->name_length : JIT_NAME_MOST;
    size_t size = sizeof JIT_PREFIX + n;
    if (!code->length || code->start + code->length < code->start)
        return;
    if (!r->measure) {
        char *name = f->names + r->used;
        snprintf(name, size, "%s%.*s", JIT_PREFIX, (int)n, code->name);
        while (r->next < f->count && f->writes[r->next].end < code->end)
            r->next++;
        uint64_t time = r->next < f->count ? f->writes[r->next].time
                        : f->count         ? f->writes[f->count - 1].time
                                           : r->run->tasks[f->task].task.clock;
        struct entry *entry = left_add(r->run, f->task, SPEX_ENGINE_MAP, time);
        entry->event.address = code->start;
        entry->event.length = code->length;
        entry->event.prot = 5;
        entry->event.flags = 0x22;
        entry->event.text = name;
    }
    r->used += size;
}

void left_read_jits(struct left_run *run)
{
    for (size_t i = 0; i < run->jit_count; i++) {
        struct jit_file *f = &run->jits[i];
        struct reading r = {.run = run, .file = f, .measure = true};
        size_t size;
        char *data = file_read_named(f->path, JIT_FILE_MOST, FILE_OWN_OR_ROOT, &size);
        if (!data)
            continue;
        jit_read(data, size, add_function, &r);
        f->names = malloc(r.used + 1);
        r.used = 0;
        r.measure = false;
        if (f->names)
            jit_read(data, size, add_function, &r);
        else
            run->no_memory = true;
        free(data);
    }
}

void left_free_jits(struct left_run *run)
{
    for (size_t i = 0; i < run->jit_count; i++) {
        free(run->jits[i].writes);
        free(run->jits[i].names);
    }
    free(run->jits);
}
