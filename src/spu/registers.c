/*
 * Register accesses: which bits exist, reset, traps, redirection (D24.7).
 */
#include "unit.h"

#include <assert.h>
#include <string.h>

#define MASK(name) SPEX_FIELD_MASK(SPEX_##name)
/* ---- which bits exist ---- */

#define EVENT(name) BIT(SPEX_EV_##name)

/* Events that can be filtered (PMSEVFR_EL1, PMSNEVFR_EL1): other bits are RAZ/WI. */
static uint64_t filterable(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    const struct spu_choices *c = &u->config.choices;
    bool v1p4 = f->version >= 5, vectors = f->version >= 2 && (f->SVE || f->SME);
    bool optional = v1p4 || c->filter_optional;
    uint64_t impdef = c->impdef_events & c->impdef_filters;
    uint64_t mask = EVENT(L1D_MISS) | EVENT(TLB_WALK) | EVENT(MISPREDICT);
    if (f->FnE)
        mask |= EVENT(NOT_TAKEN);
    if (optional)
        mask |= EVENT(L1D_ACCESS) | EVENT(TLB_ACCESS) |
                (f->LLC ? EVENT(LLC_ACCESS) | EVENT(LLC_MISS) : 0) |
                (f->Remote ? EVENT(REMOTE) : 0);
    if (f->version >= 2)
        mask |= EVENT(MISALIGNED);
    if (vectors)
        mask |= EVENT(PARTIAL_PRED) | EVENT(EMPTY_PRED);
    if (v1p4)
        mask |= (f->L2D ? EVENT(L2D_ACCESS) | EVENT(L2D_MISS) : 0) |
                (f->Modified ? EVENT(MODIFIED) : 0) | (f->Recent ? EVENT(RECENT) : 0) |
                (f->Snooped ? EVENT(SNOOPED) : 0);
    if (f->SPE_SME)
        mask |= EVENT(STREAMING);
    if (f->SMCU)
        mask |= EVENT(SMCU);
    mask |= impdef & (BITS(63, 48) | BITS(15, 12));
    if (!v1p4)
        mask |= impdef & BITS(31, f->SPE_SME ? 26 : 24);
    if (c->population_speculative)
        mask |= EVENT(RETIRED);
    return mask;
}

/* Events that a record can hold (D18.2.6). */
static uint64_t recordable(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    uint64_t impdef = u->config.choices.impdef_events;
    uint64_t mask = BITS(7, 0);
    mask |= f->LLC ? EVENT(LLC_ACCESS) | EVENT(LLC_MISS) : 0;
    mask |= f->Remote ? EVENT(REMOTE) : 0;
    mask |= f->Misaligned ? EVENT(MISALIGNED) : 0;
    mask |= f->version >= 2 && (f->SVE || f->SME) ? EVENT(PARTIAL_PRED) | EVENT(EMPTY_PRED) : 0;
    mask |= f->L2D ? EVENT(L2D_ACCESS) | EVENT(L2D_MISS) : 0;
    mask |= (f->Modified ? EVENT(MODIFIED) : 0) | (f->Recent ? EVENT(RECENT) : 0) |
            (f->Snooped ? EVENT(SNOOPED) : 0);
    mask |= f->SPE_SME ? EVENT(STREAMING) | (f->SMCU ? EVENT(SMCU) : 0) : 0;
    mask |= impdef & (BITS(63, 48) | BITS(15, 12));
    if (f->version < 5)
        mask |= impdef & BITS(31, f->SPE_SME ? 26 : 24);
    return mask;
}

/* Whether an External abort can ever set PMBSR_ELx.EA; if not, the bit is RES0. */
static bool ea_exists(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    const struct spu_choices *c = &u->config.choices;
    return (f->version < 4 && f->EA == 0 && c->abort_unspecified == UNSPECIFIED_REPORT) ||
           (c->walk_abort == WALK_ABORT_FAULT && c->walk_abort_ea);
}

