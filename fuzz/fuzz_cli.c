/*
 * The command line as a whole: the first line holds the words (@ is the file), the rest is the
 * file. Only commands that read; whatever they are given, they end with 0, 1 or 2.
 */
#include "cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool reads(const char *command)
{
    static const char *const commands[] = {"report", "annotate", "mem",    "c2c",  "branch", "diff",
                                           "script", "dump",     "verify", "help", "spu"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(command, commands[i]))
            return true;
    return false;
}

/* Output goes nowhere, and nothing waits for input. */
static int silence(void)
{
    int old = dup(STDOUT_FILENO), none = open("/dev/null", O_RDWR | O_CLOEXEC);
    fflush(stdout);
    dup2(none, STDOUT_FILENO);
    dup2(none, STDERR_FILENO);
    dup2(none, STDIN_FILENO);
    close(none);
    return old;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { WORDS = 16 };
    char line[512], path[64], *words[WORDS + 4], *save;
    const uint8_t *end = memchr(data, '\n', size);
    if (!end || (size_t)(end - data) >= sizeof line)
        return 0;
    size_t length = (size_t)(end - data);
    memcpy(line, data, length);
    line[length] = 0;
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || write(fd, end + 1, size - length - 1) != (ssize_t)(size - length - 1))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int count = 0;
    char program[] = "spex";
    words[count++] = program;
    for (char *w = strtok_r(line, " ", &save); w && count < WORDS; w = strtok_r(NULL, " ", &save))
        words[count++] = strcmp(w, "@") ? w : path;
    words[count] = NULL;
    if (count > 1 && reads(words[1])) {
        int error = dup(STDERR_FILENO), old = silence();
        int status = cli_main(count, words);
        fflush(stdout);
        dup2(old, STDOUT_FILENO);
        dup2(error, STDERR_FILENO);
        close(old);
        close(error);
        if (status < 0 || status > 2)
            abort();
    }
    close(fd);
    return 0;
}
