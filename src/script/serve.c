#include "serve.h"

#include "host.h"
#include "link.h"
#include "wire.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64 };

struct server {
    struct link *link;
    struct spex_spu *unit;
    uint8_t *saved;
    size_t saved_size;
    bool busy[SLOTS], saved_busy[SLOTS]; /* slots that must still be completed */
    char line[LINK_LINE];
    char request[LINK_LINE]; /* a copy: callbacks use the link's buffer */
};

static void say(struct server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct server *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->line, sizeof s->line, format, args);
    va_end(args);
    link_send(s->link, s->line);
}

/* ---- the host is on the other side ---- */

static void host_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct server *s = user;
    struct wire w = {s->line, 0, sizeof s->line, false};
    wire_put(&w,
             "!write address=0x%llx flags=0x%x el=%u security=%u e2h=%d attr=0x%x sh=0x%x bytes=",
             (unsigned long long)store->address, (unsigned)store->flags, store->el, store->security,
             store->e2h, store->attr, store->sh);
    for (size_t i = 0; i < store->count; i++)
        wire_put(&w, "%02x", store->bytes[i]);
    link_send(s->link, s->line);
    char *answer = link_receive(s->link);
    if (!answer || !strcmp(answer, "done"))
        return;
    static const struct {
        const char *word;
        uint8_t kind;
    } kinds[] = {{"fault", SPEX_STOP_FAULT}, {"abort", SPEX_STOP_ABORT}};
    static const struct wire_field fields[] = {
        {"fsc", offsetof(struct spex_spu_stop, fsc), 1, false},
        {"flags", offsetof(struct spex_spu_stop, flags), 2, false},
        {"written", offsetof(struct spex_spu_stop, written), sizeof(size_t), false},
        {0}};
    const char *wrong = answer;
    size_t n = strcspn(answer, " ");
    for (size_t i = 0; i < 2; i++)
        if (n == 5 && !memcmp(answer, kinds[i].word, n))
            stop->kind = kinds[i].kind;
    if (!stop->kind || !wire_get_struct(answer + n, fields, stop, &wrong) ||
        stop->written > store->count)
        link_fail(s->link, "'%.60s' is no answer to !write", wrong);
}

static bool host_counter(void *user, uint64_t *count)
{
    struct server *s = user;
    say(s, "!counter");
    char *answer = link_receive(s->link);
    if (!answer || !strcmp(answer, "off"))
        return false;
    if (!wire_number(answer, count))
        link_fail(s->link, "'%.60s' is no answer to !counter", answer);
    return !link_failure(s->link);
}

static uint8_t host_random(void *user)
{
    struct server *s = user;
    uint64_t value = 0;
    say(s, "!random");
    char *answer = link_receive(s->link);
    if (answer && (!wire_number(answer, &value) || value > 255))
        link_fail(s->link, "'%.60s' is no answer to !random", answer);
    return (uint8_t)value;
}

static void host_pmu(void *user, unsigned event, uint64_t count)
{
    say(user, "!pmu 0x%x %llu", event, (unsigned long long)count);
}

static void host_trigger(void *user)
{
    say(user, "!trigger");
}

static void host_serror(void *user, uint64_t address)
{
    say(user, "!serror 0x%llx", (unsigned long long)address);
}

static void host_irq(void *user, bool level)
{
    say(user, "!irq %d", level);
}

static void host_exception(void *user, const struct spex_spu_exception *e)
{
    struct server *s = user;
    struct wire w = {s->line, 0, sizeof s->line, false};
    wire_put(&w, "!exception");
    wire_put_struct(&w, "", wire_exception, e);
    link_send(s->link, s->line);
}

/* ---- requests: each answers in one line ---- */

static void fail(struct server *s, const char *why)
{
    say(s, "error %s", why);
}

