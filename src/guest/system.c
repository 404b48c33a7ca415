/*
 * The plugin in system mode. At the entry of each block its operations are
 * counted; the one that the unit wants is followed to the next entry, where it
 * is known whether it was executed, and completed. See docs/vm.md.
 *
 * A vCPU's state belongs to its thread. Only qemu72.c knows QEMU's insides.
 */
#include "system.h"

#include "qemu72.h"
#include "qemu_plugin.h"

#include <spex/a64.h>
#include <spex/spu.h>
#include <spex/uarch.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_VCPUS = 64, PMBIRQ = 21 /* PPI of BSA */, NONE = -1 };

/* One translated block; insn[i].op is ops[i]. */
struct insn {
    struct block *block;
    uint32_t index;
};

struct block {
    struct spex_uarch_block model; /* pc, count, ops */
    struct insn *insns;
    struct block *next; /* of the same hash slot */
    uint32_t *words;
    bool vector; /* may be an exception vector: aligned to 128 bytes */
};

/* Faults on request, for driver authors. Numbers count records of one vCPU from 1. */
struct injection {
    uint64_t fault, abort, event;  /* at this record; 0 never */
    uint64_t collide, collisions;  /* from this sample on, so many */
    unsigned id_register;          /* an ID register that reads as id_value */
    uint64_t id_value;
};

struct vcpu {
    _Alignas(64) struct spex_spu *unit;
    struct spex_uarch_core *core;
    struct block *block;     /* the one that is being executed */
    const struct insn *want; /* the operation that the unit wants, in block; or NULL */
    uint64_t space;          /* address space number for the model */
    unsigned index;
    uint8_t el;
    bool active;             /* profiling is switched on at some Exception level */
    /* the wanted operation so far */
    struct spex_access access;
    spex_uarch_result result;
    uint32_t sequence;
    bool accessed;
    int phantom;             /* slot of an injected operation that never ends, or NONE */
    uint64_t records, samples;
    uint64_t pass_from;      /* operations of block that were not counted at its entry */
};

static struct {
    struct spex_spu_config config;
    struct injection inject;
    struct spex_uarch *model;
    struct vcpu *vcpu[MAX_VCPUS];
    unsigned vcpus;
    struct block *blocks[1 << 16];
    pthread_mutex_t lock; /* translation: blocks, opening */
    bool opened;
    int log;
} sys = {.lock = PTHREAD_MUTEX_INITIALIZER, .log = -1};

/* ---- the unit's own log: lines of a `spex spu run` script ---- */

__attribute__((format(printf, 2, 3))) static void note(const struct vcpu *v, const char *format, ...)
{
    char line[256];
    if (sys.log < 0)
        return;
    int n = snprintf(line, sizeof line, "cpu%u ", v->index);
    va_list args;
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    line[n++] = '\n';
    if (write(sys.log, line, (size_t)n) < 0)
        sys.log = -1;
}

/* ---- the unit's host ---- */

static void on_store(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct vcpu *v = user;
    size_t done = 0;
    v->records++;
    if (sys.inject.fault && v->records == sys.inject.fault) {
        note(v, "# injected fault at 0x%llx", (unsigned long long)store->address);
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = 0x07};
        return;
    }
    if (sys.inject.abort && v->records == sys.inject.abort) {
        note(v, "# injected External abort at 0x%llx", (unsigned long long)store->address);
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_ABORT};
        return;
    }
    while (done < store->count || (!store->count && !done)) {
        uint64_t va = store->address + done, pa = va;
        unsigned fsc = 0;
        bool stage2 = false;
        size_t n = 4096 - (va & 4095);
        if (!(store->flags & SPEX_STORE_NVM) &&
            !qemu72_translate(v->index, va, store->el, store->e2h, &pa, &fsc, &stage2)) {
            note(v, "# fault at 0x%llx fsc 0x%x", (unsigned long long)va, fsc);
            *stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT,
                                           .fsc = (uint8_t)fsc,
                                           .flags = stage2 ? SPEX_STOP_STAGE2 : 0,
                                           .written = done};
            return;
        }
        if (!store->count)
            return;
        if (n > store->count - done)
            n = store->count - done;
        qemu72_write(pa, store->bytes + done, n);
        done += n;
    }
}

static bool on_counter(void *user, uint64_t *count)
{
    (void)user;
    *count = qemu72_counter();
    return true;
}

static void on_irq(void *user, bool level)
{
    struct vcpu *v = user;
    note(v, "expect irq %d", level);
    qemu72_ppi(v->index, PMBIRQ, level);
}

/* ---- state of the PE, as far as QEMU shows it ---- */

