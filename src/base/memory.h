/*
 * Accounts of memory. Each library handle has one: memory allocated while a thread works for that
 * handle is counted there, stops at the account's limit, and comes from its allocator. Handles
 * share nothing here, and each thread knows which handle it works for.
 *
 * Anything that input can make large must ask here before it grows, so that a small hostile file
 * ends in a message, and everything read until then is kept.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <spex/base.h>

#include <setjmp.h>
#include <stdatomic.h>

struct memory {
    struct spex_allocator allocator; /* allocate NULL: malloc and its kin */
    uint64_t limit;                  /* bytes; UINT64_MAX: none */
    _Atomic int64_t used;
    atomic_uint handles;  /* number of handles that use it */
    struct memory *outer; /* another account that also counts what is counted here; or NULL */
    /* For a program that is alone in its process. in_use: memory that all of it uses. exhausted:
     * called when there is no more; does not return. */
    uint64_t (*in_use)(void);
    void (*exhausted)(size_t size);
};

/* Half of the memory of the machine or, if smaller, of the control group. */
uint64_t memory_half(void);

/*
 * The account of a new handle. Without a limit (0) and an allocator, while this thread works for
 * another handle, it is that handle's account; else a new one. NULL: out of memory.
 */
struct memory *memory_open(uint64_t limit, const struct spex_allocator *allocator);
struct memory *memory_keep(struct memory *memory); /* counts one more handle */
void memory_drop(struct memory *memory);           /* NULL is ignored */
/* The end of a handle, after which this thread works for `before`. */
void memory_end(struct memory *memory, struct memory *before);

/* From here on this thread works for this account (NULL: none); returns the one before. */
struct memory *memory_enter(struct memory *memory);
struct memory *memory_current(void);
static inline void memory_leave(struct memory **before)
{
    memory_enter(*before);
}
/* To the end of the block, this thread works for this account. */
#define MEMORY_OF(account)                                                                         \
    __attribute__((cleanup(memory_leave), unused)) struct memory *memory_before_ =                 \
        memory_enter(account)

/* The limit of the account that this thread works for. */
uint64_t memory_limit(void);
/*
 * Whether size more bytes stay below the limit, with some memory left for uses that cannot do with
 * less.
 */
bool memory_allows(size_t bytes);

/* Like malloc and its kin, on the account that this thread works for; NULL: no memory. */
void *memory_new(size_t size);
void *memory_zeroed(size_t count, size_t size);
void *memory_again(void *memory, size_t size);
char *memory_text(const char *text, size_t length);
void memory_free(void *memory); /* memory must be of the same account */

/*
 * Zeroed memory, and memory grown to a size, for code that cannot go on without it. If there is
 * none, exhausted() of the account or of an outer one is called; if there is no such function, the
 * innermost guard is taken (see below).
 */
void *memory_get(size_t count, size_t size);
void *memory_resize(void *memory, size_t count, size_t size);
void *memory_aligned(size_t alignment, size_t size); /* not zeroed */
char *memory_copy(const char *text);
void *memory_checked(void *memory); /* checks the result of another allocating function */
/* Makes room for one more item; grows by half. */
void *memory_grow(void *items, size_t count, size_t *capacity, size_t size);

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
    struct memory *before;
};
#define memory_guarded(account, work)                                                              \
    __extension__({                                                                                \
        struct memory_guard guard_;                                                                \
        volatile bool done_ = false;                                                               \
        memory_guard_begin(&guard_, account);                                                      \
        if (!setjmp(guard_.at)) {                                                                  \
            work;                                                                                  \
            done_ = true;                                                                          \
        }                                                                                          \
        memory_guard_end(&guard_);                                                                 \
        done_;                                                                                     \
    })
void memory_guard_begin(struct memory_guard *guard, struct memory *account);
void memory_guard_end(const struct memory_guard *guard);
/* Used around a callback of the host, which has its own account. */
struct memory_pause {
    struct memory_guard *guard;
    struct memory *account;
};
struct memory_pause memory_pause(void);
void memory_resume(struct memory_pause pause);

#endif
