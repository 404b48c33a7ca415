/* Reads a file's header, attributes and features, then scans its records once. */
#include "file.h"

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTRS_MAX = 4096 };

/* ---- events ---- */

static void add_id(struct spex_perfdata *file, uint64_t id, size_t attr)
{
    struct id_entry *entry = vec_push(&file->ids);
    if (!entry) {
        file->failed = true;
        return;
    }
    *entry = (struct id_entry){.id = id, .attr = (uint32_t)attr, .cpu = -1, .tid = -1};
    file->ids_sorted = false;
}

/* Adds an event whose ids are at ids, in the file's byte order. */
static void add_attr(struct spex_perfdata *file, const struct spex_perf_attr *parsed,
                     const uint8_t *ids, size_t count, uint64_t offset)
{
    if (file->attrs.count >= ATTRS_MAX) {
        perfdata_problem(file, SPEX_INVALID, offset, "more than %u events; the rest is ignored",
                         ATTRS_MAX);
        return;
    }
    struct spex_perf_attr *attr = vec_push(&file->attrs);
    if (!attr) {
        file->failed = true;
        return;
    }
    *attr = *parsed;
    uint64_t *copy = count ? memory_new(count * sizeof *copy) : NULL;
    if (count && !copy) {
        file->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        copy[i] = get64(file, ids + 8 * i);
        add_id(file, copy[i], file->attrs.count - 1);
    }
    attr->ids = copy;
    attr->id_count = count;
}

/* The attrs section: attributes of attr_size bytes, each followed by the place of its ids. */
static void read_attrs(struct spex_perfdata *file, uint64_t offset, uint64_t size)
{
    uint64_t each = file->info.attr_size;
    if (offset > file->size || size > file->size - offset) {
        perfdata_problem(file, SPEX_TRUNCATED, 24,
                         "the attributes (offset 0x%llx, size 0x%llx) lie outside the file",
                         (unsigned long long)offset, (unsigned long long)size);
        if (offset > file->size)
            return;
        size = file->size - offset;
    }
    if (each < 64 + 16 || each > 4096) {
        perfdata_problem(file, SPEX_INVALID, 16,
                         "attributes of %llu bytes; taken for 128 and the place of their ids",
                         (unsigned long long)each);
        each = 128 + 16;
    }
    uint64_t all_ids = 0;
    for (; size >= each; size -= each, offset += each) {
        struct spex_perf_attr attr;
        const uint8_t *bytes = file->data + offset;
        uint64_t ids = get64(file, bytes + each - 16), ids_size = get64(file, bytes + each - 8);
        perfdata_attr_parse(file, bytes, each - 16, &attr);
        if (ids > file->size || ids_size > file->size - ids) {
            perfdata_problem(
                file, SPEX_INVALID, offset + each - 16,
                "the ids of an event (offset 0x%llx, size 0x%llx) lie outside the file",
                (unsigned long long)ids, (unsigned long long)ids_size);
            ids = ids_size = 0;
        }
        all_ids += ids_size;
        if (all_ids > file->size) { /* otherwise a small file could ask for any amount of memory */
            perfdata_problem(file, SPEX_INVALID, offset + each - 16,
                             "the ids of the events overlap: together they are larger than the "
                             "file; those of this event and the next ones are ignored");
            all_ids -= ids_size;
            ids = ids_size = 0;
        }
        add_attr(file, &attr, file->data + ids, ids_size / 8, offset);
    }
}

/* HEADER_ATTR: the attribute, then its ids. */
static void attr_record(struct spex_perfdata *file, const struct raw *raw)
{
    struct spex_perf_attr attr;
    size_t size = raw->size - HEADER_SIZE;
    const uint8_t *bytes = raw->bytes + HEADER_SIZE;
    if (!perfdata_attr_parse(file, bytes, size, &attr)) {
        perfdata_problem(file, SPEX_TRUNCATED, raw->offset, "HEADER_ATTR record is too short");
        return;
    }
    size_t own = get32(file, bytes + 4);
    if (!own)
        own = 64;
    if (own > size)
        own = size;
    add_attr(file, &attr, bytes + own, (size - own) / 8, raw->offset);
}

