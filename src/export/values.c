#include "values.h"

#include "base/bits.h"

#define NUMBER_MASK(size) (~UINT64_C(0) >> (64 - 8 * (size)))
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define WORD_AT(at, size) ((at) + (size)-8)
#define TOP_BYTE 0
#else
#define WORD_AT(at, size) (at)
#define TOP_BYTE 7
#endif
#define BYTES(type, member) sizeof(((type *)0)->member)
#define NUMBER_AT(has, raw, type, member)                                                          \
    {                                                                                              \
        NUMBER_MASK(BYTES(type, member)), has,                                                     \
            WORD_AT(offsetof(type, member), BYTES(type, member)), raw                              \
    }
#define IN_SAMPLE(has, member) NUMBER_AT(has, false, struct spex_sample, member)
#define IN_RECORD(has, member) NUMBER_AT(has, true, struct spex_record, member)

const struct export_number export_numbers[EXPORT_COLUMNS] = {
    [EXPORT_PC] = IN_SAMPLE(SPEX_HAS_PC, pc),
    [EXPORT_TIME] = IN_SAMPLE(SPEX_HAS_TIMESTAMP, time),
    [EXPORT_ESTIMATED_TIME] = IN_SAMPLE(SPEX_HAS_TIMESTAMP, spent),
    [EXPORT_TARGET] = IN_SAMPLE(SPEX_HAS_TARGET, target),
    [EXPORT_PREV_TARGET] = IN_SAMPLE(SPEX_HAS_PREV_TARGET, prev_target),
    [EXPORT_VA] = IN_SAMPLE(SPEX_HAS_VA, va),
    [EXPORT_VA_TAG] = {0xff, SPEX_HAS_VA,
                       WORD_AT(offsetof(struct spex_record, address[SPEX_ADDRESS_VA]) + TOP_BYTE,
                               1),
                       true},
    [EXPORT_PA] = IN_SAMPLE(SPEX_HAS_PA, pa),
    [EXPORT_LATENCY] = IN_RECORD(SPEX_HAS_TOTAL, total),
    [EXPORT_ISSUE] = IN_RECORD(SPEX_HAS_ISSUE, issue),
    [EXPORT_TRANSLATION] = IN_RECORD(SPEX_HAS_TRANSLATION, translation),
    [EXPORT_ALT_ISSUE] = IN_RECORD(SPEX_HAS_ALT_ISSUE, alt_issue),
    [EXPORT_EVENT_BITS] = IN_RECORD(SPEX_HAS_EVENTS, events),
    [EXPORT_DATA_SOURCE] = IN_RECORD(SPEX_HAS_DATA_SOURCE, data_source),
    [EXPORT_CONTEXT_EL1] = IN_RECORD(SPEX_HAS_CONTEXT_EL1, context[0]),
    [EXPORT_CONTEXT_EL2] = IN_RECORD(SPEX_HAS_CONTEXT_EL2, context[1]),
    [EXPORT_OP_CLASS] = IN_RECORD(SPEX_HAS_OP, op_class),
    [EXPORT_OP_PAYLOAD] = IN_RECORD(SPEX_HAS_OP, op_payload),
    [EXPORT_OFFSET] = IN_RECORD(EXPORT_ALWAYS, offset),
    [EXPORT_SIZE] = IN_RECORD(EXPORT_ALWAYS, size),
};
_Static_assert(offsetof(struct spex_record, op_payload) + 8 <= sizeof(struct spex_record),
               "the last number can be read as a word");

/* 1 + the bit of a column that is an event. */
static const unsigned char event_bits[EXPORT_COLUMNS] = {
#define SPEX_EVENT(bit, constant, name, perf, version) [EXPORT_EV_##constant] = 1 + (bit),
#include <spex/events.def>
};

void export_source_init(struct export_source *s, struct spex_analysis *analysis)
{
    const struct spex_sampling *sampling = spex_analysis_sampling(analysis);
    const struct spex_perfdata *file = spex_analysis_file(analysis);
    const char *host = file ? spex_perfdata_info(file)->hostname : "";
    *s = (struct export_source){.analysis = analysis,
                                .host = *host ? host : NULL,
                                .period = sampling->period,
                                .can_estimate = !spex_analysis_no_estimate(analysis),
                                .most = sampling->counter_most,
                                .end = counters_end(sampling->counter_most)};
    out_init(&s->built, -1);
    s->stacks = stack_ids_new(analysis);
}

