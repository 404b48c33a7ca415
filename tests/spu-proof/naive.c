/*
 * The naive unit: enabling, buffer, reporting, sampling, filters, registers. See naive.h. One file
 * on purpose: it is one reading of D17 and D24, section by section, to be read beside the manual.
 */
#include "naive.h"

#include <assert.h>
#include <string.h>

#define F(value, hi, lo) (((value) >> (lo)) & (((uint64_t)2 << ((hi) - (lo))) - 1))
#define B(value, bit) (((value) >> (bit)) & 1)
#define ONES(hi, lo) ((((uint64_t)2 << ((hi) - (lo))) - 1) << (lo))

/* ================ Security states and Exception levels ================ */

/* Effective SCR_EL3.NS; without EL3 the PE has one Security state. */
static bool NS(const struct naive *n)
{
    if (!n->f.Secure)
        return true;
    return n->f.EL3 && B(n->SCR_EL3, 0);
}

/* IsSecureEL2Enabled(): SCR_EL3.EEL2, or fixed where there is no EL3. */
static bool secure_el2(const struct naive *n)
{
    return n->f.EL2 && n->f.SEL2 && (!n->f.EL3 || B(n->SCR_EL3, 18));
}

/* EL2Enabled(): by the Security state of the levels below EL3, also at EL3. */
static bool el2_enabled(const struct naive *n)
{
    return n->f.EL2 && (NS(n) || secure_el2(n));
}

/* The Security state of the levels below EL3. */
static enum spex_security lower_state(const struct naive *n)
{
    return n->f.RME && B(n->SCR_EL3, 62) ? SPEX_REALM : NS(n) ? SPEX_NONSECURE : SPEX_SECURE;
}

static bool TGE(const struct naive *n)
{
    return el2_enabled(n) && B(n->HCR_EL2, 27);
}
static bool E2H(const struct naive *n)
{
    return el2_enabled(n) && n->f.VHE && B(n->HCR_EL2, 34);
}

/* ================ D17.7: who owns the buffer; Table D17-4, REG-21 ================ */

static unsigned E2PB(const struct naive *n)
{
    static const unsigned as[] = {0, 2, 3};
    unsigned e2pb = F(n->MDCR_EL2, 13, 12);
    return e2pb == 1 ? as[n->c.reserved_e2pb] : e2pb;
}

/* False if nobody owns it: a reserved NSPB that disables the buffer. */
static bool owner(const struct naive *n, unsigned *security, unsigned *el)
{
    enum spex_security state;
    bool valid = true;
    if (!n->f.EL3) {
        state = n->f.Secure ? SPEX_SECURE : SPEX_NONSECURE;
    } else {
        unsigned nspbe = n->f.RME && B(n->MDCR_EL3, 11), nspb = B(n->MDCR_EL3, 13);
        bool reserved = nspbe ? !nspb : !nspb && !n->f.Secure;
        if (!reserved)
            state = nspbe ? SPEX_REALM : nspb ? SPEX_NONSECURE : SPEX_SECURE;
        else
            state = (enum spex_security)n->c.reserved_nspb;
        valid = !reserved || n->c.reserved_nspb <= SPEX_REALM;
    }
    bool el2 = n->f.EL2 && (state != SPEX_SECURE || secure_el2(n));
    *security = state;
    *el = el2 && E2PB(n) == 0 ? 2 : 1;
    return valid;
}

static unsigned owning_el(const struct naive *n)
{
    unsigned security, el = 1;
    owner(n, &security, &el);
    return el;
}

static bool in_owning_state(const struct naive *n)
{
    unsigned security, el;
    return owner(n, &security, &el) && n->pe.security == security;
}

/* EL2 exists for the owning Security state. */
static bool owner_has_el2(const struct naive *n)
{
    unsigned security, el;
    owner(n, &security, &el);
    return n->f.EL2 && (security != SPEX_SECURE || secure_el2(n));
}

/* ================ D17.8: Effective values of the exception controls ================ */

static unsigned PMSEE(const struct naive *n)
{
    return n->f.EL3 ? F(n->MDCR_EL3, 52, 51) : 1; /* BUF-34 */
}

/* 00 is disabled for EL2 and EL1, 01 delegated to EL1. */
static unsigned EE2(const struct naive *n)
{
    if (!n->f.EXC || PMSEE(n) == 0)
        return 0;
    return el2_enabled(n) ? F(n->PMSCR_EL2, 9, 8) : 1;
}

static unsigned EE1(const struct naive *n)
{
    unsigned ee = F(n->PMSCR_EL1, 9, 8);
    if (EE2(n) == 0)
        return 0;
    if (ee == 1 || ee == 2) /* BUF-122 */
        return n->f.NV ? (ee == 1 ? 0 : 3) : n->c.reserved_ee ? 3 : 0;
    return ee;
}

/* ================ D17.4: stopped, enabled ================ */

static bool S(uint64_t pmbsr)
{
    return B(pmbsr, 17);
}

/* SPEProfilingStopped(): Table D17-2 read inverted (OCR-19), REG-16. */
static bool stopped(const struct naive *n)
{
    return S(n->PMBSR_EL1) || (EE2(n) >= 2 && S(n->PMBSR_EL2)) ||
           (n->f.EXC && n->f.EL3 && PMSEE(n) >= 2 && S(n->PMBSR_EL3));
}

static bool discard_mode(const struct naive *n)
{
    unsigned fm = F(n->PMBLIMITR_EL1, 2, 1);
    if (fm == 2 && n->f.version >= 3)
        return true;
    return fm != 0 && n->f.version >= 3 && n->c.reserved_fm == 1;
}

/*
 * ProfilingBufferEnabled(), without the question whether it is stopped. It looks at
 * SCR_EL3.{NSE,NS}, so that a record that is ready after an exception to EL3 is written.
 */
static bool buffer_allowed(const struct naive *n)
{
    unsigned security, el;
    return !n->pe.halted && owner(n, &security, &el) && lower_state(n) == security &&
           !(n->pe.aarch32 >> el & 1) && B(n->PMBLIMITR_EL1, 0);
}

static bool buffer_enabled(const struct naive *n)
{
    return buffer_allowed(n) && !stopped(n);
}

/* StatisticalProfilingEnabled(el): Table D17-1, REG-17, REG-18. */
static bool enabled_at(const struct naive *n, unsigned el)
{
    if ((n->pe.aarch32 >> el & 1) || !buffer_enabled(n) || el == 3 || el > owning_el(n))
        return false;
    if (!in_owning_state(n) || (owning_el(n) == 1 && TGE(n)))
        return false;
    if (el == 2)
        return B(n->PMSCR_EL2, 1);
    if (el == 1)
        return !TGE(n) && B(n->PMSCR_EL1, 1);
    return TGE(n) ? B(n->PMSCR_EL2, 0) : B(n->PMSCR_EL1, 0);
}

static bool enabled(const struct naive *n)
{
    return enabled_at(n, n->pe.el);
}

/* ================ PMU events (D14.3) ================ */

static const unsigned events[] = {
    SPEX_PMU_SAMPLE_POP,       SPEX_PMU_SAMPLE_FEED,       SPEX_PMU_SAMPLE_FILTRATE,
    SPEX_PMU_SAMPLE_COLLISION, SPEX_PMU_SAMPLE_FEED_DS,    SPEX_PMU_SAMPLE_BUFFER_FULL,
    SPEX_PMU_SAMPLE_FEED_BR,   SPEX_PMU_SAMPLE_FEED_LD,    SPEX_PMU_SAMPLE_FEED_ST,
    SPEX_PMU_SAMPLE_FEED_OP,   SPEX_PMU_SAMPLE_FEED_EVENT, SPEX_PMU_SAMPLE_FEED_LAT,
    SPEX_PMU_SAMPLE_FEED_FP,   SPEX_PMU_SAMPLE_FEED_SIMD,
};

unsigned naive_pmu_index(unsigned event)
{
    for (unsigned i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i] == event)
            return i;
    return NAIVE_PMU - 1;
}

/* Which version or feature brings the event: semantics section 8. */
static void pmu(struct naive *n, unsigned event)
{
    bool there = true;
    switch (event) {
    case SPEX_PMU_SAMPLE_FEED_DS:
        there = n->f.FDS;
        break;
    case SPEX_PMU_SAMPLE_BUFFER_FULL:
        there = n->f.version >= 5;
        break;
    case SPEX_PMU_SAMPLE_FEED_BR:
    case SPEX_PMU_SAMPLE_FEED_LD:
    case SPEX_PMU_SAMPLE_FEED_ST:
    case SPEX_PMU_SAMPLE_FEED_OP:
    case SPEX_PMU_SAMPLE_FEED_EVENT:
    case SPEX_PMU_SAMPLE_FEED_LAT:
        there = n->f.version >= 3;
        break;
    case SPEX_PMU_SAMPLE_FEED_FP:
    case SPEX_PMU_SAMPLE_FEED_SIMD:
        there = n->f.EFT;
        break;
    }
    if (there)
        n->pmu[naive_pmu_index(event)]++;
}

