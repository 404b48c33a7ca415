/*
 * Plays a text script on a unit: register accesses, operations, faults, time, and what is expected.
 * docs/spu-script.md describes the language. The script's own host keeps memory, counts PMU events
 * and logs what is written to the buffer.
 */
#include "internal.h"

#include "base/vec.h"
#include "host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reports ---- */

void script_tell(struct script *s, enum script_report_kind kind, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (s->unit && peer_failure(s->unit) && (kind == SCRIPT_PASSED || kind == SCRIPT_FAILED))
        return; /* the unit failed, so there is nothing to compare */
    if (kind == SCRIPT_FAILED)
        s->failed = true;
    if (kind == SCRIPT_ERROR)
        s->broken = true;
    struct script_report report = {kind, s->line, text};
    s->report(s->user, &report);
}

void script_compare(struct script *s, const char *what, uint64_t expected, uint64_t got)
{
    if (expected == got)
        script_tell(s, SCRIPT_PASSED, "%s is 0x%llx", what, ULL(got));
    else
        script_tell(s, SCRIPT_FAILED, "%s: expected 0x%llx (%llu), got 0x%llx (%llu)", what,
                    ULL(expected), ULL(expected), ULL(got), ULL(got));
}

/* ---- the host ---- */

static void host_log(struct script *s, const uint8_t *bytes, size_t count)
{
    if (!count || s->broken)
        return;
    if (!vec_grow_most(&s->log, &s->log_capacity, s->log_size + count, LOG_MAX, 1)) {
        script_tell(s, SCRIPT_ERROR, "more was written than can be kept; use 'forget'");
        return;
    }
    memcpy(s->log + s->log_size, bytes, count);
    s->log_size += count;
}

static void host_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct script *s = user;
    struct fault *first = NULL;
    for (size_t i = 0; i < FAULTS; i++) {
        struct fault *f = &s->faults[i];
        if (f->used && f->address >= store->address &&
            f->address - store->address < (store->count ? store->count : 1) &&
            (!first || f->address < first->address ||
             (f->address == first->address && f->stop.kind < first->stop.kind))) /* RDTGVZ */
            first = f;
    }
    size_t count = store->count;
    if (first) {
        *stop = first->stop;
        stop->written = (size_t)(first->address - store->address);
        if (!(stop->flags & SPEX_STOP_ASYNC))
            count = stop->written;
        if (first->once)
            first->used = false;
        script_tell(s, SCRIPT_TRACE, "%s at 0x%llx, fsc 0x%x",
                    stop->kind == SPEX_STOP_FAULT ? "fault" : "external abort", ULL(first->address),
                    stop->fsc);
    }
    if (store->count)
        script_tell(s, SCRIPT_TRACE, "writes %zu bytes at 0x%llx (el%u security %u flags 0x%x)",
                    count, ULL(store->address), store->el, store->security, (unsigned)store->flags);
    else
        script_tell(s, SCRIPT_TRACE, "translates 0x%llx", ULL(store->address));
    host_log(s, store->bytes, count);
    s->last_store = *store;
    s->writes++;
}

static bool host_counter(void *user, uint64_t *count)
{
    struct script *s = user;
    *count = s->time;
    return s->time_on;
}

static void host_pmu(void *user, unsigned event, uint64_t count)
{
    struct script *s = user;
    const char *name = spex_pmu_event_name(event);
    script_tell(s, SCRIPT_TRACE, "pmu %s %llu", name ? name : "?", ULL(count));
    for (size_t i = 0; i < EVENTS; i++) {
        if (s->pmu_event[i] == event || !s->pmu_event[i]) {
            s->pmu_event[i] = event;
            s->pmu[i] += count;
            return;
        }
    }
}

static void host_trigger(void *user)
{
    struct script *s = user;
    s->triggers++;
    script_tell(s, SCRIPT_TRACE, "trigger");
}

static void host_serror(void *user, uint64_t address)
{
    struct script *s = user;
    s->serrors++;
    script_tell(s, SCRIPT_TRACE, "SError for 0x%llx", ULL(address));
}

static void host_irq(void *user, bool level)
{
    struct script *s = user;
    s->irqs++;
    script_tell(s, SCRIPT_TRACE, "irq %d", level);
}

static void host_exception(void *user, const struct spex_spu_exception *e)
{
    struct script *s = user;
    s->exceptions++;
    if (e->pending)
        script_tell(s, SCRIPT_TRACE, "exception from PMBSR_EL%u to el%u %s", e->source, e->target,
                    e->unmasked ? "taken" : "masked");
    else
        script_tell(s, SCRIPT_TRACE, "exception none");
}

static uint8_t host_random(void *user)
{
    struct script *s = user;
    if (s->random_used < s->random_count)
        return s->random[s->random_used++];
    return (uint8_t)(s->random_used++ * 167 + 13); /* the list is used up: any fixed sequence */
}

/* ---- the unit ---- */

