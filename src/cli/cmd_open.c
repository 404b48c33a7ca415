/* spex open: shows a profile in the browser or on the terminal. */
#include "output.h"
#include "locate.h"
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct open_options {
    const char *page;
    bool terminal;
};

bool cli_browser(char *path, size_t size)
{
    const char *named = getenv("BROWSER");
    const char *display = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    if (named && *named)
        return cli_program(named, path, size);
    if ((!display || !*display) && (!wayland || !*wayland))
        return false;
    return cli_program("xdg-open", path, size);
}

int cli_browse(const char *page)
{
    char program[OUTPUT_PATH];
    int how = 0;
    if (!cli_browser(program, sizeof program))
        return CLI_OK; /* spex html has said where the page is */
    pid_t pid = fork();
    if (!pid) {
        execl(program, program, page, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &how, 0) < 0 || !WIFEXITED(how) || WEXITSTATUS(how)) {
        cli_error("%s could not open %s", program, page);
        return CLI_DATA;
    }
    return CLI_OK;
}

static int make_page(const char *profile, const char *page)
{
    const char *argv[] = {"spex", "html", "-i", profile, "-o", page, NULL};
    return cli_main(6, (char **)(uintptr_t)argv);
}

static int run_open(void *options, int argc, char **argv)
{
    const struct open_options *o = options;
    char program[OUTPUT_PATH], page[OUTPUT_PATH];
    const char *profile = argc ? argv[0] : "perf.data", *slash = strrchr(profile, '/');
    if (argc > 1)
        return cli_usage("one profile; 'spex html BEFORE AFTER' shows two side by side");
    if (o->terminal && o->page)
        return cli_usage("--terminal and -o do not go together");
    if (o->terminal || (!o->page && !cli_browser(program, sizeof program))) {
        const char *report[] = {"spex", "report", "-i", profile, NULL};
        if (!o->terminal)
            cli_note("there is no browser here: this is 'spex report'; -o FILE writes the page");
        return cli_main(4, (char **)(uintptr_t)report);
    }
    if (o->page) {
        snprintf(page, sizeof page, "%s", o->page);
    } else {
        char prefix[OUTPUT_PATH];
        run_temporary(prefix, sizeof prefix);
        snprintf(page, sizeof page, "%.3000s-%.64s-XXXXXX.html", prefix,
                 slash && slash[1] ? slash + 1 : profile);
        int fd = mkstemps(page, 5);
        if (fd < 0) {
            cli_error("%s: %s", page, strerror(errno));
            return CLI_DATA;
        }
        close(fd);
    }
    int status = make_page(profile, page);
    if (status && !o->page)
        unlink(page);
    return status ? status : cli_browse(page);
}

static const struct cli_option open_options[] = {
    {"terminal", 't', CLI_FLAG, offsetof(struct open_options, terminal), NULL,
     "show the report on the terminal, even if there is a browser", NULL, NULL},
    {"output", 'o', CLI_STRING, offsetof(struct open_options, page), "FILE",
     "keep the page as FILE (default: a temporary file)", NULL, NULL},
    {0},
};

const struct cli_command cli_open = {
    .name = "open",
    .group = CLI_FIRST,
    .synopsis = "[FILE]",
    .summary = "look at a profile: the page in the browser, or the report",
    .details = "Makes the page of spex html and opens it in $BROWSER, or in the desktop's browser. "
               "Without a desktop, the report on the terminal.",
    .options = open_options,
    .size = sizeof(struct open_options),
    .run = run_open,
};
