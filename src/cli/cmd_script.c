/*
 * spex script: one record a line, as text, JSON lines or CSV; or, with --itrace,
 * the samples that perf would make of the records, in perf script's format.
 *
 * This command is judged by its speed. Most fields of a record follow from little: its thread,
 * its pc, its operation, its events. Fields next to each other that follow from the same are
 * one piece of text, made once and then copied; only addresses, times and latencies are
 * written for every record. Each field is followed by a separator, the last one becomes the
 * end of the line.
 */
#include "profile.h"

#include "base/bits.h"

#include <stdio.h>
#include <stdlib.h>

struct script_options {
    struct profile_options profile;
    const char *itrace;
    int style;
    uint64_t limit;
    bool full_path;
};

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
/* What a field follows from. */
enum origin { ITSELF, THREAD, CODE, OPERATION, MEMORY_LEVEL, EVENT_SET };

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
    [OP] = {"op", "", TEXT, true, true, OPERATION},
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
    [SOURCE] = {"source", "from ", TEXT, true, true, MEMORY_LEVEL},
    [EVENTS] = {"events", "", LIST, true, true, EVENT_SET},
    [EVENT_BITS] = {"event_bits", "ev ", HEX, false, true, EVENT_SET},
    [DATA_SOURCE] = {"data_source", "ds ", NUMBER, false, true, ITSELF},
    [CONTEXT1] = {"context_el1", "ctx1 ", NUMBER, false, true, ITSELF},
    [CONTEXT2] = {"context_el2", "ctx2 ", NUMBER, false, true, ITSELF},
    [OP_CLASS] = {"op_class", "class ", NUMBER, false, true, OPERATION},
    [OP_PAYLOAD] = {"op_payload", "payload ", NUMBER, false, true, OPERATION},
    [POSITION] = {"offset", "at ", NUMBER, false, true, ITSELF},
    [SIZE] = {"size", "bytes ", NUMBER, false, true, ITSELF},
};

enum { PIECE_BITS = 12, LINE_ROOM = 2048, NUMBER_ROOM = 128, PERF_EVENTS = 10, BLOCK = 64 };

/* Text of a run of fields, with a separator behind each; BLOCK bytes more, to copy in blocks. */
struct piece {
    uint64_t key[3];
    size_t size;
    char *text; /* NULL: not there */
};

/* Fields next to each other with one origin. */
struct run {
    const unsigned char *list;
    size_t count;
    enum origin origin;
    struct piece *pieces; /* 2^PIECE_BITS, two of each hash; NULL: of ITSELF */
};

struct script {
    struct profile *p;
    const struct script_options *options;
    unsigned char list[FIELD_COUNT];
    size_t count;
    struct run runs[FIELD_COUNT];
    size_t run_count;
    struct {
        char text[24];
        unsigned size;
    } before[FIELD_COUNT]; /* what stands before a number */
    char separator;
    bool one_piece;     /* text: pc and symbol stand together */
    struct out scratch; /* a piece in the making */
    uint64_t lines;
    /* itrace */
    bool letters[128];
    uint64_t period, seen;
    unsigned event_width; /* of the longest event name, as perf aligns them */
    struct {
        char text[700];
        unsigned size;
    } perf_events[PERF_EVENTS];
    struct {
        const char *comm;
        int32_t tid, cpu;
        unsigned size;
        char text[128];
    } thread;
};

/* ---- writing ---- */

static inline char *put_bytes(char *p, const char *text, size_t n)
{
    memcpy(p, text, n);
    return p + n;
}

static inline char *put_text(char *p, const char *text)
{
    return put_bytes(p, text, strlen(text));
}

static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

/* How many digits value has: about 0.301 for each bit, then looked at closely. */
static inline unsigned decimal_digits(uint64_t value)
{
    static const uint64_t powers[20] = {0,
                                        UINT64_C(10),
                                        UINT64_C(100),
                                        UINT64_C(1000),
                                        UINT64_C(10000),
                                        UINT64_C(100000),
                                        UINT64_C(1000000),
                                        UINT64_C(10000000),
                                        UINT64_C(100000000),
                                        UINT64_C(1000000000),
                                        UINT64_C(10000000000),
                                        UINT64_C(100000000000),
                                        UINT64_C(1000000000000),
                                        UINT64_C(10000000000000),
                                        UINT64_C(100000000000000),
                                        UINT64_C(1000000000000000),
                                        UINT64_C(10000000000000000),
                                        UINT64_C(100000000000000000),
                                        UINT64_C(1000000000000000000),
                                        UINT64_C(10000000000000000000)};
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1), guess = bits * 1233 >> 12;
    return guess + (value >= powers[guess]);
}

