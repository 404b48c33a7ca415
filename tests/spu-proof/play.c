/* Steps, on the unit and on the naive one. */
#include "pair.h"

#include "base/bits.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pair_differ(struct pair *p, const char *format, ...)
{
    if (!p->result->equal)
        return;
    p->result->equal = false;
    va_list list;
    va_start(list, format);
    vsnprintf(p->result->what, sizeof p->result->what, format, list);
    va_end(list);
}

/* EL12 names hold nothing; registers of other blocks are only looked at where they exist. */
bool pair_looked_at(struct pair *p, unsigned encoding)
{
    uint64_t value;
    if (encoding == SPEX_PMSCR_EL12 || encoding == SPEX_PMBSR_EL12)
        return false;
    bool other = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        other = other || others[i] == encoding;
    return !other || naive_get(&p->naive, encoding, &value);
}

/* By an instruction: EL12 names too, but no registers that other blocks do not have. */
static bool reachable(struct pair *p, unsigned encoding)
{
    return encoding == SPEX_PMSCR_EL12 || encoding == SPEX_PMBSR_EL12 ||
           pair_looked_at(p, encoding);
}

static void set(struct pair *p, unsigned encoding, uint64_t value)
{
    if (!pair_looked_at(p, encoding))
        return;
    bool here = spex_spu_set(p->unit, encoding, value);
    if (here)
        SAY(p, "set %s 0x%" PRIx64 "\n", spex_sysreg_name(encoding), value);
    if (p->compare && naive_set(&p->naive, encoding, value) != here)
        pair_differ(p, "set %s: unit %s it", spex_sysreg_name(encoding), here ? "has" : "lacks");
}

uint64_t pair_get(struct pair *p, unsigned encoding)
{
    uint64_t value = 0;
    spex_spu_get(p->unit, encoding, &value);
    return value;
}

static void to_state(struct pair *p, const struct spex_spu_state *state)
{
    SAY(p, "state el=%u security=%s aarch32=%u halted=%d sdd=%d pm=%d\n", state->el,
        securities[state->security], state->aarch32, state->halted, state->sdd, state->pm);
    spex_spu_set_state(p->unit, state);
    if (p->compare)
        naive_state(&p->naive, state);
    p->pe = *state;
}

static uint8_t highest_security(const struct arch_features *f)
{
    return f->EL3 ? (f->RME ? SPEX_ROOT : SPEX_SECURE) : f->Secure ? SPEX_SECURE : SPEX_NONSECURE;
}

static void sync(struct pair *p)
{
    SAY(p, "isb\n");
    spex_spu_context_sync(p->unit);
    if (p->compare)
        naive_context_sync(&p->naive);
}

/* Values of SCR_EL3 and HCR_EL2 that the state of the PE allows. */
static uint64_t legal(const struct pair *p, unsigned encoding, uint64_t value)
{
    const struct arch_features *f = &p->run->features;
    if (encoding == SPEX_SCR_EL3) {
        if (!f->Secure)
            value |= BIT(0);
        if (!f->RME || !(value & BIT(0)))
            value &= ~BIT(62);
        value |= BIT(10);
        if (p->pe.el < 3) {
            value &= ~(BIT(0) | BIT(62));
            if (p->pe.security != SPEX_SECURE)
                value |= BIT(0);
            if (p->pe.security == SPEX_REALM)
                value |= BIT(62);
            if (p->pe.el == 2 && p->pe.security == SPEX_SECURE)
                value |= BIT(18);
        }
    }
    if (encoding == SPEX_HCR_EL2 && p->pe.el == 1)
        value &= ~BIT(27);
    return value;
}

