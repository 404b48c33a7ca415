/* The host of a unit, made from the functions host_* in the file that includes this. */
#ifndef SCRIPT_HOST_H
#define SCRIPT_HOST_H

#include <spex/spu.h>

#define SCRIPT_HOST(object, random_or_null)                                                        \
    {                                                                                              \
        .size = sizeof(struct spex_spu_host), .user = (object), .write = host_write,               \
        .counter = host_counter, .pmu = host_pmu, .trigger = host_trigger, .serror = host_serror,  \
        .irq = host_irq, .exception = host_exception, .random = (random_or_null)                   \
    }

#endif
