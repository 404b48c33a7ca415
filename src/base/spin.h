/* Waiting for another thread without going to sleep, for a short while. */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

enum { SPIN_TURNS = 2000 }; /* by then it takes less to sleep and be woken */

static inline void spin_relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
