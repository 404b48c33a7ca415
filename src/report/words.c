#include "report/words.h"

#include "base/digits.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[SPEX_FINDING_COUNT] = {
    [SPEX_FINDING_FAR_DATA] = "far-data",
    [SPEX_FINDING_PEER_DATA] = "peer-data",
    [SPEX_FINDING_TABLE_WALKS] = "table-walks",
    [SPEX_FINDING_REMOTE_DATA] = "remote-data",
    [SPEX_FINDING_MISPREDICTED] = "mispredicted",
    [SPEX_FINDING_DEPENDENT_LOADS] = "dependent-loads",
    [SPEX_FINDING_DEPENDENT_CHAIN] = "dependent-chain",
    [SPEX_FINDING_STORE_FORWARDING] = "store-forwarding",
    [SPEX_FINDING_DIVISION] = "division",
    [SPEX_FINDING_SPLIT_ACCESSES] = "split-accesses",
    [SPEX_FINDING_COLD_CODE] = "cold-code",
    [SPEX_FINDING_FALSE_SHARING] = "false-sharing",
    [SPEX_FINDING_TRUE_SHARING] = "true-sharing",
    [SPEX_FINDING_MIXED_SHARING] = "mixed-sharing",
    [SPEX_FINDING_LOCK] = "lock",
};

static const char *const cases[SPEX_CASE_COUNT] = {
    [SPEX_CASE_CHASE] = "chase",         [SPEX_CASE_GATHER] = "gather",
    [SPEX_CASE_COMPUTED] = "computed",   [SPEX_CASE_STREAM] = "stream",
    [SPEX_CASE_STRIDE] = "stride",       [SPEX_CASE_PAGES] = "pages",
    [SPEX_CASE_CONDITION] = "condition", [SPEX_CASE_LOOP] = "loop",
    [SPEX_CASE_CALL] = "call",           [SPEX_CASE_JUMP] = "jump",
    [SPEX_CASE_RETURN] = "return",       [SPEX_CASE_MODEL] = "model",
    [SPEX_CASE_BLOCKS] = "blocks",       [SPEX_CASE_OBJECTS] = "objects",
    [SPEX_CASE_PARTS] = "parts",         [SPEX_CASE_READS] = "reads",
    [SPEX_CASE_SPIN] = "spin",           [SPEX_CASE_SLEEP] = "sleep",
};

static const struct row {
    enum spex_finding_kind kind;
    enum spex_finding_case how;
    const char *parts[3]; /* enum words_part */
} rows[] = {
#define FINDING(kind, how, found, advice, see)                                                     \
    {SPEX_FINDING_##kind, SPEX_CASE_##how, {found, advice, see}},
#include "findings.def"
};

enum { TEXT = 2000, KEY = 40 };
struct text {
    char bytes[TEXT];
    size_t size;
};

const char *words_kind(enum spex_finding_kind kind)
{
    return kinds[kind];
}

static void put(struct text *text, const char *words)
{
    const size_t room = TEXT - 1 - text->size, length = strlen(words);
    const size_t n = length < room ? length : room;
    memcpy(text->bytes + text->size, words, n);
    text->size += n;
    text->bytes[text->size] = 0;
}

/* " at walk (list_walk.c:31)", ", 80% of that at walk (list_walk.c:31)", " in walk" */
static void put_place(struct text *text, const struct spex_finding *f)
{
    const double part = spex_finding_number(f, "of_it_there");
    char share[40];
    if (!f->place || isnan(part) || part < 0.25) {
        put(text, f->function ? " in " : "");
        put(text, f->function ? f->function : "");
        return;
    }
    snprintf(share, sizeof share, ", %.0f%% of that at ", 100 * part);
    put(text, part > 0.995 ? " at " : share);
    put(text, f->place);
}

static void put_number(struct text *text, const char *key, double value)
{
    char shown[64];
    const size_t n = strlen(key);
    if (key[n - 1] == '%')
        snprintf(shown, sizeof shown, "%.*f%%", key[n - 2] == '.', 100 * value);
    else
        snprintf(shown, sizeof shown, "%s", digits_grouped((char[32]){0}, (uint64_t)value));
    put(text, shown);
}

/* Quotes a name for a shell. */
static void put_quoted(struct text *text, const char *name)
{
    const bool plain = name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_.@+-")] == 0;
    put(text, plain ? "" : "'");
    for (const char *p = name; *p; p++)
        put(text, !plain && *p == '\'' ? "'\\''" : (char[]){*p, 0});
    put(text, plain ? "" : "'");
}

/* False if the value is not known. */
static bool put_word(struct text *text, const struct spex_finding *f, const char *key, bool timed)
{
    if (!strcmp(key, "function'")) {
        put_quoted(text, f->function ? f->function : "");
        return f->function;
    }
    const char *known[][2] = {
        {"place", f->place}, {"function", f->function}, {"data", f->data}, {"users", f->users}};
    char name[KEY];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(key, known[i][0])) {
            put(text, known[i][1]             ? known[i][1]
                      : !strcmp(key, "place") ? "unknown places"
                                              : "unknown code");
            return known[i][1];
        }
    if (!strcmp(key, "at")) {
        put_place(text, f);
        return true;
    }
    if (!strcmp(key, "share")) {
        char share[64];
        snprintf(share, sizeof share, "%.0f%% of %s", 100 * f->share,
                 timed ? "the time" : "all latencies");
        put(text, share);
        return true;
    }
    if (!strcmp(key, "writes")) {
        put(text, spex_finding_number(f, "writers") < 2 ? ", one of them writes" : ", and write");
        return true;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(key, ".%"), key);
    const double value = spex_finding_number(f, name);
    if (isnan(value))
        return false;
    put_number(text, key, value);
    return true;
}

