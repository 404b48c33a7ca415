/*
 * QEMU 7.2 as Debian 12 builds it. Its binary exports the functions used here, but its structures
 * are private. We find their members through QEMU's own migration description and verify them on
 * registers with known contents. Anything else is refused. Read-only once opened.
 */
#include "machine.h"

#include "plugin.h"
#include "system.h"

#include "base/error.h"

#include <string.h>

/* ---- QEMU 7.2: our own declarations of what its binary exports ---- */

#define WEAK __attribute__((weak, visibility("default")))
extern WEAK void *qemu_get_cpu(int index);
extern WEAK void *get_arm_cp_reginfo(void *table, uint32_t key);
extern WEAK void define_one_arm_cp_reg_with_opaque(void *cpu, const void *info, void *opaque);
extern WEAK bool get_phys_addr(void *env, uint64_t va, int access, int mmu_index, void *result,
                               void *fault);
extern WEAK void cpu_physical_memory_rw(uint64_t pa, void *data, uint64_t size, bool write);
extern WEAK void *object_resolve_path_type(const char *path, const char *type, bool *ambiguous);
extern WEAK void *qdev_get_gpio_in(void *device, int n);
extern WEAK void qemu_set_irq(void *irq, int level);
extern WEAK bool qemu_mutex_iothread_locked(void);
extern WEAK void qemu_mutex_lock_iothread_impl(const char *file, int line);
extern WEAK void qemu_mutex_unlock_iothread(void);
extern WEAK int64_t qemu_clock_get_ns(int clock);
extern WEAK unsigned gt_cntfrq_period_ns(void *cpu);
extern WEAK char vmstate_arm_cpu[];
extern WEAK char hw_compat_7_1[], hw_compat_7_2[]; /* for machines of 7.1 in 7.2, of 7.2 in 8.0 */
extern WEAK __thread void *current_cpu;

/* One of QEMU's System registers. */
struct reg_info {
    const char *name;
    uint8_t cp, crn, crm, op0, op1, op2;
    int state, type, access, secure;
    void *opaque;
    uint64_t reset;
    ptrdiff_t field, bank[2];
    int (*check)(void *env, const struct reg_info *info, bool read);
    uint64_t (*read)(void *env, const struct reg_info *info);
    void (*write)(void *env, const struct reg_info *info, uint64_t value);
    void *raw_read, *raw_write, *reset_fn, *orig_read, *orig_write, *orig_check;
};

enum {
    STATE_AA64 = 1,
    TYPE_CONST = 1 << 4,
    TYPE_IO = 1 << 9,
    TYPE_NO_RAW = 1 << 10,
    SECURE_BOTH = 0,
    ACCESS_PL1_R = 0xa8,
    ACCESS_PL1_RW = 0xfc,
};

/* QEMU describes its CPU state for migration: names and offsets that we can look up. */
struct vm_field {
    const char *name, *hint;
    size_t offset, size, start;
    int num;
    size_t num_offset, size_offset;
    const void *info;
    int flags;
    const void *vmsd;
    int version, struct_version;
    const void *exists;
};

struct vm_description {
    const char *name;
    int unmigratable, version, minimum, priority;
    void *pre_load, *post_load, *pre_save, *post_save, *needed, *unplug;
    const struct vm_field *fields;
};

/* The part of ARMMMUFaultInfo that we read, and QEMU's fault types in its order. */
struct mmu_fault {
    int type;
    uint64_t stage2_address;
    int level, domain;
    bool stage2, walk, ns, external;
};

enum fault_type {
    FAULT_ACCESS_FLAG = 1,
    FAULT_ALIGNMENT = 2,
    FAULT_PERMISSION = 5,
    FAULT_TRANSLATION = 6,
    FAULT_ADDRESS_SIZE = 7,
    FAULT_SYNC_EXTERNAL = 8,
    FAULT_SYNC_EXTERNAL_WALK = 9,
    FAULT_TLB_CONFLICT = 15,
    FAULT_UNSUPPORTED_ATOMIC = 16,
};

