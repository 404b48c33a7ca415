/* Feature sections: what perf says about the machine and the recording. */
#include "cursor.h"

#include "base/order.h"

#include <assert.h>
#include <stdlib.h>

/* u32 length, then that many bytes: terminated and padded with zeros. */
static const char *take_string(struct cursor *s)
{
    uint32_t length = take32(s);
    const uint8_t *p = take(s, length);
    if (!p)
        return "";
    const char *text = perfdata_strings_add(&s->file->strings, (const char *)p, length);
    if (!text) {
        s->file->failed = true;
        return "";
    }
    return text;
}

static void read_cmdline(struct cursor *s)
{
    uint32_t count = take32(s);
    s->file->cmdline.count = 0;
    for (uint32_t i = 0; i < count && !s->cut; i++) {
        const char *text = take_string(s);
        const char **slot = s->cut ? NULL : vec_push(&s->file->cmdline);
        if (slot)
            *slot = text;
    }
    const char **end = vec_push(&s->file->cmdline);
    if (!end) {
        s->file->failed = true;
        return;
    }
    *end = NULL;
    s->file->info.cmdline_count = s->file->cmdline.count - 1;
}

/* Names of events, each with its ids. */
static void read_event_desc(struct cursor *s)
{
    struct spex_perfdata *file = s->file;
    uint32_t count = take32(s), attr_size = take32(s);
    for (uint32_t i = 0; i < count && !s->cut; i++) {
        struct spex_perf_attr attr;
        const uint8_t *bytes = take(s, attr_size);
        bool good = bytes && perfdata_attr_parse(file, bytes, attr_size, &attr);
        uint32_t id_count = take32(s);
        const char *name = take_string(s);
        if (id_count > (s->end - s->position) / 8) {
            s->cut = true;
            break;
        }
        const uint8_t *ids = take(s, 8 * (size_t)id_count);
        if (s->cut)
            break;
        /* Events come in the order of the attributes, but ids are more reliable. */
        const struct id_entry *id = id_count ? perfdata_id_find(file, get64(file, ids)) : NULL;
        struct spex_perf_attr *a = id                      ? &file->attrs.items[id->attr]
                                   : i < file->attrs.count ? &file->attrs.items[i]
                                                           : NULL;
        if (id || (a && good && a->type == attr.type && !(id_count && a->id_count)))
            a->name = name;
    }
}

static void read_numa(struct cursor *s)
{
    uint32_t count = take32(s);
    s->file->nodes.count = 0;
    for (uint32_t i = 0; i < count && !s->cut; i++) {
        struct spex_perf_node node = {.node = take32(s)};
        node.total_kb = take64(s);
        node.free_kb = take64(s);
        node.cpus = take_string(s);
        struct spex_perf_node *slot = s->cut ? NULL : vec_push(&s->file->nodes);
        if (slot)
            *slot = node;
    }
}

/*
 * The blocks of physical memory that belong to a node, one bit each; the size of the bitmap is
 * stored twice.
 */
static void read_memory(struct cursor *s)
{
    struct spex_perfdata *file = s->file;
    uint64_t version = take64(s), size = take64(s), count = take64(s);
    file->blocks.count = file->memory.count = 0;
    file->block_size = 0;
    if (s->cut || version != 1 || !size)
        return;
    for (uint64_t i = 0; i < count && !s->cut; i++) {
        struct memory_node node = {.node = (int)take64(s), .first = file->blocks.count};
        take64(s);
        node.bits = take64(s);
        const uint64_t words = node.bits / 64 + (node.bits % 64 != 0);
        if (s->cut || words > (s->end - s->position) / 8) {
            s->cut = true;
            break;
        }
        struct memory_node *slot = vec_push(&file->memory);
        for (uint64_t w = 0; slot && w < words; w++) {
            uint64_t *word = vec_push(&file->blocks);
            if (!word) {
                file->failed = true;
                slot = NULL;
            } else {
                *word = take64(s);
            }
        }
        if (!slot) {
            file->failed = s->cut = true;
            break;
        }
        *slot = node;
    }
    file->block_size = size;
}

static int compare_index(const void *a, const void *b)
{
    const struct index_entry *x = a, *y = b;
    return ORDER(x->offset, y->offset);
}

