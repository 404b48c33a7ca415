/*
 * The register protocols of real software, step by step: Linux (boot, probe, reset,
 * start, interrupt, stop, discard; from EL1 and as a VHE host), KVM without VHE,
 * FreeBSD, firmware, and what the SPE tests for kvm-unit-tests expect.
 *
 * Every access is an MSR or MRS by the name the software uses, so that traps and
 * redirection are on the way. ISB and DSB are context synchronization here.
 */
#include "rig.h"

#include "base/bits.h"
#include "record/reader.h"

static struct rig rig;

#define W(name, value) rig_write(&rig, SPEX_##name, value)
#define R(name) rig_read(&rig, SPEX_##name)

static void isb(void)
{
    spex_spu_context_sync(rig.unit);
}

static void psb(void)
{
    assert_int_equal(spex_spu_psb(rig.unit, NULL), SPEX_SYSREG_OK);
}

/* Operations of the profiled program: loads and branches, as the block path sees them. */
static void run(uint64_t count)
{
    struct made_op op;
    ops_plain(SPEX_OP_LDST, SPEX_OPF_LOAD, &op);
    while (count) {
        uint64_t n = spex_spu_until(rig.unit);
        if (n > count)
            n = count;
        spex_spu_pass(rig.unit, n);
        count -= n;
        if (count) {
            spex_spu_op(rig.unit, op.pc, &op.op, &op.outcome);
            count--;
        }
    }
    spex_spu_flush(rig.unit);
}

/* ---- Linux, drivers/perf/arm_spe_pmu.c ---- */

struct linux_pmu {
    unsigned align, max_record_sz, min_period, counter_sz;
    bool fne, fds, discard;
    uint64_t period_left;             /* perf's hwc->period_left: PMSICR_EL1 between runs */
    uint64_t base, head, size, limit; /* the AUX buffer: [base, base + size) */
};

/* EL2 entry: el2_setup. Leaves the buffer to EL1, or to a VHE host. */
static void linux_boot(bool vhe)
{
    rig_state(&rig, 2, SPEX_NONSECURE);
    assert_true(spex_field_get(R(ID_AA64DFR0_EL1), SPEX_ID_AA64DFR0_EL1_PMSVer) >= 1);
    assert_int_equal(RIG_GET(&rig, PMBIDR_EL1, P), 0);
    if (vhe) {
        RIG_FIELD(&rig, HCR_EL2, E2H, 1);
        RIG_FIELD(&rig, HCR_EL2, TGE, 1);
        RIG_FIELD(&rig, MDCR_EL2, E2PB, 0);
        W(PMSCR_EL12, 0);
    } else {
        W(PMSCR_EL2, 1 << 6 | 1 << 4); /* PCT physical, PA */
        RIG_FIELD(&rig, MDCR_EL2, E2PB, 3);
        W(PMSCR_EL1, 0);
        rig_state(&rig, 1, SPEX_NONSECURE);
    }
}

static void linux_probe(struct linux_pmu *pmu)
{
    uint64_t id = R(PMBIDR_EL1);
    assert_int_equal(spex_field_get(id, SPEX_PMBIDR_EL1_P), 0);
    pmu->align = 1u << spex_field_get(id, SPEX_PMBIDR_EL1_Align);
    assert_true(pmu->align <= 2048);
    id = R(PMSIDR_EL1);
    assert_int_equal(id & 7, 7); /* FE, FT, FL */
    pmu->fne = spex_field_get(id, SPEX_PMSIDR_EL1_FnE);
    pmu->fds = spex_field_get(id, SPEX_PMSIDR_EL1_FDS);
    static const unsigned intervals[] = {256, 0, 512, 768, 1024, 1536, 2048, 3072, 4096};
    unsigned interval = (unsigned)spex_field_get(id, SPEX_PMSIDR_EL1_Interval);
    assert_true(interval <= 8 && interval != 1);
    pmu->min_period = intervals[interval];
    pmu->max_record_sz = 1u << spex_field_get(id, SPEX_PMSIDR_EL1_MaxSize);
    assert_true(pmu->max_record_sz >= 16 && pmu->max_record_sz <= 2048);
    unsigned count = (unsigned)spex_field_get(id, SPEX_PMSIDR_EL1_CountSize);
    assert_true(count == 2 || count == 3);
    pmu->counter_sz = count == 2 ? 12 : 16;
    pmu->discard = spex_field_get(R(ID_AA64DFR0_EL1), SPEX_ID_AA64DFR0_EL1_PMSVer) >= 3;
    /* Which events can be filtered: all ones, read back. */
    W(PMSEVFR_EL1, ~UINT64_C(0));
    uint64_t events = R(PMSEVFR_EL1);
    assert_int_equal(events & (BIT(3) | BIT(5) | BIT(7)), BIT(3) | BIT(5) | BIT(7));
    assert_int_equal(events & (BIT(0) | BIT(16) | BITS(47, 32)), 0);
    W(PMSEVFR_EL1, 0);
    pmu->base = RIG_BASE;
}

