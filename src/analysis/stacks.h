/* The call stacks of a file's samples (<spex/stacks.h>): reading them, and their table. */
#ifndef ANALYSIS_STACKS_H
#define ANALYSIS_STACKS_H

#include <spex/analysis.h>
#include <spex/stacks.h>

struct stacks;
struct stacks_table;

/* How far the stacks of a queue have been read. */
struct stacks_cursor {
    size_t run, end;
    uint32_t done; /* how much of that run has been read */
    uint64_t offset;
    bool ahead; /* a sample was read and has not been used yet: */
    uint64_t time, ip;
    uint32_t stack;
};

/*
 * NULL if the file has no stacks. *table is shared by all files of the profile; it is created if it
 * is NULL.
 */
struct stacks *stacks_new(struct spex_analysis *analysis, struct spex_perfdata *file,
                          struct stacks_table **table);
/* The same for allocations; the numbers are those of blocks (allocs.h). */
struct allocs_table;
struct stacks *stacks_new_allocs(struct spex_analysis *analysis, struct spex_perfdata *file,
                                 struct stacks_table **table, struct allocs_table **blocks);
void stacks_free(struct stacks *stacks);
void stacks_table_free(struct stacks_table *table);
/* Reads what is needed, before the first pass that asks for stacks. */
void stacks_read(struct stacks *stacks);
enum spex_stacks stacks_kind(const struct stacks *stacks);
const char *stacks_event(const struct stacks *stacks);
const struct spex_call *stacks_call(const struct stacks_table *table, uint32_t n);
size_t stacks_count(const struct stacks_table *table);
/* With a companion event: one of the stacks that the sample's function was seen with. */
uint32_t stacks_guess(const struct stacks *stacks, const struct spex_sample *sample);
/* Call it before a pass, for each queue. */
void stacks_start(struct stacks *stacks, struct stacks_cursor *cursor, int32_t cpu);
/* The stacks of the next records of the queue, whose times are in ns. */
void stacks_join(struct stacks *stacks, struct stacks_cursor *cursor,
                 const struct spex_record *records, const uint64_t *times, size_t count,
                 uint32_t *out);

#endif
