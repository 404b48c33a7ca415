/* The last part of slow.c: the instruction side and the account of time. */

/* ---- the instruction side ---- */

static u64 fetch_line(struct core *k, u64 line, u64 t)
{
    const struct uarch_config *c = &k->slow->c;
    struct line victim;
    uarch_result r = 0;
    unsigned state, i;
    u64 page = page_of(k, line) + 1;
    for (i = 0; i < k->itlb_count && k->itlb[i] != page; i++)
        ;
    if (i == k->itlb_count) { /* newest last */
        if (k->itlb_count == c->itlb_entries)
            memmove(k->itlb, k->itlb + 1, --k->itlb_count * sizeof *k->itlb);
        k->itlb[k->itlb_count++] = page;
        t += translate_l2(k, line, &r);
        k->fetch = t; /* nothing is fetched meanwhile */
    }
    struct line *l = line_find(&k->l1i, line);
    if (l)
        return max(t, l->ready);
    k->counts.code_miss++;
    u64 ready = l2_ask(k, line, serve(&k->code_server, t), false, false, &state, &r);
    line_add(&k->l1i, (struct line){.line = line, .ready = ready}, &victim);
    for (unsigned n = 1; n <= c->pf_code; n++) {
        u64 next = line + n * 64;
        if (next / c->page_size != line / c->page_size || line_find(&k->l1i, next))
            continue;
        u64 there = l2_ask(k, next, serve(&k->code_server, t), false, false, &state, &r);
        line_add(&k->l1i, (struct line){.line = next, .ready = there}, &victim);
    }
    return ready;
}

/* ---- loads and stores ---- */

enum forwarded { NONE, ALL, SOME, FAILED };

/* So many bytes from va on: the youngest store that has any of them must have all, and well placed.
 */
static enum forwarded forward_part(struct core *k, u64 va, unsigned size, u64 t, u64 *data,
                                   u64 *left)
{
    const struct uarch_config *c = &k->slow->c;
    for (size_t i = k->stored_count; i-- && k->stored[i].number + c->stores >= k->stores;) {
        const struct store *s = &k->stored[i];
        if (s->va + s->size <= va || va + size <= s->va)
            continue;
        if (s->drain <= t)
            return NONE;
        *left = max(*left, s->drain);
        bool all = s->va <= va && va + size <= s->va + s->size;
        if (!all || (va != s->va && va != s->va + s->size / 2))
            return FAILED;
        *data = max(*data, max(t, s->data) + c->forward);
        return ALL;
    }
    return NONE;
}

/* What a load, or its halves if it has eight bytes, gets from stores that are in the buffer. */
static enum forwarded forwarded(struct core *k, u64 va, unsigned size, bool atomic, u64 *t,
                                u64 *data)
{
    u64 left = 0;
    *data = 0;
    if (!atomic && !line_find(&k->l1, va / 64 * 64))
        return NONE;
    unsigned half = size == 8 ? 4 : size;
    enum forwarded a = forward_part(k, va, half, *t, data, &left), b = a;
    if (size == 8)
        b = forward_part(k, va + 4, 4, *t, data, &left);
    if (a == FAILED || b == FAILED) {
        *t = left + k->slow->c.forward_fail;
        *data = 0;
        return FAILED;
    }
    k->counts.forwarded += a == ALL || b == ALL;
    return a == b ? a : SOME;
}

static u64 slow_load(struct core *k, u64 va, unsigned size, u64 issue, u64 pc, uarch_result *r)
{
    const struct uarch_config *c = &k->slow->c;
    uarch_result flags = 0, second;
    u64 translation = translate(k, va, &flags), done;
    bool crosses = va / 64 != (va + size - 1) / 64;
    if (crosses)
        translation += translate(k, va + size - 1, &flags);
    u64 t = issue + translation, data;
    *r = 0;
    if (forwarded(k, va, size, false, &t, &data) == ALL) {
        done = data;
    } else {
        done = read_line(k, va, t, pc, r);
        if (crosses) {
            done = max(done, read_line(k, va / 64 * 64 + 64, t, pc, &second));
            if ((second >> 16 & 0xffff) > (*r >> 16 & 0xffff))
                *r = second;
            flags |= SPEX_UARCH_SPLIT;
        }
        done = max(done, data);
    }
    if (va % c->align_load + size > c->align_load) {
        flags |= SPEX_UARCH_SPLIT;
        done += c->split_latency;
    }
    *r |= flags | translation << 32;
    return done;
}

