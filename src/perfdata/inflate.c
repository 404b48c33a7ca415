/* COMPRESSED records: one zstd stream cut into records, holding records cut anywhere. */
#include "file.h"

#include <assert.h>
#include <stdlib.h>
#include <zstd.h>

struct inflater {
    ZSTD_DStream *stream;
    const uint8_t *input;
    size_t input_size, input_position;
    uint64_t output, limit; /* output of this COMPRESSED record so far, and its limit */
    uint64_t fed, made;     /* totals: bytes read and written */
    bool broken;            /* the stream is damaged: no output until it ends */
    size_t start, end;      /* unread bytes in buffer */
    uint8_t buffer[RECORD_MAX + 1 + (128 << 10)];
};

struct inflater *perfdata_inflater_new(void)
{
    struct inflater *inflater = memory_new(sizeof *inflater);
    if (!inflater)
        return NULL;
    inflater->stream = ZSTD_createDStream();
    if (!inflater->stream) {
        memory_free(inflater);
        return NULL;
    }
    inflater->input_size = inflater->input_position = 0;
    inflater->start = inflater->end = 0;
    inflater->fed = inflater->made = 0;
    inflater->broken = false;
    return inflater;
}

void perfdata_inflater_free(struct inflater *inflater)
{
    if (inflater) {
        ZSTD_freeDStream(inflater->stream);
        memory_free(inflater);
    }
}

void perfdata_inflater_feed(struct inflater *inflater, const uint8_t *data, size_t size,
                            uint64_t limit)
{
    assert(inflater->start <= inflater->end && inflater->end <= sizeof inflater->buffer);
    inflater->input = data;
    inflater->input_size = size;
    inflater->input_position = 0;
    inflater->output = 0;
    inflater->fed += size;
    inflater->limit = limit;
    if (inflater->broken) {
        /* A new stream may begin here. A record that was cut off before it is lost. */
        ZSTD_initDStream(inflater->stream);
        inflater->start = inflater->end = 0;
        inflater->broken = false;
    }
}

size_t perfdata_inflater_rest(const struct inflater *inflater)
{
    return inflater->end - inflater->start;
}

static enum spex_status inflate_some(struct inflater *inflater)
{
    /* Real records differ at least in their times: zstd shrinks them about tenfold. */
    enum { FREE = 16 << 20, RATIO = 100 };
    if (inflater->made > FREE && (inflater->made - FREE) / RATIO > inflater->fed) {
        inflater->broken = true;
        inflater->input_position = inflater->input_size;
        return SPEX_RANGE;
    }
    if (inflater->start) {
        memmove(inflater->buffer, inflater->buffer + inflater->start,
                perfdata_inflater_rest(inflater));
        inflater->end -= inflater->start;
        inflater->start = 0;
    }
    ZSTD_inBuffer in = {inflater->input, inflater->input_size, inflater->input_position};
    ZSTD_outBuffer out = {inflater->buffer, sizeof inflater->buffer, inflater->end};
    size_t result = ZSTD_decompressStream(inflater->stream, &out, &in);
    size_t made = out.pos - inflater->end;
    bool moved = made || in.pos > inflater->input_position;
    inflater->input_position = in.pos;
    inflater->end = out.pos;
    inflater->output += made;
    inflater->made += made;
    if (ZSTD_isError(result)) {
        inflater->broken = true;
        inflater->input_position = inflater->input_size;
        return SPEX_INVALID;
    }
    if (inflater->output > inflater->limit) {
        inflater->broken = true;
        inflater->input_position = inflater->input_size;
        return SPEX_RANGE;
    }
    return moved && (made || in.pos < in.size) ? SPEX_OK : SPEX_END;
}

enum spex_status perfdata_inflater_next(struct inflater *inflater, bool swap, const uint8_t **bytes)
{
    for (;;) {
        size_t have = perfdata_inflater_rest(inflater);
        const uint8_t *p = inflater->buffer + inflater->start;
        if (have >= HEADER_SIZE) {
            uint16_t size;
            memcpy(&size, p + 6, sizeof size);
            if (swap)
                size = __builtin_bswap16(size);
            if (size < HEADER_SIZE) {
                inflater->broken = true;
                inflater->start = inflater->end = 0;
                inflater->input_position = inflater->input_size;
                return SPEX_INVALID;
            }
            if (have >= size) {
                inflater->start += size;
                *bytes = p;
                return SPEX_OK;
            }
        }
        enum spex_status status = inflate_some(inflater);
        if (status != SPEX_OK)
            return status;
    }
}