static void linux_disable_and_drain(void)
{
    W(PMSCR_EL1, 0);
    isb();
    psb();
    isb(); /* DSB */
    W(PMBLIMITR_EL1, 0);
    isb();
}

static void linux_reset(void)
{
    linux_disable_and_drain();
    W(PMBPTR_EL1, 0);
    isb();
    W(PMBSR_EL1, 0);
    isb();
}

/* The buffer from head, at most pages pages; PTR is kept at most LIMIT - 2^MaxSize. */
static void linux_buffer_begin(struct linux_pmu *pmu)
{
    pmu->head = (pmu->head + pmu->align - 1) & ~(uint64_t)(pmu->align - 1);
    pmu->limit = pmu->size;
    if (pmu->limit - pmu->head < pmu->max_record_sz)
        pmu->head = 0;
    W(PMBPTR_EL1, pmu->base + pmu->head);
    W(PMBLIMITR_EL1, (pmu->base + pmu->limit) | 1);
}

struct linux_event {
    uint64_t period;
    bool jitter, discard;
    uint64_t pmscr, pmsfcr, pmsevfr, pmsnevfr, pmslatfr;
};

static void linux_start(struct linux_pmu *pmu, const struct linux_event *event)
{
    if (event->discard)
        W(PMBLIMITR_EL1, 2 << 1 | 1);
    else
        linux_buffer_begin(pmu);
    W(PMSFCR_EL1, event->pmsfcr);
    W(PMSEVFR_EL1, event->pmsevfr);
    if (pmu->fne)
        W(PMSNEVFR_EL1, event->pmsnevfr);
    W(PMSLATFR_EL1, event->pmslatfr);
    W(PMSIRR_EL1, (event->period & ~UINT64_C(0xff)) | event->jitter);
    isb();
    W(PMSICR_EL1, pmu->period_left);
    isb();
    /* The buffer is enabled, profiling is not: nothing may happen yet (REG-20). */
    uint64_t pop = rig_pmu(&rig, SPEX_PMU_SAMPLE_POP), pointer = R(PMBPTR_EL1);
    run(3 * event->period);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_POP), pop);
    assert_int_equal(R(PMSICR_EL1), pmu->period_left);
    assert_int_equal(R(PMBPTR_EL1), pointer);
    W(PMSCR_EL1, event->pmscr);
}

enum linux_act { IRQ_NONE, IRQ_FULL, IRQ_FATAL };

static enum linux_act linux_fault_act(void)
{
    psb();
    isb(); /* DSB */
    isb();
    uint64_t status = R(PMBSR_EL1);
    if (!spex_field_get(status, SPEX_PMBSR_EL1_S))
        return IRQ_NONE;
    if (spex_field_get(status, SPEX_PMBSR_EL1_EC) != 0)
        return IRQ_FATAL;
    return spex_field_get(status, SPEX_PMBSR_EL1_MSS) == 1 ? IRQ_FULL : IRQ_FATAL;
}

static uint64_t linux_buffer_end(struct linux_pmu *pmu)
{
    uint64_t size = R(PMBPTR_EL1) - pmu->base - pmu->head;
    pmu->head += size;
    return size;
}

