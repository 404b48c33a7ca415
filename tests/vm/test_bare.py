"""A guest without an operating system on the unit: exact counts, real faults, levels, EL0 to EL2.

bare/ prints what it measured; the records themselves come from the unit's log, whose bytes the
guest has summed up in its own memory. Runs on QEMU 7.2 and, if it can be had, on 11.1.
"""
import re
import shutil
from guests import *

LOOPS = ["alu", "fault", "svc", "atomic", "zva", "mrs", "call"]
FEATURES = "v1p4"


def boot(elf, title, *options, how="--kernel"):
    log = os.path.join(WORK, re.sub(r"\W+", "-", title) + ".log")
    try:
        code, out, err = spex("vm", how, elf, "--log", log, "--features", FEATURES, *options,
                              timeout=120)
    except subprocess.TimeoutExpired as e:
        code, out, err = None, e.stdout or b"", "it does not end"
    values = dict(re.findall(r"^([\w.]+)=([0-9a-f]{16})\r?$", out.decode(errors="replace"), re.M))
    values = {k: int(v, 16) for k, v in values.items()}
    check(f"{title}: runs to its end", code == 0 and values.get("done") == 1,
          out[-500:].decode(errors="replace") + err)
    return values, Log(log)


def written(log):
    """Bytes of each buffer that was opened: from one write of PMBPTR_EL1 to the next."""
    runs = []
    for line in log.lines:
        if line.startswith("write PMBPTR_EL1"):
            runs.append(b"")
        elif line.startswith("expect bytes "):
            runs[-1] += bytes.fromhex(line.split()[-1])
    return runs


def summed(data):
    total = 0
    for byte in data:
        total = (total << 1 | total >> 63) & (1 << 64) - 1 ^ byte
    return total


def test_sampled(title, name, v, streams):
    """One run with samples: every record is in memory, and the operations add up."""
    raw = next((r for r in streams if len(r) == v[name + ".bytes"] and
                summed(r) == v[name + ".sum"]), None)
    if not check(f"{title}: {name}: the guest's buffer holds what the unit wrote", raw is not None):
        return []
    path = os.path.join(WORK, "bare.spe")
    with open(path, "wb") as f:
        f.write(raw)
    code, out, err = spex("verify", "--raw", "--features", FEATURES, path)
    check(f"{title}: {name}: spex verify finds nothing", code == 0, out.decode() + err)
    found = records(raw)
    check(f"{title}: {name}: times are the guest's",
          all(v[name + ".before"] <= r["timestamp"] <= v[name + ".after"] for r in found) and
          [r["timestamp"] for r in found] == sorted(r["timestamp"] for r in found))
    check(f"{title}: {name}: physical addresses are right",
          all(r["address2"] & (1 << 56) - 1 == r["address3"] & (1 << 56) - 1
              for r in found if "address2" in r and "address3" in r), found[:2])
    return found


def test_el1(title, v, log):
    streams = written(log)
    for name in LOOPS:
        equal(f"{title}: {name}: operations are counted exactly", v[name + ".counted"],
              1000 * v[name + ".operations"], spec=("SMP-23",) if name == "alu" else ())
        found = test_sampled(title, name, v, streams)
        # The first sample is operation 256, the next ones 257 further; PMSICR_EL1 has the rest.
        total = 3000 * v[name + ".operations"] + v[name + ".few"] - 10 * v[name + ".operations"]
        lost = total - (257 * len(found) + 256 - v[name + ".left"])
        check(f"{title}: {name}: samples are 257 operations apart",
              lost % 257 == 0 and 0 <= lost <= 257 * 2,
              f"{total} operations, {len(found)} records, {lost} unaccounted for",
              spec=("SMP-26",) if name == "alu" and not lost else ())
        if name in ("atomic", "zva"):
            some = [r for r in found if "address2" in r]
            check(f"{title}: {name}: data addresses", some and all("address3" in r for r in some),
                  found[:2])
    equal(f"{title}: EL0 is counted by E0SPE alone", (v["user.el0"], v["user.el1"], v["user.both"]),
          (8000, 0, 8000), spec="SMP-04")
    found = test_sampled(title, "user", v, streams)
    check(f"{title}: user: records say EL0",
          found and all(r["address0"] >> 61 & 3 == 0 for r in found))
    equal(f"{title}: a register of the unit is UNDEFINED at EL0", v["user.esr"] >> 26, 0)
    never = (1 << 64) - 1
    equal(f"{title}: names of EL2 and a write of PMSIDR_EL1 are UNDEFINED at EL1, its read is not",
          [v["undefined." + n] >> 26 for n in ("pmscr_el2", "pmscr_el12", "pmsidr_write")] +
          [v["undefined.pmsidr_read"]],
          [0, 0, 0, never])
    found = test_sampled(title, "context", v, streams)
    check(f"{title}: records hold CONTEXTIDR_EL1",
          found and all(r.get("context0") == 0xabcdef for r in found), found[:1])
    equal(f"{title}: a sample in flight is in memory after PSB CSYNC, a write of PMSCR_EL1 or of "
          "PMBLIMITR_EL1; not before",
          [v[f"flight_{n}.seen"] for n in ("nothing", "psb", "pmscr", "pmblimitr")], [0, 1, 1, 1])
    check(f"{title}: it is one record each time",
          len({v[f"flight_{n}.bytes"] for n in ("nothing", "psb", "pmscr", "pmblimitr")}) == 1 and
          v["flight_psb.bytes"] > 0, v)


