/*
 * Most fields of a record follow from little: its thread, its instruction, its events. Fields
 * next to each other that follow from the same are one piece of text, made once and then
 * copied; only addresses, times and latencies are written for every record. Which packets a
 * record has decides what that takes: a plan, made once for each set of packets, so that nobody
 * asks for each field of each record whether it is there. Each field is followed by a
 * separator, the last one becomes the end of the line.
 */
#include "script_lines.h"

#include "base/digits.h"
#include "base/memory.h"
#include "record/counters.h"

#include <stdio.h>
#include <stdlib.h>

enum field {
    COMM,
    PID,
    TID,
    CPU,
    TIME,
    OP,
    EL,
    SECURITY,
    PC,
    SYMBOL,
    OFFSET,
    DSO,
    SRCLINE,
    TARGET,
    TARGET_SYMBOL,
    PREV_TARGET,
    VA,
    TAG,
    DATA_SYMBOL,
    PA,
    TOTAL,
    ISSUE,
    TRANSLATION,
    ALT_ISSUE,
    SATURATED,
    SOURCE,
    EVENTS,
    EVENT_BITS,
    DATA_SOURCE,
    CONTEXT1,
    CONTEXT2,
    OP_CLASS,
    OP_PAYLOAD,
    POSITION,
    SIZE,
    FIELD_COUNT
};

enum kind { TEXT, NUMBER, HEX, LIST };
/* What a field follows from: an instruction does one operation; events and data source. */
enum origin { ITSELF, THREAD, CODE, OUTCOME };

/* label: what stands before the value in text; standard: shown unless -F says otherwise. */
static const struct {
    const char *name, *label;
    enum kind kind;
    bool text, machine; /* among the standard fields of text; of JSON and CSV */
    enum origin origin;
} fields[FIELD_COUNT] = {
    [COMM] = {"comm", "", TEXT, true, true, THREAD},
    [PID] = {"pid", "", NUMBER, false, true, THREAD},
    [TID] = {"tid", "", NUMBER, true, true, THREAD},
    [CPU] = {"cpu", "", NUMBER, true, true, THREAD},
    [TIME] = {"time", "", NUMBER, true, true, ITSELF},
    [OP] = {"op", "", TEXT, true, true, CODE},
    [EL] = {"el", "el", NUMBER, false, true, CODE},
    [SECURITY] = {"security", "", TEXT, false, true, CODE},
    [PC] = {"pc", "", HEX, true, true, CODE},
    [SYMBOL] = {"symbol", "", TEXT, true, true, CODE},
    [OFFSET] = {"symbol_offset", "+", HEX, false, true, CODE},
    [DSO] = {"dso", "", TEXT, true, true, CODE},
    [SRCLINE] = {"srcline", "", TEXT, false, false, CODE},
    [TARGET] = {"target", "target ", HEX, true, true, ITSELF},
    [TARGET_SYMBOL] = {"target_symbol", "", TEXT, false, false, ITSELF},
    [PREV_TARGET] = {"prev_target", "prev ", HEX, true, true, ITSELF},
    [VA] = {"va", "va ", HEX, true, true, ITSELF},
    [TAG] = {"va_tag", "tag ", HEX, false, true, ITSELF},
    [DATA_SYMBOL] = {"data_symbol", "", TEXT, false, false, ITSELF},
    [PA] = {"pa", "pa ", HEX, true, true, ITSELF},
    [TOTAL] = {"latency", "lat ", NUMBER, true, true, ITSELF},
    [ISSUE] = {"issue", "issue ", NUMBER, true, true, ITSELF},
    [TRANSLATION] = {"translation", "xlat ", NUMBER, true, true, ITSELF},
    [ALT_ISSUE] = {"alt_issue", "alt ", NUMBER, false, true, ITSELF},
    [SATURATED] = {"saturated", "saturated ", TEXT, false, true, ITSELF},
    [SOURCE] = {"source", "from ", TEXT, true, true, OUTCOME},
    [EVENTS] = {"events", "", LIST, true, true, OUTCOME},
    [EVENT_BITS] = {"event_bits", "ev ", HEX, false, true, OUTCOME},
    [DATA_SOURCE] = {"data_source", "ds ", NUMBER, false, true, OUTCOME},
    [CONTEXT1] = {"context_el1", "ctx1 ", NUMBER, false, true, ITSELF},
    [CONTEXT2] = {"context_el2", "ctx2 ", NUMBER, false, true, ITSELF},
    [OP_CLASS] = {"op_class", "class ", NUMBER, false, true, ITSELF},
    [OP_PAYLOAD] = {"op_payload", "payload ", NUMBER, false, true, ITSELF},
    [POSITION] = {"offset", "at ", NUMBER, false, true, ITSELF},
    [SIZE] = {"size", "bytes ", NUMBER, false, true, ITSELF},
};

