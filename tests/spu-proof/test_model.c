/*
 * Long random runs on the unit and on the naive unit of naive.c, equal after each step.
 *
 * Usage: test-model [FIRST-SEED RUNS STEPS [survey|script]]. A failure is shrunk and
 * printed; `test-model SEED 1 STEPS` plays it again. survey: one line for each failing
 * run, nothing shrunk. script: print the first run as a script, compare nothing.
 */
#include "steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool report(const char *name, unsigned number, bool ok)
{
    printf("%s %u - %s\n", ok ? "ok" : "not ok", number, name);
    return ok;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 0) : 100;
    size_t steps = argc > 3 ? strtoul(argv[3], NULL, 0) : 1000;
    bool survey = argc > 4 && !strcmp(argv[4], "survey");
    struct run_result result, total = {.equal = true};
    uint64_t count = 0;
    bool equal = true, identical = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 4 && !strcmp(argv[4], "script")) {
        struct run run;
        run_make(&run, seed, steps);
        run_print(&run, IN_BLOCKS);
        run_free(&run);
        return 0;
    }
    for (unsigned long i = 0; i < runs && (equal || survey); i++) {
        struct run run;
        enum path path = i & 1 ? IN_BLOCKS : ONE_AT_A_TIME;
        run_make(&run, seed + i, steps);
        run_play(&run, path, &result);
        count += steps;
        total.records += result.records;
        total.bytes += result.bytes;
        total.events += result.events;
        total.enabled += result.enabled;
        if (!result.equal) {
            equal = false;
            printf("# seed %" PRIu64 " step %zu: %s\n", seed + i, result.step, result.what);
            if (!survey)
                run_print_shrunk(&run, path);
        }
        run_free(&run);
    }
    report("the unit equals the naive unit", 1, equal);
    printf("# %" PRIu64 " steps, %" PRIu64 " with profiling enabled, %" PRIu64 " samples, %" PRIu64
           " records checked, %" PRIu64 " bytes\n",
           count, total.enabled, total.events, total.records, total.bytes);
    for (unsigned long i = 0; i < (runs + 7) / 8 && identical; i++) {
        struct run run;
        run_make(&run, seed + 1000000 + i, steps);
        run_identity(&run, &result);
        if (!result.equal) {
            identical = false;
            printf("# seed %" PRIu64 " step %zu: %s\n", seed + 1000000 + i, result.step,
                   result.what);
            run.count = result.step + 1;
            if (!survey)
                run_print(&run, IN_BLOCKS);
        }
        run_free(&run);
    }
    report("one operation at a time and in blocks give the same", 2, identical);
    report("the runs sampled and wrote", 3, total.events > count / 100 && total.bytes > count / 10);
    printf("1..3\n");
    return equal && identical ? 0 : 1;
}
