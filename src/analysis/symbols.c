/*
 * Modules: finding the file that ran, and its symbols as one sorted table.
 *
 * The choice among symbols at one address follows perf, so that names agree:
 * not weak, global, fewer leading underscores, longer.
 */
#include "module.h"

#include "base/bits.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest files that are read: a kernel with its debug information has half a gigabyte. */
#define ELF_MOST (UINT64_C(16) << 30)
enum { TEXT_MOST = 256 << 20 };

struct spex_symbols {
    struct spex_symbols_options options;
    char *strings[6]; /* copies of the option texts */
    char home_debug[PATH_MAX];
    struct spex_module **modules;
    size_t count, capacity;
    /* Module number plus one: by path, the first with it; by path and build id. */
    uint32_t *by_path, *by_id;
    size_t mask;
};

void module_problem(struct spex_module *module, const char *format, ...)
{
    va_list args;
    if (module->problem)
        return; /* the first reason is the one to act on */
    va_start(args, format);
    if (vasprintf(&module->problem, format, args) < 0)
        module->problem = NULL;
    va_end(args);
}

/* ---- the set ---- */

enum spex_status spex_symbols_new(const struct spex_symbols_options *options,
                                  struct spex_symbols **result, struct spex_error *error)
{
    struct spex_symbols_options given = {0};
    enum spex_status status = SPEX_OK;
    if (options)
        status = sized_take("spex_symbols_options", options, &given, sizeof given, error);
    struct spex_symbols *symbols = status ? NULL : calloc(1, sizeof *symbols);
    if (!symbols)
        return status ? status : error_set(error, SPEX_NO_MEMORY, 0, "no memory for symbols");
    elf_version(EV_CURRENT);
    symbols->options = given;
    struct spex_symbols_options *o = &symbols->options;
    const char **texts[] = {&o->symfs,        &o->vmlinux,   &o->kallsyms,
                            &o->build_id_dir, &o->debug_dir, &o->map_dir};
    if (!o->build_id_dir) {
        const char *home = getenv("HOME");
        snprintf(symbols->home_debug, sizeof symbols->home_debug, "%s/.debug", home ? home : "");
        o->build_id_dir = symbols->home_debug;
    }
    if (!o->debug_dir)
        o->debug_dir = "/usr/lib/debug";
    if (!o->map_dir)
        o->map_dir = "/tmp";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !(*texts[i] = symbols->strings[i] = strdup(*texts[i]))) {
            spex_symbols_free(symbols);
            return error_set(error, SPEX_NO_MEMORY, 0, "no memory for symbols");
        }
    *result = symbols;
    return SPEX_OK;
}

static void close_elf(struct module_elf *file)
{
    if (file->elf)
        elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    *file = (struct module_elf){.fd = -1};
}

void spex_symbols_free(struct spex_symbols *symbols)
{
    if (!symbols)
        return;
    for (size_t i = 0; i < symbols->count; i++) {
        struct spex_module *m = symbols->modules[i];
        for (size_t j = 0; j < m->count; j++)
            if (m->symbols[j].name != m->symbols[j].raw)
                free((char *)m->symbols[j].name);
        free(m->symbols);
        free(m->segments);
        lines_free(m);
        close_elf(&m->image);
        close_elf(&m->debug);
        close_elf(&m->alternate);
        free(m->text);
        free(m->problem);
        free(m->path);
        free(m);
    }
    free(symbols->modules);
    free(symbols->by_path);
    free(symbols->by_id);
    for (size_t i = 0; i < sizeof symbols->strings / sizeof *symbols->strings; i++)
        free(symbols->strings[i]);
    free(symbols);
}

static bool starts_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static enum module_kind kind_of(const char *path)
{
    static const char *const anonymous[] = {"//anon",         "[anon", "/memfd:", "/dev/zero",
                                            "/anon_hugepage", "/SYSV", "[heap]",  "/dev/shm/"};
    static const char *const special[] = {"[stack",    "[vvar",     "[vsyscall]", "[uprobes]",
                                          "[vectors]", "[sigpage]", "/dev/"};
    if (starts_with(path, "[kernel") || starts_with(path, "[guest.kernel"))
        return MODULE_KERNEL;
    for (size_t i = 0; i < sizeof anonymous / sizeof *anonymous; i++)
        if (starts_with(path, anonymous[i]))
            return MODULE_JIT;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (starts_with(path, special[i]))
            return MODULE_NONE;
    /* [nf_tables]: a kernel module named by the kernel, not by its file */
    if (path[0] == '[' && !starts_with(path, "[vdso"))
        return MODULE_KERNEL;
    return MODULE_FILE;
}

/* What tells modules apart: pid 0 but for code of a JIT, id_size 0 if any build will do. */
struct module_key {
    const char *path;
    int pid;
    const uint8_t *id;
    size_t id_size;
};

