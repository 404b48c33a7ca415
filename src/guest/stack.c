#include "stack.h"

#include "need.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS UINT64_C(3)

static struct stack_frame *frames_of(const struct stack *s)
{
    return s->room->frames;
}

static size_t top_of(const struct stack *s)
{
    return (size_t)(s->top - s->room->frames);
}

void stack_begin(struct stack *s)
{
    if (!s->room)
        s->room = need(calloc(1, sizeof *s->room)); /* pages that are not touched cost nothing */
    s->room->frames[0] = (struct stack_frame){STACK_DOUBT, UINT64_MAX};
    s->room->signal_count = 0;
    s->top = s->room->frames;
    s->end = s->room->frames + STACK_ROOM;
    s->gap = 0;
    s->moved = false;
}

void stack_end(struct stack *s)
{
    free(s->room);
    *s = (struct stack){0};
}

/* Ends the frames after number i, and each handler whose frames have all ended. */
static void cut_to(struct stack *s, size_t i)
{
    struct stack_room *room = s->room;
    s->top = room->frames + i;
    while (room->signal_count && room->signals[room->signal_count - 1] > i + 1)
        room->signal_count--;
    if (s->gap && i < s->gap)
        s->gap = 0;
}

/* Drops frames in the middle, since there is no room. */
static void make_room(struct stack *s)
{
    struct stack_frame *f = frames_of(s);
    size_t top = top_of(s);
    memmove(f + STACK_KEPT + 1, f + top - STACK_KEPT + 1, STACK_KEPT * sizeof *f);
    s->room->signal_count = 0; /* it is not known any more where they are */
    s->gap = STACK_KEPT;
    s->top = f + 2 * STACK_KEPT;
}

static void push(struct stack *s, uint64_t back, uint64_t sp)
{
    if (s->top == s->end)
        make_room(s);
    *++s->top = (struct stack_frame){back, sp};
}

/* The first frame of the innermost handler, or of the thread. */
static size_t first_of(const struct stack_room *room, size_t handlers)
{
    return handlers ? room->signals[handlers - 1] : 1;
}

/*
 * Among frames first..last, whose stack pointers decrease: the last one that is not below sp, or
 * first-1.
 */
