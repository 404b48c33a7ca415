/* Scripts: expectations. */
#include "internal.h"

#include "record/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool expect_pmu(struct script *s, char **words, size_t count)
{
    unsigned event;
    uint64_t wanted, got = 0;
    if (count != 2 || spex_pmu_event_find(words[0], &event) || !script_number(words[1], &wanted))
        return BROKEN("expect pmu EVENT NUMBER, for example SAMPLE_POP 10");
    peer_plain(s->unit, PEER_FLUSH);
    for (size_t i = 0; i < EVENTS; i++)
        if (s->pmu_event[i] == event)
            got = s->pmu[i];
    script_compare(s, words[0], wanted, got);
    return true;
}

/* expect exception none | elN pending | elN masked | elN taken [from 1|2|3] */
static bool expect_exception(struct script *s, char **words, size_t count)
{
    struct spex_spu_exception e;
    uint64_t source = 0, esr;
    bool with_esr = count > 2 && !strncmp(words[count - 1], "esr=", 4);
    if (with_esr && !script_number(words[--count] + 4, &esr))
        return BROKEN("esr=NUMBER: what ESR_ELx gets");
    if (count > 2 && !strcmp(words[count - 2], "from")) {
        if (!script_number(words[count - 1], &source) || source > 3)
            return BROKEN("from 1, 2 or 3: the PMBSR_ELx");
        count -= 2;
    }
    peer_get_exception(s->unit, (unsigned)source, &e);
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
    script_tell(s, same ? SCRIPT_PASSED : SCRIPT_FAILED, "exception: expected %s, got %s", wanted,
                got);
    if (with_esr)
        script_compare(s, "ESR", esr, e.esr);
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
                script_tell(s, SCRIPT_FAILED, "byte %zu: expected %02lx, nothing was written there",
                            at, byte);
                return true;
            }
            if (s->log[at] != byte) {
                script_tell(s, SCRIPT_FAILED, "byte %zu: expected %02lx, got %02x", at, byte,
                            s->log[at]);
                s->log_read = at + 1;
                return true;
            }
            at++;
        }
    }
    s->log_read = at;
    script_tell(s, SCRIPT_PASSED, "bytes");
    return true;
}