static void refresh(struct vcpu *v, unsigned encoding)
{
    uint64_t value;
    if (qemu72_sysreg(v->index, encoding, &value))
        spex_spu_set(v->unit, encoding, value);
}

static void set_state(struct vcpu *v, unsigned el)
{
    struct spex_spu_state state = {.el = (uint8_t)el, .security = SPEX_NONSECURE};
    if (!qemu72_aarch64(v->index))
        state.aarch32 = (uint8_t)(1u << el);
    v->el = (uint8_t)el;
    spex_spu_set(v->unit, SPEX_HCR_EL2, qemu72_hcr(v->index));
    spex_spu_set_state(v->unit, &state);
}

/* ---- one sample ---- */

static const struct spex_op *op_of(const struct insn *insn)
{
    return &insn->block->model.ops[insn->index];
}

static uint64_t pc_of(const struct insn *insn)
{
    return insn->block->model.pc + 4 * (uint64_t)insn->index;
}

/* The next operation of block is at index from: count to its end, or stop at one that is wanted. */
static void count_from(struct vcpu *v, struct block *block, uint32_t from)
{
    uint64_t left = block->model.count - from;
    uint64_t until = spex_spu_until(v->unit);
    v->want = NULL;
    if (left <= until) {
        spex_spu_pass(v->unit, left);
        return;
    }
    v->want = &block->insns[from + until];
    v->pass_from = from;
    v->accessed = false;
    v->access = (struct spex_access){0};
    v->result = 0;
    v->sequence = v->core ? v->core->sequence : 0;
    refresh(v, SPEX_CONTEXTIDR_EL1);
    refresh(v, SPEX_CONTEXTIDR_EL2);
    refresh(v, SPEX_CNTVOFF_EL2);
}

static void inject_around(struct vcpu *v, uint64_t pc)
{
    const struct injection *in = &sys.inject;
    v->samples++;
    if (in->collide && v->samples == in->collide)
        v->phantom = spex_spu_begin(v->unit, pc, 0);
    if (v->phantom != NONE && v->samples > in->collide + in->collisions) {
        spex_spu_abandon(v->unit, v->phantom);
        v->phantom = NONE;
    }
    if (in->event && v->samples == in->event)
        spex_spu_impdef_event(v->unit, 0, 0);
}

/*
 * The wanted operation finished, and executed of its block were: exception says
 * that it ended with a synchronous exception, target where control went when it
 * is the last of the block.
 */
static void finish(struct vcpu *v, uint32_t executed, bool exception, bool last, uint64_t target)
{
    const struct insn *want = v->want;
    const struct spex_op *op = op_of(want);
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED};
    v->want = NULL;
    spex_spu_pass(v->unit, want->index - v->pass_from);
    if (exception)
        outcome.flags |= SPEX_OUT_EXCEPTION;
    if (v->accessed) {
        outcome.access[0] = v->access;
        if (!(op->flags & SPEX_OPF_LOAD))
            outcome.access[0].flags &= (uint16_t)~SPEX_ACC_SOURCE;
    }
    if ((op->kind == SPEX_OP_BRANCH || op->kind == SPEX_OP_ERET) && last && !exception) {
        if (target != want->block->model.next || !(op->flags & SPEX_OPF_COND)) {
            outcome.flags |= SPEX_OUT_PASSED;
            outcome.target = target;
            outcome.target_el = (uint8_t)qemu72_el(v->index);
            outcome.target_security = SPEX_NONSECURE;
        }
    } else {
        outcome.flags |= SPEX_OUT_PASSED;
    }
    spex_uarch_replay(v->core, v->sequence, want->index, v->result, &outcome);
    uint64_t pc = pc_of(want);
    inject_around(v, pc);
    int slot = spex_spu_begin(v->unit, pc, 0);
    if (slot != SPEX_SPU_NOT_SAMPLED)
        spex_spu_complete(v->unit, slot, op, &outcome);
    if (executed > want->index + 1)
        count_from(v, want->block, want->index + 1);
}

/*
 * Control has left the current block for pc. Find out how much of it was
 * executed: an exception may have cut it short. Only a block that could be a
 * vector needs a look.
 */
