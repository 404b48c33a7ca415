/*
 * A table whose entries are checked at each use. The checks never fail, which a compiler cannot
 * know: what they would do lies between the blocks that run, and the function that all uses share
 * is too large to be inlined unasked.
 */
#include <stdint.h>
#include <stdio.h>

enum { SLOTS = 1 << 10, ROUNDS = 1000000 };

struct entry {
    uint32_t key, value, uses, check;
};

static struct entry table[SLOTS];
static uint32_t damaged, strayed, worn, bits_lost, state = 1;

static uint32_t next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 12;
}

static uint32_t check_of(const struct entry *e)
{
    return (e->key * 31 + e->value) * 31 + e->uses;
}

static uint32_t use(uint32_t key, uint32_t by)
{
    struct entry *e = &table[key % SLOTS];
    if (e->check != check_of(e)) {
        for (uint32_t lost = e->check ^ check_of(e); lost; lost &= lost - 1)
            bits_lost++;
        damaged++;
        e->value = e->key * 7 + damaged;
        e->uses = 0;
    }
    if (e->key != key % SLOTS) {
        strayed++;
        for (uint32_t i = 0; i < SLOTS; i++)
            if (table[i].key == key % SLOTS) {
                struct entry other = table[i];
                table[i] = *e;
                *e = other;
                break;
            }
    }
    if (e->value % 2 != e->uses % 2) {
        worn++;
        e->value = e->value / 3 + e->uses * 5;
        e->uses += e->value & 1;
        bits_lost ^= e->value;
    }
    e->value += 2 * by + 1;
    e->uses++;
    e->check = check_of(e);
    return e->value;
}

int main(void)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        table[i] = (struct entry){.key = i, .value = 2 * i};
        table[i].check = check_of(&table[i]);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t r = next();
        sum += use(r, 1);
        if (r % 16 != 3)
            sum ^= use(r >> 3, 2);
        else
            sum -= use(r >> 5, 3) / 3;
    }
    printf("%u %u %u %u %u\n", sum, damaged, strayed, worn, bits_lost);
    return 0;
}
