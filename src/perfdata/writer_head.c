/* Everything but the records: header, attributes, feature sections, SPE metadata. */
#include "writing.h"

#include "elapsed.h"
#include "callchain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PMU = 12 };
enum { ID_SPE = 1, ID_DUMMY = 2 }; /* CALLCHAIN_ID and others follow: attribute i has i + 1 */

static uint64_t id_count(const struct spex_perf_writer *w)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < w->attr_count; i++)
        n += w->attrs[i].id_count;
    return n;
}

enum {
    DISABLED = 1 << 0,
    INHERIT = 1 << 1,
    EXCLUDE_USER = 1 << 4,
    EXCLUDE_KERNEL = 1 << 5,
    MMAP = 1 << 8,
    COMM = 1 << 9,
    TASK = 1 << 13,
    SAMPLE_ID_ALL = 1 << 18,
    MMAP2 = 1 << 23,
    COMM_EXEC = 1 << 24,
    CONTEXT_SWITCH = 1 << 26,
    HARDWARE = 0,
    INSTRUCTIONS = 1, /* config of a hardware event */
    SOFTWARE = 1,
    CPU_CLOCK = 0, /* configs of a software event */
    DUMMY = 9,
    PA_ENABLE = 2, /* bit of config */
};

/* The events whose samples spex makes itself. type: what all samples have. */
static void make_beside(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                        uint64_t type)
{
    static const struct {
        uint64_t id, parts;
        const char *name;
    } beside[] = {
        {CALLCHAIN_ID, SPEX_PERF_SAMPLE_CALLCHAIN, CALLCHAIN_EVENT ":u"},
        {ALLOCATION_ID,
         SPEX_PERF_SAMPLE_CALLCHAIN | SPEX_PERF_SAMPLE_ADDR | SPEX_PERF_SAMPLE_PERIOD |
             SPEX_PERF_SAMPLE_WEIGHT,
         ALLOCATION_EVENT ":u"},
        {ELAPSED_ID,
         SPEX_PERF_SAMPLE_CALLCHAIN | SPEX_PERF_SAMPLE_ADDR | SPEX_PERF_SAMPLE_PERIOD |
             SPEX_PERF_SAMPLE_WEIGHT,
         ELAPSED_EVENT ":u"},
    };
    const bool wanted[] = {o->stacks, o->allocs, o->elapsed};
    for (unsigned i = 0; i < sizeof wanted; i++) {
        if (!wanted[i] || o->per_thread || o->untimed)
            continue;
        w->attrs[w->attr_count].own = beside[i].id;
        w->attrs[w->attr_count].name = beside[i].name;
        w->stacks = true;
        uint8_t *a = w->attrs[w->attr_count++].bytes;
        /* a hardware event with the period of the SPE event; elapsed time is in nanoseconds */
        const bool clock = beside[i].id == ELAPSED_ID;
        put_le32(a, clock ? SOFTWARE : HARDWARE);
        put_le32(a + 4, ATTR_SIZE);
        put_le64(a + 8, clock ? CPU_CLOCK : INSTRUCTIONS);
        put_le64(a + 16, clock ? 1 : o->period);
        put_le64(a + 24, type | beside[i].parts);
        put_le64(a + 40, DISABLED | INHERIT | EXCLUDE_KERNEL | SAMPLE_ID_ALL);
    }
}

void writing_make_attrs(struct spex_perf_writer *w, const struct spex_perf_writer_options *o)
{
    uint64_t type = SPEX_PERF_SAMPLE_IP | SPEX_PERF_SAMPLE_TID | SPEX_PERF_SAMPLE_IDENTIFIER;
    if (!o->untimed)
        type |= SPEX_PERF_SAMPLE_TIME;
    if (!o->per_thread)
        type |= SPEX_PERF_SAMPLE_CPU;
    uint8_t *a = w->attrs[0].bytes;
    put_le32(a, o->pmu_type ? o->pmu_type : DEFAULT_PMU);
    put_le32(a + 4, ATTR_SIZE);
    put_le64(a + 8, o->config[0]);
    put_le64(a + 16, o->period);
    put_le64(a + 24,
             type | SPEX_PERF_SAMPLE_DATA_SRC |
                 (o->phys_addr || o->config[0] & PA_ENABLE ? SPEX_PERF_SAMPLE_PHYS_ADDR : 0));
    put_le64(a + 40, DISABLED | INHERIT | SAMPLE_ID_ALL | (o->exclude_user ? EXCLUDE_USER : 0) |
                         (o->exclude_kernel ? EXCLUDE_KERNEL : 0));
    put_le64(a + 56, o->config[1]);
    put_le64(a + 64, o->config[2]);
    /* config3 and config4 do not fit into ATTR_SIZE: the event's name has them. */
    a = w->attrs[1].bytes;
    put_le32(a, SOFTWARE);
    put_le32(a + 4, ATTR_SIZE);
    put_le64(a + 8, DUMMY);
    put_le64(a + 16, 1);
    put_le64(a + 24, type);
    put_le64(a + 40, DISABLED | INHERIT | EXCLUDE_KERNEL | MMAP | COMM | TASK | SAMPLE_ID_ALL |
                         MMAP2 | COMM_EXEC | (o->per_thread ? 0 : CONTEXT_SWITCH));
    w->attrs[1].name = "dummy:u";
    w->attr_count = 2;
    w->id_spe = ID_SPE;
    w->id_tracking = ID_DUMMY;
    w->attrs[0].own = ID_SPE;
    w->attrs[1].own = ID_DUMMY;
    make_beside(w, o, type);
}

