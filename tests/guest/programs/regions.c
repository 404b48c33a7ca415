/* Work in parts, with marker functions between them, or with a line of input before each. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static volatile long sink;

#define PART __attribute__((noinline, noclone))

PART void one(long n)
{
    for (long i = 0; i < n; i++)
        sink += i;
}

PART void two(long n)
{
    for (long i = 0; i < n; i++)
        sink ^= i;
}

PART void three(long n)
{
    for (long i = 0; i < n; i++)
        sink -= i;
}

PART void region_begins(void)
{
    __asm__ volatile("");
}

PART void region_ends(void)
{
    __asm__ volatile("");
}

static void *thread(void *unused)
{
    two(400000);
    return unused;
}

static void wait_for_line(void)
{
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        line[0] = 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "lines")) {
        wait_for_line();
        one(200000);
        wait_for_line();
        two(200000);
        wait_for_line();
        three(200000);
        return 4;
    }
    if (!strcmp(what, "thread")) {
        pthread_t t;
        one(100000);
        region_begins();
        pthread_create(&t, NULL, thread, NULL);
        pthread_join(t, NULL);
        region_ends();
        three(100000);
        return 0;
    }
    for (int i = 0; i < 5; i++) {
        one(50000);
        region_begins();
        two(50000);
        region_ends();
        three(50000);
    }
    return 0;
}
