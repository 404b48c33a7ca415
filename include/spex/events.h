/*
 * Bits of the Events packet (Arm ARM D18.2.6), which are also those of PMSEVFR_EL1: the PE
 * reports them, records hold them, filters select by them. All come from events.def.
 */
#ifndef SPEX_EVENTS_H
#define SPEX_EVENTS_H

/* SPEX_EV_EXCEPTION = 0, SPEX_EV_RETIRED = 1, ... */
enum spex_event_bit {
#define SPEX_EVENT(bit, constant, name, perf_name, perf) SPEX_EV_##constant = (bit),
#include <spex/events.def>
};

#endif