static struct module_key key_of(const struct spex_module *module, bool with_id)
{
    return (struct module_key){module->path, module->kind == MODULE_JIT ? module->pid : 0,
                               module->build_id, with_id ? module->build_id_size : 0};
}

static uint32_t *find_slot(const struct spex_symbols *symbols, const struct module_key *key)
{
    uint32_t *slots = key->id_size ? symbols->by_id : symbols->by_path;
    uint64_t hash = hash_word(hash_seed(), (uint32_t)key->pid);
    hash = hash_bytes(hash, key->path, strlen(key->path));
    hash = hash_bytes(hash, key->id, key->id_size);
    for (size_t i = hash & symbols->mask;; i = (i + 1) & symbols->mask) {
        if (!slots[i])
            return &slots[i];
        const struct spex_module *m = symbols->modules[slots[i] - 1];
        struct module_key other = key_of(m, key->id_size > 0);
        if (other.pid == key->pid && other.id_size == key->id_size &&
            !memcmp(other.id, key->id, key->id_size) && !strcmp(other.path, key->path))
            return &slots[i];
    }
}

/* The first of a path stays the one that is found without a build id. */
static void enter_module(struct spex_symbols *symbols, size_t number)
{
    for (int with_id = 0; with_id < 2; with_id++) {
        struct module_key key = key_of(symbols->modules[number], with_id);
        uint32_t *slot = find_slot(symbols, &key);
        if (!*slot)
            *slot = (uint32_t)number + 1;
    }
}

static void more_slots(struct spex_symbols *symbols)
{
    if (symbols->by_path && symbols->count * 2 <= symbols->mask)
        return;
    symbols->mask = symbols->mask ? 2 * symbols->mask + 1 : 255;
    free(symbols->by_path);
    free(symbols->by_id);
    symbols->by_path = symbols->by_id = NULL;
    symbols->by_path = memory_get(symbols->mask + 1, sizeof *symbols->by_path);
    symbols->by_id = memory_get(symbols->mask + 1, sizeof *symbols->by_id);
    for (size_t i = 0; i < symbols->count; i++)
        enter_module(symbols, i);
}

struct spex_module *symbols_module(struct spex_symbols *symbols, const char *path,
                                   const uint8_t *build_id, size_t build_id_size, int pid)
{
    enum module_kind kind = kind_of(path);
    char kernel[64];
    const char *bracket = strchr(path, ']');
    if (kind == MODULE_KERNEL && bracket && bracket - path < 60) {
        /* "[kernel.kallsyms]_text": the suffix names the symbol that pgoff is of */
        snprintf(kernel, sizeof kernel, "%.*s", (int)(bracket - path + 1), path);
        path = kernel;
    }
    if (!build_id || build_id_size > sizeof((struct spex_module *)0)->build_id)
        build_id_size = 0;
    more_slots(symbols);
    const struct module_key key = {path, kind == MODULE_JIT ? pid : 0,
                                   build_id_size ? build_id : (const uint8_t *)"", build_id_size};
    uint32_t found = *find_slot(symbols, &key);
    if (found)
        return symbols->modules[found - 1];
    struct spex_module *m = memory_get(1, sizeof *m);
    symbols->modules =
        memory_grow(symbols->modules, symbols->count, &symbols->capacity, sizeof *symbols->modules);
    m->path = memory_copy(path);
    const char *slash = strrchr(m->path, '/');
    m->owner = symbols;
    m->kind = kind;
    m->name = slash && slash[1] && kind == MODULE_FILE ? slash + 1 : m->path;
    if (build_id_size)
        memcpy(m->build_id, build_id, build_id_size);
    m->build_id_size = build_id_size;
    m->pid = pid;
    m->image.fd = m->debug.fd = m->alternate.fd = -1;
    symbols->modules[symbols->count++] = m;
    enter_module(symbols, symbols->count - 1);
    return m;
}

struct spex_module *spex_symbols_module(struct spex_symbols *symbols, const char *path,
                                        const uint8_t *build_id, size_t build_id_size, int pid)
{
    struct spex_module *volatile module = NULL;
    bool done =
        memory_guarded(module = symbols_module(symbols, path, build_id, build_id_size, pid));
    return done ? module : NULL;
}

struct spex_module *spex_symbols_nth(struct spex_symbols *symbols, size_t n)
{
    return n < symbols->count ? symbols->modules[n] : NULL;
}

const char *spex_module_path(const struct spex_module *module)
{
    return module->path;
}

const char *spex_module_name(const struct spex_module *module)
{
    return module->name;
}

uint64_t spex_module_samples(const struct spex_module *module, bool filtered)
{
    return filtered ? module->samples : module->samples + module->left_out;
}

bool spex_module_is_kernel(const struct spex_module *module)
{
    size_t n = strlen(module->path);
    return module->kind == MODULE_KERNEL || (n > 3 && strstr(module->path, ".ko"));
}

