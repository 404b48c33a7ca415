/* Filters by name and value, a table row each; decisions that take time are remembered. */
#include "internal.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum filter_kind {
#define SPEX_FILTER(option, member, kind, value, help) kind,
#include <spex/filters.def>
};

static const struct {
    const char *name;
    enum filter_kind kind;
    const char *help;
} table[] = {
#define SPEX_FILTER(option, member, kind, value, help) {option, kind, help},
#include <spex/filters.def>
};
enum { FILTERS = sizeof table / sizeof *table };

/* Other names of the events of events.def, used by people and perf. */
static const struct {
    uint8_t bit;
    const char *name;
} aliases[] = {
    {SPEX_EV_EXCEPTION, "exception-gen"},
    {SPEX_EV_L1D_MISS, "l1d-refill"},
    {SPEX_EV_TLB_WALK, "tlb-miss"},
    {SPEX_EV_TLB_WALK, "tlb-refill"},
    {SPEX_EV_MISPREDICT, "mispredict"},
    {SPEX_EV_MISPREDICT, "branch-miss"},
    {SPEX_EV_LLC_MISS, "llc-refill"},
    {SPEX_EV_REMOTE, "remote"},
    {SPEX_EV_MISALIGNED, "alignment"},
    {SPEX_EV_MODIFIED, "hitm"},
    {SPEX_EV_RECENT, "lfb"},
    {SPEX_EV_STREAMING, "streaming"},
};

static bool is(const char *name, const char *text, size_t size)
{
    return name && strlen(name) == size && !strncmp(name, text, size);
}

/* Event bit of a name ("l1d-miss"), or -1. */
static int event_bit(const char *name, size_t size)
{
    for (unsigned bit = 0; bit < 64; bit++)
        if (is(spex_event_name(bit), name, size))
            return (int)bit;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (is(aliases[i].name, name, size))
            return aliases[i].bit;
    return -1;
}

const char *spex_filter_name(size_t index, const char **help)
{
    if (index >= FILTERS)
        return NULL;
    *help = table[index].help;
    return table[index].name;
}

enum { MEMO = 256 };

struct filter {
    enum filter_kind kind;
    char **words;
    struct spex_time_range *ranges;
    size_t count;
    uint64_t any, none; /* events */
    uint64_t number;
    bool op[4][256], source[SPEX_SOURCE_COUNT];
    struct {
        const void *of;
        bool keep;
    } memo[MEMO]; /* decisions about comm, module and symbol, by pointer */
};

void filter_copy(const struct filter *filter, struct filter **to)
{
    struct filter *copy = *to = memory_get(1, sizeof *copy);
    *copy = *filter;
    copy->words = NULL;
    copy->ranges = NULL;
    copy->ranges = memory_get(filter->count + 1, sizeof *copy->ranges);
    if (filter->ranges)
        memcpy(copy->ranges, filter->ranges, filter->count * sizeof *copy->ranges);
    copy->words = memory_get(filter->count + 1, sizeof *copy->words);
    for (size_t i = 0; filter->words && i < filter->count; i++)
        copy->words[i] = filter->words[i] ? memory_copy(filter->words[i]) : NULL;
}

void filter_free(struct filter *filter)
{
    if (!filter)
        return;
    for (size_t i = 0; filter->words && i < filter->count; i++)
        memory_free(filter->words[i]);
    memory_free(filter->words);
    memory_free(filter->ranges);
    memory_free(filter);
}

/* ---- parsing ---- */

static enum spex_status bad(const struct spex_filter *spec, const char *word, size_t size,
                            const char *expected, struct spex_error *error)
{
    return error_set(error, SPEX_INVALID, 0, "%s: '%.*s' is not %s", spec->name, (int)size, word,
                     expected);
}

static bool parse_range(const char *word, size_t size, struct spex_time_range *range)
{
    char text[48], *end;
    if (size == 0 || size >= sizeof text)
        return false;
    memcpy(text, word, size);
    text[size] = 0;
    range->low = range->high = (uint64_t)strtoll(text, &end, 0);
    if (end != text && *end == '-' && end[1]) {
        char *high = end + 1;
        range->high = (uint64_t)strtoll(high, &end, 0);
        if (end == high)
            return false;
    }
    return end != text && !*end && range->low <= range->high;
}

/* The time that a file covers, in ns. */
struct extent {
    uint64_t first, last;
};

/*
 * A percentage of the profile as a time. The first and last parts are open: they include times
 * outside the extent that the file states.
 */
static uint64_t percent_time(const struct extent *e, double percent)
{
    return percent <= 0     ? 0
           : percent >= 100 ? UINT64_MAX
                            : e->first + (uint64_t)((double)(e->last - e->first) * percent / 100);
}