enum {
    SMALL = 1000, /* numbers below have their text in a table */
    PLAN_BITS = 8,
    PIECE_BITS = 12,
    KEY_WORDS = 4,
    BEFORE = 16,
    STEP_ROOM = BEFORE + 24, /* the most that a step writes, pieces apart */
    LINE_ROOM = OUT_ROOM,
    PIECES_ROOM = LINE_ROOM - (FIELD_COUNT + 4) * STEP_ROOM, /* saturated takes more than one */
};
#define KEY_THERE BIT(63) /* in every key */
_Static_assert(PIECES_ROOM > 1024, "most lines need room once");
_Static_assert(2 * STEP_ROOM > SCRIPT_BLOCK, "a piece may be copied up to its limit");

/* Where a number stands and which packet it is of: the lower bits of a word. */
struct number {
    uint64_t mask;
    unsigned has; /* enum spex_has, ALWAYS */
    uint16_t at;
    bool raw; /* in the record, otherwise in the sample */
};

enum { ALWAYS = 1u << 16, AT_END = 1u << 17 /* a counter may be saturated */ };

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
        ~UINT64_C(0) >> (64 - 8 * BYTES(type, member)), has,                                       \
            WORD_AT(offsetof(type, member), BYTES(type, member)), raw                              \
    }
#define IN_SAMPLE(has, member) NUMBER_AT(has, false, struct spex_sample, member)
#define IN_RECORD(has, member) NUMBER_AT(has, true, struct spex_record, member)

static const struct number numbers[FIELD_COUNT] = {
    [PC] = IN_SAMPLE(SPEX_HAS_PC, pc),
    [TIME] = IN_SAMPLE(SPEX_HAS_TIMESTAMP, time),
    [TARGET] = IN_SAMPLE(SPEX_HAS_TARGET, target),
    [PREV_TARGET] = IN_SAMPLE(SPEX_HAS_PREV_TARGET, prev_target),
    [VA] = IN_SAMPLE(SPEX_HAS_VA, va),
    [TAG] = {0xff, SPEX_HAS_VA,
             WORD_AT(offsetof(struct spex_record, address[SPEX_ADDRESS_VA]) + TOP_BYTE, 1), true},
    [PA] = IN_SAMPLE(SPEX_HAS_PA, pa),
    [TOTAL] = IN_RECORD(SPEX_HAS_TOTAL, total),
    [ISSUE] = IN_RECORD(SPEX_HAS_ISSUE, issue),
    [TRANSLATION] = IN_RECORD(SPEX_HAS_TRANSLATION, translation),
    [ALT_ISSUE] = IN_RECORD(SPEX_HAS_ALT_ISSUE, alt_issue),
    [EVENT_BITS] = IN_RECORD(SPEX_HAS_EVENTS, events),
    [DATA_SOURCE] = IN_RECORD(SPEX_HAS_DATA_SOURCE, data_source),
    [CONTEXT1] = IN_RECORD(SPEX_HAS_CONTEXT_EL1, context[0]),
    [CONTEXT2] = IN_RECORD(SPEX_HAS_CONTEXT_EL2, context[1]),
    [OP_CLASS] = IN_RECORD(SPEX_HAS_OP, op_class),
    [OP_PAYLOAD] = IN_RECORD(SPEX_HAS_OP, op_payload),
    [POSITION] = IN_RECORD(ALWAYS, offset),
    [SIZE] = IN_RECORD(ALWAYS, size),
};
_Static_assert(offsetof(struct spex_record, op_payload) + 8 <= sizeof(struct spex_record),
               "the last number can be read as a word");

/* Text of a run of fields, with a separator behind each; SCRIPT_BLOCK bytes more. */
struct piece {
    uint64_t key[KEY_WORDS]; /* 0: none */
    size_t size;
    char *text;
};

