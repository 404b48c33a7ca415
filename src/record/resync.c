/*
 * Resynchronization after damage. A record that is whole and has nothing odd is never
 * questioned. For any other, this looks for a whole record that begins elsewhere in the same
 * bytes and ends where this one does.
 */
#include "record/resync.h"

#include "record/reader.h"
#include "wire/headers.h"

#include <string.h>

enum { PC_HEADER = WIRE_ADDRESS | SPEX_ADDRESS_PC };
#define CHAIN_VALID                                                                                \
    BIT(31) /* packets lead from here to a closing one; none repeated, none reserved */
#define CHAIN_START BIT(30) /* CHAIN_WHOLE, and they form a whole record */

struct chain {
    uint32_t slots; /* slots of the packets from here on, and the flags above */
    uint16_t end;   /* end of the closing packet */
    uint16_t pc;    /* last header byte of the PC packet */
    uint8_t length; /* length of the packet here */
};

/*
 * For every byte of data, the record that would begin there. Computed from the last byte
 * backwards, one step per byte. Records must end at end_low or later.
 */
static void follow_chains(const uint8_t *data, size_t size, size_t end_low, struct chain *chain)
{
    memset(chain + size, 0, sizeof *chain * (SPEX_PACKET_MAX + 1));
    for (size_t i = size; i-- > 0;) {
        struct spex_packet packet;
        chain[i] = (struct chain){0};
        if (!wire_decode(data + i, size - i, &packet))
            continue;
        uint32_t slot = SLOT_BITS(slot_of(&packet));
        size_t next = i + spex_packet_length(&packet);
        if (slot & HAS_CLOSING) {
            if (next >= end_low)
                chain[i] = (struct chain){.slots = CHAIN_VALID | slot, .end = (uint16_t)next};
            continue;
        }
        struct chain here = chain[next];
        if (!(here.slots & CHAIN_VALID) || slot == HAS_RESERVED ||
            (here.slots & slot & ~(uint32_t)SPEX_HAS_OTHER) || here.end - i > SPEX_RECORD_MAX)
            continue;
        here.slots = (here.slots & ~(uint32_t)CHAIN_START) | slot;
        here.length = (uint8_t)(next - i);
        if (slot == SPEX_HAS_PC)
            here.pc = (uint16_t)(i + packet.header_size - 1);
        if (slot && (here.slots & HAS_WHOLE) == HAS_WHOLE)
            here.slots |= CHAIN_START;
        chain[i] = here;
    }
}

/* Where to look for a whole record. */
struct search {
    size_t low, high; /* bytes to look at */
    size_t end_low;   /* a record must end here or later */
    size_t limit;     /* a record must begin before this */
    size_t other_pc;  /* where its PC packet's last header byte must not be */
    int first;        /* preferred first header byte; -1: any */
};

/*
 * Finds the latest such record. One that begins with the byte `first` wins; an offset inside
 * the first packet of another such record does not count.
 */
static bool find_whole(const uint8_t *data, struct search s, size_t *found)
{
    struct chain chain[RESYNC_WINDOW + SPEX_PACKET_MAX + 1];
    if (s.high - s.low > RESYNC_WINDOW)
        s.low = s.high - RESYNC_WINDOW;
    /* Every whole record has a PC packet: without the byte there is nothing to find. */
    bool pc = false;
    for (size_t i = s.low; i < s.high && !pc; i++)
        pc = data[i] == PC_HEADER && i != s.other_pc;
    if (!pc || s.limit <= s.low)
        return false;
    data += s.low;
    follow_chains(data, s.high - s.low, s.end_low - s.low, chain);
    for (int any = s.first < 0; any < 2; any++) {
        for (size_t i = s.limit - s.low; i-- > 0;) {
#define FITS(i)                                                                                    \
    ((chain[i].slots & CHAIN_START) && s.low + chain[i].pc != s.other_pc &&                        \
     (any || data[i] == s.first))
            if (!FITS(i))
                continue;
            size_t best = i;
            for (size_t j = i; j-- > 0 && i - j < SPEX_PACKET_MAX;)
                if (FITS(j) && j + chain[j].length > i)
                    best = j;
            *found = s.low + best;
            return true;
        }
    }
    return false;
}

/* Damage from one stream offset to another; reading goes on at next. */
static enum spex_status give_up(struct spex_reader *reader, enum spex_status status, uint64_t from,
                                uint64_t to, size_t next, const char *reason,
                                struct spex_damage *damage)
{
    if (damage)
        *damage = (struct spex_damage){
            .status = status, .offset = from, .size = to - from, .reason = reason};
    reader->position = next;
    return status;
}

enum spex_status resync(struct spex_reader *reader, size_t size, size_t start,
                        const struct run *run, enum outcome outcome, struct spex_damage *damage)
{
    const uint8_t *data = reader->data;
    const uint64_t base = reader->base;
    if (outcome == RUN_OVERLONG)
        return give_up(reader, SPEX_INVALID, base + start, base + run->end, run->next,
                       "no closing packet within 2048 bytes", damage);
    if (outcome == RUN_CLOSED && run->close == start)
        return give_up(reader, SPEX_INVALID, base + start, base + run->end, run->end,
                       "a closing packet without a record", damage);
    struct search search = {
        .low = reader->good.floor,
        .high = run->next,
        .end_low = run->next,
        .limit = run->next,
        /*
         * Unknown packets alone do not justify splitting a whole record: the other record needs
         * its own PC packet.
         */
        .other_pc =
            outcome == RUN_CLOSED && !run->repeated && run_is_whole(run) ? run->pc : SIZE_MAX,
        .first = reader->good.first,
    };
    if (outcome == RUN_UNCLOSED) {
        /* A record may end before trailing padding, or within a Timestamp's own zero bytes. */
        size_t end = size;
        while (!data[end - 1]) /* no record begins with a zero byte */
            end--;
        search.end_low = end;
        search.limit = search.high = size - end > 8 ? end + 8 : size;
    }
    size_t found;
    bool better = find_whole(data, search, &found);
    if (!better && outcome == RUN_CLOSED) {
        /* The closing packet may actually be payload of a record that ends later. */
        struct spex_record ignored = {0};
        struct run after;
        if (run_packets(data, size, run->next, &ignored, &after) == RUN_CLOSED &&
            (!run_is_whole(&after) || run_is_odd(&after, &ignored))) {
            search.high = search.end_low = after.next;
            better = find_whole(data, search, &found);
        }
    }
    if (better && found > start)
        return give_up(reader, SPEX_INVALID, base + start, base + found, found,
                       "damaged record: a whole one begins behind it", damage);
    if (better)
        return give_up(reader, SPEX_INVALID, reader->good.close, base + found, found,
                       "damaged closing packet: a whole record begins inside it", damage);
    if (outcome == RUN_UNCLOSED)
        return give_up(
            reader, SPEX_TRUNCATED, base + start, base + (run->cut ? size : run->end), size,
            run->cut ? "the data ends inside a packet" : "the data ends before the closing packet",
            damage);
    if (run->repeated)
        return give_up(reader, SPEX_INVALID, base + start, base + run->end, run->next,
                       "a packet comes twice in one record", damage);
    return SPEX_OK;
}
