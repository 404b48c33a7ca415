/*
 * The Profiling Buffer: where records are written, and what stops them (D17.7, D17.8).
 */
#include "unit.h"

#include <assert.h>
#include <string.h>

static uint64_t limit_of(const struct spex_spu *u)
{
    return u->w.eff[R_PMBLIMITR_EL1] & SPEX_FIELD_MASK(SPEX_PMBLIMITR_EL1_LIMIT);
}

/* Whether there is room for `bytes` plus the largest record. */
static bool has_room_after(const struct spex_spu *u, uint64_t bytes)
{
    uint64_t limit = limit_of(u), need = bytes + (UINT64_C(1) << u->config.features.MaxSize);
    return limit >= need && u->w.eff[R_PMBPTR_EL1] <= limit - need;
}

/* Not SPEBufferIsFull. */
static bool has_room(const struct spex_spu *u)
{
    return has_room_after(u, 0);
}

/* Checks the restrictions on the current write pointer. */
bool spu_pointer_ok(const struct spex_spu *u)
{
    return has_room(u) && u->w.eff[R_PMBPTR_EL1] >> 56 == limit_of(u) >> 56;
}

static void buffer_full(struct spex_spu *u, int data_lost)
{
    if (OtherSPEManagementEvent(u, BSC_FULL, data_lost))
        spu_pmu(u, SPEX_PMU_SAMPLE_BUFFER_FULL, 1);
}

/* CONSTRAINED UNPREDICTABLE: does one of the options of RPGGHS. */
void spu_pointer_violation(struct spex_spu *u)
{
    const struct spu_choices *c = &u->config.choices;
    int dl = c->pointer_rule_dl ? DL_ONE : DL_UNCHANGED;
    switch (c->pointer_rule) {
    case POINTER_FULL:
        buffer_full(u, dl);
        break;
    case POINTER_NOT_ALLOWED:
        OtherSPEManagementEvent(u, BSC_NOT_ALLOWED, DL_ONE);
        break;
    case POINTER_FAULT:
        spu_report_fault(u, EC_STAGE1, FSC_TRANSLATION, 0, false, dl);
        break;
    case POINTER_IMPDEF:
        spu_report_impdef(u, 0, 0, dl);
        break;
    case POINTER_DISCARD:
        u->w.drop = true;
        break;
    case POINTER_DISABLED: /* spu_update disables profiling; only a record is lost */
        break;
    }
}

/* ---- faults and aborts ---- */

static uint32_t permission_syndrome(const struct spex_spu *u, const struct spex_spu_stop *stop)
{
    bool permission = (stop->fsc & 0x3c) == 0x0c, stage2 = stop->flags & SPEX_STOP_STAGE2;
    bool the = u->config.features.THE && permission && stage2;
    return (the && (stop->flags & SPEX_STOP_TOP_LEVEL) ? 1u << 8 : 0) |
           (the && (stop->flags & SPEX_STOP_ASSURED_ONLY) ? 1u << 7 : 0) |
           (permission && (stop->flags & SPEX_STOP_OVERLAY) ? 1u << 6 : 0) |
           (permission && (stop->flags & SPEX_STOP_DIRTY_BIT) ? 1u << 5 : 0);
}

static unsigned event_class(uint32_t flags)
{
    if (flags & (SPEX_STOP_GPC | SPEX_STOP_GPT))
        return EC_GPC;
    return flags & SPEX_STOP_STAGE2 ? EC_STAGE2 : EC_STAGE1;
}

/* D17.8.3: a GPF that is not on a walk or update is a stage 1 abort, whatever stage is named. */
static unsigned fault_class(const struct spex_spu_stop *stop)
{
    return event_class(stop->fsc == FSC_GPF ? stop->flags & ~SPEX_STOP_STAGE2 : stop->flags);
}

/* DebugWriteFault, at address; the record began at start. */
static void write_fault(struct spex_spu *u, const struct spex_spu_stop *stop, bool walk_abort,
                        uint64_t start, uint64_t address)
{
    const struct spu_choices *c = &u->config.choices;
    address &= u->writable[R_PMBPTR_EL1]; /* RES0 bits hold nothing */
    int dl = address != start ? DL_ONE : c->fault_dl ? (int)c->fault_dl - 1 : DL_UNCHANGED;
    struct late_fault fault = {
        .pending = 1,
        .ec = fault_class(stop),
        .fsc = stop->fsc,
        .mss2 = permission_syndrome(u, stop),
        .ea = walk_abort && c->walk_abort_ea,
        .data_lost = (uint64_t)(dl + 1),
        .address = address,
        .samples = u->config.features.version >= 6 ? c->fault_lag : 0,
    };
    u->w.late = fault;
    if (!fault.samples)
        spu_late_fault_report(u);
}