static void *cp_regs(unsigned vcpu)
{
    void *table;
    memcpy(&table, (char *)plugin.qemu72.cpu[vcpu].cpu + plugin.qemu72.at.cp_regs, sizeof table);
    return table;
}

/* QEMU's key of an AArch64 System register: a flag, its pseudo coprocessor 0x13, the encoding. */
static struct reg_info *find_reg(unsigned vcpu, unsigned enc)
{
    return get_arm_cp_reginfo(cp_regs(vcpu), UINT32_C(1) << 28 | 0x13 << 16 | enc);
}

static unsigned vcpu_of(const void *env)
{
    for (unsigned i = 0; i < plugin.qemu72.vcpus; i++)
        if (plugin.qemu72.cpu[i].env == env)
            return i;
    return 0;
}

/* Blocks are shared between vCPUs, so info may be another vCPU's copy: only env is reliable. */
static unsigned enc_of(const struct reg_info *info)
{
    return SPEX_SYSREG(info->op0, info->op1, info->crn, info->crm, info->op2);
}

static int on_check(void *env, const struct reg_info *info, bool read)
{
    enum { OK = 0, TRAP = 4, UNDEFINED = 8 }; /* QEMU's values; a trap adds the Exception level */
    switch (plugin.qemu72.handler.check(vcpu_of(env), enc_of(info), read)) {
    case SPEX_SYSREG_OK:
    case SPEX_SYSREG_MEMORY:
        return OK;
    case SPEX_SYSREG_TRAP_EL2:
        return TRAP | 2;
    case SPEX_SYSREG_TRAP_EL3:
        return TRAP | 3;
    default:
        return UNDEFINED;
    }
}

static uint64_t on_read(void *env, const struct reg_info *info)
{
    return plugin.qemu72.handler.read(vcpu_of(env), enc_of(info));
}

static void on_write(void *env, const struct reg_info *info, uint64_t value)
{
    plugin.qemu72.handler.write(vcpu_of(env), enc_of(info), value);
}

/* ---- address translation ---- */

/* Fault Status Code, as in PMBSR_ELx.MSS and ESR_ELx (D24.7, PMBSR_EL1). */
static unsigned fault_code(const struct mmu_fault *f)
{
    unsigned level = (unsigned)f->level & 3;
    switch (f->type) {
    case FAULT_ADDRESS_SIZE:
        return f->level < 0 ? 0x29 : 0x00 | level;
    case FAULT_TRANSLATION:
        return f->level < 0 ? 0x2b : 0x04 | level;
    case FAULT_ACCESS_FLAG:
        return 0x08 | level;
    case FAULT_PERMISSION:
        return 0x0c | level;
    case FAULT_SYNC_EXTERNAL:
        return 0x10;
    case FAULT_SYNC_EXTERNAL_WALK:
        return f->level < 0 ? 0x13 : 0x14 | level;
    case FAULT_ALIGNMENT:
        return 0x21;
    case FAULT_TLB_CONFLICT:
        return 0x30;
    case FAULT_UNSUPPORTED_ATOMIC:
        return 0x31;
    default:
        return 0x04 | level;
    }
}

static bool translate(unsigned vcpu, uint64_t va, unsigned el, bool host, uint64_t *pa,
                      unsigned *fsc, bool *stage2)
{
    /* QEMU's translation regimes: EL1&0 at EL1, EL2&0 at EL2, EL2. */
    enum { STORE = 1, E10_1 = 0x12, E20_2 = 0x13, E2 = 0x16 };
    uint64_t result[32] = {0}; /* larger than GetPhysAddrResult; the address is its second word */
    struct mmu_fault fault = {0};
    int index = el == 2 ? (host ? E20_2 : E2) : E10_1;
    if (get_phys_addr(plugin.qemu72.cpu[vcpu].env, va, STORE, index, result, &fault)) {
        *fsc = fault_code(&fault);
        *stage2 = fault.stage2;
        return false;
    }
    *pa = result[1];
    return true;
}

