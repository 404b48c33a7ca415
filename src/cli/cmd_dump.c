/*
 * spex dump: one packet per line.
 *
 * Works on blocks of a few hundred kilobytes whatever the input's size, and
 * writes each line straight into the output buffer.
 */
#include "cli.h"

#include <spex/perfdata.h>
#include <spex/wire.h>

#include "base/bits.h"
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum format { TEXT, JSON };

struct options {
    bool raw;
    int style;  /* enum spex_text_style */
    int format; /* enum format */
    const char *input;
};

/* A line that was printed, but for its offset. */
struct known {
    uint64_t payload;
    uint8_t header, size; /* 0: none */
    char text[182];
};

enum { KNOWN = 2048 };

struct dump {
    struct out out;
    struct known *known; /* KNOWN of them, by hash */
    size_t rest;         /* where the line goes on after its offset */
    const struct options *options;
    const char *name;                    /* of the input, for messages */
    const struct spex_perf_queue *queue; /* that packets come from; NULL for a raw stream */
    bool damaged;
};

/* ---- lines: where, then what, which is the same for the same bytes ---- */

enum { LINE_ROOM = SPEX_PACKET_TEXT_MAX + 192 };

#define HEX16(h)                                                                               \
    h "0 " h "1 " h "2 " h "3 " h "4 " h "5 " h "6 " h "7 " h "8 " h "9 " h "a " h "b " h      \
      "c " h "d " h "e " h "f "
static const char hex_bytes[] = HEX16("0") HEX16("1") HEX16("2") HEX16("3") HEX16("4")
    HEX16("5") HEX16("6") HEX16("7") HEX16("8") HEX16("9") HEX16("a") HEX16("b") HEX16("c")
        HEX16("d") HEX16("e") HEX16("f") " ";

