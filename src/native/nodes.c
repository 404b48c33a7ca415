#include "nodes.h"

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES "/sys/devices/system/node"

enum { PATH = 512, BLOCKS_MOST = 1 << 20 };

/* "Node 0 MemTotal:   4005484 kB" */
static uint64_t memory_of(const char *text, const char *name)
{
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Which blocks of memory are in the node: entries memoryN of its directory. */
static void read_blocks(const char *path, struct perf_writer_node *node)
{
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        unsigned long n;
        char rest;
        if (sscanf(e->d_name, "memory%lu%c", &n, &rest) != 1 || n >= BLOCKS_MOST)
            continue;
        size_t words = n / 64 + 1;
        if (words > node->word_count) {
            uint64_t *more = realloc(node->blocks, words * sizeof *more);
            if (!more)
                break;
            memset(more + node->word_count, 0, (words - node->word_count) * sizeof *more);
            node->blocks = more;
            node->word_count = words;
        }
        node->blocks[n / 64] |= UINT64_C(1) << n % 64;
    }
    if (dir)
        closedir(dir);
}

void native_nodes_read(const struct native_machine *m, struct native_nodes *nodes)
{
    char line[512], path[PATH], *text;
    struct native_cpus online; /* node numbers are a list of the same form */
    size_t size;
    *nodes = (struct native_nodes){.count = 0};
    if (native_line(m->root, "/sys/devices/system/memory/block_size_bytes", line, sizeof line))
        nodes->block = strtoull(line, NULL, 16);
    if (!native_line(m->root, NODES "/online", line, sizeof line) ||
        !native_cpus_parse(line, &online))
        return;
    for (unsigned i = 0; i < NATIVE_CPUS && nodes->count < NATIVE_NODES; i++) {
        struct perf_writer_node *node = &nodes->node[nodes->count];
        if (!native_cpus_has(&online, i))
            continue;
        snprintf(path, sizeof path, NODES "/node%u/cpulist", i);
        if (!native_line(m->root, path, nodes->cpus[nodes->count], sizeof nodes->cpus[0]))
            continue;
        *node = (struct perf_writer_node){.node = i, .cpus = nodes->cpus[nodes->count]};
        snprintf(path, sizeof path, "%s" NODES "/node%u/meminfo", m->root, i);
        text = file_read_all(open(path, O_RDONLY | O_CLOEXEC), 1 << 20, &size);
        node->total_kb = memory_of(text, "MemTotal:");
        node->free_kb = memory_of(text, "MemFree:");
        free(text);
        snprintf(path, sizeof path, "%s" NODES "/node%u", m->root, i);
        read_blocks(path, node);
        nodes->count++;
    }
}

void native_nodes_free(struct native_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        free(nodes->node[i].blocks);
    nodes->count = 0;
}
