/* Preloaded into a program: a machine of 16 CPUs. */
#include <sched.h>

enum { CPUS = 16 };

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(size, set);
    for (unsigned i = 0; i < CPUS; i++)
        CPU_SET_S(i, size, set);
    return 0;
}
