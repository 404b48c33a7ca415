/*
 * From records to answers: one pass over a profile that joins every sample
 * record with its process, thread, CPU, time, mapping, symbol and data source,
 * drops what the filters do not want, and hands batches to sinks; and grouping,
 * the sink behind every table (samples, latencies, misses per key).
 *
 * Memory is bounded: records are never kept. A group is exact for SPEX_GROUP_MAX distinct
 * keys; beyond that, small ones are merged into one row, and spex_group_error says how many
 * samples a row may lack.
 *
 * An analysis can be run several times. It belongs to one thread, but may start others while it
 * runs (options.threads).
 */
#ifndef SPEX_ANALYSIS_H
#define SPEX_ANALYSIS_H

#include <spex/datasource.h>
#include <spex/perfdata.h>
#include <spex/record.h>
#include <spex/symbols.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- opening ---- */

struct spex_analysis;

/* One filter: name without dashes ("comm", "min-latency"), value as typed. */
struct spex_filter {
    const char *name, *value;
};
/* Names and help of all filters, NULL past the last. */
const char *spex_filter_name(size_t index, const char **help); /* since 1.0 */

/*
 * A value of the filter "time", as ranges of ns that may overlap: of a file whose records are of
 * first to last, by which parts in percent go (both 0: not known). Returns SPEX_INVALID with a text
 * if it is none; *count: how many there are, of which at most capacity are filled in (since 1.4).
 */
struct spex_time_range {
    uint64_t low, high; /* both belong to it */
};
enum spex_status spex_time_ranges(const char *value, uint64_t first, uint64_t last,
                                  struct spex_time_range *ranges, size_t capacity, size_t *count,
                                  struct spex_error *error); /* since 1.4 */

/* Parts of a sample that take time to compute; each sink names the ones it needs. */
enum spex_want {
    SPEX_WANT_BASE = 1u << 0,          /* what every sample has, and nothing else */
    SPEX_WANT_TIME = 1u << 1,          /* time */
    SPEX_WANT_DATA = 1u << 2,          /* va, pa */
    SPEX_WANT_BRANCH = 1u << 3,        /* target, prev_target */
    SPEX_WANT_SYMBOL = 1u << 4,        /* module, symbol, address */
    SPEX_WANT_SPENT = 1u << 5,         /* spent */
    SPEX_WANT_STACK = 1u << 6,         /* the key of the caller */
    SPEX_WANT_ALLOC = 1u << 7,         /* the keys of allocations */
    SPEX_WANT_LITTLE = SPEX_WANT_BASE, /* the name of SPEX_WANT_BASE up to version 1.1 */
};

struct spex_analysis_options {
    size_t size;   /* sizeof(struct spex_analysis_options) */
    unsigned want; /* enum spex_want; 0: everything */
    bool raw;      /* the input is an SPE stream, not a perf.data file */
    bool ordered;  /* hand out samples of all CPUs in order of time */
    uint64_t midr; /* CPU for data sources when the file does not say; 0 unknown */
    const struct spex_symbols_options *symbols; /* NULL: none */
    const struct spex_filter *filters;          /* all must hold; commas in a value mean "or" */
    size_t filter_count;
    void (*progress)(void *context, uint64_t done, uint64_t size); /* may be NULL */
    void *context;
    /*
     * Further files of the same profile, as perf record --switch-output makes them: read one after
     * the other in order of time, each with its own threads, mappings and CPUs.
     */
    const char *const *more;
    size_t more_count;
    /*
     * How many threads read, join and count; 0 means 1. The results are the same for any
     * number. Any of the threads may call a sink, but never two at a time.
     */
    unsigned threads;
    /*
     * 1: divide time among samples by their latencies alone, instead of replaying the program's
     * code to see what each instruction costs (docs/time.md).
     */
    uint64_t no_replay;
    /*
     * Bytes that the analysis, its symbols, its groups and its files may allocate; 0: half of what
     * the machine or the control group has. Only their own allocations count, not those of the
     * rest of the process (since 1.4).
     */
    uint64_t max_memory;
    const struct spex_allocator *allocator; /* where from; NULL: malloc (since 1.4) */
    /* What is read, if not path; path then is a name for messages, or NULL (since 1.4). */
    uint32_t input;     /* enum spex_input */
    int32_t descriptor; /* used with SPEX_INPUT_DESCRIPTOR */
    const void *data;   /* used with SPEX_INPUT_MEMORY */
    size_t data_size;
};

/*
 * path NULL or "-" is standard input; options NULL means defaults. What filters and symbols
 * point to is copied. Since 1.0.
 */
enum spex_status spex_analysis_open(const char *path, const struct spex_analysis_options *options,
                                    struct spex_analysis **analysis, struct spex_error *error);
