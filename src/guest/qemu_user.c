/*
 * The plugin in user mode on each version of QEMU's interface: receives QEMU's calls in that
 * version's form and passes them on (life.c, user.c).
 */
#include "qemu_plugin7.h"
#include "user.h"
#include "vcpu.h"

#include <string.h>

enum { MAX = 4096 }; /* most instructions in a block */

static bool copied; /* since version 3 of the interface, QEMU copies instructions */

static void translate(struct qemu_plugin_tb *tb)
{
    uint32_t words[MAX];
    size_t count = qemu_plugin_tb_n_insns(tb);
    if (!count || count > MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        words[i] = 0;
        if (copied)
            qemu_plugin7_insn_data(insn, &words[i], sizeof words[i]);
        else
            memcpy(&words[i], qemu_plugin_insn_data(insn), sizeof words[i]);
    }
    user_translate(tb, words, count);
}

/* ---- versions 1 to 6 ---- */

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    translate(tb);
}

static void on_vcpu(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    life_vcpu(vcpu);
}

static void on_vcpu_exit(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    life_vcpu_exit(vcpu);
}

static void on_call(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                    uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id;
    (void)a7;
    (void)a8;
    life_call(vcpu, number, (uint64_t[]){a1, a2, a3, a4, a5, a6});
}

static void on_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    (void)id;
    life_return(vcpu, number, result);
}

static void on_end(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    life_end();
}

static void install(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_exit_cb(id, on_vcpu_exit);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
}

/* ---- version 7 ---- */

static void on_translate7(struct qemu_plugin_tb *tb, void *data)
{
    (void)data;
    translate(tb);
}

static void on_vcpu7(unsigned vcpu, void *data)
{
    (void)data;
    life_vcpu(vcpu);
}

static void on_vcpu_exit7(unsigned vcpu, void *data)
{
    (void)data;
    life_vcpu_exit(vcpu);
}

static void on_call7(unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                     uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8, void *data)
{
    (void)a7;
    (void)a8;
    (void)data;
    life_call(vcpu, number, (uint64_t[]){a1, a2, a3, a4, a5, a6});
}

static void on_return7(unsigned vcpu, int64_t number, int64_t result, void *data)
{
    (void)data;
    life_return(vcpu, number, result);
}

static void on_end7(void *data)
{
    (void)data;
    life_end();
}

static void install7(qemu_plugin_id_t id)
{
    qemu_plugin7_register_vcpu_init_cb(id, on_vcpu7, NULL);
    qemu_plugin7_register_vcpu_exit_cb(id, on_vcpu_exit7, NULL);
    qemu_plugin7_register_vcpu_syscall_cb(id, on_call7, NULL);
    qemu_plugin7_register_vcpu_syscall_ret_cb(id, on_return7, NULL);
    qemu_plugin7_register_atexit_cb(id, on_end7, NULL);
    qemu_plugin7_register_vcpu_tb_trans_cb(id, on_translate7, NULL);
}

void qemu_user_install(qemu_plugin_id_t id, unsigned api)
{
    copied = api >= 3;
    if (api >= 7)
        install7(id);
    else
        install(id);
}
