/* What the stream checker looks for, for one feature set. */
#ifndef RECORD_VERIFY_TABLES_H
#define RECORD_VERIFY_TABLES_H

#include <spex/verify.h>

#include "arch/feature_set.h"
#include "record/slots.h"

enum rule {
#define RULE(name, id, exact, requirements, title) name,
#include "record/rules.def"
    RULES,
    FINE = RULES
};

extern const struct spex_rule verify_rules[RULES];

/* Short names of slots for the tables below. */
enum {
    PC = SLOT_PC,
    TARGET = SLOT_TARGET,
    VA = SLOT_VA,
    PA = SLOT_PA,
    PREV = SLOT_PREV_TARGET,
    TOTAL = SLOT_TOTAL,
    ISSUE = SLOT_ISSUE,
    TRANSLATION = SLOT_TRANSLATION,
    ALT = SLOT_ALT_ISSUE,
    CONTEXT1 = SLOT_CONTEXT_EL1,
    CONTEXT2 = SLOT_CONTEXT_EL2,
    EVENTS = SLOT_EVENTS,
    SOURCE = SLOT_DATA_SOURCE,
    OP = SLOT_OP,
    TIMESTAMP = SLOT_TIMESTAMP,
    RECORD = SLOTS, /* "the record itself" in the table of checks */
};

/* clang-format off */
/*
 * Facts about a record: bits below SLOTS say which packets it has, the others derive from their
 * payloads. The checks below are masks over these bits.
 */
#define HAS(slot)    BIT(slot)
#define EXECUTED     BIT(16) /* E[1], not E[0], not bare: D17.6 says what must be there */
#define EXCEPTION    BIT(17) /* E[1] and E[0] */
#define NOT_TAKEN    BIT(18) /* E[6] */
#define MISPREDICT   BIT(19) /* E[7] */
#define PARTIAL      BIT(20) /* E[17] */
#define EMPTY        BIT(21) /* E[18] */
#define MEMORY_EVENT BIT(22) /* E[5:2], E[11:8], E[23:19] */
#define PC_EL1       BIT(23)
#define PC_EL2       BIT(24)
#define PC_NO_LEVEL  BIT(25) /* EL3 or an Exception level that is not implemented */
#define PC_SECURE    BIT(26)
#define MOVED        BIT(27) /* target in another Exception level or Security state */
#define FOREIGN      BIT(28) /* PA in a space that the Security state cannot reach */
#define MISS_ALONE   BIT(29) /* a miss event such as E[3] without its access event E[2] */
#define WALK_ALONE   BIT(30) /* E[5] without E[4] */
#define STREAMING    BIT(31) /* E[24] */
/* Facts of the operation type; none is set for a reserved one. */
#define KNOWN             BIT(32)
#define BRANCH            BIT(33)
#define NO_BRANCH         BIT(34)
#define NO_ACCESS         BIT(35) /* cannot be a memory access, nor a prefetch or the like */
#define CONDITIONAL       BIT(36)
#define TAKEN_TARGET      BIT(37) /* has a target if it was taken */
#define SAME_CONTEXT      BIT(38) /* cannot be an exception return */
#define NEEDS_VA          BIT(39)
#define NEEDS_TRANSLATION BIT(40)
#define NEEDS_SOURCE      BIT(41)
#define NO_SOURCE         BIT(42)
#define USES_VA           BIT(43)
#define NO_PREDICATE      BIT(44)
#define TRANSFORMED       BIT(45) /* NV2 */
#define LOAD              BIT(46)
#define SVE_ACCESS        BIT(47) /* a vector access other than the loads below */
#define SVE_LOAD          BIT(48) /* of a vector, perhaps predicated, so perhaps non-faulting */
#define PERHAPS           BIT(49) /* a memory access, if there is anything to access */
/* Facts of the PC, the events, the counters and the previous target. */
#define PC_UNALIGNED      BIT(58)
#define CACHE_EVENT       BIT(59) /* E[3:2], E[10:8], E[23:19]: memory was accessed */
#define TRANSLATED        BIT(60) /* has a translation latency that is not zero */
#define ISSUE_ABOVE       BIT(61) /* issue latency above total */
#define TRANSLATION_ABOVE BIT(62)
#define PREV_REALM_EL3    BIT(63)
/* clang-format on */

struct check {
    uint64_t all, none; /* violated if all bits of `all` and none of `none` are set */
    uint8_t rule, at;
};

enum { VERIFY_CHECKS = 62, VERIFY_EVENTS = 7 }; /* capacity of checks; number of event checks */

struct verify_tables {
    struct arch_features features;
    bool known, ignored[RULES];
    struct check active[VERIFY_CHECKS];
    unsigned active_count;
    uint32_t op_facts[4][256]; /* indexed by CLASS and payload; stored >> 32 */
    uint8_t op_rules[4][256];
    struct {
        uint64_t mask;
        uint8_t rule;
    } events[VERIFY_EVENTS];
    uint64_t events_zero;
    uint64_t misses; /* events that mean a miss; each follows the event of its access */
    uint16_t counter_zero;
    uint8_t reserved_spaces; /* bit NSE:NS set: reserved */
    uint32_t pc_facts[16];   /* indexed by payload [63:60]; stored >> 16 */
};

/* features NULL: unknown. tables is all zeros on entry. */
void verify_tables_init(struct verify_tables *tables, const struct arch_features *features);
/* Call after `ignored` has changed. */
void verify_tables_activate(struct verify_tables *tables);

#endif