/* The latest direct write of a register that no context synchronization followed, or NULL. */
static uint64_t *direct_write(struct naive *n, unsigned encoding)
{
    for (unsigned i = 0; i < n->unseen_count; i++)
        if (n->unseen[i].encoding == encoding)
            return &n->unseen[i].value;
    return NULL;
}

/* ================ D17.8: which PMBSR, RHJXHT ================ */

enum what { OTHER_EVENT, STAGE1, STAGE2, GPC };
struct event {
    enum what what;
    bool gpf, external;
};

/* ReportSPEEvent(): the register that records the event. BUF-21 to BUF-33. */
static uint64_t *report_to(struct naive *n, struct event e)
{
    bool fault = e.what != OTHER_EVENT;
    if (!n->f.EXC)
        return &n->PMBSR_EL1;
    if (n->f.EL3 &&
        (PMSEE(n) == 3 || (PMSEE(n) == 2 && (e.what == GPC || (e.gpf && B(n->SCR_EL3, 48)) ||
                                             (e.external && B(n->SCR_EL3, 3))))))
        return &n->PMBSR_EL3;
    if (el2_enabled(n) && EE2(n) == 3)
        return &n->PMBSR_EL2;
    if (el2_enabled(n) && EE2(n) == 2) {
        if (fault && owning_el(n) == 2)
            return &n->PMBSR_EL2;
        if (e.what == STAGE2 || e.what == GPC || (e.gpf && B(n->HCR_EL2, 48)))
            return &n->PMBSR_EL2;
        if (e.external && n->f.RAS && B(n->HCR_EL2, 37)) /* BUF-31 */
            return &n->PMBSR_EL2;
    }
    return &n->PMBSR_EL1;
}

static void set_field(uint64_t *reg, unsigned hi, unsigned lo, uint64_t value)
{
    *reg = (*reg & ~ONES(hi, lo)) | value << lo;
}

/*
 * A field of a PMBSR_ELx. The indirect write comes after every direct write so far: one that
 * profiling operations do not see yet does not undo it later (RLTMKQ, IGRLRX).
 */
static void set_status(struct naive *n, uint64_t *sr, unsigned hi, unsigned lo, uint64_t value)
{
    unsigned encoding = sr == &n->PMBSR_EL1   ? SPEX_PMBSR_EL1
                        : sr == &n->PMBSR_EL2 ? SPEX_PMBSR_EL2
                                              : SPEX_PMBSR_EL3;
    uint64_t *unseen = direct_write(n, encoding);
    set_field(sr, hi, lo, value);
    if (unseen)
        set_field(unseen, hi, lo, value);
}

/* OtherSPEManagementEvent(): EC 0, MSS only BSC. False if S was set already. */
static bool other_event(struct naive *n, unsigned bsc)
{
    uint64_t *sr = report_to(n, (struct event){OTHER_EVENT, false, false});
    if (S(*sr))
        return false;
    set_status(n, sr, 17, 17, 1);
    set_status(n, sr, 31, 26, 0);
    set_status(n, sr, 15, 0, bsc);
    if (n->c.full_mss2)
        set_status(n, sr, 55, 32, 0);
    return true;
}

/* D17.8.5 Access not allowed: BUF-203 to BUF-207. */
static void access_not_allowed(struct naive *n)
{
    uint64_t *sr = report_to(n, (struct event){OTHER_EVENT, false, false});
    if (other_event(n, 0))
        set_status(n, sr, 19, 19, 1);
}

static void buffer_full(struct naive *n)
{
    if (other_event(n, 1)) /* BUF-143 to BUF-149 */
        pmu(n, SPEX_PMU_SAMPLE_BUFFER_FULL);
}

/* REG-08: low bits that are RES0 hold nothing, also when a fault sets the pointer. */
static uint64_t pointer_mask(const struct naive *n)
{
    return n->c.pointer_low_bits && n->f.Align ? ONES(63, n->f.Align) : ONES(63, 0);
}

/*
 * D17.8.3: a fault at PMBPTR_EL1, with the record that begins at start.
 * fsc as in ESR_ELx.DFSC; flags as the world gave them. external: an External
 * abort on a walk that is an MMU fault. written: on a write, not for a broken pointer rule.
 */
static void record_fault(struct naive *n, unsigned fsc, uint32_t flags, uint64_t start,
                         bool external, bool written)
{
    struct event e = {.what = STAGE1};
    if (written)
        n->PMBPTR_EL1 &= pointer_mask(n);
    if (flags & SPEX_STOP_GPC)
        e.what = GPC;                                   /* BUF-167: not a GPF */
    else if ((flags & SPEX_STOP_STAGE2) && fsc != 0x28) /* BUF-170: a GPF, and not of a walk */
        e.what = STAGE2;
    e.gpf = e.what != GPC && ((fsc >= 0x22 && fsc <= 0x28));
    e.external = external;
    uint64_t *sr = report_to(n, e);
    if (S(*sr)) /* BUF-165 */
        return;
    set_status(n, sr, 17, 17, 1);
    set_status(n, sr, 31, 26, e.what == GPC ? 0x1e : e.what == STAGE2 ? 0x25 : 0x24);
    set_status(n, sr, 15, 0, e.what == GPC ? 0 : fsc); /* BUF-171 */
    bool permission = e.what != GPC && fsc >= 0x0c && fsc <= 0x0f;
    uint64_t mss2 = 0;
    if (permission && e.what == STAGE2 && n->f.THE) { /* BUF-172, BUF-173 */
        mss2 |= (uint64_t) !!(flags & SPEX_STOP_TOP_LEVEL) << 8;
        mss2 |= (uint64_t) !!(flags & SPEX_STOP_ASSURED_ONLY) << 7;
    }
    if (permission) {
        mss2 |= (uint64_t) !!(flags & SPEX_STOP_OVERLAY) << 6;
        mss2 |= (uint64_t) !!(flags & SPEX_STOP_DIRTY_BIT) << 5;
    }
    set_status(n, sr, 55, 32, mss2);
    if (n->PMBPTR_EL1 != start) /* BUF-175 */
        set_status(n, sr, 19, 19, 1);
    else if (n->c.fault_dl && written) /* BUF-76 */
        set_status(n, sr, 19, 19, n->c.fault_dl == 2);
    if (external && n->c.walk_abort_ea) /* BUF-176 */
        set_status(n, sr, 18, 18, 1);
}

/* At once, or after some more samples: BUF-11, BUF-15. */
static void fault(struct naive *n, unsigned fsc, uint32_t flags, uint64_t start, bool external,
                  bool written)
{
    if (!written || n->f.version < 6 || !n->c.fault_lag) {
        record_fault(n, fsc, flags, start, external, written);
        return;
    }
    n->late.pending = true;
    n->late.external = external;
    n->late.fsc = fsc;
    n->late.flags = flags;
    n->late.samples = (unsigned)n->c.fault_lag;
    n->late.start = start;
    n->late.at = n->PMBPTR_EL1;
    n->PMBPTR_EL1 = start;
}

static void report_late_fault(struct naive *n)
{
    if (!n->late.pending)
        return;
    n->late.pending = false;
    n->PMBPTR_EL1 = n->late.at;
    record_fault(n, n->late.fsc, n->late.flags, n->late.start, n->late.external, true);
}

/* What becomes of an External abort that is no MMU fault: RJFYNW, BUF-183, BUF-184. */
enum manner { REPORT, IGNORE, SERROR };
static enum manner manner(const struct naive *n)
{
    if (n->f.EA == 1)
        return IGNORE;
    if (n->f.EA == 2)
        return SERROR;
    if (n->c.abort_unspecified == 0 && n->f.version >= 4) /* ITCPLL, BUF-188 */
        return IGNORE;
    return n->c.abort_unspecified == 0 ? REPORT : n->c.abort_unspecified == 1 ? IGNORE : SERROR;
}

/* RBPFPN: reported to the SPU. */
static void external_abort(struct naive *n, unsigned fsc, uint32_t flags, bool async, bool midway)
{
    struct event e = {.what = STAGE1, .external = true};
    bool walk = flags & (SPEX_STOP_WALK | SPEX_STOP_GPT);
    if (flags & SPEX_STOP_GPT)
        e.what = GPC; /* BUF-194 */
    else if ((flags & SPEX_STOP_WALK) && (flags & SPEX_STOP_STAGE2))
        e.what = STAGE2; /* BUF-195: a stage 2 table access */
    uint64_t *sr = report_to(n, e);
    set_status(n, sr, 18, 18, 1); /* BUF-189 */
    if (async || midway)          /* BUF-192, BUF-198 */
        set_status(n, sr, 19, 19, 1);
    if (S(*sr))
        return;
    set_status(n, sr, 17, 17, 1);
    set_status(n, sr, 31, 26, e.what == GPC ? 0x1e : e.what == STAGE2 ? 0x25 : 0x24);
    set_status(n, sr, 15, 0, e.what == GPC ? 0 : async ? 0x11 : walk ? fsc : 0x10); /* BUF-197 */
    if (n->c.full_mss2)
        set_status(n, sr, 55, 32, 0);
}