void spu_late_fault_report(struct spex_spu *u)
{
    struct late_fault fault = u->w.late;
    if (!fault.pending)
        return;
    u->w.late.pending = 0;
    spu_put(u, R_PMBPTR_EL1, fault.address);
    spu_report_fault(u, (unsigned)fault.ec, (unsigned)fault.fsc, (uint32_t)fault.mss2, fault.ea,
                     (int)fault.data_lost - 1);
}

enum abort_manner { ABORT_IGNORED, ABORT_SERROR, ABORT_REPORTED };

/* How an abort is reported (RJFYNW); PMBIDR_EL1.EA tells software (IKDMQG). */
static enum abort_manner abort_manner(const struct spex_spu *u)
{
    const struct arch_features *f = &u->config.features;
    if (f->EA == 1)
        return ABORT_IGNORED;
    if (f->EA == 2 || u->config.choices.abort_unspecified == UNSPECIFIED_SERROR)
        return ABORT_SERROR;
    if (u->config.choices.abort_unspecified == UNSPECIFIED_IGNORE || f->version >= 4)
        return ABORT_IGNORED;
    return ABORT_REPORTED;
}

void spex_spu_external_abort(struct spex_spu *u, uint32_t stop_flags)
{
    assert(u);
    spex_spu_flush(u);
    switch (abort_manner(u)) {
    case ABORT_IGNORED:
        return;
    case ABORT_SERROR:
        if (u->config.host.serror)
            u->config.host.serror(u->config.host.user, u->w.eff[R_PMBPTR_EL1]);
        return;
    case ABORT_REPORTED:
        spu_report_abort(u, event_class(stop_flags), FSC_ABORT_ASYNC, true);
        spu_update(u);
    }
}

/* ---- writing ---- */

/* FEAT_SPE_nVM: the unit itself faults on addresses beyond the implemented range. */
static bool address_size_fault(const struct spex_spu *u, uint64_t address)
{
    const struct spu_choices *c = &u->config.choices;
    if (c->pa_bits < c->oa_bits && (address & BITS(c->oa_bits - 1, c->pa_bits)))
        return true;
    return !c->above_oa && c->oa_bits < 64 && (address & BITS(63, c->oa_bits));
}

void spu_store_init(const struct spex_spu *u, struct spex_spu_store *store)
{
    struct owner owner = ProfilingBufferOwner(u);
    *store = (struct spex_spu_store){
        .flags = SPEX_STORE_PRIVILEGED | SPEX_STORE_PAN_IGNORED | SPEX_STORE_TAG_UNCHECKED |
                 SPEX_STORE_NO_WATCHPOINT,
        .el = owner.el,
        .security = owner.security,
        .e2h = owner.el == 2 && u->config.features.VHE && EFF(E2H, HCR_EL2),
    };
    if (u->config.features.F)
        store->flags |= SPEX_STORE_AF_DIRTY;
    if (EffectivePMBLIMITR_EL1_nVM(u)) {
        store->flags |= SPEX_STORE_NVM;
        store->attr = (uint8_t)EFF(Attr, PMBMAR_EL1);
        store->sh = (uint8_t)EFF(SH, PMBMAR_EL1);
    }
}

static void host_write(struct spex_spu *u, const struct spex_spu_store *store,
                       struct spex_spu_stop *stop)
{
    *stop = (struct spex_spu_stop){0};
    if (u->config.host.write)
        u->config.host.write(u->config.host.user, store, stop);
    if (stop->kind == SPEX_STOP_NONE || stop->written > store->count)
        stop->written = store->count;
}

/*
 * DebugWriteExternalAbort: whether the abort is reported to the SPU. *done: bytes of the run
 * that the pointer then has passed.
 */
static bool abort_reported(struct spex_spu *u, const struct spex_spu_store *store,
                           const struct spex_spu_stop *stop, size_t *done)
{
    bool async = stop->flags & SPEX_STOP_ASYNC;
    *done = async || stop->written == store->count ? store->count : stop->written + 1;
    enum abort_manner manner = abort_manner(u);
    if (manner == ABORT_SERROR && u->config.host.serror)
        u->config.host.serror(u->config.host.user, store->address + stop->written);
    return manner == ABORT_REPORTED;
}

