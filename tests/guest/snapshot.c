/*
 * A QEMU 7.2 plugin that writes core files of chosen instructions, for a debugger to unwind. Run
 * with -singlestep: each block is one instruction then, and the registers at its start are exact.
 *
 *   -plugin libsnapshot.so,every=N,to=DIR   DIR/pcs: "vcpu index pc" of instructions within NEAR of
 * each Nth -plugin libsnapshot.so,at=FILE,to=DIR   for each line "vcpu index" of FILE, in order:
 * DIR/core-VCPU-INDEX
 *
 * Instructions count from 1 by vCPU. A core holds the registers, the auxiliary vector, the stack
 * from its pointer on, and what programs and libraries have mapped, and small heaps.
 */
#include "../../src/guest/qemu_plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

enum { NEAR = 8, CPUS = 256, AREAS = 256, REGISTERS = 34 };
static const uint64_t GUEST_END = UINT64_C(0x6000000000); /* QEMU's own memory is above */

static unsigned long every;
static const char *to;
static FILE *pcs;
static struct wanted {
    unsigned vcpu;
    uint64_t index;
} * wanted;
static size_t wanted_count, next[CPUS];
static uint64_t executed[CPUS];
static uint64_t first_sp; /* where argc, argv, the environment and the auxiliary vector are */

/* ---- registers ---- */

struct bytes { /* GLib's GByteArray */
    uint8_t *data;
    unsigned size;
};
static void *(*get_cpu)(int);
static int (*read_register)(void *, struct bytes *, int);
static struct bytes *(*bytes_new)(void);
static struct bytes *(*bytes_set_size)(struct bytes *, unsigned);

static uint64_t reg(unsigned vcpu, int n)
{
    static struct bytes *bytes;
    uint64_t value = 0;
    if (!bytes)
        bytes = bytes_new();
    bytes_set_size(bytes, 0);
    int size = read_register(get_cpu((int)vcpu), bytes, n);
    memcpy(&value, bytes->data, size > 8 ? 8 : (size_t)size);
    return value;
}

/* ---- core files ---- */

struct area {
    uint64_t from, to;
};

/* Writable memory and all but code of files; of the stack only what is in use. */
static size_t areas_of(uint64_t sp, struct area areas[AREAS])
{
    char line[512], mode[8];
    size_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && n < AREAS && fgets(line, sizeof line, maps)) {
        struct area a;
        unsigned long inode = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %lu", &a.from, &a.to, mode, &inode) <
                4 ||
            a.to > GUEST_END || mode[0] != 'r' || mode[2] == 'x')
            continue;
        if (sp >= a.from && sp < a.to) {
            a.from = (sp - 1024) & ~UINT64_C(15);
            if (a.to - a.from > 16 << 20)
                a.to = a.from + (1 << 20); /* a small stack among other things */
        } else if (!inode && a.to - a.from > 16 << 20)
            continue; /* a large heap; in a small one may be what the loader knows of libraries */
        areas[n++] = a;
    }
    if (maps)
        fclose(maps);
    return n;
}

static void note(FILE *f, unsigned type, const void *what, size_t size)
{
    Elf64_Nhdr head = {5, (Elf64_Word)size, type};
    fwrite(&head, sizeof head, 1, f);
    fwrite("CORE\0\0\0", 8, 1, f);
    fwrite(what, size, 1, f); /* sizes here are multiples of four */
}

static size_t auxv(const uint64_t **start)
{
    const uint64_t *p = (const uint64_t *)(uintptr_t)first_sp;
    p += 1 + p[0] + 1;
    while (*p++) /* the environment */
        ;
    *start = p;
    size_t n = 0;
    while (p[n] != AT_NULL)
        n += 2;
    return (n + 2) * 8;
}

