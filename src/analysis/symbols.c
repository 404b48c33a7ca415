/* The set of modules, and look-up in their tables. */
#include "types.h"

#include "perfdata/jit.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/search.h"
#include "base/sized.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool module_problem(struct spex_module *module, const char *format, ...)
{
    MEMORY_OF(module->owner->account);
    va_list args;
    if (module->problem && !module->stripped)
        return false;      /* the first reason is the one to act on */
    if (module->problem) { /* this problem matters more than missing names */
        memory_free(module->problem);
        module->stripped = false;
    }
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    module->problem = n < 0 ? NULL : memory_new((size_t)n + 1);
    va_start(args, format);
    if (module->problem)
        vsnprintf(module->problem, (size_t)n + 1, format, args);
    va_end(args);
    module->remedy = SPEX_REMEDY_NONE;
    return true;
}

char *module_text(struct spex_module *module, size_t size)
{
    enum { BLOCK = 64 << 10 };
    struct module_text *t = module->texts;
    if (!t || t->size - t->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;
        t = memory_get(1, sizeof *t + room);
        t->size = room;
        t->next = module->texts;
        module->texts = t;
    }
    t->used += size;
    return t->bytes + t->used - size;
}

/* ---- the set ---- */

enum spex_status spex_symbols_new(const struct spex_symbols_options *options,
                                  struct spex_symbols **result, struct spex_error *error)
{
    assert(result);
    struct spex_symbols_options given = {0};
    enum spex_status status = SPEX_OK;
    if (options)
        status = sized_take("spex_symbols_options", options, &given, sizeof given, error);
    if (status)
        return status;
    struct memory *account = memory_open(given.max_memory, given.allocator);
    MEMORY_OF(account);
    struct spex_symbols *symbols = account ? memory_zeroed(1, sizeof *symbols) : NULL;
    if (!symbols) {
        memory_end(account, memory_before_);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for symbols");
    }
    symbols->account = account;
    elf_version(EV_CURRENT);
    symbols->options = given;
    struct spex_symbols_options *o = &symbols->options;
    const char **texts[] = {&o->symfs,     &o->vmlinux, &o->kallsyms, &o->build_id_dir,
                            &o->debug_dir, &o->map_dir, &o->beside};
    if (!o->build_id_dir) {
        const char *home = getenv("HOME");
        snprintf(symbols->home_debug, sizeof symbols->home_debug, "%s/.debug", home ? home : "");
        o->build_id_dir = symbols->home_debug;
    }
    snprintf(symbols->beside_debug, sizeof symbols->beside_debug, "%s/.debug",
             o->beside ? o->beside : "/nonexistent");
    if (!o->debug_dir)
        o->debug_dir = "/usr/lib/debug";
    if (!o->map_dir)
        o->map_dir = "/tmp";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] &&
            !(*texts[i] = symbols->strings[i] = memory_text(*texts[i], strlen(*texts[i])))) {
            spex_symbols_free(symbols);
            return error_set(error, SPEX_NO_MEMORY, 0, "no memory for symbols");
        }
    *result = symbols;
    return SPEX_OK;
}

void spex_symbols_free(struct spex_symbols *symbols)
{
    if (!symbols)
        return;
    struct memory *account = symbols->account, *before = memory_enter(account);
    for (size_t i = 0; i < symbols->count; i++) {
        struct spex_module *m = symbols->modules[i];
        for (size_t j = 0; j < m->count; j++)
            if (m->symbols[j].name != m->symbols[j].raw)
                memory_free((char *)m->symbols[j].name);
        memory_free(m->symbols);
        memory_free(m->segments);
        types_free(m);
        lines_free(m);
        elf_close(&m->image);
        elf_close(&m->debug);
        elf_close(&m->alternate);
        elf_close(&m->small);
        memory_free(m->small_bytes);
        memory_free(m->spare);
        memory_free(m->source);
        go_free(m);
        for (struct module_text *t = m->texts, *next; t; t = next) {
            next = t->next;
            memory_free(t);
        }
        memory_free(m->text);
        memory_free(m->problem);
        memory_free(m);
    }
    debuginfod_free(symbols);
    type_names_free(symbols);
    memory_free(symbols->modules);
    memory_free(symbols->by_path);
    memory_free(symbols->by_id);
    memory_free(symbols->spaces);
    for (size_t i = 0; i < sizeof symbols->strings / sizeof *symbols->strings; i++)
        memory_free(symbols->strings[i]);
    memory_free(symbols);
    memory_end(account, before);
}

