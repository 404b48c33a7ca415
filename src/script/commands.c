/* The commands of a script, one function each: docs/spu-script.md describes them. */
#include "internal.h"

#include <spex/features.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

bool script_number(const char *word, uint64_t *value)
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

const char *script_value_of(char **words, size_t count, const char *key)
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
    if (script_number(word, value))
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
            if (!script_number(digits, &to))
                return BROKEN("'%.*s' needs a number", (int)n, word);
        }
        *value = spex_field_set(*value, field, to);
        *mask |= SPEX_FIELD_MASK(field);
        word += n + (word[n] == '|');
    }
    return true;
}

static const char *const security_names[] = {"s", "ns", "realm", "root"};

bool script_security(const char *word, uint8_t *value)
{
    for (unsigned i = 0; i < 4; i++)
        if (!strcmp(security_names[i], word))
            return *value = (uint8_t)i, true;
    return false;
}

/* ---- commands ---- */

static bool do_features(struct script *s, char **words, size_t count)
{
    struct spex_error error;
    if (count != 1 || s->unit)
        return BROKEN("features LIST, before anything that needs the unit");
    if (spex_features_check(words[0], &error))
        return BROKEN("%s", error.text);
    if (snprintf(s->features, FEATURES, "%s", words[0]) >= FEATURES)
        return BROKEN("at most %d bytes of features", FEATURES - 1);
    return true;
}

static bool do_choice(struct script *s, char **words, size_t count)
{
    if (!count || s->unit)
        return BROKEN("choice NAME=VALUE..., before anything that needs the unit");
    for (size_t i = 0; i < count; i++) {
        struct spex_error error = {0};
        size_t n = strlen(s->choices);
        struct spex_spu_config config = {.size = sizeof config, .choices = words[i]};
        /*
         * Whether the value agrees with features and other choices is checked when the unit is
         * made.
         */
        if (strchr(words[i], ',') ||
            (spex_spu_config_check(&config, &error) && strstr(error.text, "choice")))
            return BROKEN("%s", *error.text ? error.text : "one choice a word, without commas");
        if (snprintf(s->choices + n, CHOICES - n, "%s%s", n ? "," : "", words[i]) >=
            (int)(CHOICES - n))
            return BROKEN("at most %d bytes of choices", CHOICES - 1);
    }
    return true;
}

static bool do_seed(struct script *s, char **words, size_t count)
{
    if (count != 1 || s->unit || !script_number(words[0], &s->seed))
        return BROKEN("seed NUMBER, before anything that needs the unit");
    return true;
}

static bool do_random(struct script *s, char **words, size_t count)
{
    uint64_t v;
    if (s->unit && !s->random_count)
        return BROKEN("the first 'random' comes before anything that needs the unit");
    for (size_t i = 0; i < count && s->random_count < RANDOM; i++) {
        if (!script_number(words[i], &v) || v > 255)
            return BROKEN("random BYTE...");
        s->random[s->random_count++] = (uint8_t)v;
    }
    return true;
}

static bool do_boot(struct script *s, char **words, size_t count)
{
    peer_plain(s->unit, PEER_BOOT);
    return true;
}

static bool do_reset(struct script *s, char **words, size_t count)
{
    peer_plain(s->unit, PEER_RESET);
    memset(s->slots, 0, sizeof s->slots); /* nothing is in flight */
    return true;
}