static void write_core(unsigned vcpu)
{
    char name[4096];
    uint64_t status[49] = {0}; /* struct elf_prstatus: registers at byte 112 */
    struct area areas[AREAS];
    const uint64_t *aux;
    size_t aux_size = auxv(&aux);
    for (int i = 0; i < REGISTERS; i++)
        status[14 + i] = reg(vcpu, i);
    ((uint32_t *)status)[8] = 1; /* a process id */
    size_t n = areas_of(status[14 + 31], areas);
    snprintf(name, sizeof name, "%s/core-%u-%" PRIu64, to, vcpu, executed[vcpu]);
    FILE *f = fopen(name, "w");
    if (!f)
        abort();
    size_t notes = 2 * (sizeof(Elf64_Nhdr) + 8) + sizeof status + aux_size,
           head = sizeof(Elf64_Ehdr) + (n + 1) * sizeof(Elf64_Phdr);
    Elf64_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_CORE,
                    .e_machine = EM_AARCH64,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof e,
                    .e_ehsize = sizeof e,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = (Elf64_Half)(n + 1)};
    fwrite(&e, sizeof e, 1, f);
    Elf64_Phdr p = {.p_type = PT_NOTE, .p_offset = head, .p_filesz = notes, .p_align = 4};
    fwrite(&p, sizeof p, 1, f);
    uint64_t at = head + notes;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = areas[i].to - areas[i].from;
        Elf64_Phdr load = {.p_type = PT_LOAD,
                           .p_flags = PF_R | PF_W,
                           .p_offset = at,
                           .p_vaddr = areas[i].from,
                           .p_filesz = size,
                           .p_memsz = size,
                           .p_align = 1};
        fwrite(&load, sizeof load, 1, f);
        at += size;
    }
    note(f, NT_PRSTATUS, status, sizeof status);
    note(f, NT_AUXV, aux, aux_size);
    fflush(f);
    at = head + notes;
    for (size_t i = 0; i < n; i++)
        for (uint64_t from = areas[i].from, size; from < areas[i].to; from += size, at += size) {
            size = 4096 - from % 4096; /* past the end of the file: zeros */
            if (pwrite(fileno(f), (const void *)(uintptr_t)from, size, (off_t)at) < 0 &&
                errno != EFAULT)
                abort();
        }
    if (ftruncate(fileno(f), (off_t)at))
        abort();
    if (fclose(f))
        abort();
}

/* ---- QEMU ---- */

static void on_block(unsigned vcpu, void *data)
{
    uint64_t index = ++executed[vcpu];
    if (!first_sp)
        first_sp = reg(vcpu, 31);
    if (pcs && (index + NEAR) % every <= 2 * NEAR)
        fprintf(pcs, "%u %" PRIu64 " %" PRIxPTR "\n", vcpu, index, (uintptr_t)data);
    while (next[vcpu] < wanted_count && wanted[next[vcpu]].vcpu != vcpu)
        next[vcpu]++;
    if (next[vcpu] < wanted_count && wanted[next[vcpu]].index == index) {
        next[vcpu]++;
        write_core(vcpu);
    }
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    if (qemu_plugin_tb_n_insns(tb) != 1)
        abort(); /* without -singlestep nothing here is right */
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_R_REGS,
                                         (void *)(uintptr_t)qemu_plugin_tb_vaddr(tb));
}

static void at_end(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    if (pcs)
        fclose(pcs);
}

static void read_wanted(const char *path)
{
    FILE *f = fopen(path, "r");
    struct wanted w;
    while (f && fscanf(f, "%u %" SCNu64, &w.vcpu, &w.index) == 2) {
        wanted = realloc(wanted, (wanted_count + 1) * sizeof *wanted);
        wanted[wanted_count++] = w;
    }
    if (f)
        fclose(f);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv);

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    char name[4096];
    (void)info;
    *(void **)&get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
    *(void **)&read_register = dlsym(RTLD_DEFAULT, "aarch64_cpu_gdb_read_register");
    *(void **)&bytes_new = dlsym(RTLD_DEFAULT, "g_byte_array_new");
    *(void **)&bytes_set_size = dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "every=", 6))
            every = strtoul(argv[i] + 6, NULL, 0);
        else if (!strncmp(argv[i], "to=", 3))
            to = strdup(argv[i] + 3);
        else if (!strncmp(argv[i], "at=", 3))
            read_wanted(argv[i] + 3);
    }
    if (!to || !get_cpu || !read_register || !bytes_new || !bytes_set_size)
        return 1;
    if (every) {
        snprintf(name, sizeof name, "%s/pcs", to);
        pcs = fopen(name, "w");
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
