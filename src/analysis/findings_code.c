/* Tells from the code which case (findings.h) applies to an instruction that takes time. */
#include "findings.h"

#include "internal.h"
#include "step.h"

#include "base/memory.h"

#include <spex/a64.h>

enum { LOOP_MOST = 512, DEEP = 16, PAGE = 4096, NEXT = 64 };

static bool word_at(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                    uint32_t *word)
{
    uint8_t b[4];
    if (!module || analysis_read(analysis, module, address, b, sizeof b) != sizeof b)
        return false;
    *word = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return true;
}

static bool op_at(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                  struct spex_op *op)
{
    uint32_t word;
    return word_at(analysis, module, address, &word) && !spex_a64_classify(word, NULL, op);
}

/* ---- addresses ---- */

/* The instructions of the smallest loop around an instruction. */
struct loop {
    struct step steps[LOOP_MOST];
    unsigned count;
    uint64_t start, end;
};

static bool find_loop(struct spex_analysis *analysis, struct spex_module *module,
                      const struct spex_symbol *symbol, uint64_t address, struct loop *loop)
{
    uint64_t low = symbol ? symbol->start : 0, high = symbol ? symbol->end : 0, to;
    uint32_t word;
    for (uint64_t at = address; at < high && at < address + 4 * LOOP_MOST; at += 4) {
        if (!word_at(analysis, module, at, &word))
            return false;
        struct spex_op op;
        if (!spex_a64_target(word, at, &to) || to > address || to < low ||
            at - to >= 4 * LOOP_MOST || spex_a64_classify(word, NULL, &op) ||
            op.flags & SPEX_OPF_LINK)
            continue;
        loop->count = 0;
        loop->start = to;
        loop->end = at + 4;
        for (uint64_t k = to; k <= at; k += 4)
            if (word_at(analysis, module, k, &word))
                step_decode(word, k, &loop->steps[loop->count++]);
        return true;
    }
    return false;
}

/* What happens to a register from one iteration to the next. */
enum motion { FIXED, STEPS, LOADED, CHASED, OTHERWISE };

static bool writes(const struct step *s, unsigned reg)
{
    if (s->kind == STEP_MEMORY)
        return s->rd == reg || s->rm == reg || (s->writeback && s->rn == reg) ||
               s->kills >> reg & 1;
    if (s->kind == STEP_OTHER)
        return s->kills >> reg & 1;
    if (s->kind == STEP_CALL)
        return reg < 19 || reg == 30; /* the callee may change it */
    return (s->kind < STEP_BRANCH && s->rd == reg) || s->kills >> reg & 1;
}

/* `seen`: a bit for each register that is being looked at. */
static enum motion change_of(const struct loop *loop, unsigned reg, uint32_t seen, int64_t *by)
{
    const struct step *writer = NULL;
    *by = 0;
    if (reg >= STEP_SP)
        return FIXED;
    if (seen >> reg & 1)
        return OTHERWISE;
    seen |= UINT32_C(1) << reg;
    for (unsigned i = 0; i < loop->count; i++)
        if (writes(&loop->steps[i], reg)) {
            if (writer && writer->kind != STEP_MEMORY)
                return OTHERWISE;
            if (!writer || loop->steps[i].kind == STEP_MEMORY)
                writer = &loop->steps[i];
        }
    if (!writer)
        return FIXED;
    int64_t more;
    if (writer->kind == STEP_MEMORY && writer->writeback && writer->rn == reg) {
        *by = writer->change;
        return writer->change == INT64_MIN ? OTHERWISE : STEPS;
    }
    if (writer->kind == STEP_MEMORY && (writer->rd == reg || writer->rm == reg)) {
        if (writer->literal)
            return FIXED;
        if (writer->rn < STEP_SP && seen >> writer->rn & 1)
            return CHASED;
        return change_of(loop, writer->rn, seen, &more) == CHASED ? CHASED : LOADED;
    }
    if (writer->kind == STEP_ADD && writer->rn == reg) {
        *by = (int64_t)writer->value;
        return STEPS;
    }
    if (writer->kind == STEP_ADD) { /* a copy, or near it */
        if (writer->rn < STEP_SP && seen >> writer->rn & 1)
            return STEPS;
        return change_of(loop, writer->rn, seen, by);
    }
    if (writer->kind == STEP_SET)
        return FIXED;
    if (writer->kind == STEP_SHIFT || writer->kind == STEP_SUM) {
        int64_t other = 0;
        enum motion a = change_of(loop, writer->rn, seen, by), b = FIXED;
        if (writer->kind == STEP_SHIFT)
            *by = a == STEPS ? (int64_t)((uint64_t)*by << writer->shift) : 0;
        else if (writer->rm == STEP_NONE)
            b = OTHERWISE;
        else
            b = change_of(loop, writer->rm, seen, &other);
        other = b == STEPS ? (int64_t)((uint64_t)other << writer->shift) : 0;
        *by += other;
        return a > b ? a : b;
    }
    return OTHERWISE;
}