void symbols_roots(const struct spex_symbols *symbols, struct module_roots *roots)
{
    size_t n = 0;
    const char **root = roots->below.roots;
    snprintf(roots->archive, sizeof roots->archive, "%s/root", symbols->beside_debug);
    root[n++] = roots->archive;
    if (symbols->options.symfs)
        root[n++] = symbols->options.symfs;
    root[n++] = "";
    root[n] = NULL;
}

static enum spex_module_kind kind_of(const char *path)
{
    static const char *const anonymous[] = {"//anon",         "[anon", "/memfd:", "/dev/zero",
                                            "/anon_hugepage", "/SYSV", "[heap]",  "/dev/shm/"};
    static const char *const special[] = {"[stack",    "[vvar",     "[vsyscall]", "[uprobes]",
                                          "[vectors]", "[sigpage]", "/dev/"};
    if (starts_with(path, JIT_PREFIX) || starts_with(path, "[bpf] "))
        return SPEX_MODULE_CODE;
    if (starts_with(path, "[kernel") || starts_with(path, "[guest.kernel"))
        return SPEX_MODULE_KERNEL;
    for (size_t i = 0; i < sizeof anonymous / sizeof *anonymous; i++)
        if (starts_with(path, anonymous[i]))
            return SPEX_MODULE_JIT;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (starts_with(path, special[i]))
            return SPEX_MODULE_NONE;
    /* [nf_tables]: a kernel module named by the kernel, not by its file */
    if (path[0] == '[' && !starts_with(path, "[vdso"))
        return SPEX_MODULE_KERNEL;
    return SPEX_MODULE_FILE;
}

/* Identifies a module: pid is 0 except for JIT code; id_size is 0 if any build will do. */
struct module_key {
    const char *path;
    int pid;
    const uint8_t *id;
    size_t id_size;
    uint64_t space; /* tells files of containers apart if there is no build id */
};

static struct module_key key_of(const struct spex_module *module, bool with_id)
{
    return (struct module_key){module->path, module->kind == SPEX_MODULE_JIT ? module->pid : 0,
                               module->recorded.bytes, with_id ? module->recorded.size : 0,
                               with_id ? 0 : module->space.inode};
}

static uint32_t *find_slot(const struct spex_symbols *symbols, const struct module_key *key)
{
    uint32_t *slots = key->id_size ? symbols->by_id : symbols->by_path;
    uint64_t hash = hash_word(hash_seed(), (uint32_t)key->pid);
    hash = hash_bytes(hash_word(hash, key->space), key->path, strlen(key->path));
    hash = hash_bytes(hash, key->id, key->id_size);
    for (size_t i = hash & symbols->mask;; i = (i + 1) & symbols->mask) {
        if (!slots[i])
            return &slots[i];
        const struct spex_module *m = symbols->modules[slots[i] - 1];
        struct module_key other = key_of(m, key->id_size > 0);
        if (other.pid == key->pid && other.space == key->space && other.id_size == key->id_size &&
            !memcmp(other.id, key->id, key->id_size) && !strcmp(other.path, key->path))
            return &slots[i];
    }
}

/* The first module with a path remains the one that is found without a build id. */
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
    memory_free(symbols->by_path);
    memory_free(symbols->by_id);
    symbols->by_path = symbols->by_id = NULL;
    symbols->by_path = memory_get(symbols->mask + 1, sizeof *symbols->by_path);
    symbols->by_id = memory_get(symbols->mask + 1, sizeof *symbols->by_id);
    for (size_t i = 0; i < symbols->count; i++)
        enter_module(symbols, i);
}

