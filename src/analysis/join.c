/* Turns records of a queue into samples (thread, location, kind, source) and filters them. */
#include "pass.h"

#include "base/memory.h"

#include <string.h>

/*
 * Bits 63:56 of an address are a tag or, for instruction addresses, the
 * security state and Exception level. Bit 55 selects the upper or lower half
 * of the address space (D8.1), so it is the sign; perf guesses from EL and
 * from bits 55:52 and agrees wherever a kernel really runs.
 */
static inline uint64_t canonical(uint64_t payload)
{
    return (uint64_t)((int64_t)(payload << 8) >> 8);
}

static const uint64_t WHO_NONE = UINT64_C(1) << 32, WHO_UNTIMED = UINT64_C(1) << 33;

static void intersect(struct span *span, const struct span *with)
{
    span->from = span->from > with->from ? span->from : with->from;
    span->until = span->until < with->until ? span->until : with->until;
}

/*
 * Timestamps that certainly convert to times within span. Conversion rounds, so a little is cut off
 * at both ends; a timestamp there is valid by itself only.
 */
static void tick_range(struct spex_analysis *a, struct queue *q, const struct span *span,
                       uint64_t tick)
{
    uint64_t low = span->from, high = span->until;
    const struct spex_perf_time *t = a->info && a->info->has_time ? &a->info->time : NULL;
    if (t) {
        uint64_t end = high == UINT64_MAX ? high : spex_perf_time_from_ns(t, high);
        low = low ? spex_perf_time_from_ns(t, low) + 2 : 0;
        high = end > 2 && end != UINT64_MAX ? end - 2 : end;
        if (t->cap_short) { /* the counter wraps at mask: comparisons hold between wraps only */
            uint64_t wrap = t->cycles + t->mask;
            low = low > t->cycles ? low : t->cycles;
            high = high < wrap || wrap < t->cycles ? high : wrap;
        }
    }
    if (low > high || tick < low || tick > high)
        low = high = tick;
    q->tick_from = low;
    q->tick_span = high - low;
}

/*
 * The record's thread differs from that of the record before. A context packet names it
 * (CONFIG_PID_IN_CONTEXTIDR), else switch events do.
 */
static void change_thread(struct lane *lane, struct queue *q, uint64_t who, uint64_t tick)
{
    struct spex_analysis *a = lane->analysis;
    bool timed = !(who & WHO_UNTIMED);
    /* without a timestamp, the state at the end of the file is the best guess */
    uint64_t time = timed ? tick_time(a, tick) : UINT64_MAX;
    int32_t tid = q->tid, pid = -1;
    struct span valid = {0, UINT64_MAX};
    if (!(who & WHO_NONE)) {
        tid = (int32_t)who;
    } else if (a->file && q->cpu >= 0) {
        valid = changes_span(&a->cpu_changes, q->cpu, time);
        if (!spex_perfdata_running(a->file, q->cpu, time, &pid, &tid)) {
            tid = q->tid;
            pid = -1;
        }
    }
    struct thread *t = state_thread(lane, tid, pid, time);
    struct process *kernel = state_process(lane, SPEX_PERF_PID_KERNEL, time);
    intersect(&valid, &t->span);
    intersect(&valid, &t->process->span);
    intersect(&valid, &kernel->span);
    q->thread = t;
    q->same = (struct spex_sample){.comm = t->comm,
                                   .pid = t->pid,
                                   .tid = t->tid,
                                   .cpu = q->cpu,
                                   .queue = q->index,
                                   .maps = {t->process->version, kernel->version}};
    q->who = who;
    if (timed) {
        tick_range(a, q, &valid, tick);
    } else {
        q->tick_from = 0;
        q->tick_span = UINT64_MAX;
    }
}

enum { SOURCE_PEER = 0x100 };

static inline unsigned source_index(const struct spex_record *r, unsigned flags)
{
    _Static_assert(SPEX_HAS_DATA_SOURCE >> 4 == SOURCES_PACKET, "one bit");
    return (uint8_t)r->data_source | (r->present & SPEX_HAS_DATA_SOURCE) >> 4 |
           (flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)) * SOURCES_FLAG;
}

