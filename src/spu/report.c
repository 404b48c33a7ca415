/*
 * Profiling Buffer management events: what they write into which PMBSR_ELx
 * (D17.8). Nothing is recorded over an event that software has not serviced.
 */
#include "unit.h"

#define MASK(name) SPEX_FIELD_MASK(SPEX_##name)

static enum reg_index syndrome_of(unsigned el)
{
    return el == 3 ? R_PMBSR_EL3 : el == 2 ? R_PMBSR_EL2 : R_PMBSR_EL1;
}

static uint64_t with_data_lost(uint64_t value, int data_lost)
{
    if (data_lost == DL_UNCHANGED)
        return value;
    return spex_field_set(value, SPEX_PMBSR_EL1_DL, (uint64_t)data_lost);
}

/* S, EC and MSS; mss2 is NULL to leave MSS2 as it is. */
static bool record(struct spex_spu *u, unsigned ec, uint64_t mss, const uint32_t *mss2, bool ea,
                   int data_lost)
{
    enum reg_index r = syndrome_of(ReportSPEEvent(u, ec, (unsigned)mss & 63));
    uint64_t value = u->w.eff[r];
    if (FIELD_OF(value, PMBSR_EL1_S))
        return false;
    value |= MASK(PMBSR_EL1_S) | (ea ? MASK(PMBSR_EL1_EA) : 0);
    value = spex_field_set(value, SPEX_PMBSR_EL1_EC, ec);
    value = spex_field_set(value, SPEX_PMBSR_EL1_MSS, mss);
    if (mss2)
        value = spex_field_set(value, SPEX_PMBSR_EL1_MSS2, *mss2);
    spu_put(u, r, with_data_lost(value, data_lost));
    u->now.known = false; /* it may have stopped */
    return true;
}

bool OtherSPEManagementEvent(struct spex_spu *u, unsigned bsc, int data_lost)
{
    static const uint32_t zero;
    return record(u, EC_OTHER, bsc, u->config.choices.full_mss2 ? &zero : NULL, false, data_lost);
}

/* For EC 0x1E the whole of MSS and MSS2 is RES0. */
bool spu_report_fault(struct spex_spu *u, unsigned ec, unsigned fsc, uint32_t mss2, bool ea,
                      int data_lost)
{
    if (ec == EC_GPC)
        fsc = mss2 = 0;
    return record(u, ec, fsc, &mss2, ea, data_lost);
}

bool spu_report_impdef(struct spex_spu *u, uint16_t mss, uint32_t mss2, int data_lost)
{
    return record(u, EC_IMPDEF, mss, &mss2, false, data_lost);
}

/* RBPFPN: EA and DL are set even if S already is. */
void spu_report_abort(struct spex_spu *u, unsigned ec, unsigned fsc, bool data_lost)
{
    static const uint32_t zero;
    int dl = data_lost ? DL_ONE : DL_UNCHANGED;
    uint64_t mss = ec == EC_GPC ? 0 : fsc;
    if (record(u, ec, mss, u->config.choices.full_mss2 ? &zero : NULL, true, dl))
        return;
    enum reg_index r = syndrome_of(ReportSPEEvent(u, ec, fsc));
    spu_put(u, r, with_data_lost(u->w.eff[r] | MASK(PMBSR_EL1_EA), dl));
}

/* COLL goes where an Other event would: DefaultSPEEvent. */
void SPESampleCollision(struct spex_spu *u)
{
    enum reg_index r = syndrome_of(ReportSPEEvent(u, EC_OTHER, 0));
    spu_pmu(u, SPEX_PMU_SAMPLE_COLLISION, 1);
    spu_put(u, r, u->w.eff[r] | MASK(PMBSR_EL1_COLL));
}
