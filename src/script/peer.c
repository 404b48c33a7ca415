/* The unit of a script: ours, by function calls, or another one, by lines of text. */
#include "peer.h"

#include "wire.h"

#include <spex/wire.h>

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer {
    struct spex_spu *unit; /* ours, or NULL */
    uint8_t *saved;
    size_t saved_size;
    struct link *link;
    struct spex_spu_host host;
    char line[LINK_LINE];
};

const char *peer_failure(const struct peer *p)
{
    return p->link ? link_failure(p->link) : NULL;
}

/* ---- callbacks of the other side ---- */

static bool bytes_of(const char *hex, uint8_t *bytes, size_t *count)
{
    size_t n = strlen(hex);
    *count = n / 2;
    if (n % 2 || *count > SPEX_RECORD_MAX)
        return false;
    for (size_t i = 0; i < n; i += 2) {
        char pair[3] = {hex[i], hex[i + 1], '\0'}, *end;
        bytes[i / 2] = (uint8_t)strtoul(pair, &end, 16);
        if (end != pair + 2 || pair[0] == ' ' || pair[0] == '+' || pair[0] == '-')
            return false;
    }
    return true;
}

/* write address=... flags=... el=... security=... e2h=... attr=... sh=... bytes=HEX */
static bool on_write(struct peer *p, char *words)
{
    static const struct wire_field fields[] = {
#define FIELD(key, member)                                                                         \
    {key, offsetof(struct spex_spu_store, member), sizeof(((struct spex_spu_store *)0)->member),   \
     false}
        FIELD("address", address),
        FIELD("flags", flags),
        FIELD("el", el),
        FIELD("security", security),
        FIELD("attr", attr),
        FIELD("sh", sh),
        {0}};
#undef FIELD
    uint8_t bytes[SPEX_RECORD_MAX];
    struct spex_spu_store store = {.bytes = bytes};
    struct spex_spu_stop stop = {0};
    char answer[100];
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest));) {
        if (!strcmp(word, "e2h=0") || !strcmp(word, "e2h=1"))
            store.e2h = word[4] == '1';
        else if (!strncmp(word, "bytes=", 6)) {
            if (!bytes_of(word + 6, bytes, &store.count))
                return false;
        } else if (!wire_get_field(word, fields, &store))
            return false;
    }
    p->host.write(p->host.user, &store, &stop);
    if (stop.kind == SPEX_STOP_NONE)
        snprintf(answer, sizeof answer, "done");
    else
        snprintf(answer, sizeof answer, "%s fsc=0x%x flags=0x%x written=%zu",
                 stop.kind == SPEX_STOP_FAULT ? "fault" : "abort", stop.fsc, stop.flags,
                 stop.written);
    return link_send(p->link, answer) || true;
}

/* A line that begins with "!": a callback of the unit to its host. False: it is malformed. */
static bool callback(struct peer *p, char *line)
{
    char *words = line + strcspn(line, " ");
    uint64_t a, b;
    if (*words)
        *words++ = '\0';
    if (!strcmp(line, "!write"))
        return on_write(p, words);
    if (!strcmp(line, "!counter") || !strcmp(line, "!random")) {
        char answer[40] = "off";
        bool on = true;
        if (line[1] == 'c')
            on = p->host.counter(p->host.user, &a);
        else
            a = p->host.random ? p->host.random(p->host.user) : 0;
        if (on)
            snprintf(answer, sizeof answer, "0x%llx", (unsigned long long)a);
        link_send(p->link, answer);
        return !*words;
    }
    if (!strcmp(line, "!trigger"))
        return p->host.trigger(p->host.user), !*words;
    if (!strcmp(line, "!exception")) {
        struct spex_spu_exception e = {0};
        const char *wrong;
        if (!wire_get_struct(words, wire_exception, &e, &wrong))
            return false;
        p->host.exception(p->host.user, &e);
        return true;
    }
    char *second = words + strcspn(words, " ");
    if (*second)
        *second++ = '\0';
    if (!wire_number(words, &a))
        return false;
    if (!strcmp(line, "!pmu"))
        return wire_number(second, &b) && (p->host.pmu(p->host.user, (unsigned)a, b), true);
    if (!strcmp(line, "!serror"))
        return p->host.serror(p->host.user, a), !*second;
    if (!strcmp(line, "!irq") && a < 2)
        return p->host.irq(p->host.user, a), !*second;
    return false;
}

