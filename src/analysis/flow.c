/*
 * What the registers of a function point to at each instruction: followed forward through its
 * blocks until nothing changes. It starts from the variables that DWARF says registers hold;
 * loads, additions, copies and calls carry them on.
 */
#include "types.h"

#include "step.h"

#include "base/bits.h"
#include "base/memory.h"
#include "base/search.h"

#include <stdlib.h>

enum {
    CODE_MOST = 1 << 18, /* most bytes in a range */
    PASSES = 50,
    FP = 29,
};

enum reg_kind {
    REG_UNSEEN, /* no path leads here yet */
    REG_UNKNOWN,
    REG_CFA,     /* the function's stack pointer at its entry, plus offset */
    REG_ADDRESS, /* an address in the module: offset */
    REG_THREAD,  /* the thread pointer plus offset */
    REG_POINTER, /* points offset bytes into an object of a type */
    REG_NUMBER,  /* not a pointer but an unknown number plus offset, for array indexes */
};

struct reg {
    uint8_t kind;
    bool loose; /* perhaps plus any number of elements */
    uint32_t type;
    int64_t offset;
};

struct block {
    uint32_t first, end; /* instructions */
    bool root;           /* no known block leads here */
    struct reg in[STEP_REGS];
};

struct flow {
    struct spex_module *module;
    const struct type_function *function;
    struct type_code *code;
    struct step *steps;
    uint32_t *block_of; /* number of the block that begins here plus one */
    struct block *blocks;
    uint32_t count, block_count;
    struct reg regs[STEP_REGS];
    struct reg frame; /* what FP was last set to from SP */
    size_t next;      /* how many locations have begun */
    const struct type_location *active[STEP_REGS];
    bool changed, record;
};

static const struct reg unknown = {.kind = REG_UNKNOWN};

static bool is_address(const struct reg *r)
{
    return r->kind >= REG_CFA && r->kind <= REG_POINTER;
}

/* A register that holds a value of this type. */
static struct reg reg_of(struct spex_module *module, uint32_t type)
{
    if (type < TYPE_FIRST)
        return unknown;
    if (type_get(module, type)->kind != KIND_POINTER)
        return (struct reg){.kind = REG_NUMBER};
    uint32_t to = type_element(module, type_target(module, type));
    return to < TYPE_FIRST ? unknown : (struct reg){.kind = REG_POINTER, .type = to};
}

static struct reg moved(struct reg r, int64_t by)
{
    if (!is_address(&r) && r.kind != REG_NUMBER)
        return r;
    if (__builtin_add_overflow(r.offset, by, &r.offset) || r.offset >> 56 != r.offset >> 63)
        return unknown;
    return r;
}

static struct reg meet(struct spex_module *module, struct reg a, struct reg b)
{
    if (a.kind == REG_UNSEEN)
        return b;
    if (b.kind == REG_UNSEEN)
        return a;
    if (a.kind != b.kind || a.type != b.type)
        return unknown;
    bool same = a.offset == b.offset;
    if (a.kind == REG_NUMBER) {
        a.offset = a.offset == b.offset ? a.offset : 0;
        return a;
    }
    uint64_t size = a.kind == REG_POINTER ? type_get(module, a.type)->size : 0;
    if (same || (size && (a.offset - b.offset) % (int64_t)size == 0)) {
        a.loose |= b.loose || !same;
        a.offset = a.offset < b.offset ? a.offset : b.offset;
        if (a.loose && size) /* normalized, so that loops end */
            a.offset = (a.offset % (int64_t)size + (int64_t)size) % (int64_t)size;
        return a;
    }
    return unknown;
}

static bool same_reg(const struct reg *a, const struct reg *b)
{
    return a->kind == b->kind && a->loose == b->loose && a->type == b->type &&
           a->offset == b->offset;
}

/* ---- variables ---- */

static void seed(struct flow *f, const struct type_location *l)
{
    struct reg r;
    if (l->how == AT_REGISTER) {
        if (l->offset && is_address(&f->regs[l->reg]))
            return; /* it points to a part of this type, or to what contains it */
        r = reg_of(f->module, l->type);
        r = moved(r, -l->offset);
        r.offset = r.kind == REG_NUMBER ? 0 : r.offset;
    } else { /* a scalar may only be kept in the register */
        enum type_kind kind = type_get(f->module, l->type)->kind;
        if (is_address(&f->regs[l->reg]) || (kind != KIND_STRUCT && kind != KIND_UNION))
            return;
        r = (struct reg){.kind = REG_POINTER, .type = l->type, .offset = -l->offset};
    }
    if (r.kind != REG_UNKNOWN) /* the code may know more than a void pointer tells */
        f->regs[l->reg] = r;
}