void spex_analysis_close(struct spex_analysis *analysis); /* since 1.0 */

/*
 * How whose time it is was told (docs/time.md): the program was walked through again, by the
 * numbers of a core, and what that says of latencies that it does not use is compared with the
 * samples.
 */
enum spex_trust { SPEX_TRUST_NONE, SPEX_TRUST_POOR, SPEX_TRUST_FAIR, SPEX_TRUST_GOOD };
struct spex_replay {
    size_t size;      /* sizeof(struct spex_replay), set by the caller */
    const char *core; /* whose numbers; NULL: those of a middling core */
    /* share of samples that were replayed; the others are weighed by their latencies alone */
    double share;
    /* mean difference between replayed and sampled issue latencies, relative to their mean */
    double misfit;
    double cycles; /* cycles per operation, as replayed */
    double clock;  /* implied clock of the CPU in GHz; 0: unknown */
    /* how far the time of functions that take turns is off, relative to it: a standard deviation */
    double weights_off;
    enum spex_trust trust;
    /*
     * 1: the CPU is not known, or its own core's numbers did not fit, and of all cores' these fit
     * best. Then `unfit` is the CPU's own core, or NULL if it is not known, and unfit_misfit its
     * misfit.
     */
    uint32_t chosen;
    const char *unfit;
    double unfit_misfit;
};
/* After a pass with SPEX_WANT_SPENT; share is 0 where nothing was replayed. Since 1.4. */
void spex_analysis_replay(const struct spex_analysis *analysis, struct spex_replay *replay);
const char *spex_trust_name(enum spex_trust trust); /* "none", "poor", "fair", "good"; since 1.4 */

/*
 * What an instruction that was sampled mostly waited for (since 1.4): the one that made its
 * operand, as the replay has it. False: it was not replayed, or did not wait.
 */
struct spex_wait {
    struct spex_module *module; /* module of the instruction that was waited for */
    uint64_t address;
    bool stores; /* it is a store, and this loads its data */
    uint8_t zero[15];
};
bool spex_analysis_waits_for(const struct spex_analysis *analysis, const struct spex_module *module,
                             uint64_t address, struct spex_wait *wait); /* since 1.4 */

/*
 * What later passes are to compute, instead of options.want: enum spex_want, 0 as there (since
 * 1.4). They read all records again after spex_sharing_choose.
 */
void spex_analysis_want(struct spex_analysis *analysis, unsigned want);

/* ---- samples ---- */

/* What an operation is, one word; details are in record->op_class and op_payload. */
enum spex_sample_op {
    SPEX_SAMPLE_OTHER,
    SPEX_SAMPLE_LOAD,
    SPEX_SAMPLE_STORE,
    SPEX_SAMPLE_ATOMIC, /* load and store in one: LSE atomics, swaps */
    SPEX_SAMPLE_BRANCH,
    SPEX_SAMPLE_OP_COUNT
};
const char *spex_sample_op_name(enum spex_sample_op op); /* since 1.0 */
/* The whole operation in words: "branch cond", "load simd-fp", "atomic acq-rel". */
const char *spex_sample_op_text(unsigned op_class, unsigned op_payload); /* since 1.0 */

enum spex_sample_flag {
    SPEX_SAMPLE_KERNEL = 1u << 0, /* pc is of EL1 or higher */
    SPEX_SAMPLE_PEER = 1u << 1,   /* another core's cache answered (data source or event) */
    SPEX_SAMPLE_READS = 1u << 2,
    SPEX_SAMPLE_WRITES = 1u << 3,
    SPEX_SAMPLE_TIMED = 1u << 4,       /* time is known */
    SPEX_SAMPLE_INDIRECT = 1u << 5,    /* indirect branch: the target is not in the instruction */
    SPEX_SAMPLE_LEAST_ISSUE = 1u << 6, /* this latency is saturated: "at least" */
    SPEX_SAMPLE_LEAST_TRANSLATION = 1u << 7,
};

struct spex_sample {
    const struct spex_record *record; /* raw fields; look at record->present first */
    uint64_t pc, target, prev_target; /* canonical: sign-extended, tags removed; 0 absent */
    uint64_t va, pa;
    uint64_t time;                    /* perf's clock, ns */
    uint64_t address;                 /* pc as a module address */
    const struct spex_symbol *symbol; /* NULL if unknown */
    struct spex_module *module;       /* NULL if no mapping holds pc */
    const char *comm;                 /* interned: equal names are equal pointers */
    int32_t pid, tid, cpu;            /* -1 unknown */
    uint32_t queue;                   /* index of its queue: spex_perfdata_queue */
    uint32_t maps[2];                 /* private; spex_sample_alike knows what is to be known */
    uint8_t op;                       /* enum spex_sample_op */
    uint8_t source;                   /* enum spex_source */
    uint8_t el;                       /* Exception level of pc */
    uint8_t flags;                    /* enum spex_sample_flag */
    /* below SPEX_PLACES, usually the same for the same pc: an index for a sink's own cache */
    uint32_t place;
    uint64_t spent; /* CPU time that the sample stands for, in ps (docs/time.md) */
};
enum { SPEX_PLACES = 1 << 14 };