def test_faults(title, v):
    at = 0x48010000
    for name, fsc, end, lost in [("unmapped", 0x07, at, 1), ("unmapped_first", 0x07, at, 0),
                                 ("read_only", 0x0f, at, 1), ("access_flag", 0x0b, at, 1),
                                 ("no_table", 0x06, 0x7fe00000, 0)]:
        status = v[name + ".pmbsr"]
        equal(f"{title}: {name}: EC 0x24, FSC, DL, S",
              (status >> 26, status & 0x3f, status >> 19 & 1, status >> 17 & 1),
              (0x24, fsc, lost, 1), spec=("BUF-166", "BUF-168", "BUF-171", "BUF-175"))
        equal(f"{title}: {name}: the pointer stands at the fault", v[name + ".end"], end,
              spec="BUF-174")
    equal(f"{title}: full: EC 0, BSC 1, S", v["full.pmbsr"], 0x20001)
    check(f"{title}: full: the pointer is behind the last record", at < v["full.end"] <= at +
          0x1000 and v["full.end"] + 256 > at + 0x1000, hex(v["full.end"]))
    equal(f"{title}: PMBIRQ pends while S is set and no longer",
          [(v[n + ".pending"], v[n + ".cleared"])
           for n in ("unmapped", "read_only", "no_table", "full")], [(1, 0)] * 4)
    check(f"{title}: an interrupt for each full buffer", v["interrupt.count"] >= 3 and
          v["interrupt.pmbsr"] == 0x20001 and v["interrupt.after"] == 0, v["interrupt.count"])
    equal(f"{title}: PMBIRQ is PPI 21 of the PE", v["interrupt.id"], 21, spec="BUF-137")
    # LIMIT is PMBPTR: each sample meets a full buffer, and the operations in between run.
    check(f"{title}: a buffer without room: an interrupt for each sample, and the program ends",
          20000 // 257 <= v["no_room.count"] <= 20000 and v["no_room.pmbsr"] == 0x20001 and
          v["no_room.end"] == 0x48000000 and v["no_room.written"] == 0, v["no_room.count"])