void export_source_fini(struct export_source *s)
{
    out_fini(&s->built);
    stack_ids_free(s->stacks);
}

static bool line_of(const struct spex_sample *sample, struct spex_line *line)
{
    return sample->module && spex_module_line(sample->module, sample->address, line);
}

bool export_number(const struct export_source *s, const struct spex_sample *sample,
                   enum export_column column, uint64_t *value)
{
    const struct export_number *number = &export_numbers[column];
    const struct spex_record *r = sample->record;
    struct spex_line line;
    uint32_t call;
    int32_t id;
    if (number->has) {
        *value = export_read(sample, *number);
        return (r->present | EXPORT_ALWAYS) & number->has;
    }
    if (event_bits[column]) {
        *value = r->events >> (event_bits[column] - 1) & 1;
        return r->present & SPEX_HAS_EVENTS;
    }
    switch (column) {
    case EXPORT_EL:
        *value = sample->el;
        return r->present & SPEX_HAS_PC;
    case EXPORT_PID:
    case EXPORT_TID:
    case EXPORT_CPU:
        id = column == EXPORT_PID ? sample->pid : column == EXPORT_TID ? sample->tid : sample->cpu;
        *value = (uint32_t)id;
        return id >= 0;
    case EXPORT_SYMBOL_OFFSET:
        if (sample->symbol)
            *value = sample->address - sample->symbol->start;
        return sample->symbol != NULL;
    case EXPORT_ADDRESS:
        *value = sample->address;
        return sample->module != NULL;
    case EXPORT_SOURCE_LINE:
        if (!line_of(sample, &line))
            return false;
        *value = line.line;
        return true;
    case EXPORT_PERIOD:
    case EXPORT_OPERATIONS:
        *value = s->period;
        return s->period && (column == EXPORT_PERIOD || s->can_estimate);
    case EXPORT_STACK:
        call = s->stacks ? spex_sample_stack(s->analysis, sample) : 0;
        if (call)
            *value = stack_ids_get(s->stacks, call);
        return call != 0;
    default:
        return false;
    }
}

static const char *security_of(const struct spex_sample *sample)
{
    /* {NSE, NS} (D18.2.1): there is no encoding for Root */
    static const char *const names[] = {"secure", "non-secure", "reserved-state", "realm"};
    uint64_t pc = sample->record->address[SPEX_ADDRESS_PC];
    return names[spex_address_nse(pc) << 1 | spex_address_ns(pc)];
}

static const char *build_text(struct export_source *s, const char *name, const char *between,
                              uint64_t number, bool hex)
{
    struct out *out = &s->built;
    out->size = 0;
    out_text(out, name);
    out_text(out, between);
    if (hex)
        out_hex(out, number);
    else
        out_u64(out, number);
    out_char(out, 0);
    return out->data;
}

static const char *build_id_of(struct export_source *s, const struct spex_module *module)
{
    size_t size;
    const uint8_t *id = spex_module_build_id(module, false, &size);
    s->built.size = 0;
    for (size_t i = 0; i < size; i++)
        out_hex_fixed(&s->built, id[i], 2);
    out_char(&s->built, 0);
    return size ? s->built.data : NULL;
}

static const char *place_of(struct export_source *s, const struct spex_sample *sample, unsigned has,
                            uint64_t address)
{
    struct spex_place place;
    if (!(sample->record->present & has))
        return NULL;
    spex_sample_locate(s->analysis, sample, address, &place);
    if (!place.symbol || !place.symbol->name)
        return NULL;
    return build_text(s, place.symbol->name, "+0x", place.address - place.symbol->start, true);
}

/* The functions that called, innermost first: "b < a < main"; "..." where some are missing. */
static const char *callers_of(struct export_source *s, const struct spex_sample *sample)
{
    struct out *out = &s->built;
    uint32_t n = s->stacks ? spex_sample_stack(s->analysis, sample) : 0;
    if (!n)
        return NULL;
    out->size = 0;
    for (bool first = true; n; first = false) {
        const struct spex_call *call = spex_analysis_call(s->analysis, n);
        out_text(out, first ? call->cut ? "... < " : "" : call->cut ? " < ... < " : " < ");
        if (call->symbol && call->symbol->name) {
            out_text(out, call->symbol->name);
        } else {
            out_text(out, call->module ? spex_module_name(call->module) : "");
            out_text(out, call->module ? "+0x" : "0x");
            out_hex(out, call->address);
        }
        n = call->caller;
    }
    out_char(out, 0);
    return out->data;
}

