/* One record's bytes to a struct spex_perf_event, in host byte order. */
#include "cursor.h"

#include "base/order.h"

#include <stdlib.h>

/* count words as an aligned array in host order. */
static const uint64_t *take_array(struct cursor *c, uint64_t count)
{
    if (count > RECORD_MAX / 8) {
        c->cut = true;
        return NULL;
    }
    const uint8_t *p = take(c, count * 8);
    if (!p || !count)
        return NULL;
    if (!c->file->swap && !c->file->info.big_endian && !((uintptr_t)p & 7))
        return (const uint64_t *)(const void *)p;
    uint64_t *copy = c->room + c->room_used; /* several arrays of one record share the room */
    for (uint64_t i = 0; i < count; i++)
        copy[i] = get64(c->file, p + 8 * i);
    c->room_used += count;
    return copy;
}

/* A string that ends at the record's end at the latest; copied if it is not terminated. */
static const char *take_string(struct cursor *c)
{
    const char *text = (const char *)c->bytes + c->position;
    size_t length = c->end - c->position;
    if (c->cut)
        return "";
    c->position = c->end;
    if (memchr(text, 0, length))
        return text;
    char *copy = (char *)(c->room + c->room_used);
    memcpy(copy, text, length);
    copy[length] = '\0';
    c->room_used += length / 8 + 1;
    return copy;
}

/* ---- which event a record belongs to ---- */

static unsigned bits_in(uint64_t value)
{
    return (unsigned)__builtin_popcountll(value);
}

enum { /* parts of the sample_id at the end of every record but SAMPLE */
       ID_PARTS = SPEX_PERF_SAMPLE_TID | SPEX_PERF_SAMPLE_TIME | SPEX_PERF_SAMPLE_ID |
                  SPEX_PERF_SAMPLE_STREAM_ID | SPEX_PERF_SAMPLE_CPU | SPEX_PERF_SAMPLE_IDENTIFIER,
};

static int compare_id(const void *a, const void *b)
{
    const struct id_entry *x = a, *y = b;
    return ORDER(x->id, y->id);
}

struct id_entry *perfdata_id_find(struct spex_perfdata *file, uint64_t id)
{
    if (!file->ids.count)
        return NULL;
    if (!file->ids_sorted) {
        qsort(file->ids.items, file->ids.count, sizeof *file->ids.items, compare_id);
        file->ids_sorted = true;
    }
    struct id_entry key = {.id = id};
    return bsearch(&key, file->ids.items, file->ids.count, sizeof key, compare_id);
}

/* The first event's layout says where the id is; perf requires all events to agree. */
static struct spex_perf_attr *find_attr(struct spex_perfdata *file, const struct raw *raw)
{
    struct spex_perf_attr *first = file->attrs.items;
    uint64_t type, id;
    size_t words = (raw->size - HEADER_SIZE) / 8, at;

    if (!file->attrs.count)
        return NULL;
    if (file->attrs.count == 1)
        return first;
    type = first->sample_type;
    if (raw->type == SPEX_PERF_SAMPLE) {
        if (type & SPEX_PERF_SAMPLE_IDENTIFIER)
            at = 0;
        else if (type & SPEX_PERF_SAMPLE_ID)
            at = bits_in(type & (SPEX_PERF_SAMPLE_IP | SPEX_PERF_SAMPLE_TID |
                                 SPEX_PERF_SAMPLE_TIME | SPEX_PERF_SAMPLE_ADDR));
        else
            return first;
    } else {
        size_t back;
        if (!first->sample_id_all)
            return first;
        if (type & SPEX_PERF_SAMPLE_IDENTIFIER)
            back = 1;
        else if (type & SPEX_PERF_SAMPLE_ID)
            back = 1 + bits_in(type & (SPEX_PERF_SAMPLE_CPU | SPEX_PERF_SAMPLE_STREAM_ID));
        else
            return first;
        if (back > words)
            return first;
        at = words - back;
    }
    if (at >= words)
        return first;
    id = get64(file, raw->bytes + HEADER_SIZE + 8 * at);
    if (!id) /* records that perf synthesizes at the start have none */
        return first;
    const struct id_entry *entry = perfdata_id_find(file, id);
    return entry ? &file->attrs.items[entry->attr] : NULL;
}

/* ---- samples ---- */

