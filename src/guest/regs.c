#include "regs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* GLib's GByteArray, whose layout is public. */
struct bytes {
    uint8_t *data;
    unsigned size;
};

static void *(*get_cpu)(int);
static int (*read_register)(void *, struct bytes *, int);
static struct bytes *(*bytes_new)(void);
static struct bytes *(*bytes_set_size)(struct bytes *, unsigned);
static const uintptr_t *guest_base;
static __thread struct bytes *bytes;

/* dlsym's result is an object pointer; POSIX promises that it converts. */
#define FIND(pointer, name) (*(void **)&(pointer) = dlsym(RTLD_DEFAULT, name))

bool regs_open(void)
{
    FIND(get_cpu, "qemu_get_cpu");
    FIND(read_register, "aarch64_cpu_gdb_read_register");
    FIND(bytes_new, "g_byte_array_new");
    FIND(bytes_set_size, "g_byte_array_set_size");
    FIND(guest_base, "guest_base");
    return get_cpu && read_register && bytes_new && bytes_set_size;
}

uint64_t regs_read(unsigned vcpu, unsigned reg)
{
    uint64_t value = 0;
    void *cpu = get_cpu((int)vcpu);
    if (!bytes)
        bytes = bytes_new();
    bytes_set_size(bytes, 0);
    if (cpu && read_register(cpu, bytes, (int)reg) == 8)
        memcpy(&value, bytes->data, sizeof value);
    return value;
}

uint64_t regs_host(uint64_t address)
{
    return address + (guest_base ? *guest_base : 0);
}

bool regs_memory(uint64_t address, void *to, unsigned size)
{
    uintptr_t base = guest_base ? *guest_base : 0;
    struct iovec local = {to, size}, remote = {(void *)(base + (uintptr_t)address), size};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size)
        return true;
    if (errno == EFAULT)
        return false;
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* the call above may be forbidden */
    ssize_t n = fd < 0 ? -1 : pread(fd, to, size, (off_t)(base + (uintptr_t)address));
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)size;
}

bool regs_area(uint64_t address, uint64_t *start, uint64_t *end)
{
    uint64_t base = guest_base ? *guest_base : 0, from, to;
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2 && address + base >= from &&
                address + base < to;
    if (maps)
        fclose(maps);
    if (found) {
        *start = from - base;
        *end = to - base;
    }
    return found;
}
