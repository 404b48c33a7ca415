/*
 * perf.data: reading and writing the files of Linux perf (docs/perf-data.md).
 *
 * The AUX bytes (SPE packets) are opaque here: they come out as contiguous
 * spans per queue, joined by AUXTRACE offset and never across a gap, and go in
 * as chunks. Everything else comes out typed, in host byte order.
 *
 * Opening scans the file once without touching AUX bytes: attributes, features,
 * AUX chunks, and time-indexed tables of processes, mappings and switches. Memory
 * grows with those, never with the AUX data. Damage does not stop the scan: what
 * is readable is read and spex_perfdata_problem lists the rest, once per kind.
 *
 * Ownership: pointers handed out belong to the handle and live until it is
 * closed, except those inside a struct spex_perf_event and a struct spex_aux_span,
 * which live until the next call on the same handle or cursor. After opening, the
 * const functions may be used from several threads; an event iteration and each
 * cursor belong to one thread at a time.
 */
#ifndef SPEX_PERFDATA_H
#define SPEX_PERFDATA_H

#include <spex/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- numbers of the format ---- */

/* Record types; others pass through as raw bytes */
enum spex_perf_type {
    SPEX_PERF_MMAP = 1,
    SPEX_PERF_LOST = 2,
    SPEX_PERF_COMM = 3,
    SPEX_PERF_EXIT = 4,
    SPEX_PERF_THROTTLE = 5,
    SPEX_PERF_UNTHROTTLE = 6,
    SPEX_PERF_FORK = 7,
    SPEX_PERF_READ = 8,
    SPEX_PERF_SAMPLE = 9,
    SPEX_PERF_MMAP2 = 10,
    SPEX_PERF_AUX = 11,
    SPEX_PERF_ITRACE_START = 12,
    SPEX_PERF_LOST_SAMPLES = 13,
    SPEX_PERF_SWITCH = 14,
    SPEX_PERF_SWITCH_CPU_WIDE = 15,
    SPEX_PERF_NAMESPACES = 16,
    SPEX_PERF_KSYMBOL = 17,
    SPEX_PERF_BPF_EVENT = 18,
    SPEX_PERF_CGROUP = 19,
    SPEX_PERF_TEXT_POKE = 20,
    SPEX_PERF_AUX_OUTPUT_HW_ID = 21,
    SPEX_PERF_HEADER_ATTR = 64,
    SPEX_PERF_EVENT_TYPE = 65,
    SPEX_PERF_TRACING_DATA = 66,
    SPEX_PERF_BUILD_ID = 67,
    SPEX_PERF_FINISHED_ROUND = 68,
    SPEX_PERF_ID_INDEX = 69,
    SPEX_PERF_AUXTRACE_INFO = 70,
    SPEX_PERF_AUXTRACE = 71,
    SPEX_PERF_AUXTRACE_ERROR = 72,
    SPEX_PERF_THREAD_MAP = 73,
    SPEX_PERF_CPU_MAP = 74,
    SPEX_PERF_EVENT_UPDATE = 78,
    SPEX_PERF_TIME_CONV = 79,
    SPEX_PERF_FEATURE = 80,
    SPEX_PERF_COMPRESSED = 81, /* never handed out: its decompressed contents are */
    SPEX_PERF_FINISHED_INIT = 82,
    SPEX_PERF_COMPRESSED2 = 83,
};

/* Bits of a record's misc. */
enum spex_perf_misc {
    SPEX_PERF_CPUMODE_MASK = 7,
    SPEX_PERF_CPUMODE_KERNEL = 1,
    SPEX_PERF_CPUMODE_USER = 2,
    SPEX_PERF_CPUMODE_GUEST_KERNEL = 4,
    SPEX_PERF_CPUMODE_GUEST_USER = 5,
    SPEX_PERF_MISC_MMAP_DATA = 1 << 13,      /* MMAP, MMAP2 */
    SPEX_PERF_MISC_COMM_EXEC = 1 << 13,      /* COMM */
    SPEX_PERF_MISC_SWITCH_OUT = 1 << 13,     /* SWITCH, SWITCH_CPU_WIDE */
    SPEX_PERF_MISC_SWITCH_PREEMPT = 1 << 14, /* out, though it could have gone on (since 1.4) */
    SPEX_PERF_MISC_MMAP_BUILD_ID = 1 << 14,
};

