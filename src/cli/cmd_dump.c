/*
 * spex dump: one packet per line.
 *
 * Works on blocks of a few megabytes whatever the input's size, several threads at once, and
 * writes each line straight into a buffer of text.
 */
#include "cli.h"
#include "window.h"

#include <spex/perfdata.h>
#include <spex/record.h>

#include "base/bits.h"
#include "base/chunks.h"
#include "base/digits.h"
#include "base/json.h"
#include "base/out.h"
#include "wire/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum format { TEXT, JSON };

struct options {
    bool raw;
    int style;  /* enum spex_text_style */
    int format; /* enum format */
    struct cli_list inputs;
    const char *time;
    uint64_t threads, max_memory;
};

/* A line that was printed, but for its offset. */
struct known {
    uint64_t payload;
    uint8_t header, size; /* 0: none */
    char text[182];
};

enum { KNOWN = 2048 };

/* The text of a chunk, and where in it the data ended inside a packet. */
struct text {
    struct out out;
    size_t cuts;
    struct {
        size_t at; /* in the text */
        uint64_t offset;
        uint8_t header;
    } cut[SPEX_PACKET_MAX];
};

/* What each thread has of its own. */
struct dump {
    _Alignas(CHUNKS_APART) struct text *text;
    struct out out;      /* text->out while it is filled */
    struct known *known; /* KNOWN of them, by hash */
    size_t rest;         /* where the line goes on after its offset */
    enum spex_text_style style;
    const struct options *options;
    const struct spex_perf_queue *queue; /* that packets come from; NULL for a raw stream */
};

/* The command as a whole. */
struct command {
    const struct options *options;
    struct out out;
    struct chunks *chunks;
    struct dump *threads;
    const char *name;      /* of the input, for messages */
    struct window *window; /* --time */
    bool damaged;
    uint64_t done, all; /* bytes of the input; 0: not known */
    /* the block at work */
    const uint8_t *data;
    size_t size;
    uint64_t offset;
    bool final;
};

/* ---- lines: the offset, then the text, which is the same for the same bytes ---- */

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

/* "b0 d0 ... " in width columns, which is more than 3 * count. */
static inline char *put_bytes(char *p, const uint8_t *bytes, size_t count, size_t width)
{
    memset(p, ' ', width);
    for (size_t i = 0; i < count; i++)
        memcpy(p + 3 * i, hex_bytes + 3 * bytes[i], 4); /* the fourth is overwritten, or a space */
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
        struct json json = json_to(out);
        JSON_FIRST(&json, "offset", u64, offset);
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
    if (dump->options->format == JSON)
        json_rest(dump, spex_packet_type_name((enum spex_packet_type)packet->type),
                  has_index(packet->type), packet);
    else
        text_rest(dump, bytes, spex_packet_length(packet), packet, NULL);
}

/* ---- lines seen before ---- */

/*
 * Most packets of a stream repeat: operations, events, latencies, contexts, program counters.
 * Data addresses and timestamps hardly ever do and are not kept.
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

/* perf does not know reserved packets: it goes on at the next byte. (It accepts 0x63 and 0x73.) */
static bool lost_to_perf(const struct options *options, const struct spex_packet *packet)
{
    return options->format == TEXT && options->style != SPEX_TEXT_SPEX &&
           packet->type == SPEX_PACKET_RESERVED && packet->header[0] != 0x63 &&
           packet->header[0] != 0x73;
}

/*
 * perf takes an extended header with nothing after it for padding up to a boundary (an old
 * meaning) in its own memory, where data begins at a multiple of 8. Its length, or 0.
 */
static inline size_t perf_alignment(const struct options *options, uint64_t offset,
                                    const uint8_t *data, size_t size)
{
    if (__builtin_expect((data[0] & 0xfc) != 0x20, 1) || options->format != TEXT ||
        options->style == SPEX_TEXT_SPEX || size < 2 || data[1])
        return 0;
    size_t boundary = (size_t)2 << (data[0] & 3), length = boundary - (offset & (boundary - 1));
    if (size < boundary)
        return 0;
    size_t rest = size - length < 16 - length ? size - length : 16 - length;
    return length + zeros(data + length, rest); /* one line with the padding after */
}