/* The interrupt handler: take the data, open the buffer again, write PMBSR 0. */
static enum linux_act linux_irq(struct linux_pmu *pmu)
{
    enum linux_act act = linux_fault_act();
    if (act == IRQ_NONE)
        return act;
    linux_buffer_end(pmu);
    if (act == IRQ_FULL) {
        pmu->head = 0; /* perf's reader has taken everything */
        linux_buffer_begin(pmu);
        isb();
    } else {
        linux_disable_and_drain();
    }
    W(PMBSR_EL1, 0);
    return act;
}

static void linux_stop(struct linux_pmu *pmu)
{
    linux_disable_and_drain();
    if (linux_fault_act() != IRQ_NONE)
        W(PMBSR_EL1, 0);
    linux_buffer_end(pmu);
    pmu->period_left = R(PMSICR_EL1);
}

static size_t records_in(const struct host *host)
{
    static uint8_t bytes[1 << 20];
    struct spex_reader reader;
    struct spex_record record;
    size_t size = host->count < sizeof bytes ? host->count : sizeof bytes, n = 0;
    for (size_t i = 0; i < size; i++)
        bytes[i] = host->log[i].byte;
    reader_whole(&reader, bytes, size, 0);
    enum spex_status status;
    while ((status = spex_reader_next(&reader, &record, NULL)) == SPEX_OK)
        n++;
    assert_int_equal(status, SPEX_END);
    return n;
}

/* The whole life of an event on one core, from EL1 or as a VHE host. */
static void linux_life(const char *features, bool vhe, bool jitter)
{
    struct linux_pmu pmu = {.size = 0x1000};
    rig_open(&rig, features, "");
    linux_boot(vhe);
    linux_probe(&pmu);
    linux_reset();
    assert_false(rig.host.irq);

    /* A first run: PMSICR starts as the period, so that the first interval is the period. */
    struct linux_event event = {.period = 1024, .jitter = jitter, .pmscr = 1 << 5 | 1 << 4 | 3};
    pmu.period_left = event.period;
    linux_start(&pmu, &event);
    uint64_t feed = rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED);
    run(event.period - 1);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), feed);
    run(1);
    bool secondary = jitter && rig.config.features.ERnd; /* then up to 255 later */
    if (!secondary)
        assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), feed + 1);
    run(255);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), feed + 1);

    /* Until the buffer is full: one edge, the whole records, PMBPTR after the last. */
    while (!rig.host.irq)
        run(100);
    assert_int_equal(rig.host.irq_edges, 1);
    uint64_t pointer = R(PMBPTR_EL1);
    assert_int_equal(rig.host.log[rig.host.count - 1].address, pointer - 1);
    assert_true(pointer > pmu.base + pmu.limit - pmu.max_record_sz);
    assert_true(pointer <= pmu.base + pmu.limit);
    assert_int_equal(R(PMBSR_EL1), BIT(17) | 1); /* S, EC 0, MSS exactly 1, DL, EA, COLL clear */
    assert_int_equal(records_in(&rig.host), rig_pmu(&rig, SPEX_PMU_SAMPLE_FILTRATE));
    /* Stopped: nothing moves, the level stays. */
    uint64_t counter = R(PMSICR_EL1);
    size_t written = rig.host.count;
    run(5000);
    assert_int_equal(R(PMBPTR_EL1), pointer);
    assert_int_equal(R(PMSICR_EL1), counter);
    assert_int_equal(rig.host.count, written);
    assert_true(rig.host.irq);
    /* The handler: the level drops on the write of 0 and profiling resumes from PMSICR. */
    assert_int_equal(linux_irq(&pmu), IRQ_FULL);
    assert_false(rig.host.irq);
    assert_int_equal(rig.host.irq_edges, 2);
    /* With one counter it is zero when the sampled operation fills the buffer: the next member
       reloads it (D17.3.4). */
    assert_int_equal(R(PMSICR_EL1), counter);
    if (!counter) {
        run(1);
        assert_int_equal(R(PMSICR_EL1) & ~UINT64_C(0xff), event.period);
    }
    assert_int_equal(linux_irq(&pmu), IRQ_NONE); /* spurious */
    run(2 * 1024 + 600);
    assert_true(rig.host.count > written);

    /* Stop, and start again: the counters go on where they were, ECOUNT included. */
    while ((R(PMSICR_EL1) & 0xffffffff) < 2) /* zero would be loaded anew: D17.3.3 */
        run(1);
    linux_stop(&pmu);
    uint64_t saved = pmu.period_left;
    run(3000);
    assert_int_equal(R(PMSICR_EL1), saved);
    linux_start(&pmu, &event);
    assert_int_equal(R(PMSICR_EL1), saved);
    run(1);
    uint64_t now = R(PMSICR_EL1);
    assert_int_equal(now & 0xffffffff, (saved & 0xffffffff) - 1);
    if (secondary && saved >> 56)
        assert_int_equal(now >> 56, (saved >> 56) - 1);
    linux_stop(&pmu);

    /* A stop in the middle of a run leaves PMBPTR at the end of the last record. */
    assert_int_equal(rig.host.log[rig.host.count - 1].address + 1, pmu.base + pmu.head);
    psb(); /* nothing in flight: harmless */
    assert_int_equal(R(PMBSR_EL1), 0);
    rig_close(&rig);
}