/* In place: what is written in small pieces must not be read in large ones soon. */
static inline char *put_u64(char *p, uint64_t value)
{
    char *end = p + decimal_digits(value);
    for (p = end; value >= 100; value /= 100)
        memcpy(p -= 2, pairs + 2 * (value % 100), 2);
    if (value >= 10)
        memcpy(p - 2, pairs + 2 * value, 2);
    else
        p[-1] = (char)('0' + value);
    return end;
}

static inline char *put_i64(char *p, int64_t value)
{
    if (value < 0)
        *p++ = '-';
    return put_u64(p, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static inline char *put_hex(char *p, uint64_t value)
{
    unsigned digits = (67 - (unsigned)__builtin_clzll(value | 1)) / 4;
    value <<= 64 - 4 * digits; /* the first digit first; what follows the last is overwritten */
    put_le64(p, hex_digits((uint32_t)(value >> 32)));
    put_le64(p + 8, hex_digits((uint32_t)value));
    return p + digits;
}

/* Right-aligned in width, at most 16. */
static inline char *put_padded(char *p, uint64_t value, unsigned width)
{
    unsigned digits = decimal_digits(value);
    memset(p, ' ', 16);
    return put_u64(digits < width ? p + width - digits : p, value);
}

/* Exactly digits places. */
static inline char *put_fixed(char *p, uint32_t value, unsigned digits)
{
    unsigned at = digits;
    for (; at >= 2; value /= 100) {
        at -= 2;
        memcpy(p + at, pairs + 2 * (value % 100), 2);
    }
    if (at)
        p[0] = (char)('0' + value % 10);
    return p + digits;
}

static inline char *put_cpu(char *p, int32_t cpu)
{
    *p++ = '[';
    p = cpu >= 0 && cpu < 1000 ? put_fixed(p, (uint32_t)cpu, 3) : put_i64(p, cpu);
    *p++ = ']';
    return p;
}

static char *put_comm(char *p, const char *comm)
{
    size_t n = strlen(comm);
    for (size_t pad = n; pad < 16; pad++)
        *p++ = ' ';
    for (size_t i = 0; i < n && i < 64; i++)
        *p++ = (unsigned char)comm[i] < 0x20 ? '?' : comm[i];
    return p;
}

/* ---- values ---- */

static inline bool number_of(const struct spex_sample *sample, enum field field,
                             uint64_t *value)
{
    const struct spex_record *r = sample->record;
    unsigned has = r->present;
    switch (field) {
    case EL:
        *value = sample->el;
        return has & SPEX_HAS_PC;
    case PC:
        *value = sample->pc;
        return has & SPEX_HAS_PC;
    case OFFSET:
        if (!sample->symbol)
            return false;
        *value = sample->address - sample->symbol->start;
        return true;
    case TIME:
        *value = sample->time;
        return has & SPEX_HAS_TIMESTAMP;
    case TARGET:
        *value = sample->target;
        return has & SPEX_HAS_TARGET;
    case PREV_TARGET:
        *value = sample->prev_target;
        return has & SPEX_HAS_PREV_TARGET;
    case VA:
        *value = sample->va;
        return has & SPEX_HAS_VA;
    case TAG:
        *value = r->address[SPEX_ADDRESS_VA] >> 56;
        return has & SPEX_HAS_VA;
    case PA:
        *value = sample->pa;
        return has & SPEX_HAS_PA;
    case TOTAL:
        *value = r->total;
        return has & SPEX_HAS_TOTAL;
    case ISSUE:
        *value = r->issue;
        return has & SPEX_HAS_ISSUE;
    case TRANSLATION:
        *value = r->translation;
        return has & SPEX_HAS_TRANSLATION;
    case ALT_ISSUE:
        *value = r->alt_issue;
        return has & SPEX_HAS_ALT_ISSUE;
    case EVENT_BITS:
        *value = r->events;
        return has & SPEX_HAS_EVENTS;
    case DATA_SOURCE:
        *value = r->data_source;
        return has & SPEX_HAS_DATA_SOURCE;
    case CONTEXT1:
        *value = r->context[0];
        return has & SPEX_HAS_CONTEXT_EL1;
    case CONTEXT2:
        *value = r->context[1];
        return has & SPEX_HAS_CONTEXT_EL2;
    case OP_CLASS:
        *value = r->op_class;
        return has & SPEX_HAS_OP;
    case OP_PAYLOAD:
        *value = r->op_payload;
        return has & SPEX_HAS_OP;
    case POSITION:
        *value = r->offset;
        return true;
    case SIZE:
        *value = r->size;
        return true;
    default:
        return false;
    }
}

static const char *security_of(const struct spex_sample *sample)
{
    /* {NSE, NS}: 0 Secure, 1 Non-secure, 2 Root, 3 Realm (D18.2.1) */
    static const char *const names[] = {"secure", "non-secure", "root", "realm"};
    uint64_t pc = sample->record->address[SPEX_ADDRESS_PC];
    return names[spex_address_nse(pc) << 1 | spex_address_ns(pc)];
}

/* Text of a field into buffer or a longer-lived string; NULL if absent. */
static const char *text_of(struct script *s, const struct spex_sample *sample, enum field field,
                           char buffer[512])
{
    const struct spex_record *r = sample->record;
    struct spex_place place;
    struct spex_line line;
    switch (field) {
    case COMM:
        return sample->comm;
    case OP:
        return r->present & SPEX_HAS_OP ? spex_sample_op_text(r->op_class, r->op_payload)
                                        : NULL;
    case SECURITY:
        return r->present & SPEX_HAS_PC ? security_of(sample) : NULL;
    case SYMBOL:
        return sample->symbol ? sample->symbol->name : NULL;
    case DSO:
        return !sample->module         ? NULL
               : s->options->full_path ? spex_module_path(sample->module)
                                       : spex_module_name(sample->module);
    case SRCLINE:
        if (!sample->module || !spex_module_line(sample->module, sample->address, &line))
            return NULL;
        snprintf(buffer, 512, "%s:%u", line.file, line.line);
        return buffer;
    case TARGET_SYMBOL:
    case DATA_SYMBOL:
        if (!(r->present & (field == DATA_SYMBOL ? SPEX_HAS_VA : SPEX_HAS_TARGET)))
            return NULL;
        spex_sample_locate(s->p->analysis, sample,
                           field == DATA_SYMBOL ? sample->va : sample->target, &place);
        if (!place.symbol || !place.symbol->name)
            return NULL;
        snprintf(buffer, 512, "%s+0x%llx", place.symbol->name,
                 (unsigned long long)(place.address - place.symbol->start));
        return buffer;
    case SOURCE:
        return sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)
                   ? spex_source_name(sample->source)
                   : NULL;
    default:
        return NULL;
    }
}

static bool integer_of(const struct spex_sample *sample, enum field field, int64_t *value)
{
    *value = field == PID ? sample->pid : field == TID ? sample->tid : sample->cpu;
    return (field == PID || field == TID || field == CPU) && *value >= 0;
}

/* ---- one field, whatever its kind: for pieces and for what is rare ---- */

/* Names from a file must not drive a terminal. */
static void plain_text(struct out *out, const char *text)
{
    for (; *text; text++)
        out_char(out, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void csv_text(struct out *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        out_text(out, text);
        return;
    }
    out_char(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            out_char(out, '"');
        out_char(out, *text);
    }
    out_char(out, '"');
}

/* "401104 walk+0x4 (prog)" */
static void code_text(struct script *s, struct out *out, const struct spex_sample *sample,
                      bool pc)
{
    const struct spex_symbol *symbol = sample->symbol;
    if (pc)
        out_printf(out, s->options->itrace ? "%16llx " : "%llx ",
                   (unsigned long long)sample->pc);
    if (symbol && symbol->name) {
        plain_text(out, symbol->name);
        out_text(out, "+0x");
        out_hex(out, sample->address - symbol->start);
    } else {
        out_text(out, "[unknown]");
    }
    out_text(out, " (");
    plain_text(out, !sample->module ? "[unknown]"
                    : s->options->itrace || s->options->full_path
                        ? spex_module_path(sample->module)
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

static void text_field(struct script *s, struct out *out, const struct spex_sample *sample,
                       enum field f)
{
    char buffer[512], *p = buffer;
    uint64_t value;
    const char *text;
    switch (f) {
    case COMM:
        p = put_comm(p, sample->comm);
        break;
    case PID:
    case TID: {
        int32_t id = f == PID ? sample->pid : sample->tid;
        p = id < 0 ? put_text(p, "     -1") : put_padded(p, (uint64_t)id, 7);
        break;
    }
    case CPU:
        p = put_cpu(p, sample->cpu);
        break;
    case TIME:
        p = put_text(p, "             -:"); /* those that have one are written elsewhere */
        break;
    case PC:
        if (s->one_piece)
            code_text(s, out, sample, true);
        else if (sample->record->present & SPEX_HAS_PC)
            p = put_hex(p, sample->pc);
        break;
    case SYMBOL: /* with the file; where the pc stands before, it is all there */
        if (!s->one_piece)
            code_text(s, out, sample, false);
        break;
    case DSO:
        break;
    case EVENTS:
        events_text(out, sample->record->events, false);
        break;
    default:
        if (number_of(sample, f, &value)) {
            p = put_text(p, fields[f].label);
            p = fields[f].kind == HEX ? put_hex(put_text(p, "0x"), value) : put_u64(p, value);
        } else if ((text = text_of(s, sample, f, buffer))) {
            out_text(out, fields[f].label);
            plain_text(out, text);
            out_text(out, f == OP ? ":" : "");
        }
    }
    out_bytes(out, buffer, (size_t)(p - buffer));
}

static void machine_field(struct script *s, struct out *out, const struct spex_sample *sample,
                          enum field f)
{
    bool json = s->p->options->format == TABLE_AS_JSON, hex = fields[f].kind == HEX;
    bool list = f == EVENTS && sample->record->present & SPEX_HAS_EVENTS;
    char buffer[512];
    uint64_t value = 0;
    int64_t integer = 0;
    const char *text = NULL;
    bool number = number_of(sample, f, &value), signed_number = integer_of(sample, f, &integer);
    if (!list && !number && !signed_number && !(text = text_of(s, sample, f, buffer)))
        return;
    out_bytes(out, s->before[f].text, s->before[f].size);
    if (list)
        events_text(out, sample->record->events, json);
    else if (number && hex)
        out_hex(out, value);
    else if (number)
        out_u64(out, value);
    else if (signed_number)
        out_i64(out, integer);
    else if (json)
        out_json_string(out, text);
    else
        csv_text(out, text);
    out_text(out, json && hex ? "\"" : "");
}

/* A run of fields, each with a separator behind it; an absent one has it in CSV only. */
static void render(struct script *s, const struct spex_sample *sample, const struct run *run)
{
    struct out *out = &s->scratch;
    out->size = 0;
    for (size_t i = 0; i < run->count; i++) {
        size_t before = out->size;
        if (s->p->options->format == TABLE_AS_TEXT)
            text_field(s, out, sample, run->list[i]);
        else
            machine_field(s, out, sample, run->list[i]);
        if (out->size > before || s->p->options->format == TABLE_AS_CSV)
            out_char(out, s->separator);
    }
    memset(out_room(out, BLOCK), 0, BLOCK);
}

/* ---- pieces ---- */

static const struct piece *find_piece(struct script *s, const struct run *run,
                                      const struct spex_sample *sample)
{
    const struct spex_record *r = sample->record;
    uint64_t key[3] = {0};
    switch (run->origin) {
    case THREAD:
        key[0] = (uintptr_t)sample->comm;
        key[1] = (uint64_t)(uint32_t)sample->pid << 32 | (uint32_t)sample->tid;
        key[2] = (uint32_t)sample->cpu;
        break;
    case CODE:
        key[0] = r->address[SPEX_ADDRESS_PC];
        key[1] = (uintptr_t)sample->module | (r->present & SPEX_HAS_PC);
        key[2] = sample->address;
        break;
    case OPERATION:
        key[0] = (uint64_t)(r->present & SPEX_HAS_OP) << 16 | (unsigned)r->op_class << 8 |
                 r->op_payload;
        break;
    case MEMORY_LEVEL:
        key[0] =
            sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES) ? sample->source + 1u : 0;
        break;
    case EVENT_SET:
        key[0] = r->events;
        key[1] = r->present & SPEX_HAS_EVENTS;
        break;
    case ITSELF:
        break;
    }
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = ((key[0] * odd ^ key[1]) * odd ^ key[2]) * odd;
    struct piece *pair = &run->pieces[hash >> (64 - PIECE_BITS) & ~UINT64_C(1)];
    for (unsigned i = 0; i < 2; i++)
        if (__builtin_expect(pair[i].text && pair[i].key[0] == key[0] &&
                                 pair[i].key[1] == key[1] && pair[i].key[2] == key[2],
                             1))
            return &pair[i];
    render(s, sample, run);
    free(pair[1].text);
    pair[1] = pair[0];
    *pair = (struct piece){.key = {key[0], key[1], key[2]},
                           .size = s->scratch.size,
                           .text = malloc(s->scratch.size + BLOCK)};
    if (!pair->text)
        abort();
    memcpy(pair->text, s->scratch.data, s->scratch.size + BLOCK);
    return pair;
}

/* ---- lines ---- */

/* Room for the rest of the line that ends at p; its last byte, a separator, goes along. */
static char *more_room(struct out *out, char *p, char **end)
{
    char last = p[-1];
    out->size = (size_t)(p - 1 - out->data);
    p = out_room(out, LINE_ROOM);
    *end = p + LINE_ROOM;
    *p++ = last;
    return p;
}

static inline char *put_piece(struct out *out, char *p, char **end, const char *text,
                              size_t size)
{
    if (__builtin_expect((size_t)(*end - p) < size + NUMBER_ROOM, 0)) {
        out->size = (size_t)(p - out->data);
        out_bytes(out, text, size);
        return more_room(out, out->data + out->size, end);
    }
    for (size_t i = 0; i < size; i += BLOCK)
        memcpy(p + i, text + i, BLOCK);
    return p + size;
}

static inline char *put_number(const struct script *s, char *p, enum field f, uint64_t value,
                               int format)
{
    if (format == TABLE_AS_TEXT && f == TIME) {
        p = put_padded(p, value / 1000000000, 5);
        *p++ = '.';
        p = put_fixed(p, (uint32_t)(value % 1000000000), 9);
        *p++ = ':';
    } else {
        memcpy(p, s->before[f].text, sizeof s->before[f].text);
        p += s->before[f].size;
        p = fields[f].kind == HEX ? put_hex(p, value) : put_u64(p, value);
        if (format == TABLE_AS_JSON && fields[f].kind == HEX)
            *p++ = '"';
    }
    *p++ = s->separator;
    return p;
}

static inline __attribute__((always_inline)) void
put_line(struct script *s, const struct spex_sample *sample, int format)
{
    struct out *out = &s->p->out;
    char *start = out_room(out, LINE_ROOM), *end = start + LINE_ROOM, *p = start;
    bool any = false;
    if (format == TABLE_AS_JSON)
        *p++ = '{';
    for (size_t i = 0; i < s->run_count; i++) {
        const struct run *run = &s->runs[i];
        enum field f = run->list[0];
        uint64_t value;
        if (run->pieces) {
            const struct piece *piece = find_piece(s, run, sample);
            any |= piece->size > 0;
            if (piece->size)
                p = put_piece(out, p, &end, piece->text, piece->size);
        } else if (number_of(sample, f, &value)) {
            any = true;
            if (__builtin_expect(end - p < NUMBER_ROOM, 0))
                p = more_room(out, p, &end);
            p = put_number(s, p, f, value, format);
        } else if (fields[f].kind == TEXT || (format == TABLE_AS_TEXT && f == TIME)) {
            render(s, sample, run);
            any |= s->scratch.size > 0;
            if (s->scratch.size)
                p = put_piece(out, p, &end, s->scratch.data, s->scratch.size);
        } else if (format == TABLE_AS_CSV) {
            any = true;
            *p++ = ',';
        }
    }
    if (any)
        p--; /* the separator */
    if (format == TABLE_AS_JSON)
        *p++ = '}';
    *p++ = '\n';
    out->size = (size_t)(p - out->data);
}

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct script *s = context;
    int format = s->p->options->format;
    if (s->options->limit && count > s->options->limit - s->lines)
        count = s->options->limit - s->lines;
    s->lines += count;
    if (format == TABLE_AS_TEXT)
        for (size_t i = 0; i < count; i++)
            put_line(s, &samples[i], TABLE_AS_TEXT);
    else if (format == TABLE_AS_JSON)
        for (size_t i = 0; i < count; i++)
            put_line(s, &samples[i], TABLE_AS_JSON);
    else
        for (size_t i = 0; i < count; i++)
            put_line(s, &samples[i], TABLE_AS_CSV);
}

/* ---- perf's synthesized samples (docs/schema.md names the letters) ---- */

/* "            prog   100 [000] ": mostly the same as in the line before. */
static char *put_thread(struct script *s, const struct spex_sample *sample, char *p)
{
    if (s->thread.comm != sample->comm || s->thread.tid != sample->tid ||
        s->thread.cpu != sample->cpu) {
        char *q = put_comm(s->thread.text, sample->comm);
        *q++ = ' ';
        q = sample->tid < 0 ? put_text(q, "   -1") : put_padded(q, (uint64_t)sample->tid, 5);
        *q++ = ' ';
        q = put_cpu(q, sample->cpu);
        *q++ = ' ';
        s->thread.size = (unsigned)(q - s->thread.text);
        s->thread.comm = sample->comm;
        s->thread.tid = sample->tid;
        s->thread.cpu = sample->cpu;
    }
    return put_bytes(p, s->thread.text, s->thread.size);
}

static void perf_line(struct script *s, const struct spex_sample *sample, unsigned event)
{
    struct out *out = &s->p->out;
    const struct piece *piece = find_piece(s, &s->runs[0], sample);
    char *p = out_room(out, LINE_ROOM), *end = p + LINE_ROOM;
    s->lines++;
    p = put_thread(s, sample, p);
    p = put_padded(p, sample->time / 1000000000, 5);
    *p++ = '.';
    p = put_fixed(p, (uint32_t)(sample->time % 1000000000) / 1000, 6);
    p = put_bytes(p, s->perf_events[event].text, s->perf_events[event].size);
    p = put_piece(out, p, &end, piece->text, piece->size);
    p[-1] = '\n';
    out->size = (size_t)(p - out->data);
}

/* In the order in which perf emits them for one record. */
enum {
    L1D_MISS,
    L1D_ACCESS,
    LLC_MISS,
    LLC_ACCESS,
    TLB_MISS,
    TLB_ACCESS,
    BRANCH,
    REMOTE,
    MEMORY,
    INSTRUCTIONS,
    PERF_EVENTS_END
};
_Static_assert((int)PERF_EVENTS_END == (int)PERF_EVENTS, "one text per event");
static const struct {
    char letter;
    uint8_t bit; /* of the Events packet, for those that are one */
    const char *name;
} perf_events[PERF_EVENTS] = {
    [L1D_MISS] = {'f', SPEX_EV_L1D_MISS, "l1d-miss"},
    [L1D_ACCESS] = {'f', SPEX_EV_L1D_ACCESS, "l1d-access"},
    [LLC_MISS] = {'m', SPEX_EV_LLC_MISS, "llc-miss"},
    [LLC_ACCESS] = {'m', SPEX_EV_LLC_ACCESS, "llc-access"},
    [TLB_MISS] = {'t', SPEX_EV_TLB_WALK, "tlb-miss"},
    [TLB_ACCESS] = {'t', SPEX_EV_TLB_ACCESS, "tlb-access"},
    [BRANCH] = {'b', 0, "branch"},
    [REMOTE] = {'a', SPEX_EV_REMOTE, "remote-access"},
    [MEMORY] = {'M', 0, "memory"},
    [INSTRUCTIONS] = {'i', 0, "instructions"},
};

/* ": period event:" as perf pads it. */
static void name_events(struct script *s)
{
    for (unsigned i = 0; i < PERF_EVENTS; i++) {
        /* 6.1 makes an event of mispredicted branches only; later ones of every branch */
        const char *name =
            i == BRANCH && s->options->style == 0 ? "branch-miss" : perf_events[i].name;
        s->perf_events[i].size = (unsigned)snprintf(
            s->perf_events[i].text, sizeof s->perf_events[i].text,
            ": %10llu %*s:  ", (unsigned long long)s->period, (int)s->event_width, name);
    }
}

static void itrace_feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct script *s = context;
    bool old = s->options->style == 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *sample = &samples[i];
        uint64_t e = sample->record->events;
        if (s->options->limit && s->lines >= s->options->limit)
            return;
        for (unsigned event = L1D_MISS; event <= TLB_ACCESS; event++)
            if (s->letters[(unsigned)perf_events[event].letter] &&
                e >> perf_events[event].bit & 1)
                perf_line(s, sample, event);
        if (s->letters['b'] &&
            (old ? e >> SPEX_EV_MISPREDICT & 1 : sample->op == SPEX_SAMPLE_BRANCH))
            perf_line(s, sample, BRANCH);
        if (s->letters['a'] && e >> SPEX_EV_REMOTE & 1)
            perf_line(s, sample, REMOTE);
        if (s->letters['M'] && sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES))
            perf_line(s, sample, MEMORY);
        if (s->letters['i'] && ++s->seen >= s->period) {
            s->seen = 0;
            perf_line(s, sample, INSTRUCTIONS);
        }
    }
}