void pair_move(struct pair *p, const struct step *step)
{
    const struct arch_features *f = &p->run->features;
    struct spex_spu_state next = {.el = step->el, .security = step->security};
    if (next.security == SPEX_REALM && !f->RME)
        next.security = SPEX_NONSECURE;
    if (next.security == SPEX_SECURE && !f->Secure)
        next.security = SPEX_NONSECURE;
    if (!f->EL3)
        next.security = highest_security(f);
    if (next.el == 3 && !f->EL3)
        next.el = 1;
    if (next.el == 2 && (!f->EL2 || (next.security == SPEX_SECURE && !f->SEL2)))
        next.el = 1;
    if (next.el == 3)
        next.security = highest_security(f);
    next.pm = step->flags & 1;
    next.halted = (step->flags & 0x82) == 0x82;
    next.sdd = (step->flags & 0x08) != 0;
    if ((step->flags & 0x70) == 0x50 && next.el == 0)
        next.aarch32 = 1;
    if (step->seed & 1) { /* only what may change without an exception */
        next.el = p->pe.el;
        next.security = p->pe.security;
        next.aarch32 = p->pe.aarch32;
        to_state(p, &next);
        return;
    }
    /* By way of the highest Exception level, where the controls change. */
    struct spex_spu_state top = {.el = f->EL3   ? 3
                                       : f->EL2 ? 2
                                                : 1,
                                 .security = highest_security(f)};
    if (top.el == 2 && top.security == SPEX_SECURE && !f->SEL2)
        top.el = 1;
    to_state(p, &top);
    p->pe = next;
    if (f->EL3)
        set(p, SPEX_SCR_EL3, legal(p, SPEX_SCR_EL3, pair_get(p, SPEX_SCR_EL3)));
    if (f->EL2)
        set(p, SPEX_HCR_EL2, legal(p, SPEX_HCR_EL2, pair_get(p, SPEX_HCR_EL2)));
    if (p->run->choices.register_sync) /* as an exception return does */
        sync(p);
    to_state(p, &next);
}

/* What a driver and the software above it do before they go on. */
static void restart(struct pair *p, const struct step *step)
{
    const struct arch_features *f = &p->run->features;
    struct rng r = {step->seed}, *rng = &r;
    uint64_t any = rng_next(rng);
    set(p, SPEX_PMSCR_EL1, 0);
    if (f->EL2)
        set(p, SPEX_PMSCR_EL2, 0);
    if (f->EL3) {
        uint64_t owner = p->pe.security == SPEX_SECURE ? 0 : p->pe.security == SPEX_REALM ? 5 : 4;
        if (p->pe.el == 3)
            owner = f->Secure ? rng_below(rng, 2) * 4 : 4;
        uint64_t nspb = (owner & 4 ? BIT(13) : 0) | BIT(12) | (owner & 1 ? BIT(11) : 0);
        uint64_t pmsee = rng_below(rng, 4);
        set(p, SPEX_MDCR_EL3, nspb | pmsee << 51 | BIT(36) | BIT(42) | BIT(55));
    }
    if (f->EL2)
        set(p, SPEX_MDCR_EL2, (rng_chance(rng, 1, 2) ? UINT64_C(3) : any & 3) << 12);
    set(p, SPEX_PMBSR_EL1, 0);
    if (f->EXC && f->EL2)
        set(p, SPEX_PMBSR_EL2, 0);
    if (f->EXC && f->EL3)
        set(p, SPEX_PMBSR_EL3, 0);
    uint64_t pages = 1 + rng_below(rng, 3);
    uint64_t from = rng_chance(rng, 1, 2) ? 0 : rng_below(rng, 0x1000);
    set(p, SPEX_PMBPTR_EL1, BASE + (from & (~UINT64_C(0) << f->Align)));
    set(p, SPEX_PMBLIMITR_EL1, (BASE + (pages << 12)) | 1);
    set(p, SPEX_PMSFCR_EL1, rng_chance(rng, 2, 3) ? 0 : step_value(rng, SPEX_PMSFCR_EL1));
    set(p, SPEX_PMSIRR_EL1, step_value(rng, SPEX_PMSIRR_EL1));
    set(p, SPEX_PMSICR_EL1, rng_below(rng, 6));
    set(p, SPEX_PMSCR_EL1, (rng_next(rng) & ~UINT64_C(3)) | 3);
    if (f->EL2)
        set(p, SPEX_PMSCR_EL2, (rng_next(rng) & ~UINT64_C(3)) | 3);
    if (p->run->choices.register_sync && rng_chance(rng, 3, 4))
        sync(p);
}

