/* Classifies the 32-bit words on standard input, one line of text each. */
#include <spex/a64.h>

#include <stdio.h>

static void reg(unsigned r)
{
    if (r < 31)
        printf("x%u", r);
    else if (r == SPEX_REG_SP)
        printf("sp");
    else if (r < SPEX_REG_P0)
        printf("v%u", r - SPEX_REG_V0);
    else if (r < SPEX_REG_NZCV)
        printf("p%u", r - SPEX_REG_P0);
    else
        printf("%s", r == SPEX_REG_NZCV  ? "nzcv"
                     : r == SPEX_REG_FFR ? "ffr"
                     : r == SPEX_REG_ZA  ? "za"
                                         : "zt0");
}

static void list(const uint8_t *regs, size_t count)
{
    const char *comma = "";
    for (size_t i = 0; i < count && regs[i] != SPEX_REG_NONE; i++) {
        printf("%s", comma);
        reg(regs[i]);
        comma = ",";
    }
    printf("%s", *comma ? " " : "- ");
}

int main(int argc, char **argv)
{
    struct spex_a64_lengths lengths = {128, 128};
    uint8_t b[4];
    if (argc > 1 && sscanf(argv[1], "%hu", &lengths.vl) == 1)
        lengths.svl = lengths.vl;
    while (fread(b, 1, 4, stdin) == 4) {
        uint32_t insn = b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;
        struct spex_op op;
        if (spex_a64_classify(insn, &lengths, &op)) {
            puts("reserved");
            continue;
        }
        uint64_t target = 0;
        bool direct = spex_a64_target(insn, 0, &target);
        printf("%s %s %u %x ", spex_a64_name(insn), spex_op_kind_name(op.kind), op.exec, op.flags);
        list(op.dst, sizeof op.dst);
        list(op.src, sizeof op.src);
        printf("%u %u %u %u ", op.access_size, op.access_bytes, op.vectors, op.vector_bits);
        printf(direct ? "%llx\n" : "-\n", (unsigned long long)target);
    }
    return 0;
}