/* Fields next to each other with one origin. */
struct run {
    const unsigned char *list;
    size_t count;
    enum origin origin;
    struct piece *pieces; /* piece_count, in pairs by key_of; NULL: of ITSELF */
};

/* A text that is always the same, then a number, a piece, or nothing. */
struct step {
    enum step_kind {
        END,
        NOTHING,
        DECIMAL,
        PLAIN_DECIMAL, /* nothing before it */
        COUNTER,       /* text: ">=" before one that is saturated */
        SATURATION,    /* JSON and CSV: which are */
        HEXADECIMAL,
        SECONDS,
        THREAD_PIECE,
        CODE_PIECE,
        OUTCOME_PIECE,
        NEW_PIECE
    } kind;
    uint8_t before_size, after_size;
    char after[2]; /* a hexadecimal number: quote, separator */
    struct number number;
    const struct run *run; /* of a piece */
    char before[BEFORE];
};

/* The steps of a line for records with the packets of present. */
struct plan {
    unsigned present; /* with ALWAYS: 0 is none; and AT_END */
    struct step steps[2 * FIELD_COUNT];
};

struct script_lines {
    struct profile *profile;
    int format;
    bool full_path, perf;
    bool one_piece; /* text: pc and symbol stand together */
    char separator;
    unsigned most; /* what counters saturate at */
    struct counters_end end;
    unsigned char list[FIELD_COUNT];
    size_t count;
    struct run runs[FIELD_COUNT];
    size_t run_count;
    struct out scratch;    /* a piece in the making */
    struct out built;      /* a text of several parts */
    uint64_t small[SMALL]; /* text with the separator, the size in the highest byte */
    struct plan plans[1 << PLAN_BITS];
};

/* ---- values ---- */

static inline uint64_t read_number(const struct spex_sample *sample, struct number number)
{
    const char *base = number.raw ? (const char *)sample->record : (const char *)sample;
    uint64_t word;
    memcpy(&word, base + number.at, sizeof word);
    return word & number.mask;
}

static bool number_of(const struct spex_sample *sample, enum field field, uint64_t *value)
{
    if (field == EL) {
        *value = sample->el;
        return sample->record->present & SPEX_HAS_PC;
    }
    if (field == PID || field == TID || field == CPU) {
        int32_t id = field == PID ? sample->pid : field == TID ? sample->tid : sample->cpu;
        *value = (uint32_t)id;
        return id >= 0;
    }
    if (field == OFFSET) {
        if (sample->symbol)
            *value = sample->address - sample->symbol->start;
        return sample->symbol != NULL;
    }
    if (!numbers[field].has)
        return false;
    *value = read_number(sample, numbers[field]);
    return (sample->record->present | ALWAYS) & numbers[field].has;
}

static const char *security_of(const struct spex_sample *sample)
{
    /* {NSE, NS} (D18.2.1): there is no encoding for Root */
    static const char *const names[] = {"secure", "non-secure", "reserved-state", "realm"};
    uint64_t pc = sample->record->address[SPEX_ADDRESS_PC];
    return names[spex_address_nse(pc) << 1 | spex_address_ns(pc)];
}

static const char *build_text(struct script_lines *l, const char *name, const char *between,
                              uint64_t number, bool hex)
{
    struct out *out = &l->built;
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

/* Names of the counters that are saturated; NULL if none is. */
static const char *saturated_counters(const struct script_lines *l,
                                      const struct spex_sample *sample)
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
    unsigned most = l->most, p = r->present;
    if (__builtin_expect(
            r->total < most && r->issue < most && r->translation < most && r->alt_issue < most, 1))
        return NULL;
    return names[(r->total == most && p & SPEX_HAS_TOTAL) |
                 (r->issue == most && p & SPEX_HAS_ISSUE) << 1 |
                 (r->translation == most && p & SPEX_HAS_TRANSLATION) << 2 |
                 (r->alt_issue == most && p & SPEX_HAS_ALT_ISSUE) << 3];
}

