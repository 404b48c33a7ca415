/*
 * The plugin on a made-up QEMU 11.1: this program exports the functions of plugin API 7 that the
 * plugin calls, loads it, and plays translation, execution, exceptions and memory to it.
 */
#include "guest/qemu_plugin7.h"

#include "support/test.h"

#include <dlfcn.h>
#include <setjmp.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- the machine ---- */

/* clang-format off */
enum { RAM = 0x40000000, RAM_SIZE = 1 << 20, GICR_SET = 0x080a0000 + 0x10000 + 0x200,
       GICR_CLEAR = 0x080a0000 + 0x10000 + 0x280 };
static uint8_t ram[RAM_SIZE];
static uint32_t set_pending, clear_pending;
static int64_t now = 1000;
/* clang-format on */

/* clang-format off */
static struct {
    const char *name;
    uint64_t value;
} registers[64] = {
    {"cpsr", 0x3c5},
    {"SPSR_EL1", 0x3c5}, {"ELR_EL1", 0}, {"VBAR_EL1", 0x40010000}, {"CONTEXTIDR_EL1", 0x123},
    {"TTBR0_EL1", 0}, {"TTBR1_EL1", 0}, {"TCR_EL1", 0}, {"SCTLR_EL1", 0},
    {"ID_AA64DFR0_EL1", UINT64_C(0x100f0f0310305609)}, {"CNTFRQ_EL0", 1000000000}, {"sp", 0},
};
/* clang-format on */
enum { FIRST_X = 12 };
static char names[31][4];

struct qemu_plugin_insn {
    uint32_t word;
    uint64_t pc;
    qemu_plugin_vcpu_udata_cb_t exec;
    void *exec_data;
    qemu_plugin_vcpu_mem_cb_t memory;
    void *memory_data;
    enum qemu_plugin_cb_flags flags;
};

struct qemu_plugin_tb {
    uint64_t pc;
    size_t count;
    struct qemu_plugin_insn insn[32];
    qemu_plugin_vcpu_udata_cb_t exec;
    void *exec_data;
};

static qemu_plugin7_tb_trans_cb_t on_translate;
static qemu_plugin_vcpu_udata_cb_t on_vcpu;
static qemu_plugin7_discon_cb_t on_discontinuity;
static jmp_buf leave_block;
static uint64_t new_pc;

/* ---- what it exports ---- */