/* Sends p->line and serves all callbacks; returns the answer, or NULL after a failure. */
static char *ask(struct peer *p)
{
    char name[48];
    snprintf(name, sizeof name, "%.47s", p->line);
    link_begin(p->link, name);
    if (!link_send(p->link, p->line))
        return NULL;
    for (char *line; (line = link_receive(p->link));) {
        char copy[80];
        if (*line != '!') {
            if (!strncmp(line, "error ", 6))
                link_fail(p->link, "the unit says to '%s': %.200s", name, line + 6);
            else if (!strcmp(line, "unsupported"))
                link_fail(p->link, "the unit does not support '%s'", name);
            return link_failure(p->link) ? NULL : line;
        }
        snprintf(copy, sizeof copy, "%s", line);
        if (!callback(p, line))
            link_fail(p->link, "'%s' during '%s' cannot be; see docs/spu-protocol.md", copy, name);
    }
    return NULL;
}

static char *request(struct peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *request(struct peer *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->line, sizeof p->line, format, args);
    va_end(args);
    return ask(p);
}

static void unexpected(struct peer *p, const char *answer, const char *wanted)
{
    if (answer)
        link_fail(p->link, "the unit answered '%.60s' to '%.60s'; expected %s", answer, p->line,
                  wanted);
}

static void expect_ok(struct peer *p, const char *answer)
{
    if (answer && strcmp(answer, "ok"))
        unexpected(p, answer, "ok");
}

/* "ok NUMBER" */
static uint64_t expect_number(struct peer *p, const char *answer, uint64_t otherwise)
{
    uint64_t value;
    if (answer && !strncmp(answer, "ok ", 3) && wire_number(answer + 3, &value))
        return value;
    unexpected(p, answer, "ok and a number");
    return otherwise;
}

/* ---- make and free ---- */

enum spex_status peer_new(struct link *link, const struct spex_spu_config *config,
                          struct peer **peer, struct spex_error *error)
{
    struct peer *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    enum spex_status status = SPEX_OK;
    if (link) {
        p->link = link;
        p->host = *config->host;
        expect_ok(p, request(p, "new protocol=1 features=%s choices=%s seed=%llu random=%d",
                             config->features, config->choices, (unsigned long long)config->seed,
                             config->host->random != NULL));
        if (link_failure(link))
            status = error_set(error, SPEX_INVALID, 0, "%s", link_failure(link));
    } else {
        status = spex_spu_new(config, &p->unit, error);
    }
    if (status)
        free(p);
    else
        *peer = p;
    return status;
}

void peer_free(struct peer *p)
{
    if (!p)
        return;
    spex_spu_free(p->unit);
    free(p->saved);
    free(p);
}

/* ---- the functions of <spex/spu.h> ---- */

void peer_plain(struct peer *p, enum peer_plain what)
{
    static const struct {
        const char *name;
        void (*call)(struct spex_spu *unit);
    } rows[] = {[PEER_BOOT] = {"boot", spex_spu_boot},
                [PEER_RESET] = {"reset", spex_spu_reset},
                [PEER_ISB] = {"isb", spex_spu_context_sync},
                [PEER_EXCEPTION_TAKEN] = {"exception-taken", spex_spu_exception_taken},
                [PEER_FLUSH] = {"flush", spex_spu_flush}};
    if (p->unit)
        rows[what].call(p->unit);
    else
        expect_ok(p, request(p, "%s", rows[what].name));
}

/* "ok key=value ..." */
static void expect_struct(struct peer *p, char *answer, const struct wire_field *fields, void *data)
{
    const char *wrong;
    if (!answer)
        return;
    if (strncmp(answer, "ok", 2) || (answer[2] && answer[2] != ' '))
        unexpected(p, answer, "ok and key=value");
    else if (!wire_get_struct(answer + 2, fields, data, &wrong))
        link_fail(p->link, "the unit answered '%.60s' to '%.60s', which cannot be", wrong, p->line);
}

void peer_get_state(struct peer *p, struct spex_spu_state *state)
{
    memset(state, 0, sizeof *state);
    if (p->unit)
        spex_spu_get_state(p->unit, state);
    else
        expect_struct(p, request(p, "state"), wire_state, state);
    if (state->el > 3 || state->security > SPEX_ROOT) { /* reported by the other unit */
        link_fail(p->link, "the unit is at EL%u in Security state %u", state->el, state->security);
        memset(state, 0, sizeof *state);
    }
}