char *words_of(const struct spex_finding *finding, enum words_part part, bool timed)
{
    const struct row *row = NULL;
    struct text text = {.size = 0};
    size_t open = 0;
    bool all = true;
    char key[KEY];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == finding->kind &&
            (rows[i].how == finding->how || (rows[i].how == SPEX_CASE_ANY && !row)))
            row = &rows[i];
    for (const char *p = row->parts[part]; *p; p++)
        if (*p == '[') {
            open = text.size;
            all = true;
        } else if (*p == ']') {
            if (!all)
                text.bytes[text.size = open] = 0;
        } else if (*p == '{') {
            const size_t n = strcspn(p, "}");
            snprintf(key, sizeof key, "%.*s", (int)n - 1, p + 1);
            all &= put_word(&text, finding, key, timed);
            p += n;
        } else {
            put(&text, (char[]){*p, 0});
        }
    return memory_copy(text.bytes);
}

static void write_one(const struct spex_finding *f, bool timed, struct json *json)
{
    static const char *const names[] = {"text", "do", "see"};
    json_object(json);
    JSON_MEMBER(json, "kind", string, kinds[f->kind]);
    JSON_MEMBER(json, "case", string, cases[f->how]);
    JSON_MEMBER(json, "place", string, f->place);
    JSON_MEMBER(json, "data", string, f->data);
    for (unsigned i = 0; i < 3; i++) {
        char *text = words_of(f, (enum words_part)i, timed);
        json_name(json, names[i]);
        json_string(json, text);
        free(text);
    }
    JSON_MEMBER(json, "share", real, f->share);
    JSON_MEMBER(json, "share_low", real, f->low);
    JSON_MEMBER(json, "share_high", real, f->high);
    JSON_MEMBER(json, "samples", u64, f->samples);
    json_name(json, "evidence");
    json_object(json);
    for (unsigned i = 0; i < SPEX_FINDING_NUMBERS && f->numbers[i].name; i++) {
        json_name(json, f->numbers[i].name);
        json_real(json, f->numbers[i].value);
    }
    json_end(json);
    json_end(json);
}

void words_write(const struct spex_findings *f, struct json *json)
{
    const struct spex_finding *finding;
    json_array_lines(json);
    for (size_t i = 0; f && (finding = spex_findings_at(f, i)); i++)
        write_one(finding, spex_findings_timed(f), json);
    json_end(json);
}
