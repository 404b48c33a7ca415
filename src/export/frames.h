/*
 * Sums of samples by instruction (or call stack) and, if a format asks for it, by thread, operation
 * and data source. Also the frames of a row, leaf first: the functions inlined there, the function,
 * and its callers if there are stacks.
 */
#ifndef EXPORT_FRAMES_H
#define EXPORT_FRAMES_H

#include "export/export.h"
#include "base/ids.h"

enum tally_part {
    TALLY_THREAD = 1 << 0, /* rows are of one thread */
    TALLY_WHAT = 1 << 1,   /* separate rows by kind of operation and data source */
    TALLY_STACK = 1 << 2,  /* separate rows by call stack: for formats that want SPEX_WANT_STACK */
};

struct tally_row {
    struct spex_place at; /* without a mapping its address is the pc */
    const char *comm;
    int32_t pid, tid;
    uint8_t op, source;
    bool memory; /* source means something */
    uint64_t samples, latency, misses, mispredicts;
    double spent;    /* ps */
    uint32_t stack;  /* analysis/stacks.h: the call that made it, 0 none */
    uint32_t number; /* 0 at first; the format's own */
};

struct export_frame {
    const char *name; /* any bytes; never NULL */
    const char *file; /* source file, NULL if unknown */
    unsigned line;    /* 0: not known */
    bool inlined;     /* into the frame around it */
    const struct spex_module *module;
};

struct tally {
    struct export_job *job;
    unsigned parts;
    struct ids ids;
    struct tally_row *rows;
    size_t count, capacity;
    uint32_t last[SPEX_PLACES]; /* 1 + row */
    struct export_frame *frames;
    size_t frame_count, frame_capacity;
    struct spex_place *places;
    size_t place_count, place_capacity;
};

struct tally *tally_new(struct export_job *job, unsigned parts);
/* Adds a sample; returns the number of its row, in order of appearance. */
uint32_t tally_one(struct tally *tally, const struct spex_sample *sample);
void tally_add(struct tally *tally, const struct spex_sample *samples, size_t count);
/* Orders rows by thread, then module, then address: the same in every run. */
void tally_sort(struct tally *tally);
void tally_free(struct tally *tally);

uint64_t tally_weight(const struct tally_row *row, enum export_weight weight);
/* Fails if there are samples but none has the weight. */
enum spex_status tally_check(struct export_job *job);

/*
 * The frames of a row, outermost first: its callers or, without a call stack, the file; then the
 * function if it has a name, and the functions inlined there. At least 1; valid until the next
 * call; names live as long as the profile.
 */
size_t tally_frames(struct tally *tally, const struct tally_row *row,
                    const struct export_frame **frames);

/*
 * The frames of a row by address, innermost first: the row's own, then those of its callers. Where
 * calls are missing, an entry has a name instead of a module.
 */
size_t tally_places(struct tally *tally, const struct tally_row *row,
                    const struct spex_place **places);

enum { FRAMES_MOST = 64 };

/* The functions of a place, innermost first: at least 1. */
size_t export_frames(const struct spex_place *at, struct export_frame frames[FRAMES_MOST]);

#endif
