/* The words for a cache line that threads share: who uses which part of it, and what to do. */
#include "findings.h"

#include "allocs.h"
#include "row.h"

#include "base/digits.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 700, LINE = 64, SHOWN = 3 };

static char *block_name(struct spex_analysis *analysis, uint32_t block, uint64_t address)
{
    const struct allocs_block *b = analysis_block(analysis, block);
    char *name = NULL, count[32];
    size_t size = analysis_site_text(analysis, b->site, NULL, 0) + 1;
    char *site = memory_get(1, size);
    analysis_site_text(analysis, b->site, site, size);
    int n =
        asprintf(&name, "+%llu of the %s-byte block from %s",
                 (unsigned long long)(address - b->start), digits_grouped(count, b->size), site);
    free(site);
    return memory_checked(n < 0 ? NULL : name);
}

char *finding_data_name(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                        const struct spex_shared_line *line, unsigned offset)
{
    struct spex_place place;
    char *name = NULL;
    int n;
    uint32_t block = sharing_block(sharing, line, offset);
    if (block)
        return block_name(analysis, block, line->address + offset);
    spex_analysis_locate(analysis, line->pid, line->address + offset, &place);
    if (place.symbol && place.symbol->name) {
        uint64_t at = place.address - place.symbol->start;
        if (at)
            n = asprintf(&name, "%s+0x%llx", place.symbol->name, (unsigned long long)at);
        else
            n = asprintf(&name, "%s", place.symbol->name);
    } else if (place.module) {
        n = asprintf(&name, "%s 0x%llx", spex_module_name(place.module),
                     (unsigned long long)(line->address + offset));
    } else {
        n = asprintf(&name, "0x%llx", (unsigned long long)(line->address + offset));
    }
    return memory_checked(n < 0 ? NULL : name);
}

/* ---- words by thread ---- */

/* Neighbouring words of a line that one thread has to itself, or that several use. */
struct part {
    unsigned first, last; /* offsets of its words */
    int32_t tid;          /* -1: several threads */
};

struct parts {
    struct part list[LINE];
    unsigned count,
        distance; /* smallest distance from the start of one to that of the next; 0: one part */
    bool own;     /* each is used by one thread only */
};