const char *spex_module_problem(struct spex_module *module)
{
    module_load(module);
    return module->problem;
}

/* ---- files ---- */

static size_t elf_build_id(Elf *elf, uint8_t *id, size_t capacity)
{
    size_t headers;
    if (elf_getphdrnum(elf, &headers))
        return 0;
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
                                              ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        size_t at = 0, name, desc;
        GElf_Nhdr note;
        while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0)
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp((char *)data->d_buf + name, "GNU", 4) && note.n_descsz <= capacity) {
                memcpy(id, (char *)data->d_buf + desc, note.n_descsz);
                return note.n_descsz;
            }
    }
    /* separate debug files keep the note as a section only */
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_NOTE)
            continue;
        Elf_Data *data = elf_getdata(scn, NULL);
        size_t at = 0, name, desc;
        GElf_Nhdr note;
        while (data && data->d_buf && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0)
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp((char *)data->d_buf + name, "GNU", 4) && note.n_descsz <= capacity) {
                memcpy(id, (char *)data->d_buf + desc, note.n_descsz);
                return note.n_descsz;
            }
    }
    return 0;
}

enum open_result {
    OPEN_OK,
    OPEN_MISSING,
    OPEN_REFUSED, /* errno says why */
    OPEN_NOT_FILE,
    OPEN_NOT_ELF,
    OPEN_NOT_ARM,
    OPEN_OTHER_BUILD
};

/* An ELF file for AArch64, with this build id unless id_size is 0. */
static enum open_result open_build(const char *path, const uint8_t *build_id, size_t id_size,
                                   struct module_elf *file)
{
    struct module_elf f = {.fd = file_open_named(path, ELF_MOST, FILE_ANY_OWNER)};
    enum open_result result = OPEN_OK;
    if (f.fd < 0) {
        return errno == EINVAL || errno == EFBIG     ? OPEN_NOT_FILE
               : errno == ENOENT || errno == ENOTDIR ? OPEN_MISSING
                                                     : OPEN_REFUSED;
    } else if (!(f.elf = elf_begin(f.fd, ELF_C_READ_MMAP, NULL)) || elf_kind(f.elf) != ELF_K_ELF) {
        result = OPEN_NOT_ELF;
    } else {
        GElf_Ehdr header;
        uint8_t id[64];
        if (!gelf_getehdr(f.elf, &header) || header.e_machine != EM_AARCH64)
            result = OPEN_NOT_ARM;
        else if (id_size &&
                 (elf_build_id(f.elf, id, sizeof id) != id_size || memcmp(id, build_id, id_size)))
            result = OPEN_OTHER_BUILD;
    }
    if (result) {
        close_elf(&f);
    } else {
        f.path = memory_copy(path);
        *file = f;
    }
    return result;
}

static enum open_result open_elf(const struct spex_module *module, const char *path,
                                 struct module_elf *file)
{
    return open_build(path, module->build_id, module->build_id_size, file);
}

static const char *refused_advice(int reason)
{
    return reason == EACCES || reason == EPERM ? "; let it be read, or give a copy with --symfs DIR"
           : reason == EMFILE || reason == ENFILE ? "; allow more open files (ulimit -n)"
                                                  : "";
}

static void hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

/* "DIR/.build-id/ab/cdef" + tail, the layout that perf and gdb share. */
static const char *id_path(const uint8_t *build_id, size_t size, const char *dir, const char *tail,
                           char *path)
{
    char id[129] = "";
    if (size < 2 || size > 64)
        return NULL;
    hex(build_id, size, id);
    int n = snprintf(path, PATH_MAX, "%s/.build-id/%.2s/%s%s", dir, id, id + 2, tail);
    return n > 0 && n < PATH_MAX ? path : NULL;
}

static const char *build_id_path(const struct spex_module *module, const char *dir,
                                 const char *tail, char *path)
{
    return id_path(module->build_id, module->build_id_size, dir, tail, path);
}

/*
 * The file that a debug file shares DWARF with others in (dwz): a name, relative to that of the
 * debug file, or below .build-id.
 */
bool module_open_alternate(struct spex_module *module, const char *from, const char *name,
                           const uint8_t *id, size_t id_size)
{
    char path[PATH_MAX];
    const char *slash = strrchr(from, '/');
    int dir = name[0] == '/' || !slash ? 0 : (int)(slash - from + 1);
    int n = snprintf(path, sizeof path, "%.*s%s", dir, from, name);
    return (n < PATH_MAX && !open_build(path, id, id_size, &module->alternate)) ||
           (id_path(id, id_size, module->owner->options.debug_dir, ".debug", path) &&
            !open_build(path, id, id_size, &module->alternate));
}