enum spex_finding_case code_address_case(struct spex_analysis *analysis, struct spex_module *module,
                                         const struct spex_symbol *symbol, uint64_t address,
                                         int64_t *stride)
{
    struct loop *loop = memory_new(sizeof *loop);
    struct step step;
    uint32_t word;
    enum spex_finding_case how = SPEX_CASE_ANY;
    *stride = 0;
    if (loop && word_at(analysis, module, address, &word) &&
        find_loop(analysis, module, symbol, address, loop)) {
        step_decode(word, address, &step);
        if (step.kind == STEP_MEMORY && !step.literal) {
            int64_t base = 0, index = 0;
            enum motion a = change_of(loop, step.rn, 0, &base), b = FIXED;
            if (step.index < STEP_SP)
                b = change_of(loop, step.index, 0, &index);
            *stride = (a == STEPS ? base : 0) +
                      (b == STEPS ? (int64_t)((uint64_t)index << step.shift) : 0);
            const uint64_t far = (uint64_t)(*stride < 0 ? -*stride : *stride);
            const enum motion worse = a > b ? a : b;
            how = worse == CHASED              ? SPEX_CASE_CHASE
                  : worse == LOADED            ? SPEX_CASE_GATHER
                  : worse == OTHERWISE         ? SPEX_CASE_COMPUTED
                  : worse == FIXED || far == 0 ? SPEX_CASE_ANY
                  : far <= NEXT                ? SPEX_CASE_STREAM
                  : far < PAGE                 ? SPEX_CASE_STRIDE
                                               : SPEX_CASE_PAGES;
        }
    }
    memory_free(loop);
    return how;
}

void code_loop(struct spex_analysis *analysis, struct spex_module *module,
               const struct spex_symbol *symbol, uint64_t address, uint64_t *start, uint64_t *end)
{
    struct loop *loop = memory_new(sizeof *loop);
    const bool found = loop && find_loop(analysis, module, symbol, address, loop);
    *start = found ? loop->start : address;
    *end = found ? loop->end : address + 4;
    memory_free(loop);
}

/* ---- branches ---- */

enum spex_finding_case code_branch_case(struct spex_analysis *analysis, struct spex_module *module,
                                        uint64_t address)
{
    uint32_t word;
    uint64_t to;
    struct spex_op op;
    if (!word_at(analysis, module, address, &word) || spex_a64_classify(word, NULL, &op))
        return SPEX_CASE_ANY;
    if (op.flags & SPEX_OPF_RETURN)
        return SPEX_CASE_RETURN;
    if (op.flags & SPEX_OPF_INDIRECT)
        return op.flags & SPEX_OPF_LINK ? SPEX_CASE_CALL : SPEX_CASE_JUMP;
    if (!spex_a64_target(word, address, &to) || to > address)
        return SPEX_CASE_CONDITION;
    /* a branch that stays in the same loop does not end it */
    for (uint64_t at = address + 4; at < address + 4 * LOOP_MOST; at += 4) {
        uint64_t other;
        if (!word_at(analysis, module, at, &word) || spex_a64_classify(word, NULL, &op) ||
            op.flags & SPEX_OPF_RETURN)
            break;
        if (!(op.flags & SPEX_OPF_LINK) && spex_a64_target(word, at, &other) && other == to)
            return SPEX_CASE_CONDITION;
    }
    return SPEX_CASE_LOOP;
}

