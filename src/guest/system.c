/*
 * The plugin in system mode: it opens QEMU at the first translation, makes a unit and a core
 * for each vCPU, and instruments the blocks of the guest. See docs/vm.md.
 *
 * What differs between versions of QEMU is behind struct machine.
 */
#include "system.h"

#include "need.h"
#include "plugin.h"
#include "regs.h"
#include "sve.h"

#include "uarch/none.h"

#include <spex/a64.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void refuse(const struct spex_error *error)
{
    fprintf(stderr, "spex vm: %s\n", error->text);
    _exit(1);
}

/* ---- the unit's host ---- */

static void on_store(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct sys_vcpu *v = user;
    const struct vm_injection *in = &plugin.sys.config.inject;
    size_t done = 0;
    v->records += store->count != 0;
    if (store->count && v->records == in->fault) {
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = 0x07};
        return;
    }
    if (store->count && v->records == in->abort) {
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_ABORT};
        return;
    }
    do {
        uint64_t va = store->address + done, pa = va;
        unsigned fsc = 0;
        bool stage2 = false;
        size_t n = 4096 - (va & 4095);
        if (!(store->flags & SPEX_STORE_NVM) &&
            !plugin.sys.machine->translate(v->index, va, store->el, store->e2h, &pa, &fsc,
                                           &stage2)) {
            bool walk = fsc >= 0x13 && fsc <= 0x17; /* External abort on a table walk */
            *stop = (struct spex_spu_stop){
                .kind = walk ? SPEX_STOP_ABORT : SPEX_STOP_FAULT,
                .fsc = (uint8_t)fsc,
                .flags = (uint16_t)((stage2 ? SPEX_STOP_STAGE2 : 0) | (walk ? SPEX_STOP_WALK : 0)),
                .written = done};
            return;
        }
        if (n > store->count - done)
            n = store->count - done;
        if (n)
            plugin.sys.machine->write(pa, store->bytes + done, n);
        done += n;
    } while (done < store->count);
}

static bool on_counter(void *user, uint64_t *count)
{
    (void)user;
    return plugin.sys.machine->counter(count);
}

static void on_irq(void *user, bool level)
{
    const struct sys_vcpu *v = user;
    plugin.sys.machine->ppi(v->index, PMBIRQ, level);
}

static void on_pmu(void *user, unsigned event, uint64_t count)
{
    struct sys_vcpu *v = user;
    if (event == SPEX_PMU_SAMPLE_COLLISION)
        v->collisions += count;
}

/* ---- state of the PE, as far as QEMU shows it ---- */

void system_refresh(struct sys_vcpu *v, unsigned enc)
{
    uint64_t value;
    if (plugin.sys.machine->sysreg(v->index, enc, &value))
        unit_log_set(&v->unit, enc, value);
}

/* A number for the address space: the ASID, which is in TTBR0 or TTBR1 of EL1 or of a VHE host. */
static uint64_t address_space(const struct sys_vcpu *v)
{
    static const unsigned tables[] = {SPEX_SYSREG(3, 0, 2, 0, 0), SPEX_SYSREG(3, 0, 2, 0, 1),
                                      SPEX_SYSREG(3, 4, 2, 0, 0), SPEX_SYSREG(3, 4, 2, 0, 1)};
    uint64_t asid = 0, value;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (plugin.sys.machine->sysreg(v->index, tables[i], &value))
            asid ^= value >> 48;
    return (asid ^ asid >> 8) & 0xff;
}

void system_set_state(struct sys_vcpu *v, unsigned el)
{
    struct spex_spu_state state = {.el = (uint8_t)el, .security = SPEX_NONSECURE};
    if (!plugin.sys.machine->aarch64(v->index))
        state.aarch32 = (uint8_t)(1u << el);
    v->el = (uint8_t)el;
    system_refresh(v, SPEX_HCR_EL2);
    system_refresh(v, SPEX_MDCR_EL2);
    unit_log_set_state(&v->unit, &state);
    if (!el)
        v->space = address_space(v);
}

/* ID_AA64DFR0_EL1.PMSVer. */
unsigned system_version(void)
{
    return plugin.sys.config.inject.version ? plugin.sys.config.inject.version
                                            : plugin.sys.config.unit.features.version;
}

/* ---- opening, at the first translation ---- */

static void make_vcpu(unsigned index)
{
    struct spex_error error;
    struct spu_config config = plugin.sys.config.unit;
    struct sys_vcpu *v = aligned_alloc(64, (sizeof *v + 63) & ~(size_t)63);
    need(v);
    memset(v, 0, sizeof *v);
    v->index = index;
    v->stuck = NONE;
    config.seed += index;
    config.host = (struct spex_spu_host){
        .user = v, .write = on_store, .counter = on_counter, .irq = on_irq, .pmu = on_pmu};
    if (unit_log_new(&v->unit, &config, plugin.sys.config.features, plugin.sys.log, index, &error))
        refuse(&error);
    detail_init(&v->detail, &plugin.sys.config.model);
    v->detail.learns = plugin.sys.config.model.sampled;
    if (plugin.sys.model)
        need(timing_core_new(plugin.sys.model, index, &v->core) ? NULL : v->core);
    unit_log_boot(&v->unit);
    v->el = 1; /* the boot code leaves it at EL1 */
    v->pstate = plugin.sys.machine->pstate(index);
    plugin.sys.vcpu[index] = v;
}