static u64 stream_line(struct core *k, u64 line, u64 t, uarch_result *r)
{
    struct slow *s = k->slow;
    unsigned state;
    k->counts.l1_miss++;
    k->counts.streamed++;
    if (k->run_lines < s->c.streaming_far) {
        if (holder(k, line, &state))
            tell_others(k, line, 0);
        l2_put(k, line, MODIFIED, false, t);
        *r = result_of(SPEX_UARCH_L2, 0, 0);
        return t;
    }
    unsigned m = first_free(k->misses1, s->c.l1d_misses);
    u64 done = serve(&s->llc_server, max(t, k->misses1[m]));
    if (holder(k, line, &state))
        tell_others(k, line, 0);
    bool far = remote(k, line), hit = line_find(&s->llc, line);
    done = max(done, llc_put(k, line, true, done));
    k->misses1[m] = done;
    k->counts.l2_miss++;
    k->counts.llc_access++;
    k->counts.llc_miss += !hit;
    *r = result_of(!hit  ? SPEX_UARCH_DRAM
                   : far ? SPEX_UARCH_REMOTE
                         : SPEX_UARCH_LLC,
                   done - t, far ? SPEX_UARCH_SOCKET : 0);
    return done;
}

static u64 slow_own(struct core *k, u64 va, unsigned size, u64 t, u64 pc, bool atomic,
                    uarch_result *r, u64 *accepted)
{
    u64 line = va / 64 * 64, also, streaming = k->slow->c.streaming;
    uarch_result second;
    if (va != k->run_next) {
        k->run_begin = va;
        k->run_lines = 0;
    }
    k->run_next = va + size;
    bool begins = va == line && streaming && k->run_lines >= streaming &&
                  !line_find(&k->l1, line) && !line_find(&k->l2, line);
    if (k->run_next % 64 == 0 && k->run_begin <= line)
        k->run_lines += k->run_lines < 65535;
    *r = 0;
    *accepted = t;
    if (begins && !atomic) {
        k->stream_line = line;
        return *accepted = stream_line(k, line, t, r);
    }
    if (line == k->stream_line && !atomic)
        return t;
    if (atomic && line == k->left && t < k->left_at)
        return max(t, k->left_came);
    u64 done = own_line(k, va, t, pc, r, accepted);
    if (line != (va + size - 1) / 64 * 64) {
        done = max(done, own_line(k, line + 64, t, pc, &second, &also));
        *accepted = max(*accepted, also);
        if ((second >> 16 & 0xffff) > (*r >> 16 & 0xffff))
            *r = second;
        *r |= SPEX_UARCH_SPLIT;
    }
    return done;
}

static void keep_store(struct core *k, u64 va, unsigned size, u64 data)
{
    if (k->stored_count % 1024 == 0)
        k->stored = realloc(k->stored, (k->stored_count + 1024) * sizeof *k->stored);
    k->stored[k->stored_count++] = (struct store){k->stores, va, size, data, 0};
}

/* Access number n of the instruction at `at` in the block, or NULL. */
static const timing_access *nth(const struct timing_run *run, unsigned at, unsigned n)
{
    for (size_t i = 0; i < run->access_count; i++)
        if (run->access[i] >> 48 == at && n-- == 0)
            return &run->access[i];
    return NULL;
}

struct step {
    const struct spex_op *op;
    unsigned at, size;
    u64 pc, issue, done, accepted, latency;
    bool atomic;
};

static void do_load(struct core *k, struct timing_run *run, struct step *s)
{
    const timing_access *a;
    for (unsigned n = 0; (a = nth(run, s->at, n)); n++) {
        u64 there = slow_load(k, *a & 0xffffffffffffull, s->size, s->issue, s->pc,
                              &run->results[a - run->access]);
        s->done = n ? max(s->done, there) : there;
    }
}

