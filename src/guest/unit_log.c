#include "unit_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FORGET = 1 << 18 }; /* bytes of records after which a script may forget them */

/* ---- lines ---- */

__attribute__((format(printf, 4, 0))) static void append(char *text, size_t room, size_t *size,
                                                         const char *format, va_list args)
{
    int n = vsnprintf(text + *size, room - *size, format, args);
    if (n > 0)
        *size = *size + (size_t)n < room ? *size + (size_t)n : room - 1;
}

/* Writes one line of this CPU, whole, so that lines of different CPUs do not mix. */
__attribute__((format(printf, 2, 3))) static void line(struct unit_log *log, const char *format,
                                                       ...)
{
    char text[8192];
    size_t n = 0;
    va_list args;
    if (log->fd < 0)
        return;
    n = (size_t)snprintf(text, sizeof text, "cpu%u ", log->cpu);
    va_start(args, format);
    append(text, sizeof text - 1, &n, format, args);
    va_end(args);
    text[n++] = '\n';
    if (write(log->fd, text, n) < 0)
        log->fd = -1; /* the disk is full: the guest goes on without a log */
}

/* Lines collected by callbacks, one at a time. */
static void flush(struct unit_log *log, char *text, size_t *size)
{
    for (char *p = text, *end = text + *size; p < end;) {
        char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline)
            break;
        line(log, "%.*s", (int)(newline - p), p);
        p = newline + 1;
    }
    *size = 0;
}

/* A callback's report: written before or after the line of the current call. */
__attribute__((format(printf, 2, 3))) static void before(struct unit_log *log, const char *format,
                                                         ...)
{
    va_list args;
    if (log->fd < 0)
        return;
    va_start(args, format);
    append(log->before, sizeof log->before, &log->before_size, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void after(struct unit_log *log, const char *format,
                                                        ...)
{
    va_list args;
    if (log->fd < 0)
        return;
    va_start(args, format);
    append(log->after, sizeof log->after, &log->after_size, format, args);
    va_end(args);
}

/* A call begins: first writes what has passed until now. */
static void begin_call(struct unit_log *log)
{
    if (log->passed && log->fd >= 0)
        line(log, "ops %" PRId64, log->passed);
    log->passed = 0;
}

#define END_CALL(log, ...)                                                                         \
    do {                                                                                           \
        if ((log)->fd >= 0) {                                                                      \
            flush(log, (log)->before, &(log)->before_size);                                        \
            line(log, __VA_ARGS__);                                                                \
            flush(log, (log)->after, &(log)->after_size);                                          \
        }                                                                                          \
    } while (0)

void unit_log_note(struct unit_log *log, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    line(log, "# %s", text);
}

/* ---- the host's callbacks, intercepted ---- */

static void on_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct unit_log *log = user;
    log->host.write(log->host.user, store, stop);
    if (log->fd < 0)
        return;
    size_t written = stop->kind == SPEX_STOP_NONE ? store->count : stop->written;
    if (stop->kind != SPEX_STOP_NONE)
        before(log, "%s at 0x%" PRIx64 "%s%s fsc=%u once\n",
               stop->kind == SPEX_STOP_FAULT ? "fault" : "abort",
               store->address + (stop->flags & SPEX_STOP_ASYNC ? 0 : written),
               stop->flags & SPEX_STOP_STAGE2 ? " stage2" : "",
               stop->flags & SPEX_STOP_WALK ? " walk" : "", stop->fsc);
    if (!written)
        return;
    after(log, "expect bytes ");
    for (size_t i = 0; i < written; i++)
        after(log, "%02x", store->bytes[i]);
    after(log, "\n");
    log->written += written;
    if (log->written >= FORGET) {
        after(log, "forget\n");
        log->written = 0;
    }
}

static bool on_counter(void *user, uint64_t *count)
{
    struct unit_log *log = user;
    bool on = log->host.counter(log->host.user, count);
    if (on)
        before(log, "time %" PRIu64 "\n", *count);
    else
        before(log, "time off\n");
    return on;
}

static void on_irq(void *user, bool level)
{
    struct unit_log *log = user;
    after(log, "expect irq %d\n", level);
    log->host.irq(log->host.user, level);
}

static void on_pmu(void *user, unsigned event, uint64_t count)
{
    struct unit_log *log = user;
    log->host.pmu(log->host.user, event, count);
}

/* ---- making ---- */

static void header(struct unit_log *log, const struct spu_config *config, const char *features)
{
    struct spu_choices standard;
    const struct spex_spu_choice *row;
    spu_choices_default(&standard);
    line(log, "features %s", features);
    line(log, "seed %" PRIu64, config->seed);
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        uint64_t value, usual;
        value = *spu_choice_field(&config->choices, i);
        usual = *spu_choice_field(&standard, i);
        if (value != usual)
            line(log, "choice %s=%" PRIu64, row->name, value);
    }
}

enum spex_status unit_log_new(struct unit_log *log, const struct spu_config *config,
                              const char *features, int fd, unsigned cpu, struct spex_error *error)
{
    struct spu_config own = *config;
    *log = (struct unit_log){.host = config->host, .fd = fd, .cpu = cpu};
    own.host.user = log;
    own.host.write = on_write;
    own.host.counter = on_counter;
    own.host.irq = on_irq;
    own.host.pmu = on_pmu;
    enum spex_status status = spu_new(&own, &log->unit, error);
    if (!status)
        header(log, config, features);
    return status;
}