static void test_linux(void **state)
{
    SPEC(SMP-15);
    SPEC(SMP-41);
    SPEC(REG-05);
    SPEC(REG-15);
    SPEC(REG-20);
    SPEC(REG-32);
    SPEC(BUF-03);
    SPEC(BUF-10);
    SPEC(BUF-13);
    SPEC(BUF-130);
    SPEC(BUF-136);
    SPEC(BUF-141);
    SPEC(BUF-144);
    SPEC(BUF-145);
    SPEC(BUF-146);
    SPEC(BUF-147);
    SPEC(BUF-148);
    SPEC(BUF-152);
    SPEC(FIL-31);
    static const char *const cores[] = {"neoverse-n1", "neoverse-v1", "neoverse-n2",
                                        "neoverse-v2", "max",         "max,no-ernd"};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        for (unsigned mode = 0; mode < 4; mode++)
            linux_life(cores[i], mode & 1, mode & 2);
}

/* Discard mode: PMBPTR is not even written; counts, but never an interrupt. */
static void test_linux_discard(void **state)
{
    SPEC(FIL-25);
    SPEC(FIL-26);
    SPEC(FIL-27);
    SPEC(FIL-28);
    struct linux_pmu pmu = {.size = 0x1000};
    rig_open(&rig, "neoverse-n2", "");
    linux_boot(false);
    linux_probe(&pmu);
    assert_true(pmu.discard);
    linux_reset(); /* PMBPTR is 0 and LIMIT 0: outside discard mode that would be full at once */
    struct linux_event event = {.period = 1024, .discard = true, .pmscr = 3};
    pmu.period_left = event.period;
    linux_start(&pmu, &event);
    run(1024 + 100 * 1025);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), 101);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FILTRATE), 101);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_POP), 1024 + 100 * 1025);
    assert_int_equal(rig.host.irq_edges, 0);
    assert_int_equal(rig.host.count, 0);
    assert_int_equal(R(PMBPTR_EL1), 0);
    assert_int_equal(R(PMBSR_EL1), 0);
    /* A collision still shows. */
    rig_arm(&rig);
    int slot = spex_spu_begin(rig.unit, 0, 0);
    rig_arm(&rig);
    assert_int_equal(spex_spu_begin(rig.unit, 0, 0), SPEX_SPU_NOT_SAMPLED);
    assert_int_equal(R(PMBSR_EL1), BIT(16));
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_COLLISION), 1);
    spex_spu_abandon(rig.unit, slot);
    linux_disable_and_drain();
    rig_close(&rig);
}

/* A fatal event: the driver sees EC != 0, drains, and writes PMBSR 0. */
static void test_linux_fault(void **state)
{
    struct linux_pmu pmu = {.size = 0x4000};
    rig_open(&rig, "neoverse-n1", "");
    linux_boot(false);
    linux_probe(&pmu);
    linux_reset();
    struct linux_event event = {.period = 1024, .pmscr = 3};
    pmu.period_left = 1024;
    linux_start(&pmu, &event);
    rig.host.plan = (struct plan){RIG_BASE + 64 + 20, UINT64_MAX, {SPEX_STOP_FAULT, 0x07, 0, 0}};
    run(1024 + 1025);
    assert_int_equal(R(PMBSR_EL1), UINT64_C(0x24) << 26 | BIT(19) | BIT(17) | 0x07);
    assert_int_equal(R(PMBPTR_EL1), RIG_BASE + 64 + 20);
    assert_true(rig.host.irq);
    assert_false(rig.host.exception.pending); /* an interrupt, no exception of any kind */
    assert_int_equal(linux_irq(&pmu), IRQ_FATAL);
    assert_false(rig.host.irq);
    assert_int_equal(R(PMBLIMITR_EL1) & 1, 0);
    rig_close(&rig);
}

