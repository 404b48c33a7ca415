/* What spex calibrate measures, where it measures, and what it writes. */
#ifndef CLI_CALIBRATE_H
#define CLI_CALIBRATE_H

#include "batch.h"
#include "output.h"

enum { CALIBRATE_WORDS = 96, CALIBRATE_HOW = 200 };

/*
 * The median of several runs, and the range of the middle half of them. For sizes: the range that
 * the size is in.
 */
struct measured {
    double value, low, high;
};

/* A measured number of a core: a row of calibrate.def. */
struct calibrate_value {
    bool known;
    struct measured measured;
    char how[CALIBRATE_HOW];
};

struct calibrate_known { /* a benchmark that has been run */
    char words[CALIBRATE_WORDS + 8];
    struct measured cost;
};

enum calibrate_where {
    CALIBRATE_MODEL,  /* the full model of cpu: exact cycles */
    CALIBRATE_NATIVE, /* this machine */
    CALIBRATE_VIA,    /* a machine that a command of the user reaches */
};

struct calibrate {
    enum calibrate_where where;
    const char *cpu; /* CPU of the model */
    const char *via;
    unsigned runs; /* how often each benchmark runs, if there is a clock */
    char micro[BATCH_PATH], place[BATCH_PATH];
    char clock[16]; /* "cycles" or "counter", from the first run; "" under the model */
    struct calibrate_known *known;
    size_t known_count, known_capacity;
    struct calibrate_value *values; /* ordered like calibrate_claims */
    int status; /* once this is not CLI_OK, nothing more is run and results are 0 */
};

/* The n-th row of calibrate.def; NULL past the last. */
struct calibrate_claim {
    const char *key;
    struct measured (*measure)(struct calibrate *c);
    const char *how;
};
const struct calibrate_claim *calibrate_claim(size_t index);

/* The value for a key; it is measured when it is first asked for. */
const struct calibrate_value *calibrate_value(struct calibrate *c, const char *key);

/*
 * How many cycles a benchmark takes per unit of work (src/micro). PAGES: with pages of 4 KB; else
 * pages are so large that translation adds nothing. AGAIN: without what happens only in the first
 * rounds.
 */
enum calibrate_how { CALIBRATE_PLAIN = 0, CALIBRATE_PAGES = 1, CALIBRATE_AGAIN = 2 };
struct measured calibrate_cost(struct calibrate *c, unsigned how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks that the clock counts core cycles: CLI_OK, or CLI_DATA after a message. */
int calibrate_clock(struct calibrate *c);

/* Writes the preset: what was measured, and the rest from base (text of a file in share/cpus). */
int calibrate_write(struct calibrate *c, const char *base, const char *base_name,
                    const struct output *output);

/*
 * Compares samples with loads whose latency and source are known, and runs spex verify on the
 * records. CLI_OK, or the exit code of what failed.
 */
int calibrate_samples(struct calibrate *c, struct out *out);

#endif
