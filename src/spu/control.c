/*
 * Who owns the buffer, whether profiling is enabled, what may be collected, where
 * an event is recorded, which exception is pending (D17.4, D17.6.9, D17.8).
 *
 * The code follows the prose and the pseudocode's functions; the manual's decision tables are
 * in the tests.
 */
#include "unit.h"

#include <assert.h>

/* ---- Exception levels and Security states ---- */

/* The Security state of the levels below EL3: SCR_EL3.{NSE,NS} as it takes effect. */
static unsigned spu_lower_security(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    if (u->w.el < 3 || !f->EL3)
        return (unsigned)u->w.security;
    if (f->RME && EFF(NSE, SCR_EL3))
        return EFF(NS, SCR_EL3) ? SPEX_REALM : SPEX_ROOT;
    return EFF(NS, SCR_EL3) ? SPEX_NONSECURE : SPEX_SECURE;
}

static bool spu_el2_enabled_for(const struct spex_spu *u, unsigned security)
{
    const struct arch_features *f = &u->config.features;
    if (!f->EL2)
        return false;
    if (security != SPEX_SECURE)
        return true;
    return f->SEL2 && (!f->EL3 || EFF(EEL2, SCR_EL3));
}

bool spu_el2_enabled(const struct spex_spu *u)
{
    return spu_el2_enabled_for(u, spu_lower_security(u));
}

bool spu_effective_tge(const struct spex_spu *u)
{
    return spu_el2_enabled(u) && EFF(TGE, HCR_EL2);
}

bool spu_effective_e2h(const struct spex_spu *u)
{
    return spu_el2_enabled(u) && u->config.features.VHE && EFF(E2H, HCR_EL2);
}

/* ELIsInHost for the current Exception level. */
static bool in_host(const struct spex_spu *u)
{
    return spu_effective_e2h(u) && (u->w.el == 2 || (u->w.el == 0 && spu_effective_tge(u)));
}

/* ---- the owner (D17.7) ---- */

/* EffectiveMDCR_EL3_NSPB as a Security state; false if reserved and the choice is none. */
static bool owning_security(const struct spex_spu *u, unsigned *security)
{
    const struct arch_features *f = &u->config.features;
    if (!f->EL3) {
        *security = (unsigned)u->w.security;
        return true;
    }
    bool nspbe = f->RME && EFF(NSPBE, MDCR_EL3);
    bool nspb1 = EFF(NSPB, MDCR_EL3) >> 1;
    if (nspb1) {
        *security = nspbe ? SPEX_REALM : SPEX_NONSECURE;
        return true;
    }
    if (!nspbe && f->Secure) {
        *security = SPEX_SECURE;
        return true;
    }
    *security = (unsigned)u->config.choices.reserved_nspb;
    return *security <= SPEX_REALM;
}

static unsigned effective_e2pb(const struct spex_spu *u)
{
    static const unsigned replaced[] = {0, 2, 3};
    unsigned e2pb = (unsigned)EFF(E2PB, MDCR_EL2);
    return e2pb == 1 ? replaced[u->config.choices.reserved_e2pb] : e2pb;
}

struct owner ProfilingBufferOwner(const struct spex_spu *u)
{
    struct owner owner = {.el = 1};
    unsigned security = SPEX_NONSECURE;
    owner.valid = owning_security(u, &security);
    owner.security = (uint8_t)security;
    if (spu_el2_enabled_for(u, security) && effective_e2pb(u) == 0)
        owner.el = 2;
    return owner;
}

/* ---- enabled, stopped (D17.4) ---- */

static unsigned effective_pmsee(const struct spex_spu *u)
{
    if (!u->config.features.EXC)
        return 0;
    return u->config.features.EL3 ? (unsigned)EFF(PMSEE, MDCR_EL3) : 1;
}

unsigned EffectivePMSCR_EL2_EE(const struct spex_spu *u)
{
    if (effective_pmsee(u) == 0)
        return 0;
    return spu_el2_enabled(u) ? (unsigned)EFF(EE, PMSCR_EL2) : 1;
}

/* Returns 0 or 3: with FEAT_NV 01 acts as 00 and 10 as 11, otherwise they are reserved. */
static unsigned EffectivePMSCR_EL1_EE(const struct spex_spu *u)
{
    if (EffectivePMSCR_EL2_EE(u) == 0)
        return 0;
    unsigned ee = (unsigned)EFF(EE, PMSCR_EL1);
    if (ee == 1 || ee == 2)
        ee = u->config.features.NV ? (ee == 2 ? 3 : 0) : u->config.choices.reserved_ee ? 3 : 0;
    return ee;
}

bool SPEProfilingStopped(const struct spex_spu *u)
{
    if (EFF(S, PMBSR_EL1))
        return true;
    if (EffectivePMSCR_EL2_EE(u) >= 2 && EFF(S, PMBSR_EL2))
        return true;
    return u->config.features.EL3 && effective_pmsee(u) >= 2 && EFF(S, PMBSR_EL3);
}