/* The index helps to get past damage. The pass over the records checks it. */
static void read_auxtrace_index(struct cursor *s)
{
    struct spex_perfdata *file = s->file;
    uint64_t count = take64(s);
    file->index.count = 0;
    for (uint64_t i = 0; i < count && !s->cut; i++) {
        struct index_entry entry = {.offset = take64(s)};
        entry.size = take64(s);
        struct index_entry *slot = s->cut ? NULL : vec_push(&file->index);
        if (slot)
            *slot = entry;
        else if (!s->cut)
            file->failed = s->cut = true;
    }
    if (file->index.count)
        qsort(file->index.items, file->index.count, sizeof *file->index.items, compare_index);
}

static void read_build_ids(struct cursor *s)
{
    while (s->end - s->position >= HEADER_SIZE) {
        const uint8_t *bytes = s->bytes + s->position;
        uint16_t misc = get16(s->file, bytes + 4), size = get16(s->file, bytes + 6);
        if (size < HEADER_SIZE || !take(s, size)) {
            s->cut = true;
            return;
        }
        perfdata_build_id_record(s->file, bytes, size, misc);
    }
}

void perfdata_build_id_record(struct spex_perfdata *file, const uint8_t *bytes, size_t size,
                              uint16_t misc)
{
    enum { PID = 8, ID = 12, SIZE = 32, NAME = 36, MISC_SIZE = 1 << 15 };
    if (size <= NAME)
        return;
    const char *name =
        perfdata_strings_add(&file->strings, (const char *)bytes + NAME, size - NAME);
    struct build_id *id = name ? vec_push(&file->build_ids) : NULL;
    if (!id) {
        file->failed = true;
        return;
    }
    id->filename = name;
    memcpy(id->bytes, bytes + ID, sizeof id->bytes);
    id->size = misc & MISC_SIZE && bytes[SIZE] <= 20 ? bytes[SIZE] : 20;
}

static void read_feature(struct spex_perfdata *file, unsigned feature, const uint8_t *data,
                         size_t size, uint64_t offset)
{
    struct cursor s = {.file = file, .bytes = data, .end = size, .offset = offset};
    struct spex_perf_info *info = &file->info;
    switch (feature) {
    case FEATURE_BUILD_ID:
        read_build_ids(&s);
        break;
    case FEATURE_HOSTNAME:
        info->hostname = take_string(&s);
        break;
    case FEATURE_OSRELEASE:
        info->osrelease = take_string(&s);
        break;
    case FEATURE_VERSION:
        info->version = take_string(&s);
        break;
    case FEATURE_ARCH:
        info->arch = take_string(&s);
        break;
    case FEATURE_NRCPUS:
        /* perf writes the number available first, despite its documentation. */
        info->cpus_available = take32(&s);
        info->cpus_online = take32(&s);
        break;
    case FEATURE_CPUDESC:
        info->cpudesc = take_string(&s);
        break;
    case FEATURE_CPUID:
        info->cpuid = take_string(&s);
        /* On Arm: MIDR_EL1 in hexadecimal; on other machines a name. */
        if (!strncmp(info->cpuid, "0x", 2))
            file->midr = strtoull(info->cpuid, NULL, 16);
        break;
    case FEATURE_TOTAL_MEM:
        info->total_mem_kb = take64(&s);
        break;
    case FEATURE_CMDLINE:
        read_cmdline(&s);
        break;
    case FEATURE_EVENT_DESC:
        read_event_desc(&s);
        break;
    case FEATURE_NUMA_TOPOLOGY:
        read_numa(&s);
        break;
    case FEATURE_MEM_TOPOLOGY:
        read_memory(&s);
        break;
    case FEATURE_AUXTRACE:
        if (!info->pipe)
            read_auxtrace_index(&s);
        break;
    case FEATURE_SAMPLE_TIME:
        info->first_time = take64(&s);
        info->last_time = take64(&s);
        break;
    case FEATURE_COMPRESSED: {
        enum { MOST = 64 << 20 };
        /* version, type, level, ratio, size of the ring buffer */
        take(&s, 16);
        uint32_t length = take32(&s);
        if (!s.cut)
            file->inflate_limit = length < MOST ? length + (1 << 20) : MOST;
        break;
    }
    default:
        break;
    }
    if (s.cut)
        perfdata_problem(file, SPEX_TRUNCATED, offset, "feature section %u is cut short", feature);
}