struct spex_module *symbols_module(struct spex_symbols *symbols, const char *path,
                                   const uint8_t *build_id, size_t build_id_size, int pid,
                                   const struct module_space *space)
{
    enum spex_module_kind kind = kind_of(path);
    struct module_space foreign = {0, 0};
    if (space && kind == SPEX_MODULE_FILE && !space_is_own(space))
        foreign = *space;
    char kernel[64];
    const char *bracket = strchr(path, ']');
    if (kind == SPEX_MODULE_KERNEL && bracket && bracket - path < 60) {
        /* "[kernel.kallsyms]_text": the suffix names the symbol that pgoff belongs to */
        snprintf(kernel, sizeof kernel, "%.*s", (int)(bracket - path + 1), path);
        path = kernel;
    }
    if (!build_id || build_id_size > sizeof((struct module_id *)0)->bytes)
        build_id_size = 0;
    more_slots(symbols);
    const struct module_key key = {path, kind == SPEX_MODULE_JIT ? pid : 0,
                                   build_id_size ? build_id : (const uint8_t *)"", build_id_size,
                                   build_id_size ? 0 : foreign.inode};
    uint32_t found = *find_slot(symbols, &key);
    if (found)
        return symbols->modules[found - 1];
    symbols->modules =
        memory_grow(symbols->modules, symbols->count, &symbols->capacity, sizeof *symbols->modules);
    struct spex_module *m = memory_get(1, sizeof *m + strlen(path) + 1);
    m->path = strcpy((char *)(m + 1), path);
    const char *slash = strrchr(m->path, '/');
    m->owner = symbols;
    m->kind = kind;
    m->name = kind == SPEX_MODULE_CODE ? starts_with(path, "[bpf]") ? "[bpf]" : "[jit]"
              : slash && slash[1] && kind == SPEX_MODULE_FILE ? slash + 1
                                                              : m->path;
    if (build_id_size)
        memcpy(m->recorded.bytes, build_id, build_id_size);
    m->recorded.size = build_id_size;
    m->pid = pid;
    m->space = foreign;
    m->image.fd = m->debug.fd = m->alternate.fd = m->small.fd = -1;
    m->whole = m;
    if (kind == SPEX_MODULE_CODE) {
        struct spex_module **first = &symbols->code[starts_with(path, "[bpf]")];
        m->whole = *first = *first ? *first : m;
    }
    symbols->modules[symbols->count++] = m;
    m->number = (uint32_t)symbols->count;
    enter_module(symbols, symbols->count - 1);
    return m;
}

struct spex_module *spex_symbols_module(struct spex_symbols *symbols, const char *path,
                                        const uint8_t *build_id, size_t build_id_size, int pid)
{
    assert(symbols);
    struct spex_module *volatile module = NULL;
    bool done = memory_guarded(symbols->account, module = symbols_module(symbols, path, build_id,
                                                                         build_id_size, pid, NULL));
    return done ? module : NULL;
}

struct spex_module *spex_symbols_nth(struct spex_symbols *symbols, size_t n)
{
    assert(symbols);
    return n < symbols->count ? symbols->modules[n] : NULL;
}

const char *spex_module_path(const struct spex_module *module)
{
    assert(module);
    return module->path;
}

const char *spex_module_name(const struct spex_module *module)
{
    assert(module);
    return module->name;
}

uint64_t spex_module_samples(const struct spex_module *module, bool filtered)
{
    assert(module);
    return filtered ? module->samples : module->samples + module->left_out;
}

uint64_t spex_module_unnamed(const struct spex_module *module, bool filtered)
{
    assert(module);
    return filtered && module->stripped ? module->unnamed : spex_module_samples(module, filtered);
}

bool spex_module_is_kernel(const struct spex_module *module)
{
    assert(module);
    size_t n = strlen(module->path);
    return module->kind == SPEX_MODULE_KERNEL || starts_with(module->path, "[bpf]") ||
           (n > 3 && strstr(module->path, ".ko"));
}

const char *spex_module_problem(struct spex_module *module)
{
    assert(module);
    module_load(module);
    return module->problem;
}

enum spex_remedy spex_module_remedy(struct spex_module *module)
{
    assert(module);
    return spex_module_problem(module) ? module->remedy : SPEX_REMEDY_NONE;
}