static size_t last_above(const struct stack_frame *f, size_t first, size_t last, uint64_t sp)
{
    size_t low = first, high = last + 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (f[middle].sp >= sp)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* Ends the frame that returns to pc with this stack pointer, if there is one, and all above it. */
static bool match(struct stack *s, uint64_t pc, uint64_t sp)
{
    const struct stack_frame *f = frames_of(s);
    size_t last = top_of(s);
    for (size_t handlers = s->room->signal_count + 1; handlers-- > 0;) {
        size_t first = first_of(s->room, handlers);
        for (size_t i = last_above(f, first, last, sp); i >= first && f[i].sp == sp; i--)
            if ((f[i].back & ~FLAGS) == pc && !(f[i].back & STACK_SIGNAL)) {
                cut_to(s, i - 1);
                return true;
            }
        last = first - 1;
    }
    return false;
}

/*
 * The function that called something at this stack pointer continues: what it called has ended.
 * False if there is none.
 */
static bool unwind(struct stack *s, uint64_t sp)
{
    const struct stack_frame *f = frames_of(s);
    size_t last = top_of(s);
    for (size_t handlers = s->room->signal_count + 1; handlers-- > 0;) {
        size_t first = first_of(s->room, handlers), i = last_above(f, first, last, sp);
        if (i >= first && f[i].sp == sp) {
            while (i >= first && f[i].sp == sp)
                i--;
            cut_to(s, i);
            return true;
        }
        last = first - 1;
    }
    return false;
}

/* Ends frames up to sp; doubt: this may be wrong. */
static void drop(struct stack *s, uint64_t sp, bool doubt)
{
    struct stack_frame *f = frames_of(s);
    size_t top = top_of(s), first = first_of(s->room, s->room->signal_count), i = top;
    while (i >= first && f[i].sp <= sp)
        i--;
    if (i == top)
        return;
    cut_to(s, i);
    if (doubt && i && i != s->gap)
        f[i].back |= STACK_DOUBT;
}

/* ---- other stacks ---- */

struct parked {
    struct stack_frame *frames; /* its frames */
    uint32_t count, gap, signal_count;
    uint32_t signals[STACK_SIGNALS];
    uint64_t since;
};

/* Shared by the process: a coroutine may continue in another thread. */
static struct {
    pthread_mutex_t lock;
    uint64_t sp[STACK_PARKED]; /* stack pointer of each innermost frame; 0: free */
    struct parked stacks[STACK_PARKED];
    size_t bytes, used;
    uint64_t clock;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

void stack_forked(void)
{
    pthread_mutex_init(&all.lock, NULL);
}

static void forget(size_t i)
{
    all.bytes -= all.stacks[i].count * sizeof *all.stacks[i].frames;
    free(all.stacks[i].frames);
    all.stacks[i].frames = NULL;
    all.sp[i] = 0;
    while (all.used && !all.sp[all.used - 1])
        all.used--;
}

/* A slot for a stack with this stack pointer, which is unique. */
static size_t slot_for(uint64_t sp, size_t bytes)
{
    for (;;) {
        size_t slot = STACK_PARKED, oldest = STACK_PARKED;
        for (size_t i = 0; i < all.used; i++) {
            if (all.sp[i] == sp)
                forget(i);
            if (!all.sp[i])
                slot = i;
            else if (oldest == STACK_PARKED || all.stacks[i].since < all.stacks[oldest].since)
                oldest = i;
        }
        if (slot == STACK_PARKED && all.used < STACK_PARKED)
            slot = all.used;
        if (slot < STACK_PARKED && (all.bytes + bytes <= STACK_BYTES || oldest == STACK_PARKED)) {
            all.used = slot < all.used ? all.used : slot + 1;
            return slot;
        }
        forget(oldest);
    }
}

static void park(struct stack *s)
{
    size_t count = top_of(s), bytes = count * sizeof *s->top;
    if (!count)
        return;
    struct stack_frame *copy = need(malloc(bytes));
    memcpy(copy, frames_of(s) + 1, bytes);
    size_t i = slot_for(s->top->sp, bytes);
    struct parked *p = &all.stacks[i];
    all.sp[i] = s->top->sp;
    all.bytes += bytes;
    *p = (struct parked){.frames = copy,
                         .count = (uint32_t)count,
                         .gap = s->gap,
                         .signal_count = s->room->signal_count,
                         .since = ++all.clock};
    memcpy(p->signals, s->room->signals, sizeof p->signals);
}

static void unpark(struct stack *s, struct parked *p, uint64_t by)
{
    struct stack_room *room = s->room;
    stack_begin(s);
    memcpy(room->frames + 1, p->frames, p->count * sizeof *p->frames);
    for (size_t i = 1; by && i <= p->count; i++)
        room->frames[i].sp += by;
    memcpy(room->signals, p->signals, sizeof room->signals);
    room->signal_count = p->signal_count;
    s->gap = p->gap;
    s->top = room->frames + p->count;
}

/* Does this stack expect control to return to pc? */
static bool waits_for(const struct parked *p, uint64_t pc)
{
    uint64_t sp = p->frames[p->count - 1].sp;
    for (size_t i = p->count; i-- > 0 && p->frames[i].sp == sp;)
        if ((p->frames[i].back & ~FLAGS) == pc)
            return true;
    return false;
}

/* How certain it is that control came back to a stack that was left. */
enum resume {
    RESUME_CALL,   /* control went to a return address, with that call's stack pointer */
    RESUME_INSIDE, /* inside the function that left, at that stack pointer (glibc's swapcontext) */
    RESUME_COPIED, /* control went to a return address, but the stack has moved (Go) */
};

static size_t find_parked(uint64_t pc, uint64_t sp, enum resume how)
{
    size_t found = STACK_PARKED;
    for (size_t i = 0; i < all.used; i++) {
        if (!all.sp[i] || (how != RESUME_COPIED && all.sp[i] != sp) ||
            (how != RESUME_INSIDE && !waits_for(&all.stacks[i], pc)))
            continue;
        if (found == STACK_PARKED || all.stacks[i].since > all.stacks[found].since)
            found = i;
    }
    return found;
}

static bool resume(struct stack *s, const struct stack_arrival *a, enum resume how)
{
    pthread_mutex_lock(&all.lock);
    size_t found = find_parked(a->pc, a->sp, how);
    if (found < STACK_PARKED) {
        struct parked p = all.stacks[found];
        uint64_t by = a->sp - all.sp[found];
        all.stacks[found].frames = NULL;
        forget(found);
        park(s);
        unpark(s, &p, by);
        free(p.frames);
        match(s, a->pc, a->sp);
    }
    pthread_mutex_unlock(&all.lock);
    return found < STACK_PARKED;
}

/* Begins a new stack: a coroutine, which returns to X30 at its end. */
static void begin_other(struct stack *s, const struct stack_arrival *a)
{
    pthread_mutex_lock(&all.lock);
    park(s);
    pthread_mutex_unlock(&all.lock);
    stack_begin(s);
    if (a->turn != STACK_CALL && a->x30)
        push(s, (a->x30 & ~FLAGS) | (a->x29 ? STACK_DOUBT : 0), a->sp);
}

/* ---- arrivals ---- */

/* Go's frame record is below the stack pointer: 8 bytes, 24 while it clears or copies memory. */
enum { RECORD_BELOW = 24 };

/* The stack pointer was set from a register: it is on another stack, or elsewhere on this one. */
static void moved(struct stack *s, const struct stack_arrival *a)
{
    bool call = a->turn == STACK_CALL;
    bool back = a->turn == STACK_RETURN || (!call && a->pc == a->x30);
    const struct stack_frame *f = frames_of(s);
    if (!call && resume(s, a, RESUME_CALL))
        return;
    if (back && (unwind(s, a->sp) || resume(s, a, RESUME_INSIDE))) /* unwind: longjmp */
        return;
    if (!call && (a->sp == s->top->sp || resume(s, a, RESUME_COPIED)))
        return; /* equal: a tail call */
    if (a->sp <= s->top->sp && a->x29 + RECORD_BELOW >= a->sp && a->x29 <= s->top->sp)
        return; /* alloca, or a large frame: its record is still there */
    if (back && a->sp > s->top->sp && a->sp <= f[first_of(s->room, s->room->signal_count)].sp) {
        drop(s, a->sp, false); /* longjmp to a function that has grown its frame since setjmp */
        return;
    }
    begin_other(s, a);
}

void stack_arrive(struct stack *s, const struct stack_arrival *arrival)
{
    struct stack_arrival a = *arrival;
    s->moved |= (a.turn & STACK_MOVES) != 0;
    a.turn &= STACK_MOVES - 1;
    if (a.turn == STACK_GOES_ON || a.turn == STACK_START)
        return;
    bool other = s->moved;
    s->moved = false;
    if (a.turn != STACK_CALL && match(s, a.pc, a.sp))
        return;
    if (other) {
        moved(s, &a);
    } else if (a.turn == STACK_RETURN || a.sp > s->top->sp) {
        if (!unwind(s, a.sp)) /* an exception is caught */
            drop(s, a.sp, true);
    }
    if (a.turn == STACK_CALL)
        push(s, a.next, a.sp);
}

void stack_signal(struct stack *s, uint64_t pc, uint64_t was, uint64_t sp, uint64_t x30)
{
    struct stack_room *room = s->room;
    push(s, (pc + 4) | STACK_SIGNAL, was);
    push(s, x30 & ~FLAGS, sp);
    if (room->signal_count == STACK_SIGNALS)
        return;
    uint32_t bit = UINT32_C(1) << room->signal_count;
    room->moved = s->moved ? room->moved | bit : room->moved & ~bit;
    s->moved = false;
    room->signals[room->signal_count++] = (uint32_t)top_of(s);
}

void stack_signal_end(struct stack *s, uint64_t pc, uint64_t sp, uint64_t x30)
{
    struct stack_room *room = s->room;
    if (!room->signal_count) { /* return from a handler that was not seen to start */
        if (sp > s->top->sp)
            drop(s, sp - 1, true);
        return;
    }
    size_t interrupted = room->signals[room->signal_count - 1] - 1;
    struct stack_frame at = room->frames[interrupted];
    uint64_t old = (at.back & ~FLAGS) - 4;
    s->moved = room->moved >> (room->signal_count - 1) & 1;
    cut_to(s, interrupted - 1);
    if (pc != old && (x30 & ~FLAGS) == old) /* the handler made it continue in another function */
        push(s, old, at.sp);
    else if (sp != at.sp && sp > s->top->sp)
        drop(s, sp - 1, true);
}

/* ---- samples ---- */

/* Writes the frames from number i down to `last`. */
static size_t put(const struct stack *s, size_t i, size_t last, uint64_t mark, uint64_t *chain,
                  unsigned *notes)
{
    const struct stack_frame *f = frames_of(s);
    size_t n = 0;
    for (; i >= last; i--) {
        bool gap = s->gap == i, doubt = f[i].back & STACK_DOUBT;
        if (gap || doubt) {
            chain[n++] = mark;
            *notes |= gap ? STACK_CUT : STACK_DOUBTED;
        }
        chain[n++] = f[i].back & ~FLAGS;
    }
    return n;
}

size_t stack_chain(const struct stack *s, uint64_t mark, uint64_t *chain, unsigned *notes)
{
    size_t depth = top_of(s), half = STACK_CHAIN / 2 - 1;
    *notes = 0;
    if (depth <= STACK_CHAIN - 2)
        return put(s, depth, 1, mark, chain, notes);
    size_t n = put(s, depth, depth - half + 1, mark, chain, notes);
    chain[n++] = mark;
    *notes |= STACK_CUT;
    return n + put(s, half, 1, mark, chain + n, notes);
}

bool stack_moves(uint32_t w)
{
    unsigned to = w & 31, from = w >> 5 & 31;
    bool immediate = (w & 0xbf800000) == 0x91000000; /* ADD, SUB (immediate), 64 bits */
    bool extended = (w & 0xbfe00000) == 0x8b200000;  /* (extended register) */
    return (immediate || extended) && to == 31 && from != 31 && from != 29;
}