static void plan(struct pair *p, const struct step *step)
{
    static const uint8_t faults[] = {0x00, 0x04, 0x05, 0x07, 0x09, 0x0c, 0x0d, 0x0f,
                                     0x21, 0x22, 0x24, 0x28, 0x29, 0x30, 0x31};
    static const uint8_t walks[] = {0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x1b};
    struct rng r = {step->seed}, *rng = &r;
    struct plan plan = {0};
    const struct arch_features *f = &p->run->features;
    uint64_t at = pair_get(p, SPEX_PMBPTR_EL1) + rng_below(rng, 100);
    plan.low = at;
    plan.high = at + 1 + (rng_chance(rng, 1, 2) ? 0 : rng_below(rng, 3));
    switch (rng_below(rng, 4)) {
    case 0:
        break; /* all well again */
    case 1:
        plan.stop.kind = SPEX_STOP_ABORT;
        plan.stop.flags = (uint16_t)(rng_next(rng) & (SPEX_STOP_STAGE2 | SPEX_STOP_WALK));
        if (rng_chance(rng, 1, 4))
            plan.stop.flags |= SPEX_STOP_ASYNC;
        if (f->RME && rng_chance(rng, 1, 4))
            plan.stop.flags = SPEX_STOP_GPT;
        if (!(plan.stop.flags & SPEX_STOP_WALK))
            plan.stop.flags &= (uint16_t)~SPEX_STOP_STAGE2;
        if (plan.stop.flags & (SPEX_STOP_WALK | SPEX_STOP_GPT))
            plan.stop.flags &= (uint16_t)~SPEX_STOP_ASYNC;
        plan.stop.fsc = PICK(rng, walks);
        break;
    default:
        plan.stop.kind = SPEX_STOP_FAULT;
        plan.stop.fsc = PICK(rng, faults);
        if (f->EL2 && plan.stop.fsc != 0x21)
            plan.stop.flags |= (uint16_t)(rng_next(rng) & SPEX_STOP_STAGE2);
        if (f->RME && rng_chance(rng, 1, 6))
            plan.stop.flags = SPEX_STOP_GPC;
        if (plan.stop.fsc >= 0x0c && plan.stop.fsc <= 0x0f && !(plan.stop.flags & SPEX_STOP_GPC))
            plan.stop.flags |=
                (uint16_t)(rng_next(rng) & (SPEX_STOP_TOP_LEVEL | SPEX_STOP_ASSURED_ONLY |
                                            SPEX_STOP_OVERLAY | SPEX_STOP_DIRTY_BIT));
    }
    if (!f->RME && plan.stop.fsc >= 0x22 && plan.stop.fsc <= 0x28)
        plan.stop.fsc = 0x07;
    p->a.plan = p->b.plan = plan;
    SAY(p, "fault none\n");
    for (uint64_t a = plan.low; a < plan.high && plan.stop.kind; a++) {
        static const char *const flags[] = {"stage2",  "gpc",       "walk",
                                            "gpt",     "top-level", "assured-only",
                                            "overlay", "dirty-bit", "async"};
        SAY(p, "%s at 0x%" PRIx64 " fsc=%u", plan.stop.kind == SPEX_STOP_FAULT ? "fault" : "abort",
            a, plan.stop.fsc);
        for (unsigned i = 0; i < 9; i++)
            if (plan.stop.flags >> i & 1)
                SAY(p, " %s", flags[i]);
        SAY(p, "\n");
    }
}

static void one_op(struct pair *p, const struct made_op *op)
{
    SAY(p, "op ");
    say_op(p, op);
    bool sampled = spex_spu_op(p->unit, op->pc, &op->op, &op->outcome);
    if (p->compare && naive_op(&p->naive, op->pc, &op->op, &op->outcome) != sampled)
        pair_differ(p, "op: unit %s it", sampled ? "samples" : "does not sample");
}

static void pass(struct pair *p, const struct step *step)
{
    struct made_op op;
    bool branches = step->seed & 1;
    ops_plain(branches ? SPEX_OP_BRANCH : SPEX_OP_OTHER, 0, &op);
    op.outcome.target += step->seed & 0xfff0;
    ops_fit(&op, &p->pe);
    uint64_t left = step->value;
    while (left) {
        uint64_t n = p->path == IN_BLOCKS ? spex_spu_until(p->unit) : 0;
        if (n > left)
            n = left;
        if (n) {
            SAY(p, "ops %" PRIu64 "\n", n);
            spex_spu_pass(p->unit, n);
            if (branches && spex_spu_wants_branches(p->unit)) {
                SAY(p, "branch ");
                say_op(p, &op);
                spex_spu_note_branch(p->unit, &op.op, &op.outcome);
            }
            for (uint64_t i = 0; i < n && p->compare; i++)
                if (naive_op(&p->naive, op.pc, &op.op, &op.outcome))
                    pair_differ(p, "the unit let pass an operation that is sampled");
        } else {
            one_op(p, &op);
            n = 1;
        }
        left -= n;
    }
}

