#include "export/remedies.h"

const char *remedy_words(enum spex_remedy remedy)
{
    static const char *const words[SPEX_REMEDY_COUNT] = {
        [SPEX_REMEDY_NONE] = "",
        [SPEX_REMEDY_COPY] = "; copy it from the machine that was profiled and give its root with "
                             "--symfs DIR",
        [SPEX_REMEDY_ARM] = "; copy the file from the machine that was profiled and give its root "
                            "with --symfs DIR",
        [SPEX_REMEDY_BUILD] = "; give the matching file with --symfs DIR",
        [SPEX_REMEDY_UNSTRIPPED] = "; an unstripped copy of it is read from below --symfs DIR",
        [SPEX_REMEDY_ACCESS] = "; let it be read, or give a copy with --symfs DIR",
        [SPEX_REMEDY_KERNEL] = "; give --vmlinux FILE, or --kallsyms FILE (a copy of "
                               "/proc/kallsyms of that machine, read as root)",
        [SPEX_REMEDY_MEMORY] = ": --max-memory SIZE allows more",
    };
    return words[remedy];
}