static void on_new(struct server *s, char *words)
{
    struct spex_spu_host host = SCRIPT_HOST(s, NULL);
    struct spex_spu_config config = {.size = sizeof config, .host = &host};
    struct spex_error error;
    bool protocol = false;
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest));) {
        if (!strcmp(word, "protocol=1"))
            protocol = true;
        else if (!strncmp(word, "features=", 9))
            config.features = word + 9;
        else if (!strncmp(word, "choices=", 8))
            config.choices = word + 8;
        else if (!strcmp(word, "random=1"))
            host.random = host_random;
        else if (strcmp(word, "random=0") &&
                 !(!strncmp(word, "seed=", 5) && wire_number(word + 5, &config.seed))) {
            fail(s, "new protocol=1 features=LIST choices=LIST seed=N random=0|1");
            return;
        }
    }
    if (!protocol) {
        fail(s, "this unit speaks protocol=1");
        return;
    }
    struct spex_spu *unit;
    if (spex_spu_new(&config, &unit, &error)) {
        fail(s, error.text);
        return;
    }
    spex_spu_free(s->unit);
    s->unit = unit;
    free(s->saved);
    s->saved = NULL;
    memset(s->busy, 0, sizeof s->busy);
    say(s, "ok");
}

static void on_plain(struct server *s, char *words, void (*call)(struct spex_spu *unit))
{
    call(s->unit);
    say(s, "ok");
}

static void on_boot(struct server *s, char *words)
{
    on_plain(s, words, spex_spu_boot);
}

static void on_reset(struct server *s, char *words)
{
    memset(s->busy, 0, sizeof s->busy);
    on_plain(s, words, spex_spu_reset);
}

static void on_isb(struct server *s, char *words)
{
    on_plain(s, words, spex_spu_context_sync);
}

static void on_exception_taken(struct server *s, char *words)
{
    on_plain(s, words, spex_spu_exception_taken);
}

static void on_flush(struct server *s, char *words)
{
    on_plain(s, words, spex_spu_flush);
}

static void put_ok(struct server *s, const struct wire_field *fields, const void *data)
{
    struct wire w = {s->line, 0, sizeof s->line, false};
    wire_put(&w, "ok");
    wire_put_struct(&w, "", fields, data);
    link_send(s->link, s->line);
}

static void on_state(struct server *s, char *words)
{
    struct spex_spu_state state;
    const char *wrong;
    spex_spu_get_state(s->unit, &state);
    if (!*words) {
        put_ok(s, wire_state, &state);
        return;
    }
    if (!wire_get_struct(words, wire_state, &state, &wrong) || state.el > 3 ||
        state.security > SPEX_ROOT) {
        fail(s, "state el= security= aarch32= halted= sdd= pm=");
        return;
    }
    spex_spu_set_state(s->unit, &state);
    say(s, "ok");
}

static void answer_access(struct server *s, enum spex_sysreg_result result, const uint64_t *value,
                          const struct spex_sysreg_detail *detail)
{
    static const char *const names[] = {"ok",       "undefined", "trap-el2",
                                        "trap-el3", "memory",    "not-ours"};
    if (result == SPEX_SYSREG_OK && value)
        say(s, "ok 0x%llx", (unsigned long long)*value);
    else if (result == SPEX_SYSREG_OK || result == SPEX_SYSREG_NOT_OURS)
        say(s, "%s", names[result]);
    else
        say(s, "%s 0x%llx", names[result],
            (unsigned long long)(result == SPEX_SYSREG_MEMORY ? detail->offset : detail->esr));
}

/* Parses REG, and a value to write. */
static bool register_of(struct server *s, char *words, unsigned *encoding, uint64_t *value)
{
    char *second = words + strcspn(words, " ");
    if (*second)
        *second++ = '\0';
    if (!spex_sysreg_find(words, encoding) && (!value ? !*second : wire_number(second, value)))
        return true;
    fail(s, value ? "a register and a value" : "a register");
    return false;
}

static void on_read(struct server *s, char *words)
{
    struct spex_sysreg_detail detail = {0};
    unsigned encoding;
    uint64_t value = 0;
    if (register_of(s, words, &encoding, NULL)) {
        enum spex_sysreg_result result = spex_spu_read(s->unit, encoding, 0, &value, &detail);
        answer_access(s, result, &value, &detail);
    }
}

static void on_get(struct server *s, char *words)
{
    unsigned encoding;
    uint64_t value = 0;
    if (register_of(s, words, &encoding, NULL)) {
        bool there = spex_spu_get(s->unit, encoding, &value);
        answer_access(s, there ? SPEX_SYSREG_OK : SPEX_SYSREG_NOT_OURS, &value, NULL);
    }
}