const char *export_saturated(const struct export_source *s, const struct spex_sample *sample)
{
    static const char *const names[16] = {NULL,
                                          "latency",
                                          "issue",
                                          "latency|issue",
                                          "translation",
                                          "latency|translation",
                                          "issue|translation",
                                          "latency|issue|translation",
                                          "alt_issue",
                                          "latency|alt_issue",
                                          "issue|alt_issue",
                                          "latency|issue|alt_issue",
                                          "translation|alt_issue",
                                          "latency|translation|alt_issue",
                                          "issue|translation|alt_issue",
                                          "latency|issue|translation|alt_issue"};
    const struct spex_record *r = sample->record;
    unsigned most = s->most, p = r->present;
    if (__builtin_expect(
            r->total < most && r->issue < most && r->translation < most && r->alt_issue < most, 1))
        return NULL;
    return names[(r->total == most && p & SPEX_HAS_TOTAL) |
                 (r->issue == most && p & SPEX_HAS_ISSUE) << 1 |
                 (r->translation == most && p & SPEX_HAS_TRANSLATION) << 2 |
                 (r->alt_issue == most && p & SPEX_HAS_ALT_ISSUE) << 3];
}

const char *export_text(struct export_source *s, const struct spex_sample *sample,
                        enum export_column column)
{
    const struct spex_record *r = sample->record;
    struct spex_line line;
    switch (column) {
    case EXPORT_COMM:
        return sample->comm;
    case EXPORT_OP:
        return r->present & SPEX_HAS_OP ? spex_sample_op_text(r->op_class, r->op_payload) : NULL;
    case EXPORT_KIND:
        return spex_sample_op_name(sample->op);
    case EXPORT_SECURITY:
        return r->present & SPEX_HAS_PC ? security_of(sample) : NULL;
    case EXPORT_SYMBOL:
        return sample->symbol ? sample->symbol->name : NULL;
    case EXPORT_DSO:
    case EXPORT_PATH:
        return !sample->module                         ? NULL
               : s->full_path || column == EXPORT_PATH ? spex_module_path(sample->module)
                                                       : spex_module_name(sample->module);
    case EXPORT_BUILD_ID:
        return sample->module ? build_id_of(s, sample->module) : NULL;
    case EXPORT_SRCLINE:
        return line_of(sample, &line) ? build_text(s, line.file, ":", line.line, false) : NULL;
    case EXPORT_SOURCE_FILE:
        return line_of(sample, &line) ? line.file : NULL;
    case EXPORT_TARGET_SYMBOL:
        return place_of(s, sample, SPEX_HAS_TARGET, sample->target);
    case EXPORT_DATA_SYMBOL:
        return place_of(s, sample, SPEX_HAS_VA, sample->va);
    case EXPORT_SATURATED:
        return export_saturated(s, sample);
    case EXPORT_SOURCE:
        return sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)
                   ? spex_source_name(sample->source)
                   : NULL;
    case EXPORT_CALLERS:
        return callers_of(s, sample);
    case EXPORT_HOST:
        return s->host;
    case EXPORT_BOOT:
        return s->boot;
    default:
        return NULL;
    }
}

unsigned export_wants(enum export_column column)
{
    if (export_fields[column].from == EXPORT_FROM_CODE)
        return SPEX_WANT_SYMBOL; /* needed for unnamed code too, which is cached */
    switch (column) {
    case EXPORT_TIME:
        return SPEX_WANT_TIME;
    case EXPORT_ESTIMATED_TIME:
        return SPEX_WANT_SPENT;
    case EXPORT_VA:
    case EXPORT_PA:
    case EXPORT_DATA_SYMBOL:
        return SPEX_WANT_DATA;
    case EXPORT_TARGET:
    case EXPORT_PREV_TARGET:
    case EXPORT_TARGET_SYMBOL:
        return SPEX_WANT_BRANCH;
    case EXPORT_STACK:
    case EXPORT_CALLERS:
        return SPEX_WANT_STACK;
    default:
        return SPEX_WANT_BASE;
    }
}

bool export_looks_up(enum export_column column)
{
    return export_fields[column].from == EXPORT_FROM_STACK || column == EXPORT_SRCLINE ||
           column == EXPORT_TARGET_SYMBOL || column == EXPORT_DATA_SYMBOL ||
           column == EXPORT_SOURCE_FILE || column == EXPORT_SOURCE_LINE;
}
