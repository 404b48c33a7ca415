/* clang-format off */
/*
 * A guest without an operating system: programs the unit itself, at EL1 or EL2, with translation
 * tables of its own, and prints what it measured as "NAME=HEX" lines; test_bare.py judges them.
 */
#include <stdint.h>

#define BIT(n) (UINT64_C(1) << (n))
#define READ(reg) ({ uint64_t v_; __asm__ volatile("mrs %0, " reg : "=r"(v_)); v_; })
#define WRITE(reg, value) __asm__ volatile("msr " reg ", %0" : : "r"((uint64_t)(value)) : "memory")
#define ISB() __asm__ volatile("isb" : : : "memory")
#define PSB() __asm__ volatile("hint #17\n\tdsb nsh" : : : "memory")
#define PMSCR "S3_0_C9_C9_0"
#define PMSICR "S3_0_C9_C9_2"
#define PMSIRR "S3_0_C9_C9_3"
#define PMSFCR "S3_0_C9_C9_4"
#define PMSIDR "S3_0_C9_C9_7"
#define PMBLIMITR "S3_0_C9_C10_0"
#define PMBPTR "S3_0_C9_C10_1"
#define PMBSR "S3_0_C9_C10_3"
#define PMBIDR "S3_0_C9_C10_7"
#define PMSCR_EL2 "S3_4_C9_C9_0"
#define PMSCR_EL12 "S3_5_C9_C9_0"
/* clang-format on */

typedef uint64_t (*function)(uint64_t turns, uint64_t address);
extern uint64_t enter_el0(function f, uint64_t argument), enter_el1(function f, uint64_t argument);
extern char vectors[], vectors_el2[];
#define LOOP(name)                                                                                 \
    extern uint64_t name(uint64_t, uint64_t);                                                      \
    extern char name##_operations[]
LOOP(loop_alu);
LOOP(loop_fault);
LOOP(loop_svc);
LOOP(loop_atomic);
LOOP(loop_zva);
LOOP(loop_mrs);
LOOP(loop_call);

int booted_el2;
volatile uint64_t last_esr;
static volatile unsigned interrupts;
static volatile uint64_t irq_pmbsr, irq_end, irq_id;
static volatile int keep_pointer;

/* ---- console ---- */

static void put(char c)
{
    *(volatile uint32_t *)0x09000000 = (uint32_t)c;
}

static void print(const char *name, const char *more, uint64_t value)
{
    for (; *name; name++)
        put(*name);
    for (; *more; more++)
        put(*more);
    put('=');
    for (int i = 60; i >= 0; i -= 4)
        put("0123456789abcdef"[value >> i & 15]);
    put('\n');
}

/* ---- translation ---- */

enum { BUFFER = 0x48000000, PAGES = 512 }; /* 2 MB mapped page by page */
enum { EL0_IMAGE = 0x50200000 };
static uint64_t level1[512] __attribute__((aligned(4096)));
static uint64_t level2[512] __attribute__((aligned(4096)));
static uint64_t level3[512] __attribute__((aligned(4096)));
/* clang-format off */
enum { VALID = 1, TABLE = 2, PAGE = 2, NORMAL = 1 << 2, EL0 = 1 << 6, READ_ONLY = 1 << 7,
       INNER = 3 << 8, ACCESSED = 1 << 10 };
static const uint64_t MEMORY = VALID | NORMAL | INNER | ACCESSED;
/* clang-format on */

static void map_page(unsigned page, uint64_t attributes)
{
    level3[page] = attributes ? (BUFFER + page * UINT64_C(4096)) | PAGE | attributes : 0;
    __asm__ volatile("dsb sy\n\ttlbi vmalle1\n\tdsb sy\n\tisb" : : : "memory");
    if (booted_el2)
        __asm__ volatile("tlbi alle2\n\tdsb sy\n\tisb" : : : "memory");
}