static void begin_locations(struct flow *f, uint64_t address, bool block)
{
    const struct type_function *fn = f->function;
    for (; f->next < fn->location_count && fn->locations[f->next].low <= address; f->next++) {
        const struct type_location *l = &fn->locations[f->next];
        if (l->how == AT_STACK || l->reg >= STEP_SP)
            continue;
        f->active[l->reg] = l;
        if (l->low == address && !block)
            seed(f, l);
    }
    for (unsigned i = 0; block && i < STEP_SP; i++)
        if (f->active[i] && f->active[i]->high > address)
            seed(f, f->active[i]);
}

/* The variable on the stack at an offset from the CFA: the innermost, which is the last. */
static const struct type_location *stack_variable(const struct flow *f, uint64_t address,
                                                  int64_t offset, int64_t *inside)
{
    const struct type_function *fn = f->function;
    struct module_types *t = f->module->types;
    for (size_t i = fn->location_count; i-- > 0 && t->work++ < t->work_most;) {
        const struct type_location *l = &fn->locations[i];
        if (l->how != AT_STACK || l->low > address || address >= l->high)
            continue;
        int64_t start = l->offset;
        if (l->reg < STEP_REGS) {
            const struct reg *r = &f->regs[l->reg];
            if (r->kind != REG_CFA)
                continue;
            start += r->offset;
        }
        uint64_t size = type_get(f->module, l->type)->size;
        if (offset >= start && (uint64_t)(offset - start) < (size ? size : 1)) {
            *inside = offset - start;
            return l;
        }
    }
    return NULL;
}

static struct reg named_by_got(struct flow *f, uint64_t pc, uint64_t address)
{
    const struct spex_symbol *symbol = spex_module_symbol(f->module, address);
    size_t length = symbol && symbol->raw ? strlen(symbol->raw) : 0;
    char name[256];
    if (length < 5 || length >= sizeof name || strcmp(symbol->raw + length - 4, "@got"))
        return unknown;
    memcpy(name, symbol->raw, length - 4);
    name[length - 4] = 0;
    Dwarf_Die die;
    uint32_t type = variable_named(f->module, pc, name, &die)
                        ? type_element(f->module, type_of(f->module, &die))
                        : TYPE_NONE;
    return type < TYPE_FIRST ? unknown : (struct reg){.kind = REG_POINTER, .type = type};
}

/* Thread-local data begins after two words, at its alignment (the ABI's variant 1). */
static uint64_t thread_block(struct spex_module *module)
{
    size_t count;
    GElf_Phdr header;
    if (!module->image.elf || elf_getphdrnum(module->image.elf, &count))
        return 16;
    for (size_t i = 0; i < count && i < 1000; i++)
        if (gelf_getphdr(module->image.elf, (int)i, &header) && header.p_type == PT_TLS &&
            header.p_align > 16)
            return header.p_align;
    return 16;
}

/* ---- memory ---- */

/* The type at an address and the offset in it. */
static struct access access_at(struct flow *f, uint64_t pc, struct reg at)
{
    struct access a = {.kind = ACCESS_TYPE};
    const struct type_location *l;
    Dwarf_Die die;
    uint64_t inside;
    switch (at.kind) {
    case REG_CFA:
        if (!(l = stack_variable(f, pc, at.offset, &a.offset))) {
            a.kind = ACCESS_NO_VARIABLE;
            break;
        }
        a.type = l->type;
        a.variable = l->name;
        break;
    case REG_ADDRESS:
        a.kind = ACCESS_ADDRESS;
        a.offset = at.offset;
        break;
    case REG_THREAD:
        if (!variable_of_thread(f->module, pc, (uint64_t)at.offset - thread_block(f->module), &die,
                                &inside)) {
            a.kind = ACCESS_NO_VARIABLE;
            break;
        }
        a.type = type_of(f->module, &die);
        a.variable = dwarf_diename(&die);
        a.offset = (int64_t)inside;
        break;
    case REG_POINTER: {
        int64_t size = (int64_t)type_get(f->module, at.type)->size;
        a.type = at.type;
        a.offset = at.offset;
        if (at.offset < 0 && !at.loose)
            a.kind = ACCESS_NO_MEMBER; /* a negative offset: part of what encloses the type */
        else if (size > 0 && (at.offset < size || !type_is_open(f->module, at.type)))
            a.offset = (at.offset % size + size) % size;
        break;
    }
    default:
        a.kind = at.kind == REG_NUMBER ? ACCESS_NO_POINTER : ACCESS_NO_LOCATION;
    }
    return a;
}

