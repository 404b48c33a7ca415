#include "elf_file.h"

#include "base/bits.h"
#include "base/notes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void find_build_id(int fd, uint64_t offset, uint64_t size, struct elf *elf)
{
    uint8_t notes[4096];
    if (size > sizeof notes)
        size = sizeof notes;
    ssize_t n = pread(fd, notes, size, (off_t)offset);
    if (n > 0)
        elf->build_id_size = notes_build_id(notes, (size_t)n, elf->build_id);
}

static void read_segments(int fd, const uint8_t *header, struct elf *elf)
{
    uint64_t table = le64(header + 32);
    unsigned size = le16(header + 54), count = le16(header + 56);
    for (unsigned i = 0; i < count && size >= 56; i++) {
        uint8_t p[56];
        if (pread(fd, p, sizeof p, (off_t)(table + (uint64_t)i * size)) != sizeof p)
            return;
        uint32_t type = le32(p), flags = le32(p + 4);
        uint64_t offset = le64(p + 8), file_size = le64(p + 32);
        if (type == PT_LOAD && elf->segments < ELF_SEGMENTS) {
            elf->segment[elf->segments++] = (struct elf_segment){
                .vaddr = le64(p + 16),
                .offset = offset,
                .file_size = file_size,
                .memory_size = le64(p + 40),
                .prot = (flags & 4 ? 1u : 0) | (flags & 2 ? 2u : 0) | (flags & 1 ? 4u : 0)};
        } else if (type == PT_INTERP && file_size < sizeof elf->interpreter) {
            ssize_t n = pread(fd, elf->interpreter, file_size, (off_t)offset);
            elf->interpreter[n > 0 ? n : 0] = '\0';
        } else if (type == PT_NOTE && !elf->build_id_size) {
            find_build_id(fd, offset, file_size, elf);
        }
    }
}

enum spex_status elf_read(const char *path, struct elf *elf)
{
    uint8_t header[64];
    struct stat st;
    *elf = (struct elf){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (fd < 0)
        return SPEX_IO;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        errno = S_ISDIR(st.st_mode) ? EISDIR : EACCES;
        return SPEX_IO;
    }
    ssize_t n = pread(fd, header, sizeof header, 0);
    if (n < 20 || memcmp(header, "\177ELF", 4)) {
        close(fd);
        return SPEX_INVALID;
    }
    elf->is64 = header[4] == 2;
    elf->little = header[5] == 1;
    elf->machine = elf->little ? le16(header + 18) : (unsigned)(header[18] << 8 | header[19]);
    unsigned type = elf->little ? le16(header + 16) : (unsigned)(header[16] << 8 | header[17]);
    elf->executable = type == 2 || type == 3;
    if (elf->is64 && elf->little && n == sizeof header) {
        elf->entry = le64(header + 24);
        read_segments(fd, header, elf);
    }
    close(fd);
    return SPEX_OK;
}

/* ---- symbols ---- */

enum { SECTION = sizeof(Elf64_Shdr), SYMBOL = sizeof(Elf64_Sym) };

struct bytes {
    const uint8_t *at;
    uint64_t size;
};

/* A part of a file, within its bounds. */
static struct bytes part(struct bytes file, uint64_t offset, uint64_t size)
{
    if (offset > file.size || size > file.size - offset)
        return (struct bytes){0};
    return (struct bytes){file.at + offset, size};
}

static struct bytes section(struct bytes file, unsigned index, uint32_t *type, uint32_t *link)
{
    struct bytes header =
        part(file, le64(file.at + 40) + (uint64_t)index * le16(file.at + 58), SECTION);
    if (!header.at || index >= le16(file.at + 60))
        return (struct bytes){0};
    *type = le32(header.at + 4);
    *link = le32(header.at + 40);
    return part(file, le64(header.at + 24), le64(header.at + 32));
}

/* Tables do not overlap: together they have no more symbols than the file has room for. */
static void each_function(struct bytes file,
                          bool (*one)(void *context, const char *name, uint64_t address),
                          void *context)
{
    uint32_t type = 0, link = 0, unused;
    uint64_t left = file.size / SYMBOL;
    for (unsigned i = 0; i < le16(file.at + 60); i++) {
        struct bytes table = section(file, i, &type, &link);
        if (!table.at || (type != SHT_SYMTAB && type != SHT_DYNSYM))
            continue;
        struct bytes names = section(file, link, &unused, &unused);
        if (!names.size || names.at[names.size - 1]) /* names end with a zero */
            continue;
        for (uint64_t at = 0; at + SYMBOL <= table.size && left; at += SYMBOL, left--) {
            const uint8_t *s = table.at + at;
            uint32_t name = le32(s);
            if ((s[4] & 15) != STT_FUNC || !le16(s + 6) || name >= names.size)
                continue;
            if (!one(context, (const char *)names.at + name, le64(s + 8)))
                return;
        }
    }
}

void elf_functions(const char *path, bool (*one)(void *context, const char *name, uint64_t address),
                   void *context)
{
    struct elf elf;
    struct stat st;
    if (elf_read(path, &elf) || !elf.is64 || !elf.little)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && st.st_size >= SECTION) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            each_function((struct bytes){map, (uint64_t)st.st_size}, one, context);
            munmap(map, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
}

struct wanted {
    const char *name;
    uint64_t address;
    bool found;
};

static bool is_wanted(void *context, const char *name, uint64_t address)
{
    struct wanted *w = context;
    w->found = !strcmp(name, w->name);
    w->address = address;
    return !w->found;
}

bool elf_function(const char *path, const char *name, uint64_t *address)
{
    struct wanted w = {.name = name};
    elf_functions(path, is_wanted, &w);
    if (w.found)
        *address = w.address;
    return w.found;
}

const char *elf_machine_name(const struct elf *elf)
{
    switch (elf->machine) {
    case EM_386:
        return "32-bit x86";
    case 8:
        return "MIPS";
    case 20:
    case 21:
        return "PowerPC";
    case 22:
        return "s390";
    case EM_ARM:
        return "32-bit Arm";
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return elf->little ? "AArch64" : "big-endian AArch64";
    case EM_RISCV:
        return "RISC-V";
    case EM_LOONGARCH:
        return "LoongArch";
    }
    return "another";
}