static void make_tables(void)
{
    level1[0] = VALID | ACCESSED; /* devices: attribute 0 */
    level1[1] = (uintptr_t)level2 | VALID | TABLE;
    for (uint64_t i = 0; i < 512; i++)
        level2[i] = (UINT64_C(0x40000000) + (i << 21)) | MEMORY;
    /* The image again, for EL0 to read and execute: EL1 does not execute what EL0 may write. */
    level2[EL0_IMAGE >> 21 & 511] = UINT64_C(0x40200000) | MEMORY | EL0 | READ_ONLY;
    level2[(BUFFER - 0x40000000) >> 21] = (uintptr_t)level3 | VALID | TABLE;
    level2[511] = 0;
    for (unsigned i = 0; i < PAGES; i++)
        level3[i] = (BUFFER + i * UINT64_C(4096)) | PAGE | MEMORY | EL0;
}

static void mmu_on(int el)
{
    uint64_t mair = 0xff00, tcr = 25 | 1 << 8 | 1 << 10 | 3 << 12;
    if (el == 1) {
        WRITE("MAIR_EL1", mair);
        WRITE("TCR_EL1", tcr | BIT(23) | UINT64_C(2) << 32);
        WRITE("TTBR0_EL1", (uintptr_t)level1);
        ISB();
        WRITE("SCTLR_EL1", READ("SCTLR_EL1") | 1 | 4 | 1 << 12);
    } else {
        WRITE("MAIR_EL2", mair);
        WRITE("TCR_EL2", tcr | 2 << 16);
        WRITE("TTBR0_EL2", (uintptr_t)level1);
        ISB();
        WRITE("SCTLR_EL2", READ("SCTLR_EL2") | 1 | 4 | 1 << 12);
    }
    ISB();
}

/* ---- interrupts ---- */

enum { GICD = 0x08000000, GICR = 0x080a0000, PPI = 21 };

static volatile uint32_t *gicr(unsigned offset)
{
    return (volatile uint32_t *)(uintptr_t)(GICR + 0x10000 + offset);
}

static void gic_on(void)
{
    *(volatile uint32_t *)GICD = 0x37; /* affinity routing, both groups */
    *(volatile uint32_t *)(GICR + 0x14) = 0;
    *gicr(0x80) = ~0u;                                                      /* group 1 */
    *gicr(0x100) = 1u << PPI;                                               /* enable */
    __asm__ volatile("msr S3_0_C12_C12_5, %0\n\tisb" : : "r"(UINT64_C(7))); /* ICC_SRE_EL1 */
    WRITE("S3_0_C4_C6_0", 0xff);                                            /* ICC_PMR_EL1 */
    WRITE("S3_0_C12_C12_7", 1);                                             /* ICC_IGRPEN1_EL1 */
    ISB();
}

void on_irq(void);
void on_irq(void)
{
    uint64_t id = READ("S3_0_C12_C12_0"); /* ICC_IAR1_EL1 */
    interrupts++;
    irq_id = id;
    irq_pmbsr |= READ(PMBSR);
    irq_end = READ(PMBPTR);
    if (!keep_pointer) {
        WRITE(PMBPTR, BUFFER);
        ISB();
    }
    WRITE(PMBSR, 0);
    ISB();
    WRITE("S3_0_C12_C12_1", id); /* ICC_EOIR1_EL1 */
}

/* ---- profiling ---- */

enum { E0SPE = 1, E1SPE = 2, CX = 1 << 3, PA = 1 << 4, TS = 1 << 5 };

static void buffer(uint64_t start, uint64_t limit)
{
    WRITE(PMSCR, 0);
    ISB();
    PSB();
    WRITE(PMBLIMITR, 0);
    ISB();
    WRITE(PMBSR, 0);
    WRITE(PMBPTR, start);
    WRITE(PMBLIMITR, limit | 1);
    ISB();
}

static uint64_t stop(void)
{
    PSB();
    ISB();
    return READ(PMBPTR);
}

/*
 * Runs f with profiling on and returns what PMSICR_EL1 counted down, plus one interval and one for
 * each sample: exactly the operations between the two writes of PMSCR_EL1.
 */
static __attribute__((noinline)) uint64_t run(uint64_t control, function f, uint64_t turns,
                                              uint64_t address)
{
    register uint64_t x0 __asm__("x0") = turns;
    register uint64_t x1 __asm__("x1") = address;
    register uint64_t x16 __asm__("x16") = (uintptr_t)f;
    register uint64_t x17 __asm__("x17") = control;
    __asm__ volatile("msr " PMSCR ", x17\n\tisb\n\tblr x16\n\tmsr " PMSCR ", xzr\n\tisb"
                     : "+r"(x0), "+r"(x1), "+r"(x16), "+r"(x17)
                     :
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                       "x14", "x15", "x30", "memory", "cc");
    return x0;
}

