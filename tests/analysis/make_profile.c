/*
 * Makes perf.data files with known contents for tests and benchmarks.
 *
 *     make_profile SCENARIO OUT PROG COUNT [SEED]
 *
 * PROG is recorded as /usr/bin/prog. Scenarios, all with threads 100 and 101 on CPUs 0 and 1:
 *   mixed      every kind of operation in every function, some in the kernel
 *   false      threads write different words of one cache line
 *   true       threads write the same word
 *   padded     threads write words of different lines
 *   objects    threads write two words each of objects of 16 bytes in one line
 *   lock       threads take a lock, an atomic operation, and give it back, a store
 *   counter    threads add to the same word, atomically
 *   phased     as false, but one thread after the other
 *   readonly   threads read different words of one line
 *   private    each thread has data of its own, many lines
 *   branches   pick() mispredicts, the rest does not
 * and with "-nosource" after the name: a CPU without Data Source packets and
 * without snoop events; "-untimed": no timestamps; "-nocontext": no context
 * packets, switch events instead; "-loss": the file says that data was lost;
 * "-n1": no previous branch targets, which an N1 does not have; "-shm": the second
 * thread is process 200 and maps the data elsewhere, "-twin": at the same address;
 * "-pa": physical addresses;
 * "-nodes": each CPU is a NUMA node, with every second page; "-near": walk() uses 2,048 lines of
 * the heap, whose statistics fit a cache, not a million.
 *
 * "-cpus64": what a server gives, here one with 64 CPUs: queues of unequal length, the longest four
 * times the shortest; on each CPU a thread for a while and then another one, of the program and of
 * 30 others like it, which fork, exec and end all the time: thousands of threads in a long file.
 */
#include <spex/perfdata.h>
#include <spex/record.h>

#include "base/bits.h"
#include "base/rng.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PID = 100, THREADS = 2, CHUNK = 1 << 20 };
enum { CPUS = 192, WORKERS = 32, SLOT = 1 << 12 };
enum { OTHER_PID = 200, OTHER_BASE = 0x7000000 };
enum { SHARED = 0x410000, TABLE = 0x410100, COUNTERS = 0x420000 };
#define HEAP UINT64_C(0x500000)
#define KERNEL UINT64_C(0xffff800008010000)

struct options {
    const char *base; /* scenario without suffixes */
    bool nosource, untimed, nocontext, loss, n1, shm, twin, pa, near, nodes;
    unsigned cpus; /* of a server; 0: not of one */
};

struct stream {
    uint8_t data[CHUNK + SPEX_RECORD_MAX];
    size_t size;
};

static struct rng rng;

static void set_pc(struct spex_record *r, uint64_t pc)
{
    uint64_t el = pc >> 63 ? 1 : 0;
    r->address[SPEX_ADDRESS_PC] = spex_address_bits(pc) | UINT64_C(1) << 63 | el << 61;
    r->present |= SPEX_HAS_PC;
}

static void set_memory(struct spex_record *r, bool store, uint64_t va)
{
    r->op_class = SPEX_CLASS_LDST;
    r->op_payload = store;
    r->address[SPEX_ADDRESS_VA] = spex_address_bits(va);
    r->present |= SPEX_HAS_VA | SPEX_HAS_TRANSLATION;
    r->translation = 1;
    r->events |= BIT(SPEX_EV_L1D_ACCESS) | BIT(SPEX_EV_TLB_ACCESS);
}

/* A load's source: its packet, its events, its latency. */
static void set_source(struct spex_record *r, unsigned source)
{
    r->data_source = (uint16_t)source;
    r->data_source_size = 1;
    r->present |= SPEX_HAS_DATA_SOURCE;
    if (source >= 8)
        r->events |= BIT(SPEX_EV_L1D_MISS);
    if (source >= 0xb)
        r->events |= BIT(SPEX_EV_LLC_ACCESS);
    if (source >= 0xd)
        r->events |= BIT(SPEX_EV_LLC_MISS);
    if (source == 0xd)
        r->events |= BIT(SPEX_EV_REMOTE);
    static const uint16_t base[16] = {4, 4, 4, 4, 4, 4, 4, 4, 13, 90, 40, 60, 110, 300, 180, 4};
    r->total = (uint16_t)(base[source] + rng_below(&rng, base[source]));
}

