/*
 * Guest registers through the plugin interface, API version 2 and later. They are read by name, for
 * the current thread's vCPU, in callbacks registered to read registers.
 */
#ifndef GUEST_QEMU_REGISTERS_H
#define GUEST_QEMU_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>

/* QEMU's handle, which may be NULL, and whether we have it. */
struct qemu_register {
    void *handle;
    bool known;
};

/* Calls found for each register; on a vCPU's thread. api: QEMU's version of the interface. */
void qemu_registers_find(unsigned api, void (*found)(const char *name, struct qemu_register where));
/* Copies at most size bytes; returns the register's size, 0 if it cannot be read. */
size_t qemu_register_read(struct qemu_register where, void *to, size_t size);

#endif
