#include "trace.h"

#include "image.h"
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- started in place of a guest program ---- */

static bool start_meant(const char *directory, char **argv, char **environment, const char **why)
{
    static char message[2 * IMAGE_PATH];
    char name[IMAGE_PATH + 32], path[IMAGE_PATH] = "";
    struct start start;
    struct image image;
    snprintf(name, sizeof name, "%s/" TRACE_PATH, directory, (int)getpid());
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, path, sizeof path - 1);
    if (fd >= 0)
        close(fd);
    unlink(name);
    if (n <= 0)
        return false;
    errno = ENOEXEC;
    if (start_read(directory, &start)) {
        struct image_search here = {"", "", start.word[START_SYSROOT]};
        if (image_find(path, &here, &image) == IMAGE_GUEST)
            start_guest(&start, directory, &image, path, argv, environment, false, -1);
    }
    snprintf(message, sizeof message, "%.4000s: %s", path, strerror(errno));
    *why = message;
    return true;
}

#ifdef __x86_64__

#include <linux/filter.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#define SUPERVISOR "spex-supervisor" /* argv[0] */

/* ---- the supervisor ---- */

enum { SLOT = 4096, SLOTS = 16 };

/*
 * A thread that was seen. It may share the memory of the thread that made it (vfork). Room for
 * paths is mapped once per memory, and each path uses a part of it.
 */
struct seen {
    pid_t tid, memory; /* the thread, and the thread whose memory it uses */
    uint64_t room;     /* SLOTS times SLOT bytes, or 0 */
    unsigned used;
    bool executed; /* it has executed another program since: its memory is its own */
    bool making;   /* the room is being mapped now; registers before that: */
    struct user_regs_struct before;
    struct seen *next;
};

struct supervisor {
    const char *directory;
    struct start start;
    struct seen *all;
};

static struct seen *find(struct supervisor *s, pid_t tid)
{
    struct seen *t = s->all;
    while (t && t->tid != tid)
        t = t->next;
    if (!t && (t = calloc(1, sizeof *t))) {
        *t = (struct seen){.tid = tid, .memory = tid, .next = s->all};
        s->all = t;
    }
    return t;
}

static void forget(struct supervisor *s, pid_t tid)
{
    for (struct seen **at = &s->all; *at; at = &(*at)->next)
        if ((*at)->tid == tid) {
            struct seen *t = *at;
            *at = t->next;
            free(t);
            return;
        }
}

/* Reads a string in the process's memory. */
static bool read_text(pid_t tid, uint64_t address, char out[IMAGE_PATH])
{
    for (size_t n = 0; n < IMAGE_PATH;) {
        size_t part = SLOT - (address + n) % SLOT;
        part = part < IMAGE_PATH - n ? part : IMAGE_PATH - n;
        struct iovec to = {out + n, part}, from = {(void *)(uintptr_t)(address + n), part};
        if (process_vm_readv(tid, &to, 1, &from, 1, 0) != (ssize_t)part)
            return false;
        if (memchr(out + n, '\0', part))
            return true;
        n += part;
    }
    return false;
}

static pid_t process_of(pid_t tid)
{
    char name[64], line[256];
    int pid = tid;
    snprintf(name, sizeof name, "/proc/%d/status", (int)tid);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Tgid: %d", &pid) == 1)
            break;
    if (file)
        fclose(file);
    return pid;
}

/* The path that the current call would execute, as the process sees it; "" if it is not known. */
static void path_of(pid_t tid, pid_t pid, const struct user_regs_struct *r, char path[IMAGE_PATH])
{
    char text[IMAGE_PATH], link[IMAGE_PATH + 64];
    bool at = r->orig_rax == SYS_execveat;
    path[0] = '\0';
    if (!read_text(tid, at ? r->rsi : r->rdi, text))
        return;
    if (at && text[0] != '/' && (int)r->rdi != AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/fd/%d%s%s", (int)pid, (int)r->rdi, *text ? "/" : "",
                 text);
    else if (!strncmp(text, "/proc/self/", 11))
        snprintf(link, sizeof link, "/proc/%d/%s", (int)pid, text + 11);
    else
        link[0] = '\0';
    /* Resolve the link: the descriptor may be closed by then. */
    if (link[0] ? !realpath(link, path) : snprintf(path, IMAGE_PATH, "%s", text) < 0)
        path[0] = '\0';
}

