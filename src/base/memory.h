/*
 * One limit for the memory of a run. Anything that input can make large asks here before it
 * grows, so that a small hostile file ends in a message, and everything read until then is
 * kept.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the limit; 0: half of what the machine, or the control group, has. */
void memory_limit_set(uint64_t bytes);
uint64_t memory_limit(void);

/* Whether size more bytes stay below the limit. Exact only from a few hundred KB on. */
bool memory_allows(size_t bytes);

/*
 * Zeroed memory, and memory grown to a size, for code that cannot go on without it. If there is
 * none, the handler is called, which does not return; without a handler, the innermost guard is
 * taken (see below).
 */
void *memory_get(size_t count, size_t size);
void *memory_resize(void *memory, size_t count, size_t size);
void *memory_aligned(size_t alignment, size_t size); /* not zeroed */
char *memory_copy(const char *text);
void *memory_checked(void *memory); /* checks the result of another allocating function */
/* Makes room for one more item; grows by half. */
void *memory_grow(void *items, size_t count, size_t *capacity, size_t size);
void memory_set_handler(void (*handler)(size_t size));

/*
 * A library must not end the program. An API function that uses the functions above runs its
 * work under a guard: if memory runs out, the work ends there and the guard reports false.
 * Memory that only local variables point to is then lost, so code hands it to its owner before
 * asking for more. After that, the object may only be freed or closed. The innermost guard
 * applies; while callbacks of the host run, there is no guard.
 */
struct memory_guard {
    jmp_buf at;
    struct memory_guard *outer;
};
#define memory_guarded(work)                                                                       \
    __extension__({                                                                                \
        struct memory_guard guard_;                                                                \
        volatile bool done_ = false;                                                               \
        memory_guard_begin(&guard_);                                                               \
        if (!setjmp(guard_.at)) {                                                                  \
            work;                                                                                  \
            done_ = true;                                                                          \
        }                                                                                          \
        memory_guard_resume(guard_.outer);                                                         \
        done_;                                                                                     \
    })
void memory_guard_begin(struct memory_guard *guard);
struct memory_guard *memory_guard_pause(void);
void memory_guard_resume(struct memory_guard *guard);

#endif