/* The same function in EL0's window of the image. */
static function el0(function f)
{
    return (function)((uintptr_t)f + EL0_IMAGE - 0x40200000);
}

static uint64_t in_el0(uint64_t turns, uint64_t address)
{
    (void)address;
    return enter_el0(el0(loop_alu), turns);
}

/* Counted without samples: a large PMSICR_EL1. */
static uint64_t counted(uint64_t control, function f, uint64_t turns)
{
    const uint64_t start = 0xf0000000;
    buffer(BUFFER, BUFFER + 0x100000);
    WRITE(PMSIRR, 0xffffff00);
    WRITE(PMSICR, start);
    ISB();
    run(control, f, turns, BUFFER + 0x180000);
    stop();
    return start - (READ(PMSICR) & 0xffffffff);
}

/* The same with samples: the interval is `interval` + 1 operations. */
static void sampled(const char *name, uint64_t control, function f, uint64_t turns,
                    uint64_t interval)
{
    buffer(BUFFER, BUFFER + 0x100000);
    WRITE(PMSIRR, interval);
    WRITE(PMSICR, interval);
    ISB();
    uint64_t before = READ("CNTPCT_EL0");
    run(control, f, turns, BUFFER + 0x180000);
    uint64_t end = stop(), left = READ(PMSICR) & 0xffffffff;
    print(name, ".before", before);
    print(name, ".after", READ("CNTPCT_EL0"));
    print(name, ".bytes", end - BUFFER);
    print(name, ".left", left);
    print(name, ".pmbsr", READ(PMBSR));
    uint64_t sum = 0;
    for (uint64_t p = BUFFER; p < end; p++)
        sum = (sum << 1 | sum >> 63) ^ *(uint8_t *)p;
    print(name, ".sum", sum);
}

static void count_loops(void)
{
    static const struct {
        const char *name;
        function f;
        char *operations;
    } loops[] = {
        /* clang-format off */
        {"alu", loop_alu, loop_alu_operations},          {"fault", loop_fault, loop_fault_operations},
        {"svc", loop_svc, loop_svc_operations},          {"atomic", loop_atomic, loop_atomic_operations},
        {"zva", loop_zva, loop_zva_operations},          {"mrs", loop_mrs, loop_mrs_operations},
        {"call", loop_call, loop_call_operations},
    };
    /* clang-format on */
    for (unsigned i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        uint64_t few = counted(E1SPE, loops[i].f, 10);
        uint64_t many = counted(E1SPE, loops[i].f, 1010);
        print(loops[i].name, ".counted", many - few);
        print(loops[i].name, ".few", few);
        print(loops[i].name, ".operations", (uintptr_t)loops[i].operations);
        sampled(loops[i].name, E1SPE | TS | PA, loops[i].f, 3000, 256);
    }
}

/* ---- a sample in flight ---- */

/*
 * One of eight loads that miss every cache is sampled; is its record in memory when `then` has been
 * executed? No register of the unit is read in between.
 */
#define IN_FLIGHT(name, turn, then)                                                                \
    do {                                                                                           \
        uint64_t at_ = BUFFER + 0x100000 + (turn)*0x10000, found_;                                 \
        buffer(BUFFER, BUFFER + 0x1000);                                                           \
        *(volatile uint64_t *)BUFFER = 0;                                                          \
        WRITE(PMSIRR, 0x100000);                                                                   \
        WRITE(PMSICR, 6);                                                                          \
        ISB();                                                                                     \
        __asm__ volatile("msr " PMSCR                                                              \
                         ", %2\n\tisb\n\t.rept 8\n\tldr x2, [%1], #192\n\t.endr\n\t" then          \
                         "\n\tldr %0, [%3]"                                                        \
                         : "=&r"(found_), "+r"(at_)                                                \
                         : "r"((uint64_t)(E1SPE | TS)), "r"((uint64_t)BUFFER)                      \
                         : "x2", "memory");                                                        \
        WRITE(PMSCR, 0);                                                                           \
        ISB();                                                                                     \
        print("flight_" name, ".seen", found_ != 0);                                               \
        print("flight_" name, ".bytes", stop() - BUFFER);                                          \
    } while (0)