EXPORT void qemu_plugin7_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                   qemu_plugin7_tb_trans_cb_t cb, void *data)
{
    on_translate = cb;
}
EXPORT void qemu_plugin7_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t cb,
                                               void *data)
{
    on_vcpu = cb;
}
EXPORT void qemu_plugin_register_vcpu_discon_cb(qemu_plugin_id_t id, enum qemu_plugin7_discon types,
                                                qemu_plugin7_discon_cb_t cb, void *data)
{
    on_discontinuity = cb;
}
EXPORT size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
    return tb->count;
}
EXPORT uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb)
{
    return tb->pc;
}
EXPORT struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i)
{
    return (struct qemu_plugin_insn *)(uintptr_t)&tb->insn[i];
}
EXPORT size_t qemu_plugin7_insn_data(const struct qemu_plugin_insn *insn, void *data, size_t size)
{
    memcpy(data, &insn->word, size < 4 ? size : 4);
    return size < 4 ? size : 4;
}
EXPORT size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
    return 4;
}
EXPORT void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
                                                 qemu_plugin_vcpu_udata_cb_t cb,
                                                 enum qemu_plugin_cb_flags flags, void *data)
{
    assert_int_equal(flags, QEMU_PLUGIN_CB_R_REGS);
    tb->exec = cb;
    tb->exec_data = data;
}
EXPORT void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                                   qemu_plugin_vcpu_udata_cb_t cb,
                                                   enum qemu_plugin_cb_flags flags, void *data)
{
    insn->exec = cb;
    insn->exec_data = data;
    insn->flags = flags;
}
EXPORT void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
                                             qemu_plugin_vcpu_mem_cb_t cb,
                                             enum qemu_plugin_cb_flags flags,
                                             enum qemu_plugin_mem_rw rw, void *data)
{
    insn->memory = cb;
    insn->memory_data = data;
}
EXPORT unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info)
{
    return info & 7;
}
EXPORT bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
    return info >> 3 & 1;
}
static uint64_t last_address;
EXPORT struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t va)
{
    last_address = va;
    return (struct qemu_plugin_hwaddr *)&last_address;
}
EXPORT bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *where)
{
    return false;
}
EXPORT uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *where)
{
    return *(const uint64_t *)(const void *)where ^ 0x1000000;
}
EXPORT struct qemu_plugin7_array *qemu_plugin_get_registers(void)
{
    static struct qemu_plugin7_register list[64];
    static struct qemu_plugin7_array array = {(char *)list, 0};
    array.count = 0;
    for (uintptr_t i = 0; registers[i].name; i++)
        list[array.count++] =
            (struct qemu_plugin7_register){(void *)i, registers[i].name, "", false};
    return &array;
}
/* GLib's, as far as the plugin uses it. */
EXPORT struct qemu_plugin7_bytes *g_byte_array_new(void)
{
    static struct qemu_plugin7_bytes bytes;
    static uint8_t data[64];
    bytes.data = data;
    return &bytes;
}
EXPORT struct qemu_plugin7_bytes *g_byte_array_set_size(struct qemu_plugin7_bytes *bytes,
                                                        unsigned size)
{
    bytes->size = size;
    return bytes;
}
EXPORT bool qemu_plugin_read_register(void *handle, struct qemu_plugin7_bytes *bytes)
{
    memcpy(bytes->data + bytes->size, &registers[(uintptr_t)handle].value, 8);
    bytes->size += 8;
    return true;
}
EXPORT bool qemu_plugin_write_register(void *handle, struct qemu_plugin7_bytes *bytes)
{
    assert_int_equal(bytes->size, 8);
    memcpy(&registers[(uintptr_t)handle].value, bytes->data, 8);
    return true;
}
EXPORT __attribute__((noreturn)) void qemu_plugin_set_pc(uint64_t pc)
{
    new_pc = pc;
    longjmp(leave_block, 1);
}
EXPORT int qemu_plugin_read_memory_hwaddr(uint64_t pa, struct qemu_plugin7_bytes *bytes,
                                          size_t size)
{
    if (pa < RAM || pa + size > RAM + RAM_SIZE)
        return 1;
    memcpy(bytes->data, ram + (pa - RAM), size);
    bytes->size = (unsigned)size;
    return 0;
}
EXPORT int qemu_plugin_write_memory_hwaddr(uint64_t pa, struct qemu_plugin7_bytes *bytes)
{
    if (pa == GICR_SET)
        memcpy(&set_pending, bytes->data, 4);
    else if (pa == GICR_CLEAR)
        memcpy(&clear_pending, bytes->data, 4);
    else if (pa >= RAM && pa + bytes->size <= RAM + RAM_SIZE)
        memcpy(ram + (pa - RAM), bytes->data, bytes->size);
    else
        return 1;
    return 0;
}
EXPORT int64_t qemu_clock_get_ns(int clock);
int64_t qemu_clock_get_ns(int clock)
{
    return now++;
}
/* ---- playing ---- */

static int (*install)(qemu_plugin_id_t, const qemu_info_t *, int, char **);

static void *x(unsigned n)
{
    return &registers[FIRST_X + n].value;
}

static void load_plugin(char *features)
{
    char path[4096], *argv[] = {features};
    for (unsigned i = 0; i < 31; i++) {
        snprintf(names[i], sizeof names[i], "x%u", i);
        registers[FIRST_X + i].name = names[i];
    }
    snprintf(path, sizeof path, "%s/libspex-qemu.so", getenv("SPEX_BUILD"));
    /* Lazily: what user mode alone calls is not here. */
    void *plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!plugin)
        fail_msg("%s", dlerror());
    const int *version = dlsym(plugin, "qemu_plugin_version");
    assert_int_equal(*version, 7); /* it has seen qemu_plugin_set_pc */
    *(void **)&install = dlsym(plugin, "qemu_plugin_install");
    const qemu_info_t info = {
        .target_name = "aarch64", .version = {7, 7}, .system_emulation = true, .system = {1, 1}};
    assert_int_equal(install(1, &info, 1, argv), 0);
    assert_true(on_translate && on_vcpu && on_discontinuity);
    on_vcpu(0, NULL);
}

static void translate(struct qemu_plugin_tb *tb, uint64_t pc, const uint32_t *words, size_t count)
{
    memset(tb, 0, sizeof *tb);
    tb->pc = pc;
    tb->count = count;
    for (size_t i = 0; i < count; i++)
        tb->insn[i] = (struct qemu_plugin_insn){.word = words[i], .pc = pc + 4 * i};
    on_translate(tb, NULL);
}

