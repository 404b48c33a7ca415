/* Walks areas of every kind and prints where they are: "NAME START END". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SIZE = 64 << 10, ROUNDS = 60 };
static char global[SIZE];

static void walk(const char *name, volatile char *area, size_t size)
{
    printf("%s %p %p\n", name, (void *)area, (void *)(area + size));
    fflush(stdout);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < size; i += 16)
            area[i]++;
}

static void *thread(void *data)
{
    char local[SIZE];
    memset(local, 0, sizeof local);
    walk("thread", local, sizeof local);
    return data;
}

int main(int argc, char **argv)
{
    char local[SIZE];
    memset(local, 0, sizeof local);
    walk("stack", local, sizeof local);
    walk("global", global, sizeof global);
    char *heap = malloc(SIZE);
    walk("heap", heap, SIZE);
    char *anon = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    walk("anon", anon, SIZE);
    anon = mremap(anon, SIZE, 1 << 20, MREMAP_MAYMOVE);
    walk("moved", anon + (1 << 20) - SIZE, SIZE);
    char *named = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prctl(0x53564d41, 0, named, SIZE, "arena one");
    walk("named", named, SIZE);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, SIZE))
        return 1;
    char *file = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    walk("file", file, SIZE);
    pthread_t id;
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    return argc == 1;
}
