/* Names, fields and syndromes of the System registers in sysreg.def. */
#include <spex/sysreg.h>

#include "base/bits.h"

#include <assert.h>
#include <string.h>

/* The rows of each register name every bit, and name it once. */
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) static_assert((0
#define SPEX_REG_FIELD(reg, hi, lo, name) | BITS(hi, lo)
#define SPEX_REG_RES0(hi, lo) | BITS(hi, lo)
#define SPEX_REG_OTHER(hi, lo) | BITS(hi, lo)
#define SPEX_REG_END(reg) ) == ~UINT64_C(0), #reg ": a bit has no row");
#include <spex/sysreg.def>

#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) static_assert((0
#define SPEX_REG_FIELD(reg, hi, lo, name) +(hi) - (lo) + 1
#define SPEX_REG_RES0(hi, lo) +(hi) - (lo) + 1
#define SPEX_REG_OTHER(hi, lo) +(hi) - (lo) + 1
#define SPEX_REG_END(reg) ) == 64, #reg ": a bit has two rows");
#include <spex/sysreg.def>

static const struct {
    const char *name;
    unsigned encoding;
} registers[] = {
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) {#name, SPEX_##name},
#include <spex/sysreg.def>
};

enum { REGISTERS = sizeof registers / sizeof registers[0] };

static const struct {
    unsigned encoding;
    enum spex_sysreg_field field;
    const char *name;
} fields[] = {
#define SPEX_REG_FIELD(reg, hi, lo, name) {SPEX_##reg, SPEX_##reg##_##name, #name},
#include <spex/sysreg.def>
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

const char *spex_sysreg_name(unsigned encoding)
{
    for (size_t i = 0; i < REGISTERS; i++)
        if (registers[i].encoding == encoding)
            return registers[i].name;
    return NULL;
}

static int upper(int c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
}

static bool same(const char *a, const char *b)
{
    while (*a && upper(*a) == upper(*b))
        a++, b++;
    return !*a && !*b;
}

enum spex_status spex_sysreg_find(const char *name, unsigned *encoding)
{
    assert(name && encoding);
    for (size_t i = 0; i < REGISTERS; i++) {
        if (same(registers[i].name, name)) {
            *encoding = registers[i].encoding;
            return SPEX_OK;
        }
    }
    return SPEX_INVALID;
}

unsigned spex_sysreg_at(size_t index)
{
    return index < REGISTERS ? registers[index].encoding : 0;
}

const char *spex_sysreg_field_at(unsigned encoding, size_t index, enum spex_sysreg_field *field)
{
    assert(field);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].encoding == encoding && index-- == 0) {
            *field = fields[i].field;
            return fields[i].name;
        }
    }
    return NULL;
}

/* ISS of a trapped MRS, MSR or System instruction (ESR_ELx, EC 0x18). */
uint64_t spex_sysreg_syndrome(unsigned encoding, unsigned rt, bool read)
{
    uint64_t op0 = encoding >> 14 & 3, op1 = encoding >> 11 & 7, crn = encoding >> 7 & 15;
    uint64_t crm = encoding >> 3 & 15, op2 = encoding & 7;
    return UINT64_C(0x18) << 26 | BIT(25) | op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 |
           (uint64_t)(rt & 31) << 5 | crm << 1 | read;
}
