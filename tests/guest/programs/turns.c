/*
 * What a thread sees of another, by how long the turns of both are. A writer counts; the main
 * thread looks. Prints
 *
 *   fight    how many values it saw while the writer stored each to the line that both use
 *   wait     how far the writer had counted, at most, when the main thread saw the word change that
 *            it was waiting at, the only one that it read
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { COUNT = 10000, EVERY = 2000 };

struct line {
    _Alignas(128) volatile uint64_t value, other;
};
static struct line counter, mark, go;

/* Both begin only when the other is ready, too: making a thread takes long. */
static void start(uint64_t me)
{
    __atomic_fetch_or(&go.value, me, __ATOMIC_SEQ_CST);
    while (go.value != 3)
        __asm__ volatile("yield");
}

static void *count(void *unused)
{
    (void)unused;
    start(1);
    for (uint64_t i = 1; i <= COUNT; i++)
        counter.value++;
    return NULL;
}

/* It says that it waits (YIELD), so that its own turns are short. */
static void *count_and_mark(void *unused)
{
    (void)unused;
    start(1);
    for (uint64_t i = 1; i <= COUNT; i++) {
        counter.value = i;
        if (i % EVERY == 0)
            mark.value = i;
        __asm__ volatile("yield");
    }
    return NULL;
}

static unsigned fight(void)
{
    unsigned values = 0;
    uint64_t last = 0;
    while (last < COUNT) {
        uint64_t now = counter.value;
        values += now != last;
        last = now;
        counter.other = now;
    }
    return values;
}

static uint64_t wait(void)
{
    uint64_t latest = 0;
    for (uint64_t next = EVERY; next < COUNT; next += EVERY) {
        __asm__ volatile("1: ldr x8, [%0]\n cmp x8, %1\n b.lo 1b\n" ::"r"(&mark.value), "r"(next)
                         : "x8", "cc", "memory");
        uint64_t late = counter.value - next;
        latest = late > latest ? late : latest;
    }
    return latest;
}

int main(void)
{
    pthread_t writer;
    if (pthread_create(&writer, NULL, count, NULL))
        return 1;
    start(2);
    unsigned values = fight();
    pthread_join(writer, NULL);
    counter.value = go.value = 0;
    if (pthread_create(&writer, NULL, count_and_mark, NULL))
        return 1;
    start(2);
    uint64_t late = wait();
    pthread_join(writer, NULL);
    printf("fight %u wait %llu\n", values, (unsigned long long)late);
    return 0;
}
