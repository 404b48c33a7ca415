/* After each step: are both units the same? And a run as a whole. */
#include "pair.h"

#include "base/bits.h"

#include "record/verifier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compare_register(struct pair *p, unsigned encoding)
{
    uint64_t x = 0, y = 0;
    if (!pair_looked_at(p, encoding))
        return;
    bool a = spex_spu_get(p->unit, encoding, &x), b = naive_get(&p->naive, encoding, &y);
    if (a != b || x != y)
        pair_differ(p, "%s: unit %s%" PRIx64 ", naive %s%" PRIx64, spex_sysreg_name(encoding),
                    a ? "" : "none ", x, b ? "" : "none ", y);
}

static void compare_exception(struct pair *p, unsigned source)
{
    struct spex_spu_exception x, y;
    spex_spu_get_exception(p->unit, source, &x);
    naive_exception(&p->naive, source, &y);
    /* clang-format off */
    if (x.source != y.source || x.pending != y.pending || x.target != y.target ||
        x.unmasked != y.unmasked || x.esr != y.esr)
        pair_differ(p, "exception %u: unit source %u target %u %s, naive source %u target %u %s", source,
               x.source, x.target, x.unmasked ? "taken" : x.pending ? "pending" : "none", y.source,
               y.target, y.unmasked ? "taken" : y.pending ? "pending" : "none");
    /* clang-format on */
    if (!source && (x.source != p->a.exception.source || x.unmasked != p->a.exception.unmasked ||
                    x.target != p->a.exception.target))
        pair_differ(p, "exception: the callback was last told source %u, it is %u",
                    p->a.exception.source, x.source);
}

static void pair_compare(struct pair *p, bool everything)
{
    static const uint16_t moving[] = {SPEX_PMSICR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1};
    /* clang-format off */
    static const unsigned names[] = {SPEX_PMU_SAMPLE_POP,       SPEX_PMU_SAMPLE_FEED,
                                     SPEX_PMU_SAMPLE_FILTRATE,  SPEX_PMU_SAMPLE_COLLISION,
                                     SPEX_PMU_SAMPLE_FEED_DS,   SPEX_PMU_SAMPLE_BUFFER_FULL,
                                     SPEX_PMU_SAMPLE_FEED_BR,   SPEX_PMU_SAMPLE_FEED_LD,
                                     SPEX_PMU_SAMPLE_FEED_ST,   SPEX_PMU_SAMPLE_FEED_OP,
                                     SPEX_PMU_SAMPLE_FEED_EVENT, SPEX_PMU_SAMPLE_FEED_LAT,
                                     SPEX_PMU_SAMPLE_FEED_FP,   SPEX_PMU_SAMPLE_FEED_SIMD};
    /* clang-format on */
    if (p->a.count != p->b.count)
        pair_differ(p, "bytes: unit wrote %zu, naive %zu", p->a.count, p->b.count);
    for (size_t i = 0; i < p->a.count && i < p->b.count; i++)
        if (p->a.log[i].address != p->b.log[i].address || p->a.log[i].byte != p->b.log[i].byte) {
            pair_differ(p, "byte %zu: unit %02x at %" PRIx64 ", naive %02x at %" PRIx64, i,
                        p->a.log[i].byte, p->a.log[i].address, p->b.log[i].byte,
                        p->b.log[i].address);
            break;
        }
    for (size_t i = 0; i < 3; i++)
        compare_register(p, moving[i]);
    if (p->run->features.EXC) {
        compare_register(p, SPEX_PMBSR_EL2);
        compare_register(p, SPEX_PMBSR_EL3);
        for (unsigned source = 0; source <= 3; source++)
            compare_exception(p, source);
    }
    if (everything) {
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            compare_register(p, ours[i]);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            compare_register(p, others[i]);
    }
    spex_spu_flush(p->unit);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned at = naive_pmu_index(names[i]);
        if (p->a.pmu[at] != p->naive.pmu[at])
            pair_differ(p, "%s: unit %" PRIu64 ", naive %" PRIu64, spex_pmu_event_name(names[i]),
                        p->a.pmu[at], p->naive.pmu[at]);
    }
    struct spex_spu_status x = {.size = sizeof x}, y = x;
    spex_spu_get_status(p->unit, &x);
    naive_status(&p->naive, &y);
