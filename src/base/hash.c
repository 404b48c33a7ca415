#include "hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t hash_seed_made;

static void make_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = hash_word((uint64_t)now.tv_nsec, (uintptr_t)&now);
    }
    __atomic_store_n(&hash_seed_made, seed | 1, __ATOMIC_RELAXED);
}

uint64_t hash_seed_make(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_seed);
    return hash_seed_made;
}

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const char *p = data;
    uint64_t word;
    for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
        memcpy(&word, p, sizeof word);
        hash = hash_word(hash, word);
    }
    word = size; /* so that trailing zeros count */
    hash = hash_word(hash, word << 56);
    word = 0;
    memcpy(&word, p, size);
    return hash_word(hash, word);
}
