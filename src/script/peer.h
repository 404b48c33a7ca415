/*
 * The unit that a script plays on: ours, or one behind a command that speaks the protocol of
 * docs/spu-protocol.md. The functions are those of <spex/spu.h>. When one fails, peer_failure
 * says why, and later calls have no effect.
 */
#ifndef SCRIPT_PEER_H
#define SCRIPT_PEER_H

#include "link.h"

#include <spex/spu.h>

struct peer;

/* link NULL: our own unit. */
enum spex_status peer_new(struct link *link, const struct spex_spu_config *config,
                          struct peer **peer, struct spex_error *error);
void peer_free(struct peer *peer);
const char *peer_failure(const struct peer *peer);

/* Requests that are answered only with "ok". */
enum peer_plain { PEER_BOOT, PEER_RESET, PEER_ISB, PEER_EXCEPTION_TAKEN, PEER_FLUSH };
void peer_plain(struct peer *peer, enum peer_plain what);
void peer_get_state(struct peer *peer, struct spex_spu_state *state);
void peer_set_state(struct peer *peer, const struct spex_spu_state *state);
/* direct: spex_spu_get and spex_spu_set. */
enum spex_sysreg_result peer_read(struct peer *peer, unsigned encoding, bool direct,
                                  uint64_t *value, struct spex_sysreg_detail *detail);
enum spex_sysreg_result peer_write(struct peer *peer, unsigned encoding, bool direct,
                                   uint64_t value, struct spex_sysreg_detail *detail);
enum spex_sysreg_result peer_psb(struct peer *peer, struct spex_sysreg_detail *detail);
bool peer_op(struct peer *peer, uint64_t pc, const struct spex_op *op,
             const struct spex_outcome *outcome);
uint64_t peer_until(struct peer *peer);
void peer_pass(struct peer *peer, uint64_t n);
int peer_begin(struct peer *peer, uint64_t pc, uint32_t flags);
void peer_complete(struct peer *peer, int slot, const struct spex_op *op,
                   const struct spex_outcome *outcome);
void peer_abandon(struct peer *peer, int slot);
void peer_note_branch(struct peer *peer, const struct spex_op *op,
                      const struct spex_outcome *outcome);
void peer_external_abort(struct peer *peer, uint32_t flags);
void peer_impdef_event(struct peer *peer, uint16_t mss, uint32_t mss2);
/* peer_restore: restores the saved state; false if there is none, or if it does not fit. */
bool peer_save(struct peer *peer);
bool peer_restore(struct peer *peer);
void peer_get_status(struct peer *peer, struct spex_spu_status *status);
void peer_get_exception(struct peer *peer, unsigned source, struct spex_spu_exception *exception);
bool peer_frozen(struct peer *peer, enum spex_pmu_range range);

#endif
