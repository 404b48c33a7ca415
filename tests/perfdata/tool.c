/*
 * What the reader makes of a file, as text for the tests in Python.
 *
 *   tool info FILE      metadata, events, queues, problems
 *   tool events FILE    one line per record, in file order
 *   tool runs FILE [N]  each contiguous run of AUX data in hexadecimal; the consumer
 *                       uses whole items of N bytes only and keeps the rest
 *   tool records FILE   one line per SPE record, with thread, name, mapping, time
 *   tool write OUT      writes a file from lines on standard input, see write_line
 *
 * FILE - is standard input.
 */
#include <spex/datasource.h>
#include <spex/perfdata.h>
#include <spex/record.h>

#include "record/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hex(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        printf("%02x", data[i]);
}

static void problems(const struct spex_perfdata *file)
{
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++) {
        const struct spex_perf_problem *p = spex_perfdata_problem(file, i);
        printf("problem %s offset=%#" PRIx64 " count=%" PRIu64 " %s\n", spex_status_name(p->status),
               p->offset, p->count, p->text);
    }
}

static void info(struct spex_perfdata *file)
{
    const struct spex_perf_info *i = spex_perfdata_info(file);
    printf("big_endian=%d pipe=%d complete=%d attr_size=%" PRIu64 "\n", i->big_endian, i->pipe,
           i->complete, i->attr_size);
    printf("hostname=%s\nosrelease=%s\nversion=%s\narch=%s\ncpudesc=%s\ncpuid=%s\n", i->hostname,
           i->osrelease, i->version, i->arch, i->cpudesc, i->cpuid);
    printf("cpus_online=%u\ncpus_available=%u\ntotal_mem_kb=%" PRIu64 "\n", i->cpus_online,
           i->cpus_available, i->total_mem_kb);
    printf("cmdline=");
    for (size_t n = 0; n < i->cmdline_count; n++)
        printf("%s%s", n ? " " : "", i->cmdline[n]);
    printf("\nfirst_time=%" PRIu64 "\nlast_time=%" PRIu64 "\n", i->first_time, i->last_time);
    for (size_t n = 0; n < i->node_count; n++)
        printf("node %u total=%" PRIu64 " cpus=%s\n", i->nodes[n].node, i->nodes[n].total_kb,
               i->nodes[n].cpus);
    printf("time=%d shift=%" PRIu64 " mult=%" PRIu64 " zero=%" PRIu64 " cycles=%" PRIu64
           " mask=%#" PRIx64 " caps=%d%d\n",
           i->has_time, i->time.shift, i->time.mult, i->time.zero, i->time.cycles, i->time.mask,
           i->time.cap_zero, i->time.cap_short);
    printf("auxtrace type=%u version=%u pmu=%u per_cpu=%d timed=%d snapshot=%d\n", i->auxtrace_type,
           i->auxtrace_version, i->spe_pmu_type, i->per_cpu, i->timed, i->snapshot);
    for (size_t n = 0; n < i->cpu_count; n++)
        printf("cpu %u midr=%#" PRIx64 " pmu=%" PRIu64 " min_interval=%" PRIu64
               " event_filter=%#" PRIx64 "\n",
               i->cpus[n].cpu, i->cpus[n].midr, i->cpus[n].pmu_type, i->cpus[n].min_interval,
               spex_perfdata_event_filter(file, i->cpus[n].cpu));
    printf("midr=%#" PRIx64 "\nnodes of CPUs 0 to 5:", spex_perfdata_midr(file, -1));
    for (int32_t cpu = 0; cpu < 6; cpu++)
        printf(" %d", spex_perfdata_node(file, cpu));
    printf("\nnodes of the first GiBs:");
    for (uint64_t gib = 0; gib < 6; gib++)
        printf(" %d", spex_perfdata_memory_node(file, gib << 30));
    putchar('\n');
    printf("lost=%" PRIu64 " throttled=%" PRIu64 " truncated=%" PRIu64 " collisions=%" PRIu64
           " samples=%" PRIu64 " records=%" PRIu64 " aux_bytes=%" PRIu64 " compressed=%" PRIu64
           "\n",
           i->lost, i->throttled, i->truncated, i->collisions, i->samples, i->records, i->aux_bytes,
           i->compressed_bytes);
    for (size_t n = 0; n < spex_perfdata_attr_count(file); n++) {
        const struct spex_perf_attr *a = spex_perfdata_attr(file, n);
        char terms[512];
        spex_perf_terms_text(a->config, terms, sizeof terms);
        printf("event %s type=%u config=%#" PRIx64 ",%#" PRIx64 ",%#" PRIx64 " period=%" PRIu64
               " sample_type=%#" PRIx64 " flags=%#" PRIx64 " spe=%d ids=",
               a->name, a->type, a->config[0], a->config[1], a->config[2], a->period,
               a->sample_type, a->flags, a->spe);
        for (size_t k = 0; k < a->id_count; k++)
            printf("%s%" PRIu64, k ? "," : "", a->ids[k]);
        printf(a->spe ? " terms=%s\n" : "\n", terms);
    }
    for (size_t n = 0; n < spex_perfdata_queue_count(file); n++) {
        const struct spex_perf_queue *q = spex_perfdata_queue(file, n);
        printf("queue cpu=%d tid=%d idx=%u bytes=%" PRIu64 " chunks=%" PRIu64 "\n", q->cpu, q->tid,
               q->idx, q->bytes, q->chunks);
    }
}