enum spex_perf_sample_type {
    SPEX_PERF_SAMPLE_IP = 1 << 0,
    SPEX_PERF_SAMPLE_TID = 1 << 1,
    SPEX_PERF_SAMPLE_TIME = 1 << 2,
    SPEX_PERF_SAMPLE_ADDR = 1 << 3,
    SPEX_PERF_SAMPLE_READ = 1 << 4,
    SPEX_PERF_SAMPLE_CALLCHAIN = 1 << 5,
    SPEX_PERF_SAMPLE_ID = 1 << 6,
    SPEX_PERF_SAMPLE_CPU = 1 << 7,
    SPEX_PERF_SAMPLE_PERIOD = 1 << 8,
    SPEX_PERF_SAMPLE_STREAM_ID = 1 << 9,
    SPEX_PERF_SAMPLE_RAW = 1 << 10,
    SPEX_PERF_SAMPLE_BRANCH_STACK = 1 << 11,
    SPEX_PERF_SAMPLE_REGS_USER = 1 << 12,
    SPEX_PERF_SAMPLE_STACK_USER = 1 << 13,
    SPEX_PERF_SAMPLE_WEIGHT = 1 << 14,
    SPEX_PERF_SAMPLE_DATA_SRC = 1 << 15,
    SPEX_PERF_SAMPLE_IDENTIFIER = 1 << 16,
    SPEX_PERF_SAMPLE_TRANSACTION = 1 << 17,
    SPEX_PERF_SAMPLE_REGS_INTR = 1 << 18,
    SPEX_PERF_SAMPLE_PHYS_ADDR = 1 << 19,
    SPEX_PERF_SAMPLE_AUX = 1 << 20,
    SPEX_PERF_SAMPLE_CGROUP = 1 << 21,
    SPEX_PERF_SAMPLE_DATA_PAGE_SIZE = 1 << 22,
    SPEX_PERF_SAMPLE_CODE_PAGE_SIZE = 1 << 23,
    SPEX_PERF_SAMPLE_WEIGHT_STRUCT = 1 << 24,
};

/* Flags of AUX records. */
enum spex_perf_aux_flag {
    SPEX_PERF_AUX_TRUNCATED = 1, /* data was lost after this record */
    SPEX_PERF_AUX_OVERWRITE = 2, /* snapshot mode */
    SPEX_PERF_AUX_PARTIAL = 4,   /* data was lost within it or at its end */
    SPEX_PERF_AUX_COLLISION = 8, /* SPE: two samples collided */
};

enum spex_perf_auxtrace_type { SPEX_PERF_AUXTRACE_ARM_SPE = 4 }; /* others pass as numbers */

/* Pids that stand for no process. */
enum {
    SPEX_PERF_PID_KERNEL = -1,
    SPEX_PERF_PID_GUEST_KERNEL = -2,
};

/* ---- time: perf's TIME_CONV (docs/perf-data.md) ---- */

struct spex_perf_time { /* zero: perf's time_zero, in ns (not a reserved member) */
    uint64_t shift, mult, zero, cycles, mask;
    bool cap_zero, cap_short;
};
/* A counter value in nanoseconds, and back, bit for bit as perf computes them. */
uint64_t spex_perf_time_to_ns(const struct spex_perf_time *time, uint64_t ticks); /* since 1.0 */
uint64_t spex_perf_time_from_ns(const struct spex_perf_time *time, uint64_t ns);  /* since 1.0 */
/* Conversion for a counter of hz ticks a second that reads zero at 0 ns. */
void spex_perf_time_init(struct spex_perf_time *time, uint64_t hz); /* since 1.0 */

/* ---- what was recorded ---- */