/* Text of a field until the next is asked for; NULL if absent. */
static const char *text_of(struct script_lines *l, const struct spex_sample *sample,
                           enum field field)
{
    const struct spex_record *r = sample->record;
    struct spex_place place;
    struct spex_line line;
    switch (field) {
    case COMM:
        return sample->comm;
    case OP:
        return r->present & SPEX_HAS_OP ? spex_sample_op_text(r->op_class, r->op_payload) : NULL;
    case SECURITY:
        return r->present & SPEX_HAS_PC ? security_of(sample) : NULL;
    case SYMBOL:
        return sample->symbol ? sample->symbol->name : NULL;
    case DSO:
        return !sample->module ? NULL
               : l->full_path  ? spex_module_path(sample->module)
                               : spex_module_name(sample->module);
    case SRCLINE:
        if (!sample->module || !spex_module_line(sample->module, sample->address, &line))
            return NULL;
        return build_text(l, line.file, ":", line.line, false);
    case TARGET_SYMBOL:
    case DATA_SYMBOL:
        if (!(r->present & (field == DATA_SYMBOL ? SPEX_HAS_VA : SPEX_HAS_TARGET)))
            return NULL;
        spex_sample_locate(l->profile->analysis, sample,
                           field == DATA_SYMBOL ? sample->va : sample->target, &place);
        if (!place.symbol || !place.symbol->name)
            return NULL;
        return build_text(l, place.symbol->name, "+0x", place.address - place.symbol->start, true);
    case SATURATED:
        return saturated_counters(l, sample);
    case SOURCE:
        return sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)
                   ? spex_source_name(sample->source)
                   : NULL;
    default:
        return NULL;
    }
}

/* ---- one field, whatever its kind: for pieces and for what is rare ---- */

static void comm_text(struct out *out, const char *comm)
{
    enum { WIDTH = 16, MOST = 64 };
    size_t n = strnlen(comm, MOST);
    for (size_t pad = n; pad < WIDTH; pad++)
        out_char(out, ' ');
    out_name_bytes(out, comm, n);
}

/* What stands before the value of a field: its size. */
static unsigned label_of(const struct script_lines *l, enum field f, char text[2 * BEFORE])
{
    bool json = l->format == TABLE_AS_JSON, hex = fields[f].kind == HEX;
    const char *name = json ? fields[f].name : l->format == TABLE_AS_TEXT ? fields[f].label : "";
    return (unsigned)snprintf(text, 2 * BEFORE, "%s%s%s%s", json ? "\"" : "", name,
                              json ? "\":" : "",
                              !hex   ? ""
                              : json ? "\"0x"
                                     : "0x");
}

static void number_text(struct out *out, enum field f, uint64_t value)
{
    if (fields[f].kind == HEX)
        out_hex(out, value);
    else
        out_u64(out, value);
}

/* "401104 walk+0x4 (prog)" */
static void code_text(struct script_lines *l, struct out *out, const struct spex_sample *sample,
                      bool pc)
{
    const struct spex_symbol *symbol = sample->symbol;
    if (pc)
        out_printf(out, l->perf ? "%16llx " : "%llx ", (unsigned long long)sample->pc);
    if (symbol && symbol->name) {
        out_name(out, symbol->name);
        out_text(out, "+0x");
        out_hex(out, sample->address - symbol->start);
    } else {
        out_text(out, "[unknown]");
    }
    out_text(out, " (");
    out_name(out, !sample->module           ? "[unknown]"
                  : l->perf || l->full_path ? spex_module_path(sample->module)
                                            : spex_module_name(sample->module));
    out_char(out, ')');
}

/* "l1d-access|tlb-access", or in JSON ["l1d-access","tlb-access"] */
static void events_text(struct out *out, uint64_t bits, bool json)
{
    bool first = true;
    out_text(out, json ? "[" : "");
    for (unsigned bit = 0; bit < 64; bit++) {
        if (!(bits >> bit & 1))
            continue;
        const char *name = spex_event_name(bit);
        out_text(out, first ? "" : json ? "," : "|");
        out_text(out, json ? "\"" : "");
        if (name)
            out_text(out, name);
        else
            out_printf(out, "event%u", bit);
        out_text(out, json ? "\"" : "");
        first = false;
    }
    out_text(out, json ? "]" : first ? "-" : "");
}