/* Executes instructions from..until of the block; true if the plugin has moved the PC. */
static bool execute(struct qemu_plugin_tb *tb, size_t count, uint64_t va)
{
    if (setjmp(leave_block))
        return true;
    tb->exec(0, tb->exec_data);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = &tb->insn[i];
        if (insn->exec)
            insn->exec(0, insn->exec_data);
        if (insn->memory)
            insn->memory(0, 3, va, insn->memory_data);
    }
    return false;
}

static uint32_t mrs(unsigned op1, unsigned crm, unsigned op2, unsigned rt)
{
    return 0xd5380000 | op1 << 16 | 9 << 12 | crm << 8 | op2 << 5 | rt;
}

static void write_register(unsigned crm, unsigned op2, uint64_t value)
{
    struct qemu_plugin_tb tb;
    uint32_t word = mrs(0, crm, op2, 7) ^ 1 << 21;
    memcpy(x(7), &value, 8);
    translate(&tb, 0x40020000, &word, 1);
    assert_int_equal(tb.insn[0].flags, QEMU_PLUGIN_CB_RW_REGS_PC);
    assert_true(execute(&tb, 1, 0));
    assert_int_equal(new_pc, 0x40020004);
}

static uint64_t read_register(unsigned crm, unsigned op2)
{
    struct qemu_plugin_tb tb;
    uint32_t word = mrs(0, crm, op2, 7);
    uint64_t value;
    translate(&tb, 0x40020000, &word, 1);
    assert_true(execute(&tb, 1, 0));
    memcpy(&value, x(7), 8);
    return value;
}

#define PMSCR 9, 0
#define PMSICR 9, 2
#define PMSIRR 9, 3
#define PMSIDR 9, 7
#define PMBLIMITR 10, 0
#define PMBPTR 10, 1
#define PMBSR 10, 3

static void isb(void)
{
    struct qemu_plugin_tb tb;
    uint32_t word = 0xd5033fdf;
    translate(&tb, 0x40030000, &word, 1);
    execute(&tb, 1, 0);
}

/* add, ldr x1 [x2], add, b.ne back */
static const uint32_t loop[] = {0x91000400, 0xf9400041, 0x91000400, 0x54ffffa1};

static void start(uint64_t limit)
{
    write_register(PMSCR, 0);
    isb();
    write_register(PMBSR, 0);
    write_register(PMBPTR, RAM + 0x10000);
    write_register(PMBLIMITR, limit | 1);
    write_register(PMSIRR, 0x100);
    write_register(PMSICR, 0x100);
    isb();
    write_register(PMSCR, 1 << 1 | 1 << 4 | 1 << 5); /* E1SPE, PA, TS */
    isb();
}

static void test_identification(void **state)
{
    (void)state;
    struct qemu_plugin_tb tb;
    uint32_t words[] = {0x91000400, 0xd5380500, 0x91000400}; /* add; mrs x0, ID_AA64DFR0_EL1; add */
    uint64_t value;
    translate(&tb, 0x40000100, words, 3);
    assert_true(execute(&tb, 3, 0));
    assert_int_equal(new_pc, 0x40000108);
    memcpy(&value, x(0), 8);
    assert_int_equal(value >> 32 & 15, 3); /* PMSVer of v1p2 */
    assert_int_equal(value & 0xffffffff, 0x10305609 | (value & 0x10000000));
    assert_int_equal(read_register(PMSIDR) >> 12 & 15, 7); /* MaxSize: 128 bytes */
}

static void test_undefined(void **state)
{
    (void)state;
    struct qemu_plugin_tb tb;
    uint32_t word = mrs(0, 9, 0, 0); /* PMSCR_EL1 */
    registers[0].value = 0x3c0;      /* EL0 */
    translate(&tb, 0x40040000, &word, 1);
    assert_false(execute(&tb, 1, 0)); /* left to QEMU, which makes it UNDEFINED */
    registers[0].value = 0x3c5;
}

