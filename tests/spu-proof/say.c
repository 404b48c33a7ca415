/* What a run does, as a script for spex spu run. */
#include "pair.h"

#include "base/bits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* key=value, where the value is not the one that scripts assume. */
static void say_key(const struct pair *p, const char *key, const char *suffix, uint64_t value)
{
    if (value)
        SAY(p, value < 10 ? " %s%s=%" PRIu64 : " %s%s=0x%" PRIx64, key, suffix, value);
}

static void say_access(const struct pair *p, const struct spex_access *a, const char *suffix)
{
    say_key(p, "va", suffix, a->va);
    say_key(p, "pa", suffix, a->pa);
    say_key(p, "events", suffix, a->events);
    say_key(p, "xlat", suffix, a->translation);
    say_key(p, "source", suffix, a->data_source);
    say_key(p, "tag", suffix, a->tag);
    if (a->va || a->pa)
        SAY(p, " pas%s=%s", suffix, securities[a->pas]);
}

#define SAY_PARTS(name, format, field)                                                             \
    for (size_t i = 0; i < out->part_count; i++)                                                   \
    SAY(p, "%s" format, i ? "," : name, out->parts[i].field)

/* KIND and everything that op.h can say. */
void say_op(const struct pair *p, const struct made_op *made)
{
    const struct spex_op *op = &made->op;
    const struct spex_outcome *out = &made->outcome;
    if (!p->telling)
        return;
    SAY(p, "%s", spex_op_kind_name(op->kind));
    for (size_t i = 0; i < sizeof op->src; i++)
        if (op->src[i] >= SPEX_REG_P0 && op->src[i] < SPEX_REG_P0 + 16)
            SAY(p, " pred-operand");
        else if (op->src[i] == SPEX_REG_ZT0)
            SAY(p, " zt");
    say_key(p, "pc", "", made->pc);
    say_key(p, "bits", "", op->vector_bits);
    if (op->vectors != 1)
        SAY(p, " vectors=%u", op->vectors);
    say_key(p, "total", "", out->total);
    say_key(p, "issue", "", out->issue);
    say_key(p, "alt", "", out->alt_issue);
    say_key(p, "op-events", "", out->events);
    if (op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET || op->kind == SPEX_OP_EXCEPTION) {
        say_key(p, "target", "", out->target);
        SAY(p, " target-el=%u target-security=%s", out->target_el,
            securities[out->target_security]);
        if (out->flags & SPEX_OUT_ILLEGAL_ERET)
            SAY(p, " spsr-el=%u spsr-security=%s", out->spsr_el, securities[out->spsr_security]);
    }
    say_key(p, "impdef-counter", "", out->impdef_counter);
    say_key(p, "impdef-address", "", out->impdef_address);
    if (!out->part_count)
        say_access(p, &out->access[0], "");
    if (op->kind == SPEX_OP_MEMCPY || op->kind == SPEX_OP_GCS)
        say_access(p, &out->access[1], "2");
    SAY_PARTS(" parts=", "0x%" PRIx64, va);
    SAY_PARTS(" ppa=", "0x%" PRIx64, pa);
    SAY_PARTS(" pevents=", "0x%" PRIx64, events);
    SAY_PARTS(" pxlat=", "%u", translation);
    SAY_PARTS(" pstart=", "%u", start);
    SAY_PARTS(" pmemory=", "%u", memory);
    SAY_PARTS(" psource=", "%u", data_source);
    SAY_PARTS(" ptotal=", "%u", total);
    SAY_PARTS(" ptag=", "%u", tag);
    SAY_PARTS(" ppas=", "%u", pas);
    SAY_PARTS(" pflags=", "0x%x", flags);
    SAY(p, " op-flags=0x%x outcome-flags=0x%x", op->flags, out->flags);
    if (!out->part_count)
        SAY(p, " access-flags=0x%x", out->access[0].flags);
    if (op->kind == SPEX_OP_MEMCPY || op->kind == SPEX_OP_GCS)
        SAY(p, " access-flags2=0x%x", out->access[1].flags);
    SAY(p, "\n");
}

