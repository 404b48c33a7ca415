/*
 * Names of addresses, for comparison with other tools:
 *   lookup [-s SYMFS] [-b BUILD-ID-DIR] [-d DEBUG-DIR] [-i BUILD-ID] FILE < ADDRESSES
 * "NAME <tab> FILE:LINE <tab> INLINED FUNCTION ..." for each address, "?" for what is not known;
 * what the module's problem is goes to standard error. With -n all symbols are listed instead.
 */
#include <spex/symbols.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show(struct spex_module *module, uint64_t address)
{
    const struct spex_symbol *symbol = spex_module_symbol(module, address);
    struct spex_line line;
    struct spex_inline frames[32];
    if (symbol && symbol->name)
        printf("%s", symbol->name);
    else if (symbol)
        printf("+%llx", (unsigned long long)symbol->start);
    else
        printf("?");
    if (spex_module_line(module, address, &line))
        printf("\t%s:%u", line.file, line.line);
    else
        printf("\t?");
    size_t n = spex_module_inlines(module, address, frames, 32);
    for (size_t i = 0; i < n && i < 32; i++)
        printf("\t%s", frames[i].name);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct spex_symbols_options options = {.size = sizeof options};
    struct spex_symbols *symbols;
    struct spex_error error;
    uint8_t id[64];
    size_t size = 0;
    int option;
    bool all = false;
    while ((option = getopt(argc, argv, "s:b:d:i:m:k:n")) > 0) {
        switch (option) {
        case 's':
            options.symfs = optarg;
            break;
        case 'b':
            options.build_id_dir = optarg;
            break;
        case 'd':
            options.debug_dir = optarg;
            break;
        case 'm':
            options.map_dir = optarg;
            break;
        case 'k':
            options.kallsyms = optarg;
            break;
        case 'n':
            all = true;
            break;
        case 'i':
            for (unsigned byte; size < sizeof id && sscanf(optarg + 2 * size, "%2x", &byte) == 1;)
                id[size++] = (uint8_t)byte;
            break;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc || spex_symbols_new(&options, &symbols, &error))
        return 2;
    struct spex_module *module = spex_symbols_module(symbols, argv[optind], id, size, 1);
    const struct spex_symbol *s;
    for (size_t i = 0; all && (s = spex_module_nth(module, i)); i++)
        printf("%llx\t%llx\t%s\t%d\n", (unsigned long long)s->start, (unsigned long long)s->end,
               s->name ? s->name : "?", s->data);
    char text[64];
    while (!all && fgets(text, sizeof text, stdin))
        show(module, strtoull(text, NULL, 16));
    if (spex_module_problem(module))
        fprintf(stderr, "%s\n", spex_module_problem(module));
    spex_symbols_free(symbols);
    return 0;
}