bool ProfilingBufferEnabled(const struct spex_spu *u)
{
    struct owner owner = ProfilingBufferOwner(u);
    return !u->w.halted && owner.valid && !(u->w.aarch32 >> owner.el & 1) &&
           owner.security == spu_lower_security(u) && EFF(E, PMBLIMITR_EL1) &&
           !SPEProfilingStopped(u);
}

/* Table D17-1. */
bool StatisticalProfilingEnabled(const struct spex_spu *u, unsigned el)
{
    if (!ProfilingBufferEnabled(u) || (u->w.aarch32 >> el & 1))
        return false;
    unsigned owner = ProfilingBufferOwner(u).el;
    bool tge = spu_effective_tge(u);
    if (el > owner || (owner == 1 && tge))
        return false;
    switch (el) {
    case 2:
        return EFF(E2SPE, PMSCR_EL2);
    case 1:
        return EFF(E1SPE, PMSCR_EL1);
    default:
        return tge ? EFF(E0HSPE, PMSCR_EL2) : EFF(E0SPE, PMSCR_EL1);
    }
}

bool spu_discard_mode(const struct spex_spu *u)
{
    unsigned fm = (unsigned)EFF(FM, PMBLIMITR_EL1);
    if (fm == 0)
        return false;
    if (fm == 2 && u->config.features.version >= 3)
        return true;
    return u->config.choices.reserved_fm && u->config.features.version >= 3;
}

/* ---- what may be collected (D17.6.9) ---- */

bool CollectContextIDR1(const struct spex_spu *u)
{
    return u->w.el < 2 && !spu_effective_tge(u) && EFF(CX, PMSCR_EL1);
}

bool CollectContextIDR2(const struct spex_spu *u)
{
    return spu_el2_enabled(u) && EFF(CX, PMSCR_EL2);
}

bool CollectPhysicalAddress(const struct spex_spu *u)
{
    struct owner owner = ProfilingBufferOwner(u);
    bool pa1 = EFF(PA, PMSCR_EL1);
    if (!spu_el2_enabled_for(u, owner.security))
        return pa1;
    return EFF(PA, PMSCR_EL2) && (owner.el == 2 || pa1);
}

/* Value of PCT: two bits with FEAT_ECV, else one; 0b10 is reserved. */
static unsigned pct(const struct spex_spu *u, uint64_t field)
{
    static const unsigned replaced[] = {0, 1, 3};
    if (!u->config.features.ECV)
        return field & 1;
    return field == 2 ? replaced[u->config.choices.reserved_pct] : (unsigned)field;
}

/* Table D17-3. */
enum time_kind CollectTimeStamp(const struct spex_spu *u)
{
    struct owner owner = ProfilingBufferOwner(u);
    bool ts = owner.el == 2 ? EFF(TS, PMSCR_EL2) : EFF(TS, PMSCR_EL1);
    if (!ts)
        return TIME_NONE;
    unsigned pct1 = pct(u, EFF(PCT, PMSCR_EL1)), pct2 = pct(u, EFF(PCT, PMSCR_EL2));
    if (!u->config.features.EL2)
        pct1 = 1;
    if (spu_el2_enabled(u)) {
        if (pct2 == 0)
            return TIME_VIRTUAL;
        if (pct2 == 3)
            return owner.el == 1 && pct1 == 0 ? TIME_VIRTUAL : TIME_OFFSET_PHYSICAL;
        if (owner.el == 2)
            return TIME_PHYSICAL;
    }
    return pct1 == 0 ? TIME_VIRTUAL : pct1 == 3 ? TIME_OFFSET_PHYSICAL : TIME_PHYSICAL;
}

/* What is subtracted from PhysicalCountInt(). */
uint64_t spu_time_offset(const struct spex_spu *u, enum time_kind kind)
{
    const struct arch_features *f = &u->config.features;
    if (!f->EL2)
        return 0;
    if (kind == TIME_VIRTUAL)
        return in_host(u) ? 0 : u->w.eff[R_CNTVOFF_EL2];
    if (kind != TIME_OFFSET_PHYSICAL || !f->ECV_POFF || !EFF(ECV, CNTHCTL_EL2) ||
        (f->EL3 && !EFF(ECVEn, SCR_EL3)))
        return 0;
    return u->w.eff[R_CNTPOFF_EL2];
}

/* ---- physical buffers (FEAT_SPE_nVM) ---- */

bool spu_effective_EnVM(const struct spex_spu *u)
{
    struct owner owner = ProfilingBufferOwner(u);
    return !spu_el2_enabled_for(u, owner.security) || owner.el == 2 || EFF(EnVM, PMSCR_EL2);
}

bool EffectivePMBLIMITR_EL1_nVM(const struct spex_spu *u)
{
    return u->config.features.nVM && spu_effective_EnVM(u) && EFF(nVM, PMBLIMITR_EL1);
}

/* ---- where an event is recorded (RHJXHT) ---- */