/* EVENT_UPDATE: in pipe mode, names come here. */
static void update_record(struct spex_perfdata *file, const struct raw *raw)
{
    enum { TYPE = 8, ID = 16, DATA = 24, NAME = 2 };
    if (raw->size <= DATA || get64(file, raw->bytes + TYPE) != NAME)
        return;
    const struct id_entry *id = perfdata_id_find(file, get64(file, raw->bytes + ID));
    if (id) {
        const char *name =
            perfdata_strings_add(&file->strings, (const char *)raw->bytes + DATA, raw->size - DATA);
        file->attrs.items[id->attr].name = name ? name : "";
    }
}

/* ID_INDEX: where the event with an id ran. */
static void id_index_record(struct spex_perfdata *file, const struct raw *raw)
{
    enum { ENTRIES = 16, ENTRY = 32 };
    if (raw->size < ENTRIES)
        return;
    uint64_t count = get64(file, raw->bytes + 8);
    if (count > (raw->size - ENTRIES) / ENTRY) {
        perfdata_problem(file, SPEX_INVALID, raw->offset,
                         "ID_INDEX record says more than it holds");
        count = (raw->size - ENTRIES) / ENTRY;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *p = raw->bytes + ENTRIES + ENTRY * i;
        struct id_entry *entry = perfdata_id_find(file, get64(file, p));
        if (entry) {
            entry->cpu = (int32_t)get64(file, p + 16);
            entry->tid = (int32_t)get64(file, p + 24);
            entry->placed = true;
        }
    }
}

/* ---- AUXTRACE_INFO: SPE metadata, version 1 or 2 ---- */

static void auxtrace_info(struct spex_perfdata *file, const struct raw *raw)
{
    enum { PRIV = 16, HEAD_WORDS = 4 };
    static const uint64_t magic = UINT64_C(0x1010101010101010);
    struct spex_perf_info *info = &file->info;
    if (raw->size < PRIV) {
        perfdata_problem(file, SPEX_TRUNCATED, raw->offset, "AUXTRACE_INFO record is too short");
        return;
    }
    uint32_t type = get32(file, raw->bytes + 8);
    if (!info->auxtrace_version)
        info->auxtrace_type = type;
    if (type != SPEX_PERF_AUXTRACE_ARM_SPE) {
        perfdata_foreign_info(file, raw, type);
        return;
    }
    info->auxtrace_type = type;
    file->foreign.now = false;
    file->cpus.count = 0; /* a second one replaces the first */
    const uint8_t *priv = raw->bytes + PRIV;
    size_t words = (raw->size - PRIV) / 8;
    if (words < 2) {
        perfdata_problem(file, SPEX_TRUNCATED, raw->offset, "AUXTRACE_INFO record is too short");
        return;
    }
    /*
     * Version 1 is exactly two words: PMU type and per-CPU flag. No PMU has type 2 and four words
     * more than that, so this distinguishes it from version 2.
     */
    if (words == 2) {
        info->auxtrace_version = 1;
        info->spe_pmu_type = (uint32_t)get64(file, priv);
        info->per_cpu = get64(file, priv + 8);
        return;
    }
    uint64_t version = get64(file, priv), head = get64(file, priv + 8);
    info->auxtrace_version = (unsigned)version;
    if (version != 2)
        perfdata_problem(file, SPEX_UNSUPPORTED, raw->offset,
                         "SPE metadata of version %llu; read as version 2",
                         (unsigned long long)version);
    if (words < HEAD_WORDS || head < HEAD_WORDS || head > words) {
        perfdata_problem(file, SPEX_INVALID, raw->offset,
                         "SPE metadata header of %llu words in %zu", (unsigned long long)head,
                         words);
        return;
    }
    info->spe_pmu_type = (uint32_t)get64(file, priv + 16);
    uint64_t count = get64(file, priv + 24), each;
    if (!count || (each = (words - head) / count) < 3) {
        perfdata_problem(file, SPEX_INVALID, raw->offset, "SPE metadata for %llu CPUs in %zu words",
                         (unsigned long long)count, words);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *p = priv + 8 * (head + each * i);
        uint64_t params = get64(file, p + 16);
        if (get64(file, p) != magic) {
            perfdata_problem(file, SPEX_INVALID, (uint64_t)(p - raw->bytes) + raw->offset,
                             "SPE metadata of CPU entry %llu lacks its magic number",
                             (unsigned long long)i);
            return;
        }
        if (params > each - 3)
            params = each - 3;
        struct spex_perf_cpu cpu = {.cpu = (uint32_t)get64(file, p + 8)};
        cpu.midr = params > 0 ? get64(file, p + 24) : 0;
        cpu.pmu_type = params > 1 ? get64(file, p + 32) : 0;
        cpu.min_interval = params > 2 ? get64(file, p + 40) : 0;
        cpu.event_filter = params > 3 ? get64(file, p + 48) : 0;
        struct spex_perf_cpu *slot = vec_push(&file->cpus);
        if (!slot) {
            file->failed = true;
            return;
        }
        *slot = cpu;
    }
}