static int parse_itrace(struct script *s, const char *text)
{
    s->period = 1;
    for (const char *p = text; *p; p++) {
        if (!strchr("fMtbami", *p))
            return cli_usage("--itrace: '%c' is none of f (L1D), m (LLC), t (TLB), b (branch), "
                             "a (remote), M (memory), i (instructions, i100i every 100th)",
                             *p);
        s->letters[(unsigned)*p] = true;
        if (*p == 'i' && p[1] >= '0' && p[1] <= '9') {
            char *end;
            s->period = strtoull(p + 1, &end, 10);
            if (!s->period || *end != 'i')
                return cli_usage("--itrace: '%s' has no period such as i100i", p);
            p = end;
        }
    }
    return CLI_OK;
}

static int choose_fields(struct script *s)
{
    const char *list = s->p->options->fields;
    bool text = s->p->options->format == TABLE_AS_TEXT, add = list && *list == '+';
    if (!list || add)
        for (unsigned f = 0; f < FIELD_COUNT; f++)
            if (text ? fields[f].text : fields[f].machine)
                s->list[s->count++] = (unsigned char)f;
    for (const char *p = list ? list + add : ""; *p;) {
        static const struct {
            const char *alias;
            enum field field;
        } aliases[] = {{"ip", PC},        {"sym", SYMBOL},   {"addr", VA},
                       {"phys_addr", PA}, {"weight", TOTAL}, {"event", EVENTS}};
        size_t n = strcspn(p, ",");
        unsigned f = 0;
        while (f < FIELD_COUNT &&
               (strlen(fields[f].name) != n || strncmp(fields[f].name, p, n)))
            f++;
        for (size_t i = 0; f == FIELD_COUNT && i < sizeof aliases / sizeof *aliases; i++)
            if (strlen(aliases[i].alias) == n && !strncmp(aliases[i].alias, p, n)) {
                f = aliases[i].field;
                break;
            }
        if (f == FIELD_COUNT) {
            char names[600] = "";
            for (unsigned i = 0; i < FIELD_COUNT; i++)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                         i ? ", " : "", fields[i].name);
            return cli_usage("--fields: '%.*s' is not one of %s", (int)n, p, names);
        }
        if (s->count < FIELD_COUNT)
            s->list[s->count++] = (unsigned char)f;
        p += n + (p[n] == ',');
    }
    return CLI_OK;
}