/* What a register holds after a load from `at`. */
static struct reg loaded(struct flow *f, uint64_t pc, struct reg at, unsigned bytes)
{
    if (bytes != 8)
        return (struct reg){.kind = REG_NUMBER};
    struct access a = access_at(f, pc, at);
    if (a.kind == ACCESS_ADDRESS) {
        const struct type_variable *v = variable_at(f->module, pc, (uint64_t)a.offset);
        if (!v)
            return named_by_got(f, pc, (uint64_t)a.offset);
        Dwarf_Die die = v->die;
        a = (struct access){.type = type_of(f->module, &die),
                            .offset = a.offset - (int64_t)v->address};
    }
    if (a.kind != ACCESS_TYPE || a.offset < 0)
        return unknown;
    uint32_t type = type_element(f->module, a.type);
    uint64_t size = type_get(f->module, type)->size, offset = (uint64_t)a.offset;
    if (type != a.type)
        offset = size ? offset % size : offset;
    return reg_of(f->module, type_leaf(f->module, type, offset, bytes));
}

/* Either operand may be the address; the other is the distance from it. */
static struct reg add_index(struct reg a, struct reg b, unsigned shift)
{
    if (!is_address(&a)) {
        struct reg swap = a;
        if (!is_address(&b) || shift)
            return unknown;
        a = b;
        b = swap;
    }
    a.loose = true;
    bool small =
        b.kind == REG_NUMBER && b.offset >= -(INT64_C(1) << 32) && b.offset < INT64_C(1) << 32;
    return small && shift < 16 ? moved(a, b.offset * (INT64_C(1) << shift)) : a;
}

static void use_memory(struct flow *f, uint32_t n, uint64_t pc, const struct step *s)
{
    struct reg at = s->literal ? (struct reg){.kind = REG_ADDRESS, .offset = (int64_t)s->value}
                    : s->rn < STEP_REGS ? f->regs[s->rn]
                                        : unknown;
    if (s->index < STEP_REGS) {
        const struct reg *index = &f->regs[s->index];
        at = add_index(at, *index, s->shift);
    }
    at = moved(at, s->offset);
    if (f->record) {
        struct type_code *code = f->code;
        code->accesses =
            memory_grow(code->accesses, code->count, &code->capacity, sizeof *code->accesses);
        struct access *a = &code->accesses[code->count++];
        *a = access_at(f, pc, at);
        a->code = 4 * n;
        a->bytes = s->size;
    }
    struct reg first = unknown, second = unknown;
    if (s->rd < STEP_REGS)
        first = loaded(f, pc, at, s->size);
    if (s->rm < STEP_REGS)
        second = loaded(f, pc, moved(at, s->size), s->size);
    if (s->writeback && s->rn < STEP_REGS)
        f->regs[s->rn] = s->change == INT64_MIN ? unknown : moved(f->regs[s->rn], s->change);
    if (s->rd < STEP_REGS)
        f->regs[s->rd] = first;
    if (s->rm < STEP_REGS)
        f->regs[s->rm] = second;
}

/* ---- one instruction ---- */

static const struct type_call *find_call(const struct type_function *fn, uint64_t after)
{
    size_t low = SEARCH(i, 0, fn->call_count, fn->calls[i].address < after);
    return low < fn->call_count && fn->calls[low].address == after ? &fn->calls[low] : NULL;
}

static void call(struct flow *f, uint64_t pc, const struct step *s)
{
    const struct type_call *known = find_call(f->function, pc + 4);
    uint32_t type = known      ? known->type
                    : s->value ? function_returns(f->module, s->value)
                               : TYPE_NONE;
    for (unsigned i = 0; i <= 18; i++)
        f->regs[i] = unknown;
    f->regs[30] = unknown;
    f->regs[0] = reg_of(f->module, type);
}

