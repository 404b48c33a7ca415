/*
 * What a PE did, as an engine describes it: the language between guests, the microarchitecture
 * model and the SPU.
 *
 * struct spex_op is what the instruction is (a function of its encoding); struct spex_outcome
 * is what happened this time. The A64 classifier makes the first, an engine and `uarch` the
 * second, the SPU turns both into a record. Plain data, no functions with state. Members
 * called zero are reserved for later versions: clear a whole struct first (memset, or = {0}).
 */
#ifndef SPEX_OP_H
#define SPEX_OP_H

#include <spex/base.h>
#include <spex/events.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spex_security { SPEX_SECURE, SPEX_NONSECURE, SPEX_REALM, SPEX_ROOT };

enum spex_op_kind {
    SPEX_OP_OTHER,       /* integer, FP and SIMD data processing, moves, NOP */
    SPEX_OP_CSEL,        /* conditional select (integer or FP) */
    SPEX_OP_CSINC,       /* conditional select increment */
    SPEX_OP_CSINV,       /* conditional select inversion */
    SPEX_OP_CSNEG,       /* conditional select negation */
    SPEX_OP_CCMP,        /* conditional compare (integer or FP) */
    SPEX_OP_CCMN,        /* conditional compare negative */
    SPEX_OP_SVE,         /* SVE data processing: vectors or predicates, not ZA */
    SPEX_OP_SME_VECTOR,  /* ZA array vectors or tile slices */
    SPEX_OP_SME_TILE,    /* two-dimensional ZA tiles */
    SPEX_OP_BRANCH,      /* flags: COND, INDIRECT, LINK, RETURN, GCS */
    SPEX_OP_ERET,        /* exception return: an unconditional branch for SPE */
    SPEX_OP_ISB,         /* Instruction barrier (a branch or not: a choice) */
    SPEX_OP_BARRIER,     /* DMB, DSB, SB, CSDB ... */
    SPEX_OP_EXCEPTION,   /* SVC, HVC, SMC, BRK, HLT, UDF */
    SPEX_OP_WAIT,        /* WFE, WFI, WFET, WFIT, YIELD */
    SPEX_OP_SYSTEM,      /* MRS, MSR, SYS and the rest */
    SPEX_OP_LDST,        /* flags: SIMD, FP, EXCL, ACQREL, ATOMIC */
    SPEX_OP_LDST_UNSPEC, /* unspecified registers, for example LD64B */
    SPEX_OP_LDST_SVE,
    SPEX_OP_LDST_SME, /* ZA array vectors or slices, ZT0 */
    SPEX_OP_LDST_TAG, /* Allocation Tags alone */
    SPEX_OP_LDST_NV2, /* MRS or MSR turned into memory access */
    SPEX_OP_MEMCPY,   /* CPY*, CPYF*: a load and a store */
    SPEX_OP_MEMSET,   /* SET*, SETG* */
    SPEX_OP_GCS,      /* Guarded Control Stack data access that is not a branch */
    SPEX_OP_DC_ZVA,   /* DC ZVA, GVA, GZVA (a store or Other: a choice) */
    SPEX_OP_CACHE,    /* cache maintenance by VA */
    SPEX_OP_AT,       /* address translation */
    SPEX_OP_PREFETCH, /* PRFM and friends */
    SPEX_OP_SVE_PREFETCH,
    SPEX_OP_KIND_COUNT
};

