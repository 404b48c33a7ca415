/* Scripts: the words that describe an operation. */
#include "internal.h"

#include <string.h>

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
    {"gcs-disabled", SPEX_OPF_GCS, 0, 0},
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
    return script_number(word, value);
}

/* Lists that accompany parts=, in the order in which they are applied. */
static const char *const part_keys[] = {"pevents", "pxlat", "pstart", "pmemory", "psource",
                                        "ptotal",  "ptag",  "ppas",   "ppa",     "pflags"};
enum { PART_KEYS = sizeof part_keys / sizeof part_keys[0] };

static bool part_key(const char *key)
{
    for (size_t i = 0; i < PART_KEYS; i++)
        if (!strcmp(key, part_keys[i]))
            return true;
    return !strcmp(key, "parts");
}

/* "parts=0x1000,0x1010!": addresses, "!" for an inactive element; pevents=, pxlat= ... go with
 * it. */
static bool parse_parts(struct script *s, char **words, size_t count, struct operation *o)
{
    const char *list = script_value_of(words, count, "parts");
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
            const char *own = script_value_of(words, count, part_keys[k]);
            if (!own || !nth(own, n, &value, &unused))
                continue;
            switch (k) {
            case 0:
                a->events = value;
                break;
            case 1:
                a->translation = (uint32_t)value;
                break;
            case 2:
                a->start = (uint32_t)value;
                break;
            case 3:
                a->memory = (uint32_t)value;
                break;
            case 4:
                a->data_source = (uint16_t)value;
                a->flags |= SPEX_ACC_SOURCE;
                break;
            case 5:
                a->total = (uint32_t)value;
                break;
            case 6:
                a->tag = (uint8_t)value;
                break;
            case 7:
                a->pas = (uint8_t)value;
                break;
            case 8:
                a->pa = value;
                a->flags |= SPEX_ACC_PA;
                break;
            default:
                a->flags = (uint16_t)value;
                break; /* last: the flags themselves */
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
        if (!script_security(text, &which))
            return BROKEN("'%s' is no Security state; use s, ns, realm or root", text);
        *(key[0] == 't'   ? &out->target_security
          : key[0] == 's' ? &out->spsr_security
          : key[3]        ? &b->pas
                          : &a->pas) = which;
        return true;
    }
    if (part_key(key))
        return true; /* parse_parts */
    if (!script_number(text, &v))
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

bool script_parse_op(struct script *s, char **words, size_t count, struct operation *o)
{
    struct spex_spu_state state;
    memset(o, 0, sizeof *o);
    memset(o->op.src, SPEX_REG_NONE, sizeof o->op.src);
    memset(o->op.dst, SPEX_REG_NONE, sizeof o->op.dst);
    peer_get_state(s->unit, &state);
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
