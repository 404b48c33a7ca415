/*
 * Declarations that the parts of the reader share. include/spex/perfdata.h describes the
 * whole.
 */
#ifndef PERFDATA_FILE_H
#define PERFDATA_FILE_H

#include "below.h"
#include <spex/perfdata.h>

#include "base/bits.h"
#include "base/memory.h"
#include "base/vec.h"

enum {
    HEADER_SIZE = 8, /* type u32, misc u16, size u16 */
    RECORD_MAX = 65535,
    FILE_HEADER_SIZE = 104,
    PIPE_HEADER_SIZE = 16,
    FEATURE_BITS = 256,
};

enum feature {
    FEATURE_TRACING_DATA = 1,
    FEATURE_BUILD_ID = 2,
    FEATURE_HOSTNAME = 3,
    FEATURE_OSRELEASE = 4,
    FEATURE_VERSION = 5,
    FEATURE_ARCH = 6,
    FEATURE_NRCPUS = 7,
    FEATURE_CPUDESC = 8,
    FEATURE_CPUID = 9,
    FEATURE_TOTAL_MEM = 10,
    FEATURE_CMDLINE = 11,
    FEATURE_EVENT_DESC = 12,
    FEATURE_CPU_TOPOLOGY = 13,
    FEATURE_NUMA_TOPOLOGY = 14,
    FEATURE_PMU_MAPPINGS = 16,
    FEATURE_AUXTRACE = 18,
    FEATURE_SAMPLE_TIME = 21,
    FEATURE_MEM_TOPOLOGY = 22,
    FEATURE_COMPRESSED = 27,
};

/* ---- strings are interned and live in blocks until the handle is closed ---- */

struct strings {
    VEC(char *) blocks;
    size_t room; /* left in the newest block */
    const char **table;
    size_t slots, used;
};
/* NULL when out of memory. */
const char *perfdata_strings_add(struct strings *strings, const char *text, size_t length);
void perfdata_strings_fini(struct strings *strings);

/* ---- a node's blocks of physical memory ---- */

struct memory_node {
    int node;
    size_t first;  /* word in blocks */
    uint64_t bits; /* a block each */
};

/* ---- walking the records of the data section ---- */

struct raw { /* one record */
    uint32_t type;
    uint16_t misc;
    uint32_t size;
    uint64_t offset;        /* offset in the file */
    const uint8_t *bytes;   /* header included */
    const uint8_t *payload; /* AUXTRACE: the bytes after the record */
    uint64_t payload_size;
    bool inflated; /* came out of a COMPRESSED record */
};

struct inflater;

enum { WALK_WINDOW = 4096 };

struct walk {
    struct spex_perfdata *file;
    uint64_t position, end;
    uint64_t last;    /* offset of the last good record: searches keep its alignment */
    uint64_t dropped; /* pages below this were released */
    bool report;      /* report problems: true in the first pass only */
    bool inflating;   /* records currently come from the inflater's buffer */
    size_t index;     /* next entry of the AUXTRACE index */
    struct inflater *inflater;
    uint64_t window_at; /* offset of the window in the file */
    size_t window_size;
    uint8_t window[WALK_WINDOW]; /* bytes after AUX data */
    uint8_t before[64];          /* the record before that data */
};
void perfdata_walk_init(struct walk *walk, struct spex_perfdata *file, bool report);
void perfdata_walk_fini(struct walk *walk);
void perfdata_walk_seek(struct walk *walk, uint64_t offset);
bool perfdata_walk_next(struct walk *walk, struct raw *raw);

/* Releases resident pages of the file; touching them reads them again. */
void perfdata_drop_pages(const struct spex_perfdata *file, uint64_t from, uint64_t to);
/* Maps many pages at once: one by one, threads would wait for each other. */
void perfdata_need_pages(const struct spex_perfdata *file, uint64_t from, uint64_t to);

/* Decompresses COMPRESSED records; keeps an incomplete record for the next one. */
struct inflater *perfdata_inflater_new(void);
void perfdata_inflater_free(struct inflater *inflater);
/* Starts on the bytes of one COMPRESSED record, which must stay in place until used up. */
void perfdata_inflater_feed(struct inflater *inflater, const uint8_t *data, size_t size,
                            uint64_t limit);
