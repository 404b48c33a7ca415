/*
 * Most fields of a record depend on only one thing: its thread, its instruction or its events.
 * Neighbouring fields that depend on the same thing form a piece of text, made once and then
 * copied; only addresses, times and latencies are written for every record. A plan, made once for
 * each set of packets, says what to write, so that no time is spent on checking whether each record
 * has each field. Each field is followed by a separator; the last separator becomes the end of the
 * line.
 */
#include "script_lines.h"

#include "script_fields.h"

#include <spex/stacks.h>
#include "base/digits.h"
#include "base/memory.h"
#include "cli/perf_words.h"
#include "export/values.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIELD_COUNT = EXPORT_COLUMNS };

enum {
    SMALL = 1000, /* smaller numbers have their text in a table */
    PLAN_BITS = 8,
    PIECE_BITS = 12,
    BEFORE = 16,
    STEP_ROOM = BEFORE + 24, /* the most that a step writes, without pieces */
    LINE_ROOM = OUT_ROOM,
    PIECES_ROOM = LINE_ROOM - (FIELD_COUNT + 4) * STEP_ROOM, /* saturated takes more than one */
};
_Static_assert(PIECES_ROOM > 1024, "most lines need room once");
_Static_assert(2 * STEP_ROOM > SCRIPT_BLOCK, "a piece may be copied up to its limit");

enum { AT_END = 1u << 17 /* a counter may be saturated */ };

/*
 * Text for a run of fields, with a separator after each; followed by SCRIPT_BLOCK readable bytes.
 */
struct piece {
    uint64_t key[EXPORT_KEY]; /* 0: none */
    size_t size;
    char *text;
};

/* Adjacent fields with the same origin. */
struct run {
    const unsigned char *list;
    size_t count;
    enum export_from origin;
    struct piece *pieces; /* piece_count of them, in pairs by key_of; NULL for EXPORT_FROM_ITSELF */
};

/* Constant text, followed by a number, a piece, or nothing. */
struct step {
    enum step_kind {
        END,
        NOTHING,
        DECIMAL,
        PLAIN_DECIMAL, /* without a prefix */
        COUNTER,       /* text: with ">=" before a saturated one */
        SATURATION,    /* JSON and CSV: which counters are saturated */
        HEXADECIMAL,
        SECONDS,
        THREAD_PIECE,
        CODE_PIECE,
        OUTCOME_PIECE,
        NEW_PIECE
    } kind;
    uint8_t before_size, after_size;
    char after[2]; /* after a hexadecimal number: quote, separator */
    struct export_number number;
    const struct run *run; /* the run whose piece is copied */
    char before[BEFORE];
};

/* The steps of a line for records with the packets in present. */
struct plan {
    unsigned present; /* packets, EXPORT_ALWAYS, AT_END; 0: no plan */
    struct step steps[2 * FIELD_COUNT];
};

struct script_lines {
    struct profile *profile;
    struct script_fields how;
    char separator;
    unsigned char list[FIELD_COUNT];
    size_t count;
    struct run runs[FIELD_COUNT];
    size_t run_count;
    struct out scratch;    /* a piece while it is made */
    uint64_t small[SMALL]; /* text with the separator, its size in the highest byte */
    struct plan plans[1 << PLAN_BITS];
};

/* ---- pieces ---- */

/* Writes a run of fields, each followed by a separator; for an absent field only in CSV. */
static void render(struct script_lines *l, const struct spex_sample *sample, const struct run *run)
{
    struct out *out = &l->scratch;
    out->size = 0;
    for (size_t i = 0; i < run->count; i++) {
        size_t before = out->size;
        script_field(&l->how, out, sample, run->list[i]);
        if (out->size > before || l->how.format == TABLE_AS_CSV)
            out_char(out, l->separator);
    }
    memset(out_room(out, SCRIPT_BLOCK), 0, SCRIPT_BLOCK);
}

/* The slot for the piece with this key. */
static inline __attribute__((always_inline)) size_t
key_of(const struct spex_sample *sample, enum export_from origin, uint64_t key[EXPORT_KEY])
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    export_key(sample, origin, key);
    return origin == EXPORT_FROM_CODE ? sample->place
                                      : (key[0] * odd ^ key[1]) * odd >> (64 - PIECE_BITS);
}