/* Finds the source for a value not seen before, or for a memory operation without the packet. */
static unsigned find_source(struct queue *q, const struct spex_record *r, unsigned flags)
{
    struct spex_source_info info;
    bool packet = r->present & SPEX_HAS_DATA_SOURCE && r->data_source < 256;
    unsigned snooped = r->events >> SPEX_EV_SNOOPED & 1 ? SOURCE_PEER : 0;
    spex_source_of(q->model, r, &info);
    if (packet && info.by_packet) {
        const struct spex_record bare = {.present = SPEX_HAS_DATA_SOURCE | SPEX_HAS_OP,
                                         .op_class = SPEX_CLASS_LDST,
                                         .data_source = r->data_source};
        spex_source_of(q->model, &bare, &info); /* without this record's events */
        unsigned peer = info.peer || info.modified ? SOURCE_PEER : 0;
        q->sources[source_index(r, flags)] = (int16_t)(info.source | peer);
        return info.source | peer | snooped;
    }
    if (info.miss) /* a miss in the last cache comes from memory; in another one, unknown */
        info.source = info.source != SPEX_SOURCE_L3 ? SPEX_SOURCE_UNKNOWN
                      : info.remote                 ? SPEX_SOURCE_REMOTE
                                                    : SPEX_SOURCE_DRAM;
    return info.source | snooped;
}

void join_flush(struct lane *lane)
{
    struct memory_pause pause = memory_pause();
    for (size_t i = 0; lane->sample_count && i < lane->sink_count; i++)
        lane->sinks[i].call(lane->sinks[i].context, lane->samples, lane->sample_count);
    memory_resume(pause);
    lane->sample_count = 0;
}

static bool filters_keep(struct lane *lane, const struct spex_sample *s)
{
    for (size_t f = 0; f < lane->analysis->options.filter_count; f++)
        if (!filter_keeps(lane->filters[f], s)) {
            lane->totals.rejected[f]++;
            return false;
        }
    return true;
}

/* Counts how many records lack a packet: timestamp, context, data source, VA, PA. */
typedef uint16_t eight __attribute__((vector_size(16)));

static inline void count_absent(eight *absent, unsigned present)
{
    static const eight kinds = {SPEX_HAS_TIMESTAMP, SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2,
                                SPEX_HAS_DATA_SOURCE, SPEX_HAS_VA, SPEX_HAS_PA};
    *absent -= (eight)((kinds & (uint16_t)present) == 0); /* true is all ones: minus one */
}

static inline void copy_same(struct spex_sample *to, const struct spex_sample *from)
{
    enum { AT = offsetof(struct spex_sample, comm), END = offsetof(struct spex_sample, op) };
    memcpy((char *)to + AT, (const char *)from + AT, END - AT);
}

static void fill_place(struct lane *lane, struct place_slot *slot, const struct spex_sample *s,
                       uint32_t version, uint64_t pc)
{
    const struct spex_record *r = s->record;
    uint64_t time =
        r->present & SPEX_HAS_TIMESTAMP ? tick_time(lane->analysis, r->timestamp) : UINT64_MAX;
    place_fill(lane, slot, version, s->pid, time, pc);
}

static inline bool uses_line(const struct line_set *lines, const struct spex_record *r)
{
    bool uses = line_set_has(lines, r->address[SPEX_ADDRESS_VA]);
    if (r->present & SPEX_HAS_PA)
        uses |= line_set_has(lines, r->address[SPEX_ADDRESS_PA]);
    return uses & (r->present / SPEX_HAS_VA & 1);
}

static void note_saturated(struct lane *lane, struct spex_sample *s)
{
    unsigned full = spex_analysis_saturated(lane->analysis, s->record);
    _Static_assert(SPEX_SAMPLE_LEAST_ISSUE == (unsigned)SPEX_HAS_ISSUE &&
                       SPEX_SAMPLE_LEAST_TRANSLATION == (unsigned)SPEX_HAS_TRANSLATION,
                   "both are the same bits");
    s->flags |= full & (SPEX_HAS_ISSUE | SPEX_HAS_TRANSLATION);
    lane->totals.saturated += full != 0;
}

