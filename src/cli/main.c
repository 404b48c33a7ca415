/* The entry point of spex: runs the command named by the first word. */
#include "cli.h"

#include "guest/trace.h"

#include <fcntl.h>
#include <unistd.h>

/*
 * A caller may have closed the standard descriptors: the next file opened would get such a number,
 * and messages would go into a profile. A descriptor that can be neither read nor written takes
 * their place.
 */
static void take_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            /* gets the lowest free number: fd */
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    int status;
    const char *message;
    if (trace_main(argc, argv, environ, &status, &message)) {
        if (message)
            cli_error("%s", message);
        return status;
    }
    take_standard();
    return cli_main(argc, argv);
}
