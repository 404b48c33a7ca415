/* Operation Type packets in words, and the words as filters. */
#include "internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

const char *spex_sample_op_name(enum spex_sample_op op)
{
    static const char *const names[SPEX_SAMPLE_OP_COUNT] = {
        [SPEX_SAMPLE_OTHER] = "other",   [SPEX_SAMPLE_LOAD] = "load",
        [SPEX_SAMPLE_STORE] = "store",   [SPEX_SAMPLE_ATOMIC] = "atomic",
        [SPEX_SAMPLE_BRANCH] = "branch",
    };
    return (unsigned)op < SPEX_SAMPLE_OP_COUNT ? names[op] : "?";
}

static struct op_table table;

static void describe(unsigned index)
{
    static const char *const kinds[SPEX_SUB_COUNT] = {
        /* clang-format off */
        [SPEX_SUB_SVE] = "sve",           [SPEX_SUB_SME] = "sme",
        [SPEX_SUB_LDST_SIMD_FP] = "simd-fp", [SPEX_SUB_LDST_UNSPEC] = "unspecified",
        [SPEX_SUB_LDST_TAG] = "tag",      [SPEX_SUB_LDST_NV2] = "nv2",
        [SPEX_SUB_LDST_SVE_SME] = "sve",  [SPEX_SUB_LDST_MEMCPY] = "memcpy",
        [SPEX_SUB_LDST_MEMSET] = "memset", [SPEX_SUB_LDST_GCS] = "gcs",
    };
    /* clang-format on */
    static const char *const procedure[] = {"", " call", " return", ""};
    struct spex_op_type t;
    unsigned op_class = index >> 8, op = SPEX_SAMPLE_OTHER, flags = 0;
    spex_op_type_decode(op_class, index & 255, &t);
    if (op_class == SPEX_CLASS_BRANCH) {
        op = SPEX_SAMPLE_BRANCH;
        flags = t.indirect ? SPEX_SAMPLE_INDIRECT : 0;
    } else if (op_class == SPEX_CLASS_LDST) {
        op = t.at ? SPEX_SAMPLE_ATOMIC : t.store ? SPEX_SAMPLE_STORE : SPEX_SAMPLE_LOAD;
        /* an atomic that returns nothing is recorded as a store; both kinds write */
        flags = (t.store ? 0 : SPEX_SAMPLE_READS) | (t.store || t.at ? SPEX_SAMPLE_WRITES : 0);
    }
    table.info[index].op = (uint8_t)op;
    table.info[index].flags = (uint8_t)flags;
    const char *kind = kinds[t.subclass];
    snprintf(table.text[index], sizeof table.text[index], "%s%s%s%s%s%s%s%s%s%s%s%s%s",
             spex_sample_op_name(op), kind ? " " : "", kind ? kind : "", t.cond ? " cond" : "",
             t.indirect ? " indirect" : "", procedure[t.cr & 3], t.excl ? " exclusive" : "",
             t.ar ? " acq-rel" : "", t.fp ? " fp" : "", t.ase ? " simd" : "", t.pred ? " pred" : "",
             t.sg ? " gather" : "", t.subclass == SPEX_SUB_RESERVED ? " reserved" : "");
}

static void fill(void)
{
    for (unsigned i = 0; i < 4 * 256; i++)
        describe(i);
}

const struct op_table *op_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    return &table;
}

const char *spex_sample_op_text(unsigned op_class, unsigned payload)
{
    return op_table()->text[OP_INDEX(op_class, payload)];
}

/* Does text contain this word? */
bool op_has_word(const char *text, const char *word, size_t size)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (n == size && !strncmp(text, word, n))
            return true;
        text += n + (text[n] == ' ');
    }
    return false;
}
