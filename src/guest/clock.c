#include "clock.h"

#include "account.h"
#include "plugin.h"
#include "regs.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
#define EPOCH (UINT64_C(1704067200) * SECOND) /* 2024-01-01 00:00 UTC */
#define BOOT SECOND                           /* programs treat a clock that shows 0 as absent */
#define TICK (SECOND / 100)

enum {
    CLOCK_GETTIME = 113,
    CLOCK_GETRES = 114,
    TIMES = 153,
    GETRUSAGE = 165,
    GETTIMEOFDAY = 169,
    SYSINFO = 179,
};

/* ---- clocks ---- */

static bool is_of_cpu(int64_t id)
{
    return id < 0 || id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID;
}

/* Clock ids of threads and processes are negative; this bit tells them apart. */
static bool is_of_thread(int64_t id)
{
    return id < 0 ? (id & 4) != 0 : id == CLOCK_THREAD_CPUTIME_ID;
}

static uint64_t start_of(int64_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_REALTIME_ALARM ||
                   id == CLOCK_TAI
               ? EPOCH
               : BOOT;
}

/* The thread's time, but never earlier than a time that was already shown to any thread. */
static uint64_t now(struct vcpu *v, bool in_block)
{
    static uint64_t told;
    uint64_t clock = flow_now(v, in_block);
    if (told < clock)
        told = clock;
    return told;
}

static uint64_t clock_says(struct vcpu *v, int64_t id)
{
    uint64_t time = now(v, false);
    return is_of_cpu(id) ? flow_busy(v, !is_of_thread(id)) : start_of(id) + time;
}

bool clock_is_wall(uint64_t ns)
{
    return ns > EPOCH / 2;
}

bool clock_when(int64_t id, uint64_t ns, uint64_t *cycles)
{
    if (is_of_cpu(id))
        return false;
    *cycles = ns > start_of(id) ? ns - start_of(id) : 0;
    return true;
}

/* ---- functions that QEMU calls ---- */

/* The time that the thread's next clock call must show, in ns; 0: the real one. */
static __thread uint64_t answer;

static int say_time(struct timeval *t, void *zone)
{
    if (!answer)
        return gettimeofday(t, zone);
    t->tv_sec = (time_t)(answer / SECOND);
    t->tv_usec = (suseconds_t)(answer % SECOND / 1000);
    answer = 0;
    return 0;
}

static clock_t say_ticks(struct tms *t)
{
    clock_t ticks = times(t);
    if (answer)
        ticks = (clock_t)(answer / TICK);
    answer = 0;
    return ticks;
}

struct image {
    const char *base, *names;
    const ElfW(Sym) * symbols;
};

static void replace_in(const struct image *image, const ElfW(Rela) * slots, size_t count)
{
    static const struct {
        const char *name;
        uintptr_t with;
    } functions[] = {{"gettimeofday", (uintptr_t)say_time}, {"times", (uintptr_t)say_ticks}};
    for (size_t i = 0; i < count; i++) {
        const char *name = image->names + image->symbols[ELF64_R_SYM(slots[i].r_info)].st_name;
        uintptr_t place = (uintptr_t)image->base + slots[i].r_offset;
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
            void *page = (void *)(place & ~(uintptr_t)(RUN_PAGE - 1));
            if (strcmp(name, functions[k].name) || mprotect(page, RUN_PAGE, PROT_READ | PROT_WRITE))
                continue;
            memcpy((void *)place, &functions[k].with, sizeof functions[k].with);
            mprotect(page, RUN_PAGE, PROT_READ); /* the protection that the dynamic linker set */
        }
    }
}

