/* libspex-qemu.so: its entry points for QEMU. The work is in user.c and system.c. */
#include "plugin.h"
#include "system.h"
#include "user.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

struct plugin plugin = {.user.lock = PTHREAD_MUTEX_INITIALIZER,
                        .order.lock = PTHREAD_MUTEX_INITIALIZER,
                        .sys.lock = PTHREAD_MUTEX_INITIALIZER,
                        .sys.turn = PTHREAD_MUTEX_INITIALIZER};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv);

/* Compares by hand: a sanitizer treats memory between a program's constants as out of bounds. */
__attribute__((no_sanitize("address"))) static bool has_text(const char *from, size_t size,
                                                             const char *text)
{
    for (const char *end = from + size; from < end; from++) {
        size_t n = 0;
        while (text[n] && from + n < end && from[n] == text[n])
            n++;
        if (!text[n])
            return true;
    }
    return false;
}

/* Searches for text in the memory that QEMU's program has mapped readable. */
static int find_text(struct dl_phdr_info *info, size_t size, void *text)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags == PF_R &&
            has_text((const char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, text))
            return 2;
    }
    return 1; /* the first is the program */
}

/*
 * QEMU compares the version before it calls us: name the version that QEMU's functions fit. Version
 * 4 fits 9.2 to 11.0; version 7 came in 11.1 without a new function.
 */
__attribute__((constructor)) static void choose_version(void)
{
    char old[] = " version 11.0.";
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_set_pc"))
        qemu_plugin_version = dl_iterate_phdr(find_text, old) == 2 ? 6 : 7;
    else if (dlsym(RTLD_DEFAULT, "qemu_plugin_read_memory_vaddr"))
        qemu_plugin_version = 4;
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
    return user_install(id, (unsigned)qemu_plugin_version, argc, argv);
}
