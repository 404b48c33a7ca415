/*
 * The proof of QEMU 7.2's private layout (src/guest/qemu72.c) on a made-up QEMU: the right one is
 * opened and gets the registers of the unit; every other one is refused with its reason. Built
 * three times: as 7.2, as an older QEMU (-DOLDER), and as a newer one (-DNEWER).
 */
#if defined OLDER || defined NEWER
#pragma GCC diagnostic ignored "-Warray-bounds" /* it is always refused: no CPU is ever there */
#endif
#include "../../src/guest/qemu72.c" /* what it finds weak, this file defines */

#include "support/test.h"

#include <stdlib.h>

struct plugin plugin; /* as plugin.c has it */

/* ---- QEMU ---- */

/* clang-format off */
enum { ENV = 0x40, XREGS = ENV + 64, PC = XREGS + 256, SP = PC + 0x100, INDEXES = 0x1000,
       CONTEXTIDR = 0x800 };
enum { MIDR, DFR0, CONTEXT, CNTP, KNOWN };
/* clang-format on */

static struct {
    _Alignas(16) char bytes[0x2000];
} cpus[2];
static struct reg_info regs[2][64];
static unsigned reg_count[2];
static bool no_gic;
static unsigned address_at, fault_type;
static struct vm_field fields[8];
static int interrupts[64];

#ifndef OLDER
char hw_compat_7_1[8];
#endif
#ifdef NEWER
char hw_compat_7_2[8];
#endif
__thread void *current_cpu;
_Static_assert(sizeof(struct vm_description) <= 256, "fits");
_Alignas(16) char vmstate_arm_cpu[256];

void *qemu_get_cpu(int index)
{
    return index < 2 ? &cpus[index] : NULL;
}

void *get_arm_cp_reginfo(void *table, uint32_t key)
{
    struct reg_info *all = table;
    for (unsigned i = 0; i < 64; i++)
        if (all[i].name && key == (UINT32_C(1) << 28 | 0x13 << 16 | enc_of(&all[i])))
            return &all[i];
    return NULL;
}

void define_one_arm_cp_reg_with_opaque(void *cpu, const void *info, void *opaque)
{
    unsigned i = cpu == &cpus[1];
    assert_null(opaque);
    assert_in_range(reg_count[i], 0, 63);
    memcpy(&regs[i][reg_count[i]++], info, sizeof(struct reg_info));
}

bool get_phys_addr(void *env, uint64_t va, int access, int mmu_index, void *result, void *fault)
{
    (void)env;
    assert_int_equal(access, 1);
    assert_int_equal(mmu_index, 0x12);
    ((uint64_t *)result)[address_at] = va;
    if (va >> 48)
        *(struct mmu_fault *)fault = (struct mmu_fault){.type = fault_type};
    return va >> 48;
}

void cpu_physical_memory_rw(uint64_t pa, void *data, uint64_t size, bool write)
{
    (void)pa, (void)data, (void)size, (void)write;
}

void *object_resolve_path_type(const char *path, const char *type, bool *ambiguous)
{
    (void)path, (void)ambiguous;
    assert_string_equal(type, "arm-gicv3");
    return no_gic ? NULL : interrupts;
}

void *qdev_get_gpio_in(void *device, int n)
{
    return (int *)device + n % 64;
}

void qemu_set_irq(void *irq, int level)
{
    *(int *)irq = level;
}

bool qemu_mutex_iothread_locked(void)
{
    return true;
}

void qemu_mutex_lock_iothread_impl(const char *file, int line)
{
    (void)file, (void)line;
}

void qemu_mutex_unlock_iothread(void)
{
}

int64_t qemu_clock_get_ns(int clock)
{
    return clock == 1 ? 1600 : 0;
}

unsigned gt_cntfrq_period_ns(void *cpu)
{
    (void)cpu;
    return 16;
}

