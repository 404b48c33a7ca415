"""What the tests of `spex vm` share: the guests, the unit's log, records."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(BUILD, "vm")


def last_line(text):
    return (text.strip().splitlines() or ["no message"])[-1][:200]


def guest(name, suite=None):
    """A Linux guest in the build directory, prepared once: (directory or None, why)."""
    path = os.path.join(WORK, name)
    code, out, err = spex("vm", "--setup", path, *(["--suite", suite] if suite else []),
                          timeout=900)
    return path if code == 0 else None, last_line(err)


def qemu11():
    """QEMU 11.1 from Debian 13's backports, unpacked in the build directory:
    (program or None, why)."""
    where = os.path.join(WORK, "qemu11")
    code, out, err = run(os.path.join(SOURCE, "scripts/qemu11-setup"), where, timeout=600)
    program = os.path.join(where, "qemu-system-aarch64")
    if code or run(program, "--version")[0]:
        return None, last_line(err)
    return program, ""


def build_bare():
    """The guest without an operating system: (its image or None, why)."""
    elf = os.path.join(WORK, "bare.elf")
    here = os.path.join(HERE, "bare")
    code, out, err = run("aarch64-linux-gnu-gcc", "-O2", "-ffreestanding", "-nostdlib", "-static",
                         "-mgeneral-regs-only", "-mstrict-align", "-fno-pic",
                         "-fno-stack-protector",
                         "-march=armv8.5-a", "-Wall", "-Wextra", "-Wl,--build-id=none",
                         "-Wl,-z,max-page-size=4096", "-T", os.path.join(here, "bare.ld"),
                         os.path.join(here, "start.S"), os.path.join(here, "bare.c"), "-o", elf)
    return elf if code == 0 else None, err


def build_firmware(elf):
    """The same guest as firmware, which copies itself to where it is linked: (its image
    or None, why)."""
    image = os.path.join(WORK, "bare.fd")
    script = (f"aarch64-linux-gnu-objcopy -O binary {elf} {WORK}/bare.bin && "
              f"aarch64-linux-gnu-gcc -nostdlib -static -Wl,-Ttext=0 -Wl,--build-id=none "
              f"-Wa,-I,{WORK} -o {WORK}/firmware {HERE}/bare/firmware.S && "
              f"aarch64-linux-gnu-objcopy -O binary {WORK}/firmware {image}")
    code, out, err = run("sh", "-c", script)
    return image if code == 0 else None, err


class Log:
    """The unit's own log (--log) of one CPU: lines of a script."""

    def __init__(self, path, cpu=0):
        prefix = f"cpu{cpu} "
        with open(path) as f:
            self.lines = [l[len(prefix):].rstrip("\n") for l in f if l.startswith(prefix)]

    def accesses(self):
        """Reads and writes of registers and PSB: what a driver does."""
        return [l for l in self.lines if l.startswith(("read ", "write ", "psb"))]

    def interrupts(self):
        """How often the unit raised PMBIRQ."""
        return self.lines.count("expect irq 1")

    def replay(self, name):
        """Plays the log as a script: everything must come out the same, byte by byte."""
        path = os.path.join(WORK, name + ".spu")
        with open(path, "w") as f:
            f.write("\n".join(self.lines) + "\n")
        code, out, err = spex("spu", "run", path)
        checks = int(out.split()[-3]) if code == 0 and out.split()[-1:] == [b"hold"] else 0
        check(f"{name}: the log replays on a fresh unit to the same bytes",
              code == 0 and checks > 0, err[-1500:])
        return checks


def records(raw):
    """Records of a raw stream as dictionaries: packet name (with index) -> payload."""
    path = os.path.join(WORK, f"raw-{os.getpid()}")
    with open(path, "wb") as f:
        f.write(raw)
    code, out, err = spex("dump", "--raw", "--format", "json", path)
    os.unlink(path)
    found, current = [], {}
    for line in out.decode().splitlines():
        p = json.loads(line)
        if p["packet"] == "padding":
            continue
        key = p["packet"] + (str(p["index"]) if "index" in p else "")
        current[key] = int(p.get("payload", "0x0"), 16)
        if p["packet"] in ("end", "timestamp"):
            found.append(current)
            current = {}
    return found