static void print_sample(const struct spex_perfdata *file, const struct spex_perf_event *e)
{
    const struct spex_perf_sample *s = &e->u.sample;
    uint64_t time = e->present & SPEX_PERF_SAMPLE_TIME ? e->time : UINT64_MAX;
    const struct spex_perf_map *map = spex_perfdata_map(file, e->pid, s->ip, time);
    const char *comm = spex_perfdata_comm(file, e->tid, time);
    printf(" comm=%s dso=%s", comm ? comm : "?", map ? map->filename : "?");
    printf(" ip=%#" PRIx64 " addr=%#" PRIx64 " period=%" PRIu64 " weight=%" PRIu64
           " data_src=%#" PRIx64 " phys=%#" PRIx64,
           s->ip, s->addr, s->period, s->weight, s->data_src, s->phys_addr);
    printf(" chain=");
    for (size_t i = 0; i < s->callchain_count; i++)
        printf("%s%" PRIx64, i ? "," : "", s->callchain[i]);
    printf(" branches=");
    for (size_t i = 0; i < s->branch_count; i++)
        printf("%s%" PRIx64 "/%" PRIx64 "/%" PRIx64, i ? "," : "", s->branches[3 * i],
               s->branches[3 * i + 1], s->branches[3 * i + 2]);
    printf(" read=");
    for (size_t i = 0; i < s->read_count; i++)
        printf("%s%" PRIu64, i ? "," : "", s->read[i]);
    printf(" regs=");
    for (size_t i = 0; i < s->regs_user_count; i++)
        printf("%s%" PRIx64, i ? "," : "", s->regs_user[i]);
    printf(" iregs=");
    for (size_t i = 0; i < s->regs_intr_count; i++)
        printf("%s%" PRIx64, i ? "," : "", s->regs_intr[i]);
    printf(" raw=");
    hex(s->raw, s->raw_size);
    printf(" stack=%zu aux=%zu", s->stack_size, s->aux_size);
    printf(" page=%" PRIu64 "/%" PRIu64 " cgroup=%" PRIu64 " transaction=%" PRIu64,
           s->data_page_size, s->code_page_size, s->cgroup, s->transaction);
}

