/* A host with macros of its own, as QEMU has them: the headers compile and the macros stay. */
#define FIELD(reg, field, shift, length)                                                           \
    enum { reg##_##field = shift, reg##_##field##_##LEN = length };
#define REG(name) name
#define REG32(name, address) enum { A_##name = address };
#define END(x) ((x) + 1)
#define FLAG 0x10
#define NUMBER(x) x
#define CHOICE(a, b) ((a) ? (a) : (b))
#define RES0 0
#define OTHER(x) x
#define PARAM(x) x
#define FILTER(x) x
#define PACKET(x) x
#define EVENT(x) x
#define BIT(n) (1u << (n))
#define BITS 64
#define ULL(x) x##ULL

#include <spex/analysis.h>
#include <spex/arrow.h>
#include <spex/base.h>
#include <spex/datasource.h>
#include <spex/features.h>
#include <spex/generate.h>
#include <spex/op.h>
#include <spex/perfdata.h>
#include <spex/record.h>
#include <spex/spu.h>
#include <spex/symbols.h>
#include <spex/sysreg.h>
#include <spex/verify.h>
#include <spex/wire.h>

/* The table of registers, for a host's own use. */
#define SPEX_REG(name, op0, op1, crn, crm, op2, owner, text) +1
enum {
    registers = 0
#include <spex/sysreg.def>
};

FIELD(ID, PMSVER, 32, 4)
REG32(PMBSR, 0x24)

int main(void)
{
    int kept = REG(ID_PMSVER) == 32 && ID_PMSVER_LEN == 4 && A_PMBSR == 0x24 && END(1) == 2 &&
               FLAG == 16 && NUMBER(3) == 3 && CHOICE(0, 5) == 5 && RES0 == 0 && OTHER(7) == 7 &&
               PARAM(1) && FILTER(1) && PACKET(1) && EVENT(1) && BIT(3) == 8 && BITS == 64 &&
               ULL(5) == 5;
    return kept && registers > 30 && SPEX_PMSCR_EL1 == SPEX_SYSREG(3, 0, 9, 9, 0) ? 0 : 1;
}