static struct wire start(struct peer *p, const char *name)
{
    struct wire w = {p->line, 0, sizeof p->line, false};
    wire_put(&w, "%s", name);
    return w;
}

static char *ask_wire(struct peer *p, const struct wire *w)
{
    if (w->full) {
        link_fail(p->link, "the operation does not fit into a line");
        return NULL;
    }
    return ask(p);
}

void peer_set_state(struct peer *p, const struct spex_spu_state *state)
{
    if (p->unit) {
        spex_spu_set_state(p->unit, state);
        return;
    }
    struct wire w = start(p, "state");
    wire_put(&w, " el=%u", state->el); /* also if it is 0: without words, "state" is a question */
    for (const struct wire_field *f = wire_state + 1; f->key; f++)
        wire_put(&w, " %s=%u", f->key, ((const uint8_t *)state)[f->at]);
    expect_ok(p, ask_wire(p, &w));
}

/* "ok [VALUE]", "undefined ESR", "trap-el2 ESR", "trap-el3 ESR", "memory OFFSET", "not-ours" */
static enum spex_sysreg_result expect_access(struct peer *p, char *answer, uint64_t *value,
                                             struct spex_sysreg_detail *detail)
{
    static const char *const names[] = {"ok",       "undefined", "trap-el2",
                                        "trap-el3", "memory",    "not-ours"};
    if (!answer)
        return SPEX_SYSREG_NOT_OURS;
    size_t n = strcspn(answer, " ");
    const char *word = answer[n] ? answer + n + 1 : NULL;
    uint64_t number = 0;
    bool ok = !word || wire_number(word, &number);
    for (unsigned i = 0; ok && i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) != n || memcmp(names[i], answer, n))
            continue;
        if (i == SPEX_SYSREG_OK && value && !word)
            break; /* a read has a value */
        if (i == SPEX_SYSREG_OK && value)
            *value = number;
        else if (i == SPEX_SYSREG_MEMORY)
            detail->offset = (uint32_t)number;
        else
            detail->esr = number;
        return (enum spex_sysreg_result)i;
    }
    unexpected(p, answer,
               value ? "ok VALUE, undefined, trap-el2, trap-el3, memory or not-ours"
                     : "ok, undefined, trap-el2, trap-el3, memory or not-ours");
    return SPEX_SYSREG_NOT_OURS;
}

enum spex_sysreg_result peer_read(struct peer *p, unsigned encoding, bool direct, uint64_t *value,
                                  struct spex_sysreg_detail *detail)
{
    if (!p->unit)
        return expect_access(
            p, request(p, "%s %s", direct ? "get" : "read", spex_sysreg_name(encoding)), value,
            detail);
    if (direct)
        return spex_spu_get(p->unit, encoding, value) ? SPEX_SYSREG_OK : SPEX_SYSREG_NOT_OURS;
    return spex_spu_read(p->unit, encoding, 0, value, detail);
}

enum spex_sysreg_result peer_write(struct peer *p, unsigned encoding, bool direct, uint64_t value,
                                   struct spex_sysreg_detail *detail)
{
    if (!p->unit)
        return expect_access(p,
                             request(p, "%s %s 0x%llx", direct ? "set" : "write",
                                     spex_sysreg_name(encoding), (unsigned long long)value),
                             NULL, detail);
    if (direct)
        return spex_spu_set(p->unit, encoding, value) ? SPEX_SYSREG_OK : SPEX_SYSREG_NOT_OURS;
    return spex_spu_write(p->unit, encoding, 0, value, detail);
}

enum spex_sysreg_result peer_psb(struct peer *p, struct spex_sysreg_detail *detail)
{
    return p->unit ? spex_spu_psb(p->unit, detail)
                   : expect_access(p, request(p, "psb"), NULL, detail);
}

bool peer_op(struct peer *p, uint64_t pc, const struct spex_op *op,
             const struct spex_outcome *outcome)
{
    if (p->unit)
        return spex_spu_op(p->unit, pc, op, outcome);
    struct wire w = start(p, "op");
    wire_put(&w, " 0x%llx", (unsigned long long)pc);
    wire_put_op(&w, op, outcome);
    return expect_number(p, ask_wire(p, &w), 0);
}