static void leave(struct vcpu *v, const struct block *to)
{
    struct block *from = v->block;
    uint32_t executed = from->model.count;
    uint64_t target = to->model.pc;
    bool exception = false;
    if (to->vector) {
        unsigned el = qemu72_el(v->index);
        uint64_t base = 0, elr = 0;
        bool known = qemu72_sysreg(v->index, el == 2 ? SPEX_SYSREG(3, 4, 12, 0, 0)
                                                     : SPEX_SYSREG(3, 0, 12, 0, 0), &base) &&
                     qemu72_sysreg(v->index, el == 2 ? SPEX_SYSREG(3, 4, 4, 0, 1)
                                                     : SPEX_SYSREG(3, 0, 4, 0, 1), &elr);
        uint64_t offset = target - base;
        if (known && offset < 0x800 && !(offset & 0x7f)) {
            bool synchronous = !(offset & 0x180);
            target = elr;
            if (synchronous && elr - from->model.pc < 4ull * from->model.count) {
                executed = (uint32_t)((elr - from->model.pc) / 4) + 1;
                exception = true;
            } else if (synchronous) {
                exception = true; /* SVC and friends: the return address is behind them */
            }
            if (v->want && v->want->index >= executed)
                v->want = NULL; /* it never ran; what was not counted stays so */
            else if (!v->want)
                spex_spu_unpass(v->unit, from->model.count - executed);
            spex_uarch_cut(v->core);
            if (v->want)
                finish(v, executed, exception && v->want->index + 1 == executed,
                       v->want->index + 1 == from->model.count, target);
            spex_spu_exception_taken(v->unit);
            return;
        }
    }
    while (v->want)
        finish(v, executed, false, v->want->index + 1 == executed, target);
}

/* ---- callbacks of QEMU ---- */

static void on_block(unsigned index, void *data)
{
    struct block *block = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v || !v->active)
        return;
    if (v->block && (v->want || block->vector))
        leave(v, block);
    unsigned flags = spex_uarch_block(v->core, &block->model);
    if (__builtin_expect(flags != 0, 0))
        spex_uarch_block_rest(v->core, &block->model, flags);
    unsigned el = qemu72_el(index);
    if (__builtin_expect(el != v->el, 0))
        set_state(v, el);
    v->block = block;
    count_from(v, block, 0);
}

static void on_memory(unsigned index, qemu_plugin_meminfo_t info, uint64_t va, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = sys.vcpu[index];
    if (!v || !v->active)
        return;
    unsigned size = 1u << qemu_plugin_mem_size_shift(info);
    const struct spex_op *op = op_of(insn);
    uint64_t model = va >> 56 ? va : va | v->space << 56;
    spex_uarch_result result;
    if (op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL) && op->flags & SPEX_OPF_STORE)
        result = spex_uarch_atomic(v->core, model, size, insn->index);
    else if (qemu_plugin_mem_is_store(info))
        result = spex_uarch_store(v->core, model, size, insn->index);
    else
        result = spex_uarch_load(v->core, model, size, insn->index);
    if (__builtin_expect(insn != v->want || v->accessed, 1))
        return;
    v->accessed = true;
    v->result = result;
    v->access.va = va;
    v->access.flags = SPEX_ACC_VA | SPEX_ACC_DONE;
    v->access.pas = SPEX_NONSECURE;
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, va);
    if (where && !qemu_plugin_hwaddr_is_io(where)) {
        v->access.pa = qemu_plugin_hwaddr_phys_addr(where);
        v->access.flags |= SPEX_ACC_PA;
    }
    spex_uarch_access(v->core, op, model, size, result, &v->access);
}

/* PSB CSYNC: everything before it is complete, so the sample in flight is completed first. */
static void settle(struct vcpu *v, const struct insn *at)
{
    if (v->want && v->want->index < at->index)
        finish(v, at->index, false, false, 0);
}

static void on_psb(unsigned index, void *data)
{
    struct vcpu *v = sys.vcpu[index];
    if (!v)
        return;
    settle(v, data);
    note(v, "psb");
    spex_spu_psb(v->unit, NULL);
}

static void on_isb(unsigned index, void *data)
{
    struct vcpu *v = sys.vcpu[index];
    (void)data;
    if (v)
        spex_spu_context_sync(v->unit);
}

/* ---- System registers ---- */

static void prepare_access(struct vcpu *v)
{
    static const unsigned shared[] = {SPEX_MDCR_EL2, SPEX_CNTHCTL_EL2, SPEX_CNTVOFF_EL2,
                                      SPEX_HDFGRTR_EL2, SPEX_HDFGWTR_EL2, SPEX_HFGITR_EL2};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        refresh(v, shared[i]);
    set_state(v, qemu72_el(v->index));
}

static enum qemu72_access on_check(unsigned index, unsigned encoding, bool write)
{
    struct vcpu *v = sys.vcpu[index];
    prepare_access(v);
    switch (spex_spu_check(v->unit, encoding, 0, !write, NULL)) {
    case SPEX_ACCESS_OK:
    case SPEX_ACCESS_MEMORY:
        return QEMU72_OK;
    case SPEX_ACCESS_TRAP_EL2:
        return QEMU72_TRAP_EL2;
    case SPEX_ACCESS_TRAP_EL3:
        return QEMU72_TRAP_EL3;
    default:
        note(v, "# undefined: %s", spex_sysreg_name(encoding));
        return QEMU72_UNDEFINED;
    }
}

