#include "offer.h"

#include "base/error.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool offer_search(const char *name, char *path, size_t size)
{
    const char *list = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        return !access(path, X_OK);
    }
    for (list = list ? list : "/usr/bin:/bin"; *list;) {
        size_t n = strcspn(list, ":");
        snprintf(path, size, "%.*s%s%s", (int)n, list, n ? "/" : "./", name);
        struct stat st;
        if (!access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode))
            return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

static void read_offer(const char *path, struct offer *offer)
{
    const struct {
        const char *text;
        bool *found;
    } looks[] = {{"qemu_plugin_register_vcpu_tb_trans_cb", &offer->plugins},
                 {"qemu_plugin_scoreboard_new", &offer->boards},
                 {"qemu_plugin_read_memory_vaddr", &offer->memory},
                 {"neoverse-n2", &offer->n2}};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    *offer = (struct offer){0};
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        for (size_t i = 0; map != MAP_FAILED && i < sizeof looks / sizeof *looks; i++)
            *looks[i].found =
                memmem(map, (size_t)st.st_size, looks[i].text, strlen(looks[i].text) + 1) != NULL;
        if (map != MAP_FAILED)
            munmap(map, (size_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
}

enum spex_status offer_find(const char *qemu, const char *own_qemu, char *path, size_t size,
                            struct offer *offer, struct spex_error *error)
{
    const char *name = qemu ? qemu : "qemu-aarch64";
    bool found = offer_search(name, path, size);
    if (found)
        read_offer(path, offer);
    if (!qemu && !offer->plugins && own_qemu && !access(own_qemu, X_OK)) {
        snprintf(path, size, "%s", own_qemu);
        read_offer(path, offer);
        found = true;
    }
    if (!found)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "cannot find %s; install Debian 12's package qemu-user, or let 'spex "
                         "record --setup-qemu' build one",
                         name);
    if (!offer->plugins)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "%s has no plugin support (static builds have none); Debian 12's "
                         "qemu-user 7.2 does, and what 'spex record --setup-qemu' builds",
                         path);
    if (offer->boards && !offer->memory)
        return error_set(error, SPEX_UNSUPPORTED, 0,
                         "%s is QEMU 9.0 or 9.1, whose plugins cannot read memory; Debian 12's "
                         "qemu-user 7.2 will do, and 9.2 or later",
                         path);
    return SPEX_OK;
}

enum spex_status engine_qemu(const char *qemu, const char *own_qemu, char *path, size_t size,
                             struct spex_error *error)
{
    struct offer offer = {0};
    return offer_find(qemu, own_qemu, path, size, &offer, error);
}

/*
 * QEMU runs as the modelled core if it has that core, else as `max`, which has more features. Of
 * the cores here QEMU 7.2 has only the N1; the V1 of 11.1 lacks BF16.
 */
void offer_cpu(const struct offer *offer, const struct engine_options *o, char *cpu, size_t size)
{
    enum { N1 = 0x41d0c, N2 = 0x41d49, V2 = 0x41d4f, NONE = 0 };
    uint32_t midr = o->features.midr, core = midr >> 24 << 12 | (midr >> 4 & 0xfff);
    char sve[24] = "sve=off";
    if (o->vector_bits)
        snprintf(sve, sizeof sve, "sve%u=on", o->vector_bits);
    if (o->qemu_cpu)
        snprintf(cpu, size, "%s", o->qemu_cpu);
    else if (o->vector_bits == 128 && (core == N2 || core == V2) && offer->n2)
        snprintf(cpu, size, "neoverse-n2,pauth-impdef=on");
    else if (!o->vector_bits && (core == N1 || core == NONE))
        snprintf(cpu, size, "neoverse-n1");
    else
        snprintf(cpu, size, "max,%s,sme=%s,pauth-impdef=on", sve, o->features.SME ? "on" : "off");
}