/* The data ends inside a packet: what there is of it. */
static void truncated(struct dump *dump, uint64_t offset, const uint8_t *data, size_t size)
{
    struct text *text = dump->text;
    text->cut[text->cuts].at = dump->out.size;
    text->cut[text->cuts].offset = offset;
    text->cut[text->cuts++].header = data[0];
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
 * Prints packets from position on to the first that begins at `to` or after it; data
 * is at offset in the stream. Unless final, it stops where the rest could be cut or
 * padding could go on. Returns where it stopped.
 */
static size_t dump_packets(struct dump *dump, const uint8_t *data, size_t size, uint64_t offset,
                           bool final, size_t position, size_t to)
{
    enum { TAIL = 32 };
    bool json = dump->options->format == JSON;
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
            /* perf goes on at the next byte. */
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

/* ---- blocks, by several threads ---- */

/* The bytes of the line at data. */
static size_t line_bytes(const struct options *options, uint64_t offset, const uint8_t *data,
                         size_t size)
{
    struct spex_packet packet;
    size_t n = perf_alignment(options, offset, data, size);
    if (n)
        return n;
    if (*data == 0 && options->format == TEXT)
        return zeros(data, options->style != SPEX_TEXT_SPEX && size > 16 ? 16 : size);
    if (spex_packet_decode(data, size, &packet) != SPEX_OK)
        return size;
    return lost_to_perf(options, &packet) ? 1 : spex_packet_length(&packet);
}

/* The first line after from, counted from the record before. */
static bool guess(void *user, size_t from, size_t to, struct chunks_state *state)
{
    const struct command *command = user;
    struct spex_record before;
    size_t start;
    if (!spex_record_find(command->data, command->size, from, to, &before, &start))
        return false;
    for (start = (size_t)before.offset; start < from;)
        start += line_bytes(command->options, command->offset + start, command->data + start,
                            command->size - start);
    *state = (struct chunks_state){.position = start};
    return start < to;
}

static void print_chunk(void *user, unsigned thread, struct chunks_state *state, size_t to,
                        void *result)
{
    const struct command *command = user;
    struct dump *dump = &command->threads[thread];
    struct text *text = result;
    if (!text->out.data)
        out_init(&text->out, -1);
    dump->text = text;
    dump->out = text->out;
    dump->out.size = 0;
    text->cuts = 0;
    state->position = dump_packets(dump, command->data, command->size, command->offset,
                                   command->final, (size_t)state->position, to);
    text->out = dump->out;
}

static bool write_chunk(void *user, void *result)
{
    struct command *command = user;
    const struct text *text = result;
    size_t done = 0;
    for (size_t i = 0; i < text->cuts; i++) {
        out_block(&command->out, text->out.data + done, text->cut[i].at - done);
        done = text->cut[i].at;
        out_flush(&command->out); /* keeps messages and text in order on a terminal */
        cli_error("%s: byte %llu: the data ends inside a packet (header 0x%02x)", command->name,
                  (unsigned long long)text->cut[i].offset, text->cut[i].header);
        command->damaged = true;
    }
    out_block(&command->out, text->out.data + done, text->out.size - done);
    if (!command->out.error)
        command->out.error = text->out.error;
    return !command->out.error;
}

static void free_text(void *result)
{
    out_fini(&((struct text *)result)->out);
}

/* Prints packets of data, which is at offset in the stream. Returns how many bytes it used. */
static size_t dump_block(struct command *command, const uint8_t *data, size_t size, uint64_t offset,
                         bool final)
{
    struct chunks_job job = {
        .user = command,
        .size = size,
        .chunk = 32 * 1024, /* its text stays in the second cache */
        .guess = guess,
        .run = print_chunk,
        .reduce = write_chunk,
    };
    struct chunks_state state = {.position = 0};
    command->data = data;
    command->size = size;
    command->offset = offset;
    command->final = final;
    chunks_run(command->chunks, &job, &state);
    return (size_t)state.position;
}

/* For --time: each run of chosen records that lie together. */
struct windowed {
    struct command *command;
    const uint8_t *data;
    uint64_t offset;
};

static void dump_records(void *context, size_t from, size_t to)
{
    const struct windowed *w = context;
    dump_block(w->command, w->data + from, to - from, w->offset + from, true);
}

/* As dump_block, but with --time. */
static size_t dump_piece(struct command *command, const uint8_t *data, size_t size, uint64_t offset,
                         bool final)
{
    struct windowed windowed = {command, data, offset};
    size_t used = command->window
                      ? window_feed(command->window, data, size, final, dump_records, &windowed)
                      : dump_block(command, data, size, offset, final);
    command->done += used;
    if (command->all)
        cli_progress(command->name, command->done, command->all);
    return used;
}

/* ---- inputs ---- */

static int dump_raw(struct command *command, const char *path)
{
    enum { BLOCK = 4 << 20 };
    int fd = STDIN_FILENO, status = CLI_OK;
    if (strcmp(path, "-")) {
        command->name = path;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            cli_error("%s: %s", path, strerror(errno));
            return CLI_DATA;
        }
    }
    uint8_t *block = malloc(BLOCK);
    size_t size = 0;
    uint64_t offset = 0;
    command->all = isatty(STDOUT_FILENO) ? 0 : cli_size(fd);
    while (block && !command->out.error) {
        ssize_t n = read(fd, block + size, BLOCK - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            cli_error("%s: %s", command->name, strerror(errno));
            status = CLI_DATA;
            break;
        }
        size += (size_t)n;
        if (n > 0 && size < BLOCK)
            continue;
        size_t used = dump_piece(command, block, size, offset, n == 0);
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

/* perf 7 names an event that only Neoverse N1 has. */
static void choose_style(struct command *command, uint64_t midr)
{
    enum spex_text_style style = (enum spex_text_style)command->options->style;
    if (style == SPEX_TEXT_PERF7 && (midr & 0xff00fff0) == 0x4100d0c0)
        style = SPEX_TEXT_PERF7_N1;
    for (unsigned t = 0; t < chunks_threads(command->chunks); t++) {
        if (command->threads[t].style != style)
            known_forget(&command->threads[t]);
        command->threads[t].style = style;
    }
}

/* perf's way: each AUXTRACE record by itself, in the order of the file, offsets from 0. */
static void dump_auxtrace(struct command *command, struct spex_perfdata *file)
{
    struct spex_perf_event event;
    uint64_t type = 0;
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++)
        type |= spex_perfdata_attr(file, i)->sample_type;
    while (!command->out.error && spex_perfdata_next(file, &event) == SPEX_OK) {
        if (event.type != SPEX_PERF_AUXTRACE)
            continue;
        /* perf prints the CPU and time of the record, which it does not have. */
        out_printf(&command->out,
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
        choose_style(command, spex_perfdata_midr(file, event.u.auxtrace.cpu));
        if (command->window)
            window_restart(command->window);
        dump_piece(command, event.u.auxtrace.data, (size_t)event.u.auxtrace.available, 0, true);
    }
}

static void heading(struct command *command, const struct spex_perf_queue *queue,
                    const struct spex_aux_span *span)
{
    if (command->options->format == JSON || span->contiguous)
        return;
    if (queue->cpu >= 0)
        out_printf(&command->out, "# cpu %d", queue->cpu);
    else
        out_printf(&command->out, "# thread %d", queue->tid);
    out_text(&command->out, span->position ? ": data was lost before this\n" : "\n");
}

/* One queue after the other; packets cut by chunks are whole. Offsets are those of the queue.
 */
static int dump_queues(struct command *command, struct spex_perfdata *file)
{
    for (size_t i = 0; i < spex_perfdata_queue_count(file) && !command->out.error; i++) {
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        const struct spex_perf_queue *queue = spex_perfdata_queue(file, i);
        for (unsigned t = 0; t < chunks_threads(command->chunks); t++) {
            command->threads[t].queue = queue;
            known_forget(&command->threads[t]); /* lines name the queue */
        }
        if (spex_aux_open(file, i, &cursor) != SPEX_OK) {
            cli_error("out of memory");
            return CLI_DATA;
        }
        if (command->window)
            window_restart(command->window);
        while (!command->out.error && spex_aux_next(cursor, &span) == SPEX_OK) {
            size_t used = 0;
            heading(command, queue, &span);
            /* The bytes left over are a cut packet, or a run of padding that may be long. */
            do
                used += dump_piece(command, span.data + used, span.size - used, span.offset + used,
                                   span.last);
            while (span.size - used > SPEX_AUX_KEEP_MAX && !command->out.error);
            spex_aux_keep(cursor, span.size - used);
        }
        spex_aux_close(cursor);
    }
    return CLI_OK;
}

static int dump_perfdata(struct command *command, const char *path)
{
    struct spex_perfdata *file;
    struct spex_error error;
    int status = CLI_OK;
    if (spex_perfdata_open(path, &file, &error) != SPEX_OK) {
        cli_error("%s%s", error.text,
                  error.status == SPEX_INVALID ? "; for an SPE stream use --raw" : "");
        return CLI_DATA;
    }
    command->name = spex_perfdata_info(file)->path;
    command->all = isatty(STDOUT_FILENO) ? 0 : spex_perfdata_info(file)->aux_bytes;
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++) {
        const struct spex_perf_problem *p = spex_perfdata_problem(file, i);
        cli_error("%s: byte %llu: %s", command->name, (unsigned long long)p->offset, p->text);
        command->damaged = true;
    }
    if (command->options->time)
        status = window_new(command->options->time, file, &command->window);
    if (status) {
        ; /* already reported */
    } else if (!spex_perfdata_queue_count(file)) {
        cli_error("%s: no SPE data in this file", command->name);
        status = CLI_DATA;
    } else if (command->options->format == TEXT && command->options->style != SPEX_TEXT_SPEX) {
        dump_auxtrace(command, file);
    } else {
        status = dump_queues(command, file);
    }
    spex_perfdata_close(file);
    return status;
}

static bool start_threads(struct command *command)
{
    command->chunks = chunks_new(cli_threads(command->options->threads), sizeof(struct text));
    unsigned threads = command->chunks ? chunks_threads(command->chunks) : 0;
    command->threads =
        threads ? aligned_alloc(CHUNKS_APART, threads * sizeof *command->threads) : NULL;
    bool ok = command->threads != NULL;
    for (unsigned i = 0; ok && i < threads; i++)
        command->threads[i] = (struct dump){.options = command->options,
                                            .style = (enum spex_text_style)command->options->style};
    for (unsigned i = 0; ok && i < threads; i++) {
        command->threads[i].known = calloc(KNOWN, sizeof *command->threads[i].known);
        ok = command->threads[i].known != NULL;
    }
    if (!ok)
        cli_error("out of memory");
    return ok;
}

static void end_threads(struct command *command)
{
    for (unsigned i = 0; command->threads && i < chunks_threads(command->chunks); i++)
        free(command->threads[i].known);
    free(command->threads);
    chunks_free(command->chunks, free_text);
}

static int dump_input(struct command *command, const char *path)
{
    const struct options *o = command->options;
    int status = CLI_OK;
    command->name = "standard input";
    if (o->raw && o->time)
        status = window_new(o->time, NULL, &command->window);
    if (!status)
        status = o->raw ? dump_raw(command, path) : dump_perfdata(command, path);
    window_free(command->window);
    command->window = NULL;
    command->done = 0;
    cli_progress_end();
    return status;
}

static int run(void *data, int argc, char **argv)
{
    const struct options *options = data;
    size_t count = options->inputs.count + (size_t)argc;
    struct command command = {.options = options};
    int status = CLI_DATA, error = 0;
    if (start_threads(&command)) {
        out_init(&command.out, STDOUT_FILENO);
        status = CLI_OK;
        for (size_t i = 0; i < (count ? count : 1) && status != CLI_USAGE; i++) {
            const char *path = !count                      ? "perf.data"
                               : i < options->inputs.count ? options->inputs.items[i]
                                                           : argv[i - options->inputs.count];
            if (count > 1 && options->format == TEXT)
                out_line(&command.out, "# %s", path);
            int one = dump_input(&command, path);
            status = one ? one : status;
        }
        error = out_fini(&command.out);
    }
    end_threads(&command);
    if (error) {
        cli_error("standard output: %s", strerror(error));
        return CLI_DATA;
    }
    return command.damaged && !status ? CLI_DATA : status;
}

static const char *const styles[] = {"spex", "perf", "perf-7", NULL};
static const char *const formats[] = {"text", "json", NULL};

const struct cli_command cli_dump = {
    .name = "dump",
    .group = "Records",
    .synopsis = "[FILE|-]...",
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
            {"format", 'f', CLI_CHOICE, offsetof(struct options, format), "FORMAT", "text or json",
             "text", formats},
            {"input", 'i', CLI_LIST, offsetof(struct options, inputs), "FILE",
             "the input; several are printed one after the other", NULL, NULL},
            CLI_WINDOW(offsetof(struct options, time)),
            CLI_THREADS(struct options, threads),
            CLI_MEMORY(offsetof(struct options, max_memory)),
            {NULL},
        },
    .size = sizeof(struct options),
    .run = run,
};