uint64_t peer_until(struct peer *p)
{
    if (p->unit)
        return spex_spu_until(p->unit);
    char *answer = request(p, "until");
    return answer && !strcmp(answer, "never") ? UINT64_MAX : expect_number(p, answer, UINT64_MAX);
}

void peer_pass(struct peer *p, uint64_t n)
{
    if (p->unit)
        spex_spu_pass(p->unit, n);
    else
        expect_ok(p, request(p, "pass %llu", (unsigned long long)n));
}

int peer_begin(struct peer *p, uint64_t pc, uint32_t flags)
{
    if (p->unit)
        return spex_spu_begin(p->unit, pc, flags);
    char *answer = request(p, "begin 0x%llx 0x%x", (unsigned long long)pc, (unsigned)flags);
    if (answer && !strcmp(answer, "not-sampled"))
        return SPEX_SPU_NOT_SAMPLED;
    return (int)(expect_number(p, answer, 0) & 0xffff);
}

void peer_complete(struct peer *p, int slot, const struct spex_op *op,
                   const struct spex_outcome *outcome)
{
    if (p->unit) {
        spex_spu_complete(p->unit, slot, op, outcome);
        return;
    }
    struct wire w = start(p, "complete");
    wire_put(&w, " %d", slot);
    wire_put_op(&w, op, outcome);
    expect_ok(p, ask_wire(p, &w));
}

void peer_abandon(struct peer *p, int slot)
{
    if (p->unit)
        spex_spu_abandon(p->unit, slot);
    else
        expect_ok(p, request(p, "abandon %d", slot));
}

void peer_note_branch(struct peer *p, const struct spex_op *op, const struct spex_outcome *outcome)
{
    if (p->unit) {
        spex_spu_note_branch(p->unit, op, outcome);
        return;
    }
    struct wire w = start(p, "branch");
    wire_put_op(&w, op, outcome);
    expect_ok(p, ask_wire(p, &w));
}

void peer_external_abort(struct peer *p, uint32_t flags)
{
    if (p->unit)
        spex_spu_external_abort(p->unit, flags);
    else
        expect_ok(p, request(p, "late-abort 0x%x", (unsigned)flags));
}

void peer_impdef_event(struct peer *p, uint16_t mss, uint32_t mss2)
{
    if (p->unit)
        spex_spu_impdef_event(p->unit, mss, mss2);
    else
        expect_ok(p, request(p, "impdef-event 0x%x 0x%x", mss, (unsigned)mss2));
}

bool peer_save(struct peer *p)
{
    if (!p->unit) {
        expect_ok(p, request(p, "save"));
        return true;
    }
    spex_spu_flush(p->unit);
    size_t size = spex_spu_save(p->unit, NULL, 0);
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return false;
    spex_spu_save(p->unit, bytes, size);
    free(p->saved);
    p->saved = bytes;
    p->saved_size = size;
    return true;
}

bool peer_restore(struct peer *p)
{
    if (p->unit)
        return p->saved && !spex_spu_restore(p->unit, p->saved, p->saved_size);
    expect_ok(p, request(p, "restore"));
    return true;
}

void peer_get_status(struct peer *p, struct spex_spu_status *status)
{
    memset(status, 0, sizeof *status);
    status->size = sizeof *status;
    if (p->unit)
        spex_spu_get_status(p->unit, status);
    else
        expect_struct(p, request(p, "status"), wire_status, status);
}

void peer_get_exception(struct peer *p, unsigned source, struct spex_spu_exception *e)
{
    memset(e, 0, sizeof *e);
    if (p->unit)
        spex_spu_get_exception(p->unit, source, e);
    else
        expect_struct(p, request(p, "exception %u", source), wire_exception, e);
}

bool peer_frozen(struct peer *p, enum spex_pmu_range range)
{
    static const char *const names[] = {[SPEX_PMU_EL1_COUNTERS] = "el1",
                                        [SPEX_PMU_EL2_COUNTERS] = "el2",
                                        [SPEX_PMU_CYCLES] = "cycles"};
    if (p->unit)
        return spex_spu_pmu_frozen(p->unit, range);
    return expect_number(p, request(p, "frozen %s", names[range]), 0);
}