/* Does the sample read or write memory at an address that is known? */
static inline bool spex_sample_memory(const struct spex_sample *sample)
{
    bool known = sample->record->present & SPEX_HAS_VA; /* no branches: often mispredicted */
    bool used = sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES);
    return known & used;
}

/*
 * How many records of its queue were taken so close together that they are one observation, this
 * one among them: 1 to 64. Intervals count observations, not records (docs/time.md; since 1.4).
 */
unsigned spex_sample_alike(const struct spex_sample *sample);

/* Samples are the library's, until the sink returns. */
typedef void spex_sample_sink(void *context, const struct spex_sample *samples, size_t count);

/*
 * One pass over the file. SPEX_OK also when parts were damaged: see the totals.
 * Fails only if nothing can be read.
 */
enum spex_status spex_analysis_run(struct spex_analysis *analysis, spex_sample_sink *sink,
                                   void *context, struct spex_error *error); /* since 1.0 */

/*
 * The same, for sinks that can fail (since 1.4): SPEX_OK goes on, SPEX_END has seen enough, and
 * anything else ends the pass, which returns it. After that the sink is not called again.
 *
 *     static enum spex_status print(void *file, const struct spex_sample *samples, size_t count)
 *     {
 *         for (size_t i = 0; i < count; i++)
 *             if (fprintf(file, "0x%" PRIx64 "\n", samples[i].pc) < 0)
 *                 return SPEX_IO;
 *         return SPEX_OK;
 *     }
 */
typedef enum spex_status spex_sample_taker(void *context, const struct spex_sample *samples,
                                           size_t count);
enum spex_status spex_analysis_each(struct spex_analysis *analysis, spex_sample_taker *sink,
                                    void *context, struct spex_error *error); /* since 1.4 */

/*
 * The same pass without a sink (since 1.4): each call hands out the samples that come next, which
 * are good until the next call or spex_analysis_close; SPEX_END after the last ones, and then
 * a new pass may begin. Between the first call and SPEX_END (or an error, which also ends the
 * pass) no other pass can be made. A thread of the library's own reads while the call waits.
 *
 *     while (!(status = spex_analysis_next(analysis, &samples, &count, &error)))
 *         for (size_t i = 0; i < count; i++)
 *             look_at(&samples[i]);
 */
enum spex_status spex_analysis_next(struct spex_analysis *analysis,
                                    const struct spex_sample **samples, size_t *count,
                                    struct spex_error *error);

/*
 * Ends the pass that is being made, or else the next one, with SPEX_CANCELLED; the one after that
 * is whole again. May be called by any thread, and by a sink; not at the same time as
 * spex_analysis_close (since 1.4).
 */
void spex_analysis_cancel(struct spex_analysis *analysis);

/* For a sink that has seen enough: no more of the file is read. Some samples may still come. */
void spex_analysis_stop(struct spex_analysis *analysis); /* since 1.0 */

/* What a data address belongs to, at the end of the profile or at the time of a sample. */
struct spex_place {
    struct spex_module *module; /* NULL: no mapping */
    uint64_t address;           /* module address */
    const struct spex_symbol *symbol;
    uint64_t zero;
};
void spex_analysis_locate(struct spex_analysis *analysis, int pid, uint64_t ip,
                          struct spex_place *place); /* since 1.0 */
void spex_sample_locate(struct spex_analysis *analysis, const struct spex_sample *sample,
                        uint64_t ip, struct spex_place *place); /* since 1.0 */

/* ---- what was sampled ---- */

/* Kept samples by thread and by CPU, most first; false past the last. */
struct spex_thread_total {
    const char *comm; /* last seen */
    int32_t pid, tid;
    uint64_t samples;
    uint64_t zero;
};
bool spex_analysis_thread(const struct spex_analysis *analysis, size_t index,
                          struct spex_thread_total *total);         /* since 1.0 */
size_t spex_analysis_threads(const struct spex_analysis *analysis); /* how many (since 1.4) */
struct spex_cpu_total {
    int32_t cpu; /* -1: queues are per thread */
    uint64_t samples;
    uint64_t zero;
};
bool spex_analysis_cpu(const struct spex_analysis *analysis, size_t index,
                       struct spex_cpu_total *total); /* since 1.0 */

