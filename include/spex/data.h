/*
 * What the data of samples is: the type and member that an instruction accesses, from debug
 * information; and the block that the data lies in, in profiles of `spex record --allocs`.
 *
 * Open the analysis with SPEX_WANT_SYMBOL and _DATA for members, with SPEX_WANT_DATA and _ALLOC for
 * blocks, and ask while the sample is at hand: in the sink that was given it, or until the next
 * spex_analysis_next. Rows of groups by SPEX_KEY_MEMBER and SPEX_KEY_ALLOC can be asked later.
 *
 *     const struct spex_member *m = spex_sample_member(analysis, sample);
 *     if (m->known)
 *         printf("%s.%s at %llu\n", m->type, m->member, (unsigned long long)m->offset);
 *
 * Ownership: what is returned belongs to the analysis and lives as long, but what
 * spex_analysis_block and _site return only until more samples are read. Threads: as the analysis,
 * which belongs to one; a sink may ask whichever thread calls it. Nothing here fails: what is not
 * known is said so.
 */
#ifndef SPEX_DATA_H
#define SPEX_DATA_H

#include <spex/analysis.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types ---- */

struct spex_member {
    const char *type;   /* its name; or in brackets why it is not known, as "[no such member]" */
    const char *member; /* path in the type: "next", "a.b[].c"; a scalar variable's name; or "" */
    uint64_t offset, size; /* of the member in the type */
    uint64_t type_size;
    bool known;
    bool scalar; /* member is the name of a variable */
};

/* The same type and member are the same pointer, and so is the same name of a type (since 1.4). */
const struct spex_member *spex_sample_member(struct spex_analysis *analysis,
                                             const struct spex_sample *sample);
/* Of SPEX_KEY_MEMBER; NULL: of another key (since 1.4). */
const struct spex_member *spex_row_member(const struct spex_group *group,
                                          const struct spex_row *row, size_t n);

/* ---- blocks that were allocated ---- */

/* The call that allocates: the innermost that is recorded and not in a wrapper of an allocator. */
struct spex_site {
    struct spex_module *module; /* module of the calling instruction; NULL: no mapping */
    const struct spex_symbol *symbol;
    uint64_t address; /* its address in the module; without a module, its run-time address */
    uint64_t blocks, least, most; /* blocks that samples were in; their sizes in bytes */
};

struct spex_block {
    uint64_t start, size;
    uint64_t number; /* counts the allocations of its process */
    int32_t pid;
    uint32_t site;  /* spex_analysis_site */
    uint32_t stack; /* the innermost call (<spex/stacks.h>) */
};

/* The number of the block of a sample; 0: none that was recorded (since 1.4). */
uint32_t spex_sample_block(struct spex_analysis *analysis, const struct spex_sample *sample);
/* A block or a site by its number; all zero if there is none. Never NULL (since 1.4). */
const struct spex_block *spex_analysis_block(const struct spex_analysis *analysis, uint32_t n);
const struct spex_site *spex_analysis_site(const struct spex_analysis *analysis,
                                           uint32_t n); /* since 1.4 */
/*
 * "tree.c:88 parse", cut at capacity and terminated. Returns the length of the whole text (since
 * 1.4).
 */
size_t spex_analysis_site_text(struct spex_analysis *analysis, uint32_t n, char *text,
                               size_t capacity);
/* Of SPEX_KEY_ALLOC; NULL: of another key, or it was not allocated (since 1.4). */
const struct spex_site *spex_row_site(const struct spex_group *group, const struct spex_row *row,
                                      size_t n);
/* The block at an offset of a line that threads share; 0: none (since 1.4). */
uint32_t spex_sharing_block(const struct spex_sharing *sharing, const struct spex_shared_line *line,
                            unsigned offset);

#ifdef __cplusplus
}
#endif
#endif
