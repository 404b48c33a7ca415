/* Says what a program sees of the machine, and echoes its input. */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

extern char **environ;

__attribute__((noipa)) void begin(void)
{
}

__attribute__((noipa)) void end(void)
{
}

__attribute__((noipa)) unsigned inside(unsigned n)
{
    unsigned s = 0;
    for (unsigned i = 0; i < 20000; i++) {
        s = s * 3 + n;
        __asm__ volatile("" : "+r"(s));
    }
    return s;
}

int main(int argc, char **argv)
{
    char line[200];
    int local;
    unsigned chance[2] = {0, 0};
    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    for (int i = 0; i < argc; i++)
        fprintf(stderr, "arg %s\n", argv[i]);
    for (char **e = environ; *e; e++)
        fprintf(stderr, "env %s\n", *e);
    fprintf(stderr, "file %s\n", (const char *)getauxval(AT_EXECFN));
    fprintf(stderr, "random %02x%02x%02x\n", random[0], random[1], random[2]);
    for (int i = 0; i < 2; i++)
        if (getrandom(&chance[i], sizeof chance[i], 0) != sizeof chance[i])
            return 2;
    fprintf(stderr, "chance %08x %08x\n", chance[0], chance[1]);
    fprintf(stderr, "stack %p heap %p\n", (void *)&local, sbrk(0));
    while (fgets(line, sizeof line, stdin))
        fprintf(stderr, "in %s", line);
    inside(1);
    begin();
    inside(2);
    end();
    inside(3);
    return argc > 1 && !strcmp(argv[1], "show"); /* what a failed run said is shown */
}