/* The first object is the program itself. */
static int replace(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct image image = {.base = (const char *)info->dlpi_addr};
    const ElfW(Rela) * slots[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    const ElfW(Dyn) *d = NULL;
    (void)size;
    (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB)
            image.names = (const char *)d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB)
            image.symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
        if (d->d_tag == DT_JMPREL || d->d_tag == DT_RELA)
            slots[d->d_tag == DT_RELA] = (const ElfW(Rela) *)d->d_un.d_ptr;
        if (d->d_tag == DT_PLTRELSZ || d->d_tag == DT_RELASZ)
            bytes[d->d_tag == DT_RELASZ] = d->d_un.d_val;
    }
    for (unsigned i = 0; i < 2 && image.names && image.symbols; i++)
        if (slots[i])
            replace_in(&image, slots[i], bytes[i] / sizeof *slots[i]);
    return 1;
}

void clock_open(void)
{
    dl_iterate_phdr(replace, NULL);
}

bool clock_reads_counter(uint32_t word)
{
    /* MRS of CNTPCT_EL0, CNTVCT_EL0, CNTPCTSS_EL0, CNTVCTSS_EL0 */
    uint32_t what = word & ~UINT32_C(31);
    return what == 0xd53be020 || what == 0xd53be040 || what == 0xd53be0a0 || what == 0xd53be0c0;
}

void clock_counter(unsigned vcpu, void *unused)
{
    struct vcpu *v = plugin.hot[vcpu].vcpu;
    (void)unused;
    if (v->live)
        answer = BOOT + now(v, true);
}

/* ---- system calls ---- */

void clock_call(struct vcpu *v, int64_t number)
{
    answer = number == TIMES ? BOOT + now(v, false) : 0;
}

static void put(uint64_t at, const void *from, size_t size)
{
    memcpy((void *)(uintptr_t)regs_host(at), from, size);
}

static void put_time(uint64_t at, uint64_t ns, uint64_t unit)
{
    const uint64_t t[2] = {ns / SECOND, ns % SECOND / unit};
    if (at)
        put(at, t, sizeof t);
}

/* struct rusage: the time in user mode; all else belongs to the host and stays 0. */
static void put_usage(struct vcpu *v, uint64_t at, int32_t who)
{
    enum { THREAD = 1 };
    const uint64_t zero[18] = {0};
    put(at, zero, sizeof zero);
    now(v, false);
    if (who >= 0)
        put_time(at, flow_busy(v, who != THREAD), 1000);
}

/* struct tms, in ticks. */
static void put_ticks(struct vcpu *v, uint64_t at)
{
    const uint64_t ticks[4] = {flow_busy(v, true) / TICK};
    if (at)
        put(at, ticks, sizeof ticks);
}

/* struct sysinfo: the size of memory stays; what is free or in use depends on the host. */
static void put_system(struct vcpu *v, uint64_t at)
{
    uint64_t s[10];
    const uint16_t processes = 1;
    if (!regs_memory(at, s, sizeof s))
        return;
    s[0] = (BOOT + now(v, false)) / SECOND;
    s[1] = s[2] = s[3] = 0; /* load */
    s[5] = s[4];            /* RAM that is free, shared, of buffers */
    s[6] = s[7] = 0;
    s[9] = s[8]; /* swap */
    put(at, s, sizeof s);
    put(at + sizeof s, &processes, sizeof processes);
}

void clock_return(struct vcpu *v, int64_t number, int64_t result)
{
    const uint64_t *a = v->argument;
    answer = 0;
    if (!plugin.user.registers || result < 0)
        return;
    switch (number) {
    case CLOCK_GETTIME:
        put_time(a[1], clock_says(v, (int32_t)a[0]), 1);
        break;
    case CLOCK_GETRES:
        put_time(a[1], 1, 1);
        break;
    case GETTIMEOFDAY:
        put_time(a[0], clock_says(v, CLOCK_REALTIME), 1000);
        break;
    case TIMES:
        put_ticks(v, a[0]);
        break;
    case GETRUSAGE:
        put_usage(v, a[1], (int32_t)a[0]);
        break;
    case SYSINFO:
        put_system(v, a[0]);
        break;
    }
}
