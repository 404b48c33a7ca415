/* Cache lines that threads share: who uses which part of a line, and what these parts are. */
#include "findings.h"

#include "allocs.h"
#include "internal.h"
#include "row.h"
#include "types.h"

#include "base/digits.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 700, LINE = 64, SHOWN = 3 };

static size_t block_text(struct spex_analysis *analysis, uint32_t block, uint64_t address,
                         char *text, size_t capacity)
{
    const struct spex_block *b = spex_analysis_block(analysis, block);
    char count[32];
    const int n =
        snprintf(text, capacity, "+%llu of the %s-byte block from ",
                 (unsigned long long)(address - b->start), digits_grouped(count, b->size));
    const size_t at = (size_t)n < capacity ? (size_t)n : capacity;
    return (size_t)n +
           spex_analysis_site_text(analysis, b->site, text ? text + at : NULL, capacity - at);
}

/* Names the data at an offset in a line. */
static size_t data_text(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                        const struct spex_shared_line *line, unsigned offset, char *text,
                        size_t capacity)
{
    struct spex_place place;
    const unsigned long long address = line->address + offset;
    const uint32_t block = spex_sharing_block(sharing, line, offset);
    if (block)
        return block_text(analysis, block, address, text, capacity);
    spex_analysis_locate(analysis, line->pid, address, &place);
    if (place.symbol && place.symbol->name) {
        const unsigned long long at = place.address - place.symbol->start;
        return (size_t)(at ? snprintf(text, capacity, "%s+0x%llx", place.symbol->name, at)
                           : snprintf(text, capacity, "%s", place.symbol->name));
    }
    return (size_t)(place.module ? snprintf(text, capacity, "%s 0x%llx",
                                            spex_module_name(place.module), address)
                                 : snprintf(text, capacity, "0x%llx", address));
}

/* ---- words by thread ---- */

/* Neighbouring words in a line that only one thread uses, or that several use. */
struct part {
    unsigned first, last; /* offsets of its words */
    int32_t tid;          /* -1: several threads */
};

struct parts {
    struct part list[LINE];
    unsigned count;
    bool own; /* each is used by one thread only */
};

/*
 * Finds words with at least a twentieth of the line's samples; joins neighbours with the same user.
 */
static void find_parts(const struct spex_sharing *s, const struct spex_shared_line *line,
                       struct parts *parts)
{
    uint64_t samples[LINE] = {0}, most[LINE] = {0};
    int32_t user[LINE];
    for (size_t i = 0; i < line->uses; i++) { /* uses are ordered by offset and thread */
        const struct spex_shared_use *use = spex_sharing_use(s, line->first_use + i);
        uint64_t own = use->row->stats.samples;
        for (size_t j = i + 1; j < line->uses; j++) { /* merge uses from several source lines */
            const struct spex_shared_use *other = spex_sharing_use(s, line->first_use + j);
            if (other->offset != use->offset || other->tid != use->tid)
                break;
            own += other->row->stats.samples;
        }
        unsigned o = use->offset % LINE;
        samples[o] += use->row->stats.samples;
        if (own > most[o]) {
            most[o] = own;
            user[o] = use->tid;
        }
    }
    *parts = (struct parts){.own = true};
    for (unsigned o = 0; o < LINE; o++) {
        if (!samples[o] || samples[o] * 20 < line->samples)
            continue;
        int32_t tid = most[o] * 10 >= samples[o] * 9 ? user[o] : -1;
        struct part *last = parts->count ? &parts->list[parts->count - 1] : NULL;
        if (last && last->tid == tid && tid >= 0) {
            last->last = o;
            continue;
        }
        parts->own &= tid >= 0;
        parts->list[parts->count++] = (struct part){o, o, tid};
    }
}

static void append(char text[TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char text[TEXT], const char *format, ...)
{
    size_t size = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + size, TEXT - size, format, args);
    va_end(args);
}