static struct reg sum(const struct flow *f, const struct step *s)
{
    struct reg a = s->rn < STEP_REGS ? f->regs[s->rn] : unknown;
    struct reg b = s->rm < STEP_REGS ? f->regs[s->rm] : unknown;
    if (s->kind == STEP_LESS && is_address(&b))
        return (struct reg){.kind = REG_NUMBER};
    if (!is_address(&a) && !is_address(&b))
        return (struct reg){.kind = a.kind == REG_NUMBER || b.kind == REG_NUMBER ? REG_NUMBER
                                                                                 : REG_UNKNOWN};
    if (s->kind == STEP_LESS) {
        a.loose = true;
        return a;
    }
    return add_index(a, b, s->shift);
}

static void take_step(struct flow *f, uint32_t n)
{
    const struct step *s = &f->steps[n];
    uint64_t pc = f->function->low + 4 * (uint64_t)n;
    struct reg result = unknown;
    switch (s->kind) {
    case STEP_MEMORY:
        use_memory(f, n, pc, s);
        break;
    case STEP_CALL:
        call(f, pc, s);
        break;
    case STEP_SET:
        result = (struct reg){.kind = REG_ADDRESS, .offset = (int64_t)s->value};
        break;
    case STEP_THREAD:
        result = (struct reg){.kind = REG_THREAD};
        break;
    case STEP_ADD:
        if (s->rn < STEP_REGS)
            result = moved(f->regs[s->rn], (int64_t)s->value);
        if (s->rd == FP && result.kind == REG_CFA)
            f->frame = result;
        break;
    case STEP_NUMBER:
        result = (struct reg){.kind = REG_NUMBER, .offset = (int64_t)(s->value << 8) >> 8};
        break;
    case STEP_SHIFT:
        if (s->rn < STEP_REGS && f->regs[s->rn].kind == REG_NUMBER)
            result = f->regs[s->rn];
        result.offset = result.offset >> 32 || s->shift > 15 ? 0 : result.offset << s->shift;
        break;
    case STEP_SUM:
    case STEP_LESS:
        result = sum(f, s);
        break;
    case STEP_EITHER:
        result = meet(f->module, s->rn < STEP_REGS ? f->regs[s->rn] : (struct reg){0},
                      s->rm < STEP_REGS ? f->regs[s->rm] : (struct reg){0});
        if (result.kind == REG_UNSEEN)
            result = unknown;
        break;
    default:
        break;
    }
    if (s->kind != STEP_MEMORY && s->rd < STEP_REGS)
        f->regs[s->rd] = result;
    for (unsigned i = 0; i < STEP_REGS; i++)
        if (s->kills >> i & 1)
            f->regs[i] = unknown;
}

/* ---- blocks ---- */

static bool target_of(const struct flow *f, const struct step *s, uint32_t *target)
{
    uint64_t offset = s->value - f->function->low;
    if ((s->kind != STEP_BRANCH && s->kind != STEP_JUMP) || offset >= 4 * (uint64_t)f->count ||
        offset & 3)
        return false;
    *target = (uint32_t)(offset / 4);
    return true;
}

static bool goes_on(const struct flow *f, uint32_t n)
{
    const struct step *s = &f->steps[n];
    if (s->kind == STEP_JUMP || s->kind == STEP_LEAVE || n + 1 >= f->count)
        return false;
    const struct type_call *known =
        s->kind == STEP_CALL ? find_call(f->function, f->function->low + 4 * (uint64_t)(n + 1))
                             : NULL;
    return !known || !known->never;
}

static void make_blocks(struct flow *f)
{
    uint32_t target;
    f->block_of = memory_get(f->count + 1, sizeof *f->block_of);
    f->block_of[0] = 1;
    for (uint32_t n = 0; n < f->count; n++) {
        if (target_of(f, &f->steps[n], &target))
            f->block_of[target] = 1;
        if (f->steps[n].kind >= STEP_BRANCH && f->steps[n].kind != STEP_CALL)
            f->block_of[n + 1] = 1;
        else if (!goes_on(f, n))
            f->block_of[n + 1] = 1;
    }
    for (uint32_t n = 0; n < f->count; n++)
        f->block_count += f->block_of[n];
    f->blocks = memory_get(f->block_count, sizeof *f->blocks);
    uint32_t b = 0;
    for (uint32_t n = 0; n < f->count; n++) {
        if (f->block_of[n]) {
            f->blocks[b].first = n;
            f->blocks[b].root = !n || !goes_on(f, n - 1);
            f->block_of[n] = ++b;
        }
        f->blocks[b - 1].end = n + 1;
    }
    for (uint32_t n = 0; n < f->count; n++)
        if (target_of(f, &f->steps[n], &target))
            f->blocks[f->block_of[target] - 1].root = target == 0;
}

