/*
 * A toy PE with a Statistical Profiling Unit. docs/embedding.md walks through it.
 *
 * The PE runs one loop of five instructions that sums an array; every eighth
 * load misses the cache. The "driver" sets the unit up, empties its buffer when
 * it is full, and at the end decodes what was written.
 */
#include <spex/record.h>
#include <spex/spu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 0x10000, BUFFER_SIZE = 0x1000, CODE = 0x400000, DATA = 0x800000, LOOP = 5 };

/* ---- the machine ---- */

struct machine {
    struct spex_spu *spu;
    uint8_t buffer[BUFFER_SIZE]; /* the Profiling Buffer at address BUFFER */
    uint64_t cycles;
    bool irq;
    uint8_t *profile; /* what the driver has collected */
    size_t profile_size;
    unsigned interrupts;
};

static void write_buffer(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct machine *m = user; /* an emulator would translate here and fill *stop on a fault */
    memcpy(m->buffer + (store->address - BUFFER), store->bytes, store->count);
}

static bool read_counter(void *user, uint64_t *count)
{
    *count = ((struct machine *)user)->cycles / 10;
    return true;
}

static void set_irq(void *user, bool level)
{
    ((struct machine *)user)->irq = level;
}

/* ---- the driver ---- */

static void write_reg(struct machine *m, unsigned reg, uint64_t value)
{
    if (spex_spu_write(m->spu, reg, 0, value, NULL) != SPEX_SYSREG_OK)
        exit(1); /* an emulator would take the exception */
}

static uint64_t read_reg(struct machine *m, unsigned reg)
{
    uint64_t value = 0;
    return spex_spu_read(m->spu, reg, 0, &value, NULL) == SPEX_SYSREG_OK ? value : (exit(1), 0);
}

static void start(struct machine *m, uint64_t interval)
{
    write_reg(m, SPEX_PMBPTR_EL1, BUFFER);
    write_reg(m, SPEX_PMBLIMITR_EL1, BUFFER + BUFFER_SIZE + 1); /* LIMIT, and E */
    write_reg(m, SPEX_PMSIRR_EL1, interval | 1);                /* with jitter */
    write_reg(m, SPEX_PMSICR_EL1, 0);
    spex_spu_context_sync(m->spu);
    write_reg(m, SPEX_PMSCR_EL1, 0x30 | 1); /* TS, PA, E0SPE */
}

/* Take what is between the start of the buffer and the pointer. */
static void collect(struct machine *m)
{
    size_t size = (size_t)(read_reg(m, SPEX_PMBPTR_EL1) - BUFFER);
    m->profile = realloc(m->profile, m->profile_size + size);
    memcpy(m->profile + m->profile_size, m->buffer, size);
    m->profile_size += size;
}

/* The interrupt handler: at EL1, as the PE has taken an exception. */
static void service(struct machine *m, struct spex_spu_state *state)
{
    state->el = 1;
    spex_spu_set_state(m->spu, state);
    spex_spu_psb(m->spu, NULL);
    spex_spu_context_sync(m->spu);
    if (read_reg(m, SPEX_PMBSR_EL1) & SPEX_FIELD_MASK(SPEX_PMBSR_EL1_S)) {
        collect(m);
        write_reg(m, SPEX_PMBPTR_EL1, BUFFER);
        write_reg(m, SPEX_PMBSR_EL1, 0); /* profiling goes on where it stopped */
        m->interrupts++;
    }
    state->el = 0;
    spex_spu_set_state(m->spu, state);
}

/* ---- the PE ---- */