static bool has_section(Elf *elf, unsigned type, const char *name)
{
    size_t names;
    if (!elf || elf_getshdrstrndx(elf, &names))
        return false;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        const char *text;
        if (gelf_getshdr(scn, &sh) && sh.sh_type == type &&
            (text = elf_strptr(elf, names, sh.sh_name)) && !strcmp(text, name))
            return true;
    }
    return false;
}

static uint32_t file_crc(int fd)
{
    uint32_t crc = ~0u;
    uint8_t block[16384];
    ssize_t n;
    off_t at = 0;
    while ((n = pread(fd, block, sizeof block, at)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            crc ^= block[i];
            for (int bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        at += n;
    }
    return ~crc;
}

/* .gnu_debuglink: beside the file, in .debug, or below the debug directory. */
static void open_debuglink(struct spex_module *module, const char *image_path)
{
    size_t names;
    if (elf_getshdrstrndx(module->image.elf, &names))
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(module->image.elf, scn));) {
        GElf_Shdr sh;
        const char *name;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &sh) || !(name = elf_strptr(module->image.elf, names, sh.sh_name)) ||
            strcmp(name, ".gnu_debuglink") || !(data = elf_rawdata(scn, NULL)) || !data->d_buf)
            continue;
        const char *link = data->d_buf;
        size_t length = strnlen(link, data->d_size), crc_at = (length + 4) & ~(size_t)3;
        if (crc_at + 4 > data->d_size || strchr(link, '/'))
            return;
        uint32_t crc = le32(link + crc_at);
        const char *slash = strrchr(image_path, '/');
        int dir = slash ? (int)(slash - image_path) : 0;
        for (size_t i = 0; i < 3; i++) {
            char path[PATH_MAX];
            int n;
            if (i == 0)
                n = snprintf(path, sizeof path, "%.*s/%s", dir, image_path, link);
            else if (i == 1)
                n = snprintf(path, sizeof path, "%.*s/.debug/%s", dir, image_path, link);
            else
                n = snprintf(path, sizeof path, "%s%.*s/%s", module->owner->options.debug_dir, dir,
                             image_path, link);
            if (n >= (int)sizeof path || open_elf(module, path, &module->debug))
                continue;
            if (module->build_id_size || file_crc(module->debug.fd) == crc)
                return;
            module_problem(module, "%s: its separate debug file %s belongs to another build",
                           module->name, path);
            close_elf(&module->debug);
        }
    }
}

static void open_files(struct spex_module *module)
{
    const struct spex_symbols_options *o = &module->owner->options;
    char path[PATH_MAX], seen[PATH_MAX] = "";
    enum open_result why = OPEN_MISSING;
    int reason = 0;
    const char *candidates[4];
    char symfs[PATH_MAX], cache[PATH_MAX], cache_file[PATH_MAX];
    size_t count = 0;
    if (o->symfs) {
        if (snprintf(symfs, sizeof symfs, "%s%s%s", o->symfs, module->path[0] == '/' ? "" : "/",
                     module->path) < (int)sizeof symfs)
            candidates[count++] = symfs;
    }
    bool vdso = starts_with(module->path, "[vdso");
    if (build_id_path(module, o->build_id_dir, vdso ? "/vdso" : "/elf", cache))
        candidates[count++] = cache;
    if (build_id_path(module, o->build_id_dir, "", cache_file))
        candidates[count++] = cache_file;
    if (!o->symfs && !vdso)
        candidates[count++] = module->path;
    for (size_t i = 0; i < count && !module->image.elf; i++) {
        enum open_result r = open_elf(module, candidates[i], &module->image);
        if (r == OPEN_OK || r > why) {
            why = r;
            reason = errno;
            snprintf(seen, sizeof seen, "%s", candidates[i]);
        }
    }
    /* symbols and DWARF may live elsewhere */
    Elf *elf = module->image.elf;
    if (!has_section(elf, SHT_SYMTAB, ".symtab") ||
        !has_section(elf, SHT_PROGBITS, ".debug_info")) {
        if (!(build_id_path(module, o->debug_dir, ".debug", path) &&
              !open_elf(module, path, &module->debug)) &&
            !(build_id_path(module, o->build_id_dir, "/debug", path) &&
              !open_elf(module, path, &module->debug)) &&
            elf)
            open_debuglink(module, seen);
    }
    if (elf || module->debug.elf || vdso)
        return;
    char id[129] = "";
    hex(module->build_id, module->build_id_size, id);
    switch (why) {
    case OPEN_REFUSED:
        module_problem(module, "%s: %s cannot be opened: %s%s", module->name, seen,
                       strerror(reason), refused_advice(reason));
        break;
    case OPEN_NOT_FILE:
        module_problem(module, "%s: %s is no regular file (or larger than 16 GB), and not opened",
                       module->name, seen);
        break;
    case OPEN_NOT_ELF:
        module_problem(module, "%s: %s is not an ELF file", module->name, seen);
        break;
    case OPEN_NOT_ARM:
        module_problem(module,
                       "%s: %s is not for AArch64; copy the file from the machine that "
                       "was profiled and give its root with --symfs DIR",
                       module->name, seen);
        break;
    case OPEN_OTHER_BUILD:
        module_problem(module,
                       "%s: %s is another build (the profile ran build id %s); give the "
                       "matching file with --symfs DIR",
                       module->name, seen, id);
        break;
    default:
        module_problem(module,
                       "%s: no such file here%s%s; copy it from the machine that was "
                       "profiled and give its root with --symfs DIR",
                       module->path, *id ? ", build id " : "", id);
    }
}

