/* libspex-qemu.so: where QEMU enters. The work is in user.c and system.c. */
#include "qemu_plugin.h"
#include "system.h"
#include "user.h"

#include <stdio.h>
#include <string.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv);

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    if (strcmp(info->target_name, "aarch64")) {
        fprintf(stderr, "spex: the guest is %s; only aarch64 has SPE\n", info->target_name);
        return 1;
    }
    if (info->system_emulation)
        return system_install(id, (unsigned)info->system.smp_vcpus, argc, argv);
    return user_install(id, argc, argv);
}
