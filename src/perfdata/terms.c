/* Event strings: arm_spe_0/ts_enable=1,jitter=1/u. */
#include "terms.h"

#include "base/bits.h"
#include "base/error.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct perf_term terms_table[] = {
#define TERM(name, word, high, low) {#name, word, high, low},
#include "terms.def"
#undef TERM
};
enum { TERMS = sizeof terms_table / sizeof *terms_table };

static enum spex_status parse_value(const char *text, int length, uint64_t *value,
                                    struct spex_error *error)
{
    char copy[32], *end;
    snprintf(copy, sizeof copy, "%.*s", length, text);
    *value = strtoull(copy, &end, 0);
    if (!length || length >= (int)sizeof copy || *end || copy[0] == '-' || copy[0] == '+')
        return error_set(error, SPEX_INVALID, 0, "\"%.*s\" is not a number", length, text);
    return SPEX_OK;
}

static enum spex_status parse_term(const char *text, size_t length, const struct perf_term *table,
                                   size_t count, struct spex_perf_terms *terms,
                                   struct spex_error *error)
{
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    uint64_t value = 1;
    if (equals) {
        enum spex_status status = parse_value(equals + 1, (int)(length - name - 1), &value, error);
        if (status != SPEX_OK)
            return status;
    }
    for (size_t i = 0; i < count; i++) {
        const struct perf_term *term = &table[i];
        if (strlen(term->name) != name || memcmp(term->name, text, name))
            continue;
        if (value & ~(BITS(term->high, term->low) >> term->low))
            return error_set(error, SPEX_RANGE, 0, "%s: the largest value is %#llx", term->name,
                             (unsigned long long)(BITS(term->high, term->low) >> term->low));
        terms->config[term->word] =
            bits_set(terms->config[term->word], term->high, term->low, value);
        return SPEX_OK;
    }
    if (name == 6 && !memcmp(text, "period", 6)) {
        terms->period = value;
        return SPEX_OK;
    }
    return error_set(error, SPEX_INVALID, 0, "the arm_spe event has no term \"%.*s\"", (int)name,
                     text);
}

enum spex_status perf_terms_parse(const char *text, const struct perf_term *table, size_t count,
                                  struct spex_perf_terms *result, struct spex_error *error)
{
    struct spex_perf_terms terms = {0};
    const char *slash = strchr(text, '/'), *end = text + strlen(text);
    enum spex_status status;

    if (slash || !strncmp(text, "arm_spe", 7)) {
        size_t name = slash ? (size_t)(slash - text) : strlen(text);
        size_t digits = name > 8 ? strspn(text + 8, "0123456789") : 0;
        if (name < 7 || memcmp(text, "arm_spe", 7) ||
            (name > 7 && (text[7] != '_' || !digits || 8 + digits != name)))
            return error_set(error, SPEX_INVALID, 0,
                             "\"%.*s\" is not an SPE event; write arm_spe/TERMS/", (int)name, text);
        text = slash ? slash + 1 : end;
        slash = strchr(text, '/');
        if (slash) {
            for (const char *p = slash + 1; *p; p++) {
                if (*p != 'u' && *p != 'k')
                    return error_set(error, SPEX_INVALID, 0,
                                     "modifier '%c' is not u (user) or k (kernel)", *p);
                terms.exclude_kernel |= *p == 'u';
                terms.exclude_user |= *p == 'k';
            }
            if (terms.exclude_kernel && terms.exclude_user) /* both given: both wanted */
                terms.exclude_kernel = terms.exclude_user = false;
            end = slash;
        } else if (*text) {
            return error_set(error, SPEX_INVALID, 0, "the event lacks its closing slash");
        }
    }
    while (text < end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t length = (size_t)((comma ? comma : end) - text);
        if (length && (status = parse_term(text, length, table, count, &terms, error)) != SPEX_OK)
            return status;
        text += length + (comma ? 1 : 0);
    }
    *result = terms;
    return SPEX_OK;
}

enum spex_status spex_perf_terms_parse(const char *text, struct spex_perf_terms *result,
                                       struct spex_error *error)
{
    assert(text && result);
    return perf_terms_parse(text, terms_table, TERMS, result, error);
}

size_t spex_perf_terms_text(const uint64_t config[5], char *text, size_t capacity)
{
    assert(config && (text || !capacity));
    size_t length = 0;
    if (capacity)
        *text = '\0';
    for (size_t i = 0; i < TERMS; i++) {
        const struct perf_term *term = &terms_table[i];
        uint64_t value = bits_get(config[term->word], term->high, term->low);
        if (!value)
            continue;
        /* Masks are written in hexadecimal, numbers in decimal. */
        int n = snprintf(length < capacity ? text + length : NULL,
                         length < capacity ? capacity - length : 0,
                         term->high - term->low == 63 ? "%s%s=0x%llx" : "%s%s=%llu",
                         length ? "," : "", term->name, (unsigned long long)value);
        length += n > 0 ? (size_t)n : 0;
    }
    return length;
}
