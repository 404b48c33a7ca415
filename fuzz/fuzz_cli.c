/*
 * The command line as a whole: the first line holds the words (@ is the file), the rest is the
 * file. Whatever commands are given, they end with 0, 1 or 2.
 */
#include "cli/cli.h"
#include "mutate.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/*
 * Those that read files and write some: every word that could lead out of the directory made for
 * them is left out. ship finds the file in a spool, and no server.
 */
static bool known(const char *command)
{
    static const char *const commands[] = {
        "report", "annotate", "mem",  "c2c",    "branch",  "diff",    "script", "dump", "verify",
        "help",   "spu",      "html", "export", "archive", "recover", "query",  "ship", "truth"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(command, commands[i]))
            return true;
    return false;
}

static bool leads_out(const char *word)
{
    return strstr(word, "..") || strchr(word, '/') || strstr(word, "url");
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

static char place[] = "/tmp/spex-fuzz-XXXXXX";
static int home = -1;

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    return at->level ? remove(path) : 0;
}

static void forget(void)
{
    nftw(place, drop, 8, FTW_DEPTH | FTW_PHYS);
    rmdir(place);
}

/* Into an empty directory of our own; output that nobody names goes there. */
static void enter(void)
{
    if (home < 0 && ((home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
                     !mkdtemp(place) || atexit(forget)))
        abort();
    if (chdir(place))
        abort();
}

static void leave(void)
{
    if (fchdir(home))
        abort();
    nftw(place, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* The file waits in a spool; the rest of the words are those of a server that is not there. */
static int spool(char **words, int count, const uint8_t *data, size_t size)
{
    static char more[][32] = {"--once",  "--spool", "spool", "--url", "http://127.0.0.1:1",
                              "--retry", "0"};
    if (mkdir("spool", 0700))
        abort();
    int fd = open("spool/a.data", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd))
        abort();
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        words[count++] = more[i];
    words[count] = NULL;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { WORDS = 16 };
    char line[512], path[64], *words[WORDS + 12], *save;
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
        if (!leads_out(w))
            words[count++] = strcmp(w, "@") ? w : path;
    words[count] = NULL;
    if (count > 1 && known(words[1])) {
        int error = dup(STDERR_FILENO), old = silence();
        enter();
        if (!strcmp(words[1], "ship"))
            count = spool(words, count, end + 1, size - length - 1);
        int status = cli_main(count, words);
        leave();
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

/* Mostly of the file, which keeps its form. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t line = end ? (size_t)(end + 1 - data) : 0;
    if (!line || line == size || seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, most);
    return line + mutate_perfdata(data + line, size - line, most - line, seed / 8);
}
