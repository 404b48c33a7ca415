"""Compares the classifier with a disassembler's text over many words."""
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import a64_oracle as oracle

# LLVM before 15 has no +all.
LLVM14 = ("+v9.3a,+sve2p1,+sme,+sme-f64,+sme-i64,+mte,+ls64,+mops,+lse,+rcpc-immo,+fullfp16,"
          "+fp16fml,+bf16,+i8mm,"
          "+f32mm,+f64mm,+sve2,+sve2-aes,+sve2-sha3,+sve2-sm4,+sve2-bitperm,+sha3,+sm4,"
          "+sha2,+aes,+crc,+pauth,"
          "+flagm,+altnzcv,+brbe,+tme,+predres,+sb,+ssbs,+dotprod,+complxnum,+jsconv,+rdm,"
          "+ccdp,+xs,+wfxt,+hbc,"
          "+rand,+pa-rme,+amvs,+el2vmsa,+el3,+spe,+vh,+fptoint,+tracev8.4,+lor,+pan-rwv,"
          "+ras,+lse2,+rme,+bti")


def llvm():
    """The newest llvm-objdump there is: (program, version) or None."""
    for version in (22, 19, 16, 15, 14):
        for path in (f"/usr/bin/llvm-objdump-{version}",):
            if os.path.exists(path):
                return path, version
    return None


def disassemble(words, tool):
    """Text of each word, None where the tool does not know it."""
    with tempfile.TemporaryDirectory() as work:
        raw, elf = os.path.join(work, "w.bin"), os.path.join(work, "w.o")
        with open(raw, "wb") as f:
            f.write(struct.pack(f"<{len(words)}I", *words))
        if tool == "gnu":
            command = ["aarch64-linux-gnu-objdump", "-D", "-b", "binary", "-m", "aarch64", "-z",
                       "-M", "no-aliases", raw]
        else:
            subprocess.run(["aarch64-linux-gnu-objcopy", "-I", "binary", "-O",
                            "elf64-littleaarch64", "-B", "aarch64", "--rename-section",
                            ".data=.text,alloc,load,readonly,code,contents", raw, elf], check=True)
            path, version = llvm()
            command = [path, "-d", "-z", "--no-show-raw-insn", "-M", "no-aliases",
                       "--mattr=" + ("+all" if version > 14 else LLVM14), elf]
        out = [None] * len(words)
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**os.environ, "LC_ALL": "C"})
        for line in p.stdout:
            m = re.match(r"\s*([0-9a-f]+):\s+(?:[0-9a-f]{8}\s+)?(\S.*)", line)
            if not m:
                continue
            text = m.group(2).split("//")[0].strip()
            if not text.startswith(("<unknown>", ".inst", ".word")):
                out[int(m.group(1), 16) // 4] = re.sub(r"<[^>]*>", "", text).strip()
        p.wait()
        if p.returncode:
            raise RuntimeError(f"{command[0]} failed")
        return out


def classify(words, dump):
    p = subprocess.run([dump], input=struct.pack(f"<{len(words)}I", *words), stdout=subprocess.PIPE,
                       check=True)
    return p.stdout.decode().splitlines()


def compare(word, text, line, at=0):
    """List of differences: (topic, detail). at: address in the listing."""
    mnemonic, _, operands = text.partition(" ") if " " in text else (text.split("\t")[0], "", "")
    if "\t" in text:
        mnemonic, _, operands = text.partition("\t")
    mnemonic = mnemonic.strip()
    if line == "reserved":
        return [("missing", f"{mnemonic}: not in the table")]
    name, kind, exec_class, flags, dst, src, size, total, vectors, length, target = line.split()
    flags = int(flags, 16)
    w = oracle.judge(mnemonic, operands.strip())
    out = []
    if w.kind is not None and w.kind != kind:
        out.append(("kind", f"{mnemonic}: {name} is {kind}, text says {w.kind}"))
    if w.flags is not None and w.flags != flags:
        out.append(("flags", f"{mnemonic}: {name} has {oracle.flag_names(flags)}, "
                             f"text says {oracle.flag_names(w.flags)}"))
    have = {"dst": [] if dst == "-" else dst.split(","),
            "src": [] if src == "-" else src.split(",")}
    for side, room in (("dst", 4), ("src", 5)):
        want = getattr(w, side)
        if want is None:
            continue
        want, got = set(want), set(have[side])
        if got - want or (len(want) <= room and len(have[side]) < room and want - got):
            out.append((side, f"{mnemonic}: {name} has {sorted(got)}, text says {sorted(want)}"))
    if w.size is not None and w.size != int(size):
        out.append(("size", f"{mnemonic}: {name} has {size}, text says {w.size}"))
    m = re.search(r"(?:0x)?([0-9a-f]+)$", operands.strip())
    if kind == "branch" and not flags & oracle.INDIRECT:
        said = int(m.group(1), 16)
        ours = None if target == "-" else (int(target, 16) + at) % (1 << 64)
        if ours != said:
            out.append(("target", f"{mnemonic}: {name} goes to {ours}, text says {said}"))
    elif target != "-":
        out.append(("target", f"{mnemonic}: {name} has a target and is no direct branch"))
    return out


def known_differences(path):
    """Rows: tool, topic, mnemonic (regular expression), reason."""
    rows = []
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            tool, topic, mnemonic, reason = line.rstrip("\n").split("\t")
            rows.append((tool, topic, re.compile(mnemonic + "$"), reason))
    return rows


class Tally:
    def __init__(self, known):
        self.known, self.used = known, set()
        self.judged = self.unknown = self.loose = 0
        self.unexplained, self.explained = [], 0
        self.loose_rows = {}

    def add(self, tool, words, dump):
        texts, lines = disassemble(words, tool), classify(words, dump)
        for i, (word, text, line) in enumerate(zip(words, texts, lines)):
            if text is None:
                self.unknown += 1
                if line != "reserved":
                    self.loose += 1
                    row = line.split()[0]
                    self.loose_rows[row] = self.loose_rows.get(row, 0) + 1
                continue
            self.judged += 1
            for topic, detail in compare(word, text, line, i * 4):
                mnemonic = text.split()[0]
                for row in self.known:
                    if row[0] in (tool,
                                  "any") and row[1] in (topic, "any") and row[2].match(mnemonic):
                        self.used.add(row)
                        self.explained += 1
                        break
                else:
                    self.unexplained.append(f"{word:#010x} {text.strip()!r}: {topic}: {detail}")
