#include "account/plain.h"

#include <string.h>

static inline uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void plain_init(struct plain *p, const struct uarch_config *c)
{
    memset(p, 0, sizeof *p);
    p->c = c;
    account_latencies(c, p->latency);
    p->parts = account_parts(c);
    p->share = (p->parts + c->width - 1) / c->width;
    p->dispatch = p->begin = 65536 - p->parts;
}

void plain_restart(struct plain *p, uint64_t cycle)
{
    p->retire = cycle;
    p->dispatch = cycle << 16 | p->begin;
}

/* Stores leave the buffer in order, a limited number per cycle. */
static void leave_buffer(struct plain *p, uint64_t when)
{
    if (when > p->drain) {
        p->drain = when;
        p->drained = 1;
    } else if (++p->drained > p->c->pipes_store) {
        p->drain++;
        p->drained = 1;
    }
    p->store_drained[p->stores++ % PLAIN_STORES] = p->drain;
}

static size_t place_slot(uint64_t place)
{
    return place * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (PLAIN_PLACES - 1);
}

/* When a load gets its data from a store that is still in the buffer; otherwise `done`. */
static uint64_t forwarded(const struct plain *p, uint64_t place, uint64_t issue, uint64_t done)
{
    const size_t i = place_slot(place);
    const uint64_t n = p->stored[i].number;
    if (!place || p->stored[i].place != place || p->stores - n > p->c->stores ||
        p->store_drained[n % PLAIN_STORES] <= issue)
        return done;
    return later(issue, p->stored[i].data) + p->c->forward;
}

/* The first cycle in which the window and the queues have room. */
static uint64_t room(const struct plain *p, unsigned kind)
{
    const struct uarch_config *c = p->c;
    uint64_t at = p->number >= c->rob ? p->retired[(p->number - c->rob) % PLAIN_WINDOW] : 0;
    if (kind == ACCOUNT_LOAD && p->loads >= c->loads)
        at = later(at, p->load_retired[(p->loads - c->loads) % PLAIN_LOADS]);
    if ((kind == ACCOUNT_STORE || kind == ACCOUNT_ATOMIC) && p->stores >= c->stores)
        at = later(at, p->store_drained[(p->stores - c->stores) % PLAIN_STORES]);
    return at;
}

struct account_insn plain_run(struct plain *p, const struct account_op *u,
                              const struct plain_access *access)
{
    const uint64_t free = room(p, u->kind) << 16 | p->begin;
    struct account_insn n;
    p->dispatch = later(p->dispatch, free);
    n.dispatch = p->dispatch >> 16;
    n.issue = n.dispatch + 1;
    p->dispatch = account_after(p->dispatch, p->share, p->begin);
    for (unsigned s = 0; s < sizeof u->src && u->src[s] != ACCOUNT_NO_SOURCE; s++)
        n.issue = later(n.issue, p->ready[u->src[s]]);
    if (u->kind == ACCOUNT_DIVIDE)
        n.issue = later(n.issue, p->ready[u->divider]);
    if (u->kind == ACCOUNT_BARRIER)
        n.issue = later(n.issue, later(p->retire, p->drain));
    n.done = n.issue + u->latency;
    if (u->kind == ACCOUNT_LOAD || u->kind == ACCOUNT_ATOMIC)
        n.done = later(n.issue + access->took, sooner(access->until, n.issue + access->most));
    if (u->kind == ACCOUNT_LOAD)
        n.done = forwarded(p, access->place, n.issue, n.done);
    p->retire = n.retire = later(p->retire, n.done);
    p->retired[p->number++ % PLAIN_WINDOW] = p->retire;
    for (unsigned d = 0; d < sizeof u->dst; d++)
        p->ready[u->dst[d]] = n.done;
    for (unsigned d = 0; u->base >> d; d++)
        if (u->base >> d & 1)
            p->ready[u->dst[d]] = n.issue + p->c->lat_alu;
    p->ready[ACCOUNT_NO_DEST] = 0;
    if (u->kind == ACCOUNT_DIVIDE)
        p->ready[u->divider] = n.done;
    if (u->kind == ACCOUNT_BARRIER)
        p->dispatch = later(p->dispatch, n.done << 16 | p->begin);
    if (u->kind == ACCOUNT_LOAD)
        p->load_retired[p->loads++ % PLAIN_LOADS] = p->retire;
    if (u->kind == ACCOUNT_STORE || u->kind == ACCOUNT_ATOMIC) {
        const size_t i = place_slot(access->place);
        p->stored[i].place = access->place;
        p->stored[i].data = n.done;
        p->stored[i].number = p->stores;
        leave_buffer(p, p->retire);
    }
    return n;
}

static void delay(struct plain *p, uint64_t by)
{
    if (!by)
        return;
    p->dispatch = account_after(p->dispatch, by / p->parts << 16 | by % p->parts, p->begin);
}

void plain_ports(struct plain *p, uint64_t extra)
{
    delay(p, extra);
}

void plain_taken(struct plain *p, uint32_t count, uint64_t extra, uint32_t cycles, bool pair)
{
    const uint64_t own = count * p->share + extra;
    const uint64_t least = (uint64_t)cycles * p->parts / (pair ? 2 : 1);
    if (least > own)
        delay(p, least - own);
}

void plain_mispredicted(struct plain *p, uint64_t done)
{
    p->dispatch = later(p->dispatch, (done + p->c->mispredict) << 16 | p->begin);
}