/* ---- the layout: found, then checked ---- */

static bool find_layout(struct qemu72_layout *at)
{
    const struct vm_description *d = (const struct vm_description *)vmstate_arm_cpu;
    size_t xregs = 0, pc = 0, sp = 0, indexes = 0;
    if (!d->name || strcmp(d->name, "cpu") || !d->fields)
        return false;
    const struct vm_field *f = d->fields;
    for (int i = 0; i < 64 && f[i].name; i++) {
        if (!strcmp(f[i].name, "env.xregs") && f[i].size == 8 && f[i].num == 32)
            xregs = f[i].offset;
        else if (!strcmp(f[i].name, "env.pc"))
            pc = f[i].offset;
        else if (!strcmp(f[i].name, "env.sp_el"))
            sp = f[i].offset;
        else if (!strcmp(f[i].name, "cpreg_vmstate_indexes"))
            indexes = f[i].offset;
    }
    if (!xregs || pc != xregs + 32 * 8 || sp < pc || indexes < sp)
        return false;
    at->env = xregs - 64; /* the first member, sixteen 32-bit registers, lies before xregs */
    at->xregs = xregs - at->env;
    at->pc = pc - at->env;
    at->pstate = at->pc + 8;
    at->cp_regs = indexes - 4 * 8;
    return true;
}

static bool known(unsigned vcpu, unsigned enc, const char *name, int access, int type_bits)
{
    const struct reg_info *r = find_reg(vcpu, enc);
    return r && r->cp == 0x13 && enc_of(r) == enc && r->name && !strcmp(r->name, name) &&
           r->state == STATE_AA64 && r->access == access && (r->type & type_bits) == type_bits;
}

static const char *prove(unsigned vcpu)
{
    if (!known(vcpu, SPEX_SYSREG(3, 0, 0, 0, 0), "MIDR_EL1", ACCESS_PL1_R, TYPE_NO_RAW))
        return "MIDR_EL1";
    if (!known(vcpu, SPEX_SYSREG(3, 0, 0, 5, 0), "ID_AA64DFR0_EL1", ACCESS_PL1_R, TYPE_CONST))
        return "ID_AA64DFR0_EL1";
    if (!known(vcpu, SPEX_SYSREG(3, 0, 13, 0, 1), "CONTEXTIDR_EL1", ACCESS_PL1_RW, 0))
        return "CONTEXTIDR_EL1";
    const struct reg_info *r = find_reg(vcpu, SPEX_SYSREG(3, 3, 14, 2, 1)); /* CNTP_CTL_EL0 */
    if (!r || !(r->type & TYPE_IO))
        return "CNTP_CTL_EL0";
    r = find_reg(vcpu, SPEX_SYSREG(3, 0, 13, 0, 1));
    if (r->field < 64 || r->field > 0x4000 || r->check == NULL)
        return "the fields of CONTEXTIDR_EL1";
    uint32_t pstate;
    memcpy(&pstate, plugin.qemu72.cpu[vcpu].env + plugin.qemu72.at.pstate, sizeof pstate);
    if ((pstate & 3) > 1 ||
        plugin.qemu72.cpu[vcpu].env[plugin.qemu72.at.pstate + 4] != 1) /* SP bits; AArch64 */
        return "PSTATE";
    /* After reset the MMU is off: the result is the same address, or an impossible one. */
    uint64_t pa = 0;
    unsigned fsc = 1, el = pstate >> 2 & 3;
    bool stage2 = true;
    if (!translate(vcpu, 0x1234567890, el, false, &pa, &fsc, &stage2) || pa != 0x1234567890)
        return "translated addresses";
    if (translate(vcpu, UINT64_C(1) << 54, el, false, &pa, &fsc, &stage2) || fsc != 0 || stage2)
        return "translation faults";
    return NULL;
}