/* Not called here. */
void system_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count)
{
    (void)tb, (void)words, (void)count;
}
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb)
{
    (void)id, (void)cb;
}
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
    (void)tb;
    return 0;
}
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i)
{
    (void)tb, (void)i;
    return NULL;
}
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
    return insn;
}
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
    (void)insn;
    return 0;
}

static struct reg_info known_reg(const char *name, unsigned enc, int access, int type)
{
    /* clang-format off */
    return (struct reg_info){.name = name, .cp = 0x13, .op0 = (uint8_t)(enc >> 14),
                             .op1 = (uint8_t)(enc >> 11 & 7), .crn = (uint8_t)(enc >> 7 & 15),
                             .crm = (uint8_t)(enc >> 3 & 15), .op2 = (uint8_t)(enc & 7),
                             .state = STATE_AA64, .access = access, .type = type};
    /* clang-format on */
}

/* A QEMU 7.2 of two CPUs. */
static void make_qemu(void)
{
    const struct vm_field good[] = {
        {.name = "env.regs", .offset = ENV, .size = 4, .num = 16},
        {.name = "env.xregs", .offset = XREGS, .size = 8, .num = 32},
        {.name = "env.pc", .offset = PC, .size = 8},
        {.name = "env.sp_el", .offset = SP, .size = 8, .num = 4},
        {.name = "cpreg_vmstate_indexes", .offset = INDEXES},
        {.name = NULL},
    };
    memset(cpus, 0, sizeof cpus);
    memset(regs, 0, sizeof regs);
    memcpy(fields, good, sizeof good);
    *(struct vm_description *)vmstate_arm_cpu =
        (struct vm_description){.name = "cpu", .fields = fields};
    no_gic = false;
    address_at = 1;
    fault_type = FAULT_ADDRESS_SIZE;
    for (unsigned i = 0; i < 2; i++) {
        void *table = regs[i];
        regs[i][MIDR] =
            known_reg("MIDR_EL1", SPEX_SYSREG(3, 0, 0, 0, 0), ACCESS_PL1_R, TYPE_NO_RAW);
        regs[i][DFR0] =
            known_reg("ID_AA64DFR0_EL1", SPEX_ID_AA64DFR0_EL1, ACCESS_PL1_R, TYPE_CONST);
        regs[i][DFR0].reset = 0x10305609;
        regs[i][CONTEXT] = known_reg("CONTEXTIDR_EL1", SPEX_CONTEXTIDR_EL1, ACCESS_PL1_RW, 0);
        regs[i][CONTEXT].field = CONTEXTIDR;
        regs[i][CONTEXT].check = on_check;
        regs[i][CNTP] = known_reg("CNTP_CTL_EL0", SPEX_SYSREG(3, 3, 14, 2, 1), 0xff, TYPE_IO);
        reg_count[i] = KNOWN;
        memcpy(cpus[i].bytes + INDEXES - 32, &table, sizeof table);
        cpus[i].bytes[PC + 8] = 5; /* EL1h */
        cpus[i].bytes[PC + 12] = 1;
    }
}

static const struct machine_handler nothing;

static const char *opened(void)
{
    static struct spex_error error;
    error.text[0] = '\0';
    enum spex_status status = open_machine(2, 5, &nothing, &error);
    assert_int_equal(status == SPEX_OK, !error.text[0]);
    return error.text;
}

#define REFUSED(why) assert_non_null(strstr(opened(), why))

#if defined OLDER || defined NEWER
static void test_another_version(void **state)
{
    (void)state;
    make_qemu();
#ifdef OLDER
    REFUSED("this QEMU is older than 7.2; spex vm needs Debian 12's qemu-system-arm 7.2");
#else
    REFUSED("this QEMU is newer than 7.2; spex vm needs Debian 12's qemu-system-arm 7.2");
#endif
    assert_int_equal(reg_count[0], KNOWN); /* nothing was touched */
}

TEST_MAIN(TEST(test_another_version))
#else

