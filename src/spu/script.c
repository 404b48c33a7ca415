/*
 * Plays a text script on a unit: register accesses, operations, faults, time, and
 * what is expected. docs/spu-script.md has the language. The script's own host
 * keeps memory, counts PMU events and logs what is written to the buffer.
 */
#include <spex/record.h>
#include <spex/spu.h>

#include "base/bits.h"
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 8192, WORDS = 256, FAULTS = 64, SLOTS = 8, PARTS = 64, EVENTS = 32, RANDOM = 256,
       LOG_MAX = 1 << 20, NAME = 32 };

struct fault {
    uint64_t address;
    struct spex_spu_stop stop;
    bool used, once;
};

struct script {
    void (*report)(void *user, const struct spex_script_report *report);
    void *user;
    const char *text;
    size_t size;
    unsigned line;
    bool failed, broken; /* an expectation; the script itself */

    struct spex_spu_config config;
    struct spex_spu *unit; /* made by the first line that needs it */

    /* the host */
    uint8_t *log;          /* bytes written to the buffer, in order */
    size_t log_size, log_read;
    uint64_t last_address; /* one past the last byte written */
    struct spex_spu_store last_store;
    struct fault faults[FAULTS];
    uint64_t time;
    bool time_on;
    uint64_t pmu[EVENTS];
    unsigned pmu_event[EVENTS];
    uint64_t triggers, serrors, writes, irqs, exceptions;
    uint8_t random[RANDOM];
    size_t random_count, random_used;
    struct {
        char name[NAME];
        int slot;
    } slots[SLOTS];
    uint8_t *saved;
    size_t saved_size;
};

/* ---- reports ---- */

static void tell(struct script *s, enum spex_script_report_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(struct script *s, enum spex_script_report_kind kind, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (kind == SPEX_SCRIPT_FAILED)
        s->failed = true;
    if (kind == SPEX_SCRIPT_ERROR)
        s->broken = true;
    struct spex_script_report report = {kind, s->line, text};
    s->report(s->user, &report);
}

#define BROKEN(...) (tell(s, SPEX_SCRIPT_ERROR, __VA_ARGS__), false)
#define ULL(x) ((unsigned long long)(x))

/* One comparison of an expectation. */
static void compare(struct script *s, const char *what, uint64_t expected, uint64_t got)
{
    if (expected == got)
        tell(s, SPEX_SCRIPT_PASSED, "%s is 0x%llx", what, ULL(got));
    else
        tell(s, SPEX_SCRIPT_FAILED, "%s: expected 0x%llx (%llu), got 0x%llx (%llu)", what,
             ULL(expected), ULL(expected), ULL(got), ULL(got));
}

/* ---- the host ---- */

static void host_log(struct script *s, const uint8_t *bytes, size_t count)
{
    if (!s->log)
        s->log = malloc(LOG_MAX);
    if (!s->log || s->log_size + count > LOG_MAX)
        return;
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
            (!first || f->address < first->address))
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
        tell(s, SPEX_SCRIPT_TRACE, "%s at 0x%llx, fsc 0x%x",
             stop->kind == SPEX_STOP_FAULT ? "fault" : "external abort", ULL(first->address),
             stop->fsc);
    }
    if (store->count)
        tell(s, SPEX_SCRIPT_TRACE, "writes %zu bytes at 0x%llx (el%u security %u flags 0x%x)",
             count, ULL(store->address), store->el, store->security, (unsigned)store->flags);
    else
        tell(s, SPEX_SCRIPT_TRACE, "translates 0x%llx", ULL(store->address));
    host_log(s, store->bytes, count);
    s->last_store = *store;
    s->last_address = store->address + count;
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
    tell(s, SPEX_SCRIPT_TRACE, "pmu %s %llu", name ? name : "?", ULL(count));
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
    tell(s, SPEX_SCRIPT_TRACE, "trigger");
}

static void host_serror(void *user, uint64_t address)
{
    struct script *s = user;
    s->serrors++;
    tell(s, SPEX_SCRIPT_TRACE, "SError for 0x%llx", ULL(address));
}

static void host_irq(void *user, bool level)
{
    struct script *s = user;
    s->irqs++;
    tell(s, SPEX_SCRIPT_TRACE, "irq %d", level);
}

static void host_exception(void *user, const struct spex_spu_exception *e)
{
    struct script *s = user;
    s->exceptions++;
    if (e->pending)
        tell(s, SPEX_SCRIPT_TRACE, "exception from PMBSR_EL%u to el%u %s", e->source, e->target,
             e->unmasked ? "taken" : "masked");
    else
        tell(s, SPEX_SCRIPT_TRACE, "exception none");
}

static uint8_t host_random(void *user)
{
    struct script *s = user;
    if (s->random_used < s->random_count)
        return s->random[s->random_used++];
    return (uint8_t)(s->random_used++ * 167 + 13); /* the list is used up: any fixed sequence */
}

/* ---- words ---- */

static bool number(const char *word, uint64_t *value)
{
    char *end;
    if (*word < '0' || *word > '9')
        return false;
    errno = 0;
    if (word[0] == '0' && (word[1] == 'b' || word[1] == 'B'))
        *value = strtoull(word + 2, &end, 2);
    else
        *value = strtoull(word, &end, 0);
    return !*end && end != word && !errno;
}

/* The value of "key=" in the words, or NULL. */
static const char *value_of(char **words, size_t count, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < count; i++)
        if (!strncmp(words[i], key, n) && words[i][n] == '=')
            return words[i] + n + 1;
    return NULL;
}

static bool has_word(char **words, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(words[i], word))
            return true;
    return false;
}

/* A number, or fields: "TS|PCT=1|E1SPE". mask gets the bits that were named. */
static bool register_value(struct script *s, unsigned encoding, const char *word, uint64_t *value,
                           uint64_t *mask)
{
    *mask = ~UINT64_C(0);
    if (encoding == SPEX_PMSCR_EL12)
        encoding = SPEX_PMSCR_EL1;
    if (encoding == SPEX_PMBSR_EL12)
        encoding = SPEX_PMBSR_EL1;
    if (number(word, value))
        return true;
    *value = *mask = 0;
    while (*word) {
        size_t n = strcspn(word, "|"), name = strcspn(word, "|=");
        enum spex_sysreg_field field;
        const char *known;
        size_t i = 0;
        while ((known = spex_sysreg_field_at(encoding, i, &field)) &&
               (strlen(known) != name || strncmp(known, word, name)))
            i++;
        if (!known)
            return BROKEN("%s has no field '%.*s'", spex_sysreg_name(encoding), (int)name, word);
        uint64_t to = SPEX_FIELD_MASK(field) >> SPEX_FIELD_LO(field);
        if (word[name] == '=') {
            char digits[40] = "";
            if (n - name - 1 < sizeof digits)
                memcpy(digits, word + name + 1, n - name - 1);
            if (!number(digits, &to))
                return BROKEN("'%.*s' needs a number", (int)n, word);
        }
        *value = spex_field_set(*value, field, to);
        *mask |= SPEX_FIELD_MASK(field);
        word += n + (word[n] == '|');
    }
    return true;
}

