/*
 * 64-bit numbers for call stacks, the same in every run and on every host. A stack's number is a
 * hash of its caller's number and the call, so it depends on all calls from the outermost on.
 * docs/schema.md has the rule.
 */
#ifndef EXPORT_STACK_IDS_H
#define EXPORT_STACK_IDS_H

#include <spex/analysis.h>

struct stack_ids;

/* NULL where samples have no stacks of their own. */
struct stack_ids *stack_ids_new(struct spex_analysis *analysis);
void stack_ids_free(struct stack_ids *ids);
/* call: not 0, of spex_sample_stack(). */
uint64_t stack_ids_get(struct stack_ids *ids, uint32_t call);

#endif
