/*
 * A profile while it is read. The files that do it:
 *   open.c    opens files and closes them      state.c     who ran, and since when
 *   queue.c   AUX spans -> records of a queue  place.c     where code and data lie
 *   join.c    records -> samples -> filters    merge.c     the queues of a file in turn
 *   lanes.c   queues by several threads        shards.c    what each of them counts, and its sum
 *   rounds.c  queues merged by time            analysis.c  a pass over all files, and its results
 *
 * What a file says about threads and mappings changes with time. Asking the file for every record
 * would cost more than decoding it, so the times of all changes are collected once, per thread,
 * process and CPU; between two changes an answer stays valid and is reused. Code addresses are
 * looked up in a cache keyed by address and by the process's state ("version").
 */
#ifndef ANALYSIS_PASS_H
#define ANALYSIS_PASS_H

#include "internal.h"
#include "module.h"
#include "shards.h"
#include "stacks.h"

#include "base/memory.h"
#include "base/stages.h"
#include "record/counters.h"

#include <pthread.h>

enum {
    BATCH = CLOCK_RECORDS,
    PIECE = 2 * BATCH, /* records that pass through the stages together */
    THREADS = 8,
    PIECES = STAGES_THREADS,
    RECORDS = 1 << 16,    /* records held for all merged queues together */
    PLACES = SPEX_PLACES, /* cache of code and data addresses */
    RAW_CHUNK = 1 << 20,
    PIECE_CUT = 1 << 15, /* flag of a batch: data was lost before it */
};

struct process {
    int32_t pid;
    struct span span;
    uint32_t version; /* unique for (process, span) */
};

struct thread {
    int32_t tid;
    struct span span;
    int32_t pid;
    bool known; /* the file says which process the thread belongs to */
    uint64_t samples;
    const char *comm;
    struct process *process;
    struct { /* state at the last time asked for */
        uint64_t since;
        const char *comm;
        int32_t pid;
    } latest;
};

struct place_slot {
    uint64_t ip;
    uint32_t version;
    uint32_t module; /* module of the code: index into the lane's modules */
    struct spex_place place;
};

/* Pointer tables by a 64-bit key, open addressing. */
struct table {
    struct {
        uint64_t key;
        void *value;
    } * slots;
    size_t count, mask;
};

struct queue {
    uint32_t index;
    int32_t cpu, tid;
    const struct spex_cpu_model *model;
    struct spex_aux_cursor *cursor;
    struct spex_aux_span span;
    struct spex_reader *reader; /* shared unless queues are merged */
    uint64_t samples;
    bool reading;
    /*
     * Stretches of the queue (perfdata/spans.h): the file's number for the first; the one being
     * read, and where to stop; the span read last begins the next stretch.
     */
    uint32_t first_stretch, stretch, stretch_end;
    bool turn;
    bool looking; /* reading what lies before its first stretch, which is not counted */
    /*
     * The last record's thread and maps, and the timestamps for which they are valid (raw
     * timestamps, so that none needs converting).
     */
    struct thread *thread;
    struct spex_sample same; /* fields from comm to maps, the same for all its samples */
    uint64_t who;            /* CONTEXTIDR, or WHO_NONE; WHO_UNTIMED */
    uint64_t tick_from, tick_span;
    struct spex_record *records;
    uint32_t *stacks; /* stack of each sample, or NULL */
    struct stacks_cursor cursor_of_stacks;
    uint32_t *allocs; /* block of each sample, or NULL */
    struct stacks_cursor cursor_of_allocs;
    struct clock clock;
    size_t count;
    struct spex_damage first_damage;
    bool damaged;                   /* data after the last record is damaged */
    bool cut;                       /* data was lost before the first of these records */
    uint64_t time;                  /* the latest timestamp so far, for merging */
    uint64_t first_tick, last_tick; /* ticks of the first and last kept sample */
    uint8_t *buffer;                /* raw stream */
    size_t kept;
    uint64_t position;
    int16_t *sources; /* data sources for its CPU model */
};

