/*
 * spex dump: one packet per line.
 *
 * Works on blocks of a few hundred kilobytes whatever the input's size, and
 * writes each line straight into the output buffer.
 */
#include "cli.h"

#include <spex/perfdata.h>
#include <spex/wire.h>

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

struct dump {
    struct out out;
    const struct options *options;
    const char *name;                    /* of the input, for messages */
    const struct spex_perf_queue *queue; /* that packets come from; NULL for a raw stream */
    bool damaged;
};

/* ---- lines ---- */

enum { LINE_ROOM = SPEX_PACKET_TEXT_MAX + 128 };

static const char digits[] = "0123456789abcdef";

static inline char *put_byte(char *p, unsigned byte)
{
    p[0] = digits[byte >> 4];
    p[1] = digits[byte & 15];
    return p + 2;
}

static inline char *put_offset(char *p, uint64_t offset)
{
    for (int shift = offset >> 32 ? 56 : 24; shift >= 0; shift -= 8)
        p = put_byte(p, (unsigned)(offset >> shift) & 255);
    return p;
}

/* perf: ".  00000000:  b0 d0 ... " with room for 16 bytes. */
static inline char *start_perf(char *p, uint64_t offset, const uint8_t *bytes, size_t count)
{
    memcpy(p, ".  ", 3);
    p = put_offset(p + 3, offset);
    memset(p, ' ', 2 + 3 * 16 + 1);
    p[0] = ':';
    for (size_t i = 0; i < count; i++)
        put_byte(p + 3 + 3 * i, bytes[i]);
    return p + 2 + 3 * 16 + 1;
}

/* Ours: "00000000  b0 d0 ...  " with room for the ten bytes of the longest packet. */
static inline char *start_own(char *p, uint64_t offset, const uint8_t *bytes, size_t count)
{
    p = put_offset(p, offset);
    memset(p, ' ', 2 + 3 * SPEX_PACKET_MAX + 1);
    for (size_t i = 0; i < count; i++)
        put_byte(p + 2 + 3 * i, bytes[i]);
    return p + 2 + 3 * SPEX_PACKET_MAX + 1;
}

static size_t zeros(const uint8_t *data, size_t size)
{
    size_t n = 0;
    while (n < size && data[n] == 0)
        n++;
    return n;
}

static void text_line(struct dump *dump, uint64_t offset, const uint8_t *bytes, size_t count,
                      const struct spex_packet *packet, const char *text)
{
    char *start = out_room(&dump->out, LINE_ROOM);
    char *p = dump->options->style == SPEX_TEXT_SPEX ? start_own(start, offset, bytes, count)
                                                     : start_perf(start, offset, bytes, count);
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

/*
 * A run of padding: perf shows up to 16 bytes a line, we say how many there are.
 * Returns its length, or 0 if more might follow (the run reaches the end of a block).
 */
static size_t padding_line(struct dump *dump, uint64_t offset, const uint8_t *data, size_t size,
                           bool more)
{
    if (dump->options->style != SPEX_TEXT_SPEX) {
        size_t n = zeros(data, size < 16 ? size : 16);
        text_line(dump, offset, data, n, NULL, "PAD");
        return n;
    }
    size_t n = zeros(data, size);
    if (n == size && more)
        return 0;
    text_line(dump, offset, data, n < SPEX_PACKET_MAX ? n : SPEX_PACKET_MAX, NULL, "padding");
    if (n > 1) {
        dump->out.size--; /* the newline */
        out_text(&dump->out, " x ");
        out_u64(&dump->out, n);
        out_char(&dump->out, '\n');
    }
    return n;
}

static void json_line(struct dump *dump, uint64_t offset, const char *name, bool index,
                      const struct spex_packet *packet)
{
    struct out *out = &dump->out;
    out_text(out, "{\"offset\":");
    out_u64(out, offset);
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
        json_line(dump, offset, "truncated", false, &part);
    } else if (dump->options->style == SPEX_TEXT_SPEX) {
        text_line(dump, offset, data, size, NULL, "truncated");
    } else {
        text_line(dump, offset, data, 1, NULL, "Bad packet!");
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
        if (*at == 0 && !json) {
            size_t n = padding_line(dump, offset + position, at, size - position,
                                    !final && position > 0);
            if (n == 0)
                break;
            position += n;
            continue;
        }
        if (spex_packet_decode(at, size - position, &packet) != SPEX_OK) {
            truncated(dump, offset + position, at, size - position);
            /* perf goes on at the next byte. */
            position = json || dump->options->style == SPEX_TEXT_SPEX ? size : position + 1;
            continue;
        }
        size_t length = spex_packet_length(&packet);
        if (json)
            json_line(dump, offset + position,
                      spex_packet_type_name((enum spex_packet_type)packet.type),
                      has_index(packet.type), &packet);
        else
            text_line(dump, offset + position, at, length, &packet, NULL);
        position += length;
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
    out_init(&dump.out, STDOUT_FILENO);
    int status = CLI_OK;
    if (options->raw)
        status = dump_raw(&dump, path);
    else
        status = dump_perfdata(&dump, path);
    int error = out_fini(&dump.out);
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