/* ================ D17.7: writing ================ */

static bool nVM(const struct naive *n)
{
    if (!n->f.nVM || !B(n->PMBLIMITR_EL1, 7))
        return false;
    return !(owner_has_el2(n) && owning_el(n) == 1 && !B(n->PMSCR_EL2, 11));
}

static uint64_t LIMIT(const struct naive *n)
{
    return n->PMBLIMITR_EL1 & ONES(63, 12);
}

/* SPEBufferIsFull(): BUF-141, BUF-142; integers, so that a small LIMIT does not wrap. */
static bool no_room(const struct naive *n)
{
    uint64_t room = (uint64_t)1 << n->f.MaxSize;
    return LIMIT(n) < room || n->PMBPTR_EL1 > LIMIT(n) - room;
}

/* Restrictions on the current write pointer when profiling becomes enabled: REG-22. */
static bool pointer_ok(const struct naive *n)
{
    return !no_room(n) && F(n->PMBPTR_EL1, 63, 56) == F(LIMIT(n), 63, 56);
}

/* CONSTRAINED UNPREDICTABLE: one from the menu of RPGGHS. */
static void pointer_violation(struct naive *n)
{
    uint64_t *sr = report_to(n, (struct event){OTHER_EVENT, false, false});
    switch (n->c.pointer_rule) {
    case 0:
        buffer_full(n);
        break;
    case 1:
        access_not_allowed(n);
        return;
    case 2:
        sr = report_to(n, (struct event){STAGE1, false, false});
        fault(n, 0x04, 0, n->PMBPTR_EL1, false, false);
        break;
    case 3:
        if (other_event(n, 0)) {
            set_status(n, sr, 31, 26, 0x1f);
            set_status(n, sr, 55, 32, 0);
        }
        break;
    case 4:
        n->waived = true;
        return;
    default:
        return;
    }
    if (n->c.pointer_rule_dl)
        set_status(n, sr, 19, 19, 1);
}

/* The bits of the pointer that no output address has, REG-23. */
static bool pointer_too_large(const struct naive *n)
{
    uint64_t pointer = n->PMBPTR_EL1;
    if (!nVM(n))
        return false;
    if (n->c.oa_bits < 64 && pointer >> n->c.oa_bits && n->c.above_oa == 0)
        return true;
    uint64_t inside = n->c.oa_bits < 64 ? pointer & ONES(n->c.oa_bits - 1, 0) : pointer;
    return inside >> n->c.pa_bits;
}

/* SPEWriteToBuffer(): byte by byte while not stopped. */
static void write_record(struct naive *n, const struct naive_record *record)
{
    uint64_t start = n->PMBPTR_EL1;
    bool late = false;    /* an asynchronous abort is on its way */
    bool aborted = false; /* at PMBPTR_EL1 == abort_at; RDTGVZ: a fault of the record goes first */
    uint32_t late_flags = 0, abort_flags = 0;
    uint64_t abort_at = 0;
    unsigned abort_fsc = 0;
    for (size_t i = 0; i < record->size; i++) {
        if (n->c.misaligned_pointer && i == 0 && n->f.Align && (start & ONES(n->f.Align - 1u, 0))) {
            fault(n, 0x21, 0, start, false, true); /* BUF-156 */
            return;
        }
        if (pointer_too_large(n)) {
            fault(n, 0x00, 0, start, false, true);
            return;
        }
        struct spex_spu_stop stop = {0};
        n->world.write(n->world.user, n->PMBPTR_EL1, record->bytes[i], &stop);
        bool walk = stop.flags & (SPEX_STOP_WALK | SPEX_STOP_GPT);
        if (stop.kind == SPEX_STOP_FAULT) {
            fault(n, stop.fsc, stop.flags, start, false, true);
            return;
        }
        if (stop.kind == SPEX_STOP_ABORT && walk && n->c.walk_abort == 0) {
            uint32_t flags = stop.flags & SPEX_STOP_STAGE2;
            if (stop.flags & SPEX_STOP_GPT)
                flags |= SPEX_STOP_GPC;
            fault(n, stop.fsc, flags, start, true, true); /* BUF-187 */
            return;
        }
        if (stop.kind == SPEX_STOP_ABORT && manner(n) == SERROR)
            n->serrors++;
        if (stop.kind == SPEX_STOP_ABORT && manner(n) == REPORT) {
            if (!n->c.abort_async && !(stop.flags & SPEX_STOP_ASYNC)) {
                if (!aborted) {
                    aborted = true;
                    abort_at = n->PMBPTR_EL1;
                    abort_flags = stop.flags;
                    abort_fsc = stop.fsc;
                }
                n->PMBPTR_EL1++;
                continue;
            }
            if (!(stop.flags & SPEX_STOP_ASYNC)) { /* by choice: the pointer says nothing */
                n->PMBPTR_EL1 = start + record->size;
                external_abort(n, 0, stop.flags, true, false);
                return;
            }
            late = true;
            late_flags = stop.flags;
        }
        n->PMBPTR_EL1++;
    }
    if (aborted) {
        n->PMBPTR_EL1 = abort_at & pointer_mask(n);
        external_abort(n, abort_fsc, abort_flags, false, n->PMBPTR_EL1 != start);
        return;
    }
    n->whole += record->size;
    if (late)
        external_abort(n, 0, late_flags, true, false);
    if (!stopped(n) && no_room(n)) {
        buffer_full(n);
        /* BUF-17: noise up to LIMIT, 16 bytes at a time; what faults is let be. */
        uint64_t room = LIMIT(n) - n->PMBPTR_EL1;
        for (uint64_t i = 0; i < n->c.scribble && i < room; i++) {
            struct spex_spu_stop stop = {0};
            n->world.write(n->world.user, n->PMBPTR_EL1 + i, i % 2 ? 0x5a : 0xa5, &stop);
            if (stop.kind && !(stop.flags & SPEX_STOP_ASYNC))
                i |= 15;
        }
    }
}

/* A record is ready; REG-19, REG-30. */
static void emit(struct naive *n, const struct naive_record *record)
{
    if (stopped(n) || n->waived)
        return;
    if (n->late.pending) { /* discarded because of the fault */
        if (--n->late.samples == 0)
            report_late_fault(n);
        return;
    }
    if (!buffer_allowed(n)) {
        if (n->c.late_write == 2)
            access_not_allowed(n);
        if (n->c.late_write != 1)
            return;
    }
    uint64_t limit = LIMIT(n), pointer = n->PMBPTR_EL1;
    if (pointer > limit || limit - pointer < record->size || pointer >> 56 != limit >> 56) {
        pointer_violation(n); /* at the first record that does not fit; BUF-16 */
        return;
    }
    write_record(n, record);
}

static void drain(struct naive *n, unsigned keep)
{
    while (n->held_count > keep) {
        struct naive_record first = n->held[0];
        n->held_count--;
        memmove(n->held, n->held + 1, n->held_count * sizeof *n->held);
        emit(n, &first);
    }
}

/* Collected but unwritten records are discarded, or meet late_write. */
static void close_buffer(struct naive *n)
{
    if (stopped(n)) {
        n->held_count = 0;
        n->late.pending = false;
        return;
    }
    report_late_fault(n);
    drain(n, 0);
    report_late_fault(n); /* BUF-15: there is no later sample to wait for */
}

/* ================ D17.3: sampling ================ */

static uint64_t COUNT(const struct naive *n)
{
    return F(n->PMSICR_EL1, 31, 0);
}
static uint64_t ECOUNT(const struct naive *n)
{
    return F(n->PMSICR_EL1, 63, 56);
}
static bool RND(const struct naive *n)
{
    return B(n->PMSIRR_EL1, 0);
}
static uint8_t any(struct naive *n)
{
    return n->world.random(n->world.user);
}

/* SPEResetSampleCounter(): SMP-16 to SMP-21, SMP-25, SMP-29, SMP-33. */
static void reload(struct naive *n)
{
    n->reload_due = false;
    uint64_t low = RND(n) && !n->f.ERnd ? any(n) : 0;
    set_field(&n->PMSICR_EL1, 31, 0, F(n->PMSIRR_EL1, 31, 8) << 8 | low);
}

/* SPEToCollectSample(): one member of the population. */
static bool to_collect(struct naive *n)
{
    bool reached;
    if (COUNT(n) == 0) {
        reload(n); /* SMP-26: the reload has an operation of its own */
        reached = COUNT(n) == 0 && n->c.interval_zero == 0; /* SMP-52: a distance of 0 * 256 + 1 */
    } else {
        set_field(&n->PMSICR_EL1, 31, 0, COUNT(n) - 1);
        reached = COUNT(n) == 0;
    }
    if (reached) {
        n->reload_due = true;
        if (!(RND(n) && n->f.ERnd))
            return true;
        set_field(&n->PMSICR_EL1, 63, 56, any(n)); /* SMP-34 */
        return ECOUNT(n) == 0;                     /* SMP-35 */
    }
    if (RND(n) && n->f.ERnd && ECOUNT(n) != 0) { /* SMP-36 */
        set_field(&n->PMSICR_EL1, 63, 56, ECOUNT(n) - 1);
        return ECOUNT(n) == 0;
    }
    return false;
}

