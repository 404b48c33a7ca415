/*
 * The account of time (docs/model.md): what it needs to know about an instruction, and the rules
 * for a single instruction or block, wherever data comes from: operands, latencies by class, ports.
 * uarch/pipe.c keeps the account of a running program.
 */
#ifndef ACCOUNT_OP_H
#define ACCOUNT_OP_H

#include "account/config.h"

enum {                                       /* numbers after those of enum spex_reg */
       ACCOUNT_NO_SOURCE = SPEX_REG_COUNT,   /* always ready */
       ACCOUNT_NO_DEST = SPEX_REG_COUNT + 1, /* never read */
       ACCOUNT_DIVIDER = SPEX_REG_COUNT + 2, /* two of them: ready when the divider is free */
       ACCOUNT_REGS = SPEX_REG_COUNT + 4,
};

enum account_kind {
    ACCOUNT_SIMPLE,
    ACCOUNT_LOAD,
    ACCOUNT_STORE,
    ACCOUNT_ATOMIC,
    ACCOUNT_HINT,   /* asks for lines but does not wait for them */
    ACCOUNT_DIVIDE, /* not pipelined */
    ACCOUNT_BARRIER,
    ACCOUNT_LARGE, /* more than two sources or destinations */
    ACCOUNT_MADE,  /* only in uarch: a load, store or atomic that was already made */
    ACCOUNT_GONE,  /* only in uarch: takes no time */
};

enum account_port {
    ACCOUNT_ALU,
    ACCOUNT_MUL,
    ACCOUNT_BRANCH,
    ACCOUNT_FP,
    ACCOUNT_LOADS,
    ACCOUNT_STORES,
    ACCOUNT_PORTS, /* number of ports; also means: needs no port */
};

struct account_op {
    uint8_t src[5], dst[4];
    uint8_t kind;
    uint8_t base; /* bit d: destination d is a base register, ready before the data */
    uint8_t base_dst;
    bool quick;      /* a load with one destination, and perhaps its base */
    uint8_t divider; /* ACCOUNT_DIVIDER: integer; + 1: FP */
    uint16_t latency;
    uint16_t size;  /* bytes of one access */
    uint8_t hint;   /* ACCOUNT_HINT: enum spex_prefetch */
    uint16_t align; /* an access that crosses a multiple of this takes longer */
    bool hits;      /* only in uarch: its loads hit level 1 */
    bool writes;    /* only in uarch, for ACCOUNT_GONE */
};

/* When one instruction was dispatched, issued, done and retired, in cycles of the core's clock. */
struct account_insn {
    uint64_t dispatch, issue, done, retire;
};

/* Latency of each class of operation. */
void account_latencies(const struct uarch_config *c, uint16_t latency[SPEX_EXEC_CLASS_COUNT]);
/* Is destination d of a load or store its base register, which is ready at once? */
bool account_writes_base(const struct spex_op *op, unsigned d);
/* latency: indexed by class. */
void account_op(const struct uarch_config *c, const uint16_t *latency, struct account_op *u,
                const struct spex_op *op);

/* ---- ports ---- */

/* The ports that a block uses; all zero before its first instruction. */
struct account_ports {
    uint32_t used[ACCOUNT_PORTS], count;
};
void account_use(struct account_ports *ports, const struct spex_op *op);
/*
 * The time, in parts of a cycle of dispatch as from account_parts(), that the ports of a block need
 * beyond that of its instructions.
 */
uint64_t account_extra(const struct uarch_config *c, uint32_t parts,
                       const struct account_ports *ports);

/* ---- time ---- */

/* Number of parts in a cycle, so that width and pipes divide it. */
uint32_t account_parts(const struct uarch_config *c);
/*
 * The time `by` parts after dispatch, as cycles << 16 | parts; begin: the first part of a cycle,
 * whose last part is 65535.
 */
static inline uint64_t account_after(uint64_t dispatch, uint64_t by, uint64_t begin)
{
    dispatch += by;
    return (dispatch & 0xffff) < begin ? dispatch + begin : dispatch;
}

#endif
