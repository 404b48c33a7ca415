#include "locate.h"

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool cli_beside(const char *where, char *path, size_t size)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    return (size_t)snprintf(path, size, "%s/%s", self, where) < size && !access(path, R_OK);
}

bool cli_locate(const char *name, char *path, size_t size)
{
    static const char *const places[] = {"", "../lib/spex/", "../scripts/"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char where[4096];
        snprintf(where, sizeof where, "%s%s", places[i], name);
        if (cli_beside(where, path, size))
            return true;
    }
    cli_error("cannot find %s beside the program or in ../lib/spex of it; is all of spex installed "
              "(of Debian's packages, spex-qemu)?",
              name);
    return false;
}

bool cli_program(const char *name, char *path, size_t size)
{
    const char *list = getenv("PATH");
    if (strchr(name, '/'))
        return (size_t)snprintf(path, size, "%s", name) < size && !access(path, X_OK);
    for (list = list ? list : "/usr/bin:/bin"; *list;) {
        size_t n = strcspn(list, ":");
        snprintf(path, size, "%.*s%s%s", (int)n, list, n ? "/" : "./", name);
        if (!access(path, X_OK))
            return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

void cli_data_directory(char *path, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data)
        snprintf(path, size, "%s/spex", data);
    else
        snprintf(path, size, "%s/.local/share/spex", home && *home ? home : ".");
}

int cli_set_up(const char *name, const char *directory, const char *word)
{
    char script[4096];
    int status;
    if (!cli_locate(name, script, sizeof script))
        return CLI_DATA;
    pid_t child = fork();
    if (!child) {
        execl(script, script, directory, word, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        cli_error("%s: %s", script, strerror(errno));
        return CLI_DATA;
    }
    return status ? CLI_DATA : CLI_OK;
}
