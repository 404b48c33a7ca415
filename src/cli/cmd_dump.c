/*
 * spex dump: prints one packet per line (dump_lines.c) from each input, several threads at once, in
 * blocks of some megabytes whatever the input's size. A block holds one or more parts of streams,
 * each with a heading; its chunks count bytes as if each part began at a chunk's beginning.
 */
#include "cli.h"
#include "dump_lines.h"
#include "profile.h"
#include "window.h"

#include <spex/record.h>

#include "base/chunks.h"
#include "base/name.h"
#include "base/search.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct options {
    bool raw;
    struct dump_style how;
    struct cli_list inputs;
    const char *time;
    uint64_t threads, max_memory;
};

enum {
    CHUNK = 32 * 1024,    /* the text of a chunk stays in the L2 cache */
    PARTS_MOST = 8 << 20, /* most bytes of a file between the first and the last part of a block */
};

/* Bytes of a stream that begin with a packet. */
struct part {
    const uint8_t *data;
    size_t size;
    size_t base; /* offset in the block, a multiple of CHUNK */
    uint64_t offset;
    bool final;
    enum spex_text_style style;
    const struct spex_perf_queue *queue;
    size_t heading, heading_end; /* range in command->headings of the text before its lines */
};

/* The state of the whole command. */
struct command {
    const struct options *options;
    struct out out;
    struct chunks *chunks;
    struct dump *threads;
    const char *name;      /* name of the input, shown in messages */
    struct window *window; /* --time */
    bool damaged;
    uint64_t done, all; /* bytes of the input; 0: not known */
    /* for the parts that follow */
    enum spex_text_style style;
    const struct spex_perf_queue *queue;
    /* the block being printed */
    VEC(struct part) parts;
    struct out headings;
    size_t size;
    uint64_t first; /* offset in the file of its first part */
};

/* ---- blocks, printed by several threads ---- */

static const struct part *part_at(const struct command *command, size_t position)
{
    const struct part *parts = command->parts.items;
    return &parts[SEARCH(i, 0, command->parts.count, parts[i].base <= position) - 1];
}

/* Where the next part begins. */
static size_t part_end(const struct part *p)
{
    return p->base + (p->size ? (p->size + CHUNK - 1) / CHUNK : 1) * CHUNK;
}

/* Guesses the first line after `from`, counted from the record before. */
static bool guess(void *user, size_t from, size_t to, struct chunks_state *state)
{
    const struct command *command = user;
    const struct part *p = part_at(command, from);
    struct spex_record before;
    size_t start = from - p->base;
    to -= p->base;
    if (start && !spex_record_find(p->data, p->size, start, to, &before, &start))
        return false;
    if (start)
        for (start = (size_t)before.offset; start < from - p->base;)
            start += dump_line_bytes(&command->options->how, p->offset + start, p->data + start,
                                     p->size - start);
    *state = (struct chunks_state){.position = p->base + start};
    return start < to;
}

/* How lines look depends on the style, and in JSON on the queue. */
static void take_part(struct dump *dump, const struct part *p)
{
    if (dump->style != p->style || (dump->queue != p->queue && dump->options->format == DUMP_JSON))
        dump_forget(dump);
    dump->style = p->style;
    dump->queue = p->queue;
}

static void print_chunk(void *user, unsigned thread, struct chunks_state *state, size_t to,
                        void *result)
{
    const struct command *command = user;
    const struct part *p = part_at(command, (size_t)state->position);
    struct dump *dump = &command->threads[thread];
    struct dump_text *text = result;
    size_t position = (size_t)state->position - p->base;
    if (!text->out.data)
        out_init(&text->out, -1);
    dump->text = text;
    dump->out = text->out;
    dump->out.size = 0;
    text->cuts = 0;
    take_part(dump, p);
    if (!position)
        out_bytes(&dump->out, command->headings.data + p->heading, p->heading_end - p->heading);
    to -= p->base;
    position = dump_packets(dump, p->data, p->size, p->offset, p->final, position,
                            to < p->size ? to : p->size);
    state->position = position < p->size ? p->base + position : part_end(p);
    text->out = dump->out;
}

static bool write_chunk(void *user, void *result)
{
    struct command *command = user;
    const struct dump_text *text = result;
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
    out_fini(&((struct dump_text *)result)->out);
}

