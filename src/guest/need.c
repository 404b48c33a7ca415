#include "need.h"

#include "flow.h"
#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

void *need(void *memory)
{
    if (!memory)
        need_end(ENOMEM, "QEMU's process has no memory left: give it more (ulimit -v, the control "
                         "group), or the program less to do");
    return memory;
}

void need_end(int error, const char *what)
{
    static bool ending;
    /* there are files of a run to mark; a machine has none */
    if (plugin.run)
        task_failed(error);
    if (plugin.user.full && !__atomic_exchange_n(&ending, true, __ATOMIC_RELAXED))
        flow_rescue();
    dprintf(STDERR_FILENO, "spex: %s; the process ends here\n", what);
    _exit(1);
}
