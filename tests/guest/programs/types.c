/*
 * Data of known types: prints each object as "object|TYPE|ADDRESS|SIZE", and how often each member
 * is used as "count|TYPE|MEMBER|N". Members are volatile, so that each use is one access.
 */
#include <stdio.h>
#include <stdlib.h>

struct inner {
    volatile int x, y;
    volatile double z[4];
};

struct node {
    struct node *volatile next;
    volatile long value;
    volatile int weight;
    struct inner in;
    union {
        volatile double d;
        volatile int i;
    } u;
    volatile unsigned a : 3, b : 29;
    volatile char name[16];
    struct node *volatile other;
};

typedef struct {
    volatile long hits;
    struct {
        volatile short low, high;
    } range;
    volatile float part[3][2];
} state_t;

union both {
    volatile long whole;
    volatile int half[2];
};

struct open {
    volatile long length;
    volatile short data[];
};

state_t state;
struct node table[40];
static struct node *head;
static _Thread_local struct inner mine;

enum { NODES = 64, ROUNDS = 1500 };

#if __has_attribute(noipa)
#define FAR __attribute__((noipa))
#else
#define FAR __attribute__((noinline))
#endif

static void object(const char *type, const volatile void *at, unsigned long size)
{
    printf("object|%s|%p|%lu\n", type, (void *)at, size);
}

static void count(const char *type, const char *member, unsigned long n)
{
    printf("count|%s|%s|%lu\n", type, member, n);
}

FAR long walk(struct node *n)
{
    long sum = 0;
    for (; n; n = n->next) {
        sum += n->value;
        n->weight = (int)sum;
    }
    return sum;
}

FAR void nested(struct node *n, int count_of)
{
    for (int i = 0; i < count_of; i++) {
        n[i].in.y = i;
        n[i].in.z[i & 3] += 2;
        n[i].u.d = i;
        n[i].a = 3;
        n[i].name[i & 15] = 'x';
    }
}

FAR long far_values(void)
{
    long sum = 0;
    for (struct node *n = head; n; n = n->next)
        sum += n->other->value;
    return sum;
}

FAR struct node *pick(struct node *n)
{
    return n;
}

FAR void globals(void)
{
    for (int i = 0; i < NODES; i++) {
        state.hits++;
        state.range.high = (short)i;
        state.part[i % 3][i & 1] = 1;
        table[i % 40].in.x = i;
        pick(head)->in.x = i;
        mine.y = i;
    }
}

FAR long locals(int n)
{
    struct inner here = {0};
    struct node there[3];
    printf("local|struct inner|%p|%zu\n", (void *)&here, sizeof here);
    printf("local|struct node|%p|%zu\n", (void *)there, sizeof there);
    for (int i = 0; i < n; i++) {
        here.x += i;
        here.z[i & 3] = i;
        there[i % 3].weight = i;
    }
    return here.y;
}

FAR long unions(union both *b, struct open *o)
{
    long sum = 0;
    for (int i = 0; i < NODES; i++) {
        b->half[i & 1] = i;
        o->data[i & 15] = (short)i;
        sum += o->length;
    }
    return sum;
}

int main(void)
{
    struct node *all = calloc(NODES, sizeof *all);
    union both *b = calloc(1, sizeof *b);
    struct open *o = calloc(1, sizeof *o + 16 * sizeof *o->data);
    for (int i = 0; i < NODES; i++) {
        all[i].next = i + 1 < NODES ? &all[(i * 5 + 5) % NODES] : NULL;
        all[i].other = &all[(i + 7) % NODES];
    }
    for (int i = 0; i < NODES; i++)
        all[i * 5 % NODES].next = i + 1 < NODES ? &all[(i + 1) * 5 % NODES] : NULL;
    head = &all[0];
    object("struct node", all, NODES * sizeof *all);
    object("struct node", table, sizeof table);
    object("state_t", &state, sizeof state);
    object("struct inner", &mine, sizeof mine);
    object("union both", b, sizeof *b);
    object("struct open", o, sizeof *o + 16 * sizeof *o->data);
    long sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        sum += walk(head);
        nested(all, NODES);
        sum += far_values();
        globals();
        sum += unions(b, o);
    }
    sum += locals(NODES * ROUNDS);
    const unsigned long n = (unsigned long)NODES * ROUNDS;
    count("struct node", "next", 2 * n);
    count("struct node", "value", 2 * n);
    count("struct node", "weight", 2 * n);
    count("struct node", "other", n);
    count("struct node", "in.y", n);
    count("struct node", "in.z[]", 2 * n);
    count("struct node", "u.d", n);
    count("struct node", "name[]", n);
    count("struct node", "in.x", 2 * n);
    count("struct inner", "x", 2 * n);
    count("struct inner", "y", n);
    count("struct inner", "z[]", n);
    count("state_t", "hits", 2 * n);
    count("state_t", "range.high", n);
    count("state_t", "part[]", n);
    count("union both", "half[]", n);
    count("struct open", "data[]", n);
    count("struct open", "length", n);
    return sum == 42;
}