/*
 * For one kind of core: the meaning of Data Source values; -1: not yet known. Indexed by value, by
 * whether there is a packet, and by whether memory was read and written, which decides if there is
 * none.
 */
enum { SOURCES_PACKET = 1 << 8, SOURCES_FLAG = 1 << 7, SOURCES = 1 << 11 };
struct model_sources {
    const struct spex_cpu_model *model;
    int16_t sources[SOURCES];
};

/* Records of a queue on their way to the sinks. */
struct piece {
    struct queue *queue;
    uint32_t order; /* see analysis_order */
    struct spex_record *records;
    struct clock_part *spent;
    size_t count;
    uint16_t *batches; /* records in each batch as it was read; PIECE_CUT where data was lost */
    size_t batch_count;
    struct spex_sample *samples;
    size_t sample_count;
};

/* Counts of a module's samples: see struct spex_module. */
struct lane_module {
    uint64_t samples, left_out, unnamed;
    bool stripped;
};

/*
 * What one thread needs to read queues and join their records. Lanes share none of it: a file has
 * one lane, and more while several threads read its queues.
 */
struct lane {
    struct spex_analysis *analysis;
    struct table threads, processes;
    uint32_t *versions;          /* versions given out so far */
    struct place_slot *places;   /* cached places in code */
    struct lane_module *modules; /* indexed by module number */
    size_t module_room;
    struct filter *filters[SPEX_FILTER_MAX];
    struct model_sources **models;
    size_t model_count, model_capacity;
    struct spex_shapes *shapes; /* record shapes that its readers have learnt */
    struct spex_reader *reader;
    uint8_t *room;               /* see perfdata/spans.h */
    struct spex_sample *samples; /* samples of the piece that is being joined */
    size_t sample_count, sample_most;
    const struct spex_sink *sinks;
    size_t sink_count;
    struct spex_totals totals;
    struct spex_time_bins *intervals; /* see spex_analysis_count_time */
};

/* From this time on, the process is in this mount namespace. */
struct process_space {
    int32_t pid;
    uint32_t order;
    uint64_t time;
    struct module_space space;
};

struct spex_analysis {
    struct memory *account; /* account for all its files */
    struct spex_analysis_options options;
    char *name;
    struct spex_perfdata *file;
    const struct spex_perf_info *info;
    struct spex_symbols *symbols;
    const struct op_table *ops;
    int raw_fd;
    uint64_t raw_size;

    struct changes thread_changes, process_changes, cpu_changes;
    struct changes switches; /* thread switches by thread, for queues of one thread */
    struct elapsed_sample *elapsed;
    size_t elapsed_count, elapsed_room;
    struct process_space *spaces; /* ordered by process and time */
    size_t space_count, space_room;
    struct table strings;
    struct lane lane;                 /* lane of the calling thread */
    uint32_t versions;                /* first file: versions of all its files' lanes */
    struct spex_module **map_modules; /* indexed by mapping number; NULL: not yet known */
    uint32_t *maps;                   /* numbers of all mappings, by process, address and time */
    struct place_cache *data_places;  /* cache for addresses that hosts look up */

    unsigned filter_want;
    const struct line_set *only; /* lines that the pass is limited to; NULL: all records */
    bool counted; /* samples were counted by module: a limited pass does not count them again */
    struct queue *queues;
    size_t queue_count;
    uint32_t first_stretch; /* several files: number of stretches in the files before this one */
    uint32_t stretch_count;
    struct spex_record *records; /* records of a batch */
    uint32_t *stack_numbers;     /* stack of each record of a batch; NULL until wanted */
    struct stacks *stacks;       /* NULL: there are none */
    struct stacks_table *calls;  /* kept by the first file for all */
    uint32_t *alloc_numbers;     /* allocation of each record of a batch */
    struct stacks *allocs;       /* NULL: there are none */
    struct allocs_table *blocks; /* kept by the first file for all */
    size_t batch;                /* records of a queue read at a time */
    struct piece pieces[PIECES];
    size_t piece_count;
    struct spex_totals totals;
    struct spex_sampling sampling;
    bool user_only;          /* the kernel was not sampled */
    struct counters_end end; /* state of counter_most at the end */
    struct replay *replay;   /* weights from the replay; NULL: weights of time.c */
    bool replayed;           /* a replay was attempted: `replay` is final */
    uint64_t look;           /* bytes of records to read, a part of every span; 0: all */
    _Atomic uint64_t done;   /* bytes, for progress */
    _Atomic bool stopped, no_memory, too_many;
    _Atomic int failure;  /* enum spex_status: what a sink said */
    _Atomic bool inexact; /* first file: separate threads would get other results */
    _Atomic bool crowded; /* first file: fewer threads might not */
    /*
     * In the first file: protects names and modules that are not known yet. Only used if there are
     * several threads.
     */
    pthread_mutex_t lock;
    _Atomic unsigned together; /* see spex_analysis_together */