static void set_branch(struct spex_record *r, uint64_t target, unsigned payload, bool taken,
                       bool mispredicted)
{
    r->op_class = SPEX_CLASS_BRANCH;
    r->op_payload = (uint8_t)payload;
    r->address[SPEX_ADDRESS_TARGET] = spex_address_bits(target) | UINT64_C(1) << 63;
    r->present |= SPEX_HAS_TARGET;
    if (!taken)
        r->events |= BIT(SPEX_EV_NOT_TAKEN);
    if (mispredicted)
        r->events |= BIT(SPEX_EV_MISPREDICT);
    r->total = (uint16_t)(mispredicted ? 12 + rng_below(&rng, 10) : 2 + rng_below(&rng, 3));
}

static void walk_op(const struct options *o, struct spex_record *r)
{
    switch (rng_below(&rng, 4)) {
    case 0:
        set_pc(r, 0x401108);
        r->total = 2;
        break;
    case 1:
        set_pc(r, 0x40110c);
        set_branch(r, 0x401104, 1, true, rng_chance(&rng, 1, 200));
        break;
    default:
        set_pc(r, 0x401104);
        set_memory(r, false, HEAP + (uint64_t)rng_below(&rng, o->near ? 1 << 11 : 1 << 20) * 64);
        set_source(r, rng_chance(&rng, 9, 10) ? 0xe : rng_chance(&rng, 1, 2) ? 0xb : 8);
        if (rng_chance(&rng, 1, 3)) {
            r->events |= BIT(SPEX_EV_TLB_WALK);
            r->translation = (uint16_t)(20 + rng_below(&rng, 60));
        }
    }
}

static void sum_op(struct spex_record *r)
{
    if (rng_chance(&rng, 1, 3)) {
        bool taken = rng_chance(&rng, 99, 100), mispredicted = rng_chance(&rng, 1, 100);
        set_pc(r, 0x401210);
        set_branch(r, 0x401204, 1, taken, mispredicted);
        return;
    }
    set_pc(r, 0x401204);
    set_memory(r, false, TABLE + rng_below(&rng, 1024) * 4);
    set_source(r, rng_chance(&rng, 60, 61) ? 0 : 8);
}

static void pick_op(struct spex_record *r)
{
    switch (rng_below(&rng, 3)) {
    case 0: {
        bool taken = rng_chance(&rng, 1, 2), mispredicted = rng_chance(&rng, 45, 100);
        set_pc(r, 0x401408);
        set_branch(r, taken ? 0x401410 : 0x40140c, 1, taken, mispredicted);
        break;
    }
    case 1: {
        static const uint32_t targets[] = {0x401100, 0x401200, 0x401300};
        uint32_t target = targets[rng_below(&rng, 3)];
        bool mispredicted = rng_chance(&rng, 1, 4);
        set_pc(r, 0x401410);
        set_branch(r, target, 0x0a, true, mispredicted);
        r->address[SPEX_ADDRESS_PREV_TARGET] = 0x401400 | UINT64_C(1) << 63;
        r->present |= SPEX_HAS_PREV_TARGET;
        break;
    }
    default:
        set_pc(r, 0x401400);
        set_memory(r, false, TABLE + rng_below(&rng, 4096));
        set_source(r, 0);
    }
}

static void kernel_op(struct spex_record *r)
{
    if (rng_chance(&rng, 1, 2)) {
        bool store = rng_chance(&rng, 1, 3);
        set_pc(r, KERNEL + 0x1040);
        set_memory(r, store, UINT64_C(0xffff000012340000) + rng_below(&rng, 512) * 8);
        if (!(r->op_payload & 1))
            set_source(r, 0);
        else
            r->total = 3;
    } else {
        set_pc(r, KERNEL + 0x2000 + rng_below(&rng, 64) * 4);
        r->total = (uint16_t)(1 + rng_below(&rng, 6));
    }
}