void spu_registers_init(struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    const struct spu_choices *c = &u->config.choices;
    uint64_t *m = u->writable;

    /*
     * All bits that are named or belong to other blocks, minus those that this feature set
     * lacks.
     */
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) m[R_##name] = 0
#define SPEX_REG_FIELD(reg, hi, lo, name) | BITS(hi, lo)
#define SPEX_REG_OTHER(hi, lo) | BITS(hi, lo)
#define SPEX_REG_END(reg) ;
#include <spex/sysreg.def>

    uint64_t exc = f->EXC ? 0 : MASK(PMSCR_EL1_KE) | MASK(PMSCR_EL1_EE);
    uint64_t pct1 = f->ECV ? 0 : BIT(7);
    m[R_PMSCR_EL1] &= ~(exc | pct1);
    m[R_PMSCR_EL2] &= ~(exc | pct1);
    if (!f->EL2)
        m[R_PMSCR_EL1] &= ~MASK(PMSCR_EL1_PCT);
    if (!(f->nVM && f->NV))
        m[R_PMSCR_EL1] &= ~MASK(PMSCR_EL1_EnVM);
    if (!f->nVM)
        m[R_PMSCR_EL2] &= ~MASK(PMSCR_EL2_EnVM);
    if (!f->EL2)
        m[R_PMSCR_EL2] = m[R_PMBSR_EL2] = 0;
    if (!f->ERnd)
        m[R_PMSICR_EL1] &= ~MASK(PMSICR_EL1_ECOUNT);
    if (!f->EFT)
        m[R_PMSFCR_EL1] &= ~(BITS(52, 48) | BITS(20, 19));
    if (!f->FDS)
        m[R_PMSFCR_EL1] &= ~MASK(PMSFCR_EL1_FDS);
    if (!f->FnE)
        m[R_PMSFCR_EL1] &= ~MASK(PMSFCR_EL1_FnE);
    m[R_PMSEVFR_EL1] = m[R_PMSNEVFR_EL1] = filterable(u);
    if (c->evfr_retired)
        m[R_PMSEVFR_EL1] |= EVENT(RETIRED);
    if (f->CountSize == 2)
        m[R_PMSLATFR_EL1] &= BITS(11, 0);
    m[R_PMSDSFR_EL1] = c->source_filters;
    m[R_PMBLIMITR_EL1] &= ~(BITS(63, 12) & ~BITS(63, c->granule));
    if (!f->nVM)
        m[R_PMBLIMITR_EL1] &= ~MASK(PMBLIMITR_EL1_nVM);
    if (f->version < 3)
        m[R_PMBLIMITR_EL1] &= ~MASK(PMBLIMITR_EL1_PMFZ);
    if (c->pointer_low_bits && f->Align)
        m[R_PMBPTR_EL1] &= ~BITS(f->Align - 1, 0);
    if (!ea_exists(u))
        for (unsigned r = R_PMBSR_EL1; r <= R_PMBSR_EL3; r++)
            if (r == R_PMBSR_EL1 || r == R_PMBSR_EL2 || r == R_PMBSR_EL3)
                m[r] &= ~MASK(PMBSR_EL1_EA);
    m[R_PMSIDR_EL1] = m[R_PMBIDR_EL1] = m[R_PMSCR_EL12] = m[R_PMBSR_EL12] = 0;
    m[R_ID_AA64DFR0_EL1] &= ~MASK(ID_AA64DFR0_EL1_PMSVer);
    m[R_ID_AA64DFR1_EL1] &= ~MASK(ID_AA64DFR1_EL1_DPFZS);
    m[R_ID_AA64DFR2_EL1] &= ~(MASK(ID_AA64DFR2_EL1_SPE_nVM) | MASK(ID_AA64DFR2_EL1_SPE_EXC));

    u->events = recordable(u);
    u->filter_events = filterable(u);
}

/*
 * Warm reset: UNKNOWN values follow the choice reset_unknown; the exceptions are listed
 * below.
 */