static void open_system(void)
{
    struct spex_error error;
    uint64_t dczid;
    if (plugin.sys.machine->open(plugin.sys.vcpus, system_version(), &system_handler, &error))
        refuse(&error);
    plugin.sys.zva_bytes = 64;
    if (plugin.sys.machine->sysreg(0, SPEX_SYSREG(3, 3, 0, 0, 7), &dczid))
        plugin.sys.zva_bytes = 4u << (dczid & 15);
    /*
     * QEMU 7.2 shows neither these accesses nor, here, the registers; spex vm switches SVE off
     * there.
     */
    plugin.sys.vectors = plugin.sys.config.vector_bits && plugin.sys.machine->skip &&
                         regs_find_system(plugin.sys.api) && regs_open_vectors(0);
    for (unsigned i = 0; i < plugin.sys.vcpus; i++)
        make_vcpu(i);
}

/* ---- translation ---- */

static const struct sve *make_sve(uint32_t word, const struct spex_op *op)
{
    struct sve sve, *kept;
    if (!plugin.sys.vectors || !sve_decode(word, op, &sve) || sve.hint)
        return NULL;
    kept = need(malloc(sizeof *kept));
    *kept = sve;
    return kept;
}

static struct block *make_block(uint64_t pc, const uint32_t *words, size_t count, unsigned el)
{
    const struct spex_a64_lengths lengths = {(uint16_t)plugin.sys.config.vector_bits, 128};
    struct block *b = need(calloc(1, sizeof *b));
    struct spex_op *ops = need(calloc(count, sizeof *ops));
    struct insn *insns = need(calloc(count, sizeof *insns));
    uint32_t *copy = need(malloc(4 * count));
    memcpy(copy, words, 4 * count);
    for (size_t i = 0; i < count; i++) {
        spex_a64_classify(words[i], plugin.sys.config.vector_bits ? &lengths : NULL, &ops[i]);
        unsigned size = ops[i].access_size;
        insns[i] = (struct insn){.block = b,
                                 .index = (uint32_t)i,
                                 .size = size == 1 || size == 2 || size == 4 ? size : 8,
                                 .sve = make_sve(words[i], &ops[i])};
    }
    *b = (struct block){.insns = insns, .words = copy, .el = (uint8_t)el, .vector = !(pc & 0x7f)};
    b->again = count == 1 && ops[0].flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL);
    b->eret = ops[count - 1].kind == SPEX_OP_ERET;
    if (!plugin.sys.model)
        none_block_init(&plugin.sys.config.model, &b->timing, pc, ops, count);
    else if (timing_block_init(plugin.sys.model, &b->timing, pc, ops, count))
        need(NULL);
    else
        b->timing.mean = detail_guess(count);
    b->zva_count = zva_find(words, ops, count, &b->zva);
    return b;
}

/* Blocks are never freed: a core may refer to them, and the same code may come back. */
static struct block *find_block(uint64_t pc, const uint32_t *words, size_t count, unsigned el)
{
    struct block **slot = &plugin.sys.blocks[(pc >> 2) * 0x9e3779b97f4a7c15ull >> 48];
    for (struct block *b = *slot; b; b = b->next)
        if (b->timing.pc == pc && b->timing.count == count && b->el == el &&
            !memcmp(b->words, words, 4 * count))
            return b;
    struct block *b = make_block(pc, words, count, el);
    b->next = *slot;
    *slot = b;
    return b;
}

void system_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count)
{
    pthread_mutex_lock(&plugin.sys.lock);
    if (!plugin.sys.opened) {
        plugin.sys.opened = true;
        open_system();
    }
    unsigned here = plugin.sys.machine->current();
    bool foreign = !plugin.sys.machine->aarch64(here) || count > MAX_INSNS;
    unsigned el = plugin.sys.machine->pstate(here) ? ANY_EL : plugin.sys.machine->el(here);
    struct block *b = foreign ? NULL : find_block(qemu_plugin_tb_vaddr(tb), words, count, el);
    pthread_mutex_unlock(&plugin.sys.lock);
    if (!b) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, system_on_foreign, system_reading(), NULL);
        return;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, system_on_block, system_reading(), b);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        system_watch_access(insn, &b->insns[i]);
        system_watch_register(insn, &b->insns[i]);
    }
}

/* ---- installation ---- */

int system_install(uint64_t id, unsigned api, unsigned vcpus, int argc, char **argv)
{
    struct spex_error error = {.text = ""};
    vm_config_default(&plugin.sys.config);
    plugin.sys.machine = api >= 7 ? &machine_qemu11 : &machine_qemu72;
    plugin.sys.vcpus = vcpus;
    plugin.sys.api = api;
    plugin.sys.log = -1;
    if (vcpus > SYS_VCPUS)
        snprintf(error.text, sizeof error.text, "at most %d CPUs", SYS_VCPUS);
    for (int i = 0; i < argc && !error.text[0]; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            continue;
        *value++ = '\0';
        if (!strcmp(argv[i], "log")) {
            plugin.sys.log = open(value, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
            if (plugin.sys.log < 0)
                snprintf(error.text, sizeof error.text, "cannot write %s", value);
            continue;
        }
        if (!strcmp(argv[i], "features") || !strcmp(argv[i], "model"))
            for (char *p = value; *p; p++)
                if (*p == ':') /* commas separate plugin arguments */
                    *p = ',';
        vm_config_set(&plugin.sys.config, argv[i], value, &error);
    }
    const struct uarch_config *model = &plugin.sys.config.model;
    if (!error.text[0] && !spu_config_check(&plugin.sys.config.unit, &error) && !model->none &&
        timing_new(model, &plugin.sys.model))
        snprintf(error.text, sizeof error.text, "out of memory");
    if (error.text[0]) {
        fprintf(stderr, "spex vm: %s\n", error.text);
        return 1;
    }
    if (plugin.sys.model && vcpus > 1)
        timing_apart(plugin.sys.model);
    plugin.sys.machine->install(id);
    return 0;
}