static inline char *put_hex32(char *p, uint32_t value)
{
    uint64_t digits = value; /* a nibble per byte, the highest first in memory */
    digits = (digits << 16 | digits) & UINT64_C(0x0000ffff0000ffff);
    digits = (digits << 8 | digits) & UINT64_C(0x00ff00ff00ff00ff);
    digits = (digits << 4 | digits) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t letters =
        (digits + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    digits += UINT64_C(0x3030303030303030) + letters * ('a' - '0' - 10);
    put_le64(p, __builtin_bswap64(digits));
    return p + 8;
}

static inline char *put_offset(char *p, uint64_t offset)
{
    if (offset >> 32)
        p = put_hex32(p, (uint32_t)(offset >> 32));
    return put_hex32(p, (uint32_t)offset);
}

/* "b0 d0 ... " in width columns, which is more than 3 * count. */
static inline char *put_bytes(char *p, const uint8_t *bytes, size_t count, size_t width)
{
    memset(p, ' ', width);
    for (size_t i = 0; i < count; i++)
        memcpy(p + 3 * i, hex_bytes + 3 * bytes[i],
               4); /* the fourth is overwritten, or a space */
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
    char *start = out_room(out, LINE_ROOM), *p = start; /* for the whole line */
    if (dump->options->format == JSON) {
        out_text(out, "{\"offset\":");
        out_u64(out, offset);
    } else {
        if (dump->options->style != SPEX_TEXT_SPEX)
            p = (char *)memcpy(p, ".  ", 3) + 3;
        out->size += (size_t)(put_offset(p, offset) - start);
    }
    dump->rest = out->size;
}

/* perf: room for 16 bytes. Ours: for the ten of the longest packet. */
static void text_rest(struct dump *dump, const uint8_t *bytes, size_t count,
                      const struct spex_packet *packet, const char *text)
{
    char *start = out_room(&dump->out, LINE_ROOM), *p;
    if (dump->options->style == SPEX_TEXT_SPEX) {
        p = put_bytes((char *)memcpy(start, "  ", 2) + 2, bytes, count,
                      3 * SPEX_PACKET_MAX + 1);
    } else {
        p = put_bytes((char *)memcpy(start, ":  ", 3) + 3, bytes, count, 3 * 16);
    }
    if (text) {
        size_t n = strlen(text);
        memcpy(p, text, n);
        p += n;
    } else {
        p += spex_packet_text(packet, (enum spex_text_style)dump->options->style, p,
                              SPEX_PACKET_TEXT_MAX);
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
 * A run of padding: perf shows up to 16 bytes a line, we say how many there are.
 * Returns its length, or 0 if more might follow (the run reaches the end of a block).
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
    struct out *out = &dump->out;
    if (dump->queue) {
        bool thread = dump->queue->cpu < 0;
        out_text(out, thread ? ",\"tid\":" : ",\"cpu\":");
        out_i64(out, thread ? dump->queue->tid : dump->queue->cpu);
    }
    out_text(out, ",\"packet\":\"");
    out_text(out, name);
    if (index) {
        out_text(out, "\",\"index\":");
        out_u64(out, packet->index);
        out_text(out, ",\"header\":\"");
    } else {
        out_text(out, "\",\"header\":\"");
    }
    for (unsigned i = 0; i < packet->header_size; i++)
        out_hex_fixed(out, packet->header[i], 2);
    out_text(out, "\",\"size\":");
    out_u64(out, packet->size);
    out_text(out, ",\"payload\":\"0x");
    out_hex(out, packet->payload);
    out_text(out, "\"}\n");
}

static bool has_index(unsigned type)
{
    return type == SPEX_PACKET_ADDRESS || type == SPEX_PACKET_COUNTER ||
           type == SPEX_PACKET_CONTEXT || type == SPEX_PACKET_OPERATION_TYPE;
}

static void packet_rest(struct dump *dump, const uint8_t *bytes,
                        const struct spex_packet *packet)
{
    if (dump->options->format == JSON)
        json_rest(dump, spex_packet_type_name((enum spex_packet_type)packet->type),
                  has_index(packet->type), packet);
    else
        text_rest(dump, bytes, spex_packet_length(packet), packet, NULL);
}

/* ---- lines seen before ---- */

/*
 * Most packets of a stream are few: operations, events, latencies, contexts, program counters.
 * Addresses of data and timestamps hardly come again and are not kept.
 */
static bool recurs(uint8_t header)
{
    return header != 0x71 && (header & 0xfe) != 0xb2 && (header & 0xe0) != 0x20;
}

static struct known *known_slot(struct dump *dump, uint8_t header, uint64_t payload)
{
    uint64_t hash = (payload ^ (uint64_t)header << 52) * UINT64_C(0x9e3779b97f4a7c15);
    return &dump->known[hash >> 53 & (KNOWN - 1)];
}

/* The line just printed. */
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

/* The line of the packet at data, which has 16 bytes; its length, or 0 if it is not known. */
static inline size_t known_line(struct dump *dump, uint64_t offset, const uint8_t *data)
{
    uint8_t header = data[0];
    uint64_t payload = le64(data + 1);
    size_t length = 1;
    if (header == 0 && dump->options->format == TEXT) {
        if (payload)
            length += (size_t)__builtin_ctzll(payload) / 8;
        else
            length = 9 + zeros(data + 9, 7);
        if (length == 16 && dump->options->style == SPEX_TEXT_SPEX)
            return 0; /* a run may be longer */
        payload = length;
    } else if (header < 0x40) {
        payload = 0;
    } else {
        unsigned size = 1u << (header >> 4 & 3); /* D18.1.1 */
        payload &= ~UINT64_C(0) >> (64 - 8 * size);
        length += size;
    }
    const struct known *known = known_slot(dump, header, payload);
    if (known->payload != payload || known->header != header || !known->size)
        return 0;
    start_line(dump, offset);
    char *p = out_room(&dump->out, LINE_ROOM);
    memcpy(p, known->text, 96); /* of a fixed size: a few moves */
    if (known->size > 96)
        memcpy(p + 96, known->text + 96, sizeof known->text - 96);
    dump->out.size += known->size;
    return length;
}

static void known_forget(struct dump *dump)
{
    memset(dump->known, 0, KNOWN * sizeof *dump->known);
}

/* The data ends inside a packet: what there is of it. */
static void truncated(struct dump *dump, uint64_t offset, const uint8_t *data, size_t size)
{
    dump->damaged = true;
    out_flush(&dump->out); /* keeps messages and text in order on a terminal */
    cli_error("%s: byte %llu: the data ends inside a packet (header 0x%02x)", dump->name,
              (unsigned long long)offset, data[0]);
    if (dump->options->format == JSON) {
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

/*
 * Prints packets from data, which is at offset in the stream. Unless final, it
 * stops where the rest could be cut or padding could go on. Returns how many
 * bytes it used.
 */
static size_t dump_packets(struct dump *dump, const uint8_t *data, size_t size, uint64_t offset,
                           bool final)
{
    enum { TAIL = 32 };
    bool json = dump->options->format == JSON;
    size_t position = 0;
    while (position < size && (final || size - position >= TAIL)) {
        const uint8_t *at = data + position;
        struct spex_packet packet;
        size_t n = size - position >= 16 ? known_line(dump, offset + position, at) : 0;
        if (n) {
            position += n;
            continue;
        }
        if (*at == 0 && !json) {
            n = padding_line(dump, offset + position, at, size - position,
                             !final && position > 0);
            if (n == 0)
                break;
            known_learn(dump, 0, n);
            position += n;
            continue;
        }
        if (spex_packet_decode(at, size - position, &packet) != SPEX_OK) {
            truncated(dump, offset + position, at, size - position);
            /* perf goes on at the next byte. */
            position = json || dump->options->style == SPEX_TEXT_SPEX ? size : position + 1;
            continue;
        }
        start_line(dump, offset + position);
        packet_rest(dump, at, &packet);
        known_learn(dump, *at, packet.payload);
        position += spex_packet_length(&packet);
    }
    return position;
}

/* ---- inputs ---- */

static int dump_raw(struct dump *dump, const char *path)
{
    enum { BLOCK = 512 * 1024 };
    int fd = STDIN_FILENO, status = CLI_OK;
    if (strcmp(path, "-")) {
        dump->name = path;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            cli_error("%s: %s", path, strerror(errno));
            return CLI_DATA;
        }
    }
    uint8_t *block = malloc(BLOCK);
    size_t size = 0;
    uint64_t offset = 0;
    while (block && !dump->out.error) {
        ssize_t n = read(fd, block + size, BLOCK - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            cli_error("%s: %s", dump->name, strerror(errno));
            status = CLI_DATA;
            break;
        }
        size += (size_t)n;
        if (n > 0 && size < BLOCK)
            continue;
        size_t used = dump_packets(dump, block, size, offset, n == 0);
        if (n == 0)
            break;
        memmove(block, block + used, size - used);
        size -= used;
        offset += used;
    }
    if (!block) {
        cli_error("out of memory");
        status = CLI_DATA;
    }
    free(block);
    if (fd != STDIN_FILENO)
        close(fd);
    return status;
}

/* perf's way: each AUXTRACE record by itself, in the order of the file, offsets from 0. */
static void dump_chunks(struct dump *dump, struct spex_perfdata *file)
{
    struct spex_perf_event event;
    uint64_t type = 0;
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++)
        type |= spex_perfdata_attr(file, i)->sample_type;
    while (!dump->out.error && spex_perfdata_next(file, &event) == SPEX_OK) {
        if (event.type != SPEX_PERF_AUXTRACE)
            continue;
        /* CPU and time of the record, which it does not have. */
        out_printf(&dump->out,
                   "\n%s%s%#llx [%#x]: PERF_RECORD_AUXTRACE size: %#llx  offset: %#llx  "
                   "ref: %#llx  idx: %u  tid: %d  cpu: %d\n.\n. ... ARM SPE data: size %#llx "
                   "bytes\n",
                   type & SPEX_PERF_SAMPLE_CPU ? "0 " : "",
                   type & SPEX_PERF_SAMPLE_TIME ? "0 " : "", (unsigned long long)event.offset,
                   event.size, (unsigned long long)event.u.auxtrace.size,
                   (unsigned long long)event.u.auxtrace.offset,
                   (unsigned long long)event.u.auxtrace.reference, event.u.auxtrace.idx,
                   event.u.auxtrace.tid, event.u.auxtrace.cpu,
                   (unsigned long long)event.u.auxtrace.available);
        dump_packets(dump, event.u.auxtrace.data, (size_t)event.u.auxtrace.available, 0, true);
    }
}

static void heading(struct dump *dump, const struct spex_aux_span *span)
{
    if (dump->options->format == JSON || span->contiguous)
        return;
    if (dump->queue->cpu >= 0)
        out_printf(&dump->out, "# cpu %d", dump->queue->cpu);
    else
        out_printf(&dump->out, "# thread %d", dump->queue->tid);
    out_text(&dump->out, span->position ? ": data was lost before this\n" : "\n");
}

/* One queue after the other; packets cut by chunks are whole. Offsets are those of the queue.
 */
static int dump_queues(struct dump *dump, struct spex_perfdata *file)
{
    for (size_t i = 0; i < spex_perfdata_queue_count(file) && !dump->out.error; i++) {
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        dump->queue = spex_perfdata_queue(file, i);
        known_forget(dump); /* lines name the queue */
        if (spex_aux_open(file, i, &cursor) != SPEX_OK) {
            cli_error("out of memory");
            return CLI_DATA;
        }
        while (!dump->out.error && spex_aux_next(cursor, &span) == SPEX_OK) {
            size_t used = 0;
            heading(dump, &span);
            /* What is left over is a cut packet, or a run of padding that may be long. */
            do
                used += dump_packets(dump, span.data + used, span.size - used,
                                     span.offset + used, span.last);
            while (span.size - used > SPEX_AUX_KEEP_MAX);
            spex_aux_keep(cursor, span.size - used);
        }
        spex_aux_close(cursor);
    }
    return CLI_OK;
}

static int dump_perfdata(struct dump *dump, const char *path)
{
    struct spex_perfdata *file;
    struct spex_error error;
    int status = CLI_OK;
    if (spex_perfdata_open(path, &file, &error) != SPEX_OK) {
        cli_error("%s%s", error.text,
                  error.status == SPEX_INVALID ? "; for an SPE stream use --raw" : "");
        return CLI_DATA;
    }
    dump->name = spex_perfdata_info(file)->path;
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++) {
        const struct spex_perf_problem *p = spex_perfdata_problem(file, i);
        cli_error("%s: byte %llu: %s", dump->name, (unsigned long long)p->offset, p->text);
        dump->damaged = true;
    }
    if (!spex_perfdata_queue_count(file)) {
        cli_error("%s: no SPE data in this file", dump->name);
        status = CLI_DATA;
    } else if (dump->options->format == TEXT && dump->options->style != SPEX_TEXT_SPEX) {
        dump_chunks(dump, file);
    } else {
        status = dump_queues(dump, file);
    }
    spex_perfdata_close(file);
    return status;
}

static int run(void *data, int argc, char **argv)
{
    const struct options *options = data;
    if (argc + (options->input != NULL) > 1)
        return cli_usage("one input only");
    const char *path = argc ? argv[0] : options->input ? options->input : "perf.data";
    struct dump dump = {.options = options, .name = "standard input"};
    dump.known = calloc(KNOWN, sizeof *dump.known);
    if (!dump.known) {
        cli_error("out of memory");
        return CLI_DATA;
    }
    out_init(&dump.out, STDOUT_FILENO);
    int status = CLI_OK;
    if (options->raw)
        status = dump_raw(&dump, path);
    else
        status = dump_perfdata(&dump, path);
    int error = out_fini(&dump.out);
    free(dump.known);
    if (error) {
        cli_error("standard output: %s", strerror(error));
        return CLI_DATA;
    }
    return dump.damaged && !status ? CLI_DATA : status;
}

static const char *const styles[] = {"spex", "perf", "perf-7", NULL};
static const char *const formats[] = {"text", "json", NULL};

const struct cli_command cli_dump = {
    .name = "dump",
    .group = "Records",
    .synopsis = "[FILE|-]",
    .summary = "print every packet of an SPE stream",
    .details =
        "Prints one packet per line: offset, bytes, meaning. Reserved packets are skipped by "
        "the "
        "size in their header and shown. FILE is a perf.data file (default perf.data), or with "
        "--raw the bytes of an SPE buffer; - is standard input.\n\n"
        "Offsets in a perf.data file are those of each CPU's (or thread's) data; a comment "
        "line "
        "begins each. The perf styles print AUXTRACE records one by one, as perf does.\n\n"
        "JSON has one object per packet: offset, packet, index (where the packet has one), "
        "header, size and payload; from a perf.data file also cpu, or tid.",
    .options =
        (const struct cli_option[]){
            {"raw", 'r', CLI_FLAG, offsetof(struct options, raw), NULL,
             "the input is an SPE stream, not a perf.data file", NULL, NULL},
            {"style", 's', CLI_CHOICE, offsetof(struct options, style), "STYLE",
             "spex; perf (as perf 6.1 report -D); perf-7 (as perf 7 does)", "spex", styles},
            {"format", 'f', CLI_CHOICE, offsetof(struct options, format), "FORMAT",
             "text or json", "text", formats},
            {"input", 'i', CLI_STRING, offsetof(struct options, input), "FILE", "the input",
             NULL, NULL},
            {NULL},
        },
    .size = sizeof(struct options),
    .run = run,
};
