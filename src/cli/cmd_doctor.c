/*
 * spex doctor: which of the things that spex can use are installed, what each missing one costs,
 * and how to get it.
 */
#include "cli.h"
#include "locate.h"
#include "run.h"

#include "base/json.h"
#include "guest/engine.h"
#include "native/native.h"

#include <spex/symbols.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOUND = 1024 };

struct doctor_options {
    int format;
};

/*
 * One thing that is looked for. look: true if it is there; found says what it is, or what is wrong
 * with it.
 */
struct piece {
    const char *name, *what;
    bool (*look)(char found[FOUND]);
    const char *costs, *get; /* what is lost without it, how to get it; NULL: look() says how */
};

/* ---- looking ---- */

static bool look_spe(char found[FOUND])
{
    static struct native_machine machine;
    const char *root = secure_getenv("SPEX_ROOT");
    native_machine_read(root ? root : "", &machine);
    if (!machine.pmu_count) {
        native_machine_why(&machine, found, FOUND);
        return false;
    }
    snprintf(found, FOUND, "%s; perf_event_paranoid is %d%s", machine.pmus[0].name,
             machine.paranoid,
             machine.paranoid > 1 ? ": programs of yours, without the kernel ('sysctl "
                                    "kernel.perf_event_paranoid=1' allows more)"
                                  : "");
    return true;
}

static bool look_qemu(char found[FOUND])
{
    char own[4096];
    struct spex_error error;
    run_own_qemu(own, sizeof own - 16);
    strcat(own, "/qemu-aarch64");
    if (engine_qemu(NULL, own, found, FOUND, &error)) {
        snprintf(found, FOUND, "%s", error.text);
        return false;
    }
    return true;
}

static bool look_plugin(char found[FOUND])
{
    return cli_beside("libspex-qemu.so", found, FOUND) ||
           cli_beside("../lib/spex/libspex-qemu.so", found, FOUND);
}

static bool look_file(const char *path, char found[FOUND])
{
    snprintf(found, FOUND, "%s", path);
    return !access(path, R_OK);
}

static bool look_sysroot(char found[FOUND])
{
    return look_file("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1", found);
}

static bool look_compiler(char found[FOUND])
{
    return cli_program("aarch64-linux-gnu-gcc", found, FOUND) ||
           cli_program("aarch64-linux-gnu-clang", found, FOUND);
}

static bool look_disassembler(char found[FOUND])
{
    struct spex_disassembler *d;
    if (spex_disassembler_new(&d, NULL))
        return false;
    snprintf(found, FOUND, "%s", spex_disassembler_name(d));
    spex_disassembler_free(d);
    return strcmp(found, "words") != 0;
}

static bool look_library(const char *name, char found[FOUND])
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    snprintf(found, FOUND, "%.1000s", name);
    if (library)
        dlclose(library);
    return library != NULL;
}

static bool look_duckdb(char found[FOUND])
{
    char path[4096];
    cli_duckdb(path, sizeof path);
    return look_library(path, found);
}

static bool look_debuginfod(char found[FOUND])
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!look_library("libdebuginfod.so.1", found))
        return false;
    snprintf(found, FOUND, urls && *urls ? "DEBUGINFOD_URLS=%s" : "DEBUGINFOD_URLS is not set%s",
             urls && *urls ? urls : "");
    return urls && *urls;
}

static bool look_vm(char found[FOUND])
{
    char dtc[FOUND];
    return cli_program("qemu-system-aarch64", found, FOUND) && cli_program("dtc", dtc, sizeof dtc);
}

static bool look_browser(char found[FOUND])
{
    return cli_browser(found, FOUND);
}

/* clang-format off */
static const struct piece pieces[] = {
    {"spe", "this machine's SPE", look_spe,
     "record, stat and top run AArch64 programs under QEMU, with a model of the unit", NULL},
    {"qemu", "QEMU with plugins", look_qemu,
     "without this machine's SPE nothing can be recorded; profiles can be read",
     "apt install qemu-user on Debian 12; elsewhere: spex record --setup-qemu"},
    {"plugin", "spex's plugin for QEMU", look_plugin, "as without QEMU",
     "apt install spex-qemu (from source: ninja, in its build directory)"},
    {"sysroot", "AArch64 libraries", look_sysroot,
     "static programs run; dynamic ones need -L DIRECTORY with their libraries",
     "apt install libc6-arm64-cross"},
    {"compiler", "cross compiler", look_compiler, "AArch64 programs have to come from elsewhere",
     "apt install gcc-aarch64-linux-gnu"},
    {"disassembler", "disassembler", look_disassembler,
     "annotate shows instructions as numbers", "apt install llvm"},
    {"duckdb", "DuckDB", look_duckdb, "spex query does not work", "spex query --setup"},
    {"debuginfod", "debuginfod", look_debuginfod,
     "functions of stripped libraries have no names, unless their debug packages are installed",
     "apt install libdebuginfod1, then export DEBUGINFOD_URLS=https://debuginfod.debian.net"},
    {"vm", "QEMU for whole systems", look_vm, "spex vm does not work",
     "apt install qemu-system-arm device-tree-compiler"},
    {"browser", "browser", look_browser,
     "spex open shows the report on the terminal; pages can be copied elsewhere", "export BROWSER=PROGRAM"},
};
/* clang-format on */
enum { PIECES = sizeof pieces / sizeof *pieces };