static const char *const security_names[] = {"s", "ns", "realm", "root"};

static bool security(const char *word, uint8_t *value)
{
    for (unsigned i = 0; i < 4; i++)
        if (!strcmp(security_names[i], word))
            return *value = (uint8_t)i, true;
    return false;
}

/* ---- the unit ---- */

static bool unit(struct script *s)
{
    struct spex_error error;
    if (s->unit)
        return true;
    s->config.host = (struct spex_spu_host){.user = s,
                                            .write = host_write,
                                            .counter = host_counter,
                                            .pmu = host_pmu,
                                            .trigger = host_trigger,
                                            .serror = host_serror,
                                            .irq = host_irq,
                                            .exception = host_exception,
                                            .random = s->random_count ? host_random : NULL};
    if (spex_spu_new(&s->config, &s->unit, &error))
        return BROKEN("%s", error.text);
    return true;
}

static void forget(struct script *s)
{
    if (s->unit)
        spex_spu_flush(s->unit);
    s->log_size = s->log_read = 0;
    s->triggers = s->serrors = s->writes = s->irqs = s->exceptions = 0;
    memset(s->pmu, 0, sizeof s->pmu);
}

/* A new test: nothing is left of the one before. */
static void fresh(struct script *s)
{
    spex_spu_free(s->unit);
    free(s->saved);
    free(s->log);
    struct script empty = {.report = s->report,
                           .user = s->user,
                           .text = s->text,
                           .size = s->size,
                           .line = s->line,
                           .time_on = true};
    *s = empty;
    spex_spu_config_default(&s->config);
}

/* ---- operations ---- */

struct operation {
    uint64_t pc;
    struct spex_op op;
    struct spex_outcome outcome;
    struct spex_access parts[PARTS];
};

/* Short names for common operations: kind and flags. */
static const struct {
    const char *name;
    uint8_t kind;
    uint32_t flags;
} aliases[] = {
    {"load", SPEX_OP_LDST, SPEX_OPF_LOAD},
    {"store", SPEX_OP_LDST, SPEX_OPF_STORE},
    {"ldadd", SPEX_OP_LDST, SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_ATOMIC},
    {"stadd", SPEX_OP_LDST, SPEX_OPF_STORE | SPEX_OPF_ATOMIC},
    {"b", SPEX_OP_BRANCH, 0},
    {"bcond", SPEX_OP_BRANCH, SPEX_OPF_COND},
    {"bl", SPEX_OP_BRANCH, SPEX_OPF_LINK},
    {"blr", SPEX_OP_BRANCH, SPEX_OPF_LINK | SPEX_OPF_INDIRECT},
    {"br", SPEX_OP_BRANCH, SPEX_OPF_INDIRECT},
    {"ret", SPEX_OP_BRANCH, SPEX_OPF_RETURN | SPEX_OPF_INDIRECT},
    {"cpy", SPEX_OP_MEMCPY, SPEX_OPF_LOAD | SPEX_OPF_STORE},
    {"set", SPEX_OP_MEMSET, SPEX_OPF_STORE},
    {"gcsss2", SPEX_OP_GCS, SPEX_OPF_LOAD | SPEX_OPF_STORE},
    {"ld64b", SPEX_OP_LDST_UNSPEC, SPEX_OPF_LOAD},
    {"st64b", SPEX_OP_LDST_UNSPEC, SPEX_OPF_STORE},
    {"st64bv", SPEX_OP_LDST_UNSPEC, SPEX_OPF_STORE | SPEX_OPF_STATUS_RESULT},
};

static const struct {
    const char *name;
    uint32_t op, outcome, access;
} flag_words[] = {
    {"reads", SPEX_OPF_LOAD, 0, 0},
    {"writes", SPEX_OPF_STORE, 0, 0},
    {"atomic", SPEX_OPF_ATOMIC, 0, 0},
    {"excl", SPEX_OPF_EXCL, 0, 0},
    {"acqrel", SPEX_OPF_ACQREL, 0, 0},
    {"fp", SPEX_OPF_FP, 0, 0},
    {"simd", SPEX_OPF_SIMD, 0, 0},
    {"simdfp-reg", SPEX_OPF_SIMDFP_REG, 0, 0},
    {"pred", SPEX_OPF_PRED, 0, 0},
    {"zeroing", SPEX_OPF_PRED_ZEROING, 0, 0},
    {"pred-only", SPEX_OPF_PREDICATE_ONLY, 0, 0},
    {"gather", SPEX_OPF_GATHER, 0, 0},
    {"contiguous", SPEX_OPF_CONTIGUOUS, 0, 0},
    {"cond", SPEX_OPF_COND, 0, 0},
    {"indirect", SPEX_OPF_INDIRECT, 0, 0},
    {"link", SPEX_OPF_LINK, 0, 0},
    {"return", SPEX_OPF_RETURN, 0, 0},
    {"whole-za", SPEX_OPF_WHOLE_ZA, 0, 0},
    {"tag-data", SPEX_OPF_TAG_DATA, 0, 0},
    {"asimd-equiv", SPEX_OPF_ASIMD_EQUIV, 0, 0},
    {"gcs", SPEX_OPF_GCS, SPEX_OUT_GCS_ENABLED, 0},
    {"exception", 0, SPEX_OUT_EXCEPTION, 0},
    {"taken", 0, SPEX_OUT_PASSED, 0},
    {"passed", 0, SPEX_OUT_PASSED, 0},
    {"speculative", 0, SPEX_OUT_SPECULATIVE, 0},
    {"no-insn", 0, SPEX_OUT_NO_INSN, 0},
    {"nonarch", 0, SPEX_OUT_NONARCH_EXC, 0},
    {"monitor-fail", 0, SPEX_OUT_MONITOR_FAIL, 0},
    {"illegal", 0, SPEX_OUT_ILLEGAL_ERET, 0},
    {"streaming", 0, SPEX_OUT_STREAMING, 0},
    {"tbi", 0, 0, SPEX_ACC_TBI},
    {"checked", 0, 0, SPEX_ACC_TAG_CHECKED},
    {"tag-ignored", 0, 0, SPEX_ACC_TAG_IGNORED},
    {"canonical", 0, 0, SPEX_ACC_TAG_CANONICAL},
    {"aborted", 0, 0, SPEX_ACC_EXTERNAL_ABORT},
};