/* "10%-20%", or "10%/2": the second tenth. */
static bool parse_percent(const char *word, size_t size, const struct extent *e,
                          struct spex_time_range *range)
{
    char text[64], *end;
    if (size >= sizeof text || e->last <= e->first)
        return false;
    memcpy(text, word, size);
    text[size] = 0;
    double low = strtod(text, &end), high;
    if (end == text || !(low >= 0) || *end != '%')
        return false;
    const char *second = end + 2;
    if (end[1] == '/') {
        unsigned long n = strtoul(second, &end, 10);
        if (end == second || *end || !n || !(low > 0) || low * (double)(n - 1) >= 100)
            return false;
        high = low * (double)n;
        low = low * (double)(n - 1);
    } else if (end[1] == '-') {
        high = strtod(second, &end);
        if (end == second || strcmp(end, "%") || !(high >= low))
            return false;
    } else {
        return false;
    }
    range->low = percent_time(e, low);
    range->high = percent_time(e, high);
    range->high -= high < 100 && range->high > range->low; /* the next part begins there */
    return true;
}

/* "1.5,2.5", ",2.5", "1.5," in seconds; "10%,20%". */
static bool parse_span(const char *word, size_t size, const struct extent *e,
                       struct spex_time_range *range)
{
    char text[80];
    if (size >= sizeof text)
        return false;
    memcpy(text, word, size);
    text[size] = 0;
    char *comma = strchr(text, ','), *end;
    bool percent = strchr(text, '%') != NULL;
    if (!comma || (percent && e->last <= e->first))
        return false;
    *comma = 0;
    *range = (struct spex_time_range){0, UINT64_MAX};
    for (int side = 0; side < 2; side++) {
        const char *p = side ? comma + 1 : text;
        double n = strtod(p, &end);
        if (end == p && !*p)
            continue; /* open */
        if (end == p || !(n >= 0) || strcmp(end, percent ? "%" : ""))
            return false;
        uint64_t t = percent      ? percent_time(e, n)
                     : n < 1.8e10 ? (uint64_t)(n * 1e9 + 0.5)
                                  : UINT64_MAX;
        *(side ? &range->high : &range->low) = t;
    }
    return range->low <= range->high;
}

/*
 * As in perf: spans in seconds separated by blanks, or parts in percent separated by commas or
 * blanks; but "10%,20%" is one span.
 */
static bool parse_time(const char *value, const struct extent *e, struct spex_time_range *ranges,
                       size_t capacity, size_t *count)
{
    bool parts = strchr(value, '%') && strpbrk(value, "/-");
    const char *between = parts ? ", " : " ";
    *count = 0;
    for (const char *p = value + strspn(value, between); *p; p += strspn(p, between)) {
        size_t n = strcspn(p, between);
        struct spex_time_range range;
        if (!(parts ? parse_percent(p, n, e, &range) : parse_span(p, n, e, &range)))
            return false;
        if (*count < capacity)
            ranges[*count] = range;
        ++*count;
        p += n;
    }
    return *count > 0;
}

enum spex_status spex_time_ranges(const char *value, uint64_t first, uint64_t last,
                                  struct spex_time_range *ranges, size_t capacity, size_t *count,
                                  struct spex_error *error)
{
    assert(value && (ranges || !capacity) && count);
    const struct spex_filter spec = {"time", value};
    const struct extent extent = {first, last};
    size_t n;
    if (!parse_time(value, &extent, ranges, capacity, &n))
        return bad(&spec, value, strlen(value),
                   "START,STOP in seconds, A%-B%, or A%/N (the N-th part of A%)", error);
    *count = n;
    return SPEX_OK;
}

static enum spex_status parse_word(struct filter *filter, const struct spex_filter *spec,
                                   const char *word, size_t size, struct spex_error *error)
{
    switch (filter->kind) {
    case COMM:
    case DSO:
    case SYMBOL:
        if (!(filter->words[filter->count] = memory_text(word, size)))
            return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
        filter->count++;
        return SPEX_OK;
    case PID:
    case TID:
    case CPU:
        if (!parse_range(word, size, &filter->ranges[filter->count]))
            return bad(spec, word, size, "a number or range such as 3 or 0-7", error);
        filter->count++;
        return SPEX_OK;
    case OP: {
        bool any = false;
        for (unsigned c = 0; c < 3; c++)
            for (unsigned p = 0; p < 256; p++)
                if (op_has_word(op_table()->text[OP_INDEX(c, p)], word, size))
                    any = filter->op[c][p] = true;
        return any ? SPEX_OK
                   : bad(spec, word, size,
                         "one of load, store, atomic, branch, other, cond, "
                         "indirect, call, return, exclusive, acq-rel, simd-fp, "
                         "sve, fp, simd",
                         error);
    }
    case EVENT: {
        bool negative = *word == '!';
        char *end;
        int bit = event_bit(word + negative, size - negative);
        if (bit < 0 && size - negative > 0 && word[negative] >= '0' && word[negative] <= '9') {
            bit = (int)strtol(word + negative, &end, 10);
            if (end != word + size || bit > 63)
                bit = -1;
        }
        if (bit < 0) {
            char list[400] = "a bit number";
            for (unsigned i = 0; i < 64; i++) {
                size_t n = strlen(list);
                if (spex_event_name(i))
                    snprintf(list + n, sizeof list - n, ", %s", spex_event_name(i));
            }
            return bad(spec, word, size, list, error);
        }
        *(negative ? &filter->none : &filter->any) |= UINT64_C(1) << bit;
        return SPEX_OK;
    }
    case SOURCE:
        for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++)
            if (is(spex_source_name(s), word, size)) {
                filter->source[s] = true;
                return SPEX_OK;
            }
        char list[200] = "one of ";
        for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++) {
            size_t n = strlen(list);
            snprintf(list + n, sizeof list - n, "%s%s", s ? ", " : "", spex_source_name(s));
        }
        return bad(spec, word, size, list, error);
    default:
        return SPEX_OK;
    }
}