/* ---- report ---- */

static void print_text(struct out *out, const bool *here, char (*found)[FOUND], bool records)
{
    enum { INDENT = 31 };
    for (size_t i = 0; i < PIECES; i++) {
        out_printf(out, "%-3s  %-24s  ", here[i] ? "yes" : "no", pieces[i].what);
        if (here[i] || !pieces[i].get) {
            cli_wrap(out, found[i], INDENT);
        } else {
            cli_wrap(out, pieces[i].costs, INDENT);
            out_printf(out, "%*sget: ", INDENT, "");
            cli_wrap(out, pieces[i].get, INDENT + 5);
        }
    }
    out_text(out, records ? "\nPrograms can be recorded: spex run -- PROGRAM\n"
                          : "\nNothing can be recorded here; profiles can be read.\n");
}

static void print_json(struct out *out, const bool *here, char (*found)[FOUND], bool records)
{
    struct json to = json_to(out);
    json_object_lines(&to);
    JSON_MEMBER(&to, "schema", string, "spex.doctor.1");
    JSON_MEMBER(&to, "spex", string, SPEX_VERSION);
    JSON_MEMBER(&to, "records", bool, records);
    json_name(&to, "pieces");
    json_array_lines(&to);
    for (size_t i = 0; i < PIECES; i++) {
        json_object(&to);
        JSON_MEMBER(&to, "name", string, pieces[i].name);
        JSON_MEMBER(&to, "here", bool, here[i]);
        JSON_MEMBER(&to, "found", string, found[i]);
        JSON_MEMBER(&to, "without", string, pieces[i].costs);
        JSON_MEMBER(&to, "get", string, pieces[i].get);
        json_end(&to);
    }
    json_end(&to);
    json_end(&to);
}

static bool is_here(const char *name, const bool *here)
{
    for (size_t i = 0; i < PIECES; i++)
        if (!strcmp(pieces[i].name, name))
            return here[i];
    return false;
}

static int check_names(char **names)
{
    const char *known[PIECES];
    for (size_t i = 0; i < PIECES; i++)
        known[i] = pieces[i].name;
    for (; *names; names++) {
        bool found = false;
        for (size_t i = 0; i < PIECES; i++)
            found |= !strcmp(*names, known[i]);
        const char *near = found ? NULL : cli_nearest(*names, known, PIECES);
        if (near)
            return cli_usage("nothing is called '%s'; did you mean '%s'?", *names, near);
        if (!found)
            return cli_usage("nothing is called '%s'; 'spex doctor --format json' has the names",
                             *names);
    }
    return CLI_OK;
}

static int run_doctor(void *options, int argc, char **argv)
{
    const struct doctor_options *o = options;
    static char found[PIECES][FOUND];
    bool here[PIECES], good;
    struct out out;
    int status = check_names(argv);
    if (status)
        return status;
    for (size_t i = 0; i < PIECES; i++)
        here[i] = pieces[i].look(found[i]);
    bool records = is_here("spe", here) || (is_here("qemu", here) && is_here("plugin", here));
    good = argc || records;
    for (int i = 0; i < argc; i++)
        good &= is_here(argv[i], here);
    out_init(&out, STDOUT_FILENO);
    if (o->format)
        print_json(&out, here, found, records);
    else
        print_text(&out, here, found, records);
    status = cli_end_output(&out);
    return status ? status : good ? CLI_OK : CLI_DATA;
}

static const char *const formats[] = {"text", "json", NULL};
static const struct cli_option doctor_options[] = {
    {"format", 0, CLI_CHOICE, offsetof(struct doctor_options, format), "FORMAT", "text or json",
     "text", formats},
    {0},
};

const struct cli_command cli_doctor = {
    .name = "doctor",
    .group = CLI_FIRST,
    .synopsis = "[PIECE...]",
    .summary = "what is here, what is missing, what that costs and how to get it",
    .details = "Looks for all that spex can use: this machine's SPE, QEMU and the plugin, AArch64 "
               "libraries, compiler, disassembler, DuckDB, debuginfod, a browser. Exit status 0: "
               "programs can be recorded, or, with names of pieces (qemu, duckdb, ...), all of "
               "these are here; else 1.",
    .options = doctor_options,
    .size = sizeof(struct doctor_options),
    .run = run_doctor,
};