/* ---- tables ---- */

struct candidate_symbol {
    struct spex_symbol symbol;
    uint8_t weak, global, code;
};

struct table {
    struct candidate_symbol *items;
    size_t count, capacity;
    bool full; /* no memory for more */
};

static void add_symbol(struct table *table, uint64_t start, uint64_t size, const char *name,
                       bool code, bool weak, bool global)
{
    if (table->full)
        return;
    if (table->count == table->capacity) {
        size_t more = table->capacity ? table->capacity + table->capacity / 2 : 16;
        /* three times: the table that stays is made of this one, and its names */
        if (!memory_allows(3 * more * sizeof *table->items)) {
            table->full = true;
            return;
        }
        table->items = memory_resize(table->items, more, sizeof *table->items);
        table->capacity = more;
    }
    uint64_t end = start + size < start ? UINT64_MAX : start + size;
    table->items[table->count++] = (struct candidate_symbol){
        {.start = start, .end = end, .raw = name, .data = !code}, weak, global, code};
}

static unsigned underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

/* Best first among those with the same start. */
static int compare_symbols(const void *a, const void *b)
{
    const struct candidate_symbol *x = a, *y = b;
    if (x->symbol.start != y->symbol.start)
        return x->symbol.start < y->symbol.start ? -1 : 1;
    bool sized_x = x->symbol.end > x->symbol.start, sized_y = y->symbol.end > y->symbol.start;
    if (sized_x != sized_y)
        return sized_x ? -1 : 1;
    if (!x->symbol.raw != !y->symbol.raw)
        return x->symbol.raw ? -1 : 1;
    if (!x->symbol.raw)
        return 0;
    if (x->weak != y->weak)
        return x->weak ? 1 : -1;
    if (x->global != y->global)
        return x->global ? -1 : 1;
    unsigned u = underscores(x->symbol.raw), v = underscores(y->symbol.raw);
    if (u != v)
        return u < v ? -1 : 1;
    size_t n = strlen(x->symbol.raw), m = strlen(y->symbol.raw);
    if (n != m)
        return n > m ? -1 : 1;
    return strcmp(x->symbol.raw, y->symbol.raw);
}

/* Sorts, keeps one symbol per address, and lets symbols without a size end at the next. */
static void finish_table(struct spex_module *module, struct table *table)
{
    if (table->count)
        qsort(table->items, table->count, sizeof *table->items, compare_symbols);
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        if (!kept || table->items[i].symbol.start != table->items[kept - 1].symbol.start)
            table->items[kept++] = table->items[i];
    module->symbols = memory_get(kept, sizeof *module->symbols);
    if (table->full)
        module_problem(module,
                       "%s: has more symbols than the memory that is allowed can hold; %zu are "
                       "used: --max-memory SIZE allows more",
                       module->name, kept);
    for (size_t i = 0; i < kept; i++) {
        struct spex_symbol *s = &module->symbols[i];
        *s = table->items[i].symbol;
        s->module = module;
        if (s->end == s->start)
            s->end = i + 1 < kept ? table->items[i + 1].symbol.start : (s->start | 0xfff) + 1;
    }
    module->count = kept;
    free(table->items);
}

static void elf_symbols(Elf *elf, unsigned section_type, struct table *table, uint64_t *link_text)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != section_type || !sh.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 1; i < data->d_size / sh.sh_entsize; i++) {
            GElf_Sym sym;
            const char *name;
            if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
                sym.st_shndx == SHN_ABS || !(name = elf_strptr(elf, sh.sh_link, sym.st_name)) ||
                !*name)
                continue;
            unsigned type = GELF_ST_TYPE(sym.st_info), bind = GELF_ST_BIND(sym.st_info);
            bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
            if (!function && type != STT_OBJECT && type != STT_NOTYPE)
                continue;
            if (!function && name[0] == '$' && strchr("xdc", name[1]) && name[1] &&
                (!name[2] || name[2] == '.'))
                continue; /* AArch64 mapping symbols */
            if (!strcmp(name, "_text") && link_text)
                *link_text = sym.st_value;
            GElf_Shdr in;
            bool code = function;
            Elf_Scn *home = type == STT_NOTYPE ? elf_getscn(elf, sym.st_shndx) : NULL;
            if (home && gelf_getshdr(home, &in)) {
                code = in.sh_flags & SHF_EXECINSTR;
                if (!code && !sym.st_size)
                    continue; /* __bss_start, edata: marks, not objects */
            }
            add_symbol(table, sym.st_value, sym.st_size, name, code, bind == STB_WEAK,
                       bind == STB_GLOBAL);
        }
    }
}

