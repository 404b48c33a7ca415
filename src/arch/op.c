/* Names of kinds of operations. */
#include <spex/op.h>

const char *spex_op_kind_name(enum spex_op_kind kind)
{
    static const char *const names[SPEX_OP_KIND_COUNT] = {
        [SPEX_OP_OTHER] = "other",
        [SPEX_OP_CSEL] = "csel",
        [SPEX_OP_CSINC] = "csinc",
        [SPEX_OP_CSINV] = "csinv",
        [SPEX_OP_CSNEG] = "csneg",
        [SPEX_OP_CCMP] = "ccmp",
        [SPEX_OP_CCMN] = "ccmn",
        [SPEX_OP_SVE] = "sve",
        [SPEX_OP_SME_VECTOR] = "sme-vector",
        [SPEX_OP_SME_TILE] = "sme-tile",
        [SPEX_OP_BRANCH] = "branch",
        [SPEX_OP_ERET] = "eret",
        [SPEX_OP_ISB] = "isb",
        [SPEX_OP_BARRIER] = "barrier",
        [SPEX_OP_EXCEPTION] = "exception",
        [SPEX_OP_WAIT] = "wait",
        [SPEX_OP_SYSTEM] = "system",
        [SPEX_OP_LDST] = "ldst",
        [SPEX_OP_LDST_UNSPEC] = "ldst-unspec",
        [SPEX_OP_LDST_SVE] = "ldst-sve",
        [SPEX_OP_LDST_SME] = "ldst-sme",
        [SPEX_OP_LDST_TAG] = "ldst-tag",
        [SPEX_OP_LDST_NV2] = "ldst-nv2",
        [SPEX_OP_MEMCPY] = "memcpy",
        [SPEX_OP_MEMSET] = "memset",
        [SPEX_OP_GCS] = "gcs",
        [SPEX_OP_DC_ZVA] = "dc-zva",
        [SPEX_OP_CACHE] = "cache",
        [SPEX_OP_AT] = "at",
        [SPEX_OP_PREFETCH] = "prefetch",
        [SPEX_OP_SVE_PREFETCH] = "sve-prefetch",
    };
    return (unsigned)kind < SPEX_OP_KIND_COUNT ? names[kind] : "unknown";
}
