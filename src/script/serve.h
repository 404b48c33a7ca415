/* Our unit behind the protocol of docs/spu-protocol.md: the reference for other implementations. */
#ifndef SCRIPT_SERVE_H
#define SCRIPT_SERVE_H

#include <spex/base.h>

/* Answers requests from `in` on `out` until `in` ends. */
enum spex_status script_serve(int in, int out, struct spex_error *error);

#endif