enum spex_op_flag {
    SPEX_OPF_LOAD = 1u << 0,       /* reads memory: loads, swaps, returning atomics */
    SPEX_OPF_STORE = 1u << 1,      /* writes memory: stores, all atomics */
    SPEX_OPF_ATOMIC = 1u << 2,     /* LSE atomic or swap or compare and swap */
    SPEX_OPF_EXCL = 1u << 3,       /* Load-Exclusive, Store-Exclusive */
    SPEX_OPF_ACQREL = 1u << 4,     /* acquire or release */
    SPEX_OPF_FP = 1u << 5,         /* FP_SPEC data processing; scalar SIMD&FP load/store */
    SPEX_OPF_SIMD = 1u << 6,       /* Advanced SIMD; Q, structure, replicate load/store */
    SPEX_OPF_SIMDFP_REG = 1u << 7, /* load/store of SIMD&FP registers */
    SPEX_OPF_PRED = 1u << 8,       /* predicated in the sense of D17.6.6 */
    SPEX_OPF_GATHER = 1u << 9,     /* gather or scatter */
    SPEX_OPF_COND = 1u << 10,      /* branch: conditional (B.cond, CBZ, TBZ ...) */
    SPEX_OPF_INDIRECT = 1u << 11,
    SPEX_OPF_LINK = 1u << 12,           /* branch with link */
    SPEX_OPF_RETURN = 1u << 13,         /* procedure return */
    SPEX_OPF_GCS = 1u << 14,            /* includes a GCS data access when GCS is enabled */
    SPEX_OPF_CSYNC = 1u << 15,          /* context synchronization */
    SPEX_OPF_PSB = 1u << 16,            /* PSB CSYNC */
    SPEX_OPF_PREDICATE_ONLY = 1u << 17, /* touches predicate registers only */
    SPEX_OPF_CONTIGUOUS = 1u << 18,     /* accesses form one contiguous run */
    SPEX_OPF_PRED_ZEROING = 1u << 19,   /* predicated zeroing load (E.g. SVE LD1) */
    SPEX_OPF_WHOLE_ZA = 1u << 20,       /* operates on the whole ZA array */
    SPEX_OPF_TAG_DATA = 1u << 21,       /* LDST_TAG: stores Tags and data (STGP, STZG ...) */
    SPEX_OPF_ASIMD_EQUIV = 1u << 22,    /* SVE/SME: an Advanced SIMD equivalent exists */
    SPEX_OPF_STATUS_RESULT = 1u << 23,  /* store with status result: ST64BV, ST64BV0 */
};

/* Execution class for latency models. */
/* clang-format off */
enum spex_exec_class {
    SPEX_EXEC_NOP, SPEX_EXEC_ALU, SPEX_EXEC_SHIFT, SPEX_EXEC_MUL, SPEX_EXEC_DIV,
    SPEX_EXEC_BRANCH, SPEX_EXEC_LOAD, SPEX_EXEC_STORE, SPEX_EXEC_ATOMIC,
    SPEX_EXEC_FP_MOVE, SPEX_EXEC_FP_ADD, SPEX_EXEC_FP_MUL, SPEX_EXEC_FP_FMA,
    SPEX_EXEC_FP_DIV, SPEX_EXEC_FP_SQRT, SPEX_EXEC_FP_CVT,
    SPEX_EXEC_SIMD_ALU, SPEX_EXEC_SIMD_MUL, SPEX_EXEC_CRYPTO, SPEX_EXEC_SVE,
    SPEX_EXEC_SME, SPEX_EXEC_SYSTEM, SPEX_EXEC_BARRIER,
    SPEX_EXEC_CLASS_COUNT
};
/* clang-format on */

/* Register names for operand tracking: X0..X30, SP, V/Z0..31, P0..15, flags. */
/* clang-format off */
enum spex_reg {
    SPEX_REG_X0 = 0, SPEX_REG_SP = 31, SPEX_REG_V0 = 32, SPEX_REG_P0 = 64,
    SPEX_REG_NZCV = 80, SPEX_REG_FFR = 81, SPEX_REG_ZA = 82, SPEX_REG_ZT0 = 83,
    SPEX_REG_COUNT = 84, SPEX_REG_NONE = 0xff
};
/* clang-format on */

/* A prefetch: the level of cache that the line is to go to, 0 for a hint that asks for none. */
enum spex_prefetch {
    SPEX_PREFETCH_LEVEL = 3,
    SPEX_PREFETCH_WRITE = 4,
};

struct spex_op {
    uint8_t kind;   /* enum spex_op_kind */
    uint8_t exec;   /* enum spex_exec_class */
    uint8_t src[5]; /* enum spex_reg, SPEX_REG_NONE when unused */
    uint8_t dst[4];
    uint8_t access_size;   /* bytes of one register or element access */
    uint16_t access_bytes; /* bytes of the whole operation, when fixed */
    uint32_t flags;        /* enum spex_op_flag */
    uint32_t vector_bits;  /* SVE/SME: bits of one vector; SME tile: bits of the tile */
    uint8_t vectors;       /* SVE/SME: number of vectors, else 1 */
    uint8_t prefetch;      /* enum spex_prefetch: target cache level and kind of access */
    uint8_t zero[6];
};

