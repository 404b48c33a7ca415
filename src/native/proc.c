#include "proc.h"

#include "bpf.h"

#include "base/bits.h"
#include "base/file.h"
#include "base/notes.h"
#include "perfdata/writer.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PATH = 512, FILE_MOST = 64 << 20 };

/* ---- who is there ---- */

static bool numbers_in(const char *path, native_ids *ids)
{
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (const struct dirent *e; (e = readdir(dir));) {
        int32_t *id = isdigit((unsigned char)e->d_name[0]) ? vec_push(ids) : NULL;
        if (id)
            *id = atoi(e->d_name);
    }
    closedir(dir);
    return true;
}

bool native_proc_threads(const char *root, int32_t pid, native_ids *tids)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc/%d/task", root, pid);
    return numbers_in(path, tids);
}

bool native_proc_all(const char *root, native_ids *pids)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc", root);
    return numbers_in(path, pids);
}

/* A number from /proc/ID/status: "Tgid:", "PPid:". */
static int32_t status_number(const char *root, int32_t id, const char *name)
{
    char path[PATH], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/proc/%d/status", root, id);
    text = file_read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MOST, &size);
    const char *line = text ? strstr(text, name) : NULL;
    int32_t value = line ? atoi(line + strlen(name)) : -1;
    free(text);
    return value;
}

int32_t native_proc_of(const char *root, int32_t tid)
{
    return status_number(root, tid, "\nTgid:");
}

void native_proc_family(const char *root, int32_t pid, native_ids *pids)
{
    native_ids all = {0};
    int32_t *first = vec_push(pids);
    if (first)
        *first = pid;
    native_proc_all(root, &all);
    /* A parent's number may be higher than its child's: repeat while new ones are found. */
    for (size_t before = 0; first && before != pids->count;) {
        before = pids->count;
        for (size_t i = 0; i < all.count; i++) {
            int32_t parent =
                all.items[i] == pid ? -1 : status_number(root, all.items[i], "\nPPid:");
            for (size_t k = 0; k < before && parent > 0; k++)
                if (pids->items[k] == parent) {
                    int32_t *child = vec_push(pids);
                    if (child)
                        *child = all.items[i];
                    all.items[i] = pid; /* found */
                    break;
                }
        }
    }
    vec_free(&all);
}

/* ---- build-ids ---- */

/* The build-id of a 64-bit little-endian ELF file; its size, 0: none. */
static uint8_t file_build_id(const char *path, uint8_t id[20])
{
    enum { NOTES = 4096 };
    uint8_t h[64], p[56], notes[NOTES], size = 0;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return 0;
    bool elf = !fstat(fd, &st) && S_ISREG(st.st_mode) &&
               pread(fd, h, sizeof h, 0) == (ssize_t)sizeof h && !memcmp(h, "\177ELF\2\1", 6);
    for (unsigned i = 0; elf && !size && i < le16(h + 56); i++) {
        off_t at = (off_t)(le64(h + 32) + (uint64_t)i * le16(h + 54));
        if (pread(fd, p, sizeof p, at) != (ssize_t)sizeof p)
            break;
        if (le32(p) != PT_NOTE)
            continue;
        uint64_t n = le64(p + 32) < NOTES ? le64(p + 32) : NOTES;
        ssize_t got = pread(fd, notes, (size_t)n, (off_t)le64(p + 8));
        size = got > 0 ? notes_build_id(notes, (size_t)got, id) : 0;
    }
    close(fd);
    return size;
}

/* ---- a process ---- */

size_t native_trailer_put(uint8_t *at, const struct native_trailer *trailer, int32_t pid,
                          int32_t tid)
{
    size_t n = trailer->per_thread ? 8 : 24; /* time 0, CPU 0 */
    memset(at, 0, n);
    put_le32(at, (uint32_t)pid);
    put_le32(at + 4, (uint32_t)tid);
    put_le64(at + n, trailer->id);
    return n + 8;
}