enum { SPEX_FILTER_MAX = 16 };

struct spex_totals {
    uint64_t records;                   /* decoded */
    uint64_t kept;                      /* passed all filters */
    uint64_t rejected[SPEX_FILTER_MAX]; /* first dropped by options.filters[i] */
    uint64_t timed, with_context;       /* records with a timestamp, with a context packet */
    uint64_t with_source, with_va, with_pa;
    uint64_t saturated;              /* kept samples with a counter at its largest value */
    uint64_t first_time, last_time;  /* ns; first and last of the kept samples */
    uint64_t bytes;                  /* bytes of SPE data */
    uint64_t damaged, damaged_bytes; /* damaged spots and bytes given up */
    uint64_t first_damage;           /* file offset of the first */
    const char *damage_reason;
    uint64_t lost;                /* PERF_RECORD_LOST events */
    uint64_t truncated, collided; /* AUX records with these flags */
    uint64_t spent;               /* CPU time that is divided among the records, in ns */
    uint64_t away;                /* ns between records in which their thread did not run */
    uint64_t beside_loss;         /* ns between a record before and one after lost data */
    uint64_t unseen;              /* ns between records, spent in a kernel that was not sampled */
};
/* Since 1.0. */
const struct spex_totals *spex_analysis_totals(const struct spex_analysis *analysis);

struct spex_sampling {
    bool known;      /* the file says how it was sampled */
    uint64_t period; /* operations between samples; 0 unknown */
    bool jitter, timestamps, physical;
    char terms[160];      /* "ts_enable=1,jitter=1" */
    char filters[160];    /* hardware filters among them, "" if none */
    const char *cpu_name; /* the name that MIDR stands for, or NULL */
    uint32_t midr;
    /* the value at which counters saturate: 0xfff, or 0xffff if any counter exceeds that */
    uint16_t counter_most;
};
/* Since 1.0. */
const struct spex_sampling *spex_analysis_sampling(const struct spex_analysis *analysis);
/*
 * Which counters of a record are saturated, so mean "at least" (D18.2.3): SPEX_HAS_TOTAL, _ISSUE,
 * _TRANSLATION, _ALT_ISSUE.
 */
unsigned spex_analysis_saturated(const struct spex_analysis *analysis,
                                 const struct spex_record *record);         /* since 1.0 */
struct spex_symbols *spex_analysis_symbols(struct spex_analysis *analysis); /* since 1.0 */
/* The file (the first if there are several); NULL for a raw stream. Since 1.0. */
const struct spex_perfdata *spex_analysis_file(const struct spex_analysis *analysis);

/*
 * One of the files of a profile (since 1.4): its name, its part of the totals, and the file, NULL
 * of a raw stream. While no pass is made its events may be walked through (spex_perfdata_rewind,
 * _next).
 */
struct spex_part {
    const char *name;
    const struct spex_totals *totals;
    struct spex_perfdata *file;
    uint64_t zero;
};
/* Since 1.4. */
bool spex_analysis_part(const struct spex_analysis *analysis, size_t index, struct spex_part *part);
/* First and last time in the files in ns, by what they say; both 0 if not known (since 1.4). */
void spex_analysis_extent(const struct spex_analysis *analysis, uint64_t *first, uint64_t *last);
/*
 * How much of the time at work lies in each interval of 2^shift ns, from number first on (since
 * 1.4). Later passes add the time of all records, kept or not, to ns, which has count of them and
 * is the host's; NULL: no longer.
 */
struct spex_time_bins {
    uint64_t first, *ns;
    unsigned shift, count;
};
void spex_analysis_count_time(struct spex_analysis *analysis,
                              struct spex_time_bins *bins); /* since 1.4 */

/*
 * For a host with threads of its own, which ask for names and places between two passes: between
 * on and off several of them may, of the analysis, its modules and its groups. Such pairs may be
 * nested. Returns options.threads (since 1.4).
 */
unsigned spex_analysis_together(struct spex_analysis *analysis, bool on);

/* The name of a process, "?" if none of its threads had samples (since 1.4). */
const char *spex_analysis_comm(const struct spex_analysis *analysis, int32_t pid);

/*
 * The files that a profile was read with besides itself (since 1.4): programs, debug files, symbols
 * of the kernel, what just-in-time compilers told. Opens all that its modules have. path is where
 * a file is; name is where options.symbols->beside looks for it: an archive of a profile has it
 * there. take ends this by returning something else than SPEX_OK, which is then returned, too.
 */
