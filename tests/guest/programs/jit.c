/*
 * A just-in-time compiler: makes functions in one page, the second at the address of the first, and
 * says so as perf wants it: "jit map" in perf-PID.map line by line, "jit dump" in a jitdump file
 * that it maps, "jit late" in perf-PID.map at the end alone (and without the second function).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *page;
static FILE *out;
static int dump;

/* So many times around; the loop has "pad" instructions more. */
static void make(unsigned at, unsigned pad)
{
    uint32_t code[64], n = 0;
    for (unsigned i = 0; i < pad; i++)
        code[n++] = 0x91000421;                                  /* add x1, x1, #1 */
    code[n++] = 0xf1000400;                                      /* subs x0, x0, #1 */
    code[n] = 0x54000001 | ((uint32_t)(-(int)n) & 0x7ffff) << 5; /* b.ne to the start */
    n++;
    code[n++] = 0xd65f03c0; /* ret */
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    memcpy(page + at, code, 4 * n);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(page, page + 4096);
}

static void tell(unsigned at, unsigned size, const char *name)
{
    if (!dump) {
        fprintf(out, "%lx %x %s\n", (unsigned long)(page + at), size, name);
        fflush(out);
        return;
    }
    static uint64_t index;
    uint32_t total = 56 + (uint32_t)strlen(name) + 1 + size;
    uint32_t head[6] = {0, total, 0, 0, (uint32_t)getpid(), (uint32_t)getpid()};
    uint64_t body[4] = {(uintptr_t)(page + at), (uintptr_t)(page + at), size, index++};
    fwrite(head, sizeof head, 1, out);
    fwrite(body, sizeof body, 1, out);
    fwrite(name, strlen(name) + 1, 1, out);
    fwrite(page + at, size, 1, out);
    fflush(out);
}

static void call(unsigned at)
{
    ((void (*)(uint64_t))(uintptr_t)(page + at))(3000000);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "map", *dir = argc > 2 ? argv[2] : "/tmp";
    char path[256];
    dump = !strcmp(how, "dump");
    snprintf(path, sizeof path, dump ? "%s/jit-%d.dump" : "%s/perf-%d.map", dir, (int)getpid());
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int late = !strcmp(how, "late");
    if (!strcmp(how, "none")) { /* nobody is told of it */
        make(0, 2);
        make(512, 6);
        call(0);
        call(512);
        return 0;
    }
    if (!late) {
        out = fopen(path, "w+");
        if (dump) {
            uint32_t head[10] = {0x4a695444, 1, 40, 183, 0, (uint32_t)getpid()};
            fwrite(head, sizeof head, 1, out);
            fflush(out);
            mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(out), 0);
        }
    }
    make(0, 2);
    make(512, 6);
    if (!late) {
        tell(0, 20, "jit_first");
        tell(512, 36, "jit_other, with blanks");
    }
    call(0);
    call(512);
    if (late) {
        out = fopen(path, "w");
        tell(0, 20, "jit_first");
        tell(512, 36, "jit_other, with blanks");
    } else {
        make(0, 4);
        tell(0, 28, "jit_second");
        call(0);
    }
    fclose(out);
    puts(path);
    return 0;
}
