/*
 * QEMU 11.1 and later, through its plugin API version 7. It has no way to add a System register, so
 * the engine does each access itself and skips the instruction; an access that traps to EL2 is
 * UNDEFINED instead. Translation walks the guest's tables (walk.h). PMBIRQ is set and cleared in
 * the redistributor's pending registers: a level that stays high after the interrupt was served
 * does not make it pending again.
 *
 * All vCPUs share the register handles; a read is always of the current vCPU.
 */
#include "machine.h"

#include "base/error.h"
#include "plugin.h"
#include "qemu_plugin7.h"
#include "system.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

/* Not part of the API, but exported by binaries that load modules; without it, no timestamps. */
extern QEMU_PLUGIN_WEAK int64_t qemu_clock_get_ns(int clock);

/* clang-format off */
/* Registers that QEMU shows by name. */
#define EL12(name, op0, crn, crm, op2)                                                             \
    {SPEX_SYSREG(op0, 0, crn, crm, op2), name "_EL1", {0}},                                       \
        {SPEX_SYSREG(op0, 4, crn, crm, op2), name "_EL2", {0}}
static struct {
    unsigned enc;
    const char *name;
    struct qemu_register handle;
} registers[] = {
    /* clang-format on */
    EL12("SPSR", 3, 4, 0, 0),
    EL12("ELR", 3, 4, 0, 1),
    EL12("VBAR", 3, 12, 0, 0),
    EL12("CONTEXTIDR", 3, 13, 0, 1),
    EL12("TTBR0", 3, 2, 0, 0),
    EL12("TTBR1", 3, 2, 0, 1),
    EL12("TCR", 3, 2, 0, 2),
    EL12("TCR2", 3, 2, 0, 3),
    EL12("SCTLR", 3, 1, 0, 0),
    {SPEX_HCR_EL2, "HCR_EL2", {0}},
    {SPEX_MDCR_EL2, "MDCR_EL2", {0}},
    {SPEX_CNTHCTL_EL2, "CNTHCTL_EL2", {0}},
    {SPEX_CNTVOFF_EL2, "CNTVOFF_EL2", {0}},
    {SPEX_HDFGRTR_EL2, "HDFGRTR_EL2", {0}},
    {SPEX_HDFGWTR_EL2, "HDFGWTR_EL2", {0}},
    {SPEX_HFGITR_EL2, "HFGITR_EL2", {0}},
    {SPEX_ID_AA64DFR0_EL1, "ID_AA64DFR0_EL1", {0}},
    {SPEX_SYSREG(3, 3, 14, 0, 0), "CNTFRQ_EL0", {0}},
};
enum { REGISTERS = sizeof registers / sizeof registers[0] };

static __thread struct qemu_plugin7_bytes *bytes;

/* ---- registers ---- */

static bool read_handle(struct qemu_register handle, uint64_t *value)
{
    uint64_t read = 0;
    size_t n = qemu_register_read(handle, &read, sizeof read);
    if (!n || n > sizeof read)
        return false;
    *value = read;
    return true;
}

static bool read_sysreg(unsigned vcpu, unsigned enc, uint64_t *value)
{
    (void)vcpu;
    for (size_t i = 0; i < REGISTERS; i++)
        if (registers[i].enc == enc)
            return read_handle(registers[i].handle, value);
    return false;
}

static uint64_t read_x(unsigned vcpu, unsigned reg)
{
    uint64_t value = 0;
    (void)vcpu;
    read_handle(plugin.qemu11.x[reg], &value);
    return value;
}

static uint64_t cpsr(void)
{
    uint64_t value = 0;
    read_handle(plugin.qemu11.cpsr, &value);
    return value;
}

static unsigned read_el(unsigned vcpu)
{
    (void)vcpu;
    return cpsr() >> 2 & 3;
}

static bool read_aarch64(unsigned vcpu)
{
    (void)vcpu;
    return !(cpsr() >> 4 & 1);
}

static unsigned current(void)
{
    return 0; /* no function here uses the number */
}

static const uint32_t *where_pstate(unsigned vcpu)
{
    (void)vcpu;
    return NULL;
}

static void skip(unsigned vcpu, uint64_t pc, bool read, unsigned rt, uint64_t value)
{
    struct qemu_plugin7_bytes out = {(uint8_t *)&value, sizeof value};
    (void)vcpu;
    if (read && rt != 31)
        qemu_plugin_write_register(plugin.qemu11.x[rt].handle, &out);
    qemu_plugin_set_pc(pc + 4);
}

/* ---- memory ---- */

static bool read_descriptor(void *user, uint64_t pa, uint64_t *descriptor)
{
    (void)user;
    if (!bytes)
        bytes = g_byte_array_new();
    if (qemu_plugin_read_memory_hwaddr(pa, bytes, sizeof *descriptor))
        return false;
    memcpy(descriptor, bytes->data, sizeof *descriptor);
    return true;
}

static bool translate(unsigned vcpu, uint64_t va, unsigned el, bool host, uint64_t *pa,
                      unsigned *fsc, bool *stage2)
{
    struct walk_regime r = {.two_ranges = el == 1 || host};
    unsigned op1 = el == 2 ? 4 : 0;
    read_sysreg(vcpu, (unsigned)SPEX_SYSREG(3, 0, 1, 0, 0) | op1 << 11, &r.sctlr);
    read_sysreg(vcpu, (unsigned)SPEX_SYSREG(3, 0, 2, 0, 2) | op1 << 11, &r.tcr);
    read_sysreg(vcpu, (unsigned)SPEX_SYSREG(3, 0, 2, 0, 3) | op1 << 11, &r.tcr2);
    read_sysreg(vcpu, (unsigned)SPEX_SYSREG(3, 0, 2, 0, 0) | op1 << 11, &r.ttbr[0]);
    read_sysreg(vcpu, (unsigned)SPEX_SYSREG(3, 0, 2, 0, 1) | op1 << 11, &r.ttbr[1]);
    *stage2 = false;
    return walk_stage1(&r, va, read_descriptor, NULL, pa, fsc);
}