enum spex_status filter_new(const struct spex_filter *spec, uint64_t first_time, uint64_t last_time,
                            struct filter **result, struct spex_error *error)
{
    size_t row = 0, commas = 1;
    while (row < FILTERS && strcmp(table[row].name, spec->name))
        row++;
    if (row == FILTERS)
        return error_set(error, SPEX_INVALID, 0, "no filter '%s'", spec->name);
    for (const char *p = spec->value; *p; p++)
        commas += *p == ',' || *p == ' ';
    struct filter *filter = memory_zeroed(1, sizeof *filter);
    if (!filter || !(filter->words = memory_zeroed(commas, sizeof *filter->words)) ||
        !(filter->ranges = memory_zeroed(commas, sizeof *filter->ranges))) {
        filter_free(filter);
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    }
    enum spex_status status = SPEX_OK;
    filter->kind = table[row].kind;
    if (filter->kind == MIN_LATENCY) {
        char *end;
        filter->number = strtoull(spec->value, &end, 0);
        if (*spec->value < '0' || *spec->value > '9' || *end)
            status = bad(spec, spec->value, strlen(spec->value), "a number of cycles", error);
    } else if (filter->kind == TIME) {
        status = spex_time_ranges(spec->value, first_time, last_time, filter->ranges, commas,
                                  &filter->count, error);
    } else {
        for (const char *p = spec->value; !status; p++) {
            size_t n = strcspn(p, ",");
            status = parse_word(filter, spec, p, n, error);
            p += n;
            if (!*p)
                break;
        }
    }
    if (status)
        filter_free(filter);
    else
        *result = filter;
    return status;
}

/* ---- deciding ---- */

static bool matches(const struct filter *filter, const char *text)
{
    for (size_t i = 0; text && i < filter->count; i++)
        if (!strcmp(filter->words[i], text) || !fnmatch(filter->words[i], text, 0))
            return true;
    return false;
}

static bool matches_symbol(const struct filter *filter, const struct spex_symbol *symbol)
{
    if (matches(filter, symbol->name) || matches(filter, symbol->raw))
        return true;
    /* "ns::f" also names ns::f(int) */
    const char *open = symbol->name ? strchr(symbol->name, '(') : NULL;
    if (!open || open == symbol->name)
        return false;
    char *bare = memory_text(symbol->name, (size_t)(open - symbol->name));
    bool found = bare && matches(filter, bare);
    memory_free(bare);
    return found;
}

static bool decide(const struct filter *filter, const struct spex_sample *sample)
{
    switch (filter->kind) {
    case COMM:
        return matches(filter, sample->comm);
    case DSO:
        return sample->module && (matches(filter, spex_module_path(sample->module)) ||
                                  matches(filter, spex_module_name(sample->module)));
    case SYMBOL:
        return sample->symbol && matches_symbol(filter, sample->symbol);
    default:
        return true;
    }
}

static bool in_ranges(const struct filter *filter, uint64_t value)
{
    for (size_t i = 0; i < filter->count; i++)
        if (value >= filter->ranges[i].low && value <= filter->ranges[i].high)
            return true;
    return false;
}

bool filter_keeps(struct filter *filter, const struct spex_sample *sample)
{
    const struct spex_record *r = sample->record;
    const void *of = NULL;
    switch (filter->kind) {
    case COMM:
        of = sample->comm;
        break;
    case DSO:
        of = sample->module;
        break;
    case SYMBOL:
        of = sample->symbol;
        break;
    case PID:
        return in_ranges(filter, (uint64_t)(int64_t)sample->pid);
    case TID:
        return in_ranges(filter, (uint64_t)(int64_t)sample->tid);
    case CPU:
        return in_ranges(filter, (uint64_t)(int64_t)sample->cpu);
    case OP:
        return r->present & SPEX_HAS_OP && filter->op[r->op_class & 3][r->op_payload];
    case EVENT:
        return r->present & SPEX_HAS_EVENTS && (!filter->any || r->events & filter->any) &&
               !(r->events & filter->none);
    case SOURCE:
        return sample->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES) &&
               filter->source[sample->source];
    case MIN_LATENCY:
        return r->present & SPEX_HAS_TOTAL && r->total >= filter->number;
    case TIME:
        return sample->flags & SPEX_SAMPLE_TIMED && in_ranges(filter, sample->time);
    }
    if (!of)
        return false;
    size_t slot = (size_t)((uintptr_t)of * UINT64_C(0x9e3779b97f4a7c15) >> 56) % MEMO;
    if (filter->memo[slot].of != of) {
        filter->memo[slot].of = of;
        filter->memo[slot].keep = decide(filter, sample);
    }
    return filter->memo[slot].keep;
}