static void in_flight(void)
{
    IN_FLIGHT("nothing", 0, "nop");
    IN_FLIGHT("psb", 1, "hint #17\n\tdsb nsh");
    IN_FLIGHT("pmscr", 2, "msr " PMSCR ", xzr\n\tisb");
    IN_FLIGHT("pmblimitr", 3, "msr " PMBLIMITR ", xzr\n\tisb");
}

/* ---- who may access what ---- */

/* The exception that an instruction takes to this Exception level (its vector skips it), or -1. */
#define EXCEPTION_OF(esr, instruction)                                                             \
    ({                                                                                             \
        WRITE(esr, 0xffffffff);                                                                    \
        __asm__ volatile(instruction : : : "x0", "x9", "memory");                                  \
        READ(esr) == 0xffffffff ? UINT64_MAX : READ(esr);                                          \
    })

static void undefined(void)
{
    print("undefined", ".pmscr_el2", EXCEPTION_OF("ESR_EL1", "mrs x0, " PMSCR_EL2));
    print("undefined", ".pmscr_el12", EXCEPTION_OF("ESR_EL1", "mrs x0, " PMSCR_EL12));
    print("undefined", ".pmsidr_write", EXCEPTION_OF("ESR_EL1", "msr " PMSIDR ", x0"));
    print("undefined", ".pmsidr_read", EXCEPTION_OF("ESR_EL1", "mrs x0, " PMSIDR));
}

static uint64_t read_pmscr(uint64_t unused, uint64_t address)
{
    (void)unused;
    (void)address;
    return READ(PMSCR);
}

/* EL0: counted alone, at both levels; an access to a register of the unit is UNDEFINED there. */
static void count_el0(void)
{
    uint64_t few = counted(E0SPE, in_el0, 10), many = counted(E0SPE, in_el0, 1010);
    print("user", ".el0", many - few);
    few = counted(E1SPE, in_el0, 10), many = counted(E1SPE, in_el0, 1010);
    print("user", ".el1", many - few);
    few = counted(E0SPE | E1SPE, in_el0, 10), many = counted(E0SPE | E1SPE, in_el0, 1010);
    print("user", ".both", many - few);
    sampled("user", E0SPE | TS | PA, in_el0, 3000, 256);
    last_esr = 0;
    enter_el0(el0(read_pmscr), 0);
    print("user", ".esr", last_esr);
}

/* ---- faults of the buffer ---- */

static void fault(const char *name, uint64_t start, uint64_t limit)
{
    buffer(start, limit);
    WRITE(PMSIRR, 256);
    WRITE(PMSICR, 256);
    ISB();
    run(E1SPE | TS, loop_alu, 20000, 0);
    print(name, ".end", stop());
    print(name, ".pmbsr", READ(PMBSR));
    print(name, ".pending", *gicr(0x200) >> PPI & 1);
    WRITE(PMBSR, 0);
    ISB();
    print(name, ".cleared", *gicr(0x200) >> PPI & 1);
}

static void faults(void)
{
    enum { AT = BUFFER + 0x10000 };
    *gicr(0x180) = 1u << PPI; /* not enabled: only pending */
    map_page(0x10, 0);
    fault("unmapped", AT - 200, AT + 0x10000);
    fault("unmapped_first", AT, AT + 0x10000);
    map_page(0x10, MEMORY | READ_ONLY);
    fault("read_only", AT - 200, AT + 0x10000);
    map_page(0x10, MEMORY & ~(uint64_t)ACCESSED);
    fault("access_flag", AT - 200, AT + 0x10000);
    map_page(0x10, MEMORY);
    fault("no_table", UINT64_C(0x7fe00000), UINT64_C(0x7fe10000)); /* level 2 entry is not valid */
    fault("full", AT, AT + 0x1000);
    *gicr(0x100) = 1u << PPI;
}