/* Leaves the path for spex, which starts in place of the program. */
static bool note_path(const struct supervisor *s, pid_t pid, const char *path)
{
    char name[IMAGE_PATH + 32];
    snprintf(name, sizeof name, "%s/" TRACE_PATH, s->directory, (int)pid);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t n = strlen(path);
    bool ok = fd >= 0 && write(fd, path, n) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Makes the process map room for us in place of its execve, which it then repeats. */
static bool make_room(struct seen *t, const struct user_regs_struct *regs)
{
    struct user_regs_struct r = *regs;
    t->before = *regs;
    t->making = true;
    r.orig_rax = SYS_mmap;
    r.rdi = 0;
    r.rsi = SLOT * SLOTS;
    r.rdx = 3;    /* PROT_READ | PROT_WRITE */
    r.r10 = 0x22; /* MAP_PRIVATE | MAP_ANONYMOUS */
    r.r8 = UINT64_MAX;
    r.r9 = 0;
    return !ptrace(PTRACE_SETREGS, t->tid, NULL, &r);
}

static void room_made(struct supervisor *s, struct seen *t)
{
    struct user_regs_struct r, back = t->before;
    t->making = false;
    if (ptrace(PTRACE_GETREGS, t->tid, NULL, &r))
        return;
    struct seen *owner = find(s, t->memory);
    back.rax = back.orig_rax;
    back.orig_rax = UINT64_MAX; /* no call is under way */
    back.rip -= 2;              /* the instruction syscall */
    if (r.rax >= UINT64_MAX - 4095) {
        back = t->before;
        back.rax = (uint64_t)-ENOMEM;
    } else if (owner) {
        owner->room = r.rax;
    }
    ptrace(PTRACE_SETREGS, t->tid, NULL, &back);
}

/* Makes the call fail without being made. */
static void refuse(const struct seen *t, struct user_regs_struct *r, int error)
{
    r->orig_rax = UINT64_MAX;
    r->rax = (uint64_t)-error;
    ptrace(PTRACE_SETREGS, t->tid, NULL, r);
}

/* Turns the call into the start of spex. */
static bool redirect(const struct supervisor *s, struct seen *t, struct seen *owner,
                     struct user_regs_struct *r)
{
    char path[IMAGE_PATH];
    uint64_t at = owner->room + (uint64_t)(owner->used++ % SLOTS) * SLOT;
    int n = snprintf(path, sizeof path, "%s/" TRACE_LINK, s->directory);
    struct iovec from = {path, (size_t)n + 1}, to = {(void *)(uintptr_t)at, (size_t)n + 1};
    if (process_vm_writev(t->tid, &from, 1, &to, 1, 0) != n + 1)
        return false;
    if (r->orig_rax == SYS_execveat) {
        r->orig_rax = SYS_execve;
        r->rsi = r->rdx;
        r->rdx = r->r10;
    }
    r->rdi = at;
    return !ptrace(PTRACE_SETREGS, t->tid, NULL, r);
}

/* An execve is about to happen. Returns the ptrace request to continue with. */
static int look(struct supervisor *s, struct seen *t)
{
    struct user_regs_struct r;
    struct image image;
    char path[IMAGE_PATH], root[64], directory[64];
    if (ptrace(PTRACE_GETREGS, t->tid, NULL, &r))
        return PTRACE_CONT;
    pid_t pid = process_of(t->tid);
    path_of(t->tid, pid, &r, path);
    snprintf(root, sizeof root, "/proc/%d/root", (int)t->tid);
    snprintf(directory, sizeof directory, "/proc/%d/cwd", (int)t->tid);
    struct image_search search = {root, directory, s->start.word[START_SYSROOT]};
    enum image_kind kind = *path ? image_find(path, &search, &image) : IMAGE_NONE;
    if (kind == IMAGE_ORPHAN)
        refuse(t, &r, ENOENT);
    if (kind != IMAGE_GUEST)
        return PTRACE_CONT;
    struct seen *owner = find(s, t->memory);
    if (!owner)
        return PTRACE_CONT;
    if (!owner->room)
        return make_room(t, &r) ? PTRACE_SYSCALL : PTRACE_CONT;
    if (!note_path(s, pid, path) || !redirect(s, t, owner, &r))
        refuse(t, &r, ENOMEM);
    return PTRACE_CONT;
}

/*
 * A new thread or process: finds out whether it shares or copies memory. The parent reports it only
 * when it runs again; by then the child may have ended or executed another program.
 */
static void born(struct supervisor *s, struct seen *parent, int event)
{
    unsigned long tid = 0;
    if (ptrace(PTRACE_GETEVENTMSG, parent->tid, NULL, &tid) || kill((pid_t)tid, 0))
        return; /* already ended and forgotten */
    struct seen *child = find(s, (pid_t)tid);
    struct seen *owner = find(s, parent->memory);
    if (!child || !owner || child->executed)
        return;
    if (event == PTRACE_EVENT_VFORK) {
        child->memory = owner->tid;
    } else if (event == PTRACE_EVENT_FORK) {
        child->room = owner->room;
    }
}

static void stopped(struct supervisor *s, pid_t tid, int status)
{
    int signal = WSTOPSIG(status), event = status >> 16, request = PTRACE_CONT;
    struct seen *t = find(s, tid);
    if (event == PTRACE_EVENT_STOP) {
        bool group =
            signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
        request = group ? PTRACE_LISTEN : PTRACE_CONT;
        signal = 0;
    } else if (event || signal == (SIGTRAP | 0x80)) {
        if (t && event == PTRACE_EVENT_SECCOMP)
            request = look(s, t);
        else if (t && !event && t->making)
            room_made(s, t);
        else if (t && event == PTRACE_EVENT_EXEC)
            *t = (struct seen){.tid = tid, .memory = tid, .executed = true, .next = t->next};
        else if (t && event)
            born(s, t, event);
        signal = 0;
    }
    ptrace(request, tid, NULL, (void *)(intptr_t)signal);
}

static const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                            PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

static void take_nothing_along(int except)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    dup2(except, STDERR_FILENO + 1);
    syscall(SYS_close_range, STDERR_FILENO + 2, ~0u, 0);
    setsid(); /* the terminal's signals are for others */
    if (chdir("/"))
        return; /* some file system stays busy if this fails */
}