/* hit(): a lock that is taken (LDADD, acquire) and given back, or a counter. */
static void lock_op(struct spex_record *r, bool given_back)
{
    enum { ATOMIC_ACQUIRE = 0x16 };
    bool store = given_back && rng_chance(&rng, 1, 3);
    set_pc(r, store ? 0x401308 : 0x401318);
    set_memory(r, store, SHARED + 16);
    if (!store) {
        r->op_payload = ATOMIC_ACQUIRE;
        set_source(r, rng_chance(&rng, 4, 5) ? 9 : 0);
    } else {
        r->total = (uint16_t)(3 + rng_below(&rng, 30));
    }
}

/* hit(): load, store or atomic on this thread's word. */
static void hit_op(const struct options *o, struct spex_record *r, unsigned thread)
{
    bool apart = !strcmp(o->base, "padded"), same = !strcmp(o->base, "true");
    uint64_t word = SHARED + (same ? 0 : thread * (apart ? 64u : 8u));
    bool reads = !strcmp(o->base, "readonly");
    if (!strcmp(o->base, "lock") || !strcmp(o->base, "counter")) {
        lock_op(r, o->base[0] == 'l');
        return;
    }
    if (!strcmp(o->base, "objects"))
        word = SHARED + thread * 16u + rng_below(&rng, 2) * 8;
    bool contended = !apart && !reads && strcmp(o->base, "phased");
    bool store = !reads && rng_chance(&rng, 1, 2);
    if (!strcmp(o->base, "private"))
        word = COUNTERS + thread * 4096 + rng_below(&rng, 512) * 8;
    set_pc(r, store ? 0x401308 : 0x401300);
    set_memory(r, store, word);
    if (store)
        r->total = (uint16_t)(contended ? 3 + rng_below(&rng, 30) : 3);
    else
        set_source(r, contended && rng_chance(&rng, 4, 5) ? 9 : 0);
}

static void make(const struct options *o, struct spex_record *r, unsigned thread)
{
    memset(r, 0, sizeof *r);
    r->present = SPEX_HAS_EVENTS | SPEX_HAS_OP | SPEX_HAS_TOTAL | SPEX_HAS_ISSUE;
    r->events = BIT(SPEX_EV_RETIRED);
    r->events_size = 2;
    unsigned dice = rng_below(&rng, 100);
    if (!strcmp(o->base, "mixed")) {
        if (dice < 45)
            walk_op(o, r);
        else if (dice < 70)
            sum_op(r);
        else if (dice < 85)
            pick_op(r);
        else if (dice < 92)
            kernel_op(r);
        else
            hit_op(o, r, thread);
    } else if (!strcmp(o->base, "branches")) {
        if (dice < 60)
            pick_op(r);
        else
            sum_op(r);
    } else if (dice < 60) {
        hit_op(o, r, thread);
    } else if (dice < 90) { /* noise: each thread in its own part of the table */
        set_pc(r, 0x401204);
        set_memory(r, false, TABLE + thread * 2048 + rng_below(&rng, 512) * 4);
        set_source(r, 0);
    } else {
        set_pc(r, 0x401310);
        set_branch(r, 0x401300, 1, true, false);
    }
    r->issue = (uint16_t)(r->total > 3 ? r->total / 4 : r->total ? r->total - 1 : 0);
    if (r->present & SPEX_HAS_VA && o->pa) {
        r->address[SPEX_ADDRESS_PA] = r->address[SPEX_ADDRESS_VA] | UINT64_C(1) << 63;
        r->present |= SPEX_HAS_PA;
    }
    if (r->present & SPEX_HAS_VA && o->nodes) {
        uint64_t home = r->address[SPEX_ADDRESS_VA] >> 12 & 1;
        r->address[SPEX_ADDRESS_PA] |= home << 31;
        if (r->data_source == 0xe && home != thread)
            r->events |= BIT(SPEX_EV_REMOTE);
    }
    if (r->present & SPEX_HAS_VA && o->shm && !o->twin && thread == 1)
        r->address[SPEX_ADDRESS_VA] += OTHER_BASE;
    if (o->n1)
        r->present &= (uint16_t)~SPEX_HAS_PREV_TARGET;
    if (o->nosource) {
        r->present &= (uint16_t)~SPEX_HAS_DATA_SOURCE;
        r->events &= ~(BIT(SPEX_EV_SNOOPED) | BIT(SPEX_EV_MODIFIED));
    }
}