/* Parts of join_records(), whose loop keeps its state in registers. */
#define PART static inline __attribute__((always_inline))

PART void put_addresses(struct spex_sample *s, const struct spex_record *r, unsigned want)
{
    if (want & SPEX_WANT_BRANCH) {
        s->target = canonical(r->address[SPEX_ADDRESS_TARGET]);
        s->prev_target = canonical(r->address[SPEX_ADDRESS_PREV_TARGET]);
    }
    if (want & SPEX_WANT_DATA) {
        s->va = canonical(r->address[SPEX_ADDRESS_VA]);
        s->pa = spex_address_bits(r->address[SPEX_ADDRESS_PA]);
    }
}

/* Returns where samples of the module are counted, NULL if it has none. */
PART struct lane_module *put_place(struct lane *lane, const struct queue *q, struct spex_sample *s,
                                   uint64_t pc, bool wanted)
{
    struct lane_module *module = NULL;
    s->module = NULL;
    if (__builtin_expect(wanted, 1)) {
        uint32_t version = q->same.maps[pc >> 63] << 1;
        size_t index = place_index(pc, version);
        struct place_slot *slot = &lane->places[index];
        if (__builtin_expect(slot->ip != pc || slot->version != version, 0))
            fill_place(lane, slot, s, version, pc);
        s->place = (uint32_t)index;
        s->module = slot->place.module;
        module = s->module ? &lane->modules[slot->module] : NULL;
        s->address = slot->place.address;
        s->symbol = slot->place.symbol;
    } else {
        s->place = 0;
        s->address = pc;
        s->symbol = NULL;
    }
    return module;
}

/*
 * Mostly a table look-up, without a branch on whether the packet exists: loads have one, stores do
 * not. An absent one is 0. Returns whether the data came from another core.
 */
PART unsigned put_source(struct queue *q, struct spex_sample *s, const struct spex_record *r,
                         unsigned flags)
{
    int from = q->sources[source_index(r, flags)];
    if (__builtin_expect(from < 0 || r->data_source > 255, 0))
        from = (int)find_source(q, r, flags);
    s->source = (uint8_t)from;
    _Static_assert(SOURCE_PEER == SPEX_SAMPLE_PEER << 7, "one bit");
    return ((unsigned)from >> 7 | (unsigned)(r->events >> (SPEX_EV_SNOOPED - 1))) &
           SPEX_SAMPLE_PEER;
}

static void add_totals(struct lane *lane, const eight *absent, size_t count, uint64_t kept)
{
    struct spex_totals *t = &lane->totals;
    t->records += count;
    t->kept += kept;
    /* when only some lines are read this means nothing, so it is not kept */
    t->timed += count - (*absent)[0];
    t->with_context += count - (*absent)[1];
    t->with_source += count - (*absent)[2];
    t->with_va += count - (*absent)[3];
    t->with_pa += count - (*absent)[4];
}

/* Adds a run of records of one thread to that thread. */
static inline void count_thread(const struct queue *q, uint64_t samples)
{
    if (q->thread)
        q->thread->samples += samples;
}