/* Filters as the driver programs them; it never makes the CONSTRAINED UNPREDICTABLE cases. */
static void test_linux_filters(void **state)
{
    SPEC(FIL-01);
    SPEC(FIL-19);
    struct linux_pmu pmu = {.size = 0x100000};
    rig_open(&rig, "neoverse-n1", "");
    linux_boot(false);
    linux_probe(&pmu);
    linux_reset();
    /* load_filter=1, min_latency=10: the loads of run() take 10 cycles. */
    struct linux_event event = {
        .period = 256, .pmscr = 3, .pmsfcr = BIT(17) | BIT(2) | BIT(1), .pmslatfr = 10};
    pmu.period_left = 256;
    linux_start(&pmu, &event);
    run(256 + 9 * 257);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FILTRATE), 10);
    linux_stop(&pmu);
    event.pmslatfr = 11;
    pmu.period_left = 256;
    linux_start(&pmu, &event);
    run(256 + 9 * 257);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), 20);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FILTRATE), 10);
    linux_stop(&pmu);
    event.pmsfcr = BIT(18) | BIT(1); /* store_filter */
    pmu.period_left = 256;
    linux_start(&pmu, &event);
    run(256 + 9 * 257);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FILTRATE), 10);
    rig_close(&rig);
}

/* KVM without VHE takes the buffer's controls away from the host while a guest runs. */
static void test_kvm_switch(void **state)
{
    SPEC(REG-27);
    SPEC(REG-21);
    struct linux_pmu pmu = {.size = 0x10000};
    rig_open(&rig, "max,align=6", "hold=4"); /* some are still in the SPU at the switch */
    linux_boot(false);
    linux_probe(&pmu);
    linux_reset();
    struct linux_event event = {.period = 256, .pmscr = 3};
    pmu.period_left = 256;
    linux_start(&pmu, &event);
    run(256 + 2 * 257 + 5);
    struct spex_spu_status status = {.size = sizeof status};
    spex_spu_get_status(rig.unit, &status);
    assert_int_equal(status.held, 3);
    assert_int_equal(rig.host.count, 0);

    /* Hypervisor, before anything of the guest: drain while EL1 still owns the buffer. */
    rig_state(&rig, 2, SPEX_NONSECURE);
    assert_int_equal(R(PMBLIMITR_EL1) & 1, 1);
    uint64_t pmscr = R(PMSCR_EL1);
    W(PMSCR_EL1, 0);
    isb();
    psb();
    assert_int_equal(rig.host.count, 3 * 64);
    assert_int_equal(rig.host.store.el, 1); /* not EL2's tables */
    RIG_FIELD(&rig, MDCR_EL2, E2PB, 0);
    RIG_FIELD(&rig, MDCR_EL2, TPMS, 1);
    uint64_t counter = R(PMSICR_EL1);

    /* The guest: no profiling, its accesses trap. */
    rig_state(&rig, 1, SPEX_NONSECURE);
    run(10000);
    assert_int_equal(rig.host.count, 3 * 64);
    uint64_t value;
    assert_int_equal(spex_spu_read(rig.unit, SPEX_PMSCR_EL1, 0, &value, NULL),
                     SPEX_SYSREG_TRAP_EL2);
    assert_int_equal(spex_spu_read(rig.unit, SPEX_PMBPTR_EL1, 0, &value, NULL),
                     SPEX_SYSREG_TRAP_EL2);

    /* Back to the host. */
    rig_state(&rig, 2, SPEX_NONSECURE);
    RIG_FIELD(&rig, MDCR_EL2, TPMS, 0);
    RIG_FIELD(&rig, MDCR_EL2, E2PB, 3);
    isb();
    W(PMSCR_EL1, pmscr);
    rig_state(&rig, 1, SPEX_NONSECURE);
    assert_int_equal(R(PMSICR_EL1), counter);
    run(257);
    psb();
    assert_int_equal(rig.host.count, 4 * 64);
    assert_int_equal(R(PMBPTR_EL1), RIG_BASE + 4 * 64);
    rig_close(&rig);
}

