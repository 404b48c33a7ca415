/*
 * Values of options: a first byte chooses which, the rest is the text. Each is taken, or refused
 * with a reason.
 */
#include <spex/analysis.h>
#include <spex/perfdata.h>
#include <spex/spu.h>

#include "analysis/internal.h"
#include "guest/cpu.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool what)
{
    if (!what)
        abort();
}

static void filter(const char *name, const char *text)
{
    struct filter *made;
    struct spex_error error = {0};
    const struct spex_filter spec = {name, text};
    if (filter_new(&spec, 1000, 2000, &made, &error) == SPEX_OK)
        filter_free(made);
    else
        must(error.text[0]);
}

static void terms(const char *text)
{
    struct spex_perf_terms parsed;
    struct spex_error error = {0};
    char out[1024];
    if (spex_perf_terms_parse(text, &parsed, &error) == SPEX_OK)
        spex_perf_terms_text(parsed.config, out, sizeof out);
    else
        must(error.text[0]);
}

static void unit(const char *features, const char *choices)
{
    struct spex_error error = {0};
    const struct spex_spu_config config = {
        .size = sizeof config, .features = features, .choices = choices};
    must(spex_spu_config_check(&config, &error) == SPEX_OK || error.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {
#define SPEX_FILTER(option, member, kind, value, help) option,
#include <spex/filters.def>
    };
    enum { FILTERS = sizeof names / sizeof *names };
    if (!size)
        return 0;
    char *text = malloc(size);
    must(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    unsigned which = data[0] % (FILTERS + 4);
    struct cpu_choice cpu;
    struct spex_error error = {0};
    enum spex_key key;
    if (which < FILTERS)
        filter(names[which], text);
    else if (which == FILTERS)
        terms(text);
    else if (which == FILTERS + 1)
        unit(text, NULL);
    else if (which == FILTERS + 2)
        unit(NULL, text);
    else if (cpu_read(text, &cpu, &error) != SPEX_OK)
        must(error.text[0]);
    else
        must(uarch_config_set(&cpu.model, text, &error) == SPEX_OK || error.text[0]);
    spex_key_parse(text, strlen(text), &key);
    free(text);
    return 0;
}