static void write_namespaces(const char *root, int32_t pid, int32_t tid,
                             const struct native_trailer *trailer, struct spex_perf_writer *writer)
{
    static const char *const names[] = {"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"};
    enum { COUNT = sizeof names / sizeof *names };
    uint8_t r[24 + 16 * COUNT + NATIVE_TRAILER] = {0}, *at = r + 24;
    for (unsigned i = 0; i < COUNT; i++) {
        char path[PATH];
        struct stat st = {0};
        snprintf(path, sizeof path, "%s/proc/%d/ns/%s", root, pid, names[i]);
        if (stat(path, &st))
            st = (struct stat){0};
        /* As the kernel packs a device: minor's low byte, major, the rest of the minor. */
        put_le64(at, (minor(st.st_dev) & 0xff) | (uint64_t)major(st.st_dev) << 8 |
                         ((uint64_t)minor(st.st_dev) & ~0xffull) << 12);
        put_le64(at + 8, st.st_ino);
        at += 16;
    }
    put_le32(r, SPEX_PERF_NAMESPACES);
    put_le32(r + 8, (uint32_t)pid);
    put_le32(r + 12, (uint32_t)tid);
    put_le64(r + 16, COUNT);
    at += native_trailer_put(at, trailer, pid, tid);
    put_le16(r + 6, (uint16_t)(at - r));
    perf_writer_raw(writer, r, (size_t)(at - r));
}

static void write_mapping(const char *root, int32_t pid, char *line,
                          struct spex_perf_writer *writer)
{
    char perms[8], path[PATH];
    unsigned major_number, minor_number;
    int n = 0;
    struct spex_perf_map map = {.pid = pid, .tid = pid};
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n", &map.start,
               &map.end, perms, &map.pgoff, &major_number, &minor_number, &map.ino, &n) != 7)
        return;
    map.filename = line[n] ? line + n : "//anon";
    map.maj = major_number;
    map.min = minor_number;
    map.prot = (perms[0] == 'r' ? PROT_READ : 0u) | (perms[1] == 'w' ? PROT_WRITE : 0u) |
               (perms[2] == 'x' ? PROT_EXEC : 0u);
    map.flags = perms[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
    map.data = perms[2] != 'x';
    if (map.filename[0] == '/' && map.filename[1] != '/' && !map.data) {
        /* The path as the process sees it: it may live in a container. */
        snprintf(path, sizeof path, "%s/proc/%d/root%s", root, pid, map.filename);
        map.build_id_size = file_build_id(path, map.build_id);
    }
    spex_perf_writer_map(writer, &map);
}

void native_proc_process(const char *root, int32_t pid, const struct native_trailer *trailer,
                         struct spex_perf_writer *writer)
{
    char path[PATH], *text;
    size_t size;
    native_ids tids = {0};
    int32_t parent = status_number(root, pid, "\nPPid:");
    if (!native_proc_threads(root, pid, &tids))
        return;
    for (size_t i = 0; i < tids.count; i++) {
        int32_t tid = tids.items[i];
        snprintf(path, sizeof path, "%s/proc/%d/task/%d/comm", root, pid, tid);
        text = file_read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MOST, &size);
        if (!text)
            continue; /* the process has ended */
        text[strcspn(text, "\n")] = '\0';
        spex_perf_writer_fork(writer, pid, tid, tid == pid ? parent : pid,
                              tid == pid ? parent : pid, 0);
        write_namespaces(root, pid, tid, trailer, writer);
        spex_perf_writer_comm(writer, pid, tid, text, false, 0);
        free(text);
    }
    vec_free(&tids);
    snprintf(path, sizeof path, "%s/proc/%d/maps", root, pid);
    text = file_read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MOST, &size);
    for (char *line = text, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        write_mapping(root, pid, line, writer);
    }
    free(text);
}

/* ---- the kernel ---- */

