/* spex mem --type: the members of a type by cache line, and which should be together. */
#ifndef CLI_MEM_TYPE_H
#define CLI_MEM_TYPE_H

#include "cli/profile.h"

/* Reads the profile, prints the table and closes the profile; returns the exit status. */
int mem_by_type(struct profile *profile, const char *type);

#endif