static void load(struct spex_module *module)
{
    struct module_table table = {0};
    switch (module->kind) {
    case SPEX_MODULE_FILE:
        module_open_files(module);
        module_load_elf(module);
        break;
    case SPEX_MODULE_KERNEL:
        module_load_kernel(module);
        break;
    case SPEX_MODULE_JIT:
        module_load_jit(module);
        break;
    case SPEX_MODULE_CODE: /* the same at every address it is mapped to */
        table_add(&table, 0, UINT64_MAX, strchr(module->path, ' ') + 1, true, false, 0);
        table_finish(module, &table);
        break;
    case SPEX_MODULE_NONE:
        table_finish(module, &(struct module_table){0});
        break;
    }
}

/* If memory runs out, the module has no symbols; the rest of the profile is still read. */
void module_load(struct spex_module *module)
{
    if (module->loaded)
        return;
    module->loaded = true;
    if (memory_guarded(module->owner->account, load(module)))
        return;
    module->count = module->segment_count = 0;
    module_problem(module, "%s: not enough memory for its symbols", module->name);
}

/* ---- look-up ---- */

enum spex_module_kind spex_module_kind(const struct spex_module *module)
{
    assert(module);
    return module->kind;
}

int spex_module_pid(const struct spex_module *module)
{
    assert(module);
    return module->pid;
}

const uint8_t *spex_module_build_id(const struct spex_module *module, bool opened, size_t *size)
{
    assert(module && size);
    const struct module_id *id = opened ? &module->found : &module->recorded;
    *size = id->size;
    return id->bytes;
}

const char *spex_module_file(struct spex_module *module)
{
    assert(module);
    module_load(module);
    return module->image.path;
}

bool spex_module_segment(struct spex_module *module, size_t n, struct spex_segment *segment)
{
    assert(module && segment);
    module_load(module);
    if (n >= module->segment_count)
        return false;
    const struct module_segment *s = &module->segments[n];
    *segment = (struct spex_segment){s->address, s->size, s->offset, s->file_size};
    return true;
}

bool module_is_file(const struct spex_module *module)
{
    return module->kind == SPEX_MODULE_FILE;
}

bool module_is_code(const struct spex_module *module)
{
    return module->kind == SPEX_MODULE_CODE;
}

bool module_has_symbols(struct spex_module *module)
{
    module_load(module);
    return module->count || module->kind == SPEX_MODULE_FILE || module->kind == SPEX_MODULE_KERNEL;
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
    assert(module);
    if (module->kind == SPEX_MODULE_JIT || module->kind == SPEX_MODULE_NONE)
        return ip;
    module_load(module);
    if (module->kind == SPEX_MODULE_KERNEL) /* pgoff is where _text was at run time (KASLR) */
        return module->link_text && pgoff ? ip - (pgoff - module->link_text) : ip;
    uint64_t offset = ip - start + pgoff;
    if (module->kind == SPEX_MODULE_CODE)
        return offset;
    const struct module_segment *below = NULL;
    /* A page with the end of one segment and the beginning of the next is mapped twice. */
    for (unsigned page = 12; page <= 16; page += 2)
        for (size_t i = 0; i < module->segment_count; i++) {
            const struct module_segment *s = &module->segments[i];
            if (s->offset >> page << page == pgoff && offset >= pgoff &&
                offset < s->offset + s->file_size)
                return offset - s->offset + s->address;
        }
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
    assert(module);
    module_load(module);
    if (n >= module->count)
        return NULL;
    struct spex_symbol *s = &module->symbols[n];
    if (!__atomic_load_n(&s->name, __ATOMIC_ACQUIRE) && s->raw) {
        MEMORY_OF(module->owner->account);
        char *plain = module->owner->options.raw_names ? NULL : spex_demangle(s->raw);
        char *name = plain ? memory_text(plain, strlen(plain)) : NULL;
        const char *none = NULL; /* another thread may set it first */
        if (!__atomic_compare_exchange_n(&s->name, &none, name ? name : s->raw, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            memory_free(name);
        free(plain);
    }
    return s;
}

const struct spex_symbol *module_symbol_around(struct spex_module *module, uint64_t address,
                                               uint64_t *first, uint64_t *last)
{
    module_load(module);
    size_t low = SEARCH(i, 0, module->count, module->symbols[i].start <= address);
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
    assert(module);
    uint64_t first, last;
    return module_symbol_around(module, address, &first, &last);
}

size_t spex_module_read(struct spex_module *module, uint64_t address, void *data, size_t size)
{
    assert(module);
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