/* "a (thread 100) and a+0x10 (thread 101)"; a part used by several threads is not named. */
static void name_parts(struct spex_analysis *analysis, const struct spex_sharing *s,
                       const struct spex_shared_line *line, const struct parts *parts,
                       char text[TEXT])
{
    unsigned shown = parts->count <= SHOWN + 1 ? parts->count : SHOWN;
    text[0] = 0;
    for (unsigned i = 0; i < shown; i++) {
        const struct part *part = &parts->list[i];
        char name[TEXT];
        data_text(analysis, s, line, part->first, name, sizeof name);
        append(text, "%s%s", !i ? "" : i + 1 == parts->count ? " and " : ", ", name);
        if (part->tid >= 0 && parts->count > 1)
            append(text, " (thread %d)", part->tid);
    }
    if (parts->count > shown)
        append(text, " and %u more", parts->count - shown);
}

/*
 * The typed object at an address, or the element if it is an array: where it begins and how large
 * it is.
 */
static bool object_at(struct spex_analysis *analysis, const struct spex_shared_line *line,
                      unsigned offset, uint64_t *start, uint64_t *size)
{
    struct spex_place place;
    spex_analysis_locate(analysis, line->pid, line->address + offset, &place);
    if (!place.module || !place.symbol)
        return false;
    const struct spex_member *m =
        data_member_of(spex_analysis_symbols(analysis), NULL, 0, place.module, place.address);
    if (!m->known || !m->type_size || place.address < place.symbol->start)
        return false;
    const uint64_t at = place.address - place.symbol->start;
    *size = m->type_size;
    *start = line->address + offset - at % m->type_size;
    return true;
}

/*
 * The size of the objects, by type, if each thread has its own; 0 if that is not known, or if they
 * use parts of the same object.
 */
static uint64_t object_size(struct spex_analysis *analysis, const struct spex_shared_line *line,
                            const struct parts *parts)
{
    uint64_t first = 0, size = 0;
    for (unsigned i = 0; i < parts->count; i++) {
        uint64_t start, own;
        if (!object_at(analysis, line, parts->list[i].first, &start, &own) || (i && own != size) ||
            (i && start == first))
            return 0;
        first = start;
        size = own;
    }
    return parts->own && parts->count > 1 ? size : 0;
}

/* Were the parts allocated separately? */
static bool of_several_blocks(const struct spex_sharing *s, const struct spex_shared_line *line,
                              const struct parts *parts)
{
    for (unsigned i = 0; i < parts->count; i++) {
        uint32_t block = spex_sharing_block(s, line, parts->list[i].first);
        if (!block || (i && block == spex_sharing_block(s, line, parts->list[i - 1].first)))
            return false;
    }
    return parts->count > 1;
}

/* "threads 100 and 101", "6 threads" */
static void name_threads(const struct spex_sharing *s, const struct spex_shared_line *line,
                         char text[TEXT])
{
    int32_t tids[2] = {-1, -1};
    unsigned found = 0;
    for (size_t i = 0; i < line->uses; i++) {
        int32_t tid = spex_sharing_use(s, line->first_use + i)->tid;
        if (found < 2 && (!found || tids[0] != tid))
            tids[found++] = tid;
    }
    if (line->threads == 2)
        snprintf(text, TEXT, "threads %d and %d", tids[0], tids[1]);
    else
        snprintf(text, TEXT, "%u threads", line->threads);
}

static double part_of(uint64_t part, uint64_t all)
{
    return all ? (double)part / (double)all : 0;
}

/* The offset whose data names a line: the first one in a heap block, else 0. */
static unsigned offset_of_name(const struct spex_sharing *s, const struct spex_shared_line *line)
{
    for (unsigned offset = 0; offset < LINE; offset += 4)
        if (spex_sharing_block(s, line, offset))
            return offset;
    return 0;
}

size_t spex_finding_line_text(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                              const struct spex_shared_line *line, char *text, size_t capacity)
{
    assert(analysis && sharing && line && (text || !capacity));
    return data_text(analysis, sharing, line, offset_of_name(sharing, line), text, capacity);
}

