#include "perf_words.h"

#include <stdbool.h>
#include <string.h>

#define FILTER "report annotate mem c2c branch diff script export html truth"
#define READ FILTER " archive dump verify query"
#define RUN "record stat top whatif"

/*
 * Some letters mean different things in different perf commands: rows name the commands they are
 * for.
 */
static const struct perf_word words[] = {
    /* the same under another name */
    {FILTER, "--comms", "comm", NULL},
    {FILTER, "--dsos", "dso", NULL},
    {FILTER, "--symbols", "symbol", NULL},
    {"report script", "-c", "comm", NULL},
    {"diff", "-C", "comm", NULL},
    {"report annotate mem script", "-C", "cpu", NULL},
    {"report annotate diff", "-d", "dso", NULL},
    {"report script diff", "-S", "symbol", NULL},
    {"annotate", "-s", "symbol", NULL},
    {"report annotate script c2c", "-k", "vmlinux", NULL},

    /* ignored: spex always does this */
    {READ, "--stdio --stdio2 --force --demangle", "", NULL},
    {"dump verify", "-v --verbose", "", NULL},
    {FILTER, "-f", "", NULL},
    {RUN, "-v --verbose", "", NULL},
    {"report annotate", "-n --show-nr-samples", "", NULL},
    {"report", "--no-children --skip-empty", "", NULL},
    {"annotate", "-l --print-line", "", NULL},
    {"script", "-G --hide-call-graph --ns", "", NULL},
    {"mem c2c", "report", "", NULL},
    {"record", "-d --data -W --weight -R --raw-samples -T --timestamp -P --period --sample-cpu", "",
     NULL},
    {"record", "-N --no-buildid-cache --exclude-perf --no-bpf-event", "", NULL},
    {"stat", "-B --big-num -d --detailed", "", NULL},

    /* recording */
    {RUN, "-F --freq --strict-freq", NULL,
     "SPE samples every so many operations, not so many times a second: -c PERIOD"},
    {RUN, "--all-user", NULL, "-e arm_spe//u samples user code alone"},
    {RUN, "--all-kernel", NULL, "-e arm_spe//k samples the kernel alone"},
    {"record top", "-i --no-inherit", NULL,
     "--per-thread leaves out what the program starts (on a machine with SPE)"},
    {RUN, "-u --uid", NULL, "-p PID,PID takes the processes of a user: pgrep -d, -u USER"},
    {RUN, "-G --cgroup", NULL, "-p PID,PID takes the processes of a group: its cgroup.procs"},
    {"record top", "-r --realtime", NULL,
     "there is no priority to set; chrt -f N spex record does that"},
    {"record top", "-b --branch-any -j --branch-filter", NULL,
     "SPE has no stack of branches; -e arm_spe/branch_filter=1/ samples them, and 'spex branch' "
     "shows them"},
    {RUN, "--filter", NULL,
     "terms of the event filter: arm_spe/load_filter=1,min_latency=30/ (spex help record); so do "
     "options of the commands that read, for example --symbol"},
    {"record mem c2c", "--ldlat", NULL,
     "-e arm_spe/min_latency=CYCLES/ records slow operations alone; --min-latency CYCLES of "
     "commands that read shows them alone"},
    {"record", "--call-graph --user-callchains --kernel-callchains", NULL,
     "-g keeps call stacks; there is no method to choose"},
    {"record", "--phys-data", NULL, "-e arm_spe/pa_enable=1/ records physical addresses"},
    {"record", "-B --no-buildid --buildid-all --buildid-mmap", NULL,
     "the build IDs of what was mapped are always in the file; leave the option out"},
    {"record", "-s --stat -n --no-samples", NULL, "'spex stat' counts, without records"},
    {"record", "-z --compression-level", NULL,
     "files are written as they are; zstd makes them smaller, and 'zstd -dc FILE | spex report -i "
     "-' reads them"},
    {"record", "-k --clockid", NULL, "time is that of the CPU's counter, as SPE records it"},
    {"record", "--overwrite --aux-sample", NULL,
     "--snapshot keeps the last records and writes them on SIGUSR2 (on a machine with SPE)"},
    {"record", "--kcore --vmlinux", NULL, "'spex archive' packs the kernel's symbols, afterwards"},
    {"record", "--off-cpu --switch-events", NULL,
     "SPE samples what runs, not what waits to run; 'perf sched' shows that"},
    {"record", "--timestamp-filename", NULL, "-o \"perf.data.$(date +%s)\" names the file"},
    {"stat", "-r --repeat", NULL,
     "repeat it in the shell; under QEMU a program that does the same gives the same numbers, and "
     "'spex check --repeat' moves its memory"},
    {"stat", "-j --json-output", NULL, "--format json"},
    {"stat", "-I --interval-print", NULL,
     "spex record, then 'spex report --slices N' shows the parts of the time"},
    {"stat", "-o --output --log-fd", NULL, "the table goes to standard error: 2>FILE"},
    {"stat", "-D --delay", NULL, "spex record -D MS, then 'spex stat -i perf.data'"},
    {"stat", "-A --no-aggr --per-core --per-socket --per-node --per-die", NULL,
     "spex record, then 'spex report --sort cpu' splits by CPU"},
    {"stat", "-M --metrics --topdown", NULL,
     "SPE samples operations and has no metrics; 'perf stat' counts them on the machine"},
    {"top", "-s --sort --fields", NULL, "--by function, line, source or page is what a row is"},
    {"top", "-K --hide_kernel_symbols -U --hide_user_symbols", NULL,
     "-e arm_spe//u samples user code alone, -e arm_spe//k the kernel"},
    {"top", "-d --delay", NULL, "the table is made anew once a second"},
    {"top", "--stdio", NULL, "'spex top ... | cat' prints the table once, at the end"},
    {"top", "-g --call-graph --children", NULL, "spex record -g, then 'spex report -g'"},

    /* reading */
    {"report", "caller callee graph flat fractal folded none dwarf fp", NULL,
     "-g shows callers and callees at once, and has no style to choose"},
    {"report", "-G --inverted", NULL, "-g shows callers and callees at once"},
    {"report", "--children", NULL, "-g has each function with what it calls and with callers"},
    {"report annotate", "--tui --gtk", NULL,
     "the output is text, on a terminal in a pager; 'spex html' makes a page to click through"},
    {READ, "--stdio-color", NULL, "colour is for terminals alone; NO_COLOR=1 switches it off"},
    {READ, "-q --quiet", NULL, "--format csv has the rows alone; 2>/dev/null drops the notes"},
    {"report diff", "-t --field-separator", NULL, "--format csv has commas between fields"},
    {"report", "-x", NULL, "--format csv has commas between fields"},
    {"mem", "-x --field-separator", NULL, "--format csv has commas between fields"},
    {"report script", "--header --header-only -I --show-info", NULL,
     "the first line of 'spex report' says what was recorded and how"},
    {"report annotate mem", "--itrace", NULL,
     "records are read as they are; 'spex script --itrace' makes perf's samples of them"},
    {"report", "--mem-mode", NULL, "'spex mem' shows where data comes from"},
    {"report", "-b --branch-stack --branch-history", NULL, "'spex branch' shows branches"},
    {"report", "--symbol-filter", NULL, "--symbol '*TEXT*' keeps functions whose name has TEXT"},
    {"report mem", "-U --hide-unresolved", NULL,
     "code without a name stays in, so that shares add up; --symbol LIST keeps what you name"},
    {"report annotate script mem diff", "-D --dump-raw-trace --dump-raw-samples", NULL,
     "'spex dump --style perf' prints the packets as perf does"},
    {"report", "-p --parent --exclude-other --ignore-callees --max-stack", NULL,
     "--sort caller,symbol groups by who called"},
    {"report", "-w --column-widths", NULL, "columns fit the terminal; COLUMNS=N sets its width"},
    {"report", "--show-total-period", NULL, "-F +ops shows the operations that samples stand for"},
    {"report", "--tasks --mmaps", NULL, "--sort pid,comm or --sort dso has what was sampled"},
    {"report", "--stats -T", NULL,
     "--sort tid,comm has the samples of threads; the first line says what was lost"},
    {"report", "--hierarchy --total-cycles", NULL, "--sort takes up to five keys: dso,symbol"},
    {"report annotate", "--data-type --type-stat --code-with-type", NULL,
     "'spex mem --sort type,member' names the types of data"},
    {"report annotate", "--objdump -M --disassembler-style", NULL,
     "'spex annotate' takes libLLVM, else objdump from PATH; A64 has one style"},
    {"annotate", "-P --full-paths", NULL, "'spex script -F srcline --full-path' has whole paths"},
    {"script", "-s --script -g --gen-script -l --list --dlfilter", NULL,
     "no scripts are run here: pipe --format json or csv into yours, or use 'spex query'"},
    {"script", "--show-mmap-events --show-task-events --show-lost-events --show-switch-events",
     NULL, "the files are perf's: 'perf script' prints the kernel's own events"},
    {"script", "--full-source-path", NULL, "--full-path prints whole paths"},
    {"script", "--insn-trace --xed", NULL, "'spex annotate' shows instructions"},
    {"script", "--reltime --deltatime", NULL,
     "times are those of the recording; in --format csv they can be subtracted"},
    {"mem", "-t", NULL, "--op load (or store, or atomic) keeps these operations"},
    {"mem", "-p --phys-data --data-page-size", NULL,
     "--sort page has pages; 'spex script -F pa' physical addresses, if pa_enable=1 recorded them"},
    {"mem c2c", "-e -K --all-kernel --all-user -a --all-cpus", NULL,
     "this reads; spex record has options for what is recorded"},
    {"mem c2c", "record", NULL,
     "'spex record -- PROGRAM' records; 'spex mem' and 'spex c2c' show what it wrote"},
    {"c2c", "-N --node-info", NULL, "lines are shown by thread and word, not by node"},
    {"c2c", "-d --display", NULL,
     "lines are in order of their score, which does not need HITM; --source peer-core keeps "
     "loads that another core answered"},
    {"c2c", "-c --coalesce", NULL, "each line has a row by word, code and thread"},
    {"c2c", "--stats", NULL, "'spex mem' has the loads and stores by source"},
    {"c2c", "--show-all", NULL, "--all shows shared lines that are harmless, too"},
    {"c2c", "-g --call-graph", NULL, "'spex report -g' shows who calls"},
    {"diff", "-c --compute -o --order --formula -b --baseline-only -p --period -r", NULL,
     "rows are changes of time with their intervals, the largest first; -F LIST chooses columns"},
    {"archive", "--all --unpack", NULL, "tar unpacks it: tar xf FILE -C DIRECTORY"},

    /* values */
    {"--sort", "overhead overhead_children sample period", NULL,
     "it is a column and always there: -F LIST chooses columns (spex help fields)"},
    {"--sort", "weight local_weight", NULL, "it is called 'latency'"},
    {"--sort", "srcfile", NULL, "it is 'srcline' or 'dso' here"},
    {"--sort", "symbol_from dso_from srcline_from", NULL, "it is 'symbol', 'dso', 'srcline' here"},
    {"--sort", "symbol_to dso_to", NULL, "it is called 'target'"},
    {"--sort", "time", NULL, "it is called 'time-bin'"},
    {"--sort", "parent", NULL, "it is called 'caller'"},
    {"--sort", "tlb locked snoop blocked", NULL, "'spex mem' has columns of it"},
    {"--sort", "typeoff", NULL, "it is called 'type-offset'"},
    {"--fields", "overhead overhead_children", NULL, "it is called 'time'"},
    {"--fields", "sample", NULL, "it is called 'samples'"},
    {"--fields", "period", NULL, "it is called 'ops'"},
    {"--fields", "data_src", NULL, "it is called 'source'"},
    {"--type", "load store load,store store,load", NULL, "--op keeps operations"},

    /* commands */
    {"", "list", NULL, "the one event is arm_spe/TERMS/; 'spex help record' has its terms"},
    {"", "evlist", NULL, "the first line of 'spex report' names the event and how it was recorded"},
    {"", "buildid-list buildid-cache", NULL,
     "'spex archive' packs the files that the profile's build IDs name; perf's cache is read, too"},
    {"", "inject", NULL,
     "records are read as they are; 'spex export' makes profiles for compilers and BOLT"},
    {"", "data", NULL, "'spex export' converts; 'spex script --format json' prints records"},
    {"", "kvm", NULL, "'spex vm' runs a Linux guest that has SPE"},
    {"", "config", NULL, "there is no file of settings: 'spex help COMMAND' has the options"},
    {"", "version", NULL, "'spex --version' prints it"},
    /* words that belong to no command */
    {"", "flamegraph flame flames", NULL,
     "'spex html' has one; 'spex export --to collapsed' is for other programs that draw it"},
    {"", "profile sample prof", NULL, "'spex run' records and reports, 'spex record' records"},
    {"", "view show gui ui browse serve web tui", NULL, "'spex open' shows a profile"},
    {"", "test regress regression gate ci benchmark", NULL,
     "'spex check' compares exact cycles with a baseline"},
    {"", "setup install status info env config-check diagnose", NULL,
     "'spex doctor' says what is here, and how to get what is missing"},
    {"", "hot hotspots functions top-functions summary", NULL, "'spex report' has the functions"},
    {"", "memory cache caches latency numa", NULL, "'spex mem' shows where data comes from"},
    {"", "sharing false-sharing contention", NULL, "'spex c2c' shows lines that threads share"},
    {"", "branches mispredicts predict", NULL, "'spex branch' shows branches"},
    {"", "disassemble disasm asm source", NULL, "'spex annotate' shows instructions and source"},
    {"", "compare cmp", NULL, "'spex diff' compares profiles, 'spex check' runs with a baseline"},
    {"", "sql", NULL, "'spex query' takes SQL"},
    {"", "simulate sim predict-cpu", NULL, "'spex whatif' runs a program on other cores"},
    {"", "count counters", NULL, "'spex stat' counts"},
    {"", "decode packets raw", NULL, "'spex dump' prints the packets"},
    {"", "convert pprof perfetto speedscope callgrind", NULL,
     "'spex export' writes profiles for other programs ('spex help formats')"},
    {"", "upload push send", NULL, "'spex ship' sends profiles to ClickHouse"},
    {"", "pack bundle", NULL, "'spex archive' packs a profile with its programs"},
    {"", "manual man docs", NULL, "'spex help NAME', and 'man spex'"},

    /* perf commands that spex does not have */
    {"", "trace probe bench sched lock ftrace timechart kmem kwork daemon iostat kallsyms", NULL,
     "spex is about SPE alone; perf has this"},
};

/* Is the word one of those in the list? */
static bool listed(const char *list, const char *word, size_t size)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (n == size && !memcmp(list, word, n))
            return true;
        list += n + strspn(list + n, " ");
    }
    return false;
}

const struct perf_word *perf_word(const char *where, const char *word, size_t size)
{
    for (const struct perf_word *w = words; w < words + sizeof words / sizeof *words; w++)
        if ((*where ? listed(w->where, where, strlen(where)) : !*w->where) &&
            listed(w->words, word, size))
            return w;
    return NULL;
}