/* After anything that can enable or disable profiling. */
static void look_again(struct naive *n)
{
    if (!buffer_enabled(n)) /* REG-19, REG-30 */
        close_buffer(n);
    bool now = enabled(n);
    if (now && !n->was_enabled) {
        n->waived = false;
        if (n->c.pointer_rule_at == 1 && !discard_mode(n) && !pointer_ok(n)) { /* D17.7; FIL-26 */
            pointer_violation(n);
            if (stopped(n))
                close_buffer(n);
            now = n->waived; /* else stopped, or disabled by choice */
        }
        /* SMP-15, SMP-22; SMP-26: zero by a selection is for the next member to set. */
        if (now && n->PMSICR_EL1 == 0 && !n->reload_due && n->c.initial_load == 0)
            reload(n);
    }
    n->was_enabled = now;
}

bool naive_member(const struct naive *n, uint32_t flags)
{
    return !((flags & SPEX_OUT_SPECULATIVE) && !n->c.population_speculative) &&
           !((flags & SPEX_OUT_NO_INSN) && !n->c.population_no_insn) &&
           !((flags & SPEX_OUT_NONARCH_EXC) && !n->c.population_nonarch);
}

/* ================ D17.6.9: what may be collected ================ */

static unsigned PCT(const struct naive *n, uint64_t pmscr)
{
    static const unsigned as[] = {0, 1, 3};
    unsigned pct = F(pmscr, 7, 6);
    if (!n->f.ECV)
        return pct & 1; /* DAT-214 */
    return pct == 2 ? as[n->c.reserved_pct] : pct;
}

/* CollectTimeStamp() and what is subtracted: Table D17-3, DAT-190 to DAT-215. */
static bool collect_time(const struct naive *n, uint64_t *offset)
{
    unsigned el = n->pe.el;
    bool el2 = el2_enabled(n);
    unsigned owning = owning_el(n);
    if (!B(owning == 2 ? n->PMSCR_EL2 : n->PMSCR_EL1, 5))
        return false;
    bool host = E2H(n) && (el == 2 || (el == 0 && TGE(n)));
    uint64_t virtual_offset = !n->f.EL2 || host ? 0 : n->CNTVOFF_EL2; /* DAT-192 to DAT-195 */
    uint64_t physical_offset = n->CNTPOFF_EL2;                        /* DAT-196 to DAT-199 */
    if (!n->f.EL2 || !n->f.ECV_POFF || !B(n->CNTHCTL_EL2, 12) || (n->f.EL3 && !B(n->SCR_EL3, 28)))
        physical_offset = 0;
    unsigned pct = PCT(n, n->PMSCR_EL1), pct2 = el2 ? PCT(n, n->PMSCR_EL2) : 1;
    if (!n->f.EL2)
        pct = 1; /* DAT-215 */
    if (owning == 2)
        pct = pct2;
    else if (el2 && (pct2 == 0 || pct == 0))
        pct = 0;
    else if (el2 && pct2 == 3)
        pct = 3;
    *offset = pct == 0 ? virtual_offset : pct == 3 ? physical_offset : 0;
    return true;
}

/* Read the counter, when the operation is sampled or when it completes: DAT-02. */
static void take_time(struct naive *n, struct naive_sample *s)
{
    uint64_t count = 0;
    s->timestamp = s->timed;
    if (!s->timed)
        return;
    if (n->world.counter(n->world.user, &count)) {
        s->time = count - s->offset;
    } else { /* DAT-03 */
        s->time = n->c.unknown_timestamp;
        s->timestamp = n->c.counter_disabled == 1;
    }
}

/* CollectPhysicalAddress(): DAT-216 to DAT-218. */
static bool collect_pa(const struct naive *n)
{
    bool pa1 = B(n->PMSCR_EL1, 4), pa2 = !owner_has_el2(n) || B(n->PMSCR_EL2, 4);
    return owning_el(n) == 2 ? pa2 : pa1 && pa2;
}

/* ================ operations ================ */

/* SPEStartSample() */
int naive_begin(struct naive *n, uint64_t pc, uint32_t flags)
{
    if (!n->was_enabled || !naive_member(n, flags))
        return SPEX_SPU_NOT_SAMPLED;
    pmu(n, SPEX_PMU_SAMPLE_POP); /* FIL-29 */
    bool selected = false;
    unsigned wait = n->c.select_after;
    while (n->c.select_group && (n->member + wait) % n->c.select_group)
        wait++;
    n->member++;
    if (n->after && --n->after == 0)
        selected = true;
    if (to_collect(n)) {
        if (!wait)
            selected = true;
        else if (!n->after) /* SMP-06 */
            n->after = wait;
    }
    if (!selected)
        return SPEX_SPU_NOT_SAMPLED;
    unsigned used = 0;
    int slot = -1;
    for (int i = NAIVE_SLOTS - 1; i >= 0; i--) {
        used += n->slot[i].used;
        if (!n->slot[i].used)
            slot = i;
    }
    if (used >= n->c.in_flight) { /* SMP-44 to SMP-49 */
        pmu(n, SPEX_PMU_SAMPLE_COLLISION);
        set_status(n, report_to(n, (struct event){OTHER_EVENT, false, false}), 16, 16, 1);
        return SPEX_SPU_NOT_SAMPLED;
    }
    struct naive_sample *s = &n->slot[slot];
    *s = (struct naive_sample){
        .used = true,
        .pc = pc,
        .el = n->pe.el,
        .security = n->pe.security,
        .flags = flags,
        .context1 = B(n->PMSCR_EL1, 3) && n->pe.el <= 1 && !TGE(n), /* DAT-186, DAT-187 */
        .context2 = B(n->PMSCR_EL2, 3) && el2_enabled(n),           /* DAT-188 */
        .contextidr1 = (uint32_t)n->CONTEXTIDR_EL1,
        .contextidr2 = (uint32_t)n->CONTEXTIDR_EL2,
        .pa = collect_pa(n),
        .previous = n->f.PBT && n->branch_valid && (n->branch_fresh || n->c.pbt_stale),
        .previous_target = n->branch_target,
        .nv2_va = enabled_at(n, 2),
    };
    s->order = ++n->order;
    s->timed = collect_time(n, &s->offset);
    if (n->c.timestamp_at == 0)
        take_time(n, s);
    return slot;
}

/* FT alone: would a sample of this type be kept? FIL-03 to FIL-07. */
bool naive_type_kept(const struct naive *n, unsigned type)
{
    bool ft = B(n->PMSFCR_EL1, 1), chosen = false, some = false, wrong = false;
    for (unsigned i = 0; i < 5; i++) { /* B, LD, ST, FP, SIMD */
        bool is = type >> i & 1, wanted = B(n->PMSFCR_EL1, 16 + i);
        if (n->f.EFT && B(n->PMSFCR_EL1, 48 + i)) {
            wrong |= is != wanted; /* must be as it says */
        } else if (wanted) {
            some = true;
            chosen |= is;
        }
    }
    if (ft && !n->f.EFT && !some)
        return n->c.ft_zero == 0;
    return !ft || (!wrong && (!some || chosen));
}