/* ---- calls ---- */

void unit_log_boot(struct unit_log *log)
{
    begin_call(log);
    spex_spu_boot(log->unit);
    END_CALL(log, "boot");
}

void unit_log_set_state(struct unit_log *log, const struct spex_spu_state *s)
{
    struct spex_spu_state now;
    spex_spu_get_state(log->unit, &now);
    if (now.el == s->el && now.security == s->security && now.aarch32 == s->aarch32)
        return;
    begin_call(log);
    spex_spu_set_state(log->unit, s);
    END_CALL(log, "state el=%u aarch32=%u", s->el, s->aarch32);
}

void unit_log_set(struct unit_log *log, unsigned enc, uint64_t value)
{
    uint64_t now;
    if (!spex_spu_get(log->unit, enc, &now) || now == value)
        return;
    begin_call(log);
    spex_spu_set(log->unit, enc, value);
    END_CALL(log, "set %s 0x%" PRIx64, spex_sysreg_name(enc), value);
}

uint64_t unit_log_read(struct unit_log *log, unsigned enc)
{
    uint64_t value = 0;
    begin_call(log);
    spex_spu_read(log->unit, enc, 0, &value, NULL);
    END_CALL(log, "read %s expect 0x%" PRIx64, spex_sysreg_name(enc), value);
    return value;
}

void unit_log_write(struct unit_log *log, unsigned enc, uint64_t value)
{
    begin_call(log);
    spex_spu_write(log->unit, enc, 0, value, NULL);
    END_CALL(log, "write %s 0x%" PRIx64, spex_sysreg_name(enc), value);
}

void unit_log_psb(struct unit_log *log)
{
    begin_call(log);
    spex_spu_psb(log->unit, NULL);
    END_CALL(log, "psb");
}

void unit_log_context_sync(struct unit_log *log)
{
    begin_call(log);
    spex_spu_context_sync(log->unit);
    END_CALL(log, "isb");
}

void unit_log_exception_taken(struct unit_log *log)
{
    begin_call(log);
    spex_spu_exception_taken(log->unit);
    END_CALL(log, "exception-taken");
}

void unit_log_note_branch(struct unit_log *log, const struct spex_op *op, uint64_t target,
                          unsigned el)
{
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED,
                                   .target = target,
                                   .target_el = (uint8_t)el,
                                   .target_security = SPEX_NONSECURE};
    begin_call(log);
    spex_spu_note_branch(log->unit, op, &outcome);
    END_CALL(log, "branch %s op-flags=0x%x taken target=0x%" PRIx64 " target-el=%u",
             spex_op_kind_name(op->kind), op->flags, target, el);
}

int unit_log_begin(struct unit_log *log, uint64_t pc)
{
    begin_call(log);
    int slot = spex_spu_begin(log->unit, pc, 0);
    if (slot < 0)
        END_CALL(log, "begin none pc=0x%" PRIx64 " expect not-sampled", pc);
    else
        END_CALL(log, "begin s%d pc=0x%" PRIx64 " expect sampled", slot, pc);
    return slot;
}

/* Writes the accesses to a separate buffer: they may be long. */
static void describe_parts(char *text, size_t room, const struct spex_outcome *o)
{
    static const char *const keys[] = {"parts", "ppa",     "pevents", "pstart",
                                       "pxlat", "pmemory", "psource", "pflags"};
    size_t n = 0;
    text[0] = '\0';
    for (size_t k = 0; o->part_count && k < sizeof keys / sizeof keys[0]; k++) {
        n += (size_t)snprintf(text + n, room - n, " %s=", keys[k]);
        for (size_t i = 0; i < o->part_count && n + 24 < room; i++) {
            const struct spex_access *a = &o->parts[i];
            const uint64_t values[] = {a->va,          a->pa,     a->events,      a->start,
                                       a->translation, a->memory, a->data_source, a->flags};
            n += (size_t)snprintf(text + n, room - n, "%s0x%" PRIx64, i ? "," : "", values[k]);
        }
    }
}

void unit_log_complete(struct unit_log *log, int slot, const struct spex_op *op,
                       const struct spex_outcome *o)
{
    begin_call(log);
    spex_spu_complete(log->unit, slot, op, o);
    if (log->fd < 0)
        return;
    char parts[7000];
    const struct spex_access *a = &o->access[0];
    describe_parts(parts, sizeof parts, o);
    END_CALL(log,
             "complete s%d %s op-flags=0x%x outcome-flags=0x%x op-events=0x%" PRIx64
             " total=%u issue=%u target=0x%" PRIx64 " target-el=%u va=0x%" PRIx64 " pa=0x%" PRIx64
             " events=0x%" PRIx64 " xlat=%u source=0x%x access-flags=0x%x%s",
             slot, spex_op_kind_name(op->kind), op->flags, o->flags, o->events, o->total, o->issue,
             o->target, o->target_el, a->va, a->pa, a->events, a->translation, a->data_source,
             a->flags, parts);
}

void unit_log_abandon(struct unit_log *log, int slot)
{
    begin_call(log);
    spex_spu_abandon(log->unit, slot);
    END_CALL(log, "abandon s%d", slot);
}

void unit_log_impdef_event(struct unit_log *log)
{
    begin_call(log);
    spex_spu_impdef_event(log->unit, 0, 0);
    END_CALL(log, "impdef-event");
}