unsigned ReportSPEEvent(const struct spex_spu *u, unsigned ec, unsigned fsc)
{
    const struct arch_features *f = &u->config.features;
    if (!f->EXC)
        return 1;
    bool stage1 = ec == EC_STAGE1, stage2 = ec == EC_STAGE2, gpc = ec == EC_GPC;
    bool gpf = (stage1 || stage2) && f->RME && fsc >= 0x22 && fsc <= 0x28;
    bool abort = (stage1 || stage2) && (fsc == 0x10 || (fsc >= 0x12 && fsc <= 0x17) || fsc == 0x1b);
    unsigned pmsee = effective_pmsee(u), ee = EffectivePMSCR_EL2_EE(u);
    if (pmsee == 3 ||
        (pmsee == 2 && (gpc || (gpf && EFF(GPF, SCR_EL3)) || (abort && EFF(EA, SCR_EL3)))))
        return 3;
    bool tea = f->RAS && spu_el2_enabled(u) && EFF(TEA, HCR_EL2);
    bool hgpf = f->RME && spu_el2_enabled(u) && EFF(GPF, HCR_EL2);
    if (ee == 3 || (ee == 2 && (gpc || stage2 || (gpf && hgpf) || (abort && tea) ||
                                (stage1 && ProfilingBufferOwner(u).el == 2))))
        return 2;
    return 1;
}

/* ---- interrupt and exceptions (RTSJRP, RYZJQX) ---- */

bool SPEInterruptEnabled(const struct spex_spu *u)
{
    return EffectivePMSCR_EL1_EE(u) == 0;
}

/* CheckForSPEException, one route at a time: the PMBSR_ELx named by source. */
static void spu_check_exception(const struct spex_spu *u, unsigned source,
                                struct spex_spu_exception *e)
{
    const struct words *w = &u->w;
    bool owning = ProfilingBufferOwner(u).security == w->security;
    bool pending = false, masked = true;
    unsigned target = source;
    *e = (struct spex_spu_exception){0};
    if (!u->config.features.EXC)
        return;
    switch (source) {
    case 3:
        pending = u->config.features.EL3 && effective_pmsee(u) >= 2 && EFF(S, PMBSR_EL3);
        masked = w->el == 3;
        break;
    case 2: {
        unsigned ee = EffectivePMSCR_EL2_EE(u);
        pending = ee >= 2 && EFF(S, PMBSR_EL2);
        masked = !owning || w->el == 3 || (w->el == 2 && (ee != 3 || !EFF(KE, PMSCR_EL2) || w->pm));
        break;
    }
    case 1:
        pending = EffectivePMSCR_EL1_EE(u) == 3 && EFF(S, PMBSR_EL1);
        masked = !owning || w->el >= 2 || (w->el == 1 && (!EFF(KE, PMSCR_EL1) || w->pm));
        target = spu_effective_tge(u) ? 2 : 1;
        break;
    }
    if (!pending)
        return;
    e->source = (uint8_t)source;
    e->target = (uint8_t)target;
    e->pending = true;
    e->unmasked = !masked && !w->halted;
    e->esr = UINT64_C(0x3d) << 26 | BIT(25) | 1 << 1; /* FSC 0b00001, asynchronous */
}

void spex_spu_get_exception(const struct spex_spu *u, unsigned source, struct spex_spu_exception *e)
{
    assert(u && e);
    if (source) {
        spu_check_exception(u, source, e);
        return;
    }
    /* The exception that the PE takes; if none, a pending one. */
    struct spex_spu_exception first = {0};
    for (unsigned i = 0; i < 3; i++) {
        spu_check_exception(u, u->config.choices.exception_priority ? 1 + i : 3 - i, e);
        if (e->unmasked)
            return;
        if (e->pending && !first.pending)
            first = *e;
    }
    *e = first;
}

/* ---- traps to EL3 ---- */

/* For a PE that has EL3. */
bool CheckMDCR_EL3_NSPBTrap(const struct spex_spu *u)
{
    unsigned security;
    if (!(EFF(NSPB, MDCR_EL3) & 1) || !owning_security(u, &security))
        return true;
    return security != spu_lower_security(u);
}

/* ---- freezing PMU counters ---- */

/* SPEFreezeOnEvent. */
bool spex_spu_pmu_frozen(const struct spex_spu *u, enum spex_pmu_range range)
{
    assert(u);
    const struct arch_features *f = &u->config.features;
    if (f->version < 3 || !f->PMUv3p7 || !EFF(E, PMBLIMITR_EL1) || !EFF(PMFZ, PMBLIMITR_EL1) ||
        !SPEProfilingStopped(u))
        return false;
    switch (range) {
    case SPEX_PMU_EL1_COUNTERS:
        return EFF(FZS, PMCR_EL0);
    case SPEX_PMU_EL2_COUNTERS:
        return f->EL2 && EFF(HPMFZS, MDCR_EL2);
    default:
        return f->DPFZS && EFF(DP, PMCR_EL0) && EFF(FZS, PMCR_EL0);
    }
}