/* One filter after the other; all of them run, so that their PMU events count: FIL-33 to FIL-35. */
static bool keep(struct naive *n, const struct naive_finished *done)
{
    bool kept = true;
    uint64_t fcr = n->PMSFCR_EL1;

    /* By type: FIL-03 to FIL-07, FIL-33, FIL-34. */
    unsigned ctrl = F(fcr, 20, 16), mask = n->f.EFT ? F(fcr, 52, 48) : 0, type = done->type;
    bool match;
    if (n->f.EFT)
        match =
            !((ctrl & ~mask) != 0 && (type & ctrl & ~mask) == 0) && (type & mask) == (ctrl & mask);
    else
        match = (type & ctrl) != 0;
    static const unsigned by_type[] = {SPEX_PMU_SAMPLE_FEED_BR, SPEX_PMU_SAMPLE_FEED_LD,
                                       SPEX_PMU_SAMPLE_FEED_ST, SPEX_PMU_SAMPLE_FEED_FP,
                                       SPEX_PMU_SAMPLE_FEED_SIMD};
    for (unsigned i = 0; i < 5; i++)
        if (type >> i & 1)
            pmu(n, by_type[i]);
    if (match && (ctrl | mask) != 0)
        pmu(n, SPEX_PMU_SAMPLE_FEED_OP);
    if (B(fcr, 1)) {
        if (!n->f.EFT && ctrl == 0)
            kept = kept && n->c.ft_zero == 0;
        else
            kept = kept && match;
    }

    /* By events: FIL-16 to FIL-18, FIL-35. */
    uint64_t all = n->PMSEVFR_EL1, none = n->f.FnE ? n->PMSNEVFR_EL1 : 0;
    if (!n->c.population_speculative)
        all &= ~(uint64_t)2; /* E[1] is UNKNOWN and ignored */
    bool has = (done->events & all) == all, lacks = (done->events & none) == 0;
    if (has && lacks)
        pmu(n, SPEX_PMU_SAMPLE_FEED_EVENT);
    bool fe = B(fcr, 0), fne = n->f.FnE && B(fcr, 3);
    if (fe && fne && (all & none)) {
        kept = kept && n->c.fe_fne_overlap == 0;
    } else {
        if (fe)
            kept = kept && (all ? has : n->c.fe_zero == 0);
        if (fne)
            kept = kept && (none ? lacks : n->c.fne_zero == 0);
    }

    /* By latency: FIL-19, FIL-20. */
    uint64_t most = n->f.CountSize == 2 ? 0xfff : 0xffff;
    uint64_t total = done->total > most ? most : done->total;
    bool slow = total >= n->PMSLATFR_EL1;
    if (slow)
        pmu(n, SPEX_PMU_SAMPLE_FEED_LAT);
    if (B(fcr, 2))
        kept = kept && (n->PMSLATFR_EL1 ? slow : n->c.fl_zero == 0);

    /* By data source: FIL-21 to FIL-23. */
    if (n->f.FDS && done->load && done->source) {
        bool wanted = B(n->PMSDSFR_EL1, done->data_source & 63);
        if (wanted)
            pmu(n, SPEX_PMU_SAMPLE_FEED_DS);
        if (B(fcr, 4))
            kept = kept && wanted;
    }
    return kept;
}

/* Bits [63:60] of an address payload: PKT-13 to PKT-18. */
static uint64_t context_bits(unsigned el, unsigned security)
{
    uint64_t ns = security == SPEX_NONSECURE || security == SPEX_REALM;
    uint64_t nse = security == SPEX_REALM || security == SPEX_ROOT;
    return ns << 63 | (uint64_t)el << 61 | nse << 60;
}

/* D17.6.3.1: remember the operation if it was a taken branch, the last in program order. */
static void remember_branch(struct naive *n, uint64_t pc, uint64_t order, const struct spex_op *op,
                            const struct spex_outcome *out, bool profiled)
{
    bool executed = naive_executed(n, out->flags), counts;
    uint64_t target = out->target;
    unsigned el = out->target_el, security = out->target_security;
    if (order < n->branch_order)
        return;
    switch (op->kind) {
    case SPEX_OP_BRANCH:
        if (!executed || ((op->flags & SPEX_OPF_COND) && !(out->flags & SPEX_OUT_PASSED)))
            return; /* DAT-43, DAT-50 */
        counts = true;
        break;
    case SPEX_OP_ERET:
        if (!executed)
            return;
        counts = n->c.pbt_eret;
        break;
    case SPEX_OP_ISB:
        if (!executed || !n->c.isb_branch)
            return;
        counts = n->c.pbt_csync;
        target = pc + 4;
        el = n->pe.el;
        security = n->pe.security;
        break;
    case SPEX_OP_EXCEPTION:
        if (out->flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN))
            return;
        counts = n->c.pbt_exception;
        break;
    default:
        return;
    }
    n->branch_valid = profiled && counts; /* DAT-47, DAT-49 */
    n->branch_fresh = true;
    n->branch_order = order;
    n->branch_target = context_bits(el, security) | (target & ONES(55, 0));
}

/* SPECompleteSample() */
static void complete(struct naive *n, struct naive_sample *s, const struct spex_op *op,
                     const struct spex_outcome *out)
{
    struct naive_finished done;
    uint32_t flags = s->flags | out->flags;
    bool captured = !((flags & SPEX_OUT_SPECULATIVE) && !n->c.capture_speculative) &&
                    !((flags & SPEX_OUT_NO_INSN) && !n->c.capture_no_insn) &&
                    !((flags & SPEX_OUT_NONARCH_EXC) && !n->c.capture_nonarch);
    s->used = false;
    if (n->c.timestamp_at == 1)
        take_time(n, s);
    pmu(n, SPEX_PMU_SAMPLE_FEED); /* FIL-30 */
    if (!captured)                /* DAT-173, FIL-32: no further trace */
        return;
    naive_finish(n, s, op, out, &done);
    if (!keep(n, &done))
        return;
    pmu(n, SPEX_PMU_SAMPLE_FILTRATE); /* FIL-31 */
    if (discard_mode(n))              /* FIL-25 */
        return;
    n->triggers++; /* FIL-37 */
    n->held[n->held_count++] = done.record;
    /* BUF-10, BUF-13: what fills the buffer may not wait. */
    uint64_t bytes = 0, room = LIMIT(n) - n->PMBPTR_EL1;
    for (unsigned i = 0; i < n->held_count; i++)
        bytes += n->held[i].size;
    bool fills = LIMIT(n) < n->PMBPTR_EL1 || room < bytes + ((uint64_t)1 << n->f.MaxSize);
    drain(n, fills ? 0 : (unsigned)n->c.hold);
    look_again(n);
}

void naive_complete(struct naive *n, int slot, const struct spex_op *op,
                    const struct spex_outcome *outcome)
{
    struct naive_sample *s = &n->slot[slot];
    remember_branch(n, s->pc, s->order, op, outcome, true);
    complete(n, s, op, outcome);
}

void naive_abandon(struct naive *n, int slot)
{
    n->slot[slot].used = false;
}

bool naive_op(struct naive *n, uint64_t pc, const struct spex_op *op,
              const struct spex_outcome *outcome)
{
    bool profiled = n->was_enabled;
    int slot = naive_begin(n, pc, outcome->flags);
    if (slot >= 0)
        naive_complete(n, slot, op, outcome);
    else
        remember_branch(n, pc, ++n->order, op, outcome, profiled);
    return slot >= 0;
}

/* ================ events from outside ================ */

void naive_external_abort(struct naive *n, uint32_t flags)
{
    if (manner(n) == SERROR)
        n->serrors++;
    if (manner(n) == REPORT)
        external_abort(n, 0, flags, true, false);
    look_again(n);
}

bool naive_impdef_event(struct naive *n, uint16_t mss, uint32_t mss2)
{
    uint64_t *sr = report_to(n, (struct event){OTHER_EVENT, false, false});
    if (!n->c.impdef_event || S(*sr)) /* BUF-208 */
        return false;
    set_status(n, sr, 17, 17, 1);
    set_status(n, sr, 31, 26, 0x1f); /* BUF-209 */
    set_status(n, sr, 15, 0, mss);
    set_status(n, sr, 55, 32, mss2 & 0xffffff);
    look_again(n);
    return true;
}

void naive_state(struct naive *n, const struct spex_spu_state *state)
{
    n->pe = *state;
    look_again(n);
}

/* ================ registers ================ */

static uint64_t event_mask(const struct naive *n, bool inverse)
{
    const struct arch_features *f = &n->f;
    bool v1p1 = f->version >= 2, v1p4 = f->version >= 5, optional = v1p4 || n->c.filter_optional;
    uint64_t mask = 1u << 3 | 1u << 5 | 1u << 7;
    if (n->c.population_speculative || (!inverse && n->c.evfr_retired))
        mask |= 1u << 1;
    if (f->FnE)
        mask |= 1u << 6;
    if (optional)
        mask |= 1u << 2 | 1u << 4;
    if (optional && f->LLC)
        mask |= 1u << 8 | 1u << 9;
    if (optional && f->Remote)
        mask |= 1u << 10;
    if (v1p1)
        mask |= 1u << 11;
    if (v1p1 && (f->SVE || f->SME))
        mask |= 1u << 17 | 1u << 18;
    if (v1p4 && f->L2D)
        mask |= 1u << 19 | 1u << 20;
    if (v1p4 && f->Modified)
        mask |= 1u << 21;
    if (v1p4 && f->Recent)
        mask |= 1u << 22;
    if (v1p4 && f->Snooped)
        mask |= 1u << 23;
    if (f->SPE_SME)
        mask |= 1u << 24;
    if ((f->SPE_SME || f->version >= 6) && f->SMCU)
        mask |= 1u << 25;
    uint64_t impdef = ONES(63, 48) | ONES(15, 12);
    if (!v1p4)
        impdef |= f->SPE_SME ? ONES(31, 26) : ONES(31, 24);
    return mask | (impdef & n->c.impdef_events & n->c.impdef_filters);
}

static uint64_t PMSIDR(const struct naive *n)
{
    const struct arch_features *f = &n->f;
    return (uint64_t)f->SPE_SME << 32 | (uint64_t)f->ALTCLK << 28 | (uint64_t)f->FPF << 27 |
           (uint64_t)f->EFT << 26 | (uint64_t)f->CRR << 25 | (uint64_t)f->PBT << 24 |
           (uint64_t)f->CountSize << 16 | (uint64_t)f->MaxSize << 12 | (uint64_t)f->Interval << 8 |
           (uint64_t)f->FDS << 7 | (uint64_t)f->FnE << 6 | (uint64_t)f->ERnd << 5 |
           (uint64_t)f->LDS << 4 | (uint64_t)f->ArchInst << 3 | 7;
}