/* A branch entry's flags as a little-endian machine lays them out. */
static uint64_t branch_flags(uint64_t big_endian)
{
    static const uint8_t widths[] = {1, 1, 1, 1, 16, 4, 2, 4, 3, 31};
    uint64_t value = 0;
    unsigned from = 64, to = 0;
    for (size_t i = 0; i < sizeof widths; i++) {
        from -= widths[i];
        value |= (big_endian >> from & ((UINT64_C(1) << widths[i]) - 1)) << to;
        to += widths[i];
    }
    return value;
}

static void take_regs(struct cursor *c, uint64_t mask, uint64_t *abi, const uint64_t **regs,
                      size_t *count)
{
    *abi = take64(c);
    if (*abi) {
        *count = bits_in(mask);
        *regs = take_array(c, *count);
    }
}

static void take_read(struct cursor *c, const struct spex_perf_attr *attr,
                      struct spex_perf_sample *sample)
{
    enum { ENABLED = 1, RUNNING = 2, ID = 4, GROUP = 8, LOST = 16 };
    uint64_t format = attr->read_format, words;
    uint64_t each = 1 + bits_in(format & (ID | LOST));
    if (format & GROUP) {
        if (c->cut || c->end - c->position < 8) {
            c->cut = true;
            return;
        }
        uint64_t events = get64(c->file, c->bytes + c->position);
        if (events > RECORD_MAX) {
            c->cut = true;
            return;
        }
        words = 1 + bits_in(format & (ENABLED | RUNNING)) + events * each;
    } else {
        words = bits_in(format & (ENABLED | RUNNING)) + each;
    }
    sample->read = take_array(c, words);
    sample->read_count = c->cut ? 0 : words;
}

static void take_branches(struct cursor *c, const struct spex_perf_attr *attr,
                          struct spex_perf_sample *sample)
{
    enum { HW_INDEX = 1 << 17, COUNTERS = 1 << 19 };
    uint64_t count = take64(c);
    if (attr->branch_sample_type & HW_INDEX)
        take64(c);
    if (count > RECORD_MAX / 24) {
        c->cut = true;
        return;
    }
    sample->branches = take_array(c, 3 * count);
    sample->branch_count = c->cut ? 0 : count;
    if (c->file->info.big_endian && sample->branches)
        /* arrays of big-endian files are copies, so they may be changed */
        for (uint64_t i = 0; i < count; i++)
            ((uint64_t *)(uintptr_t)sample->branches)[3 * i + 2] =
                branch_flags(sample->branches[3 * i + 2]);
    if (attr->branch_sample_type & COUNTERS)
        take_array(c, count);
}

/* The fixed fields that come first: who, when and where. */
static void take_sample_head(struct cursor *c, uint64_t type, struct spex_perf_event *event)
{
    struct spex_perf_sample *sample = &event->u.sample;
    event->present = type & ID_PARTS;
    if (type & SPEX_PERF_SAMPLE_IDENTIFIER)
        event->id = take64(c);
    if (type & SPEX_PERF_SAMPLE_IP)
        sample->ip = take64(c);
    if (type & SPEX_PERF_SAMPLE_TID) {
        event->pid = (int32_t)take32(c);
        event->tid = (int32_t)take32(c);
    }
    if (type & SPEX_PERF_SAMPLE_TIME)
        event->time = take64(c);
    if (type & SPEX_PERF_SAMPLE_ADDR)
        sample->addr = take64(c);
    if (type & SPEX_PERF_SAMPLE_ID)
        event->id = take64(c);
    if (type & SPEX_PERF_SAMPLE_STREAM_ID)
        event->stream_id = take64(c);
    if (type & SPEX_PERF_SAMPLE_CPU) {
        event->cpu = (int32_t)take32(c);
        take32(c);
    }
}