/* ---- our registers ---- */

/*
 * Adds the register to every vCPU; lowest_el is the lowest Exception level that may access it at
 * all.
 */
static void define(const char *name, unsigned enc, unsigned lowest_el, bool writable)
{
    static const int rights[4] = {0xff, 0xfc, 0xf0, 0xc0}; /* read and write from EL0..EL3 up */
    struct reg_info info = {
        .name = name,
        .crn = (uint8_t)(enc >> 7 & 15),
        .crm = (uint8_t)(enc >> 3 & 15),
        .op0 = (uint8_t)(enc >> 14),
        .op1 = (uint8_t)(enc >> 11 & 7),
        .op2 = (uint8_t)(enc & 7),
        .state = STATE_AA64,
        .type = TYPE_IO | TYPE_NO_RAW,
        .access = rights[lowest_el] & (writable ? 0xff : 0xaa),
        .secure = SECURE_BOTH,
        .check = on_check,
        .read = on_read,
        .write = on_write,
    };
    for (unsigned i = 0; i < plugin.qemu72.vcpus; i++)
        if (!find_reg(i, enc))
            define_one_arm_cp_reg_with_opaque(plugin.qemu72.cpu[i].cpu, &info, NULL);
}

static void define_all(unsigned version)
{
    unsigned enc;
    for (size_t i = 0; (enc = spex_sysreg_at(i)); i++) {
        const char *name = spex_sysreg_name(enc);
        unsigned op1 = enc >> 11 & 7;
        if (!strncmp(name, "PMS", 3) || !strncmp(name, "PMB", 3))
            define(name, enc,
                   op1 == 6   ? 3
                   : op1 >= 4 ? 2
                              : 1,
                   enc != SPEX_PMSIDR_EL1 && enc != SPEX_PMBIDR_EL1);
    }
    for (unsigned i = 0; i < plugin.qemu72.vcpus; i++) {
        struct reg_info *r =
            find_reg(i, SPEX_ID_AA64DFR0_EL1); /* a constant: prove() has checked it */
        r->reset = spex_field_set(r->reset, SPEX_ID_AA64DFR0_EL1_PMSVer, version);
    }
}

/* ---- opening ---- */

static enum spex_status open_machine(unsigned vcpus, unsigned version,
                                     const struct machine_handler *handler,
                                     struct spex_error *error)
{
    static const char hint[] = "spex vm needs Debian 12's qemu-system-arm 7.2, or QEMU 11.1";
    if (!hw_compat_7_1 || hw_compat_7_2)
        return error_set(error, SPEX_UNSUPPORTED, 0, "this QEMU is %s than 7.2; %s",
                         hw_compat_7_2 ? "newer" : "older", hint);
    if (!qemu_get_cpu || !get_arm_cp_reginfo || !define_one_arm_cp_reg_with_opaque ||
        !get_phys_addr || !cpu_physical_memory_rw || !object_resolve_path_type ||
        !qdev_get_gpio_in || !qemu_set_irq || !qemu_mutex_iothread_locked ||
        !qemu_mutex_lock_iothread_impl || !qemu_mutex_unlock_iothread || !qemu_clock_get_ns)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "this QEMU does not export what the SPE registers need; %s", hint);
    if (vcpus > SYS_VCPUS)
        return error_set(error, SPEX_RANGE, 0, "at most %d vCPUs", SYS_VCPUS);
    if (!find_layout(&plugin.qemu72.at))
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "this QEMU describes its CPU state in another way than 7.2; %s", hint);
    plugin.qemu72.handler = *handler;
    plugin.qemu72.vcpus = vcpus;
    for (unsigned i = 0; i < vcpus; i++) {
        plugin.qemu72.cpu[i].cpu = qemu_get_cpu((int)i);
        if (!plugin.qemu72.cpu[i].cpu)
            return error_set(error, SPEX_UNSUPPORTED, 0, "QEMU has no vCPU %u", i);
        plugin.qemu72.cpu[i].env = (char *)plugin.qemu72.cpu[i].cpu + plugin.qemu72.at.env;
        const char *wrong = prove(i);
        if (wrong)
            return error_set(error, SPEX_UNSUPPORTED, 0,
                             "this QEMU keeps %s in another way than 7.2; %s", wrong, hint);
    }
    plugin.qemu72.gic = object_resolve_path_type("", "arm-gicv3", NULL);
    if (!plugin.qemu72.gic)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "the machine has no GICv3; use -M virt,gic-version=3");
    plugin.qemu72.period = gt_cntfrq_period_ns ? gt_cntfrq_period_ns(plugin.qemu72.cpu[0].cpu) : 16;
    define_all(version);
    return SPEX_OK;
}