/* Fields with one origin that stand next to each other are one piece. */
static void prepare_runs(struct script *s)
{
    int format = s->p->options->format;
    s->separator = format == TABLE_AS_TEXT ? ' ' : ',';
    out_init(&s->scratch, -1);
    if (s->options->itrace) { /* only the pc, the rest of a line is perf's */
        s->list[0] = PC;
        s->list[1] = SYMBOL;
        s->count = 2;
    }
    for (size_t i = 0; i + 1 < s->count; i++)
        s->one_piece |= s->list[i] == PC && s->list[i + 1] == SYMBOL;
    for (size_t i = 0; i < s->count; i++) {
        enum field f = s->list[i];
        enum origin origin = fields[f].origin;
        bool hex = fields[f].kind == HEX;
        bool json = format == TABLE_AS_JSON;
        s->before[f].size = (unsigned)snprintf(s->before[f].text, sizeof s->before[f].text,
                                               "%s%s%s%s", json ? "\"" : "",
                                               json                      ? fields[f].name
                                               : format == TABLE_AS_TEXT ? fields[f].label
                                                                         : "",
                                               json ? "\":" : "",
                                               !hex   ? ""
                                               : json ? "\"0x"
                                                      : "0x");
        struct run *last = s->run_count ? &s->runs[s->run_count - 1] : NULL;
        if (last && last->origin == origin && origin != ITSELF) {
            last->count++;
            continue;
        }
        struct run *run = &s->runs[s->run_count++];
        *run = (struct run){.list = &s->list[i], .count = 1, .origin = origin};
        if (origin != ITSELF &&
            !(run->pieces = calloc((size_t)1 << PIECE_BITS, sizeof *run->pieces)))
            abort();
    }
}

