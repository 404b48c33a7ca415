/* System registers and barriers of the guest as the unit sees them. */
#include "plugin.h"

#include <string.h>

/* ---- barriers ---- */

/* PSB CSYNC: everything before it is complete, so samples in flight are completed first. */
static void on_psb(unsigned index, void *data)
{
    const struct insn *insn = data;
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    if (!v)
        return;
    if (v->block)
        system_settle(v, insn->index);
    system_land(v, UINT64_MAX);
    unit_log_psb(&v->unit);
    if (v->block)
        system_plan(v);
}

static void on_isb(unsigned index, void *data)
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    (void)data;
    if (v)
        system_synchronize(v, false);
}

/* ---- System registers ---- */

static enum spex_sysreg_result on_check(unsigned index, unsigned enc, bool read)
{
    static const unsigned shared[] = {SPEX_CNTHCTL_EL2, SPEX_CNTVOFF_EL2, SPEX_HDFGRTR_EL2,
                                      SPEX_HDFGWTR_EL2, SPEX_HFGITR_EL2};
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        system_refresh(v, shared[i]);
    system_set_state(v, plugin.sys.machine->el(index));
    enum spex_sysreg_result result = spex_spu_check(v->unit.unit, enc, 0, read, NULL);
    if (result != SPEX_SYSREG_OK)
        unit_log_note(&v->unit, "%s %s: not here", read ? "read" : "write", spex_sysreg_name(enc));
    return result;
}

static uint64_t on_read(unsigned index, unsigned enc)
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    uint64_t value = unit_log_read(&v->unit, enc);
    if (enc == plugin.sys.config.inject.id_register) {
        value = plugin.sys.config.inject.id_value;
        unit_log_note(&v->unit, "injected: 0x%llx", (unsigned long long)value);
    }
    if (v->spurious && (enc == SPEX_PMBSR_EL1 || enc == SPEX_PMBSR_EL2))
        system_spurious(v, false);
    if (v->block)
        system_plan(v); /* the rest of the block */
    return value;
}

static void on_write(unsigned index, unsigned enc, uint64_t value)
{
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    unit_log_write(&v->unit, enc, value);
    v->written = true;
    /* Without profiling at any level nothing is counted, so nothing is followed. */
    uint64_t limit = 0, el1 = 0, el2 = 0;
    spex_spu_get(v->unit.unit, SPEX_PMBLIMITR_EL1, &limit);
    spex_spu_get(v->unit.unit, SPEX_PMSCR_EL1, &el1);
    spex_spu_get(v->unit.unit, SPEX_PMSCR_EL2, &el2);
    v->active = (limit & 1) && ((el1 | el2) & 3);
    v->block = NULL; /* the access ended its block */
    v->branch = NULL;
}

static bool ours(unsigned enc)
{
    const char *name = spex_sysreg_name(enc);
    return name && (!strncmp(name, "PMS", 3) || !strncmp(name, "PMB", 3));
}

/* The encoding of an MRS or MSR (register), or 0. */
static unsigned accessed(uint32_t word)
{
    return (word & 0xffd00000) == 0xd5100000 ? word >> 5 & 0xffff : 0;
}

/*
 * MRS or MSR of one of our registers, or MRS of ID_AA64DFR0_EL1, is about to be executed: what
 * came before it is reported to the unit, and samples are completed. A write ends its block
 * and is counted with it; a read goes on in on_read.
 */
static void on_sysreg(unsigned index, void *data)
{
    const struct insn *insn = data;
    struct sys_vcpu *v = plugin.sys.vcpu[index];
    uint32_t word = insn->block->words[insn->index];
    unsigned enc = accessed(word), rt = word & 31;
    bool read = word >> 21 & 1;
    if (!v)
        return;
    if (v->block)
        system_settle(v, insn->index + !read);
    system_land(v, UINT64_MAX);
    if (!plugin.sys.machine->skip)
        return;
    uint64_t value = 0;
    if (enc == SPEX_ID_AA64DFR0_EL1) {
        plugin.sys.machine->sysreg(index, enc, &value);
        value = spex_field_set(value, SPEX_ID_AA64DFR0_EL1_PMSVer, system_version());
    } else if (on_check(index, enc, read) != SPEX_SYSREG_OK) {
        return; /* QEMU makes it UNDEFINED */
    } else if (read) {
        value = on_read(index, enc);
    } else {
        on_write(index, enc, rt == 31 ? 0 : plugin.sys.machine->x(index, rt));
    }
    if (v->block)
        system_settle(v, insn->index + 1); /* the rest is translated again */
    v->block = NULL;
    plugin.sys.machine->skip(index, pc_of(insn), read, rt, value);
}

const struct machine_handler system_handler = {on_check, on_read, on_write};

enum qemu_plugin_cb_flags system_reading(void)
{
    return plugin.sys.machine->pstate(0) ? QEMU_PLUGIN_CB_NO_REGS : QEMU_PLUGIN_CB_R_REGS;
}

void system_watch_register(struct qemu_plugin_insn *insn, struct insn *at)
{
    const struct spex_op *op = op_of(at);
    unsigned enc = accessed(at->block->words[at->index]);
    bool read = at->block->words[at->index] >> 21 & 1;
    if (op->flags & SPEX_OPF_PSB)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_psb, system_reading(), at);
    else if (op->kind == SPEX_OP_ISB)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_isb, QEMU_PLUGIN_CB_NO_REGS, NULL);
    else if (enc &&
             (ours(enc) || (plugin.sys.machine->skip && read && enc == SPEX_ID_AA64DFR0_EL1)))
        qemu_plugin_register_vcpu_insn_exec_cb(
            insn, on_sysreg,
            plugin.sys.machine->skip ? QEMU_PLUGIN_CB_RW_REGS_PC : QEMU_PLUGIN_CB_NO_REGS, at);
}