/* REG-03: P is worked out at each read. */
static uint64_t PMBIDR(const struct naive *n)
{
    unsigned security, el;
    bool owned = owner(n, &security, &el);
    bool p = n->pe.el != 3 && (!owned || el > n->pe.el || security != n->pe.security);
    bool envm = !owner_has_el2(n) || owning_el(n) == 2 || B(n->PMSCR_EL2, 11);
    uint64_t mode = n->f.nVM && envm && !p;
    return (uint64_t)n->f.EA << 8 | mode << 6 | (uint64_t)n->f.F << 5 | (uint64_t)p << 4 |
           n->f.Align;
}

/* One register: where it is kept, which of its bits exist. */
struct view {
    uint64_t *value;
    uint64_t mask;  /* bits that exist */
    uint64_t fixed; /* bits that read as one */
    bool read_only;
    uint64_t id; /* value of a read-only register */
};

static uint64_t exc_bits(const struct naive *n)
{
    return n->f.EXC ? ONES(10, 8) : 0;
}

static bool find_of_pe(struct naive *n, unsigned encoding, struct view *p)
{
    const struct arch_features *f = &n->f;
    switch (encoding) {
    case SPEX_MDCR_EL2:
        p->value = &n->MDCR_EL2;
        return f->EL2;
    case SPEX_MDCR_EL3:
        p->value = &n->MDCR_EL3;
        return f->EL3;
    case SPEX_HCR_EL2:
        p->value = &n->HCR_EL2;
        return f->EL2;
    case SPEX_SCR_EL3:
        p->value = &n->SCR_EL3;
        return f->EL3;
    case SPEX_CNTHCTL_EL2:
        p->value = &n->CNTHCTL_EL2;
        return f->EL2;
    case SPEX_CNTVOFF_EL2:
        p->value = &n->CNTVOFF_EL2;
        return f->EL2;
    case SPEX_CNTPOFF_EL2:
        p->value = &n->CNTPOFF_EL2;
        return f->EL2;
    case SPEX_CONTEXTIDR_EL1:
        p->value = &n->CONTEXTIDR_EL1;
        p->mask = ONES(31, 0);
        return true;
    case SPEX_CONTEXTIDR_EL2:
        p->value = &n->CONTEXTIDR_EL2;
        p->mask = ONES(31, 0);
        return f->EL2;
    case SPEX_PMCR_EL0:
        p->value = &n->PMCR_EL0;
        return true;
    case SPEX_HDFGRTR_EL2:
        p->value = &n->HDFGRTR_EL2;
        return f->FGT;
    case SPEX_HDFGWTR_EL2:
        p->value = &n->HDFGWTR_EL2;
        return f->FGT;
    case SPEX_HDFGRTR2_EL2:
        p->value = &n->HDFGRTR2_EL2;
        return f->FGT2;
    case SPEX_HDFGWTR2_EL2:
        p->value = &n->HDFGWTR2_EL2;
        return f->FGT2;
    case SPEX_HFGITR_EL2:
        p->value = &n->HFGITR_EL2;
        return f->FGT;
    }
    return false;
}

static bool find_of_buffer(struct naive *n, unsigned encoding, struct view *p)
{
    const struct arch_features *f = &n->f;
    uint64_t status = ONES(55, 32) | ONES(31, 26) | ONES(19, 0);
    /* EA is RES0 if the PE never sets it. */
    if (manner(n) != REPORT && !(n->c.walk_abort == 0 && n->c.walk_abort_ea))
        status &= ~ONES(18, 18);
    switch (encoding) {
    case SPEX_PMBLIMITR_EL1:
        p->value = &n->PMBLIMITR_EL1;
        p->mask = ONES(63, (unsigned)n->c.granule) | ONES(2, 0);
        if (f->nVM)
            p->mask |= 1u << 7;
        if (f->version >= 3)
            p->mask |= 1u << 5;
        return true;
    case SPEX_PMBPTR_EL1:
        p->value = &n->PMBPTR_EL1;
        p->mask = pointer_mask(n);
        return true;
    case SPEX_PMBSR_EL1:
        p->value = &n->PMBSR_EL1;
        p->mask = status;
        return true;
    case SPEX_PMBSR_EL2:
        p->value = &n->PMBSR_EL2;
        p->mask = status;
        p->read_only = !f->EL2;
        return f->EXC;
    case SPEX_PMBSR_EL3:
        p->value = &n->PMBSR_EL3;
        p->mask = status;
        return f->EXC && f->EL3;
    case SPEX_PMBMAR_EL1:
        p->value = &n->PMBMAR_EL1;
        p->mask = ONES(9, 0);
        return f->nVM;
    case SPEX_PMBIDR_EL1:
        p->read_only = true;
        p->id = PMBIDR(n);
        return true;
    }
    return find_of_pe(n, encoding, p);
}

static bool find(struct naive *n, unsigned encoding, struct view *p)
{
    const struct arch_features *f = &n->f;
    *p = (struct view){.mask = ONES(63, 0)};
    switch (encoding) {
    case SPEX_PMSCR_EL1:
        p->value = &n->PMSCR_EL1;
        p->mask = exc_bits(n) | (f->ECV ? ONES(7, 6) : ONES(6, 6)) | ONES(5, 3) | ONES(1, 0);
        if (f->nVM && f->NV)
            p->mask |= ONES(11, 11);
        if (!f->EL2) { /* REG-10 */
            p->mask &= ~ONES(7, 6);
            p->fixed = 1u << 6;
        }
        return true;
    case SPEX_PMSCR_EL2:
        if (!f->EL2) {
            p->read_only = true;
            return true;
        }
        p->value = &n->PMSCR_EL2;
        p->mask = exc_bits(n) | (f->ECV ? ONES(7, 6) : ONES(6, 6)) | ONES(5, 3);
        if (f->nVM)
            p->mask |= ONES(11, 11);
        if (F(n->MDCR_EL2, 13, 12) == 0) /* REG-09 */
            p->mask |= ONES(1, 0);
        return true;
    case SPEX_PMSNEVFR_EL1:
        p->value = &n->PMSNEVFR_EL1;
        p->mask = event_mask(n, true);
        return f->FnE;
    case SPEX_PMSICR_EL1:
        p->value = &n->PMSICR_EL1;
        p->mask = ONES(31, 0) | (f->ERnd ? ONES(63, 56) : 0);
        return true;
    case SPEX_PMSIRR_EL1:
        p->value = &n->PMSIRR_EL1;
        p->mask = ONES(31, 8) | 1;
        return true;
    case SPEX_PMSFCR_EL1:
        p->value = &n->PMSFCR_EL1;
        p->mask = ONES(18, 16) | ONES(2, 0);
        if (f->EFT)
            p->mask |= ONES(52, 48) | ONES(20, 19);
        if (f->FDS)
            p->mask |= 1u << 4;
        if (f->FnE)
            p->mask |= 1u << 3;
        return true;
    case SPEX_PMSEVFR_EL1:
        p->value = &n->PMSEVFR_EL1;
        p->mask = event_mask(n, false);
        return true;
    case SPEX_PMSLATFR_EL1:
        p->value = &n->PMSLATFR_EL1;
        p->mask = f->CountSize == 2 ? ONES(11, 0) : ONES(15, 0); /* REG-06 */
        return true;
    case SPEX_PMSIDR_EL1:
        p->read_only = true;
        p->id = PMSIDR(n);
        return true;
    case SPEX_PMSDSFR_EL1:
        p->value = &n->PMSDSFR_EL1;
        p->mask = n->c.source_filters;
        return f->FDS;
    }
    return find_of_buffer(n, encoding, p);
}

bool naive_get(struct naive *n, unsigned encoding, uint64_t *value)
{
    struct view p;
    if (!find(n, encoding, &p))
        return false;
    uint64_t *unseen = direct_write(n, encoding);
    *value = p.read_only ? p.id : ((unseen ? *unseen : *p.value) & p.mask) | p.fixed;
    return true;
}

bool naive_set(struct naive *n, unsigned encoding, uint64_t value)
{
    struct view p;
    if (!find(n, encoding, &p))
        return false;
    if (p.read_only)
        return true;
    uint64_t *to = p.value;
    if (n->c.register_sync) { /* REG-29 */
        to = direct_write(n, encoding);
        if (!to) {
            n->unseen[n->unseen_count].encoding = encoding;
            to = &n->unseen[n->unseen_count++].value;
            *to = *p.value;
        }
    }
    *to = (*to & ~p.mask) | (value & p.mask);
    if (to == &n->PMSICR_EL1)
        n->reload_due = false;
    look_again(n);
    return true;
}

