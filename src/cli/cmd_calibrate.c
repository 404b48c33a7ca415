/* spex calibrate: measures the numbers of a core, and writes a preset with them. */
#include "calibrate.h"
#include "locate.h"

#include "account/config.h"
#include "base/file.h"
#include "base/name.h"
#include "base/out.h"
#include "guest/cpu.h"
#include "native/native.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS_MOST = 60, BASE_MOST = 1 << 16 };

struct calibrate_options {
    const char *cpu, *base, *via, *output;
    uint64_t runs;
    bool samples;
};

/* The preset that provides the numbers that are not measured. */
struct base {
    const char *name, *text;
    char *file; /* owned */
    struct cpu_choice cpu;
};

/* The MIDR of this machine; 0 if it is not known. */
static uint64_t own_midr(struct native_machine *machine)
{
    const char *root = secure_getenv("SPEX_ROOT");
    native_machine_read(root ? root : "", machine);
    return native_machine_midr(machine, 0);
}

/* The preset for the same part; NULL if there is none. */
static const char *preset_of(uint64_t midr)
{
    const uint64_t part = 0xff00fff0; /* implementer and part number */
    struct spex_error error;
    struct cpu_choice cpu;
    const char *name;
    for (size_t i = 0; midr && (name = uarch_preset_name(i)); i++)
        if (!cpu_parse(name, &cpu, &error) && (cpu.features.midr & part) == (midr & part))
            return name;
    return NULL;
}

static int read_base(const char *word, struct base *base)
{
    struct spex_error error;
    const char *name;
    size_t size;
    if (cpu_parse(word, &base->cpu, &error))
        return cli_usage("%s; 'spex help cpus' lists CPUs", error.text);
    base->name = word;
    for (size_t i = 0; (name = uarch_preset_name(i)); i++)
        if (!strcmp(name, word))
            base->text = uarch_preset_text(i);
    if (!base->text && base->cpu.file)
        base->text = base->file = file_read_named(word, BASE_MOST, FILE_ANY_OWNER, &size);
    if (!base->text)
        return cli_usage("'%s' is not a preset or a file of one; 'spex help cpus' has the names",
                         word);
    return CLI_OK;
}

/* ---- results ---- */

static int64_t base_number(const struct base *base, const char *key)
{
    struct uarch_parameter p;
    for (size_t i = 0; uarch_parameter(i, &p); i++)
        if (!strcmp(p.key, key))
            return uarch_config_get(&base->cpu.model, i);
    return 0;
}

static void print(const struct calibrate *c, const struct base *base, size_t index, struct out *out)
{
    const struct calibrate_claim *claim = calibrate_claim(index);
    const struct measured *m = &c->values[index].measured;
    char spread[64] = "";
    if (m->high > m->low)
        snprintf(spread, sizeof spread, "%.5g to %.5g", m->low, m->high);
    char value[32];
    snprintf(value, sizeof value, m->value >= 10000 ? "%.0f" : "%.4g", m->value);
    out_line(out, "%-14s %10s  %10lld  %-20s  %s", claim->key, value,
             (long long)base_number(base, claim->key), spread, claim->how);
    out_flush(out);
}

static bool wanted(const char *key, char **keys)
{
    for (char **k = keys; *k; k++)
        if (!strcmp(*k, key))
            return true;
    return !*keys;
}

static int check_keys(char **keys)
{
    for (; *keys; keys++) {
        const struct calibrate_claim *claim;
        size_t i = 0;
        while ((claim = calibrate_claim(i)) && strcmp(claim->key, *keys))
            i++;
        if (!claim)
            return cli_usage("'%s' is not measured; without a KEY all that are are printed", *keys);
    }
    return CLI_OK;
}

static int measure(struct calibrate *c, const struct calibrate_options *o, const struct base *base,
                   char **keys)
{
    const struct calibrate_claim *claim;
    struct out out;
    if (c->where != CALIBRATE_MODEL && calibrate_clock(c))
        return c->status;
    out_init(&out, STDOUT_FILENO);
    out_line(&out, "%-14s %10s  %10s  %-20s  %s", "key", "measured", "in preset", "spread", "how");
    for (size_t i = 0; (claim = calibrate_claim(i)) && !c->status; i++)
        if (wanted(claim->key, keys)) {
            calibrate_value(c, claim->key);
            cli_progress_end();
            if (!c->status)
                print(c, base, i, &out);
        }
    static struct native_machine machine;
    bool sampled = c->where == CALIBRATE_MODEL
                       ? o->samples
                       : c->where == CALIBRATE_NATIVE && own_midr(&machine) && machine.pmu_count;
    if (!c->status && sampled && !*keys)
        calibrate_samples(c, &out);
    int status = cli_end_output(&out);
    return c->status ? c->status : status;
}