static void events(struct spex_perfdata *file)
{
    struct spex_perf_event e;
    while (spex_perfdata_next(file, &e) == SPEX_OK) {
        const char *name = spex_perf_type_name(e.type);
        printf("%#" PRIx64 " %s misc=%#x size=%u", e.offset, name ? name : "?", e.misc, e.size);
        if (e.type < SPEX_PERF_HEADER_ATTR)
            printf(" pid=%d tid=%d time=%" PRIu64 " cpu=%d id=%" PRIu64 " stream=%" PRIu64
                   " event=%s",
                   e.pid, e.tid, e.time, e.cpu, e.id, e.stream_id, e.attr ? e.attr->name : "-");
        switch (e.type) {
        case SPEX_PERF_SAMPLE:
            print_sample(file, &e);
            break;
        case SPEX_PERF_MMAP:
        case SPEX_PERF_MMAP2:
            printf(" map=%d/%d %#" PRIx64 "-%#" PRIx64 " @%#" PRIx64 " prot=%u flags=%u"
                   " dev=%x:%x ino=%" PRIu64 " gen=%" PRIu64 " build_id=",
                   e.u.map.pid, e.u.map.tid, e.u.map.start, e.u.map.end, e.u.map.pgoff,
                   e.u.map.prot, e.u.map.flags, e.u.map.maj, e.u.map.min, e.u.map.ino,
                   e.u.map.ino_generation);
            hex(e.u.map.build_id, e.u.map.build_id_size);
            printf(" name=%s", e.u.map.filename);
            break;
        case SPEX_PERF_COMM:
            printf(" comm=%d/%d name=%s", e.u.comm.pid, e.u.comm.tid, e.u.comm.comm);
            break;
        case SPEX_PERF_FORK:
        case SPEX_PERF_EXIT:
            printf(" task=%d/%d parent=%d/%d at=%" PRIu64, e.u.task.pid, e.u.task.tid,
                   e.u.task.ppid, e.u.task.ptid, e.u.task.time);
            break;
        case SPEX_PERF_AUX:
            printf(" offset=%#" PRIx64 " size=%#" PRIx64 " flags=%#x", e.u.aux.offset, e.u.aux.size,
                   e.u.aux.flags);
            break;
        case SPEX_PERF_ITRACE_START:
        case SPEX_PERF_SWITCH_CPU_WIDE:
            printf(" thread=%d/%d", e.u.thread.pid, e.u.thread.tid);
            break;
        case SPEX_PERF_LOST:
        case SPEX_PERF_LOST_SAMPLES:
            printf(" lost=%" PRIu64, e.u.lost.lost);
            break;
        case SPEX_PERF_AUXTRACE:
            printf(" size=%#" PRIx64 " offset=%#" PRIx64 " ref=%#" PRIx64
                   " idx=%u tid=%d cpu=%d there=%#" PRIx64,
                   e.u.auxtrace.size, e.u.auxtrace.offset, e.u.auxtrace.reference, e.u.auxtrace.idx,
                   e.u.auxtrace.tid, e.u.auxtrace.cpu, e.u.auxtrace.available);
            break;
        default:
            break;
        }
        putchar('\n');
    }
}

static void runs(struct spex_perfdata *file, size_t item)
{
    for (size_t q = 0; q < spex_perfdata_queue_count(file); q++) {
        const struct spex_perf_queue *queue = spex_perfdata_queue(file, q);
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        bool open = false;
        if (spex_aux_open(file, q, &cursor) != SPEX_OK)
            abort();
        while (spex_aux_next(cursor, &span) == SPEX_OK) {
            size_t use = span.last ? span.size : span.size / item * item;
            if (!span.contiguous) {
                printf("%scpu=%d tid=%d idx=%u offset=%#" PRIx64 " ", open ? "\n" : "", queue->cpu,
                       queue->tid, queue->idx, span.offset);
                open = true;
            }
            hex(span.data, use);
            if (span.last)
                printf(" flags=%#x", span.flags);
            spex_aux_keep(cursor, span.size - use);
        }
        if (open)
            putchar('\n');
        spex_aux_close(cursor);
    }
}

static uint64_t canonical(uint64_t payload)
{
    uint64_t address = spex_address_bits(payload);
    return spex_address_el(payload) ? address | UINT64_C(0xff) << 56 : address;
}

static void print_record(struct spex_perfdata *file, const struct spex_perf_queue *queue,
                         const struct spex_record *r)
{
    const struct spex_perf_info *i = spex_perfdata_info(file);
    uint64_t time = UINT64_MAX, pc = canonical(r->address[0]);
    int32_t tid = queue->tid, pid = -1;
    if (i->timed)
        time = r->present & SPEX_HAS_TIMESTAMP ? spex_perf_time_to_ns(&i->time, r->timestamp)
                                               : spex_perf_time_to_ns(&i->time, 0);
    if (r->present & SPEX_HAS_CONTEXT_EL1)
        tid = (int32_t)r->context[0];
    else if (r->present & SPEX_HAS_CONTEXT_EL2)
        tid = (int32_t)r->context[1];
    else
        spex_perfdata_running(file, queue->cpu, time, &pid, &tid);
    if (spex_perfdata_pid(file, tid, time) >= 0)
        pid = spex_perfdata_pid(file, tid, time);
    const char *comm = spex_perfdata_comm(file, tid, time);
    const struct spex_perf_map *map = spex_perfdata_map(file, pid, pc, time);
    printf("cpu=%d pid=%d tid=%d time=%" PRIu64 " comm=%s pc=%#" PRIx64, queue->cpu, pid, tid, time,
           comm ? comm : "?", pc);
    printf(" target=%#" PRIx64 " va=%#" PRIx64 " pa=%#" PRIx64, canonical(r->address[1]),
           r->address[2], spex_address_bits(r->address[3]));
    printf(" events=%#" PRIx64 " latency=%u source=%u data_src=%#" PRIx64, r->events, r->total,
           r->data_source,
           spex_source_perf(spex_perfdata_midr(file, queue->cpu), r, 0, SPEX_PERF_RULES_6_1));
    if (map)
        printf(" map=%s+%#" PRIx64, map->filename, pc - map->start + map->pgoff);
    putchar('\n');
}

