/* Where spex begins: the command of the first word. */
#include "cli.h"

#include "guest/trace.h"

#include <fcntl.h>
#include <unistd.h>

/*
 * A caller may have closed the standard descriptors: the next file that is opened would get such a
 * number, and a message would go into a profile. A descriptor that can be neither read nor written
 * takes their place.
 */
static void take_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest free: fd */
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