/* ---- the scan ---- */

/*
 * Handles records that perf itself synthesizes, which have no struct of ours; false for
 * others.
 */
static bool scan_own(struct spex_perfdata *file, const struct raw *raw)
{
    switch (raw->type) {
    case SPEX_PERF_HEADER_ATTR:
        if (!file->header_attrs)
            attr_record(file, raw);
        return true;
    case SPEX_PERF_EVENT_UPDATE:
        update_record(file, raw);
        return true;
    case SPEX_PERF_ID_INDEX:
        id_index_record(file, raw);
        return true;
    case SPEX_PERF_AUXTRACE_INFO:
        auxtrace_info(file, raw);
        return true;
    case SPEX_PERF_FEATURE:
        perfdata_feature_record(file, raw);
        return true;
    case SPEX_PERF_BUILD_ID:
        perfdata_build_id_record(file, raw->bytes, raw->size, raw->misc);
        return true;
    default:
        return false;
    }
}

static void scan_record(struct spex_perfdata *file, const struct raw *raw)
{
    struct spex_perf_info *info = &file->info;
    struct spex_perf_event event;
    info->records++;
    if (scan_own(file, raw))
        return;
    bool whole = perfdata_event_parse(file, raw, file->scratch, &event);
    if (!whole)
        perfdata_problem(file, SPEX_TRUNCATED, raw->offset,
                         "record of type %u is too short for it (%u bytes)", raw->type, raw->size);
    if (raw->type < SPEX_PERF_HEADER_ATTR && !event.attr && file->attrs.count)
        perfdata_problem(file, SPEX_INVALID, raw->offset,
                         "record of type %u has an id that no event has", raw->type);
    if (event.present & SPEX_PERF_SAMPLE_TIME && event.time && event.time != UINT64_MAX &&
        !(info->features[0] >> FEATURE_SAMPLE_TIME & 1)) {
        if (!info->first_time || event.time < info->first_time)
            info->first_time = event.time;
        if (event.time > info->last_time)
            info->last_time = event.time;
    }
    switch (raw->type) {
    case SPEX_PERF_SAMPLE:
        info->samples++;
        break;
    case SPEX_PERF_LOST:
    case SPEX_PERF_LOST_SAMPLES:
        info->lost += event.u.lost.lost;
        break;
    case SPEX_PERF_THROTTLE:
        info->throttled++;
        break;
    case SPEX_PERF_TIME_CONV:
        if (whole) {
            info->time = event.u.time_conv;
            info->has_time = true;
        }
        break;
    case SPEX_PERF_AUX:
        if (whole)
            perfdata_aux_record(file, &event);
        break;
    case SPEX_PERF_AUXTRACE:
        if (whole)
            perfdata_aux_chunk(file, raw, &event);
        break;
    case SPEX_PERF_AUXTRACE_ERROR:
        perfdata_problem(file, SPEX_INVALID, raw->offset, "perf recorded a trace error: %s",
                         event.u.auxtrace_error.message);
        break;
    default:
        if (!spex_perf_type_name(raw->type))
            perfdata_problem(file, SPEX_UNSUPPORTED, raw->offset,
                             "record of unknown type %u, skipped", raw->type);
        else if (whole)
            perfdata_state_event(file, &event);
        break;
    }
}

