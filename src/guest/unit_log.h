/*
 * A unit that logs the calls it receives and makes, as lines of a `spex spu run` script
 * (docs/spu-script.md): replaying the script on a unit with the same features, choices and seed
 * gives the same records, byte by byte.
 *
 * Without a log every call goes straight through. One vCPU, one thread; vCPUs share the file, so
 * each line begins with "cpuN ".
 */
#ifndef GUEST_UNIT_LOG_H
#define GUEST_UNIT_LOG_H

#include "spu/config.h"

struct unit_log {
    struct spex_spu *unit;
    struct spex_spu_host host; /* that of the engine */
    int fd;                    /* -1: no log */
    unsigned cpu;
    int64_t passed; /* operations since the last line */
    size_t written; /* bytes of records since the last "forget" */
    size_t before_size, after_size;
    char before[1024], after[16384]; /* lines before and after that of the current call */
};

/*
 * Makes the unit. features is the text from which config->features was made. The engine's host
 * callbacks are in config.
 */
enum spex_status unit_log_new(struct unit_log *log, const struct spu_config *config,
                              const char *features, int fd, unsigned cpu, struct spex_error *error);

/* The functions of spex/spu.h. */
void unit_log_boot(struct unit_log *log);
void unit_log_set_state(struct unit_log *log, const struct spex_spu_state *state);
void unit_log_set(struct unit_log *log, unsigned enc, uint64_t value); /* only if it differs */
uint64_t unit_log_read(struct unit_log *log, unsigned enc);
void unit_log_write(struct unit_log *log, unsigned enc, uint64_t value);
void unit_log_psb(struct unit_log *log);
void unit_log_context_sync(struct unit_log *log);
void unit_log_exception_taken(struct unit_log *log);
void unit_log_note_branch(struct unit_log *log, const struct spex_op *op, uint64_t target,
                          unsigned el);
int unit_log_begin(struct unit_log *log, uint64_t pc);
void unit_log_complete(struct unit_log *log, int slot, const struct spex_op *op,
                       const struct spex_outcome *outcome);
void unit_log_abandon(struct unit_log *log, int slot);
void unit_log_impdef_event(struct unit_log *log);

static inline void unit_log_pass(struct unit_log *log, uint64_t n)
{
    spex_spu_pass(log->unit, n);
    log->passed += (int64_t)n;
}

static inline void unit_log_unpass(struct unit_log *log, uint64_t n)
{
    spex_spu_unpass(log->unit, n);
    log->passed -= (int64_t)n;
}

/* Writes a comment. */
void unit_log_note(struct unit_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
