#include "locate.h"

#include "cli.h"

#include <stdio.h>
#include <string.h>
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
    cli_error("cannot find %s beside the program or in ../lib/spex of it; is spex installed whole?",
              name);
    return false;
}
