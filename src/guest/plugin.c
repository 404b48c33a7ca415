/* libspex-qemu.so: where QEMU enters. The work is in user.c and system.c. */
#include "qemu_plugin.h"
#include "system.h"
#include "user.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv);

/* QEMU compares the version before it calls us: say the one that it has functions for. */
__attribute__((constructor)) static void choose_version(void)
{
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_set_pc"))
        qemu_plugin_version = 7;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    if (strcmp(info->target_name, "aarch64")) {
        fprintf(stderr, "spex: the guest is %s; only aarch64 has SPE\n", info->target_name);
        return 1;
    }
    if (info->system_emulation)
        return system_install(id, (unsigned)qemu_plugin_version, (unsigned)info->system.smp_vcpus,
                              argc, argv);
    if (qemu_plugin_version != QEMU_PLUGIN_API) {
        fprintf(stderr, "spex: programs need QEMU 6.2 to 8.2, as Debian 12's qemu-user 7.2\n");
        return 1;
    }
    return user_install(id, argc, argv);
}