static uint64_t on_read(unsigned index, unsigned encoding)
{
    struct vcpu *v = sys.vcpu[index];
    uint64_t value = 0;
    if (v->want)
        settle(v, &v->block->insns[v->block->model.count - 1]);
    spex_spu_read(v->unit, encoding, 0, &value, NULL);
    if (encoding == sys.inject.id_register)
        value = sys.inject.id_value;
    note(v, "read %s expect 0x%llx", spex_sysreg_name(encoding), (unsigned long long)value);
    return value;
}

static void on_write(unsigned index, unsigned encoding, uint64_t value)
{
    struct vcpu *v = sys.vcpu[index];
    /* The access ends its block: what came before it in the block is complete. */
    if (v->want)
        settle(v, &v->block->insns[v->block->model.count - 1]);
    v->want = NULL;
    note(v, "write %s 0x%llx", spex_sysreg_name(encoding), (unsigned long long)value);
    spex_spu_write(v->unit, encoding, 0, value, NULL);
    /* Without profiling at any level nothing is counted, so nothing needs to be followed. */
    uint64_t limit = 0, el1 = 0, el2 = 0;
    spex_spu_get(v->unit, SPEX_PMBLIMITR_EL1, &limit);
    spex_spu_get(v->unit, SPEX_PMSCR_EL1, &el1);
    spex_spu_get(v->unit, SPEX_PMSCR_EL2, &el2);
    v->active = (limit & 1) && ((el1 | el2) & 3);
    v->block = v->active ? v->block : NULL;
}

/* ---- opening, at the first translation ---- */

static void refuse(const struct spex_error *error)
{
    fprintf(stderr, "spex vm: %s\n", error->text);
    _exit(1);
}

static void make_vcpu(unsigned index)
{
    struct spex_error error;
    struct spex_spu_config config = sys.config;
    struct vcpu *v = aligned_alloc(64, sizeof *v);
    if (!v)
        abort();
    *v = (struct vcpu){.index = index, .phantom = NONE, .el = 1};
    config.seed += index;
    config.host = (struct spex_spu_host){
        .user = v, .write = on_store, .counter = on_counter, .irq = on_irq};
    if (spex_spu_new(&config, &v->unit, &error))
        refuse(&error);
    if (spex_uarch_core_new(sys.model, index, &v->core))
        abort();
    spex_spu_boot(v->unit);
    set_state(v, qemu72_el(index));
    sys.vcpu[index] = v;
}

static void open_system(void)
{
    static const struct qemu72_handler handler = {on_check, on_read, on_write};
    struct spex_error error;
    if (qemu72_open(sys.vcpus, &handler, &error))
        refuse(&error);
    const struct spex_features *f = &sys.config.features;
    for (unsigned i = 0; i < sys.vcpus; i++)
        make_vcpu(i);
    unsigned encoding;
    for (size_t i = 0; (encoding = spex_sysreg_at(i)); i++) {
        const char *name = spex_sysreg_name(encoding);
        if (strncmp(name, "PMS", 3) && strncmp(name, "PMB", 3))
            continue;
        unsigned op1 = encoding >> 11 & 7;
        unsigned lowest = op1 == 6 ? 3 : op1 >= 4 ? 2 : 1;
        qemu72_define(name, encoding, lowest,
                      encoding != SPEX_PMSIDR_EL1 && encoding != SPEX_PMBIDR_EL1);
    }
    qemu72_patch_id(SPEX_ID_AA64DFR0_EL1, UINT64_C(15) << 32, (uint64_t)f->version << 32);
}

/* ---- translation ---- */

