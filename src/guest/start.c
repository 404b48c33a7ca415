#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 16, OPTIONS = 18 };

bool start_read(const char *directory, struct start *start)
{
    char path[IMAGE_PATH + 16];
    snprintf(path, sizeof path, "%s/engine", directory);
    return start_read_open(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), start);
}

bool start_read_open(int fd, struct start *start)
{
    struct stat st;
    *start = (struct start){0};
    if (fd < 0)
        return false;
    bool ok = !fstat(fd, &st) && st.st_size > 0 && st.st_size < FILE_MOST &&
              (start->text = malloc((size_t)st.st_size + 1)) &&
              read(fd, start->text, (size_t)st.st_size) == st.st_size;
    close(fd);
    const char *word = start->text, *end = ok ? word + st.st_size : word;
    if (ok)
        start->text[st.st_size] = '\0';
    for (int i = 0; ok && i < START_WORDS; i++, word += strlen(word) + 1) {
        ok = word < end;
        start->word[i] = word;
    }
    if (!ok) {
        free(start->text);
        errno = EINVAL;
    }
    return ok;
}

void start_free(struct start *start)
{
    free(start->text);
}

/* QEMU splits the argument at commas. */
static bool escape_commas(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text; text++) {
        if (n + 3 > size)
            return false;
        if (*text == ',')
            out[n++] = ',';
        out[n++] = *text;
    }
    out[n] = '\0';
    return true;
}

/* Is this a variable for the guest that QEMU or its dynamic linker would also react to? */
static bool is_meant_for_guest(const char *variable)
{
    return (!strncmp(variable, "QEMU_", 5) || !strncmp(variable, "LD_PRELOAD=", 11) ||
            !strncmp(variable, "LD_AUDIT=", 9) || !strncmp(variable, "LD_DEBUG=", 9)) &&
           strchr(variable, '=') && !strchr(variable, ',');
}

struct command {
    const char **argv, **environment;
    size_t count;
};

static void add(struct command *c, const char *option, const char *value)
{
    c->argv[c->count++] = option;
    if (value)
        c->argv[c->count++] = value;
}

/*
 * QEMU 7.2 turns the environment into a list with the last variable first; later versions keep the
 * order. Variables only for the guest are passed by options.
 */
static bool set_environment(struct command *c, char *const *environment, bool from_guest,
                            bool keeps)
{
    size_t count = 0, n = 0;
    while (environment[count])
        count++;
    c->environment = calloc(count + 1, sizeof *c->environment);
    for (size_t i = 0; c->environment && i < count; i++) {
        const char *variable = environment[keeps ? i : count - 1 - i];
        if (from_guest && is_meant_for_guest(variable))
            add(c, "-E", variable);
        else
            c->environment[n++] = variable;
    }
    return c->environment != NULL;
}

static size_t length_of(char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

void start_guest(const struct start *start, const char *directory, const struct image *image,
                 const char *path, char *const *argv, char *const *environment, bool from_guest,
                 int control)
{
    char plugin[6 * IMAGE_PATH], library[2 * IMAGE_PATH], place[2 * IMAGE_PATH], name[64];
    char program[IMAGE_PATH + 2], comm[16];
    struct command c = {0};
    const char *slash = strrchr(path, '/');
    snprintf(comm, sizeof comm, "%s", slash ? slash + 1 : path);
    if (!escape_commas(start->word[START_PLUGIN], library, sizeof library) ||
        !escape_commas(directory, place, sizeof place) || !escape_commas(comm, name, sizeof name)) {
        errno = ENAMETOOLONG;
        return;
    }
    int n = snprintf(plugin, sizeof plugin, "file=%s,dir=%s,name=%s", library, place, name);
    if (control >= 0)
        snprintf(plugin + n, sizeof plugin - (size_t)n, ",control=%d", control);
    /* A name must not look like an option. */
    snprintf(program, sizeof program, "%s%s", image->program[0] == '-' ? "./" : "", image->program);
    const char **words = image_arguments(image, path, argv);
    c.argv = calloc(OPTIONS + 2 * length_of(environment) + length_of(argv) + 2 * IMAGE_DEPTH + 2,
                    sizeof *c.argv);
    if (words && c.argv) {
        add(&c, start->word[START_QEMU], NULL);
        add(&c, "-plugin", plugin);
        add(&c, "-cpu", start->word[START_CPU]);
        add(&c, "-seed", start->word[START_SEED]);
        if (*start->word[START_SPACE])
            add(&c, "-R", start->word[START_SPACE]);
        if (*start->word[START_STACK])
            add(&c, "-s", start->word[START_STACK]);
        if (*start->word[START_SYSROOT])
            add(&c, "-L", start->word[START_SYSROOT]);
        if (set_environment(&c, environment, from_guest, *start->word[START_SPACE])) {
            add(&c, "-0", words[0]);
            add(&c, program, NULL);
            for (size_t i = 1; words[i]; i++)
                add(&c, words[i], NULL);
            syscall(SYS_execveat, AT_FDCWD, start->word[START_QEMU], c.argv, c.environment, 0,
                    START_MAGIC);
            if (errno == ENOSYS) /* when QEMU 7.2 runs us: then execve is not filtered either */
                syscall(SYS_execve, start->word[START_QEMU], c.argv, c.environment);
        }
    } else {
        errno = ENOMEM;
    }
    int problem = errno;
    free(words);
    free(c.argv);
    free(c.environment);
    errno = problem;
}
