/* Parses the terms of an event string by a table: ours, or what a kernel's driver offers. */
#ifndef PERFDATA_TERMS_H
#define PERFDATA_TERMS_H

#include <spex/perfdata.h>

struct perf_term {
    char name[32];
    uint8_t word, high, low; /* bits of config, config1, ... */
};

/* As spex_perf_terms_parse(). */
enum spex_status perf_terms_parse(const char *text, const struct perf_term *table, size_t count,
                                  struct spex_perf_terms *terms, struct spex_error *error);

#endif
