/* BPF programs that were loaded before a recording began, as the records that the kernel writes
 * later. */
#ifndef NATIVE_BPF_H
#define NATIVE_BPF_H

#include "proc.h"

/*
 * A KSYMBOL record for each function and a BPF_EVENT record for each program; for trampolines and
 * dispatchers from `kallsyms`, which is a newline and then lines of /proc/kallsyms, or NULL.
 * Writes nothing without CAP_SYS_ADMIN: Linux lists programs for nobody else.
 */
void native_bpf_programs(const char *kallsyms, const struct native_trailer *trailer,
                         struct spex_perf_writer *writer);

#endif