/* Fields come in the order of their bits, except that the identifier is first. */
static void take_sample(struct cursor *c, const struct spex_perf_attr *attr,
                        struct spex_perf_event *event)
{
    struct spex_perf_sample *sample = &event->u.sample;
    uint64_t type = attr->sample_type;
    take_sample_head(c, type, event);
    sample->period = attr->freq ? 0 : attr->period;
    if (type & SPEX_PERF_SAMPLE_PERIOD)
        sample->period = take64(c);
    if (type & SPEX_PERF_SAMPLE_READ)
        take_read(c, attr, sample);
    if (type & SPEX_PERF_SAMPLE_CALLCHAIN) {
        uint64_t count = take64(c);
        sample->callchain = take_array(c, count);
        sample->callchain_count = c->cut ? 0 : count;
    }
    if (type & SPEX_PERF_SAMPLE_RAW) {
        uint32_t size = take32(c);
        sample->raw = take(c, size);
        sample->raw_size = c->cut ? 0 : size;
        /* The kernel pads so that the size word plus the data fill whole words. */
        if (!c->cut && (size + 4) & 7)
            take(c, 8 - ((size + 4) & 7));
    }
    if (type & SPEX_PERF_SAMPLE_BRANCH_STACK)
        take_branches(c, attr, sample);
    if (type & SPEX_PERF_SAMPLE_REGS_USER)
        take_regs(c, attr->regs_user, &sample->regs_user_abi, &sample->regs_user,
                  &sample->regs_user_count);
    if (type & SPEX_PERF_SAMPLE_STACK_USER) {
        uint64_t size = take64(c);
        sample->stack = take(c, size <= RECORD_MAX ? size : RECORD_MAX + 1);
        sample->stack_size = c->cut ? 0 : size;
        if (size) {
            uint64_t used = take64(c);
            if (used < sample->stack_size)
                sample->stack_size = used;
        }
    }
    if (type & (SPEX_PERF_SAMPLE_WEIGHT | SPEX_PERF_SAMPLE_WEIGHT_STRUCT))
        sample->weight = take64(c);
    if (type & SPEX_PERF_SAMPLE_DATA_SRC)
        sample->data_src = take64(c);
    if (type & SPEX_PERF_SAMPLE_TRANSACTION)
        sample->transaction = take64(c);
    if (type & SPEX_PERF_SAMPLE_REGS_INTR)
        take_regs(c, attr->regs_intr, &sample->regs_intr_abi, &sample->regs_intr,
                  &sample->regs_intr_count);
    if (type & SPEX_PERF_SAMPLE_PHYS_ADDR)
        sample->phys_addr = take64(c);
    if (type & SPEX_PERF_SAMPLE_CGROUP)
        sample->cgroup = take64(c);
    if (type & SPEX_PERF_SAMPLE_DATA_PAGE_SIZE)
        sample->data_page_size = take64(c);
    if (type & SPEX_PERF_SAMPLE_CODE_PAGE_SIZE)
        sample->code_page_size = take64(c);
    if (type & SPEX_PERF_SAMPLE_AUX) {
        uint64_t size = take64(c);
        sample->aux = take(c, size <= RECORD_MAX ? size : RECORD_MAX + 1);
        sample->aux_size = c->cut ? 0 : size;
    }
    /* Fields unknown to this code all come last: the rest of the record is theirs. */
}

/* ---- the rest ---- */

static void take_sample_id(struct cursor *c, const struct spex_perf_attr *attr,
                           struct spex_perf_event *event)
{
    uint64_t type = attr->sample_type & ID_PARTS;
    size_t size = 8 * bits_in(type);
    if (!attr->sample_id_all || !type || size > c->end - HEADER_SIZE)
        return;
    struct cursor id = *c;
    id.position = c->end - size;
    c->end -= size;
    event->present = type;
    if (type & SPEX_PERF_SAMPLE_TID) {
        event->pid = (int32_t)take32(&id);
        event->tid = (int32_t)take32(&id);
    }
    if (type & SPEX_PERF_SAMPLE_TIME)
        event->time = take64(&id);
    if (type & SPEX_PERF_SAMPLE_ID)
        event->id = take64(&id);
    if (type & SPEX_PERF_SAMPLE_STREAM_ID)
        event->stream_id = take64(&id);
    if (type & SPEX_PERF_SAMPLE_CPU) {
        event->cpu = (int32_t)take32(&id);
        take32(&id);
    }
    if (type & SPEX_PERF_SAMPLE_IDENTIFIER)
        event->id = take64(&id);
}

static void take_map(struct cursor *c, struct spex_perf_event *event)
{
    struct spex_perf_map *map = &event->u.map;
    unsigned mode = event->misc & SPEX_PERF_CPUMODE_MASK;
    map->pid = (int32_t)take32(c);
    map->tid = (int32_t)take32(c);
    map->start = take64(c);
    uint64_t length = take64(c);
    map->end = map->start + length < map->start ? UINT64_MAX : map->start + length;
    map->pgoff = take64(c);
    map->data = event->misc & SPEX_PERF_MISC_MMAP_DATA;
    if (event->type == SPEX_PERF_MMAP2) {
        if (event->misc & SPEX_PERF_MISC_MMAP_BUILD_ID) {
            const uint8_t *id = take(c, 24);
            if (id) {
                map->build_id_size = id[0] <= 20 ? id[0] : 20;
                memcpy(map->build_id, id + 4, 20);
            }
        } else {
            map->maj = take32(c);
            map->min = take32(c);
            map->ino = take64(c);
            map->ino_generation = take64(c);
        }
        map->prot = take32(c);
        map->flags = take32(c);
    }
    map->filename = take_string(c);
    map->time = event->time;
    map->file_offset = event->offset;
    if (mode == SPEX_PERF_CPUMODE_GUEST_KERNEL)
        map->pid = SPEX_PERF_PID_GUEST_KERNEL;
    else if (mode == SPEX_PERF_CPUMODE_KERNEL)
        map->pid = SPEX_PERF_PID_KERNEL;
}

