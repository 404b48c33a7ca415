/*
 * One limit for the memory of a run. What input can make large asks before it grows, so that a
 * small file that means harm ends in a message, and what was read until then is kept.
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

/* Whether so many bytes more stay below the limit. Exact only from some hundred KB on. */
bool memory_allows(size_t bytes);

/*
 * Zeroed memory, and memory grown to a size, for what has no smaller answer to offer: if there is
 * none, the handler is called, which does not return; unset, guarded work ends (see below).
 */
void *memory_get(size_t count, size_t size);
void *memory_resize(void *memory, size_t count, size_t size);
void *memory_aligned(size_t alignment, size_t size); /* not zeroed */
char *memory_copy(const char *text);
void *memory_checked(void *memory); /* what another function made: its result */
/* Room for one more item: grows by half. */
void *memory_grow(void *items, size_t count, size_t *capacity, size_t size);
void memory_set_handler(void (*handler)(size_t size));

/*
 * What a library must not do is end the program. A function of the API that may use the above runs
 * its work guarded: if memory is out, the work ends there and the result is false. What only local
 * variables hold is lost then: memory gets its owner before more is asked for. Of the object at
 * hand only the end is certain then: free or close it. The nearest guard hears of it; while
 * functions of the host run, there is none.
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
