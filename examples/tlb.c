/*
 * The same number of cache lines, spread over pages and packed.
 *
 * A profile shows: touch_pages() uses one line of each of 8192 pages: the lines fit into level
 * 2 (data source L2), but the pages do not fit into the TLB: nearly every load walks the page
 * table and spends more time in translation than in the cache. touch_packed() has the same
 * lines side by side: level 2 again, no walks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, LINE = 64, COUNT = 8192, PASSES = 150 };

static __attribute__((noipa)) uint64_t touch_pages(volatile char *memory)
{
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < COUNT; i++)
            sum += (uint64_t)memory[i * (PAGE + LINE)];
    return sum;
}

static __attribute__((noipa)) uint64_t touch_packed(volatile char *memory)
{
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < COUNT; i++)
            sum += (uint64_t)memory[i * LINE];
    return sum;
}

int main(void)
{
    char *memory = aligned_alloc(PAGE, (size_t)COUNT * (PAGE + LINE));
    if (!memory)
        return 1;
    for (size_t i = 0; i < COUNT; i++)
        memory[i * (PAGE + LINE)] = 1;
    printf("%lu\n", (unsigned long)(touch_pages(memory) + touch_packed(memory)));
    return 0;
}
