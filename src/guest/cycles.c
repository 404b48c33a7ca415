#include "cycles.h"

#include <assert.h>

#define OPERATION(c, n) (&(c)->operation[(n) % CYCLES_OPERATIONS])

static void add(struct cycles *c, uint64_t number, uint64_t parts)
{
    OPERATION(c, number)->parts += parts;
    OPERATION(c, number)->row->cycles += parts;
}

/* Slots up to `to` are the operation's. */
static void give(struct cycles *c, uint64_t number, uint64_t to, uint64_t width)
{
    if (to > c->slots) {
        add(c, number, (to - c->slots) * (RUN_CYCLE / width));
        c->slots = to;
    }
}

/* Slots up to `to` are of the oldest operations there are; if all have retired, the rest stays. */
static void give_oldest(struct cycles *c, uint64_t to, uint64_t width)
{
    for (; c->slots < to && c->oldest != c->number; c->oldest++) {
        const uint64_t retire = OPERATION(c, c->oldest)->retire * width;
        give(c, c->oldest, retire < to ? retire : to, width);
        if (retire > to)
            break;
    }
}

/* Slots up to `to` are of all operations of the last block. */
static void give_block(struct cycles *c, uint64_t to, uint64_t width)
{
    if (to <= c->slots)
        return;
    const uint64_t parts = (to - c->slots) * (RUN_CYCLE / width), count = c->number - c->first;
    for (uint64_t i = c->first; i != c->number; i++)
        add(c, i, parts / count);
    add(c, c->first, parts % count);
    c->slots = to;
}

static void settle(struct cycles *c)
{
    const uint64_t n = c->settled++;
    OPERATION(c, n + 1)->before = OPERATION(c, n)->before + OPERATION(c, n)->parts;
    c->oldest = c->oldest > c->settled ? c->oldest : c->settled;
}

void cycles_drain(struct cycles *c, const struct spex_uarch_config *config)
{
    give_oldest(c, c->retire * config->width, config->width);
    cycles_forked(c);
}

void cycles_forked(struct cycles *c)
{
    while (c->settled != c->number)
        settle(c);
    c->first = c->number;
    c->ports = 0;
    c->wrong = false;
}

void cycles_count(struct cycles *c, const struct spex_uarch_config *config,
                  const struct block *block, const struct spex_timing_run *run, uint64_t clock)
{
    const uint64_t width = config->width, ready = run->ready, first = c->number;
    const struct spex_timing_insn *last = &run->insns[run->executed - 1];
    assert(config->rob + 2ull * run->executed < CYCLES_OPERATIONS);
    if (clock != c->retire) { /* time has passed otherwise: in a system call, or waiting */
        cycles_drain(c, config);
        c->slots = clock * width;
    }
    give_block(c, c->ports < ready ? c->ports : ready, width);
    if (c->wrong)
        give(c, first - 1, c->again < ready ? c->again : ready, width);
    while (c->settled != first && OPERATION(c, c->settled)->retire * width <= c->slots)
        settle(c);
    for (uint32_t i = 0; i < run->executed; i++) {
        const uint64_t slot = run->insns[i].dispatch * width, number = c->number++;
        OPERATION(c, number)->retire = run->insns[i].retire;
        OPERATION(c, number)->row = block->insns[i].truth;
        OPERATION(c, number)->parts = 0;
        if (!i)
            give(c, number, ready, width); /* the front end had it no earlier */
        give_oldest(c, slot, width);
        give(c, number, c->slots + 1, width);
    }
    c->retire = last->retire;
    c->first = first;
    c->ports = run->ports;
    c->wrong = run->mispredicted || run->cut;
    c->again = ((run->cut ? last->retire : last->done) + config->mispredict) * width;
}

uint64_t cycles_before(const struct cycles *c, uint64_t number)
{
    assert(number <= c->settled && c->number - number < CYCLES_OPERATIONS);
    return OPERATION(c, number)->before;
}