static void play_time(struct pair *p, const struct step *step)
{
    p->a.time += step->value;
    p->b.time = p->a.time;
    p->a.counter_on = p->b.counter_on = step->seed % 16 != 0;
    SAY(p, "time %" PRIu64 "\n", p->a.time);
    if (!p->a.counter_on)
        SAY(p, "time off\n");
}

static void play_begin(struct pair *p, const struct step *step)
{
    struct made_op op;
    ops_make(step->seed, &p->run->features, &op);
    int slot = spex_spu_begin(p->unit, op.pc, op.outcome.flags);
    int other = p->compare ? naive_begin(&p->naive, op.pc, op.outcome.flags) : slot;
    if ((slot < 0) != (other < 0))
        pair_differ(p, "begin: unit %s it", slot >= 0 ? "samples" : "does not sample");
    SAY(p, "begin s%u pc=0x%" PRIx64 "%s%s%s %s\n", p->named, op.pc,
        op.outcome.flags & SPEX_OUT_SPECULATIVE ? " speculative" : "",
        op.outcome.flags & SPEX_OUT_NO_INSN ? " no-insn" : "",
        op.outcome.flags & SPEX_OUT_NONARCH_EXC ? " nonarch" : "",
        other >= 0 ? "expect sampled" : "expect not-sampled");
    if (slot >= 0) {
        p->flight[p->flights].name = p->named++;
        p->flight[p->flights].unit = slot;
        p->flight[p->flights].naive = other;
        p->flight[p->flights].pe = p->pe;
        p->flight[p->flights++].seed = step->seed;
    }
}

static void play_end(struct pair *p, const struct step *step)
{
    struct made_op op;
    if (!p->flights)
        return;
    unsigned i = step->value % p->flights;
    if (step->kind == STEP_COMPLETE) {
        ops_make(p->flight[i].seed, &p->run->features, &op);
        ops_fit(&op, &p->flight[i].pe);
        SAY(p, "complete s%u ", p->flight[i].name);
        say_op(p, &op);
        spex_spu_complete(p->unit, p->flight[i].unit, &op.op, &op.outcome);
        if (p->compare)
            naive_complete(&p->naive, p->flight[i].naive, &op.op, &op.outcome);
    } else {
        SAY(p, "abandon s%u\n", p->flight[i].name);
        spex_spu_abandon(p->unit, p->flight[i].unit);
        if (p->compare)
            naive_abandon(&p->naive, p->flight[i].naive);
    }
    p->flights--;
    memmove(p->flight + i, p->flight + i + 1, (p->flights - i) * sizeof *p->flight);
}

static void play_write(struct pair *p, const struct step *step)
{
    struct spex_sysreg_detail unit = {0}, naive = {0};
    if (!reachable(p, step->encoding))
        return;
    uint64_t value = legal(p, step->encoding, step->value);
    enum spex_sysreg_result result =
        spex_spu_write(p->unit, step->encoding, step->seed & 31, value, &unit);
    if (p->compare) {
        enum spex_sysreg_result r =
            naive_write(&p->naive, step->encoding, step->seed & 31, value, &naive);
        SAY(p, "write %s 0x%" PRIx64, spex_sysreg_name(step->encoding), value);
        say_result(p, r, &naive);
        if (r != result || unit.esr != naive.esr || unit.offset != naive.offset)
            pair_differ(p, "msr %s: unit %d esr %" PRIx64 " offset %x, naive %d %" PRIx64 " %x",
                        spex_sysreg_name(step->encoding), result, unit.esr, unit.offset, r,
                        naive.esr, naive.offset);
    }
}