static void add_part(struct command *command, struct part part)
{
    struct part *p = vec_push(&command->parts);
    if (!p) {
        command->out.error = ENOMEM;
        return;
    }
    *p = part;
    p->base = command->size;
    p->style = command->style;
    p->queue = command->queue;
    command->size = part_end(p);
}

/* Prints the block; returns where it stopped. */
static size_t print_block(struct command *command)
{
    struct chunks_job job = {
        .user = command,
        .size = command->size,
        .chunk = CHUNK,
        .guess = guess,
        .run = print_chunk,
        .reduce = write_chunk,
    };
    struct chunks_state state = {.position = 0};
    chunks_run(command->chunks, &job, &state);
    command->parts.count = command->size = command->headings.size = 0;
    return (size_t)state.position;
}

/*
 * Prints the packets in data, which is at offset in the stream. Returns how many bytes were used.
 */
static size_t dump_block(struct command *command, const uint8_t *data, size_t size, uint64_t offset,
                         bool final)
{
    add_part(command, (struct part){.data = data, .size = size, .offset = offset, .final = final});
    const size_t used = print_block(command);
    return used < size ? used : size;
}

/* For --time: a run of chosen records that are adjacent. */
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

static void tell_progress(struct command *command, size_t used)
{
    command->done += used;
    if (!isatty(STDOUT_FILENO)) /* where the text itself shows it */
        cli_progress(command->name, command->done, command->all);
}

/* Like dump_block, but with --time. */
static size_t dump_piece(struct command *command, const uint8_t *data, size_t size, uint64_t offset,
                         bool final)
{
    struct windowed windowed = {command, data, offset};
    size_t used = command->window
                      ? window_feed(command->window, data, size, final, dump_records, &windowed)
                      : dump_block(command, data, size, offset, final);
    tell_progress(command, used);
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
    command->all = cli_size(fd);
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
    command->style = (enum spex_text_style)command->options->how.style;
    if (command->style == SPEX_TEXT_PERF7 && (midr & 0xff00fff0) == 0x4100d0c0)
        command->style = SPEX_TEXT_PERF7_N1;
}

/* Without --time, adjacent AUXTRACE records become one block. */
static void add_auxtrace(struct command *command, const struct spex_perf_event *event,
                         size_t heading)
{
    const size_t size = (size_t)event->u.auxtrace.available;
    if (!command->parts.count)
        command->first = event->offset;
    add_part(command, (struct part){.data = event->u.auxtrace.data,
                                    .size = size,
                                    .final = true,
                                    .heading = heading,
                                    .heading_end = command->headings.size});
    tell_progress(command, size);
    if (event->offset + size - command->first > PARTS_MOST)
        print_block(command);
}

/* The way of perf: each AUXTRACE record by itself, in the order of the file, offsets from 0. */
static void dump_auxtrace(struct command *command, struct spex_perfdata *file)
{
    struct spex_perf_event event;
    uint64_t type = 0;
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++)
        type |= spex_perfdata_attr(file, i)->sample_type;
    while (!command->out.error && spex_perfdata_next(file, &event) == SPEX_OK) {
        if (event.type != SPEX_PERF_AUXTRACE)
            continue;
        struct out *out = command->window ? &command->out : &command->headings;
        const size_t heading = out->size;
        /* perf prints 0 for the CPU and time of the record, which has neither */
        out_printf(out,
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
        if (command->window) {
            window_restart(command->window);
            dump_piece(command, event.u.auxtrace.data, (size_t)event.u.auxtrace.available, 0, true);
        } else {
            add_auxtrace(command, &event, heading);
        }
    }
    if (command->parts.count)
        print_block(command);
}

static void heading(struct command *command, const struct spex_perf_queue *queue,
                    const struct spex_aux_span *span)
{
    if (command->options->how.format == DUMP_JSON || span->contiguous)
        return;
    if (queue->cpu >= 0)
        out_printf(&command->out, "# cpu %d", queue->cpu);
    else
        out_printf(&command->out, "# thread %d", queue->tid);
    out_text(&command->out, span->position ? ": data was lost before this\n" : "\n");
}

/*
 * Prints one queue after the other; packets split between chunks are joined. Offsets are those of
 * the queue.
 */
