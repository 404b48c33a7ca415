/*
 * How long a mangled C++ name may become (Itanium C++ ABI, chapter 5.1). Names refer back to their
 * parts, so that each step can double the text: 273 bytes stand for 3 GB. This walks the grammar
 * and adds up lengths, without making any text. A name that it does not understand counts as
 * unbounded: for some of those, libstdc++'s parser does not terminate either.
 */
#include "expand.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    CAP = 1 << 24, /* lengths stop growing here */
    PARTS = 512,   /* parts that can be referred to */
    DEPTH = 200,
    STEPS = 100000, /* some parts, and parts of those, are looked at twice */
    WORD = 24,      /* a keyword, an operator or a builtin type, with blanks */
};

struct name {
    const char *at;
    uint32_t parts[PARTS];
    size_t part_count;
    /* longest list of template arguments, longest argument in it, most arguments in a pack */
    uint32_t args, arg, pack;
    unsigned lists; /* template argument lists around the current position */
    unsigned packs; /* pack expansions around the current position */
    unsigned depth, steps;
    uint32_t last; /* the last plain name, which constructors repeat */
    bool failed;
};

static uint32_t type(struct name *n);
static uint32_t encoding(struct name *n);
static uint32_t expression(struct name *n);
static uint32_t template_args(struct name *n);

static uint32_t add(uint32_t a, uint32_t b)
{
    return a + b < CAP ? a + b : CAP;
}

static uint32_t fail(struct name *n)
{
    n->failed = true;
    return CAP;
}

static bool eat(struct name *n, const char *text)
{
    size_t size = strlen(text);
    if (strncmp(n->at, text, size))
        return false;
    n->at += size;
    return true;
}

