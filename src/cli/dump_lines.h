/* Packets of a stream as lines of text or JSON, written directly into a text buffer. */
#ifndef CLI_DUMP_LINES_H
#define CLI_DUMP_LINES_H

#include "base/chunks.h"
#include "base/out.h"

#include <spex/perfdata.h>
#include <spex/wire.h>

enum dump_format { DUMP_TEXT, DUMP_JSON };

struct dump_style {
    int style;  /* enum spex_text_style */
    int format; /* enum dump_format */
};

/* The text of a chunk, and where in the text the data ended inside a packet. */
struct dump_text {
    struct out out;
    size_t cuts;
    struct {
        size_t at; /* offset in the text */
        uint64_t offset;
        uint8_t header;
    } cut[SPEX_PACKET_MAX];
};

/* The state of one thread. */
struct dump {
    _Alignas(CHUNKS_APART) struct dump_text *text;
    struct out out;      /* text->out while it is filled */
    struct known *known; /* lines that were printed */
    size_t rest;         /* where the line continues after its offset */
    enum spex_text_style style;
    const struct dump_style *options;
    /* the queue that packets come from; NULL for a raw stream */
    const struct spex_perf_queue *queue;
};

/* False if there is no memory; dump_fini() must be called all the same. */
bool dump_init(struct dump *dump, const struct dump_style *options);
void dump_fini(struct dump *dump);
/* Call it when the following lines differ from those before in style or queue. */
void dump_forget(struct dump *dump);
/*
 * Prints packets from position on to the first that begins at `to` or after it; data
 * is at offset in the stream. Unless final, it stops where the rest could be cut or
 * padding could go on. Returns where it stopped.
 */
size_t dump_packets(struct dump *dump, const uint8_t *data, size_t size, uint64_t offset,
                    bool final, size_t position, size_t to);
/* How many bytes the line for the data takes. */
size_t dump_line_bytes(const struct dump_style *options, uint64_t offset, const uint8_t *data,
                       size_t size);

#endif