static struct block *find_block(uint64_t pc, const uint32_t *words, size_t count)
{
    struct block **slot = &sys.blocks[(pc >> 2) * 0x9e3779b97f4a7c15ull >> 48];
    for (struct block *b = *slot; b; b = b->next)
        if (b->model.pc == pc && b->model.count == count && !memcmp(b->words, words, 4 * count))
            return b;
    struct block *b = calloc(1, sizeof *b);
    struct spex_op *ops = calloc(count, sizeof *ops);
    struct insn *insns = calloc(count, sizeof *insns);
    uint32_t *copy = malloc(4 * count);
    if (!b || !ops || !insns || !copy)
        abort();
    memcpy(copy, words, 4 * count);
    for (size_t i = 0; i < count; i++) {
        spex_a64_classify(words[i], NULL, &ops[i]);
        insns[i] = (struct insn){b, (uint32_t)i};
    }
    *b = (struct block){.insns = insns, .words = copy, .next = *slot, .vector = !(pc & 0x7f)};
    spex_uarch_block_init(sys.model, &b->model, pc, ops, count);
    *slot = b;
    return b;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint32_t words[1024];
    if (!count || count > sizeof words / sizeof words[0] ||
        qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, 0)) != 4)
        return;
    (void)id;
    for (size_t i = 0; i < count; i++)
        memcpy(&words[i], qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), 4);
    pthread_mutex_lock(&sys.lock);
    if (!sys.opened) {
        sys.opened = true;
        open_system();
    }
    struct block *b = find_block(qemu_plugin_tb_vaddr(tb), words, count);
    pthread_mutex_unlock(&sys.lock);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, b);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const struct spex_op *op = &b->model.ops[i];
        if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE))
            qemu_plugin_register_vcpu_mem_cb(insn, on_memory, QEMU_PLUGIN_CB_NO_REGS,
                                             QEMU_PLUGIN_MEM_RW, &b->insns[i]);
        if (op->flags & SPEX_OPF_PSB)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_psb, QEMU_PLUGIN_CB_NO_REGS,
                                                   &b->insns[i]);
        else if (op->kind == SPEX_OP_ISB)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_isb, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
}

/* ---- installation ---- */

static bool parse_injection(const char *text, struct injection *in)
{
    unsigned long long n, count = 1;
    char name[32];
    if (sscanf(text, "fault@%llu", &n) == 1)
        in->fault = n;
    else if (sscanf(text, "abort@%llu", &n) == 1)
        in->abort = n;
    else if (sscanf(text, "event@%llu", &n) == 1)
        in->event = n;
    else if (sscanf(text, "collide@%llu+%llu", &n, &count) >= 1)
        in->collide = n, in->collisions = count;
    else if (sscanf(text, "id:%31[A-Z0-9_a-z]:%lli", name, (long long *)&n) == 2 &&
             !spex_sysreg_find(name, &in->id_register))
        in->id_value = n;
    else
        return false;
    return true;
}

/* What QEMU does not show is left out of records by the choice that the manual offers for it. */
static const char *const unseen[] = {"dc_zva=other",        "csel_conditional=no",
                                     "csinc_conditional=no", "csneg_conditional=no",
                                     "csinv_conditional=no", "ccmp_conditional=no",
                                     "ccmn_conditional=no"};

static void set_unseen(struct spex_spu_choices *choices)
{
    struct spex_error error;
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++)
        if (spex_spu_choices_set(choices, unseen[i], &error))
            refuse(&error);
}

int system_install(uint64_t id, unsigned vcpus, int argc, char **argv)
{
    struct spex_error error = {.text = ""};
    struct spex_uarch_config model;
    spex_spu_config_default(&sys.config);
    set_unseen(&sys.config.choices);
    spex_uarch_config_preset("neoverse-n1", &model, &error);
    sys.vcpus = vcpus;
    for (int i = 0; i < argc && !error.text[0]; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            continue;
        *value++ = '\0';
        if (!strcmp(argv[i], "features")) {
            for (char *p = value; *p; p++)
                if (*p == ':')
                    *p = ',';
            spex_features_parse(value, &sys.config.features, &error);
        } else if (!strcmp(argv[i], "choice")) {
            spex_spu_choices_set(&sys.config.choices, value, &error);
        } else if (!strcmp(argv[i], "seed")) {
            sys.config.seed = strtoull(value, NULL, 0);
        } else if (!strcmp(argv[i], "inject")) {
            if (!parse_injection(value, &sys.inject))
                snprintf(error.text, sizeof error.text, "unknown injection '%s'", value);
        } else if (!strcmp(argv[i], "log")) {
            sys.log = open(value, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
            if (sys.log < 0)
                snprintf(error.text, sizeof error.text, "cannot write %s", value);
        }
    }
    struct spex_spu_choices asked = sys.config.choices;
    set_unseen(&asked);
    if (!error.text[0] && memcmp(&asked, &sys.config.choices, sizeof asked))
        snprintf(error.text, sizeof error.text,
                 "QEMU does not show condition outcomes and DC ZVA; leave dc_zva and *_conditional "
                 "as they are");
    if (!error.text[0])
        spex_uarch_new(&model, &sys.model);
    if (error.text[0] || !sys.model) {
        fprintf(stderr, "spex vm: %s\n", error.text[0] ? error.text : "out of memory");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