typedef enum spex_status spex_file_taker(void *context, const char *path, const char *name);
enum spex_status spex_analysis_beside(struct spex_analysis *analysis, spex_file_taker *take,
                                      void *context); /* since 1.4 */

/* Why numbers of operations cannot be estimated from samples; NULL if they can. */
const char *spex_analysis_no_estimate(const struct spex_analysis *analysis); /* since 1.0 */

/* ---- statistics ---- */

/* 95% Wilson score interval of count out of total. */
struct spex_interval {
    double low, high;
};
struct spex_interval spex_share_interval(uint64_t count, uint64_t total); /* since 1.0 */
/* 95% interval of count1/total1 - count0/total0 (Newcombe). */
struct spex_interval spex_difference_interval(uint64_t count0, uint64_t total0, uint64_t count1,
                                              uint64_t total1); /* since 1.0 */
/*
 * Variance of a part of a program's time by sampling, ns^2: its time and that of all in ns, and
 * the sums of squares of both (struct spex_stats). All the time is exact, which part of it is this
 * one's is not (docs/time.md; since 1.4).
 */
double spex_time_variance(double time, double square, double all, double all_square);
/* 95% interval of such a part's share of all time, by its variance (since 1.4). */
struct spex_interval spex_time_interval(double time, double variance, double all);

/* ---- grouping ---- */

enum { SPEX_GROUP_MAX = 1000000, SPEX_KEYS_MAX = 5 };

enum spex_key {
    SPEX_KEY_SYMBOL,
    SPEX_KEY_DSO,
    SPEX_KEY_SRCLINE,
    SPEX_KEY_PC,
    SPEX_KEY_COMM,
    SPEX_KEY_PID,
    SPEX_KEY_TID,
    SPEX_KEY_CPU,
    SPEX_KEY_OP,
    SPEX_KEY_SOURCE,
    SPEX_KEY_DATA_SYMBOL,
    SPEX_KEY_DATA_DSO,
    SPEX_KEY_PAGE,
    SPEX_KEY_CACHE_LINE,
    SPEX_KEY_OFFSET, /* offset in the cache line */
    SPEX_KEY_TARGET,
    SPEX_KEY_PREV_TARGET,
    SPEX_KEY_LATENCY,  /* total latency, by powers of two */
    SPEX_KEY_TIME_BIN, /* interval of time: see spex_group_options.time_shift */
    SPEX_KEY_CALLER,   /* the function that called, where there are call stacks */
    SPEX_KEY_STACK,    /* all that called, the nearest first */
    SPEX_KEY_ALLOC,    /* where the data was allocated, in profiles of record --allocs; else what
                          SPEX_KEY_DATA_SYMBOL says */
    SPEX_KEY_BLOCK_OFFSET, /* offset in the allocated block */
    SPEX_KEY_TYPE,         /* type of the data */
    SPEX_KEY_MEMBER,       /* member of that type */
    SPEX_KEY_TYPE_OFFSET,  /* offset of that member in the type */
    SPEX_KEY_TYPE_LINE,    /* SPEX_KEY_TYPE_OFFSET rounded down to cache lines */
    SPEX_KEY_COUNT
};
const char *spex_key_name(enum spex_key key); /* the spelling of --sort; since 1.0 */
const char *spex_key_help(enum spex_key key); /* since 1.0 */
unsigned spex_key_wants(enum spex_key key);   /* enum spex_want; since 1.0 */
bool spex_key_parse(const char *name, size_t length, enum spex_key *key); /* since 1.0 */

/* clang-format off */
enum spex_latency { SPEX_LATENCY_TOTAL, SPEX_LATENCY_ISSUE, SPEX_LATENCY_TRANSLATION,
                    SPEX_LATENCY_EXECUTE, /* total - issue */
                    SPEX_LATENCY_COUNT };
/* clang-format on */

struct spex_row; /* of a group: spex_row_* functions read it */

/* What a row counts, in samples. */
enum spex_stat {
    SPEX_STAT_SAMPLES,
    SPEX_STAT_RETIRED,
    SPEX_STAT_READS,
    SPEX_STAT_WRITES,
    SPEX_STAT_BRANCHES,
    SPEX_STAT_NOT_TAKEN,
    SPEX_STAT_MISPREDICTED,
    SPEX_STAT_L1_ACCESS,
    SPEX_STAT_L1_MISS,
    SPEX_STAT_L2_ACCESS,
    SPEX_STAT_L2_MISS,
    SPEX_STAT_LLC_ACCESS,
    SPEX_STAT_LLC_MISS,
    SPEX_STAT_TLB_ACCESS,
    SPEX_STAT_TLB_WALK,
    SPEX_STAT_REMOTE,
    SPEX_STAT_PEER,     /* another core's cache answered */
    SPEX_STAT_MODIFIED, /* the line was dirty there */
    SPEX_STAT_COUNT
};
uint64_t spex_row_stat(const struct spex_row *row, enum spex_stat stat); /* since 1.0 */
/* Samples whose data came from a source; samples with a latency, and their sum in cycles. */
uint64_t spex_row_source(const struct spex_row *row, enum spex_source source); /* since 1.0 */
/* Since 1.0. */
uint64_t spex_row_latencies(const struct spex_row *row, enum spex_latency latency, uint64_t *sum);