static size_t piece_count(enum export_from origin)
{
    return origin == EXPORT_FROM_CODE ? SPEX_PLACES : (size_t)1 << PIECE_BITS;
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
           enum export_from origin)
{
    uint64_t key[EXPORT_KEY];
    struct piece *pair = &run->pieces[key_of(sample, origin, key) & ~(size_t)1];
    for (unsigned i = 0; i < 2; i++) {
        uint64_t differ = 0;
        for (unsigned word = 0; word < EXPORT_KEY; word++)
            differ |= pair[i].key[word] ^ key[word];
        if (__builtin_expect(!differ, 1))
            return &pair[i];
    }
    make_piece(l, pair, run, sample);
    return pair;
}

/* ---- plans ---- */

/* Adds text to write before the value of a step; returns that step. */
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
    static const enum step_kind pieces[] = {[EXPORT_FROM_ITSELF] = NEW_PIECE,
                                            [EXPORT_FROM_THREAD] = THREAD_PIECE,
                                            [EXPORT_FROM_CODE] = CODE_PIECE,
                                            [EXPORT_FROM_OUTCOME] = OUTCOME_PIECE};
    static const char no_time[] = "             -: ";
    bool text = l->how.format == TABLE_AS_TEXT;
    struct step *step = plan->steps;
    *plan = (struct plan){.present = present};
    for (const struct run *run = l->runs; run < l->runs + l->run_count; run++) {
        enum export_column f = run->list[0];
        char label[SCRIPT_LABEL];
        if (f == EXPORT_SATURATED && !text) {
            if (present & AT_END)
                (step++)->kind = SATURATION;
            else if (l->how.format == TABLE_AS_CSV)
                step = add_text(step, ",", 1);
        } else if (run->origin != EXPORT_FROM_ITSELF || export_fields[f].type == EXPORT_STRING ||
                   f == EXPORT_STACK) {
            step->run = run;
            (step++)->kind = pieces[run->origin];
        } else if (!(export_numbers[f].has & present)) {
            if (text && f == EXPORT_TIME)
                step = add_text(step, no_time, sizeof no_time - 1);
            else if (l->how.format == TABLE_AS_CSV)
                step = add_text(step, ",", 1);
        } else {
            if (!text || f != EXPORT_TIME)
                step = add_text(step, label, script_label(&l->how, f, label));
            step->number = export_numbers[f];
            if (export_fields[f].type == EXPORT_ADDRESS_TYPE)
                step->kind = HEXADECIMAL;
            else if (text && f == EXPORT_TIME)
                step->kind = SECONDS;
            else if (text && f >= EXPORT_LATENCY && f <= EXPORT_ALT_ISSUE && present & AT_END)
                step->kind = COUNTER;
            else
                step->kind = step->before_size ? DECIMAL : PLAIN_DECIMAL;
            if (l->how.format == TABLE_AS_JSON)
                step->after[step->after_size++] = '"';
            step->after[step->after_size++] = l->separator;
            step++;
        }
    }
    if (step->before_size)
        (step++)->kind = NOTHING;
    step->kind = END;
}

static inline struct plan *plan_slot(struct script_lines *l, unsigned present)
{
    return &l->plans[present * 0x9e3779b1u >> (32 - PLAN_BITS)];
}

/* The plan for a record with a counter that may be saturated, or one that is not made yet. */
static __attribute__((noinline)) const struct plan *rare_plan(struct script_lines *l,
                                                              const struct spex_record *r)
{
    unsigned present = r->present | (counters_may_end(r, &l->how.source.end) ? AT_END : 0);
    struct plan *plan = plan_slot(l, present);
    present |= EXPORT_ALWAYS;
    if (plan->present != present)
        make_plan(l, plan, present);
    return plan;
}

static inline const struct plan *find_plan(struct script_lines *l, const struct spex_record *r)
{
    const struct plan *plan = plan_slot(l, r->present);
    if (counters_may_end(r, &l->how.source.end) ||
        __builtin_expect(plan->present != (r->present | EXPORT_ALWAYS), 0))
        return rare_plan(l, r);
    return plan;
}

/* ---- lines ---- */