static void do_store(struct core *k, struct timing_run *run, struct step *s)
{
    const struct uarch_config *c = &k->slow->c;
    const timing_access *a;
    u64 t = s->issue, data,
        align = s->op->kind == SPEX_OP_DC_ZVA  ? 64
                : s->op->flags & SPEX_OPF_LOAD ? c->align_load
                                               : c->align_store;
    uarch_result extra[64];
    size_t before = k->stored_count;
    for (unsigned n = 0; (a = nth(run, s->at, n)); n++) {
        u64 va = *a & 0xffffffffffffull, end = va + s->size - 1, translation;
        extra[n] = 0;
        translation = translate(k, va, &extra[n]);
        if (va / 64 != end / 64)
            translation += translate(k, end, &extra[n]);
        if (va % align + s->size > align) {
            extra[n] |= SPEX_UARCH_SPLIT;
            t = max(t, s->issue + c->split_latency);
        }
        t = max(t, s->issue + translation);
        extra[n] |= translation << 32;
        if (s->atomic && forwarded(k, va, s->size, true, &t, &data) != NONE)
            t = max(t, data);
    }
    s->done = s->accepted = t + s->latency;
    for (unsigned n = 0; (a = nth(run, s->at, n)); n++) {
        u64 accepted, va = *a & 0xffffffffffffull;
        uarch_result *r = &run->results[a - run->access];
        u64 there =
            slow_own(k, va, s->size, s->atomic ? t : s->done, s->pc, s->atomic, r, &accepted);
        if (s->atomic)
            s->done = max(s->done, there + s->latency);
        s->accepted = max(s->accepted, accepted);
        keep_store(k, va, s->size, s->done);
        *r |= extra[n];
    }
    if (s->atomic) {
        s->accepted = max(s->accepted, s->done);
        for (size_t i = before; i < k->stored_count; i++)
            k->stored[i].data = s->done;
    }
}

/* What a prefetch instruction asks for: it waits until it has asked, not until it has it. */
static void do_hint(struct core *k, struct timing_run *run, struct step *s)
{
    const struct uarch_config *c = &k->slow->c;
    const timing_access *a;
    unsigned level = s->op->prefetch & SPEX_PREFETCH_LEVEL, state, m;
    bool write = s->op->prefetch & SPEX_PREFETCH_WRITE;
    for (unsigned n = 0; (a = nth(run, s->at, n)); n++) {
        u64 va = *a & 0xffffffffffffull, line = va / 64 * 64, t = s->issue;
        uarch_result r = 0;
        run->results[a - run->access] = 0;
        if (level == 0)
            continue;
        t += translate(k, va, &r);
        s->done = max(s->done, t);
        if (line_find(level == 1 ? &k->l1 : &k->l2, line))
            continue;
        if (level == 3 && (holder(k, line, &state) || line_use(&k->slow->llc, line)))
            continue;
        k->counts.prefetch++;
        if (level == 1) {
            m = first_free(k->misses1, c->l1d_misses);
            t = max(t, k->misses1[m]);
            k->misses1[m] = l2_ask(k, line, t, write, false, &state, &r);
            l1_put(k, line, state, true, k->misses1[m], r);
            if (k->stream_line == line)
                k->stream_line = 0;
        } else {
            m = first_free(k->misses2, c->l2_misses);
            t = max(t, k->misses2[m]);
            if (level == 2)
                l2_ask(k, line, t, write, false, &state, &r);
            else
                k->misses2[m] = from_memory(k, line, t, &r);
        }
        s->done = max(s->done, t);
    }
}

static void leave_buffer(struct core *k, size_t before, u64 when)
{
    if (when > k->drain) {
        k->drain = when;
        k->drained = 1;
    } else if (++k->drained > k->slow->c.pipes_store) {
        k->drain++;
        k->drained = 1;
    }
    k->store_drain = realloc(k->store_drain, (k->stores + 1) * sizeof *k->store_drain);
    k->store_drain[k->stores++] = k->drain;
    for (size_t i = before; i < k->stored_count; i++)
        k->stored[i].drain = k->drain;
}

/* ---- instructions ---- */

static bool is_memory(const struct spex_op *op)
{
    return op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) && op->kind != SPEX_OP_BRANCH;
}