/* Time of a row's samples in ns (docs/time.md); 0 if records have no timestamps. */
double spex_row_time(const struct spex_row *row); /* since 1.1 */

/* All that a row counts, at once: samples, where nothing else is said (since 1.4). */
enum { SPEX_SOURCES_MAX = 16 };
struct spex_stats {
    size_t size; /* sizeof(struct spex_stats), set by the caller */
    uint64_t samples, retired, reads, writes, branches, not_taken, mispredicted;
    uint64_t l1_access, l1_miss, l2_access, l2_miss, llc_access, llc_miss;
    uint64_t tlb_access, tlb_walk, remote, peer, modified;
    uint64_t repeats;   /* that come after one of the same row, in the same thread and queue */
    uint64_t time;      /* ps */
    double time_square; /* ns^2: each one's time squared, times the samples of its observation */
    uint64_t latency_count[SPEX_LATENCY_COUNT];
    uint64_t latency_sum[SPEX_LATENCY_COUNT]; /* cycles */
    uint64_t source[SPEX_SOURCES_MAX];        /* by enum spex_source */
    unsigned flags;                           /* enum spex_sample_flag that any of them has */
    uint8_t zero[4];
};
void spex_row_stats(const struct spex_row *row, struct spex_stats *stats); /* since 1.4 */

struct spex_group;

enum spex_group_flag {
    SPEX_GROUP_PERCENTILES = 1u << 0,     /* keep exact histograms of total latency */
    SPEX_GROUP_ALL_PERCENTILES = 1u << 1, /* histograms of all latencies */
    SPEX_GROUP_EXECUTE = 1u << 2,         /* histograms of execute latency only */
    SPEX_GROUP_TRANSLATION = 1u << 3,     /* histograms of execute and translation latency */
    /*
     * What spex_stats.repeats counts are samples after one of the same function, which is one of
     * the keys but not the first, whatever the others: so that groups derived from this one have
     * the sums of a group by function (since 1.4).
     */
    SPEX_GROUP_REPEAT_FUNCTIONS = 1u << 4,
};
struct spex_group_options {
    size_t size; /* sizeof(struct spex_group_options) */
    const enum spex_key *keys;
    size_t key_count; /* 1 to SPEX_KEYS_MAX */
    unsigned flags;   /* enum spex_group_flag */
    /*
     * For SPEX_KEY_TIME_BIN: intervals of 2^time_shift ns, counted from time 0. The key is the
     * number of the interval, UINT64_MAX without a time. 0: a few hundred intervals for the whole
     * file.
     */
    unsigned time_shift;
};
enum spex_status spex_group_new(struct spex_analysis *analysis,
                                const struct spex_group_options *options, struct spex_group **group,
                                struct spex_error *error); /* since 1.0 */
void spex_group_free(struct spex_group *group);            /* since 1.0 */
/* A spex_sample_sink; context is the group. */
void spex_group_sink(void *group, const struct spex_sample *samples, size_t count); /* since 1.0 */
/* Chosen samples. */
void spex_group_add(struct spex_group *group, const struct spex_sample *const *samples,
                    size_t count); /* since 1.0 */
/*
 * Call before the first sample: group then takes no samples itself but sums up the rows of a
 * finer group, whose keys determine its own (the same key, or a page from a cache line). It
 * counts all of them, merged rows too. Sort it before finer is freed.
 */
void spex_group_derive(struct spex_group *group, struct spex_group *finer); /* since 1.0 */
/*
 * As derive, of one function and after the last sample: finer has a key for it, and all samples
 * (spex_group_exact; since 1.4).
 */
void spex_group_derive_of(struct spex_group *group, struct spex_group *finer,
                          const struct spex_symbol *symbol);

/*
 * The row that a sample belongs to, which is not counted; and that of a row of another group with
 * the same keys. It is made if it is not there; NULL: no memory. Rows of a group that was sorted
 * are not found: ask before that (since 1.4).
 */
const struct spex_row *spex_group_find(struct spex_group *group, const struct spex_sample *sample);
const struct spex_row *spex_group_find_like(struct spex_group *group,
                                            const struct spex_row *row); /* since 1.4 */