static void text_field(struct script_lines *l, struct out *out, const struct spex_sample *sample,
                       enum field f)
{
    char label[2 * BEFORE];
    uint64_t value;
    const char *text;
    switch (f) {
    case COMM:
        comm_text(out, sample->comm);
        break;
    case PID:
    case TID: {
        int32_t id = f == PID ? sample->pid : sample->tid;
        out_printf(out, l->perf ? "%5d" : "%7d", id < 0 ? -1 : id);
        break;
    }
    case CPU:
        out_printf(out, sample->cpu < 0 ? "[%d]" : "[%03d]", sample->cpu);
        break;
    case PC:
        if (l->one_piece)
            code_text(l, out, sample, true);
        else if (sample->record->present & SPEX_HAS_PC)
            out_hex(out, sample->pc);
        break;
    case SYMBOL: /* with the file; where the pc stands before, it is all there */
        if (!l->one_piece)
            code_text(l, out, sample, false);
        break;
    case DSO:
        break;
    case EVENTS:
        events_text(out, sample->record->events, false);
        break;
    default:
        if (number_of(sample, f, &value)) {
            out_bytes(out, label, label_of(l, f, label));
            number_text(out, f, value);
        } else if ((text = text_of(l, sample, f))) {
            out_text(out, fields[f].label);
            out_name(out, text);
            out_text(out, f == OP ? ":" : "");
        }
    }
}

static void machine_field(struct script_lines *l, struct out *out, const struct spex_sample *sample,
                          enum field f)
{
    bool json = l->format == TABLE_AS_JSON;
    bool list = f == EVENTS && sample->record->present & SPEX_HAS_EVENTS;
    char label[2 * BEFORE];
    uint64_t value = 0;
    const char *text = NULL;
    bool number = number_of(sample, f, &value);
    if (!list && !number && !(text = text_of(l, sample, f)))
        return;
    out_bytes(out, label, label_of(l, f, label));
    if (list)
        events_text(out, sample->record->events, json);
    else if (number)
        number_text(out, f, value);
    else if (json)
        out_name_json(out, text);
    else
        out_name_csv(out, text);
    out_text(out, json && fields[f].kind == HEX ? "\"" : "");
}

/* A run of fields, each with a separator behind it; an absent one has it in CSV only. */
static void render(struct script_lines *l, const struct spex_sample *sample, const struct run *run)
{
    struct out *out = &l->scratch;
    out->size = 0;
    for (size_t i = 0; i < run->count; i++) {
        size_t before = out->size;
        if (l->format == TABLE_AS_TEXT)
            text_field(l, out, sample, run->list[i]);
        else
            machine_field(l, out, sample, run->list[i]);
        if (out->size > before || l->format == TABLE_AS_CSV)
            out_char(out, l->separator);
    }
    memset(out_room(out, SCRIPT_BLOCK), 0, SCRIPT_BLOCK);
}

/* ---- pieces ---- */

/* What the fields of an origin follow from, and where their piece is kept. */
static inline __attribute__((always_inline)) size_t
key_of(const struct spex_sample *sample, enum origin origin, uint64_t key[KEY_WORDS])
{
    const struct spex_record *r = sample->record;
    bool memory = sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES);
    switch (origin) {
    case CODE:
        key[0] = r->address[SPEX_ADDRESS_PC];
        key[1] = (uintptr_t)sample->module;
        key[2] = sample->address;
        key[3] = KEY_THERE | (uint64_t)(r->present & (SPEX_HAS_PC | SPEX_HAS_OP)) << 16 |
                 (unsigned)r->op_class << 8 | r->op_payload;
        return sample->place;
    case THREAD:
        key[0] = (uint64_t)(uint32_t)sample->pid << 32 | (uint32_t)sample->tid;
        key[1] = KEY_THERE | (uint32_t)sample->cpu;
        key[2] = (uintptr_t)sample->comm;
        key[3] = 0;
        break;
    case OUTCOME:
        key[0] = r->events;
        key[1] = KEY_THERE |
                 (uint64_t)(r->present & (SPEX_HAS_EVENTS | SPEX_HAS_DATA_SOURCE)) << 32 |
                 (uint64_t)r->data_source << 16 | (unsigned)memory << 8 | sample->source;
        key[2] = key[3] = 0;
        break;
    case ITSELF:
        __builtin_unreachable();
    }
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    return (key[0] * odd ^ key[1]) * odd >> (64 - PIECE_BITS);
}

static size_t piece_count(enum origin origin)
{
    return origin == CODE ? SPEX_PLACES : (size_t)1 << PIECE_BITS;
}

