#include "waits.h"

#include <spex/a64.h>
#include <spex/symbols.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands ---- */

enum { OPERANDS = 8 };

struct operand {
    uint64_t registers;
    bool memory, writes_back;
};

static bool letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The register in a word, as a bit; 0: none, or one that is always zero. */
static uint64_t register_bit(const char *word, size_t size)
{
    char *end, text[8];
    if (size == 2 && !strncmp(word, "sp", 2))
        return UINT64_C(1) << 31;
    if (size < 2 || size > 3 || !strchr("xwvqdshbz", word[0]) || word[1] < '0' || word[1] > '9')
        return 0;
    memcpy(text, word + 1, size - 1);
    text[size - 1] = 0;
    unsigned long n = strtoul(text, &end, 10);
    bool whole = word[0] == 'x' || word[0] == 'w';
    if (*end || n > (whole ? 30 : 31))
        return 0;
    return UINT64_C(1) << (n + (whole ? 0 : 32));
}

/* Splits at commas outside brackets and braces; returns the number of parts. */
static size_t split(const char *p, struct operand operands[OPERANDS])
{
    size_t n = 0;
    int depth = 0;
    bool any = false;
    memset(operands, 0, OPERANDS * sizeof *operands);
    while (*p && n < OPERANDS && !(p[0] == '/' && p[1] == '/')) {
        if (*p == '[' && !depth)
            operands[n].memory = true;
        if (*p == '[' || *p == '{')
            depth++;
        if (*p == ']' || *p == '}')
            depth--;
        if (*p == ',' && depth <= 0) {
            n++;
            p++;
            continue;
        }
        if (*p == '!')
            operands[n].writes_back = true;
        any |= *p != ' ' && *p != '\t';
        if (letter_or_digit(*p)) {
            size_t size = 0;
            while (letter_or_digit(p[size]))
                size++;
            operands[n].registers |= register_bit(p, size);
            p += size;
        } else {
            p++;
        }
    }
    if (any && n < OPERANDS)
        n++;
    /* [x0], #8: writes the base, because an operand follows it */
    for (size_t i = 0; i + 1 < n; i++)
        operands[i].writes_back |= operands[i].memory;
    return n;
}

/* ---- what instructions read and write ---- */

static bool begins(const char *word, const char *with)
{
    return !strncmp(word, with, strlen(with));
}

static bool one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(word, *list))
            return true;
    return false;
}

static bool is_branch(const char *name)
{
    static const char *const branches[] = {"b",   "bl",   "br",    "blr",   "ret", "cbz",  "cbnz",
                                           "tbz", "tbnz", "retaa", "retab", "svc", "eret", NULL};
    return one_of(name, branches) || begins(name, "b.") || begins(name, "bra") ||
           begins(name, "blra");
}

static bool sets_flags(const char *name)
{
    static const char *const setters[] = {"adds", "subs", "ands",  "bics",  "adcs",   "sbcs",
                                          "negs", "ngcs", "cmp",   "cmn",   "tst",    "ccmp",
                                          "ccmn", "fcmp", "fcmpe", "fccmp", "fccmpe", NULL};
    return one_of(name, setters);
}

static bool needs_flags(const char *name)
{
    static const char *const readers[] = {"adc",  "adcs", "sbc",   "sbcs",  "ngc",  "ngcs",
                                          "ccmp", "ccmn", "fccmp", "fcsel", "cset", "csetm",
                                          "cinc", "cinv", "cneg",  NULL};
    return one_of(name, readers) || begins(name, "cse") || begins(name, "csi") ||
           begins(name, "csn") || begins(name, "b.");
}

/* How many of the first operands the instruction writes. */
static size_t results(const char *name)
{
    static const char *const none[] = {"cmp",   "cmn",    "tst",  "ccmp",  "ccmn", "fcmp", "fcmpe",
                                       "fccmp", "fccmpe", "prfm", "prfum", "dc",   "ic",   "msr",
                                       "nop",   "hint",   "dmb",  "dsb",   "isb",  NULL};
    static const char *const pairs[] = {"ldp", "ldnp", "ldpsw", "ldxp", "ldaxp", NULL};
    if (one_of(name, none) || is_branch(name))
        return 0;
    if (begins(name, "stx") || begins(name, "stlx"))
        return 1; /* the status register of a store exclusive */
    if (begins(name, "st"))
        return 0;
    return one_of(name, pairs) ? 2 : 1;
}

