/* Guesses where a record begins in the middle of a stream, for readers that share the work. */
#include "record/run.h"

#include <assert.h>

/* Reads the record at *start, after padding; false unless it is certainly good. */
static bool clean_record(const uint8_t *data, size_t size, size_t *start, struct run *run,
                         struct spex_record *record)
{
    while (*start < size && data[*start] == 0)
        ++*start;
    return *start < size && run_packets(data, size, *start, record, run) == RUN_CLOSED &&
           run->close > *start && !run_is_odd(run, record);
}

/*
 * Packets read from a wrong offset soon fall into step with the right ones. So this begins some
 * way before, at what looks like a whole record. That first one may be wrong, but those after
 * it hardly ever are.
 */
bool spex_record_find(const uint8_t *data, size_t size, size_t from, size_t to,
                      struct spex_record *before, size_t *start)
{
    assert((data || !size) && before && start);
    enum { SURE = 3, BACK = 1024, FAR = 4 * SPEX_RECORD_MAX };
    to = to < size ? to : size; /* no record begins at the end */
    size_t first = from > BACK ? from - BACK : 0, last = to;
    if (last > first && last - first > FAR)
        last = first + FAR;
    for (; first < last; first++) {
        struct spex_record record, next, last_one;
        struct run run;
        size_t at = first, count = 0;
        if (!data[first] || !clean_record(data, size, &at, &run, &record) || !run_is_whole(&run))
            continue;
        while (at < from || count < SURE) {
            record.offset = at;
            record.size = (uint16_t)(run.end - at);
            record.present = (uint16_t)run.seen;
            last_one = record;
            at = run.end;
            if (!clean_record(data, size, &at, &run, &next) || at >= to)
                break;
            record = next;
            count++;
        }
        if (at >= from && at < to && count >= SURE) {
            *before = last_one;
            *start = at;
            return true;
        }
    }
    return false;
}
