/*
 * SVE loads and stores in user mode: passes them to the model, or to the sample of such an access.
 */
#include "need.h"
#include "plugin.h"
#include "sve.h"

#include "base/bits.h"

#include <stdlib.h>

enum { RUN = 64 }; /* bytes, if only a record shows them */

const struct sve *sve_make(uint32_t word, const struct spex_op *op)
{
    struct sve sve;
    if (!plugin.user.registers || (op->kind == SPEX_OP_LDST_SME && !plugin.user.svl) ||
        !sve_decode(word, op, &sve))
        return NULL;
    struct sve *kept = need(malloc(sizeof *kept));
    *kept = sve;
    return kept;
}

/* ---- streaming mode ---- */

static __thread struct {
    bool now, before; /* before: mode before the signal handler */
} streaming;

bool sve_switches(uint32_t word)
{
    return (word & 0xfffff0ff) == 0xd503407f || (word & 0xffffffe0) == 0xd51b4240;
}

void sve_switch(unsigned vcpu, void *data)
{
    uint32_t word = (uint32_t)(uintptr_t)data;
    bool by_register = word >> 20 & 1;
    if (by_register)
        streaming.now = (word & 31) != 31 && regs_read(vcpu, word & 31) & 1;
    else if (word >> 9 & 1) /* CRm: ZA, SM, the new value */
        streaming.now = word >> 8 & 1;
}

/* A handler is entered: the kernel leaves streaming mode until the handler returns. */
void sve_signalled(void)
{
    streaming.before = streaming.now;
    streaming.now = false;
}

void sve_call(bool sigreturn)
{
    streaming.now = sigreturn && streaming.before;
}

void sve_translate(bool handler)
{
    uint32_t vl = plugin.user.vl ? 8 * regs_vector_length() : 0;
    plugin.user.streaming = streaming.now && !handler;
    if (!vl)
        return;
    plugin.user.vl = vl;
    if (plugin.user.streaming)
        plugin.user.svl = vl;
}

/* ---- accesses ---- */

static void add_part(struct vcpu *v, const struct insn *insn, uint64_t va)
{
    if (v->part_count < PARTS)
        v->parts[v->part_count++] = (struct spex_access){
            .va = va,
            .pas = SPEX_NONSECURE,
            .flags = insn->sve->hint ? SPEX_ACC_VA : SPEX_ACC_VA | SPEX_ACC_DONE};
}

/* data: the instruction. */
void sve_execute(unsigned vcpu, void *data)
{
    struct vcpu *v = plugin.hot[vcpu].vcpu;
    const struct insn *insn = data;
    struct sve_list list;
    if (__builtin_expect(v->hot->want != insn, 1))
        return;
    sve_list(insn->sve, vcpu, RUN, &list);
    v->events = list.events;
    if (list.skipped)
        v->parts[v->part_count++] = (struct spex_access){
            .va = list.lowest, .pas = SPEX_NONSECURE, .flags = SPEX_ACC_VA | SPEX_ACC_INACTIVE};
    if (plugin.user.allocs && list.count)
        allocs_look(v, list.item[0].va, UINT64_MAX);
    for (unsigned i = 0; i < list.count; i++)
        add_part(v, insn, list.item[i].va);
}

/* The full model: words for its thread. */
void sve_execute_full(unsigned vcpu, void *data)
{
    const struct insn *insn = data;
    struct sve_list list;
    if (insn->sve->form == SVE_PREDICATED)
        return;
    sve_list(insn->sve, vcpu, insn->sve->hint ? RUN : SVE_RUN, &list);
    struct hot *h = &plugin.hot[vcpu];
    if (list.count && !h->far)
        flow_partial(h->ring)[h->at - h->ring] = list.events;
    for (unsigned i = 0; i < list.count; i++)
        hot_access(h, SPEX_TIMING_ACCESS(list.item[i].va, insn->index));
}

uint64_t sve_events(const struct insn *insn, bool accesses, bool partial)
{
    if (insn->sve->form == SVE_WHOLE || insn->sve->form == SVE_PREDICATED)
        return 0;
    if (!accesses)
        return BIT(SPEX_EV_PARTIAL_PRED) | BIT(SPEX_EV_EMPTY_PRED);
    return partial ? BIT(SPEX_EV_PARTIAL_PRED) : 0;
}