static void test_right_one(void **state)
{
    (void)state;
    uint64_t value, count;
    uint32_t id = 0xabcd;
    make_qemu();
    assert_string_equal(opened(), "");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(regs[i][DFR0].reset, UINT64_C(0x510305609)); /* PMSVer */
        assert_in_range(reg_count[i], KNOWN + 14, 40);
        for (unsigned r = KNOWN; r < reg_count[i]; r++) {
            assert_int_equal(strncmp(regs[i][r].name, "PM", 2), 0);
            assert_true(regs[i][r].type & TYPE_IO);
            bool writable = regs[i][r].access & 0x55;
            assert_int_equal(writable, !strstr(regs[i][r].name, "IDR"));
            /* Nothing for EL0; registers of EL2 and EL3 not for EL1. */
            assert_int_equal(regs[i][r].access & 3, 0);
            if (strstr(regs[i][r].name, "_EL2"))
                assert_int_equal(regs[i][r].access & 0x0f, 0);
        }
        memcpy(cpus[i].bytes + ENV + CONTEXTIDR, &id, 4);
        assert_true(read_sysreg(i, SPEX_CONTEXTIDR_EL1, &value));
        assert_int_equal(value, id++);
        assert_int_equal(read_el(i), 1);
        assert_true(read_aarch64(i));
    }
    assert_true(read_counter(&count));
    assert_int_equal(count, 100);
}

static void test_cpu_state_described_otherwise(void **state)
{
    (void)state;
    const char *why = "describes its CPU state in another way than 7.2";
    make_qemu();
    ((struct vm_description *)vmstate_arm_cpu)->name = "arm";
    REFUSED(why);
    make_qemu();
    fields[1].num = 31; /* X registers */
    REFUSED(why);
    make_qemu();
    fields[2].offset += 8; /* PC is not after them */
    REFUSED(why);
    make_qemu();
    fields[4].name = "cpreg_indexes";
    REFUSED(why);
    assert_int_equal(reg_count[0], KNOWN);
}

static void test_registers_kept_otherwise(void **state)
{
    (void)state;
    make_qemu();
    regs[1][MIDR].name = "MIDR"; /* of the second CPU */
    REFUSED("keeps MIDR_EL1 in another way than 7.2");
    make_qemu();
    regs[0][MIDR].type = 0;
    REFUSED("keeps MIDR_EL1");
    make_qemu();
    regs[0][DFR0].type = TYPE_NO_RAW; /* not a constant */
    REFUSED("keeps ID_AA64DFR0_EL1");
    make_qemu();
    regs[0][CONTEXT].access = ACCESS_PL1_R;
    REFUSED("keeps CONTEXTIDR_EL1");
    make_qemu();
    regs[0][CONTEXT].state = 2;
    REFUSED("keeps CONTEXTIDR_EL1");
    make_qemu();
    regs[0][CNTP].type = 0;
    REFUSED("keeps CNTP_CTL_EL0");
    make_qemu();
    regs[0][CONTEXT].field = 0x10000;
    REFUSED("keeps the fields of CONTEXTIDR_EL1");
    make_qemu();
    cpus[0].bytes[PC + 8] = 2;
    REFUSED("keeps PSTATE");
    make_qemu();
    cpus[0].bytes[PC + 12] = 0;
    REFUSED("keeps PSTATE");
    make_qemu();
    address_at = 0;
    REFUSED("keeps translated addresses");
    make_qemu();
    fault_type = FAULT_ADDRESS_SIZE + 1;
    REFUSED("keeps translation faults");
    assert_int_equal(reg_count[0], KNOWN);
    assert_int_equal(regs[0][DFR0].reset, 0x10305609);
}

static void test_another_machine(void **state)
{
    (void)state;
    make_qemu();
    no_gic = true;
    REFUSED("the machine has no GICv3");
}

TEST_MAIN(TEST(test_right_one), TEST(test_cpu_state_described_otherwise),
          TEST(test_registers_kept_otherwise), TEST(test_another_machine))
#endif