/* One event: struct perf_event_attr and what the file says about it. */
struct spex_perf_attr {
    const char *name; /* recorded name ("arm_spe_0/ts_enable=1/"); "" if the file has none */
    uint32_t type;
    uint64_t config[5]; /* config, config1 .. config4 */
    uint64_t period;    /* sample_period or sample_freq */
    uint64_t sample_type, read_format, branch_sample_type, regs_user, regs_intr;
    uint64_t flags; /* the attr's bit field, bit 0 disabled, 1 inherit, ... */
    bool freq, exclude_user, exclude_kernel, exclude_hv, sample_id_all, context_switch;
    bool spe; /* this is an Arm SPE event */
    uint32_t wakeup, bp_type, clockid, stack_user, aux_watermark, aux_sample_size;
    const uint64_t *ids;
    size_t id_count;
};

/* What AUXTRACE_INFO v2 says about a CPU. */
struct spex_perf_cpu {
    uint32_t cpu;
    uint64_t midr, pmu_type, min_interval, event_filter; /* pmu_type all ones: no SPE there */
};

/* A node of NUMA_TOPOLOGY. */
struct spex_perf_node {
    uint32_t node;
    uint64_t total_kb, free_kb;
    const char *cpus; /* list as recorded, for example "0-3,8" */
};

struct spex_perf_info {
    const char *path;                /* shown in messages */
    bool big_endian, pipe, complete; /* complete: header, data and features all there */
    uint64_t file_size, data_offset, data_size;
    uint64_t attr_size;
    uint64_t features[4]; /* bitmap of feature sections */
    /* Strings are "" and numbers 0 where the file does not say. */
    const char *hostname, *osrelease, *version, *arch, *cpudesc, *cpuid;
    uint32_t cpus_online, cpus_available;
    uint64_t total_mem_kb;
    const char *const *cmdline; /* NULL-terminated */
    size_t cmdline_count;
    uint64_t first_time, last_time; /* SAMPLE_TIME feature, or of the records read */
    const struct spex_perf_node *nodes;
    size_t node_count;
    bool has_time; /* a TIME_CONV record was there */
    struct spex_perf_time time;
    uint32_t auxtrace_type;    /* enum spex_perf_auxtrace_type; 0 without AUXTRACE_INFO */
    unsigned auxtrace_version; /* SPE metadata: 1 or 2 */
    uint32_t spe_pmu_type;
    bool per_cpu;  /* queues are per CPU; else per thread */
    bool timed;    /* some event has TIME in sample_type ("timeless" otherwise) */
    bool snapshot; /* some AUX record was OVERWRITE */
    const struct spex_perf_cpu *cpus; /* AUXTRACE_INFO v2 */
    size_t cpu_count;
    uint64_t records, samples, aux_bytes, aux_chunks;
    uint64_t lost, throttled;       /* events reported lost; THROTTLE records */
    uint64_t truncated, collisions; /* AUX records with that flag */
    uint64_t compressed_bytes;      /* size of COMPRESSED records as stored */
};

struct spex_perf_problem {
    enum spex_status status;
    uint64_t offset; /* file offset of the first occurrence */
    uint64_t count;
    const char *text; /* whole sentence, without the offset */
};

struct spex_perfdata;

/* ---- open, close ---- */

enum { SPEX_PERFDATA_MAGIC_SIZE = 8 };
/* Whether the input begins like a perf.data file (either byte order, file or pipe). */
bool spex_perfdata_is(const void *data, size_t size); /* since 1.0 */

/*
 * Opens and scans a file. path "-" or NULL is standard input; anything but a regular file is
 * first copied to an unlinked temporary file. Fails only if nothing can be read: error->text
 * says why, with the path.
 */
enum spex_status spex_perfdata_open(const char *path, struct spex_perfdata **file,
                                    struct spex_error *error); /* since 1.0 */
/*
 * Same, for a file in memory, which must outlive the handle. Prefer spex_perfdata_open for
 * files: it releases pages once they were read, which keeps resident memory small. Since 1.0.
 */
enum spex_status spex_perfdata_open_memory(const void *data, size_t size,
                                           struct spex_perfdata **file, struct spex_error *error);