/* One instruction of the loop, in the words of op.h. Returns its cycles. */
static unsigned execute(uint64_t i, uint64_t count, unsigned n, struct spex_op *op,
                        struct spex_outcome *o)
{
    *op = (struct spex_op){.kind = SPEX_OP_OTHER};
    *o = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED, .total = 1, .issue = 1};
    if (n == 0) { /* ldr x2, [x0, x1, lsl 3] */
        bool miss = i % 8 == 0;
        uint64_t events = 1u << SPEX_EV_L1D_ACCESS | 1u << SPEX_EV_TLB_ACCESS;
        op->kind = SPEX_OP_LDST;
        op->flags = SPEX_OPF_LOAD;
        o->total = miss ? 120 : 4;
        o->access[0] = (struct spex_access){
            .va = DATA + 8 * i,
            .pa = DATA + 8 * i,
            .pas = SPEX_NONSECURE,
            .events = events | (miss ? 1u << SPEX_EV_L1D_MISS : 0),
            .flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE,
        };
    } else if (n == LOOP - 1) { /* b.ne */
        op->kind = SPEX_OP_BRANCH;
        op->flags = SPEX_OPF_COND;
        o->flags |= i + 1 < count ? SPEX_OUT_PASSED : 0;
        o->target = CODE;
        o->target_security = SPEX_NONSECURE;
    }
    return o->total;
}

static void run(struct machine *m, uint64_t count)
{
    struct spex_spu_state state = {.el = 0, .security = SPEX_NONSECURE};
    spex_spu_set_state(m->spu, &state);
    for (uint64_t i = 0; i < count; i++) {
        if (spex_spu_until(m->spu) >= LOOP) { /* no sample near: the whole block at once */
            spex_spu_pass(m->spu, LOOP);
            m->cycles += i % 8 == 0 ? 124 : 8;
            continue;
        }
        for (unsigned n = 0; n < LOOP; n++) {
            struct spex_op op;
            struct spex_outcome outcome;
            m->cycles += execute(i, count, n, &op, &outcome);
            spex_spu_op(m->spu, CODE + 4 * n, &op, &outcome);
        }
        if (m->irq)
            service(m, &state);
    }
}

/* ---- the analysis ---- */

static void report(const struct machine *m)
{
    static const char *const code[LOOP] = {"ldr x2, [x0, x1, lsl 3]", "add x3, x3, x2",
                                           "add x1, x1, 1", "cmp x1, x4", "b.ne"};
    uint64_t samples[LOOP] = {0}, cycles[LOOP] = {0}, misses[LOOP] = {0}, all = 0;
    struct spex_reader *reader;
    struct spex_record r;
    struct spex_error error;
    if (spex_reader_new(NULL, &reader, &error)) {
        fprintf(stderr, "embed: %s\n", error.text);
        return;
    }
    spex_reader_feed(reader, m->profile, m->profile_size, 0, true);
    while (spex_reader_next(reader, &r, NULL) == SPEX_OK) {
        uint64_t n = (spex_address_bits(r.address[SPEX_ADDRESS_PC]) - CODE) / 4;
        if (n >= LOOP)
            continue;
        all++;
        samples[n]++;
        cycles[n] += r.total;
        misses[n] += r.events >> SPEX_EV_L1D_MISS & 1;
    }
    spex_reader_free(reader);
    printf("%llu samples, %u full buffers\n", (unsigned long long)all, m->interrupts);
    for (unsigned n = 0; n < LOOP && all; n++)
        printf("%5.1f%%  %6.1f cycles  %4.1f%% miss  %s\n",
               100.0 * (double)samples[n] / (double)all,
               samples[n] ? (double)cycles[n] / (double)samples[n] : 0,
               samples[n] ? 100.0 * (double)misses[n] / (double)samples[n] : 0, code[n]);
}

int main(void)
{
    static struct machine m;
    struct spex_spu_host host = {.size = sizeof host,
                                 .user = &m,
                                 .write = write_buffer,
                                 .counter = read_counter,
                                 .irq = set_irq};
    struct spex_spu_config config = {
        .size = sizeof config, .features = "neoverse-n1", .host = &host, .seed = 1};
    struct spex_error error;
    if (spex_spu_new(&config, &m.spu, &error)) {
        fprintf(stderr, "embed: %s\n", error.text);
        return 1;
    }
    spex_spu_boot(m.spu); /* what firmware does */
    start(&m, 1024);
    run(&m, 1000000);
    struct spex_spu_state el1 = {.el = 1, .security = SPEX_NONSECURE};
    spex_spu_set_state(m.spu, &el1);
    write_reg(&m, SPEX_PMSCR_EL1, 0);
    spex_spu_psb(m.spu, NULL);
    collect(&m);
    report(&m);
    spex_spu_free(m.spu);
    free(m.profile);
    return 0;
}