    /* With several files, each is an analysis, and the first one holds what they share. */
    struct spex_analysis *whole;      /* the first file; set in all others */
    struct spex_time_bins *intervals; /* first file: see spex_analysis_count_time */
    struct spex_analysis **parts;     /* first file: all files, ordered by time */
    size_t part_count;                /* 0: there is one file */
    struct spex_analysis *reading;    /* first file: the file being read */
    struct shards *shards;            /* first file, during a pass; NULL: one thread counts */
    struct spex_totals own;           /* first file: its own totals */
    struct table thread_sums;         /* sums over all files */
    _Atomic bool enough;              /* no further file needs to be read */
    _Atomic bool cancelled;           /* first file: the host cancelled */
    struct pull *pull;                /* first file: pull.c; NULL: samples go to sinks */
    bool mixed;                       /* sampled with different periods */
    struct cpu_sum {
        int32_t cpu;
        uint64_t samples;
    } * cpu_sums; /* one per CPU of the last pass, in order of queues */
    size_t cpu_sum_count;
};

/* The first of several files. */
static inline struct spex_analysis *analysis_first(struct spex_analysis *a)
{
    return a->whole ? a->whole : a;
}

static inline struct spex_analysis *analysis_reading(struct spex_analysis *a)
{
    return a->reading ? a->reading : a;
}

/*
 * Protects what several stages use. It may be nested; if memory ran out inside, analysis_no_memory
 * releases it, or analysis_unlock_to where the work continues.
 */
unsigned analysis_lock(struct spex_analysis *a); /* how often this thread held it before */
void analysis_unlock(struct spex_analysis *a);
void analysis_unlock_to(struct spex_analysis *a, unsigned before);

/* Should reading stop? */
static inline bool analysis_ends(const struct spex_analysis *a)
{
    return a->stopped || (a->whole ? a->whole : a)->cancelled;
}

/* ---- pull.c ---- */

/* Ends a pass from which nobody wants more. */
void pull_end(struct spex_analysis *a);

/* ---- state.c ---- */

void changes_add(struct changes *changes, int32_t id, uint64_t time);
void changes_sort(struct changes *changes);
/* The slot for the value of a key; the caller stores a value if it is NULL. */
void **state_slot(struct table *table, uint64_t key);
/* The value, or NULL. */
void *state_find(const struct table *table, uint64_t key);
void state_free(struct table *table, bool values);
/* Of two names, takes the one set later; then of two processes, the one with a number. */
static inline void thread_latest(struct thread *t, uint64_t since, const char *comm, int32_t pid)
{
    if (since < t->latest.since || (since == t->latest.since && pid <= t->latest.pid))
        return;
    t->latest.since = since;
    t->latest.comm = comm;
    t->latest.pid = pid;
}
struct process *state_process(struct lane *lane, int32_t pid, uint64_t time);
struct thread *state_thread(struct lane *lane, int32_t tid, int32_t pid, uint64_t time);

static inline uint64_t tick_time(const struct spex_analysis *a, uint64_t tick)
{
    return a->info && a->info->has_time ? spex_perf_time_to_ns(&a->info->time, tick) : tick;
}

/* ---- place.c ---- */