void writing_take_attrs(struct spex_perf_writer *w, const struct perf_writer_machine *m)
{
    w->attr_count = (unsigned)m->event_count;
    for (size_t i = 0; i < m->event_count; i++) {
        const struct perf_writer_event *e = &m->events[i];
        w->attrs[i] = (struct writer_attr){.name = e->name, .ids = e->ids, .id_count = e->id_count};
        memcpy(w->attrs[i].bytes, e->attr, ATTR_SIZE);
        put_le32(w->attrs[i].bytes + 4, ATTR_SIZE);
    }
    w->id_spe = m->events[0].ids[0];
    w->id_tracking = m->events[m->tracking].ids[0];
}

static struct bytes *start_feature(struct spex_perf_writer *w, unsigned feature)
{
    w->has_feature[feature] = true;
    return &w->features[feature];
}

static void text_feature(struct spex_perf_writer *w, unsigned feature, const char *text)
{
    if (text)
        put_string(start_feature(w, feature), text);
}

/* perf stores the size of a bitmap before it, twice. */
static void put_bitmap(struct bytes *b, const uint64_t *words, size_t count)
{
    uint64_t bits = 64 * count;
    while (bits && !(words[(bits - 1) / 64] >> (bits - 1) % 64 & 1))
        bits--;
    put64(b, bits);
    put64(b, bits);
    for (size_t i = 0; i < (bits + 63) / 64; i++)
        put64(b, words[i]);
}

/* c2c asks MEM_TOPOLOGY for the node of physical addresses and complains if it is missing. */
static void nodes_features(struct spex_perf_writer *w, const struct perf_writer_machine *m)
{
    struct bytes *b = start_feature(w, FEATURE_NUMA_TOPOLOGY);
    put32(b, (uint32_t)m->node_count);
    for (size_t i = 0; i < m->node_count; i++) {
        put32(b, m->nodes[i].node);
        put64(b, m->nodes[i].total_kb);
        put64(b, m->nodes[i].free_kb);
        put_string(b, m->nodes[i].cpus);
    }
    if (!m->block_size)
        return;
    b = start_feature(w, FEATURE_MEM_TOPOLOGY);
    put64(b, 1); /* version */
    put64(b, m->block_size);
    put64(b, m->node_count);
    for (size_t i = 0; i < m->node_count; i++) {
        put64(b, m->nodes[i].node);
        put_bitmap(b, m->nodes[i].blocks, m->nodes[i].word_count);
    }
}

static void one_node_features(struct spex_perf_writer *w, uint64_t memory, uint32_t cpus)
{
    enum { BLOCK_KB = 128 << 10 };
    char text[32];
    struct bytes *b = start_feature(w, FEATURE_NUMA_TOPOLOGY);
    put32(b, 1);
    put32(b, 0);
    put64(b, memory);
    put64(b, memory);
    snprintf(text, sizeof text, cpus > 1 ? "0-%u" : "0", cpus - 1);
    put_string(b, text);
    uint64_t blocks = (memory + BLOCK_KB - 1) / BLOCK_KB;
    b = start_feature(w, FEATURE_MEM_TOPOLOGY);
    put64(b, 1); /* version */
    put64(b, (uint64_t)BLOCK_KB << 10);
    put64(b, 1); /* nodes */
    put64(b, 0); /* number of the node */
    put64(b, blocks);
    put64(b, blocks); /* repeated: it begins the bitmap */
    for (uint64_t i = 0; i < blocks; i += 64)
        put64(b, blocks - i >= 64 ? ~UINT64_C(0) : BIT(blocks - i) - 1);
}