static void play_read(struct pair *p, const struct step *step)
{
    struct spex_sysreg_detail unit = {0}, naive = {0};
    uint64_t x = 0, y = 0;
    if (!reachable(p, step->encoding))
        return;
    enum spex_sysreg_result result =
        spex_spu_read(p->unit, step->encoding, step->seed & 31, &x, &unit);
    if (p->compare) {
        enum spex_sysreg_result r =
            naive_read(&p->naive, step->encoding, step->seed & 31, &y, &naive);
        SAY(p, "read %s", spex_sysreg_name(step->encoding));
        if (r == SPEX_SYSREG_OK)
            SAY(p, " expect 0x%" PRIx64 "\n", y);
        else
            say_result(p, r, &naive);
        if (r != result || unit.esr != naive.esr || unit.offset != naive.offset || x != y)
            pair_differ(p,
                        "mrs %s: unit %d esr %" PRIx64 " offset %x value %" PRIx64
                        ", naive %d %" PRIx64 " %x %" PRIx64,
                        spex_sysreg_name(step->encoding), result, unit.esr, unit.offset, x, r,
                        naive.esr, naive.offset, y);
    }
}

static void play_psb(struct pair *p)
{
    struct spex_sysreg_detail unit = {0}, naive = {0};
    enum spex_sysreg_result result = spex_spu_psb(p->unit, &unit);
    if (p->compare) {
        enum spex_sysreg_result r = naive_psb(&p->naive, &naive);
        SAY(p, "psb");
        say_result(p, r, &naive);
        if (r != result || unit.esr != naive.esr)
            pair_differ(p, "psb: unit %d esr %" PRIx64 ", naive %d %" PRIx64, result, unit.esr, r,
                        naive.esr);
    }
}

static void play_save(struct pair *p)
{
    SAY(p, "save\nrestore\n");
    spex_spu_flush(p->unit);
    size_t size = spex_spu_save(p->unit, NULL, 0);
    uint8_t *bytes = malloc(size);
    struct spex_spu *next = NULL;
    struct spex_error error;
    if (!bytes || spex_spu_save(p->unit, bytes, size) != size ||
        spu_new(&p->config, &next, &error) || spex_spu_restore(next, bytes, size))
        pair_differ(p, "save and restore");
    free(bytes);
    if (next) {
        spex_spu_free(p->unit);
        p->unit = next;
    }
}

void pair_play(struct pair *p, const struct step *step)
{
    struct made_op op;
    switch (step->kind) {
    case STEP_SAMPLE:
        set(p, SPEX_PMSICR_EL1, 1);
        if (p->run->choices.register_sync && step->flags & 1)
            sync(p);
        /* fall through */
    case STEP_OP:
        ops_make(step->seed, &p->run->features, &op);
        ops_fit(&op, &p->pe);
        one_op(p, &op);
        break;
    case STEP_PASS:
        pass(p, step);
        break;
    case STEP_BEGIN:
        play_begin(p, step);
        break;
    case STEP_COMPLETE:
    case STEP_ABANDON:
        play_end(p, step);
        break;
    case STEP_MSR:
        play_write(p, step);
        break;
    case STEP_MRS:
        play_read(p, step);
        break;
    case STEP_SET:
        set(p, step->encoding, legal(p, step->encoding, step->value));
        break;
    case STEP_STATE:
        pair_move(p, step);
        break;
    case STEP_PSB:
        play_psb(p);
        break;
    case STEP_SYNC:
        sync(p);
        break;
    case STEP_EXCEPTION:
        SAY(p, "exception-taken\n");
        spex_spu_exception_taken(p->unit);
        if (p->compare)
            naive_exception_taken(&p->naive);
        break;
    case STEP_PLAN:
        plan(p, step);
        break;
    case STEP_ABORT: {
        uint32_t flags = SPEX_STOP_ASYNC;
        SAY(p, "late-abort\n");
        spex_spu_external_abort(p->unit, flags);
        if (p->compare)
            naive_external_abort(&p->naive, flags);
        break;
    }
    case STEP_IMPDEF: {
        uint16_t mss = (uint16_t)step->value;
        uint32_t mss2 = (uint32_t)(step->value >> 40);
        SAY(p, "impdef-event %u %u\n", mss, mss2);
        bool done = spex_spu_impdef_event(p->unit, mss, mss2);
        if (p->compare && naive_impdef_event(&p->naive, mss, mss2) != done)
            pair_differ(p, "impdef event: unit %s it", done ? "takes" : "refuses");
        break;
    }
    case STEP_TIME:
        play_time(p, step);
        break;
    case STEP_RESTART:
        restart(p, step);
        break;
    case STEP_SAVE:
        play_save(p);
        break;
    }
}
