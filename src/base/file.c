#include "file.h"

#include "vec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int file_open_named(const char *path, uint64_t most, int owner)
{
    struct stat st;
    /*
     * Checked before opening, since merely opening may rewind a tape or start a watchdog. The name
     * may refer to another file by the time it is opened, so the check of the open file is the one
     * that counts.
     */
    if (stat(path, &st))
        return -1;
    int why = S_ISREG(st.st_mode) ? 0 : EINVAL;
    int fd = why ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (!why && (fd < 0 || fstat(fd, &st)))
        why = errno;
    else if (!why && !S_ISREG(st.st_mode))
        why = EINVAL;
    else if (!why && (uint64_t)st.st_size > most)
        why = EFBIG;
    else if (!why && owner == FILE_OWN_OR_ROOT && st.st_uid && st.st_uid != geteuid())
        why = EPERM;
    if (why && fd >= 0)
        close(fd);
    errno = why;
    return why ? -1 : fd;
}

char *file_read_all(int fd, uint64_t most, size_t *size)
{
    char *text = NULL;
    size_t capacity = 0;
    int why = 0;
    *size = 0;
    if (fd < 0)
        return NULL;
    for (;;) {
        if (capacity - *size < 2 && !vec_grow(&text, &capacity, *size + (1 << 16), 1)) {
            why = ENOMEM;
            break;
        }
        ssize_t n = read(fd, text + *size, capacity - *size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            why = errno;
        if (n <= 0)
            break;
        *size += (size_t)n;
        if (*size > most) {
            why = EFBIG;
            break;
        }
    }
    close(fd);
    if (why) {
        memory_free(text);
        errno = why;
        return NULL;
    }
    text[*size] = 0;
    return text;
}

char *file_read_named(const char *path, uint64_t most, int owner, size_t *size)
{
    return file_read_all(file_open_named(path, most, owner), most, size);
}

int file_temporary(void)
{
    const char *directory = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/spex-XXXXXX", directory && *directory ? directory : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int file_spool(int fd, void (*progress)(void *context, uint64_t done, uint64_t size), void *context)
{
    enum { PIECE = 1 << 20 };
    char *buffer = memory_new(PIECE);
    uint64_t copied = 0;
    int out, error = 0;

    out = buffer ? file_temporary() : -1;
    while (out >= 0 && !error) {
        ssize_t n = read(fd, buffer, PIECE), done = 0;
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            error = errno;
        while (done < n && !error) {
            ssize_t m = write(out, buffer + done, (size_t)(n - done));
            if (m >= 0)
                done += m;
            else if (errno != EINTR)
                error = errno;
        }
        copied += (uint64_t)done;
        if (progress)
            progress(context, copied, 0);
    }
    if (error) {
        close(out);
        out = -1;
        errno = error;
    }
    memory_free(buffer);
    return out;
}
