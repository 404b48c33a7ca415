#include "owner.h"

#include "door.h"
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { OPEN_MODE = 0600, NO_FLAGS = DOOR_UNLINK };

static struct {
    pthread_mutex_t turn; /* serializes callers */
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t change;
    bool there, asked;
    const char *path;
    int flags, result, error; /* NO_FLAGS: unlink */
} owner = {.turn = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .change = PTHREAD_COND_INITIALIZER};

/* Opens the file or, if this process may not, has spex open it. */
static int serve(const char *path, int flags)
{
    int result = flags == NO_FLAGS ? unlink(path) : open(path, flags, OPEN_MODE);
    if (result < 0 && errno != EMFILE && errno != ENFILE && plugin.run)
        result = door_open(plugin.run, strrchr(path, '/') + 1, flags);
    return result;
}

static void *keep(void *unused)
{
    bool apart = !unshare(CLONE_FS); /* with a separate root; descriptors are shared */
    pthread_mutex_lock(&owner.lock);
    owner.asked = false;
    pthread_cond_broadcast(&owner.change);
    while (apart) {
        while (!owner.asked)
            pthread_cond_wait(&owner.change, &owner.lock);
        owner.result = serve(owner.path, owner.flags);
        owner.error = errno;
        owner.asked = false;
        pthread_cond_broadcast(&owner.change);
    }
    owner.there = false;
    pthread_mutex_unlock(&owner.lock);
    return unused;
}

/* Needs both locks. The thread gets a separate root before the guest's call changes it. */
static void begin(void)
{
    pthread_t thread;
    sigset_t every, old;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &old);
    owner.asked = true;
    if (!pthread_create(&thread, NULL, keep, NULL)) {
        pthread_detach(thread);
        __atomic_store_n(&owner.there, true, __ATOMIC_RELEASE);
        while (owner.asked)
            pthread_cond_wait(&owner.change, &owner.lock);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void owner_call(int64_t number)
{
    static const int changes[] = {
        41,  /* pivot_root */
        51,  /* chroot */
        91,  /* capset */
        97,  /* unshare */
        143, /* setregid */
        144, /* setgid */
        145, /* setreuid */
        146, /* setuid */
        147, /* setresuid */
        149, /* setresgid */
        151, /* setfsuid */
        152, /* setfsgid */
        268, /* setns */
    };
    bool may = false;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        may |= number == changes[i];
    if (!may || __atomic_load_n(&owner.there, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&owner.turn);
    pthread_mutex_lock(&owner.lock);
    if (!owner.there)
        begin();
    pthread_mutex_unlock(&owner.lock);
    pthread_mutex_unlock(&owner.turn);
}

static int ask(const char *path, int flags)
{
    if (!__atomic_load_n(&owner.there, __ATOMIC_ACQUIRE))
        return serve(path, flags);
    pthread_mutex_lock(&owner.turn);
    pthread_mutex_lock(&owner.lock);
    owner.path = path;
    owner.flags = flags;
    owner.asked = true;
    pthread_cond_broadcast(&owner.change);
    while (owner.asked)
        pthread_cond_wait(&owner.change, &owner.lock);
    int result = owner.result, error = owner.error;
    pthread_mutex_unlock(&owner.lock);
    pthread_mutex_unlock(&owner.turn);
    errno = error;
    return result;
}

int owner_open(const char *path, int flags)
{
    return ask(path, flags);
}

int owner_unlink(const char *path)
{
    return ask(path, NO_FLAGS);
}

void owner_before_fork(void)
{
    pthread_mutex_lock(&owner.turn);
}

void owner_after_fork(void)
{
    pthread_mutex_unlock(&owner.turn);
}

/* The thread is not in the child. */
void owner_in_child(void)
{
    pthread_mutex_init(&owner.turn, NULL);
    pthread_mutex_init(&owner.lock, NULL);
    pthread_cond_init(&owner.change, NULL);
    owner.there = owner.asked = false;
}