static void records(struct spex_perfdata *file)
{
    for (size_t q = 0; q < spex_perfdata_queue_count(file); q++) {
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        if (spex_aux_open(file, q, &cursor) != SPEX_OK)
            abort();
        while (spex_aux_next(cursor, &span) == SPEX_OK) {
            struct spex_reader reader;
            struct spex_record record;
            struct spex_damage damage;
            enum spex_status status;
            reader_whole(&reader, span.data, span.size, span.offset);
            while ((status = spex_reader_next(&reader, &record, &damage)) != SPEX_END) {
                /* Near the end of a span only what follows can tell damage from a cut. */
                uint64_t rest = span.offset + span.size - damage.offset;
                if (status == SPEX_OK)
                    print_record(file, spex_perfdata_queue(file, q), &record);
                else if (!span.last && rest <= SPEX_RECORD_MAX) {
                    spex_aux_keep(cursor, rest);
                    break;
                } else
                    printf("damage offset=%#" PRIx64 " size=%" PRIu64 " %s\n", damage.offset,
                           damage.size, damage.reason);
            }
        }
        spex_aux_close(cursor);
    }
}

/* ---- writing ---- */

static size_t unhex(const char *text, uint8_t *bytes)
{
    size_t n = 0;
    unsigned byte;
    for (; sscanf(text, "%2x", &byte) == 1; text += 2)
        bytes[n++] = (uint8_t)byte;
    return n;
}

static bool set_option(struct spex_perf_writer_options *o, const char *name, const char *value)
{
    uint64_t n = strtoull(value, NULL, 0);
    static const char *cmdline[3];
    static char hostname[64], command[64];
    if (!strcmp(name, "metadata"))
        o->metadata = (unsigned)n;
    else if (!strcmp(name, "cpus"))
        o->cpus = (uint32_t)n;
    else if (!strcmp(name, "node_cpus"))
        o->node_cpus = (uint32_t)n;
    else if (!strcmp(name, "per_thread"))
        o->per_thread = n;
    else if (!strcmp(name, "untimed"))
        o->untimed = n;
    else if (!strcmp(name, "phys_addr"))
        o->phys_addr = n;
    else if (!strcmp(name, "midr"))
        o->midr = n;
    else if (!strcmp(name, "period"))
        o->period = n;
    else if (!strcmp(name, "hz"))
        spex_perf_time_init(&o->time, n);
    else if (!strcmp(name, "zero"))
        o->time.zero = n;
    else if (!strcmp(name, "min_interval"))
        o->min_interval = n;
    else if (!strcmp(name, "event_filter"))
        o->event_filter = n;
    else if (!strcmp(name, "hostname")) {
        snprintf(hostname, sizeof hostname, "%.63s", value);
        o->hostname = hostname;
    } else if (!strcmp(name, "command")) {
        cmdline[0] = "spex";
        snprintf(command, sizeof command, "%.63s", value);
        cmdline[1] = command;
        o->cmdline = cmdline;
    } else if (!strcmp(name, "terms")) {
        struct spex_perf_terms terms;
        if (spex_perf_terms_parse(value, &terms, NULL) != SPEX_OK)
            return false;
        memcpy(o->config, terms.config, sizeof o->config);
        o->exclude_user = terms.exclude_user;
        o->exclude_kernel = terms.exclude_kernel;
    } else
        return false;
    return true;
}

/*
 * option NAME VALUE | open | comm PID TID NAME EXEC TIME | fork PID TID PPID PTID TIME |
 * exit ... | map PID TID START END PGOFF PROT DATA BUILDID|- TIME NAME |
 * switch CPU PPID PTID NPID NTID TIME | start CPU PID TID TIME | lost CPU N TIME |
 * aux CPU PID TID FLAGS TIME HEX | die
 */