static __attribute__((noinline)) void make_piece(struct script_lines *l, struct piece *pair,
                                                 const struct run *run,
                                                 const struct spex_sample *sample)
{
    render(l, sample, run);
    free(pair[1].text);
    pair[1] = pair[0];
    *pair = (struct piece){.size = l->scratch.size,
                           .text = memory_resize(NULL, 1, l->scratch.size + SCRIPT_BLOCK)};
    memcpy(pair->text, l->scratch.data, l->scratch.size + SCRIPT_BLOCK);
    key_of(sample, run->origin, pair->key);
}

static inline __attribute__((always_inline)) const struct piece *
find_piece(struct script_lines *l, const struct run *run, const struct spex_sample *sample,
           enum origin origin)
{
    uint64_t key[KEY_WORDS];
    struct piece *pair = &run->pieces[key_of(sample, origin, key) & ~(size_t)1];
    for (unsigned i = 0; i < 2; i++) {
        uint64_t differ = 0;
        for (unsigned word = 0; word < KEY_WORDS; word++)
            differ |= pair[i].key[word] ^ key[word];
        if (__builtin_expect(!differ, 1))
            return &pair[i];
    }
    make_piece(l, pair, run, sample);
    return pair;
}

/* ---- plans ---- */

/* Adds to what stands before the value of a step; returns the step to which it was added. */
static struct step *add_text(struct step *step, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (step->before_size == BEFORE)
            (step++)->kind = NOTHING;
        step->before[step->before_size++] = text[i];
    }
    return step;
}

static void make_plan(const struct script_lines *l, struct plan *plan, unsigned present)
{
    static const enum step_kind pieces[] = {[ITSELF] = NEW_PIECE,
                                            [THREAD] = THREAD_PIECE,
                                            [CODE] = CODE_PIECE,
                                            [OUTCOME] = OUTCOME_PIECE};
    static const char no_time[] = "             -: ";
    bool text = l->format == TABLE_AS_TEXT;
    struct step *step = plan->steps;
    *plan = (struct plan){.present = present};
    for (const struct run *run = l->runs; run < l->runs + l->run_count; run++) {
        enum field f = run->list[0];
        char label[2 * BEFORE];
        if (f == SATURATED && !text) {
            if (present & AT_END)
                (step++)->kind = SATURATION;
            else if (l->format == TABLE_AS_CSV)
                step = add_text(step, ",", 1);
        } else if (run->origin != ITSELF || fields[f].kind == TEXT) {
            step->run = run;
            (step++)->kind = pieces[run->origin];
        } else if (!(numbers[f].has & present)) {
            if (text && f == TIME)
                step = add_text(step, no_time, sizeof no_time - 1);
            else if (l->format == TABLE_AS_CSV)
                step = add_text(step, ",", 1);
        } else {
            if (!text || f != TIME)
                step = add_text(step, label, label_of(l, f, label));
            step->number = numbers[f];
            if (fields[f].kind == HEX)
                step->kind = HEXADECIMAL;
            else if (text && f == TIME)
                step->kind = SECONDS;
            else if (text && f >= TOTAL && f <= ALT_ISSUE && present & AT_END)
                step->kind = COUNTER;
            else
                step->kind = step->before_size ? DECIMAL : PLAIN_DECIMAL;
            if (l->format == TABLE_AS_JSON)
                step->after[step->after_size++] = '"';
            step->after[step->after_size++] = l->separator;
            step++;
        }
    }
    if (step->before_size)
        (step++)->kind = NOTHING;
    step->kind = END;
}

static inline const struct plan *find_plan(struct script_lines *l, unsigned present)
{
    struct plan *plan = &l->plans[present * 0x9e3779b1u >> (32 - PLAN_BITS)];
    present |= ALWAYS;
    if (__builtin_expect(plan->present != present, 0))
        make_plan(l, plan, present);
    return plan;
}

/* ---- lines ---- */

/* Where a line goes. */
struct room {
    struct out *out;
    char *start; /* of the line, or of what is left of it to write */
    char *limit; /* for pieces */
};

static char *take_room(struct room *room)
{
    room->start = out_room(room->out, LINE_ROOM);
    room->limit = room->start + PIECES_ROOM;
    return room->start;
}

/* A piece that may be longer than the room; its last byte, a separator, may still change. */
static __attribute__((noinline)) char *put_long(struct room *room, char *p, const char *text,
                                                size_t size)
{
    room->out->size = (size_t)(p - room->out->data);
    out_bytes(room->out, text, size - 1);
    p = take_room(room);
    *p = text[size - 1];
    return p + 1;
}