static void write_memory(uint64_t pa, const void *data, size_t size)
{
    struct qemu_plugin7_bytes out = {(uint8_t *)(uintptr_t)data, (unsigned)size};
    qemu_plugin_write_memory_hwaddr(pa, &out);
}

/* ---- interrupt and time ---- */

static void set_ppi(unsigned vcpu, unsigned intid, bool level)
{
    /* clang-format off */
    /* The virt machine's redistributors: two frames of 64 KB per CPU, private interrupts in the
     * second. */
    enum { GICR = 0x080a0000, STRIDE = 0x20000, SGI_FRAME = 0x10000, ISPENDR0 = 0x200,
           ICPENDR0 = 0x280 };
    /* clang-format on */
    uint32_t bit = UINT32_C(1) << intid;
    write_memory(GICR + (uint64_t)STRIDE * vcpu + SGI_FRAME + (level ? ISPENDR0 : ICPENDR0), &bit,
                 sizeof bit);
}

static bool read_counter(uint64_t *count)
{
    enum { CLOCK_VIRTUAL = 1 };
    if (!qemu_clock_get_ns || !plugin.qemu11.period)
        return false;
    *count = (uint64_t)qemu_clock_get_ns(CLOCK_VIRTUAL) / plugin.qemu11.period;
    return true;
}

/* ---- translation ---- */

static void on_translate(struct qemu_plugin_tb *tb, void *data)
{
    uint32_t words[1024];
    size_t count = qemu_plugin_tb_n_insns(tb);
    (void)data;
    if (!count || count > sizeof words / sizeof words[0])
        return;
    for (size_t i = 0; i < count; i++) {
        words[i] = 0;
        qemu_plugin7_insn_data(qemu_plugin_tb_get_insn(tb, i), &words[i], sizeof words[i]);
    }
    system_translate(tb, words, count);
}

static void on_discontinuity(unsigned vcpu, enum qemu_plugin7_discon type, uint64_t from,
                             uint64_t to, void *data)
{
    (void)to;
    (void)data;
    system_exception(vcpu, type == QEMU_PLUGIN7_DISCON_EXCEPTION, from);
}

/* ---- opening ---- */

static void on_register(const char *name, struct qemu_register where)
{
    unsigned number;
    char end;
    if (sscanf(name, "x%u%c", &number, &end) == 1 && number < 31)
        plugin.qemu11.x[number] = where;
    else if (!strcmp(name, "sp"))
        plugin.qemu11.x[31] = where;
    else if (!strcmp(name, "cpsr"))
        plugin.qemu11.cpsr = where;
    for (size_t k = 0; k < REGISTERS; k++)
        if (!strcmp(name, registers[k].name))
            registers[k].handle = where;
}

static void on_vcpu(unsigned vcpu, void *data)
{
    (void)data;
    if (!vcpu)
        qemu_registers_find(7, on_register);
}

static enum spex_status open_machine(unsigned vcpus, unsigned version,
                                     const struct machine_handler *handler,
                                     struct spex_error *error)
{
    uint64_t frequency = 0;
    (void)vcpus;
    (void)version;
    (void)handler; /* the engine makes the accesses itself */
    for (unsigned i = 0; i < 32; i++)
        if (!plugin.qemu11.x[i].known)
            return error_set(error, SPEX_UNSUPPORTED, 0, "this QEMU does not show register %s%u",
                             i == 31 ? "sp, number " : "x", i);
    /* EL2's registers exist if the machine has EL2, TCR2 if the CPU has FEAT_TCR2. */
    for (size_t i = 0; i < REGISTERS; i++)
        if (!registers[i].handle.known && (registers[i].enc >> 11 & 7) != 4 &&
            strncmp(registers[i].name, "TCR2", 4))
            return error_set(error, SPEX_UNSUPPORTED, 0, "this QEMU does not show register %s",
                             registers[i].name);
    if (!plugin.qemu11.cpsr.known)
        return error_set(error, SPEX_UNSUPPORTED, 0, "this QEMU does not show register cpsr");
    read_sysreg(0, SPEX_SYSREG(3, 3, 14, 0, 0), &frequency);
    plugin.qemu11.period = frequency && frequency < 1000000000 ? 1000000000 / frequency : 1;
    return SPEX_OK;
}

static void install(uint64_t id)
{
    qemu_plugin7_register_vcpu_init_cb(id, on_vcpu, NULL);
    qemu_plugin7_register_vcpu_tb_trans_cb(id, on_translate, NULL);
    qemu_plugin_register_vcpu_discon_cb(
        id, QEMU_PLUGIN7_DISCON_INTERRUPT | QEMU_PLUGIN7_DISCON_EXCEPTION, on_discontinuity, NULL);
}

const struct machine machine_qemu11 = {
    .install = install,
    .open = open_machine,
    .sysreg = read_sysreg,
    .x = read_x,
    .el = read_el,
    .aarch64 = read_aarch64,
    .current = current,
    .pstate = where_pstate,
    .translate = translate,
    .write = write_memory,
    .ppi = set_ppi,
    .counter = read_counter,
    .skip = skip,
    .io_addresses = true,
};