/*
 * CPUs 0 to cpus - 1 that belong to `node` of two, where groups of `group` CPUs alternate;
 * 0: no groups.
 */
static void put_cpu_list(struct bytes *b, uint32_t cpus, uint32_t group, uint32_t node)
{
    const size_t room = group ? 24 * ((size_t)cpus / group + 1) : 24;
    char *list = memory_new(room);
    size_t n = 0;
    if (!list) {
        b->failed = true;
        return;
    }
    list[0] = 0;
    const uint32_t step = group ? group : cpus;
    for (uint64_t first = (uint64_t)step * node; first < cpus; first += 2 * (uint64_t)step) {
        uint64_t last = first + step < cpus ? first + step - 1 : cpus - 1;
        n += (size_t)snprintf(list + n, room - n, last > first ? "%s%u-%u" : "%s%u", n ? "," : "",
                              (unsigned)first, (unsigned)last);
    }
    put_string(b, list);
    memory_free(list);
}

/* A node is one socket with one die; a core has one thread. */
static void topology_feature(struct spex_perf_writer *w, uint32_t cpus, uint32_t group)
{
    const uint32_t sockets = group && group < cpus ? 2 : 1;
    struct bytes *b = start_feature(w, FEATURE_CPU_TOPOLOGY);
    put32(b, sockets);
    for (uint32_t i = 0; i < sockets; i++)
        put_cpu_list(b, cpus, group, i);
    put32(b, cpus);
    for (uint32_t i = 0; i < cpus; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        put_string(b, text);
    }
    for (uint32_t i = 0; i < cpus; i++) {
        put32(b, i);
        put32(b, group ? i / group % 2 : 0);
    }
    put32(b, sockets);
    for (uint32_t i = 0; i < sockets; i++)
        put_cpu_list(b, cpus, group, i);
    for (uint32_t i = 0; i < cpus; i++)
        put32(b, 0);
}

static void pmus_feature(struct spex_perf_writer *w, uint32_t spe)
{
    struct bytes *b = start_feature(w, FEATURE_PMU_MAPPINGS);
    put32(b, 2);
    put32(b, SOFTWARE);
    put_string(b, "software");
    put32(b, spe);
    put_string(b, "arm_spe_0");
}

/* Groups of CPUs alternate between two nodes; each has half of the memory. */
static void two_nodes_features(struct spex_perf_writer *w, uint64_t memory, uint32_t cpus,
                               uint32_t group)
{
    const size_t room = 24 * ((size_t)cpus / group + 1), words = 64;
    char *lists = memory_new(2 * room);
    uint64_t blocks[2][64] = {{0}};
    if (!lists) {
        start_feature(w, FEATURE_NUMA_TOPOLOGY)->failed = true;
        return;
    }
    lists[0] = lists[room] = 0;
    for (uint32_t cpu = 0; cpu < cpus; cpu += group) {
        char *list = lists + cpu / group % 2 * room;
        size_t n = strlen(list);
        uint32_t last = group < cpus - cpu ? cpu + group - 1 : cpus - 1;
        snprintf(list + n, room - n, last > cpu ? "%s%u-%u" : "%s%u", n ? "," : "", cpu, last);
    }
    /* block size for which the bitmap suffices */
    const uint64_t bits = 64 * words,
                   size = (((memory << 10) + bits - 1) / bits + 4095) & ~UINT64_C(4095);
    for (uint64_t at = 0; at < memory << 10; at += size) {
        uint64_t block = at / size;
        blocks[at >= memory << 9][block / 64] |= BIT(block % 64);
    }
    struct perf_writer_node nodes[2] = {
        {0, memory / 2, memory / 2, lists, blocks[0], words},
        {1, memory / 2, memory / 2, lists + room, blocks[1], words}};
    nodes_features(
        w, &(struct perf_writer_machine){.nodes = nodes, .node_count = 2, .block_size = size});
    memory_free(lists);
}