static bool write_line(char *line, const char *path, struct spex_perf_writer_options *options,
                       struct spex_perf_writer **writer)
{
    char verb[16], name[4096], value[4096], *bytes;
    long a[6];
    int used = 0;
    uint64_t time;
    struct spex_error error;
    if (sscanf(line, "%15s%n", verb, &used) != 1)
        return true;
    line += used;
    if (!strcmp(verb, "option"))
        return sscanf(line, "%4095s %4095s", name, value) == 2 && set_option(options, name, value);
    if (!strcmp(verb, "open"))
        return spex_perf_writer_open(path, options, writer, &error) == SPEX_OK;
    if (!strcmp(verb, "comm") &&
        sscanf(line, "%ld %ld %4095s %ld %" SCNu64, &a[0], &a[1], name, &a[2], &time) == 5)
        spex_perf_writer_comm(*writer, (int32_t)a[0], (int32_t)a[1], name, a[2], time);
    else if ((!strcmp(verb, "fork") || !strcmp(verb, "exit")) &&
             sscanf(line, "%ld %ld %ld %ld %" SCNu64, &a[0], &a[1], &a[2], &a[3], &time) == 5)
        (*verb == 'f' ? spex_perf_writer_fork : spex_perf_writer_exit)(
            *writer, (int32_t)a[0], (int32_t)a[1], (int32_t)a[2], (int32_t)a[3], time);
    else if (!strcmp(verb, "map")) {
        struct spex_perf_map map = {.flags = 2};
        int data;
        if (sscanf(line,
                   "%" SCNd32 " %" SCNd32 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNu32
                   " %d %4095s %" SCNu64 " %4095s",
                   &map.pid, &map.tid, &map.start, &map.end, &map.pgoff, &map.prot, &data, value,
                   &map.time, name) != 10)
            return false;
        map.data = data;
        map.filename = name;
        if (value[0] != '-')
            map.build_id_size = (uint8_t)unhex(value, map.build_id);
        spex_perf_writer_map(*writer, &map);
    } else if (!strcmp(verb, "switch") && sscanf(line, "%ld %ld %ld %ld %ld %" SCNu64, &a[0], &a[1],
                                                 &a[2], &a[3], &a[4], &time) == 6)
        spex_perf_writer_switch(*writer, (int32_t)a[0], (int32_t)a[1], (int32_t)a[2], (int32_t)a[3],
                                (int32_t)a[4], time);
    else if (!strcmp(verb, "start") &&
             sscanf(line, "%ld %ld %ld %" SCNu64, &a[0], &a[1], &a[2], &time) == 4)
        spex_perf_writer_itrace_start(*writer, (int32_t)a[0], (int32_t)a[1], (int32_t)a[2], time);
    else if (!strcmp(verb, "lost") && sscanf(line, "%ld %ld %" SCNu64, &a[0], &a[1], &time) == 3)
        spex_perf_writer_lost(*writer, (int32_t)a[0], (uint64_t)a[1], time);
    else if (!strcmp(verb, "aux") && sscanf(line, "%ld %ld %ld %ld %" SCNu64 " %n", &a[0], &a[1],
                                            &a[2], &a[3], &time, &used) == 5) {
        bytes = malloc(strlen(line + used) / 2 + 1);
        size_t size = unhex(line + used, (uint8_t *)bytes);
        spex_perf_writer_aux(*writer, (int32_t)a[0], (int32_t)a[1], (int32_t)a[2], bytes, size,
                             (uint32_t)a[3], time);
        free(bytes);
    } else if (!strcmp(verb, "die"))
        _exit(0);
    else
        return false;
    return true;
}

static int write_file(const char *path)
{
    struct spex_perf_writer_options options = {.size = sizeof options, .cpus = 1, .period = 4096};
    struct spex_perf_writer *writer = NULL;
    struct spex_error error;
    char *line = NULL;
    size_t capacity = 0;
    spex_perf_time_init(&options.time, 1000000000);
    while (getline(&line, &capacity, stdin) > 0)
        if (!write_line(line, path, &options, &writer)) {
            fprintf(stderr, "bad line: %s", line);
            return 2;
        }
    free(line);
    if (spex_perf_writer_finish(writer, &error) != SPEX_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct spex_perfdata *file;
    struct spex_error error;
    if (argc < 3)
        return 2;
    if (!strcmp(argv[1], "write"))
        return write_file(argv[2]);
    if (spex_perfdata_open(argv[2], &file, &error) != SPEX_OK) {
        printf("error %s offset=%#" PRIx64 " %s\n", spex_status_name(error.status), error.offset,
               error.text);
        return 1;
    }
    if (!strcmp(argv[1], "info"))
        info(file);
    else if (!strcmp(argv[1], "events"))
        events(file);
    else if (!strcmp(argv[1], "runs"))
        runs(file, argc > 3 ? strtoul(argv[3], NULL, 0) : 1);
    else if (!strcmp(argv[1], "records"))
        records(file);
    problems(file);
    spex_perfdata_close(file);
    return 0;
}
