#include "start.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whose program it is: that of the user who called sudo, or a set-user-ID spex. */
struct owner {
    bool change;
    uid_t uid;
    gid_t gid;
    char name[256]; /* user name, for supplementary groups; empty: none */
};

static struct owner find_owner(bool keep_root)
{
    struct owner o = {.uid = getuid(), .gid = getgid()};
    const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");
    if (geteuid() != getuid()) {
        o.change = true;
    } else if (!geteuid() && uid && gid && !keep_root && atoi(uid) > 0) {
        const struct passwd *p = getpwuid((uid_t)atoi(uid));
        o.change = true;
        o.uid = (uid_t)atoi(uid);
        o.gid = (gid_t)atoi(gid);
        snprintf(o.name, sizeof o.name, "%s", p ? p->pw_name : "");
    }
    return o;
}

/* For good: the program cannot regain the privileges of spex. */
static bool become(const struct owner *o)
{
    if (!o->change)
        return true;
    if (!geteuid() && getuid() == geteuid() &&
        (*o->name ? initgroups(o->name, o->gid) : setgroups(1, &o->gid)))
        return false;
    return !setresgid(o->gid, o->gid, o->gid) && !setresuid(o->uid, o->uid, o->uid) &&
           (!o->uid || setuid(0));
}

/* Like execvp(), except that a file which is not a program is not handed to a shell. */
static void execute(char **argv)
{
    const char *path = getenv("PATH");
    int why = ENOENT;
    if (strchr(argv[0], '/')) {
        execv(argv[0], argv);
        return;
    }
    for (const char *at = path ? path : "/bin:/usr/bin";;) {
        size_t n = strcspn(at, ":");
        char name[4096];
        if ((size_t)snprintf(name, sizeof name, "%.*s%s%s", (int)n, at, n ? "/" : "./", argv[0]) <
            sizeof name) {
            execv(name, argv);
            if (errno != ENOENT && errno != ENOTDIR)
                why = errno;
        }
        if (!at[n])
            break;
        at += n + 1;
    }
    errno = why;
}

static void be_program(const struct native_start *how, const struct owner *owner, int go,
                       int failure)
{
    char byte;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (read(go, &byte, 1) != 1)
        _exit(0);
    if (how->aside)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    if (become(owner))
        execute(how->argv);
    int why = errno;
    if (write(failure, &why, sizeof why) < 0)
        _exit(126);
    _exit(127);
}

enum spex_status native_start(const struct native_start *how, struct native_child *child,
                              struct spex_error *error)
{
    int go[2], failure[2] = {-1, -1};
    struct owner owner = find_owner(how->keep_root);
    *child = (struct native_child){.pid = -1, .go = -1, .failure = -1};
    if (pipe2(go, O_CLOEXEC))
        return error_set(error, SPEX_IO, 0, "cannot start %s: %s", how->argv[0], strerror(errno));
    int pid = pipe2(failure, O_CLOEXEC) ? -1 : fork();
    if (!pid) {
        close(go[1]);
        be_program(how, &owner, go[0], failure[1]);
    }
    int why = errno;
    close(go[0]);
    if (failure[1] >= 0)
        close(failure[1]);
    *child = (struct native_child){.pid = pid, .go = go[1], .failure = failure[0]};
    child->user = owner.change && owner.uid ? owner.uid : 0;
    return pid > 0
               ? SPEX_OK
               : error_set(error, SPEX_IO, 0, "cannot start %s: %s", how->argv[0], strerror(why));
}

enum spex_status native_go(struct native_child *child, const char *name, struct spex_error *error)
{
    int why = 0;
    ssize_t n;
    if (write(child->go, "", 1) != 1) /* EPIPE: somebody has ended it already */
        return errno == EPIPE
                   ? SPEX_OK
                   : error_set(error, SPEX_IO, 0, "cannot start %s: %s", name, strerror(errno));
    do
        n = read(child->failure, &why, sizeof why);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof why)
        return SPEX_OK; /* closed by execve() */
    return error_set(error, SPEX_IO, 0, "%s: %s", name,
                     why == ENOENT    ? "there is no such program"
                     : why == ENOEXEC ? "is no program; scripts need a first line such as #!/bin/sh"
                                      : strerror(why));
}

void native_child_close(struct native_child *child)
{
    if (child->go >= 0)
        close(child->go);
    if (child->failure >= 0)
        close(child->failure);
    child->go = child->failure = -1;
}
