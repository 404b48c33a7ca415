/*
 * What the guest's shell cannot do:
 *   helper bpf COMMAND...  loads a BPF program as descriptor 9, and becomes the command
 *   helper run             runs that program a hundred thousand times
 *   helper caps FILE       as setcap cap_perfmon,cap_ipc_lock,cap_sys_ptrace=ep FILE
 */
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { PLACE = 9, WORK = 100 };

static long bpf(int command, union bpf_attr *attr)
{
    return syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int load(void)
{
    struct bpf_insn code[WORK + 2] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}};
    for (int i = 1; i <= WORK; i++)
        code[i] = (struct bpf_insn){.code = BPF_ALU64 | BPF_ADD | BPF_K, .imm = i};
    code[WORK + 1] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
                           .insns = (uintptr_t)code,
                           .insn_cnt = WORK + 2,
                           .license = (uintptr_t) "MIT",
                           .prog_name = "busy"};
    return (int)bpf(BPF_PROG_LOAD, &attr);
}

static long run(void)
{
    static uint8_t packet[64];
    union bpf_attr attr = {.test = {.prog_fd = PLACE,
                                    .repeat = 100000,
                                    .data_in = (uintptr_t)packet,
                                    .data_size_in = sizeof packet}};
    return bpf(BPF_PROG_TEST_RUN, &attr);
}

static long give(const char *path)
{
    uint64_t set = 1ull << CAP_PERFMON | 1ull << CAP_IPC_LOCK | 1ull << CAP_SYS_PTRACE;
    struct vfs_cap_data caps = {
        .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
        .data = {{.permitted = (uint32_t)set}, {.permitted = (uint32_t)(set >> 32)}}};
    return setxattr(path, "security.capability", &caps, sizeof caps, 0);
}

int main(int argc, char **argv)
{
    long failed = 1;
    if (argc > 2 && !strcmp(argv[1], "bpf") && dup2(load(), PLACE) == PLACE)
        failed = execvp(argv[2], argv + 2);
    else if (argc > 1 && !strcmp(argv[1], "run"))
        failed = run();
    else if (argc > 2 && !strcmp(argv[1], "caps"))
        failed = give(argv[2]);
    if (failed)
        perror(argv[argc > 1]);
    return failed != 0;
}