/*
 * Reports an abort asynchronously, with the pointer past what was under way, or at the byte
 * that aborted.
 */
static void write_abort(struct spex_spu *u, const struct spex_spu_stop *stop, bool async,
                        uint64_t start, uint64_t address)
{
    bool walk = stop->flags & (SPEX_STOP_WALK | SPEX_STOP_GPT);
    unsigned fsc = async ? FSC_ABORT_ASYNC : walk ? stop->fsc : FSC_ABORT;
    address &= u->writable[R_PMBPTR_EL1];
    spu_put(u, R_PMBPTR_EL1, address);
    spu_report_abort(u, event_class(stop->flags), fsc, async || address != start);
}

/* BUF-181: the next page may be translated, and marked dirty, before it is written. */
static void translate_ahead(struct spex_spu *u, struct spex_spu_store *store)
{
    uint64_t page = UINT64_C(1) << u->config.choices.granule;
    uint64_t next = (store->address | (page - 1)) + 1;
    struct spex_spu_stop unused;
    if (next >= limit_of(u) || !u->config.choices.dirty_ahead ||
        !(store->flags & SPEX_STORE_AF_DIRTY))
        return;
    struct spex_spu_store ahead = *store;
    ahead.address = next;
    ahead.bytes = NULL;
    ahead.count = 0;
    ahead.flags |= SPEX_STORE_TRANSLATE_ONLY;
    host_write(u, &ahead, &unused);
}

/* SPEWriteToBuffer: true if the whole record is in memory. */
static bool write_record(struct spex_spu *u, const uint8_t *bytes, size_t size)
{
    uint64_t start = u->w.eff[R_PMBPTR_EL1], aborted = 0;
    struct spex_spu_stop stop, first = {0};
    spu_sample_now(u);
    struct spex_spu_store store = u->now.store;
    store.address = start;
    if (u->config.choices.misaligned_pointer && start & (BIT(u->config.features.Align) - 1)) {
        stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = FSC_ALIGNMENT};
        write_fault(u, &stop, false, start, start);
        return false;
    }
    for (size_t at = 0; at < size;) {
        store.address = start + at;
        store.bytes = bytes + at;
        store.count = size - at;
        if (store.flags & SPEX_STORE_NVM) { /* valid up to the first byte that faults */
            size_t good = 0;
            while (good < store.count && !address_size_fault(u, store.address + good))
                good++;
            store.count = good;
        }
        if (!store.count) {
            stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = FSC_ADDRESS_SIZE};
            write_fault(u, &stop, false, start, start + at);
            return false;
        }
        host_write(u, &store, &stop);
        size_t done = stop.written;
        bool walk = stop.flags & (SPEX_STOP_WALK | SPEX_STOP_GPT);
        if (stop.kind == SPEX_STOP_FAULT || (stop.kind == SPEX_STOP_ABORT && walk &&
                                             u->config.choices.walk_abort == WALK_ABORT_FAULT)) {
            write_fault(u, &stop, stop.kind == SPEX_STOP_ABORT, start, start + at + done);
            return false;
        }
        bool reported = stop.kind == SPEX_STOP_ABORT && abort_reported(u, &store, &stop, &done);
        bool async = stop.flags & SPEX_STOP_ASYNC || u->config.choices.abort_async;
        if (reported && async && !first.kind) {
            write_abort(u, &stop, true, start, store.address + store.count);
            return false;
        }
        if (reported && !first.kind) { /* RDTGVZ: a fault on a later byte takes precedence */
            first = stop;
            aborted = store.address + stop.written;
        }
        at += done;
    }
    if (first.kind) {
        write_abort(u, &first, false, start, aborted);
        return false;
    }
    translate_ahead(u, &store);
    spu_put(u, R_PMBPTR_EL1, start + size);
    return true;
}