void finding_fill_line(struct spex_analysis *analysis, const struct spex_sharing *s,
                       const struct spex_shared_line *line, struct spex_finding *finding)
{
    static const enum spex_finding_kind kinds[] = {
        SPEX_FINDING_FALSE_SHARING, SPEX_FINDING_TRUE_SHARING, SPEX_FINDING_MIXED_SHARING};
    const struct spex_sharing_totals *totals = spex_sharing_totals(s);
    const bool lock = line->lock >= 0;
    struct parts parts;
    char text[TEXT];
    find_parts(s, line, &parts);
    const uint64_t size = object_size(analysis, line, &parts);
    *finding = (struct spex_finding){.kind = lock ? SPEX_FINDING_LOCK : kinds[line->kind]};
    finding->how =
        lock ? SPEX_CASE_PARTS
        : finding->kind != SPEX_FINDING_MIXED_SHARING && line->stores * 8 <= line->samples
            ? SPEX_CASE_READS
        : finding->kind != SPEX_FINDING_FALSE_SHARING ? SPEX_CASE_ANY
        : of_several_blocks(s, line, &parts)          ? SPEX_CASE_BLOCKS
        : parts.own && parts.count > 1 && size        ? SPEX_CASE_OBJECTS
        : parts.count > 1                             ? SPEX_CASE_PARTS
                                                      : SPEX_CASE_ANY;
    finding->share = finding->low = finding->high =
        line->score * part_of(line->samples, totals->memory);
    finding->samples = line->samples;
    const unsigned at = lock ? (unsigned)line->lock : offset_of_name(s, line);
    const size_t length = data_text(analysis, s, line, at, NULL, 0);
    finding->place = memory_get(length + 1, 1);
    data_text(analysis, s, line, at, finding->place, length + 1);
    name_parts(analysis, s, line, &parts, text);
    finding->data = lock ? memory_copy(finding->place) : memory_copy(text);
    name_threads(s, line, text);
    finding->users = memory_copy(text);
    finding_add_number(finding, "score", line->score);
    finding_add_number(finding, "samples", (double)line->samples);
    finding_add_number(finding, "threads", line->threads);
    finding_add_number(finding, "writers", line->writers);
    finding_add_number(finding, "of_memory_samples", part_of(line->samples, totals->memory));
    if (totals->timed && !isnan(line->overlap))
        finding_add_number(finding, "overlap", line->overlap);
    if (totals->sources && line->with_source)
        finding_add_number(finding, "from_other_cores", part_of(line->peer, line->with_source));
    if (finding->how == SPEX_CASE_OBJECTS)
        finding_add_number(finding, "object_size", (double)size);
}

/* ---- one line ---- */

struct line_finding {
    struct spex_finding finding; /* of the first thread */
    struct memory *account;
};

enum spex_status spex_finding_of_line(struct spex_analysis *analysis,
                                      const struct spex_sharing *sharing,
                                      const struct spex_shared_line *line,
                                      struct spex_finding **finding)
{
    assert(analysis && sharing && line && finding);
    struct memory *account = memory_keep(analysis_account(analysis));
    MEMORY_OF(account);
    struct line_finding *f = memory_zeroed(1, sizeof *f);
    if (!f) {
        memory_end(account, memory_before_);
        return SPEX_NO_MEMORY;
    }
    f->account = account;
    if (!memory_guarded(account, finding_fill_line(analysis, sharing, line, &f->finding))) {
        spex_finding_free(&f->finding);
        return SPEX_NO_MEMORY;
    }
    *finding = &f->finding;
    return SPEX_OK;
}

void spex_finding_free(struct spex_finding *finding)
{
    if (!finding)
        return;
    struct line_finding *f = (struct line_finding *)finding;
    struct memory *account = f->account, *before = memory_enter(account);
    finding_clear(finding);
    memory_free(f);
    memory_end(account, before);
}
