/* Lines of spex dump. Text that recurs is kept and copied; see known_line(). */
#include "dump_lines.h"

#include "base/bits.h"
#include "base/digits.h"
#include "base/json.h"
#include "wire/headers.h"

#include <stdlib.h>
#include <string.h>

/* A line that was printed, without its offset. */
struct known {
    uint64_t payload;
    uint8_t header, size; /* 0: none */
    char text[182];
};

enum { KNOWN = 2048 }; /* slots of the hash table */

bool dump_init(struct dump *dump, const struct dump_style *options)
{
    *dump = (struct dump){.options = options, .style = (enum spex_text_style)options->style};
    dump->known = calloc(KNOWN, sizeof *dump->known);
    return dump->known != NULL;
}

void dump_fini(struct dump *dump)
{
    free(dump->known);
}

/* ---- lines: an offset, then the text, which is the same for the same bytes ---- */

enum { LINE_ROOM = SPEX_PACKET_TEXT_MAX + 192 };

#define HEX16(h)                                                                                   \
    h "0 " h "1 " h "2 " h "3 " h "4 " h "5 " h "6 " h "7 " h "8 " h "9 " h "a " h "b " h "c " h   \
      "d " h "e " h "f "
static const char hex_bytes[] =
    HEX16("0") HEX16("1") HEX16("2") HEX16("3") HEX16("4") HEX16("5") HEX16("6") HEX16("7")
        HEX16("8") HEX16("9") HEX16("a") HEX16("b") HEX16("c") HEX16("d") HEX16("e") HEX16("f") " ";

static inline char *put_hex32(char *p, uint32_t value)
{
    put_le64(p, hex_digits(value));
    return p + 8;
}

static inline char *put_offset(char *p, uint64_t offset)
{
    if (offset >> 32)
        p = put_hex32(p, (uint32_t)(offset >> 32));
    return put_hex32(p, (uint32_t)offset);
}

/* "b0 d0 ... " in width columns; width is more than 3 * count. */
static inline char *put_bytes(char *p, const uint8_t *bytes, size_t count, size_t width)
{
    memset(p, ' ', width);
    for (size_t i = 0; i < count; i++)
        /* the fourth byte is overwritten, or a space */
        memcpy(p + 3 * i, hex_bytes + 3 * bytes[i], 4);
    p[3 * count] = ' ';
    return p + width;
}

static size_t zeros(const uint8_t *data, size_t size)
{
    size_t n = 0;
    while (n < size && data[n] == 0)
        n++;
    return n;
}

static inline void start_line(struct dump *dump, uint64_t offset)
{
    struct out *out = &dump->out;
    char *start = out_room(out, LINE_ROOM), *p = start; /* reserves room for the whole line */
    if (dump->options->format == DUMP_JSON) {
        struct json json = json_to(out);
        JSON_FIRST(&json, "offset", u64, offset);
    } else {
        if (dump->options->style != SPEX_TEXT_SPEX)
            p = (char *)memcpy(p, ".  ", 3) + 3;
        out->size += (size_t)(put_offset(p, offset) - start);
    }
    dump->rest = out->size;
}

/* perf leaves room for 16 bytes, we for the ten of the longest packet. */
static void text_rest(struct dump *dump, const uint8_t *bytes, size_t count,
                      const struct spex_packet *packet, const char *text)
{
    char *start = out_room(&dump->out, LINE_ROOM), *p;
    if (dump->options->style == SPEX_TEXT_SPEX) {
        p = put_bytes((char *)memcpy(start, "  ", 2) + 2, bytes, count, 3 * SPEX_PACKET_MAX + 1);
    } else {
        p = put_bytes((char *)memcpy(start, ":  ", 3) + 3, bytes, count, 3 * 16);
    }
    if (text) {
        size_t n = strlen(text);
        memcpy(p, text, n);
        p += n;
    } else {
        p += spex_packet_text(packet, dump->style, p, SPEX_PACKET_TEXT_MAX);
    }
    *p++ = '\n';
    dump->out.size += (size_t)(p - start);
}

static void text_line(struct dump *dump, uint64_t offset, const uint8_t *bytes, size_t count,
                      const char *text)
{
    start_line(dump, offset);
    text_rest(dump, bytes, count, NULL, text);
}

/*
 * A run of padding: perf shows up to 16 bytes a line, we print the number of bytes. Returns its
 * length, or 0 if more might follow (the run reaches the end of a block).
 */