/* foo@plt from the relocations of .plt: entries stand in their order, 32 bytes from its start.
 */
static void plt_symbols(struct spex_module *module, struct table *table)
{
    Elf *elf = module->image.elf;
    size_t names;
    Elf_Scn *relocations = NULL;
    GElf_Shdr plt = {0}, rela = {0};
    if (!elf || elf_getshdrstrndx(elf, &names))
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        const char *name;
        if (!gelf_getshdr(scn, &sh) || !(name = elf_strptr(elf, names, sh.sh_name)))
            continue;
        if (!strcmp(name, ".plt") && sh.sh_type == SHT_PROGBITS)
            plt = sh;
        if (!strcmp(name, ".rela.plt") && sh.sh_type == SHT_RELA) {
            relocations = scn;
            rela = sh;
        }
    }
    Elf_Scn *dynsym = relocations ? elf_getscn(elf, rela.sh_link) : NULL;
    GElf_Shdr dyn;
    if (!dynsym || !plt.sh_size || !rela.sh_entsize || !gelf_getshdr(dynsym, &dyn))
        return;
    Elf_Data *data = elf_getdata(relocations, NULL), *syms = elf_getdata(dynsym, NULL);
    uint64_t count = rela.sh_size / rela.sh_entsize, header = 32, entry;
    if (!data || !syms || !count || plt.sh_size <= header)
        return;
    entry = (plt.sh_size - header) / count;
    if (entry < 16)
        return;
    size_t text_size = 1;
    for (int pass = 0; pass < 2; pass++) {
        char *at = module->text;
        for (uint64_t i = 0; i < count; i++) {
            GElf_Rela r;
            GElf_Sym sym;
            const char *name;
            if (!gelf_getrela(data, (int)i, &r) ||
                !gelf_getsym(syms, (int)GELF_R_SYM(r.r_info), &sym) ||
                !(name = elf_strptr(elf, dyn.sh_link, sym.st_name)))
                continue;
            if (pass == 0) {
                text_size += strlen(name) + 5;
                continue;
            }
            add_symbol(table, plt.sh_addr + header + i * entry, entry, at, true, false, true);
            at += sprintf(at, "%s@plt", name) + 1;
        }
        if (pass == 0 && !(module->text = malloc(text_size)))
            return;
    }
}

/*
 * Function starts of a stripped file from the search table of .eh_frame_hdr:
 * version 1, table of pairs relative to the section (LSB Core 10.6).
 */
static size_t unwind_symbols(Elf *elf, struct table *table)
{
    size_t headers, added = 0;
    if (!elf || elf_getphdrnum(elf, &headers))
        return 0;
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        Elf_Data *data;
        if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME ||
            !(data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_BYTE)) ||
            data->d_size < 12)
            continue;
        const uint8_t *p = data->d_buf;
        enum { SDATA4_PCREL = 0x1b, UDATA4 = 0x03, SDATA4_DATAREL = 0x3b };
        if (p[0] != 1 || p[1] != SDATA4_PCREL || p[2] != UDATA4 || p[3] != SDATA4_DATAREL)
            continue;
        uint32_t count = le32(p + 8);
        for (uint32_t n = 0; n < count && 12 + 8 * ((size_t)n + 1) <= data->d_size; n++) {
            int32_t start = (int32_t)le32(p + 12 + 8 * (size_t)n);
            add_symbol(table, ph.p_vaddr + (uint64_t)(int64_t)start, 0, NULL, true, false, false);
            added++;
        }
    }
    return added;
}

static void load_segments(struct spex_module *module)
{
    Elf *elf = module->image.elf ? module->image.elf : module->debug.elf;
    size_t headers;
    if (!elf || elf_getphdrnum(elf, &headers))
        return;
    module->segments = memory_get(headers + 1, sizeof *module->segments);
    for (size_t i = 0; i < headers; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_LOAD)
            module->segments[module->segment_count++] =
                (struct module_segment){ph.p_offset, ph.p_vaddr, ph.p_filesz, ph.p_memsz};
    }
}