static int run_in(struct calibrate *c, const struct calibrate_options *o, const struct base *base,
                  char **keys)
{
    struct output output;
    int status = o->output ? output_open(&output, o->output, 0) : CLI_OK;
    if (status)
        return status;
    status = measure(c, o, base, keys);
    if (o->output && !status)
        status = calibrate_write(c, base->text, base->name, &output);
    if (o->output)
        output_close(&output);
    return status;
}

/* ---- the command ---- */

static bool is_arm(void)
{
#ifdef __aarch64__
    return true;
#else
    return false;
#endif
}

static int choose(const struct calibrate_options *o, struct calibrate *c, struct base *base)
{
    static struct native_machine machine;
    if (o->cpu && o->via)
        return cli_usage("--cpu calibrates the model of a CPU, --via a machine: leave one out");
    if (o->runs < 1 || o->runs > RUNS_MOST)
        return cli_usage("--runs: a number from 1 to %d", RUNS_MOST);
    c->via = o->via;
    c->runs = (unsigned)o->runs;
    c->where = o->via ? CALIBRATE_VIA : o->cpu || !is_arm() ? CALIBRATE_MODEL : CALIBRATE_NATIVE;
    c->cpu = o->cpu ? o->cpu : run_standard_cpu;
    const char *like = c->where == CALIBRATE_MODEL    ? c->cpu
                       : o->base                      ? o->base
                       : c->where == CALIBRATE_NATIVE ? preset_of(own_midr(&machine))
                                                      : NULL;
    if (c->where == CALIBRATE_MODEL && o->base)
        return cli_usage("--base is for hardware; the model's numbers are those of --cpu");
    int status = read_base(like ? like : run_standard_cpu, base);
    if (!status && c->where != CALIBRATE_VIA &&
        !cli_locate("spex-micro", c->micro, sizeof c->micro))
        return CLI_DATA;
    return status;
}

static int run_calibrate(void *options, int argc, char **argv)
{
    const struct calibrate_options *o = options;
    struct calibrate c = {.status = CLI_OK};
    struct base base = {0};
    (void)argc;
    int status = check_keys(argv);
    if (!status)
        status = choose(o, &c, &base);
    if (!status) {
        run_temporary(c.place, sizeof c.place - 24);
        strcat(c.place, ".calibrate-XXXXXX");
        if (mkdtemp(c.place)) {
            status = run_in(&c, o, &base, argv);
            if (!left_remove(c.place))
                cli_error("%s stays", c.place);
        } else {
            cli_error("%s: %s", c.place, strerror(errno));
            status = CLI_DATA;
        }
    }
    free(c.known);
    free(c.values);
    free(base.file);
    return status;
}

#define AT(member) offsetof(struct calibrate_options, member)
static const struct cli_option calibrate_options[] = {
    {"cpu", 0, CLI_STRING, AT(cpu), "CPU",
     "calibrate the model of this CPU, a preset or a file (default: this machine if it is an Arm "
     "one, else neoverse-n1)",
     NULL, NULL},
    {"output", 'o', CLI_STRING, AT(output), "FILE", "write a preset for --cpu FILE", NULL, NULL},
    {"base", 0, CLI_STRING, AT(base), "CPU",
     "whose numbers the preset has where nothing is measured (default: the preset of the same "
     "MIDR_EL1, else neoverse-n1)",
     NULL, NULL},
    {"runs", 0, CLI_NUMBER, AT(runs), "N", "runs of each benchmark on hardware", "9", NULL},
    {"samples", 0, CLI_FLAG, AT(samples), NULL,
     "also compare samples of the model with what was measured, as is done on hardware with SPE",
     NULL, NULL},
    {"via", 0, CLI_STRING, AT(via), "COMMAND",
     "run the benchmarks with this shell command, such as 'ssh board spex-micro' or 'taskset -c 3 "
     "spex-micro'",
     NULL, NULL},
    {0},
};

const struct cli_command cli_calibrate = {
    .name = "calibrate",
    .group = CLI_RUNS,
    .synopsis = "[KEY...]",
    .summary = "measure the numbers of a core, and write a preset of them",
    .details =
        "Runs microbenchmarks and works out latencies, bandwidths, reach of TLBs, costs of "
        "branches, ports and the window: the numbers of docs/model.md with these keys, or only "
        "those that are named. On an Arm machine it measures that machine, by the cycle counter "
        "or, where the kernel keeps it for itself, by CNTVCT_EL0 and a chain of additions; with "
        "SPE, it also compares samples with what the benchmarks did, and checks the records. "
        "Elsewhere, or with --cpu, it runs under the full model, reads exact cycles, and should "
        "give the CPU's numbers back. Other numbers in the preset come from a similar CPU; each "
        "number says how it was measured. See docs/calibrate.md.",
    .options = calibrate_options,
    .size = sizeof(struct calibrate_options),
    .run = run_calibrate,
};