static void take_ksymbol(struct cursor *c, struct spex_perf_event *event)
{
    event->u.ksymbol.address = take64(c);
    event->u.ksymbol.length = take32(c);
    const uint8_t *p = take(c, 4);
    event->u.ksymbol.kind = p ? get16(c->file, p) : 0;
    event->u.ksymbol.flags = p ? get16(c->file, p + 2) : 0;
    event->u.ksymbol.name = take_string(c);
}

static void take_namespaces(struct cursor *c, struct spex_perf_event *event)
{
    enum { MOUNT = 5 }; /* index: after net, uts, ipc, pid and user */
    event->u.namespaces.pid = (int32_t)take32(c);
    event->u.namespaces.tid = (int32_t)take32(c);
    uint64_t count = take64(c);
    const uint8_t *links = count > MOUNT ? take(c, 16 * (MOUNT + 1)) : NULL;
    if (links) {
        event->u.namespaces.mount_device = get64(c->file, links + 16 * MOUNT);
        event->u.namespaces.mount_inode = get64(c->file, links + 16 * MOUNT + 8);
    }
}

static void take_auxtrace_error(struct cursor *c, struct spex_perf_event *event)
{
    event->u.auxtrace_error.type = take32(c);
    event->u.auxtrace_error.code = take32(c);
    event->u.auxtrace_error.cpu = (int32_t)take32(c);
    event->u.auxtrace_error.pid = (int32_t)take32(c);
    event->u.auxtrace_error.tid = (int32_t)take32(c);
    uint32_t format = take32(c);
    event->u.auxtrace_error.ip = take64(c);
    if (format)
        event->u.auxtrace_error.time = take64(c);
    event->u.auxtrace_error.message = take_string(c);
}

static void take_time_conv(struct cursor *c, struct spex_perf_event *event)
{
    event->u.time_conv.shift = take64(c);
    event->u.time_conv.mult = take64(c);
    event->u.time_conv.zero = take64(c);
    if (c->end - c->position >= 24) { /* older, shorter records end before these */
        event->u.time_conv.cycles = take64(c);
        event->u.time_conv.mask = take64(c);
        const uint8_t *caps = take(c, 8);
        event->u.time_conv.cap_zero = caps && caps[0];
        event->u.time_conv.cap_short = caps && caps[1];
    }
}

static void take_body(struct cursor *c, struct spex_perf_event *event)
{
    switch (event->type) {
    case SPEX_PERF_MMAP:
    case SPEX_PERF_MMAP2:
        take_map(c, event);
        break;
    case SPEX_PERF_COMM:
        event->u.comm.pid = (int32_t)take32(c);
        event->u.comm.tid = (int32_t)take32(c);
        event->u.comm.comm = take_string(c);
        break;
    case SPEX_PERF_FORK:
    case SPEX_PERF_EXIT:
        event->u.task.pid = (int32_t)take32(c);
        event->u.task.ppid = (int32_t)take32(c);
        event->u.task.tid = (int32_t)take32(c);
        event->u.task.ptid = (int32_t)take32(c);
        event->u.task.time = take64(c);
        break;
    case SPEX_PERF_AUX:
        event->u.aux.offset = take64(c);
        event->u.aux.size = take64(c);
        event->u.aux.flags = (uint32_t)take64(c);
        break;
    case SPEX_PERF_ITRACE_START:
    case SPEX_PERF_SWITCH_CPU_WIDE:
        event->u.thread.pid = (int32_t)take32(c);
        event->u.thread.tid = (int32_t)take32(c);
        break;
    case SPEX_PERF_LOST:
        event->u.lost.id = take64(c);
        event->u.lost.lost = take64(c);
        break;
    case SPEX_PERF_KSYMBOL:
        take_ksymbol(c, event);
        break;
    case SPEX_PERF_NAMESPACES:
        take_namespaces(c, event);
        break;
    case SPEX_PERF_LOST_SAMPLES:
        event->u.lost.lost = take64(c);
        break;
    case SPEX_PERF_THROTTLE:
    case SPEX_PERF_UNTHROTTLE:
        event->u.throttle.time = take64(c);
        event->u.throttle.id = take64(c);
        event->u.throttle.stream_id = take64(c);
        break;
    case SPEX_PERF_AUXTRACE:
        event->u.auxtrace.size = take64(c);
        event->u.auxtrace.offset = take64(c);
        event->u.auxtrace.reference = take64(c);
        event->u.auxtrace.idx = take32(c);
        event->u.auxtrace.tid = (int32_t)take32(c);
        event->u.auxtrace.cpu = (int32_t)take32(c);
        break;
    case SPEX_PERF_AUXTRACE_ERROR:
        take_auxtrace_error(c, event);
        break;
    case SPEX_PERF_TIME_CONV:
        take_time_conv(c, event);
        break;
    default:
        break;
    }
}

