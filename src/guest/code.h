/*
 * Guest code in both modes: blocks of instructions, made once per address and bytes. They never
 * change afterwards and are never freed.
 */
#ifndef GUEST_CODE_H
#define GUEST_CODE_H

#include "address.h"
#include "qemu_plugin.h"
#include "uarch/timing.h"

struct insn {
    const struct block *block;
    uint32_t index;
    const struct sve *sve; /* SVE access, or operation with a predicate; or NULL */
    /* user mode */
    uint32_t size; /* bytes of one access, as QEMU splits them */
    /*
     * a prefetch whose address is taken from registers just before it, not at the entry of its
     * block
     */
    bool asks;
    struct traced address;
    struct run_truth *truth; /* row of this instruction, or NULL */
};

struct block {
    struct timing_block timing; /* pc, count, ops */
    struct insn *insns;
    const uint32_t *words;
    struct block *next; /* next in the hash slot */
    /* user mode */
    uint8_t turn;            /* enum stack_turn; 0 without --stacks */
    uint32_t vl;             /* bits of an SVE vector */
    bool streaming;          /* PSTATE.SM */
    bool early;              /* some accesses are reported at its entry: DC ZVA, some prefetches */
    struct run_truth *truth; /* row of this block, or NULL */
    /* system mode */
    struct zva *zva;
    unsigned zva_count;
    uint8_t el;  /* Exception level, or ANY_EL */
    bool vector; /* may be an exception vector: aligned to 128 bytes */
    bool again;  /* a single atomic: QEMU may be repeating one that it could not do in place */
    bool eret;   /* ends with an exception return */
};

static inline const struct spex_op *op_of(const struct insn *insn)
{
    return &insn->block->timing.ops[insn->index];
}

/*
 * QEMU 7.2 makes accesses of at most 8 bytes, and two for a pair of registers; later versions merge
 * what they can. The model sees no difference: accesses are split as 7.2 does.
 */
static inline unsigned code_piece(const struct insn *insn, qemu_plugin_meminfo_t info,
                                  unsigned *size)
{
    /* LDP, STP, LDNP, STNP of W registers, LDPSW and not STGP: Arm ARM C4.1, loads and stores. */
    uint32_t word = insn->block->words[insn->index];
    bool words = (word & 0xbe000000) == 0x28000000 && (word & 0x40400000) != 0x40000000;
    unsigned most = words ? 4 : 8;
    *size = 1u << qemu_plugin_mem_size_shift(info);
    return *size > most ? most : *size;
}

static inline uint64_t pc_of(const struct insn *insn)
{
    return insn->block->timing.pc + 4 * (uint64_t)insn->index;
}

#endif