static bool next_in(const struct name *n, const char *set)
{
    return *n->at && strchr(set, *n->at);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static uint32_t number(struct name *n)
{
    uint32_t value = 0;
    eat(n, "n");
    for (; is_digit(*n->at); n->at++)
        value = value < CAP ? 10 * value + (uint32_t)(*n->at - '0') : CAP;
    return value;
}

/* A part that may be referred to. */
static uint32_t remember(struct name *n, uint32_t size)
{
    if (n->part_count == PARTS)
        return fail(n);
    return n->parts[n->part_count++] = size;
}

/* [0-9A-Z]* _ */
static size_t sequence(struct name *n)
{
    size_t value = 0;
    if (eat(n, "_"))
        return 0;
    for (; is_digit(*n->at) || (*n->at >= 'A' && *n->at <= 'Z'); n->at++)
        if (value < PARTS)
            value = value * 36 + (size_t)(is_digit(*n->at) ? *n->at - '0' : *n->at - 'A' + 10);
    if (!eat(n, "_"))
        n->failed = true;
    return value + 1;
}

/* S_, S0_, ...; St, Sa, ...: at most std::basic_iostream<char, std::char_traits<char> >. */
static uint32_t substitution(struct name *n)
{
    n->at++;
    if (is_lower(*n->at)) {
        n->at++;
        return 80;
    }
    size_t i = sequence(n);
    return i < n->part_count ? n->parts[i] : fail(n);
}

/* T_, T0_, TL0__: the longest list is assumed, whichever is meant. */
static uint32_t template_param(struct name *n)
{
    n->at++;
    if (eat(n, "L")) {
        number(n);
        eat(n, "_");
    }
    number(n);
    if (!eat(n, "_"))
        return fail(n);
    return add(WORD, n->packs ? n->arg : n->args);
}

static uint32_t source_name(struct name *n)
{
    uint32_t size = is_digit(*n->at) ? number(n) : 0;
    if (!size || strnlen(n->at, size) < size)
        return fail(n);
    n->at += size;
    return n->last = size + WORD; /* (anonymous namespace) is longer than its name */
}

static uint32_t types_until(struct name *n, const char *stop)
{
    uint32_t size = 0;
    while (*n->at && !next_in(n, stop) && !n->failed)
        size = add(size, add(2, type(n)));
    return size;
}

static uint32_t unqualified(struct name *n)
{
    uint32_t size;
    eat(n, "L");
    if (is_digit(*n->at)) {
        size = source_name(n);
    } else if (next_in(n, "CD") && (is_digit(n->at[1]) || (*n->at == 'C' && n->at[1] == 'I'))) {
        bool inheriting = n->at[1] == 'I';
        if (inheriting && !n->at[2])
            return fail(n);
        n->at += inheriting ? 3 : 2;
        size = add(n->last, 1);
        if (inheriting)
            size = add(size, type(n));
    } else if (eat(n, "DC")) {
        for (size = WORD; *n->at && !eat(n, "E") && !n->failed;)
            size = add(size, source_name(n));
    } else if (eat(n, "Ut")) {
        number(n);
        eat(n, "_");
        size = WORD + 10;
    } else if (eat(n, "Ul")) {
        size = add(WORD + 10, types_until(n, "E"));
        eat(n, "E");
        number(n);
        eat(n, "_");
    } else if (eat(n, "cv")) {
        size = add(WORD, type(n));
    } else if (eat(n, "li")) {
        size = add(WORD, source_name(n));
    } else if (is_lower(n->at[0]) && n->at[1]) { /* operators */
        bool vendor = n->at[0] == 'v' && is_digit(n->at[1]);
        n->at += 2;
        size = vendor ? add(WORD, source_name(n)) : WORD;
    } else {
        return fail(n);
    }
    while (eat(n, "B"))
        size = add(size, add(8, source_name(n)));
    return size;
}

static uint32_t nested(struct name *n)
{
    uint32_t size = 0;
    n->at++;
    for (; next_in(n, "rVKRO"); n->at++)
        size = add(size, WORD);
    while (!eat(n, "E")) {
        bool old = false;
        if (n->failed || !*n->at)
            return fail(n);
        if (*n->at == 'S') {
            size = add(size, substitution(n));
            old = true;
        } else if (*n->at == 'T') {
            size = add(size, template_param(n));
        } else if (*n->at == 'I') {
            size = add(size, template_args(n));
        } else if (*n->at == 'D' && (n->at[1] == 't' || n->at[1] == 'T')) {
            n->at += 2;
            size = add(size, add(WORD, expression(n)));
            eat(n, "E");
        } else if (eat(n, "M")) {
            continue;
        } else {
            size = add(size, add(2, unqualified(n)));
        }
        if (!old && *n->at != 'E')
            remember(n, size);
    }
    return size;
}

/* Z function E entity */
static uint32_t local(struct name *n)
{
    n->at++;
    uint32_t size = add(encoding(n), 2);
    if (!eat(n, "E"))
        return fail(n);
    if (eat(n, "d")) {
        number(n);
        eat(n, "_");
    }
    if (eat(n, "s"))
        size = add(size, WORD);
    else
        size = add(size, *n->at == 'N' ? nested(n) : unqualified(n));
    if (*n->at == '_') { /* a number, _3 or __12_ */
        bool two = n->at[1] == '_';
        n->at += two ? 2 : 1;
        number(n);
        if (two)
            eat(n, "_");
    }
    return size;
}

static uint32_t any_name(struct name *n)
{
    uint32_t size;
    if (*n->at == 'N')
        return nested(n);
    if (*n->at == 'Z')
        return local(n);
    if (*n->at == 'S' && n->at[1] != 't') {
        size = substitution(n);
        return *n->at == 'I' ? add(size, template_args(n)) : size;
    }
    bool std = eat(n, "St");
    size = add(std ? 5 : 0, unqualified(n));
    if (*n->at != 'I')
        return size;
    remember(n, size);
    return add(size, template_args(n));
}

static uint32_t template_arg(struct name *n)
{
    if (eat(n, "X")) {
        uint32_t size = expression(n);
        return eat(n, "E") ? size : fail(n);
    }
    return *n->at == 'L' ? expression(n) : *n->at == 'I' ? template_args(n) : type(n);
}

static uint32_t template_args(struct name *n)
{
    uint32_t size = 4, count = 0, longest = 0;
    bool outer = !n->lists++;
    n->at++;
    while (!eat(n, "E")) {
        if (n->failed || !*n->at || ++n->depth > DEPTH) {
            fail(n);
            break;
        }
        uint32_t one = *n->at == 'J' ? template_args(n) : template_arg(n);
        n->depth--;
        longest = one > longest ? one : longest;
        size = add(size, add(2, one));
        count++;
    }
    n->lists--;
    /* lists of the name itself, not of types in it: template parameters refer to those */
    if (outer || n->lists == 1) {
        n->arg = longest > n->arg ? longest : n->arg;
        n->pack = count > n->pack ? count : n->pack;
    }
    if (outer)
        n->args = longest > n->args ? longest : n->args;
    return size;
}

static uint32_t expression_list(struct name *n)
{
    uint32_t size = 2;
    while (!eat(n, "E")) {
        if (n->failed || !*n->at)
            return fail(n);
        size = add(size, add(2, expression(n)));
    }
    return size;
}

static uint32_t primary(struct name *n)
{
    uint32_t size;
    n->at++;
    if (eat(n, "_Z") || eat(n, "Z")) {
        size = encoding(n);
    } else {
        const char *start;
        size = type(n);
        for (start = n->at; *n->at && *n->at != 'E';)
            n->at++;
        size = add(size, (uint32_t)(n->at - start) + 2);
    }
    return eat(n, "E") ? size : fail(n);
}

/*
 * The scope that a name in an expression is looked up in: nested names, which are not remembered,
 * up to an E; or one type, which is remembered.
 */
static uint32_t scope(struct name *n)
{
    const struct name before = *n;
    uint32_t size = 0;
    while (is_digit(*n->at) && !n->failed) {
        size = add(size, add(2, source_name(n)));
        if (*n->at == 'I')
            size = add(size, template_args(n));
    }
    /* libstdc++ takes it for a constructor or destructor, and does not end */
    if (next_in(n, "CD") && n->at[1] != 'T' && n->at[1] != 't')
        return fail(n);
    if (n->at != before.at && *n->at == 'E' &&
        (is_digit(n->at[1]) || !strncmp(n->at + 1, "on", 2))) {
        n->at++;
        return size;
    }
    unsigned steps = n->steps;
    *n = before;
    n->steps = steps;
    return type(n);
}

static uint32_t plain_expression(struct name *n)
{
    static const char one[] = "ps ng ad de co pp mm nt nx sz az sp sZ te tw dl da aw",
                      two[] = "pl mi ml dv rm an or eo aS pL mI mL dV rM aN oR eO ls rs lS rS ss "
                              "eq ne lt gt le ge aa oo cm pm pt dt ds ix",
                      typed[] = "st ti at";
    char code[3] = {n->at[0], n->at[0] ? n->at[1] : 0, 0};
    uint32_t size = WORD;
    if (*n->at == 'L')
        return primary(n);
    if (*n->at == 'T')
        return template_param(n);
    if (is_digit(*n->at)) {
        size = source_name(n);
        return *n->at == 'I' ? add(size, template_args(n)) : size;
    }
    if (!code[1])
        return fail(n);
    n->at += 2;
    if (!strcmp(code, "gs"))
        return add(2, expression(n));
    if (!strcmp(code, "fp") || !strcmp(code, "fL")) {
        for (; *n->at && *n->at != '_'; n->at++)
            ;
        return eat(n, "_") ? WORD : fail(n);
    }
    if (!strcmp(code, "sr")) {
        size = add(size, scope(n));
        size = add(size, unqualified(n));
        return *n->at == 'I' ? add(size, template_args(n)) : size;
    }
    if (!strcmp(code, "cl"))
        return expression_list(n);
    if (!strcmp(code, "cv")) {
        size = add(size, type(n));
        return add(size, eat(n, "_") ? expression_list(n) : expression(n));
    }
    if (!strcmp(code, "il"))
        return expression_list(n);
    if (!strcmp(code, "tl")) {
        size = type(n);
        return add(size, expression_list(n));
    }
    if (!strcmp(code, "sP")) {
        size = template_args(n);
        return size;
    }
    if (!strcmp(code, "on")) {
        size = unqualified(n);
        return *n->at == 'I' ? add(size, template_args(n)) : size;
    }
    if (!strcmp(code, "tr"))
        return WORD;
    if (strstr(typed, code))
        return add(size, type(n));
    if (!strcmp(code, "pp") || !strcmp(code, "mm"))
        eat(n, "_");
    unsigned operands = strstr(one, code) ? 1 : strstr(two, code) ? 2 : !strcmp(code, "qu") ? 3 : 0;
    if (!operands)
        return fail(n);
    uint32_t part = 0;
    for (unsigned i = 0; i < operands; i++)
        part = add(part, add(4, expression(n)));
    if (!strcmp(code, "sp")) /* once for each element of a pack */
        part = (uint64_t)part * (n->pack + 1) < CAP ? part * (n->pack + 1) : CAP;
    return add(size, part);
}

static uint32_t expression(struct name *n)
{
    if (n->failed || ++n->depth > DEPTH || ++n->steps > STEPS)
        return fail(n);
    uint32_t size = plain_expression(n);
    n->depth--;
    return size;
}

/* D...: decltype, packs, vectors, newer builtin types, exception specifications. */
static uint32_t d_type(struct name *n)
{
    char c = n->at[1];
    uint32_t size = WORD;
    if (!c)
        return fail(n);
    n->at += 2;
    if (c == 'p') {
        n->packs++;
        size = add(8, type(n));
        n->packs--;
        return remember(n, (uint64_t)size * (n->pack + 1) < CAP ? size * (n->pack + 1) : CAP);
    }
    if (c == 't' || c == 'T') {
        size = add(size, expression(n));
        eat(n, "E");
        return remember(n, size);
    }
    if (c == 'v') {
        if (eat(n, "_"))
            size = add(size, expression(n));
        else
            number(n);
        return eat(n, "_") ? remember(n, add(size, type(n))) : fail(n);
    }
    if (c == 'O') { /* noexcept(expression) */
        size = add(size, expression(n));
        eat(n, "E");
        return add(size, type(n));
    }
    if (c == 'w') { /* throw(types) */
        size = add(size, types_until(n, "E"));
        eat(n, "E");
        return add(size, type(n));
    }
    if (c == 'o' || c == 'x')
        return add(size, type(n));
    if (c == 'F' || c == 'B' || c == 'U') {
        for (; is_digit(*n->at) || *n->at == 'b' || *n->at == 'x'; n->at++)
            ;
        eat(n, "_");
        return size;
    }
    return c && strchr("acdefhinsu", c) ? size : fail(n);
}

static uint32_t plain_type(struct name *n)
{
    uint32_t size = 0;
    char c = *n->at;
    if (next_in(n, "rVK")) {
        for (; next_in(n, "rVK"); n->at++)
            size += 10;
        return remember(n, add(size, type(n)));
    }
    if (next_in(n, "PROCG")) {
        n->at++;
        return remember(n, add(12, type(n)));
    }
    if (c == 'U') {
        n->at++;
        size = source_name(n);
        if (*n->at == 'I')
            size = add(size, template_args(n));
        return remember(n, add(size, type(n)));
    }
    if (c == 'u') {
        n->at++;
        return remember(n, source_name(n));
    }
    if (is_lower(c)) {
        n->at++;
        return WORD;
    }
    if (c == 'D')
        return d_type(n);
    if (c == 'F') {
        n->at++;
        eat(n, "Y");
        size = add(8, types_until(n, "E"));
        return eat(n, "E") ? remember(n, size) : fail(n);
    }
    if (c == 'A') {
        n->at++;
        if (is_digit(*n->at))
            number(n);
        else if (*n->at != '_')
            size = expression(n);
        return eat(n, "_") ? remember(n, add(size, add(16, type(n)))) : fail(n);
    }
    if (c == 'M') {
        n->at++;
        size = type(n);
        return remember(n, add(size, add(8, type(n))));
    }
    if (c == 'T' && n->at[1] && strchr("sue", n->at[1])) {
        n->at += 2;
        return remember(n, add(8, any_name(n)));
    }
    if (c == 'T') {
        size = remember(n, template_param(n));
        return *n->at == 'I' ? remember(n, add(size, template_args(n))) : size;
    }
    if (c == 'S' && n->at[1] != 't') {
        size = substitution(n);
        return *n->at == 'I' ? remember(n, add(size, template_args(n))) : size;
    }
    return remember(n, any_name(n));
}

static uint32_t type(struct name *n)
{
    if (n->failed || ++n->depth > DEPTH || ++n->steps > STEPS)
        return fail(n);
    /* the end of a function type with a reference qualifier is not a type */
    if (next_in(n, "RO") && n->at[1] == 'E') {
        n->at++;
        n->depth--;
        return 4;
    }
    uint32_t size = plain_type(n);
    n->depth--;
    return size;
}

/* Virtual tables, thunks, guards and the like. */
static uint32_t special(struct name *n)
{
    char a = n->at[0], b = n->at[1];
    n->at += 2;
    if (a == 'T' && strchr("VTIS", b))
        return add(40, type(n));
    if (a == 'T' && strchr("HW", b))
        return add(40, any_name(n));
    if (a == 'G' && strchr("VR", b)) {
        uint32_t size = add(40, any_name(n));
        if (b == 'R' && *n->at)
            sequence(n);
        return size;
    }
    if (a == 'T' && b == 'C') {
        uint32_t size = type(n);
        number(n);
        eat(n, "_");
        return add(size, add(40, type(n)));
    }
    if (a == 'G' && b == 'T' && *n->at) { /* transaction clones: GTt, GTn */
        n->at++;
        return add(40, encoding(n));
    }
    unsigned offsets = 1; /* h number _, v number _ number _; c: two of them */
    if (b == 'c')
        offsets = 2;
    else
        n->at--;
    if (a != 'T' || !strchr("chv", b))
        return fail(n);
    for (; offsets; offsets--) {
        bool pair = eat(n, "v");
        if (!pair && !eat(n, "h"))
            return fail(n);
        number(n);
        eat(n, "_");
        if (pair) {
            number(n);
            eat(n, "_");
        }
    }
    return add(40, encoding(n));
}

static uint32_t encoding(struct name *n)
{
    if (++n->depth > DEPTH)
        return fail(n);
    uint32_t size;
    unsigned lists = n->lists;
    n->lists = 0;
    if (next_in(n, "GT") && n->at[1] && !is_digit(n->at[1]) && n->at[1] != '_') {
        size = special(n);
    } else {
        size = any_name(n);
        n->lists = 1; /* lists in parameter types are not the name's */
        size = add(size, add(4, types_until(n, "E.")));
    }
    n->lists = lists;
    n->depth--;
    return size;
}

size_t expand_cxx(const char *mangled)
{
    struct name n = {.at = mangled + 2}; /* "_Z" */
    uint32_t size = encoding(&n);
    if (!n.failed && (!*n.at || *n.at == '.'))
        return add(size, (uint32_t)strnlen(n.at, CAP));
    return CAP;
}
