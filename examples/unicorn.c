/*
 * An emulator of somebody else's with a Statistical Profiling Unit: libunicorn runs A64 code, the
 * classifier says what each sampled instruction is, the unit writes records. docs/embedding.md
 * walks through it. Usage: unicorn FILE, for the records, which `spex verify --raw` checks.
 *
 * The program in it sums an array. libunicorn shows instructions and data addresses; caches and
 * latencies are made up, as they would be the emulator's.
 */
#include <spex/a64.h>
#include <spex/spu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unicorn/unicorn.h>

enum { BUFFER = 0x10000, BUFFER_SIZE = 0x1000, CODE = 0x400000, DATA = 0x800000, COUNT = 200000 };

static const uint32_t program[] = {
    0xf8408423, /* loop: ldr x3, [x1], #8 */
    0x8b030000, /* add x0, x0, x3 */
    0xf1000442, /* subs x2, x2, #1 */
    0x54ffffa1, /* b.ne loop */
    0xf9000080, /* str x0, [x4] */
};

struct machine {
    uc_engine *uc;
    struct spex_spu *spu;
    uint8_t buffer[BUFFER_SIZE]; /* the Profiling Buffer at address BUFFER */
    FILE *profile;
    uint64_t instructions;
    /* The instruction that is running, if the unit may want it. */
    bool wanted;
    uint64_t pc;
    struct spex_op op;
    struct spex_outcome outcome;
};

/* ---- what the unit asks for ---- */

static void write_buffer(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct machine *m = user;
    (void)stop; /* nothing can fault here */
    memcpy(m->buffer + (store->address - BUFFER), store->bytes, store->count);
}

static bool read_counter(void *user, uint64_t *count)
{
    *count = ((struct machine *)user)->instructions / 10;
    return true;
}

/* ---- the driver: at EL1, as after an exception ---- */

static void drive(struct machine *m, bool on)
{
    const struct spex_spu_state el1 = {.el = 1, .security = SPEX_NONSECURE};
    const struct spex_spu_state el0 = {.el = 0, .security = SPEX_NONSECURE};
    uint64_t end = BUFFER;
    spex_spu_set_state(m->spu, &el1);
    spex_spu_psb(m->spu, NULL);
    spex_spu_context_sync(m->spu);
    spex_spu_read(m->spu, SPEX_PMBPTR_EL1, 0, &end, NULL);
    fwrite(m->buffer, 1, (size_t)(end - BUFFER), m->profile);
    spex_spu_write(m->spu, SPEX_PMBPTR_EL1, 0, BUFFER, NULL);
    spex_spu_write(m->spu, SPEX_PMSCR_EL1, 0, on ? 0x30 | 1 : 0, NULL); /* TS, PA, E0SPE */
    spex_spu_write(m->spu, SPEX_PMBSR_EL1, 0, 0, NULL);
    spex_spu_set_state(m->spu, &el0);
}

static void set_up(struct machine *m)
{
    spex_spu_boot(m->spu);
    spex_spu_write(m->spu, SPEX_PMBPTR_EL1, 0, BUFFER, NULL);
    spex_spu_write(m->spu, SPEX_PMBLIMITR_EL1, 0, BUFFER + BUFFER_SIZE + 1, NULL); /* LIMIT, E */
    spex_spu_write(m->spu, SPEX_PMSIRR_EL1, 0, 1024 | 1, NULL);                    /* with jitter */
    drive(m, true);
}

/* ---- what the emulator tells ---- */

/* The instruction before has ended, and control is at next. */
static void finish(struct machine *m, uint64_t next)
{
    if (!m->wanted)
        return;
    m->wanted = false;
    m->outcome.target = next;
    if (next != m->pc + 4 || !(m->op.flags & SPEX_OPF_COND))
        m->outcome.flags |= SPEX_OUT_PASSED;
    spex_spu_op(m->spu, m->pc, &m->op, &m->outcome);
    if (spex_spu_until(m->spu) == UINT64_MAX) /* stopped: the buffer is full */
        drive(m, true);
}

static void on_instruction(uc_engine *uc, uint64_t address, uint32_t size, void *user)
{
    struct machine *m = user;
    uint32_t word = 0;
    (void)size;
    finish(m, address);
    m->instructions++;
    if (spex_spu_until(m->spu)) { /* no sample here: it need not be described */
        spex_spu_pass(m->spu, 1);
        return;
    }
    uc_mem_read(uc, address, &word, sizeof word);
    spex_a64_classify(word, NULL, &m->op);
    m->wanted = true;
    m->pc = address;
    m->outcome = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED, .issue = 1};
    m->outcome.total = m->op.flags & SPEX_OPF_LOAD ? 5 : 2;
    m->outcome.target_security = SPEX_NONSECURE;
}

static void on_access(uc_engine *uc, uc_mem_type type, uint64_t address, int size, int64_t value,
                      void *user)
{
    struct machine *m = user;
    struct spex_access *a = &m->outcome.access[0];
    (void)uc, (void)size, (void)value;
    if (!m->wanted || a->flags) /* of a pair the first: the lower address */
        return;
    *a = (struct spex_access){.va = address,
                              .pa = address,
                              .pas = SPEX_NONSECURE,
                              .events = 1u << SPEX_EV_L1D_ACCESS | 1u << SPEX_EV_TLB_ACCESS,
                              .flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE};
    if (type == UC_MEM_READ)
        a->flags |= SPEX_ACC_SOURCE; /* 0: level 1, on a Neoverse */
}

int main(int argc, char **argv)
{
    static struct machine m;
    struct spex_spu_host host = {
        .size = sizeof host, .user = &m, .write = write_buffer, .counter = read_counter};
    struct spex_spu_config config = {
        .size = sizeof config, .features = "neoverse-n1", .host = &host, .seed = 1};
    struct spex_error error = {.text = "no FILE for the records, or it cannot be written"};
    if (argc != 2 || !(m.profile = fopen(argv[1], "wb")) || spex_spu_new(&config, &m.spu, &error)) {
        fprintf(stderr, "unicorn: %s\n", error.text);
        return 1;
    }
    uint64_t data = DATA, count = COUNT, result = DATA + 8 * COUNT, end = CODE + sizeof program;
    uc_hook code, memory;
    uc_open(UC_ARCH_ARM64, UC_MODE_ARM, &m.uc);
    uc_mem_map(m.uc, CODE, 0x1000, UC_PROT_ALL);
    uc_mem_map(m.uc, DATA, 0x200000, UC_PROT_ALL);
    uc_mem_write(m.uc, CODE, program, sizeof program);
    uc_reg_write(m.uc, UC_ARM64_REG_X1, &data);
    uc_reg_write(m.uc, UC_ARM64_REG_X2, &count);
    uc_reg_write(m.uc, UC_ARM64_REG_X4, &result);
    uc_hook_add(m.uc, &code, UC_HOOK_CODE, (void *)on_instruction, &m, 1, 0);
    uc_hook_add(m.uc, &memory, UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, (void *)on_access, &m, 1, 0);
    set_up(&m);
    uc_err status = uc_emu_start(m.uc, CODE, end, 0, 0);
    finish(&m, end);
    drive(&m, false);
    printf("%llu instructions: %s\n", (unsigned long long)m.instructions, uc_strerror(status));
    uc_close(m.uc);
    spex_spu_free(m.spu);
    return fclose(m.profile) || status;
}