static int run_script(void *options, int argc, char **argv)
{
    const struct script_options *o = options;
    struct profile p;
    static struct script s; /* large; the process runs one command */
    s = (struct script){.p = &p, .options = o};
    if (argc > 1)
        return cli_usage("too many operands");
    if (o->itrace && o->profile.format != TABLE_AS_TEXT)
        return cli_usage("--itrace prints text only");
    int status = o->itrace ? parse_itrace(&s, o->itrace) : CLI_OK;
    if (status)
        return status;
    /* perf's lines have no addresses of data and targets */
    struct spex_analysis_options more = {
        .ordered = true, .want = o->itrace ? SPEX_WANT_TIME | SPEX_WANT_SYMBOL : 0};
    if ((status = profile_open(&p, &o->profile, argv[0], &more)))
        return status;
    const struct spex_perfdata *file = spex_analysis_file(p.analysis);
    for (size_t i = 0; file && i < spex_perfdata_attr_count(file); i++) {
        size_t n = strlen(spex_perfdata_attr(file, i)->name);
        if (n > s.event_width && n < 500)
            s.event_width = (unsigned)n;
    }
    p.status = choose_fields(&s);
    name_events(&s);
    prepare_runs(&s);
    if (!p.status) {
        if (o->profile.format == TABLE_AS_CSV) {
            for (size_t i = 0; i < s.count; i++)
                out_printf(&p.out, "%s%s", i ? "," : "", fields[s.list[i]].name);
            out_char(&p.out, '\n');
        }
        p.status = profile_run(&p, o->itrace ? itrace_feed : feed, &s);
        if (!p.status && !s.lines)
            profile_empty(&p, 0, "make an event that --itrace asks for");
    }
    for (size_t i = 0; i < s.run_count; i++) {
        for (size_t n = 0; s.runs[i].pieces && n < (size_t)1 << PIECE_BITS; n++)
            free(s.runs[i].pieces[n].text);
        free(s.runs[i].pieces);
    }
    out_fini(&s.scratch);
    return profile_close(&p);
}