static bool op_kind(const char *word, struct spex_op *op)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (!strcmp(word, aliases[i].name)) {
            op->kind = aliases[i].kind;
            op->flags = aliases[i].flags;
            return true;
        }
    }
    for (unsigned i = 0; i < SPEX_OP_KIND_COUNT; i++) {
        if (!strcmp(word, spex_op_kind_name(i))) {
            op->kind = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* The n-th of a comma-separated list of numbers; false past its end. */
static bool nth(const char *list, size_t n, uint64_t *value, bool *mark)
{
    while (n-- && *list) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    size_t length = strcspn(list, ",");
    char word[40] = "";
    if (!length || length >= sizeof word)
        return false;
    memcpy(word, list, length);
    *mark = word[length - 1] == '!';
    if (*mark)
        word[length - 1] = '\0';
    return number(word, value);
}

/* Lists that go with parts=, in the order they are applied. */
static const char *const part_keys[] = {"pevents", "pxlat", "poverlap", "psource", "ptotal",
                                        "ptag",    "ppas",  "ppa",      "pflags"};
enum { PART_KEYS = sizeof part_keys / sizeof part_keys[0] };

static bool part_key(const char *key)
{
    for (size_t i = 0; i < PART_KEYS; i++)
        if (!strcmp(key, part_keys[i]))
            return true;
    return !strcmp(key, "parts");
}

/* "parts=0x1000,0x1010!": addresses, "!" for an inactive element; pevents=, pxlat= ... go with it. */
static bool parse_parts(struct script *s, char **words, size_t count, struct operation *o)
{
    const char *list = value_of(words, count, "parts");
    size_t n = 0;
    uint64_t value;
    bool inactive, unused;
    if (!list)
        return true;
    for (; n < PARTS && nth(list, n, &value, &inactive); n++) {
        struct spex_access *a = &o->parts[n];
        a->va = value;
        a->pas = SPEX_NONSECURE;
        a->flags = (uint16_t)(SPEX_ACC_VA | (inactive ? SPEX_ACC_INACTIVE : SPEX_ACC_DONE));
        for (size_t k = 0; k < PART_KEYS; k++) {
            const char *own = value_of(words, count, part_keys[k]);
            if (!own || !nth(own, n, &value, &unused))
                continue;
            switch (k) {
            case 0: a->events = value; break;
            case 1: a->translation = (uint32_t)value; break;
            case 2: a->translation_overlap = (uint32_t)value; break;
            case 3: a->data_source = (uint16_t)value; a->flags |= SPEX_ACC_SOURCE; break;
            case 4: a->total = (uint32_t)value; break;
            case 5: a->tag = (uint8_t)value; break;
            case 6: a->pas = (uint8_t)value; break;
            case 7: a->pa = value; a->flags |= SPEX_ACC_PA; break;
            default: a->flags = (uint16_t)value; break; /* last: the flags themselves */
            }
        }
    }
    if (!n)
        return BROKEN("parts= takes addresses separated by commas");
    o->outcome.parts = o->parts;
    o->outcome.part_count = n;
    return true;
}

static bool parse_key(struct script *s, struct operation *o, const char *key, const char *text)
{
    struct spex_outcome *out = &o->outcome;
    struct spex_access *a = &out->access[0], *b = &out->access[1];
    uint64_t v = 0;
    uint8_t which = 0;
    if (!strcmp(key, "target-security") || !strcmp(key, "spsr-security") || !strcmp(key, "pas") ||
        !strcmp(key, "pas2")) {
        if (!security(text, &which))
            return BROKEN("'%s' is no Security state; use s, ns, realm or root", text);
        *(key[0] == 't'   ? &out->target_security
          : key[0] == 's' ? &out->spsr_security
          : key[3]        ? &b->pas : &a->pas) = which;
        return true;
    }
    if (part_key(key))
        return true; /* parse_parts */
    if (!number(text, &v))
        return BROKEN("'%s=%s' needs a number", key, text);
    if (!strcmp(key, "pc"))
        o->pc = v;
    else if (!strcmp(key, "va"))
        a->va = v, a->flags |= SPEX_ACC_VA | SPEX_ACC_DONE;
    else if (!strcmp(key, "pa"))
        a->pa = v, a->flags |= SPEX_ACC_PA;
    else if (!strcmp(key, "va2"))
        b->va = v, b->flags |= SPEX_ACC_VA | SPEX_ACC_DONE;
    else if (!strcmp(key, "pa2"))
        b->pa = v, b->flags |= SPEX_ACC_PA;
    else if (!strcmp(key, "source"))
        a->data_source = (uint16_t)v, a->flags |= SPEX_ACC_SOURCE;
    else if (!strcmp(key, "source2"))
        b->data_source = (uint16_t)v, b->flags |= SPEX_ACC_SOURCE;
    else if (!strcmp(key, "events"))
        a->events = v;
    else if (!strcmp(key, "events2"))
        b->events = v;
    else if (!strcmp(key, "xlat2"))
        b->translation = (uint32_t)v;
    else if (!strcmp(key, "overlap2"))
        b->translation_overlap = (uint32_t)v;
    else if (!strcmp(key, "tag2"))
        b->tag = (uint8_t)v;
    else if (!strcmp(key, "op-flags"))
        o->op.flags = (uint32_t)v;
    else if (!strcmp(key, "outcome-flags"))
        out->flags = (uint32_t)v;
    else if (!strcmp(key, "access-flags"))
        a->flags = (uint16_t)v;
    else if (!strcmp(key, "access-flags2"))
        b->flags = (uint16_t)v;
    else if (!strcmp(key, "op-events"))
        out->events = v;
    else if (!strcmp(key, "xlat"))
        a->translation = (uint32_t)v;
    else if (!strcmp(key, "overlap"))
        a->translation_overlap = (uint32_t)v;
    else if (!strcmp(key, "tag"))
        a->tag = (uint8_t)v;
    else if (!strcmp(key, "total"))
        out->total = (uint32_t)v;
    else if (!strcmp(key, "issue"))
        out->issue = (uint32_t)v;
    else if (!strcmp(key, "alt"))
        out->alt_issue = (uint32_t)v, out->flags |= SPEX_OUT_ALT_CLOCK;
    else if (!strcmp(key, "target"))
        out->target = v;
    else if (!strcmp(key, "target-el"))
        out->target_el = (uint8_t)v;
    else if (!strcmp(key, "spsr-el"))
        out->spsr_el = (uint8_t)v;
    else if (!strcmp(key, "bits"))
        o->op.vector_bits = (uint32_t)v;
    else if (!strcmp(key, "vectors"))
        o->op.vectors = (uint8_t)v;
    else if (!strcmp(key, "impdef-counter"))
        out->impdef_counter = (uint32_t)v, out->flags |= SPEX_OUT_IMPDEF_COUNTER;
    else if (!strcmp(key, "impdef-address"))
        out->impdef_address = v, out->flags |= SPEX_OUT_IMPDEF_ADDRESS;
    else
        return BROKEN("an operation has no '%s='", key);
    return true;
}

/* KIND and what follows: flags and key=value. */
static bool parse_op(struct script *s, char **words, size_t count, struct operation *o)
{
    struct spex_spu_state state;
    memset(o, 0, sizeof *o);
    memset(o->op.src, SPEX_REG_NONE, sizeof o->op.src);
    memset(o->op.dst, SPEX_REG_NONE, sizeof o->op.dst);
    spex_spu_get_state(s->unit, &state);
    o->op.vectors = 1;
    o->outcome.flags = SPEX_OUT_EXECUTED;
    o->outcome.target_el = state.el;
    o->outcome.target_security = state.security;
    o->outcome.access[0].pas = o->outcome.access[1].pas = state.security;
    if (!count)
        return true;
    if (!op_kind(words[0], &o->op))
        return BROKEN("unknown operation '%s'", words[0]);
    uint32_t access = 0;
    for (size_t i = 1; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (equals) {
            *equals = '\0';
            bool ok = parse_key(s, o, words[i], equals + 1);
            *equals = '=';
            if (!ok)
                return false;
            continue;
        }
        if (!strcmp(words[i], "unexecuted"))
            o->outcome.flags &= ~(uint32_t)SPEX_OUT_EXECUTED;
        else if (!strcmp(words[i], "not-done"))
            o->outcome.access[0].flags &= (uint16_t)~SPEX_ACC_DONE;
        else if (!strcmp(words[i], "zt"))
            o->op.src[0] = SPEX_REG_ZT0;
        else if (!strcmp(words[i], "pred-operand"))
            o->op.src[1] = SPEX_REG_P0;
        else {
            size_t k = 0, n = sizeof flag_words / sizeof flag_words[0];
            while (k < n && strcmp(words[i], flag_words[k].name))
                k++;
            if (k == n)
                return BROKEN("an operation has no '%s'", words[i]);
            o->op.flags |= flag_words[k].op;
            o->outcome.flags |= flag_words[k].outcome;
            access |= flag_words[k].access;
        }
    }
    o->outcome.access[0].flags |= (uint16_t)access;
    o->outcome.access[1].flags |= (uint16_t)access;
    return parse_parts(s, words, count, o);
}

/* ---- lines ---- */

static bool do_features(struct script *s, char **words, size_t count)
{
    struct spex_error error;
    if (count != 1 || s->unit)
        return BROKEN("features LIST, before anything that needs the unit");
    if (spex_features_parse(words[0], &s->config.features, &error))
        return BROKEN("%s", error.text);
    return true;
}

static bool do_choice(struct script *s, char **words, size_t count)
{
    struct spex_error error;
    if (!count || s->unit)
        return BROKEN("choice NAME=VALUE..., before anything that needs the unit");
    for (size_t i = 0; i < count; i++)
        if (spex_spu_choices_set(&s->config.choices, words[i], &error))
            return BROKEN("%s", error.text);
    return true;
}

static bool do_seed(struct script *s, char **words, size_t count)
{
    if (count != 1 || s->unit || !number(words[0], &s->config.seed))
        return BROKEN("seed NUMBER, before anything that needs the unit");
    return true;
}

static bool do_random(struct script *s, char **words, size_t count)
{
    uint64_t v;
    if (s->unit && !s->random_count)
        return BROKEN("the first 'random' comes before anything that needs the unit");
    for (size_t i = 0; i < count && s->random_count < RANDOM; i++) {
        if (!number(words[i], &v) || v > 255)
            return BROKEN("random BYTE...");
        s->random[s->random_count++] = (uint8_t)v;
    }
    return true;
}

static bool do_boot(struct script *s, char **words, size_t count)
{
    spex_spu_boot(s->unit);
    return true;
}

static bool do_reset(struct script *s, char **words, size_t count)
{
    spex_spu_reset(s->unit);
    return true;
}

static bool do_state(struct script *s, char **words, size_t count)
{
    struct spex_spu_state state;
    spex_spu_get_state(s->unit, &state);
    for (size_t i = 0; i < count; i++) {
        char *equals = strchr(words[i], '=');
        uint64_t v = 0;
        size_t n = equals ? (size_t)(equals - words[i]) : 0;
        if (!equals || (strncmp(words[i], "security=", 9) && !number(equals + 1, &v)))
            return BROKEN("state el= security= aarch32= halted= sdd= pm=");
        if (!strncmp(words[i], "el=", n + 1) && v < 4)
            state.el = (uint8_t)v;
        else if (!strncmp(words[i], "security=", n + 1)) {
            if (!security(equals + 1, &state.security))
                return BROKEN("security is s, ns, realm or root");
        } else if (!strncmp(words[i], "aarch32=", n + 1))
            state.aarch32 = (uint8_t)v;
        else if (!strncmp(words[i], "halted=", n + 1))
            state.halted = v;
        else if (!strncmp(words[i], "sdd=", n + 1))
            state.sdd = v;
        else if (!strncmp(words[i], "pm=", n + 1))
            state.pm = v;
        else
            return BROKEN("state has no '%s'", words[i]);
    }
    spex_spu_set_state(s->unit, &state);
    return true;
}

static bool expect_access(struct script *s, char **words, size_t count, const char *what,
                          enum spex_access_result result,
                          const struct spex_access_syndrome *syndrome)
{
    static const char *const names[] = {"ok",     "undefined", "trap el2", "trap el3",
                                        "memory", "not ours"};
    char wanted[64] = "ok";
    uint64_t detail = 0;
    bool has_detail = false;
    if (count && strcmp(words[0], "ok")) {
        snprintf(wanted, sizeof wanted, "%s", words[0]);
        if (!strcmp(words[0], "trap") && count > 1)
            snprintf(wanted, sizeof wanted, "trap %s", words[1]);
        has_detail = number(words[count - 1], &detail);
    }
    if (strcmp(names[result], wanted)) {
        tell(s, SPEX_SCRIPT_FAILED, "%s: expected %s, got %s", what, wanted, names[result]);
        return true;
    }
    if (has_detail)
        compare(s, result == SPEX_ACCESS_MEMORY ? "memory offset" : "ESR", detail,
                result == SPEX_ACCESS_MEMORY ? syndrome->offset : syndrome->esr);
    else
        tell(s, SPEX_SCRIPT_PASSED, "%s: %s", what, wanted);
    return true;
}

static bool find_register(struct script *s, const char *name, unsigned *encoding)
{
    if (spex_sysreg_find(name, encoding))
        return BROKEN("unknown register '%s'", name);
    return true;
}

/* write REG VALUE [expect RESULT]; set REG VALUE */
static bool do_write(struct script *s, char **words, size_t count, bool direct)
{
    unsigned encoding;
    uint64_t value, mask;
    struct spex_access_syndrome syndrome = {0};
    if (count < 2)
        return BROKEN("write REGISTER VALUE");
    if (!find_register(s, words[0], &encoding) ||
        !register_value(s, encoding, words[1], &value, &mask))
        return false;
    tell(s, SPEX_SCRIPT_TRACE, "%s %s 0x%llx", direct ? "set" : "write", words[0], ULL(value));
    if (direct) {
        if (!spex_spu_set(s->unit, encoding, value))
            tell(s, SPEX_SCRIPT_FAILED, "%s is not there", words[0]);
        return true;
    }
    size_t skip = count > 2 && !strcmp(words[2], "expect") ? 3 : 2;
    enum spex_access_result result = spex_spu_write(s->unit, encoding, 0, value, &syndrome);
    return expect_access(s, words + skip, count - skip, words[0], result, &syndrome);
}

/* read REG [expect VALUE or RESULT]; get REG [expect VALUE] */
static bool do_read(struct script *s, char **words, size_t count, bool direct)
{
    unsigned encoding;
    uint64_t got = 0, value, mask;
    struct spex_access_syndrome syndrome = {0};
    if (!count || (count > 1 && strcmp(words[1], "expect")))
        return BROKEN("read REGISTER expect VALUE");
    if (!find_register(s, words[0], &encoding))
        return false;
    enum spex_access_result result =
        direct ? (spex_spu_get(s->unit, encoding, &got) ? SPEX_ACCESS_OK : SPEX_ACCESS_NOT_OURS)
               : spex_spu_read(s->unit, encoding, 0, &got, &syndrome);
    tell(s, SPEX_SCRIPT_TRACE, "read %s: 0x%llx", words[0], ULL(got));
    if (count < 3 || !strcmp(words[2], "ok") || !strcmp(words[2], "undefined") ||
        !strcmp(words[2], "trap") || !strcmp(words[2], "memory"))
        return expect_access(s, words + 2, count > 2 ? count - 2 : 0, words[0], result, &syndrome);
    if (result != SPEX_ACCESS_OK) {
        tell(s, SPEX_SCRIPT_FAILED, "%s cannot be read here", words[0]);
        return true;
    }
    for (size_t i = 2; i < count; i++) {
        char what[80];
        if (!register_value(s, encoding, words[i], &value, &mask))
            return false;
        snprintf(what, sizeof what, mask == ~UINT64_C(0) ? "%s" : "%s (%s)", words[0], words[i]);
        compare(s, what, value, got & mask);
    }
    return true;
}

static bool do_write_line(struct script *s, char **words, size_t count)
{
    return do_write(s, words, count, false);
}

static bool do_set_line(struct script *s, char **words, size_t count)
{
    return do_write(s, words, count, true);
}

static bool do_read_line(struct script *s, char **words, size_t count)
{
    return do_read(s, words, count, false);
}

static bool do_get_line(struct script *s, char **words, size_t count)
{
    return do_read(s, words, count, true);
}

static bool do_psb(struct script *s, char **words, size_t count)
{
    struct spex_access_syndrome syndrome = {0};
    enum spex_access_result result = spex_spu_psb(s->unit, &syndrome);
    size_t skip = count && !strcmp(words[0], "expect");
    return expect_access(s, words + skip, count - skip, "psb", result, &syndrome);
}

static bool do_isb(struct script *s, char **words, size_t count)
{
    spex_spu_context_sync(s->unit);
    return true;
}

static bool do_exception_taken(struct script *s, char **words, size_t count)
{
    spex_spu_exception_taken(s->unit);
    return true;
}

static bool do_time(struct script *s, char **words, size_t count)
{
    uint64_t v;
    if (count == 1 && !strcmp(words[0], "off"))
        return s->time_on = false, true;
    if (count != 1 || !number(words[0] + (words[0][0] == '+'), &v))
        return BROKEN("time N, time +N or time off");
    s->time = words[0][0] == '+' ? s->time + v : v;
    s->time_on = true;
    return true;
}

/* op KIND ...: one operation. */
static bool do_op(struct script *s, char **words, size_t count)
{
    struct operation o;
    if (!count)
        return BROKEN("op KIND key=value...");
    if (!parse_op(s, words, count, &o))
        return false;
    if (spex_spu_op(s->unit, o.pc, &o.op, &o.outcome))
        tell(s, SPEX_SCRIPT_TRACE, "op %s at 0x%llx is sampled", words[0], ULL(o.pc));
    return true;
}

/* sample KIND ...: the same, made the next one to be sampled. */
static bool do_sample(struct script *s, char **words, size_t count)
{
    spex_spu_set(s->unit, SPEX_PMSICR_EL1, 1);
    return do_op(s, words, count);
}

/* ops N [KIND ...]: N operations in blocks; those that may be sampled are described. */
static bool do_ops(struct script *s, char **words, size_t count)
{
    struct operation o;
    uint64_t left;
    if (!count || !number(words[0], &left))
        return BROKEN("ops NUMBER [KIND key=value...]");
    if (!parse_op(s, words + 1, count - 1, &o))
        return false;
    while (left) {
        uint64_t n = spex_spu_until(s->unit);
        if (n > left)
            n = left;
        spex_spu_pass(s->unit, n);
        left -= n;
        if (left) {
            spex_spu_op(s->unit, o.pc, &o.op, &o.outcome);
            left--;
        }
    }
    return true;
}

static int *slot_of(struct script *s, const char *name, bool make)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (!strcmp(s->slots[i].name, name))
            return &s->slots[i].slot;
    for (size_t i = 0; make && i < SLOTS; i++) {
        if (!s->slots[i].name[0]) {
            snprintf(s->slots[i].name, NAME, "%s", name);
            return &s->slots[i].slot;
        }
    }
    return NULL;
}

/* begin NAME [pc=...] [expect sampled | expect not-sampled] */
static bool do_begin(struct script *s, char **words, size_t count)
{
    uint64_t pc = 0;
    const char *text = count ? value_of(words, count, "pc") : NULL;
    int *slot = count ? slot_of(s, words[0], true) : NULL;
    uint32_t flags = (has_word(words, count, "speculative") ? SPEX_OUT_SPECULATIVE : 0) |
                     (has_word(words, count, "no-insn") ? SPEX_OUT_NO_INSN : 0) |
                     (has_word(words, count, "nonarch") ? SPEX_OUT_NONARCH_EXC : 0);
    if (!slot || (text && !number(text, &pc)))
        return BROKEN("begin NAME [pc=ADDRESS], up to %d names", SLOTS);
    *slot = spex_spu_begin(s->unit, pc, flags);
    if (has_word(words, count, "sampled"))
        compare(s, "sampled", 1, *slot >= 0);
    if (has_word(words, count, "not-sampled"))
        compare(s, "sampled", 0, *slot >= 0);
    return true;
}

static bool do_complete(struct script *s, char **words, size_t count)
{
    struct operation o;
    int *slot = count ? slot_of(s, words[0], false) : NULL;
    if (!slot || *slot < 0)
        return BROKEN("complete NAME KIND ...: nothing of that name was sampled");
    if (!parse_op(s, words + 1, count - 1, &o))
        return false;
    spex_spu_complete(s->unit, *slot, &o.op, &o.outcome);
    *slot = SPEX_SPU_NOT_SAMPLED;
    return true;
}

static bool do_abandon(struct script *s, char **words, size_t count)
{
    int *slot = count ? slot_of(s, words[0], false) : NULL;
    if (!slot || *slot < 0)
        return BROKEN("abandon NAME: nothing of that name was sampled");
    spex_spu_abandon(s->unit, *slot);
    *slot = SPEX_SPU_NOT_SAMPLED;
    return true;
}

/* branch KIND target=...: a taken branch that passed undescribed. */
static bool do_branch(struct script *s, char **words, size_t count)
{
    struct operation o;
    if (!count)
        return BROKEN("branch KIND target=ADDRESS");
    if (!parse_op(s, words, count, &o))
        return false;
    spex_spu_note_branch(s->unit, &o.op, &o.outcome);
    return true;
}

/* fault at ADDRESS ... and abort at ADDRESS ... */
static bool inject(struct script *s, char **words, size_t count, enum spex_spu_stop_kind kind)
{
    static const struct {
        const char *name;
        unsigned flag;
    } names[] = {
        {"stage1", 0}, {"stage2", SPEX_STOP_STAGE2}, {"gpc", SPEX_STOP_GPC},
        {"walk", SPEX_STOP_WALK}, {"gpt", SPEX_STOP_GPT}, {"top-level", SPEX_STOP_TOP_LEVEL},
        {"assured-only", SPEX_STOP_ASSURED_ONLY}, {"overlay", SPEX_STOP_OVERLAY},
        {"dirty-bit", SPEX_STOP_DIRTY_BIT}, {"async", SPEX_STOP_ASYNC},
    };
    struct fault fault = {.used = true, .stop = {.kind = (uint8_t)kind}};
    if (kind == SPEX_STOP_FAULT)
        fault.stop.fsc = 0x07;
    uint64_t v;
    if (count == 1 && !strcmp(words[0], "none")) {
        memset(s->faults, 0, sizeof s->faults);
        return true;
    }
    if (count < 2 || strcmp(words[0], "at") || !number(words[1], &fault.address))
        return BROKEN("%s at ADDRESS [stage2] [fsc=N] ..., or none",
                      kind == SPEX_STOP_FAULT ? "fault" : "abort");
    for (size_t i = 2; i < count; i++) {
        size_t k = 0, n = sizeof names / sizeof names[0];
        while (k < n && strcmp(words[i], names[k].name))
            k++;
        if (k < n)
            fault.stop.flags |= (uint16_t)names[k].flag;
        else if (!strcmp(words[i], "once"))
            fault.once = true;
        else if (!strncmp(words[i], "fsc=", 4) && number(words[i] + 4, &v) && v < 64)
            fault.stop.fsc = (uint8_t)v;
        else
            return BROKEN("a fault has no '%s'", words[i]);
    }
    for (size_t i = 0; i < FAULTS; i++) {
        if (!s->faults[i].used) {
            s->faults[i] = fault;
            return true;
        }
    }
    return BROKEN("more than %d faults at once", FAULTS);
}

static bool do_fault(struct script *s, char **words, size_t count)
{
    return inject(s, words, count, SPEX_STOP_FAULT);
}

static bool do_abort(struct script *s, char **words, size_t count)
{
    return inject(s, words, count, SPEX_STOP_ABORT);
}

static bool do_late_abort(struct script *s, char **words, size_t count)
{
    spex_spu_external_abort(s->unit, (has_word(words, count, "stage2") ? SPEX_STOP_STAGE2 : 0) |
                                         (has_word(words, count, "gpt") ? SPEX_STOP_GPT : 0));
    return true;
}

static bool do_impdef_event(struct script *s, char **words, size_t count)
{
    uint64_t mss = 0, mss2 = 0;
    if (count > 2 || (count && !number(words[0], &mss)) || (count > 1 && !number(words[1], &mss2)))
        return BROKEN("impdef-event [MSS [MSS2]]");
    spex_spu_impdef_event(s->unit, (uint16_t)mss, (uint32_t)mss2);
    return true;
}

static bool do_save(struct script *s, char **words, size_t count)
{
    free(s->saved);
    s->saved_size = spex_spu_save(s->unit, NULL, 0);
    s->saved = malloc(s->saved_size);
    if (!s->saved)
        return BROKEN("no memory");
    spex_spu_save(s->unit, s->saved, s->saved_size);
    return true;
}

static bool do_restore(struct script *s, char **words, size_t count)
{
    if (!s->saved || spex_spu_restore(s->unit, s->saved, s->saved_size))
        return BROKEN("nothing saved that this unit can restore");
    return true;
}

static bool do_forget(struct script *s, char **words, size_t count)
{
    forget(s);
    return true;
}

/* ---- expectations ---- */

static bool expect_pmu(struct script *s, char **words, size_t count)
{
    unsigned event;
    uint64_t wanted, got = 0;
    if (count != 2 || spex_pmu_event_find(words[0], &event) || !number(words[1], &wanted))
        return BROKEN("expect pmu EVENT NUMBER, for example SAMPLE_POP 10");
    spex_spu_flush(s->unit);
    for (size_t i = 0; i < EVENTS; i++)
        if (s->pmu_event[i] == event)
            got = s->pmu[i];
    compare(s, words[0], wanted, got);
    return true;
}

/* expect exception none | elN pending | elN masked | elN taken [from 1|2|3] */
static bool expect_exception(struct script *s, char **words, size_t count)
{
    struct spex_spu_exception e;
    uint64_t source = 0;
    if (count > 2 && !strcmp(words[count - 2], "from")) {
        if (!number(words[count - 1], &source) || source > 3)
            return BROKEN("from 1, 2 or 3: the PMBSR_ELx");
        count -= 2;
    }
    spex_spu_get_exception(s->unit, (unsigned)source, &e);
    char got[40] = "none";
    if (e.pending)
        snprintf(got, sizeof got, "el%u %s", e.target, e.unmasked ? "taken" : "masked");
    char wanted[40] = "none";
    if (count == 2)
        snprintf(wanted, sizeof wanted, "%s %s", words[0], words[1]);
    else if (count != 1 || strcmp(words[0], "none"))
        return BROKEN("expect exception none, or elN pending, masked or taken");
    bool same = !strcmp(got, wanted) ||
                (count == 2 && !strcmp(words[1], "pending") && e.pending && got[2] == wanted[2]);
    tell(s, same ? SPEX_SCRIPT_PASSED : SPEX_SCRIPT_FAILED, "exception: expected %s, got %s",
         wanted, got);
    return true;
}

/* expect bytes HEX...: what the unit wrote next. */
static bool expect_bytes(struct script *s, char **words, size_t count)
{
    size_t at = s->log_read;
    for (size_t i = 0; i < count; i++) {
        for (const char *p = words[i]; *p; p += 2) {
            char pair[3] = {p[0], p[1], 0}, *end;
            unsigned long byte = strtoul(pair, &end, 16);
            if (end != pair + 2)
                return BROKEN("expect bytes takes pairs of hex digits");
            if (at >= s->log_size) {
                tell(s, SPEX_SCRIPT_FAILED, "byte %zu: expected %02lx, nothing was written there",
                     at, byte);
                return true;
            }
            if (s->log[at] != byte) {
                tell(s, SPEX_SCRIPT_FAILED, "byte %zu: expected %02lx, got %02x", at, byte,
                     s->log[at]);
                s->log_read = at + 1;
                return true;
            }
            at++;
        }
    }
    s->log_read = at;
    tell(s, SPEX_SCRIPT_PASSED, "bytes");
    return true;
}

static const struct {
    const char *name;
    unsigned has;
} fields[] = {
    {"pc", SPEX_HAS_PC},           {"target", SPEX_HAS_TARGET},
    {"va", SPEX_HAS_VA},           {"pa", SPEX_HAS_PA},
    {"prev", SPEX_HAS_PREV_TARGET},{"total", SPEX_HAS_TOTAL},
    {"issue", SPEX_HAS_ISSUE},     {"xlat", SPEX_HAS_TRANSLATION},
    {"alt", SPEX_HAS_ALT_ISSUE},   {"ctx1", SPEX_HAS_CONTEXT_EL1},
    {"ctx2", SPEX_HAS_CONTEXT_EL2},{"events", SPEX_HAS_EVENTS},
    {"source", SPEX_HAS_DATA_SOURCE}, {"op", SPEX_HAS_OP},
    {"ts", SPEX_HAS_TIMESTAMP},    {"other", SPEX_HAS_OTHER},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static uint64_t field_value(const struct spex_record *r, unsigned index)
{
    switch (index) {
    case 0: case 1: case 2: case 3: case 4: return r->address[index];
    case 5: return r->total;
    case 6: return r->issue;
    case 7: return r->translation;
    case 8: return r->alt_issue;
    case 9: return r->context[0];
    case 10: return r->context[1];
    case 11: return r->events;
    case 12: return r->data_source;
    case 13: return (uint64_t)r->op_class << 8 | r->op_payload;
    default: return r->timestamp;
    }
}

static void has_text(unsigned present, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < FIELDS; i++)
        if (present & fields[i].has)
            at += (size_t)snprintf(text + at, at < size ? size - at : 0, "%s%s", at ? "," : "",
                                   fields[i].name);
}

static bool parse_has(const char *list, unsigned *present)
{
    *present = 0;
    while (*list) {
        size_t n = strcspn(list, ","), i = 0;
        while (i < FIELDS && (strlen(fields[i].name) != n || strncmp(fields[i].name, list, n)))
            i++;
        if (i == FIELDS)
            return false;
        *present |= fields[i].has;
        list += n + (list[n] == ',');
    }
    return true;
}

/* expect record key=value... !absent... has=list: the next record written. */
static bool expect_record(struct script *s, char **words, size_t count)
{
    struct spex_record_reader reader;
    struct spex_record r;
    struct spex_damage damage;
    enum spex_status status = SPEX_END;
    if (s->log_size > s->log_read) {
        spex_record_reader_init(&reader, s->log + s->log_read, s->log_size - s->log_read,
                                s->log_read);
        status = spex_record_next(&reader, &r, &damage);
    }
    if (status) {
        tell(s, SPEX_SCRIPT_FAILED, "a record: got %s",
             status == SPEX_END ? "nothing" : damage.reason);
        return true;
    }
    s->log_read += reader.position;
    while (s->log_read < s->log_size && s->log[s->log_read] == 0)
        s->log_read++; /* padding up to the alignment */
    for (size_t i = 0; i < count; i++) {
        uint64_t wanted;
        char *equals = strchr(words[i], '=');
        size_t n = equals ? (size_t)(equals - words[i]) : strlen(words[i]), k = 0;
        const char *name = words[i] + (words[i][0] == '!');
        n -= words[i][0] == '!';
        if (equals && n == 4 && !strncmp(name, "size", 4) && number(equals + 1, &wanted)) {
            compare(s, "record size", wanted, r.size);
            continue;
        }
        if (equals && n == 3 && !strncmp(name, "has", 3)) {
            unsigned present;
            char got[200], want[200];
            if (!parse_has(equals + 1, &present))
                return BROKEN("'%s' names a part that a record does not have", words[i]);
            has_text(r.present, got, sizeof got);
            has_text(present, want, sizeof want);
            tell(s, present == r.present ? SPEX_SCRIPT_PASSED : SPEX_SCRIPT_FAILED,
                 "record: expected %s, got %s", want, got);
            continue;
        }
        while (k < FIELDS && (strlen(fields[k].name) != n || strncmp(fields[k].name, name, n)))
            k++;
        if (k == FIELDS || (equals && !number(equals + 1, &wanted)))
            return BROKEN("a record has no '%s'", words[i]);
        bool has = r.present & fields[k].has;
        if (words[i][0] == '!')
            tell(s, has ? SPEX_SCRIPT_FAILED : SPEX_SCRIPT_PASSED, "record: no %s expected",
                 fields[k].name);
        else if (!has)
            tell(s, SPEX_SCRIPT_FAILED, "record: no %s", fields[k].name);
        else if (equals)
            compare(s, fields[k].name, wanted, field_value(&r, (unsigned)k));
    }
    return true;
}

static bool expect_store(struct script *s, char **words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        static const struct {
            const char *name;
            unsigned flag;
        } names[] = {
            {"privileged", SPEX_STORE_PRIVILEGED}, {"pan-ignored", SPEX_STORE_PAN_IGNORED},
            {"tag-unchecked", SPEX_STORE_TAG_UNCHECKED}, {"af-dirty", SPEX_STORE_AF_DIRTY},
            {"nvm", SPEX_STORE_NVM}, {"no-watchpoint", SPEX_STORE_NO_WATCHPOINT},
            {"translate-only", SPEX_STORE_TRANSLATE_ONLY},
        };
        uint64_t v;
        uint8_t which;
        bool no = words[i][0] == '!';
        size_t k = 0, n = sizeof names / sizeof names[0];
        while (k < n && strcmp(words[i] + no, names[k].name))
            k++;
        if (k < n)
            compare(s, names[k].name, !no, (s->last_store.flags & names[k].flag) != 0);
        else if (!strncmp(words[i], "el=", 3) && number(words[i] + 3, &v))
            compare(s, "owner EL", v, s->last_store.el);
        else if (!strncmp(words[i], "security=", 9) && security(words[i] + 9, &which))
            compare(s, "owner security", which, s->last_store.security);
        else if (!strncmp(words[i], "attr=", 5) && number(words[i] + 5, &v))
            compare(s, "attr", v, s->last_store.attr);
        else if (!strncmp(words[i], "sh=", 3) && number(words[i] + 3, &v))
            compare(s, "sh", v, s->last_store.sh);
        else if (!strncmp(words[i], "address=", 8) && number(words[i] + 8, &v))
            compare(s, "address", v, s->last_store.address);
        else if (!strcmp(words[i], "e2h"))
            compare(s, "e2h", 1, s->last_store.e2h);
        else
            return BROKEN("a store has no '%s'", words[i]);
    }
    return true;
}

