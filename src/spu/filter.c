/*
 * Filters (D17.5). All of them run, so that each can raise its PMU events; a record is kept if
 * all filters keep it.
 */
#include "unit.h"

/* PMSFCR_EL1.{B,LD,ST,FP,SIMD} and their masks, in the order of the TYPE_ flags. */
static bool type_match(const struct spex_spu *u, unsigned types)
{
    uint64_t fcr = u->w.eff[R_PMSFCR_EL1];
    unsigned ctrl = (unsigned)bits_get(fcr, 20, 16), mask = (unsigned)bits_get(fcr, 52, 48);
    unsigned any = ctrl & ~mask;
    return (!any || types & any) && (types & mask) == (ctrl & mask);
}

bool spu_type_kept(const struct spex_spu *u, unsigned types)
{
    uint64_t fcr = u->w.eff[R_PMSFCR_EL1];
    if (!FIELD_OF(fcr, PMSFCR_EL1_FT))
        return true;
    if (!u->config.features.EFT && !bits_get(fcr, 20, 16)) /* CONSTRAINED UNPREDICTABLE */
        return u->config.choices.ft_zero == FILTER_OFF;
    return type_match(u, types);
}

static bool SPEFilterByType(struct spex_spu *u, const struct sample *s)
{
    static const struct {
        unsigned type, event;
    } feeds[] = {
        {TYPE_B, SPEX_PMU_SAMPLE_FEED_BR},      {TYPE_LD, SPEX_PMU_SAMPLE_FEED_LD},
        {TYPE_ST, SPEX_PMU_SAMPLE_FEED_ST},     {TYPE_FP, SPEX_PMU_SAMPLE_FEED_FP},
        {TYPE_SIMD, SPEX_PMU_SAMPLE_FEED_SIMD},
    };
    uint64_t fcr = u->w.eff[R_PMSFCR_EL1];
    unsigned ctrl = (unsigned)bits_get(fcr, 20, 16), mask = (unsigned)bits_get(fcr, 52, 48);
    for (unsigned i = 0; i < sizeof feeds / sizeof feeds[0]; i++)
        if (s->types & feeds[i].type)
            spu_pmu(u, feeds[i].event, 1);
    if (ctrl | mask && type_match(u, s->types))
        spu_pmu(u, SPEX_PMU_SAMPLE_FEED_OP, 1);
    return spu_type_kept(u, s->types);
}

static bool SPEFilterByEvents(struct spex_spu *u, const struct sample *s)
{
    const struct spu_choices *c = &u->config.choices;
    uint64_t events = s->record.events;
    uint64_t ones = u->w.eff[R_PMSEVFR_EL1] & u->filter_events;
    uint64_t zeros = u->config.features.FnE ? u->w.eff[R_PMSNEVFR_EL1] & u->filter_events : 0;
    bool has_ones = (events & ones) == ones, has_zeros = (events & zeros) == 0;
    bool fe = EFF(FE, PMSFCR_EL1), fne = EFF(FnE, PMSFCR_EL1), keep = true;
    if (has_ones && has_zeros)
        spu_pmu(u, SPEX_PMU_SAMPLE_FEED_EVENT, 1);
    if (fe && fne && (ones & zeros)) /* the rest are CONSTRAINED UNPREDICTABLE cases */
        return c->fe_fne_overlap == FILTER_OFF;
    if (fe)
        keep &= ones ? has_ones : c->fe_zero == FILTER_OFF;
    if (fne)
        keep &= zeros ? has_zeros : c->fne_zero == FILTER_OFF;
    return keep;
}

static bool SPEFilterByLatency(struct spex_spu *u, const struct sample *s)
{
    unsigned least = (unsigned)EFF(MINLAT, PMSLATFR_EL1);
    bool match = s->record.total >= least;
    if (match)
        spu_pmu(u, SPEX_PMU_SAMPLE_FEED_LAT, 1);
    if (!EFF(FL, PMSFCR_EL1))
        return true;
    return least ? match : u->config.choices.fl_zero == FILTER_OFF;
}

static bool SPEFilterByDataSource(struct spex_spu *u, const struct sample *s)
{
    if (!(s->types & TYPE_LD) || !(s->record.present & SPEX_HAS_DATA_SOURCE))
        return true;
    bool match = u->w.eff[R_PMSDSFR_EL1] >> (s->record.data_source & 63) & 1;
    if (match)
        spu_pmu(u, SPEX_PMU_SAMPLE_FEED_DS, 1);
    return match || !EFF(FDS, PMSFCR_EL1);
}

bool spu_filters_keep(struct spex_spu *u, const struct sample *s)
{
    bool type = SPEFilterByType(u, s), events = SPEFilterByEvents(u, s);
    bool latency = SPEFilterByLatency(u, s), source = SPEFilterByDataSource(u, s);
    bool keep = type && events && latency && source;
    if (keep)
        spu_pmu(u, SPEX_PMU_SAMPLE_FILTRATE, 1);
    return keep;
}