/* The stack pointer in a block that no known path leads to. */
static void frame_from_tables(struct flow *f, uint64_t address)
{
    unsigned reg;
    int64_t offset;
    if (unwind_cfa(f->module, address, &reg, &offset) && reg < STEP_REGS)
        f->regs[reg] = (struct reg){.kind = REG_CFA, .offset = -offset};
}

static void begin_block(struct flow *f, struct block *b)
{
    uint64_t address = f->function->low + 4 * (uint64_t)b->first;
    memcpy(f->regs, b->in, sizeof f->regs);
    if (b->root) {
        for (unsigned i = 0; i < STEP_REGS; i++)
            if (f->regs[i].kind == REG_UNSEEN)
                f->regs[i] = unknown;
        if (address == f->function->entry) {
            f->regs[STEP_SP] = (struct reg){.kind = REG_CFA};
        } else {
            f->regs[FP] = f->frame;
            frame_from_tables(f, address);
        }
    }
    begin_locations(f, address, true);
}

/* Two addresses in one variable on the stack: a loop goes through an array there. */
static struct reg meet_in_variable(const struct flow *f, uint32_t target, struct reg a,
                                   struct reg b)
{
    uint64_t address = f->function->low + 4 * (uint64_t)target;
    int64_t inside;
    const struct type_location *l = stack_variable(f, address, a.offset, &inside);
    if (!l || stack_variable(f, address, b.offset, &inside) != l)
        return unknown;
    a.loose = true;
    a.offset = a.offset < b.offset ? a.offset : b.offset;
    return a;
}

static void lead_to(struct flow *f, uint32_t target)
{
    struct block *b = &f->blocks[f->block_of[target] - 1];
    for (unsigned i = 0; i < STEP_REGS; i++) {
        struct reg r = meet(f->module, b->in[i], f->regs[i]);
        if (r.kind == REG_UNKNOWN && b->in[i].kind == REG_CFA && f->regs[i].kind == REG_CFA)
            r = meet_in_variable(f, target, b->in[i], f->regs[i]);
        f->changed |= !same_reg(&r, &b->in[i]);
        b->in[i] = r;
    }
}

static void one_pass(struct flow *f)
{
    f->changed = false;
    f->next = 0;
    f->frame = unknown;
    memset(f->active, 0, sizeof f->active);
    for (uint32_t i = 0; i < f->block_count; i++) {
        struct block *b = &f->blocks[i];
        uint32_t target;
        if (!b->root && b->in[STEP_SP].kind == REG_UNSEEN && !f->record)
            continue; /* no path leads here yet */
        begin_block(f, b);
        for (uint32_t n = b->first; n < b->end; n++) {
            begin_locations(f, f->function->low + 4 * (uint64_t)n, false);
            take_step(f, n);
        }
        if (f->record)
            continue;
        if (target_of(f, &f->steps[b->end - 1], &target))
            lead_to(f, target);
        if (goes_on(f, b->end - 1))
            lead_to(f, b->end);
    }
}

static void run(struct flow *f, uint8_t *bytes)
{
    f->steps = memory_get(f->count, sizeof *f->steps);
    for (uint32_t n = 0; n < f->count; n++)
        step_decode(le32(bytes + 4 * (size_t)n), f->function->low + 4 * (uint64_t)n, &f->steps[n]);
    make_blocks(f);
    unsigned passes = 0;
    do
        one_pass(f);
    while (f->changed && ++passes < PASSES);
    for (uint32_t i = 0; f->changed && i < f->block_count; i++)
        for (unsigned r = 0; r < STEP_REGS;
             r++) /* no fixed point: keep only what each block knows by itself */
            f->blocks[i].in[r] = unknown;
    f->record = true;
    one_pass(f);
}

void flow_run(struct spex_module *module, const struct type_function *function,
              struct type_code *code)
{
    struct flow f = {.module = module, .function = function, .code = code};
    size_t size = function->high - function->low < CODE_MOST
                      ? (size_t)(function->high - function->low)
                      : CODE_MOST;
    uint8_t *volatile bytes = memory_get(size + 4, 1);
    struct flow *volatile flow = &f;
    f.count = (uint32_t)(spex_module_read(module, function->low, bytes, size) / 4);
    bool done = !f.count || memory_guarded(memory_current(), run(flow, bytes));
    memory_free(bytes);
    memory_free(flow->steps);
    memory_free(flow->block_of);
    memory_free(flow->blocks);
    if (!done)
        memory_checked(NULL); /* an outer guard must also notice */
}