static void test_counting(void **state)
{
    (void)state;
    struct qemu_plugin_tb tb, vector;
    uint32_t handler[] = {0xd503201f, 0xd69f03e0}; /* nop; eret */
    start(RAM + 0x20000);
    translate(&tb, 0x40050000, loop, 4);
    translate(&vector, 0x40010200, handler, 2);
    uint64_t before = read_register(PMSICR) & 0xffffffff;
    for (unsigned i = 0; i < 10; i++)
        assert_false(execute(&tb, 4, 0x40080000 + 64 * i));
    uint64_t after = read_register(PMSICR) & 0xffffffff;
    assert_int_equal(before - after, 41); /* 40, and the MRS between the two readings */
    /* A load that faults: it and the one before count, the rest does not. */
    before = after;
    tb.exec(0, tb.exec_data);
    on_discontinuity(0, QEMU_PLUGIN7_DISCON_EXCEPTION, 0x40050004, 0x40010200, NULL);
    execute(&vector, 2, 0);
    after = read_register(PMSICR) & 0xffffffff;
    assert_int_equal(before - after, 1 + 2 + 2);
    /* An interrupt comes between blocks: all of the block counts. */
    before = after;
    execute(&tb, 4, 0x40080000);
    on_discontinuity(0, QEMU_PLUGIN7_DISCON_INTERRUPT, 0x40050000, 0x40010280, NULL);
    execute(&vector, 2, 0);
    after = read_register(PMSICR) & 0xffffffff;
    assert_int_equal(before - after, 1 + 4 + 2);
}

static void test_records_and_interrupt(void **state)
{
    (void)state;
    struct qemu_plugin_tb tb;
    memset(ram, 0, sizeof ram);
    set_pending = clear_pending = 0;
    start(RAM + 0x11000);
    translate(&tb, 0x40050000, loop, 4);
    for (unsigned i = 0; i < 257 * 200 / 4 && !set_pending; i++)
        execute(&tb, 4, 0x40080000);
    assert_int_equal(set_pending, 1u << 21);
    write_register(PMSCR, 0);
    isb();
    uint64_t end = read_register(PMBPTR), status = read_register(PMBSR);
    assert_int_equal(status, 0x20001);
    assert_in_range(end, RAM + 0x11000 - 128, RAM + 0x11000);
    assert_int_equal(clear_pending, 0);
    write_register(PMBSR, 0);
    assert_int_equal(clear_pending, 1u << 21);
    /* Records of the loop's instructions at EL1, Non-secure; the load's with both its addresses. */
    const uint8_t *r = ram + 0x10000;
    unsigned pcs = 0, addresses = 0;
    for (size_t i = 0; i + 18 < 0x1000; i++) {
        uint64_t first, second;
        memcpy(&first, r + i + 1, 8);
        memcpy(&second, r + i + 10, 8);
        pcs += r[i] == 0xb0 && (first & ~UINT64_C(12)) == UINT64_C(0xa000000040050000);
        addresses += r[i] == 0xb2 && first == 0x40080000 && r[i + 9] == 0xb3 &&
                     (second & 0xffffffffff) == (0x40080000 ^ 0x1000000);
    }
    assert_in_range(pcs, 4096 / 128, 4096 / 32);
    assert_in_range(addresses, pcs / 8, pcs / 2);
}

static void test_fault(void **state)
{
    (void)state;
    struct qemu_plugin_tb tb;
    /* 4 KB granule, 39 bits; the buffer's gigabyte is not mapped. */
    registers[7].value = 25 | UINT64_C(2) << 32; /* TCR_EL1 */
    registers[5].value = RAM + 0x80000;          /* TTBR0_EL1 */
    registers[8].value = 1;                      /* SCTLR_EL1.M */
    start(RAM + 0x11000);
    translate(&tb, 0x40050000, loop, 4);
    for (unsigned i = 0; i < 300; i++)
        execute(&tb, 4, 0x40080000);
    write_register(PMSCR, 0);
    isb();
    uint64_t status = read_register(PMBSR);
    assert_int_equal(status >> 26 & 0x3f, 0x24);
    assert_int_equal(status & 0x3f, 0x05); /* translation, level 1 */
    assert_int_equal(read_register(PMBPTR), RAM + 0x10000);
    registers[8].value = 0;
}

/* QEMU 11.1 crashes where it has to call back for these. */
static void test_gathers(void **state)
{
    (void)state;
    struct qemu_plugin_tb tb;
    /* Gathers, first-fault, non-fault; then LD1W, a scatter, LDR Z. */
    static const uint32_t words[] = {0x85214000, 0xc5a0c020, 0xa4016000, 0xa410a000, 0xc5c1e000,
                                     0xc582c020, 0xa540a000, 0xe5618000, 0x85804000};
    translate(&tb, 0x40060000, words, 9);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(tb.insn[i].memory != NULL, i >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_identification), TEST(test_undefined),
                                       TEST(test_counting),       TEST(test_records_and_interrupt),
                                       TEST(test_fault),          TEST(test_gathers)};
    static char features[] = "features=v1p2:maxsize=7";
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    load_plugin(features);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