/* IVJVKZ: the bytes between PMBPTR_EL1 and LIMIT may change. */
static void scribble(struct spex_spu *u)
{
    static const uint8_t noise[16] = {0xa5, 0x5a, 0xa5, 0x5a, 0xa5, 0x5a, 0xa5, 0x5a,
                                      0xa5, 0x5a, 0xa5, 0x5a, 0xa5, 0x5a, 0xa5, 0x5a};
    struct spex_spu_store store;
    struct spex_spu_stop unused;
    uint64_t room = limit_of(u) - u->w.eff[R_PMBPTR_EL1], left = u->config.choices.scribble;
    spu_store_init(u, &store);
    store.address = u->w.eff[R_PMBPTR_EL1];
    store.bytes = noise;
    for (left = left < room ? left : room; left; left -= store.count) {
        store.count = left < sizeof noise ? (size_t)left : sizeof noise;
        host_write(u, &store, &unused);
        store.address += store.count;
    }
}

/* Writes one finished record to the buffer, or drops it. */
static void write_or_drop(struct spex_spu *u, const uint8_t *bytes, size_t size)
{
    spu_sample_now(u);
    bool enabled = u->now.buffer_enabled;
    if ((!enabled && SPEProfilingStopped(u)) || u->w.drop)
        return;
    if (u->w.late.pending) { /* samples after a fault that has not been reported yet */
        if (--u->w.late.samples == 0) {
            spu_late_fault_report(u);
            spu_update(u);
        }
        return;
    }
    if (!enabled) {
        if (u->config.choices.late_write == LATE_NOT_ALLOWED) {
            OtherSPEManagementEvent(u, BSC_NOT_ALLOWED, DL_ONE);
            spu_update(u);
        }
        if (u->config.choices.late_write != LATE_WRITE)
            return;
    }
    uint64_t limit = limit_of(u), pointer = u->w.eff[R_PMBPTR_EL1];
    if (pointer > limit || limit - pointer < size || pointer >> 56 != limit >> 56) {
        spu_pointer_violation(u); /* pointer_rule_at=record, or moved while enabled */
        spu_update(u);
        return;
    }
    bool whole = write_record(u, bytes, size);
    if (whole && has_room(u))
        return;
    if (whole) {
        buffer_full(u, DL_UNCHANGED);
        if (u->config.choices.scribble)
            scribble(u);
    }
    if (SPEProfilingStopped(u))
        spu_update(u);
}

void spu_buffer_drain(struct spex_spu *u, size_t keep)
{
    while (u->w.held_count > keep) {
        uint8_t bytes[SPEX_RECORD_MAX];
        size_t size = (size_t)u->w.held_size[0];
        memcpy(bytes, u->held[0], size);
        u->w.held_count--;
        for (size_t i = 0; i < u->w.held_count; i++) {
            u->w.held_size[i] = u->w.held_size[i + 1];
            memcpy(u->held[i], u->held[i + 1], (size_t)u->w.held_size[i]);
        }
        write_or_drop(u, bytes, size);
    }
}

static uint64_t held_bytes(const struct spex_spu *u)
{
    uint64_t all = 0;
    for (size_t i = 0; i < u->w.held_count; i++)
        all += u->w.held_size[i];
    return all;
}

void spu_buffer_record(struct spex_spu *u, const uint8_t *bytes, size_t size)
{
    size_t keep = (size_t)u->config.choices.hold;
    /*
     * A full buffer is reported before another operation is sampled, so the record that fills
     * it cannot be held back.
     */
    if (!keep || !has_room_after(u, held_bytes(u) + size)) {
        if (u->w.held_count)
            spu_buffer_drain(u, 0);
        write_or_drop(u, bytes, size);
        return;
    }
    spu_buffer_drain(u, keep - 1);
    u->w.held_size[u->w.held_count] = size;
    memcpy(u->held[u->w.held_count++], bytes, size);
    if (!ProfilingBufferEnabled(u)) { /* an older record stopped it, or it was closed before */
        spu_buffer_closed(u);
        if (SPEProfilingStopped(u))
            spu_update(u);
    }
}

/* D17.4: collected but unwritten records are discarded. */
void spu_buffer_closed(struct spex_spu *u)
{
    if (SPEProfilingStopped(u)) {
        u->w.held_count = 0;
        u->w.late.pending = 0;
        return;
    }
    spu_late_fault_report(u);
    spu_buffer_drain(u, 0);
    spu_late_fault_report(u); /* no more samples will come */
}

bool spex_spu_impdef_event(struct spex_spu *u, uint16_t mss, uint32_t mss2)
{
    assert(u);
    spex_spu_flush(u);
    if (!u->config.choices.impdef_event || !spu_report_impdef(u, mss, mss2, DL_UNCHANGED))
        return false;
    spu_update(u);
    return true;
}