enum spex_order {
    SPEX_BY_SAMPLES,
    SPEX_BY_LATENCY, /* sum of total latencies */
    SPEX_BY_MISPREDICTS,
    SPEX_BY_TIME,    /* sum of time; number of samples if there are no times */
    SPEX_BY_EXECUTE, /* sum of execute latencies */
    SPEX_BY_KEYS,    /* ascending order of keys */
    SPEX_BY_NOTHING, /* in no order, and without a total (since 1.4) */
};
/*
 * Sorts rows, largest first (ties by the keys). Call after the last sample and before reading
 * rows. After SPEX_NO_MEMORY there are no rows.
 */
enum spex_status spex_group_sort(struct spex_group *group, enum spex_order order); /* since 1.0 */
/* Number of distinct keys; beyond SPEX_GROUP_MAX an estimate, good to a few percent. */
uint64_t spex_group_keys(const struct spex_group *group); /* since 1.0 */
size_t spex_group_count(const struct spex_group *group);  /* since 1.0 */
/* Or NULL. Since 1.0. */
const struct spex_row *spex_group_row(const struct spex_group *group, size_t index);
/* Sum of all rows. Since 1.0. */
const struct spex_row *spex_group_total(const struct spex_group *group);
/* One row that sums up the rows merged for lack of space; NULL if none were. */
const struct spex_row *spex_group_rest(const struct spex_group *group); /* since 1.0 */
/* 95% interval of a row's share of all time, or of all samples if there are no timestamps. */
struct spex_interval spex_row_time_interval(const struct spex_group *group,
                                            const struct spex_row *row); /* since 1.1 */
/*
 * True if most of the row's work is in runs longer than two sampling periods. If not, time is
 * divided between the row and its neighbours by what each operation probably cost, and the
 * interval covers the error of sampling but not of this division. Since 1.1.
 */
bool spex_row_long_runs(const struct spex_group *group, const struct spex_row *row);
/*
 * How much a row's time differs in another run of the same program, as far as one run shows:
 * variance in ns^2. What lies before the first sample and after the last of each thread counts,
 * and so do the weights of samples; 0 without time (since 1.4).
 */
double spex_row_time_variance(const struct spex_group *group, const struct spex_row *row);
/* Upper bound on the samples that a row may lack; 0: exact. */
uint64_t spex_group_error(const struct spex_group *group); /* since 1.0 */
/* After the samples: whether every row has all of its samples and latencies (since 1.4). */
bool spex_group_exact(const struct spex_group *group);
/* The latency at quantile q (0..1) of the samples; negative if unknown. */
int spex_row_latency(const struct spex_group *group, const struct spex_row *row,
                     enum spex_latency latency, double q); /* since 1.0 */
/*
 * Adds a row's latencies to buckets of half a power of two: 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15, ...
 * False: they are not known, or there was no room for them (since 1.4).
 */
enum { SPEX_BUCKETS = 32 };
bool spex_row_buckets(const struct spex_group *group, const struct spex_row *row,
                      enum spex_latency latency, uint64_t counts[SPEX_BUCKETS]); /* since 1.4 */
/* The n-th key as a value: pid, tid, cpu, enum, data address. Since 1.0. */
uint64_t spex_row_value(const struct spex_group *group, const struct spex_row *row, size_t n);
/* Of SPEX_KEY_SYMBOL: the symbol, NULL if there is none. Of SPEX_KEY_PC: the module address. */
const struct spex_symbol *spex_row_symbol(const struct spex_group *group,
                                          const struct spex_row *row, size_t n); /* since 1.0 */
/* Since 1.0. */
uint64_t spex_row_address(const struct spex_group *group, const struct spex_row *row, size_t n);
/* Of a key that names code or data, or its file: the module, NULL if there is none (since 1.4). */
struct spex_module *spex_row_module(const struct spex_group *group, const struct spex_row *row,
                                    size_t n);
/* Of SPEX_KEY_SRCLINE: false if the code has no line (since 1.4). */
bool spex_row_line(const struct spex_group *group, const struct spex_row *row, size_t n,
                   struct spex_line *line);
/* Of SPEX_KEY_PAGE and SPEX_KEY_CACHE_LINE: the process, -1 for the kernel (since 1.4). */
int32_t spex_row_pid(const struct spex_group *group, const struct spex_row *row, size_t n);
/*
 * The words that a key consists of, for tables of one's own: two rows of groups of one analysis
 * have the same n-th key if their words are equal. *words: how many there are. Those of the next
 * key follow (since 1.4).
 */
const uint64_t *spex_row_words(const struct spex_group *group, const struct spex_row *row, size_t n,
                               size_t *words);
