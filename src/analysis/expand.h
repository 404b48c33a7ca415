/* How long a mangled C++ name may become. */
#ifndef ANALYSIS_EXPAND_H
#define ANALYSIS_EXPAND_H

#include <stddef.h>

/* An upper bound on the length of a demangled C++ name, which begins with _Z. */
size_t expand_cxx(const char *mangled);

#endif
