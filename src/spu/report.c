/*
 * Profiling Buffer management events: what they write into which PMBSR_ELx (D17.8). An event
 * that software has not yet handled is never overwritten.
 */
#include "unit.h"

#define MASK(name) SPEX_FIELD_MASK(SPEX_##name)

static enum reg_index syndrome_of(unsigned el)
{
    return el == 3 ? R_PMBSR_EL3 : el == 2 ? R_PMBSR_EL2 : R_PMBSR_EL1;
}

static uint64_t data_lost_mask(int data_lost)
{
    return data_lost == DL_UNCHANGED ? 0 : MASK(PMBSR_EL1_DL);
}

/* Records S, EC and MSS; mss2 NULL leaves MSS2 unchanged. */
static bool record(struct spex_spu *u, unsigned ec, uint64_t mss, const uint32_t *mss2, bool ea,
                   int data_lost)
{
    enum reg_index r = syndrome_of(ReportSPEEvent(u, ec, (unsigned)mss & 63));
    if (FIELD_OF(u->w.eff[r], PMBSR_EL1_S))
        return false;
    uint64_t ones = MASK(PMBSR_EL1_S) | (ea ? MASK(PMBSR_EL1_EA) : 0);
    uint64_t mask = ones | MASK(PMBSR_EL1_EC) | MASK(PMBSR_EL1_MSS) |
                    (mss2 ? MASK(PMBSR_EL1_MSS2) : 0) | data_lost_mask(data_lost);
    uint64_t value = spex_field_set(ones, SPEX_PMBSR_EL1_EC, ec);
    value = spex_field_set(value, SPEX_PMBSR_EL1_MSS, mss);
    value = spex_field_set(value, SPEX_PMBSR_EL1_MSS2, mss2 ? *mss2 : 0);
    value = spex_field_set(value, SPEX_PMBSR_EL1_DL, data_lost == DL_ONE);
    spu_put_fields(u, r, mask, value);
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
    spu_put_fields(u, r, MASK(PMBSR_EL1_EA) | data_lost_mask(dl), ~UINT64_C(0));
}

/* COLL is recorded where an Other event would be: DefaultSPEEvent. */
void SPESampleCollision(struct spex_spu *u)
{
    enum reg_index r = syndrome_of(ReportSPEEvent(u, EC_OTHER, 0));
    spu_pmu(u, SPEX_PMU_SAMPLE_COLLISION, 1);
    spu_put_fields(u, r, MASK(PMBSR_EL1_COLL), MASK(PMBSR_EL1_COLL));
}
