/*
 * What a program with the installed headers and libraries alone can say of a profile, for
 * comparison with the commands:
 *   reader stacks FILE    "PC <tab> CALLER < CALLER ..." for each sample, the nearest first
 */
#include <spex/stacks.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct spex_error error;

static enum spex_status print_stack(void *analysis, const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct spex_call *call;
        uint32_t n = spex_sample_stack(analysis, &samples[i]);
        printf("0x%" PRIx64 "\t", samples[i].pc);
        for (const char *before = ""; n; n = call->caller, before = " < ") {
            call = spex_analysis_call(analysis, n);
            printf("%s%s", before, call->symbol && call->symbol->name ? call->symbol->name : "?");
        }
        printf("\n");
    }
    return SPEX_OK;
}

static enum spex_status stacks(const char *path)
{
    const struct spex_symbols_options symbols = {.size = sizeof symbols};
    const struct spex_analysis_options options = {
        .size = sizeof options, .want = SPEX_WANT_SYMBOL | SPEX_WANT_STACK, .symbols = &symbols};
    struct spex_analysis *analysis;
    enum spex_status status = spex_analysis_open(path, &options, &analysis, &error);
    if (status != SPEX_OK)
        return status;
    if (spex_analysis_stacks(analysis) != SPEX_STACKS_NONE)
        status = spex_analysis_each(analysis, print_stack, analysis, &error);
    spex_analysis_close(analysis);
    return status;
}

int main(int argc, char **argv)
{
    enum spex_status status = SPEX_INVALID;
    if (argc == 3 && !strcmp(argv[1], "stacks"))
        status = stacks(argv[2]);
    if (status != SPEX_OK)
        fprintf(stderr, "reader: %s\n", error.text);
    return status != SPEX_OK;
}