static void find_spe_attrs(struct spex_perfdata *file)
{
    for (size_t i = 0; i < file->attrs.count; i++) {
        struct spex_perf_attr *attr = &file->attrs.items[i];
        attr->spe = (file->info.auxtrace_version && attr->type == file->info.spe_pmu_type) ||
                    !strncmp(attr->name, "arm_spe", 7);
        for (size_t j = 0; j < file->cpus.count; j++)
            attr->spe |= file->cpus.items[j].pmu_type == attr->type;
        if (attr->spe && !attr->config[3] && !attr->config[4]) {
            /* Attributes of the old size cannot hold these; the event's name has them. */
            struct spex_perf_terms terms;
            if (spex_perf_terms_parse(attr->name, &terms, NULL) == SPEX_OK) {
                attr->config[3] = terms.config[3];
                attr->config[4] = terms.config[4];
            }
        }
        file->info.timed |= !!(attr->sample_type & SPEX_PERF_SAMPLE_TIME);
    }
}

/*
 * Tables built from these later are up to eight times as large, if each event belongs to a
 * different process.
 */
static bool room_to_build(const struct spex_perfdata *file)
{
    const struct state *state = &file->state;
    return memory_allows(8 * (state->tasks.capacity * sizeof *state->tasks.items +
                              state->switches.capacity * sizeof *state->switches.items +
                              file->maps.capacity * sizeof *file->maps.items));
}

void perfdata_scan(struct spex_perfdata *file)
{
    enum { OFTEN = 4096 };
    struct walk walk;
    struct raw raw;
    perfdata_walk_init(&walk, file, true);
    while (!file->failed && perfdata_walk_next(&walk, &raw)) {
        scan_record(file, &raw);
        if (file->info.records % OFTEN == 0 && !room_to_build(file))
            file->failed = true;
    }
    perfdata_walk_fini(&walk);
    if (file->failed) { /* keep what was read; later passes end here, too */
        uint64_t offset = file->info.records ? raw.offset : file->info.data_offset;
        file->failed = false;
        file->info.data_size = offset - file->info.data_offset;
        file->info.complete = false;
        perfdata_problem(file, SPEX_NO_MEMORY, offset,
                         "threads, mappings and events up to here need as much memory as is "
                         "allowed (%llu MB in all); what follows is not read",
                         (unsigned long long)(memory_limit() >> 20));
    }
    if (file->index.count && file->index.count != file->info.aux_chunks)
        perfdata_problem(file, SPEX_INVALID, file->features[FEATURE_AUXTRACE].offset,
                         "the AUXTRACE index lists %zu records, the data has %llu",
                         file->index.count, (unsigned long long)file->info.aux_chunks);
    perfdata_features_finish(file);
    find_spe_attrs(file);
    perfdata_foreign_refuse(file);
    file->info.cpus = file->cpus.items;
    file->info.cpu_count = file->cpus.count;
}

/* ---- the file header ---- */

/*
 * Feature bits are an array of longs; a big-endian 32-bit machine swaps their halves. Like
 * perf, decide by HOSTNAME, which every recording has.
 */
static void read_feature_bits(struct spex_perfdata *file, const uint8_t *p)
{
    uint64_t *bits = file->info.features;
    for (unsigned i = 0; i < 4; i++)
        bits[i] = get64(file, p + 8 * i);
    if (file->info.big_endian && !(bits[0] >> FEATURE_HOSTNAME & 1) &&
        bits[0] >> (32 + FEATURE_HOSTNAME) & 1)
        for (unsigned i = 0; i < 4; i++)
            bits[i] = bits[i] >> 32 | bits[i] << 32;
}

