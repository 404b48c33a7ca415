/*
 * SVE and SME loads, stores and prefetches in user mode. QEMU makes no memory callback for them,
 * but before such an instruction its registers are exact: a callback there computes what it will
 * access (Arm ARM C4.1, SVE memory; the forms are those of a64.def). Predicates are also read for
 * samples of other SVE operations.
 */
#ifndef GUEST_SVE_H
#define GUEST_SVE_H

#include <spex/op.h>

enum sve_form {
    SVE_CONTIGUOUS, /* base + offset, elements one after the other */
    SVE_WHOLE,      /* one vector or predicate without a predicate: LDR, STR */
    SVE_ONE,        /* one element for all lanes: LD1R */
    SVE_OFFSETS,    /* base + a vector of offsets */
    SVE_BASES,      /* a vector of bases + offset */
    SVE_PREDICATED, /* no access: an operation whose predicate matters */
};

struct sve {
    uint8_t form;             /* enum sve_form */
    uint8_t base;             /* register: X, 31 is SP; BASES: Z */
    uint8_t index;            /* SVE_NO_REG, X, or OFFSETS: Z */
    uint8_t predicate;        /* P */
    uint8_t element;          /* bytes of an element in registers */
    uint8_t size;             /* bytes of an element in memory, for all vectors together */
    uint8_t shift;            /* shift of the index */
    uint8_t extend;           /* OFFSETS: 0 64 bits, 1 unsigned 32, 2 signed 32 */
    bool store, faults_first; /* first-fault and non-fault loads */
    bool hint;                /* a prefetch: no access */
    uint16_t count;           /* elements */
    int32_t offset;
};

enum {
    SVE_NO_REG = 0xff,
    SVE_ITEMS = 64,
    SVE_RUN = 8, /* bytes that the model handles at a time */
};

/* False for other instructions, and for those not known here (SVE2.1). */
bool sve_decode(uint32_t word, const struct spex_op *op, struct sve *sve);

struct sve_list {
    struct {
        uint64_t va;
        uint32_t size;
    } item[SVE_ITEMS];
    unsigned count;
    uint64_t events; /* events for a partial and an empty predicate */
    bool skipped;    /* the lowest element is inactive: its address is here */
    uint64_t lowest;
};

/* Lists the next instruction's accesses on this vCPU: runs of at most `run` bytes, or elements. */
void sve_list(const struct sve *sve, unsigned vcpu, unsigned run, struct sve_list *list);

#endif
