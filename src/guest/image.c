#include "image.h"

#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool located(const char *path, const struct image_search *search, char out[IMAGE_PATH])
{
    int n = path[0] == '/' ? snprintf(out, IMAGE_PATH, "%s%s", search->root, path)
                           : snprintf(out, IMAGE_PATH, "%s%s%s", search->directory,
                                      *search->directory ? "/" : "", path);
    return n > 0 && n < IMAGE_PATH;
}

/* Reads the first line of a script; false if it is not a script. */
static bool read_line(const char *file, char interpreter[IMAGE_LINE], char argument[IMAGE_LINE])
{
    char head[IMAGE_LINE + 1];
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, head, IMAGE_LINE);
    if (fd >= 0)
        close(fd);
    if (n < 2 || memcmp(head, "#!", 2))
        return false;
    head[n] = '\0';
    char *end = strchr(head, '\n');
    bool whole = end || n < IMAGE_LINE;
    if (end)
        *end = '\0';
    char *word = head + 2 + strspn(head + 2, " \t");
    size_t length = strcspn(word, " \t");
    if (!length || (!word[length] && !whole)) /* the name of the interpreter was cut */
        return false;
    char *rest = word + length + strspn(word + length, " \t");
    size_t left = strlen(rest);
    while (left && (rest[left - 1] == ' ' || rest[left - 1] == '\t'))
        left--;
    snprintf(interpreter, IMAGE_LINE, "%.*s", (int)length, word);
    snprintf(argument, IMAGE_LINE, "%.*s", (int)left, rest);
    return true;
}

static enum image_kind program_kind(const struct elf *elf, const struct image_search *search)
{
    char path[2 * IMAGE_PATH];
    if (elf->machine != EM_AARCH64 || !elf->little || !elf->is64 || !elf->executable)
        return IMAGE_HOST;
    if (!elf->interpreter[0])
        return IMAGE_GUEST;
    snprintf(path, sizeof path, "%s%s", search->sysroot, elf->interpreter);
    return access(path, R_OK) && access(elf->interpreter, R_OK) ? IMAGE_ORPHAN : IMAGE_GUEST;
}

static bool may_execute(const char *file)
{
    struct stat st;
    return !stat(file, &st) && S_ISREG(st.st_mode) && !faccessat(AT_FDCWD, file, X_OK, AT_EACCESS);
}

/* Finds the path in the sysroot if it is a guest program: host tools may be there, too. */
static bool in_sysroot(const char *path, const struct image_search *search, char file[IMAGE_PATH])
{
    struct elf elf;
    if (!search->inside || path[0] != '/' || !*search->sysroot)
        return false;
    int n = snprintf(file, IMAGE_PATH, "%s%s", search->sysroot, path);
    if (n < 0 || n >= IMAGE_PATH || !may_execute(file))
        return false;
    enum spex_status status = elf_read(file, &elf);
    return status == SPEX_INVALID || (!status && elf.machine == EM_AARCH64);
}

enum image_kind image_find(const char *path, const struct image_search *search, struct image *image)
{
    char file[IMAGE_PATH];
    struct elf elf;
    image->scripts = 0;
    for (;;) {
        bool inside = in_sysroot(path, search, file);
        if (!inside && (!located(path, search, file) || !may_execute(file)))
            return IMAGE_NONE;
        enum spex_status status = elf_read(file, &elf);
        if (!status) {
            snprintf(image->program, sizeof image->program, "%s", inside ? file : path);
            return program_kind(&elf, search);
        }
        if (status == SPEX_IO || image->scripts == IMAGE_DEPTH)
            return IMAGE_HOST; /* may be executed, but not read */
        char(*line)[IMAGE_LINE] = image->line[image->scripts];
        if (!read_line(file, line[0], line[1]))
            return IMAGE_HOST;
        path = line[0];
        image->scripts++;
    }
}

const char **image_arguments(const struct image *image, const char *path, char *const *argv)
{
    size_t count = 0, n = 0;
    while (argv[count])
        count++;
    const char **out = calloc(count + 2 * IMAGE_DEPTH + 2, sizeof *out);
    if (!out)
        return NULL;
    for (unsigned i = image->scripts; i-- > 0;) {
        out[n++] = image->line[i][0];
        if (image->line[i][1][0])
            out[n++] = image->line[i][1];
    }
    if (image->scripts)
        out[n++] = path;
    else
        out[n++] = count ? argv[0] : ""; /* Linux does the same */
    for (size_t i = 1; i < count; i++)
        out[n++] = argv[i];
    return out;
}