static bool is_base(const struct spex_op *op, unsigned d)
{
    unsigned last = 0;
    for (unsigned i = 0; i < 4; i++)
        if (op->dst[i] != SPEX_REG_NONE)
            last = i;
    if (!is_memory(op) || op->flags & SPEX_OPF_EXCL)
        return false;
    if (!(op->flags & SPEX_OPF_LOAD))
        return true;
    bool source = false;
    for (unsigned i = 0; i < 5; i++)
        source |= op->src[i] == op->dst[d];
    return d > 0 && d == last && source;
}

/* Dispatch is counted in parts of a cycle, such that width and pipes divide it. */
static u64 cycle_of(const struct uarch_config *c)
{
    u64 n = 1;
    while (n < 5040 &&
           (n % c->width || n % c->pipes_alu || n % c->pipes_mul || n % c->pipes_branch ||
            n % c->pipes_fp || n % c->pipes_load || n % c->pipes_store || n % (c->btb_pairs + 1)))
        n++;
    return n;
}

static void slow_latencies(const struct uarch_config *c, uint16_t latency[])
{
    const uint32_t table[SPEX_EXEC_CLASS_COUNT] = {
        [SPEX_EXEC_NOP] = 1,
        [SPEX_EXEC_ALU] = c->lat_alu,
        [SPEX_EXEC_SHIFT] = c->lat_shift,
        [SPEX_EXEC_MUL] = c->lat_mul,
        [SPEX_EXEC_DIV] = c->lat_div,
        [SPEX_EXEC_BRANCH] = c->lat_branch,
        [SPEX_EXEC_LOAD] = c->l1d_latency,
        [SPEX_EXEC_STORE] = c->lat_store,
        [SPEX_EXEC_ATOMIC] = c->l1d_latency + c->lat_atomic,
        [SPEX_EXEC_FP_MOVE] = c->lat_fpmove,
        [SPEX_EXEC_FP_ADD] = c->lat_fpadd,
        [SPEX_EXEC_FP_MUL] = c->lat_fpmul,
        [SPEX_EXEC_FP_FMA] = c->lat_fpfma,
        [SPEX_EXEC_FP_DIV] = c->lat_fpdiv,
        [SPEX_EXEC_FP_SQRT] = c->lat_fpsqrt,
        [SPEX_EXEC_FP_CVT] = c->lat_fpcvt,
        [SPEX_EXEC_SIMD_ALU] = c->lat_simd,
        [SPEX_EXEC_SIMD_MUL] = c->lat_simdmul,
        [SPEX_EXEC_CRYPTO] = c->lat_crypto,
        [SPEX_EXEC_SVE] = c->lat_sve,
        [SPEX_EXEC_SME] = c->lat_system,
        [SPEX_EXEC_SYSTEM] = c->lat_system,
        [SPEX_EXEC_BARRIER] = c->lat_barrier,
    };
    for (unsigned i = 0; i < SPEX_EXEC_CLASS_COUNT; i++)
        latency[i] = (uint16_t)table[i];
}