/*
 * Same, of any kind of input, with a limit and an allocator (since 1.4). Fails with
 * SPEX_NO_MEMORY where the limit is too small to open the file at all; where it is too small for
 * all of its threads, mappings and events, a problem says so.
 */
struct spex_perfdata_options {
    size_t size;        /* sizeof(struct spex_perfdata_options) */
    const char *path;   /* for other inputs, a name for messages; may be NULL */
    uint32_t input;     /* enum spex_input */
    int32_t descriptor; /* used with SPEX_INPUT_DESCRIPTOR */
    const void *data;   /* used with SPEX_INPUT_MEMORY */
    size_t data_size;
    uint64_t max_memory; /* bytes that the handle may allocate; 0: half of the machine's */
    const struct spex_allocator *allocator;                        /* NULL: malloc */
    void (*progress)(void *context, uint64_t done, uint64_t size); /* may be NULL */
    void *context;
};
/* Since 1.4. */
enum spex_status spex_perfdata_new(const struct spex_perfdata_options *options,
                                   struct spex_perfdata **file, struct spex_error *error);
void spex_perfdata_close(struct spex_perfdata *file); /* NULL is ignored; since 1.0 */

const struct spex_perf_info *spex_perfdata_info(const struct spex_perfdata *file); /* since 1.0 */
size_t spex_perfdata_problem_count(const struct spex_perfdata *file);              /* since 1.0 */
const struct spex_perf_problem *spex_perfdata_problem(const struct spex_perfdata *file,
                                                      size_t index); /* since 1.0 */

size_t spex_perfdata_attr_count(const struct spex_perfdata *file); /* since 1.0 */
/* Since 1.0. */
const struct spex_perf_attr *spex_perfdata_attr(const struct spex_perfdata *file, size_t index);
/* The first SPE event, or NULL. Since 1.0. */
const struct spex_perf_attr *spex_perfdata_spe_attr(const struct spex_perfdata *file);

/*
 * MIDR_EL1 of a CPU (-1: the one that all CPUs share, if they do); 0 if unknown. From
 * metadata v2, else CPUID.
 */
uint64_t spex_perfdata_midr(const struct spex_perfdata *file, int32_t cpu); /* since 1.0 */
/* caps/event_filter of a CPU (metadata v2), 0 if unknown. */
uint64_t spex_perfdata_event_filter(const struct spex_perfdata *file, int32_t cpu); /* since 1.0 */
/* NUMA node of a CPU, and of a physical address (MEM_TOPOLOGY); -1 if unknown. */
int spex_perfdata_node(const struct spex_perfdata *file, int32_t cpu);              /* since 1.0 */
int spex_perfdata_memory_node(const struct spex_perfdata *file, uint64_t physical); /* since 1.1 */
/* Build-id of a file name, from the BUILD_ID feature or records; NULL if unknown. */
const uint8_t *spex_perfdata_build_id(const struct spex_perfdata *file, const char *filename,
                                      size_t *size); /* since 1.0 */
/* Raw bytes of a feature section (bit number), as stored; false if absent. */
bool spex_perfdata_feature(const struct spex_perfdata *file, unsigned feature, const uint8_t **data,
                           size_t *size); /* since 1.0 */

/* ---- AUX data: one queue per (cpu, tid, idx), each a sequence of chunks ---- */

struct spex_perf_queue {
    int32_t cpu, tid; /* -1 where the queue is not bound to one */
    uint32_t idx;
    uint64_t bytes, chunks;
};
size_t spex_perfdata_queue_count(const struct spex_perfdata *file); /* since 1.0 */
/* Since 1.0. */
const struct spex_perf_queue *spex_perfdata_queue(const struct spex_perfdata *file, size_t index);

/*
 * A cursor walks one queue in file order. A span is a piece of AUX data in
 * memory. The consumer may find that a span ends inside an item of its own
 * format: it then calls spex_aux_keep with the number of bytes it could not
 * use, and these come again, with what follows them, at the start of the next
 * span. Only such tails are ever copied.
 *
 *     while (spex_aux_next(cursor, &span) == SPEX_OK) {
 *         size_t rest = decode(span.data, span.size);   // bytes of a cut item at the end
 *         if (!span.last)
 *             spex_aux_keep(cursor, rest);
 *     }
 */
