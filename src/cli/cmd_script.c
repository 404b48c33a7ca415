/*
 * spex script: one record a line, as text, JSON lines or CSV; or, with --itrace,
 * the samples that perf would make of the records, in perf script's format.
 *
 * Lines are built in place with the base output functions: this command is
 * judged by its speed. Texts that repeat (symbols, event lists) are cached.
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

/* label: what stands before the value in text; standard: shown unless -F says otherwise. */
static const struct {
    const char *name, *label;
    enum kind kind;
    bool text, machine; /* among the standard fields of text; of JSON and CSV */
} fields[FIELD_COUNT] = {
    [COMM] = {"comm", "", TEXT, true, true},
    [PID] = {"pid", "", NUMBER, false, true},
    [TID] = {"tid", "", NUMBER, true, true},
    [CPU] = {"cpu", "", NUMBER, true, true},
    [TIME] = {"time", "", NUMBER, true, true},
    [OP] = {"op", "", TEXT, true, true},
    [EL] = {"el", "el", NUMBER, false, true},
    [SECURITY] = {"security", "", TEXT, false, true},
    [PC] = {"pc", "", HEX, true, true},
    [SYMBOL] = {"symbol", "", TEXT, true, true},
    [OFFSET] = {"symbol_offset", "+", HEX, false, true},
    [DSO] = {"dso", "", TEXT, true, true},
    [SRCLINE] = {"srcline", "", TEXT, false, false},
    [TARGET] = {"target", "target ", HEX, true, true},
    [TARGET_SYMBOL] = {"target_symbol", "", TEXT, false, false},
    [PREV_TARGET] = {"prev_target", "prev ", HEX, true, true},
    [VA] = {"va", "va ", HEX, true, true},
    [TAG] = {"va_tag", "tag ", HEX, false, true},
    [DATA_SYMBOL] = {"data_symbol", "", TEXT, false, false},
    [PA] = {"pa", "pa ", HEX, true, true},
    [TOTAL] = {"latency", "lat ", NUMBER, true, true},
    [ISSUE] = {"issue", "issue ", NUMBER, true, true},
    [TRANSLATION] = {"translation", "xlat ", NUMBER, true, true},
    [ALT_ISSUE] = {"alt_issue", "alt ", NUMBER, false, true},
    [SOURCE] = {"source", "from ", TEXT, true, true},
    [EVENTS] = {"events", "", LIST, true, true},
    [EVENT_BITS] = {"event_bits", "ev ", HEX, false, true},
    [DATA_SOURCE] = {"data_source", "ds ", NUMBER, false, true},
    [CONTEXT1] = {"context_el1", "ctx1 ", NUMBER, false, true},
    [CONTEXT2] = {"context_el2", "ctx2 ", NUMBER, false, true},
    [OP_CLASS] = {"op_class", "class ", NUMBER, false, true},
    [OP_PAYLOAD] = {"op_payload", "payload ", NUMBER, false, true},
    [POSITION] = {"offset", "at ", NUMBER, false, true},
    [SIZE] = {"size", "bytes ", NUMBER, false, true},
};

enum { SYMBOLS = 4096, EVENTS_CACHE = 1024, LINE_ROOM = 2048, PERF_EVENTS = 10 };

/* Text that a record's field shares with many others. */
struct piece {
    uint64_t key[2];
    unsigned size; /* 0: not there */
    char *text;
};

struct script {
    struct profile *p;
    const struct script_options *options;
    unsigned char list[FIELD_COUNT];
    struct {
        char text[24]; /* "name": */
        unsigned size;
    } names[FIELD_COUNT];
    struct {
        char text[120]; /* "branch cond:" */
        unsigned size;
    } ops[4 * 256], sources[SPEX_SOURCE_COUNT];
    unsigned label[FIELD_COUNT]; /* length of the label */
    size_t count;
    uint64_t lines;
    bool one_piece;        /* text: pc and symbol stand together */
    struct piece *symbols; /* "401104 walk+0x4 (prog)" by module and address, pc in front */
    struct piece *events;
    /* itrace */
    bool letters[128];
    uint64_t period, seen;
    unsigned event_width; /* of the longest event name, as perf aligns them */
    struct piece perf_events[PERF_EVENTS];
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

static inline char *put_u64(char *p, uint64_t value)
{
    char digits[20];
    unsigned at = sizeof digits;
    while (value >= 100) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + 2 * value, 2);
    } else {
        digits[--at] = (char)('0' + value);
    }
    return put_bytes(p, digits + at, sizeof digits - at);
}