static bool do_state(struct script *s, char **words, size_t count)
{
    struct spex_spu_state state;
    peer_get_state(s->unit, &state);
    for (size_t i = 0; i < count; i++) {
        char *equals = strchr(words[i], '=');
        uint64_t v = 0;
        size_t n = equals ? (size_t)(equals - words[i]) : 0;
        if (!equals || (strncmp(words[i], "security=", 9) && !script_number(equals + 1, &v)))
            return BROKEN("state el= security= aarch32= halted= sdd= pm=");
        if (!strncmp(words[i], "el=", n + 1) && v < 4)
            state.el = (uint8_t)v;
        else if (!strncmp(words[i], "security=", n + 1)) {
            if (!script_security(equals + 1, &state.security))
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
    peer_set_state(s->unit, &state);
    return true;
}

static bool expect_access(struct script *s, char **words, size_t count, const char *what,
                          enum spex_sysreg_result result, const struct spex_sysreg_detail *syndrome)
{
    static const char *const names[] = {"ok",       "undefined", "trap el2",
                                        "trap el3", "memory",    "not ours"};
    char wanted[64] = "ok";
    uint64_t detail = 0;
    bool has_detail = false;
    if (count && strcmp(words[0], "ok")) {
        snprintf(wanted, sizeof wanted, "%s", words[0]);
        if (!strcmp(words[0], "trap") && count > 1)
            snprintf(wanted, sizeof wanted, "trap %s", words[1]);
        has_detail = script_number(words[count - 1], &detail);
    }
    if (strcmp(names[result], wanted)) {
        script_tell(s, SCRIPT_FAILED, "%s: expected %s, got %s", what, wanted, names[result]);
        return true;
    }
    if (has_detail)
        script_compare(s, result == SPEX_SYSREG_MEMORY ? "memory offset" : "ESR", detail,
                       result == SPEX_SYSREG_MEMORY ? syndrome->offset : syndrome->esr);
    else
        script_tell(s, SCRIPT_PASSED, "%s: %s", what, wanted);
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
    struct spex_sysreg_detail syndrome = {0};
    if (count < 2)
        return BROKEN("write REGISTER VALUE");
    if (!find_register(s, words[0], &encoding) ||
        !register_value(s, encoding, words[1], &value, &mask))
        return false;
    script_tell(s, SCRIPT_TRACE, "%s %s 0x%llx", direct ? "set" : "write", words[0], ULL(value));
    if (direct) {
        if (peer_write(s->unit, encoding, true, value, &syndrome) != SPEX_SYSREG_OK)
            script_tell(s, SCRIPT_FAILED, "%s is not there", words[0]);
        return true;
    }
    size_t skip = count > 2 && !strcmp(words[2], "expect") ? 3 : 2;
    enum spex_sysreg_result result = peer_write(s->unit, encoding, false, value, &syndrome);
    return expect_access(s, words + skip, count - skip, words[0], result, &syndrome);
}

/* read REG [expect VALUE or RESULT]; get REG [expect VALUE] */
static bool do_read(struct script *s, char **words, size_t count, bool direct)
{
    unsigned encoding;
    uint64_t got = 0, value, mask;
    struct spex_sysreg_detail syndrome = {0};
    if (!count || (count > 1 && strcmp(words[1], "expect")))
        return BROKEN("read REGISTER expect VALUE");
    if (!find_register(s, words[0], &encoding))
        return false;
    enum spex_sysreg_result result = peer_read(s->unit, encoding, direct, &got, &syndrome);
    script_tell(s, SCRIPT_TRACE, "read %s: 0x%llx", words[0], ULL(got));
    if (count < 3 || !strcmp(words[2], "ok") || !strcmp(words[2], "undefined") ||
        !strcmp(words[2], "trap") || !strcmp(words[2], "memory"))
        return expect_access(s, words + 2, count > 2 ? count - 2 : 0, words[0], result, &syndrome);
    if (result != SPEX_SYSREG_OK) {
        script_tell(s, SCRIPT_FAILED, "%s cannot be read here", words[0]);
        return true;
    }
    for (size_t i = 2; i < count; i++) {
        char what[80];
        if (!register_value(s, encoding, words[i], &value, &mask))
            return false;
        snprintf(what, sizeof what, mask == ~UINT64_C(0) ? "%s" : "%s (%s)", words[0], words[i]);
        script_compare(s, what, value, got & mask);
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
    struct spex_sysreg_detail syndrome = {0};
    enum spex_sysreg_result result = peer_psb(s->unit, &syndrome);
    size_t skip = count && !strcmp(words[0], "expect");
    return expect_access(s, words + skip, count - skip, "psb", result, &syndrome);
}

static bool do_isb(struct script *s, char **words, size_t count)
{
    peer_plain(s->unit, PEER_ISB);
    return true;
}

static bool do_exception_taken(struct script *s, char **words, size_t count)
{
    peer_plain(s->unit, PEER_EXCEPTION_TAKEN);
    return true;
}

static bool do_time(struct script *s, char **words, size_t count)
{
    uint64_t v;
    if (count == 1 && !strcmp(words[0], "off"))
        return s->time_on = false, true;
    if (count != 1 || !script_number(words[0] + (words[0][0] == '+'), &v))
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
    if (!script_parse_op(s, words, count, &o))
        return false;
    if (peer_op(s->unit, o.pc, &o.op, &o.outcome))
        script_tell(s, SCRIPT_TRACE, "op %s at 0x%llx is sampled", words[0], ULL(o.pc));
    return true;
}

/* sample KIND ...: the same, but makes it the next one to be sampled. */
static bool do_sample(struct script *s, char **words, size_t count)
{
    struct spex_sysreg_detail unused;
    peer_write(s->unit, SPEX_PMSICR_EL1, true, 1, &unused);
    return do_op(s, words, count);
}

/* ops N [KIND ...]: N operations in blocks; those that may be sampled are described. */
static bool do_ops(struct script *s, char **words, size_t count)
{
    struct operation o;
    uint64_t left;
    if (!count || !script_number(words[0], &left) || left > OPS_MAX)
        return BROKEN("ops NUMBER [KIND key=value...]; at most %d", OPS_MAX);
    if (!script_parse_op(s, words + 1, count - 1, &o))
        return false;
    while (left && !peer_failure(s->unit)) {
        uint64_t n = peer_until(s->unit);
        if (n > left)
            n = left;
        peer_pass(s->unit, n);
        left -= n;
        if (left) {
            peer_op(s->unit, o.pc, &o.op, &o.outcome);
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
    const char *text = count ? script_value_of(words, count, "pc") : NULL;
    int *slot = count ? slot_of(s, words[0], true) : NULL;
    uint32_t flags = (has_word(words, count, "speculative") ? SPEX_OUT_SPECULATIVE : 0) |
                     (has_word(words, count, "no-insn") ? SPEX_OUT_NO_INSN : 0) |
                     (has_word(words, count, "nonarch") ? SPEX_OUT_NONARCH_EXC : 0);
    if (!slot || (text && !script_number(text, &pc)))
        return BROKEN("begin NAME [pc=ADDRESS], up to %d names", SLOTS);
    *slot = peer_begin(s->unit, pc, flags);
    if (has_word(words, count, "sampled"))
        script_compare(s, "sampled", 1, *slot >= 0);
    if (has_word(words, count, "not-sampled"))
        script_compare(s, "sampled", 0, *slot >= 0);
    return true;
}

static bool do_complete(struct script *s, char **words, size_t count)
{
    struct operation o;
    int *slot = count ? slot_of(s, words[0], false) : NULL;
    if (!slot || *slot < 0)
        return BROKEN("complete NAME KIND ...: nothing of that name was sampled");
    if (!script_parse_op(s, words + 1, count - 1, &o))
        return false;
    peer_complete(s->unit, *slot, &o.op, &o.outcome);
    *slot = SPEX_SPU_NOT_SAMPLED;
    return true;
}

static bool do_abandon(struct script *s, char **words, size_t count)
{
    int *slot = count ? slot_of(s, words[0], false) : NULL;
    if (!slot || *slot < 0)
        return BROKEN("abandon NAME: nothing of that name was sampled");
    peer_abandon(s->unit, *slot);
    *slot = SPEX_SPU_NOT_SAMPLED;
    return true;
}

/* branch KIND target=...: a taken branch that passed without being described. */
static bool do_branch(struct script *s, char **words, size_t count)
{
    struct operation o;
    if (!count)
        return BROKEN("branch KIND target=ADDRESS");
    if (!script_parse_op(s, words, count, &o))
        return false;
    peer_note_branch(s->unit, &o.op, &o.outcome);
    return true;
}

/* fault at ADDRESS ... and abort at ADDRESS ... */
static bool inject(struct script *s, char **words, size_t count, enum spex_spu_stop_kind kind)
{
    static const struct {
        const char *name;
        unsigned flag;
    } names[] = {
        {"stage1", 0},
        {"stage2", SPEX_STOP_STAGE2},
        {"gpc", SPEX_STOP_GPC},
        {"walk", SPEX_STOP_WALK},
        {"gpt", SPEX_STOP_GPT},
        {"top-level", SPEX_STOP_TOP_LEVEL},
        {"assured-only", SPEX_STOP_ASSURED_ONLY},
        {"overlay", SPEX_STOP_OVERLAY},
        {"dirty-bit", SPEX_STOP_DIRTY_BIT},
        {"async", SPEX_STOP_ASYNC},
    };
    struct fault fault = {.used = true, .stop = {.kind = (uint8_t)kind}};
    if (kind == SPEX_STOP_FAULT)
        fault.stop.fsc = 0x07;
    uint64_t v;
    if (count == 1 && !strcmp(words[0], "none")) {
        memset(s->faults, 0, sizeof s->faults);
        return true;
    }
    if (count < 2 || strcmp(words[0], "at") || !script_number(words[1], &fault.address))
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
        else if (!strncmp(words[i], "fsc=", 4) && script_number(words[i] + 4, &v) && v < 64)
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
    peer_external_abort(s->unit, (has_word(words, count, "stage2") ? SPEX_STOP_STAGE2 : 0) |
                                     (has_word(words, count, "gpt") ? SPEX_STOP_GPT : 0));
    return true;
}

static bool do_impdef_event(struct script *s, char **words, size_t count)
{
    uint64_t mss = 0, mss2 = 0;
    if (count > 2 || (count && !script_number(words[0], &mss)) ||
        (count > 1 && !script_number(words[1], &mss2)))
        return BROKEN("impdef-event [MSS [MSS2]]");
    peer_impdef_event(s->unit, (uint16_t)mss, (uint32_t)mss2);
    return true;
}

static bool do_save(struct script *s, char **words, size_t count)
{
    s->saved = peer_save(s->unit);
    if (!s->saved)
        return BROKEN("no memory");
    memcpy(s->saved_slots, s->slots, sizeof s->slots);
    return true;
}

static bool do_restore(struct script *s, char **words, size_t count)
{
    if (!s->saved || !peer_restore(s->unit))
        return BROKEN("nothing saved that this unit can restore");
    memcpy(s->slots, s->saved_slots, sizeof s->slots);
    return true;
}

static bool do_forget(struct script *s, char **words, size_t count)
{
    script_forget(s);
    return true;
}

static bool do_spec(struct script *s, char **words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        script_tell(s, SCRIPT_SPEC, "%s", words[i]);
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
    {"expect", true, script_expect},
};

bool script_command(struct script *s, char **words, size_t count)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, words[0]))
            continue;
        if (commands[i].needs_unit && !script_unit(s))
            return false;
        bool ok = commands[i].run(s, words + 1, count - 1);
        const char *failure = s->unit ? peer_failure(s->unit) : NULL;
        return ok && failure ? BROKEN("%s", failure) : ok;
    }
    return BROKEN("unknown command '%s'", words[0]);
}