struct spex_aux_span {
    const uint8_t *data;
    size_t size;          /* never 0 */
    uint64_t offset;      /* offset of data[0] in the queue's AUX area, as perf counts it */
    uint64_t file_offset; /* file offset of data[0]; for joined bytes, that of the older piece */
    uint64_t reference;   /* reference of the AUXTRACE record */
    uint64_t position;    /* bytes of this queue before data[0], gaps not counted */
    bool contiguous;      /* follows the previous span (its kept tail included) without a gap */
    bool last;            /* nothing contiguous follows, so an incomplete item at the end is lost */
    uint32_t flags;       /* enum spex_perf_aux_flag at the end of this span: why it is the last */
    uint64_t zero[2];
};
struct spex_aux_cursor;
enum { SPEX_AUX_KEEP_MAX = 16384 };

enum spex_status spex_aux_open(struct spex_perfdata *file, size_t queue,
                               struct spex_aux_cursor **cursor); /* since 1.0 */
/* Since 1.0. */
enum spex_status spex_aux_next(struct spex_aux_cursor *cursor, struct spex_aux_span *span);
/* rest <= span.size. At most the last SPEX_AUX_KEEP_MAX bytes are kept. */
void spex_aux_keep(struct spex_aux_cursor *cursor, size_t rest); /* since 1.0 */
void spex_aux_close(struct spex_aux_cursor *cursor);             /* since 1.0 */

/* ---- state as of a time (nanoseconds, perf's clock) ----
 *
 * An event is visible from its own time on, as perf orders them; events
 * without a time are visible always. UINT64_MAX asks for the end of the file.
 */

struct spex_perf_map {
    uint64_t start, end, pgoff; /* file offset of an address: address - start + pgoff */
    uint64_t time, file_offset;
    int32_t pid, tid;     /* or SPEX_PERF_PID_KERNEL, SPEX_PERF_PID_GUEST_KERNEL */
    uint32_t prot, flags; /* mmap's; 0 for MMAP records, where the format has none */
    bool data;            /* MMAP_DATA: not executable */
    const char *filename; /* recorded name: "/bin/ls", "[vdso]", "//anon" */
    uint32_t maj, min;
    uint64_t ino, ino_generation; /* 0 if the record carried a build-id */
    uint8_t build_id[20];
    uint8_t build_id_size; /* 0: ask spex_perfdata_build_id */
    uint64_t zero[2];
};

/* The mapping of pid that contains address; for kernel addresses (top bit set) the kernel's. */
const struct spex_perf_map *spex_perfdata_map(const struct spex_perfdata *file, int32_t pid,
                                              uint64_t address, uint64_t time); /* since 1.0 */
/* All mappings in file order (for symbol loaders). */
size_t spex_perfdata_map_count(const struct spex_perfdata *file); /* since 1.0 */
/* Since 1.0. */
const struct spex_perf_map *spex_perfdata_map_at(const struct spex_perfdata *file, size_t index);

/* Name of a thread; NULL if the file does not say. tid 0 is "swapper". Since 1.0. */
const char *spex_perfdata_comm(const struct spex_perfdata *file, int32_t tid, uint64_t time);
/* Process of a thread; -1 unknown. Since 1.0. */
int32_t spex_perfdata_pid(const struct spex_perfdata *file, int32_t tid, uint64_t time);
/* The thread on a CPU according to switch and ITRACE_START events; false if unknown. */
bool spex_perfdata_running(const struct spex_perfdata *file, int32_t cpu, uint64_t time,
                           int32_t *pid, int32_t *tid); /* since 1.0 */

/* ---- every record, in file order ---- */

