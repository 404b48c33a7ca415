/* What the files of the script player share. */
#ifndef SCRIPT_INTERNAL_H
#define SCRIPT_INTERNAL_H

#include <spex/record.h>

#include "peer.h"
#include "script.h"

enum {
    LINE = 8192,
    WORDS = 256,
    FAULTS = 64,
    SLOTS = 8,
    PARTS = 64,
    EVENTS = 32,
    RANDOM = 256,
    LOG_MAX = 1 << 26,
    NAME = 32,
    OPS_MAX = 100000000,
    FEATURES = 512,
    CHOICES = 4096
};

struct fault {
    uint64_t address;
    struct spex_spu_stop stop;
    bool used, once;
};

struct script {
    void (*report)(void *user, const struct script_report *report);
    void *user;
    const char *text;
    size_t size;
    unsigned line;
    bool failed, broken; /* failed: an expectation; broken: the script itself */

    struct link *link; /* link to another implementation's unit; NULL: ours */
    char features[FEATURES], choices[CHOICES];
    uint64_t seed;
    struct peer *unit; /* made by the first line that needs it */

    /* the host */
    uint8_t *log; /* bytes written to the buffer, in order */
    size_t log_size, log_read, log_capacity;
    struct spex_spu_store last_store;
    struct fault faults[FAULTS];
    uint64_t time;
    bool time_on;
    uint64_t pmu[EVENTS];
    unsigned pmu_event[EVENTS];
    uint64_t triggers, serrors, writes, irqs, exceptions;
    uint8_t random[RANDOM];
    size_t random_count, random_used;
    struct script_slot {
        char name[NAME];
        int slot;
    } slots[SLOTS], saved_slots[SLOTS];
    bool saved;
};

struct operation {
    uint64_t pc;
    struct spex_op op;
    struct spex_outcome outcome;
    struct spex_access parts[PARTS];
};

/* ---- script.c ---- */

void script_tell(struct script *s, enum script_report_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For functions that return false when the script cannot be understood. */
#define BROKEN(...) (script_tell(s, SCRIPT_ERROR, __VA_ARGS__), false)
#define ULL(x) ((unsigned long long)(x))

/* Compares one value of an expectation. */
void script_compare(struct script *s, const char *what, uint64_t expected, uint64_t got);

/* Makes the unit if there is none; false if it cannot be made: then the script is broken. */
bool script_unit(struct script *s);
/* Forgets what was written and counted so far. */
void script_forget(struct script *s);

/* ---- commands.c ---- */

/* Executes a line: the command and its words. False: the script ends here. */
bool script_command(struct script *s, char **words, size_t count);

/* Parses a decimal number, 0x or 0b; it must be the whole word. */
bool script_number(const char *word, uint64_t *value);
/* The value of "key=" in the words, or NULL. */
const char *script_value_of(char **words, size_t count, const char *key);
bool script_security(const char *word, uint8_t *value);

/* ---- operation.c ---- */

/* Parses KIND and what follows: flags and key=value. */
bool script_parse_op(struct script *s, char **words, size_t count, struct operation *o);

/* ---- expect.c ---- */

/* Checks what follows "expect". */
bool script_expect(struct script *s, char **words, size_t count);

#endif