/* want, filtered and only are fields of the analysis, constant in each copy of the loop. */
PART void join_each(struct lane *lane, struct queue *q, const struct spex_record *records,
                    const struct clock_part *spent, size_t count, const unsigned want,
                    const bool filtered, const struct line_set *const only)
{
    struct spex_analysis *a = lane->analysis;
    const struct op_table *ops = a->ops;
    const struct spex_perf_time *clock = a->info && a->info->has_time ? &a->info->time : NULL;
    const bool again = only && a->counted;
    uint64_t first = q->first_tick, last = q->last_tick, kept = 0, of_thread = 0;
    eight absent = {0};
    struct spex_sample *s = &lane->samples[lane->sample_count];
    struct spex_sample *const end = lane->samples + lane->sample_most;
    for (size_t i = 0; i < count; i++) {
        const struct spex_record *r = &records[i];
        unsigned present = r->present;
        if (only && !uses_line(only, r))
            continue;
        uint64_t pc = canonical(r->address[SPEX_ADDRESS_PC]), tick = r->timestamp;
        uint64_t who = WHO_NONE;
        count_absent(&absent, present);
        unsigned op = OP_INDEX(r->op_class, r->op_payload), flags = ops->info[op].flags;
        s->op = ops->info[op].op;
        s->record = r;
        s->spent = spent[i].ps;
        s->pc = pc;
        s->el = (uint8_t)spex_address_el(r->address[SPEX_ADDRESS_PC]);
        flags |= s->el ? SPEX_SAMPLE_KERNEL : 0;
        put_addresses(s, r, want);
        if (present & (SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2))
            who = r->context[!(present & SPEX_HAS_CONTEXT_EL1)];
        s->time = 0;
        if (__builtin_expect(present & SPEX_HAS_TIMESTAMP, 1)) {
            flags |= SPEX_SAMPLE_TIMED;
            if (want & SPEX_WANT_TIME)
                s->time = clock ? spex_perf_time_to_ns(clock, tick) : tick;
        } else {
            who |= WHO_UNTIMED;
        }
        if (__builtin_expect(who != q->who || tick - q->tick_from > q->tick_span, 0)) {
            count_thread(q, of_thread);
            of_thread = 0;
            change_thread(lane, q, who, tick);
        }
        copy_same(s, &q->same);
        s->maps[1] = q->same.maps[1] | (uint32_t)spent[i].alike << MAPS_BITS;
        struct lane_module *module =
            put_place(lane, q, s, pc, want & SPEX_WANT_SYMBOL && present & SPEX_HAS_PC);
        flags |= put_source(q, s, r, flags);
        s->flags = (uint8_t)flags;
        if (filtered && !filters_keep(lane, s)) {
            if (module && !again)
                module->left_out++;
            continue;
        }
        if (counters_may_end(r, &a->end))
            note_saturated(lane, s);
        kept++;
        of_thread += !again;
        if (module && !again) {
            module->samples++;
            if (module->stripped && !(s->symbol && s->symbol->name))
                module->unnamed++;
        }
        if (flags & SPEX_SAMPLE_TIMED) {
            first = tick < first ? tick : first;
            last = tick > last ? tick : last;
        }
        if (++s == end) {
            lane->sample_count = lane->sample_most;
            join_flush(lane);
            s = lane->samples;
        }
    }
    count_thread(q, of_thread);
    lane->sample_count = (size_t)(s - lane->samples);
    add_totals(lane, &absent, count, kept);
    q->samples += again ? 0 : kept;
    q->first_tick = first;
    q->last_tick = last;
}

void join_records(struct lane *lane, struct queue *q, const struct spex_record *records,
                  const struct clock_part *spent, size_t count)
{
    const struct spex_analysis *a = lane->analysis;
    enum { FIELDS = SPEX_WANT_SYMBOL | SPEX_WANT_DATA | SPEX_WANT_BRANCH | SPEX_WANT_TIME };
    const bool filtered = a->options.filter_count > 0;
    const unsigned want = a->options.want | a->filter_want;
    switch (filtered || a->only ? FIELDS : want & FIELDS) {
#define WANTED(fields)                                                                             \
    case fields:                                                                                   \
        join_each(lane, q, records, spent, count, fields, false, NULL);                            \
        break;
        WANTED(SPEX_WANT_SYMBOL)                    /* report */
        WANTED(SPEX_WANT_SYMBOL | SPEX_WANT_DATA)   /* mem */
        WANTED(SPEX_WANT_DATA)                      /* c2c */
        WANTED(SPEX_WANT_SYMBOL | SPEX_WANT_BRANCH) /* branch */
#undef WANTED
    default:
        join_each(lane, q, records, spent, count, want, filtered, a->only);
    }
}
