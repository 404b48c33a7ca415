#include "qemu_registers.h"

#include "qemu_plugin7.h"

#include <string.h>

static __thread struct qemu_plugin7_bytes *bytes;

void qemu_registers_find(unsigned api, void (*found)(const char *name, struct qemu_register where))
{
    /* Version 6 made the elements larger. */
    size_t size = api < 6 ? offsetof(struct qemu_plugin7_register, read_only)
                          : sizeof(struct qemu_plugin7_register);
    const struct qemu_plugin7_array *all = qemu_plugin_get_registers();
    for (unsigned i = 0; all && i < all->count; i++) {
        const struct qemu_plugin7_register *r =
            (const struct qemu_plugin7_register *)(const void *)(all->data + i * size);
        found(r->name, (struct qemu_register){r->handle, true});
    }
}

size_t qemu_register_read(struct qemu_register where, void *to, size_t size)
{
    if (!where.known)
        return 0;
    if (!bytes)
        bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    /* Up to version 5 the result is a number, which may be -1: only the bytes written count. */
    if (!qemu_plugin_read_register(where.handle, bytes))
        return 0;
    memcpy(to, bytes->data, bytes->size < size ? bytes->size : size);
    return bytes->size;
}
