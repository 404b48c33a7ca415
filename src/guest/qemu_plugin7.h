/*
 * QEMU's TCG plugin interface, API versions 3 to 7 (QEMU 9.1 to 11.1): the parts that spex uses and
 * that differ from version 1. Names that begin with qemu_plugin7_ have the form of version 7.
 * Memory can be read from version 4 on, registers from version 2; instructions are copied from
 * version 3 on. A function whose declaration changed has its own name here; new functions are weak,
 * so that an older QEMU can load the plugin.
 */
#ifndef GUEST_QEMU_PLUGIN7_H
#define GUEST_QEMU_PLUGIN7_H

#include "qemu_plugin.h"

/* changed */
typedef void (*qemu_plugin7_tb_trans_cb_t)(struct qemu_plugin_tb *tb, void *data);
void qemu_plugin7_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, qemu_plugin7_tb_trans_cb_t cb,
    void *data) __asm__("qemu_plugin_register_vcpu_tb_trans_cb");
size_t qemu_plugin7_insn_data(const struct qemu_plugin_insn *insn, void *data,
                              size_t size) __asm__("qemu_plugin_insn_data");
void qemu_plugin7_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t cb,
                                        void *data) __asm__("qemu_plugin_register_vcpu_init_cb");
void qemu_plugin7_register_vcpu_exit_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t cb,
                                        void *data) __asm__("qemu_plugin_register_vcpu_exit_cb");
typedef void (*qemu_plugin7_call_cb_t)(unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                                       uint64_t a7, uint64_t a8, void *data);
void qemu_plugin7_register_vcpu_syscall_cb(
    qemu_plugin_id_t id, qemu_plugin7_call_cb_t cb,
    void *data) __asm__("qemu_plugin_register_vcpu_syscall_cb");
typedef void (*qemu_plugin7_return_cb_t)(unsigned vcpu, int64_t number, int64_t result, void *data);
void qemu_plugin7_register_vcpu_syscall_ret_cb(
    qemu_plugin_id_t id, qemu_plugin7_return_cb_t cb,
    void *data) __asm__("qemu_plugin_register_vcpu_syscall_ret_cb");
typedef void (*qemu_plugin7_end_cb_t)(void *data);
void qemu_plugin7_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin7_end_cb_t cb,
                                     void *data) __asm__("qemu_plugin_register_atexit_cb");

/* exceptions */
enum qemu_plugin7_discon {
    QEMU_PLUGIN7_DISCON_INTERRUPT = 1,
    QEMU_PLUGIN7_DISCON_EXCEPTION = 2,
    QEMU_PLUGIN7_DISCON_HOSTCALL = 4,
};
typedef void (*qemu_plugin7_discon_cb_t)(unsigned vcpu, enum qemu_plugin7_discon type,
                                         uint64_t from, uint64_t to, void *data);
QEMU_PLUGIN_WEAK void qemu_plugin_register_vcpu_discon_cb(qemu_plugin_id_t id,
                                                          enum qemu_plugin7_discon types,
                                                          qemu_plugin7_discon_cb_t cb, void *data);

/* registers and memory of the current vCPU; GLib's arrays, whose layout is public */
struct qemu_plugin7_bytes { /* GByteArray */
    uint8_t *data;
    unsigned size;
};
struct qemu_plugin7_array { /* GArray */
    char *data;
    unsigned count;
};
struct qemu_plugin7_register { /* an element of what get_registers returns */
    void *handle;
    const char *name, *feature;
    bool read_only; /* since version 6 */
};
QEMU_PLUGIN_WEAK struct qemu_plugin7_array *qemu_plugin_get_registers(void);
QEMU_PLUGIN_WEAK bool qemu_plugin_read_register(void *handle, struct qemu_plugin7_bytes *bytes);
QEMU_PLUGIN_WEAK bool qemu_plugin_read_memory_vaddr(uint64_t va, struct qemu_plugin7_bytes *bytes,
                                                    size_t size);
QEMU_PLUGIN_WEAK bool qemu_plugin_write_register(void *handle, struct qemu_plugin7_bytes *bytes);
QEMU_PLUGIN_WEAK __attribute__((noreturn)) void qemu_plugin_set_pc(uint64_t pc);
QEMU_PLUGIN_WEAK int qemu_plugin_read_memory_hwaddr(uint64_t pa, struct qemu_plugin7_bytes *bytes,
                                                    size_t size); /* 0: done */
QEMU_PLUGIN_WEAK int qemu_plugin_write_memory_hwaddr(uint64_t pa, struct qemu_plugin7_bytes *bytes);
QEMU_PLUGIN_WEAK struct qemu_plugin7_bytes *g_byte_array_new(void);
QEMU_PLUGIN_WEAK struct qemu_plugin7_bytes *g_byte_array_set_size(struct qemu_plugin7_bytes *bytes,
                                                                  unsigned size);

#endif