static const struct {
    const char *name;
    unsigned has;
} fields[] = {
    {"pc", SPEX_HAS_PC},
    {"target", SPEX_HAS_TARGET},
    {"va", SPEX_HAS_VA},
    {"pa", SPEX_HAS_PA},
    {"prev", SPEX_HAS_PREV_TARGET},
    {"total", SPEX_HAS_TOTAL},
    {"issue", SPEX_HAS_ISSUE},
    {"xlat", SPEX_HAS_TRANSLATION},
    {"alt", SPEX_HAS_ALT_ISSUE},
    {"ctx1", SPEX_HAS_CONTEXT_EL1},
    {"ctx2", SPEX_HAS_CONTEXT_EL2},
    {"events", SPEX_HAS_EVENTS},
    {"source", SPEX_HAS_DATA_SOURCE},
    {"op", SPEX_HAS_OP},
    {"ts", SPEX_HAS_TIMESTAMP},
    {"other", SPEX_HAS_OTHER},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static uint64_t field_value(const struct spex_record *r, unsigned index)
{
    switch (index) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        return r->address[index];
    case 5:
        return r->total;
    case 6:
        return r->issue;
    case 7:
        return r->translation;
    case 8:
        return r->alt_issue;
    case 9:
        return r->context[0];
    case 10:
        return r->context[1];
    case 11:
        return r->events;
    case 12:
        return r->data_source;
    case 13:
        return (uint64_t)r->op_class << 8 | r->op_payload;
    default:
        return r->timestamp;
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
    struct spex_reader reader;
    struct spex_record r;
    struct spex_damage damage;
    enum spex_status status = SPEX_END;
    if (s->log_size > s->log_read) {
        reader_whole(&reader, s->log + s->log_read, s->log_size - s->log_read, s->log_read);
        status = spex_reader_next(&reader, &r, &damage);
    }
    if (status) {
        script_tell(s, SCRIPT_FAILED, "a record: got %s",
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
        if (equals && n == 4 && !strncmp(name, "size", 4) && script_number(equals + 1, &wanted)) {
            script_compare(s, "record size", wanted, r.size);
            continue;
        }
        if (equals && n == 3 && !strncmp(name, "has", 3)) {
            unsigned present;
            char got[200], want[200];
            if (!parse_has(equals + 1, &present))
                return BROKEN("'%s' names a part that a record does not have", words[i]);
            has_text(r.present, got, sizeof got);
            has_text(present, want, sizeof want);
            script_tell(s, present == r.present ? SCRIPT_PASSED : SCRIPT_FAILED,
                        "record: expected %s, got %s", want, got);
            continue;
        }
        while (k < FIELDS && (strlen(fields[k].name) != n || strncmp(fields[k].name, name, n)))
            k++;
        if (k == FIELDS || (equals && !script_number(equals + 1, &wanted)))
            return BROKEN("a record has no '%s'", words[i]);
        bool has = r.present & fields[k].has;
        if (words[i][0] == '!')
            script_tell(s, has ? SCRIPT_FAILED : SCRIPT_PASSED, "record: no %s expected",
                        fields[k].name);
        else if (!has)
            script_tell(s, SCRIPT_FAILED, "record: no %s", fields[k].name);
        else if (equals)
            script_compare(s, fields[k].name, wanted, field_value(&r, (unsigned)k));
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
            {"privileged", SPEX_STORE_PRIVILEGED},
            {"pan-ignored", SPEX_STORE_PAN_IGNORED},
            {"tag-unchecked", SPEX_STORE_TAG_UNCHECKED},
            {"af-dirty", SPEX_STORE_AF_DIRTY},
            {"nvm", SPEX_STORE_NVM},
            {"no-watchpoint", SPEX_STORE_NO_WATCHPOINT},
            {"translate-only", SPEX_STORE_TRANSLATE_ONLY},
        };
        uint64_t v;
        uint8_t which;
        bool no = words[i][0] == '!';
        size_t k = 0, n = sizeof names / sizeof names[0];
        while (k < n && strcmp(words[i] + no, names[k].name))
            k++;
        if (k < n)
            script_compare(s, names[k].name, !no, (s->last_store.flags & names[k].flag) != 0);
        else if (!strncmp(words[i], "el=", 3) && script_number(words[i] + 3, &v))
            script_compare(s, "owner EL", v, s->last_store.el);
        else if (!strncmp(words[i], "security=", 9) && script_security(words[i] + 9, &which))
            script_compare(s, "owner security", which, s->last_store.security);
        else if (!strncmp(words[i], "attr=", 5) && script_number(words[i] + 5, &v))
            script_compare(s, "attr", v, s->last_store.attr);
        else if (!strncmp(words[i], "sh=", 3) && script_number(words[i] + 3, &v))
            script_compare(s, "sh", v, s->last_store.sh);
        else if (!strncmp(words[i], "address=", 8) && script_number(words[i] + 8, &v))
            script_compare(s, "address", v, s->last_store.address);
        else if (!strcmp(words[i] + no, "e2h"))
            script_compare(s, "e2h", !no, s->last_store.e2h);
        else
            return BROKEN("a store has no '%s'", words[i]);
    }
    return true;
}

/* Expectations about a single number. */
static bool simple_value(struct script *s, const char *what, uint64_t *got)
{
    static const char *const frozen[] = {[SPEX_PMU_EL1_COUNTERS] = "frozen-el1",
                                         [SPEX_PMU_EL2_COUNTERS] = "frozen-el2",
                                         [SPEX_PMU_CYCLES] = "frozen-cycles"};
    struct spex_spu_status status;
    peer_plain(s->unit, PEER_FLUSH);
    if (!strcmp(what, "until"))
        return *got = peer_until(s->unit), true;
    for (unsigned i = 0; i < sizeof frozen / sizeof *frozen; i++)
        if (!strcmp(what, frozen[i]))
            return *got = peer_frozen(s->unit, (enum spex_pmu_range)i), true;
    peer_get_status(s->unit, &status);
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
        {"impossible-events", status.impossible_events},
        {"impossible-addresses", status.impossible_addresses},
        {"triggers", s->triggers},
        {"serrors", s->serrors},
        {"writes", s->writes},
        {"irq-changes", s->irqs},
        {"exception-changes", s->exceptions},
        {"written", s->log_size},
        {"unread", s->log_size - s->log_read},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (!strcmp(what, values[i].name))
            return *got = values[i].value, true;
    return false;
}

bool script_expect(struct script *s, char **words, size_t count)
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
        script_compare(s, "bytes written and not read", 0, s->log_size - s->log_read);
        return true;
    }
    if (!strcmp(words[0], "owner-security") && count == 2) {
        struct spex_spu_status status;
        uint8_t which;
        if (!script_security(words[1], &which))
            return BROKEN("expect owner-security s, ns or realm");
        peer_get_status(s->unit, &status);
        script_compare(s, "owner security", which, status.owner_security);
        return true;
    }
    if (count == 2 && !strcmp(words[1], "never") && simple_value(s, words[0], &got)) {
        script_compare(s, words[0], UINT64_MAX, got);
        return true;
    }
    if (count != 2 || !script_number(words[1], &wanted) || !simple_value(s, words[0], &got))
        return BROKEN("cannot expect '%s'; see docs/spu-script.md", words[0]);
    script_compare(s, words[0], wanted, got);
    return true;
}