#define SAME(field)                                                                                \
    if (x.field != y.field)                                                                        \
    pair_differ(p, #field ": unit %d, naive %d", x.field, y.field)
    SAME(owner_valid);
    if (x.owner_valid) {
        SAME(owner_el);
        SAME(owner_security);
    }
    SAME(enabled);
    SAME(buffer_enabled);
    SAME(stopped);
    SAME(discard);
    SAME(irq);
    SAME(in_flight);
    SAME(held);
    if (p->a.irq != x.irq)
        pair_differ(p, "irq: the callback was last told %d, it is %d", p->a.irq, x.irq);
    if (p->a.triggers != p->naive.triggers)
        pair_differ(p, "triggers: unit %" PRIu64 ", naive %" PRIu64, p->a.triggers,
                    p->naive.triggers);
    if (!p->a.serrors != !p->naive.serrors)
        pair_differ(p, "serrors: unit %" PRIu64 ", naive %" PRIu64, p->a.serrors, p->naive.serrors);
    for (unsigned range = 0; range < 3; range++)
        if (spex_spu_pmu_frozen(p->unit, range) != naive_frozen(&p->naive, range))
            pair_differ(p, "frozen counters, range %u", range);
}

/* Whole records of this step go to the stream; a torn one does not. */
static void collect_stream(struct pair *p)
{
    size_t whole = p->naive.whole;
    if (p->b.lost || whole > p->a.count) /* ignored aborts leave holes: no stream */
        return;
    if (p->stream_size + whole > p->stream_capacity) {
        p->stream_capacity = 2 * (p->stream_size + whole) + 65536;
        p->stream = realloc(p->stream, p->stream_capacity);
        if (!p->stream)
            abort();
    }
    for (size_t i = 0; i < whole; i++)
        p->stream[p->stream_size++] = p->a.log[i].byte;
}