bool script_unit(struct script *s)
{
    struct spex_error error;
    if (s->unit)
        return true;
    struct spex_spu_host host = SCRIPT_HOST(s, s->random_count ? host_random : NULL);
    struct spex_spu_config config = {.size = sizeof config,
                                     .features = s->features,
                                     .choices = s->choices,
                                     .host = &host,
                                     .seed = s->seed};
    if (peer_new(s->link, &config, &s->unit, &error))
        return BROKEN("%s", error.text);
    return true;
}

void script_forget(struct script *s)
{
    if (s->unit)
        peer_plain(s->unit, PEER_FLUSH);
    s->log_size = s->log_read = 0;
    s->triggers = s->serrors = s->writes = s->irqs = s->exceptions = 0;
    memset(s->pmu, 0, sizeof s->pmu);
}

/* Starts a new test: nothing is left of the one before. */
static void fresh(struct script *s)
{
    peer_free(s->unit);
    free(s->log);
    struct script empty = {.report = s->report,
                           .user = s->user,
                           .text = s->text,
                           .size = s->size,
                           .line = s->line,
                           .link = s->link,
                           .features = "max",
                           .seed = 1,
                           .time_on = true};
    *s = empty;
}

/* ---- lines and tests ---- */

/* Splits text, which it changes, at blanks; "#" starts a comment. */
static size_t split(char *text, char **words)
{
    size_t count = 0;
    while (count < WORDS) {
        text += strspn(text, " \t\r");
        if (!*text || *text == '#')
            break;
        words[count++] = text;
        text += strcspn(text, " \t\r");
        if (!*text)
            break;
        *text++ = '\0';
    }
    return count;
}

/* The line at *at, split; false at the end. */
static bool next_line(struct script *s, size_t *at, char *line, char **words, size_t *count)
{
    if (*at >= s->size)
        return false;
    const char *start = s->text + *at, *end = memchr(start, '\n', s->size - *at);
    size_t n = end ? (size_t)(end - start) : s->size - *at;
    *at += n + 1;
    s->line++;
    *count = 0;
    if (n >= LINE || memchr(start, '\0', n)) {
        script_tell(s, SCRIPT_ERROR, "this line is too long or not text");
        return true;
    }
    memcpy(line, start, n);
    line[n] = '\0';
    *count = split(line, words);
    return true;
}

/* Does the line set up the unit, so that it must come before the unit is made? */
static bool is_setup(const char *word)
{
    static const char *const names[] = {"features", "choice", "seed", "random", "spec"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(word, names[i]))
            return true;
    return false;
}

/*
 * Plays the lines before the first test, which apply to every test: those for set-up at its start,
 * so that the test's own lines can override them, the others before its first line that does
 * something.
 */
static bool play_prelude(struct script *s, bool setup)
{
    char line[LINE], *words[WORDS];
    size_t at = 0, count;
    unsigned kept = s->line;
    bool ok = true;
    s->line = 0;
    while (ok && !s->broken && next_line(s, &at, line, words, &count)) {
        if (count && !strcmp(words[0], "test"))
            break;
        if (count && strcmp(words[0], "spec") && is_setup(words[0]) == setup)
            ok = script_command(s, words, count);
    }
    if (ok)
        s->line = kept;
    return ok && !s->broken;
}

static void start_test(struct script *s, char **words, size_t count)
{
    char name[256] = "";
    for (size_t i = 1, n = 0; i < count && n < sizeof name; i++)
        n += (size_t)snprintf(name + n, sizeof name - n, "%s%s", i > 1 ? " " : "", words[i]);
    fresh(s);
    script_tell(s, SCRIPT_TEST, "%s", name);
}

/* A script with tests begins with a prelude, which may be empty. */
static bool has_tests(const char *text, size_t size)
{
    return (size > 5 && !memcmp(text, "test ", 5)) || memmem(text, size, "\ntest ", 6);
}

enum spex_status script_run(const char *text, size_t size, const struct script_options *options,
                            void (*report)(void *user, const struct script_report *report),
                            void *user)
{
    struct script *s = calloc(1, sizeof *s);
    char line[LINE], *words[WORDS];
    size_t at = 0, count;
    bool prelude = has_tests(text, size), pending = false, failed = false;
    if (!s)
        return SPEX_NO_MEMORY;
    *s = (struct script){.report = report, .user = user, .text = text, .size = size};
    fresh(s);
    struct spex_error error;
    if (options && options->command &&
        link_start(options->command, options->timeout, &s->link, &error))
        script_tell(s, SCRIPT_ERROR, "%s", error.text);
    while (!s->broken && next_line(s, &at, line, words, &count)) {
        bool ok = true;
        if (!count)
            continue;
        if (!strcmp(words[0], "test")) {
            failed |= s->failed;
            start_test(s, words, count);
            prelude = false;
            pending = true;
            ok = play_prelude(s, true);
        } else if (!prelude) {
            if (pending && !is_setup(words[0])) {
                pending = false;
                ok = play_prelude(s, false);
            }
            ok = ok && script_command(s, words, count);
        }
        if (!ok)
            break;
    }
    failed |= s->failed || s->broken;
    peer_free(s->unit);
    link_close(s->link);
    free(s->log);
    free(s);
    return failed ? SPEX_INVALID : SPEX_OK;
}