/* ---- FreeBSD, sys/arm64/spe ---- */

static void freebsd_enable(uint64_t base, uint64_t size, uint64_t interval)
{
    W(PMSFCR_EL1, 0);
    W(PMSEVFR_EL1, ~UINT64_C(0)); /* with FE clear: no filter */
    W(PMSLATFR_EL1, 0);
    W(PMSIRR_EL1, interval << 8);
    isb();
    W(PMSICR_EL1, 0);
    isb();
    W(PMBPTR_EL1, base);
    W(PMBLIMITR_EL1, (base + size) | 1);
    isb();
    W(PMSCR_EL1, 1 << 5 | 1 << 4 | 1 << 3 | 3);
    isb();
}

static void test_freebsd(void **state)
{
    SPEC(SMP-03);
    SPEC(SMP-16);
    SPEC(SMP-17);
    SPEC(SMP-22);
    enum { HALF = 0x2000 };
    rig_open(&rig, "neoverse-n1", "");
    linux_boot(false);
    assert_int_equal(RIG_GET(&rig, PMBIDR_EL1, P), 0);
    freebsd_enable(RIG_BASE, HALF, 2);
    /* PMSICR was 0: loaded when profiling was enabled, so that op 512 is the first sample. */
    assert_int_equal(R(PMSICR_EL1), 512);
    run(511);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), 0);
    run(1);
    assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_FEED), 1);
    /* Ping-pong between the halves. */
    uint64_t base = RIG_BASE;
    for (unsigned i = 0; i < 6; i++) {
        while (!rig.host.irq)
            run(513);
        psb();
        isb();
        uint64_t status = R(PMBSR_EL1);
        assert_int_equal(status, BIT(17) | 1);
        assert_int_equal(R(PMBPTR_EL1), base + HALF); /* 64-byte records fill it exactly */
        base = base == RIG_BASE ? RIG_BASE + HALF : RIG_BASE;
        W(PMBPTR_EL1, base);
        W(PMBLIMITR_EL1, (base + HALF) | 1);
        isb();
        W(PMBSR_EL1, 0);
        isb();
        assert_false(rig.host.irq);
    }
    assert_int_equal(records_in(&rig.host), 6 * HALF / 64);
    /* Disable. */
    run(2 * 513);
    W(PMSCR_EL1, 0);
    isb();
    psb();
    W(PMBLIMITR_EL1, 0);
    isb();
    W(PMBSR_EL1, 0);
    assert_int_equal(R(PMBPTR_EL1), base + 2 * 64);
    rig_close(&rig);
}

/* ---- kvm-unit-tests (the SPE series) ---- */

