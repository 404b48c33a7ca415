/* Blocks of guest code, kept by address and bytes; rows of exact counts. */
#include "need.h"
#include "plugin.h"

#include "uarch/none.h"

#include <spex/a64.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without a model: is the access known at block entry? A Store-Exclusive is not: it may fail. */
bool block_by_registers(const struct insn *insn)
{
    return insn->address.known && !(op_of(insn)->flags & SPEX_OPF_EXCL);
}

/* Rows for a block and its instructions; NULL if the disk is full. */
static struct run_truth *new_rows(size_t count)
{
    enum { ROWS = RUN_TRUTH / sizeof(struct run_truth) };
    if (!plugin.user.rows.row || plugin.user.rows.used + count > ROWS) {
        if (plugin.user.rows.chunks >=
            sizeof plugin.user.rows.chunk / sizeof plugin.user.rows.chunk[0])
            return NULL;
        void *map =
            task_map(plugin.user.process, ".truth",
                     (plugin.user.rows.base + plugin.user.rows.chunks) * (uint64_t)RUN_TRUTH,
                     RUN_TRUTH, NULL);
        if (!map)
            return NULL;
        plugin.user.rows.row = plugin.user.rows.chunk[plugin.user.rows.chunks++] = map;
        plugin.user.rows.used = 0;
    }
    struct run_truth *rows = plugin.user.rows.row + plugin.user.rows.used;
    plugin.user.rows.used += count;
    return rows;
}

struct run_call *block_new_call(void)
{
    struct run_call *row = (struct run_call *)(void *)new_rows(1);
    if (row)
        row->call = 1;
    return row;
}

static unsigned turn_of(const uint32_t *words, const struct spex_op *ops, size_t count)
{
    const struct spex_op *op = &ops[count - 1];
    unsigned turn = STACK_GOES_ON;
    if (op->kind == SPEX_OP_BRANCH && !(op->flags & SPEX_OPF_COND)) {
        if (op->flags & SPEX_OPF_LINK) /* BL to the next instruction asks for the PC */
            turn = words[count - 1] == 0x94000001 ? STACK_GOES_ON : STACK_CALL;
        else if (op->flags & SPEX_OPF_RETURN)
            turn = STACK_RETURN;
        else if (op->flags & SPEX_OPF_INDIRECT)
            turn = STACK_JUMP;
    }
    for (size_t i = 0; i < count; i++)
        if (stack_moves(words[i]))
            turn |= STACK_MOVES;
    return turn;
}

/*
 * Are the registers of instruction `at` exact in a callback before it? QEMU 7.2 has written a
 * register to memory by then only if it had to: before the next load, store or end of the block,
 * unless the register is overwritten first. (Vectors and predicates are always in memory.)
 */
static bool exact_before(const struct spex_op *ops, size_t count, size_t at)
{
    for (size_t i = at + 1; !regs_anywhere() && i < count && !accesses_memory(&ops[i]); i++)
        for (size_t d = 0; d < sizeof ops[i].dst; d++)
            for (size_t s = 0; s < sizeof ops[at].src; s++)
                if (ops[i].dst[d] < SPEX_REG_V0 && ops[i].dst[d] == ops[at].src[s])
                    return false;
    return true;
}

/* Decides how the address of a DC ZVA or prefetch is found. */
static void find_address(struct block *block, const struct spex_op *ops, size_t count, size_t i)
{
    struct insn *insn = &block->insns[i];
    bool prefetch = ops[i].kind == SPEX_OP_PREFETCH;
    if (prefetch && exact_before(ops, count, i)) {
        insn->asks = true;
        insn->address = address_trace(block->words + i, ops + i, 0);
        return;
    }
    insn->address = address_trace(block->words, ops, i);
    block->early |=
        insn->address.known && (ops[i].kind == SPEX_OP_DC_ZVA || (prefetch && plugin.user.full));
}

/*
 * Returns zeroed memory that is never freed, cut from pieces of up to a large page. Otherwise a
 * program of tens of thousands of blocks would spend as much time on page faults as on describing
 * blocks. Needs the lock.
 */
static void *keep(size_t size)
{
    enum { SMALLEST = 32 << 10, LARGE_PAGE = 2 << 20, ALIGN = 16 };
    static size_t piece = SMALLEST / 2, left;
    static char *at;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size > SMALLEST)
        return need(calloc(1, size));
    if (size > left) {
        piece = piece < LARGE_PAGE ? 2 * piece : piece;
        at = need(aligned_alloc(piece, piece));
        left = piece;
        if (piece == LARGE_PAGE)
            madvise(at, piece, MADV_HUGEPAGE);
    }
    void *found = memset(at, 0, size);
    left -= size;
    at += size;
    return found;
}