/* Expectations of one number. */
static bool simple_value(struct script *s, const char *what, uint64_t *got)
{
    struct spex_spu_status status;
    spex_spu_flush(s->unit);
    spex_spu_get_status(s->unit, &status);
    const struct {
        const char *name;
        uint64_t value;
    } values[] = {
        {"irq", status.irq},
        {"enabled", status.enabled},
        {"buffer-enabled", status.buffer_enabled},
        {"stopped", status.stopped},
        {"discard", status.discard},
        {"owner-el", status.owner_el},
        {"owner-valid", status.owner_valid},
        {"in-flight", status.in_flight},
        {"held", status.held},
        {"until", spex_spu_until(s->unit)},
        {"triggers", s->triggers},
        {"serrors", s->serrors},
        {"writes", s->writes},
        {"irq-changes", s->irqs},
        {"exception-changes", s->exceptions},
        {"written", s->log_size},
        {"unread", s->log_size - s->log_read},
        {"frozen-el1", spex_spu_pmu_frozen(s->unit, SPEX_PMU_EL1_COUNTERS)},
        {"frozen-el2", spex_spu_pmu_frozen(s->unit, SPEX_PMU_EL2_COUNTERS)},
        {"frozen-cycles", spex_spu_pmu_frozen(s->unit, SPEX_PMU_CYCLES)},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (!strcmp(what, values[i].name)) {
            *got = values[i].value;
            return true;
        }
    }
    return false;
}

