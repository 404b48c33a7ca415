#include "regs.h"

#include "qemu_plugin7.h"
#include "qemu_registers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Up to version 1 of the plugin interface: QEMU's own functions. */
static void *(*get_cpu)(int);
static int (*read_register)(void *, struct qemu_plugin7_bytes *, int);
static __thread struct qemu_plugin7_bytes *bytes;

/* Since version 2: */
static bool official, machine; /* machine: system mode, guest memory is not of this process */
static unsigned version;
static struct {
    struct qemu_register x[33], z[32], p[16], granules; /* x[31] is SP, x[32] PC */
} names;

static uintptr_t guest_base; /* guest memory in this process */

/* dlsym's result is an object pointer; POSIX promises that it converts. */
#define FIND(pointer, name) (*(void **)&(pointer) = dlsym(RTLD_DEFAULT, name))

bool regs_open(unsigned api)
{
    version = api;
    official = api >= 4 && qemu_plugin_get_registers && qemu_plugin_read_register;
    FIND(get_cpu, "qemu_get_cpu");
    FIND(read_register, "aarch64_cpu_gdb_read_register");
    return g_byte_array_new && g_byte_array_set_size && (official || (get_cpu && read_register));
}

enum qemu_plugin_cb_flags regs_flags(void)
{
    return official ? QEMU_PLUGIN_CB_R_REGS : QEMU_PLUGIN_CB_NO_REGS;
}

bool regs_anywhere(void)
{
    return official;
}

bool regs_places(void)
{
    return get_cpu != NULL;
}

static void on_register(const char *name, struct qemu_register where)
{
    unsigned number;
    char kind, end;
    if (!strcmp(name, "sp"))
        names.x[31] = where;
    else if (!strcmp(name, "pc"))
        names.x[32] = where;
    else if (!strcmp(name, "vg"))
        names.granules = where;
    if (sscanf(name, "%c%u%c", &kind, &number, &end) != 2)
        return;
    if (kind == 'x' && number < 31)
        names.x[number] = where;
    else if (kind == 'z' && number < 32)
        names.z[number] = where;
    else if (kind == 'p' && number < 16)
        names.p[number] = where;
}

/* Reads memory of this process that may not be mapped. */
static bool read_host(const void *from, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size)
        return true;
    if (errno == EFAULT)
        return false;
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* the call above may be forbidden */
    ssize_t n = fd < 0 ? -1 : pread(fd, to, size, (off_t)(uintptr_t)from);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)size;
}

/*
 * Finds where guest memory begins, which is 0 in most cases: from QEMU's variable, or else from
 * where the program's code is in host memory.
 */
static bool find_memory(uint64_t pc)
{
    enum { LOOK = 64 };
    const uintptr_t *variable;
    char code[LOOK], line[512];
    uint64_t start = pc - pc % LOOK, from;
    if (FIND(variable, "guest_base")) {
        guest_base = *variable;
        return true;
    }
    if (!qemu_plugin_read_memory_vaddr) /* 7.2 without its variable */
        return true;
    struct qemu_plugin7_bytes *there = g_byte_array_new();
    bool found = qemu_plugin_read_memory_vaddr(start, there, LOOK) &&
                 read_host((const void *)(uintptr_t)start, code, LOOK) &&
                 !memcmp(code, there->data, LOOK);
    FILE *maps = found ? NULL : fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        found = sscanf(line, "%" SCNx64, &from) == 1 &&
                read_host((const void *)(uintptr_t)(from + start % 4096), code, LOOK) &&
                !memcmp(code, there->data, LOOK);
        guest_base = found ? from - (start - start % 4096) : 0;
    }
    if (maps)
        fclose(maps);
    return found;
}

static bool find_names(void)
{
    qemu_registers_find(version, on_register);
    for (unsigned i = 0; i < 33; i++)
        if (!names.x[i].known)
            return false;
    return true;
}

bool regs_find(uint64_t pc)
{
    return (!official || find_names()) && find_memory(pc);
}

bool regs_find_system(unsigned api)
{
    machine = true;
    return regs_open(api) && official && find_names();
}

uint64_t regs_read(unsigned vcpu, unsigned reg)
{
    uint64_t value = 0;
    if (official) {
        qemu_register_read(names.x[reg], &value, sizeof value);
        return value;
    }
    void *cpu = get_cpu((int)vcpu);
    if (!bytes)
        bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    if (cpu && read_register(cpu, bytes, (int)reg) == 8)
        memcpy(&value, bytes->data, sizeof value);
    return value;
}

/* ---- SVE ---- */

static int (*read_vector)(void *, struct qemu_plugin7_bytes *, int);
static size_t env_offset; /* offset of the CPU's state in QEMU's object; 0: unknown */

enum { /* register numbers in QEMU's debugger interface */
       VECTOR_Z = 0,
       VECTOR_P = 34,
       VECTOR_GRANULES = 51, /* VG: 64-bit pieces of a vector */
       OBJECT_MOST = 1 << 17,
       HEAD = 64, /* the state begins with sixteen 32-bit registers; then X0 to X30, SP, PC */
};

/*
 * Does the CPU's state begin at this offset in QEMU's object? Every register that QEMU shows must
 * be there.
 */
