/*
 * A small memory system for the Profiling Buffer: stage 1 and stage 2 tables with
 * 4KB pages, a granule protection table, and things that go wrong, in a few pages
 * of test memory. Descriptors have the architecture's bits, as far as used here.
 */
#ifndef WALKER_H
#define WALKER_H

#include <spex/spu.h>

enum { WALKER_PAGE = 4096, WALKER_PAGES = 128 };

/* Descriptor bits. */
#define D_VALID UINT64_C(3)            /* valid, table or page */
#define D_USER (UINT64_C(1) << 6)      /* AP[1]: EL0 may access */
#define D_READ_ONLY (UINT64_C(1) << 7) /* AP[2]; stage 2: no S2AP write permission */
#define D_AF (UINT64_C(1) << 10)
#define D_DBM (UINT64_C(1) << 51)
#define D_ASSURED (UINT64_C(1) << 58)   /* stage 2: AssuredOnly */
#define D_TOP_LEVEL (UINT64_C(1) << 59) /* stage 2: fails the TopLevel check */

enum { NOWHERE = -1 };

/* Granules: who may access a page. */
enum granule { GPT_ANY, GPT_NONE, GPT_SECURE, GPT_NONSECURE, GPT_REALM, GPT_INVALID };

struct walker {
    uint8_t memory[WALKER_PAGES * WALKER_PAGE];
    unsigned next_page;      /* of those handed out */
    uint64_t stage1, stage2; /* root tables; stage 2 is 0 if off */
    uint64_t gpt;            /* one byte a page; 0 if off */
    bool ha, hd;             /* hardware manages Access flag, dirty state (stage 1 and 2) */
    bool haft;               /* Access flag in Table descriptors */
    uint64_t output_limit;   /* first output address that is too large */
    uint64_t gpt_limit;      /* first physical address the GPT does not cover */
    int64_t abort_page;      /* an access to this page of memory aborts */
    int64_t no_atomic_page;  /* tables here cannot be updated by hardware */
    uint64_t conflict;       /* a virtual page for which TLB entries conflict, or 0 */
    uint64_t touched;        /* pages marked by translations without a write */
    unsigned watchpoints;    /* must stay 0: the test watches the whole buffer */
    uint64_t watch_low, watch_high;
};

void walker_init(struct walker *w);

/* Map a virtual page to a page of memory (through stage 2, one to one, if on). Returns its PA. */
uint64_t walker_map(struct walker *w, uint64_t va);

/* The descriptor of a virtual (stage 1) or intermediate (stage 2) address at a level. */
uint64_t *walker_stage1(struct walker *w, uint64_t va, unsigned level);
uint64_t *walker_stage2(struct walker *w, uint64_t ipa, unsigned level);

/* Where the table of a level lies, for aborts and granules. */
uint64_t walker_table1(struct walker *w, uint64_t va, unsigned level);
uint64_t walker_table2(struct walker *w, uint64_t ipa, unsigned level);

/* What is at a virtual address now; NULL if it is not mapped. */
const uint8_t *walker_at(struct walker *w, uint64_t va);

/* The host's write callback; user is the walker. */
void walker_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop);

#endif