static inline char *put_piece(struct room *room, char *p, const char *text, size_t size)
{
    if (__builtin_expect(p + size > room->limit, 0))
        return size ? put_long(room, p, text, size) : p;
    return script_copy(p, text, size);
}

static inline char *put_decimal(const struct script_lines *l, char *p, uint64_t value)
{
    if (value < SMALL) {
        uint64_t text = l->small[value];
        put_le64(p, text);
        return p + (text >> 56);
    }
    p = put_u64(p, value);
    *p = l->separator;
    return p + 1;
}

/* "saturated":"latency|issue" where there are any; CSV has its column always. */
static inline char *put_saturation(const struct script_lines *l, char *p,
                                   const struct spex_sample *sample)
{
    const char *names = saturated_counters(l, sample);
    if (names && l->format == TABLE_AS_JSON)
        p = (char *)memcpy(p, "\"saturated\":\"", 13) + 13;
    if (names) {
        memcpy(p, names, strlen(names));
        p += strlen(names);
    }
    if (names && l->format == TABLE_AS_JSON)
        *p++ = '"';
    if (names || l->format == TABLE_AS_CSV)
        *p++ = l->separator;
    return p;
}

static void put_line(struct script_lines *l, const struct spex_sample *sample)
{
    struct room room = {.out = &l->profile->out};
    char *p = take_room(&room);
    const struct piece *piece;
    uint64_t value;
    if (l->format == TABLE_AS_JSON)
        *p++ = '{';
    room.start = p;
    const struct spex_record *r = sample->record;
    unsigned at_end = counters_may_end(r, &l->end) ? AT_END : 0;
    const struct step *step = find_plan(l, r->present | at_end)->steps;
    for (enum step_kind kind; (kind = step->kind) != END; step++) {
        memcpy(p, step->before, BEFORE);
        p += step->before_size;
        switch (kind) {
        default:
            __builtin_unreachable();
        case NOTHING:
            break;
        case DECIMAL:
        case PLAIN_DECIMAL:
            p = put_decimal(l, p, read_number(sample, step->number));
            for (; step[1].kind == PLAIN_DECIMAL; step++)
                p = put_decimal(l, p, read_number(sample, step[1].number));
            break;
        case COUNTER:
            value = read_number(sample, step->number);
            if (value == l->most) {
                *p++ = '>';
                *p++ = '=';
            }
            p = put_decimal(l, p, value);
            break;
        case SATURATION:
            p = put_saturation(l, p, sample);
            break;
        case HEXADECIMAL:
            p = put_hex(p, read_number(sample, step->number));
            memcpy(p, step->after, sizeof step->after);
            p += step->after_size;
            break;
        case SECONDS:
            value = read_number(sample, step->number);
            p = put_padded(p, value / 1000000000, 5);
            *p++ = '.';
            *p++ = (char)('0' + value % 1000000000 / 100000000);
            p = put_eight(p, (uint32_t)(value % 100000000));
            *p++ = ':';
            *p++ = l->separator;
            break;
        case THREAD_PIECE:
            piece = find_piece(l, step->run, sample, THREAD);
            p = put_piece(&room, p, piece->text, piece->size);
            break;
        case CODE_PIECE:
            piece = find_piece(l, step->run, sample, CODE);
            p = put_piece(&room, p, piece->text, piece->size);
            break;
        case OUTCOME_PIECE:
            piece = find_piece(l, step->run, sample, OUTCOME);
            p = put_piece(&room, p, piece->text, piece->size);
            break;
        case NEW_PIECE:
            render(l, sample, step->run);
            p = put_piece(&room, p, l->scratch.data, l->scratch.size);
            break;
        }
    }
    if (p > room.start)
        p--; /* the separator */
    if (l->format == TABLE_AS_JSON)
        *p++ = '}';
    *p++ = '\n';
    room.out->size = (size_t)(p - room.out->data);
}

void script_lines_put(struct script_lines *l, const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_line(l, &samples[i]);
}

void script_lines_perf(struct script_lines *l, const struct spex_sample *sample,
                       struct script_text *thread, struct script_text *code)
{
    const struct piece *piece = find_piece(l, &l->runs[0], sample, THREAD);
    *thread = (struct script_text){piece->text, piece->size};
    piece = find_piece(l, &l->runs[1], sample, CODE);
    *code = (struct script_text){piece->text, piece->size};
}