void naive_context_sync(struct naive *n)
{
    struct view p;
    for (unsigned i = 0; i < n->unseen_count; i++)
        if (find(n, n->unseen[i].encoding, &p)) {
            *p.value = n->unseen[i].value;
            if (p.value == &n->PMSICR_EL1)
                n->reload_due = false;
        }
    n->unseen_count = 0;
    n->branch_fresh = false;
    look_again(n);
}

/* Taking an exception is a context synchronization event. */
void naive_exception_taken(struct naive *n)
{
    naive_context_sync(n);
}

/* ================ access: the accessors of D24.7 ================ */

static uint64_t system_trap(unsigned enc, unsigned rt, bool read)
{
    uint64_t op0 = F(enc, 15, 14), op1 = F(enc, 13, 11), crn = F(enc, 10, 7), crm = F(enc, 6, 3),
             op2 = F(enc, 2, 0);
    uint64_t iss =
        op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | (uint64_t)rt << 5 | crm << 1 | read;
    return (uint64_t)0x18 << 26 | (uint64_t)1 << 25 | iss;
}

/* CheckMDCR_EL3_NSPBTrap(): REG-14. */
static bool nspb_trap(const struct naive *n)
{
    unsigned nspb = F(n->MDCR_EL3, 13, 12);
    if (!n->f.EL3)
        return false;
    unsigned security, el;
    if (!(nspb & 1) || !owner(n, &security, &el))
        return true;
    return security != lower_state(n);
}

/* The further enable bit of MDCR_EL3 that a register needs: bit number, or 0. */
static unsigned enable_bit(unsigned enc)
{
    return enc == SPEX_PMSNEVFR_EL1  ? 36
           : enc == SPEX_PMSDSFR_EL1 ? 42
           : enc == SPEX_PMBMAR_EL1  ? 55
                                     : 0;
}

static bool el3_trap(const struct naive *n, unsigned enc)
{
    if (!n->f.EL3 || enc == SPEX_PMBIDR_EL1)
        return false;
    unsigned bit = enable_bit(enc);
    return nspb_trap(n) || (bit && !B(n->MDCR_EL3, bit));
}

/* Fine-grained traps at EL1: HDFGRTR_EL2 and its kin (D24.2). */
static bool fine_grained_trap(const struct naive *n, unsigned enc, bool read)
{
    static const struct {
        unsigned enc, bit;
        bool second, negative, read_only;
    } rows[] = {
        {SPEX_PMBLIMITR_EL1, 23},
        {SPEX_PMBPTR_EL1, 24},
        {SPEX_PMBSR_EL1, 25},
        {SPEX_PMSCR_EL1, 26},
        {SPEX_PMSEVFR_EL1, 27},
        {SPEX_PMSFCR_EL1, 28},
        {SPEX_PMSICR_EL1, 29},
        {SPEX_PMSIDR_EL1, 30, .read_only = true},
        {SPEX_PMSIRR_EL1, 31},
        {SPEX_PMSLATFR_EL1, 32},
        {SPEX_PMSNEVFR_EL1, 62, .negative = true},
        {SPEX_PMBIDR_EL1, 63, .read_only = true},
        {SPEX_PMSDSFR_EL1, 19, .second = true, .negative = true},
        {SPEX_PMBMAR_EL1, 24, .second = true, .negative = true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].enc != enc || (rows[i].read_only && !read))
            continue;
        if (rows[i].second) {
            /* With SCR_EL3.FGTEn2 clear the registers act as zero: a negative bit then traps. */
            bool on = !n->f.EL3 || B(n->SCR_EL3, 59);
            uint64_t trap = read ? n->HDFGRTR2_EL2 : n->HDFGWTR2_EL2;
            return n->f.FGT2 && (!on || !B(trap, rows[i].bit));
        }
        uint64_t trap = read ? n->HDFGRTR_EL2 : n->HDFGWTR_EL2;
        bool on = n->f.FGT && (!n->f.EL3 || B(n->SCR_EL3, 27));
        return on && B(trap, rows[i].bit) != rows[i].negative;
    }
    return false;
}

/* Effective HCR_EL2.{NV2,NV1,NV} as a 3-bit number. */
static unsigned NVx(const struct naive *n)
{
    if (!el2_enabled(n) || !n->f.NV || !B(n->HCR_EL2, 42))
        return 0;
    unsigned nv2 = n->f.NV2 && B(n->HCR_EL2, 45), nv1 = B(n->HCR_EL2, 43);
    return nv2 << 2 | nv1 << 1 | 1;
}

/* The VNCR page: offsets of D24.7. */
static unsigned nv2_offset(const struct naive *n, unsigned enc)
{
    unsigned nv = NVx(n);
    if ((nv & 5) != 5)
        return 0;
    bool ee1_zero = F(n->PMSCR_EL1, 9, 8) == 0;
    switch (enc) {
    case SPEX_PMSCR_EL1:
        return nv == 7 ? 0x828 : 0;
    case SPEX_PMSCR_EL12:
        return nv == 5 ? 0x828 : 0;
    case SPEX_PMSNEVFR_EL1:
        return 0x850;
    case SPEX_PMSICR_EL1:
        return 0x838;
    case SPEX_PMSIRR_EL1:
        return 0x840;
    case SPEX_PMSEVFR_EL1:
        return 0x830;
    case SPEX_PMSLATFR_EL1:
        return 0x848;
    case SPEX_PMBLIMITR_EL1:
        return 0x800;
    case SPEX_PMBPTR_EL1:
        return 0x810;
    case SPEX_PMSDSFR_EL1:
        return 0x858;
    case SPEX_PMBSR_EL1:
        return nv == 7 || EE2(n) == 0 || ee1_zero ? 0x820 : 0;
    case SPEX_PMBSR_EL12:
        return nv == 5 ? 0x820 : 0;
    }
    return 0;
}

static bool is_pmb(unsigned enc)
{
    return enc == SPEX_PMBLIMITR_EL1 || enc == SPEX_PMBPTR_EL1 || enc == SPEX_PMBSR_EL1 ||
           enc == SPEX_PMBMAR_EL1;
}

static bool is_pms(unsigned enc)
{
    return enc == SPEX_PMSCR_EL1 || enc == SPEX_PMSEVFR_EL1 || enc == SPEX_PMSFCR_EL1 ||
           enc == SPEX_PMSICR_EL1 || enc == SPEX_PMSIRR_EL1 || enc == SPEX_PMSLATFR_EL1 ||
           enc == SPEX_PMSIDR_EL1 || enc == SPEX_PMSNEVFR_EL1 || enc == SPEX_PMSDSFR_EL1;
}

static bool is_ours(unsigned enc)
{
    return is_pms(enc) || is_pmb(enc) || enc == SPEX_PMBIDR_EL1 || enc == SPEX_PMSCR_EL2 ||
           enc == SPEX_PMBSR_EL2 || enc == SPEX_PMBSR_EL3 || enc == SPEX_PMSCR_EL12 ||
           enc == SPEX_PMBSR_EL12;
}

/* Which register an MRS or MSR reaches, or why it does not. */
static enum spex_sysreg_result access(struct naive *n, unsigned enc, unsigned rt, bool read,
                                      unsigned *reached, struct spex_sysreg_detail *syndrome)
{
    const struct arch_features *f = &n->f;
    unsigned el = n->pe.el;
    struct view p;
    if (!is_ours(enc)) { /* held for other blocks: the Exception level of the name alone */
        unsigned op1 = F(enc, 13, 11), lowest = op1 == 6 ? 3 : op1 == 4 ? 2 : op1 == 3 ? 0 : 1;
        *reached = enc == SPEX_CONTEXTIDR_EL1 && el == 2 && E2H(n) ? SPEX_CONTEXTIDR_EL2 : enc;
        *syndrome = (struct spex_sysreg_detail){.esr = (uint64_t)1 << 25};
        return el < lowest ? SPEX_SYSREG_UNDEFINED : SPEX_SYSREG_OK;
    }
    bool el12 = enc == SPEX_PMSCR_EL12 || enc == SPEX_PMBSR_EL12;
    bool el2_name = enc == SPEX_PMSCR_EL2 || enc == SPEX_PMBSR_EL2;
    uint64_t esr = system_trap(enc, rt, read);
    *reached = enc == SPEX_PMSCR_EL12   ? SPEX_PMSCR_EL1
               : enc == SPEX_PMBSR_EL12 ? SPEX_PMBSR_EL1
                                        : enc;
    *syndrome = (struct spex_sysreg_detail){.esr = (uint64_t)1 << 25};
    if (el12 ? !f->VHE || (enc == SPEX_PMBSR_EL12 && !f->EXC) : !find(n, enc, &p))
        return SPEX_SYSREG_UNDEFINED; /* REG-11 */
    if (el == 0)
        return SPEX_SYSREG_UNDEFINED; /* REG-12 */
    if (!read && (enc == SPEX_PMSIDR_EL1 || enc == SPEX_PMBIDR_EL1))
        return SPEX_SYSREG_UNDEFINED;
    if (enc == SPEX_PMBSR_EL3)
        return el == 3 ? SPEX_SYSREG_OK : SPEX_SYSREG_UNDEFINED;
    if (el == 3)
        return el12 && !E2H(n) ? SPEX_SYSREG_UNDEFINED : SPEX_SYSREG_OK;
    bool el3 = el3_trap(n, *reached);
    bool undef = el3 && n->pe.halted && n->pe.sdd;
    if (undef && (el == 2 || !(el2_name || el12))) /* EL3 trap with SDD priority */
        return SPEX_SYSREG_UNDEFINED;
    if (el == 1) {
        if (el2_name || el12) {
            unsigned offset = nv2_offset(n, enc);
            if (offset) {
                syndrome->esr = 0;
                syndrome->offset = offset;
                return SPEX_SYSREG_MEMORY;
            }
            if (NVx(n) & 1) {
                syndrome->esr = esr;
                return SPEX_SYSREG_TRAP_EL2;
            }
            return SPEX_SYSREG_UNDEFINED;
        }
        bool tpms = B(n->MDCR_EL2, 14), e2pb = !B(n->MDCR_EL2, 12);
        if (el2_enabled(n) && (fine_grained_trap(n, enc, read) || (tpms && is_pms(enc)) ||
                               (e2pb && is_pmb(enc)))) { /* REG-13 */
            syndrome->esr = esr;
            return SPEX_SYSREG_TRAP_EL2;
        }
    }
    if (el == 2 && el12 && !E2H(n))
        return SPEX_SYSREG_UNDEFINED;
    if (el3) {
        syndrome->esr = esr;
        return SPEX_SYSREG_TRAP_EL3;
    }
    if (el == 1 && nv2_offset(n, enc)) {
        syndrome->esr = 0;
        syndrome->offset = nv2_offset(n, enc);
        return SPEX_SYSREG_MEMORY;
    }
    if (el == 2 && E2H(n)) { /* REG-15 */
        if (enc == SPEX_PMSCR_EL1)
            *reached = SPEX_PMSCR_EL2;
        if (enc == SPEX_PMBSR_EL1 && EE2(n) != 0)
            *reached = SPEX_PMBSR_EL2;
    }
    return SPEX_SYSREG_OK;
}