static void map(struct spex_perf_writer *w, uint64_t start, uint64_t size, uint64_t pgoff,
                const char *name, bool data, int32_t pid, uint64_t time)
{
    spex_perf_writer_map(w, &(struct spex_perf_map){.start = start,
                                                    .end = start + size,
                                                    .pgoff = pgoff,
                                                    .pid = pid,
                                                    .tid = pid,
                                                    .prot = data ? 3 : 5,
                                                    .flags = 2,
                                                    .data = data,
                                                    .filename = name,
                                                    .time = time});
}

/* The program's segments as a kernel maps them: by pages; memory after the file is anonymous. */
static void map_program(struct spex_perf_writer *w, const char *path, int32_t pid, uint64_t time)
{
    uint8_t header[64], ph[56]; /* Elf64_Ehdr, Elf64_Phdr: little-endian whatever runs this */
    FILE *f = fopen(path, "rb");
    if (!f || fread(header, sizeof header, 1, f) != 1) {
        perror(path);
        exit(1);
    }
    for (unsigned i = 0; i < le16(header + 56); i++) {
        if (fseek(f, (long)(le64(header + 32) + i * sizeof ph), SEEK_SET) ||
            fread(ph, sizeof ph, 1, f) != 1 || le32(ph) != PT_LOAD)
            continue;
        uint64_t vaddr = le64(ph + 16), filesz = le64(ph + 32), memsz = le64(ph + 40);
        uint64_t low = vaddr & ~UINT64_C(4095);
        uint64_t end = (vaddr + filesz + 4095) & ~UINT64_C(4095);
        map(w, low, end - low, le64(ph + 8) & ~UINT64_C(4095), "/usr/bin/prog",
            !(le32(ph + 4) & PF_X), pid, time);
        uint64_t all = (vaddr + memsz + 4095) & ~UINT64_C(4095);
        if (all > end)
            map(w, end, all - end, 0, "//anon", true, pid, time);
    }
    fclose(f);
}

/* "mixed-loss-n1": the scenario, then what is unusual about it. base is cut to the first word. */
static struct options parse(char *base)
{
    struct options o = {.base = base};
    o.nosource = strstr(base, "-nosource");
    o.untimed = strstr(base, "-untimed");
    o.nocontext = strstr(base, "-nocontext");
    o.loss = strstr(base, "-loss");
    o.n1 = strstr(base, "-n1");
    o.twin = strstr(base, "-twin");
    o.shm = o.twin || strstr(base, "-shm");
    o.pa = strstr(base, "-pa");
    o.near = strstr(base, "-near");
    o.nodes = strstr(base, "-nodes");
    const char *cpus = strstr(base, "-cpus");
    o.cpus = cpus ? (unsigned)strtoul(cpus + 5, NULL, 10) : 0;
    o.cpus = o.cpus < CPUS ? o.cpus : CPUS;
    base[strcspn(base, "-")] = 0;
    return o;
}

