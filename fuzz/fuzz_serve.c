/*
 * Any bytes as what a host says to `spex spu serve` (docs/spu-protocol.md): requests, and its
 * answers to the unit's own. Whatever it says, the unit neither breaks nor says anything but
 * whole lines of text.
 */
#include "script/serve.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool what)
{
    if (!what)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spex_error error = {0};
    char piece[4096], last = '\n';
    int in = memfd_create("in", 0), out = memfd_create("out", 0);
    must(in >= 0 && out >= 0);
    must(write(in, data, size) == (ssize_t)size && !lseek(in, 0, SEEK_SET));
    enum spex_status status = script_serve(in, out, &error);
    must(!status == !error.text[0]);
    must(!lseek(out, 0, SEEK_SET));
    for (ssize_t n; (n = read(out, piece, sizeof piece)) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            must(piece[i] == '\n' ? last != '\n' : (unsigned char)piece[i] >= ' ');
            last = piece[i];
        }
    }
    must(last == '\n');
    close(in);
    close(out);
    return 0;
}