/*
 * Text of the n-th key of a row, cut at capacity and terminated. Returns the length of the whole
 * text.
 */
size_t spex_row_text(const struct spex_group *group, const struct spex_row *row, size_t n,
                     char *text, size_t capacity); /* since 1.0 */

/*
 * ---- cache lines that threads share ----
 *
 * Two passes: the first finds lines that several threads use and at least one
 * writes, the second looks at those closely. Lines are told apart by physical
 * address where records have one, else by process and virtual address.
 *
 *   contention  how likely two neighbouring accesses conflict: different threads
 *               at the same time, one of them writing; from counts and times
 *   peer        loads that another core's cache answered, where the CPU reports it
 *   score       contention, lowered where the CPU reports that data hardly moved
 *
 * choose also narrows the analysis to the records of the lines it kept.
 */
struct spex_sharing;
enum spex_status spex_sharing_new(struct spex_analysis *analysis, struct spex_sharing **sharing,
                                  struct spex_error *error); /* since 1.0 */
void spex_sharing_free(struct spex_sharing *sharing);        /* since 1.0 */
/* Since 1.0. */
void spex_sharing_find(void *sharing, const struct spex_sample *samples, size_t count);
/*
 * Between the passes: keeps the candidates and returns how many; 0 if there are none or
 * memory ran out.
 */
size_t spex_sharing_choose(struct spex_sharing *sharing); /* since 1.0 */
/* Since 1.0. */
void spex_sharing_look(void *sharing, const struct spex_sample *samples, size_t count);
/*
 * After the first pass, before choose: the lines that took the most cycles, shared or not, into
 * lines, which has room for most of them. *count: how many (since 1.4).
 */
struct spex_hot_line {
    uint64_t address, cycles; /* virtual address in the first process that used it */
    uint64_t physical;        /* address, or 0 */
    uint32_t samples;
    int32_t pid; /* -1: of the kernel */
};
enum spex_status spex_sharing_hottest(const struct spex_sharing *sharing, size_t most,
                                      struct spex_hot_line *lines, size_t *count); /* since 1.4 */
/*
 * After choose: the next passes have, besides the records of the lines it kept, those of these
 * lines, by virtual or physical address, and of a few others by chance; and of all these what want
 * says (enum spex_want). Totals stay as they are, until spex_analysis_want (since 1.4).
 */
void spex_sharing_widen(struct spex_sharing *sharing, unsigned want, const uint64_t *addresses,
                        size_t count);
/* SPEX_OK or SPEX_NO_MEMORY. Since 1.0. */
enum spex_status spex_sharing_finish(struct spex_sharing *sharing);

enum spex_sharing_kind { SPEX_SHARING_FALSE, SPEX_SHARING_TRUE, SPEX_SHARING_MIXED };

struct spex_shared_line {
    uint64_t address; /* virtual, of one user of the line */
    int32_t pid;
    enum spex_sharing_kind kind;
    /* apart: share of the conflicts that are between different words */
    double score, contention, apart;
    double overlap; /* how much the threads overlap in time; NAN without timestamps */
    uint64_t samples, loads, stores;
    /* loads that another core answered; loads with a known data source */
    uint64_t peer, with_source;
    unsigned threads, writers;
    size_t first_use, uses; /* spex_sharing_use */
    int32_t lock; /* offset of a word that threads take turns to own, as they do a lock; -1: none */
};
struct spex_shared_use { /* one word of a line used by one thread at one line of code */
    unsigned offset;
    int32_t tid;
    const char *comm;
    const struct spex_row *row; /* statistics; latencies are of loads only */
};
enum { SPEX_USE_SYMBOL = 3, SPEX_USE_SRCLINE = 4 }; /* keys of the row, for spex_row_text */
struct spex_sharing_totals {
    uint64_t memory; /* samples with a data address */
    uint64_t lines;  /* distinct lines seen */
    uint64_t shared; /* used by several threads, at least one of them writing */
    uint64_t merged; /* lines merged when there were too many */
    bool sources;    /* the CPU reports where data came from */
    bool timed;
};
/* Highest score times samples first; NULL past the last. Since 1.0. */
const struct spex_shared_line *spex_sharing_line(const struct spex_sharing *sharing, size_t index);
/* Since 1.0. */
const struct spex_shared_use *spex_sharing_use(const struct spex_sharing *sharing, size_t index);
const struct spex_group *spex_sharing_group(const struct spex_sharing *sharing); /* since 1.0 */
/* Since 1.0. */
const struct spex_sharing_totals *spex_sharing_totals(const struct spex_sharing *sharing);

#ifdef __cplusplus
}
#endif
#endif
