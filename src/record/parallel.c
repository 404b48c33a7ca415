/* Reading with several threads: chunks that begin at records which are guessed, then proven. */
#include "base/chunks.h"
#include "record/reader.h"
#include "record/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- where a record begins ---- */

/* Runs through the record at *start, padding skipped; false unless it is beyond doubt. */
static bool clean_record(const uint8_t *data, size_t size, size_t *start, struct run *run,
                         struct spex_record *record)
{
    while (*start < size && data[*start] == 0)
        ++*start;
    return *start < size && run_packets(data, size, *start, record, run) == RUN_CLOSED &&
           run->close > *start && !run_is_odd(run, record);
}

/*
 * Packets read from a wrong place soon fall into step with the right ones. So this
 * begins some way before, at what looks like a whole record; that one may be longer
 * than it is, but those behind it hardly are.
 */
bool spex_record_find(const uint8_t *data, size_t size, size_t from, size_t to,
                      struct spex_record *before, size_t *start)
{
    enum { SURE = 3, BACK = 1024, FAR = 4 * SPEX_RECORD_MAX };
    size_t first = from > BACK ? from - BACK : 0, last = to < size ? to : size;
    if (last > first && last - first > FAR)
        last = first + FAR;
    for (; first < last; first++) {
        struct spex_record record, next;
        struct run run;
        size_t at = first, count = 0;
        if (!data[first] || !clean_record(data, size, &at, &run, &record) || !run_is_whole(&run))
            continue;
        while (at < from || count < SURE) {
            record.offset = at;
            record.size = (uint16_t)(run.end - at);
            record.present = (uint16_t)run.seen;
            *before = record;
            at = run.end;
            if (!clean_record(data, size, &at, &run, &next) || at >= to)
                break;
            record = next;
            count++;
        }
        if (at >= from && at < to && count >= SURE) {
            *start = at;
            return true;
        }
    }
    return false;
}

/* ---- the team ---- */

struct spex_record_team {
    struct chunks *chunks;
    struct spex_record_reader *readers; /* one per thread; they keep the shapes they learnt */
    const struct spex_record_reader *of;
    const struct spex_record_job *job;
};

struct spex_record_team *spex_record_team_new(unsigned threads, size_t result_size)
{
    struct spex_record_team *team = calloc(1, sizeof *team);
    if (!team)
        return NULL;
    team->chunks = chunks_new(threads ? threads : chunks_cpus(), result_size);
    if (team->chunks)
        team->readers = malloc(chunks_threads(team->chunks) * sizeof *team->readers);
    if (!team->readers) {
        spex_record_team_free(team, NULL);
        return NULL;
    }
    for (unsigned i = 0; i < chunks_threads(team->chunks); i++)
        spex_record_reader_init(&team->readers[i], NULL, 0, 0);
    return team;
}

void spex_record_team_free(struct spex_record_team *team, void (*fini)(void *result))
{
    if (!team)
        return;
    chunks_free(team->chunks, fini);
    free(team->readers);
    free(team);
}

/* All that decides what a reader finds next: its position, and the last record beyond doubt. */
static void save(struct spex_record_reader *reader, struct chunks_state *state)
{
    const struct reader_state *private = reader_state(reader);
    *state = (struct chunks_state){reader->position,
                                   {private->close, private->floor, (uint64_t) private->first}};
}

static void restore(struct spex_record_reader *reader, const struct chunks_state *state)
{
    struct reader_state *private = reader_state(reader);
    reader->position = (size_t)state->position;
    private->close = (size_t)state->more[0];
    private->floor = (size_t)state->more[1];
    private->first = (int)state->more[2];
    private->queued = private->taken = private->missed = 0;
}

static bool guess(void *user, size_t from, size_t to, struct chunks_state *state)
{
    const struct spex_record_team *team = user;
    struct spex_record before;
    size_t start;
    if (!spex_record_find(team->of->data, team->of->size, from, to, &before, &start))
        return false;
    size_t end = (size_t)before.offset + before.size;
    size_t close = end - (before.present & SPEX_HAS_TIMESTAMP ? 9 : 1);
    *state = (struct chunks_state){start, {close, close + 1, team->of->data[before.offset]}};
    return true;
}

static void run_chunk(void *user, unsigned thread, struct chunks_state *state, size_t to,
                      void *result)
{
    struct spex_record_team *team = user;
    const struct spex_record_job *job = team->job;
    struct spex_record_reader *reader = &team->readers[thread];
    struct spex_record batch[SPEX_RECORD_BATCH];
    enum spex_status status = SPEX_OK;
    size_t n = SPEX_RECORD_BATCH, limit = to < team->of->size ? to : SIZE_MAX;
    reader->data = team->of->data;
    reader->size = team->of->size;
    reader->base = team->of->base;
    restore(reader, state);
    job->begin(job->user, result);
    while (status != SPEX_END && (n == SPEX_RECORD_BATCH || status != SPEX_OK)) {
        struct spex_damage damage;
        n = reader_batch(reader, batch, SPEX_RECORD_BATCH, limit, &status, &damage);
        bool damaged = status != SPEX_OK && status != SPEX_END;
        if (n || damaged)
            job->map(job->user, result, batch, n, damaged ? &damage : NULL);
    }
    save(reader, state);
}

static bool reduce_chunk(void *user, void *result)
{
    const struct spex_record_team *team = user;
    return team->job->reduce(team->job->user, result);
}

bool spex_record_team_read(struct spex_record_team *team, struct spex_record_reader *reader,
                           const struct spex_record_job *job)
{
    enum { CHUNK = 256 * 1024 };
    struct chunks_job chunks = {
        .user = team,
        .size = reader->size,
        .chunk = job->chunk ? job->chunk : CHUNK,
        .guess = guess,
        .run = run_chunk,
        .reduce = reduce_chunk,
    };
    struct chunks_state state;
    uint8_t variant = reader_state(reader)->variant;
    for (unsigned i = 0; i < chunks_threads(team->chunks); i++) {
        struct reader_state *private = reader_state(&team->readers[i]);
        if (private->variant != variant) {
            spex_record_reader_init(&team->readers[i], NULL, 0, 0);
            private->variant = variant;
        }
    }
    team->of = reader;
    team->job = job;
    save(reader, &state);
    bool ok = chunks_run(team->chunks, &chunks, &state);
    restore(reader, &state);
    return ok;
}