/* LDADD and similar, SWP: the second operand receives the old value. */
static bool is_atomic(const char *name)
{
    static const char *const kinds[] = {"ldadd",  "ldclr",  "ldeor",  "ldset", "ldsmax",
                                        "ldsmin", "ldumax", "ldumin", "swp",   NULL};
    for (size_t i = 0; kinds[i]; i++)
        if (begins(name, kinds[i]))
            return true;
    return false;
}

/* Does the instruction also read its result register? */
static bool also_reads(const char *name)
{
    static const char *const kinds[] = {"movk", "bfi", "bfxil", "bfm", "ins", NULL};
    return one_of(name, kinds) || begins(name, "fml") || begins(name, "mla") ||
           begins(name, "mls") || begins(name, "cas") || strstr(name, "mlal") ||
           strstr(name, "dot");
}

void code_use(const char *text, struct code_use *use)
{
    struct operand operands[OPERANDS];
    char name[16];
    *use = (struct code_use){0};
    while (*text == ' ' || *text == '\t')
        text++;
    size_t size = strcspn(text, " \t");
    snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : 0), text);
    size_t count = split(text + size, operands), written = results(name);
    bool atomic = is_atomic(name);
    for (size_t i = 0; i < count; i++) {
        bool result = atomic ? i == 1 : i < written && !operands[i].memory;
        if (result)
            use->writes |= operands[i].registers;
        if (!result || also_reads(name))
            use->reads |= operands[i].registers;
        if (operands[i].memory && operands[i].writes_back)
            use->writes |= operands[i].registers & 0xffffffff;
    }
    use->writes_flags = sets_flags(name);
    use->reads_flags = needs_flags(name);
    use->ends = is_branch(name);
}

/* ---- blocks ---- */

void code_find_blocks(struct code_block *code)
{
    uint64_t target;
    memset(code->starts, 0, code->count * sizeof *code->starts);
    for (size_t i = 0; i < code->count; i++) {
        if (!code->uses[i].ends)
            continue;
        if (i + 1 < code->count)
            code->starts[i + 1] = true;
        bool call = (code->words[i] & 0xfc000000) == 0x94000000;
        if (!call && spex_a64_target(code->words[i], code->address + 4 * i, &target) &&
            target >= code->address && (target - code->address) / 4 < code->count)
            code->starts[(target - code->address) / 4] = true;
    }
}

size_t code_never_sampled(const struct code_block *code, const uint64_t *samples)
{
    enum { OFTEN = 30, SHORTEST = 6 }; /* 0 of 30 by chance happens once in 10^13 */
    size_t all = 0, length = 0, never = 0;
    uint64_t most = 0;
    for (size_t i = 0; i <= code->count; i++) {
        if (i == code->count || code->starts[i]) {
            all += length >= SHORTEST && 3 * never >= length ? never : 0;
            length = never = 0;
            most = 0;
        }
        if (i == code->count)
            break;
        bool hint = (code->words[i] & 0xfffff01f) == 0xd503201f; /* NOP and similar */
        length += !hint;
        never += !hint && !samples[i] && most >= OFTEN;
        most = samples[i] > most ? samples[i] : most;
    }
    return all;
}

/* Registers that are needed, and whose writer is not yet found. */
struct needed {
    uint64_t registers;
    bool flags;
    size_t best;
};

/* Looks at an instruction further up. */
static void look_at(const struct code_block *code, size_t i, struct needed *needed)
{
    const struct code_use *use = &code->uses[i];
    bool makes = use->writes & needed->registers || (use->writes_flags && needed->flags);
    if (!makes)
        return;
    if (needed->best == code->count || code->cost[i] > code->cost[needed->best])
        needed->best = i;
    needed->registers &= ~use->writes;
    needed->flags &= !use->writes_flags;
}

size_t code_waits_for(const struct code_block *code, size_t at)
{
    struct needed needed = {code->uses[at].reads, code->uses[at].reads_flags, code->count};
    size_t first = at, last = at;
    while (first > 0 && !code->starts[first])
        first--;
    for (size_t i = at; i-- > first;)
        look_at(code, i, &needed);
    while (last + 1 < code->count && !code->starts[last + 1])
        last++;
    uint64_t target;
    if (spex_a64_target(code->words[last], code->address + 4 * last, &target) &&
        target == code->address + 4 * first)
        for (size_t i = last + 1; i-- > at;)
            look_at(code, i, &needed);
    return needed.best;
}
