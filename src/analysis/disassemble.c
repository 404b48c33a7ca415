/*
 * A64 instructions as text: by the newest libLLVM, loaded with dlopen so that one binary uses
 * whatever is installed; else by an objdump that knows AArch64; else as .word.
 */
#include <spex/symbols.h>

#include "base/bits.h"
#include "base/error.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *create_function(const char *, const char *, const char *, void *, int, void *,
                              void *);
typedef size_t decode_function(void *, uint8_t *, uint64_t, uint64_t, char *, size_t);

struct spex_disassembler {
    char name[64];
    void *library, *context;
    decode_function *decode;
    void (*dispose)(void *);
    const char *objdump;
};

/* Every A64 feature of LLVM 14; later releases take +all. */
static const char llvm14_features[] =
    "+v8.7a,+lse,+rcpc,+rcpc-immo,+fullfp16,+fp16fml,+dotprod,+crypto,+aes,+sha2,+sha3,+sm4,+"
    "ras,"
    "+rdm,+crc,+sve,+sve2,+sve2-aes,+sve2-bitperm,+sve2-sha3,+sve2-sm4,+mte,+bf16,+i8mm,+f32mm,"
    "+f64mm,+ls64,+sme,+sme-f64,+sme-i64,+brbe,+pauth,+flagm,+altnzcv,+ccidx,+predres,+sb,+"
    "ssbs,"
    "+specrestrict,+dit,+rand,+bti,+tme,+ete,+trbe,+spe,+hbc,+mops,+wfxt,+xs,+rme";

static bool open_llvm(struct spex_disassembler *d)
{
    for (int version = 40; version >= 11 && !d->library; version--) {
        static const char *const forms[] = {"libLLVM.so.%d.1", "libLLVM-%d.so.1", "libLLVM-%d.so"};
        for (size_t i = 0; i < sizeof forms / sizeof *forms && !d->library; i++) {
            char path[64];
            snprintf(path, sizeof path, forms[i], version);
            d->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
            if (d->library)
                snprintf(d->name, sizeof d->name, "LLVM %d", version);
        }
    }
    if (!d->library)
        return false;
    static const char *const initialize[] = {"LLVMInitializeAArch64TargetInfo",
                                             "LLVMInitializeAArch64TargetMC",
                                             "LLVMInitializeAArch64Disassembler"};
    for (size_t i = 0; i < 3; i++) {
        void (*function)(void);
        *(void **)&function = dlsym(d->library, initialize[i]);
        if (!function)
            return false;
        function();
    }
    create_function *create;
    int (*options)(void *, uint64_t);
    *(void **)&create = dlsym(d->library, "LLVMCreateDisasmCPUFeatures");
    *(void **)&d->decode = dlsym(d->library, "LLVMDisasmInstruction");
    *(void **)&d->dispose = dlsym(d->library, "LLVMDisasmDispose");
    *(void **)&options = dlsym(d->library, "LLVMSetDisasmOptions");
    if (!create || !d->decode || !d->dispose)
        return false;
    int version = atoi(d->name + strlen("LLVM "));
    /* unknown features only provoke warnings, which must not reach stderr */
    d->context = create("aarch64-linux-gnu", "", version >= 15 ? "+all" : llvm14_features, NULL, 0,
                        NULL, NULL);
    if (d->context && options)
        options(d->context, 2); /* immediates in hexadecimal */
    return d->context != NULL;
}

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        char file[4096];
        size_t n = strcspn(path, ":");
        if (snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program) < (int)sizeof file &&
            !access(file, X_OK))
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

enum spex_status spex_disassembler_new(struct spex_disassembler **disassembler,
                                       struct spex_error *error)
{
    assert(disassembler);
    struct spex_disassembler *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a disassembler");
    *disassembler = d;
    const char *forced = getenv("SPEX_DISASSEMBLER"); /* llvm, objdump or words; for tests */
    if ((!forced || !strcmp(forced, "llvm")) && open_llvm(d))
        return SPEX_OK;
    d->decode = NULL;
    static const char *const programs[] = {"aarch64-linux-gnu-objdump", "llvm-objdump", "objdump"};
    for (size_t i = 0; (!forced || !strcmp(forced, "objdump")) && i < 3 && !d->objdump; i++)
        if (on_path(programs[i]))
            d->objdump = programs[i];
    snprintf(d->name, sizeof d->name, "%s", d->objdump ? d->objdump : "words");
    return SPEX_OK;
}

void spex_disassembler_free(struct spex_disassembler *d)
{
    if (!d)
        return;
    if (d->context)
        d->dispose(d->context);
    /* LLVM does not survive being unloaded; leave the library */
    free(d);
}

const char *spex_disassembler_name(const struct spex_disassembler *d)
{
    assert(d);
    return d->name;
}

/* Turns tabs into blanks and drops leading blanks. */
static void tidy(char *text)
{
    char *from = text + strspn(text, " \t"), *to = text;
    for (; *from && *from != '\n'; from++)
        if (*from == '\t')
            *to++ = ' ';
        else
            *to++ = *from;
    while (to > text && to[-1] == ' ')
        to--;
    *to = 0;
}

static bool run_objdump(const struct spex_disassembler *d, uint64_t address, const uint8_t *code,
                        size_t count, char (*text)[SPEX_INSTRUCTION_TEXT])
{
    char file[] = "/tmp/spex-XXXXXX", command[300], line[1024];
    int fd = mkstemp(file);
    if (fd < 0)
        return false;
    bool ok = write(fd, code, 4 * count) == (ssize_t)(4 * count);
    close(fd);
    snprintf(command, sizeof command,
             "%s -D -b binary -m aarch64 --adjust-vma=0x%llx %s 2>/dev/null", d->objdump,
             (unsigned long long)address, file);
    FILE *pipe = ok ? popen(command, "r") : NULL;
    size_t found = 0;
    while (pipe && fgets(line, sizeof line, pipe)) {
        /* "  400580:\t910003fd \tmov\tx29, sp" */
        char *end;
        uint64_t at = strtoull(line, &end, 16);
        char *word = end && *end == ':' ? strchr(end, '\t') : NULL;
        char *rest = word ? strchr(word + 1, '\t') : NULL;
        if (!rest || at < address || at - address >= 4 * count || (at - address) % 4)
            continue;
        tidy(rest);
        char *comment = strstr(rest, " //");
        if (comment)
            *comment = 0;
        snprintf(text[(at - address) / 4], SPEX_INSTRUCTION_TEXT, "%s", rest);
        found++;
    }
    if (pipe)
        pclose(pipe);
    unlink(file);
    return found > 0;
}

void spex_disassemble(struct spex_disassembler *d, uint64_t address, const uint8_t *code,
                      size_t count, char (*text)[SPEX_INSTRUCTION_TEXT])
{
    assert(d && ((code && text) || !count));
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        memcpy(bytes, code + 4 * i, 4);
        text[i][0] = 0;
        if (d->decode &&
            d->decode(d->context, bytes, 4, address + 4 * i, text[i], SPEX_INSTRUCTION_TEXT))
            tidy(text[i]);
    }
    if (d->objdump)
        run_objdump(d, address, code, count, text);
    for (size_t i = 0; i < count; i++)
        if (!text[i][0])
            snprintf(text[i], SPEX_INSTRUCTION_TEXT, ".inst 0x%08x", le32(code + 4 * i));
}
