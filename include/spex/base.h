/*
 * Version, status codes and error reports, shared by every module of spex.
 *
 * Bad data is a status; a broken contract is an assert. Results come back
 * through out-parameters, which are untouched unless the status is SPEX_OK.
 * Nothing here allocates; everything is safe to use from any thread.
 */
#ifndef SPEX_BASE_H
#define SPEX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers; the build takes it from here. */
#define SPEX_VERSION_MAJOR 1
#define SPEX_VERSION_MINOR 3
#define SPEX_VERSION_PATCH 0
#define SPEX_VERSION_TEXT_(a, b, c) #a "." #b "." #c
#define SPEX_VERSION_TEXT(a, b, c) SPEX_VERSION_TEXT_(a, b, c)
#define SPEX_VERSION SPEX_VERSION_TEXT(SPEX_VERSION_MAJOR, SPEX_VERSION_MINOR, SPEX_VERSION_PATCH)

/* Version of the library in use at run time: that of the headers, or a newer one. */
const char *spex_version(void); /* since 1.0 */

enum spex_status {
    SPEX_OK = 0,
    SPEX_END,         /* nothing more to read; not an error */
    SPEX_TRUNCATED,   /* the data ends inside an item */
    SPEX_RESERVED,    /* well formed, but uses an encoding the format reserves */
    SPEX_INVALID,     /* the data contradicts its format */
    SPEX_UNSUPPORTED, /* valid, but not in the chosen feature set or this build */
    SPEX_RANGE,       /* a value that the format or a buffer cannot hold */
    SPEX_NO_MEMORY,
    SPEX_IO,        /* the operating system refused; see errno or the error text */
    SPEX_CANCELLED, /* the host asked for an end (since 1.4) */
    SPEX_STATUS_COUNT
};

/* A short name for messages and JSON, for example "truncated". */
const char *spex_status_name(enum spex_status status); /* since 1.0 */

/* Why something failed, for people. Always terminated; empty means no error. */
struct spex_error {
    enum spex_status status;
    uint64_t offset; /* byte offset in the input where it makes sense */
    char text[240];
};

/*
 * Where a handle gets its memory from, and gives it back to (since 1.4). Blocks are aligned as
 * malloc's are. If the handle is used by several threads, both functions are called by several.
 * What other libraries allocate (libdw, liblzma, libzstd, the C library's own files) does not come
 * from here. The functions and the context must outlive the handle; the struct itself is copied.
 */
struct spex_allocator {
    void *(*allocate)(void *context, size_t size); /* NULL: there is none */
    void (*release)(void *context, void *memory);  /* never NULL */
    void *context;
};

/* What a handle reads (since 1.4). */
enum spex_input {
    SPEX_INPUT_PATH,       /* path; NULL or "-": standard input */
    SPEX_INPUT_DESCRIPTOR, /* an open file or a pipe, which stays open */
    SPEX_INPUT_MEMORY      /* data, which must outlive the handle */
};

#ifdef __cplusplus
}
#endif
#endif
