/* The keys that samples can be grouped by: their names, and the words of a sample's key. */
#include "allocs.h"
#include "group.h"
#include "module.h"
#include "stacks.h"
#include "types.h"

#include "base/hash.h"
#include "base/memory.h"

#include <assert.h>
#include <string.h>

const struct key_kind key_kinds[SPEX_KEY_COUNT] = {
    [SPEX_KEY_SYMBOL] = {"symbol", "function", 2},
    [SPEX_KEY_DSO] = {"dso", "file or kernel that holds the code", 1},
    [SPEX_KEY_SRCLINE] = {"srcline", "source file and line", 2},
    [SPEX_KEY_PC] = {"pc", "instruction address", 2},
    [SPEX_KEY_COMM] = {"comm", "thread name", 1},
    [SPEX_KEY_PID] = {"pid", "process", 1, true},
    [SPEX_KEY_TID] = {"tid", "thread", 1, true},
    [SPEX_KEY_CPU] = {"cpu", "CPU", 1, true},
    [SPEX_KEY_OP] = {"op", "kind of operation", 1, true},
    [SPEX_KEY_SOURCE] = {"source", "where data came from", 1, true},
    [SPEX_KEY_DATA_SYMBOL] = {"data-symbol", "variable or mapping of the data address", 2},
    [SPEX_KEY_DATA_DSO] = {"data-dso", "mapping of the data address", 1},
    [SPEX_KEY_PAGE] = {"page", "4 KiB page of the data address", 2, true},
    [SPEX_KEY_CACHE_LINE] = {"line", "64-byte cache line of the data address", 2, true},
    [SPEX_KEY_OFFSET] = {"offset", "offset in the cache line", 1, true},
    [SPEX_KEY_TARGET] = {"target", "branch target", 2, true},
    [SPEX_KEY_PREV_TARGET] = {"prev-target", "target of the previous taken branch", 2, true},
    [SPEX_KEY_LATENCY] = {"latency", "total latency, by powers of two", 1, true},
    [SPEX_KEY_CALLER] = {"caller", "function that called this one; needs call stacks", 2},
    [SPEX_KEY_STACK] = {"stack",
                        "calls around it, the nearest first, by call site; needs call stacks", 1},
    [SPEX_KEY_ALLOC] = {"alloc", "where the data was allocated; needs allocations", 2},
    [SPEX_KEY_BLOCK_OFFSET] = {"block-offset", "offset in the block that was allocated", 1, true},
    [SPEX_KEY_TYPE] = {"type", "type of the data, from debug information", 1},
    [SPEX_KEY_MEMBER] = {"member", "member of that type", 1},
    [SPEX_KEY_TYPE_OFFSET] = {"type-offset", "offset of that member in the type", 1, true},
    [SPEX_KEY_TYPE_LINE] = {"type-line", "the same, in cache lines of 64 bytes", 1, true},
    [SPEX_KEY_TIME_BIN] = {"time-bin", "interval of time, by its start in seconds", 1, true},
};

const char *spex_key_name(enum spex_key key)
{
    return key_kinds[key].name;
}

const char *spex_key_help(enum spex_key key)
{
    return key_kinds[key].help;
}

unsigned spex_key_wants(enum spex_key key)
{
    switch (key) {
    case SPEX_KEY_DATA_SYMBOL:
    case SPEX_KEY_DATA_DSO:
    case SPEX_KEY_PAGE:
    case SPEX_KEY_CACHE_LINE:
    case SPEX_KEY_OFFSET:
        return SPEX_WANT_BASE | SPEX_WANT_DATA;
    case SPEX_KEY_ALLOC:
    case SPEX_KEY_BLOCK_OFFSET:
        return SPEX_WANT_BASE | SPEX_WANT_DATA | SPEX_WANT_ALLOC;
    case SPEX_KEY_TARGET:
    case SPEX_KEY_PREV_TARGET:
        return SPEX_WANT_BASE | SPEX_WANT_BRANCH;
    case SPEX_KEY_SYMBOL:
    case SPEX_KEY_DSO:
    case SPEX_KEY_SRCLINE:
    case SPEX_KEY_PC:
        return SPEX_WANT_BASE | SPEX_WANT_SYMBOL;
    case SPEX_KEY_TIME_BIN:
        return SPEX_WANT_BASE | SPEX_WANT_TIME;
    case SPEX_KEY_CALLER:
    case SPEX_KEY_STACK:
        return SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_STACK;
    case SPEX_KEY_TYPE:
    case SPEX_KEY_MEMBER:
    case SPEX_KEY_TYPE_OFFSET:
    case SPEX_KEY_TYPE_LINE:
        return SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_DATA;
    default:
        return SPEX_WANT_BASE;
    }
}

