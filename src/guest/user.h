/*
 * The plugin in user mode: one SPU per guest thread, served as Linux would
 * (docs/record.md). Called from the plugin's installation.
 */
#ifndef GUEST_USER_H
#define GUEST_USER_H

#include <stdint.h>

/* id: the plugin's; the only argument is dir=DIRECTORY, a run of `spex record`. 0 if well. */
int user_install(uint64_t id, int argc, char **argv);

#endif
