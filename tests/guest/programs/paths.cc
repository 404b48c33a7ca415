/*
 * Call paths that are known: every function that takes part says so when it is entered (and when it
 * is left otherwise than by returning), in a list of its thread or coroutine. Work is done by
 * storing to a word of memory that belongs to the path alone, so that the data address of a
 * sampled store says which path it is of, whatever the stack of the sample says. At the end the
 * paths are printed by address: "0x4000000040 step_leaf step_b step_a".
 *
 * Names of functions that take part begin with step_; no other does.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define STEP extern "C" __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory")

enum { PATHS = 1 << 14, DEEPEST = 80, WORK = 200 };

struct path {
    volatile long word[8];
    int depth;
    const char *name[DEEPEST];
};

struct list {
    int depth;
    const char *name[DEEPEST];
};

static struct table {
    pthread_mutex_t lock;
    int count;
    struct path path[PATHS];
} * table;

static thread_local struct list own, *list = &own;

static struct path *find_path(const struct list *l)
{
    size_t size = (size_t)l->depth * sizeof l->name[0];
    unsigned i = 0;
    for (int d = 0; d < l->depth; d++)
        i = i * 31 + (unsigned)((uintptr_t)l->name[d] >> 3);
    i %= PATHS;
    pthread_mutex_lock(&table->lock);
    while (table->path[i].depth &&
           (table->path[i].depth != l->depth || memcmp(table->path[i].name, l->name, size)))
        i = (i + 1) % PATHS;
    if (!table->path[i].depth) {
        if (++table->count == PATHS)
            abort();
        memcpy(table->path[i].name, l->name, size);
        table->path[i].depth = l->depth;
    }
    pthread_mutex_unlock(&table->lock);
    return &table->path[i];
}

static inline __attribute__((always_inline)) void enter(const char *name)
{
    list->name[list->depth++] = name;
    BARRIER;
}

static inline __attribute__((always_inline)) void leave(void)
{
    BARRIER;
    list->depth--;
}

/* The function that calls this is the innermost of the path. */
static inline __attribute__((always_inline)) void work(struct path *path)
{
    for (int i = 0; i < WORK; i++)
        path->word[i % 8] = i;
}

STEP void step_leaf(void)
{
    enter("step_leaf");
    struct path *path = find_path(list);
    work(path);
    leave();
}

STEP void step_recursion(int n)
{
    enter("step_recursion");
    if (n)
        step_recursion(n - 1);
    else
        step_leaf();
    work(find_path(list));
    leave();
}

/* ---- tail calls ---- */

STEP void step_tail_end(void)
{
    list->name[list->depth - 1] = "step_tail_end";
    step_leaf();
    work(find_path(list));
    leave();
}
static void (*volatile tail_end)(void) = step_tail_end;

STEP void step_tail_jump(void)
{
    list->name[list->depth - 1] = "step_tail_jump";
    step_leaf();
    return tail_end(); /* BR */
}

STEP void step_tail(void)
{
    enter("step_tail");
    step_leaf();
    return step_tail_jump(); /* B */
}

/* ---- longjmp ---- */

static thread_local sigjmp_buf back;
/* Not known to the compiler not to return, so that where it would return to is in the caller. */
static void (*volatile jump_back)(struct __jmp_buf_tag *, int) = siglongjmp;

STEP void step_jumper(int n)
{
    enter("step_jumper");
    step_leaf();
    if (!n)
        jump_back(back, 1);
    step_jumper(n - 1);
    leave();
}

STEP void step_jump(int n)
{
    enter("step_jump");
    int depth = list->depth;
    if (!sigsetjmp(back, 1)) {
        step_jumper(n);
    } else {
        list->depth = depth;
        work(find_path(list));
        step_leaf();
    }
    leave();
}