static inline char *put_i64(char *p, int64_t value)
{
    if (value < 0)
        *p++ = '-';
    return put_u64(p, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static inline char *put_hex(char *p, uint64_t value)
{
    unsigned digits = value ? (67 - (unsigned)__builtin_clzll(value)) / 4 : 1;
    for (unsigned i = digits; i--; value >>= 4)
        p[i] = "0123456789abcdef"[value & 15];
    return p + digits;
}

/* Right-aligned in width. */
static inline char *put_padded(char *p, uint64_t value, unsigned width)
{
    char digits[24];
    size_t n = (size_t)(put_u64(digits, value) - digits);
    for (; n < width; width--)
        *p++ = ' ';
    return put_bytes(p, digits, n);
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

/* ---- cached pieces ---- */

static void set_piece(struct piece *piece, uint64_t key0, uint64_t key1, const char *text,
                      int size)
{
    free(piece->text);
    piece->text = malloc((size_t)size + 1);
    if (!piece->text)
        abort();
    for (int i = 0; i < size; i++) /* names from a file must not drive a terminal */
        piece->text[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    piece->size = (unsigned)size;
    piece->key[0] = key0;
    piece->key[1] = key1;
}

static const struct piece *symbol_piece(struct script *s, const struct spex_sample *sample)
{
    uint64_t module = (uintptr_t)sample->module;
    uint64_t hash =
        (sample->address ^ module ^ sample->pc << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct piece *piece = &s->symbols[hash >> 52];
    if (piece->size && piece->key[0] == sample->pc && piece->key[1] == module)
        return piece;
    const struct spex_symbol *symbol = sample->symbol;
    const char *dso = !sample->module ? "[unknown]"
                      : s->options->itrace || s->options->full_path
                          ? spex_module_path(sample->module)
                          : spex_module_name(sample->module);
    char *text;
    int n = symbol && symbol->name
                ? asprintf(&text,
                           s->options->itrace ? "%16llx %s+0x%llx (%s)" : "%llx %s+0x%llx (%s)",
                           (unsigned long long)sample->pc, symbol->name,
                           (unsigned long long)(sample->address - symbol->start), dso)
                : asprintf(&text,
                           s->options->itrace ? "%16llx [unknown] (%s)" : "%llx [unknown] (%s)",
                           (unsigned long long)sample->pc, dso);
    if (n < 0)
        abort();
    set_piece(piece, sample->pc, module, text, n);
    free(text);
    return piece;
}

/* "l1d-access|tlb-access", or in JSON ["l1d-access","tlb-access"] */
static const struct piece *events_piece(struct script *s, uint64_t bits)
{
    struct piece *piece = &s->events[(bits * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
    if (piece->size && piece->key[0] == bits)
        return piece;
    bool json = s->p->options->format == TABLE_AS_JSON;
    char text[1200] = "";
    int n = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        char number[16];
        if (!(bits >> bit & 1))
            continue;
        const char *name = spex_event_name(bit);
        snprintf(number, sizeof number, "event%u", bit);
        n += snprintf(text + n, sizeof text - (size_t)n, json ? "%s\"%s\"" : "%s%s",
                      n == 0 ? json ? "[" : ""
                      : json ? ","
                             : "|",
                      name ? name : number);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "%s",
                  !json ? n ? "" : "-"
                  : n   ? "]"
                        : "[]");
    set_piece(piece, bits, 0, text, n);
    return piece;
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

/* ---- text ---- */

/* A field of at most a few hundred bytes at p; what is longer goes through out. */
static char *text_field(struct script *s, const struct spex_sample *sample, enum field f,
                        char *p)
{
    char buffer[512];
    uint64_t value;
    const char *text;
    switch (f) {
    case COMM:
        return put_comm(p, sample->comm);
    case PID:
    case TID: {
        int32_t id = f == PID ? sample->pid : sample->tid;
        return id < 0 ? put_text(p, "     -1") : put_padded(p, (uint64_t)id, 7);
    }
    case CPU:
        return put_cpu(p, sample->cpu);
    case TIME:
        if (!(sample->flags & SPEX_SAMPLE_TIMED))
            return put_text(p, "             -:");
        p = put_padded(p, sample->time / 1000000000, 5);
        *p++ = '.';
        p = put_fixed(p, (uint32_t)(sample->time % 1000000000), 9);
        *p++ = ':';
        return p;
    case OP: {
        const struct spex_record *r = sample->record;
        unsigned op = (r->op_class & 3u) << 8 | r->op_payload;
        if (!(r->present & SPEX_HAS_OP))
            return p;
        if (!s->ops[op].size)
            s->ops[op].size =
                (unsigned)snprintf(s->ops[op].text, sizeof s->ops[op].text,
                                   "%s:", spex_sample_op_text(r->op_class, r->op_payload));
        return put_bytes(p, s->ops[op].text, s->ops[op].size);
    }
    case SOURCE:
        if (!(sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)))
            return p;
        return put_bytes(p, s->sources[sample->source].text, s->sources[sample->source].size);
    default:
        break;
    }
    if (number_of(sample, f, &value)) {
        p = put_bytes(p, fields[f].label, s->label[f]);
        if (fields[f].kind != HEX)
            return put_u64(p, value);
        if (f != PC)
            p = put_bytes(p, "0x", 2);
        return put_hex(p, value);
    }
    if ((text = text_of(s, sample, f, buffer))) {
        p = put_bytes(p, fields[f].label, s->label[f]);
        for (unsigned i = 0; text[i] && i < 500; i++)
            *p++ = (unsigned char)text[i] < 0x20 ? '?' : text[i];
    }
    return p;
}

static void text_line(struct script *s, const struct spex_sample *sample)
{
    struct out *out = &s->p->out;
    char *p = out_room(out, LINE_ROOM), *end = p + LINE_ROOM - 700;
    for (size_t i = 0; i < s->count; i++) {
        enum field f = s->list[i];
        const struct piece *piece = NULL;
        if (f == SYMBOL || f == DSO) {
            /* pc, symbol, offset and file are one piece, printed in place of the pc */
            if (!s->one_piece)
                piece = symbol_piece(s, sample);
            if (f == DSO || !piece)
                continue;
        } else if (f == PC && s->one_piece) {
            piece = symbol_piece(s, sample);
        } else if (f == EVENTS) {
            piece = events_piece(s, sample->record->events);
        }
        char *before = p;
        if (p > end ||
            (piece && piece->size > 1000)) { /* a long name: no room in the line's buffer */
            out->size = (size_t)(p - out->data);
            if (piece)
                out_bytes(out, piece->text, piece->size);
            before = p = out_room(out, LINE_ROOM);
            end = p + LINE_ROOM - 700;
            if (piece) {
                *p++ = ' ';
                continue;
            }
        }
        if (piece) {
            const char *text = piece->text;
            size_t n = piece->size;
            if (f == SYMBOL) { /* without the pc */
                const char *blank = memchr(text, ' ', n);
                n -= (size_t)(blank + 1 - text);
                text = blank + 1;
            }
            p = put_bytes(p, text, n);
        } else {
            p = text_field(s, sample, f, p);
        }
        if (p != before)
            *p++ = ' ';
    }
    if (p > out->data && p[-1] == ' ')
        p--;
    *p++ = '\n';
    out->size = (size_t)(p - out->data);
}

/* ---- JSON lines, CSV ---- */

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

static void machine_line(struct script *s, const struct spex_sample *sample, bool json)
{
    struct out *out = &s->p->out;
    bool first = true;
    char *p = out_room(out, LINE_ROOM);
    if (json)
        *p++ = '{';
    for (size_t i = 0; i < s->count; i++) {
        enum field f = s->list[i];
        char buffer[512];
        uint64_t value = 0;
        int64_t integer = 0;
        const char *text = NULL;
        bool list = fields[f].kind == LIST && sample->record->present & SPEX_HAS_EVENTS;
        bool number =
            !list && (number_of(sample, f, &value) || integer_of(sample, f, &integer));
        if (!list && !number)
            text = text_of(s, sample, f, buffer);
        if (!json && i)
            *p++ = ',';
        if (!list && !number && !text)
            continue;
        if (json) {
            if (!first)
                *p++ = ',';
            first = false;
            p = put_bytes(p, s->names[f].text, s->names[f].size);
        }
        if (list || text) { /* of any length: not in the line's room */
            out->size = (size_t)(p - out->data);
            if (list) {
                const struct piece *piece = events_piece(s, sample->record->events);
                out_bytes(out, piece->text, piece->size);
            } else if (json) {
                out_json_string(out, text);
            } else {
                csv_text(out, text);
            }
            p = out_room(out, LINE_ROOM);
        } else if (fields[f].kind == HEX) {
            p = put_text(p, json ? "\"0x" : "0x");
            p = put_hex(p, value);
            if (json)
                *p++ = '"';
        } else if (f == PID || f == TID || f == CPU) {
            p = put_i64(p, integer);
        } else {
            p = put_u64(p, value);
        }
    }
    if (json)
        *p++ = '}';
    *p++ = '\n';
    out->size = (size_t)(p - out->data);
}

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct script *s = context;
    int format = s->p->options->format;
    for (size_t i = 0; i < count; i++) {
        if (s->options->limit && s->lines == s->options->limit)
            return;
        s->lines++;
        if (format == TABLE_AS_TEXT)
            text_line(s, &samples[i]);
        else
            machine_line(s, &samples[i], format == TABLE_AS_JSON);
    }
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
    const struct piece *name = &s->perf_events[event], *piece = symbol_piece(s, sample);
    char *p = out_room(out, LINE_ROOM);
    s->lines++;
    p = put_thread(s, sample, p);
    p = put_padded(p, sample->time / 1000000000, 5);
    *p++ = '.';
    p = put_fixed(p, (uint32_t)(sample->time % 1000000000) / 1000, 6);
    p = put_bytes(p, name->text, name->size);
    if (piece->size < LINE_ROOM - 1000) {
        p = put_bytes(p, piece->text, piece->size);
    } else {
        out->size = (size_t)(p - out->data);
        out_bytes(out, piece->text, piece->size);
        p = out_room(out, LINE_ROOM);
    }
    *p++ = '\n';
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
        char text[700];
        /* 6.1 makes an event of mispredicted branches only; later ones of every branch */
        const char *name =
            i == BRANCH && s->options->style == 0 ? "branch-miss" : perf_events[i].name;
        int n = snprintf(text, sizeof text, ": %10llu %*s:  ", (unsigned long long)s->period,
                         (int)s->event_width, name);
        set_piece(&s->perf_events[i], 0, 0, text, n);
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
    s.symbols = calloc(SYMBOLS, sizeof *s.symbols);
    s.events = calloc(EVENTS_CACHE, sizeof *s.events);
    if (!s.symbols || !s.events)
        abort();
    p.status = choose_fields(&s);
    name_events(&s);
    for (unsigned i = 0; i < SPEX_SOURCE_COUNT; i++)
        s.sources[i].size = (unsigned)snprintf(s.sources[i].text, sizeof s.sources[i].text,
                                               "from %s", spex_source_name(i));
    for (size_t i = 0; i < FIELD_COUNT; i++)
        s.label[i] = (unsigned)strlen(fields[i].label);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        s.names[i].size = (unsigned)snprintf(s.names[i].text, sizeof s.names[i].text,
                                             "\"%s\":", fields[i].name);
    for (size_t i = 0; i + 1 < s.count; i++)
        s.one_piece |= s.list[i] == PC && s.list[i + 1] == SYMBOL;
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
    for (size_t i = 0; i < SYMBOLS; i++)
        free(s.symbols[i].text);
    for (size_t i = 0; i < EVENTS_CACHE; i++)
        free(s.events[i].text);
    for (size_t i = 0; i < PERF_EVENTS; i++)
        free(s.perf_events[i].text);
    free(s.symbols);
    free(s.events);
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