static void one(struct core *k, const struct spex_op *op, u64 pc, unsigned at,
                struct timing_run *run, const uint16_t *latency)
{
    const struct uarch_config *c = &k->slow->c;
    const u64 CYCLE = k->slow->cycle;
    bool load = is_memory(op) && !(op->flags & SPEX_OPF_STORE);
    bool store = is_memory(op) && op->flags & SPEX_OPF_STORE;
    bool divide =
        op->exec == SPEX_EXEC_DIV || op->exec == SPEX_EXEC_FP_DIV || op->exec == SPEX_EXEC_FP_SQRT;
    if (k->instructions >= c->rob)
        k->dispatch = max(k->dispatch, k->retire[k->instructions - c->rob] * CYCLE);
    if (load && k->loads >= c->loads)
        k->dispatch = max(k->dispatch, k->load_retire[k->loads - c->loads] * CYCLE);
    if (store && k->stores >= c->stores)
        k->dispatch = max(k->dispatch, k->store_drain[k->stores - c->stores] * CYCLE);
    u64 dispatch = k->dispatch / CYCLE, issue = dispatch + 1;
    k->dispatch += (CYCLE + c->width - 1) / c->width;
    for (unsigned i = 0; i < 5; i++)
        if (op->src[i] < SPEX_REG_COUNT)
            issue = max(issue, k->ready[op->src[i]]);
    unsigned size = op->kind == SPEX_OP_DC_ZVA ? 64 : op->access_size;
    struct step s = {.op = op,
                     .at = at,
                     .size = size,
                     .pc = pc,
                     .issue = issue,
                     .latency = latency[op->exec],
                     .atomic =
                         op->flags & (SPEX_OPF_ATOMIC | SPEX_OPF_EXCL | SPEX_OPF_STATUS_RESULT)};
    size_t before = k->stored_count;
    if (divide)
        s.issue = max(s.issue, k->busy[op->exec != SPEX_EXEC_DIV]);
    if (op->exec == SPEX_EXEC_BARRIER)
        s.issue = max(s.issue, max(k->clock, k->drain));
    s.done = s.issue + s.latency;
    if (divide)
        k->busy[op->exec != SPEX_EXEC_DIV] = s.done;
    if (load)
        do_load(k, run, &s);
    if (op->kind == SPEX_OP_PREFETCH)
        do_hint(k, run, &s);
    if (store)
        do_store(k, run, &s);
    if (op->exec == SPEX_EXEC_BARRIER)
        k->dispatch = max(k->dispatch, s.done * CYCLE);
    for (unsigned d = 0; d < 4; d++)
        if (op->dst[d] < SPEX_REG_COUNT)
            k->ready[op->dst[d]] = s.done;
    for (unsigned d = 0; d < 4; d++)
        if (op->dst[d] < SPEX_REG_COUNT && is_base(op, d))
            k->ready[op->dst[d]] = s.issue + c->lat_alu;
    k->clock = max(k->clock, s.done);
    k->retire = realloc(k->retire, (k->instructions + 1) * sizeof *k->retire);
    k->retire[k->instructions++] = k->clock;
    if (load) {
        k->load_retire = realloc(k->load_retire, (k->loads + 1) * sizeof *k->load_retire);
        k->load_retire[k->loads++] = k->clock;
    }
    if (store)
        leave_buffer(k, before, max(k->clock, s.accepted));
    run->insns[at] = (struct account_insn){dispatch, s.issue, s.done, k->clock};
}

/* Dispatch that the ports of a block take beyond that of its instructions. */
static u64 extra_of(const struct slow *slow, const struct spex_op *ops, size_t count)
{
    const struct uarch_config *c = &slow->c;
    const u64 CYCLE = slow->cycle;
    u64 used[6] = {0}, own = count * ((CYCLE + c->width - 1) / c->width), extra = 0;
    const unsigned pipes[6] = {c->pipes_alu, c->pipes_mul,  c->pipes_branch,
                               c->pipes_fp,  c->pipes_load, c->pipes_store};
    for (size_t i = 0; i < count; i++) {
        unsigned e = ops[i].exec, times = 1;
        if (e == SPEX_EXEC_NOP)
            continue;
        if ((e == SPEX_EXEC_LOAD || e == SPEX_EXEC_ATOMIC || e == SPEX_EXEC_STORE) &&
            ops[i].kind != SPEX_OP_DC_ZVA)
            while (16 * times < ops[i].access_bytes)
                times++;
        used[e == SPEX_EXEC_ALU ? 0
             : e == SPEX_EXEC_SHIFT || e == SPEX_EXEC_MUL || e == SPEX_EXEC_DIV ||
                     e == SPEX_EXEC_SYSTEM || e == SPEX_EXEC_BARRIER
                 ? 1
             : e == SPEX_EXEC_BRANCH                        ? 2
             : e == SPEX_EXEC_LOAD || e == SPEX_EXEC_ATOMIC ? 4
             : e == SPEX_EXEC_STORE                         ? 5
                                                            : 3] += times * CYCLE;
    }
    for (unsigned p = 0; p < 6; p++)
        if ((used[p] + pipes[p] - 1) / pipes[p] > own + extra)
            extra = (used[p] + pipes[p] - 1) / pipes[p] - own;
    return extra;
}

/* Is the branch in the list? Then it stays where it is. */
static bool known(const u64 *list, unsigned count, u64 pc)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i] == pc)
            return true;
    return false;
}