static void interrupt(const char *name, uint64_t limit)
{
    buffer(BUFFER, limit);
    WRITE(PMSIRR, 256);
    WRITE(PMSICR, 256);
    interrupts = 0;
    irq_pmbsr = 0;
    __asm__ volatile("msr daifclr, #2");
    ISB();
    run(E1SPE | TS, loop_alu, 20000, 0);
    __asm__ volatile("msr daifset, #2");
    print(name, ".count", interrupts);
    print(name, ".id", irq_id);
    print(name, ".pmbsr", irq_pmbsr);
    print(name, ".end", irq_end);
    print(name, ".after", READ(PMBSR));
    stop();
    WRITE(PMBSR, 0);
    WRITE(PMBLIMITR, 0);
    ISB();
}

/* A buffer without room, and a handler that clears S and goes on: as kvm-unit-tests do. */
static void no_room(void)
{
    *(volatile uint64_t *)BUFFER = 0;
    keep_pointer = 1;
    interrupt("no_room", BUFFER);
    keep_pointer = 0;
    print("no_room", ".written", *(volatile uint64_t *)BUFFER);
}

/* ---- a session as kvm-unit-tests have it ---- */

static void load(uint64_t turns)
{
    while (turns--)
        (void)*(volatile uint64_t *)(BUFFER + 0x180000);
}

/* Not to be compiled to a call of memcmp. */
static uint64_t words_written(uint64_t start, uint64_t end)
{
    uint64_t found = 0;
    for (uint64_t p = start; p < end; p += 8)
        found += *(volatile uint64_t *)p != 0;
    return found;
}

/*
 * Everything is set up, PMSCR_EL1 too, but for PMBLIMITR_EL1.E: that alone begins and ends
 * the session.
 */
static void session(void)
{
    enum { LIMIT = BUFFER + 0x1000, CONTROL = E1SPE | TS | PA | 1 << 6, INTERVAL = 4096 };
    buffer(BUFFER, LIMIT);
    WRITE(PMBLIMITR, LIMIT);
    ISB();
    for (uint64_t p = BUFFER; p < LIMIT; p += 8)
        *(volatile uint64_t *)p = 0;
    WRITE(PMSICR, 0);
    WRITE(PMSFCR, 0);
    WRITE(PMSIRR, INTERVAL);
    WRITE(PMSCR, CONTROL);
    ISB();
    load(20000);
    PSB();
    print("session", ".pmbptr", READ(PMBPTR));
    print("session", ".pmblimitr", READ(PMBLIMITR));
    print("session", ".pmsirr", READ(PMSIRR));
    print("session", ".pmscr", READ(PMSCR));
    print("session", ".pmsfcr", READ(PMSFCR));
    print("session", ".before", words_written(BUFFER, LIMIT));
    print("session", ".pmbsr_before", READ(PMBSR));
    WRITE(PMBLIMITR, LIMIT | 1);
    ISB();
    load(20000);
    WRITE(PMBLIMITR, LIMIT);
    ISB();
    print("session", ".end", stop());
    print("session", ".after", words_written(BUFFER, LIMIT));
    print("session", ".pmbsr", READ(PMBSR));
    WRITE(PMSCR, 0);
    ISB();
}

/* ---- what QEMU was told ---- */

static uint64_t in_tree(const char *word)
{
    const char *tree = (const char *)0x40000000; /* where QEMU puts it */
    for (const char *p = tree; p < tree + 0x20000; p++)
        for (unsigned i = 0; p[i] == word[i];)
            if (!word[++i])
                return 1;
    return 0;
}

static void machine(void)
{
    print("tree", ".spe", in_tree("arm,statistical-profiling-extension-v1"));
    print("tree", ".kpti", in_tree("kpti=off"));
    print("tree", ".only", in_tree("only=this"));
    uint64_t devices = 0; /* of virtio: the bits of their kinds */
    for (uint64_t at = 0x0a000000; at < 0x0a004000; at += 0x200)
        devices |= BIT(*(volatile uint32_t *)(at + 8) & 63);
    print("virtio", ".kinds", devices);
}

/* ---- EL2 ---- */

static uint64_t read_pmbptr(uint64_t unused, uint64_t address)
{
    (void)unused;
    (void)address;
    return READ(PMBPTR);
}