void writing_make_features(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                           const struct perf_writer_machine *machine)
{
    uint64_t memory = o->memory_kb ? o->memory_kb : 4 << 20;
    uint32_t cpus = o->cpus ? o->cpus : 1;
    uint64_t midr = o->midrs ? o->midrs[0] : o->midr;
    char text[512], event[640];
    struct bytes *b;

    text_feature(w, FEATURE_HOSTNAME, o->hostname);
    text_feature(w, FEATURE_OSRELEASE, o->osrelease);
    text_feature(w, FEATURE_VERSION, o->version);
    text_feature(w, FEATURE_ARCH, o->arch ? o->arch : "aarch64");
    b = start_feature(w, FEATURE_NRCPUS);
    put32(b, cpus);
    put32(b, cpus);
    text_feature(w, FEATURE_CPUDESC, o->cpudesc);
    snprintf(text, sizeof text, "0x%016llx", (unsigned long long)midr);
    text_feature(w, FEATURE_CPUID, text);
    put64(start_feature(w, FEATURE_TOTAL_MEM), memory);
    if (o->cmdline && o->cmdline[0]) {
        uint32_t count = 0;
        while (o->cmdline[count])
            count++;
        b = start_feature(w, FEATURE_CMDLINE);
        put32(b, count);
        for (uint32_t i = 0; i < count; i++)
            put_string(b, o->cmdline[i]);
    }
    spex_perf_terms_text(o->config, text, sizeof text);
    snprintf(event, sizeof event, "arm_spe_0/%s/%s", text,
             o->exclude_kernel ? "u"
             : o->exclude_user ? "k"
                               : "");
    b = start_feature(w, FEATURE_EVENT_DESC);
    put32(b, w->attr_count);
    put32(b, ATTR_SIZE);
    for (unsigned i = 0; i < w->attr_count; i++) {
        const struct writer_attr *a = &w->attrs[i];
        put_bytes(b, a->bytes, ATTR_SIZE);
        put32(b, (uint32_t)a->id_count);
        put_string(b, a->name ? a->name : o->event ? o->event : event);
        for (size_t k = 0; k < a->id_count; k++)
            put64(b, a->ids[k]);
    }
    if (machine && machine->node_count)
        nodes_features(w, machine);
    else if (o->node_cpus)
        two_nodes_features(w, memory, cpus, o->node_cpus);
    else
        one_node_features(w, memory, cpus);
    if (machine)
        return;
    topology_feature(w, cpus, o->node_cpus);
    pmus_feature(w, o->pmu_type ? o->pmu_type : DEFAULT_PMU);
}

void writing_header(struct spex_perf_writer *w, uint64_t data_size, bool finished)
{
    uint8_t h[FILE_HEADER_SIZE] = {0};
    uint64_t attrs = FILE_HEADER_SIZE + 8 * id_count(w);
    memcpy(h, "PERFILE2", 8);
    put_le64(h + 8, FILE_HEADER_SIZE);
    put_le64(h + 16, ATTR_SIZE + 16);
    put_le64(h + 24, attrs);
    put_le64(h + 32, w->attr_count * (ATTR_SIZE + 16));
    put_le64(h + 40, w->data_offset);
    put_le64(h + 48, data_size);
    for (unsigned i = 0; finished && i < FEATURE_BITS; i++)
        if (w->has_feature[i])
            h[72 + i / 8] |= (uint8_t)(1 << i % 8);
    writing_patch(w, h, sizeof h, 0);
}

static void write_auxtrace_info(struct spex_perf_writer *w,
                                const struct spex_perf_writer_options *o,
                                const struct spex_perf_cpu *cpus)
{
    struct bytes *b = writing_begin(w, SPEX_PERF_AUXTRACE_INFO, 0);
    put32(b, SPEX_PERF_AUXTRACE_ARM_SPE);
    put32(b, 0);
    uint32_t pmu = o->pmu_type ? o->pmu_type : DEFAULT_PMU;
    if (o->metadata == 2) {
        uint32_t count = o->cpus ? o->cpus : 1;
        put64(b, 2);
        put64(b, 4);
        put64(b, pmu);
        put64(b, count);
        for (uint32_t i = 0; i < count; i++) {
            put64(b, UINT64_C(0x1010101010101010));
            put64(b, cpus ? cpus[i].cpu : i);
            put64(b, 4);
            put64(b, cpus ? cpus[i].midr : o->midrs ? o->midrs[i] : o->midr);
            put64(b, cpus ? cpus[i].pmu_type : pmu);
            put64(b, cpus ? cpus[i].min_interval : o->min_interval);
            put64(b, cpus ? cpus[i].event_filter : o->event_filter);
        }
    } else {
        put64(b, pmu);
        put64(b, !o->per_thread);
    }
    writing_end(w);
}

