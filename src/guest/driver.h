/*
 * Does to the unit's registers what Linux's arm_spe_pmu driver does, in the same order: probe,
 * start, interrupt, stop. The user-mode engine has no kernel, so this takes its place. Nothing here
 * depends on QEMU.
 */
#ifndef GUEST_DRIVER_H
#define GUEST_DRIVER_H

#include "spu/config.h"

/* The parts of perf_event_attr that the driver reads. */
struct driver_event {
    uint64_t config[5];
    uint64_t period;
};

struct driver_caps {
    unsigned version;      /* PMSVer */
    unsigned min_interval; /* recommended, operations */
    unsigned max_record;   /* bytes */
    unsigned align;        /* bytes */
    uint64_t event_filter; /* PMSEVFR_EL1 bits that can be written */
    uint64_t id;           /* PMSIDR_EL1 */
};

/* The unit must have been booted. SPEX_UNSUPPORTED with the reason that the driver would have. */
enum spex_status driver_probe(struct spex_spu *unit, struct driver_caps *caps,
                              struct spex_error *error);

/*
 * Event initialisation. On SPEX_UNSUPPORTED or SPEX_RANGE the error names the term and what is
 * allowed. Clamps the period as the driver does.
 */
enum spex_status driver_init_event(const struct driver_caps *caps, struct driver_event *event,
                                   struct spex_error *error);

/* The Profiling Buffer: addresses as the unit sees them, multiples of 4096. */
struct driver_buffer {
    uint64_t base, limit;
};

/* Starts profiling; from here on the PE is at EL0. context: CONTEXTIDR_EL1. */
void driver_start(struct spex_spu *unit, const struct driver_event *event,
                  const struct driver_buffer *buffer, uint32_t context);

enum driver_irq {
    DRIVER_SPURIOUS,
    DRIVER_FULL,  /* all is well: continue with driver_resume and the next buffer */
    DRIVER_FATAL, /* a fault, or a reason that the driver does not know: profiling ends */
};

/* PMBIRQ is high. Sets the PERF_RECORD_AUX flags and where the data ends. */
enum driver_irq driver_interrupt(struct spex_spu *unit, uint32_t *aux_flags, uint64_t *end);
void driver_resume(struct spex_spu *unit, const struct driver_event *event,
                   const struct driver_buffer *buffer);

/* Drains and switches off. Sets the flags of the last AUX record and where the data ends. */
void driver_stop(struct spex_spu *unit, uint32_t *aux_flags, uint64_t *end);

enum { /* PERF_RECORD_AUX */
       DRIVER_AUX_TRUNCATED = 1,
       DRIVER_AUX_PARTIAL = 4,
       DRIVER_AUX_COLLISION = 8,
};

#endif
