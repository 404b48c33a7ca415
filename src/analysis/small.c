/* .gnu_debugdata: the symbols that stripping took, as an ELF file in xz format inside the file. */
#include "module.h"

#include "base/memory.h"

#include <lzma.h>
#include <stdlib.h>

enum { FIRST_ROOM = 1 << 20 };
#define MOST (UINT64_C(256) << 20) /* most bytes of output, and of the decoder's memory */

/* Decompresses the stream; NULL if it is damaged or larger than memory allows. */
static uint8_t *inflate(const uint8_t *data, size_t size, size_t *out_size)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    uint8_t *out = NULL;
    size_t room = 0;
    lzma_ret result = lzma_stream_decoder(&stream, MOST, 0);
    stream.next_in = data;
    stream.avail_in = size;
    while (result == LZMA_OK) {
        if (!stream.avail_out) {
            size_t more = room ? 2 * room : FIRST_ROOM;
            uint8_t *grown =
                more <= MOST && memory_allows(more - room) ? memory_again(out, more) : NULL;
            if (!grown)
                break;
            out = grown;
            stream.next_out = out + room;
            stream.avail_out = more - room;
            room = more;
        }
        result = lzma_code(&stream, LZMA_FINISH);
    }
    *out_size = room - stream.avail_out;
    lzma_end(&stream);
    if (result == LZMA_STREAM_END)
        return out;
    memory_free(out);
    return NULL;
}

bool module_open_small(struct spex_module *module)
{
    Elf_Scn *scn = elf_section(module->image.elf, ".gnu_debugdata", NULL);
    Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
    size_t size;
    GElf_Ehdr header;
    if (!data || !data->d_buf || !(module->small_bytes = inflate(data->d_buf, data->d_size, &size)))
        return false;
    module->small.elf = elf_memory((char *)module->small_bytes, size);
    return module->small.elf && gelf_getehdr(module->small.elf, &header) &&
           header.e_machine == EM_AARCH64;
}
