/*
 * The data of the HTML page: tables by function, instruction, source of data, thread, CPU,
 * variable, page and cache line, each also by interval of time, so that the page can answer for
 * any range of time. docs/html.md has the form.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/json.h"

#include <spex/analysis.h>

struct report_options {
    const struct source_places *sources; /* where source files may come from */
    size_t most;                         /* the most bytes that the data may take */
    unsigned threads;                    /* threads that sort and write the tables; 0 means 1 */
    bool filtered; /* the analysis has filters: samples may cover any part of the time */
};

struct report;
struct source_places; /* see report/sources.h */

/*
 * Makes one pass over all records, and a second one over the records of a few cache lines. The
 * analysis must want everything, and outlive the report.
 */
enum spex_status report_new(struct spex_analysis *analysis, const struct report_options *options,
                            struct report **report, struct spex_error *error);
void report_free(struct report *report);
/* Writes members of a JSON object, within the size that the options allow. */
void report_write(struct report *report, struct json *json);

/* The source files whose text was written, by number; NULL after the last. */
const char *report_source(const struct report *report, size_t index);

/* Writes a page around the data, which is JSON. title is any text. */
void report_page(struct out *out, const char *title, const char *data, size_t size);

#endif
