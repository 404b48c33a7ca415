/*
 * The plugin in user mode: one SPU per guest thread, served as Linux would
 * (docs/record-internals.md). Called from the plugin's installation.
 */
#ifndef GUEST_USER_H
#define GUEST_USER_H

#include <stddef.h>
#include <stdint.h>

struct qemu_plugin_tb;

/* id: the plugin's; the only argument is dir=DIRECTORY, a run of `spex record`. 0 if well. */
int user_install(uint64_t id, unsigned api, int argc, char **argv);
/* A block of these instructions is translated. */
void user_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count);

#endif