def test_session(title, v):
    """What kvm-unit-tests asks of SPE: 3 of the identification, 9 of a session, 2 of events."""
    idr = v["pmsidr"]
    check(f"{title}: PMSIDR_EL1.CountSize is 12 or 16 bits", idr >> 16 & 15 in (2, 3), hex(idr))
    check(f"{title}: PMSIDR_EL1.MaxSize is 16 to 2048 bytes", 4 <= idr >> 12 & 15 <= 11, hex(idr))
    check(f"{title}: PMSIDR_EL1.Interval is one of the manual's",
          idr >> 8 & 15 in (0, 2, 3, 4, 5, 6, 7, 8), hex(idr))
    at = 0x48000000
    equal(f"{title}: PMBPTR_EL1 and PMBLIMITR_EL1 read as written, without E",
          (v["session.pmbptr"], v["session.pmblimitr"]), (at, at + 0x1000))
    equal(f"{title}: PMSIRR_EL1, PMSCR_EL1 and PMSFCR_EL1 read as written",
          (v["session.pmsirr"], v["session.pmscr"], v["session.pmsfcr"]), (4096, 0x72, 0))
    equal(f"{title}: nothing is profiled and no event is reported before PMBLIMITR_EL1.E is set",
          (v["session.before"], v["session.pmbsr_before"]), (0, 0))
    size = v["session.end"] - at
    check(f"{title}: after it records are in the buffer, up to PMBPTR_EL1",
          0 < size < 0x1000 and 0 < v["session.after"] <= -(-size // 8), v)
    equal(f"{title}: and still no event", v["session.pmbsr"], 0)


def test_machine_options(elf):
    """--append-only, --device and --firmware reach QEMU, and the guest is the same."""
    v, _ = boot(elf, "usual options")
    equal("the usual arguments are those of Linux, and no device is there",
          (v.get("tree.kpti"), v.get("tree.only"), v.get("virtio.kinds")), (1, 0, 1))
    equal("the device tree has the SPU", v.get("tree.spe"), 1)
    w, _ = boot(elf, "append only", "--append-only", "--append", "only=this",
                "--device", "virtio-rng-device", "--device", "virtio-balloon-device")
    equal("--append-only: --append's and no other; --device: each is there",
          (w.get("tree.kpti"), w.get("tree.only"), w.get("virtio.kinds")),
          (0, 1, 1 | 1 << 4 | 1 << 5))
    image, why = build_firmware(elf)
    if not check("the guest as firmware builds", image, why):
        return
    for el in ([], ["--el2"]):
        of_kernel, _ = (v, None) if not el else boot(elf, "EL2 as kernel", *el)
        f, _ = boot(image, " ".join(["firmware", *el]), *el, how="--firmware")
        keys = [k for k in of_kernel if k.endswith((".counted", ".left", ".bytes", ".pmbsr",
                                                    ".end", ".esr", ".spe"))]
        equal(f"--firmware {' '.join(el)}: measures what it does as a kernel",
              [(k, f.get(k)) for k in keys], [(k, of_kernel[k]) for k in keys])
        equal(f"--firmware {' '.join(el)}: no kernel arguments", f.get("tree.kpti"), 0)


def test_el2(title, v, traps):
    if traps:
        equal(f"{title}: MDCR_EL2.TPMS traps PMSCR_EL1, E2PB traps PMBPTR_EL1: "
              "EC 0x18, the register",
              (v["trap.pmscr"], v["trap.pmbptr"], v["trap.pmbptr_10"]),
              (0x62302413, 0x62322415, 0x62322415))
    else:
        equal(f"{title}: what would trap to EL2 is UNDEFINED at EL1",
              (v["trap.pmscr"], v["trap.pmbptr"], v["trap.pmbptr_10"]), (0, 0, 0))
    equal(f"{title}: PMSCR_EL12 is UNDEFINED without E2H", v["undefined.pmscr_el12"] >> 26, 0)
    equal(f"{title}: open to EL1", (v["open.pmscr"], v["open.trap"]), (0x23, 0))
    check(f"{title}: EL2 owns the buffer",
          v["owner_el2.bytes"] > 1000 and v["owner_el2.pmbsr"] == 0)
    equal(f"{title}: a fault in EL2's tables", (v["fault_el2.pmbsr"], v["fault_el2.end"]),
          (0x900a0007, 0x48010000))
    equal(f"{title}: VHE redirects PMSCR_EL1, PMSCR_EL12 is EL1's",
          (v["vhe.pmscr_el2"], v["vhe.pmscr_el12"], v["vhe.pmscr_still"]), (0x28, 0x21, 0x28))


def test_machine(title, elf, *options, traps=True):
    v, log = boot(elf, f"{title} EL1", *options)
    if v.get("done"):
        equal(f"{title}: ID_AA64DFR0_EL1.PMSVer", v["dfr0"] >> 32 & 15, 5)
        test_el1(title, v, log)
        test_faults(title, v)
        test_session(title, v)
        log.replay("bare-" + title.split()[-1])
    second, log = boot(elf, f"{title} two CPUs", "--smp", "2", *options)
    if v.get("done") and second.get("done"):
        keys = [k for k in v if k.endswith((".counted", ".left", ".bytes", ".pmbsr", ".end"))]
        equal(f"{title}: the same with two CPUs", [second[k] for k in keys], [v[k] for k in keys])
    v, log = boot(elf, f"{title} EL2", "--el2", *options)
    if v.get("done"):
        test_el2(title, v, traps)
        log.replay("bare-el2-" + title.split()[-1])


def main():
    os.makedirs(WORK, exist_ok=True)
    if not shutil.which("aarch64-linux-gnu-gcc") or not shutil.which("qemu-system-aarch64"):
        skip("bare guest", "no cross compiler or no qemu-system-aarch64")
        done()
    elf, why = build_bare()
    if not check("the guest builds", elf, why):
        done()
    test_machine("QEMU 7.2", elf)
    test_machine_options(elf)
    program, why = qemu11()
    if program:
        test_machine("QEMU 11.1", elf, "--qemu", program, traps=False)
    else:
        skip("QEMU 11.1", "could not be unpacked: " + why)
    done()


main()
