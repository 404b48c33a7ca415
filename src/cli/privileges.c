/*
 * A spex binary with capabilities (docs/native.md) keeps them in commands that record, but not in
 * those that read: they may load a library or start a pager that the user names.
 */
#include "cli.h"

#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

void cli_give_up_privileges(void)
{
    if (!getauxval(AT_SECURE))
        return;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()) ||
        syscall(SYS_capset, &head, none))
        _exit(CLI_USAGE);
}