/* argv: name, thread, directory, descriptor on which to report success. */
static int supervise(char **argv)
{
    struct supervisor s = {.directory = argv[2]};
    pid_t tid = atoi(argv[1]);
    int status, ready = STDERR_FILENO + 1;
    take_nothing_along(atoi(argv[3]));
    if (!start_read(s.directory, &s.start) || ptrace(PTRACE_SEIZE, tid, NULL, options))
        return 1;
    bool sent = write(ready, "y", 1) == 1;
    close(ready);
    while (sent) {
        tid = waitpid(-1, &status, __WALL);
        if (tid < 0 && errno == EINTR)
            continue;
        if (tid < 0)
            break; /* all have ended */
        if (WIFSTOPPED(status))
            stopped(&s, tid, status);
        else
            forget(&s, tid);
    }
    return 0;
}

/* ---- the process that gets a supervisor ---- */

static bool set_filter(void)
{
#define LOAD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
    struct sock_filter code[] = {
        LOAD(arch),
        EQUAL(AUDIT_ARCH_X86_64, 0, 5),
        LOAD(nr),
        EQUAL(SYS_execve, 4, 0),
        EQUAL(SYS_execveat, 0, 2),
        LOAD(args[5]),
        EQUAL(START_MAGIC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
    };
#undef LOAD
#undef EQUAL
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
        return true;
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static bool is_traced(void)
{
    char line[256];
    int tracer = 0;
    FILE *file = fopen("/proc/thread-self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    if (file)
        fclose(file);
    return tracer != 0;
}

/* Runs in a grandchild, so that the process never waits for it by mistake. */
static void start_supervisor(const char *spex, const char *directory, pid_t tid, int fd)
{
    char thread[16], descriptor[16];
    static char name[] = SUPERVISOR;
    char *argv[] = {name, thread, (char *)(uintptr_t)directory, descriptor, NULL};
    char *none[] = {NULL};
    snprintf(thread, sizeof thread, "%d", (int)tid);
    snprintf(descriptor, sizeof descriptor, "%d", fcntl(fd, F_DUPFD, STDERR_FILENO + 1));
    if (!syscall(SYS_fork))
        execve(spex, argv, none);
    _exit(0);
}

bool trace_enter(const char *spex, const char *directory)
{
    int yes[2];
    char answer;
    if (is_traced())
        return true; /* traced by our supervisor, or by another tracer that is there for a reason */
    if (pipe(yes))
        return false;
    pid_t tid = (pid_t)syscall(SYS_gettid);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    /*
     * No SIGCHLD for the guest, and no fork handlers: the plugin's are meant for the guest's forks.
     */
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (!child)
        start_supervisor(spex, directory, tid, yes[1]);
    close(yes[1]);
    while (child > 0 && waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        ;
    bool ok = child > 0 && read(yes[0], &answer, 1) == 1;
    close(yes[0]);
    prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    return ok && set_filter();
}

#else

bool trace_enter(const char *spex, const char *directory)
{
    (void)spex;
    (void)directory;
    return false;
}

#endif

bool trace_main(int argc, char **argv, char **environment, int *status, const char **message)
{
    const char *file = (const char *)getauxval(AT_EXECFN);
    const char *slash = file ? strrchr(file, '/') : NULL;
    *message = NULL;
#ifdef __x86_64__
    if (argc == 4 && !strcmp(argv[0], SUPERVISOR)) {
        *status = supervise(argv);
        return true;
    }
#endif
    (void)argc;
    if (!slash || strcmp(slash + 1, TRACE_LINK))
        return false;
    char directory[IMAGE_PATH];
    snprintf(directory, sizeof directory, "%.*s", (int)(slash - file), file);
    *status = 126;
    return start_meant(directory, argv, environment, message);
}