/* Names of symbols and files are there with a sample, other places are looked up here. */
bool script_lines_alone(const struct script_lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->list[i] == SRCLINE || l->list[i] == TARGET_SYMBOL || l->list[i] == DATA_SYMBOL)
            return false;
    return true;
}

void script_lines_header(struct script_lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        out_printf(&l->profile->out, "%s%s", i ? "," : "", fields[l->list[i]].name);
    out_char(&l->profile->out, '\n');
}

/* ---- making ---- */

static int choose_fields(struct script_lines *l)
{
    const char *list = l->profile->options->fields;
    bool text = l->format == TABLE_AS_TEXT, add = list && *list == '+';
    if (!list || add)
        for (unsigned f = 0; f < FIELD_COUNT; f++)
            if (text ? fields[f].text : fields[f].machine)
                l->list[l->count++] = (unsigned char)f;
    for (const char *p = list ? list + add : ""; *p;) {
        static const struct {
            const char *alias;
            enum field field;
        } aliases[] = {{"ip", PC},        {"sym", SYMBOL},   {"addr", VA},
                       {"phys_addr", PA}, {"weight", TOTAL}, {"event", EVENTS}};
        size_t n = strcspn(p, ",");
        unsigned f = 0;
        while (f < FIELD_COUNT && (strlen(fields[f].name) != n || strncmp(fields[f].name, p, n)))
            f++;
        for (size_t i = 0; f == FIELD_COUNT && i < sizeof aliases / sizeof *aliases; i++)
            if (strlen(aliases[i].alias) == n && !strncmp(aliases[i].alias, p, n)) {
                f = aliases[i].field;
                break;
            }
        if (f == FIELD_COUNT) {
            char names[600] = "";
            for (unsigned i = 0; i < FIELD_COUNT; i++)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                         fields[i].name);
            return cli_usage("--fields: '%.*s' is not one of %s", (int)n, p, names);
        }
        if (l->count < FIELD_COUNT)
            l->list[l->count++] = (unsigned char)f;
        p += n + (p[n] == ',');
    }
    return CLI_OK;
}

/* Fields with one origin that stand next to each other are one piece. */
static void prepare_runs(struct script_lines *l)
{
    for (size_t i = 0; i < l->count; i++) {
        enum origin origin = fields[l->list[i]].origin;
        struct run *last = l->run_count ? &l->runs[l->run_count - 1] : NULL;
        if (last && last->origin == origin && origin != ITSELF) {
            last->count++;
            continue;
        }
        struct run *run = &l->runs[l->run_count++];
        *run = (struct run){.list = &l->list[i], .count = 1, .origin = origin};
        if (origin != ITSELF)
            run->pieces = memory_get(piece_count(origin), sizeof *run->pieces);
    }
}

int script_lines_new(struct script_lines **lines, struct profile *profile, unsigned flags)
{
    struct script_lines *l = memory_get(1, sizeof *l);
    *lines = l;
    l->profile = profile;
    l->most = spex_analysis_sampling(profile->analysis)->counter_most;
    l->end = counters_end(l->most);
    l->format = profile->options->format;
    l->full_path = flags & SCRIPT_FULL_PATH;
    l->perf = flags & SCRIPT_PERF;
    l->separator = l->format == TABLE_AS_TEXT ? ' ' : ',';
    out_init(&l->scratch, -1);
    out_init(&l->built, -1);
    int status = choose_fields(l);
    if (l->perf) {
        static const unsigned char list[] = {COMM, TID, CPU, PC, SYMBOL};
        memcpy(l->list, list, l->count = sizeof list);
    }
    for (size_t i = 0; i + 1 < l->count; i++)
        l->one_piece |= l->list[i] == PC && l->list[i + 1] == SYMBOL;
    for (unsigned i = 0; i < SMALL; i++) {
        char text[8] = "";
        text[7] = (char)snprintf(text, sizeof text, "%u%c", i, l->separator);
        l->small[i] = le64(text);
    }
    prepare_runs(l);
    return status;
}

void script_lines_free(struct script_lines *l)
{
    for (size_t i = 0; i < l->run_count; i++) {
        struct piece *pieces = l->runs[i].pieces;
        for (size_t n = 0; pieces && n < piece_count(l->runs[i].origin); n++)
            free(pieces[n].text);
        free(pieces);
    }
    out_fini(&l->scratch);
    out_fini(&l->built);
    free(l);
}