static bool do_expect(struct script *s, char **words, size_t count)
{
    uint64_t got, wanted;
    if (!count)
        return BROKEN("expect what?");
    if (!strcmp(words[0], "pmu"))
        return expect_pmu(s, words + 1, count - 1);
    if (!strcmp(words[0], "exception"))
        return expect_exception(s, words + 1, count - 1);
    if (!strcmp(words[0], "bytes"))
        return expect_bytes(s, words + 1, count - 1);
    if (!strcmp(words[0], "record"))
        return expect_record(s, words + 1, count - 1);
    if (!strcmp(words[0], "store"))
        return expect_store(s, words + 1, count - 1);
    if (!strcmp(words[0], "nothing")) {
        compare(s, "bytes written and not read", 0, s->log_size - s->log_read);
        return true;
    }
    if (!strcmp(words[0], "owner-security") && count == 2) {
        struct spex_spu_status status;
        uint8_t which;
        if (!security(words[1], &which))
            return BROKEN("expect owner-security s, ns or realm");
        spex_spu_get_status(s->unit, &status);
        compare(s, "owner security", which, status.owner_security);
        return true;
    }
    if (count == 2 && !strcmp(words[1], "never") && simple_value(s, words[0], &got)) {
        compare(s, words[0], UINT64_MAX, got);
        return true;
    }
    if (count != 2 || !number(words[1], &wanted) || !simple_value(s, words[0], &got))
        return BROKEN("cannot expect '%s'; see docs/spu-script.md", words[0]);
    compare(s, words[0], wanted, got);
    return true;
}