/* A hash for caches, where a collision costs a look-up and no more. */
static inline uint64_t mix(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

static inline size_t place_index(uint64_t ip, uint32_t version)
{
    return (size_t)(mix(ip ^ (uint64_t)version << 48) & (PLACES - 1));
}

/* For code; version is twice that of the process that holds ip. */
void place_fill(struct lane *lane, struct place_slot *s, uint32_t version, int32_t pid,
                uint64_t time, uint64_t ip);

/* ---- queue.c ---- */

/* See analysis_order. */
static inline uint32_t stretch_order(const struct spex_analysis *a, const struct queue *q)
{
    return a->first_stretch + q->first_stretch + q->stretch + 1;
}

void queue_need_reader(struct lane *lane, struct spex_reader **reader);
/* Opens the cursor of a queue; false, with the reason in *status, if it cannot. */
bool queue_open(struct spex_analysis *a, struct queue *q, enum spex_status *status);
void queue_close(struct queue *q);
/* Fills q->records; false at the end of the queue, or if no more is needed. */
bool queue_refill(struct lane *lane, struct queue *q);
/*
 * Computes what each record of a batch stands for; call it for one batch after the other. cut: see
 * queue.
 */
void queue_share(struct lane *lane, struct queue *q, const struct spex_record *records,
                 size_t count, bool cut, struct clock_part *spent);

/* ---- join.c ---- */

/*
 * Makes samples from count records, at most those of a piece. In a record, fields of absent packets
 * are 0.
 */
void join_records(struct lane *lane, struct queue *q, const struct spex_record *records,
                  const struct clock_part *spent, size_t count);
void join_flush(struct lane *lane);

/* ---- analysis.c ---- */

void totals_add(struct spex_totals *sum, const struct spex_totals *t);

/* ---- lanes.c ---- */

void lane_init(struct lane *lane, struct spex_analysis *a, uint32_t *versions);
void lane_fini(struct lane *lane);
/* Adds the lane's counts to its modules, and clears them. */
void lane_count_modules(struct lane *lane);
int16_t *lane_sources(struct lane *lane, const struct spex_cpu_model *model);
/* How many threads can share the queues of a file. */
size_t lanes_most(const struct spex_analysis *a);
/*
 * Reads all queues. Each thread takes some stretches of one, the longest run of them that is left.
 * What a run begins with it sees from the end of the data before. Whether that was right is known
 * once the run before has ended: if not, the threads were not exact.
 */
enum spex_status lanes_run(struct spex_analysis *a, struct shards *shards);

/* The lanes of several threads. */
struct lanes {
    struct spex_analysis *analysis;
    struct lanes_thread *threads;
    unsigned count;
    size_t *order; /* queues, the longest first */
};
/* shards: where they get versions from; NULL: from the file. */
void lanes_start(struct lanes *lanes, struct spex_analysis *a, unsigned count,
                 struct shards *shards);
struct lane *lanes_get(const struct lanes *lanes, unsigned n);
/* Adds what the other lanes counted to the first. */
void lanes_add_up(struct lanes *lanes);
void lanes_end(struct lanes *lanes);

/* ---- rounds.c ---- */

/* All queues, merged by time. */
enum spex_status rounds_run(struct spex_analysis *a);

/* ---- pieces (merge.c) ---- */

void piece_init(struct piece *piece, size_t records);
void piece_fini(struct piece *piece);
/* Reads more of a queue; *more: the queue does not end here. */
void piece_read(struct lane *lane, struct queue *q, struct piece *piece, size_t most, bool *more);
void piece_share(struct lane *lane, const struct piece *piece);

/* ---- merge.c ---- */

/*
 * Call before a pass, since rows need to know early whether operations can be estimated: what the
 * file says about losses.
 */
void merge_losses(struct spex_analysis *a);
/* shards: NULL, or what separate threads count. */
enum spex_status merge_file(struct spex_analysis *a, const struct spex_sink *sinks,
                            size_t sink_count, struct shards *shards, struct spex_error *error);

#endif