void perfdata_feature_record(struct spex_perfdata *file, const struct raw *raw)
{
    if (raw->size < HEADER_SIZE + 8)
        return;
    uint64_t feature = get64(file, raw->bytes + HEADER_SIZE);
    size_t size = raw->size - HEADER_SIZE - 8;
    if (feature >= FEATURE_BITS)
        return; /* perf ends the list with a feature number beyond the last */
    uint64_t bit = BIT(feature & 63);
    if (file->info.features[feature / 64] & bit)
        return; /* a section after the data takes precedence */
    if (!raw->inflated) {
        file->features[feature].offset = raw->offset + HEADER_SIZE + 8;
        file->features[feature].size = size;
    }
    file->info.features[feature / 64] |= bit;
    read_feature(file, (unsigned)feature, raw->bytes + HEADER_SIZE + 8, size, raw->offset);
}

void perfdata_features_read(struct spex_perfdata *file)
{
    struct spex_perf_info *info = &file->info;
    uint64_t table = info->data_offset + info->data_size;
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        if (!(info->features[i / 64] >> (i % 64) & 1))
            continue;
        if (table > file->size || file->size - table < 16) {
            perfdata_problem(file, SPEX_TRUNCATED, table,
                             "the table of feature sections is missing or cut (feature %u)", i);
            info->complete = false;
            for (; i < FEATURE_BITS; i++)
                info->features[i / 64] &= ~BIT(i % 64);
            return;
        }
        uint64_t offset = get64(file, file->data + table);
        uint64_t size = get64(file, file->data + table + 8);
        table += 16;
        if (offset > file->size || size > file->size - offset) {
            perfdata_problem(
                file, SPEX_INVALID, table - 16,
                "feature section %u lies outside the file (offset 0x%llx, size 0x%llx)", i,
                (unsigned long long)offset, (unsigned long long)size);
            info->complete = false;
            info->features[i / 64] &= ~BIT(i % 64);
            continue;
        }
        file->features[i].offset = offset;
        file->features[i].size = size;
    }
    /* Some sections need others: read only when ids and the bounds of the data are known. */
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        if (info->features[i / 64] >> (i % 64) & 1)
            read_feature(file, i, file->data + file->features[i].offset, file->features[i].size,
                         file->features[i].offset);
}

bool spex_perfdata_feature(const struct spex_perfdata *file, unsigned feature, const uint8_t **data,
                           size_t *size)
{
    assert(file && data && size);
    if (feature >= FEATURE_BITS || !file->features[feature].offset)
        return false;
    *data = file->data + file->features[feature].offset;
    *size = file->features[feature].size;
    return true;
}

static int compare_name(const void *a, const void *b)
{
    const struct build_id *x = a, *y = b;
    return strcmp(x->filename, y->filename);
}

const uint8_t *spex_perfdata_build_id(const struct spex_perfdata *file, const char *filename,
                                      size_t *size)
{
    assert(file && filename && size);
    struct build_id key = {.filename = filename};
    const struct build_id *id = NULL;
    if (file->build_ids.count)
        id = bsearch(&key, file->build_ids.items, file->build_ids.count, sizeof key, compare_name);
    if (!id)
        return NULL;
    *size = id->size;
    return id->bytes;
}

void perfdata_features_finish(struct spex_perfdata *file)
{
    if (file->build_ids.count)
        qsort(file->build_ids.items, file->build_ids.count, sizeof *file->build_ids.items,
              compare_name);
    file->info.nodes = file->nodes.items;
    file->info.node_count = file->nodes.count;
    if (file->cmdline.count)
        file->info.cmdline = file->cmdline.items;
}

int spex_perfdata_node(const struct spex_perfdata *file, int32_t cpu)
{
    assert(file);
    for (size_t i = 0; cpu >= 0 && i < file->nodes.count; i++) {
        const char *p = file->nodes.items[i].cpus;
        while (*p) {
            char *end;
            unsigned long first = strtoul(p, &end, 10), last = first;
            if (end == p)
                break;
            if (*end == '-')
                last = strtoul(end + 1, &end, 10);
            if ((unsigned long)cpu >= first && (unsigned long)cpu <= last)
                return (int)file->nodes.items[i].node;
            p = *end == ',' ? end + 1 : end;
        }
    }
    return -1;
}

int spex_perfdata_memory_node(const struct spex_perfdata *file, uint64_t physical)
{
    assert(file);
    for (size_t i = 0; file->block_size && i < file->memory.count; i++) {
        const struct memory_node *n = &file->memory.items[i];
        uint64_t block = physical / file->block_size;
        if (block < n->bits && file->blocks.items[n->first + block / 64] >> block % 64 & 1)
            return n->node;
    }
    return -1;
}
