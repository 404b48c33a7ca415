/* Does what its first argument says; every kind of end that a program can have. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long sink;

__attribute__((noinline)) void busy(long n)
{
    for (long i = 0; i < n; i++)
        sink += i;
}

static void *thread(void *argument)
{
    prctl(PR_SET_NAME, argument, 0, 0, 0);
    busy(200000);
    return NULL;
}

static void threads(void)
{
    pthread_t t[3];
    static char names[3][16] = {"one", "two", "three"};
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, thread, names[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    pthread_create(&t[0], NULL, thread, "late"); /* gets a vCPU that was used before */
    pthread_join(t[0], NULL);
}

static int forks(void)
{
    int sum = 0;
    for (int i = 1; i <= 3; i++) {
        int status;
        fflush(NULL);
        pid_t pid = i == 3 ? vfork() : fork();
        if (!pid) {
            if (i < 3)
                busy(100000 * i);
            _exit(i);
        }
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum;
}

/* Writes code, runs it, changes it, runs it again, many times. */
static int jit(void)
{
    uint32_t *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int sum = 0;
    for (int i = 0; i < 200; i++) {
        uint32_t *p = code;
        *p++ = 0xd2800000 | (uint32_t)(i & 7) << 5; /* mov x0, #i & 7 */
        *p++ = 0xd2800001 | 200u << 5;              /* mov x1, #200 */
        *p++ = 0xd1000421;                          /* sub x1, x1, #1 */
        *p++ = 0xb5ffffe1;                          /* cbnz x1, .-4 */
        *p++ = 0xd65f03c0;                          /* ret */
        __builtin___clear_cache((char *)code, (char *)p);
        sum += ((int (*)(void))(uintptr_t)code)();
    }
    return sum == 700 ? 0 : 1;
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signo)
{
    (void)signo;
    alarms++;
}

static int alarm_loop(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    ualarm(2000, 2000);
    while (alarms < 50)
        busy(1000);
    return 0;
}

/* An empty name is one, and one that cannot be read is refused. */
static int names(void)
{
    if (prctl(PR_SET_NAME, "") || !prctl(PR_SET_NAME, 8))
        return 1;
    busy(1000000);
    return prctl(PR_SET_NAME, "later") ? 1 : 5;
}

/* Files may not grow: nobody writes one here. */
static int limit(void)
{
    struct rlimit none = {0, 0};
    int status = 0;
    setrlimit(RLIMIT_FSIZE, &none);
    busy(1000000);
    pid_t child = fork();
    if (!child)
        _exit(3);
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 3 ? 1 : puts("all is well") < 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "cat")) {
        char line[256];
        while (fgets(line, sizeof line, stdin))
            fputs(line, stdout);
        return 0;
    }
    if (!strcmp(what, "env")) {
        const char *value = getenv("SPEX_TEST");
        puts(value ? value : "");
        return 0;
    }
    if (!strcmp(what, "jit"))
        return jit();
    busy(1000000);
    if (!strcmp(what, "exit"))
        return atoi(argv[2]);
    if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "forks"))
        return forks();
    else if (!strcmp(what, "segv"))
        *(volatile int *)8 = 1;
    else if (!strcmp(what, "abort"))
        abort();
    else if (!strcmp(what, "kill"))
        kill(getpid(), SIGKILL);
    else if (!strcmp(what, "term"))
        raise(SIGTERM);
    else if (!strcmp(what, "sleep"))
        sleep(60);
    else if (!strcmp(what, "exec"))
        execl(argv[2], argv[2], (char *)NULL);
    else if (!strcmp(what, "closeall")) {
        for (int i = 3; i < 1024; i++)
            close(i);
        busy(1000000);
    } else if (!strcmp(what, "alarm"))
        return alarm_loop();
    else if (!strcmp(what, "names"))
        return names();
    else if (!strcmp(what, "limit"))
        return limit();
    else if (!strcmp(what, "zero")) {
        char *p = malloc(1 << 20);
        for (int i = 0; i < 20; i++)
            memset(p, 0, 1 << 20);
        return p[5];
    }
    return 0;
}
