/* Packets: the decoder equals the oracle, and encoding gives the bytes back. */
#include <spex/wire.h>

#include "wire/oracle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct spex_packet *a, const struct spex_packet *b)
{
    return a->payload == b->payload && a->type == b->type && a->index == b->index &&
           a->header[0] == b->header[0] && a->header[1] == b->header[1] &&
           a->header_size == b->header_size && a->size == b->size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    while (size) {
        struct spex_packet fast, oracle;
        enum spex_status status = spex_packet_decode(data, size, &fast);
        if (status != oracle_packet(data, size, &oracle))
            abort();
        if (status)
            return 0;
        uint8_t bytes[SPEX_PACKET_MAX];
        char text[SPEX_PACKET_TEXT_MAX];
        size_t length;
        if (!same(&fast, &oracle) ||
            spex_packet_encode(&fast, bytes, sizeof bytes, &length) != SPEX_OK ||
            length != spex_packet_length(&fast) || memcmp(bytes, data, length))
            abort();
        for (int style = SPEX_TEXT_SPEX; style <= SPEX_TEXT_PERF7_N1; style++)
            if (spex_packet_text(&fast, style, text, sizeof text) != strlen(text))
                abort();
        data += length;
        size -= length;
    }
    return 0;
}