static void at_el2(void)
{
    WRITE("HCR_EL2", BIT(31)); /* EL1 is AArch64; no E2H */
    WRITE("VBAR_EL2", (uintptr_t)vectors_el2);
    WRITE("VBAR_EL1", (uintptr_t)vectors);
    mmu_on(2);
    mmu_on(1);
    /* Traps: MDCR_EL2.TPMS (14), and E2PB 00: buffer of EL2, PMB* of EL1 trapped. */
    WRITE("MDCR_EL2", BIT(14));
    last_esr = 0;
    enter_el1(read_pmscr, 0);
    print("trap", ".pmscr", last_esr);
    last_esr = 0;
    enter_el1(read_pmbptr, 0);
    print("trap", ".pmbptr", last_esr);
    WRITE("MDCR_EL2", 2 << 12); /* buffer of EL1, PMB* trapped all the same */
    last_esr = 0;
    enter_el1(read_pmbptr, 0);
    print("trap", ".pmbptr_10", last_esr);
    print("undefined", ".pmscr_el12", EXCEPTION_OF("ESR_EL2", "mrs x0, " PMSCR_EL12));
    /* Open to EL1: no trap, and the register can be read. */
    WRITE("MDCR_EL2", 3 << 12);
    last_esr = 0;
    WRITE(PMSCR, 0x23);
    print("open", ".pmscr", enter_el1(read_pmscr, 0));
    print("open", ".trap", last_esr);
    WRITE(PMSCR, 0);
    /* The buffer is EL2's: its own translation, samples of EL2. */
    WRITE("MDCR_EL2", 0);
    WRITE(PMSCR_EL2, 0);
    ISB();
    buffer(BUFFER, BUFFER + 0x100000);
    WRITE(PMSIRR, 256);
    WRITE(PMSICR, 256);
    WRITE(PMSCR_EL2, E1SPE | TS | PA); /* E2SPE */
    ISB();
    loop_alu(10000, 0);
    WRITE(PMSCR_EL2, 0);
    ISB();
    print("owner_el2", ".bytes", stop() - BUFFER);
    print("owner_el2", ".pmbsr", READ(PMBSR));
    /* A page of EL2's tables that is not there. */
    map_page(0x10, 0);
    buffer(BUFFER + 0x10000 - 200, BUFFER + 0x20000);
    WRITE(PMSICR, 256);
    WRITE(PMSCR_EL2, E1SPE);
    ISB();
    loop_alu(10000, 0);
    WRITE(PMSCR_EL2, 0);
    ISB();
    print("fault_el2", ".end", stop());
    print("fault_el2", ".pmbsr", READ(PMBSR));
    WRITE(PMBSR, 0);
    /* VHE: the names of EL1 reach the registers of EL2. */
    WRITE("HCR_EL2", BIT(31) | BIT(34) | BIT(27));
    ISB();
    WRITE(PMSCR, 0x28);
    ISB();
    print("vhe", ".pmscr_el2", READ(PMSCR_EL2));
    WRITE(PMSCR_EL12, 0x21);
    ISB();
    print("vhe", ".pmscr_el12", READ(PMSCR_EL12));
    print("vhe", ".pmscr_still", READ(PMSCR));
}

void main(void);
void main(void)
{
    uint64_t el = READ("CurrentEL") >> 2;
    booted_el2 = el == 2;
    print("el", "", el);
    print("dfr0", "", READ("ID_AA64DFR0_EL1"));
    print("pmbidr", "", READ(PMBIDR));
    print("pmsidr", "", READ(PMSIDR));
    machine();
    make_tables();
    if (el == 2) {
        at_el2();
    } else {
        WRITE("VBAR_EL1", (uintptr_t)vectors);
        mmu_on(1);
        gic_on();
        count_loops();
        count_el0();
        WRITE("CONTEXTIDR_EL1", 0xabcdef);
        sampled("context", E1SPE | TS | CX, loop_alu, 3000, 256);
        in_flight();
        undefined();
        faults();
        interrupt("interrupt", BUFFER + 0x1000);
        no_room();
        no_room(); /* once more: nothing of the first is left */
        session();
    }
    print("done", "", 1);
}