/* Puts so many entries of the branch last; only the newest `most` stay. */
static unsigned newest(u64 *list, unsigned count, u64 pc, unsigned entries, unsigned most)
{
    while (entries--) {
        if (count == most)
            memmove(list, list + 1, --count * sizeof *list);
        list[count++] = pc;
    }
    return count;
}

/* The last buffer; its line numbers are of 32 bytes of code. True: it has the branch. */
static bool last_buffer(struct core *k, u64 pc, bool *dense)
{
    struct line victim;
    u64 region = pc / 32 * 64, at = pc % 32 / 4;
    bool has = line_find(&k->btb, region + at);
    if (!has) {
        line_add(&k->btb, (struct line){.line = region + at}, &victim);
        k->counts.btb_miss++;
    }
    *dense = false;
    for (u64 other = at + 1; other < 8; other++)
        *dense |= line_find(&k->btb, region + other) != NULL;
    return has;
}

/* How late the target of a taken branch is, in parts; own is what its block's dispatch takes. */
static u64 late_of(struct core *k, u64 block, u64 pc, bool cond, bool direct, u64 own)
{
    const struct uarch_config *c = &k->slow->c;
    const u64 CYCLE = k->slow->cycle;
    u64 least = CYCLE;
    if (!known(k->near.pc, k->near.count, block) ||
        (c->btb_pairs && cond && !known(k->near.pc, k->near.count, block + 1))) {
        bool has = true, dense;
        least = c->btb_mid_cycles * CYCLE;
        if (!known(k->mid.pc, k->mid.count, block)) {
            has = last_buffer(k, pc, &dense);
            least = (c->btb_cycles + (dense ? c->btb_dense : 0)) * CYCLE;
            if (c->btb_mid)
                k->mid.count = newest(k->mid.pc, k->mid.count, block, 1, c->btb_near + c->btb_mid);
        }
        k->near.count =
            newest(k->near.pc, k->near.count, block + (c->btb_pairs && cond), 1, c->btb_near);
        if (c->btb_pairs && cond)
            k->near.count = newest(k->near.pc, k->near.count, block, 1, c->btb_near);
        if (!has)
            return c->btb_miss * CYCLE;
    }
    if (c->btb_pairs && direct)
        least /= 2;
    return least > own ? least - own : 0;
}

/* What the end of a block that begins at `block` costs in parts; sets *wrong. */
static u64 end_of_block(struct core *k, const struct spex_op *op, u64 block, u64 pc, u64 next,
                        u64 own, bool *wrong)
{
    const struct uarch_config *c = &k->slow->c;
    bool taken = true, cond = op->flags & SPEX_OPF_COND;
    bool direct = !(op->flags & (SPEX_OPF_COND | SPEX_OPF_INDIRECT | SPEX_OPF_RETURN));
    if (op->kind != SPEX_OP_BRANCH)
        return 0;
    if (cond) {
        taken = next != pc + 4;
        *wrong = predict_direction(k, pc, taken);
    } else if (op->flags & SPEX_OPF_RETURN) {
        *wrong = k->ras[k->ras_top-- % c->ras_depth] != next;
    } else if (op->flags & SPEX_OPF_INDIRECT) {
        *wrong = predict_target(k, pc, next);
    }
    if (op->flags & SPEX_OPF_LINK)
        k->ras[++k->ras_top % c->ras_depth] = pc + 4;
    k->counts.mispredict += *wrong;
    return taken ? late_of(k, block, pc, cond, direct, own) : 0;
}

