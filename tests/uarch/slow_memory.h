/* Lists of lines, memory, and the data side of the slow model. */
#ifndef TESTS_UARCH_SLOW_MEMORY_H
#define TESTS_UARCH_SLOW_MEMORY_H

#include "uarch/slow.h"

#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;

enum { SHARED = 1, EXCLUSIVE = 2, MODIFIED = 3 };

struct line {
    u64 line; /* address */
    unsigned state;
    u64 ready;
    bool ahead, dirty;
    unsigned from;
};

/* Lines of one set, most recently used (or put in) first. */
struct set {
    struct line *line;
    unsigned count;
};

struct cache {
    struct set *set;
    unsigned sets, ways;
};

static inline struct cache cache_of(unsigned lines, unsigned ways)
{
    struct cache c = {.sets = lines / ways, .ways = ways};
    c.set = calloc(c.sets, sizeof *c.set);
    for (unsigned i = 0; i < c.sets; i++)
        c.set[i].line = calloc(ways + 1, sizeof(struct line));
    return c;
}

static inline void cache_free(struct cache *c)
{
    for (unsigned i = 0; i < c->sets; i++)
        free(c->set[i].line);
    free(c->set);
}

static inline struct set *set_of(const struct cache *c, u64 line)
{
    return &c->set[line / 64 % c->sets];
}

static inline struct line *line_find(const struct cache *c, u64 line)
{
    struct set *s = set_of(c, line);
    for (unsigned i = 0; i < s->count; i++)
        if (s->line[i].line == line)
            return &s->line[i];
    return NULL;
}

static inline void line_remove(struct cache *c, u64 line)
{
    struct set *s = set_of(c, line);
    struct line *l = line_find(c, line);
    if (l) {
        memmove(l, l + 1, (size_t)(s->line + s->count - l - 1) * sizeof *l);
        s->count--;
    }
}

/* Puts a line first. If the set has too many then, the last one is the victim: true. */
static inline bool line_add(struct cache *c, struct line line, struct line *victim)
{
    struct set *s = set_of(c, line.line);
    memmove(s->line + 1, s->line, s->count * sizeof *s->line);
    s->line[0] = line;
    if (++s->count <= c->ways)
        return false;
    *victim = s->line[--s->count];
    return true;
}

static inline struct line *line_use(struct cache *c, u64 line)
{
    struct line *l = line_find(c, line), copy, unused;
    if (!l)
        return NULL;
    copy = *l;
    line_remove(c, line);
    line_add(c, copy, &unused);
    return &set_of(c, line)->line[0];
}

/* So many lines in every 64 cycles. */
struct server {
    unsigned lines;
    unsigned *taken;
    size_t size;
};

static inline unsigned *server_at(struct server *s, u64 bucket)
{
    if (bucket >= s->size) {
        size_t more = bucket * 2 + 1024;
        s->taken = realloc(s->taken, more * sizeof *s->taken);
        memset(s->taken + s->size, 0, (more - s->size) * sizeof *s->taken);
        s->size = more;
    }
    return &s->taken[bucket];
}

static inline u64 serve(struct server *s, u64 t)
{
    u64 bucket = t / 64;
    while (*server_at(s, bucket) >= s->lines)
        bucket++;
    ++*server_at(s, bucket);
    return bucket * 64 > t ? bucket * 64 : t;
}

#endif