/* Blocks are never freed: a core may refer to them, and the same code may come back. */
static struct block *make_block(uint64_t pc, const uint32_t *words, size_t count)
{
    struct block *block = keep(sizeof *block);
    struct spex_op *ops = keep(count * sizeof *ops);
    uint32_t *copy = keep(count * sizeof *copy);
    block->insns = keep(count * sizeof *block->insns);
    memcpy(copy, words, count * sizeof *copy);
    block->words = copy;
    block->vl = plugin.user.vl;
    block->streaming = plugin.user.streaming;
    struct spex_a64_lengths lengths = {(uint16_t)plugin.user.vl,
                                       (uint16_t)(plugin.user.svl ? plugin.user.svl : 128)};
    struct run_truth *rows = plugin.user.truth ? new_rows(count + 1) : NULL;
    if (rows) {
        block->truth = rows;
        rows[0].pc = pc;
        rows[0].block = (uint32_t)count;
    }
    for (size_t i = 0; i < count; i++) {
        spex_a64_classify(words[i], plugin.user.vl ? &lengths : NULL, &ops[i]);
        unsigned size = ops[i].access_size;
        block->insns[i] = (struct insn){.block = block,
                                        .index = (uint32_t)i,
                                        .size = size == 1 || size == 2 || size == 4 ? size : 8};
        if (rows) {
            block->insns[i].truth = &rows[i + 1];
            rows[i + 1].pc = pc + 4 * i;
        }
    }
    if (!plugin.user.full)
        none_block_init(&plugin.run->model, &block->timing, pc, ops, count);
    else if (timing_block_init(plugin.user.timing, &block->timing, pc, ops, count))
        need(NULL);
    else
        block->timing.mean = detail_guess(count);
    if (plugin.user.stacks)
        block->turn = (uint8_t)turn_of(words, ops, count);
    for (size_t i = 0; i < count; i++) {
        if (plugin.user.vl && (ops[i].kind != SPEX_OP_SVE_PREFETCH || exact_before(ops, count, i)))
            block->insns[i].sve = sve_make(words[i], &ops[i]);
        if (plugin.user.registers && (accesses_memory(&ops[i]) || ops[i].kind == SPEX_OP_PREFETCH))
            find_address(block, ops, count, i);
    }
    block->timing.apart |= block->early || block->truth;
    return block;
}

struct block *block_get(uint64_t pc, const uint32_t *words, size_t count)
{
    struct block **slot =
        &plugin.user.blocks[(pc >> 2 ^ pc >> 18) % (sizeof plugin.user.blocks / sizeof *slot)];
    for (struct block *b = *slot; b; b = b->next)
        if (b->timing.pc == pc && b->timing.count == count && b->vl == plugin.user.vl &&
            b->streaming == plugin.user.streaming &&
            !memcmp(b->words, words, count * sizeof *words))
            return b;
    struct block *block = make_block(pc, words, count);
    block->next = *slot;
    *slot = block;
    return block;
}

void block_resumed(void)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%u.truth", plugin.user.process);
    int fd = plugin.user.truth ? task_open(name, O_RDONLY) : -1;
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0)
        plugin.user.rows.base = (size_t)st.st_size / RUN_TRUTH;
    if (fd >= 0)
        close(fd);
}

void block_forked(void)
{
    plugin.user.rows.base = 0;
    for (size_t i = 0; i < plugin.user.rows.chunks; i++) {
        struct run_truth *rows = plugin.user.rows.chunk[i];
        size_t n = RUN_TRUTH / sizeof *rows;
        struct run_truth *copy = need(malloc(n * sizeof *copy));
        for (size_t r = 0; r < n; r++)
            copy[r] = (struct run_truth){.pc = rows[r].pc,
                                         .block = rows[r].block,
                                         .call = rows[r].call,
                                         .cut = rows[r].call ? rows[r].cut : 0}; /* target */
        uint64_t at = i * (uint64_t)RUN_TRUTH;
        if (task_map(plugin.user.fork_id, ".truth", at, RUN_TRUTH, rows)) /* blocks point there */
            memcpy(rows, copy, n * sizeof *copy);
        free(copy);
    }
}
