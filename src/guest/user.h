/*
 * The plugin in user mode: one SPU per guest thread, served as Linux would do it
 * (docs/record-internals.md). Called when the plugin is installed.
 */
#ifndef GUEST_USER_H
#define GUEST_USER_H

#include <stddef.h>
#include <stdint.h>

struct qemu_plugin_tb;

/*
 * id: the plugin's; the only argument is dir=DIRECTORY, a run of `spex record`. Returns 0 on
 * success.
 */
int user_install(uint64_t id, unsigned api, int argc, char **argv);
/* A block of these instructions is translated. */
void user_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count);

#endif
