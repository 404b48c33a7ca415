#include "bpf.h"

#include "base/bits.h"
#include "perfdata/writer.h"

#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAME = 256, FUNCTIONS_MOST = 4096 };

static long bpf(int command, union bpf_attr *attr)
{
    return syscall(SYS_bpf, command, attr, sizeof *attr);
}

static void write_symbol(uint64_t address, uint32_t length, const char *name,
                         const struct native_trailer *trailer, struct spex_perf_writer *writer)
{
    uint8_t r[24 + NAME + NATIVE_TRAILER] = {0};
    size_t size = (strlen(name) + 8) & ~(size_t)7;
    put_le32(r, PERF_RECORD_KSYMBOL);
    put_le16(r + 4, 1); /* PERF_RECORD_MISC_KERNEL */
    put_le64(r + 8, address);
    put_le32(r + 16, length);
    put_le16(r + 20, PERF_RECORD_KSYMBOL_TYPE_BPF);
    memcpy(r + 24, name, strlen(name));
    size = 24 + size + native_trailer_put(r + 24 + size, trailer, 0, 0);
    put_le16(r + 6, (uint16_t)size);
    perf_writer_raw(writer, r, size);
}

static void write_load(const struct bpf_prog_info *info, const struct native_trailer *trailer,
                       struct spex_perf_writer *writer)
{
    uint8_t r[24 + NATIVE_TRAILER] = {0};
    put_le32(r, PERF_RECORD_BPF_EVENT);
    put_le16(r + 4, 1);
    put_le16(r + 8, PERF_BPF_EVENT_PROG_LOAD);
    put_le32(r + 12, info->id);
    memcpy(r + 16, info->tag, sizeof info->tag);
    size_t size = 24 + native_trailer_put(r + 24, trailer, 0, 0);
    put_le16(r + 6, (uint16_t)size);
    perf_writer_raw(writer, r, size);
}

/* What /proc/kallsyms calls an address: functions of a program have names of their own there. */
static bool listed_name(const char *kallsyms, uint64_t address, char name[NAME])
{
    char line[40];
    snprintf(line, sizeof line, "\n%016" PRIx64 " ", address);
    const char *at = kallsyms ? strstr(kallsyms, line) : NULL;
    return at && sscanf(at + strlen(line), "%*c %255s", name) == 1;
}

struct functions {
    uint64_t address[FUNCTIONS_MOST];
    uint32_t length[FUNCTIONS_MOST];
    uint8_t tag[FUNCTIONS_MOST][BPF_TAG_SIZE];
};

static bool read_program(int fd, struct functions *f, struct bpf_prog_info *info)
{
    union bpf_attr attr = {.info = {.bpf_fd = (uint32_t)fd, .info_len = sizeof *info}};
    *info = (struct bpf_prog_info){.nr_jited_ksyms = FUNCTIONS_MOST,
                                   .nr_jited_func_lens = FUNCTIONS_MOST,
                                   .nr_prog_tags = FUNCTIONS_MOST,
                                   .jited_ksyms = (uintptr_t)f->address,
                                   .jited_func_lens = (uintptr_t)f->length,
                                   .prog_tags = (uintptr_t)f->tag};
    attr.info.info = (uintptr_t)info;
    return !bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

static void write_program(int fd, struct functions *f, const char *kallsyms,
                          const struct native_trailer *trailer, struct spex_perf_writer *writer)
{
    struct bpf_prog_info info;
    memset(f, 0, sizeof *f);
    if (!read_program(fd, f, &info))
        return;
    for (uint32_t i = 0; i < info.nr_jited_ksyms && i < FUNCTIONS_MOST; i++) {
        char name[NAME];
        if (!f->address[i] || !f->length[i])
            continue; /* hidden (kptr_restrict), or not compiled */
        int n = snprintf(name, sizeof name, "bpf_prog_");
        for (unsigned k = 0; k < BPF_TAG_SIZE; k++)
            n += snprintf(name + n, sizeof name - (size_t)n, "%02x", f->tag[i][k]);
        if (!listed_name(kallsyms, f->address[i], name) && info.name[0])
            snprintf(name + n, sizeof name - (size_t)n, "_%.*s", BPF_OBJ_NAME_LEN,
                     i ? "F" : info.name);
        write_symbol(f->address[i], f->length[i], name, trailer, writer);
    }
    write_load(&info, trailer, writer);
}

/* Reads lines like "ffff80000a123000 t bpf_trampoline_6442491136 [bpf]"; each is one page. */
static void write_images(const char *kallsyms, const struct native_trailer *trailer,
                         struct spex_perf_writer *writer)
{
    uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
    static const char *const kinds[] = {" bpf_trampoline_", " bpf_dispatcher_"};
    for (unsigned i = 0; i < 2; i++)
        for (const char *at = kallsyms; at && (at = strstr(at, kinds[i])); at++) {
            const char *line = at;
            char name[NAME], module[8];
            while (line > kallsyms && line[-1] != '\n')
                line--;
            uint64_t address = strtoull(line, NULL, 16);
            if (address && sscanf(at, " %255s %7s", name, module) == 2 && !strcmp(module, "[bpf]"))
                write_symbol(address, page, name, trailer, writer);
        }
}

void native_bpf_programs(const char *kallsyms, const struct native_trailer *trailer,
                         struct spex_perf_writer *writer)
{
    struct functions *f = malloc(sizeof *f);
    for (uint32_t id = 0; f;) {
        union bpf_attr next = {.start_id = id}, one = {.prog_id = 0};
        if (bpf(BPF_PROG_GET_NEXT_ID, &next) || next.next_id <= id)
            break;
        one.prog_id = id = next.next_id;
        int fd = (int)bpf(BPF_PROG_GET_FD_BY_ID, &one);
        if (fd < 0)
            continue; /* unloaded meanwhile */
        write_program(fd, f, kallsyms, trailer, writer);
        close(fd);
    }
    free(f);
    write_images(kallsyms, trailer, writer);
}