static size_t padding_line(struct dump *dump, uint64_t offset, const uint8_t *data, size_t size,
                           bool more)
{
    if (dump->options->style != SPEX_TEXT_SPEX) {
        size_t n = zeros(data, size < 16 ? size : 16);
        text_line(dump, offset, data, n, "PAD");
        return n;
    }
    size_t n = zeros(data, size);
    if (n == size && more)
        return 0;
    text_line(dump, offset, data, n < SPEX_PACKET_MAX ? n : SPEX_PACKET_MAX, "padding");
    if (n > 1) {
        dump->out.size--; /* the newline */
        out_text(&dump->out, " x ");
        out_u64(&dump->out, n);
        out_char(&dump->out, '\n');
    }
    return n;
}

static void json_rest(struct dump *dump, const char *name, bool index,
                      const struct spex_packet *packet)
{
    struct json json = json_resume(&dump->out);
    if (dump->queue && dump->queue->cpu < 0)
        JSON_MEMBER(&json, "tid", i64, dump->queue->tid);
    else if (dump->queue)
        JSON_MEMBER(&json, "cpu", i64, dump->queue->cpu);
    JSON_MEMBER(&json, "packet", word, name);
    if (index)
        JSON_MEMBER(&json, "index", u64, packet->index);
    JSON_MEMBER(&json, "header", bytes, packet->header, packet->header_size);
    JSON_MEMBER(&json, "size", u64, packet->size);
    JSON_MEMBER(&json, "payload", hex, packet->payload);
    json_end(&json);
}

static bool has_index(unsigned type)
{
    return type == SPEX_PACKET_ADDRESS || type == SPEX_PACKET_COUNTER ||
           type == SPEX_PACKET_CONTEXT || type == SPEX_PACKET_OPERATION_TYPE;
}

static void packet_rest(struct dump *dump, const uint8_t *bytes, const struct spex_packet *packet)
{
    if (dump->options->format == DUMP_JSON)
        json_rest(dump, spex_packet_type_name((enum spex_packet_type)packet->type),
                  has_index(packet->type), packet);
    else
        text_rest(dump, bytes, spex_packet_length(packet), packet, NULL);
}

/* ---- lines seen before ---- */

/*
 * Most packets in a stream repeat: operations, events, latencies, contexts, program counters. Data
 * addresses and timestamps rarely do, and are not kept.
 */
static bool recurs(uint8_t header)
{
    return header != WIRE_TIMESTAMP && header != (WIRE_ADDRESS | SPEX_ADDRESS_VA) &&
           header != (WIRE_ADDRESS | SPEX_ADDRESS_PA) && !WIRE_IS_EXTENDED(header);
}

static struct known *known_slot(struct dump *dump, uint8_t header, uint64_t payload)
{
    uint64_t hash = (payload ^ (uint64_t)header << 52) * UINT64_C(0x9e3779b97f4a7c15);
    return &dump->known[hash >> 53 & (KNOWN - 1)];
}

/* Keeps the line just printed. */
static void known_learn(struct dump *dump, uint8_t header, uint64_t payload)
{
    struct known *known = known_slot(dump, header, payload);
    size_t size = dump->out.size - dump->rest;
    if (!recurs(header) || size > sizeof known->text)
        return;
    known->payload = payload;
    known->header = header;
    known->size = (uint8_t)size;
    memcpy(known->text, dump->out.data + dump->rest, size);
}

/*
 * Copies the line for the packet at data, where 16 bytes can be read; returns the packet's length,
 * or 0 if the line is not known.
 */
static inline size_t known_line(struct dump *dump, uint64_t offset, const uint8_t *data)
{
    uint8_t header = data[0];
    uint64_t payload = le64(data + 1);
    size_t length = 1;
    if (header == 0 && dump->options->format == DUMP_TEXT) {
        if (payload)
            length += (size_t)__builtin_ctzll(payload) / 8;
        else
            length = 9 + zeros(data + 9, 7);
        if (length == 16 && dump->options->style == SPEX_TEXT_SPEX)
            return 0; /* more padding may follow */
        payload = length;
    } else if (!WIRE_SIZE(header)) {
        payload = 0;
    } else {
        unsigned size = (unsigned)WIRE_SIZE(header);
        payload &= ~UINT64_C(0) >> (64 - 8 * size);
        length += size;
    }
    const struct known *known = known_slot(dump, header, payload);
    if (known->payload != payload || known->header != header || !known->size)
        return 0;
    start_line(dump, offset);
    char *p = out_room(&dump->out, LINE_ROOM);
    memcpy(p, known->text, 96); /* a fixed size compiles to a few moves */
    if (known->size > 96)
        memcpy(p + 96, known->text + 96, sizeof known->text - 96);
    dump->out.size += known->size;
    return length;
}

