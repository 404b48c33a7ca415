/*
 * What a system-mode plugin needs from QEMU 7.2 beyond the plugin API: System
 * registers of its own, the state of a vCPU, guest translation, physical memory,
 * the interrupt line and the guest's counter.
 *
 * Debian 12's qemu-system-aarch64 exports the functions used here, but their
 * structures are private to QEMU 7.2. qemu72_open therefore proves the layout on
 * registers whose contents are known and refuses anything it does not recognise.
 * One instance per process, used from vCPU threads; read-only once opened.
 */
#ifndef GUEST_QEMU72_H
#define GUEST_QEMU72_H

#include <spex/sysreg.h>

/* Answers of the access check, as QEMU counts them. */
enum qemu72_access {
    QEMU72_OK = 0,
    QEMU72_TRAP_EL2 = 4 | 2,
    QEMU72_TRAP_EL3 = 4 | 3,
    QEMU72_UNDEFINED = 8,
};

/* Calls into the plugin, with encodings as SPEX_SYSREG. QEMU's big lock is held in read and write. */
struct qemu72_handler {
    enum qemu72_access (*check)(unsigned vcpu, unsigned enc, bool write);
    uint64_t (*read)(unsigned vcpu, unsigned enc);
    void (*write)(unsigned vcpu, unsigned enc, uint64_t value);
};

/*
 * Call at the first translation: vCPUs exist and their registers are defined.
 * SPEX_UNSUPPORTED with the reason if this is not QEMU 7.2 as Debian builds it.
 */
enum spex_status qemu72_open(unsigned vcpus, const struct qemu72_handler *handler,
                             struct spex_error *error);

/* Define a register on every vCPU; lowest_el is the least EL that may name it at all. */
void qemu72_define(const char *name, unsigned enc, unsigned lowest_el, bool writable);

/* Replace the value of an ID register; false if QEMU has no such constant. */
bool qemu72_patch_id(unsigned enc, uint64_t clear, uint64_t set);

/* A register that QEMU keeps in its CPU state; false if it is computed or absent. */
bool qemu72_sysreg(unsigned vcpu, unsigned enc, uint64_t *value);
uint64_t qemu72_hcr(unsigned vcpu); /* Effective HCR_EL2 */

unsigned qemu72_el(unsigned vcpu);
bool qemu72_aarch64(unsigned vcpu);
uint64_t qemu72_x(unsigned vcpu, unsigned reg); /* exact at block entry only; 31 reads zero */

/*
 * Translate for a privileged write at EL1 or EL2 (host: EL2&0). On failure *fsc is
 * the Fault Status Code and *stage2 tells the stage.
 */
bool qemu72_translate(unsigned vcpu, uint64_t va, unsigned el, bool host, uint64_t *pa,
                      unsigned *fsc, bool *stage2);
void qemu72_write(uint64_t pa, const void *data, size_t size);
void qemu72_read(uint64_t pa, void *data, size_t size);

/* Level of a private peripheral interrupt of a vCPU at the GICv3. */
void qemu72_ppi(unsigned vcpu, unsigned intid, bool level);

/* The system counter as the guest reads it (CNTPCT_EL0). */
uint64_t qemu72_counter(void);

#endif
