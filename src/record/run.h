/*
 * One run of packets: from a record's first packet to its closing one, or to where it breaks
 * off.
 */
#ifndef RECORD_RUN_H
#define RECORD_RUN_H

#include "base/bits.h"
#include "record/slots.h"

enum outcome {
    RUN_CLOSED,
    RUN_UNCLOSED, /* the data ends */
    RUN_OVERLONG, /* more than SPEX_RECORD_MAX bytes */
};

struct run {
    uint32_t seen; /* slots */
    bool repeated; /* an architected packet occurred twice */
    bool cut;      /* unclosed: inside a packet */
    size_t pc;     /* offset of the PC packet's last header byte, if there is one */
    size_t close;  /* closed: offset of the closing packet */
    size_t end;    /* end of the last packet other than padding */
    size_t next;   /* where the run stopped */
};

/* Fills every field of *record except offset, size and present. */
enum outcome run_packets(const uint8_t *data, size_t size, size_t start, struct spex_record *record,
                         struct run *run);

static inline bool run_is_whole(const struct run *run)
{
    return (run->seen & HAS_WHOLE) == HAS_WHOLE;
}

/*
 * Whether the operation was not executed or took an exception: such a record may lack anything
 * else (D17.6).
 */
static inline bool events_excuse(uint64_t events)
{
    return (events & (BIT(SPEX_EV_RETIRED) | BIT(SPEX_EV_EXCEPTION))) != BIT(SPEX_EV_RETIRED);
}

/* Whether the run shows signs of damage, or a packet that we do not know. */
static inline bool run_is_odd(const struct run *run, const struct spex_record *record)
{
    return run->repeated || (run->seen & HAS_RESERVED) == HAS_RESERVED ||
           (!run_is_whole(run) &&
            !((run->seen & SPEX_HAS_EVENTS) && events_excuse(record->events)));
}

#endif
