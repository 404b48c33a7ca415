/*
 * The plugin in user mode: starting it, and choosing what to watch in each block that QEMU
 * translates. hot.c has what happens when blocks run.
 */
#include "user.h"

#include "clock.h"
#include "elf_file.h"
#include "engine.h"
#include "need.h"
#include "plugin.h"
#include "regs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- markers ---- */

/*
 * data: the function's address, plus 1 if it starts sampling. Called before the block's own
 * callback.
 */
static void on_marker(unsigned vcpu, void *data)
{
    uint64_t value = (uintptr_t)data;
    struct vcpu *v = plugin.hot[vcpu].vcpu;
    if (plugin.user.full) {
        flow_mark(v, FLOW_REGION, value);
        return;
    }
    __atomic_store_n(&plugin.run->disabled, !(value & 1), __ATOMIC_RELAXED);
    sample_marker(v, value & ~UINT64_C(3));
}

/* Finds the marker functions in this program. */
static void find_markers(const struct program *program)
{
    const char *path = program->path;
    const char *names[2] = {plugin.run->stop_at, plugin.run->start_at};
    struct elf elf;
    uint64_t lowest = UINT64_MAX, address;
    if (!plugin.run->regions || elf_read(path, &elf))
        return;
    for (unsigned i = 0; i < elf.segments; i++)
        if (elf.segment[i].prot & 4 && elf.segment[i].vaddr < lowest)
            lowest = elf.segment[i].vaddr;
    for (unsigned i = 0; i < 2; i++)
        if (names[i][0] && elf_function(path, names[i], &address))
            plugin.user.marker[i] = address - lowest + program->start;
}

/* ---- the program, and its blocks ---- */

static void no_registers(void)
{
    plugin.run->no_registers = 1;
    if (plugin.user.stacks)
        plugin.run->no_stacks = 1;
    plugin.user.registers = plugin.user.stacks = plugin.user.allocs = false;
}

/* QEMU loads the program after it has made the first vCPU. */
static void log_program(uint64_t pc)
{
    struct program *p = &plugin.user.program;
    if (!plugin.hot[0].vcpu)
        life_vcpu(0);
    struct vcpu *v = plugin.hot[0].vcpu;
    uint64_t now = clock_of(v), end;
    if (plugin.user.registers && !regs_find(pc))
        no_registers();
    plugin.user.copies = plugin.user.stacks && !regs_places();
    uint64_t sp = plugin.user.registers ? regs_read(0, 31) : 0;
    program_find(p, pc, sp, plugin.user.registers);
    struct run_event comm = {.type = RUN_COMM, .time = now, .flags = 1};
    struct run_event image = {
        .type = RUN_IMAGE, .time = now, .a = p->start, .b = p->end, .c = p->entry};
    task_log(&v->task, &comm, plugin.user.name[0] ? plugin.user.name : "?");
    task_log(&v->task, &image, p->path);
    if (p->path[0])
        find_markers(p);
    if (p->path[0] && plugin.user.allocs)
        allocs_program(p->path, p->start, p->entry);
    struct run_event map = {
        .type = RUN_MAP, .time = now, .prot = 3, .flags = 0x122}; /* MAP_GROWSDOWN */
    if (sp && regs_area(sp, &map.a, &end)) {
        map.b = end - map.a;
        task_log(&v->task, &map, "[stack]");
    }
    if (p->vdso && regs_area(p->vdso, &map.a, &end)) {
        map.b = end - map.a;
        map.prot = 5;
        map.flags = 2; /* MAP_PRIVATE */
        task_log(&v->task, &map, "[vdso]");
    }
    if (p->sve && regs_open_vectors(0))
        plugin.user.vl = 8 * regs_vector_length();
    plugin.user.loaded = true;
}