static void on_write(struct server *s, char *words)
{
    struct spex_sysreg_detail detail = {0};
    unsigned encoding;
    uint64_t value;
    if (register_of(s, words, &encoding, &value))
        answer_access(s, spex_spu_write(s->unit, encoding, 0, value, &detail), NULL, &detail);
}

static void on_set(struct server *s, char *words)
{
    unsigned encoding;
    uint64_t value;
    if (register_of(s, words, &encoding, &value))
        say(s, spex_spu_set(s->unit, encoding, value) ? "ok" : "not-ours");
}

static void on_psb(struct server *s, char *words)
{
    struct spex_sysreg_detail detail = {0};
    answer_access(s, spex_spu_psb(s->unit, &detail), NULL, &detail);
}

/* Parses the first word as a number; *words becomes the rest. */
static bool number_of(char **words, uint64_t *value)
{
    char *word = *words, *end = word + strcspn(word, " ");
    *words = *end ? end + 1 : end;
    *end = '\0';
    return wire_number(word, value);
}

static bool op_of(struct server *s, char *words, struct wire_op *o)
{
    const char *wrong;
    if (wire_get_op(words, o, &wrong))
        return true;
    say(s, "error an operation has no '%.60s'", wrong);
    return false;
}

static void on_op(struct server *s, char *words)
{
    struct wire_op o;
    uint64_t pc;
    if (!number_of(&words, &pc))
        fail(s, "op PC key=value...");
    else if (op_of(s, words, &o))
        say(s, "ok %d", spex_spu_op(s->unit, pc, &o.op, &o.outcome));
}

static void on_begin(struct server *s, char *words)
{
    uint64_t pc, flags;
    if (!number_of(&words, &pc) || !number_of(&words, &flags)) {
        fail(s, "begin PC FLAGS");
        return;
    }
    int slot = spex_spu_begin(s->unit, pc, (uint32_t)flags);
    if (slot == SPEX_SPU_NOT_SAMPLED) {
        say(s, "not-sampled");
        return;
    }
    s->busy[slot] = true;
    say(s, "ok %d", slot);
}

static bool slot_of(struct server *s, char **words, uint64_t *slot)
{
    if (number_of(words, slot) && *slot < SLOTS && s->busy[*slot]) {
        s->busy[*slot] = false;
        return true;
    }
    fail(s, "no such slot is in flight");
    return false;
}

static void on_complete(struct server *s, char *words)
{
    struct wire_op o;
    uint64_t slot;
    if (slot_of(s, &words, &slot) && op_of(s, words, &o)) {
        spex_spu_complete(s->unit, (int)slot, &o.op, &o.outcome);
        say(s, "ok");
    }
}

static void on_abandon(struct server *s, char *words)
{
    uint64_t slot;
    if (slot_of(s, &words, &slot)) {
        spex_spu_abandon(s->unit, (int)slot);
        say(s, "ok");
    }
}

static void on_branch(struct server *s, char *words)
{
    struct wire_op o;
    if (op_of(s, words, &o)) {
        spex_spu_note_branch(s->unit, &o.op, &o.outcome);
        say(s, "ok");
    }
}

static void on_until(struct server *s, char *words)
{
    uint64_t until = spex_spu_until(s->unit);
    if (until == UINT64_MAX)
        say(s, "never");
    else
        say(s, "ok %llu", (unsigned long long)until);
}

static void on_pass(struct server *s, char *words)
{
    uint64_t n;
    if (!number_of(&words, &n) || n > spex_spu_until(s->unit)) {
        fail(s, "pass N, at most what until says");
        return;
    }
    spex_spu_pass(s->unit, n);
    say(s, "ok");
}

static void on_late_abort(struct server *s, char *words)
{
    uint64_t flags;
    if (!number_of(&words, &flags) || flags >> 32) {
        fail(s, "late-abort FLAGS");
        return;
    }
    spex_spu_external_abort(s->unit, (uint32_t)flags);
    say(s, "ok");
}