enum spex_access_flag {
    SPEX_ACC_VA = 1u << 0,             /* an access was made or attempted and va is known */
    SPEX_ACC_PA = 1u << 1,             /* the PE translated it and pa is known */
    SPEX_ACC_SOURCE = 1u << 2,         /* data_source is known */
    SPEX_ACC_TBI = 1u << 3,            /* Top Byte Ignore applies to va */
    SPEX_ACC_TAG_CHECKED = 1u << 4,    /* checked against an Allocation Tag (MTE) */
    SPEX_ACC_DONE = 1u << 5,           /* the access was performed */
    SPEX_ACC_TAG_IGNORED = 1u << 6,    /* Tag Check Faults are configured to be ignored */
    SPEX_ACC_TAG_CANONICAL = 1u << 7,  /* Canonically Tagged address */
    SPEX_ACC_EXTERNAL_ABORT = 1u << 8, /* took an External abort */
    SPEX_ACC_INACTIVE = 1u << 9,       /* SVE part: the element is Inactive (va may be known) */
};

/* One data access of an operation. */
struct spex_access {
    uint64_t va, pa;
    uint64_t events; /* E[] bits of this access: E[5:2], E[11:8], E[23:19], IMPDEF */
    uint32_t start;  /* parts[] only: cycle at which this part begins, from the operation's start */
    uint32_t translation; /* cycles waiting for the MMU, from start */
    uint32_t memory;      /* parts[] only: cycles accessing memory, after translation */
    uint32_t total;       /* parts[] only: total cycles of this part, 0 if unknown */
    uint16_t data_source;
    uint16_t flags; /* enum spex_access_flag */
    uint8_t pas;    /* enum spex_security of the physical address space */
    uint8_t tag;    /* physical address tag (MTE) */
    uint8_t zero[10];
};

enum spex_outcome_flag {
    SPEX_OUT_EXECUTED = 1u << 0,     /* Architecturally executed */
    SPEX_OUT_EXCEPTION = 1u << 1,    /* completed with a synchronous exception */
    SPEX_OUT_PASSED = 1u << 2,       /* condition passed; branch: taken */
    SPEX_OUT_SPECULATIVE = 1u << 3,  /* mis-speculated; never executed architecturally */
    SPEX_OUT_NO_INSN = 1u << 4,      /* not related to an instruction */
    SPEX_OUT_NONARCH_EXC = 1u << 5,  /* a non-architectural exception */
    SPEX_OUT_MONITOR_FAIL = 1u << 6, /* Store-Exclusive whose monitor check failed */
    SPEX_OUT_ILLEGAL_ERET = 1u << 7,
    SPEX_OUT_STREAMING = 1u << 8,       /* PSTATE.SM at completion */
    SPEX_OUT_ALT_CLOCK = 1u << 9,       /* alt_issue is valid */
    SPEX_OUT_GCS_ENABLED = 1u << 10,    /* the op's GCS access happened */
    SPEX_OUT_IMPDEF_COUNTER = 1u << 11, /* impdef_counter is valid */
    SPEX_OUT_IMPDEF_ADDRESS = 1u << 12, /* impdef_address is valid */
};

struct spex_outcome {
    uint32_t flags;  /* enum spex_outcome_flag */
    uint64_t events; /* E[] bits that do not belong to an access: E[7], E[18:17], E[25], IMPDEF */
    uint32_t total, issue, alt_issue; /* cycles, unsaturated */
    uint64_t target;                  /* branch target or ERET target */
    uint8_t target_el, target_security;
    uint8_t spsr_el, spsr_security; /* illegal exception return: what SPSR describes */
    /*
     * access[0] is the only access, or the load side; access[1] the store side of
     * operations that do both (MEMCPY, GCSSS2). If part_count is not zero, parts[]
     * hold every access of a multi-access operation, vector elements in order, and
     * access[0] is not looked at.
     */
    struct spex_access access[2];
    const struct spex_access *parts;
    size_t part_count;
    uint64_t impdef_address; /* IMPLEMENTATION DEFINED packets, where the unit has them */
    uint32_t impdef_counter;
    uint8_t zero[20];
};

const char *spex_op_kind_name(enum spex_op_kind kind); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