enum spex_status perfdata_header_read(struct spex_perfdata *file, struct spex_error *error)
{
    struct spex_perf_info *info = &file->info;
    const uint8_t *p = file->data;
    if (file->size < PIPE_HEADER_SIZE || !spex_perfdata_is(p, file->size))
        return error_set(error, SPEX_INVALID, 0,
                         "%s is not a perf.data file (it does not begin with PERFILE2)",
                         info->path);
    bool reversed = p[0] == '2' || p[0] == 'E';
    /* The magic is a 64-bit number; version 1 spelled it in one byte order only. */
    info->big_endian = reversed;
    if (!memcmp(p, "PERFFILE", 8))
        info->big_endian = p[8] == 0 && p[15] != 0; /* judged by the header's own size field */
    file->swap = info->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);

    uint64_t size = get64(file, p + 8);
    info->complete = true;
    if (size == PIPE_HEADER_SIZE) {
        info->pipe = true;
        info->data_offset = PIPE_HEADER_SIZE;
        info->data_size = file->size - PIPE_HEADER_SIZE;
        return SPEX_OK;
    }
    if (file->size < FILE_HEADER_SIZE - 32)
        return error_set(error, SPEX_TRUNCATED, file->size, "%s ends inside its header",
                         info->path);
    info->attr_size = get64(file, p + 16);
    uint64_t attrs = get64(file, p + 24), attrs_size = get64(file, p + 32);
    info->data_offset = get64(file, p + 40);
    info->data_size = get64(file, p + 48);
    if (size >= FILE_HEADER_SIZE && file->size >= FILE_HEADER_SIZE)
        read_feature_bits(file, p + 72);
    if (info->data_size && info->data_offset + info->data_size > info->data_offset)
        file->told_end = info->data_offset + info->data_size;
    read_attrs(file, attrs, attrs_size);
    file->header_attrs = file->attrs.count > 0;

    if (info->data_offset > file->size || info->data_offset < FILE_HEADER_SIZE - 32) {
        uint64_t after = attrs + attrs_size;
        perfdata_problem(file, SPEX_INVALID, 40, "the data begins at 0x%llx, outside the file",
                         (unsigned long long)info->data_offset);
        if (after < attrs || after > file->size)
            after = file->size;
        info->data_offset = after;
        info->data_size = file->size - after;
        file->told_end = 0;
        info->complete = false;
        memset(info->features, 0, sizeof info->features);
    } else if (!info->data_size) {
        if (file->size > info->data_offset)
            perfdata_problem(
                file, SPEX_TRUNCATED, 48,
                "the header says no data: the recording was not ended properly; reading "
                "all that follows");
        info->data_size = file->size - info->data_offset;
        info->complete = false;
        memset(info->features, 0, sizeof info->features);
    } else if (info->data_size > file->size - info->data_offset) {
        perfdata_problem(file, SPEX_TRUNCATED, file->size,
                         "the file is cut: 0x%llx of 0x%llx bytes of data are there",
                         (unsigned long long)(file->size - info->data_offset),
                         (unsigned long long)info->data_size);
        info->data_size = file->size - info->data_offset;
        info->complete = false;
        memset(info->features, 0, sizeof info->features);
    } else if (!(info->features[0] | info->features[1] | info->features[2] | info->features[3]) &&
               info->data_size < file->size - info->data_offset) {
        /* The recorder died after its last update of the header: more records may follow. */
        perfdata_problem(file, SPEX_TRUNCATED, info->data_offset + info->data_size,
                         "the recording was not ended properly; reading what follows, too");
        file->told_end = 0;
        info->data_size = file->size - info->data_offset;
        info->complete = false;
    }
    perfdata_features_read(file);
    return SPEX_OK;
}