static struct spex_perf_writer *open_writer(const struct options *o, const char *path)
{
    struct spex_perf_writer_options wo = {.size = sizeof wo,
                                          .cpus = o->cpus ? o->cpus : THREADS,
                                          .midr = o->nosource ? 0x481fd010 : 0x413fd0c1,
                                          .period = 1024,
                                          .untimed = o->untimed,
                                          .node_cpus = o->nodes};
    struct spex_perf_writer *w;
    struct spex_error error;
    struct spex_perf_terms terms;
    spex_perf_terms_parse(o->untimed ? "jitter=1" : "ts_enable=1,jitter=1", &terms, &error);
    memcpy(wo.config, terms.config, sizeof wo.config);
    spex_perf_time_init(&wo.time, 100000000);
    if (spex_perf_writer_open(path, &wo, &w, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return w;
}

/* Who runs, and what is mapped. */
static void begin(struct spex_perf_writer *w, const struct options *o, const char *program)
{
    map(w, KERNEL, 0x1000000, KERNEL, "[kernel.kallsyms]_text", false, SPEX_PERF_PID_KERNEL, 0);
    spex_perf_writer_comm(w, PID, PID, "prog", true, 1000);
    map_program(w, program, PID, 1500);
    map(w, HEAP, UINT64_C(64) << 20, 0, "[heap]", true, PID, 1500);
    for (int32_t t = 1; t < THREADS; t++)
        spex_perf_writer_fork(w, PID, PID + t, PID, PID, 2000);
    if (o->shm) {
        spex_perf_writer_comm(w, OTHER_PID, OTHER_PID, "other", true, 1000);
        map_program(w, program, OTHER_PID, 1500);
        map(w, SHARED + (o->twin ? 0 : OTHER_BASE), 0x2000, 0,
            o->twin ? "/srv/data" : "/dev/shm/data", true, OTHER_PID, 1500);
    }
    for (int32_t t = 0; t < THREADS; t++) {
        spex_perf_writer_itrace_start(w, t, PID, PID + t, 3000);
        if (o->nocontext)
            spex_perf_writer_switch(w, t, 0, 0, PID, PID + t, 4000);
    }
}

/* ---- a server ---- */

/* A CPU of a server: the thread that runs there, and for how many records yet. */
struct cpu {
    int32_t pid, tid;
    uint32_t left;
};

/* Another thread: of a process that has run before, or of a new one that takes its place. */
static void switch_thread(struct spex_perf_writer *w, const struct options *o, struct cpu *c,
                          int32_t cpu, const char *program, uint64_t now)
{
    static int32_t workers[WORKERS], newest = PID + THREADS;
    const int32_t pid = c->pid, tid = c->tid;
    int32_t *worker = &workers[rng_below(&rng, WORKERS)];
    if (!*worker || rng_chance(&rng, 1, 64)) {
        char name[16];
        if (*worker)
            spex_perf_writer_exit(w, *worker, *worker, PID, PID, now);
        *worker = ++newest;
        snprintf(name, sizeof name, "worker/%d", *worker % 10);
        spex_perf_writer_fork(w, *worker, *worker, PID, PID, now);
        if (rng_chance(&rng, 1, 4)) {
            spex_perf_writer_comm(w, *worker, *worker, name, true, now + 1);
            map_program(w, program, *worker, now + 2);
            map(w, HEAP, UINT64_C(64) << 20, 0, "[heap]", true, *worker, now + 3);
        }
    }
    c->pid = c->tid = *worker;
    if (rng_chance(&rng, 1, 2)) { /* a thread of its own */
        c->tid = ++newest;
        spex_perf_writer_fork(w, c->pid, c->tid, c->pid, c->pid, now + 4);
    }
    c->left = SLOT / 4 + rng_below(&rng, SLOT);
    if (o->nocontext)
        spex_perf_writer_switch(w, cpu, pid, tid, c->pid, c->tid, now + 5);
}

static void encode(const struct spex_record *r, struct stream *s)
{
    size_t length;
    enum spex_layout layout =
        r->present & SPEX_HAS_PREV_TARGET ? SPEX_LAYOUT_COMPACT : SPEX_LAYOUT_N1;
    if (spex_record_encode(r, layout, 6, s->data + s->size, SPEX_RECORD_MAX, &length)) {
        fprintf(stderr, "a record cannot be encoded\n");
        exit(1);
    }
    s->size += length;
}

static void stamp(const struct options *o, struct spex_record *r, uint64_t ticks, int32_t tid)
{
    if (!o->untimed) {
        r->timestamp = ticks;
        r->present |= SPEX_HAS_TIMESTAMP;
    }
    if (!o->nocontext) {
        r->context[0] = (uint32_t)tid;
        r->present |= SPEX_HAS_CONTEXT_EL1;
    }
}

/* Chunk after chunk, as perf writes them: all CPUs in turn; returns the last time. */
static uint64_t serve(struct spex_perf_writer *w, const struct options *o, const char *program,
                      uint64_t count)
{
    const size_t chunk = count > 1000000 ? CHUNK / 4 : CHUNK / 64;
    struct cpu cpus[CPUS] = {{0}};
    static struct stream stream;
    uint64_t ticks[CPUS], last = 0;
    for (unsigned i = 0; i < o->cpus; i++)
        ticks[i] = 1000 + rng_below(&rng, 100);
    for (uint64_t written = 0; written < count;) {
        for (unsigned i = 0; i < o->cpus && written < count; i++) {
            struct cpu *c = &cpus[i];
            const size_t size = chunk / 4 + chunk * 3 / 4 * ((i * 7 + 3) % o->cpus) / o->cpus;
            for (stream.size = 0; stream.size < size && written < count; written++) {
                struct spex_record r;
                if (!c->left--)
                    switch_thread(w, o, c, (int32_t)i, program, ticks[i] * 10);
                make(o, &r, i % THREADS);
                ticks[i] += 1 + rng_below(&rng, 40);
                stamp(o, &r, ticks[i], c->tid);
                encode(&r, &stream);
            }
            spex_perf_writer_aux(w, (int32_t)i, c->pid, c->tid, stream.data, stream.size,
                                 o->loss ? SPEX_PERF_AUX_TRUNCATED : 0, ticks[i] * 10);
            last = ticks[i] > last ? ticks[i] : last;
        }
    }
    return last;
}

/* ---- a small program ---- */

/* Two threads on two CPUs; returns the last time. */
static uint64_t run(struct spex_perf_writer *w, const struct options *o, uint64_t count)
{
    static struct stream streams[THREADS];
    bool phased = !strcmp(o->base, "phased");
    uint64_t ticks = 1000; /* 10 us */
    const uint32_t flags = o->loss ? SPEX_PERF_AUX_TRUNCATED : 0;
    /* many chunks in a small file; in a large one as perf makes them */
    size_t chunk = count > 1000000 ? CHUNK : CHUNK / 16;
    for (uint64_t i = 0; i < count; i++) {
        unsigned thread = phased ? i >= count / 2 : rng_below(&rng, THREADS);
        struct spex_record r;
        struct stream *s = &streams[thread];
        make(o, &r, thread);
        ticks += 1 + rng_below(&rng, 40);
        stamp(o, &r, ticks, o->shm && thread ? OTHER_PID : PID + (int)thread);
        encode(&r, s);
        if (s->size >= chunk) {
            spex_perf_writer_aux(w, (int32_t)thread, PID, PID + (int32_t)thread, s->data, s->size,
                                 flags, ticks * 10);
            s->size = 0;
        }
    }
    for (int32_t t = 0; t < THREADS; t++)
        if (streams[t].size)
            spex_perf_writer_aux(w, t, PID, PID + t, streams[t].data, streams[t].size, flags,
                                 ticks * 10);
    return ticks;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: make_profile SCENARIO OUT PROG COUNT [SEED]\n");
        return 2;
    }
    char base[40];
    snprintf(base, sizeof base, "%s", argv[1]);
    const struct options o = parse(base);
    uint64_t count = strtoull(argv[4], NULL, 0);
    rng.state = argc > 5 ? strtoull(argv[5], NULL, 0) : 1;
    struct spex_perf_writer *w = open_writer(&o, argv[2]);
    struct spex_error error;
    begin(w, &o, argv[3]);
    const uint64_t ticks = o.cpus ? serve(w, &o, argv[3], count) : run(w, &o, count);
    spex_perf_writer_exit(w, PID, PID, 1, 1, ticks * 10 + 1000);
    if (spex_perf_writer_finish(w, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    return 0;
}