/* ---- operations that depend on each other ---- */

static bool divides(unsigned exec)
{
    return exec == SPEX_EXEC_DIV || exec == SPEX_EXEC_FP_DIV || exec == SPEX_EXEC_FP_SQRT;
}

unsigned code_access_bytes(struct spex_analysis *analysis, struct spex_module *module,
                           uint64_t address)
{
    struct spex_op op;
    return op_at(analysis, module, address, &op) ? op.access_bytes : 0;
}

bool code_divides(struct spex_analysis *analysis, struct spex_module *module, uint64_t address)
{
    struct spex_op op;
    return op_at(analysis, module, address, &op) && divides(op.exec);
}

enum spex_finding_kind code_circle(struct spex_analysis *analysis, struct spex_module *module,
                                   uint64_t address, uint64_t *first, bool *inside)
{
    struct {
        struct spex_module *module;
        uint64_t address;
        bool stores; /* loads what the next operation stored */
    } way[DEEP];
    unsigned count = 0, begin = DEEP;
    while (count < DEEP && begin == DEEP) {
        way[count].module = module;
        way[count].address = address;
        struct spex_wait wait;
        if (!spex_analysis_waits_for(analysis, module, address, &wait))
            return SPEX_FINDING_COUNT;
        way[count++].stores = wait.stores;
        module = wait.module;
        address = wait.address;
        for (unsigned i = 0; i < count && begin == DEEP; i++)
            if (way[i].module == module && way[i].address == address)
                begin = i;
    }
    if (begin == DEEP)
        return SPEX_FINDING_COUNT;
    bool loads = false, others = false, stored = false, division = false;
    *first = UINT64_MAX;
    *inside = begin == 0;
    for (unsigned i = begin; i < count; i++) {
        struct spex_op op;
        if (!op_at(analysis, way[i].module, way[i].address, &op) || op.flags & SPEX_OPF_EXCL)
            return SPEX_FINDING_COUNT; /* a counter or lock in memory that may be shared */
        const unsigned exec = op.exec;
        division |= divides(exec);
        stored |= way[i].stores;
        loads |= exec == SPEX_EXEC_LOAD;
        others |= exec != SPEX_EXEC_LOAD && exec != SPEX_EXEC_ALU && exec != SPEX_EXEC_SHIFT &&
                  exec != SPEX_EXEC_BRANCH && exec != SPEX_EXEC_STORE && exec != SPEX_EXEC_NOP &&
                  exec != SPEX_EXEC_FP_MOVE;
        *first = way[i].address < *first ? way[i].address : *first;
    }
    return division ? SPEX_FINDING_DIVISION
           : stored ? SPEX_FINDING_STORE_FORWARDING
           : loads  ? SPEX_FINDING_DEPENDENT_LOADS
           : others ? SPEX_FINDING_DEPENDENT_CHAIN
                    : SPEX_FINDING_COUNT;
}

/* SWPA, SWPAL; CASA, CASAL; LDAXR, LDAXP (C6.2): of a register's size or less. */
bool code_takes_lock(struct spex_analysis *analysis, struct spex_module *module, uint64_t address)
{
    uint32_t word;
    return word_at(analysis, module, address, &word) &&
           ((word & 0x3fa0fc00) == 0x38a08000 || (word & 0x3fe07c00) == 0x08e07c00 ||
            (word & 0x3fff8000) == 0x085f8000 || (word & 0xbfff8000) == 0x887f8000);
}