/*
 * SPEX_OK: the next record's bytes; SPEX_END: feed more; SPEX_INVALID: the compressed data is
 * damaged; SPEX_RANGE: its output exceeds the limit.
 */
enum spex_status perfdata_inflater_next(struct inflater *inflater, bool big_endian,
                                        const uint8_t **bytes);
/* Bytes of an incomplete record that wait for more. */
size_t perfdata_inflater_rest(const struct inflater *inflater);

/* ---- state tables ---- */

enum task_kind { TASK_COMM, TASK_EXEC, TASK_FORK, TASK_MAP };

struct task_event { /* a name, exec, fork or mapping, in file order */
    uint64_t time;
    const char *comm; /* COMM, EXEC */
    uint32_t seq;
    int32_t tid, pid, ptid, ppid;
    uint32_t map; /* MAP: index into maps */
    uint8_t kind; /* enum task_kind */
};

struct switch_event {
    uint64_t time;
    uint32_t seq;
    int32_t cpu, pid, tid; /* tid -1: unknown from now on */
};

struct thread_entry {
    uint64_t time;
    uint32_t seq;
    int32_t tid, pid;
    const char *comm; /* NULL unknown */
};

/* The mappings of a process between two execs. */
struct epoch {
    uint64_t time;
    uint32_t seq;
    int32_t pid;
    uint32_t parent; /* epoch from which it was forked, or NO_EPOCH */
    uint64_t parent_time;
    uint32_t *maps; /* indexes into maps, sorted by time */
    uint32_t count;
    size_t capacity;
    uint64_t *bounds; /* sorted addresses; NULL: few maps, searched one by one */
    uint32_t bound_count;
    uint32_t *starts;  /* tree: where each node's entries end */
    uint32_t *entries; /* positions in maps */
};
#define NO_EPOCH UINT32_MAX

struct state {
    VEC(struct task_event) tasks;
    VEC(struct switch_event) switches; /* sorted by cpu, time once built */
    VEC(struct thread_entry) threads;  /* sorted by tid, time */
    VEC(struct epoch) epochs;          /* sorted by pid, time */
};

/* ---- AUX ---- */

struct chunk { /* the data of one AUXTRACE record */
    uint64_t file_offset, offset, size;
    uint64_t reference;
    uint32_t stretch; /* see spans.h */
    bool foreign;     /* the last AUXTRACE_INFO before it described another kind of trace */
};

struct aux_span { /* the range that an AUX record reports */
    int32_t owner, tid;
    uint32_t attr;
    uint64_t offset, size;
};

struct foreign { /* traces of other kinds than SPE (foreign.c) */
    bool there, now, by_cpu;
    unsigned type; /* type of the first such trace */
    uint64_t offset;
    VEC(struct aux_span) spans;
};

struct gap { /* data was lost after this offset of a queue */
    uint64_t offset;
    int32_t cpu, tid; /* -1: unknown */
    int32_t owner;    /* cpu or tid, depending on how queues are bound */
    uint32_t flags;
};

struct id_entry { /* sample id -> event, and where it ran */
    uint64_t id;
    uint32_t attr;
    int32_t cpu, tid;
    bool placed; /* cpu and tid are known from ID_INDEX */
};

struct queue {
    struct spex_perf_queue queue;
    VEC(struct chunk) chunks; /* in the order of the file */
};

/* ---- the handle ---- */

struct build_id {
    const char *filename;
    uint8_t bytes[20];
    uint8_t size;
};

struct index_entry {
    uint64_t offset, size;
};

