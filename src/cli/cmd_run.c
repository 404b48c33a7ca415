/* spex run: records a program and shows the profile. */
#include "record.h"

#include "locate.h"
#include "output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct run_command {
    /* first, because spex record's option rows refer to it by offset */
    struct record_options record;
    bool html, mem, c2c, branch;
};

/* Records in a child process: a recording ends as its program does, perhaps by a signal. */
static int record_apart(const struct record_options *o, char **argv)
{
    int how = 0;
    fflush(NULL);
    void (*interrupt)(int) =
        signal(SIGINT, SIG_IGN); /* Ctrl-C also reaches the recording, which handles it */
    pid_t pid = fork();
    if (!pid) {
        signal(SIGINT, interrupt);
        struct record_options mine = *o;
        exit(record_program(&mine, argv));
    }
    while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    signal(SIGINT, interrupt);
    if (pid < 0) {
        cli_error("fork: %s", strerror(errno));
        return CLI_DATA;
    }
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Creates $TMPDIR/spex-PROGRAM-XXXXXX.data; false after a message. */
static bool name_profile(char *path, size_t size, const char *program)
{
    char directory[OUTPUT_PATH];
    const char *slash = strrchr(program, '/');
    run_temporary(directory, sizeof directory);
    snprintf(path, size, "%.3000s-%.64s-XXXXXX.data", directory,
             slash && slash[1] ? slash + 1 : program);
    int fd = mkstemps(path, 5);
    if (fd < 0)
        cli_error("%s: %s", path, strerror(errno));
    else
        close(fd);
    return fd >= 0;
}

static int look(const struct run_command *o, const char *profile)
{
    char page[OUTPUT_PATH + 16];
    const char *view = o->mem ? "mem" : o->c2c ? "c2c" : o->branch ? "branch" : "report";
    if (!o->html) {
        const char *argv[] = {"spex", view, "-i", profile, NULL};
        return cli_main(4, (char **)(uintptr_t)argv);
    }
    snprintf(page, sizeof page, "%.*s.html", (int)(strlen(profile) - strlen(".data")), profile);
    const char *argv[] = {"spex", "html", "-i", profile, "-o", page, NULL};
    int status = cli_main(6, (char **)(uintptr_t)argv);
    return status ? status : cli_browse(page);
}

static int run_run(void *options, int argc, char **argv)
{
    struct run_command *o = options;
    char path[OUTPUT_PATH];
    struct stat st;
    if (!argc)
        return cli_usage("no program; spex run [OPTIONS] -- PROGRAM [ARGUMENTS]");
    if (o->html + o->mem + o->c2c + o->branch > 1)
        return cli_usage("one of --html, --mem, --c2c and --branch; 'spex open' shows the file "
                         "again in other ways");
    if (!name_profile(path, sizeof path, argv[0]))
        return CLI_DATA;
    o->record.output = path;
    int status = record_apart(&o->record, argv);
    if (stat(path, &st) || !st.st_size) { /* nothing was recorded, and record has said why */
        unlink(path);
        return status ? status : CLI_DATA;
    }
    int looked = look(o, path);
    cli_note("the profile stays in %s; 'spex open' and others show more of it", path);
    return status ? status : looked;
}

#define RECORD_AT(member) offsetof(struct run_command, record.member)
static const struct cli_option run_command_options[] = {
    {"html", 0, CLI_FLAG, offsetof(struct run_command, html), NULL,
     "write the page of spex html, and open it if there is a browser", NULL, NULL},
    {"mem", 0, CLI_FLAG, offsetof(struct run_command, mem), NULL,
     "show spex mem instead of spex report", NULL, NULL},
    {"c2c", 0, CLI_FLAG, offsetof(struct run_command, c2c), NULL, "show spex c2c instead", NULL,
     NULL},
    {"branch", 0, CLI_FLAG, offsetof(struct run_command, branch), NULL, "show spex branch instead",
     NULL, NULL},
    RUN_OPTIONS,
    NATIVE_OPTIONS(struct run_command, record.native),
    {"stacks", 'g', CLI_FLAG, RECORD_AT(stacks), NULL, "also record a call stack with each sample",
     NULL, NULL},
    {0},
};

const struct cli_command cli_run = {
    .name = "run",
    .records = true,
    .group = CLI_FIRST,
    .synopsis = "[--] PROGRAM [ARGUMENTS]",
    .summary = "record a program and show the report: the first look",
    .details = "spex record, then spex report (or --html, --mem, --c2c, --branch) of what it "
               "recorded, in one command. The profile stays in a temporary file, which the last "
               "line names. The exit status is the program's.",
    .options = run_command_options,
    .size = sizeof(struct run_command),
    .run = run_run,
};