static bool do_spec(struct script *s, char **words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tell(s, SPEX_SCRIPT_SPEC, "%s", words[i]);
    return true;
}

static const struct {
    const char *name;
    bool needs_unit;
    bool (*run)(struct script *s, char **words, size_t count);
} commands[] = {
    {"features", false, do_features},
    {"choice", false, do_choice},
    {"seed", false, do_seed},
    {"random", false, do_random},
    {"time", false, do_time},
    {"fault", false, do_fault},
    {"abort", false, do_abort},
    {"spec", false, do_spec},
    {"boot", true, do_boot},
    {"reset", true, do_reset},
    {"state", true, do_state},
    {"write", true, do_write_line},
    {"read", true, do_read_line},
    {"set", true, do_set_line},
    {"get", true, do_get_line},
    {"psb", true, do_psb},
    {"isb", true, do_isb},
    {"exception-taken", true, do_exception_taken},
    {"op", true, do_op},
    {"sample", true, do_sample},
    {"ops", true, do_ops},
    {"begin", true, do_begin},
    {"complete", true, do_complete},
    {"abandon", true, do_abandon},
    {"branch", true, do_branch},
    {"late-abort", true, do_late_abort},
    {"impdef-event", true, do_impdef_event},
    {"save", true, do_save},
    {"restore", true, do_restore},
    {"forget", true, do_forget},
    {"expect", true, do_expect},
};

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