STEP void step_grown(int n)
{
    enter("step_grown");
    int depth = list->depth;
    if (!sigsetjmp(back, 1)) {
        volatile char *more = (char *)__builtin_alloca((size_t)(16 + 64 * n));
        more[0] = 1;
        step_jumper(2);
    } else {
        list->depth = depth;
        work(find_path(list));
        step_leaf();
    }
    leave();
}

/* ---- signals ---- */

STEP void step_handler(int)
{
    enter("step_handler");
    step_leaf();
    work(find_path(list));
    leave();
}

STEP void step_handler_jumps(int)
{
    enter("step_handler_jumps");
    step_leaf();
    jump_back(back, 2);
}

STEP void step_raise(int signal)
{
    enter("step_raise");
    raise(signal);
    work(find_path(list));
    leave();
}

STEP void step_fault(void)
{
    enter("step_fault");
    *(volatile int *)8 = 1;
    leave();
}

STEP void step_out_of_handler(int how)
{
    enter("step_out_of_handler");
    int depth = list->depth;
    if (!sigsetjmp(back, 1)) {
        if (how)
            step_raise(SIGUSR2);
        else
            step_fault();
    }
    list->depth = depth;
    step_leaf();
    work(find_path(list));
    leave();
}

static volatile long alarms;
extern "C" void on_alarm(int)
{
    for (int i = 0; i < 5; i++)
        alarms++;
}

/* ---- exceptions ---- */

STEP void step_thrower(int n)
{
    enter("step_thrower");
    step_leaf();
    if (!n)
        throw n;
    step_thrower(n - 1);
    work(find_path(list));
    leave();
}

STEP void step_catcher(int n)
{
    enter("step_catcher");
    int depth = list->depth;
    try {
        step_thrower(n);
    } catch (int) {
        list->depth = depth;
        work(find_path(list));
        step_leaf();
    }
    step_leaf();
    leave();
}

struct cleaner {
    ~cleaner();
};
STEP void step_cleaning(int depth)
{
    list->depth = depth;
    enter("step_cleaning");
    work(find_path(list));
    leave();
}
static thread_local int cleaning_depth;
inline __attribute__((always_inline)) cleaner::~cleaner()
{
    step_cleaning(cleaning_depth);
}

STEP void step_cleaned(void)
{
    enter("step_cleaned");
    int depth = list->depth;
    try {
        cleaning_depth = depth;
        cleaner c;
        step_thrower(5);
    } catch (int) {
        list->depth = depth;
        work(find_path(list));
    }
    leave();
}

/* ---- coroutines ---- */

struct coroutine {
    ucontext_t context, caller;
    struct list list;
    char *stack;
    struct coroutine *other;
};
static thread_local struct coroutine *running;
static thread_local struct list *caller_list;

STEP void step_yield(int n)
{
    enter("step_yield");
    work(find_path(list));
    if (n) {
        step_yield(n - 1);
    } else {
        struct coroutine *c = running;
        list = caller_list;
        swapcontext(&c->context, &c->caller);
    }
    work(find_path(list));
    leave();
}

STEP void step_coroutine(void)
{
    enter("step_coroutine");
    for (int i = 0; i < 4; i++) {
        step_leaf();
        step_yield(i % 3);
    }
    leave();
    list = caller_list;
}

STEP void step_resume(struct coroutine *c)
{
    enter("step_resume");
    caller_list = list;
    running = c;
    list = &c->list;
    swapcontext(&c->caller, &c->context);
    work(find_path(list));
    leave();
}

STEP void step_coroutines(int count, size_t size, char *memory)
{
    enter("step_coroutines");
    struct coroutine *all = (struct coroutine *)calloc((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++) {
        struct coroutine *c = &all[i];
        getcontext(&c->context);
        c->context.uc_stack.ss_sp = memory + (size_t)i * size;
        c->context.uc_stack.ss_size = size;
        c->context.uc_link = &c->caller;
        makecontext(&c->context, step_coroutine, 0);
    }
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < count; i++) {
            step_resume(&all[(i * 7 + round) % count]);
            step_leaf();
        }
    work(find_path(list));
    free(all);
    leave();
}