/* Where a line goes. */
struct room {
    struct out *out;
    char *start; /* start of the part of the line not yet written */
    char *limit; /* pieces must end before this */
};

static char *take_room(struct room *room)
{
    room->start = out_room(room->out, LINE_ROOM);
    room->limit = room->start + PIECES_ROOM;
    return room->start;
}

/* Copies a piece that may be longer than the room; its last byte, a separator, may still change. */
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

/* Not inlined, since its constants would be set up for every step. */
static __attribute__((noinline)) char *put_large(char *p, uint64_t value)
{
    return put_u64(p, value);
}

static inline char *put_decimal(const struct script_lines *l, char *p, uint64_t value)
{
    if (value < SMALL) {
        uint64_t text = l->small[value];
        put_le64(p, text);
        return p + (text >> 56);
    }
    p = value < DIGITS_E8 ? put_u32(p, (uint32_t)value) : put_large(p, value);
    *p = l->separator;
    return p + 1;
}

/* "saturated":"latency|issue" if there are any; CSV always has the column. */
static char *put_saturation(const struct script_lines *l, char *p, const struct spex_sample *sample)
{
    const char *names = export_saturated(&l->how.source, sample);
    if (names && l->how.format == TABLE_AS_JSON)
        p = (char *)memcpy(p, "\"saturated\":\"", 13) + 13;
    if (names) {
        memcpy(p, names, strlen(names));
        p += strlen(names);
    }
    if (names && l->how.format == TABLE_AS_JSON)
        *p++ = '"';
    if (names || l->how.format == TABLE_AS_CSV)
        *p++ = l->separator;
    return p;
}

/* Only for records with a saturated counter; not inlined, since they are few. */
static __attribute__((noinline)) char *put_at_end(const struct script_lines *l, char *p,
                                                  const struct step *step,
                                                  const struct spex_sample *sample)
{
    if (step->kind == SATURATION)
        return put_saturation(l, p, sample);
    uint64_t value = export_read(sample, step->number);
    if (value == l->how.source.most) {
        *p++ = '>';
        *p++ = '=';
    }
    return put_decimal(l, p, value);
}

static void put_line(struct script_lines *l, struct out *out, const struct spex_sample *sample)
{
    struct room room = {.out = out};
    char *p = take_room(&room);
    const struct piece *piece;
    uint64_t value;
    if (l->how.format == TABLE_AS_JSON)
        *p++ = '{';
    room.start = p;
    const struct step *step = find_plan(l, sample->record)->steps;
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
            p = put_decimal(l, p, export_read(sample, step->number));
            for (; step[1].kind == PLAIN_DECIMAL; step++)
                p = put_decimal(l, p, export_read(sample, step[1].number));
            break;
        case COUNTER:
        case SATURATION:
            p = put_at_end(l, p, step, sample);
            break;
        case HEXADECIMAL:
            p = put_hex(p, export_read(sample, step->number));
            memcpy(p, step->after, sizeof step->after);
            p += step->after_size;
            break;
        case SECONDS:
            value = export_read(sample, step->number);
            p = put_padded(p, value / 1000000000, 5);
            *p++ = '.';
            *p++ = (char)('0' + value % 1000000000 / 100000000);
            p = put_eight(p, (uint32_t)(value % 100000000));
            *p++ = ':';
            *p++ = l->separator;
            break;
        case THREAD_PIECE:
            piece = find_piece(l, step->run, sample, EXPORT_FROM_THREAD);
            p = put_piece(&room, p, piece->text, piece->size);
            break;
        case CODE_PIECE:
            piece = find_piece(l, step->run, sample, EXPORT_FROM_CODE);
            p = put_piece(&room, p, piece->text, piece->size);
            break;
        case OUTCOME_PIECE:
            piece = find_piece(l, step->run, sample, EXPORT_FROM_OUTCOME);
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
    if (l->how.format == TABLE_AS_JSON)
        *p++ = '}';
    *p++ = '\n';
    room.out->size = (size_t)(p - room.out->data);
}

void script_lines_put(struct script_lines *l, struct out *out, const struct spex_sample *samples,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_line(l, out, &samples[i]);
}

