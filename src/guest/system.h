/*
 * The plugin in system mode: one SPU per vCPU of a whole guest, programmed by the
 * guest's own driver (docs/vm.md). Called from the plugin's installation.
 */
#ifndef GUEST_SYSTEM_H
#define GUEST_SYSTEM_H

#include <stdint.h>

/* id: the plugin's; vcpus: how many the machine starts with; arguments as NAME=VALUE. 0 if well. */
int system_install(uint64_t id, unsigned vcpus, int argc, char **argv);

#endif
