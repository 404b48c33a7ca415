/* Files of containers: paths in mount namespaces other than ours. */
#include "module.h"

#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* process: a number, or "self". */
static bool space_of_process(const char *process, struct module_space *space)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%.20s/ns/mnt", process);
    if (stat(path, &st))
        return false;
    *space = (struct module_space){st.st_dev, st.st_ino};
    return true;
}

static bool is_in(const char *process, const struct module_space *space)
{
    struct module_space its;
    return space_of_process(process, &its) && its.device == space->device &&
           its.inode == space->inode;
}

bool space_is_own(const struct module_space *space)
{
    return !space->inode || is_in("self", space);
}

static int find_process(const struct module_space *space, int pid)
{
    char name[16];
    int found = 0;
    snprintf(name, sizeof name, "%d", pid);
    if (pid > 0 && is_in(name, space))
        return pid;
    DIR *dir = opendir("/proc");
    for (struct dirent *d; dir && !found && (d = readdir(dir));)
        if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && is_in(d->d_name, space))
            found = atoi(d->d_name);
    if (dir)
        closedir(dir);
    return found;
}

bool space_root(struct spex_symbols *symbols, const struct module_space *space, int pid,
                char root[SPACE_ROOT])
{
    struct known_space *known = NULL;
    for (size_t i = 0; i < symbols->space_count; i++)
        if (symbols->spaces[i].space.inode == space->inode &&
            symbols->spaces[i].space.device == space->device)
            known = &symbols->spaces[i];
    if (!known) {
        symbols->spaces = memory_grow(symbols->spaces, symbols->space_count, &symbols->space_room,
                                      sizeof *symbols->spaces);
        known = &symbols->spaces[symbols->space_count++];
        *known = (struct known_space){*space, find_process(space, pid)};
    }
    snprintf(root, SPACE_ROOT, "/proc/%d/root", known->pid);
    return known->pid > 0;
}

/*
 * Uses openat2, which glibc does not wrap, so that links, absolute ones too, stay below the root.
 */
static int open_below(const char *root, const char *path)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_PATH | O_CLOEXEC, 0, 0x10}; /* RESOLVE_IN_ROOT */
    int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    int why = errno;
    if (dir >= 0)
        close(dir);
    errno = why;
    return fd;
}

enum open_result space_open(const char *root, const char *path, const struct module_id *id,
                            struct module_elf *file)
{
    char name[64], whole[PATH_MAX];
    int fd = open_below(root, path);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? OPEN_MISSING : OPEN_REFUSED;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    enum open_result result = elf_open_build(name, id, file);
    int why = errno;
    close(fd);
    errno = why;
    if (!result && snprintf(whole, sizeof whole, "%s%s", root, path) < PATH_MAX) {
        memory_free(file->path);
        file->path = NULL;
        file->path = memory_copy(whole);
    }
    return result;
}
