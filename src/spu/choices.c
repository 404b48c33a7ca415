/* Choices by name, from the rows of choices.def. */
#include "config.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct spex_spu_choice rows[] = {
#define CHOICE(field, standard, min, max, values, ids, text)                                       \
    {#field, values, ids, text, standard, min, max},
#include "spu/choices.def"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const struct spex_spu_choice *spex_spu_choice_at(size_t index)
{
    return index < ROWS ? &rows[index] : NULL;
}

uint64_t *spu_choice_field(const struct spu_choices *choices, size_t index)
{
    static_assert(sizeof *choices == ROWS * sizeof(uint64_t), "one word per row");
    return (uint64_t *)(uintptr_t)choices + index;
}

void spu_choices_default(struct spu_choices *choices)
{
#define CHOICE(field, standard, min, max, values, ids, text) choices->field = standard;
#include "spu/choices.def"
}

/* The number of a word in a blank-separated list. */
static bool word_index(const char *list, const char *word, uint64_t *index)
{
    size_t length = strlen(word);
    for (uint64_t i = 0; *list; i++) {
        size_t n = strcspn(list, " ");
        if (n == length && !memcmp(list, word, n)) {
            *index = i;
            return true;
        }
        list += n + (list[n] == ' ');
    }
    return false;
}

enum spex_status spu_choices_set(struct spu_choices *choices, const char *assignment,
                                 struct spex_error *error)
{
    size_t n = strcspn(assignment, "=");
    if (!assignment[n])
        return error_set(error, SPEX_INVALID, 0, "'%.60s' is not of the form choice=value",
                         assignment);
    for (size_t i = 0; i < ROWS; i++) {
        const struct spex_spu_choice *row = &rows[i];
        if (strlen(row->name) != n || memcmp(row->name, assignment, n))
            continue;
        const char *value = assignment + n + 1;
        char *end = NULL;
        uint64_t number = 0;
        if (word_index(row->values, value, &number)) {
            number += row->min;
        } else {
            errno = 0;
            number = strtoull(value, &end, 0);
            if (end == value || *end || errno || *value == '-' || number < row->min ||
                number > row->max) {
                if (*row->values)
                    return error_set(error, SPEX_RANGE, 0, "choice '%s' is one of: %s", row->name,
                                     row->values);
                return error_set(error, SPEX_RANGE, 0, "choice '%s' takes %llu to %llu", row->name,
                                 (unsigned long long)row->min, (unsigned long long)row->max);
            }
        }
        *spu_choice_field(choices, i) = number;
        return SPEX_OK;
    }
    return error_set(error, SPEX_INVALID, 0, "unknown choice '%.*s'; see 'spex spu choices'",
                     (int)(n > 60 ? 60 : n), assignment);
}

enum spex_status spu_choices_parse(struct spu_choices *choices, const char *list,
                                   struct spex_error *error)
{
    static const char between[] = ", ";
    for (list += strspn(list, between); *list; list += strspn(list, between)) {
        char word[128];
        size_t n = strcspn(list, between);
        if (n >= sizeof word)
            return error_set(error, SPEX_INVALID, 0, "choice too long: '%.20s...'", list);
        memcpy(word, list, n);
        word[n] = '\0';
        enum spex_status status = spu_choices_set(choices, word, error);
        if (status)
            return status;
        list += n;
    }
    return SPEX_OK;
}
