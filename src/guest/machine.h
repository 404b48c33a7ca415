/*
 * Everything the system-mode engine (system.c) needs from QEMU beyond the plugin calls that all
 * versions share: the guest's registers, its translation, memory, the interrupt line, the counter.
 * There is one implementation per kind of QEMU: qemu72.c, qemu11.c. All functions are called on a
 * vCPU's own thread, for that vCPU.
 */
#ifndef GUEST_MACHINE_H
#define GUEST_MACHINE_H

#include <spex/spu.h>

enum { SYS_VCPUS = 64 }; /* the most vCPUs that we support */

/* The engine's handler of register accesses. Encodings as SPEX_SYSREG. */
struct machine_handler {
    enum spex_sysreg_result (*check)(unsigned vcpu, unsigned enc, bool read);
    uint64_t (*read)(unsigned vcpu, unsigned enc);
    void (*write)(unsigned vcpu, unsigned enc, uint64_t value);
};

struct machine {
    /* Called when the plugin is installed: has QEMU call system_translate for each block. */
    void (*install)(uint64_t id);

    /*
     * Called at the first translation. SPEX_UNSUPPORTED, with the reason, if the implementation
     * does not know this QEMU. version: ID_AA64DFR0_EL1.PMSVer.
     */
    enum spex_status (*open)(unsigned vcpus, unsigned version,
                             const struct machine_handler *handler, struct spex_error *error);

    /* One of QEMU's own registers; false if it is absent or computed. */
    bool (*sysreg)(unsigned vcpu, unsigned enc, uint64_t *value);
    uint64_t (*x)(unsigned vcpu, unsigned reg); /* exact at the entry of a block; 31 is SP */
    unsigned (*el)(unsigned vcpu);
    bool (*aarch64)(unsigned vcpu);
    unsigned (*current)(void); /* the vCPU of this thread */
    /*
     * Where QEMU keeps PSTATE; or NULL: the Exception level of a block is then the one at
     * translation.
     */
    const uint32_t *(*pstate)(unsigned vcpu);

    /*
     * Translates for a privileged write at EL1 or EL2 (host: EL2&0). On failure *fsc is the Fault
     * Status Code, and *stage2 says which stage failed.
     */
    bool (*translate)(unsigned vcpu, uint64_t va, unsigned el, bool host, uint64_t *pa,
                      unsigned *fsc, bool *stage2);
    void (*write)(uint64_t pa, const void *data, size_t size);

    /* Level of a private peripheral interrupt of a vCPU at the GICv3. */
    void (*ppi)(unsigned vcpu, unsigned intid, bool level);

    /* The system counter as the guest reads it (CNTPCT_EL0); false if it is not available. */
    bool (*counter)(uint64_t *count);

    /*
     * NULL if QEMU calls the handler for MRS and MSR. Otherwise the engine does the access itself
     * and calls this to finish: it sets the register of an MRS and continues the guest after the
     * instruction at pc. Does not return.
     */
    void (*skip)(unsigned vcpu, uint64_t pc, bool read, unsigned rt, uint64_t value);

    bool io_addresses; /* physical addresses of device memory are correct */
};

extern const struct machine machine_qemu72, machine_qemu11;

#endif