bool spex_key_parse(const char *name, size_t length, enum spex_key *key)
{
    assert(name && key);
    static const struct {
        const char *name;
        enum spex_key key;
    } aliases[] = {{"sym", SPEX_KEY_SYMBOL},
                   {"ip", SPEX_KEY_PC},
                   {"symbol_daddr", SPEX_KEY_DATA_SYMBOL},
                   {"dso_daddr", SPEX_KEY_DATA_DSO},
                   {"dcacheline", SPEX_KEY_CACHE_LINE},
                   {"mem", SPEX_KEY_SOURCE}};
    for (unsigned k = 0; k < SPEX_KEY_COUNT; k++)
        if (strlen(key_kinds[k].name) == length && !strncmp(key_kinds[k].name, name, length)) {
            *key = k;
            return true;
        }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i].name) == length && !strncmp(aliases[i].name, name, length)) {
            *key = aliases[i].key;
            return true;
        }
    return false;
}

static inline void place_key(const struct spex_symbol *symbol, const struct spex_module *module,
                             uint64_t address, uint64_t *word0, uint64_t *word1)
{
    uint64_t none = -(uint64_t)!symbol; /* no branch: it would often be mispredicted */
    if (__builtin_expect(!symbol && module && module->kind == SPEX_MODULE_JIT, 0))
        address = 0; /* where its functions begin is not known: one row for all of them */
    *word0 = (uintptr_t)symbol | (((uintptr_t)module | KEY_NO_SYMBOL) & none);
    *word1 = address & none;
}

void group_line_key(struct spex_analysis *a, struct spex_module *module, uint64_t address,
                    uint64_t *word0, uint64_t *word1)
{
    struct spex_line line = {0};
    if (module)
        analysis_line(a, module, address, &line);
    *word0 = line.file ? (uintptr_t)line.file : (uintptr_t)module | KEY_NO_SYMBOL;
    *word1 = line.file ? line.line | (uint64_t)1 << 63 : address;
}

/* Uses a separate cache: asking the module takes a lock. */
static void cached_line_key(struct spex_group *g, const struct spex_sample *s, uint64_t *word0,
                            uint64_t *word1)
{
    enum { LINES = 1 << 12 };
    if (!g->lines)
        g->lines = memory_get(LINES, sizeof *g->lines);
    struct group_line *line = &g->lines[hash_word(s->address, (uintptr_t)s->module) & (LINES - 1)];
    if (line->module != s->module || line->address != s->address || !line->word[0]) {
        line->module = s->module;
        line->address = s->address;
        group_line_key(g->analysis, s->module, s->address, &line->word[0], &line->word[1]);
    }
    *word0 = line->word[0];
    *word1 = line->word[1];
}

static void caller_key(struct spex_group *g, const struct spex_sample *s, uint64_t *word0,
                       uint64_t *word1)
{
    uint32_t n = spex_sample_stack(g->analysis, s);
    const struct spex_call *call = spex_analysis_call(g->analysis, n);
    *word0 = *word1 = KEY_NO_SYMBOL; /* nobody */
    if (n)
        place_key(call->symbol, call->module, call->address, word0, word1);
}

static void alloc_key(struct spex_group *g, const struct spex_sample *s, uint64_t *word0,
                      uint64_t *word1)
{
    uint32_t n = spex_sample_block(g->analysis, s);
    const struct spex_place *place =
        n ? NULL : &analysis_data_place(g->analysis, &g->data_places, s)->place;
    *word0 = (uint64_t)spex_analysis_block(g->analysis, n)->site << 2 | KEY_SITE;
    *word1 = 0;
    if (!n)
        place_key(place->symbol, place->module, s->va >> 63, word0, word1);
}