static void on_impdef_event(struct server *s, char *words)
{
    uint64_t mss, mss2;
    if (!number_of(&words, &mss) || !number_of(&words, &mss2) || mss >> 16 || mss2 >> 32) {
        fail(s, "impdef-event MSS MSS2");
        return;
    }
    spex_spu_impdef_event(s->unit, (uint16_t)mss, (uint32_t)mss2);
    say(s, "ok");
}

static void on_save(struct server *s, char *words)
{
    spex_spu_flush(s->unit);
    size_t size = spex_spu_save(s->unit, NULL, 0);
    uint8_t *bytes = malloc(size);
    if (!bytes) {
        fail(s, "out of memory");
        return;
    }
    spex_spu_save(s->unit, bytes, size);
    free(s->saved);
    s->saved = bytes;
    s->saved_size = size;
    memcpy(s->saved_busy, s->busy, sizeof s->busy);
    say(s, "ok");
}

static void on_restore(struct server *s, char *words)
{
    if (!s->saved || spex_spu_restore(s->unit, s->saved, s->saved_size)) {
        fail(s, "nothing saved that this unit can restore");
        return;
    }
    memcpy(s->busy, s->saved_busy, sizeof s->busy);
    say(s, "ok");
}

static void on_status(struct server *s, char *words)
{
    struct spex_spu_status status = {.size = sizeof status};
    spex_spu_get_status(s->unit, &status);
    put_ok(s, wire_status, &status);
}

static void on_exception(struct server *s, char *words)
{
    struct spex_spu_exception e = {0};
    uint64_t source;
    if (!number_of(&words, &source) || source > 3) {
        fail(s, "exception 0, 1, 2 or 3");
        return;
    }
    spex_spu_get_exception(s->unit, (unsigned)source, &e);
    put_ok(s, wire_exception, &e);
}

static void on_frozen(struct server *s, char *words)
{
    static const char *const names[] = {"el1", "el2", "cycles"};
    for (unsigned i = 0; i < 3; i++) {
        if (!strcmp(names[i], words)) {
            say(s, "ok %d", spex_spu_pmu_frozen(s->unit, (enum spex_pmu_range)i));
            return;
        }
    }
    fail(s, "frozen el1, el2 or cycles");
}

static const struct {
    const char *name;
    void (*run)(struct server *s, char *words);
} requests[] = {
    {"new", on_new},
    {"boot", on_boot},
    {"reset", on_reset},
    {"isb", on_isb},
    {"exception-taken", on_exception_taken},
    {"flush", on_flush},
    {"state", on_state},
    {"read", on_read},
    {"get", on_get},
    {"write", on_write},
    {"set", on_set},
    {"psb", on_psb},
    {"op", on_op},
    {"begin", on_begin},
    {"complete", on_complete},
    {"abandon", on_abandon},
    {"branch", on_branch},
    {"until", on_until},
    {"pass", on_pass},
    {"late-abort", on_late_abort},
    {"impdef-event", on_impdef_event},
    {"save", on_save},
    {"restore", on_restore},
    {"status", on_status},
    {"exception", on_exception},
    {"frozen", on_frozen},
};

static void answer(struct server *s, const char *line)
{
    char *copy = s->request;
    snprintf(s->request, sizeof s->request, "%s", line);
    char *words = copy + strcspn(copy, " ");
    if (*words)
        *words++ = '\0';
    link_begin(s->link, copy);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        if (strcmp(requests[i].name, copy))
            continue;
        if (!s->unit && requests[i].run != on_new)
            fail(s, "no unit yet; begin with 'new'");
        else
            requests[i].run(s, words);
        return;
    }
    say(s, "unsupported");
}

enum spex_status script_serve(int in, int out, struct spex_error *error)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    enum spex_status status = link_open(in, out, &s->link, error);
    if (!status) {
        for (const char *line; (line = link_receive(s->link));)
            answer(s, line);
        const char *failure = link_failure(s->link);
        if (failure)
            status = error_set(error, SPEX_INVALID, 0, "%s", failure);
        spex_spu_free(s->unit); /* its last events must find the link closed */
        link_close(s->link);
    }
    free(s->saved);
    free(s);
    return status;
}
