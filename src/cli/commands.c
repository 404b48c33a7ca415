/* Every command of spex, in the order of help. One line and one file per command. */
#include "cli.h"

#define COMMANDS                                                                                   \
    COMMAND(report)                                                                                \
    COMMAND(annotate)                                                                              \
    COMMAND(mem)                                                                                   \
    COMMAND(c2c)                                                                                   \
    COMMAND(branch)                                                                                \
    COMMAND(diff)                                                                                  \
    COMMAND(html)                                                                                  \
    COMMAND(truth)                                                                                 \
    COMMAND(script)                                                                                \
    COMMAND(export)                                                                                \
    COMMAND(query)                                                                                 \
    COMMAND(ship)                                                                                  \
    COMMAND(archive)                                                                               \
    COMMAND(dump)                                                                                  \
    COMMAND(verify)                                                                                \
    COMMAND(generate)                                                                              \
    COMMAND(spu)                                                                                   \
    COMMAND(record)                                                                                \
    COMMAND(top)                                                                                   \
    COMMAND(recover)                                                                               \
    COMMAND(stat)                                                                                  \
    COMMAND(whatif)                                                                                \
    COMMAND(vm)                                                                                    \
    COMMAND(help)

#define COMMAND(name) extern const struct cli_command cli_##name;
COMMANDS
#undef COMMAND

const struct cli_command *const cli_commands[] = {
#define COMMAND(name) &cli_##name,
    COMMANDS
#undef COMMAND
        NULL,
};