/* What an access came to. */
void say_result(const struct pair *p, enum spex_sysreg_result result,
                const struct spex_sysreg_detail *syndrome)
{
    uint64_t esr = syndrome->esr & ~BITS(9, 5); /* scripts have Rt 0 */
    switch (result) {
    /* clang-format off */
    case SPEX_SYSREG_UNDEFINED: SAY(p, " expect undefined\n"); break;
    case SPEX_SYSREG_TRAP_EL2: SAY(p, " expect trap el2 0x%" PRIx64 "\n", esr); break;
    case SPEX_SYSREG_TRAP_EL3: SAY(p, " expect trap el3 0x%" PRIx64 "\n", esr); break;
    case SPEX_SYSREG_MEMORY: SAY(p, " expect memory 0x%x\n", syndrome->offset); break;
    default: SAY(p, "\n");
        /* clang-format on */
    }
}

void say_configuration(const struct pair *p)
{
    const struct spex_spu_choice *row;
    const char *name, *text, *separator = "features max,";
    for (size_t i = 0; (name = spex_features_describe(i, &text)); i++) {
        static const char *const numbers[] = {"version", "altclk",   "countsize", "maxsize",
                                              "align",   "interval", "ea"};
        unsigned value = ((const uint8_t *)&p->run->features)[i];
        bool number = false;
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            number = number || !strcmp(name, numbers[k]);
        if (number)
            printf("%s%s=%u", separator, name, value);
        else
            printf("%s%s%s", separator, value ? "" : "no-", name);
        separator = ",";
    }
    printf("\nchoice layout=%s", p->naive.n1 ? "n1" : p->naive.hisi ? "hisi" : "compact");
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        uint64_t value = *spu_choice_field(&p->run->choices, i);
        if (value != row->standard && strcmp(row->name, "layout"))
            printf(" %s=%" PRIu64, row->name, value);
    }
    for (size_t i = 0; i < 4 * sizeof p->run->random; i++)
        printf("%s%u", i % 64 ? " " : "\nrandom ", p->run->random[i % sizeof p->run->random]);
    printf("\ntime %" PRIu64 "\n", p->a.time);
}

/* What the naive unit is in now. */
static void say_expectations(struct pair *p)
{
    static const uint16_t registers[] = {SPEX_PMSICR_EL1, SPEX_PMBPTR_EL1, SPEX_PMBSR_EL1,
                                         SPEX_PMBSR_EL2, SPEX_PMBSR_EL3};
    struct spex_spu_status status = {.size = sizeof status};
    struct spex_spu_exception e;
    uint64_t value;
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
        if (naive_get(&p->naive, registers[i], &value))
            printf("get %s expect 0x%" PRIx64 "\n", spex_sysreg_name(registers[i]), value);
    naive_status(&p->naive, &status);
    printf("expect irq %d\nexpect enabled %d\nexpect stopped %d\nexpect in-flight %u\n"
           "expect held %u\n",
           status.irq, status.enabled, status.stopped, status.in_flight, status.held);
    naive_exception(&p->naive, 0, &e);
    if (!e.pending)
        printf("expect exception none\n");
    else
        printf("expect exception el%u %s from %u\n", e.target, e.unmasked ? "taken" : "masked",
               e.source);
    static const unsigned events[] = {SPEX_PMU_SAMPLE_POP, SPEX_PMU_SAMPLE_FEED,
                                      SPEX_PMU_SAMPLE_FILTRATE, SPEX_PMU_SAMPLE_COLLISION};
    for (size_t i = 0; i < 4; i++)
        printf("expect pmu %s %" PRIu64 "\n", spex_pmu_event_name(events[i]),
               p->naive.pmu[naive_pmu_index(events[i])]);
    for (size_t i = 0; i < p->b.count; i++)
        printf("%s%02x%s", i % 64 ? "" : "expect bytes ", p->b.log[i].byte,
               i % 64 == 63 || i + 1 == p->b.count ? "\n" : "");
    printf("expect nothing\n");
}

void run_print(const struct run *run, enum path path)
{
    struct run_result result;
    struct pair *p = malloc(sizeof *p);
    if (!p)
        abort();
    pair_open(p, run, path, true, true, &result);
    for (size_t i = 0; i < run->count; i++)
        pair_play(p, &run->steps[i]);
    printf("# where the unit differs: what the naive one says\n");
    say_expectations(p);
    pair_close(p);
    free(p);
}

void run_print_shrunk(struct run *run, enum path path)
{
    struct run_result result;
    run_shrink(run, path);
    run_play(run, path, &result);
    printf("# shrunk to %zu steps: %s; as a script for spex spu run:\n", run->count, result.what);
    run_print(run, path);
}