/* Fields are valid where the attr's sample_type has them. */
struct spex_perf_sample {
    uint64_t ip, addr, period, data_src, transaction, phys_addr, cgroup;
    uint64_t data_page_size, code_page_size;
    uint64_t weight;           /* WEIGHT_STRUCT: latency in bits 31:0, then two 16-bit values */
    const uint64_t *callchain; /* entries >= -4095 mark a change of context (user, kernel) */
    size_t callchain_count;
    const uint64_t *branches; /* triples: from, to, flags */
    size_t branch_count;
    const uint64_t *read; /* laid out by read_format */
    size_t read_count;
    const uint8_t *raw, *stack, *aux;
    size_t raw_size, stack_size, aux_size;
    const uint64_t *regs_user, *regs_intr; /* one per bit of the attr's masks */
    uint64_t regs_user_abi, regs_intr_abi;
    size_t regs_user_count, regs_intr_count;
};

struct spex_perf_event {
    uint32_t type; /* enum spex_perf_type */
    uint16_t misc;
    uint32_t size;        /* bytes of the record itself, without AUXTRACE payload */
    uint64_t offset;      /* file offset; for an event from a COMPRESSED record, that record's */
    const uint8_t *bytes; /* the record, header included, as stored */
    const struct spex_perf_attr *attr; /* event it belongs to; NULL for perf's own records */
    /* From sample_id, or from the sample itself. -1 and 0 where absent. */
    uint64_t present; /* enum spex_perf_sample_type: which of these fields are valid */
    int32_t pid, tid, cpu;
    uint64_t time, id, stream_id;
    union {
        struct spex_perf_sample sample;
        struct spex_perf_map map; /* MMAP, MMAP2 */
        struct {
            int32_t pid, tid;
            const char *comm;
        } comm;
        struct {
            int32_t pid, tid, ppid, ptid;
            uint64_t time;
        } task; /* FORK, EXIT */
        struct {
            uint64_t offset, size;
            uint32_t flags; /* enum spex_perf_aux_flag */
        } aux;
        struct {
            int32_t pid, tid; /* ITRACE_START; SWITCH_CPU_WIDE: the next or previous thread */
        } thread;
        struct {
            uint64_t id, lost; /* LOST; LOST_SAMPLES has lost only */
        } lost;
        struct {
            uint64_t address;
            uint32_t length;
            uint16_t kind;  /* 1: a BPF program, 2: out-of-line code */
            uint16_t flags; /* 1: it was removed */
            const char *name;
        } ksymbol; /* KSYMBOL */
        struct {
            int32_t pid, tid;
            uint64_t mount_device, mount_inode; /* mount namespace; 0: unknown */
        } namespaces;                           /* NAMESPACES */
        struct {
            uint64_t time, id, stream_id;
        } throttle; /* THROTTLE, UNTHROTTLE */
        struct {
            uint64_t size, offset, reference;
            int32_t cpu, tid;
            uint32_t idx;
            const uint8_t *data; /* the first `available` of the size bytes */
            uint64_t available;
        } auxtrace;
        struct {
            uint32_t type, code;
            int32_t cpu, pid, tid;
            uint64_t ip, time;
            const char *message;
        } auxtrace_error;
        struct spex_perf_time time_conv;
        uint64_t zero[48]; /* room for more */
    } u;
};

/* Back to the first record, as in a new handle. */
void spex_perfdata_rewind(struct spex_perfdata *file); /* since 1.0 */
/*
 * SPEX_OK or SPEX_END. Damaged parts are skipped; the list of problems already has them. Since 1.0.
 */
enum spex_status spex_perfdata_next(struct spex_perfdata *file, struct spex_perf_event *event);
/*
 * Continues with the record at this offset, taken from an event; not for records inside
 * COMPRESSED ones.
 */
void spex_perfdata_seek(struct spex_perfdata *file, uint64_t offset); /* since 1.1 */

/* "MMAP2", "AUXTRACE_INFO"; NULL for a number perf does not use. */
const char *spex_perf_type_name(uint32_t type); /* since 1.0 */

/* ---- the arm_spe PMU's event terms, as in /sys/.../arm_spe_0/format ---- */

/* What an event string asks for. */
struct spex_perf_terms {
    uint64_t config[5];
    uint64_t period;                   /* period=N; 0: not given */
    bool exclude_user, exclude_kernel; /* modifiers k and u after the last slash */
    uint8_t zero[22];
};
/*
 * "arm_spe_0/ts_enable=1,event_filter=0x2/u", "arm_spe//", or the terms alone. A term without
 * a value means 1. Unknown terms and values that do not fit fail with a text that names them.
 */
