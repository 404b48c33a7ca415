/*
 * Demangles names of C++ (with libstdc++'s own demangler, found at run time) and of Rust: the
 * legacy form is C++ with a hash at its end, the v0 form (RFC 2603) is parsed here.
 */
#include <assert.h>
#include <spex/symbols.h>

#include "base/vec.h"
#include "expand.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1 << 16 }; /* a longer name is shown as it is */

/* ---- Rust v0 ---- */

enum { DEPTH = 100 };

struct rust {
    const char *start, *at; /* start: past "_R", where back references count from */
    char *out;
    size_t size, capacity;
    unsigned depth;
    bool failed, quiet;
};

static void put(struct rust *r, const char *text, size_t n)
{
    if (r->quiet || r->failed)
        return;
    if (!vec_grow_most(&r->out, &r->capacity, r->size + n + 1, TEXT_MOST, 1)) {
        r->failed = true;
        return;
    }
    memcpy(r->out + r->size, text, n);
    r->size += n;
    r->out[r->size] = 0;
}

static void puts_(struct rust *r, const char *text)
{
    put(r, text, strlen(text));
}

static bool eat(struct rust *r, char c)
{
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static uint64_t base62(struct rust *r)
{
    uint64_t n = 0;
    if (eat(r, '_'))
        return 0;
    for (; *r->at && *r->at != '_'; r->at++) {
        char c = *r->at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'Z' ? (unsigned)(c - 'A') + 36
                                                : 62;
        if (digit > 61 || n > UINT64_MAX / 128) {
            r->failed = true;
            return 0;
        }
        n = n * 62 + digit;
    }
    if (!eat(r, '_'))
        r->failed = true;
    return n + 1;
}

static void identifier(struct rust *r)
{
    bool unicode = eat(r, 'u');
    size_t n = 0;
    if (*r->at < '0' || *r->at > '9') {
        r->failed = true;
        return;
    }
    while (*r->at >= '0' && *r->at <= '9' && n < 1 << 16)
        n = n * 10 + (size_t)(*r->at++ - '0');
    eat(r, '_');
    if (strnlen(r->at, n) < n) {
        r->failed = true;
        return;
    }
    if (unicode)
        puts_(r, "u:"); /* Punycode, shown as it is */
    put(r, r->at, n);
    r->at += n;
}

static void disambiguator(struct rust *r, uint64_t *n)
{
    *n = eat(r, 's') ? base62(r) + 1 : 0;
}

static void path(struct rust *r, bool value);
static void type(struct rust *r);

/* Parses what a back reference names, in place of the reference. */
static void back(struct rust *r, void (*parse)(struct rust *))
{
    const char *here = r->at - 1;
    uint64_t n = base62(r);
    const char *resume = r->at;
    if (r->failed || r->start + n >= here) {
        r->failed = true;
        return;
    }
    if (r->quiet)
        return;
    r->at = r->start + n;
    parse(r);
    r->at = resume;
}

static void type_path(struct rust *r)
{
    path(r, false);
}

static void constant(struct rust *r)
{
    if (eat(r, 'B')) {
        if (++r->depth > DEPTH)
            r->failed = true;
        else
            back(r, constant);
        r->depth--;
        return;
    }
    char kind = *r->at ? *r->at++ : 0;
    if (kind == 'p') {
        puts_(r, "_");
        return;
    }
    bool negative = eat(r, 'n');
    uint64_t n = 0;
    for (; *r->at && *r->at != '_'; r->at++)
        n = n << 4 | (uint64_t)(*r->at <= '9' ? *r->at - '0' : *r->at - 'a' + 10);
    if (!eat(r, '_'))
        r->failed = true;
    char text[32];
    if (kind == 'b')
        snprintf(text, sizeof text, "%s", n ? "true" : "false");
    else if (kind == 'c')
        snprintf(text, sizeof text, n >= 32 && n < 127 ? "'%c'" : "'\\u{%x}'", (int)n);
    else
        snprintf(text, sizeof text, "%s%llu", negative ? "-" : "", (unsigned long long)n);
    puts_(r, text);
}

static void list(struct rust *r, void (*parse)(struct rust *))
{
    for (unsigned i = 0; !r->failed && *r->at && *r->at != 'E'; i++) {
        if (i)
            puts_(r, ", ");
        parse(r);
    }
    if (!eat(r, 'E'))
        r->failed = true;
}

static void generic(struct rust *r)
{
    if (eat(r, 'L')) {
        base62(r);
        puts_(r, "'_");
    } else if (eat(r, 'K')) {
        constant(r);
    } else {
        type(r);
    }
}

static void dyn_trait(struct rust *r)
{
    path(r, false);
    while (eat(r, 'p')) {
        puts_(r, "<");
        identifier(r);
        puts_(r, " = ");
        type(r);
        puts_(r, ">");
    }
}

static void type(struct rust *r)
{
    static const char *const basic[26] = {"i8",   "bool",  "char",  "f64", "str", "f32", NULL,
                                          "u8",   "isize", "usize", NULL,  "i32", "u32", "i128",
                                          "u128", "_",     NULL,    NULL,  "i16", "u16", "()",
                                          "...",  NULL,    "i64",   "u64", "!"};
    if (++r->depth > DEPTH)
        r->failed = true;
    if (r->failed)
        return;
    char c = *r->at;
    if (c >= 'a' && c <= 'z') {
        r->at++;
        puts_(r, basic[c - 'a'] ? basic[c - 'a'] : "?");
    } else if (eat(r, 'A')) {
        puts_(r, "[");
        type(r);
        puts_(r, "; ");
        constant(r);
        puts_(r, "]");
    } else if (eat(r, 'S')) {
        puts_(r, "[");
        type(r);
        puts_(r, "]");
    } else if (eat(r, 'T')) {
        puts_(r, "(");
        list(r, type);
        puts_(r, ")");
    } else if (c == 'R' || c == 'Q') {
        r->at++;
        if (eat(r, 'L'))
            base62(r);
        puts_(r, c == 'R' ? "&" : "&mut ");
        type(r);
    } else if (c == 'P' || c == 'O') {
        r->at++;
        puts_(r, c == 'P' ? "*const " : "*mut ");
        type(r);
    } else if (eat(r, 'F')) {
        if (eat(r, 'G'))
            base62(r);
        if (eat(r, 'U'))
            puts_(r, "unsafe ");
        if (eat(r, 'K') && !eat(r, 'C')) {
            bool quiet = r->quiet;
            r->quiet = true;
            identifier(r);
            r->quiet = quiet;
        }
        puts_(r, "fn(");
        list(r, type);
        puts_(r, ")");
        if (!eat(r, 'u')) {
            puts_(r, " -> ");
            type(r);
        }
    } else if (eat(r, 'D')) {
        puts_(r, "dyn ");
        if (eat(r, 'G'))
            base62(r);
        list(r, dyn_trait);
        if (eat(r, 'L'))
            base62(r);
    } else if (eat(r, 'B')) {
        back(r, type);
    } else {
        path(r, false);
    }
    r->depth--;
}

static void path(struct rust *r, bool value)
{
    if (++r->depth > DEPTH)
        r->failed = true;
    if (r->failed)
        return;
    uint64_t n;
    char c = *r->at ? *r->at++ : 0;
    switch (c) {
    case 'C':
        disambiguator(r, &n);
        identifier(r);
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (c != 'Y') { /* the impl's own path is not shown */
            bool quiet = r->quiet;
            r->quiet = true;
            disambiguator(r, &n);
            path(r, false);
            r->quiet = quiet;
        }
        puts_(r, "<");
        type(r);
        if (c != 'M') {
            puts_(r, " as ");
            path(r, false);
        }
        puts_(r, ">");
        break;
    case 'N': {
        char space = *r->at ? *r->at++ : 0;
        path(r, value);
        disambiguator(r, &n);
        if (space >= 'A' && space <= 'Z') {
            char text[40];
            puts_(r, space == 'C' ? "::{closure" : space == 'S' ? "::{shim" : "::{?");
            if (*r->at != '0')
                puts_(r, ":");
            identifier(r);
            snprintf(text, sizeof text, "#%llu}", (unsigned long long)n);
            puts_(r, text);
        } else {
            puts_(r, "::");
            identifier(r);
        }
        break;
    }
    case 'I':
        path(r, value);
        puts_(r, value ? "::<" : "<");
        list(r, generic);
        puts_(r, ">");
        break;
    case 'B':
        back(r, type_path);
        break;
    default:
        r->failed = true;
    }
    r->depth--;
}

static char *rust_v0(const char *name)
{
    struct rust r = {.start = name, .at = name};
    path(&r, true);
    /* the instantiating crate may follow, and a suffix such as .llvm.123 */
    if (!r.failed && *r.at && *r.at != '.' && *r.at != '$') {
        r.quiet = true;
        path(&r, false);
    }
    if (r.failed || !r.out || (*r.at && *r.at != '.' && *r.at != '$')) {
        free(r.out);
        return NULL;
    }
    return r.out;
}

/* ---- C++, legacy Rust ---- */

static char *(*cxa_demangle)(const char *, char *, size_t *, int *);

static void find_cxa(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        library = dlopen("libc++abi.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library)
        *(void **)&cxa_demangle = dlsym(library, "__cxa_demangle");
}

static bool is_hash(const char *text)
{
    if (strncmp(text, "::h", 3) || strlen(text) != 3 + 16)
        return false;
    return strspn(text + 3, "0123456789abcdef") == 16;
}

/* "$LT$alloc..vec..Vec$GT$" in place. */
static void rust_escapes(char *name)
{
    static const struct {
        const char *code, *text;
        /* clang-format off */
    } escapes[] = {{"$LT$", "<"},  {"$GT$", ">"},  {"$LP$", "("},  {"$RP$", ")"},
                   {"$C$", ","},   {"$RF$", "&"},  {"$BP$", "*"},  {"$SP$", "@"},
                   {"$u20$", " "}, {"$u27$", "'"}, {"$u5b$", "["}, {"$u5d$", "]"},
                   {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u3b$", ";"}, {"$u2b$", "+"},
                   {"$u7e$", "~"}, {"$u22$", "\""}};
    /* clang-format on */
    char *to = name;
    for (char *from = name; *from;) {
        size_t i = 0, count = sizeof escapes / sizeof *escapes;
        if (*from == '$')
            for (; i < count; i++)
                if (!strncmp(from, escapes[i].code, strlen(escapes[i].code)))
                    break;
        if (*from == '$' && i < count) {
            from += strlen(escapes[i].code);
            *to++ = escapes[i].text[0];
        } else if (from[0] == '.' && from[1] == '.') {
            from += 2;
            *to++ = ':';
            *to++ = ':';
        } else if (from[0] == '_' && from[1] == '$' && (from == name || from[-1] == ':')) {
            from++; /* an underscore before an escape at the start of a part */
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

static char *demangle(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (name[0] == '_' && name[1] == 'R')
        return rust_v0(name + 2);
    if (name[0] != '_' || name[1] != 'Z')
        return NULL;
    pthread_once(&once, find_cxa);
    if (!cxa_demangle || expand_cxx(name) > TEXT_MOST)
        return NULL;
    int status;
    char *text = cxa_demangle(name, NULL, NULL, &status);
    if (!text) {
        /* clones: _Z3fooi.constprop.0 */
        const char *dot = strchr(name, '.');
        char *base = dot ? strndup(name, (size_t)(dot - name)) : NULL;
        char *plain = base ? cxa_demangle(base, NULL, NULL, &status) : NULL;
        free(base);
        if (plain && asprintf(&text, "%s [clone %s]", plain, dot) < 0)
            text = NULL;
        free(plain);
        if (!text)
            return NULL;
    }
    size_t n = strlen(text);
    if (n > 19 && is_hash(text + n - 19)) {
        text[n - 19] = 0;
        rust_escapes(text);
    }
    return text;
}

char *spex_demangle(const char *name)
{
    assert(name);
    const char *tail = strrchr(name, '@');
    if (!tail || (strcmp(tail, "@plt") && strcmp(tail, "@got") && strcmp(tail, "@ifunc")))
        return demangle(name);
    char *base = strndup(name, (size_t)(tail - name)), *text = NULL;
    char *plain = base ? demangle(base) : NULL;
    if (plain && asprintf(&text, "%s%s", plain, tail) < 0)
        text = NULL;
    free(plain);
    free(base);
    return text;
}