/* ---- blocks ---- */

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint32_t words[1024];
    size_t count = qemu_plugin_tb_n_insns(tb);
    (void)id;
    if (!count || count > sizeof words / sizeof words[0])
        return;
    for (size_t i = 0; i < count; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        words[i] = 0;
        memcpy(&words[i], qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn));
    }
    system_translate(tb, words, count);
}

static void install(uint64_t id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
}

/* ---- CPU state ---- */

static unsigned current(void)
{
    for (unsigned i = 0; i < plugin.qemu72.vcpus; i++)
        if (plugin.qemu72.cpu[i].cpu == current_cpu)
            return i;
    return 0;
}

static bool read_sysreg(unsigned vcpu, unsigned enc, uint64_t *value)
{
    const struct reg_info *r = find_reg(vcpu, enc);
    if (!r)
        return false;
    if (r->type & TYPE_CONST) {
        *value = r->reset;
        return true;
    }
    if (!r->field)
        return false;
    memcpy(value, plugin.qemu72.cpu[vcpu].env + r->field, sizeof *value);
    return true;
}

static unsigned read_el(unsigned vcpu)
{
    uint32_t pstate;
    memcpy(&pstate, plugin.qemu72.cpu[vcpu].env + plugin.qemu72.at.pstate, sizeof pstate);
    return pstate >> 2 & 3;
}

static const uint32_t *where_pstate(unsigned vcpu)
{
    return (const uint32_t *)(const void *)(plugin.qemu72.cpu[vcpu].env + plugin.qemu72.at.pstate);
}

static bool read_aarch64(unsigned vcpu)
{
    return plugin.qemu72.cpu[vcpu].env[plugin.qemu72.at.pstate + 4];
}

static uint64_t read_x(unsigned vcpu, unsigned reg)
{
    uint64_t value = 0;
    if (reg < 32)
        memcpy(&value, plugin.qemu72.cpu[vcpu].env + plugin.qemu72.at.xregs + 8 * reg,
               sizeof value);
    return value;
}

/* ---- memory ---- */

static void write_memory(uint64_t pa, const void *data, size_t size)
{
    cpu_physical_memory_rw(pa, (void *)(uintptr_t)data, size, true);
}

/* ---- interrupt and time ---- */

static void set_ppi(unsigned vcpu, unsigned intid, bool level)
{
    /* The GIC's inputs: 256 shared interrupts of the virt machine, then 32 private ones a CPU. */
    enum { SHARED = 256 };
    bool locked = qemu_mutex_iothread_locked();
    if (!locked)
        qemu_mutex_lock_iothread_impl(__FILE__, __LINE__);
    qemu_set_irq(qdev_get_gpio_in(plugin.qemu72.gic, (int)(SHARED + 32 * vcpu + intid)), level);
    if (!locked)
        qemu_mutex_unlock_iothread();
}

static bool read_counter(uint64_t *count)
{
    enum { CLOCK_VIRTUAL = 1 };
    *count = (uint64_t)qemu_clock_get_ns(CLOCK_VIRTUAL) / plugin.qemu72.period;
    return true;
}

const struct machine machine_qemu72 = {
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
};
