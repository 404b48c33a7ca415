/*
 * A profile as Arrow arrays, by the Arrow C stream interface
 * (https://arrow.apache.org/docs/format/CStreamInterface.html): pyarrow, Polars, DuckDB, R and
 * others take samples without a file between. The two functions that a consumer calls are in the
 * struct itself, so neither side needs a library of the other.
 *
 * Ownership: the stream is the caller's, who calls its release; arrays and schemas that it hands
 * out are too, and may outlive the stream, but the analysis must outlive the stream.
 *
 * Threads: one at a time may use a stream, and nothing else may use its analysis meanwhile, but for
 * spex_analysis_cancel. Arrays that were handed out may be released by any thread.
 *
 * Errors: those of a pass (memory, cancellation) come from the stream's get_next as numbers of
 * errno, and as text from its get_last_error.
 */
#ifndef SPEX_ARROW_H
#define SPEX_ARROW_H

#include <spex/analysis.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ArrowArrayStream; /* defined by the consumer's own header, per the interface */

/*
 * Columns have the names, units and meaning of docs/schema.md; what a record lacks is null. Of
 * samples: comm pid tid cpu time op pc symbol dso target va pa latency issue translation source
 * event_bits kind path address estimated_time. The others are about the samples of the last pass.
 */
enum spex_table {
    SPEX_TABLE_SAMPLES, /* one row each, in the order of spex_analysis_next: a pass of its own */
    SPEX_TABLE_FILES,   /* path dso samples problem */
    SPEX_TABLE_THREADS, /* comm pid tid samples */
    SPEX_TABLE_COUNT
};

/*
 * Fills in a stream, whatever it held. Since 1.4.
 *
 *     struct ArrowArrayStream stream;
 *     status = spex_arrow_stream(analysis, SPEX_TABLE_SAMPLES, &stream, &error);
 *     ...                       // hand it over, as address, to what takes such streams
 *     stream.release(&stream);  // unless that has moved it
 */
enum spex_status spex_arrow_stream(struct spex_analysis *analysis, enum spex_table table,
                                   struct ArrowArrayStream *stream, struct spex_error *error);

#ifdef __cplusplus
}
#endif
#endif
