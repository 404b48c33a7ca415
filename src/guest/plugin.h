/*
 * The plugin's one global object. QEMU's callbacks carry no pointer of ours, so it has a name, and
 * everything that more than one file uses is in it. Its parts are embedded, not behind pointers, so
 * that a callback reaches its vCPU in one instruction.
 */
#ifndef GUEST_PLUGIN_H
#define GUEST_PLUGIN_H

#include "order.h"
#include "qemu_registers.h"
#include "system_vcpu.h"
#include "vcpu.h"

#pragma GCC visibility push(hidden)

/* Facts about QEMU 7.2, found by qemu72.c when it is opened. */
struct qemu72 {
    struct qemu72_layout {        /* offsets of members */
        size_t env, cp_regs;      /* offsets in ARMCPU */
        size_t xregs, pc, pstate; /* offsets in env */
    } at;
    struct machine_handler handler;
    struct {
        void *cpu; /* CPUState, the start of ARMCPU */
        char *env; /* CPUARMState */
    } cpu[SYS_VCPUS];
    unsigned vcpus, period;
    void *gic;
};

/* Facts about a later QEMU, found by qemu11.c. */
struct qemu11 {
    struct qemu_register x[32], cpsr; /* x[31] is SP */
    uint64_t period;                  /* period of the counter, ns */
};

struct plugin {
    uint64_t pace; /* sampled detail: average time of an operation, cycles << SPEX_FAR_FRACTION */
    /* user mode */
    struct hot hot[MAX_VCPUS];
    struct user user;
    struct order order;
    struct run_control *run; /* shared by the processes of a run; NULL in system mode */
    /*
     * Entry of a host program that may wait for this process, or NULL: when we end, it gets our
     * time.
     */
    struct run_gone *waits;
    /* system mode */
    struct sys sys;
    struct qemu72 qemu72;
    struct qemu11 qemu11;
};
extern struct plugin plugin;

#pragma GCC visibility pop

static inline uint64_t clock_of(const struct vcpu *v)
{
    return plugin.user.full ? flow_clock(v) : v->hot->clock >> SPEX_FAR_FRACTION;
}

#endif
