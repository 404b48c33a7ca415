/*
 * Any bytes as a perf.data file: everything is read in every way. Properties: records
 * lie inside the input, spans follow each other as they say they do, whatever is kept
 * comes again, state look-ups hold what was asked for.
 */
#include <spex/perfdata.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static void must(bool what)
{
    if (!what)
        abort();
}

static uint64_t sum;

static void look(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)data)[i];
}

static void events(struct spex_perfdata *file, size_t size)
{
    struct spex_perf_event e;
    uint64_t last = 0;
    while (spex_perfdata_next(file, &e) == SPEX_OK) {
        must(e.offset >= last && e.offset < size && e.size >= 8);
        last = e.offset;
        look(e.bytes, e.size);
        if (e.type == SPEX_PERF_SAMPLE) {
            const struct spex_perf_sample *s = &e.u.sample;
            look(s->callchain, s->callchain_count * 8);
            look(s->branches, s->branch_count * 24);
            look(s->read, s->read_count * 8);
            look(s->raw, s->raw_size);
            look(s->stack, s->stack_size);
            look(s->aux, s->aux_size);
            look(s->regs_user, s->regs_user ? s->regs_user_count * 8 : 0);
            look(s->regs_intr, s->regs_intr ? s->regs_intr_count * 8 : 0);
        } else if (e.type == SPEX_PERF_MMAP || e.type == SPEX_PERF_MMAP2) {
            look(e.u.map.filename, strlen(e.u.map.filename));
            const struct spex_perf_map *map =
                spex_perfdata_map(file, e.u.map.pid, e.u.map.start, UINT64_MAX);
            must(!map || (map->start <= e.u.map.start && map->end > e.u.map.start));
            map = spex_perfdata_map(file, e.u.map.pid, e.u.map.start, e.time);
            must(!map || map->time <= e.time);
        } else if (e.type == SPEX_PERF_COMM) {
            look(e.u.comm.comm, strlen(e.u.comm.comm));
            const char *comm = spex_perfdata_comm(file, e.u.comm.tid, e.time);
            look(comm, comm ? strlen(comm) : 0);
            spex_perfdata_pid(file, e.u.comm.tid, e.time);
        } else if (e.type == SPEX_PERF_AUXTRACE) {
            look(e.u.auxtrace.data, e.u.auxtrace.available);
        } else if (e.type == SPEX_PERF_AUXTRACE_ERROR) {
            look(e.u.auxtrace_error.message, strlen(e.u.auxtrace_error.message));
        }
        int32_t pid, tid;
        spex_perfdata_running(file, e.cpu, e.time, &pid, &tid);
    }
}

/* A consumer that uses whole items of a size and keeps the rest. */
static void spans(struct spex_perfdata *file, size_t queue, size_t item)
{
    struct spex_aux_cursor *cursor;
    struct spex_aux_span span;
    uint64_t used = 0, next = 0;
    bool any = false;
    must(spex_aux_open(file, queue, &cursor) == SPEX_OK);
    while (spex_aux_next(cursor, &span) == SPEX_OK) {
        must(span.size > 0);
        must(any || !span.contiguous);
        if (span.contiguous && item <= SPEX_AUX_KEEP_MAX)
            must(span.position == next);
        look(span.data, span.size);
        size_t use = span.last ? span.size : span.size / item * item;
        must(use || !span.last);
        used += use;
        next = span.position + use;
        any = true;
        if (!span.last)
            spex_aux_keep(cursor, span.size - use);
    }
    if (item <= SPEX_AUX_KEEP_MAX)
        must(used == spex_perfdata_queue(file, queue)->bytes);
    spex_aux_close(cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spex_perfdata *file;
    struct spex_error error;
    if (spex_perfdata_open_memory(data, size, &file, &error) != SPEX_OK) {
        must(error.text[0]);
        return 0;
    }
    const struct spex_perf_info *info = spex_perfdata_info(file);
    must(info->aux_bytes <= size && info->data_offset + info->data_size <= size);
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++) {
        const struct spex_perf_attr *attr = spex_perfdata_attr(file, i);
        char text[512];
        look(attr->ids, attr->id_count * 8);
        look(attr->name, strlen(attr->name));
        spex_perf_terms_text(attr->config, text, sizeof text);
    }
    for (unsigned i = 0; i < 256; i++) {
        const uint8_t *section;
        size_t length;
        if (spex_perfdata_feature(file, i, &section, &length))
            look(section, length);
    }
    for (size_t i = 0; i < spex_perfdata_problem_count(file); i++)
        must(spex_perfdata_problem(file, i)->text[0] && spex_perfdata_problem(file, i)->count);
    for (int32_t cpu = -1; cpu < 4; cpu++) {
        spex_perfdata_midr(file, cpu);
        spex_perfdata_node(file, cpu);
        for (unsigned bit = 0; bit < 64; bit++)
            spex_perfdata_memory_node(file, UINT64_C(1) << bit);
    }
    for (size_t i = 0; i < info->cmdline_count; i++)
        look(info->cmdline[i], strlen(info->cmdline[i]));
    events(file, size);
    for (size_t i = 0; i < spex_perfdata_queue_count(file); i++) {
        static const size_t items[] = {1, 7, 64, 5000, 40000};
        for (size_t j = 0; j < sizeof items / sizeof *items; j++)
            spans(file, i, items[j]);
    }
    spex_perfdata_rewind(file);
    events(file, size);
    spex_perfdata_close(file);
    return 0;
}

/* ---- mutations that keep the file's form, so that they reach the code behind it ---- */

struct piece { /* a record with what follows it */
    size_t at, size;
};

static uint64_t word(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, bytes); /* files of the host's byte order: others are mutated as bytes */
    return v;
}

static size_t find_pieces(const uint8_t *data, size_t from, size_t end, struct piece *pieces,
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
static size_t replace(uint8_t *data, size_t total, size_t at, size_t old, const uint8_t *bytes,
                      size_t size, size_t most)
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

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
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