static void check_stream(struct pair *p)
{
    struct spex_verifier verifier;
    struct spex_violation violation;
    verifier_init(&verifier, &p->run->features);
    /* Controls change in a run, so timestamps come and go; accesses are random, so some lack
       what a real one has, or have it with an empty predicate; latencies are random, which is
       what warnings are about; and the issue latency may be fixed, and left out. */
    static const char *const ignored[] = {
        "timestamp-missing",       "timestamp-present",   "va-missing",
        "source-missing",          "translation-missing", "sve-va-missing",
        "sve-translation-missing", "sve-source-missing",  "empty-access",
        "empty-translation"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        spex_verifier_ignore(&verifier, ignored[i]);
    if (p->run->choices.omit_issue)
        spex_verifier_ignore(&verifier, "issue-missing");
    spex_verifier_feed(&verifier, p->stream, p->stream_size, 0, true);
    enum spex_status found;
    while ((found = spex_verifier_next(&verifier, &violation)) == SPEX_OK)
        if (!violation.rule->unless)
            break;
    if (found == SPEX_OK)
        pair_differ(p, "stream checker at %" PRIu64 ": %s: %s", violation.offset,
                    violation.rule->id, violation.what);
    p->result->records = verifier.records;
}

void pair_open(struct pair *p, const struct run *run, enum path path, bool naive, bool telling,
               struct run_result *result)
{
    struct spex_error error;
    memset(p, 0, sizeof *p);
    memset(result, 0, sizeof *result);
    result->equal = true;
    p->run = run;
    p->path = path;
    p->compare = naive;
    p->result = result;
    host_init(&p->a);
    host_init(&p->b);
    p->a.random = p->b.random = run->random;
    p->a.random_count = p->b.random_count = sizeof run->random;
    spu_config_default(&p->config);
    p->config.features = run->features;
    p->config.choices = run->choices;
    p->config.host = host_callbacks(&p->a);
    if (spu_new(&p->config, &p->unit, &error)) {
        pair_differ(p, "new: %s", error.text);
        return;
    }
    struct naive_world world = host_world(&p->b);
    naive_init(&p->naive, &run->features, &run->choices, &world);
    p->telling = telling;
    if (telling)
        say_configuration(p);
    struct step first = {.kind = STEP_STATE, .el = 1, .security = SPEX_NONSECURE};
    pair_move(p, &first);
}

void pair_close(struct pair *p)
{
    spex_spu_free(p->unit);
    host_fini(&p->a);
    host_fini(&p->b);
    free(p->stream);
}

static void run_from(struct pair *p)
{
    struct run_result *result = p->result;
    for (size_t i = 0; i < p->run->count && result->equal; i++) {
        const struct step *step = &p->run->steps[i];
        result->step = i;
        result->coverage[step->kind]++;
        host_clear(&p->a);
        host_clear(&p->b);
        p->a.serrors = p->naive.serrors = 0;
        p->naive.whole = 0;
        p->b.lost = 0;
        pair_play(p, step);
        bool registers = step->kind == STEP_MSR || step->kind == STEP_SET ||
                         step->kind == STEP_SAVE || i + 1 == p->run->count;
        if (p->compare)
            pair_compare(p, registers);
        result->bytes += p->a.count;
        result->enabled += p->naive.was_enabled;
        collect_stream(p);
    }
    if (result->equal && p->compare)
        check_stream(p);
    result->events = p->a.pmu[naive_pmu_index(SPEX_PMU_SAMPLE_FEED)];
}

void run_play(const struct run *run, enum path path, struct run_result *result)
{
    struct pair *p = malloc(sizeof *p);
    if (!p)
        abort();
    pair_open(p, run, path, true, false, result);
    if (result->equal)
        run_from(p);
    pair_close(p);
    free(p);
}

void run_identity(const struct run *run, struct run_result *result)
{
    struct run_result other;
    struct pair *p = malloc(2 * sizeof *p), *q = p + 1;
    if (!p)
        abort();
    pair_open(p, run, ONE_AT_A_TIME, false, false, result);
    pair_open(q, run, IN_BLOCKS, false, false, &other);
    for (size_t i = 0; i < run->count && result->equal && other.equal; i++) {
        result->step = i;
        pair_play(p, &run->steps[i]);
        pair_play(q, &run->steps[i]);
        spex_spu_flush(p->unit);
        spex_spu_flush(q->unit);
        bool same = p->a.count == q->a.count;
        for (size_t k = 0; same && k < p->a.count; k++)
            same =
                p->a.log[k].address == q->a.log[k].address && p->a.log[k].byte == q->a.log[k].byte;
        if (!same)
            pair_differ(p, "bytes differ between the one-operation path and the block path");
        if (memcmp(p->a.pmu, q->a.pmu, sizeof p->a.pmu))
            pair_differ(p, "PMU counts differ between the two paths");
        static const uint16_t moving[] = {SPEX_PMSICR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1,
                                          SPEX_PMBSR_EL2, SPEX_PMBSR_EL3};
        for (size_t k = 0; k < 5; k++)
            if (pair_get(p, moving[k]) != pair_get(q, moving[k]))
                pair_differ(p, "%s: %" PRIx64 " one at a time, %" PRIx64 " in blocks",
                            spex_sysreg_name(moving[k]), pair_get(p, moving[k]),
                            pair_get(q, moving[k]));
        result->bytes += p->a.count;
        host_clear(&p->a);
        host_clear(&q->a);
    }
    if (!other.equal)
        *result = other;
    pair_close(p);
    pair_close(q);
    free(p);
}