void writing_start(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                   const struct spex_perf_cpu *cpus)
{
    struct bytes *b = &w->record;
    uint8_t word[8];
    if (w->pipe) {
        writing_emit(w, "PERFILE2", 8);
        put_le64(word, PIPE_HEADER_SIZE);
        writing_emit(w, word, 8);
        w->data_offset = w->position;
        for (unsigned i = 0; i < w->attr_count; i++) {
            b = writing_begin(w, SPEX_PERF_HEADER_ATTR, 0);
            put_bytes(b, w->attrs[i].bytes, ATTR_SIZE);
            for (size_t k = 0; k < w->attrs[i].id_count; k++)
                put64(b, w->attrs[i].ids[k]);
            writing_end(w);
        }
    } else {
        static const uint8_t header[FILE_HEADER_SIZE];
        writing_emit(w, header, sizeof header);
        for (unsigned i = 0; i < w->attr_count; i++)
            for (size_t k = 0; k < w->attrs[i].id_count; k++) {
                put_le64(word, w->attrs[i].ids[k]);
                writing_emit(w, word, 8);
            }
        uint64_t ids = FILE_HEADER_SIZE;
        for (unsigned i = 0; i < w->attr_count; i++) {
            uint8_t section[16];
            put_le64(section, ids);
            put_le64(section + 8, 8 * w->attrs[i].id_count);
            ids += 8 * w->attrs[i].id_count;
            writing_emit(w, w->attrs[i].bytes, ATTR_SIZE);
            writing_emit(w, section, sizeof section);
        }
        w->data_offset = w->position;
    }
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        /*
         * perf rejects a second MEM_TOPOLOGY; other features may come twice. Lists of CPUs may
         * grow until the file is finished.
         */
        bool late = i == FEATURE_MEM_TOPOLOGY || i == FEATURE_CPU_TOPOLOGY ||
                    (i == FEATURE_NUMA_TOPOLOGY && o->node_cpus);
        if (!w->has_feature[i] || (late && !w->pipe))
            continue;
        /* e.g. a long command line: only at the end */
        if (w->features[i].vec.count > RECORD_MAX - 24)
            continue;
        b = writing_begin(w, SPEX_PERF_FEATURE, 0);
        put64(b, i);
        put_bytes(b, w->features[i].vec.items, w->features[i].vec.count);
        put_zeros(b, -b->vec.count & 7);
        writing_end(w);
    }
    /* If TIME_CONV came later than this, perf would divide by zero and crash. */
    b = writing_begin(w, SPEX_PERF_TIME_CONV, 0);
    put64(b, o->time.shift);
    put64(b, o->time.mult);
    put64(b, o->time.zero);
    put64(b, o->time.cycles);
    put64(b, o->time.mask);
    put_bytes(b, (uint8_t[8]){o->time.cap_zero, o->time.cap_short}, 8);
    writing_end(w);
    write_auxtrace_info(w, o, cpus);
}

void writing_finish_features(struct spex_perf_writer *w)
{
    enum { MISC_SIZE = 1 << 15 };
    struct bytes *b = start_feature(w, FEATURE_AUXTRACE);
    put64(b, w->index.count);
    for (size_t i = 0; i < w->index.count; i++) {
        put64(b, w->index.items[i].offset);
        put64(b, w->index.items[i].size);
    }
    if (w->first_time) {
        b = start_feature(w, FEATURE_SAMPLE_TIME);
        put64(b, w->first_time);
        put64(b, w->last_time);
    }
    for (size_t i = 0; i < w->build_ids.count; i++) {
        const struct build_id *id = &w->build_ids.items[i];
        bool kernel = id->filename[0] == '[' && !strncmp(id->filename, "[kernel", 7);
        unsigned misc = kernel ? SPEX_PERF_CPUMODE_KERNEL : SPEX_PERF_CPUMODE_USER;
        size_t name = (strlen(id->filename) + NAME_ALIGN) & ~(size_t)(NAME_ALIGN - 1);
        if (name > RECORD_MAX - 36)
            continue;
        b = start_feature(w, FEATURE_BUILD_ID);
        put32(b, 0); /* type, unused here */
        put16(b, (uint16_t)(misc | MISC_SIZE));
        put16(b, (uint16_t)(36 + name));
        put32(b, UINT32_MAX); /* pid: the host */
        put_bytes(b, id->bytes, 20);
        put32(b, id->size);
        put_aligned(b, id->filename, NAME_ALIGN);
    }
}

void writing_sections(struct spex_perf_writer *w)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        count += w->has_feature[i];
    uint64_t offset = w->position + 16 * count;
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        uint8_t section[16];
        if (!w->has_feature[i])
            continue;
        if (w->features[i].failed)
            w->error = ENOMEM;
        put_le64(section, offset);
        put_le64(section + 8, w->features[i].vec.count);
        writing_emit(w, section, sizeof section);
        offset += w->features[i].vec.count;
    }
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        if (w->has_feature[i])
            writing_emit(w, w->features[i].vec.items, w->features[i].vec.count);
    writing_flush(w);
}