static uint8_t notes_of(const char *root, const char *name, uint8_t id[20])
{
    char path[PATH];
    size_t size;
    snprintf(path, sizeof path, "%s%s", root, name);
    char *notes = file_read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MOST, &size);
    uint8_t n = notes ? notes_build_id((const uint8_t *)notes, size, id) : 0;
    free(notes);
    return n;
}

/* "ffff800008000000 T _text". 0 if it is not there or hidden (kptr_restrict). */
static uint64_t kernel_symbol(const char *text, const char *name)
{
    char word[64];
    int n = snprintf(word, sizeof word, " %s\n", name);
    for (const char *at = text; (at = strstr(at, word)); at += n) {
        const char *line = at;
        while (line > text && line[-1] != '\n')
            line--;
        if (at - line >= 3 && at[-2] == ' ') /* the whole name, after a letter */
            return strtoull(line, NULL, 16);
    }
    return 0;
}

static void write_modules(const char *root, struct spex_perf_writer *writer)
{
    char path[PATH];
    size_t size;
    snprintf(path, sizeof path, "%s/proc/modules", root);
    char *text = file_read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MOST, &size);
    for (char *line = text, *end; line && *line; line = end) {
        char name[64], file[80], notes[160];
        uint64_t length = 0;
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        const char *hex = strstr(line, " 0x");
        struct spex_perf_map map = {.pid = SPEX_PERF_PID_KERNEL, .tid = 0, .prot = PROT_EXEC};
        map.start = hex ? strtoull(hex + 1, NULL, 16) : 0;
        if (!map.start || sscanf(line, "%63s %" SCNu64, name, &length) != 2)
            continue;
        snprintf(file, sizeof file, "[%s]", name);
        snprintf(notes, sizeof notes, "/sys/module/%s/notes/.note.gnu.build-id", name);
        map.end = map.start + length;
        map.filename = file;
        map.build_id_size = notes_of(root, notes, map.build_id);
        spex_perf_writer_map(writer, &map);
    }
    free(text);
}

/* The lines about code that BPF has compiled. */
static char *bpf_lines(const char *text)
{
    static const char mark[] = "\t[bpf]\n";
    char *lines = strdup("\n");
    size_t size = 1;
    for (const char *at = text; lines && (at = strstr(at, mark)); at += sizeof mark - 1) {
        const char *line = at;
        while (line > text && line[-1] != '\n')
            line--;
        size_t n = (size_t)(at - line) + sizeof mark - 1;
        char *more = realloc(lines, size + n + 1);
        if (!more)
            break;
        lines = more;
        memcpy(lines + size, line, n);
        size += n;
        lines[size] = '\0';
    }
    return lines;
}

void native_kernel_read(const char *root, struct native_kernel *kernel)
{
    char path[PATH];
    size_t size;
    snprintf(path, sizeof path, "%s/proc/kallsyms", root);
    char *text = file_read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MOST, &size);
    *kernel = (struct native_kernel){.bpf = NULL};
    if (!text)
        return;
    kernel->text = kernel_symbol(text, "_text");
    kernel->stext = kernel_symbol(text, "_stext");
    kernel->end = kernel_symbol(text, "_end");
    if (!kernel->end)
        kernel->end = kernel_symbol(text, "_etext");
    kernel->bpf = bpf_lines(text);
    free(text);
}

void native_proc_kernel(const char *root, const struct native_kernel *kernel,
                        const struct native_trailer *trailer, struct spex_perf_writer *writer)
{
    uint8_t id[20];
    struct spex_perf_map map = {.pid = SPEX_PERF_PID_KERNEL, .prot = PROT_EXEC};
    map.filename = kernel->text ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext";
    map.start = map.pgoff = kernel->text ? kernel->text : kernel->stext;
    map.end = kernel->end;
    if (map.start && map.end > map.start)
        spex_perf_writer_map(writer, &map);
    perf_writer_build_id(writer, "[kernel.kallsyms]", id, notes_of(root, "/sys/kernel/notes", id));
    write_modules(root, writer);
    native_bpf_programs(kernel->bpf, trailer, writer);
}