static bool load_elf(struct spex_module *module)
{
    struct table table = {0};
    load_segments(module);
    if (module->debug.elf && has_section(module->debug.elf, SHT_SYMTAB, ".symtab"))
        elf_symbols(module->debug.elf, SHT_SYMTAB, &table, &module->link_text);
    else if (module->image.elf)
        elf_symbols(module->image.elf, SHT_SYMTAB, &table, &module->link_text);
    bool stripped = table.count == 0;
    if (stripped && module->image.elf)
        elf_symbols(module->image.elf, SHT_DYNSYM, &table, NULL);
    size_t named = table.count;
    plt_symbols(module, &table);
    if (stripped) {
        size_t starts = unwind_symbols(module->image.elf, &table);
        if (module->image.elf)
            module_problem(module,
                           "%s: stripped; %s; install its debug symbols or give an "
                           "unstripped copy with --symfs DIR",
                           module->name,
                           named    ? "only exported names are shown"
                           : starts ? "functions are shown as offsets"
                                    : "addresses are shown as offsets");
    }
    finish_table(module, &table);
    return module->count > 0;
}

/* A file that the user names may be a pipe, or of /proc. */
static char *read_kallsyms(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return NULL;
    char *text = file_read_all(fd, TEXT_MOST, size);
    int why = errno;
    close(fd);
    errno = why;
    return text;
}

/* "ADDRESS TYPE NAME[\t[MODULE]]" a line; only the symbols of this module. */
static bool load_kallsyms(struct spex_module *module, const char *path)
{
    size_t size;
    struct table table = {0};
    char *wanted = NULL;
    module->text = path == module->owner->options.kallsyms
                       ? read_kallsyms(path, &size)
                       : file_read_named(path, TEXT_MOST, FILE_ANY_OWNER, &size);
    if (!module->text) {
        module_problem(module, "%s: %s", path, strerror(errno));
        return false;
    }
    if (module->path[0] == '[' && !starts_with(module->path, "[kernel") &&
        !starts_with(module->path, "[guest"))
        wanted = module->path;
    uint64_t any = 0;
    for (char *line = module->text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *end, *name, *owner;
        uint64_t address = strtoull(line, &end, 16);
        if (end == line || *end != ' ' || !end[1] || end[2] != ' ')
            continue;
        char type = end[1];
        name = end + 3;
        owner = strchr(name, '\t');
        if (owner)
            *owner++ = 0;
        if (!strchr("tTwWdDbBrRvV", type) || !name[0] || name[0] == '$' ||
            (wanted ? !owner || strcmp(owner, wanted) : owner != NULL))
            continue;
        any |= address;
        add_symbol(&table, address, 0, name, strchr("tTwW", type) != NULL,
                   type == 'w' || type == 'W', type >= 'A' && type <= 'Z');
    }
    if (table.count && !any) {
        module_problem(module, "%s: all addresses are zero; read /proc/kallsyms as root", path);
        table.count = 0;
    }
    finish_table(module, &table);
    return module->count > 0;
}

static void load_kernel(struct spex_module *module)
{
    const struct spex_symbols_options *o = &module->owner->options;
    char path[PATH_MAX];
    bool main_kernel = starts_with(module->path, "[kernel") || starts_with(module->path, "[guest");
    if (o->vmlinux && main_kernel) {
        enum open_result r = open_elf(module, o->vmlinux, &module->image);
        int reason = errno;
        if (r == OPEN_OK && load_elf(module))
            return;
        if (r == OPEN_REFUSED)
            module_problem(module, "%s cannot be opened: %s%s", o->vmlinux, strerror(reason),
                           refused_advice(reason));
        module_problem(module,
                       r == OPEN_MISSING       ? "%s: no such file"
                       : r == OPEN_OTHER_BUILD ? "%s: not the kernel that was profiled "
                                                 "(another build id)"
                                               : "%s: not an AArch64 kernel with symbols",
                       o->vmlinux);
    }
    if (o->kallsyms && load_kallsyms(module, o->kallsyms))
        return;
    if (!module->problem && main_kernel &&
        build_id_path(module, o->build_id_dir, "/vmlinux", path) &&
        !open_elf(module, path, &module->image) && load_elf(module))
        return;
    if (!module->problem && build_id_path(module, o->build_id_dir, "/kallsyms", path) &&
        !access(path, R_OK) && load_kallsyms(module, path))
        return;
    if (!module->symbols)
        finish_table(module, &(struct table){0});
    module_problem(module,
                   "%s: no kernel symbols; give --vmlinux FILE, or --kallsyms FILE (a "
                   "copy of /proc/kallsyms of that machine, read as root)",
                   module->path);
}

