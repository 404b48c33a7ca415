/*
 * The script language (docs/spu-script.md): register accesses, operations, faults and their
 * expected effects, as text. It is used for our tests, logged driver runs and reduced failures. A
 * script makes its own unit and host.
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include <spex/spu.h>

enum script_report_kind {
    SCRIPT_TRACE,  /* something happened */
    SCRIPT_FAILED, /* an expectation did not hold */
    SCRIPT_PASSED, /* an expectation held */
    SCRIPT_SPEC,   /* text is a requirement id */
    SCRIPT_TEST,   /* text names the test that follows */
    SCRIPT_ERROR,  /* the script cannot be understood; it ends */
};

struct script_report {
    enum script_report_kind kind;
    unsigned line; /* counts from 1 */
    const char *text;
};

/*
 * For a unit of another implementation, behind a command that speaks the protocol of
 * docs/spu-protocol.md.
 */
struct script_options {
    const char *command; /* shell command; NULL: our own unit */
    unsigned timeout;    /* milliseconds for one request */
};

/*
 * Runs a script of size bytes; options NULL: on our own unit. SPEX_OK if every expectation held,
 * SPEX_INVALID if one did not or the script has an error; report (not NULL) receives everything.
 */
enum spex_status script_run(const char *script, size_t size, const struct script_options *options,
                            void (*report)(void *user, const struct script_report *report),
                            void *user);

#endif