static bool run_line(struct script *s, char **words, size_t count)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, words[0]))
            continue;
        if (commands[i].needs_unit && !unit(s))
            return false;
        return commands[i].run(s, words + 1, count - 1);
    }
    return BROKEN("unknown command '%s'", words[0]);
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
        tell(s, SPEX_SCRIPT_ERROR, "this line is too long or not text");
        return true;
    }
    memcpy(line, start, n);
    line[n] = '\0';
    *count = split(line, words);
    return true;
}

/* Lines that set up the unit before it is made. */
static bool is_setup(const char *word)
{
    static const char *const names[] = {"features", "choice", "seed", "random", "spec"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(word, names[i]))
            return true;
    return false;
}

/*
 * Lines before the first test are played for each: those that set up at its
 * start, so that the test's own can override them, the others before its first
 * line that does something.
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
            ok = run_line(s, words, count);
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
    tell(s, SPEX_SCRIPT_TEST, "%s", name);
}

/* A script with tests begins with a prelude, which may be empty. */
static bool has_tests(const char *text, size_t size)
{
    return (size > 5 && !memcmp(text, "test ", 5)) || memmem(text, size, "\ntest ", 6);
}

enum spex_status spex_script_run(const char *text, size_t size,
                                 void (*report)(void *user,
                                                const struct spex_script_report *report),
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
            ok = ok && run_line(s, words, count);
        }
        if (!ok)
            break;
    }
    failed |= s->failed || s->broken;
    spex_spu_free(s->unit);
    free(s->saved);
    free(s->log);
    free(s);
    return failed ? SPEX_INVALID : SPEX_OK;
}
