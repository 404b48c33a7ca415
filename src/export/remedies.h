/* Words for what helps where names or memory are missing: the options of the commands. */
#ifndef EXPORT_REMEDIES_H
#define EXPORT_REMEDIES_H

#include <spex/symbols.h>

/* What follows a problem's text: "; give ...". "" for none. */
const char *remedy_words(enum spex_remedy remedy);

#endif