/* Words with a twentieth of the line's samples, neighbours of the same user together. */
static void find_parts(const struct spex_sharing *s, const struct spex_shared_line *line,
                       struct parts *parts)
{
    uint64_t samples[LINE] = {0}, most[LINE] = {0};
    int32_t user[LINE];
    for (size_t i = 0; i < line->uses; i++) { /* in order of offset and thread */
        const struct spex_shared_use *use = spex_sharing_use(s, line->first_use + i);
        uint64_t own = use->row->stats.samples;
        for (size_t j = i + 1; j < line->uses; j++) { /* of several lines of code */
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
        if (last && (!parts->distance || o - last->first < parts->distance))
            parts->distance = o - last->first;
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

/* "a (thread 100) and a+0x10 (thread 101)"; several threads are not named. */
static void name_parts(struct spex_analysis *analysis, const struct spex_sharing *s,
                       const struct spex_shared_line *line, const struct parts *parts,
                       char text[TEXT])
{
    unsigned shown = parts->count <= SHOWN + 1 ? parts->count : SHOWN;
    text[0] = 0;
    for (unsigned i = 0; i < shown; i++) {
        const struct part *part = &parts->list[i];
        char *name = finding_data_name(analysis, s, line, part->first);
        append(text, "%s%s", !i ? "" : i + 1 == parts->count ? " and " : ", ", name);
        free(name);
        if (part->tid >= 0 && parts->count > 1)
            append(text, " (thread %d)", part->tid);
    }
    if (parts->count > shown)
        append(text, " and %u more", parts->count - shown);
}

/* The size of the object that each thread has for itself: the distance from one to the next. */
static unsigned object_size(struct spex_analysis *analysis, const struct spex_shared_line *line,
                            const struct parts *parts)
{
    struct spex_place place;
    if (!parts->own)
        return 0;
    if (parts->distance)
        return parts->distance;
    if (!parts->count)
        return 0;
    spex_analysis_locate(analysis, line->pid, line->address + parts->list[0].first, &place);
    uint64_t size = place.symbol ? place.symbol->end - place.symbol->start : 0;
    return size < LINE ? (unsigned)size : 0;
}

/* Were the parts allocated one by one? */
static bool of_several_blocks(const struct spex_sharing *s, const struct spex_shared_line *line,
                              const struct parts *parts)
{
    for (unsigned i = 0; i < parts->count; i++) {
        uint32_t block = sharing_block(s, line, parts->list[i].first);
        if (!block || (i && block == sharing_block(s, line, parts->list[i - 1].first)))
            return false;
    }
    return parts->count > 1;
}

/* ---- words for people ---- */

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

static char *describe(const struct spex_sharing *s, const struct spex_shared_line *line,
                      enum finding_kind kind)
{
    const struct spex_sharing_totals *totals = spex_sharing_totals(s);
    char text[TEXT], count[32];
    name_threads(s, line, text);
    append(text, " %s%s",
           kind == FINDING_LOCK            ? "contend for a lock in this line"
           : kind == FINDING_FALSE_SHARING ? "use different words of this line"
           : kind == FINDING_TRUE_SHARING  ? "use the same word"
                                           : "use this line, partly the same words",
           kind == FINDING_LOCK ? ""
           : line->writers < 2  ? ", one of them writes"
                                : ", and write");
    if (totals->timed)
        append(text, "; at the same time for %.0f%%", 100 * line->overlap);
    if (totals->sources && line->with_source)
        append(text, "; %.0f%% of loads came from another core's cache",
               100 * part_of(line->peer, line->with_source));
    append(text, "; %s sample%s, %.1f%% of memory samples", digits_grouped(count, line->samples),
           line->samples == 1 ? "" : "s", 100 * part_of(line->samples, totals->memory));
    return memory_copy(text);
}

static char *advise(struct spex_analysis *analysis, const struct spex_sharing *s,
                    const struct spex_shared_line *line, enum finding_kind kind)
{
    struct parts parts;
    char names[TEXT], text[2 * TEXT];
    find_parts(s, line, &parts);
    name_parts(analysis, s, line, &parts, names);
    unsigned size = object_size(analysis, line, &parts);
    if (kind == FINDING_LOCK) {
        char *name = finding_data_name(analysis, s, line, (unsigned)line->lock);
        snprintf(text, sizeof text,
                 "take the lock %s less often or hold it for less: split what it guards, or work "
                 "on a copy per thread",
                 name);
        free(name);
    } else if (kind == FINDING_FALSE_SHARING && of_several_blocks(s, line, &parts)) {
        snprintf(
            text, sizeof text,
            "give each block cache lines of its own (aligned_alloc(64, its size rounded up to a "
            "multiple of 64)): %s",
            names);
    } else if (kind == FINDING_FALSE_SHARING && parts.own && parts.count > 1 && size) {
        snprintf(text, sizeof text,
                 "pad each %u-byte object to a cache line (align it to 64 bytes): %s", size, names);
    } else if (kind == FINDING_FALSE_SHARING) {
        snprintf(text, sizeof text, "give %s cache lines of their own (align each to 64 bytes)",
                 parts.count > 1 ? names : "what different threads use");
    } else if (kind == FINDING_TRUE_SHARING) {
        snprintf(text, sizeof text,
                 "share %s less: a copy per thread, combined at the end, or fewer, larger steps",
                 names);
    } else {
        snprintf(text, sizeof text,
                 "move apart what not every thread needs (%s); share the rest less", names);
    }
    return memory_copy(text);
}

unsigned finding_place(const struct spex_sharing *s, const struct spex_shared_line *line)
{
    for (unsigned offset = 0; offset < LINE; offset += 4)
        if (sharing_block(s, line, offset))
            return offset;
    return 0;
}

void finding_of_line(struct spex_analysis *analysis, const struct spex_sharing *s,
                     const struct spex_shared_line *line, struct finding *finding)
{
    static const enum finding_kind kinds[] = {FINDING_FALSE_SHARING, FINDING_TRUE_SHARING,
                                              FINDING_MIXED_SHARING};
    *finding = (struct finding){.kind = line->lock >= 0 ? FINDING_LOCK : kinds[line->kind]};
    finding->share = line->score * part_of(line->samples, spex_sharing_totals(s)->memory);
    finding->place = finding_data_name(
        analysis, s, line, line->lock >= 0 ? (unsigned)line->lock : finding_place(s, line));
    finding->text = describe(s, line, finding->kind);
    finding->advice = advise(analysis, s, line, finding->kind);
    finding->see = memory_copy("spex c2c");
    finding->numbers[0].name = "score";
    finding->numbers[0].value = line->score;
    finding->numbers[1].name = "samples";
    finding->numbers[1].value = (double)line->samples;
    finding->numbers[2].name = "threads";
    finding->numbers[2].value = line->threads;
}