enum spex_sysreg_result naive_read(struct naive *n, unsigned encoding, unsigned rt, uint64_t *value,
                                   struct spex_sysreg_detail *syndrome)
{
    unsigned reached;
    enum spex_sysreg_result result = access(n, encoding, rt, true, &reached, syndrome);
    if (result == SPEX_SYSREG_OK) {
        naive_get(n, reached, value);
        syndrome->esr = 0;
    }
    return result;
}

enum spex_sysreg_result naive_write(struct naive *n, unsigned encoding, unsigned rt, uint64_t value,
                                    struct spex_sysreg_detail *syndrome)
{
    unsigned reached;
    enum spex_sysreg_result result = access(n, encoding, rt, false, &reached, syndrome);
    if (result == SPEX_SYSREG_OK) {
        naive_set(n, reached, value);
        syndrome->esr = 0;
    }
    return result;
}

/* PSB CSYNC: REG-27, REG-31. */
enum spex_sysreg_result naive_psb(struct naive *n, struct spex_sysreg_detail *syndrome)
{
    bool on = n->f.version >= 6 && n->f.FGT && el2_enabled(n) && (!n->f.EL3 || B(n->SCR_EL3, 27)) &&
              B(n->HFGITR_EL2, 63);
    bool host = E2H(n) && TGE(n);
    if (on && n->pe.el <= 1 && !(n->pe.el == 0 && host) && !(n->pe.aarch32 >> n->pe.el & 1)) {
        syndrome->esr = (uint64_t)0x0a << 26 | (uint64_t)1 << 25 | 3;
        return SPEX_SYSREG_TRAP_EL2;
    }
    if (!(n->pe.aarch32 >> n->pe.el & 1)) { /* AArch32 has no PSB */
        report_late_fault(n);
        drain(n, 0);
        report_late_fault(n);
    }
    look_again(n);
    return SPEX_SYSREG_OK;
}

/* ================ questions ================ */

/* SPEInterruptEnabled(): RTSJRP, BUF-130 to BUF-134. */
static bool irq(const struct naive *n)
{
    return S(n->PMBSR_EL1) && (!n->f.EXC || EE1(n) == 0);
}

void naive_status(const struct naive *n, struct spex_spu_status *status)
{
    unsigned security = 0, el = 0;
    *status = (struct spex_spu_status){.size = sizeof *status};
    status->owner_valid = owner(n, &security, &el);
    status->owner_el = (uint8_t)el;
    status->owner_security = (uint8_t)security;
    status->enabled = n->was_enabled;
    status->buffer_enabled = buffer_enabled(n);
    status->stopped = stopped(n);
    status->discard = discard_mode(n);
    status->irq = irq(n);
    for (unsigned i = 0; i < NAIVE_SLOTS; i++)
        status->in_flight += n->slot[i].used;
    status->held = (uint8_t)n->held_count;
    status->impossible_events = n->impossible;
    status->impossible_addresses = n->impossible_addresses;
}

/* RYZJQX, one of its three cases. */
static void one_exception(const struct naive *n, unsigned source, struct spex_spu_exception *e)
{
    unsigned el = n->pe.el;
    bool pm = n->pe.pm, here = in_owning_state(n) && !n->pe.halted;
    *e = (struct spex_spu_exception){0};
    if (!n->f.EXC)
        return;
    if (source == 3) { /* BUF-77, BUF-78 */
        e->pending = n->f.EL3 && PMSEE(n) >= 2 && S(n->PMBSR_EL3);
        e->target = 3;
        e->unmasked = el < 3 && !n->pe.halted;
    } else if (source == 2) { /* BUF-79 to BUF-82 */
        e->pending = el2_enabled(n) && EE2(n) >= 2 && S(n->PMBSR_EL2);
        e->target = 2;
        e->unmasked = here && (el <= 1 || (el == 2 && EE2(n) == 3 && B(n->PMSCR_EL2, 10) && !pm));
    } else { /* BUF-83 to BUF-87 */
        e->pending = EE1(n) == 3 && S(n->PMBSR_EL1);
        e->target = TGE(n) ? 2 : 1;
        e->unmasked = here && (el == 0 || (el == 1 && B(n->PMSCR_EL1, 10) && !pm));
    }
    if (!e->pending) {
        *e = (struct spex_spu_exception){0};
        return;
    }
    e->source = (uint8_t)source;
    e->esr = (uint64_t)0x3d << 26 | (uint64_t)1 << 25 | 1 << 1;
}

/* With source 0 the one that is taken first, else a pending one; BUF-92. */
void naive_exception(const struct naive *n, unsigned source, struct spex_spu_exception *exception)
{
    if (source) {
        one_exception(n, source, exception);
        return;
    }
    static const unsigned orders[2][3] = {{3, 2, 1}, {1, 2, 3}};
    const unsigned *order = orders[n->c.exception_priority];
    for (int unmasked = 1; unmasked >= 0; unmasked--) {
        for (unsigned i = 0; i < 3; i++) {
            one_exception(n, order[i], exception);
            if (exception->pending && exception->unmasked == unmasked)
                return;
        }
    }
    *exception = (struct spex_spu_exception){0};
}

/* SPEFreezeOnEvent(): REG-33. */
bool naive_frozen(const struct naive *n, enum spex_pmu_range range)
{
    if (n->f.version < 3 || !n->f.PMUv3p7 || F(n->PMBLIMITR_EL1, 5, 5) == 0 ||
        !B(n->PMBLIMITR_EL1, 0) || !stopped(n))
        return false;
    switch (range) {
    case SPEX_PMU_EL1_COUNTERS:
        return B(n->PMCR_EL0, 32);
    case SPEX_PMU_EL2_COUNTERS:
        return n->f.EL2 && B(n->MDCR_EL2, 36);
    case SPEX_PMU_CYCLES:
        return n->f.DPFZS && B(n->PMCR_EL0, 32) && B(n->PMCR_EL0, 5);
    }
    return false;
}

void naive_init(struct naive *n, const struct arch_features *features,
                const struct spu_choices *choices, const struct naive_world *world)
{
    memset(n, 0, sizeof *n);
    n->f = *features;
    n->c = *choices;
    n->world = *world;
    bool arm64 = n->f.midr >> 24 == 0x41 && n->f.MaxSize == 6 && n->f.Align == 6 && !n->f.PBT &&
                 !n->f.GCS && !n->f.ALTCLK && !n->c.impdef_counter && !n->c.impdef_address;
    n->n1 = n->c.layout == 2 || (n->c.layout == 0 && arm64);
    n->hisi = n->c.layout == 3 || (n->c.layout == 0 && n->f.midr >> 24 == 0x48);
    n->pe.el = n->f.EL3 ? 3 : n->f.EL2 ? 2 : 1;
    n->pe.security = n->f.EL3      ? (n->f.RME ? SPEX_ROOT : SPEX_SECURE)
                     : n->f.Secure ? SPEX_SECURE
                                   : SPEX_NONSECURE;
}
