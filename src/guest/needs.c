/* Which feature an instruction needs, by the name of its row. */
#include "guest/a64.h"

#include <string.h>

static bool matches(const char *pattern, size_t n, const char *name)
{
    if (n && pattern[n - 1] == '*')
        return !strncmp(pattern, name, n - 1);
    if (n && pattern[0] == '*') { /* ends so */
        size_t length = strlen(name);
        return length >= n - 1 && !memcmp(name + length - (n - 1), pattern + 1, n - 1);
    }
    return strlen(name) == n && !memcmp(pattern, name, n);
}

static bool is_listed(const char *list, const char *name)
{
    for (size_t n; *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        if (matches(list, n, name))
            return true;
    }
    return false;
}

bool spex_a64_needs(uint32_t insn, struct spex_a64_need *need)
{
    static const struct {
        struct spex_a64_need need;
        const char *names;
    } rows[] = {
#define NEED(feature, from, names) {{feature, from}, names},
#define NEED_WORD(feature, from, mask, value)
#include "needs.def"
#undef NEED
#undef NEED_WORD
    };
    static const struct {
        struct spex_a64_need need;
        uint32_t mask, value;
    } words[] = {
#define NEED(feature, from, names)
#define NEED_WORD(feature, from, mask, value) {{feature, from}, mask, value},
#include "needs.def"
#undef NEED
#undef NEED_WORD
    };
    const char *name = spex_a64_name(insn);
    if (!name)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((insn & words[i].mask) == words[i].value) {
            *need = words[i].need;
            return true;
        }
    unsigned group = insn >> 25 & 15; /* C4.1, top level */
    bool sve = group == 2, sme = !group && insn >> 31;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool vectors = !strncmp(rows[i].need.feature, "FEAT_SVE", 8); /* names of SIMD, too */
        if (is_listed(rows[i].names, name) && (sve || sme || !vectors)) {
            *need = rows[i].need;
            return true;
        }
    }
    if (sme)
        *need = (struct spex_a64_need){"FEAT_SME", SPEX_A64_MAX};
    else if (sve)
        *need = (struct spex_a64_need){"FEAT_SVE", "neoverse-v1"};
    return sme || sve;
}