static int dump_queues(struct command *command, struct spex_perfdata *file)
{
    for (size_t i = 0; i < spex_perfdata_queue_count(file) && !command->out.error; i++) {
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        const struct spex_perf_queue *queue = spex_perfdata_queue(file, i);
        command->queue = queue;
        if (spex_aux_open(file, i, &cursor) != SPEX_OK) {
            cli_error("out of memory");
            return CLI_DATA;
        }
        if (command->window)
            window_restart(command->window);
        while (!command->out.error && spex_aux_next(cursor, &span) == SPEX_OK) {
            size_t used = 0;
            heading(command, queue, &span);
            /* The bytes left over are a truncated packet, or a run of padding that may be long. */
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
                  error.status == SPEX_INVALID     ? "; for an SPE stream use --raw"
                  : error.status == SPEX_NO_MEMORY ? PROFILE_MORE_MEMORY
                                                   : "");
        return CLI_DATA;
    }
    command->name = spex_perfdata_info(file)->path;
    command->all = spex_perfdata_info(file)->aux_bytes;
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++) {
        const struct spex_perf_problem *p = spex_perfdata_problem(file, i);
        profile_problem(command->name, p);
        command->damaged = true;
    }
    const struct spex_perf_info *info = spex_perfdata_info(file);
    profile_losses(command->name, info->lost, info->truncated);
    if (command->options->time)
        status = window_new(command->options->time, file, &command->window);
    if (status) {
        ; /* already reported */
    } else if (!spex_perfdata_queue_count(file)) {
        cli_error("%s: no SPE data in this file", command->name);
        status = CLI_DATA;
    } else if (command->options->how.format == DUMP_TEXT &&
               command->options->how.style != SPEX_TEXT_SPEX) {
        dump_auxtrace(command, file);
    } else {
        status = dump_queues(command, file);
    }
    spex_perfdata_close(file);
    return status;
}

static bool start_threads(struct command *command)
{
    command->chunks = chunks_new(cli_threads(command->options->threads), sizeof(struct dump_text));
    unsigned threads = command->chunks ? chunks_threads(command->chunks) : 0;
    command->threads =
        threads ? aligned_alloc(CHUNKS_APART, threads * sizeof *command->threads) : NULL;
    bool ok = command->threads != NULL;
    for (unsigned i = 0; command->threads && i < threads; i++)
        ok &= dump_init(&command->threads[i], &command->options->how);
    if (!ok)
        cli_error("out of memory");
    return ok;
}

static void end_threads(struct command *command)
{
    for (unsigned i = 0; command->threads && i < chunks_threads(command->chunks); i++)
        dump_fini(&command->threads[i]);
    free(command->threads);
    chunks_free(command->chunks, free_text);
}

static int dump_input(struct command *command, const char *path)
{
    const struct options *o = command->options;
    int status = CLI_OK;
    command->name = "standard input";
    command->queue = NULL;
    for (unsigned t = 0; t < chunks_threads(command->chunks); t++) {
        command->threads[t].queue = NULL;
        dump_forget(&command->threads[t]);
    }
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
    struct command command = {.options = options,
                              .style = (enum spex_text_style)options->how.style};
    int status = CLI_DATA, error = 0;
    if (start_threads(&command)) {
        out_init(&command.out, STDOUT_FILENO);
        out_init(&command.headings, -1);
        status = CLI_OK;
        for (size_t i = 0; i < (count ? count : 1) && status != CLI_USAGE; i++) {
            const char *path = !count                      ? "perf.data"
                               : i < options->inputs.count ? options->inputs.items[i]
                                                           : argv[i - options->inputs.count];
            if (count > 1 && options->how.format == DUMP_TEXT)
                out_line(&command.out, "# %s", path);
            int one = dump_input(&command, path);
            status = one ? one : status;
        }
        error = out_fini(&command.out);
        out_fini(&command.headings);
        vec_free(&command.parts);
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
    .group = CLI_RECORDS,
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
            {"style", 's', CLI_CHOICE, offsetof(struct options, how.style), "STYLE",
             "spex; perf (as perf 6.1 report -D); perf-7 (as perf 7 does)", "spex", styles},
            {"format", 'f', CLI_CHOICE, offsetof(struct options, how.format), "FORMAT",
             "text or json", "text", formats},
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
