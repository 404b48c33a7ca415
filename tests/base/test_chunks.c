/*
 * Chunks on several threads give what one thread gives, whatever is guessed. The stream: each byte
 * says how far the next item is, 1 to 9; an item's work depends on the one before it as well, so
 * that a guess can be wrong in its place or in its state. Plain TAP, so that it can be built with
 * ThreadSanitizer alone (test_races.py).
 */
#include "base/chunks.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20000 };

struct test {
    const uint8_t *data;
    size_t size;
    uint64_t sum, items; /* of what was reduced */
    size_t chunks, stop; /* reduced so far; after how many to end */
};

struct part {
    uint64_t sum, items;
};

static bool guess(void *user, size_t from, size_t to, struct chunks_state *state)
{
    const struct test *test = user;
    size_t at = from > 40 ? from - 40 : 0;
    uint64_t before = 0;
    if (from % 5 == 1) /* now and then there is none */
        return false;
    while (at < from) {
        before = test->data[at];
        at += test->data[at];
    }
    *state = (struct chunks_state){at, {before}};
    return at < to;
}

static void run(void *user, unsigned thread, struct chunks_state *state, size_t to, void *result)
{
    const struct test *test = user;
    struct part *part = result;
    (void)thread;
    *part = (struct part){0};
    while (state->position < to && state->position < test->size) {
        uint8_t item = test->data[state->position];
        part->sum = part->sum * 31 + item * 7 + state->more[0];
        part->items++;
        state->more[0] = item;
        state->position += item;
    }
}

static bool reduce(void *user, void *result)
{
    struct test *test = user;
    const struct part *part = result;
    test->sum = test->sum * 131 + part->sum;
    test->items += part->items;
    return ++test->chunks != test->stop;
}

static bool run_all(struct chunks *chunks, struct test *test, size_t chunk)
{
    const struct chunks_job job = {test, test->size, chunk, guess, run, reduce};
    struct chunks_state state = {.position = 0};
    return chunks_run(chunks, &job, &state) &&
           (state.position >= test->size || test->chunks == test->stop);
}

int main(void)
{
    static uint8_t data[MOST];
    struct chunks *one = chunks_new(1, sizeof(struct part));
    struct chunks *many[3] = {NULL};
    struct rng rng = {1};
    bool same = one != NULL, ends = true;
    for (unsigned i = 0; i < 3; i++)
        same &= (many[i] = chunks_new(i + 2, sizeof(struct part))) != NULL;
    for (unsigned round = 0; same && round < 60; round++) {
        size_t size = 1 + rng_below(&rng, MOST - 1), chunk = 1 + rng_below(&rng, 600);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)(1 + rng_below(&rng, round % 2 ? 9 : 3));
        struct test a = {.data = data, .size = size}, b = a;
        same = run_all(one, &a, chunk) && run_all(many[round % 3], &b, chunk) && a.sum == b.sum &&
               a.items == b.items && a.chunks == b.chunks && a.items > 0;
        struct test c = {.data = data, .size = size, .stop = a.chunks / 2 + 1}; /* ended early */
        run_all(many[round % 3], &c, chunk);
        ends &= c.chunks == c.stop;
    }
    printf("%s 1 - any number of threads gives what one gives\n", same ? "ok" : "not ok");
    printf("%s 2 - reduce ends the work\n", ends ? "ok" : "not ok");
    printf("1..2\n");
    for (unsigned i = 0; i < 3; i++)
        chunks_free(many[i], NULL);
    chunks_free(one, NULL);
    return !(same && ends);
}