void dump_forget(struct dump *dump)
{
    memset(dump->known, 0, KNOWN * sizeof *dump->known);
}

/*
 * perf does not know reserved packets: it continues at the next byte. (It accepts 0x63 and 0x73.)
 */
static bool lost_to_perf(const struct dump_style *options, const struct spex_packet *packet)
{
    return options->format == DUMP_TEXT && options->style != SPEX_TEXT_SPEX &&
           packet->type == SPEX_PACKET_RESERVED && packet->header[0] != 0x63 &&
           packet->header[0] != 0x73;
}

/*
 * perf reads an extended header with nothing after it as padding up to a boundary (an old meaning)
 * in its own memory, where data begins at a multiple of 8. Returns its length, or 0.
 */
static inline size_t perf_alignment(const struct dump_style *options, uint64_t offset,
                                    const uint8_t *data, size_t size)
{
    if (__builtin_expect((data[0] & 0xfc) != 0x20, 1) || options->format != DUMP_TEXT ||
        options->style == SPEX_TEXT_SPEX || size < 2 || data[1])
        return 0;
    size_t boundary = (size_t)2 << (data[0] & 3), length = boundary - (offset & (boundary - 1));
    if (size < boundary)
        return 0;
    size_t rest = size - length < 16 - length ? size - length : 16 - length;
    return length + zeros(data + length, rest); /* one line includes the padding after it */
}

/* Prints what there is of a packet in which the data ends. */
static void truncated(struct dump *dump, uint64_t offset, const uint8_t *data, size_t size)
{
    struct dump_text *text = dump->text;
    text->cut[text->cuts].at = dump->out.size;
    text->cut[text->cuts].offset = offset;
    text->cut[text->cuts++].header = data[0];
    if (dump->options->format == DUMP_JSON) {
        struct spex_packet part = {.header = {data[0]}, .header_size = 1};
        if ((data[0] & 0xe0) == 0x20 && size > 1) {
            part.header[1] = data[1];
            part.header_size = 2;
        }
        part.size = (uint8_t)(size - part.header_size);
        for (unsigned i = 0; i < part.size; i++)
            part.payload |= (uint64_t)data[part.header_size + i] << (8 * i);
        start_line(dump, offset);
        json_rest(dump, "truncated", false, &part);
    } else if (dump->options->style == SPEX_TEXT_SPEX) {
        text_line(dump, offset, data, size, "truncated");
    } else {
        text_line(dump, offset, data, 1, "Bad packet!");
    }
}

size_t dump_packets(struct dump *dump, const uint8_t *data, size_t size, uint64_t offset,
                    bool final, size_t position, size_t to)
{
    enum { TAIL = 32 };
    bool json = dump->options->format == DUMP_JSON;
    while (position < to && (final || size - position >= TAIL)) {
        const uint8_t *at = data + position;
        struct spex_packet packet;
        size_t n = size - position >= 16 ? known_line(dump, offset + position, at) : 0;
        if (n) {
            position += n;
            continue;
        }
        if (*at == 0 && !json) {
            n = padding_line(dump, offset + position, at, size - position, !final && position > 0);
            if (n == 0)
                break;
            known_learn(dump, 0, n);
            position += n;
            continue;
        }
        n = perf_alignment(dump->options, offset + position, at, size - position);
        if (n) {
            text_line(dump, offset + position, at, n, "PAD");
            position += n;
            continue;
        }
        if (spex_packet_decode(at, size - position, &packet) != SPEX_OK) {
            truncated(dump, offset + position, at, size - position);
            /* perf continues at the next byte. */
            position = json || dump->options->style == SPEX_TEXT_SPEX ? size : position + 1;
            continue;
        }
        if (lost_to_perf(dump->options, &packet)) {
            text_line(dump, offset + position++, at, 1, "Bad packet!");
            continue;
        }
        start_line(dump, offset + position);
        packet_rest(dump, at, &packet);
        known_learn(dump, *at, packet.payload);
        position += spex_packet_length(&packet);
    }
    return position;
}

size_t dump_line_bytes(const struct dump_style *options, uint64_t offset, const uint8_t *data,
                       size_t size)
{
    struct spex_packet packet;
    size_t n = perf_alignment(options, offset, data, size);
    if (n)
        return n;
    if (*data == 0 && options->format == DUMP_TEXT)
        return zeros(data, options->style != SPEX_TEXT_SPEX && size > 16 ? 16 : size);
    if (spex_packet_decode(data, size, &packet) != SPEX_OK)
        return size;
    return lost_to_perf(options, &packet) ? 1 : spex_packet_length(&packet);
}