static void test_kvm_unit_tests(void **state)
{
    SPEC(REG-02);
    SPEC(REG-22);
    rig_open(&rig, "neoverse-n1", "");
    linux_boot(false);
    /* Introspection. */
    uint64_t id = R(PMSIDR_EL1);
    assert_int_equal(spex_field_get(id, SPEX_PMSIDR_EL1_CountSize), 2);
    unsigned size = 1u << spex_field_get(id, SPEX_PMSIDR_EL1_MaxSize);
    assert_in_range(size, 16, 2048);
    assert_in_range(spex_field_get(id, SPEX_PMSIDR_EL1_Interval), 0, 8);
    /* Buffer: registers read back, empty before, something after a million loads. */
    W(PMBPTR_EL1, RIG_BASE);
    W(PMBLIMITR_EL1, RIG_BASE + 0x100000);
    W(PMSIRR_EL1, 0x400 << 8);
    W(PMSICR_EL1, 0);
    assert_int_equal(R(PMBPTR_EL1), RIG_BASE);
    assert_int_equal(R(PMBLIMITR_EL1), RIG_BASE + 0x100000);
    assert_int_equal(R(PMSIRR_EL1), 0x400 << 8);
    assert_int_equal(rig.host.count, 0);
    W(PMBLIMITR_EL1, (RIG_BASE + 0x100000) | 1);
    W(PMSFCR_EL1, BIT(17) | BIT(1)); /* loads only */
    isb();
    W(PMSCR_EL1, 1 << 5 | 1 << 3 | 3);
    run(1000000);
    W(PMSCR_EL1, 0);
    isb();
    psb();
    assert_true(R(PMBPTR_EL1) > RIG_BASE);
    assert_int_equal(R(PMBPTR_EL1), RIG_BASE + rig.host.count);
    assert_int_equal(R(PMBSR_EL1), 0);
    /* Events: LIMIT == PTR is full at once; twice. */
    for (unsigned i = 0; i < 2; i++) {
        W(PMBPTR_EL1, RIG_BASE);
        W(PMBLIMITR_EL1, RIG_BASE | 1);
        W(PMSICR_EL1, 0);
        isb();
        W(PMSCR_EL1, 1 << 5 | 3);
        isb();
        run(1000000);
        assert_true(rig.host.irq);
        assert_int_equal(R(PMBSR_EL1), BIT(17) | 1); /* S, EC 0, BSC 1, no DL, EA, COLL */
        W(PMSCR_EL1, 0);
        isb();
        psb();
        W(PMBSR_EL1, 0);
        assert_false(rig.host.irq);
    }
    rig_close(&rig);
}

/* ---- firmware ---- */

/* TF-A gives the buffer to Non-secure state; Secure and Realm software that touches it traps. */
static void test_tf_a(void **state)
{
    SPEC(REG-14);
    SPEC(REG-03);
    rig_open(&rig, "max", "");
    rig_state(&rig, 3, SPEX_ROOT);
    for (enum spex_security world = SPEX_SECURE; world <= SPEX_REALM; world++) {
        bool owner = world == SPEX_NONSECURE;
        rig_state(&rig, 3, SPEX_ROOT);
        RIG_FIELD(&rig, MDCR_EL3, NSPB, owner ? 3 : 2);
        RIG_FIELD(&rig, MDCR_EL3, NSPBE, 0);
        RIG_FIELD(&rig, SCR_EL3, EEL2, 1);
        for (unsigned el = 1; el <= 2; el++) {
            uint64_t value = 0;
            rig_state(&rig, el, world);
            assert_int_equal(RIG_GET(&rig, PMBIDR_EL1, P), !owner);
            assert_int_equal(spex_spu_read(rig.unit, SPEX_PMSCR_EL1, 0, &value, NULL),
                             owner ? SPEX_SYSREG_OK : SPEX_SYSREG_TRAP_EL3);
            /* But software may always ask whether it may. */
            assert_int_equal(spex_spu_read(rig.unit, SPEX_PMBIDR_EL1, 0, &value, NULL),
                             SPEX_SYSREG_OK);
        }
    }
    rig_close(&rig);
}

/* SBSA-ACS: with SVE at least SPEv1p1; the SPU manages the Access flag. */
static void test_sbsa(void **state)
{
    const char *name;
    for (size_t i = 0; (name = spex_features_preset_name(i)); i++) {
        if (!strcmp(name, "min"))
            continue;
        rig_open(&rig, name, "");
        const struct arch_features *f = &rig.config.features;
        uint64_t version = RIG_GET(&rig, ID_AA64DFR0_EL1, PMSVer);
        assert_int_equal(version, f->version);
        assert_true(!f->SVE || version >= 2);
        assert_int_equal(RIG_GET(&rig, PMBIDR_EL1, F), 1);
        /* One PMBIRQ per unit: a second PE's is its own. */
        struct rig other;
        rig_open(&other, name, "");
        rig_write(&rig, SPEX_PMBSR_EL1, BIT(17));
        assert_true(rig.host.irq);
        assert_false(other.host.irq);
        rig_close(&other);
        rig_close(&rig);
    }
}

TEST_MAIN(TEST(test_linux), TEST(test_linux_discard), TEST(test_linux_fault),
          TEST(test_linux_filters), TEST(test_kvm_switch), TEST(test_freebsd),
          TEST(test_kvm_unit_tests), TEST(test_tf_a), TEST(test_sbsa))
