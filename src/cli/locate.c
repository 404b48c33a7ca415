#include "locate.h"

#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool cli_locate(const char *name, char *path, size_t size)
{
    static const char *const places[] = {"", "../lib/spex/", "../scripts/"};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            snprintf(path, size, "%s/%s%s", self, places[i], name);
            if (!access(path, R_OK))
                return true;
        }
    }
    cli_error("cannot find %s beside the program or in ../lib/spex of it; is spex installed whole?",
              name);
    return false;
}
