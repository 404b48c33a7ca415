/* How long a mangled C++ name may become. */
#ifndef ANALYSIS_EXPAND_H
#define ANALYSIS_EXPAND_H

#include <stddef.h>

/* At least the length of the demangled form of a C++ name that begins with _Z, up to a bound. */
size_t expand_cxx(const char *mangled);

#endif
