/*
 * Runs a fuzz target on files, as a test: each argument is a file or a directory of
 * files. Every input is also tried cut at some lengths, with some bytes changed, and
 * as a mutator changes it (its own, if it has one), always in the same way. -N: this
 * often by the mutator.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                                                     unsigned seed);

static uint64_t random_state;
static size_t mutations = 64, mutated;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* What libFuzzer has under this name, in small: bytes changed, taken out, put in. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
{
    uint64_t random = next_random();
    size_t at = size ? (size_t)(next_random() % size) : 0;
    if (random % 4 == 0 && size + 8 <= most) {
        memmove(data + at + 8, data + at, size - at);
        memcpy(data + at, &random, 8);
        return size + 8;
    }
    if (random % 4 == 1 && size > 8 && at + 8 <= size) {
        memmove(data + at, data + at + 8, size - at - 8);
        return size - 8;
    }
    if (size)
        data[at] = (uint8_t)(random >> 40);
    return size;
}

/* In a block of its own size, so that a sanitizer sees reads after the end. */
static void try(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void variants(uint8_t *data, size_t size)
{
    enum { TRIES = 24, ROOM = 1 << 16 };
    random_state = 88172645463325252u;
    try(data, size);
    for (size_t i = 0; i < TRIES && size; i++) {
        uint64_t random = next_random();
        size_t at = (size_t)(random % size);
        uint8_t old = data[at];
        try(data, at);
        data[at] = (uint8_t)(random >> 40);
        try(data, size);
        data[at] = old;
    }
    uint8_t *room = malloc(size + ROOM);
    for (size_t i = 0, now = 0; room && i < mutations; i++) {
        if (i % 8 == 0) { /* a few on top of each other */
            memcpy(room, data, size);
            now = size;
        }
        now = LLVMFuzzerCustomMutator
                  ? LLVMFuzzerCustomMutator(room, now, size + ROOM, (unsigned)next_random())
                  : LLVMFuzzerMutate(room, now, size + ROOM);
        try(room, now);
        mutated++;
    }
    free(room);
}

static size_t replay(const char *path)
{
    struct stat st;
    size_t count = 0;
    if (stat(path, &st)) {
        printf("not ok - cannot read %s\n", path);
        exit(1);
    }
    if (S_ISDIR(st.st_mode)) {
        struct dirent **names;
        int n = scandir(path, &names, NULL, alphasort);
        for (int i = 0; i < n; i++) {
            char inner[4096];
            if (names[i]->d_name[0] != '.') {
                snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
                count += replay(inner);
            }
            free(names[i]);
        }
        if (n >= 0)
            free(names);
        return count;
    }
    uint8_t *data = malloc((size_t)st.st_size + 1);
    FILE *file = fopen(path, "rb");
    if (!data || !file)
        abort();
    size_t size = fread(data, 1, (size_t)st.st_size, file);
    fclose(file);
    variants(data, size);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-')
            mutations = strtoul(argv[i] + 1, NULL, 10);
        else
            count += replay(argv[i]);
    printf("%s 1 - %zu inputs and their variants, %zu of them by mutations\n1..1\n",
           count ? "ok" : "not ok", count, mutated);
    return !count;
}