enum spex_status spex_perf_terms_parse(const char *text, struct spex_perf_terms *terms,
                                       struct spex_error *error); /* since 1.0 */
/* Terms that are not zero, "ts_enable=1,jitter=1". Returns the length, like snprintf. */
size_t spex_perf_terms_text(const uint64_t config[5], char *text, size_t capacity); /* since 1.0 */

/* ---- writing ---- */

/* Nothing is taken from the host. */
struct spex_perf_writer_options {
    size_t size;           /* sizeof(struct spex_perf_writer_options) */
    unsigned metadata;     /* 1 (default, perf <= 6.12 needs it) or 2 */
    uint32_t cpus;         /* number of CPUs, at least 1 */
    bool per_thread;       /* queues are per thread; else per CPU */
    bool untimed;          /* no PERF_SAMPLE_TIME ("timeless") */
    bool phys_addr;        /* samples carry physical addresses; pa_enable implies it */
    uint64_t midr;         /* MIDR of all CPUs */
    const uint64_t *midrs; /* one MIDR per CPU; NULL: all have midr */
    uint64_t min_interval, event_filter; /* caps, metadata 2 */
    uint64_t config[5], period;
    bool exclude_user, exclude_kernel;
    uint32_t pmu_type; /* 0: 12 */
    const char *event; /* NULL: "arm_spe_0/" + terms + "/" */
    struct spex_perf_time time;
    const char *arch;                                     /* NULL: "aarch64" */
    const char *hostname, *osrelease, *version, *cpudesc; /* NULL: not written */
    const char *const *cmdline;                           /* NULL-terminated, or NULL */
    uint64_t memory_kb;                                   /* memory of NUMA node 0; 0: 4 GiB */
    int fd; /* descriptor to write to and close, instead of opening the path; 0: open the path */
    /*
     * Not 0: continue a file whose first kept_start bytes were written with the same options
     * (apart from the number of CPUs). AUXTRACE records that others appended, up to kept_end,
     * stay.
     */
    uint64_t kept_start, kept_end;
    /* A third event, "spe-stacks:u": samples with the call stacks of records (docs/perf-data.md).
     * Not with per_thread or untimed. */
    bool stacks;
    /*
     * A fourth event, "spe-allocs:u": samples with the allocation that a record's data
     * belongs to.
     */
    bool allocs;
    /*
     * Not 0: there are two NUMA nodes. Groups of this many CPUs belong to them alternately; the
     * lower half of the memory belongs to the first.
     */
    uint32_t node_cpus;
    /*
     * Bytes that the writer may allocate: 2 MB, and as much as its index and its build-ids take; 0:
     * half of what the machine or the control group has. allocator: where from; NULL: malloc. Both
     * since 1.4.
     */
    uint64_t max_memory;
    const struct spex_allocator *allocator;
    /* An event "spe-elapsed:u": samples that say what threads' time was spent on (since 1.4). */
    bool elapsed;
    uint8_t zero[7];
};

struct spex_perf_writer;

/*
 * Writes a file that is readable at any moment: header, attributes and metadata come first,
 * data is appended, and the header is updated after the data. path "-" is standard output; it,
 * and anything that is not a regular file, gets perf's pipe format. Only the owner may read a
 * new file, as with perf. Calls after a failure do nothing; spex_perf_writer_finish returns the
 * first failure and leaves what was written as a readable file: SPEX_TRUNCATED says how many
 * bytes are missing. Since 1.0.
 */
enum spex_status spex_perf_writer_open(const char *path,
                                       const struct spex_perf_writer_options *options,
                                       struct spex_perf_writer **writer, struct spex_error *error);

/* Times are nanoseconds of perf's clock; 0 stands for before the start. */
void spex_perf_writer_comm(struct spex_perf_writer *writer, int32_t pid, int32_t tid,
                           const char *comm, bool exec, uint64_t time); /* since 1.0 */
