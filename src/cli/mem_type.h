/* spex mem --type: the members of a type by cache line, and which belong together. */
#ifndef CLI_MEM_TYPE_H
#define CLI_MEM_TYPE_H

#include "cli/profile.h"

/* Reads, prints and closes the profile; the exit status. */
int mem_by_type(struct profile *profile, const char *type);

#endif