static const char *const styles[] = {"perf", "perf-7", NULL};

static const struct cli_option script_options[] = {
    PROFILE_INPUT_OPTIONS(struct script_options),
    {"fields", 'F', CLI_STRING, PROFILE_AT(struct script_options, fields), "LIST",
     "fields to print, in order; +LIST adds to the usual ones (docs/schema.md)", NULL, NULL},
    {"limit", 'n', CLI_NUMBER, offsetof(struct script_options, limit), "N",
     "stop after N lines", NULL, NULL},
    {"full-path", 0, CLI_FLAG, offsetof(struct script_options, full_path), NULL,
     "print whole paths of files", NULL, NULL},
    {"itrace", 0, CLI_STRING, offsetof(struct script_options, itrace), "LETTERS",
     "print the samples perf makes of the records, as perf script prints them: f L1D, m LLC, t "
     "TLB, b branch, a remote, M memory, i instructions",
     NULL, NULL},
    {"style", 0, CLI_CHOICE, offsetof(struct script_options, style), "STYLE",
     "with --itrace: perf (6.1) or perf-7", "perf", styles},
#define FILTER(option, member, kind, value, help)                                              \
    {option, 0, CLI_STRING, PROFILE_AT(struct script_options, filter.member), value, help, NULL, NULL},
#include <spex/filters.def>
    PROFILE_SYMBOL_OPTIONS(struct script_options),
    {0},
};

extern const struct cli_command cli_script;
const struct cli_command cli_script = {
    .name = "script",
    .group = "Reading profiles",
    .synopsis = "[FILE]",
    .summary = "one record a line: text, JSON lines or CSV",
    .details = "Records of all CPUs in order of time. Fields are described in docs/schema.md.",
    .options = script_options,
    .size = sizeof(struct script_options),
    .run = run_script,
};