void spex_perf_writer_fork(struct spex_perf_writer *writer, int32_t pid, int32_t tid, int32_t ppid,
                           int32_t ptid, uint64_t time); /* since 1.0 */
void spex_perf_writer_exit(struct spex_perf_writer *writer, int32_t pid, int32_t tid, int32_t ppid,
                           int32_t ptid, uint64_t time); /* since 1.0 */
/* Every member of map is used except file_offset. Since 1.0. */
void spex_perf_writer_map(struct spex_perf_writer *writer, const struct spex_perf_map *map);
/*
 * At time, cpu switches from prev to next (tid 0: idle). Does nothing when per_thread. Since 1.0.
 */
void spex_perf_writer_switch(struct spex_perf_writer *writer, int32_t cpu, int32_t prev_pid,
                             int32_t prev_tid, int32_t next_pid, int32_t next_tid, uint64_t time);
/* The thread running when a queue starts: once per queue, before its first AUX data. */
void spex_perf_writer_itrace_start(struct spex_perf_writer *writer, int32_t cpu, int32_t pid,
                                   int32_t tid, uint64_t time); /* since 1.0 */
/*
 * Appends AUX bytes to a queue (that of cpu, or of tid when per_thread).
 * SPEX_PERF_AUX_TRUNCATED in flags marks a gap in the data. Since 1.0.
 */
void spex_perf_writer_aux(struct spex_perf_writer *writer, int32_t cpu, int32_t pid, int32_t tid,
                          const void *data, size_t size, uint32_t flags, uint64_t time);
/*
 * Same, for AUX bytes that are already in the file (kept_start): records only their position in
 * the AUX area.
 */
void spex_perf_writer_aux_kept(struct spex_perf_writer *writer, int32_t cpu, int32_t pid,
                               int32_t tid, uint64_t offset, uint64_t size, uint32_t flags,
                               uint64_t time); /* since 1.0 */
/*
 * Where such bytes are: the first AUXTRACE record of an open file at or after *at, which then lies
 * behind it, and before end (kept_start, kept_end). SPEX_END after the last one, or where the file
 * is damaged (since 1.4).
 */
struct spex_perf_kept {
    uint64_t offset, size; /* in the queue's AUX area */
    uint64_t at;           /* position in the file */
    int32_t cpu;
    uint8_t zero[12];
};
enum spex_status spex_perf_kept_next(int fd, uint64_t *at, uint64_t end,
                                     struct spex_perf_kept *kept); /* since 1.4 */
/*
 * Appends whole samples of the events of `stacks` and `allocs`; stops at the first bytes that
 * are not one. Since 1.1.
 */
void spex_perf_writer_stacks(struct spex_perf_writer *writer, const void *records, size_t size);
void spex_perf_writer_lost(struct spex_perf_writer *writer, int32_t cpu, uint64_t lost,
                           uint64_t time); /* since 1.0 */
/* Bytes written so far. */
uint64_t spex_perf_writer_size(const struct spex_perf_writer *writer); /* since 1.0 */
/*
 * Closes and frees without finishing the file, so that a later writer can continue it
 * (kept_start). Since 1.0.
 */
enum spex_status spex_perf_writer_leave(struct spex_perf_writer *writer, struct spex_error *error);
/* Writes features and index, closes, frees. Since 1.0. */
enum spex_status spex_perf_writer_finish(struct spex_perf_writer *writer, struct spex_error *error);

/*
 * Copies a finished file of this writer from one descriptor to another in perf's pipe format.
 * SPEX_IO leaves the reason in errno.
 */
enum spex_status spex_perf_stream(int from, int to, struct spex_error *error); /* since 1.0 */

/*
 * Copies a truncated file, or one whose writer was killed, to an empty file and completes it:
 * everything up to the last whole record, or as much of the last AUX data as there is, then an
 * index and the features that can still be derived. kept: bytes up to there; lost: bytes after
 * it. SPEX_INVALID: not a perf.data file. The index has at most half of the memory of the machine.
 */
enum spex_status spex_perf_repair(int from, int to, uint64_t *kept, uint64_t *lost,
                                  struct spex_error *error); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