void script_lines_perf(struct script_lines *l, const struct spex_sample *sample,
                       struct script_text *thread, struct script_text *code)
{
    const struct piece *piece = find_piece(l, &l->runs[0], sample, EXPORT_FROM_THREAD);
    *thread = (struct script_text){piece->text, piece->size};
    piece = find_piece(l, &l->runs[1], sample, EXPORT_FROM_CODE);
    *code = (struct script_text){piece->text, piece->size};
}

/* The symbol and file are in the sample; other addresses are looked up here. */
bool script_lines_alone(const struct script_lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (export_looks_up(l->list[i]))
            return false;
    return true;
}

void script_lines_header(struct script_lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        out_printf(&l->profile->out, "%s%s", i ? "," : "", export_fields[l->list[i]].name);
    out_char(&l->profile->out, '\n');
}

/* ---- making and freeing ---- */

static int choose_fields(struct script_lines *l)
{
    const char *list = l->profile->options->fields;
    bool text = l->how.format == TABLE_AS_TEXT, add = list && *list == '+';
    if (!list || add)
        for (unsigned f = 0; f < FIELD_COUNT; f++)
            if (text ? export_fields[f].text : export_fields[f].machine)
                l->list[l->count++] = (unsigned char)f;
    for (const char *p = list ? list + add : ""; *p;) {
        size_t n = strcspn(p, ",");
        enum export_column f = export_column_find(p, n);
        const struct perf_word *perf = f == EXPORT_COLUMNS ? perf_word("--fields", p, n) : NULL;
        if (perf)
            return cli_usage("--fields: '%.*s': %s", (int)n, p, perf->says);
        if (f == EXPORT_COLUMNS) {
            struct out names;
            out_init(&names, -1);
            for (unsigned i = 0; i < EXPORT_COLUMNS; i++)
                out_printf(&names, "%s%s", i ? ", " : "", export_fields[i].name);
            int status = cli_usage("--fields: '%.*s' is not one of %.*s", (int)n, p,
                                   (int)names.size, names.data);
            out_fini(&names);
            return status;
        }
        if (l->count < FIELD_COUNT)
            l->list[l->count++] = (unsigned char)f;
        p += n + (p[n] == ',');
    }
    return CLI_OK;
}

/* Adjacent fields with the same origin become one piece. */
static void prepare_runs(struct script_lines *l)
{
    for (size_t i = 0; i < l->count; i++) {
        enum export_from origin = export_fields[l->list[i]].from;
        if (origin == EXPORT_FROM_FILE) /* constant: the same in all samples of a thread */
            origin = EXPORT_FROM_THREAD;
        if (origin == EXPORT_FROM_STACK) /* too many different values for pieces */
            origin = EXPORT_FROM_ITSELF;
        struct run *last = l->run_count ? &l->runs[l->run_count - 1] : NULL;
        if (last && last->origin == origin && origin != EXPORT_FROM_ITSELF) {
            last->count++;
            continue;
        }
        struct run *run = &l->runs[l->run_count++];
        *run = (struct run){.list = &l->list[i], .count = 1, .origin = origin};
        if (origin != EXPORT_FROM_ITSELF)
            run->pieces = memory_get(piece_count(origin), sizeof *run->pieces);
    }
}

int script_lines_new(struct script_lines **lines, struct profile *profile, unsigned flags)
{
    struct script_lines *l = memory_get(1, sizeof *l);
    *lines = l;
    l->profile = profile;
    export_source_init(&l->how.source, profile->analysis);
    l->how.format = profile->options->format;
    l->how.source.full_path = flags & SCRIPT_FULL_PATH;
    l->how.perf = flags & SCRIPT_PERF;
    l->separator = l->how.format == TABLE_AS_TEXT ? ' ' : ',';
    out_init(&l->scratch, -1);
    int status = choose_fields(l);
    if (l->how.perf) {
        static const unsigned char list[] = {EXPORT_COMM, EXPORT_TID, EXPORT_CPU, EXPORT_PC,
                                             EXPORT_SYMBOL};
        memcpy(l->list, list, l->count = sizeof list);
    }
    for (size_t i = 0; i + 1 < l->count; i++)
        l->how.one_piece |= l->list[i] == EXPORT_PC && l->list[i + 1] == EXPORT_SYMBOL;
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
    export_source_fini(&l->how.source);
    free(l);
}