void spu_registers_reset(struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    struct words *w = &u->w;
    memset(w->reg, 0, sizeof w->reg);
#define SPE 1
#define PE 0
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text)                                       \
    if (owner && u->config.choices.reset_unknown != RESET_ZERO) {                                  \
        uint64_t value = ~UINT64_C(0);                                                             \
        if (u->config.choices.reset_unknown == RESET_RANDOM)                                       \
            for (unsigned i = 0; i < 8; i++)                                                       \
                value = value << 8 | spu_random(u);                                                \
        if (R_##name != R_IMP_RNDSTATE_EL1)                                                        \
            w->reg[R_##name] = value & u->writable[R_##name];                                      \
    }
#include <spex/sysreg.def>
#undef SPE
#undef PE
    w->reg[R_PMBLIMITR_EL1] &= ~MASK(PMBLIMITR_EL1_E);
    if (!f->EL2 && !f->EL3)
        w->reg[R_PMSCR_EL1] &= ~MASK(PMSCR_EL1_EE);
    if (!f->EL3)
        w->reg[R_PMSCR_EL2] &= ~MASK(PMSCR_EL2_EE);
    memcpy(w->eff, w->reg, sizeof w->eff);
    w->unsynced = 0;
}

/* ---- values that follow from features and state ---- */

static uint64_t pmsidr(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    return (uint64_t)f->SPE_SME << 32 | (uint64_t)f->ALTCLK << 28 | (uint64_t)f->FPF << 27 |
           (uint64_t)f->EFT << 26 | (uint64_t)f->CRR << 25 | (uint64_t)f->PBT << 24 |
           (uint64_t)f->CountSize << 16 | (uint64_t)f->MaxSize << 12 | (uint64_t)f->Interval << 8 |
           (uint64_t)f->FDS << 7 | (uint64_t)f->FnE << 6 | (uint64_t)f->ERnd << 5 |
           (uint64_t)f->LDS << 4 | (uint64_t)f->ArchInst << 3 | 7;
}

/* P is computed at each read, for the reading Exception level. */
static uint64_t pmbidr(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    struct owner owner = ProfilingBufferOwner(u);
    bool p =
        u->w.el != 3 && (!owner.valid || owner.el > u->w.el || owner.security != u->w.security);
    unsigned mode = f->nVM && !p && spu_effective_EnVM(u) ? 1 : 0;
    return (uint64_t)f->EA << 8 | (uint64_t)mode << 6 | (uint64_t)f->F << 5 | (uint64_t)p << 4 |
           f->Align;
}

static uint64_t register_get(const struct spex_spu *u, enum reg_index r)
{
    const struct arch_features *f = &u->config.features;
    uint64_t value = u->w.reg[r];
    switch (r) {
    case R_PMSIDR_EL1:
        return pmsidr(u);
    case R_PMBIDR_EL1:
        return pmbidr(u);
    case R_ID_AA64DFR0_EL1:
        return spex_field_set(value, SPEX_ID_AA64DFR0_EL1_PMSVer, f->version);
    case R_ID_AA64DFR1_EL1:
        return spex_field_set(value, SPEX_ID_AA64DFR1_EL1_DPFZS, f->DPFZS);
    case R_ID_AA64DFR2_EL1:
        value = spex_field_set(value, SPEX_ID_AA64DFR2_EL1_SPE_nVM, f->nVM);
        return spex_field_set(value, SPEX_ID_AA64DFR2_EL1_SPE_EXC, f->EXC);
    case R_IMP_RNDSTATE_EL1:
        return u->w.random;
    case R_PMSCR_EL1: /* without EL2 time is always physical */
        return f->EL2 ? value : spex_field_set(value, SPEX_PMSCR_EL1_PCT, 1);
    case R_PMSCR_EL2: /* RES0 unless EL2 owns the buffer */
        return EFF(E2PB, MDCR_EL2) ? value & ~BITS(1, 0) : value;
    default:
        return value;
    }
}

static void register_set(struct spex_spu *u, enum reg_index r, uint64_t value)
{
    uint64_t mask = u->writable[r];
    if (r == R_PMSCR_EL2 && EFF(E2PB, MDCR_EL2))
        mask &= ~BITS(1, 0);
    if (r == R_IMP_RNDSTATE_EL1)
        u->w.random = value;
    u->w.reg[r] = (u->w.reg[r] & ~mask) | (value & mask);
    if (u->config.choices.register_sync)
        u->w.unsynced |= BIT(r);
    else
        spu_take_direct(u, r);
    spu_update(u);
}

/* ---- which register an access reaches ---- */

static const struct {
    uint16_t encoding;
    bool ours; /* a register of the SPU; otherwise one that is only held for it */
} names[R_COUNT] = {
#define SPE true
#define PE false
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) [R_##name] = {SPEX_##name, owner},
#include <spex/sysreg.def>
#undef SPE
#undef PE
};

/* Group of EL1 access controls; 0 is none. */
enum group { SAMPLING = 1, BUFFER }; /* MDCR_EL2.TPMS, MDCR_EL2.E2PB */
struct control {
    uint8_t group;
    uint8_t fgt;   /* bit in HDFGRTR_EL2 and HDFGWTR_EL2: 1 traps */
    uint8_t nfgt;  /* the same, but 0 traps */
    uint8_t nfgt2; /* the same, but in HDFGRTR2_EL2 and HDFGWTR2_EL2, where 0 traps */
    uint16_t nv;   /* offset in the VNCR_EL2 page */
    bool read_only;
};

static const struct control controls[R_COUNT] = {
    [R_PMSCR_EL1] = {SAMPLING, .fgt = 26, .nv = 0x828},
    [R_PMSNEVFR_EL1] = {SAMPLING, .nfgt = 62, .nv = 0x850},
    [R_PMSICR_EL1] = {SAMPLING, .fgt = 29, .nv = 0x838},
    [R_PMSIRR_EL1] = {SAMPLING, .fgt = 31, .nv = 0x840},
    [R_PMSFCR_EL1] = {SAMPLING, .fgt = 28},
    [R_PMSEVFR_EL1] = {SAMPLING, .fgt = 27, .nv = 0x830},
    [R_PMSLATFR_EL1] = {SAMPLING, .fgt = 32, .nv = 0x848},
    [R_PMSIDR_EL1] = {SAMPLING, .fgt = 30, .read_only = true},
    [R_PMSDSFR_EL1] = {SAMPLING, .nfgt2 = 19, .nv = 0x858},
    [R_PMBLIMITR_EL1] = {BUFFER, .fgt = 23, .nv = 0x800},
    [R_PMBPTR_EL1] = {BUFFER, .fgt = 24, .nv = 0x810},
    [R_PMBSR_EL1] = {BUFFER, .fgt = 25, .nv = 0x820},
    [R_PMBMAR_EL1] = {BUFFER, .nfgt2 = 24},
    [R_PMBIDR_EL1] = {.fgt = 63, .read_only = true},
};

static bool find(unsigned encoding, enum reg_index *index)
{
    for (unsigned i = 0; i < R_COUNT; i++) {
        if (names[i].encoding == encoding) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Whether a register exists, if it needs a feature. */
static bool present(const struct spex_spu *u, unsigned index)
{
    const struct arch_features *f = &u->config.features;
    switch (index) {
    case R_PMSNEVFR_EL1:
        return f->FnE;
    case R_PMSDSFR_EL1:
        return f->FDS;
    case R_PMBMAR_EL1:
        return f->nVM;
    case R_PMBSR_EL2:
        return f->EXC;
    case R_PMBSR_EL3:
        return f->EXC && f->EL3;
    case R_PMSCR_EL12:
        return f->VHE;
    case R_PMBSR_EL12:
        return f->EXC && f->VHE;
    case R_IMP_RNDSTATE_EL1:
        return u->config.choices.random_register;
    default:
        return true;
    }
}

/* EffectiveHCR_EL2_NVx: {NV2,NV1,NV}. */
static unsigned effective_nv(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    if (!f->NV || !spu_el2_enabled(u) || !EFF(NV, HCR_EL2))
        return 0;
    return (unsigned)((f->NV2 && EFF(NV2, HCR_EL2)) << 2 | EFF(NV1, HCR_EL2) << 1 | 1);
}

struct access {
    const struct spex_spu *u;
    unsigned encoding, rt;
    bool read;
    struct spex_sysreg_detail *syndrome;
    enum reg_index index; /* first as named, then as redirected */
};

static enum spex_sysreg_result undefined(struct access *a)
{
    a->syndrome->esr = BIT(25);
    return SPEX_SYSREG_UNDEFINED;
}

static enum spex_sysreg_result trap(struct access *a, unsigned el)
{
    if (el == 3 && a->u->w.halted && a->u->w.sdd)
        return undefined(a);
    a->syndrome->esr = spex_sysreg_syndrome(a->encoding, a->rt, a->read);
    return el == 3 ? SPEX_SYSREG_TRAP_EL3 : SPEX_SYSREG_TRAP_EL2;
}

static enum spex_sysreg_result memory(struct access *a, unsigned offset)
{
    a->syndrome->offset = offset;
    return SPEX_SYSREG_MEMORY;
}

/* EL12 names are aliases, not registers of their own. */
static enum reg_index other_name(enum reg_index index)
{
    return index == R_PMSCR_EL12 ? R_PMSCR_EL1 : index == R_PMBSR_EL12 ? R_PMBSR_EL1 : index;
}

/* Fine-grained traps of HDFG{R,W}TR_EL2 and HDFG{R,W}TR2_EL2. */
static bool fine_grained(const struct access *a)
{
    const struct spex_spu *u = a->u;
    const struct arch_features *f = &u->config.features;
    const struct control *c = &controls[a->index];
    uint64_t bits = u->w.eff[a->read ? R_HDFGRTR_EL2 : R_HDFGWTR_EL2];
    uint64_t bits2 = u->w.eff[a->read ? R_HDFGRTR2_EL2 : R_HDFGWTR2_EL2];
    if (!spu_el2_enabled(u))
        return false;
    if (f->FGT && (!f->EL3 || EFF(FGTEn, SCR_EL3)) &&
        ((c->fgt && (bits >> c->fgt & 1)) || (c->nfgt && !(bits >> c->nfgt & 1))))
        return true;
    return f->FGT2 && c->nfgt2 && ((f->EL3 && !EFF(FGTEn2, SCR_EL3)) || !(bits2 >> c->nfgt2 & 1));
}

/* EL3 controls that apply to EL1 and EL2 alike. */
static bool el3_trap(const struct spex_spu *u, enum reg_index index)
{
    if (!u->config.features.EL3 ||
        index == R_PMBIDR_EL1) /* P reveals whether the access would be trapped */
        return false;
    return CheckMDCR_EL3_NSPBTrap(u) || (index == R_PMSNEVFR_EL1 && !EFF(EnPMSN, MDCR_EL3)) ||
           (index == R_PMSDSFR_EL1 && !EFF(EnPMS3, MDCR_EL3)) ||
           (index == R_PMBMAR_EL1 && !EFF(EnPMS4, MDCR_EL3));
}

static enum spex_sysreg_result at_el1(struct access *a)
{
    const struct spex_spu *u = a->u;
    const struct control *c = &controls[a->index];
    unsigned nv = effective_nv(u);
    switch (a->index) {
    case R_PMSCR_EL12:
    case R_PMBSR_EL12:
        if (nv == 5)
            return memory(a, a->index == R_PMSCR_EL12 ? 0x828 : 0x820);
        return nv & 1 ? trap(a, 2) : undefined(a);
    case R_PMSCR_EL2:
    case R_PMBSR_EL2:
        return nv & 1 ? trap(a, 2) : undefined(a);
    case R_PMBSR_EL3:
        return undefined(a);
    case R_IMP_RNDSTATE_EL1:
        return SPEX_SYSREG_OK;
    default:
        break;
    }
    bool el3 = el3_trap(u, a->index);
    if (el3 && u->w.halted && u->w.sdd)
        return undefined(a);
    if (fine_grained(a))
        return trap(a, 2);
    if (spu_el2_enabled(u) && ((c->group == SAMPLING && EFF(TPMS, MDCR_EL2)) ||
                               (c->group == BUFFER && !(EFF(E2PB, MDCR_EL2) & 1))))
        return trap(a, 2);
    if (el3)
        return trap(a, 3);
    if ((nv & 5) == 5 && c->nv) {
        bool redirect = true;
        if (a->index == R_PMSCR_EL1)
            redirect = nv == 7;
        else if (a->index == R_PMBSR_EL1)
            redirect = EffectivePMSCR_EL2_EE(u) == 0 || EFF(EE, PMSCR_EL1) == 0 || nv == 7;
        if (redirect)
            return memory(a, c->nv);
    }
    return SPEX_SYSREG_OK;
}

static enum spex_sysreg_result at_el2(struct access *a)
{
    const struct spex_spu *u = a->u;
    bool host = spu_effective_e2h(u);
    if (a->index == R_IMP_RNDSTATE_EL1)
        return SPEX_SYSREG_OK;
    if (a->index == R_PMBSR_EL3 ||
        ((a->index == R_PMSCR_EL12 || a->index == R_PMBSR_EL12) && !host))
        return undefined(a);
    if (el3_trap(u, a->index))
        return trap(a, 3);
    if (a->index == R_PMSCR_EL1 && host)
        a->index = R_PMSCR_EL2;
    else if (a->index == R_PMBSR_EL1 && host && EffectivePMSCR_EL2_EE(u) != 0)
        a->index = R_PMBSR_EL2;
    else
        a->index = other_name(a->index);
    return SPEX_SYSREG_OK;
}

static enum spex_sysreg_result at_el3(struct access *a)
{
    if ((a->index == R_PMSCR_EL12 || a->index == R_PMBSR_EL12) && !spu_effective_e2h(a->u))
        return undefined(a);
    a->index = other_name(a->index);
    return SPEX_SYSREG_OK;
}

/* Registers of other blocks: only the Exception level of the name is checked here. */
static enum spex_sysreg_result held(struct access *a)
{
    const struct spex_spu *u = a->u;
    unsigned op1 = a->encoding >> 11 & 7;
    unsigned lowest = op1 == 6 ? 3 : op1 == 4 ? 2 : op1 == 3 ? 0 : 1;
    bool id = a->index == R_ID_AA64DFR0_EL1 || a->index == R_ID_AA64DFR1_EL1 ||
              a->index == R_ID_AA64DFR2_EL1;
    if (u->w.el < lowest || (id && !a->read))
        return undefined(a);
    if (a->index == R_CONTEXTIDR_EL1 && u->w.el == 2 && spu_effective_e2h(u))
        a->index = R_CONTEXTIDR_EL2;
    return SPEX_SYSREG_OK;
}

static enum spex_sysreg_result resolve(struct access *a)
{
    if (!find(a->encoding, &a->index))
        return SPEX_SYSREG_NOT_OURS;
    if (!names[a->index].ours)
        return held(a);
    if (!present(a->u, a->index) || a->u->w.el == 0 || (controls[a->index].read_only && !a->read))
        return undefined(a);
    switch (a->u->w.el) {
    case 1:
        return at_el1(a);
    case 2:
        return at_el2(a);
    default:
        return at_el3(a);
    }
}

enum spex_sysreg_result spex_spu_read(struct spex_spu *u, unsigned encoding, unsigned rt,
                                      uint64_t *value, struct spex_sysreg_detail *syndrome)
{
    assert(u && value);
    struct spex_sysreg_detail unused;
    struct access a = {u, encoding, rt, true, syndrome ? syndrome : &unused, 0};
    spex_spu_flush(u);
    enum spex_sysreg_result result = resolve(&a);
    if (result == SPEX_SYSREG_OK)
        *value = register_get(u, a.index);
    return result;
}

enum spex_sysreg_result spex_spu_write(struct spex_spu *u, unsigned encoding, unsigned rt,
                                       uint64_t value, struct spex_sysreg_detail *syndrome)
{
    assert(u);
    struct spex_sysreg_detail unused;
    struct access a = {u, encoding, rt, false, syndrome ? syndrome : &unused, 0};
    spex_spu_flush(u);
    enum spex_sysreg_result result = resolve(&a);
    if (result == SPEX_SYSREG_OK)
        register_set(u, a.index, value);
    return result;
}

enum spex_sysreg_result spex_spu_check(const struct spex_spu *u, unsigned encoding, unsigned rt,
                                       bool read, struct spex_sysreg_detail *syndrome)
{
    assert(u);
    struct spex_sysreg_detail unused;
    struct access a = {u, encoding, rt, read, syndrome ? syndrome : &unused, 0};
    return resolve(&a);
}

static bool direct(const struct spex_spu *u, unsigned encoding, enum reg_index *index)
{
    if (!find(encoding, index) || !present(u, *index))
        return false;
    *index = other_name(*index);
    return true;
}

bool spex_spu_get(const struct spex_spu *u, unsigned encoding, uint64_t *value)
{
    assert(u && value);
    enum reg_index index;
    if (!direct(u, encoding, &index))
        return false;
    spu_sample_settled(u);
    *value = register_get(u, index);
    return true;
}

bool spex_spu_set(struct spex_spu *u, unsigned encoding, uint64_t value)
{
    assert(u);
    enum reg_index index;
    if (!direct(u, encoding, &index))
        return false;
    spex_spu_flush(u);
    register_set(u, index, value);
    return true;
}

/* ---- PSB CSYNC ---- */

enum spex_sysreg_result spex_spu_psb(struct spex_spu *u, struct spex_sysreg_detail *syndrome)
{
    assert(u);
    const struct arch_features *f = &u->config.features;
    bool host = spu_effective_e2h(u) && spu_effective_tge(u);
    if (u->w.aarch32 >> u->w.el & 1)
        return SPEX_SYSREG_OK;
    if (u->w.el < 2 && f->version >= 6 && f->FGT && spu_el2_enabled(u) && !(u->w.el == 0 && host) &&
        (!f->EL3 || EFF(FGTEn, SCR_EL3)) && EFF(PSBCSYNC, HFGITR_EL2)) {
        if (syndrome)
            syndrome->esr = UINT64_C(0x0a) << 26 | BIT(25) | 3;
        return SPEX_SYSREG_TRAP_EL2;
    }
    spex_spu_flush(u);
    spu_late_fault_report(u);
    spu_buffer_drain(u, 0);
    spu_late_fault_report(u);
    spu_update(u);
    return SPEX_SYSREG_OK;
}
