/* spex archive: puts a profile and the files that its names come from into one tar file. */
#include "output.h"
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct archive_options {
    struct profile_options profile;
    const char *output, *mode;
};

enum { BLOCK = 512, NAME = 100, PREFIX = 155 };

struct tar {
    struct profile *profile;
    struct output output;
    struct out out;
    struct out read_with; /* options for the command that reads the archive on another machine */
    unsigned files;
    bool failed; /* a message was printed: there will be no archive */
};

/*
 * Splits the name over the two ustar fields; false if it is too long, or would lead out of the
 * directory when it is unpacked: profiles can contain any file name.
 */
static bool put_name(char header[BLOCK], const char *name)
{
    size_t n = strlen(name);
    if (strstr(name, "/../"))
        return false;
    if (n <= NAME) {
        memcpy(header, name, n);
        return true;
    }
    for (const char *slash = name + (n - NAME - 1); *slash; slash++)
        if (*slash == '/' && slash > name && slash - name <= PREFIX && slash[1]) {
            memcpy(header, slash + 1, n - (size_t)(slash + 1 - name));
            memcpy(header + 345, name, (size_t)(slash - name));
            return true;
        }
    return false;
}

/* A header of POSIX.1-1988, without owner and time, so that the same files give the same bytes. */
static bool put_header(struct tar *tar, const char *name, uint64_t size)
{
    char header[BLOCK] = "";
    if (!put_name(header, name) || size >> 33)
        return false;
    memcpy(header + 100, "0000644", 8);
    memcpy(header + 108, "0000000", 8);
    memcpy(header + 116, "0000000", 8);
    snprintf(header + 124, 12, "%011llo", (unsigned long long)size);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += (uint8_t)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    header[155] = ' ';
    out_bytes(&tar->out, header, BLOCK);
    return true;
}

static void put_contents(struct tar *tar, const char *path, int fd, uint64_t size)
{
    char block[64 << 10];
    for (uint64_t left = size; left && !tar->failed && !tar->out.error;) {
        ssize_t n = read(fd, block, left < sizeof block ? (size_t)left : sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            cli_error("%s: %s; nothing is packed", path,
                      n ? strerror(errno) : "it became shorter while it was read");
            tar->failed = true;
            return;
        }
        out_bytes(&tar->out, block, (size_t)n);
        left -= (uint64_t)n;
    }
    memset(block, 0, BLOCK);
    out_bytes(&tar->out, block, (size_t)(-size % BLOCK));
}

static void put_file(struct tar *tar, const char *path, const char *name)
{
    struct stat st;
    if (tar->failed)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        cli_note("%s is left out: %s", path, fd < 0 ? strerror(errno) : "not a regular file");
        if (fd >= 0)
            close(fd);
        return;
    }
    uint64_t left = (uint64_t)st.st_size;
    if (output_from_open(&tar->output, path, &st)) {
        tar->failed = true;
    } else if (!put_header(tar, name, left)) {
        cli_note("%s is left out: its name or size does not fit into a tar file", path);
    } else {
        put_contents(tar, path, fd, left);
        tar->files++;
    }
    close(fd);
}