static bool is_env(const char *at, const uint64_t registers[33])
{
    return !memcmp(at + HEAD, registers, 33 * sizeof *registers);
}

/*
 * The object points to the state, which follows it in the same memory. An offset is accepted if all
 * general registers are there and SP and PC are not zero.
 */
bool regs_open_vectors(unsigned vcpu)
{
    uint64_t registers[33];
    if (official)
        return names.granules.known && names.z[31].known && names.p[15].known;
    const char *cpu = get_cpu((int)vcpu);
    FIND(read_vector, "arm_gdb_get_svereg");
    if (!read_vector || !cpu)
        return false;
    for (unsigned i = 0; i < 33; i++)
        registers[i] = regs_read(vcpu, i);
    for (size_t at = 0; registers[31] && registers[32] && at < OBJECT_MOST; at += sizeof(void *)) {
        char window[HEAD + sizeof registers], *pointer;
        if (!read_host(cpu + at, &pointer, sizeof pointer))
            return false;
        if (pointer <= cpu || (size_t)(pointer - cpu) >= OBJECT_MOST ||
            !read_host(pointer, window, sizeof window) || !is_env(window, registers))
            continue;
        env_offset = (size_t)(pointer - cpu);
        return true;
    }
    return false;
}

static void read_sve_of(char *cpu, unsigned reg, void *to, size_t size)
{
    if (!bytes)
        bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    int n = env_offset && cpu ? read_vector(cpu + env_offset, bytes, (int)reg) : 0;
    size_t given = n > 0 ? (size_t)n : 0;
    memcpy(to, bytes->data, given < size ? given : size);
}

static void read_sve(unsigned vcpu, unsigned reg, void *to, size_t size)
{
    if (official)
        qemu_register_read(reg >= VECTOR_P ? names.p[reg - VECTOR_P] : names.z[reg - VECTOR_Z], to,
                           size);
    else
        read_sve_of(get_cpu((int)vcpu), reg, to, size);
}

unsigned regs_vector_length(void)
{
    uint64_t granules = 0;
    char **own;
    if (official)
        qemu_register_read(names.granules, &granules, sizeof granules);
    else if (FIND(own, "thread_cpu") && *own)
        read_sve_of(*own, VECTOR_GRANULES, &granules, sizeof granules);
    return granules * 8 <= REGS_VECTOR ? (unsigned)granules * 8 : 0;
}

void regs_vector(unsigned vcpu, unsigned reg, uint8_t to[REGS_VECTOR])
{
    read_sve(vcpu, VECTOR_Z + reg, to, REGS_VECTOR);
}

void regs_predicate(unsigned vcpu, unsigned reg, uint8_t to[REGS_VECTOR / 8])
{
    read_sve(vcpu, VECTOR_P + reg, to, REGS_VECTOR / 8);
}

/* ---- memory ---- */

uint64_t regs_host(uint64_t address)
{
    return address + guest_base;
}

/* Offset of the registers, the same in every vCPU; 0: not known yet. */
static size_t sp_offset;

static size_t find_registers(const char *cpu, const uint64_t values[32])
{
    enum { LOOK = 64 << 10, PAGE = 4096 };
    static char copy[LOOK];
    size_t size = 0, found = 0;
    for (; size < LOOK; size += PAGE) { /* pages after the vCPU may be unmapped */
        struct iovec local = {copy + size, PAGE}, remote = {(void *)(uintptr_t)(cpu + size), PAGE};
        if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != PAGE)
            break;
    }
    for (size_t at = 0; at + 32 * 8 <= size; at += 8)
        if (!memcmp(copy + at, values, 32 * 8)) {
            if (found)
                return 0; /* several candidates: try again later */
            found = at;
        }
    return found ? found + 31 * 8 : 0;
}

const uint64_t *regs_stack_pointer(unsigned vcpu)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *cpu = get_cpu ? get_cpu((int)vcpu) : NULL;
    uint64_t values[32];
    if (!cpu)
        return NULL;
    for (unsigned i = 0; i < 32; i++)
        values[i] = regs_read(vcpu, i);
    pthread_mutex_lock(&lock);
    if (!sp_offset)
        sp_offset = find_registers(cpu, values);
    size_t at = sp_offset;
    pthread_mutex_unlock(&lock);
    if (!at || memcmp(cpu + at - 31 * 8, values, sizeof values) != 0)
        return NULL;
    return (const uint64_t *)(const void *)(cpu + at);
}

bool regs_memory(uint64_t address, void *to, unsigned size)
{
    if (!machine)
        return read_host((const void *)(uintptr_t)regs_host(address), to, size);
    if (!bytes)
        bytes = g_byte_array_new();
    if (!qemu_plugin_read_memory_vaddr(address, bytes, size))
        return false;
    memcpy(to, bytes->data, size);
    return true;
}

bool regs_area(uint64_t address, uint64_t *start, uint64_t *end)
{
    uint64_t from, to;
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2 &&
                address + guest_base >= from && address + guest_base < to;
    if (maps)
        fclose(maps);
    if (found) {
        *start = from - guest_base;
        *end = to - guest_base;
    }
    return found;
}