void user_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count)
{
    uint64_t pc = qemu_plugin_tb_vaddr(tb);
    if (!plugin.user.loaded)
        log_program(pc);
    pthread_mutex_lock(&plugin.user.lock);
    bool handler = plugin.user.registers && life_is_handler(pc);
    sve_translate(handler);
    struct block *block = block_get(pc, words, count);
    bool doubt = doubt_begins(words[count - 1], handler);
    enum allocs_kind allocates = plugin.user.allocs ? allocs_at(pc) : ALLOCS_NONE;
    pthread_mutex_unlock(&plugin.user.lock);
    for (unsigned i = 0; i < 2; i++)
        if (pc == plugin.user.marker[i])
            qemu_plugin_register_vcpu_tb_exec_cb(tb, on_marker, regs_flags(),
                                                 (void *)(uintptr_t)(pc + i));
    if (plugin.user.allocs && allocs_after_call(pc))
        qemu_plugin_register_vcpu_tb_exec_cb(tb, allocs_back, regs_flags(), (void *)(uintptr_t)pc);
    if (allocates)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, allocs_entered, regs_flags(),
                                             (void *)(uintptr_t)allocates);
    hot_watch_block(tb, block, handler);
    for (size_t i = 0; i < count; i++) {
        hot_watch_access(qemu_plugin_tb_get_insn(tb, i), &block->insns[i]);
        if (plugin.user.full && plugin.run->deterministic && clock_reads_counter(words[i]))
            qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i), clock_counter,
                                                   QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    if (plugin.user.vl && sve_switches(words[count - 1]))
        qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, count - 1), sve_switch,
                                               regs_flags(), (void *)(uintptr_t)words[count - 1]);
    if (doubt)
        qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, count - 1), doubt_note,
                                               QEMU_PLUGIN_CB_NO_REGS, &block->insns[count - 1]);
}

/* Finds what to make ideal in this program. */
static void read_ideal(void)
{
    struct engine_ideal one;
    size_t count = 0, room = 0;
    struct ideal_range *ranges = NULL; /* kept: the model refers to them */
    int fd = task_open("ideal", O_RDONLY);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    while (file && fread(&one, sizeof one, 1, file) == 1)
        if (!one.program[0] || !strncmp(one.program, plugin.user.name, sizeof one.program - 1)) {
            if (count == room)
                ranges = need(realloc(ranges, (room += 64) * sizeof *ranges));
            ranges[count++] = one.range;
        }
    if (file)
        fclose(file);
    timing_set_ideal(plugin.user.timing, ranges, count);
}

int user_install(uint64_t id, unsigned api, int argc, char **argv)
{
    struct spex_error error;
    const char *directory = NULL;
    int control = -1;
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "dir=", 4))
            directory = argv[i] + 4;
        else if (!strncmp(argv[i], "name=", 5))
            snprintf(plugin.user.name, sizeof plugin.user.name, "%s", argv[i] + 5);
        else if (!strncmp(argv[i], "control=", 8))
            control = atoi(argv[i] + 8);
    if (!directory) {
        fprintf(stderr, "spex: this plugin is for 'spex record'\n");
        return 1;
    }
    if (!task_open_run(directory, control, &error)) {
        fprintf(stderr, "spex: %s\n", error.text);
        return 1;
    }
    plugin.user.full = !plugin.run->model.none;
    plugin.user.sampled = plugin.user.full && plugin.run->model.sampled;
    if (plugin.user.full && timing_new(&plugin.run->model, &plugin.user.timing)) {
        fprintf(stderr, "spex: no memory for the model\n");
        return 1;
    }
    if (plugin.user.full)
        read_ideal();
    plugin.user.truth = plugin.run->truth;
    plugin.user.api = api;
    plugin.user.registers = regs_open(api);
    plugin.user.stacks = plugin.run->stacks;
    if (!plugin.user.registers)
        no_registers();
    plugin.user.allocs = plugin.run->allocs && plugin.user.registers;
    if (plugin.user.allocs)
        allocs_open();
    __atomic_store_n(&plugin.run->installed, 1, __ATOMIC_RELEASE);
    if (plugin.user.full && plugin.run->deterministic)
        clock_open();
    life_install();
    qemu_user_install(id, api);
    return 0;
}
