/* BLAKE2b (RFC 7693) without a key: names a file by what is in it. */
#ifndef EXPORT_DIGEST_H
#define EXPORT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BLOCK = 128 };

struct digest {
    uint64_t state[8], size;
    uint8_t block[DIGEST_BLOCK];
    size_t used, length;
};

/* length: bytes of the result, at most 64. */
void digest_begin(struct digest *digest, size_t length);
void digest_add(struct digest *digest, const void *data, size_t size);
void digest_end(struct digest *digest, uint8_t *result);

#endif