struct spex_perfdata {
    struct memory *account;
    const uint8_t *data;
    uint64_t size;
    bool mapped;       /* data is our own mapping, so pages may be released */
    int fd;            /* the mapped file; -1: not a file */
    bool swap;         /* byte order differs from the host's */
    bool failed;       /* ran out of memory: tables are incomplete */
    uint64_t told_end; /* where the header says the data ends; 0: it does not say */
    struct spex_perf_info info;
    char *path;
    const struct below *below; /* set while the file is being opened */
    struct strings strings;
    VEC(struct spex_perf_attr) attrs;
    VEC(struct id_entry) ids; /* sorted by id once scanned */
    bool ids_sorted;
    bool header_attrs; /* events are in the header; HEADER_ATTR records only repeat them */
    VEC(struct spex_perf_problem) problems;
    VEC(const char *) problem_kinds; /* format strings, parallel to problems */
    VEC(struct spex_perf_node) nodes;
    VEC(struct memory_node) memory; /* read from MEM_TOPOLOGY; blocks have block_size bytes */
    VEC(uint64_t) blocks;
    uint64_t block_size; /* 0: not known */
    VEC(struct spex_perf_cpu) cpus;
    VEC(const char *) cmdline;
    VEC(struct build_id) build_ids; /* sorted by name once scanned */
    VEC(struct index_entry) index;  /* AUXTRACE index, sorted by offset */
    struct {
        uint64_t offset, size; /* position in the file; offset 0: absent */
    } features[FEATURE_BITS];
    uint64_t inflate_limit;
    uint64_t midr;
    VEC(struct spex_perf_map) maps;
    struct state state;
    VEC(struct gap) gaps; /* sorted by owner and offset once scanned */
    VEC(struct queue) queues;
    struct foreign foreign;
    uint32_t *queue_slots;
    size_t queue_slot_count;
    struct walk walk;                     /* position of spex_perfdata_next */
    uint64_t scratch[RECORD_MAX / 8 + 2]; /* a record that had to be copied */
};

static inline uint16_t get16(const struct spex_perfdata *file, const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return file->swap ? __builtin_bswap16(v) : v;
}

static inline uint32_t get32(const struct spex_perfdata *file, const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return file->swap ? __builtin_bswap32(v) : v;
}

static inline uint64_t get64(const struct spex_perfdata *file, const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return file->swap ? __builtin_bswap64(v) : v;
}

/* Counts another problem of this kind (the format tells kinds apart), or adds a new one. */
void perfdata_problem(struct spex_perfdata *file, enum spex_status status, uint64_t offset,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- reader.c ---- */

enum spex_status perfdata_header_read(struct spex_perfdata *file, struct spex_error *error);
/* All records once. */
void perfdata_scan(struct spex_perfdata *file);

/* ---- event.c ---- */

/* Room must hold a record that has to be byte-swapped: RECORD_MAX + 8 bytes, aligned. */
bool perfdata_event_parse(struct spex_perfdata *file, const struct raw *raw, uint64_t *room,
                          struct spex_perf_event *event);
/* The entry of a sample id, or NULL. */
struct id_entry *perfdata_id_find(struct spex_perfdata *file, uint64_t id);
/*
 * Parses the struct perf_event_attr at bytes (size available) without touching the event's
 * ids.
 */
bool perfdata_attr_parse(struct spex_perfdata *file, const uint8_t *bytes, size_t size,
                         struct spex_perf_attr *attr);

/* ---- features.c ---- */

void perfdata_features_read(struct spex_perfdata *file); /* sections after the data */
void perfdata_feature_record(struct spex_perfdata *file, const struct raw *raw); /* FEATURE */
void perfdata_features_finish(struct spex_perfdata *file);
void perfdata_build_id_record(struct spex_perfdata *file, const uint8_t *bytes, size_t size,
                              uint16_t misc);

/* ---- aux.c ---- */

void perfdata_aux_chunk(struct spex_perfdata *file, const struct raw *raw,
                        const struct spex_perf_event *event);
void perfdata_aux_record(struct spex_perfdata *file, const struct spex_perf_event *event);
/* Called for an AUXTRACE_INFO of another kind; for an AUX record; when all are known. */
void perfdata_foreign_info(struct spex_perfdata *file, const struct raw *raw, unsigned type);
void perfdata_foreign_aux(struct spex_perfdata *file, const struct spex_perf_event *event);
void perfdata_foreign_refuse(struct spex_perfdata *file);
void perfdata_aux_build(struct spex_perfdata *file);
void perfdata_aux_fini(struct spex_perfdata *file);

/* epoch.c: builds the search tree once the epoch's maps are complete. False: out of memory. */
bool perfdata_epoch_build(const struct spex_perfdata *file, struct epoch *epoch);
const struct spex_perf_map *perfdata_epoch_find(const struct spex_perfdata *file,
                                                const struct epoch *epoch, uint64_t address,
                                                uint64_t time);
void perfdata_epoch_fini(struct epoch *epoch);

/* ---- state.c ---- */

void perfdata_state_event(struct spex_perfdata *file, const struct spex_perf_event *event);
bool perfdata_state_build(struct spex_perfdata *file);
void perfdata_state_fini(struct spex_perfdata *file);

#endif