/* "START SIZE NAME" a line, hexadecimal. */
static void load_jit(struct spex_module *module)
{
    char path[PATH_MAX];
    size_t size;
    struct table table = {0};
    snprintf(path, sizeof path, "%s%s/perf-%d.map",
             module->owner->options.symfs ? module->owner->options.symfs : "",
             module->owner->options.map_dir, module->pid);
    module->text = file_read_named(path, TEXT_MOST, FILE_OWN_OR_ROOT, &size);
    if (!module->text && errno != ENOENT) /* most programs have none */
        module_problem(module, "%s: %s, so it is not read", path,
                       errno == EPERM    ? "belongs neither to you nor to root"
                       : errno == EINVAL ? "is no regular file"
                       : errno == EFBIG  ? "is larger than 256 MB"
                                         : strerror(errno));
    for (char *line = module->text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *end, *name;
        uint64_t start = strtoull(line, &end, 16), length;
        if (end == line || *end != ' ')
            continue;
        length = strtoull(end + 1, &name, 16);
        if (name == end + 1 || *name != ' ' || !name[1])
            continue;
        add_symbol(&table, start, length, name + 1, true, false, true);
    }
    finish_table(module, &table);
}

static void load(struct spex_module *module)
{
    switch (module->kind) {
    case MODULE_FILE:
        open_files(module);
        load_elf(module);
        break;
    case MODULE_KERNEL:
        load_kernel(module);
        break;
    case MODULE_JIT:
        load_jit(module);
        break;
    case MODULE_NONE:
        finish_table(module, &(struct table){0});
        break;
    }
}

/* Out of memory, a module has no symbols; the rest of the profile is read. */
void module_load(struct spex_module *module)
{
    if (module->loaded)
        return;
    module->loaded = true;
    if (memory_guarded(load(module)))
        return;
    module->count = module->segment_count = 0;
    module_problem(module, "%s: not enough memory for its symbols", module->name);
}

/* ---- look-up ---- */

bool module_is_file(const struct spex_module *module)
{
    return module->kind == MODULE_FILE;
}

bool module_has_symbols(struct spex_module *module)
{
    module_load(module);
    return module->count || module->kind == MODULE_FILE || module->kind == MODULE_KERNEL;
}

bool module_covers(struct spex_module *module, uint64_t address)
{
    module_load(module);
    for (size_t i = 0; i < module->segment_count; i++)
        if (address >= module->segments[i].address &&
            address - module->segments[i].address < module->segments[i].size)
            return true;
    return false;
}

uint64_t spex_module_address(struct spex_module *module, uint64_t ip, uint64_t start,
                             uint64_t pgoff)
{
    if (module->kind == MODULE_JIT || module->kind == MODULE_NONE)
        return ip;
    module_load(module);
    if (module->kind == MODULE_KERNEL) /* pgoff is where _text was at run time (KASLR) */
        return module->link_text && pgoff ? ip - (pgoff - module->link_text) : ip;
    uint64_t offset = ip - start + pgoff;
    const struct module_segment *below = NULL;
    for (size_t i = 0; i < module->segment_count; i++) {
        const struct module_segment *s = &module->segments[i];
        if (offset >= s->offset && offset - s->offset < s->file_size)
            return offset - s->offset + s->address;
        if (offset >= s->offset && (!below || s->offset > below->offset))
            below = s;
    }
    return below ? offset - below->offset + below->address : offset;
}

const struct spex_symbol *spex_module_nth(struct spex_module *module, size_t n)
{
    module_load(module);
    if (n >= module->count)
        return NULL;
    struct spex_symbol *s = &module->symbols[n];
    if (!s->name && s->raw) {
        char *name = module->owner->options.raw_names ? NULL : spex_demangle(s->raw);
        s->name = name ? name : s->raw;
    }
    return s;
}

const struct spex_symbol *module_symbol_around(struct spex_module *module, uint64_t address,
                                               uint64_t *first, uint64_t *last)
{
    module_load(module);
    size_t low = 0, high = module->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (module->symbols[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    *first = low ? module->symbols[low - 1].start : 0;
    *last = low < module->count ? module->symbols[low].start - 1 : UINT64_MAX;
    /* a short symbol may stand inside a longer one: look a little way back */
    for (size_t i = low; i > 0 && low - i < 16; i--) {
        uint64_t end = module->symbols[i - 1].end;
        if (address < end) {
            *last = end - 1 < *last ? end - 1 : *last;
            return spex_module_nth(module, i - 1);
        }
        *first = end > *first ? end : *first;
    }
    return NULL;
}

const struct spex_symbol *spex_module_symbol(struct spex_module *module, uint64_t address)
{
    uint64_t first, last;
    return module_symbol_around(module, address, &first, &last);
}

size_t spex_module_read(struct spex_module *module, uint64_t address, void *data, size_t size)
{
    module_load(module);
    if (!module->image.elf)
        return 0;
    for (size_t i = 0; i < module->segment_count; i++) {
        const struct module_segment *s = &module->segments[i];
        if (address < s->address || address - s->address >= s->file_size)
            continue;
        uint64_t left = s->file_size - (address - s->address);
        ssize_t n = pread(module->image.fd, data, size < left ? size : left,
                          (off_t)(s->offset + (address - s->address)));
        if (n < 0)
            module_problem(module, "%s: %s", module->path, strerror(errno));
        return n > 0 ? (size_t)n : 0;
    }
    return 0;
}
