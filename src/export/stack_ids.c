#include "stack_ids.h"

#include <spex/stacks.h>
#include "base/memory.h"
#include "export/digest.h"

#include <stdlib.h>
#include <string.h>

struct stack_ids {
    struct spex_analysis *analysis;
    uint64_t *ids; /* id of each call; 0: not made yet */
    size_t count;
    uint32_t path[SPEX_STACK_MAX]; /* calls to be made, innermost first */
};

struct stack_ids *stack_ids_new(struct spex_analysis *analysis)
{
    if (spex_analysis_stacks(analysis) != SPEX_STACKS_EXACT)
        return NULL;
    struct stack_ids *s = memory_get(1, sizeof *s);
    s->analysis = analysis;
    return s;
}

void stack_ids_free(struct stack_ids *s)
{
    if (!s)
        return;
    free(s->ids);
    free(s);
}

static void put_little(uint8_t *to, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t make(uint64_t caller, const struct spex_call *call)
{
    uint8_t head[17], result[8];
    struct digest digest;
    uint64_t id = 0;
    put_little(head, caller);
    put_little(head + 8, call->address);
    head[16] = call->cut;
    digest_begin(&digest, sizeof result);
    digest_add(&digest, head, sizeof head);
    size_t size = 0;
    const uint8_t *build_id =
        call->module ? spex_module_build_id(call->module, false, &size) : NULL;
    if (size) {
        digest_add(&digest, build_id, size);
    } else if (call->module) {
        const char *path = spex_module_path(call->module);
        digest_add(&digest, path, strlen(path));
    }
    digest_end(&digest, result);
    for (unsigned i = 0; i < 8; i++)
        id |= (uint64_t)result[i] << 8 * i;
    return id ? id : 1; /* 0 is no stack */
}

uint64_t stack_ids_get(struct stack_ids *s, uint32_t call)
{
    size_t count = spex_analysis_calls(s->analysis), n = 0;
    if (s->count < count) {
        size_t more = 2 * s->count > count ? 2 * s->count : count;
        s->ids = memory_resize(s->ids, more, sizeof *s->ids);
        memset(s->ids + s->count, 0, (more - s->count) * sizeof *s->ids);
        s->count = more;
    }
    for (uint32_t c = call; c && !s->ids[c] && n < SPEX_STACK_MAX; n++) {
        s->path[n] = c;
        c = spex_analysis_call(s->analysis, c)->caller;
    }
    while (n-- > 0) {
        const struct spex_call *at = spex_analysis_call(s->analysis, s->path[n]);
        s->ids[s->path[n]] = make(s->ids[at->caller], at);
    }
    return s->ids[call];
}