/* Stacks that lie in the frame of the one that resumes them. */
STEP void step_near(void)
{
    enter("step_near");
    __attribute__((aligned(16))) char memory[3 * 16384];
    step_coroutines(3, 16384, memory);
    leave();
}

/* ---- libraries ---- */

extern "C" void step_library(void (*)(void), void (*)(const char *), void (*)(void));
static void enter_from(const char *name)
{
    enter(strcmp(name, "step_inner") ? "step_library" : "step_inner"); /* its own go with it */
}
static void leave_from(void)
{
    leave();
}

STEP void step_open(const char *path)
{
    enter("step_open");
    void *library = dlopen(path, RTLD_LAZY);
    typedef void function(void (*)(void), void (*)(const char *), void (*)(void));
    function *f = library ? (function *)dlsym(library, "step_library") : NULL;
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, dlerror());
        exit(1);
    }
    f(step_leaf, enter_from, leave_from);
    f(step_leaf, enter_from, leave_from);
    dlclose(library); /* and bound lazily again the next time */
    work(find_path(list));
    leave();
}

/* ---- everything ---- */

STEP int step_compare(const void *a, const void *b)
{
    enter("step_compare");
    work(find_path(list));
    leave();
    return *(const int *)a - *(const int *)b;
}

STEP void step_all(int n, const char *library, char *memory)
{
    enter("step_all");
    step_recursion(n % 50);
    step_tail();
    step_jump(n % 6);
    step_grown(n % 4);
    step_raise(SIGUSR1);
    step_out_of_handler(n % 2);
    step_catcher(5);
    step_cleaned();
    step_coroutines(3, 32768, memory);
    step_near();
    if (library)
        step_open(library);
    int numbers[4] = {3, 1, n, 2};
    qsort(numbers, 4, sizeof numbers[0], step_compare);
    leave();
}

static int rounds;
static const char *library;

STEP void *step_thread(void *argument)
{
    stack_t alternate = {};
    alternate.ss_size = 65536;
    alternate.ss_sp = malloc(65536);
    if ((long)argument % 2)
        sigaltstack(&alternate, NULL);
    char *memory = (char *)mmap(NULL, 3 * 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    enter("step_thread");
    for (int i = 0; i < rounds; i++)
        step_all((int)(long)argument + i, argument || i % 4 ? NULL : library, memory);
    leave();
    return NULL;
}

static void set_handler(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, NULL);
}

int main(int argc, char **argv)
{
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    library = argv[3];
    long alarm_us = argc > 4 ? atol(argv[4]) : 0;
    table = (struct table *)mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&table->lock, &shared);
    set_handler(SIGUSR1, step_handler, SA_ONSTACK);
    set_handler(SIGUSR2, step_handler_jumps, SA_ONSTACK);
    set_handler(SIGSEGV, step_handler_jumps, SA_ONSTACK);
    set_handler(SIGALRM, on_alarm, SA_RESTART);
    if (alarm_us) {
        struct itimerval often = {{0, alarm_us}, {0, alarm_us}};
        setitimer(ITIMER_REAL, &often, NULL);
    }
    step_thread(NULL);
    pid_t child = fork();
    if (!child) {
        step_thread((void *)1);
        _exit(0);
    }
    pthread_t *all = (pthread_t *)calloc((size_t)threads + 1, sizeof *all);
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, step_thread, (void *)i);
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    waitpid(child, NULL, 0);
    struct itimerval never = {};
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < PATHS; i++) {
        if (!table->path[i].depth)
            continue;
        printf("%p", (void *)table->path[i].word);
        for (int d = table->path[i].depth; d-- > 0;)
            printf(" %s", table->path[i].name[d]);
        printf("\n");
    }
    fprintf(stderr, "%ld alarms\n", alarms / 5);
    return 0;
}