void slow_run(struct slow *slow, unsigned core, const struct spex_op *ops, uint64_t pc,
              size_t count, struct timing_run *run)
{
    struct core *k = &slow->core[core];
    const struct uarch_config *c = &slow->c;
    const u64 CYCLE = slow->cycle;
    uint16_t latency[SPEX_EXEC_CLASS_COUNT];
    slow_latencies(c, latency);
    u64 first = k->dispatch / CYCLE, there = k->fetch;
    for (u64 line = pc / 64 * 64; line < pc + 4 * count; line += 64)
        there = max(there, fetch_line(k, line, k->fetch));
    k->dispatch = max(k->dispatch, there * CYCLE);
    for (unsigned i = 0; i < run->executed; i++)
        one(k, &ops[i], pc + 4 * i, i, run, latency);
    k->fetch = max(k->fetch, first);
    run->mispredicted = false;
    if (run->cut) {
        k->fetch = k->clock + c->mispredict;
        return;
    }
    u64 extra = extra_of(slow, ops, count), own = count * ((CYCLE + c->width - 1) / c->width);
    k->dispatch += extra;
    u64 late = end_of_block(k, &ops[count - 1], pc, pc + 4 * (count - 1), run->next, own + extra,
                            &run->mispredicted);
    if (run->mispredicted) {
        k->fetch = run->insns[count - 1].done;
        k->dispatch = max(k->dispatch, (k->fetch + c->mispredict) * CYCLE);
    } else {
        k->dispatch += late;
    }
}

void slow_spend(struct slow *slow, unsigned core, uint64_t cycles)
{
    struct core *k = &slow->core[core];
    k->counts.kernel += cycles;
    k->clock += cycles;
    k->fetch = k->clock;
    k->dispatch = k->clock * slow->cycle;
}

void slow_counts(struct slow *slow, unsigned core, struct uarch_counts *counts)
{
    *counts = slow->core[core].counts;
}

/* ---- making ---- */

static void make_core(struct slow *s, unsigned id)
{
    const struct uarch_config *c = &s->c;
    struct core *k = &s->core[id];
    k->slow = s;
    k->id = id;
    k->cluster = id / c->cluster;
    k->socket = c->sockets == 2 ? k->cluster % 2 : 0;
    k->l1 = cache_of(c->l1d_size / 64, c->l1d_ways);
    k->l2 = cache_of(c->l2_size / 64, c->l2_ways);
    k->l1i = cache_of(c->l1i_size / 64, c->l1i_ways);
    k->btb = cache_of(c->btb_entries, c->btb_ways);
    k->tlb = cache_of(c->tlb_entries, c->tlb_entries);
    k->tlb2 = cache_of(c->tlb2_entries, c->tlb2_ways);
    k->walk = calloc(c->walk_entries, sizeof *k->walk);
    k->itlb = calloc(c->itlb_entries, sizeof *k->itlb);
    k->l2_server.lines = c->l2_lines;
    k->mesh_server.lines = c->mesh_lines;
    k->code_server.lines = c->l2_code;
    k->base = malloc(1u << c->base_bits);
    memset(k->base, 1, 1u << c->base_bits);
    for (unsigned i = 0; i < 8; i++) {
        k->tagged[i] = calloc(1u << c->tage_bits, sizeof **k->tagged);
        k->target[i] = calloc(1u << c->ittage_bits, sizeof **k->target);
    }
}

struct slow *slow_new(const struct uarch_config *config, unsigned cores)
{
    struct slow *s = calloc(1, sizeof *s);
    s->c = *config;
    s->cycle = cycle_of(config);
    s->llc = cache_of(config->llc_size / 64, config->llc_ways);
    s->llc_server.lines = config->llc_lines;
    s->dram[0].lines = s->dram[1].lines = config->dram_lines;
    s->link.lines = config->remote_lines;
    s->cores = cores;
    s->core = calloc(cores, sizeof *s->core);
    for (unsigned i = 0; i < cores; i++)
        make_core(s, i);
    return s;
}

void slow_free(struct slow *s)
{
    for (unsigned i = 0; i < s->cores; i++) {
        struct core *k = &s->core[i];
        cache_free(&k->l1), cache_free(&k->l2), cache_free(&k->l1i), cache_free(&k->btb);
        cache_free(&k->tlb), cache_free(&k->tlb2);
        free(k->walk), free(k->itlb), free(k->l2_server.taken), free(k->base);
        free(k->mesh_server.taken), free(k->code_server.taken);
        free(k->retire), free(k->load_retire), free(k->store_drain), free(k->stored);
        free(k->history);
        for (unsigned t = 0; t < 8; t++)
            free(k->tagged[t]), free(k->target[t]);
    }
    cache_free(&s->llc);
    free(s->llc_server.taken), free(s->dram[0].taken), free(s->dram[1].taken), free(s->link.taken);
    free(s->homes);
    free(s->core);
    free(s);
}
