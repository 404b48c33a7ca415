/* What the files of report share. */
#ifndef REPORT_INTERNAL_H
#define REPORT_INTERNAL_H

#include "base/line_set.h"
#include "report/cube.h"
#include "report/report.h"

#include <spex/sinks.h>

enum feed { RUNNING, ACCESSES, FEEDS };
enum set { FUNCTIONS, CODE, SOURCES, THREADS, CPUS, DATA, LINES, PAGES, TARGETS, STACKS, SETS };

struct report {
    struct spex_analysis *analysis;
    struct report_options options;
    struct bins bins;
    uint64_t at_work[BINS_MOST]; /* ns of all CPUs in each interval */
    struct cube cubes[SETS];
    struct spex_group *feeds[FEEDS]; /* groups that the cubes are made from */
    struct spex_sharing *sharing;
    struct spex_hot_line *lines; /* lines that took the most cycles; the first are shown */
    size_t line_count;
    struct line_set hot; /* lines shown */
    struct spex_findings *findings;
    struct nodes *nodes; /* NULL if there is only one node */
    struct spex_disassembler *disassembler;
    enum spex_status status; /* could the report be made? */
    struct spex_error error; /* and if not, why */
    struct sources *sources;
};

/* Parts of the data that are cut down when the page would become too large. */
enum part { PART_FUNCTIONS, PART_CODE, PART_STACKS, PART_ROWS, PART_MAP, PART_SHARING, PARTS };

/* How many rows of each kind are written; the most for some kinds. */
enum { FUNCTIONS_MOST = 200, ROWS_MOST = 100 };
struct limits {
    size_t functions, code, instructions, rows, uses, map_rows, nodes;
};

/* Whose addresses those of a row by pages are: the process, UINT64_MAX for the kernel. */
static inline uint64_t report_space(const struct spex_group *pages, const struct spex_row *row)
{
    return (uint64_t)(int64_t)spex_row_pid(pages, row, 0);
}

/* Several threads call part for each number below parts, in any order. */
void report_share(struct report *report, size_t parts, void *context,
                  void (*part)(struct report *report, void *context, size_t number));
/* "code": instructions and source of the functions with most samples (code.c). */
void code_write(struct report *report, const struct limits *limits, struct json *json);
/* "stacks": call paths, if the profile has some (flame.c). */
void flame_write(struct report *report, const struct limits *limits, struct json *json);
/* "map": data addresses over time (map.c). */
void map_write(struct report *report, const struct limits *limits, struct json *json);
/* The NUMA node of each page (nodes.c); NULL if the file does not list several nodes. */
enum { NODES_MOST = 8 };
struct nodes *nodes_new(struct spex_analysis *analysis);
void nodes_free(struct nodes *nodes);
void nodes_sink(void *context, const struct spex_sample *samples, size_t count);
extern const struct spex_sink_shards nodes_shards;
/*
 * nodes_add adds the samples of a page to counts by node; nodes_write writes such counts as
 * "nodes".
 */
void nodes_add(const struct nodes *nodes, uint64_t page, uint64_t space,
               uint64_t counts[NODES_MOST]);
void nodes_write(const struct nodes *nodes, const uint64_t counts[NODES_MOST], struct json *json);
/* "marks": what was not recorded (marks.c). */
void marks_write(struct report *report, struct json *json);
/* "sharing": lines that threads contend for (lines.c). */
void sharing_write(struct report *report, const struct limits *limits, struct json *json);

#endif
