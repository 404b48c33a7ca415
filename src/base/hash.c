#include "hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t seed;

static void make_seed(void)
{
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = hash_word((uint64_t)now.tv_nsec, (uintptr_t)&now);
    }
}

uint64_t hash_seed(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_seed);
    return seed;
}

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const char *p = data;
    uint64_t word;
    for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
        memcpy(&word, p, sizeof word);
        hash = hash_word(hash, word);
    }
    word = size; /* so that zeros at the end count */
    hash = hash_word(hash, word << 56);
    word = 0;
    memcpy(&word, p, size);
    return hash_word(hash, word);
}