/* The files that data addresses belong to are needed, too. */
static void look_up(void *context, const struct spex_sample *samples, size_t count)
{
    struct profile *p = context;
    struct spex_place place;
    for (size_t i = 0; i < count; i++)
        if (samples[i].record->present & SPEX_HAS_VA)
            spex_sample_locate(p->analysis, &samples[i], samples[i].va, &place);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A single profile becomes perf.data; several keep their names. */
static void put_profile(struct tar *tar, const struct profile *p, struct out *read_with)
{
    for (size_t i = 0; p->paths[i]; i++) {
        const char *name = p->paths[1] ? base_name(p->paths[i]) : "perf.data";
        char inside[PATH_MAX];
        struct stat st;
        /* perf record --kcore: a directory with the file inside */
        bool within = !stat(p->paths[i], &st) && S_ISDIR(st.st_mode) &&
                      snprintf(inside, sizeof inside, "%s/data", p->paths[i]) < PATH_MAX;
        put_file(tar, within ? inside : p->paths[i], name);
        out_printf(read_with, " -i D/%s", name);
    }
    out_char(read_with, 0);
}

static enum spex_status put_one(void *context, const char *path, const char *name)
{
    struct tar *tar = context;
    put_file(tar, path, name);
    return tar->failed ? SPEX_END : SPEX_OK;
}

static bool put_all(void *context, int fd)
{
    struct tar *tar = context;
    struct profile *p = tar->profile;
    char zeros[2 * BLOCK] = "";
    out_init(&tar->out, fd);
    put_profile(tar, p, &tar->read_with);
    spex_analysis_beside(p->analysis, put_one, tar);
    out_bytes(&tar->out, zeros, sizeof zeros);
    int problem = out_fini(&tar->out);
    if (problem && !tar->failed)
        cli_error("%s: %s", tar->output.name, strerror(problem));
    return !problem && !tar->failed;
}

static int write_archive(struct profile *p, const char *name, const char *mode)
{
    struct tar tar = {.profile = p};
    int status = output_open(&tar.output, name, 0);
    if (status)
        return status;
    out_init(&tar.read_with, -1);
    if (!(status = profile_output(p, &tar.output, mode)) &&
        !(status = output_make(&tar.output, put_all, &tar)))
        cli_note("%u file%s in %s; elsewhere: mkdir D; tar xf %s -C D; spex report%s", tar.files,
                 tar.files == 1 ? "" : "s", name, name, tar.read_with.data);
    out_fini(&tar.read_with);
    output_close(&tar.output);
    return status;
}

static int run_archive(void *options, int argc, char **argv)
{
    struct archive_options *o = options;
    struct profile p;
    char name[PATH_MAX];
    for (size_t i = 0; i < o->profile.inputs.count + (size_t)argc; i++) {
        const char *input = i < o->profile.inputs.count ? o->profile.inputs.items[i]
                                                        : argv[i - o->profile.inputs.count];
        if (!strcmp(input, "-"))
            return cli_usage("a profile from standard input cannot be packed");
    }
    struct spex_analysis_options more = {
        .size = sizeof more, .want = SPEX_WANT_SYMBOL | SPEX_WANT_DATA | SPEX_WANT_BRANCH};
    int status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    snprintf(name, sizeof name, "%s.tar", p.paths[0]);
    for (size_t i = 0; p.paths[i] && !p.status; i++) {
        for (size_t j = 0; j < i && !p.status; j++)
            if (!strcmp(base_name(p.paths[i]), base_name(p.paths[j])))
                p.status = cli_usage("two files are called %s: they cannot lie side by side",
                                     base_name(p.paths[i]));
    }
    if (!p.status)
        p.status = profile_run(&p, (struct spex_sink){look_up, &p});
    if (!p.status)
        p.status = write_archive(&p, o->output ? o->output : name, o->mode);
    return profile_close(&p);
}

#define AT(field) offsetof(struct archive_options, field)
static const struct cli_option archive_options[] = {
    PROFILE_SOURCE_OPTIONS(struct archive_options),
    PROFILE_SYMBOL_OPTIONS(struct archive_options),
    {"output", 'o', CLI_STRING, AT(output), "FILE", "tar file to write (default INPUT.tar)", NULL,
     NULL},
    OUTPUT_MODE(AT(mode)),
    {0},
};

const struct cli_command cli_archive = {
    .name = "archive",
    .group = CLI_OTHERS,
    .pages = true,
    .synopsis = "[FILE...]",
    .summary = "pack a profile with the files that its names come from",
    .details = "Writes a tar file with the profile, the programs and libraries that it has samples "
               "of, their debug files, files of just-in-time compilers (perf-PID.map, jitdump), "
               "and kallsyms or vmlinux, in the layout of perf's cache. "
               "Unpacked on another machine, the profile has all its names: .debug beside it is "
               "searched first.",
    .options = archive_options,
    .size = sizeof(struct archive_options),
    .run = run_archive,
};