bool perfdata_event_parse(struct spex_perfdata *file, const struct raw *raw, uint64_t *room,
                          struct spex_perf_event *event)
{
    struct cursor c = {
        .file = file,
        .bytes = raw->bytes,
        .position = HEADER_SIZE,
        .end = raw->size,
        .room = room,
    };
    memset(event, 0, sizeof *event);
    event->type = raw->type;
    event->misc = raw->misc;
    event->size = raw->size;
    event->offset = raw->offset;
    event->bytes = raw->bytes;
    event->pid = event->tid = event->cpu = -1;
    if (raw->type < SPEX_PERF_HEADER_ATTR) {
        event->attr = find_attr(file, raw);
        if (event->attr && raw->type == SPEX_PERF_SAMPLE)
            take_sample(&c, event->attr, event);
        else if (event->attr)
            take_sample_id(&c, event->attr, event);
    }
    if (raw->type != SPEX_PERF_SAMPLE)
        take_body(&c, event);
    if (raw->type == SPEX_PERF_AUXTRACE) {
        event->u.auxtrace.data = raw->payload;
        event->u.auxtrace.available = raw->payload_size;
    }
    return !c.cut;
}

/* ---- struct perf_event_attr, of any version ---- */

static uint64_t reverse_each_byte(uint64_t value)
{
    value =
        (value & UINT64_C(0x5555555555555555)) << 1 | (value >> 1 & UINT64_C(0x5555555555555555));
    value =
        (value & UINT64_C(0x3333333333333333)) << 2 | (value >> 2 & UINT64_C(0x3333333333333333));
    value =
        (value & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4 | (value >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f));
    return value;
}

bool perfdata_attr_parse(struct spex_perfdata *file, const uint8_t *bytes, size_t size,
                         struct spex_perf_attr *attr)
{
    enum { OLDEST = 64, NEWEST = 144 };
    uint8_t b[NEWEST] = {0};
    if (size < OLDEST)
        return false;
    uint32_t own = get32(file, bytes + 4);
    if (!own)
        own = OLDEST;
    if (own < size)
        size = own < OLDEST ? OLDEST : own;
    memcpy(b, bytes, size < sizeof b ? size : sizeof b);
    *attr = (struct spex_perf_attr){
        .name = "",
        .type = get32(file, b),
        .period = get64(file, b + 16),
        .sample_type = get64(file, b + 24),
        .read_format = get64(file, b + 32),
        .wakeup = get32(file, b + 48),
        .bp_type = get32(file, b + 52),
        .branch_sample_type = get64(file, b + 72),
        .regs_user = get64(file, b + 80),
        .stack_user = get32(file, b + 88),
        .clockid = get32(file, b + 92),
        .regs_intr = get64(file, b + 96),
        .aux_watermark = get32(file, b + 104),
        .aux_sample_size = get32(file, b + 112),
    };
    static const uint8_t configs[5] = {8, 56, 64, 128, 136};
    for (unsigned i = 0; i < 5; i++)
        attr->config[i] = get64(file, b + configs[i]);
    /* A C bit field: big-endian compilers fill each byte from its top. */
    memcpy(&attr->flags, b + 40, 8);
    attr->flags = LE64(attr->flags);
    if (file->info.big_endian)
        attr->flags = reverse_each_byte(attr->flags);
    attr->exclude_user = attr->flags >> 4 & 1;
    attr->exclude_kernel = attr->flags >> 5 & 1;
    attr->exclude_hv = attr->flags >> 6 & 1;
    attr->freq = attr->flags >> 10 & 1;
    attr->sample_id_all = attr->flags >> 18 & 1;
    attr->context_switch = attr->flags >> 26 & 1;
    return true;
}