static uint64_t block_offset(const struct spex_group *g, const struct spex_sample *s)
{
    uint32_t n = spex_sample_block(g->analysis, s);
    return n ? s->va - spex_analysis_block(g->analysis, n)->start : UINT64_MAX;
}

/* Kernel data addresses are the same in every process. */
static inline uint64_t space_of(const struct spex_sample *s)
{
    return s->va >> 63 ? UINT64_MAX : (uint64_t)(int64_t)s->pid;
}

void group_make_keys(struct spex_group *g, enum spex_key kind,
                     const struct spex_sample *const *samples, size_t count,
                     uint64_t (*word)[GROUP_STEP])
{
/* A kind of key: the statements for sample s, the i-th. */
#define KEY(name, ...)                                                                             \
    case SPEX_KEY_##name:                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            const struct spex_sample *s = samples[i];                                              \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        break;
    switch (kind) {
        KEY(SYMBOL, place_key(s->symbol, s->module, s->address, &word[0][i], &word[1][i]))
        KEY(CALLER, caller_key(g, s, &word[0][i], &word[1][i]))
        KEY(STACK, word[0][i] = spex_sample_stack(g->analysis, s))
        KEY(ALLOC, alloc_key(g, s, &word[0][i], &word[1][i]))
        KEY(BLOCK_OFFSET, word[0][i] = block_offset(g, s))
        KEY(DSO, word[0][i] = (uintptr_t)(s->module ? s->module->whole : NULL))
        KEY(SRCLINE, cached_line_key(g, s, &word[0][i], &word[1][i]))
        KEY(PC, word[0][i] = (uintptr_t)s->module; word[1][i] = s->address)
        KEY(COMM, word[0][i] = (uintptr_t)s->comm)
        KEY(PID, word[0][i] = (uint64_t)(int64_t)s->pid)
        KEY(TID, word[0][i] = (uint64_t)(int64_t)s->tid)
        KEY(CPU, word[0][i] = (uint64_t)(int64_t)s->cpu)
        KEY(OP, word[0][i] = s->record->present & SPEX_HAS_OP
                                 ? OP_INDEX(s->record->op_class, s->record->op_payload)
                                 : UINT32_MAX)
        KEY(SOURCE, word[0][i] = group_source(s))
        KEY(DATA_SYMBOL, const struct spex_place *place =
                             &analysis_data_place(g->analysis, &g->data_places, s)->place;
            place_key(place->symbol, place->module, s->va >> 63, &word[0][i], &word[1][i]))
        KEY(DATA_DSO,
            word[0][i] =
                (uintptr_t)analysis_data_place(g->analysis, &g->data_places, s)->place.module)
        KEY(TYPE, word[0][i] = (uintptr_t)analysis_member(g->analysis, &g->data_places, s)->type)
        KEY(MEMBER, word[0][i] = (uintptr_t)analysis_member(g->analysis, &g->data_places, s))
        KEY(TYPE_OFFSET, word[0][i] = analysis_member(g->analysis, &g->data_places, s)->offset)
        KEY(TYPE_LINE, word[0][i] = analysis_member(g->analysis, &g->data_places, s)->offset / 64)
        KEY(PAGE, word[0][i] = s->va & KEY_PAGE; word[1][i] = space_of(s))
        KEY(CACHE_LINE, word[0][i] = s->va & ~UINT64_C(63); word[1][i] = space_of(s))
        KEY(OFFSET, word[0][i] = s->va & 63)
        KEY(TARGET, word[0][i] = s->target; word[1][i] = (uint64_t)(int64_t)s->pid)
        KEY(PREV_TARGET, word[0][i] = s->prev_target; word[1][i] = (uint64_t)(int64_t)s->pid)
        KEY(LATENCY, word[0][i] = group_magnitude(s))
        KEY(TIME_BIN, word[0][i] = group_interval(g, s))
    case SPEX_KEY_COUNT:
        break;
    }
#undef KEY
}
