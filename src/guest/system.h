/*
 * The plugin in system mode: one SPU per vCPU of a whole guest, programmed by the
 * guest's own driver (docs/vm.md).
 */
#ifndef GUEST_SYSTEM_H
#define GUEST_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qemu_plugin_tb;

/*
 * Called when the plugin is installed. id: the plugin's; api: version of QEMU's plugin API; vcpus:
 * how many the machine starts with; arguments are NAME=VALUE. Returns 0 on success.
 */
int system_install(uint64_t id, unsigned api, unsigned vcpus, int argc, char **argv);

/* A block of count instructions is being translated on the current vCPU. */
void system_translate(struct qemu_plugin_tb *tb, const uint32_t *words, size_t count);

/*
 * The vCPU took an exception: a synchronous one of the instruction at from; otherwise from is where
 * it will continue. For machines that report exceptions.
 */
void system_exception(unsigned vcpu, bool synchronous, uint64_t from);

#endif
