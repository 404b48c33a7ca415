/*
 * Any bytes as the file that ran: symbols, lines, inlined calls and types of data of all addresses
 * that it names. Symbols are sorted, and one is found at its own start.
 */
#include "analysis/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool what)
{
    if (!what)
        abort();
}

static size_t sum;

static void ask_type(struct spex_module *module, uint64_t pc, uint64_t data)
{
    const struct spex_member *m = data_member_of(module->owner, module, pc, module, data);
    must(m && m->type[0] && m == data_member_of(module->owner, module, pc, module, data));
    sum += strlen(m->type) + strlen(m->member);
}

static void ask(struct spex_module *module, uint64_t address)
{
    struct spex_line line;
    struct spex_inline frames[4];
    uint8_t code[64];
    if (spex_module_line(module, address, &line))
        sum += strlen(line.file) + (line.dir ? strlen(line.dir) : 0);
    size_t n = spex_module_inlines(module, address, frames, 4);
    for (size_t i = 0; i < n && i < 4; i++)
        sum += strlen(frames[i].name) + (frames[i].call.file ? strlen(frames[i].call.file) : 0);
    must(spex_module_read(module, address, code, sizeof code) <= sizeof code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("module", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const struct spex_symbols_options options = {
        .size = sizeof options, .build_id_dir = "/none", .debug_dir = "/none"};
    struct spex_symbols *symbols = NULL;
    struct spex_error error;
    must(spex_symbols_new(&options, &symbols, &error) == SPEX_OK);
    struct spex_module *module = spex_symbols_module(symbols, path, NULL, 0, 1);
    must(symbols && module);
    uint64_t last = 0;
    const struct spex_symbol *s;
    for (size_t i = 0; i < 2000 && (s = spex_module_nth(module, i)); i++) {
        must(!i || s->start > last);
        must(s->end >= s->start);
        last = s->start;
        sum += s->name ? strlen(s->name) : 0;
        must(s->end == s->start || spex_module_symbol(module, s->start) == s);
        if (i < 50)
            ask(module, s->start);
        if (i < 100)
            for (uint64_t at = 0; at < 64 && at < s->end - s->start; at += 4)
                ask_type(module, s->start + at, s->data ? s->start + at : 0);
    }
    for (uint64_t address = 0; address < 0x800000; address += 0x1f4d4)
        ask(module, address);
    ask(module, UINT64_MAX);
    ask(module, spex_module_address(module, 0x7f0000001000, 0x7f0000000000, 0x1000));
    const char *problem = spex_module_problem(module);
    sum += problem ? strlen(problem) : 0;
    spex_symbols_free(symbols);
    close(fd);
    return 0;
}
