/* Mutations of a perf.data file that keep its form, so that they reach the code behind it. */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <spex/perfdata.h>

#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

struct piece { /* a record with what follows it */
    size_t at, size;
};

static inline uint64_t word(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, bytes); /* files of the host's byte order: others are mutated as bytes */
    return v;
}

static inline size_t find_pieces(const uint8_t *data, size_t from, size_t end, struct piece *pieces,
                                 size_t most)
{
    size_t count = 0;
    while (count < most && end - from >= 8) {
        size_t size = word(data + from + 6, 2);
        if (size < 8 || size > end - from)
            break;
        if (word(data + from, 4) == SPEX_PERF_AUXTRACE && size >= 48) {
            uint64_t more = word(data + from + 8, 8);
            if (more > end - from - size)
                break;
            size += more;
        }
        pieces[count++] = (struct piece){from, size};
        from += size;
    }
    return count;
}

/* Replaces [at, at + old) by size bytes, moves what the header says, and returns the new size. */
static inline size_t replace(uint8_t *data, size_t total, size_t at, size_t old,
                             const uint8_t *bytes, size_t size, size_t most)
{
    if (total - old + size > most)
        return total;
    size_t end = (size_t)(word(data + 40, 8) + word(data + 48, 8)); /* of the data section */
    memmove(data + at + size, data + at + old, total - at - old);
    memcpy(data + at, bytes, size);
    if (word(data + 8, 8) != 104) /* a pipe says no sizes */
        return total - old + size;
    uint64_t moved = size - old, data_size = word(data + 48, 8) + moved;
    memcpy(data + 48, &data_size, 8);
    total = total - old + size;
    unsigned sections = 0;
    for (unsigned i = 0; i < 4; i++)
        sections += (unsigned)__builtin_popcountll(word(data + 72 + 8 * i, 8));
    for (size_t entry = end + moved; sections && entry + 16 <= total; sections--, entry += 16) {
        uint64_t offset = word(data + entry, 8) + moved;
        memcpy(data + entry, &offset, 8);
    }
    return total;
}

static inline size_t mutate_perfdata(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    enum { PIECES = 512, LONGEST = 1 << 16 };
    static struct piece pieces[PIECES];
    static uint8_t copy[LONGEST];
    bool pipe = size >= 16 && word(data + 8, 8) == 16;
    bool file = size >= 104 && word(data + 8, 8) == 104;
    if (seed % 4 == 0 || memcmp(data, "PERFILE2", size < 8 ? size : 8) || !(pipe || file))
        return LLVMFuzzerMutate(data, size, most);
    uint64_t from = pipe ? 16 : word(data + 40, 8), length = pipe ? size - 16 : word(data + 48, 8);
    if (from > size || length > size - from)
        return LLVMFuzzerMutate(data, size, most);
    size_t count = find_pieces(data, (size_t)from, (size_t)(from + length), pieces, PIECES);
    if (!count)
        return LLVMFuzzerMutate(data, size, most);
    const struct piece *one = &pieces[seed / 4 % count], *other = &pieces[seed / 64 % count];
    if (one->size > LONGEST || other->size > LONGEST)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(copy, data + one->at, one->size);
    switch (seed / 4096 % 4) {
    case 0: /* leave it out */
        return replace(data, size, one->at, one->size, copy, 0, most);
    case 1: /* once more, elsewhere */
        return replace(data, size, other->at, 0, copy, one->size, most);
    case 2: /* in place of another */
        return replace(data, size, other->at, other->size, copy, one->size, most);
    default: {
        /* another body: whole words, its size in the header, AUXTRACE with its data's */
        size_t head = word(copy, 4) == SPEX_PERF_AUXTRACE && one->size >= 48 ? 48 : 8;
        size_t room = head == 48 ? LONGEST - 48 : 60000;
        size_t body = LLVMFuzzerMutate(copy + head, one->size - head, room);
        while (body % 8)
            copy[head + body++] = 0;
        uint16_t total = (uint16_t)(head + body);
        uint64_t payload = body;
        if (head == 48)
            memcpy(copy + 8, &payload, 8);
        else
            memcpy(copy + 6, &total, 2);
        return replace(data, size, one->at, one->size, copy, head + body, most);
    }
    }
}

#endif
